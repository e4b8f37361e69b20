"""Stein equations of all pairs of a CrossGram: what the distances that sum over all times share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.distances.gram import CrossGram, SystemStack
from sysbags.errors import IncompatibleSystemsError

__all__ = ["check_stable", "fill", "mirrored", "powers", "sides", "stein_solutions"]

CHUNK_ROWS = 8
# Where the powers of both systems are below this, the term that a doubling step adds is below round-off.
POWER_FLOOR = 1e-9
# A spectral radius this near to 1 needs 2^38 terms, which are 38 doublings.
STABILITY_GAP = 1e-10
MAX_DOUBLINGS = 64


def mirrored(distances: Array, symmetric: bool) -> Array:
    """Copy the entries above the diagonal below it, if the CrossGram is symmetric."""
    if not symmetric:
        return distances
    upper = np.triu(distances, 1)
    return np.asarray(upper + upper.T)


def sides(gram: CrossGram) -> list[tuple[str, SystemStack]]:
    """Return the collections of a CrossGram with their names; a symmetric one has one collection."""
    return [("systems", gram.rows)] if gram.symmetric else [("systems", gram.rows), ("others", gram.columns)]


def fill(
    kernel: Callable[..., None], gram: CrossGram, prepared: list[tuple[Any, ...]], n_jobs: int | None
) -> Array:
    """Run a compiled kernel over chunks of rows."""
    out = np.zeros(gram.mean.shape)
    observer = np.ascontiguousarray(gram.observer)

    def chunk(begin: int) -> None:
        end = min(begin + CHUNK_ROWS, len(out))
        kernel(begin, end, gram.symmetric, observer, *prepared[0], *prepared[-1], out)

    run(chunk, range(0, len(out), CHUNK_ROWS), n_jobs, "distances")
    return out


def check_stable(name: str, side: SystemStack, discount: float) -> None:
    """Raise an error for a system whose infinite sum does not converge."""
    radii = np.abs(np.linalg.eigvals(side.transition)).max(axis=1)
    limit = 1.0 / np.sqrt(discount)
    worst = int(radii.argmax())
    if radii[worst] >= limit * (1.0 - STABILITY_GAP):
        raise IncompatibleSystemsError(
            f"the transition of {name}[{worst}] has spectral radius {radii[worst]:.6g}, "
            f'but this distance needs one below {limit:.6g}: identify with stability="constrained"'
        )


def stein_solutions(transition: Array, observer_gram: Array) -> Array:
    """Solve `X = A' X A + C'C` for each system by doubling."""
    solution, power = observer_gram, transition
    for _ in range(MAX_DOUBLINGS):
        solution = solution + power.transpose(0, 2, 1) @ solution @ power
        if np.abs(power).max() < POWER_FLOOR:
            break
        power = power @ power
    return 0.5 * (solution + solution.transpose(0, 2, 1))


def powers(transitions: list[Array]) -> list[tuple[Array, Array]]:
    """Return each side's `A^(2^k)` (K, steps, n, n), as many as the slowest system needs, and their norms."""
    by_side = [[transition] for transition in transitions]
    for _ in range(MAX_DOUBLINGS):
        if max(float(np.abs(side[-1]).max()) for side in by_side) < POWER_FLOOR:
            break
        for side in by_side:
            side.append(side[-1] @ side[-1])
    stacks = [np.ascontiguousarray(np.stack(side, axis=1)) for side in by_side]
    return [(stack, np.linalg.norm(stack, axis=(2, 3))) for stack in stacks]
