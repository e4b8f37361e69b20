"""Distances between the lagged covariances of streams: closed forms, without an alignment.

For systems in the unit-variance form the covariance of the stream in feature space at lag k is
`Gamma_k = C A^k C'`. It does not depend on the basis of the states. Inner products are small traces:
`<Gamma_k(1), Gamma_k(2)> = tr(A1^k M (A2^k)' M')` with `M = C1' C2`.
"""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_share, check_weight
from sysbags._numba.stein import covariance_rows
from sysbags.distances.alignment_matrix import mean_term
from sysbags.distances.baselines import fill, mirrored, powers, sides, stein_solutions
from sysbags.distances.gram import CrossGram, SystemStack
from sysbags.errors import IncompatibleSystemsError

__all__ = [
    "check_norms",
    "covariance_kernel",
    "covariance_matrix",
    "covariance_norms",
    "normalized_covariance_matrix",
]


def covariance_kernel(
    gram: CrossGram, lambda_a: float = 0.25, *, n_jobs: int | None = None
) -> tuple[Array, Array, Array]:
    """Return the inner products of lagged covariances, ``sum_k lambda_a^k <Gamma_k(i), Gamma_k(j)>``.

    This is a positive definite kernel: the inner product of the sequences of all lagged covariances, each lag
    with a weight. It is a relative of the trace kernels of Vishwanathan, Smola & Vidal (2007). The sum is
    `tr(S M')` with `S = M + lambda_a A1 S A2'`, one Stein equation per pair.

    Parameters
    ----------
    gram : CrossGram
        Of systems in the unit-variance form.
    lambda_a : float, default=0.25
        In [0, 1]: the weight of each lag relative to the lag before; 0 is the covariance alone.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    kernel : (K, L) array
    row_norms, column_norms : (K,) and (L,) arrays
        The kernel of each system with itself.
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
    prepared = [
        (side.orders, *power) for (_, side), power in zip(sides(gram), powers(transitions), strict=True)
    ]
    kernel = fill(covariance_rows, gram, prepared, n_jobs)
    norms = [covariance_norms(side, weight) for _, side in sides(gram)]
    if gram.symmetric:
        kernel = mirrored(kernel, True)
        kernel[np.diag_indices_from(kernel)] = norms[0]
    return kernel, norms[0], norms[-1]


def covariance_matrix(
    gram: CrossGram,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """Return ``sum_k lambda_a^k ||Gamma_k(i) - Gamma_k(j)||^2 + lambda_mu ||mu_i - mu_j||^2`` of all pairs.

    These are squared Euclidean distances: means are averages, and kernel methods are exact.

    Parameters
    ----------
    gram : CrossGram
        Of systems in the unit-variance form.
    lambda_a : float, default=0.25
        In [0, 1]: the weight of each lag relative to the lag before.
    lambda_mu : float, default=0.0
        Weight of the mean.
    random_state
        Ignored: nothing is random here.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    (K, L) array

    Examples
    --------
    >>> import sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(3, 30))
    >>> systems = [sysbags.identify(stream, order=2, normal_form="unit-variance") for stream in streams]
    >>> distances = covariance_matrix(sysbags.cross_gram(systems), lambda_a=0.5)
    >>> bool(np.allclose(distances, sysbags.pairwise_distances(systems, metric="covariance", lambda_a=0.5)))
    True
    """
    kernel, first, second = covariance_kernel(gram, lambda_a, n_jobs=n_jobs)
    return _distances(gram, first[:, None] + second[None, :] - 2.0 * kernel, lambda_mu)


def normalized_covariance_matrix(
    gram: CrossGram,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """Return `covariance_matrix` after a division of each system's covariances by their norm.

    The part of the covariances is then from 0 to 4, whatever the amount of motion: 0 for proportional
    covariances, 2 for orthogonal ones.
    """
    kernel, first, second = covariance_kernel(gram, lambda_a, n_jobs=n_jobs)
    check_norms(first, "systems")
    check_norms(second, "others")
    return _distances(gram, 2.0 - 2.0 * kernel / np.sqrt(np.outer(first, second)), lambda_mu)


def _distances(gram: CrossGram, covariances: Array, lambda_mu: float) -> Array:
    distances = np.maximum(covariances, 0.0) + check_weight(lambda_mu, "lambda_mu") * mean_term(gram)
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
