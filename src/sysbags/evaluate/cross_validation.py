"""Leave-one-out accuracies of distances and means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels, check_weight
from sysbags.classifiers.scores import ScorePredictor
from sysbags.classifiers.scores.centers import Centers, metric_centers
from sysbags.classifiers.scores.neighbors import Neighbors
from sysbags.distances import METRICS
from sysbags.distances.gram import CrossGram, mean_term
from sysbags.distances.pairwise import distance_matrix
from sysbags.errors import ParameterError
from sysbags.evaluate.results import LeaveOneOut

# Those that need nothing but distances, and so take every metric.
DISTANCE_CLASSIFIERS = ("nearest-system", "nearest-mean")


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
    class: the Frechet mean for the alignment distance, the average for the metrics of covariances, the medoid
    for the others. The center of the item's own class is computed without it. With `groups`, whole groups are
    left out: an item is compared with nothing that its own group had a part in.

    Parameters
    ----------
    gram : CrossGram
        Of one collection with itself, ``cross_gram(systems)``.
    labels : (K,) array_like
    groups : (K,) array_like, optional
        What must not be split, such as the recording that a clip was cut from. By default each item
        is a group of its own.
    classifier : {"nearest-mean", "nearest-system"}, default="nearest-mean"
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value", "sgot"}
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
    predictor = metric_predictors(
        gram, codes, units, classifier, metric, weight, random_state=random_state, n_jobs=n_jobs
    )(weight_mu, neighbors)
    return LeaveOneOut(
        classes=classes,
        labels=classes[codes],
        predictions=classes[predictor.predict()],
        distances=predictor.distances(),
    )


def metric_predictors(
    gram: CrossGram,
    codes: IntArray,
    groups: IntArray,
    classifier: str,
    metric: str,
    lambda_a: float,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Callable[[float, int], ScorePredictor]:
    """Return predictors by a metric, as a function of `lambda_mu` and of a number of neighbours.

    One pass serves every `lambda_mu`. Metrics without weights ignore them; means ignore the number of
    neighbours.
    """
    options: Any = {"random_state": random_state, "n_jobs": n_jobs}
    if check_choice(classifier, "classifier", DISTANCE_CLASSIFIERS) == "nearest-mean":
        centers = metric_centers(gram, codes, groups, metric, lambda_a, **options)
        return lambda mu, count: Centers((centers, (1.0, check_weight(mu, "lambda_mu")), 1.0))
    squared = distance_matrix(gram, metric, lambda_a=lambda_a, **options)
    means = mean_term(gram) if METRICS[metric].weighted else np.zeros_like(squared)
    return lambda mu, count: Neighbors(squared + mu * means, codes, groups, count)


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
