"""Nearest neighbours: the class that most of the nearest items have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.classifiers.scores import (
    NO_PREDICTION,
    ClassScores,
    finite_distances,
    nearest_of_each_class,
)


def neighbor_scores(distances: Array, codes: IntArray, classes: int, n_neighbors: int = 1) -> ClassScores:
    """Vote among the nearest training items; a score is minus the distance to the nearest of a class.

    The distances, (K, L), are those of new items to the training items; only their order in a row matters for
    the vote.

    Examples
    --------
    >>> found = neighbor_scores(np.array([[3.0, 1.0, 2.0, 9.0]]), np.array([0, 1, 0, 1]), 2, n_neighbors=3)
    >>> found.codes, found.distances
    (array([0]), array([[2., 1.]]))
    """
    near = np.argsort(distances, axis=1, kind="stable")[:, :n_neighbors]
    to_class, nearest = nearest_of_each_class(distances, codes, classes)
    votes = count_votes(codes[near], classes) if n_neighbors > 1 else None
    return ClassScores(majority_vote(codes[near], classes), -to_class, to_class, nearest, votes)


class Neighbors:
    """The scores of training items by their neighbours outside their group, see `neighbor_scores`.

    The distances, (R, K), are those of some items (`rows`, by default all) to all. The others get
    `NO_PREDICTION`.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 3.0, 10.0, 11.0])
    >>> between, codes = np.abs(points[:, None] - points), np.array([0, 0, 1, 1, 1])
    >>> neighbors = Neighbors(between, codes, np.arange(5))
    >>> neighbors.predict()
    array([0, 0, 0, 1, 1])
    >>> predicted = neighbors.predict(excluding=2)  # for all but item 2, as if it did not exist
    >>> predicted[:2], predicted[3:]
    (array([0, 0]), array([1, 1]))
    """

    def __init__(
        self,
        distances: Array,
        codes: IntArray,
        groups: IntArray,
        n_neighbors: int = 1,
        rows: IntArray | None = None,
    ) -> None:
        self._count = check_integer(n_neighbors, "n_neighbors")
        self._codes, self._groups, self._classes = codes, groups, int(codes.max()) + 1
        self._rows = np.arange(len(codes)) if rows is None else rows
        same_group = groups[self._rows, None] == groups
        # The own group comes last, even after items that are infinitely far away.
        self._distances = np.where(same_group, np.inf, finite_distances(distances, same_group.shape))
        self._ranked = np.argsort(self._distances, axis=1, kind="stable")
        self._allowed = ~np.take_along_axis(same_group, self._ranked, axis=1)

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `Predictor`."""
        excluded = 0 if excluding is None else int((self._groups == excluding).sum())
        near = self._ranked[:, : self._count + excluded]
        allowed = self._allowed[:, : self._count + excluded]
        if excluded:
            allowed = allowed & (self._groups[near] != excluding)
        counted = allowed & (allowed.cumsum(axis=1) <= self._count)
        predicted = np.full(len(self._codes), NO_PREDICTION)
        predicted[self._rows] = majority_vote(self._codes[near], self._classes, counted)
        return predicted

    def distances(self, excluding: int | None = None) -> Array:
        """Return the distances of the rows to the nearest item of each class; see `ScorePredictor`."""
        usable = self._groups != excluding
        return nearest_of_each_class(self._distances, self._codes, self._classes, usable)[0]

    def scores(self, excluding: int | None = None) -> Array:
        """Return minus the distances to the nearest item of each class; see `ScorePredictor`."""
        return -self.distances(excluding)

    def deciding(self) -> Array | None:
        """Return the votes of several neighbours; see `deciding`."""
        if self._count == 1:
            return None
        near, allowed = self._ranked[:, : self._count], self._allowed[:, : self._count]
        return count_votes(self._codes[near], self._classes, allowed)


def count_votes(
    codes_of_nearest: IntArray, classes: int, counted: npt.NDArray[np.bool_] | None = None
) -> Array:
    """Return the votes for each class, (K, C), see `majority_vote`.

    >>> count_votes(np.array([[1, 0, 0], [2, 1, 0]]), 3).tolist()
    [[2.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    rows = len(codes_of_nearest)
    kinds = codes_of_nearest if counted is None else np.where(counted, codes_of_nearest, classes)
    cells = kinds + (classes + 1) * np.arange(rows)[:, None]
    votes = np.bincount(cells.ravel(), minlength=rows * (classes + 1)).reshape(rows, classes + 1)
    return np.asarray(votes[:, :classes], dtype=np.float64)


def majority_vote(
    codes_of_nearest: IntArray, classes: int, counted: npt.NDArray[np.bool_] | None = None
) -> IntArray:
    """Class with most votes among the nearest neighbours; ties go to the class of the nearest of them.

    The neighbours of each item, (K, k), have the nearest first; those that are not `counted` have no vote.
    Where none has a vote, the result is -1.

    Examples
    --------
    >>> import numpy as np
    >>> majority_vote(np.array([[1, 0, 0], [2, 1, 0]]), 3)
    array([0, 2])
    >>> majority_vote(np.array([[1, 0]]), 2, np.array([[False, True]]))
    array([0])
    """
    width = codes_of_nearest.shape[1]
    counted = np.ones(codes_of_nearest.shape, dtype=np.bool_) if counted is None else counted
    votes = count_votes(codes_of_nearest, classes, counted)
    # A neighbour is worth the votes of its class, and a little more the nearer it is.
    worth = np.take_along_axis(votes, codes_of_nearest, axis=1) * width - np.arange(width)
    best = np.where(counted, worth, -1).argmax(axis=1)[:, None]
    winners = np.take_along_axis(codes_of_nearest, best, axis=1)
    return np.where(np.take_along_axis(counted, best, axis=1), winners, NO_PREDICTION)[:, 0]
