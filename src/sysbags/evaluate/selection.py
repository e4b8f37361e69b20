"""Nested selection: for each group the predictor that does best on all other groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.errors import ParameterError
from sysbags.evaluate.predictors import NO_PREDICTION, Predictor

__all__ = ["choose", "nested_accuracies", "nested_predictions", "one_standard_error_rule"]


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


def choose(
    predictors: Sequence[Predictor], codes: IntArray, families: Sequence[Hashable] | None = None
) -> tuple[int, Array]:
    """Choose a predictor by cross-validation, as nested selection does it for each group.

    Parameters
    ----------
    predictors : sequence of Predictor
    codes : (K,) array of int
        The class of each item.
    families : sequence, optional
        See `one_standard_error_rule`.

    Returns
    -------
    chosen : int
        See `one_standard_error_rule`.
    accuracies : (S,) array
        Of all predictors; that of the chosen one is optimistic, as it made the choice.
    """
    accuracies = np.array([np.mean(predictor.predict() == codes) for predictor in predictors])
    return int(one_standard_error_rule(accuracies[None], len(codes), families)[0]), accuracies


def one_standard_error_rule(
    accuracies: Array, items: int, families: Sequence[Hashable] | None = None
) -> IntArray:
    """Choose, in each row, the first predictor within one standard error of the best (Breiman et al., 1984).

    The very best is a poor choice where many are alike: without a group, those settings look best that are
    wrong about it. On wild-scenes it reached 16 %, where each of 35 settings alone has 19 % or more.

    Parameters
    ----------
    accuracies : (G, S) array
        See `nested_accuracies`.
    items : int
        How many items they are shares of, about.
    families : sequence, optional
        The family of each predictor, such as the bags that it uses. No family is more usual than another: the
        one whose first predictor is best is taken, of equals the first, and the rule chooses within it.

    Examples
    --------
    >>> one_standard_error_rule(np.array([[0.70, 0.60, 0.72], [0.50, 0.60, 0.72]]), 100)
    array([0, 2])
    >>> one_standard_error_rule(np.array([[0.70, 0.71, 0.72, 0.74]]), 100, ["lbp", "lbp", "flow", "flow"])
    array([2])
    """
    names: list[Hashable] = [None] * accuracies.shape[1] if families is None else list(families)
    firsts = list({name: names.index(name) for name in names}.values())
    best_first = np.take(firsts, accuracies[:, firsts].argmax(axis=1))
    allowed = np.array([[name == names[first] for name in names] for first in best_first])
    best = np.where(allowed, accuracies, -np.inf).max(axis=1, keepdims=True)
    error = np.sqrt(best * (1.0 - best) / items)
    return np.asarray((allowed & (accuracies >= best - error)).argmax(axis=1))
