"""Leave-one-out accuracies of distances and means, and the weights with the best of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter

from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels, check_weight
from sysbags.classifiers.registry import CLASSIFIERS
from sysbags.distances.alignment_matrix import mean_term
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.registry import METRICS
from sysbags.errors import ParameterError
from sysbags.evaluate.predictors import (
    DistancePredictor,
    NearestCenter,
    NearestNeighbors,
    average_centers,
    medoid_centers,
)
from sysbags.evaluate.system_predictors import PredictorFamily, alignment_predictors
from sysbags.report.results import LeaveOneOut

__all__ = ["LeaveOneOut", "Weights", "choose_weights", "leave_one_out"]

LAMBDA_A_GRID = (0.0, 0.05, 0.25, 1.0, 4.0)
LAMBDA_MU_GRID = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


def leave_one_out(
    gram: CrossGram,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    classifier: str = "nearest-mean",
    metric: str = "alignment",
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    n_neighbors: int = 1,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> LeaveOneOut:
    """Classify each item by all the others, from one CrossGram and without touching a histogram again.

    "nearest-system" compares an item with every other. "nearest-mean" compares it with one center per
    class: the Frechet mean for the alignment distance, the average for "covariance", the medoid for the other
    metrics. The center of the item's own class is computed without it (`frechet_centers`). With `groups`,
    whole groups are left out: an item is compared with nothing that its own group had a part in.

    Parameters
    ----------
    gram : CrossGram
        Of one collection with itself, ``cross_gram(systems)``.
    labels : (K,) array_like
    groups : (K,) array_like, optional
        What must not be split, such as the recording that a clip was cut from. By default each item
        is a group of its own.
    classifier : {"nearest-mean", "nearest-system"}, default="nearest-mean"
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value"}
        By default "alignment", see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float, default=0.25, 0.0
    n_neighbors : int, default=1
        For "nearest-system".
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    LeaveOneOut

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> def stream(strength):
    ...     waves = np.sin(np.arange(40)[:, None] * [0.5, 0.9, 1.3])
    ...     weights = 1 + strength * waves + 0.1 * rng.random((40, 3))
    ...     return weights / weights.sum(axis=1, keepdims=True)
    >>> systems = [sysbags.identify(stream(s), order=2) for s in (0.2, 0.2, 0.2, 0.9, 0.9, 0.9)]
    >>> result = sysbags.evaluate.leave_one_out(sysbags.cross_gram(systems), list("aaabbb"), lambda_mu=100)
    >>> result.accuracy
    1.0
    >>> result.confusion
    array([[3, 0],
           [0, 3]])
    """
    classes, codes, units = _check_protocol(gram, labels, groups)
    check_choice(metric, "metric", METRICS)
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    neighbors = check_integer(n_neighbors, "n_neighbors")
    family = _predictors(gram, codes, units, classifier, metric, weight, seed_of(random_state), n_jobs)
    return _result(family(weight_mu, neighbors), classes, codes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Weights:
    """What `choose_weights` found.

    Attributes
    ----------
    lambda_a, lambda_mu : float
        The best setting.
    result : LeaveOneOut
        What it reached. Chosen on the same items, so its accuracy flatters a little.
    grid_a, grid_mu : (A,), (M,) array
        What was tried.
    accuracies : (A, M) array
    """

    lambda_a: float
    lambda_mu: float
    result: LeaveOneOut
    grid_a: Array
    grid_mu: Array
    accuracies: Array


def choose_weights(
    gram: CrossGram,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    classifier: str = "nearest-mean",
    lambda_a: npt.ArrayLike = LAMBDA_A_GRID,
    lambda_mu: npt.ArrayLike = LAMBDA_MU_GRID,
    n_neighbors: int = 1,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Weights:
    """Choose the weights of the alignment distance by leave-one-out, from one CrossGram.

    Neither rotations nor means depend on `lambda_mu`, so that only the values of `lambda_a` cost time.
    Of equally good settings the one with the better neighbours on the grid is taken, then the one that is
    nearer to its middle.

    Parameters
    ----------
    gram, labels, groups, classifier, n_neighbors, random_state, n_jobs
        See `leave_one_out`.
    lambda_a, lambda_mu : float or array_like
        What to try, ascending; one number is kept as it is.

    Returns
    -------
    Weights

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> chosen = sysbags.evaluate.choose_weights(gram, labels, lambda_a=[0.25, 1.0], lambda_mu=0.0)
    >>> chosen.lambda_mu, chosen.accuracies.shape
    (0.0, (2, 1))
    """
    classes, codes, units = _check_protocol(gram, labels, groups)
    neighbors = check_integer(n_neighbors, "n_neighbors")
    grid_a, grid_mu = _check_grid(lambda_a, "lambda_a"), _check_grid(lambda_mu, "lambda_mu")
    seed = seed_of(random_state)
    results: list[list[LeaveOneOut]] = []
    for weight in grid_a:
        family = _predictors(gram, codes, units, classifier, "alignment", float(weight), seed, n_jobs)
        results.append([_result(family(float(mu), neighbors), classes, codes) for mu in grid_mu])
    accuracies = np.array([[result.accuracy for result in row] for row in results])
    around = uniform_filter(accuracies, size=3, mode="nearest").round(9)
    rows, columns = np.indices(accuracies.shape) - (np.array(accuracies.shape) - 1)[:, None, None] / 2.0
    order = np.lexsort([keys.ravel() for keys in (np.abs(rows) + np.abs(columns), -around, -accuracies)])
    a, mu = np.unravel_index(order[0], accuracies.shape)
    return Weights(
        lambda_a=float(grid_a[a]),
        lambda_mu=float(grid_mu[mu]),
        result=results[a][mu],
        grid_a=grid_a,
        grid_mu=grid_mu,
        accuracies=accuracies,
    )


def _check_protocol(gram: Any, labels: Any, groups: Any) -> tuple[npt.NDArray[Any], IntArray, IntArray]:
    """Return the classes and the class and group index of each item."""
    if not isinstance(gram, CrossGram):
        raise ParameterError(
            f"gram is of type {type(gram).__name__}, but it must be a CrossGram: cross_gram(systems)"
        )
    if not gram.symmetric:
        raise ParameterError("this needs the CrossGram of one collection with itself: cross_gram(systems)")
    items = len(gram.mean)
    classes, codes = check_labels(labels, items)
    names, units = (np.arange(items),) * 2 if groups is None else check_labels(groups, items, "groups")
    if len(names) < 2:
        raise ParameterError(
            f"there is only one group among {items} items, but leaving it out leaves nothing"
        )
    return classes, codes, units


def _check_grid(values: Any, name: str) -> Array:
    grid = np.array([check_weight(value, name) for value in np.atleast_1d(values).tolist()])
    if not grid.size:
        raise ParameterError(f"{name} is empty, but there must be at least one value to try")
    return grid


def _predictors(
    gram: CrossGram,
    codes: IntArray,
    groups: IntArray,
    classifier: str,
    metric: str,
    lambda_a: float,
    seed: int,
    n_jobs: int | None,
) -> PredictorFamily:
    """Predictors of a classifier and a metric, as a function of `lambda_mu` and of a number of neighbours."""
    by_mean = check_choice(classifier, "classifier", CLASSIFIERS) == "nearest-mean"
    if metric == "alignment":
        kind = "nearest mean" if by_mean else "1-NN"
        return alignment_predictors(gram, codes, groups, kind, lambda_a, random_state=seed, n_jobs=n_jobs)
    without_mean = distance_matrix(gram, metric, lambda_a=lambda_a, n_jobs=n_jobs)
    centers = average_centers if METRICS[metric].averages else medoid_centers

    def family(mu: float, count: int) -> DistancePredictor:
        between = without_mean + mu * mean_term(gram) if METRICS[metric].weighted else without_mean
        if by_mean:
            return NearestCenter(centers(between, codes, groups))
        return NearestNeighbors(between, codes, groups, count)

    return family


def _result(predictor: DistancePredictor, classes: npt.NDArray[Any], codes: IntArray) -> LeaveOneOut:
    return LeaveOneOut(
        classes=classes,
        labels=classes[codes],
        predictions=classes[predictor.predict()],
        distances=predictor.distances(),
    )
