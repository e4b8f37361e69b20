"""
Ring attractors and line attractors
===================================

The same kind of network has the same dynamics, whatever its units and its sensors.

A ring attractor keeps an angle, for instance the direction of the head. A line attractor keeps a number, for
instance the position of the eyes. Here are several networks of each kind, with different numbers of units.
Each is moved by a velocity of its own and recorded by sensors of its own. Which of them are of one kind?

Two answers are compared. Dynamical similarity analysis (DSA) compares how the recorded states move.
Procrustes analysis compares the states themselves, row by row, after the best rotation.

``python examples/attractors.py attractors.png`` writes the picture to a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from two_dynamics import plane_map, right  # examples/two_dynamics.py

from sysbags.datasets import make_line_attractor, make_ring_attractor
from sysbags.dsa import DSA
from sysbags.statistics import compare_distances, group_test

Array = npt.NDArray[np.float64]

KINDS = ("ring", "line")
COLOURS, MARKERS = ("#0072B2", "#D55E00", "#009E73"), ("o", "s", "^")
SENSORS, RANK = 20, 3
SEED = 2000  # seeds up to 1000 were used to choose the settings

# %%
# The recordings
# --------------
# A sensor sees a random mixture of the units, so the same states look different in each recording. Sensors
# have very different gains; each is divided by its standard deviation. DSA itself subtracts no mean, and a
# constant would count as a part of the dynamics, so the means are removed. With ``matched``, all networks get
# the same velocity: then row t of one recording has the same meaning as row t of another, up to where the
# network has started.


def make_recordings(
    per_kind: int, steps: int = 1200, matched: bool = False, seed: int = SEED
) -> tuple[list[Array], npt.NDArray[np.str_]]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(KINDS, per_kind)
    common = make_velocity(steps, rng)
    recordings = []
    for kind in labels:
        make = make_ring_attractor if kind == "ring" else make_line_attractor
        velocity = common if matched else make_velocity(steps, rng)
        states = make(units=int(rng.integers(30, 61)), steps=steps, velocity=velocity, random_state=rng)
        gains = np.exp(rng.standard_normal(SENSORS))
        seen = states @ (rng.standard_normal((states.shape[1], SENSORS)) * gains)
        recordings.append((seen - seen.mean(axis=0)) / seen.std(axis=0))
    return recordings, labels


def make_velocity(steps: int, rng: np.random.Generator) -> Array:
    """Return smooth noise."""
    return np.convolve(rng.standard_normal(steps + 19), np.full(20, 0.1), "valid")


# %%
# Two comparisons
# ---------------
# The rank is 3: a ring needs two dimensions, and one more shows what is forgotten. The angular score has a
# certificate: no rotation gives a smaller one.


def dsa_distances(recordings: Sequence[Array], rank: int | str = RANK) -> tuple[Array, Array]:
    """Return squared scores and their lower bounds."""
    dsa = DSA(recordings, rank=rank, score_method="angular")
    dsa.fit_score()
    return np.asarray(dsa.squared_scores_), np.square(dsa.certificates_)


def procrustes_distances(recordings: Sequence[Array]) -> Array:
    """Return ``min ||X - Y Q||^2`` over rotations, for recordings that are centred and have norm 1."""
    centred = [rows - rows.mean(axis=0) for rows in recordings]
    shapes = [rows / np.linalg.norm(rows) for rows in centred]
    squared = np.zeros((len(shapes), len(shapes)))
    for i, first in enumerate(shapes):
        for j, second in enumerate(shapes[:i]):
            squared[i, j] = squared[j, i] = 2.0 - 2.0 * np.linalg.norm(first.T @ second, "nuc")
    return squared


# %%
# The picture
# -----------


def draw(
    angles: Array,
    maps: dict[str, Array],
    labels: npt.NDArray[np.str_],
    path: str,
    caption: str = "",
    norm: Normalize | None = None,
) -> None:
    """Draw a matrix of angles, and a map of each matrix of squared distances, by title."""
    groups = list(dict.fromkeys(labels))
    figure = Figure(figsize=(11, 3.9), dpi=110, layout="constrained")
    matrix, *panels = figure.subplots(1, 1 + len(maps), width_ratios=(1.15, *[1] * len(maps)))
    shown = matrix.imshow(angles, cmap="cividis", norm=norm)
    figure.colorbar(shown, ax=matrix, label="angle (0: the same dynamics)", shrink=0.85)
    places = [float(np.flatnonzero(labels == group).mean()) for group in groups]
    matrix.set_xticks(places, groups)
    matrix.set_yticks(places, groups, rotation=90, va="center")
    matrix.tick_params(length=0)
    matrix.set_title("DSA of all pairs", loc="left")
    matrix.set_xlabel(caption)
    for axes, (title, squared) in zip(panels, maps.items(), strict=True):
        points = plane_map(squared)
        for group, colour, marker in zip(groups, COLOURS, MARKERS, strict=False):
            x, y = points[labels == group].T
            axes.scatter(x, y, s=40, marker=marker, facecolors="none", edgecolors=colour, label=group)
        axes.set_title(title, loc="left")
        axes.set_xlabel(f"nearest of the same group: {right(squared, labels)} of {len(labels)}")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.margins(0.12)
        axes.set_aspect("equal", adjustable="datalim")
    panels[-1].legend(frameon=False, loc="best")
    figure.savefig(path)


# %%
# The answers
# -----------
# The test counts in how many arrangements of the labels the groups are as far apart as observed. Its p-value
# cannot be below its resolution.


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="DSA of ring attractors and line attractors.")
    parser.add_argument("picture", nargs="?", default="attractors.png")
    parser.add_argument("--per-kind", type=int, default=8, help="networks of each kind")
    options = parser.parse_args(argv)

    for matched in (True, False):
        recordings, labels = make_recordings(options.per_kind, matched=matched)
        dsa, certified = dsa_distances(recordings)
        procrustes = procrustes_distances(recordings)
        print("one velocity for all networks:" if matched else "each network with a velocity of its own:")
        for name, squared in (("DSA", dsa), ("Procrustes", procrustes)):
            print(
                f"  {name}: nearest neighbour of the same kind for {right(squared, labels)} of {len(labels)}"
            )
    test = group_test(dsa, labels, n_permutations=20_000)
    print(f"  {test.summary()}")
    print(f"  resolution of the p-value: {test.resolution:.2g}")
    print(f"  with Procrustes: {group_test(procrustes, labels, n_permutations=20_000).p_text}")
    print(f"  DSA and Procrustes: {compare_distances(dsa, procrustes, labels).summary()}")
    pairs = np.triu_indices(len(labels), 1)
    gaps = np.sqrt(dsa[pairs]) - np.sqrt(certified[pairs])
    print(f"  median angle {np.median(np.sqrt(dsa[pairs])):.3f}, at most {gaps.max():.3f} above the minimum")
    maps = {"Map by DSA": dsa, "Map by Procrustes": procrustes}
    draw(np.sqrt(dsa), maps, labels, options.picture, test.p_text)


if __name__ == "__main__":
    main()
