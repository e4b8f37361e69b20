"""
From a clip to the states of its system
=======================================

A clip of a turning wheel becomes a stream of histograms, and the stream becomes a system. The states
of the system go round like the wheel does, and one eigenvalue of its transition tells how fast.

``python examples/states_of_a_clip.py states_of_a_clip.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

import sysbags
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import make_frames

BLUE, ORANGE = "#0072B2", "#D55E00"
SHOWN, BINS = 60, 12  # frames and bins in the picture

# %%
# One frame becomes one histogram: how often each local pattern of bright and dark pixels occurs. What the
# wheel looks like, and where it stands, is lost. What is left changes as the wheel turns.


def make_stream() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float64]]:
    frames = np.asarray(list(make_frames("wheel", frames=100, random_state=6)))
    return frames, LocalBinaryPatterns(method="nri_uniform").stream(frames)


# %%
# ``identify`` finds a few numbers for each frame, its state, and a matrix A that predicts the next state
# from the present one. An eigenvalue of A with the angle w turns the states by w per frame: it goes round
# once in 2 pi / w frames.


def period(transition: npt.NDArray[np.float64]) -> float:
    """Return the period, in frames, of the eigenvalue that loses least among those that turn."""
    eigenvalues = np.linalg.eigvals(transition)
    turning = eigenvalues[eigenvalues.imag > 0.0]
    return float(2.0 * np.pi / np.angle(turning[np.abs(turning).argmax()]))


def draw_eigenvalues(axes: Axes, transition: npt.NDArray[np.float64]) -> None:
    eigenvalues = np.linalg.eigvals(transition)
    axes.add_patch(Circle((0.0, 0.0), 1.0, fill=False, edgecolor="0.7"))
    axes.plot([-1.0, 1.0], [0.0, 0.0], color="0.9", zorder=0)
    axes.scatter(eigenvalues.real, eigenvalues.imag, s=30, facecolors="none", edgecolors=ORANGE)
    axes.set_aspect("equal")
    axes.set_axis_off()


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "states_of_a_clip.png"
    frames, stream = make_stream()
    system = sysbags.identify(stream, order=5)
    assert system.states is not None
    states = system.states
    turns = period(system.transition)
    print(f"{system}: the slowest turn takes {turns:.1f} frames")

    figure = Figure(figsize=(10, 3.8), dpi=130, layout="constrained")
    grid = figure.add_gridspec(2, 4, width_ratios=[1, 1, 1.5, 1])
    for place, time in enumerate((0, 4, 8, 12)):
        axes = figure.add_subplot(grid[place // 2, place % 2])
        axes.imshow(frames[time])
        axes.set_title(f"Frame {time}", loc="left")
        axes.set_axis_off()

    axes = figure.add_subplot(grid[0, 2])
    # The bins that go with the first two states, in standard deviations: some are much fuller than others.
    related = np.abs(np.corrcoef(stream.T, states[:, :2].T)[-2:, :-2]).max(axis=0)
    bins = stream[:, related.argsort()[::-1][:BINS]]
    change = ((bins - bins.mean(axis=0)) / bins.std(axis=0))[:SHOWN].T
    axes.imshow(change, aspect="auto", cmap="PuOr", vmin=-3.0, vmax=3.0, interpolation="nearest")
    axes.set_title(f"{BINS} of the {stream.shape[1]} bins of the stream", loc="left")
    axes.set_ylabel("bin")
    axes.set_yticks([])
    axes.tick_params(labelbottom=False)

    axes = figure.add_subplot(grid[1, 2])
    predicted = states[:-1] @ system.transition.T
    axes.plot(states[:SHOWN, 0], color=BLUE)
    axes.plot(np.arange(1, SHOWN), predicted[: SHOWN - 1, 0], color=ORANGE, linestyle=":")
    axes.set_title("First state, predicted (dotted)", loc="left")
    axes.set_xlabel("frame")
    axes.set_yticks([])
    axes.margins(x=0.0)

    axes = figure.add_subplot(grid[0, 3])
    x, y = states[:SHOWN, :2].T
    axes.plot(x, y, color="0.8", linewidth=0.8)
    axes.scatter(x, y, s=12, c=np.arange(SHOWN), cmap="viridis")
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title("First two states", loc="left")

    axes = figure.add_subplot(grid[1, 3])
    draw_eigenvalues(axes, system.transition)
    axes.set_title("Eigenvalues of A", loc="left")
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
