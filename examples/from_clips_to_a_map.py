"""
From clips to a map
===================

Each clip becomes a stream of histograms, each stream a system, and all systems together a map.

The clips are generated: moving textures with a fixed camera. Nothing is trained. Clips of one texture are
near each other because their systems are.

``python examples/from_clips_to_a_map.py from_clips_to_a_map.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from two_dynamics import plane_map, right  # examples/two_dynamics.py

import sysbags
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import make_frames

TEXTURES = {"fire": "#D55E00", "waves": "#0072B2", "smoke": "#7F7F7F", "traffic": "#009E73"}
PER_TEXTURE, FRAMES, SHOWN = 8, 60, (0, 6, 12)

# %%
# A frame becomes a histogram of local binary patterns: how often each small pattern of light and dark
# occurs. The histograms of all frames are the stream, and `identify` finds the system that generates it. The
# alignment distance compares two systems in the coordinates that make them most alike.


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "from_clips_to_a_map.png"
    labels = np.repeat(list(TEXTURES), PER_TEXTURE)
    clips = [
        make_frames(texture, FRAMES, 72, 96, random_state=seed)
        for seed, texture in enumerate(labels.tolist())
    ]
    streams = LocalBinaryPatterns().transform(clips)
    systems = [sysbags.identify(stream, order=5, normal_form="unit-variance") for stream in streams]
    squared = sysbags.pairwise_distances(systems, lambda_a="scale", lambda_mu="scale")
    print(f"the nearest clip shows the same texture for {right(squared, labels)} of {len(labels)} clips")

    figure = Figure(figsize=(11, 4.4), dpi=130, layout="constrained")
    left, plane = figure.subfigures(1, 2, squeeze=False, width_ratios=(6, 5))[0]
    grid = left.subplots(len(TEXTURES), len(SHOWN) + 1, width_ratios=(1, 1, 1, 1.7))
    for row, (texture, colour) in enumerate(TEXTURES.items()):
        clip, stream = clips[row * PER_TEXTURE], streams[row * PER_TEXTURE]
        for place, frame in zip(grid[row], SHOWN, strict=False):
            place.imshow(clip[frame])
        common = stream[:, np.argsort(stream.mean(axis=0))[-24:]]
        grid[row, -1].imshow(common.T / common.max(axis=0)[:, None], aspect="auto", cmap="Greys")
        grid[row, 0].set_ylabel(texture, color=colour)
        for place in grid[row]:
            place.set(xticks=[], yticks=[])
    grid[0, 0].set_title("Frames", loc="left")
    grid[0, -1].set_title("Stream of bags", loc="left")
    grid[-1, -1].set_xlabel("time")
    axes, points = plane.subplots(), plane_map(squared)
    for (texture, colour), marker in zip(TEXTURES.items(), "os^D", strict=True):
        axes.scatter(
            *points[labels == texture].T, facecolor="none", edgecolor=colour, marker=marker, label=texture
        )
    axes.set_title(f"Map of {len(labels)} clips by the alignment distance", loc="left")
    axes.legend(frameon=False)
    axes.set(xticks=[], yticks=[])
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
