"""Distances between all systems of a collection, or of two, for every metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_weight
from sysbags._numba.alignment import align_many
from sysbags.distances.alignment import pad
from sysbags.distances.baselines import baseline_matrix
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.distances.starts import start_tables
from sysbags.systems.system import System

__all__ = ["METRICS", "alignment_matrix", "distance_matrix", "pairwise_distances"]

METRICS = ("alignment", "martin", "max-singular-value")
PAIRS_A_CHUNK = 256


def pairwise_distances(
    systems: Sequence[System],
    others: Sequence[System] | None = None,
    metric: str = "alignment",
    *,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    dtype: npt.DTypeLike = np.float64,
) -> Array:
    """Squared distances between systems: the kernel once a pair of streams, then small matrices.

    Parameters
    ----------
    systems : sequence of System
    others : sequence of System, optional
        By default the systems themselves; each pair is then worked out once.
    metric : {"alignment", "martin", "max-singular-value"}, default="alignment"
    lambda_a, lambda_mu : float, default=0.25, 0.0
        For "alignment".
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; -1 is all cores. The result does not depend on it.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Precision inside the kernel, see `kernel_matrix`.

    Returns
    -------
    (K, L) array

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> systems = [sysbags.identify(rng.dirichlet(np.ones(6), size=30), order=2) for _ in range(3)]
    >>> D = sysbags.pairwise_distances(systems)
    >>> D.shape, bool(np.allclose(D, D.T)), bool(np.all(np.diag(D) == 0))
    ((3, 3), True, True)
    """
    check_choice(metric, "metric", METRICS)
    gram = cross_gram(systems, others, n_jobs=n_jobs, dtype=dtype)
    return distance_matrix(
        gram, metric, lambda_a=lambda_a, lambda_mu=lambda_mu, random_state=random_state, n_jobs=n_jobs
    )


def distance_matrix(
    gram: CrossGram,
    metric: str = "alignment",
    *,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """`pairwise_distances` from a CrossGram that is there already, without touching a histogram."""
    if check_choice(metric, "metric", METRICS) == "alignment":
        return alignment_matrix(gram, lambda_a, lambda_mu, random_state=random_state, n_jobs=n_jobs)
    return baseline_matrix(gram, metric, n_jobs=n_jobs)


def alignment_matrix(
    gram: CrossGram,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    starts: int | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """Squared alignment distances between two collections, from their CrossGram alone.

    Parameters
    ----------
    gram : CrossGram
    lambda_a, lambda_mu : float, default=0.25, 0.0
    starts, random_state
        See `align_blocks`.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    (K, L) array
    """
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    seed = seed_of(random_state)
    rows, columns = gram.rows, gram.columns
    n = max(rows.transition.shape[1], columns.transition.shape[1])
    first, second = pad(rows.transition, n, n), pad(columns.transition, n, n)
    observer = pad(gram.observer, n, n)
    own, other = _norms(rows, weight), _norms(columns, weight)
    distances = own[:, None] + other[None, :]
    distances += weight_mu * (rows.mean_norm[:, None] + columns.mean_norm[None, :] - 2.0 * gram.mean)
    if gram.symmetric:
        pairs = np.column_stack(np.triu_indices(len(own), 1))
    else:
        pairs = np.column_stack([axis.ravel() for axis in np.indices(distances.shape)])
    # A pair lives in the larger of its own two orders: more padding would allow more rotations.
    sizes = np.maximum(rows.orders[pairs[:, 0]], columns.orders[pairs[:, 1]])
    chunks: list[tuple[IntArray, int]] = []
    for size in np.unique(sizes):
        alike = pairs[sizes == size]
        chunks += [(alike[k : k + PAIRS_A_CHUNK], int(size)) for k in range(0, len(alike), PAIRS_A_CHUNK)]

    def fill(chunk: tuple[IntArray, int]) -> None:
        some, size = chunk
        values, rotations = np.empty(len(some)), np.empty((len(some), size, size))
        blocks = observer[some[:, 0], some[:, 1]]
        align_many(first, second, blocks, some, weight, *start_tables(size, starts, seed), values, rotations)
        distances[some[:, 0], some[:, 1]] -= 2.0 * values

    if chunks:
        run(fill, chunks, n_jobs, "alignments")
    if gram.symmetric:
        upper = np.triu(distances, 1)
        distances = upper + upper.T
    return np.maximum(distances, 0.0)


def _norms(side: SystemStack, lambda_a: float) -> Array:
    """``lambda_a ||A||^2 + ||C||^2`` of each system of a side."""
    squares = np.einsum("kij,kij->k", side.transition, side.transition)
    return np.asarray(lambda_a * squares + np.einsum("kii->k", side.observer_gram))
