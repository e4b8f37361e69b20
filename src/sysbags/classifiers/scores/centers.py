"""Class centers: the class with the nearest mean or medoid.

A squared distance with weights is `d^2 = (transition and observer, or covariances) + lambda_mu * (mean)`, and
neither the best rotations nor the centers depend on `lambda_mu`. So both terms are kept apart: one pass
serves every `lambda_mu`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_weight, seed_of
from sysbags.classifiers.scores import NO_PREDICTION, ClassScores, finite_distances
from sysbags.distances import METRICS
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.distances.gram import CrossGram, mean_term
from sysbags.distances.pairwise import distance_matrix
from sysbags.errors import ParameterError
from sysbags.means.frechet import mean_gram, mean_of_gram

ITEMS = 256  # that are compared with a mean at a time

Measure = Callable[[IntArray], Array]
Task = tuple[int, int, int]


def center_scores(distances: Array) -> ClassScores:
    """Predict the class of the nearest center from (K, C) distances; a score is minus a distance.

    Examples
    --------
    >>> center_scores(np.array([[3.0, 1.0], [0.5, 2.0]])).codes
    array([1, 0])
    """
    nearest = np.broadcast_to(np.arange(distances.shape[1]), distances.shape)
    return ClassScores(distances.argmin(axis=1), -distances, distances, nearest)


class ClassCenters:
    """Distances of items to centers of classes that were computed without one or two groups.

    Leaving a group out changes the center of a class only where the group has items in it. So a class
    of G groups has ``1 + G + G (G - 1) / 2`` subsets, each with a center of its own, which is computed when
    it is first asked for. Memory is that of the distances that were asked for.

    ``make(members)`` computes the center of some items; it returns a function of items that gives their
    distances to it, (items, terms): a distance is the weighted sum of so many terms.
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


class Centers:
    """The scores of training items by centers of classes without their group, see `center_scores`.

    Parameters
    ----------
    *parts : ClassCenters, sequence of float, float
        The distance is the sum over the parts, such as bags: the terms of the distances to their centers with
        the weights of these terms, divided by a unit.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 5.0, 10.0, 11.0, 13.0])
    >>> between, codes = np.abs(points[:, None] - points), np.array([0, 0, 0, 1, 1, 1])
    >>> Centers((medoid_centers(between, codes, np.arange(6)), (1.0, 0.0), 1.0)).predict()
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(self, *parts: tuple[ClassCenters, Sequence[float], float]) -> None:
        self._parts = parts

    def distances(self, excluding: int | None = None) -> Array:
        """Return the weighted distances to the centers; see `ScorePredictor`."""
        return np.asarray(
            sum(
                1.0 / unit * (centers.distances(excluding) @ np.asarray(weights))
                for centers, weights, unit in self._parts
            )
        )

    def scores(self, excluding: int | None = None) -> Array:
        """Return minus the weighted distances to the centers; see `ScorePredictor`."""
        return -self.distances(excluding)

    def deciding(self) -> None:
        """Return None: the smallest distance decides; see `deciding`."""

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `Predictor`."""
        distances = self.distances(excluding)
        return np.where(np.isfinite(distances.min(axis=1)), distances.argmin(axis=1), NO_PREDICTION)


def metric_centers(
    gram: CrossGram,
    codes: IntArray,
    groups: IntArray,
    metric: str,
    lambda_a: float,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> ClassCenters:
    """Centers by a metric: Frechet means for "alignment", averages of covariances, or medoids.

    The CrossGram is that of one collection with itself. Distances have two terms, of which `lambda_mu` weighs
    the second; that of medoids is 0. Metrics without weights ignore `lambda_a`.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, codes = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> centers = metric_centers(gram, codes, np.arange(8), "martin", 0.0)
    >>> Centers((centers, (1.0, 0.0), 1.0)).predict(excluding=3).shape
    (8,)
    """
    entry = METRICS[check_choice(metric, "metric", METRICS)]
    options: Any = {"random_state": random_state, "n_jobs": n_jobs}
    if metric == "alignment":
        return frechet_centers(gram, codes, groups, lambda_a, **options)
    squared = distance_matrix(gram, metric, lambda_a=lambda_a, lambda_mu=0.0, **options)
    if not entry.averages:
        return medoid_centers(squared, codes, groups)
    normalized = metric == "normalized-covariance"
    return average_centers(squared, mean_term(gram), codes, groups, normalized=normalized)


def medoid_centers(distances: Array, codes: IntArray, groups: IntArray) -> ClassCenters:
    """Centers that are medoids, for distances that have no mean; of two terms, of which the second is 0."""
    between = finite_distances(distances, (len(codes), len(codes)))

    def make(members: IntArray) -> Measure:
        medoid = members[between[np.ix_(members, members)].sum(axis=1).argmin()]
        return lambda items: np.column_stack([between[items, medoid], np.zeros(len(items))])

    return ClassCenters(codes, groups, make, terms=2)


def average_centers(
    distances: Array, means: Array, codes: IntArray, groups: IntArray, *, normalized: bool = False
) -> ClassCenters:
    """Centers that are averages, for squared Euclidean distances; of two terms, as `frechet_centers` has.

    The squared distance to the average of some items is the mean of the squared distances to them, less half
    the mean of the squared distances between them.

    `distances` and `means`, (K, K), are the two terms. If the first is that of vectors of length 1
    (`normalized`), their average is divided by its length.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 5.0, 10.0, 11.0, 13.0])
    >>> between, codes = (points[:, None] - points) ** 2, np.array([0, 0, 0, 1, 1, 1])
    >>> centers = average_centers(between, np.zeros((6, 6)), codes, np.arange(6))
    >>> Centers((centers, (1.0, 0.0), 1.0)).distances()[0].tolist()
    [9.0, 128.44444444444446]
    """
    terms = [finite_distances(term, (len(codes), len(codes))) for term in (distances, means)]

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
