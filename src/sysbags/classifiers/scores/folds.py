"""Folds of cross-validation in which classes are spread evenly and groups are not divided."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sysbags._common.types import IntArray
from sysbags.errors import ParameterError


def balanced_folds(
    codes: IntArray, groups: npt.NDArray[np.generic], random_state: int, most: int = 10
) -> IntArray | None:
    """Return the fold of each item, of at most so many folds; None if there is a single group.

    Examples
    --------
    >>> balanced_folds(np.array([0, 0, 0, 1, 1, 1]), np.array(["a", "a", "b", "c", "d", "d"]), 0, 2)
    array([0, 0, 1, 0, 1, 1])
    """
    units = np.unique(groups, return_inverse=True)[1]
    count = min(most, int(units.max()) + 1)
    return None if count < 2 else spread(codes, units, count, random_state)


def spread(codes: IntArray, units: IntArray, parts: int, seed: int) -> IntArray:
    """Divide units (numbered 0, 1, ...) into stratified parts of about equal size.

    The units are assigned in turn, large ones first, each to the part where it adds least to ``sum over parts
    and classes of count^2 / size of the class``; the whole set is one more class. For units of one item, no
    two parts differ by more than one item, in a class or in all. `StratifiedGroupKFold` of scikit-learn has
    other parts, with which all results by folds would change, and no such bound.
    """
    codes = np.unique(codes, return_inverse=True)[1]  # a class may have no item here, but in a test set
    counts = np.zeros((units.max() + 1, codes.max() + 2))
    np.add.at(counts, (units, codes), 1.0)
    counts[:, -1] = counts.sum(axis=1)
    if len(counts) < parts:
        raise ParameterError(
            f"there are {len(counts)} groups that must not be split, but {parts} parts need at least as many"
        )
    shuffled = np.random.default_rng(seed).permutation(len(counts))
    # Class by class among units of the same size, in random order within a class.
    order = shuffled[np.lexsort((counts[shuffled, :-1].argmax(axis=1), -counts[shuffled, -1]))]
    part_counts, part_of = np.zeros((parts, counts.shape[1])), np.empty(len(counts), dtype=np.int64)
    for unit in order:
        added = ((2.0 * part_counts + counts[unit]) * counts[unit] / counts.sum(axis=0)).sum(axis=1)
        part_of[unit] = added.argmin()
        part_counts[part_of[unit]] += counts[unit]
    return part_of[units]
