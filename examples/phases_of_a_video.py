"""
The phases of a video
=====================

A video shows a wheel, rain, the wheel again, and fire. Without any training, ``timeline`` finds where the
dynamics change, and that the wheel returns.

``python examples/phases_of_a_video.py phases_of_a_video.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import make_frames
from sysbags.watch.timeline import timeline

RATE = 25.0
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


# %%
# The video is cut into windows of two seconds, one every 0.4 seconds. Each window becomes a system. The
# distance from a window to the one before is large at the changes (left), and the matrix of all distances
# shows what returns: the wheel's two phases are near each other, off the diagonal (right).


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "phases_of_a_video.png"
    wheel = make_frames("wheel", 500, 72, 96)
    shots = [wheel[:250], make_frames("rain", 250, 72, 96), wheel[250:], make_frames("fire", 250, 72, 96)]
    stream = LocalBinaryPatterns().stream(np.concatenate(shots))
    found = timeline(stream, length=50, step=10, rate=RATE)
    for phase in found.phases:
        print(f"{phase.start / RATE:5.1f} s to {phase.stop / RATE:5.1f} s: label {phase.label}")

    end = len(stream) / RATE
    times = [(window.start + window.stop) / (2.0 * RATE) for window in found.windows]
    figure = Figure(figsize=(9, 4), dpi=110, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(5, 4))
    left.plot(times, found.scores.sum(axis=1), color="black")
    for phase in found.phases:
        left.axvspan(
            phase.start / RATE, phase.stop / RATE, color=COLOURS[phase.label], alpha=0.25, linewidth=0
        )
        left.text((phase.start + phase.stop) / (2.0 * RATE), 0.0, f"{phase.label}", ha="center", va="bottom")
    left.set(xlim=(0.0, end), xlabel="seconds")
    left.set_title("Squared distance to the window before, and labels", loc="left", fontsize="medium")
    right.imshow(np.sqrt(found.distances), extent=(0.0, end, end, 0.0))
    right.set(xlabel="seconds", ylabel="seconds")
    right.set_title("Distances of all windows", loc="left", fontsize="medium")
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
