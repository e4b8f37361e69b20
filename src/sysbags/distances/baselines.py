"""The two baselines of the paper: the Martin distance, and the maximum singular value kernel.

Both start from the infinite observability matrices `O_i = [C_i; C_i A_i; C_i A_i^2; ..]` of two systems,
whose products solve Stein equations, `O_1'O_2 = X` with `X = A1' X A2 + C1' C2`. Both ignore the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags._numba.stein import martin_rows, singular_value_rows
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.errors import IncompatibleSystemsError
from sysbags.systems.system import System

__all__ = [
    "check_stable",
    "fill",
    "martin_distance",
    "martin_matrix",
    "max_singular_value_distance",
    "max_singular_value_matrix",
    "mirrored",
    "powers",
    "sides",
    "stein_solutions",
]

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


DISCOUNT = 0.9
OBSERVABILITY_FLOOR = 1e-14


def martin_distance(first: System, second: System) -> float:
    """Return the squared Martin distance, `-sum log cos^2` of the angles between two observability spaces.

    With `O_ij` the solution of `X = A_i' X A_j + C_i' C_j` and `O_ii = L_i L_i'`, the cosines are the
    singular values of `L_1^-1 O_12 L_2^-T`. They do not depend on the basis of the state space.

    Parameters
    ----------
    first, second : System
        With the same kernel and bag length, spectral radius below 1 and independent observer columns.
        For different orders n < m there are n angles between the smaller space and the larger; the distance
        is then 0 where the larger contains the smaller.

    Returns
    -------
    float
        `inf` if a direction of one space is orthogonal to the other space.

    Examples
    --------
    Order 1 by hand: with transitions a, b and equal unit observers, cos^2 = (1 - a^2)(1 - b^2) / (1 - ab)^2.

    >>> from sysbags.systems.system import System
    >>> one, two = (System([[a]], [[0.5, 0.5]], [[1.0]], [1.0]) for a in (0.5, 0.0))
    >>> round(martin_distance(one, two), 6), round(float(-np.log(0.75)), 6)
    (0.287682, 0.287682)
    """
    return float(martin_matrix(cross_gram([first], [second]))[0, 0])


def max_singular_value_distance(first: System, second: System) -> float:
    """Return the squared distance of the maximum singular value kernel, `2 (1 - k_12 / sqrt(k_11 k_22))`.

    `k_ij` is the largest singular value of the solution of `X = 0.9 A_i' X A_j + C_i' C_j`. It is invariant
    to rotations of the state space, but not to other changes of basis. The kernel is not positive definite.

    Parameters
    ----------
    first, second : System
        With the same kernel and bag length, and spectral radius below `1 / sqrt(0.9)`; any orders.

    Returns
    -------
    float
        From 0 to 2.

    Examples
    --------
    Order 1 by hand: with transitions a, b and equal unit observers, `k_12 = 1 / (1 - 0.9 a b)`.

    >>> from sysbags.systems.system import System
    >>> one, two = (System([[a]], [[0.5, 0.5]], [[1.0]], [1.0]) for a in (0.5, 0.0))
    >>> round(max_singular_value_distance(one, two), 6), round(2 * (1 - (1 - 0.9 * 0.25) ** 0.5), 6)
    (0.239318, 0.239318)
    """
    return float(max_singular_value_matrix(cross_gram([first], [second]))[0, 0])


def martin_matrix(gram: CrossGram, n_jobs: int | None = None) -> Array:
    """Return the squared Martin distances of all pairs of a `CrossGram`.

    Each Stein equation is solved by doubling; the powers of the transitions and the Cholesky factors are
    computed once per system. There is no SVD: in the basis where both `O_ii` are the identity, the product
    of the cosines is the volume of `O_12`.

    Parameters
    ----------
    gram : CrossGram
        Of two collections, or of one with itself; then each pair is computed once.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    (K, L) array
    """
    whiteners, transitions = [], []
    for name, side in sides(gram):
        check_stable(name, side, 1.0)
        # Any positive number in place of the padded zeros does not change the Cholesky factor of the rest.
        padded = np.arange(side.transition.shape[1]) >= side.orders[:, None]
        typical = np.trace(side.observer_gram, axis1=1, axis2=2) / side.orders
        filling = (padded * typical[:, None])[:, :, None] * np.eye(padded.shape[1])
        solutions = stein_solutions(side.transition, side.observer_gram + filling)
        spectrum = np.linalg.eigvalsh(solutions)
        degenerate = np.flatnonzero(spectrum[:, 0] <= OBSERVABILITY_FLOOR * spectrum[:, -1])
        if degenerate.size:
            raise IncompatibleSystemsError(
                f"{name}[{degenerate[0]}] has states that are not observable, "
                "so its Martin distance is not defined: use a smaller order"
            )
        factor = np.linalg.cholesky(solutions)
        whitener = np.tril(np.linalg.inv(factor))
        whiteners.append(whitener)
        transitions.append(factor.transpose(0, 2, 1) @ side.transition @ whitener.transpose(0, 2, 1))
    transition_powers = powers(transitions)
    prepared = [
        (side.orders, whitener, *power)
        for (_, side), whitener, power in zip(sides(gram), whiteners, transition_powers, strict=True)
    ]
    return mirrored(fill(martin_rows, gram, prepared, n_jobs), gram.symmetric)


def max_singular_value_matrix(gram: CrossGram, n_jobs: int | None = None) -> Array:
    """Return the squared maximum singular value distances of all pairs of a `CrossGram`."""
    transitions, values = [], []
    for name, side in sides(gram):
        check_stable(name, side, DISCOUNT)
        transition = np.sqrt(DISCOUNT) * side.transition
        value = np.linalg.norm(stein_solutions(transition, side.observer_gram), ord=2, axis=(1, 2))
        if not value.all():
            raise IncompatibleSystemsError(
                f"{name}[{int(value.argmin())}] has an observer of zeros, "
                "so its maximum singular value distance is not defined"
            )
        transitions.append(transition)
        values.append(value)
    prepared = [
        (side.orders, *power) for (_, side), power in zip(sides(gram), powers(transitions), strict=True)
    ]
    kernel = fill(singular_value_rows, gram, prepared, n_jobs)
    distances = np.maximum(2.0 - 2.0 * kernel / np.sqrt(np.outer(values[0], values[-1])), 0.0)
    return mirrored(distances, gram.symmetric)
