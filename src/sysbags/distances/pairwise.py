"""Distances between all systems of a collection, or of two, for every metric; and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from sysbags._common.lazy import load_name
from sysbags._common.parallel import run, use_client
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import check_choice, check_integer, check_weight, seed_of
from sysbags.distances import METRICS
from sysbags.distances.gram import Block, CrossGram, SystemStack, cross_gram, tile_gram, tile_work
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.collection import systems_at
from sysbags.systems.system import System


def pairwise_distances(
    systems: Sequence[System],
    others: Sequence[System] | None = None,
    metric: str = "alignment",
    *,
    lambda_a: Weight = 0.25,
    lambda_mu: Weight = 0.0,
    cutoff: float = np.inf,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    embedding: StreamEmbedding | None = None,
    exact_nearest: int = 0,
    out: Any = None,
    memory: str | int | None = None,
    client: Any = None,
) -> Array:
    """Return the squared distances between systems.

    The CrossGram is never held as a whole: distances are computed tile by tile.

    Parameters
    ----------
    systems : sequence of System
        With the same kernel, bag length and normal form; orders may differ.
    others : sequence of System, optional
        By default `systems`; each pair is then computed once.
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value", "sgot"}
        By default "alignment". The two of covariances need systems in the unit-variance form, see `identify`.
    lambda_a, lambda_mu : float or "scale", default=0.25, 0.0
        Weights of the transition and of the mean for "alignment". For covariances `lambda_a`, at most 1, is
        the weight of each lag relative to the lag before. The last three metrics have no weights. With
        "scale", for the unit-variance form, the parts have the same unit: see
        `sysbags.distances.pairwise.scaled_weights`, of `systems`.
    cutoff : float, optional
        Squared distances above it are infinite. Pairs whose lower bound is above it are not aligned.
    random_state : int, Generator or None, default=0
        Seed of the starts of the search for rotations.
    n_jobs : int, optional
        Number of threads; -1 means all cores. The result does not depend on it.
    embedding : StreamEmbedding, optional
        Approximate the kernel, see `cross_gram`; what the embedding loses is estimated, so that near
        duplicates are near.
    exact_nearest : int, default=0
        With an embedding: the distances of each system to so many, those that are nearest in it, are exact.
        With 30 and an embedding of 500 landmarks, 99 % of the ten nearest are found (docs/scale.md). Without
        an embedding all distances are exact anyway.
    out : path or array-like, optional
        Where the distances are written: the path of a .npy file, which is returned as a memory map, or an
        array such as one of Zarr, which is returned. With a path, a call that was interrupted continues when
        it is repeated with the same input; `out` with the suffix .progress says what is finished.
    memory : str or int, optional
        What is held in memory at a time, as "2GB", "500MB" or a number of bytes; by default everything. The
        result does not depend on it.
    client : distributed.Client, optional
        Compute on the cluster of this client; the result does not depend on it.

    Returns
    -------
    (K, L) array
        The squared distance of each of `systems` to each of `others`.

    Raises
    ------
    IncompatibleSystemsError
        If systems have different kernels, bag lengths or normal forms, or a form that the metric does not
        take.
    ParameterError
        If the metric is unknown, or a weight is negative or not finite.

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
    work = tile_work(systems, others, None, embedding, n_jobs, memory, client)
    rows, columns = work.rows.stack, work.columns.stack
    weights = resolve_weights(rows, metric, lambda_a, lambda_mu)
    if check_integer(exact_nearest, "exact_nearest", minimum=0) and out is not None:
        raise ParameterError("exact_nearest needs all distances in memory, so out must be None")
    if not cutoff >= 0.0:
        raise ParameterError(f"cutoff is {cutoff}, but it must be a squared distance, at least 0")
    seed = seed_of(random_state)
    _check_defined(rows, None if work.symmetric else columns, metric, weights)
    parameters = {"metric": metric, "weights": list(weights), "seed": seed, "cutoff": cutoff}
    output = work.output("distances", out, {"": ()}, parameters)
    shared = (work.rows.kernel, metric, weights, seed, cutoff)
    (squared,) = work.compute(_tile_distances, shared, output, "distances")
    if exact_nearest and embedding is not None:
        pairs = work.rows.systems, work.columns.systems, metric, weights, seed
        with use_client(client):
            _replace_nearest(squared, exact_nearest, work.symmetric, n_jobs, pairs)
    return cast(Array, squared)


def _tile_distances(
    tile: tuple[Block, Block, bool],
    kernel: KernelLike,
    metric: str,
    weights: tuple[float, float],
    seed: int,
    cutoff: float,
) -> tuple[Array]:
    gram = tile_gram(tile, kernel, restore=True)
    lambda_a, lambda_mu = weights
    options: dict[str, Any] = {"cutoff": cutoff} if metric == "alignment" else {}
    squared = distance_matrix(
        gram, metric, lambda_a=lambda_a, lambda_mu=lambda_mu, random_state=seed, **options
    )
    squared[squared > cutoff] = np.inf
    return (squared,)


def _replace_nearest(
    squared: Array, count: int, symmetric: bool, n_jobs: int | None, shared: tuple[Any, ...]
) -> None:
    """Replace the smallest distances of each row, and if symmetric of each column, by exact ones."""
    apart = np.where(np.eye(len(squared), dtype=bool), np.inf, squared) if symmetric else squared
    wanted = np.zeros(squared.shape, dtype=bool)
    np.put_along_axis(wanted, np.argsort(apart, axis=1, kind="stable")[:, :count], True, axis=1)
    if symmetric:
        wanted = np.triu(wanted | wanted.T, 1)

    def put(k: int, found: Array) -> None:
        i, columns = rows[k]
        squared[i, columns] = found
        if symmetric:
            squared[columns, i] = found

    rows = [(i, np.flatnonzero(row)) for i, row in enumerate(wanted) if row.any()]
    run(_exact_row, rows, n_jobs, "exact distances", shared=shared, consume=put, remote=True)


def _exact_row(
    row: tuple[int, IntArray],
    systems: Sequence[System],
    others: Sequence[System],
    metric: str,
    weights: tuple[float, float],
    seed: int,
) -> Array:
    """Return the exact distances of a system to some others."""
    place, columns = row
    gram = cross_gram(systems_at(systems, np.array([place])), systems_at(others, columns))
    lambda_a, lambda_mu = weights
    found = distance_matrix(gram, metric, lambda_a=lambda_a, lambda_mu=lambda_mu, random_state=seed)
    return np.asarray(found[0])


def _check_defined(
    rows: SystemStack, columns: SystemStack | None, metric: str, weights: tuple[float, float]
) -> None:
    """Raise the error of a system that a metric is not defined for.

    Before anything else is computed, and with the place of the system in the collection, not in a tile.
    """
    if metric == "alignment":
        return
    one = rows.subset(slice(0, 1))
    for first, second in [(rows, one)] + ([] if columns is None else [(one, columns)]):
        count = len(first.orders), len(second.orders)
        zeros = np.zeros((*count, first.transition.shape[1], second.transition.shape[1]))
        gram = CrossGram(zeros, np.zeros(count), first, second, False)
        distance_matrix(gram, metric, lambda_a=weights[0], lambda_mu=weights[1])


def distance_matrix(
    gram: CrossGram,
    metric: str = "alignment",
    *,
    lambda_a: Weight = 0.25,
    lambda_mu: Weight = 0.0,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    **options: Any,
) -> Array:
    """Return `pairwise_distances` from a CrossGram; other options are those of `alignment_matrix`."""
    entry = METRICS[check_choice(metric, "metric", METRICS)]
    weights = resolve_weights(gram.rows, metric, lambda_a, lambda_mu) if entry.weighted else ()
    if metric == "alignment":
        options["random_state"] = random_state
    squared: Array = load_name(entry.matrix)(gram, *weights, **options, n_jobs=n_jobs)
    return squared


Weight = float | str
SCALE = "scale"
LAG_WEIGHT = 0.9  # of each lag relative to the lag before


def scaled_weights(stack: SystemStack, metric: str = "alignment") -> tuple[float, float]:
    """Return the weights, `lambda_a` and `lambda_mu`, with which the parts of a distance have the same unit.

    In the unit-variance form an observer has the unit of a standard deviation: ``||C||^2`` is the variance of
    the stream. So is ``||mu_1 - mu_2||^2``, while transitions have no unit. With v the average variance of
    the systems and t their average ``||A||^2``, the weights are

    * (v / t, 1) for "alignment": a transition counts as much as an observer, and without transitions the
      distance is that of two Gaussians, the squared 2-Wasserstein distance;
    * (0.9, v) for "covariance", whose distances have the unit of a squared variance;
    * (0.9, 1 / v) for "normalized-covariance", whose distances have no unit.

    The orthonormal form has no units.
    """
    if stack.normal_form != "unit-variance":
        raise IncompatibleSystemsError(
            f'systems are in the {stack.normal_form} form, but the weight "{SCALE}" needs the unit-variance '
            'form: identify or SystemIdentifier with normal_form="unit-variance"'
        )
    variance = float(np.einsum("kii->k", stack.observer_gram).mean())
    if variance <= 0.0:
        raise IncompatibleSystemsError(
            f'all systems have an observer of zeros, but the weight "{SCALE}" needs one with a variance'
        )
    if metric == "alignment":
        squares = float(np.einsum("kij,kij->k", stack.transition, stack.transition).mean())
        return (variance / squares if squares > 0.0 else variance), 1.0
    if metric == "covariance":
        return LAG_WEIGHT, variance
    if metric == "normalized-covariance":
        return LAG_WEIGHT, 1.0 / variance
    raise ParameterError(f"the metric {metric!r} has no weights")


def resolve_weights(
    stack: SystemStack, metric: str, lambda_a: Weight, lambda_mu: Weight
) -> tuple[float, float]:
    """Return weights as numbers, "scale" by `scaled_weights`; metrics without weights ignore them."""
    if not METRICS[check_choice(metric, "metric", METRICS)].weighted:
        return 0.0, 0.0
    given = {"lambda_a": lambda_a, "lambda_mu": lambda_mu}
    for name, weight in given.items():
        if isinstance(weight, str) and weight != SCALE:
            raise ParameterError(
                f'{name} is {weight!r}, but it must be a number that is 0 or more, or "scale"'
            )
    scaled = scaled_weights(stack, metric) if SCALE in (lambda_a, lambda_mu) else (0.0, 0.0)
    first, second = (
        otherwise if isinstance(weight, str) else check_weight(weight, name)
        for (name, weight), otherwise in zip(given.items(), scaled, strict=True)
    )
    return first, second


def classical_scaling(squared: Array, dimensions: int = 2) -> Array:
    """Return points whose distances approximate the given ones: classical multidimensional scaling.

    For (K, K) squared distances the points are (K, dimensions), centered; the entry of largest absolute value
    of each column is positive.

    >>> line = np.array([0.0, 1.0, 5.0])
    >>> classical_scaling((line[:, None] - line) ** 2, 1).round(9).ravel()
    array([-2., -1.,  3.])
    """
    means = squared.mean(axis=0)
    inner = -0.5 * (squared - means - means[:, None] + means.mean())
    values, vectors = np.linalg.eigh(inner)
    count = min(dimensions, len(inner))
    points = np.zeros((len(inner), dimensions))
    points[:, :count] = vectors[:, ::-1][:, :count] * np.sqrt(np.maximum(values[::-1][:count], 0.0))
    largest = points[np.abs(points).argmax(axis=0), np.arange(dimensions)]
    return np.asarray(points * np.where(largest < 0.0, -1.0, 1.0))
