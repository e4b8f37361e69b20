"""Protocols: how well do distances and means tell classes apart?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._parallel import run
from sysbags._starts import seed_of
from sysbags._types import Array, IntArray
from sysbags._validation import check_choice, check_integer
from sysbags.errors import ParameterError
from sysbags.gram import CrossGram
from sysbags.mean import BlockMean, mean_gram, mean_of_gram
from sysbags.pairwise import METRICS, alignment_matrix, distance_matrix

__all__ = ["CLASSIFIERS", "LeaveOneOut", "check_labels", "leave_one_out", "vote"]

CLASSIFIERS = ("nearest-mean", "nearest-system")


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What `leave_one_out` found.

    Attributes
    ----------
    classes : (C,) array
        The labels there are, sorted.
    labels, predictions : (K,) array
        True and predicted label of each item.
    distances : (K, C) array
        Squared distance of each item to each class without it: to its mean or medoid, or to its nearest
        member. Infinite for the own class of an item that is alone in it.
    """

    classes: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    predictions: npt.NDArray[Any]
    distances: Array

    @cached_property
    def accuracy(self) -> float:
        """Share of items that are predicted rightly."""
        return float(np.mean(self.labels == self.predictions))

    @cached_property
    def confusion(self) -> IntArray:
        """Counts, (C, C): rows are true classes, columns predicted ones."""
        table = np.zeros((len(self.classes), len(self.classes)), dtype=np.int64)
        rows, columns = (
            np.searchsorted(self.classes, self.labels),
            np.searchsorted(self.classes, self.predictions),
        )
        np.add.at(table, (rows, columns), 1)
        return table


def leave_one_out(
    gram: CrossGram,
    labels: npt.ArrayLike,
    *,
    classifier: str = "nearest-mean",
    metric: str = "alignment",
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    n_neighbors: int = 1,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> LeaveOneOut:
    """Classify each item by all the others, from one CrossGram and without touching a histogram again.

    "nearest-system" compares an item with every other. "nearest-mean" compares it with one centre a
    class: the Frechet mean for the alignment distance, the medoid for the baselines. The centre of
    the item's own class is worked out without it (warm-started from the mean of all).

    Parameters
    ----------
    gram : CrossGram
        Of one collection with itself, ``cross_gram(systems)``.
    labels : (K,) array_like
    classifier : {"nearest-mean", "nearest-system"}, default="nearest-mean"
    metric : {"alignment", "martin", "max-singular-value"}, default="alignment"
    lambda_a, lambda_mu : float, default=0.25, 0.0
        For "alignment".
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
    if not isinstance(gram, CrossGram):
        raise ParameterError(
            f"gram is of type {type(gram).__name__}, but it must be a CrossGram: cross_gram(systems)"
        )
    if not gram.symmetric:
        raise ParameterError(
            "leave_one_out needs the CrossGram of one collection with itself: cross_gram(systems)"
        )
    classes, codes = check_labels(labels, len(gram.mean))
    check_choice(metric, "metric", METRICS)
    options: dict[str, Any] = {
        "lambda_a": lambda_a,
        "lambda_mu": lambda_mu,
        "random_state": seed_of(random_state),
    }
    if check_choice(classifier, "classifier", CLASSIFIERS) == "nearest-mean" and metric == "alignment":
        distances = _to_means(gram, codes, len(classes), options, n_jobs)
        predicted = distances.argmin(axis=1)
    else:
        between = distance_matrix(gram, metric, n_jobs=n_jobs, **options)
        # Only an item itself is infinitely far away: some baselines give infinity to others too.
        between = np.minimum(between, np.finfo(np.float64).max)
        np.fill_diagonal(between, np.inf)
        if classifier == "nearest-mean":
            distances = _to_medoids(between, codes, len(classes))
            predicted = distances.argmin(axis=1)
        else:
            neighbours = min(check_integer(n_neighbors, "n_neighbors"), len(codes) - 1)
            distances = np.stack([between[:, codes == c].min(axis=1) for c in range(len(classes))], axis=1)
            predicted = vote(between, codes, len(classes), neighbours)
    return LeaveOneOut(classes, classes[codes], classes[predicted], distances)


def check_labels(labels: Any, items: int) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the classes, sorted, and the class index of each item."""
    try:
        array = np.asarray(labels)
        fits = array.shape == (items,)
        classes, codes = np.unique(array, return_inverse=True)
    except (TypeError, ValueError):
        raise ParameterError(
            "labels must be a sequence of one kind, such as words or whole numbers"
        ) from None
    if not fits:
        raise ParameterError(
            f"labels have shape {array.shape}, but there must be one for each of the {items} systems"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ParameterError("labels hold a number that is not finite, but each item needs a class")
    return classes, codes.astype(np.int64)


def vote(distances: Array, codes: IntArray, classes: int, neighbours: int) -> IntArray:
    """Class index that most of the nearest columns have, for each row; ties go to the nearer class."""
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :neighbours]
    votes = np.stack([(codes[nearest] == c).sum(axis=1) for c in range(classes)], axis=1)
    # The first neighbour of a class breaks ties; it is worth less than a vote.
    first = np.full(votes.shape, neighbours)
    for rank in range(neighbours - 1, -1, -1):
        first[np.arange(len(first)), codes[nearest[:, rank]]] = rank
    return np.asarray(np.argmax(votes - first / (neighbours + 1.0), axis=1))


def _to_means(
    gram: CrossGram, codes: IntArray, classes: int, options: dict[str, Any], n_jobs: int | None
) -> Array:
    groups = [np.flatnonzero(codes == c) for c in range(classes)]

    def mean_of(group: IntArray) -> BlockMean:
        return mean_of_gram(gram.subset(group), **options)

    means = run(mean_of, groups, n_jobs, "class means")
    distances = alignment_matrix(mean_gram(gram, groups, means), n_jobs=n_jobs, **options).T.copy()

    def to_own(item: int) -> float:
        group, full = groups[codes[item]], means[codes[item]]
        others = group != item
        if not others.any():
            return float("inf")
        rest = group[others]
        # Where the item alone had the largest order, the mean without it lives in a smaller space.
        warm = gram.rows.orders[rest].max() == len(full.transition)
        start = full.rotations[others] if warm else "medoid"
        mean = mean_of_gram(gram.subset(rest), start=start, **options)
        blocks = mean_gram(gram.subset(rest, [item]), [np.arange(len(rest))], [mean])
        return float(alignment_matrix(blocks, **options)[0, 0])

    items = np.arange(len(codes))
    distances[items, codes] = run(to_own, items.tolist(), n_jobs, "means without one item")
    return distances


def _to_medoids(between: Array, codes: IntArray, classes: int) -> Array:
    """Distances to the medoid of each class without the item itself; the diagonal is infinite."""
    distances = np.full((len(codes), classes), np.inf)
    for c in range(classes):
        group = np.flatnonzero(codes == c)
        inside = between[np.ix_(group, group)]
        np.fill_diagonal(inside, 0.0)
        total = inside.sum(axis=1)
        distances[:, c] = between[:, group[np.argmin(total)]]
        for k, item in enumerate(group):
            rest = np.delete(np.arange(len(group)), k)
            if rest.size:
                centre = rest[np.argmin(total[rest] - inside[rest, k])]
                distances[item, c] = between[item, group[centre]]
    return distances
