"""Means of systems: the Frechet mean (Algorithm 3), the medoid, and the average of lagged covariances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from sysbags._common.types import Array
from sysbags._common.validation import (
    check_choice,
    check_integer,
    check_matrix,
    check_share,
    check_weight,
    seed_of,
)
from sysbags._numba.alignment import align_many
from sysbags._numba.mean import mean_descent
from sysbags.distances.alignment import pad, start_tables
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.stein import check_norms, covariance_norms
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.collection import check_systems
from sysbags.systems.system import System

STARTS = ("medoid", "identity")


@dataclass(frozen=True, eq=False)
class BlockMean:
    """A mean as a combination of its systems: ``Cbar = sum_i C_i W_i``, ``mu_bar = sum_i w_i mu_i``.

    `mixing` is W, (K, n, n), and `weights` are w, which sum to 1. `observer_gram` is ``Cbar' Cbar``, in the
    orthonormal form the identity, unless the observers cancel in a direction; `mean_norm` is ``mu_bar'
    mu_bar``. The rest is that of `FrechetMean`.
    """

    transition: Array
    mixing: Array
    weights: Array
    observer_gram: Array
    mean_norm: float
    rotations: Array
    history: Array
    converged: bool

    @property
    def objective(self) -> float:
        """Weighted mean of the squared distances from the mean to its systems."""
        return float(self.history[-1])


@dataclass(frozen=True, eq=False)
class FrechetMean:
    """The result of `frechet_mean`.

    Attributes
    ----------
    system : System
        The mean; its samples are those of all systems (see `System.compress`).
    objective : float
        Weighted mean of the squared distances to the systems.
    history : (iterations,) array
        The objective after each iteration; it does not increase.
    rotations : (K, n, n) array
        The rotations of the systems onto the mean.
    converged : bool

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> systems = [sysbags.identify(rng.dirichlet(np.ones(6), size=30), order=2) for _ in range(3)]
    >>> mean = sysbags.frechet_mean(systems)
    >>> mean.converged, bool(mean.objective <= mean.history[0]), mean.rotations.shape
    (True, True, (3, 2, 2))
    """

    system: System
    objective: float
    history: Array
    rotations: Array
    converged: bool


def frechet_mean(
    systems: Sequence[System],
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    weights: npt.ArrayLike | None = None,
    start: str = "medoid",
    max_iterations: int = 500,
    tolerance: float = 1e-9,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    gram: CrossGram | None = None,
) -> FrechetMean:
    """Minimise the weighted sum of squared alignment distances to a set of systems (`eq:klds_avg`).

    Two steps alternate (Algorithm 3), and neither increases the objective: the mean that is best for the
    rotations of the systems, and better rotations for this mean. The first step is exact, without k-means:
    over the whole feature space the best observer is the polar factor of ``sum_i w_i C_i Q_i``, which depends
    on the blocks ``C_i' C_j`` only. In the unit-variance form it is that sum itself. A result that has
    converged is a point that neither step improves by more than `tolerance`; another start may end lower.

    Parameters
    ----------
    systems : sequence of System
        Smaller orders are padded with zeros; the mean has the largest order.
    lambda_a, lambda_mu : float, default=0.25, 0.0
        Weights of the transition and of the mean in the distance.
    weights : (K,) array_like, optional
        Weights of the systems, 0 or more; by default equal.
    start : {"medoid", "identity"}, default="medoid"
        The first rotations: the alignments to the medoid, which more often end lower, or the identity.
    max_iterations : int, default=500
    tolerance : float, default=1e-9
        Stop when the objective decreases by less than this, relative to the norms of the systems.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Number of threads for the kernel and the medoid.
    gram : CrossGram, optional
        ``cross_gram(systems)``, if it has been computed before.

    Returns
    -------
    FrechetMean

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> systems = [sysbags.identify(rng.dirichlet(np.ones(6), size=30), order=2) for _ in range(4)]
    >>> mean = sysbags.frechet_mean(systems)
    >>> mean.system
    System(order=2, size=120, bag_length=6, kernel='chi2')
    >>> total = sum(sysbags.alignment_distance(mean.system, theta) for theta in systems)
    >>> bool(np.isclose(total / 4, mean.objective))
    True
    """
    checked = check_systems(systems)
    mean = mean_of_gram(
        cross_gram(checked, n_jobs=n_jobs) if gram is None else gram,
        lambda_a,
        lambda_mu,
        weights=weights,
        start=start,
        max_iterations=max_iterations,
        tolerance=tolerance,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    mean_system = System(
        mean.transition,
        np.concatenate([system.samples for system in checked]),
        np.concatenate(
            [system.alpha @ W[: system.order] for system, W in zip(checked, mean.mixing, strict=True)]
        ),
        np.concatenate([w * system.beta for system, w in zip(checked, mean.weights, strict=True)]),
        checked[0].kernel,
        normal_form=checked[0].normal_form,
        _observer_gram=mean.observer_gram,
        _mean_norm=mean.mean_norm,
    )
    return FrechetMean(mean_system, mean.objective, mean.history, mean.rotations, mean.converged)


def mean_of_gram(
    gram: CrossGram,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    weights: npt.ArrayLike | None = None,
    start: str | int | Array = "medoid",
    max_iterations: int = 500,
    tolerance: float = 1e-9,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> BlockMean:
    """Return the `frechet_mean` of the systems of a symmetric CrossGram.

    `start` may also be the index of a system to align to first, or rotations (K, n, n).
    """
    if not gram.symmetric:
        raise ParameterError(
            "a mean needs the CrossGram of one collection with itself, as from cross_gram(systems)"
        )
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    w = check_mean_weights(weights, len(gram.mean))
    # The mean has the largest order of its systems; the CrossGram may be padded to a larger one.
    n = int(gram.rows.orders.max())
    A = np.ascontiguousarray(gram.rows.transition[:, :n, :n])
    G = np.ascontiguousarray(gram.observer[:, :, :n, :n].transpose(0, 2, 1, 3))
    seed = seed_of(random_state)
    if isinstance(start, str) and check_choice(start, "start", STARTS) == "medoid":
        # Without the mean term, so that lambda_mu changes the objective but not the mean.
        start = int(np.argmin(alignment_matrix(gram, weight, random_state=seed, n_jobs=n_jobs) @ w))
    Q = np.tile(np.eye(n), (len(A), 1, 1)) if isinstance(start, (str, int)) else np.array(start, np.float64)
    if isinstance(start, int):
        pairs = np.column_stack([np.full(len(A), start), np.arange(len(A))])
        tables = start_tables(n, None, seed)
        blocks = np.ascontiguousarray(gram.observer[start, :, :n, :n])
        align_many(A, A, blocks, pairs, weight, *tables, True, False, np.empty((len(A), 6)), Q)
    constant = float(
        w @ (weight * np.einsum("kij,kij->k", A, A) + np.einsum("kii->k", gram.rows.observer_gram))
    )
    history = np.empty(check_integer(max_iterations, "max_iterations"))
    transition, mixing = np.empty((n, n)), np.empty_like(A)
    iterations, converged = mean_descent(
        A,
        G,
        w,
        weight,
        constant,
        Q,
        *start_tables(n, None, seed),
        gram.rows.normal_form == "orthonormal",
        check_weight(tolerance, "tolerance"),
        transition,
        mixing,
        history,
    )
    observer_gram = np.einsum("iab,iajc,jcd->bd", mixing, G, mixing, optimize=True)
    mean_norm = float(w @ gram.mean @ w)
    spread = max(0.0, float(w @ gram.rows.mean_norm) - mean_norm)
    history = np.maximum(history[:iterations] + weight_mu * spread, 0.0)
    return BlockMean(transition, mixing, w, observer_gram, mean_norm, Q, history, converged)


def mean_gram(gram: CrossGram, groups: Sequence[Any], means: Sequence[BlockMean]) -> CrossGram:
    """Return the CrossGram of means (rows) with the columns of a CrossGram of their systems.

    The rows of the given CrossGram are the systems of all means; `groups` are the rows of each mean.
    """
    orders = np.array([len(m.transition) for m in means])
    n = int(orders.max())
    blocks = [
        np.einsum("iab,itac->tbc", m.mixing, gram.observer[rows][:, :, : len(m.transition)], optimize=True)
        for rows, m in zip(groups, means, strict=True)
    ]
    return CrossGram(
        np.stack([pad(block, n, block.shape[2]) for block in blocks]),
        np.stack([m.weights @ gram.mean[rows] for rows, m in zip(groups, means, strict=True)]),
        SystemStack(
            orders,
            np.stack([pad(m.transition, n, n) for m in means]),
            np.stack([pad(m.observer_gram, n, n) for m in means]),
            np.array([m.mean_norm for m in means]),
            gram.rows.normal_form,
        ),
        gram.columns,
        False,
        gram.approximate,
    )


def medoid(
    systems: Sequence[System],
    metric: str = "alignment",
    *,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    gram: CrossGram | None = None,
) -> int:
    """Return the index of the system with the least sum of squared distances to the others.

    Parameters
    ----------
    systems, metric, lambda_a, lambda_mu, random_state, n_jobs
        See `sysbags.pairwise_distances`.
    gram : CrossGram, optional
        ``cross_gram(systems)``, if it has been computed before.

    Returns
    -------
    int

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> systems = [sysbags.identify(rng.dirichlet(np.ones(6), size=30), order=2) for _ in range(3)]
    >>> sysbags.medoid(systems) in range(3)
    True
    """
    gram = cross_gram(systems, n_jobs=n_jobs) if gram is None else gram
    distances = distance_matrix(
        gram, metric, lambda_a=lambda_a, lambda_mu=lambda_mu, random_state=random_state, n_jobs=n_jobs
    )
    return int(np.argmin(distances.sum(axis=1)))


def check_mean_weights(weights: Any, count: int) -> Array:
    """Return the weights of the systems, which sum to 1."""
    if weights is None:
        return np.full(count, 1.0 / count)
    w = check_matrix(weights, "weights", (count,), f"({count},): one weight per system")
    if w.min() < 0.0 or w.sum() <= 0.0:
        raise ParameterError("weights must be 0 or more with a positive sum")
    return np.asarray(w / w.sum())


def covariance_mean(
    systems: Sequence[System],
    *,
    weights: npt.ArrayLike | None = None,
    normalized_by: float | None = None,
    n_jobs: int | None = None,
    gram: CrossGram | None = None,
) -> System:
    """Return the system whose mean and lagged covariances are the weighted averages of those of systems.

    It is exact: ``sum_i w_i C_i A_i^k C_i'`` is `C A^k C'` with ``C = [w_1^(1/2) C_1, w_2^(1/2) C_2, ..]``
    and A the block-diagonal matrix of the transitions. So its order is the sum of all orders. It minimises
    the weighted sum of the squared distances of the metric "covariance", whatever the weights of the lags.
    The mean of the metric "normalized-covariance" is the average of the covariances divided by their norms:
    no other direction has a smaller sum of squared distances.

    Parameters
    ----------
    systems : sequence of System
        In the unit-variance form.
    weights, n_jobs, gram
        See `frechet_mean`.
    normalized_by : float, optional
        Divide the covariances of each system by their norm for this weight of lags, the `lambda_a` of
        "normalized-covariance".

    Returns
    -------
    System
        In the unit-variance form, with the samples of all systems.

    Examples
    --------
    >>> import sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = [sysbags.identify(stream, order=2, normal_form="unit-variance") for stream in streams]
    >>> mean = covariance_mean(systems)
    >>> to_mean = sysbags.pairwise_distances(systems, [mean], "covariance").mean()
    >>> bool(np.isclose(to_mean, sysbags.pairwise_distances(systems, metric="covariance").mean() / 2))
    True
    """
    checked = check_systems(systems)
    if checked[0].normal_form != "unit-variance":
        raise IncompatibleSystemsError(
            f"systems are in the {checked[0].normal_form} form, but the mean of lagged covariances needs the "
            'unit-variance form: identify or SystemIdentifier with normal_form="unit-variance"'
        )
    w = check_mean_weights(weights, len(checked))
    blocks = cross_gram(checked, n_jobs=n_jobs) if gram is None else gram
    shares = w
    if normalized_by is not None:
        lag_weight = check_share(normalized_by, "normalized_by", low="[", high="]")
        norms = covariance_norms(blocks.rows, lag_weight)
        check_norms(norms, "systems")
        shares = w / np.sqrt(norms)
    roots = np.sqrt(shares)
    orders = [system.order for system in checked]
    observer_gram = np.block(
        [
            [roots[i] * roots[j] * blocks.observer[i, j, : orders[i], : orders[j]] for j in range(len(w))]
            for i in range(len(w))
        ]
    )
    return System(
        scipy.linalg.block_diag(*(system.transition for system in checked)),
        np.concatenate([system.samples for system in checked]),
        scipy.linalg.block_diag(*(root * system.alpha for root, system in zip(roots, checked, strict=True))),
        np.concatenate([weight * system.beta for weight, system in zip(w, checked, strict=True)]),
        checked[0].kernel,
        normal_form="unit-variance",
        _observer_gram=observer_gram,
        _mean_norm=float(w @ blocks.mean @ w),
    )
