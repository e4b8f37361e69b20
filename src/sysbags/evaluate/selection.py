"""Nested selection: for each group the predictor that does best on all other groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.errors import ParameterError
from sysbags.evaluate.predictors import NO_PREDICTION, Predictor

__all__ = [
    "choose",
    "nested_accuracies",
    "nested_choice",
    "nested_predictions",
    "one_standard_error_rule",
]


def nested_accuracies(
    predictors: Sequence[Predictor],
    codes: IntArray,
    groups: IntArray,
    *,
    wanted: Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> Array:
    """Accuracy of each predictor on the items outside each group, without the help of that group.

    A predictor chosen for a group by its row has never seen the items of that group, so the predictions of
    the predictors chosen (`nested_predictions`) are those of an honest cross-validation.

    Parameters
    ----------
    predictors : sequence of Predictor
    codes, groups : (K,) array of int
        Class and group of each item.
    wanted : sequence of int, optional
        The groups to choose for, by default all, in ascending order.
    n_jobs : int, optional
        Threads, over predictors; the result does not depend on it.

    Returns
    -------
    (G, S) array
        One row per group that is wanted.

    Examples
    --------
    >>> from sysbags.evaluate.predictors import NearestNeighbors
    >>> codes, groups = np.array([0, 0, 0, 1, 1, 1]), np.arange(6)
    >>> useless, useful = np.array([0.0, 4.0, 2.0, 1.0, 5.0, 3.0]), np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0])
    >>> pair = [NearestNeighbors(np.abs(p[:, None] - p), codes, groups) for p in (useless, useful)]
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
    """Choose a predictor for each group, without the help of that group.

    No family is more usual than another, such as the bags that predictors use: the one whose first predictor
    is best is taken, of equals the first, and `one_standard_error_rule` chooses within it. Only predictors of
    families that are taken are asked for more.

    Parameters
    ----------
    predictors : sequence of Predictor
        The most usual first, in each family.
    codes, groups : (K,) array of int
    families : sequence, optional
        The family of each predictor; by default all are in one.
    wanted, n_jobs : optional
        See `nested_accuracies`.

    Returns
    -------
    (G,) array of int
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

    Returns
    -------
    chosen : int
    accuracies : (S,) array
        That of the chosen one is optimistic, as it made the choice. NaN for those of families not taken.
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
    wrong about it. On wild-scenes it reached 16 %, where each of 35 settings alone has 19 % or more.

    Parameters
    ----------
    accuracies : (G, S) array
        See `nested_accuracies`.
    items : int or (G,) array of int
        How many items they are shares of.

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
