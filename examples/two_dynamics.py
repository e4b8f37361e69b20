"""
Two classes with the same averages
==================================

Streams of two classes visit the same histograms, slowly or fast. Averages over time hardly differ. The
alignment distance separates the classes.

``python examples/two_dynamics.py two_dynamics.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

import sysbags
from sysbags.datasets import make_streams

BLUE, ORANGE = "#0072B2", "#D55E00"

# %%
# Two questions to a matrix of squared distances
# ----------------------------------------------
# How do the items lie, as well as a plane can show it? And for how many of them is the nearest neighbour of
# the same class?


def plane_map(squared: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Place points in the plane so that their distances come out as well as can be (classical scaling)."""
    centred = squared - squared.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    return np.asarray(vectors[:, -2:] * np.sqrt(values[-2:]))


def right(squared: npt.NDArray[np.float64], labels: npt.NDArray[np.generic]) -> int:
    """Count the items whose nearest neighbour has their own label."""
    others = squared + np.diag(np.full(len(labels), np.inf))
    return int((labels[others.argmin(axis=1)] == labels).sum())


# %%
# Averages against systems
# ------------------------
# An average forgets the order of the frames. A system does not: its transition says which histogram follows
# which. The classes here differ in nothing else, so the transitions get more weight than the default of 0.25.


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "two_dynamics.png"
    streams, labels = make_streams(classes=2, per_class=20, random_state=1)

    averages = np.array([stream.mean(axis=0) for stream in streams])
    by_average = 2.0 - 2.0 * sysbags.kernels.kernel_matrix(averages)
    systems = [sysbags.identify(stream, order=5) for stream in streams]
    by_alignment = sysbags.pairwise_distances(systems, lambda_a=1.0)

    figure = Figure(figsize=(10, 3.6), dpi=130, layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=[1, 1.1, 1.1])
    for label, name in enumerate(("slow", "fast")):
        axes = figure.add_subplot(grid[label, 0])
        # Roots, so that rare bins are seen beside the common ones.
        axes.imshow(np.sqrt(streams[20 * label].T), aspect="auto", cmap="Greys", interpolation="nearest")
        axes.set_title(f"A {name} stream", loc="left", color=(BLUE, ORANGE)[label])
        axes.set_ylabel("bin")
        axes.set_yticks([])
        axes.tick_params(labelbottom=label == 1)
    axes.set_xlabel("frame")
    for column, (title, squared) in enumerate(
        (("Averages over time", by_average), ("Alignment distance", by_alignment)), start=1
    ):
        axes = figure.add_subplot(grid[:, column])
        points = plane_map(squared)
        for label, (name, marker, colour) in enumerate((("slow", "s", BLUE), ("fast", "o", ORANGE))):
            x, y = points[labels == label].T
            axes.scatter(x, y, s=30, marker=marker, facecolors="none", edgecolors=colour, label=name)
        axes.set_title(f"{title}: {right(squared, labels)} of {len(labels)} right", loc="left")
        axes.set_xticks([])
        axes.set_yticks([])
        print(f"{title}: nearest neighbour right for {right(squared, labels)} of {len(labels)}")
    axes.legend(frameon=False, loc="best")
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
