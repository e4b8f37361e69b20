"""The nearest items, or the nearest centres of classes, without the own group and one more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from threading import Lock

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.errors import ParameterError

__all__ = ["NO_PREDICTION", "Candidate", "Centres", "Measure", "finite", "neighbours"]

Candidate = Callable[[int | None], IntArray]
Measure = Callable[[IntArray], Array]
Task = tuple[int, IntArray]
NO_PREDICTION = -1  # predicted where nothing is left to compare with; the code of no class


def neighbours(distances: Array, codes: IntArray, groups: IntArray, n_neighbors: int = 1) -> Candidate:
    """Predict the class that most of the nearest items have; ties go to the nearer class.

    Parameters
    ----------
    distances : (K, K) array
        Of items (rows) to items; only their order in a row matters.
    codes, groups : (K,) array of int
        Class and group of each item.
    n_neighbors : int, default=1

    Returns
    -------
    Candidate

    Examples
    --------
    >>> import numpy as np
    >>> places = np.array([0.0, 1.0, 3.0, 10.0, 11.0])
    >>> between = np.abs(places[:, None] - places)
    >>> predict = neighbours(between, np.array([0, 0, 1, 1, 1]), np.arange(5))
    >>> predict(None)
    array([0, 0, 0, 1, 1])
    >>> predict(2)[:2], predict(2)[3:]  # for all but item 2, as if it were not there
    (array([0, 0]), array([1, 1]))
    """
    wanted, classes = check_integer(n_neighbors, "n_neighbors"), int(codes.max()) + 1
    own = groups[:, None] == groups
    # The own group comes last, even after others that are infinitely far away.
    ranked = np.argsort(np.where(own, np.inf, finite(distances, codes)), axis=1, kind="stable")
    allowed = ~np.take_along_axis(own, ranked, axis=1)

    def predict(group: int | None) -> IntArray:
        excluded = 0 if group is None else int((groups == group).sum())
        near, usable = ranked[:, : wanted + excluded], allowed[:, : wanted + excluded]
        if excluded:
            usable = usable & (groups[near] != group)
        if wanted == 1:
            first = usable.argmax(axis=1)[:, None]
            found = codes[np.take_along_axis(near, first, axis=1)]
            return np.where(np.take_along_axis(usable, first, axis=1), found, NO_PREDICTION)[:, 0]
        return _majority(codes[near], usable & (usable.cumsum(axis=1) <= wanted), classes)

    return predict


def finite(distances: Array, codes: IntArray) -> Array:
    """Cut infinite distances, as some baselines have them, to a number that can be summed."""
    square = (len(codes), len(codes))
    if np.shape(distances) != square:
        raise ParameterError(
            f"distances has shape {np.shape(distances)}, but it must be {square}: all items to all items"
        )
    if np.isnan(distances).any():
        raise ParameterError("distances holds NaN, but every distance must be a number or infinite")
    return np.minimum(distances, np.finfo(np.float64).max / (2.0 * len(codes)))


def _majority(codes: IntArray, counted: npt.NDArray[np.bool_], classes: int) -> IntArray:
    """Class of most entries that count, in each row; of equal numbers the one that comes first."""
    rows, width = codes.shape
    kinds = np.where(counted, codes, classes)
    cells = kinds + (classes + 1) * np.arange(rows)[:, None]
    votes = np.bincount(cells.ravel(), minlength=rows * (classes + 1)).reshape(rows, classes + 1)
    # An entry is worth the votes of its class, and a little more the earlier it comes.
    worth = np.take_along_axis(votes, kinds, axis=1) * width - np.arange(width)
    best = np.where(counted, worth, -1).argmax(axis=1)[:, None]
    winners = np.take_along_axis(codes, best, axis=1)
    return np.where(np.take_along_axis(counted, best, axis=1), winners, NO_PREDICTION)[:, 0]


class Centres:
    """Distances of items to centres of classes that were made without one or two groups.

    Leaving a group out changes the centre of a class only where the group has members in it. So a class
    of G groups has ``1 + G + G (G - 1) / 2`` *rests*, each with a centre of its own. The centres that
    leave two groups out are worked out when they are first asked for.

    Parameters
    ----------
    codes, groups : (K,) array of int
        Class and group of each item.
    make : callable
        ``make(members)`` works out the centre of some items; it returns a function of items that gives
        their distances to it, (items, terms).
    terms : int, default=1
        Of which a distance is the weighted sum.
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
        self._make, self._n_jobs, self._lock = make, n_jobs, Lock()
        self._groups, own = np.unique(groups, return_inverse=True)
        classes = int(codes.max()) + 1
        # place[c, g]: which of the groups of class c group g is, 1, 2, ..., or 0 where it has no members.
        self._place = np.zeros((classes, len(self._groups)), dtype=np.int64)
        for c in range(classes):
            present = np.unique(own[codes == c])
            self._place[c, present] = np.arange(1, len(present) + 1)
        self._own = self._place[:, own]
        sizes = self._place.max(axis=1) + 1
        # rest[c, p, q]: which rest is that of class c without its groups p and q; 0 is nobody.
        self._rest = np.zeros((classes, sizes.max(), sizes.max()), dtype=np.int64)
        self._members: list[IntArray] = [np.arange(0)]
        # What is to be measured for None, and what more for a group: a rest and some items.
        self._tasks: tuple[list[Task], list[Task]] = ([], [])
        for c, places in enumerate(self._own):
            for p, q in [(0, 0), *combinations(range(sizes[c]), 2)]:
                rest = np.flatnonzero((codes == c) & (places != p) & (places != q))
                if not rest.size:
                    continue
                number = len(self._members)
                self._rest[c, p, q] = self._rest[c, q, p] = number
                self._members.append(rest)
                # A rest judges items of the groups it is without, or of groups with no part in the class.
                judged = (places == q) if p == 0 else (places == p) | (places == q)
                self._tasks[p > 0].append((number, np.flatnonzero(judged)))
                if p == 0 < q:
                    self._rest[c, q, q] = number
                    self._tasks[1].append((number, np.flatnonzero(places == 0)))
        self._table = np.zeros((len(self._members), len(codes), terms))
        self._table[0, :, 0] = np.inf
        self._kept: dict[int, Measure] = {}
        self._stage = 0

    def distances(self, group: int | None) -> Array:
        """Distances (K, C, terms) to classes without the own group and a further one; infinite to nobody."""
        self._work_out(1 if group is None else 2)
        further = self._own if group is None else self._place[:, np.searchsorted(self._groups, [group])]
        rests = self._rest[np.arange(len(self._rest))[:, None], further, self._own]
        return self._table[rests.T, np.arange(self._own.shape[1])[:, None]]

    def nearest(self, weights: Sequence[float] = (1.0,)) -> Candidate:
        """Predict the class with the nearest centre."""

        def predict(group: int | None) -> IntArray:
            distances = self.distances(group) @ np.asarray(weights)
            return np.where(np.isfinite(distances.min(axis=1)), distances.argmin(axis=1), NO_PREDICTION)

        return predict

    def _work_out(self, stages: int) -> None:
        """Fill the table as far as it is needed, once, whatever threads ask."""
        with self._lock:
            while self._stage < stages:
                run(self._fill, self._tasks[self._stage], self._n_jobs, "centres of classes")
                self._stage += 1

    def _fill(self, task: Task) -> None:
        rest, items = task
        if not items.size:
            return
        measure = self._kept.pop(rest, None) or self._make(self._members[rest])
        self._table[rest, items] = measure(items)
        if self._stage == 0:
            self._kept[rest] = measure
