"""Distances that sum over all times, by Stein equations: Martin, maximum singular value, covariances.

The two baselines of the paper start from the infinite observability matrices of two systems,
`O_i = [C_i; C_i A_i; C_i A_i^2; ..]`, whose product `X = O_1' O_2` solves `X = A1' X A2 + C1' C2`. Both
ignore the mean.

For systems in the unit-variance form the covariance of the stream in feature space at lag k is
`Gamma_k = C A^k C'`. It does not depend on the basis of the states, so no alignment is needed. Inner
products are traces: `<Gamma_k(1), Gamma_k(2)> = tr(A1^k M (A2^k)' M')` with `M = C1' C2`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_share
from sysbags._numba.stein import martin_rows, stein_rows
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram, mean_term
from sysbags.errors import IncompatibleSystemsError
from sysbags.systems.system import System

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
    kernel: Callable[..., None], gram: CrossGram, arguments: Sequence[tuple[Any, ...]], n_jobs: int | None
) -> Array:
    """Run a compiled kernel over chunks of rows; `arguments` are those of each side."""
    out = np.zeros(gram.mean.shape)
    observer = np.ascontiguousarray(gram.observer)

    def chunk(begin: int) -> None:
        end = min(begin + CHUNK_ROWS, len(out))
        kernel(begin, end, gram.symmetric, observer, *arguments[0], *arguments[-1], out)

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


def prepared(gram: CrossGram, transitions: list[Array]) -> list[tuple[IntArray, Array, Array]]:
    """Return the orders of each side, `A^(2^k)` as far as the slowest system needs them, and their norms.

    The powers are (K, steps, n, n), the norms (K, steps).
    """
    by_side = [[transition] for transition in transitions]
    for _ in range(MAX_DOUBLINGS):
        if max(float(np.abs(side[-1]).max()) for side in by_side) < POWER_FLOOR:
            break
        for side in by_side:
            side.append(side[-1] @ side[-1])
    stacks = [np.ascontiguousarray(np.stack(side, axis=1)) for side in by_side]
    orders = [side.orders for _, side in sides(gram)]
    return [
        (own, stack, np.linalg.norm(stack, axis=(2, 3))) for own, stack in zip(orders, stacks, strict=True)
    ]


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
    of the cosines is the volume of `O_12`. The result does not depend on `n_jobs`.
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
    arguments = [
        (orders, whitener, *powers)
        for (orders, *powers), whitener in zip(prepared(gram, transitions), whiteners, strict=True)
    ]
    return mirrored(fill(martin_rows, gram, arguments, n_jobs), gram.symmetric)


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
    kernel = fill(partial(stein_rows, False), gram, prepared(gram, transitions), n_jobs)
    distances = np.maximum(2.0 - 2.0 * kernel / np.sqrt(np.outer(values[0], values[-1])), 0.0)
    return mirrored(distances, gram.symmetric)


def covariance_kernel(
    gram: CrossGram, lambda_a: float = 0.25, *, n_jobs: int | None = None
) -> tuple[Array, Array, Array]:
    """Return the inner products of lagged covariances, ``sum_k lambda_a^k <Gamma_k(i), Gamma_k(j)>``.

    This is a positive definite kernel: the inner product of the sequences of all lagged covariances, each lag
    with a weight. It is a relative of the trace kernels of Vishwanathan, Smola & Vidal (2007). The sum is
    `tr(S M')` with `S = M + lambda_a A1 S A2'`, one Stein equation per pair.

    The systems are in the unit-variance form. `lambda_a`, in [0, 1], is the weight of each lag relative to
    the lag before; 0 is the covariance alone. Returns the kernel, (K, L), and the kernel of each row and of
    each column with itself, (K,) and (L,).
    """
    weight = check_share(lambda_a, "lambda_a", low="[", high="]")
    for name, side in sides(gram):
        if side.normal_form != "unit-variance":
            raise IncompatibleSystemsError(
                f"{name} are in the {side.normal_form} form, but lagged covariances need the unit-variance "
                'form: identify or SystemIdentifier with normal_form="unit-variance"'
            )
    # The compiled function solves X = B1' X B2 + M.
    transitions = [
        np.ascontiguousarray(np.sqrt(weight) * side.transition.transpose(0, 2, 1)) for _, side in sides(gram)
    ]
    kernel = fill(partial(stein_rows, True), gram, prepared(gram, transitions), n_jobs)
    norms = [covariance_norms(side, weight) for _, side in sides(gram)]
    if gram.symmetric:
        kernel = mirrored(kernel, True)
        kernel[np.diag_indices_from(kernel)] = norms[0]
    return kernel, norms[0], norms[-1]


def covariance_matrix(
    gram: CrossGram, lambda_a: float = 0.25, lambda_mu: float = 0.0, *, n_jobs: int | None = None
) -> Array:
    """Return ``sum_k lambda_a^k ||Gamma_k(i) - Gamma_k(j)||^2 + lambda_mu ||mu_i - mu_j||^2`` of all pairs.

    These are squared Euclidean distances: means are averages, and kernel methods are exact. See
    `covariance_kernel` for the parameters.
    """
    kernel, first, second = covariance_kernel(gram, lambda_a, n_jobs=n_jobs)
    return _with_means(gram, first[:, None] + second[None, :] - 2.0 * kernel, lambda_mu)


def normalized_covariance_matrix(
    gram: CrossGram, lambda_a: float = 0.25, lambda_mu: float = 0.0, *, n_jobs: int | None = None
) -> Array:
    """Return `covariance_matrix` after a division of each system's covariances by their norm.

    The part of the covariances is then from 0 to 4, whatever the amount of motion: 0 for proportional
    covariances, 2 for orthogonal ones.
    """
    kernel, first, second = covariance_kernel(gram, lambda_a, n_jobs=n_jobs)
    check_norms(first, "systems")
    check_norms(second, "others")
    return _with_means(gram, 2.0 - 2.0 * kernel / np.sqrt(np.outer(first, second)), lambda_mu)


def _with_means(gram: CrossGram, covariances: Array, lambda_mu: float) -> Array:
    """Return squared distances: what the covariances differ by, and the weighted part of the means."""
    distances = np.maximum(covariances, 0.0) + lambda_mu * mean_term(gram)
    if gram.symmetric:
        np.fill_diagonal(distances, 0.0)
    return distances


def check_norms(norms: Array, name: str) -> None:
    """Raise an error for a system without any covariance, which cannot be normalized."""
    if norms.min() <= 0.0:
        raise IncompatibleSystemsError(
            f"{name}[{int(norms.argmin())}] has an observer of zeros, so its covariances cannot be normalized"
        )


def covariance_norms(stack: SystemStack, lambda_a: float) -> Array:
    """Return ``sum_k lambda_a^k ||Gamma_k||^2`` of each system, its `covariance_kernel` with itself."""
    transposed = np.sqrt(lambda_a) * stack.transition.transpose(0, 2, 1)
    solutions = stein_solutions(transposed, stack.observer_gram)
    return np.asarray(np.einsum("kij,kij->k", solutions, stack.observer_gram))
