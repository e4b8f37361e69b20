"""Nested selection: for each group the predictor that does best on all other groups.

``predict()`` of a predictor gives the cross-validated predictions. ``predict(excluding=g)`` gives those of
all items outside group g as if g did not exist: by these a predictor is chosen for g.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.classifiers.scores import NO_PREDICTION, Predictor, ScorePredictor, deciding
from sysbags.errors import ParameterError

Candidate = tuple[dict[str, Any], Predictor]  # settings to choose from, and their predictions


def nested_accuracies(
    predictors: Sequence[Predictor],
    codes: IntArray,
    groups: IntArray,
    *,
    wanted: Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Array:
    """Accuracy of each predictor on the items outside each group, without the help of that group, (G, S).

    A predictor chosen for a group by its row has never seen the items of that group, so the predictions of
    the predictors chosen (`nested_predictions`) are those of an honest cross-validation. There is one row
    for each group that is `wanted`, by default for all, in ascending order.

    Examples
    --------
    >>> from sysbags.classifiers.scores.neighbors import Neighbors
    >>> codes, groups = np.array([0, 0, 0, 1, 1, 1]), np.arange(6)
    >>> useless, useful = np.array([0.0, 4.0, 2.0, 1.0, 5.0, 3.0]), np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0])
    >>> pair = [Neighbors(np.abs(p[:, None] - p), codes, groups) for p in (useless, useful)]
    >>> chosen = nested_accuracies(pair, codes, groups).argmax(axis=1)
    >>> chosen, nested_predictions(pair, chosen, groups)
    (array([1, 1, 1, 1, 1, 1]), array([0, 0, 0, 1, 1, 1]))
    """
    if not predictors:
        raise ParameterError("there are no predictors, but there must be at least one to choose")
    names = np.unique(groups) if wanted is None else np.asarray(wanted)
    outside = groups != names[:, None]

    def accuracies(predictor: Predictor) -> Array:
        right = np.stack([predictor.predict(int(group)) for group in names]) == codes
        return np.asarray((right & outside).sum(axis=1) / outside.sum(axis=1))

    return np.stack(run(accuracies, predictors, n_jobs, "nested selection"), axis=1)


def nested_predictions(
    predictors: Sequence[Predictor],
    chosen: IntArray,
    groups: IntArray,
    *,
    wanted: Sequence[int] | None = None,
) -> IntArray:
    """Predict the items of each group by the predictor that was chosen for it; see `nested_accuracies`.

    Items of groups that are not wanted get `NO_PREDICTION`.
    """
    names = np.unique(groups) if wanted is None else np.asarray(wanted)
    predictions = np.full(len(groups), NO_PREDICTION)
    known = {int(k): predictors[k].predict() for k in np.unique(chosen)}
    for name, k in zip(names, chosen, strict=True):
        predictions[groups == name] = known[int(k)][groups == name]
    return predictions


def nested_choice(
    predictors: Sequence[Predictor],
    codes: IntArray,
    groups: IntArray,
    families: Sequence[Hashable] | None = None,
    *,
    wanted: Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> IntArray:
    """Choose a predictor for each group that is wanted, without the help of that group.

    No family is more usual than another, such as the bags that predictors use: the one whose first predictor
    is best is taken, of equals the first, and `one_standard_error_rule` chooses within it. Only predictors of
    families that are taken are asked for more. By default all are in one family; in each, the most usual
    predictor comes first.
    """
    names = np.unique(groups) if wanted is None else np.asarray(wanted)
    members = _members(families, len(predictors))

    def accuracies(indices: Sequence[int], rows: IntArray) -> Array:
        some = [predictors[k] for k in indices]
        return nested_accuracies(some, codes, groups, wanted=names[rows].tolist(), n_jobs=n_jobs)

    taken = np.zeros(len(names), dtype=np.int64)
    if len(members) > 1:
        taken = accuracies([indices[0] for indices in members], np.arange(len(names))).argmax(axis=1)
    chosen = np.empty(len(names), dtype=np.int64)
    for family in np.unique(taken):
        rows, indices = np.flatnonzero(taken == family), members[family]
        outside = np.array([(groups != name).sum() for name in names[rows]])
        chosen[rows] = np.take(indices, one_standard_error_rule(accuracies(indices, rows), outside))
    return chosen


def choose(
    predictors: Sequence[Predictor], codes: IntArray, families: Sequence[Hashable] | None = None
) -> tuple[int, Array]:
    """Choose a predictor by cross-validation, as `nested_choice` does it for each group.

    Also return the accuracies: that of the chosen one is optimistic, as it made the choice, and those of
    families that are not taken are NaN.
    """
    accuracies = np.full(len(predictors), np.nan)

    def measure(indices: Sequence[int]) -> Array:
        accuracies[indices] = [np.mean(predictors[k].predict() == codes) for k in indices]
        return accuracies[indices]

    members = _members(families, len(predictors))
    indices = members[int(measure([family[0] for family in members]).argmax())]
    return indices[one_standard_error_rule(measure(indices)[None], len(codes))[0]], accuracies


def one_standard_error_rule(accuracies: Array, items: int | IntArray) -> IntArray:
    """Choose, in each row, the first predictor within one standard error of the best (Breiman et al., 1984).

    The very best is a poor choice where many are alike: without a group, those settings look best that are
    wrong about it. On wild-scenes it reached 16 %, where each of 35 settings alone has 19 % or more. The
    accuracies, (G, S) as of `nested_accuracies`, are shares of so many items.

    Examples
    --------
    >>> one_standard_error_rule(np.array([[0.70, 0.60, 0.72], [0.50, 0.60, 0.72]]), 100)
    array([0, 2])
    """
    best = accuracies.max(axis=1)
    error = np.sqrt(best * (1.0 - best) / items)
    return np.asarray((accuracies >= (best - error)[:, None]).argmax(axis=1))


def _members(families: Sequence[Hashable] | None, count: int) -> list[list[int]]:
    """Return the indices of the predictors of each family, in the order in which families appear."""
    found: dict[Hashable, list[int]] = {}
    for k, family in enumerate([None] * count if families is None else families):
        found.setdefault(family, []).append(k)
    return list(found.values())


class CodebookFolds:
    """Each item predicted with the codebook that was learnt without its fold.

    Predictor number k is of items described by the codebook learnt without fold k, see
    `sysbags.evaluate.splits.codebook_folds`. No group is in two folds.

    Examples
    --------
    >>> from sysbags.classifiers.scores.neighbors import Neighbors
    >>> points = np.array([[0.0, 1.0, 5.0, 6.0], [0.0, 5.0, 1.0, 6.0], [0.0, 6.0, 1.0, 5.0]])
    >>> codes, groups = np.array([0, 0, 1, 1]), np.arange(4)
    >>> predictors = [Neighbors(np.abs(p[:, None] - p), codes, groups) for p in points]
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
        """Return the distances, if the predictors of all codebooks have them; see `ScorePredictor`."""
        return self._by_fold(lambda predictor: predictor.distances, excluding)

    def deciding(self) -> Array | None:
        """Return what decides, by the predictors of all codebooks; see `deciding`."""
        every = [deciding(predictor) for predictor in cast(Sequence[ScorePredictor], self._predictors)]
        known = [scores for scores in every if scores is not None]
        return None if not known else np.asarray(np.stack(known)[self._folds, np.arange(len(self._folds))])

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
