"""
The mean of systems
===================

The Frechet mean of several systems is the system with the smallest mean squared distance to all of them. Here
is how the search for it descends, and what it costs to keep the mean on fewer samples.

``python examples/mean_of_systems.py mean_of_systems.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from matplotlib.figure import Figure

import sysbags
from sysbags.datasets import make_streams

BLUE, ORANGE = "#0072B2", "#D55E00"
SIZES = (5, 7, 10, 15, 20, 30, 50, 80, 120, 200)


# %%
# The mean is found in turns: align every member to the present mean, average the aligned members, repeat.
# Each turn lowers the objective or leaves it. Aligning all members to the medoid first, which is the best
# of the members themselves, is the better start.
#
# The exact mean is a combination of the samples of all members, here 480 histograms. ``compress`` keeps fewer
# of them, chosen by pivoted Cholesky or averaged by k-means, and states the error.


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "mean_of_systems.png"
    streams, _ = make_streams(classes=1, per_class=8, frames=60)
    systems = [sysbags.identify(stream, order=5) for stream in streams]

    runs = {start: sysbags.frechet_mean(systems, start=start) for start in ("identity", "medoid")}
    mean = runs["medoid"]
    print(f"mean objective {mean.objective:.4f} after {len(mean.history)} iterations, {mean.system}")
    middle = sysbags.medoid(systems)
    to_middle = sysbags.pairwise_distances(systems, [systems[middle]]).mean()
    print(f"the medoid, the best of the members themselves, has {to_middle:.4f}")

    figure = Figure(figsize=(10, 3.6), dpi=130, layout="constrained")
    descent, cost = figure.subplots(1, 2)
    for (start, run), colour, style in zip(runs.items(), (ORANGE, BLUE), ("--", "-"), strict=True):
        descent.plot(run.history, color=colour, linestyle=style, label=f"from the {start}")
    descent.set_title("Mean squared distance to the members", loc="left")
    descent.set_xlabel("iteration")
    descent.legend(frameon=False)

    for method, colour, marker in (("kmeans", ORANGE, "o"), ("pivoted", BLUE, "s")):
        kept = [mean.system.compress(size, method=method) for size in SIZES]
        errors = [system.compression_error["relative"] for system in kept if system.compression_error]
        cost.loglog(SIZES, errors, color=colour, marker=marker, label=method)
        print(f"{method}: relative error {errors[SIZES.index(50)]:.3f} with 50 of {mean.system.size} samples")
    cost.set_xticks([5, 10, 20, 50, 100, 200], ["5", "10", "20", "50", "100", "200"], minor=False)
    cost.set_xticks([], minor=True)
    cost.set_title("Relative error of the compressed mean", loc="left")
    cost.set_xlabel(f"samples kept, of {mean.system.size}")
    cost.legend(frameon=False)
    for axes in (descent, cost):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
