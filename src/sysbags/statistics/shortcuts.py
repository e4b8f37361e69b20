"""Facts that tell the classes apart although they are not what a classifier should look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_labels
from sysbags.statistics.p_values import holm


class Shortcut(NamedTuple):
    """A fact that predicts the class.

    Attributes
    ----------
    fact : str
    accuracy : float
        Of predictions by this fact alone, without the group of each item; the average over groups.
    chance : float
        The accuracy of always predicting the most frequent class.
    p_value : float
        Corrected for the number of facts.
    """

    fact: str
    accuracy: float
    chance: float
    p_value: float


def find_shortcuts(
    facts: Mapping[str, Sequence[Any]],
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    level: float = 0.05,
) -> list[Shortcut]:
    """Find the facts that predict the class of items better than chance.

    By each fact alone, the class of an item is predicted as the most frequent one among the items of other
    groups with the nearest value, or with the same value for a fact that is no number; ties count in part.
    That the average accuracy of groups is not above that of always predicting the most frequent class is
    tested by the binomial distribution with one trial for each group, whose upper tail is at least as large
    as that of an average of independent shares. P-values are corrected by Holm's method for the number of
    facts that vary. Nothing is random.

    Parameters
    ----------
    facts : mapping of str to sequence
        The values of each fact, one for each item.
    labels : (K,) array_like
    groups : (K,) array_like, optional
        Items that are alike for other reasons, such as clips of one recording; by default each item is alone.
    level : float, default=0.05
        The probability that anything is found where nothing is to be found, at most.

    Returns
    -------
    list of Shortcut
        Those with a p-value of at most the level, in the order of the facts.

    Examples
    --------
    >>> facts = {"width": [640, 640, 640, 640, 320, 320, 320, 320], "frames": [9, 8, 7, 6, 6, 7, 8, 9]}
    >>> [shortcut.fact for shortcut in find_shortcuts(facts, ["rain"] * 4 + ["fire"] * 4)]
    ['width']
    """
    items = len(next(iter(facts.values()), ()))
    classes, codes = check_labels(labels, items)
    units = np.arange(items) if groups is None else check_labels(groups, items, "groups")[1]
    sizes = np.bincount(units)
    chance = float((np.bincount(codes, 1.0 / sizes[units], len(classes)) / len(sizes)).max())
    tested = {name: values for name, values in facts.items() if len(set(values)) > 1}
    right = [
        float(np.sum(_right(values, codes, units, len(classes)) / sizes[units])) for values in tested.values()
    ]
    p_values = holm([float(bdtrc(np.floor(sum_ + 1e-9) - 1.0, len(sizes), chance)) for sum_ in right])
    return [
        Shortcut(name, sum_ / len(sizes), chance, p)
        for name, sum_, p in zip(tested, right, p_values.tolist(), strict=True)
        if p <= level
    ]


def _right(values: Sequence[Any], codes: IntArray, units: IntArray, classes: int) -> Array:
    """Return whether each item is predicted rightly by a value without its group; ties count in part."""
    if all(isinstance(value, (int, float)) for value in values):
        known, places = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)
        apart = np.abs(known[:, None] - known)
    else:
        known, places = np.unique([str(value) for value in values], return_inverse=True)
        apart = 1.0 - np.eye(len(known))
    table = np.zeros((len(known), classes))
    np.add.at(table, (places, codes), 1.0)
    right = np.empty(len(codes))
    for unit in range(int(units.max()) + 1):
        inside = np.flatnonzero(units == unit)
        others = table.copy()
        np.subtract.at(others, (places[inside], codes[inside]), 1.0)
        distances = np.where(others.any(axis=1), apart[places[inside]], np.inf)
        votes = (distances == distances.min(axis=1, keepdims=True)) @ others
        best = votes == votes.max(axis=1, keepdims=True)
        right[inside] = best[np.arange(len(inside)), codes[inside]] / best.sum(axis=1)
    return right
