"""Predictors of systems, from a CrossGram: by neighbours and by class means, for every weight of the mean.

A squared distance with weights is `d^2 = (transition and observer, or covariances) + lambda_mu * (mean)`, and
neither the best rotations nor the means depend on `lambda_mu`. So both terms are kept apart: one pass serves
every `lambda_mu`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_weight, seed_of
from sysbags.distances import METRICS
from sysbags.distances.alignment_matrix import alignment_matrix, mean_term
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import distance_matrix
from sysbags.errors import ParameterError
from sysbags.evaluate.predictors import (
    ClassCenters,
    DistancePredictor,
    NearestCenter,
    NearestNeighbors,
    average_centers,
    medoid_centers,
)
from sysbags.means.frechet import mean_gram, mean_of_gram

__all__ = ["SYSTEM_CLASSIFIERS", "PredictorFamily", "frechet_centers", "metric_predictors"]

SYSTEM_CLASSIFIERS = ("nearest mean", "1-NN")

ITEMS = 256  # that are compared with a mean at a time

PredictorFamily = Callable[[float, int], DistancePredictor]


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
) -> PredictorFamily:
    """Predictors by a metric, as a function of `lambda_mu` and of a number of neighbours.

    Parameters
    ----------
    gram : CrossGram
        Of one collection with itself.
    codes, groups : (K,) array of int
        Class and group of each item.
    classifier : {"nearest mean", "1-NN"}
        Of the first the number of neighbours is ignored. Its centers are Frechet means for "alignment",
        averages for the metrics of covariances, and medoids for metrics without weights.
    metric : str
        One of `sysbags.distances.METRICS`.
    lambda_a : float
        Ignored, as `lambda_mu` is, by metrics without weights.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, codes = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> neighbors = metric_predictors(gram, codes, np.arange(8), "1-NN", "alignment", lambda_a=0.25)
    >>> neighbors(0.0, 1).predict().shape, neighbors(10.0, 3).predict(excluding=3).shape
    ((8,), (8,))
    """
    entry = METRICS[check_choice(metric, "metric", METRICS)]
    by_mean = check_choice(classifier, "classifier", SYSTEM_CLASSIFIERS) == "nearest mean"
    if by_mean and metric == "alignment":
        centers = frechet_centers(gram, codes, groups, lambda_a, random_state=random_state, n_jobs=n_jobs)
        return lambda mu, count: NearestCenter(centers, (1.0, check_weight(mu, "lambda_mu")))
    without_mean = distance_matrix(
        gram, metric, lambda_a=lambda_a, lambda_mu=0.0, random_state=random_state, n_jobs=n_jobs
    )
    means = mean_term(gram) if entry.weighted else np.zeros_like(without_mean)
    if not by_mean:
        return lambda mu, count: NearestNeighbors(without_mean + mu * means, codes, groups, count)
    if entry.averages:
        normalized = metric == "normalized-covariance"
        averages = average_centers(without_mean, means, codes, groups, normalized=normalized)
        return lambda mu, count: NearestCenter(averages, (1.0, check_weight(mu, "lambda_mu")))
    medoids = medoid_centers(without_mean, codes, groups)
    return lambda mu, count: NearestCenter(medoids)


def frechet_centers(
    gram: CrossGram,
    codes: IntArray,
    groups: IntArray,
    lambda_a: float,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> ClassCenters:
    """Centers that are Frechet means; distances have two terms, of which `lambda_mu` weighs the second.

    Every mean starts from the medoid of its own members, so that nothing of what is left out has a part in
    it: means have many local minima, and one that had seen an item would lean towards it.

    Parameters
    ----------
    gram : CrossGram
        Of one collection with itself.
    codes, groups : (K,) array of int
        Class and group of each item.
    lambda_a : float
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.
    """
    if not gram.symmetric:
        raise ParameterError("means need the CrossGram of one collection with itself: cross_gram(systems)")
    weight, seed = check_weight(lambda_a, "lambda_a"), seed_of(random_state)
    between = np.zeros(gram.mean.shape)
    for c in np.unique(codes):
        class_members = np.flatnonzero(codes == c)
        between[np.ix_(class_members, class_members)] = alignment_matrix(
            gram.subset(class_members), weight, random_state=seed, n_jobs=n_jobs
        )

    def make(members: IntArray) -> Callable[[IntArray], Array]:
        medoid = int(between[np.ix_(members, members)].sum(axis=1).argmin())
        mean = mean_of_gram(gram.subset(members), weight, start=medoid, random_state=seed)

        def measure(items: IntArray) -> Array:
            parts = []
            # In parts, so that few of the blocks are copied at a time.
            for some in np.split(items, range(ITEMS, len(items), ITEMS)):
                blocks = mean_gram(gram.subset(members, some), [slice(None)], [mean])
                aligned = alignment_matrix(blocks, weight, random_state=seed)
                parts.append(np.column_stack([aligned[0], mean_term(blocks)[0]]))
            return np.concatenate(parts)

        return measure

    return ClassCenters(codes, groups, make, terms=2, n_jobs=n_jobs)
