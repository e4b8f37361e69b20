"""
Compare dynamics in unknown coordinates
=======================================

Several populations of neurons were recorded, each with other electrodes. Do all of them compute in
the same way? The recordings cannot be compared channel by channel: nobody knows which channel of
one corresponds to which channel of another. Dynamical similarity analysis (DSA) compares how the
recorded states *move*, whatever the coordinates are.

**At the end** you have a matrix of distances between 18 recordings, a certified lower bound
of each, tests that say which groups differ, and a map.

**You need** sysbags with the extra ``plot`` (:doc:`/installation`).
"""

# %%
# The recordings
# --------------
# The data is generated, so the answer is known. Each recording shows a ring attractor: a network that
# keeps an angle, for instance the direction of the head, as a bump of activity on a ring. In all
# networks the bump turns. Six animals are controls. Six are treated, and their bumps turn more
# slowly. Six were treated and have recovered.
#
# Everything that does not matter differs from animal to animal: the number of neurons, the length of
# the recording, and the sensors, each of which sees a random mixture of all neurons.

import matplotlib.pyplot as plt
import numpy as np

from sysbags.datasets import make_ring_attractor
from sysbags.dsa import DSA
from sysbags.statistics import difference_interval, pairwise_group_tests

SPEEDS = {"control": 0.8, "treated": 0.5, "recovered": 0.8}
rng = np.random.default_rng(0)


def record(speed):
    """Simulate one animal; return its recording, one row per time step and one column per sensor."""
    steps = int(rng.integers(500, 801))
    velocity = speed * (
        1.0 + 0.1 * rng.standard_normal()
    ) + 0.1 * rng.standard_normal(steps)
    neurons = make_ring_attractor(
        units=int(rng.integers(30, 61)),
        steps=steps,
        velocity=velocity,
        random_state=rng,
    )
    sensors = neurons @ rng.standard_normal((neurons.shape[1], 12))
    return (sensors - sensors.mean(axis=0)) / sensors.std(axis=0)


groups = np.repeat(list(SPEEDS), 6)
recordings = [record(SPEEDS[group]) for group in groups]
print(len(recordings), "recordings, the first with shape", recordings[0].shape)

# %%
# A shape is (time steps, sensors). The mean of each sensor was subtracted, because DSA does not do
# that itself: a constant would count as a part of the dynamics.
#
# Coordinates do not matter
# -------------------------
# First a check that you can repeat with your own data. The first recording is rotated, then seen
# through twelve other sensors: no column of the new arrays is a column of the old one. Both are
# compared with the recording itself, and so is a treated animal.

other_sensors = recordings[0] @ rng.standard_normal((12, 12))
rotated = recordings[0] @ np.linalg.qr(rng.standard_normal((12, 12)))[0]
for name, other in (
    ("rotated", rotated),
    ("other sensors", other_sensors),
    ("a treated animal", recordings[6]),
):
    score = DSA(recordings[0], other, rank=2, score_method="angular").fit_score()
    print(f"{name}: {score:.4f}")

# %%
# A score is a distance: an angle in radians between the two linear systems that describe the
# recordings. 0 means the same dynamics. A rotation of the twelve channels changes nothing. Twelve
# other sensors leave a small angle, because they see some directions better than others. The treated
# animal is several times as far away.
#
# All pairs
# ---------
# ``rank`` is the dimension of the linear systems: a position on a ring needs two. If you do not know
# it for your data, ``rank="auto"`` is a first guess.

dsa = DSA(recordings, rank=2, score_method="angular")
scores = dsa.fit_score()
pairs = np.triu_indices(len(groups), 1)
gap = (scores - dsa.certificates_)[pairs].max()
print(f"{len(pairs[0])} pairs, median angle {np.median(scores[pairs]):.4f}")
print(f"no angle is above the smallest possible one by more than {gap:.1e}")

# %%
# Each score is a minimum over all rotations of the state space, and no search is sure to find a
# minimum. So each score comes with a **certificate**, a number that no rotation can go below. The
# last line says how far the scores are from these bounds at most: up to round-off, they are the
# minima. For larger ranks the bounds are below the scores; ``certificate="tight"`` brings them
# nearer.
#
# For each recording, which other one is nearest?

nearest = np.where(np.eye(len(groups), dtype=bool), np.inf, scores).argmin(axis=1)
is_treated = groups == "treated"
print(
    "treated, nearest is treated:",
    (is_treated[nearest] & is_treated).sum(),
    "of",
    is_treated.sum(),
)
print(
    "others, nearest is not treated:",
    (~is_treated[nearest] & ~is_treated).sum(),
    "of",
    (~is_treated).sum(),
)

# %%
# Which groups differ?
# --------------------
# A permutation test exchanges the labels of the animals in all possible ways, and counts how often
# the groups are then at least as far apart as they really are. It takes **squared** distances, as
# all functions of ``sysbags.statistics`` do.

squared = scores**2
tests = pairwise_group_tests(squared, groups)
for test, adjusted in zip(tests.tests, tests.adjusted, strict=True):
    print(
        f"{' and '.join(test.groups)}: p = {test.p_value:.4f}, adjusted {adjusted:.4f}"
    )

# %%
# There are three tests, so each p-value is adjusted for their number (Holm). The treated animals
# differ from both other groups. Between the controls and the recovered ones no difference was found.
# With six animals in each group no p-value can be below 2 / 924 = 0.0022, because there are
# 924 ways to choose six of twelve, and both halves of such a choice count.
#
# How large is the difference? An interval, by drawing animals with replacement:

two = np.isin(groups, ["control", "treated"])
difference = difference_interval(squared[np.ix_(two, two)], groups[two])
print(
    f"{difference.difference:.2e}, 95 % interval {difference.low:.2e} to {difference.high:.2e}"
)

# %%
# This is the squared distance between the two groups, without the spread within them. The interval
# does not contain 0.
#
# A picture
# ---------
# Left: one sensor of a control and of a treated animal; nothing in the values of single sensors can
# be compared. Middle: the matrix of scores. Right: a map, by classical scaling, in which distances
# between points are near to the scores.

centred = squared - squared.mean(axis=0)
values, vectors = np.linalg.eigh(
    -0.5 * (centred - centred.mean(axis=1, keepdims=True))
)
points = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])

colours = {"control": "#0072B2", "treated": "#D55E00", "recovered": "#009E73"}
figure, (traces, matrix, plane) = plt.subplots(
    1, 3, figsize=(11, 3.6), layout="constrained"
)
for row, k in enumerate((0, 6)):
    traces.plot(
        recordings[k][:300, 0] - 5.0 * row,
        color=colours[groups[k]],
        label=groups[k],
    )
traces.set(title="One sensor of two animals", xlabel="time step", yticks=[])
traces.legend(loc="lower right", fontsize="small")
shown = matrix.imshow(scores, cmap="cividis")
figure.colorbar(
    shown, ax=matrix, label="angle (0: the same dynamics)", shrink=0.85
)
matrix.set_xticks([2.5, 8.5, 14.5], list(SPEEDS))
matrix.set_yticks([2.5, 8.5, 14.5], list(SPEEDS), rotation=90, va="center")
matrix.set_title("All pairs")
for group, colour in colours.items():
    plane.scatter(
        *points[groups == group].T,
        facecolors="none",
        edgecolors=colour,
        label=group,
    )
plane.set(title="Map", xticks=[], yticks=[])
plane.set_aspect("equal", adjustable="datalim")
plane.legend(loc="best", fontsize="small")
plt.show()

# %%
# What next
# ---------
# * :doc:`/coming-from-dsa` lists all arguments, beside those of dsa-metric, and has inputs and
#   kernels.
# * :doc:`/certificates` explains where the lower bounds come from.
# * :doc:`/gallery/attractors` compares DSA with Procrustes analysis.
# * Your rows are histograms, spectra or shares? Then :doc:`streams_of_distributions` is for you.
