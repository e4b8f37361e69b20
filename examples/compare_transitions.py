"""
Transitions up to a rotation, with a certificate
================================================

Bare transitions are compared as dynamical similarity analysis does it.

The second matrix is a rotated copy of the first with noise added. Aligned, their distance can be no
larger than the noise, and it can be no smaller than the certificate.

``python examples/compare_transitions.py compare_transitions.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ortho_group

import sysbags

BLUE, ORANGE = "#0072B2", "#D55E00"


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "compare_transitions.png"
    rng = np.random.default_rng(0)
    n = 10
    first = rng.standard_normal((n, n)) / np.sqrt(n)
    rotation = ortho_group.rvs(n, random_state=0)
    direction = rng.standard_normal((n, n))
    direction /= np.linalg.norm(direction)

    noises = np.linspace(0.0, 3.0, 31)
    plain, aligned, certified = np.empty((3, noises.size))
    for i, noise in enumerate(noises):
        second = rotation @ first @ rotation.T + noise * direction
        found = sysbags.align_blocks(first, second, lambda_a=1.0)
        total = np.sum(first**2) + np.sum(second**2)
        plain[i] = np.linalg.norm(first - second)
        aligned[i] = np.linalg.norm(first - found.rotation.T @ second @ found.rotation)
        certified[i] = np.sqrt(max(0.0, total - 2.0 * found.upper_bound))
    print(f"without noise: distance {plain[0]:.3f} as they are, {aligned[0]:.1e} aligned")
    print(f"with noise {noises[-1]:.1f}: {plain[-1]:.3f} as they are, {aligned[-1]:.3f} aligned")

    figure = Figure(figsize=(6, 3.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    axes.plot(noises, plain, color="0.5", linestyle=":", label="as they are")
    axes.plot(noises, noises, color=ORANGE, linestyle="--", label="rotation that made the copy")
    axes.plot(noises, aligned, color=BLUE, label="aligned")
    axes.fill_between(
        noises, certified, aligned, color=BLUE, alpha=0.15, linewidth=0, label="down to the certificate"
    )
    axes.set_title(f"Distance of two {n} x {n} transitions", loc="left")
    axes.set_xlabel("size of the noise")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
