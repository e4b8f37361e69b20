"""Distances between all systems of a collection, or of two, for every metric."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sysbags._common.lazy import load_name
from sysbags._common.types import Array
from sysbags._common.validation import check_choice
from sysbags.distances.embedding import Embedding
from sysbags.distances.gram import CrossGram, cross_gram
from sysbags.distances.registry import METRICS
from sysbags.distances.weights import Weight, resolve_weights
from sysbags.systems.system import System

__all__ = ["distance_matrix", "pairwise_distances"]


def pairwise_distances(
    systems: Sequence[System],
    others: Sequence[System] | None = None,
    metric: str = "alignment",
    *,
    lambda_a: Weight = 0.25,
    lambda_mu: Weight = 0.0,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    embedding: Embedding | None = None,
) -> Array:
    """Return the squared distances between systems.

    Parameters
    ----------
    systems : sequence of System
    others : sequence of System, optional
        By default `systems`; each pair is then computed once.
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value"}
        By default "alignment". The two of covariances need systems in the unit-variance form, see `identify`.
    lambda_a, lambda_mu : float or "scale", default=0.25, 0.0
        Weights of the transition and of the mean for "alignment". For covariances `lambda_a`, at most 1, is
        the weight of each lag relative to the lag before. The last two metrics have no weights. With "scale",
        for the unit-variance form, the parts have the same unit: see
        `sysbags.distances.weights.scaled_weights`, of `systems`.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Number of threads; -1 means all cores. The result does not depend on it.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Precision inside the kernel, see `kernel_matrix`.
    embedding : Embedding, optional
        Approximate the kernel, see `cross_gram`.

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
    gram = cross_gram(systems, others, n_jobs=n_jobs, dtype=dtype, embedding=embedding)
    return distance_matrix(
        gram, metric, lambda_a=lambda_a, lambda_mu=lambda_mu, random_state=random_state, n_jobs=n_jobs
    )


def distance_matrix(
    gram: CrossGram,
    metric: str = "alignment",
    *,
    lambda_a: Weight = 0.25,
    lambda_mu: Weight = 0.0,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """Return `pairwise_distances` from a CrossGram."""
    entry = METRICS[check_choice(metric, "metric", METRICS)]
    weights = resolve_weights(gram.rows, metric, lambda_a, lambda_mu) if entry.weighted else ()
    options = {"random_state": random_state} if entry.weighted else {}
    squared: Array = load_name(entry.matrix)(gram, *weights, **options, n_jobs=n_jobs)
    return squared
