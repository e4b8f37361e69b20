"""
The Lorenz system in other coordinates
======================================

Which changes are changes of the dynamics: other coordinates, or other parameters?

A recording shows a system through sensors that nobody has chosen: rotated, mixed with other gains, or bent.
A comparison of dynamics should ignore this, and it should see a change of the system itself. Here the system
is that of Lorenz, whose parameter rho is 28. All scores are angles of dynamical similarity analysis (DSA) to
one recording of it; every other recording starts at another state.

``python examples/lorenz_coordinates.py lorenz_coordinates.png`` writes the picture to a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import ortho_group

from sysbags.datasets import make_lorenz
from sysbags.dsa import DSA

Array = npt.NDArray[np.float64]
Recordings = dict[str, list[Array]]
Scores = dict[str, tuple[Array, Array]]

BLUE, ORANGE = "#0072B2", "#D55E00"
RHO = 28.0
SEED = 1000  # seeds below this were used to choose the settings

# %%
# Changes of coordinates
# ----------------------
# A rotation keeps all distances. A linear map stretches one direction by 4 and shrinks another to a quarter.
# A bent map is ``x + s sin(x)`` along random axes: smooth, and invertible for s below 1.


def rotated(rows: Array, rng: np.random.Generator) -> Array:
    return np.asarray(rows @ ortho_group.rvs(3, random_state=rng))


def stretched(rows: Array, rng: np.random.Generator) -> Array:
    return rotated(rotated(rows, rng) * [4.0, 1.0, 0.25], rng)


def bent(rows: Array, strength: float, rng: np.random.Generator) -> Array:
    turned = rotated(rows, rng)
    return rotated(turned + strength * np.sin(turned), rng)


# %%
# The recordings
# --------------
# Each has mean 0 and the identity as its covariance. After this, an invertible linear map is a rotation.


def sphered(rows: Array) -> Array:
    centred = rows - rows.mean(axis=0)
    return np.asarray(np.linalg.svd(centred, full_matrices=False)[0] * np.sqrt(len(rows)))


def make_recordings(
    repeats: int, steps: int, rhos: Sequence[float], bends: Sequence[float], seed: int = SEED
) -> tuple[Array, Recordings]:
    """Return the reference, and several recordings for each change."""
    rng = np.random.default_rng(seed)
    reference = make_lorenz(steps=steps, random_state=rng)

    def again(rho: float = RHO) -> Array:
        return make_lorenz(rho=rho, steps=steps, random_state=rng)

    recordings = {
        "same rows, rotated": [rotated(reference, rng) for _ in range(repeats)],
        "same rows, linear": [stretched(reference, rng) for _ in range(repeats)],
        "no map": [again() for _ in range(repeats)],
        "rotation": [rotated(again(), rng) for _ in range(repeats)],
        "linear": [stretched(again(), rng) for _ in range(repeats)],
        **{f"bent, {s:g}": [bent(again(), s, rng) for _ in range(repeats)] for s in bends},
        **{f"rho {rho:g}": [again(rho) for _ in range(repeats)] for rho in rhos},
    }
    return sphered(reference), {name: list(map(sphered, group)) for name, group in recordings.items()}


# %%
# Two settings
# ------------
# Two delays, of which all six directions are kept, are enough for linear maps, but not for bent ones: a bent
# map adds small directions of its own, and a state of full rank gives all directions the same weight. With
# more delays and the leading directions alone, bent maps hardly count.

SETTINGS: dict[str, dict[str, Any]] = {
    "2 delays, all 6 directions": {"n_delays": 2, "delay_interval": 5},
    "10 delays, the 8 leading directions": {"n_delays": 10, "delay_interval": 3, "rank": 8},
}


def scores(reference: Array, recordings: Recordings, setting: Mapping[str, Any]) -> Scores:
    """Return the scores and certificates of the recordings for each change."""
    rows = [one for group in recordings.values() for one in group]
    dsa = DSA(reference, rows, score_method="angular", **setting)
    found = np.stack([dsa.fit_score(), dsa.certificates_]).reshape(2, len(recordings), -1)
    return {name: (found[0, k], found[1, k]) for k, name in enumerate(recordings)}


# %%
# The picture
# -----------
# A bar goes from the certificate to the score: no rotation has a score below it.


def draw_bars(axes: Axes, place: float, result: tuple[Array, Array], spread: float, colour: str) -> None:
    score, certificate = result
    x = place + spread * np.linspace(-1.0, 1.0, len(score))
    axes.vlines(x, certificate, score, color=colour, alpha=0.35, linewidth=4)
    axes.plot(x, score, "o", color=colour, markersize=4, markerfacecolor="none")


def draw(results: Mapping[str, Scores], rhos: Sequence[float], path: str) -> None:
    figure = Figure(figsize=(10, 6.4), dpi=100, layout="constrained")
    grid = figure.subplots(len(results), 2, sharey=True, sharex="col")
    for (left, right), (setting, found) in zip(grid, results.items(), strict=True):
        kinds = [name for name in found if not name.startswith(("rho", "same rows"))]
        for place, name in enumerate(kinds):
            draw_bars(left, place, found[name], 0.25, BLUE)
        left.set_xticks(range(len(kinds)), [name.replace(", ", "\n") for name in kinds])
        left.set_title(f"Other coordinates: {setting}", loc="left", fontsize="medium")
        left.set_ylabel("angle to the reference")
        for rho in rhos:
            draw_bars(right, rho, found[f"rho {rho:g}"], 0.35, ORANGE)
        draw_bars(right, RHO, found["no map"], 0.35, BLUE)
        right.set_title("Other parameters", loc="left", fontsize="medium")
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
            axes.axhline(found["no map"][0].max(), color="0.5", linewidth=0.8, linestyle=":")
    left.set_xlabel("map of the coordinates, with the strength of the bend")
    right.set_xlabel("rho (dotted: the largest angle without a change)")
    left.set_ylim(bottom=0.0)
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="DSA of the Lorenz system in other coordinates.")
    parser.add_argument("picture", nargs="?", default="lorenz_coordinates.png")
    parser.add_argument("--repeats", type=int, default=5, help="recordings for each change")
    parser.add_argument("--steps", type=int, default=3000, help="rows of a recording")
    options = parser.parse_args(argv)
    rhos = (26.0, 30.0, 32.0, 36.0, 40.0, 50.0, 60.0)
    reference, recordings = make_recordings(options.repeats, options.steps, rhos, bends=(0.1, 0.2, 0.4, 0.8))
    results = {name: scores(reference, recordings, setting) for name, setting in SETTINGS.items()}
    for name, found in results.items():
        print(f"{name}:")
        for change, (score, certificate) in found.items():
            print(
                f"  {change}: mean {score.mean():.2g}, from {score.min():.2g} to {score.max():.2g}, "
                f"mean certificate {certificate.mean():.2g}"
            )
    draw(results, rhos, options.picture)


if __name__ == "__main__":
    main()
