"""
The space of systems
====================

Three pictures of what a distance between systems is. It does not depend on the coordinates of the states; it
puts similar processes next to each other; and its root obeys the triangle inequality, which its square does
not.

``python examples/triangles_of_systems.py triangles_of_systems.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from two_dynamics import plane_map  # examples/two_dynamics.py

import sysbags

BLUE, ORANGE = "#0072B2", "#D55E00"
COLOURS = {0.0: BLUE, 0.3: "#009E73", 0.6: ORANGE}  # of the shares of other patterns
WEIGHT = 0.25  # of the transitions, the paper's
SPEEDS = np.linspace(0.1, 1.5, 9)  # radians per frame

# %%
# A family of processes: patterns come and go, slowly in some processes and fast in others. The patterns
# differ, too: a share of them is replaced by others.


def make_family() -> list[sysbags.System]:
    """Return a system for each share of other patterns and each speed."""
    rng = np.random.default_rng(0)
    these, others = rng.standard_normal((2, 2, 24))
    time = np.arange(120)
    family = []
    for share, speed in product(COLOURS, SPEEDS):
        circle = np.column_stack([np.cos(speed * time), np.sin(speed * time)])
        patterns = (1.0 - share) * these + share * others
        masses = np.exp(circle @ patterns + 0.1 * rng.standard_normal((len(time), 24)))
        stream = masses / masses.sum(axis=1, keepdims=True)
        family.append(sysbags.identify(stream, order=2, normal_form="unit-variance"))
    return family


# %%
# Turning the coordinates of the states changes all numbers of a system, but not the process. Without
# alignment a system is far from its own copy; with alignment the distance is 0.


def unaligned(first: sysbags.System, second: sysbags.System) -> float:
    """Return the root of the squared distance with the coordinates as they are."""
    block = sysbags.cross_gram([first], [second]).observer[0, 0]
    observers = np.trace(first.observer_gram) + np.trace(second.observer_gram) - 2.0 * np.trace(block)
    return float(np.sqrt(max(0.0, observers) + WEIGHT * np.sum((first.transition - second.transition) ** 2)))


# %%
# Distances are squared everywhere in the package. Their roots are a metric: no detour is shorter than the
# direct way. For the squares this is wrong, just as for the squares of distances on a map.


def triangles(distances: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the detour and the direct way, the longest side, of each three systems."""
    sides = np.sort(
        [
            (distances[i, j], distances[j, k], distances[i, k])
            for i, j, k in combinations(range(len(distances)), 3)
        ],
        axis=1,
    )
    return sides[:, 0] + sides[:, 1], sides[:, 2]


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "triangles_of_systems.png"
    family = make_family()
    squared = sysbags.pairwise_distances(family, lambda_a=WEIGHT)

    figure = Figure(figsize=(10, 3.6), dpi=130, layout="constrained")
    turned, plane, sides = figure.subplots(1, 3)
    angles = np.linspace(0.0, 2.0 * np.pi, 49)
    system = family[5]
    copies = [system.rotate([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) for t in angles]
    aligned = [np.sqrt(sysbags.alignment_distance(system, copy, lambda_a=WEIGHT)) for copy in copies]
    turned.plot(
        np.degrees(angles),
        [unaligned(system, copy) for copy in copies],
        color=ORANGE,
        linestyle="--",
        label="as they are",
    )
    turned.plot(np.degrees(angles), aligned, color=BLUE, label="aligned")
    turned.set_title("A system and its turned copy", loc="left")
    turned.set_xlabel("angle between their coordinates, degrees")
    turned.set_xticks([0, 90, 180, 270, 360])
    turned.legend(frameon=False, loc="center")
    print(f"largest distance of a turned copy: {max(aligned):.1e} aligned")

    points = plane_map(squared).reshape(len(COLOURS), len(SPEEDS), 2)
    for (share, colour), line in zip(COLOURS.items(), points, strict=True):
        plane.plot(line[:, 1], line[:, 0], color=colour, linewidth=0.8)
        sizes = 10.0 + 60.0 * SPEEDS
        plane.scatter(line[:, 1], line[:, 0], s=sizes, color=colour, label=f"{100 * share:.0f} %")
    plane.set_title("A family: larger is faster", loc="left")
    plane.set_aspect("equal")
    plane.margins(0.08)
    plane.set_xticks([])
    plane.set_yticks([])
    plane.legend(
        frameon=False, title="other patterns", loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3
    )

    for name, distances, colour, marker in (
        ("squares", squared, ORANGE, "s"),
        ("roots", np.sqrt(squared), BLUE, "o"),
    ):
        detour, direct = triangles(distances)
        sides.scatter(detour, direct, s=8, marker=marker, facecolors="none", edgecolors=colour, label=name)
        print(f"{name}: the detour is shorter in {(detour < direct).sum()} of {len(direct)} triangles")
    sides.axline((0.0, 0.0), slope=1.0, color="0.5", linewidth=0.8)
    sides.set_title("Triangles of three systems", loc="left")
    sides.set_xlabel("two sides together")
    sides.set_ylabel("the longest side")
    sides.legend(frameon=False, loc="lower right")
    for axes in (turned, sides):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
