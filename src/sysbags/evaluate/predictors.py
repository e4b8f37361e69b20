"""Out-of-group predictions: the class of every item without its own group, and without one more.

Everything that judges a method is built on `Predictor.predict`. ``predict()`` gives the cross-validated
predictions. ``predict(excluding=g)`` gives those of all items outside group g as if g did not exist, so that
nested selection can choose between predictors for g by how they do on the other items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.classifiers.votes import NO_PREDICTION, majority_vote
from sysbags.errors import ParameterError

__all__ = [
    "NO_PREDICTION",
    "ClassCenters",
    "CodebookFolds",
    "DistancePredictor",
    "NearestCenter",
    "NearestNeighbors",
    "Predictor",
    "ScorePredictor",
    "TabulatedPredictor",
    "average_centers",
    "medoid_centers",
    "nearest_distances",
]

Measure = Callable[[IntArray], Array]
Task = tuple[int, int, int]


class Predictor(Protocol):
    """Predicts the class of every item without its own group."""

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item, (K,), from items outside its own group.

        Parameters
        ----------
        excluding : int, optional
            A further group whose items are not used. What is returned for these items themselves has no
            meaning.
        """


class DistancePredictor(Predictor, Protocol):
    """Predicts by distances to classes."""

    def distances(self, excluding: int | None = None) -> Array:
        """Distances of each item to each class, (K, C), without its own group and a further one.

        Infinite to a class of which no item is left.
        """


@runtime_checkable
class ScorePredictor(DistancePredictor, Protocol):
    """Predicts by scores of classes, and can tell how far away these are."""

    def scores(self, excluding: int | None = None) -> Array:
        """Scores of each item for each class, (K, C), without its own group and a further one.

        Larger is better; -inf for a class of which no item is left.
        """


class NearestNeighbors:
    """The class that most of the nearest items have; ties go to the nearest class.

    Parameters
    ----------
    distances : (R, K) array
        Distances of some items to all; only their order in a row matters.
    codes, groups : (K,) array of int
        Class and group of each item.
    n_neighbors : int, default=1
    rows : (R,) array of int, optional
        Which items the rows of `distances` are, by default all. The others get `NO_PREDICTION`.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 3.0, 10.0, 11.0])
    >>> between, codes = np.abs(points[:, None] - points), np.array([0, 0, 1, 1, 1])
    >>> neighbors = NearestNeighbors(between, codes, np.arange(5))
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
        self._codes, self._groups = codes, groups
        self._rows = np.arange(len(codes)) if rows is None else rows
        same_group = groups[self._rows, None] == groups
        # The own group comes last, even after items that are infinitely far away.
        self._distances = np.where(same_group, np.inf, _finite(distances, (len(self._rows), len(codes))))
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
        predicted[self._rows] = majority_vote(self._codes[near], int(self._codes.max()) + 1, counted)
        return predicted

    def distances(self, excluding: int | None = None) -> Array:
        """Return the distances of the rows to the nearest item of each class; see `DistancePredictor`."""
        return nearest_distances(self._distances, self._codes, self._groups != excluding)

    def scores(self, excluding: int | None = None) -> Array:
        """Return minus the distances to the nearest item of each class; see `ScorePredictor`."""
        return -self.distances(excluding)


class ClassCenters:
    """Distances of items to centers of classes that were computed without one or two groups.

    Leaving a group out changes the center of a class only where the group has items in it. So a class
    of G groups has ``1 + G + G (G - 1) / 2`` subsets, each with a center of its own, which is computed when
    it is first asked for. Memory is that of the distances that were asked for.

    Parameters
    ----------
    codes, groups : (K,) array of int
        Class and group of each item.
    make : callable
        ``make(members)`` computes the center of some items; it returns a function of items that gives
        their distances to it, (items, terms).
    terms : int, default=1
        A distance is the weighted sum of so many terms.
    n_jobs : int, optional
        Threads.
    """

    def __init__(
        self,
        codes: IntArray,
        groups: IntArray,
        make: Callable[[IntArray], Measure],
        *,
        terms: int = 1,
        n_jobs: int | None = None,
    ) -> None:
        self._codes, self._make, self._terms, self._n_jobs, self._lock = codes, make, terms, n_jobs, Lock()
        self._groups, group_indices = np.unique(groups, return_inverse=True)
        classes = int(codes.max()) + 1
        # place[c, g]: which of the groups of class c group g is, 1, 2, ..., or 0 where it has no items in c.
        self._place = np.zeros((classes, len(self._groups)), dtype=np.int64)
        for c in range(classes):
            present = np.unique(group_indices[codes == c])
            self._place[c, present] = np.arange(1, len(present) + 1)
        self._item_places = self._place[:, group_indices]
        # rows[c, p]: distances of all items to class c without the own group and its group p; 0 is none.
        self._rows: dict[tuple[int, int], Array] = {}
        self._complete: set[tuple[int, int]] = set()
        self._measures: dict[tuple[int, int], Measure] = {}

    def distances(self, excluding: int | None = None) -> Array:
        """Distances (K, C, terms) to the classes without the own group and a further one.

        Infinite to a class of which no item is left.
        """
        further = np.zeros(len(self._place), dtype=np.int64)
        if excluding is not None:
            further = self._place[:, np.searchsorted(self._groups, excluding)]
        wanted = list(enumerate(further.tolist()))
        with self._lock:  # whatever threads ask, nothing is computed twice
            new = [key for key in wanted if key not in self._complete]
            tasks = [task for key in new for task in self._tasks(*key)]
            if tasks:
                run(self._fill, tasks, self._n_jobs, "centers of classes")
            for c, p in new:
                own = self._item_places[c] == p
                if p > 0:  # as if nothing more were left out
                    self._row(c, p)[own] = self._row(c, 0)[own]
                self._complete.add((c, p))
        return np.stack([self._rows[key] for key in wanted], axis=1)

    def _row(self, c: int, p: int) -> Array:
        return self._rows.setdefault((c, p), np.full((len(self._codes), self._terms), np.nan))

    def _tasks(self, c: int, p: int) -> list[Task]:
        """Return the groups q of class c such that distances to it without p and q are not known."""
        places, row = self._item_places[c], self._row(c, p)[:, 0]
        if p > 0:
            row = np.where(places == p, self._row(c, 0)[:, 0], row)
        missing = np.unique(places[np.isnan(row)]).tolist()
        return [(c, p, q) for q in dict.fromkeys(0 if q == p else q for q in missing)]

    def _fill(self, task: Task) -> None:
        """Measure the distances to class c without its groups p and q that are asked for."""
        c, p, q = task
        places = self._item_places[c]
        cells = [(self._row(c, p), places == q)]
        if p > 0:  # the center is needed for the items of both groups
            cells.append((self._row(c, q), places == p))
        cells = [(row, np.flatnonzero(where & np.isnan(row[:, 0]))) for row, where in cells]
        items = np.concatenate([asked for _, asked in cells])
        members = np.flatnonzero((self._codes == c) & (places != p) & (places != q))
        found = np.zeros((len(items), self._terms))
        if members.size:
            single = (c, max(p, q)) if min(p, q) == 0 else None
            measure = self._measures.get(single) if single else None
            measure = measure or self._make(members)
            if single:  # these will be asked for other items; of pairs there are too many to keep all
                self._measures[single] = measure
            found = measure(items)
        else:
            found[:, 0] = np.inf
        for (row, asked), values in zip(cells, np.split(found, [len(cells[0][1])]), strict=False):
            row[asked] = values


class NearestCenter:
    """The class with the nearest center, for given weights of the terms of its distance."""

    def __init__(self, centers: ClassCenters, weights: Sequence[float] = (1.0,)) -> None:
        self._centers, self._weights = centers, np.asarray(weights)

    def distances(self, excluding: int | None = None) -> Array:
        """Return the weighted distances to the centers; see `DistancePredictor`."""
        return np.asarray(self._centers.distances(excluding) @ self._weights)

    def scores(self, excluding: int | None = None) -> Array:
        """Return minus the weighted distances to the centers; see `ScorePredictor`."""
        return -self.distances(excluding)

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `Predictor`."""
        return _smallest(self.distances(excluding))


class SmallestSum:
    """The class with the smallest weighted sum of the distances of several predictors, such as of bags."""

    def __init__(self, parts: Sequence[tuple[float, DistancePredictor]]) -> None:
        self._parts = list(parts)

    def distances(self, excluding: int | None = None) -> Array:
        """Return the weighted sums of the distances; see `DistancePredictor`."""
        return np.asarray(sum(weight * part.distances(excluding) for weight, part in self._parts))

    def scores(self, excluding: int | None = None) -> Array:
        """Return minus the weighted sums of the distances; see `ScorePredictor`."""
        return -self.distances(excluding)

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `Predictor`."""
        return _smallest(self.distances(excluding))


def medoid_centers(distances: Array, codes: IntArray, groups: IntArray) -> ClassCenters:
    """Centers that are medoids, for distances that have no mean.

    Parameters
    ----------
    distances : (K, K) array
        Distances between all items.
    codes, groups : (K,) array of int
        Class and group of each item.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 5.0, 10.0, 11.0, 13.0])
    >>> between, codes = np.abs(points[:, None] - points), np.array([0, 0, 0, 1, 1, 1])
    >>> NearestCenter(medoid_centers(between, codes, np.arange(6))).predict()
    array([0, 0, 0, 1, 1, 1])
    """
    between = _finite(distances, (len(codes), len(codes)))

    def make(members: IntArray) -> Measure:
        medoid = members[between[np.ix_(members, members)].sum(axis=1).argmin()]
        return lambda items: between[items, medoid, None]

    return ClassCenters(codes, groups, make)


def average_centers(
    distances: Array, means: Array, codes: IntArray, groups: IntArray, *, normalized: bool = False
) -> ClassCenters:
    """Centers that are averages, for squared Euclidean distances; of two terms, as `frechet_centers` has.

    The squared distance to the average of some items is the mean of the squared distances to them, less half
    the mean of the squared distances between them.

    Parameters
    ----------
    distances, means : (K, K) array
        The two terms of the squared distances between all items.
    codes, groups : (K,) array of int
        Class and group of each item.
    normalized : bool, default=False
        Whether the first term is that of vectors of length 1: then their average is divided by its length.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 5.0, 10.0, 11.0, 13.0])
    >>> between, codes = (points[:, None] - points) ** 2, np.array([0, 0, 0, 1, 1, 1])
    >>> centers = average_centers(between, np.zeros((6, 6)), codes, np.arange(6))
    >>> NearestCenter(centers, (1.0, 0.0)).distances()[0].tolist()
    [9.0, 128.44444444444446]
    """
    terms = [_finite(term, (len(codes), len(codes))) for term in (distances, means)]

    def make(members: IntArray) -> Measure:
        within = [0.5 * term[np.ix_(members, members)].mean() for term in terms]

        def measure(items: IntArray) -> Array:
            to_members = [term[np.ix_(items, members)].mean(axis=1) for term in terms]
            columns = [mean - half for mean, half in zip(to_members, within, strict=True)]
            if normalized:
                # Of vectors of length 1: 1 - to_members / 2 is the inner product with their average, whose
                # squared length is 1 - within.
                length = np.sqrt(max(1.0 - within[0], np.finfo(float).tiny))
                columns[0] = 2.0 - (2.0 - to_members[0]) / length
            return np.column_stack(columns)

        return measure

    return ClassCenters(codes, groups, make, terms=2)


class CodebookFolds:
    """Each item predicted with the codebook that was learnt without its fold.

    Parameters
    ----------
    predictors : sequence of Predictor
        Number k is of items described by the codebook learnt without fold k.
    folds : (K,) array of int
        0, 1, ...; see `sysbags.evaluate.splits.codebook_folds`.
    groups : (K,) array of int
        None of them is in two folds.

    Examples
    --------
    >>> points = np.array([[0.0, 1.0, 5.0, 6.0], [0.0, 5.0, 1.0, 6.0], [0.0, 6.0, 1.0, 5.0]])
    >>> codes, groups = np.array([0, 0, 1, 1]), np.arange(4)
    >>> predictors = [NearestNeighbors(np.abs(p[:, None] - p), codes, groups) for p in points]
    >>> CodebookFolds(predictors, np.array([0, 0, 1, 2]), groups).predict()
    array([0, 0, 0, 0])
    """

    def __init__(self, predictors: Sequence[Predictor], folds: IntArray, groups: IntArray) -> None:
        if len(predictors) != folds.max() + 1:
            raise ParameterError(
                f"there are {len(predictors)} predictors, but there must be one for each codebook fold"
            )
        self._predictors, self._folds = predictors, folds
        self._fold_of = {int(group): np.unique(folds[groups == group]) for group in np.unique(groups)}
        for group, group_folds in self._fold_of.items():
            if len(group_folds) > 1:
                raise ParameterError(f"group {group} is in two codebook folds, but each group must be in one")

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `Predictor`.

        With a group excluded, all items are predicted with the codebook of that group's fold, which has
        not seen the group.
        """
        if excluding is not None:
            return self._predictors[int(self._fold_of[excluding][0])].predict(excluding)
        return np.choose(self._folds, [predictor.predict() for predictor in self._predictors])

    def scores(self, excluding: int | None = None) -> Array:
        """Return the scores, if the predictors of all codebooks have them; see `ScorePredictor`."""
        return self._by_fold(lambda predictor: predictor.scores, excluding)

    def distances(self, excluding: int | None = None) -> Array:
        """Return the distances, if the predictors of all codebooks have them; see `DistancePredictor`."""
        return self._by_fold(lambda predictor: predictor.distances, excluding)

    def _by_fold(
        self, of: Callable[[ScorePredictor], Callable[[int | None], Array]], excluding: int | None
    ) -> Array:
        predictors = cast(Sequence[ScorePredictor], self._predictors)
        if excluding is not None:
            return of(predictors[int(self._fold_of[excluding][0])])(excluding)
        every = np.stack([of(predictor)(None) for predictor in predictors])
        return np.asarray(every[self._folds, np.arange(len(self._folds))])


class TabulatedPredictor:
    """The predictions of another predictor for every group, so that the other need not be kept."""

    def __init__(self, predictor: Predictor, groups: IntArray) -> None:
        names = np.unique(groups).tolist()
        self._place = {None: len(names)} | {group: k for k, group in enumerate(names)}
        self._table = np.stack([predictor.predict(group) for group in [*names, None]]).astype(np.int16)

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `Predictor`."""
        return self._table[self._place[excluding]].astype(np.int64)


def _smallest(distances: Array) -> IntArray:
    """Return the class with the smallest distance, `NO_PREDICTION` where all are infinite."""
    return np.where(np.isfinite(distances.min(axis=1)), distances.argmin(axis=1), NO_PREDICTION)


def nearest_distances(distances: Array, codes: IntArray, usable: npt.NDArray[np.bool_]) -> Array:
    """Return the distances to the nearest usable item of each class, (K, C)."""
    classes = range(int(codes.max()) + 1)
    return np.stack(
        [distances[:, (codes == c) & usable].min(axis=1, initial=np.inf) for c in classes], axis=1
    )


def _finite(distances: npt.ArrayLike, shape: tuple[int, int]) -> Array:
    """Cut infinite distances, as some metrics have them, to a number that can be summed."""
    array = np.asarray(distances)
    if array.shape != shape:
        raise ParameterError(f"distances has shape {array.shape}, but it must be {shape}")
    if np.isnan(array).any():
        raise ParameterError("distances holds NaN, but every distance must be a number or infinite")
    return np.asarray(np.minimum(array, np.finfo(np.float64).max / (2.0 * shape[1])))
