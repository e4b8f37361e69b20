"""
Your own streams: spectra, topics, cell counts
==============================================

sysbags does not need videos. It takes any array with one row per time step and one column per bin,
whose entries are not negative and whose rows sum to 1: power spectra of a sound, shares of topics
in the news, shares of cell types in a culture. Such an array is a *stream*, and one row of it is a
*bag*.

**At the end** you have systems of 24 streams, distances between them, the mean system of each
class, a classifier with a cross-validated accuracy, and a forecast with its uncertainty.

**You need** sysbags with the extra ``plot`` (:doc:`/installation`). To try the command, too, set
``folder`` to a folder of your own, and open a terminal there.
"""

# %%
# The data
# --------
# A cell culture is sampled every hour for five days. Each time 1,000 cells are sorted into six types.
# In half of the cultures the composition follows a rhythm of 24 hours, in the other half one of 12
# hours. On average over time both have the same composition. The data is generated; each culture has
# its own phase, its own average and its own disturbances.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

import sysbags
from sysbags.datasets import write_streams

TYPES = ("stem", "progenitor", "T", "B", "monocyte", "other")
PERIODS = {"24 hours": 24.0, "12 hours": 12.0}
HOURS, CELLS = 120, 1000
rng = np.random.default_rng(0)
angles = (
    2.0 * np.pi * np.arange(6) / 6.0
)  # when in the rhythm each type is most frequent


def make_counts(period):
    """Simulate one culture; return the number of cells of each type, one row per hour."""
    average = np.array(
        [0.6, 0.4, 0.0, 0.2, -0.3, -0.5]
    ) + 0.15 * rng.standard_normal(6)
    turn = np.exp(2.0j * np.pi / (period * (1.0 + 0.05 * rng.standard_normal())))
    phase = np.exp(2.0j * np.pi * rng.uniform())
    counts = []
    for _ in range(HOURS):
        shares = np.exp(average + 0.6 * (phase * np.exp(-1j * angles)).real)
        counts.append(rng.multinomial(CELLS, shares / shares.sum()))
        phase = 0.97 * turn * phase + 0.17 * (
            rng.standard_normal() + 1j * rng.standard_normal()
        )
    return np.array(counts)


labels = np.repeat(list(PERIODS), 12)
counts = [make_counts(PERIODS[label]) for label in labels]
print(counts[0][:3])

# %%
# Each row is one hour: so many cells of each of the six types.
#
# From counts to a stream
# -----------------------
# Divide each row by its sum. This is all that is needed. The same line makes streams of spectra or of
# topics.

streams = [count / count.sum(axis=1, keepdims=True) for count in counts]
print(streams[0].shape, np.allclose(streams[0].sum(axis=1), 1.0))

# %%
# The shape is (hours, types), and ``True`` says that each row sums to 1.
#
# From a stream to a system
# -------------------------
# ``identify`` describes a stream by a linear system: a state with ``order`` numbers, and a
# *transition*, which says how the state goes on from hour to hour. A rhythm is a point that goes
# round in a plane, so the order is 2 here. The last twelve hours are kept back for the forecast.

known, future = HOURS - 12, slice(HOURS - 12, HOURS)
systems = [sysbags.identify(stream[:known], order=2) for stream in streams]
print(systems[0], f"explains {systems[0].explained:.0%} of the variance")

# %%
# The rest of the variance is the noise of counting cells, and whatever does not follow the rhythm.
#
# Distances
# ---------
# ``pairwise_distances`` compares systems: what changes (the observer) and how it changes (the
# transition). Distances are squared. ``lambda_a`` is the weight of the transition. It is 0.25 by
# default; here it is 1, because the classes differ in nothing else.

distances = sysbags.pairwise_distances(systems, lambda_a=1.0)
others = np.where(np.eye(len(labels), dtype=bool), np.inf, distances)
print(
    "nearest of the same class:",
    (labels[others.argmin(axis=1)] == labels).sum(),
    "of",
    len(labels),
)

averages = np.array([stream[:known].mean(axis=0) for stream in streams])
by_average = ((averages[:, None] - averages) ** 2).sum(axis=-1)
np.fill_diagonal(by_average, np.inf)
print(
    "by averages over time:",
    (labels[by_average.argmin(axis=1)] == labels).sum(),
    "of",
    len(labels),
)

# %%
# The first line counts the streams whose nearest system is of their own class. The second does the
# same with the average composition of each culture, which is no better than guessing: half of 24 are
# 12.
#
# The mean of a class
# -------------------
# ``frechet_mean`` is the system with the smallest average squared distance to the systems of a class.
# Its transition says how a typical culture moves: the angle of its eigenvalues is the step of the
# rhythm in an hour.

for name in PERIODS:
    mean = sysbags.frechet_mean(
        [systems[k] for k in np.flatnonzero(labels == name)], lambda_a=1.0
    ).system
    angle = np.abs(np.angle(np.linalg.eigvals(mean.transition))).max()
    print(
        f"{name}: the mean system has a period of {2.0 * np.pi / angle:.1f} hours"
    )

# %%
# Both are near the periods that the data was made with, and were found from noisy counts alone.
#
# A classifier
# ------------
# ``NearestMean`` is a scikit-learn classifier of systems: it computes the mean of each class, and
# predicts the class whose mean is nearest. So everything in scikit-learn works with it.

accuracies = cross_val_score(
    sysbags.NearestMean(lambda_a=1.0), systems, labels, cv=4
)
print(f"cross-validated accuracy: {accuracies.mean():.0%}")

# %%
# Four times, a quarter of the cultures is predicted from the others; the number is the average share
# of correct predictions.
#
# From the command line
# ---------------------
# Streams can be written to a file, with their classes. ``sysbags evaluate`` then compares
# classifiers, and chooses weights such as ``lambda_a`` without the streams that are predicted.

folder = Path(tempfile.mkdtemp())  # or a folder of your own
write_streams(folder / "cultures.npz", streams, labels)

# %%
# .. code-block:: console
#
#     $ sysbags evaluate cultures.npz --order 2 --metric alignment
#     24 clips of 2 classes, 0 skipped; one clip left out at a time (24 clips)
#      method          classifier    accuracy  95 % interval      p  seconds
#      stream systems  kernel-ridge    100.0 %  86.2 to 100.0      -     13.6
#      stream systems  nearest-mean    100.0 %  86.2 to 100.0  1.000      5.7
#      stream systems  nearest-system  100.0 %  86.2 to 100.0  1.000      0.3
#     Always predicting the most frequent class: 50.0 %
#     ...
#
# Each line is a classifier, with its accuracy when one stream is left out at a time, and a 95 %
# confidence interval. (Streams are called clips here.)
#
# Forecast
# --------
# A system can be continued. The forecast is a histogram for each of the next hours, and a standard
# deviation for each bin. Is it better than to say "as in the last hour", or "as on average"? The
# error is the share of cells that would have to be of another type.

ahead = [system.forecast(n_steps=12) for system in systems]


def error(predicted, stream):
    """Return the share of cells that are predicted to be of another type."""
    return 0.5 * np.abs(predicted - stream[future]).sum(axis=1).mean()


rows = {
    "forecast": [
        error(f.histograms, s) for f, s in zip(ahead, streams, strict=True)
    ],
    "last hour": [error(s[known - 1], s) for s in streams],
    "average": [error(s[:known].mean(axis=0), s) for s in streams],
}
for name, errors in rows.items():
    print(f"{name}: {100 * np.mean(errors):.1f} % of the cells")
inside = [
    np.abs(f.histograms - s[future]) < 2.0 * f.deviations
    for f, s in zip(ahead, streams, strict=True)
]
print(f"within two standard deviations: {np.mean(inside):.0%}")

# %%
# The first three lines are averages over all cultures and the twelve hours. The last line says how
# often the true share lies within two standard deviations of the forecast; for a normal distribution
# that would be 95 %.
#
# A picture
# ---------
# Top: the shares in one culture of each class, and the forecast beyond the dashed line. Bottom: one
# cell type with two standard deviations of its forecast, and what happened.

figure, axes = plt.subplots(
    2, 2, figsize=(11, 5.4), sharex=True, layout="constrained"
)
hours = np.arange(HOURS)
for column, k in enumerate((0, 12)):
    top, bottom = axes[:, column]
    shown = np.vstack([streams[k][:known], ahead[k].histograms])
    top.stackplot(
        hours,
        shown.T,
        labels=TYPES,
        colors=plt.colormaps["viridis"](np.linspace(0, 1, 6)),
    )
    top.set(
        title=f"A rhythm of {labels[k]}",
        ylim=(0, 1),
        xlim=(36, HOURS - 1),
        ylabel="share of cells",
    )
    bottom.plot(
        hours, streams[k][:, 0], ".", color="0.4", markersize=4, label="counted"
    )
    middle, wide = ahead[k].histograms[:, 0], 2.0 * ahead[k].deviations[:, 0]
    bottom.plot(hours[future], middle, color="#D55E00", label="forecast")
    bottom.fill_between(
        hours[future], middle - wide, middle + wide, color="#D55E00", alpha=0.25
    )
    bottom.set(xlabel="hour", ylabel=f"share of {TYPES[0]} cells", ylim=(0, None))
    for row in (top, bottom):
        row.axvline(known - 0.5, color="black", linestyle="--", linewidth=1)
figure.legend(
    *top.get_legend_handles_labels(),
    loc="outside right upper",
    reverse=True,
    title="cell type",
)
axes[1, 0].legend(loc="upper left", fontsize="small", frameon=False)
plt.show()

# %%
# What next
# ---------
# * :doc:`/forecast` explains the forecast, and how to simulate a system.
# * :doc:`/means` explains what the mean of systems is, and :doc:`/metric-space` what the distance
#   measures.
# * :doc:`classify_clips` has probabilities, model files and the report of an evaluation.
# * Your rows are not histograms, but any measurements? Then :doc:`compare_dynamics` is for you.
