"""Protocols of cross-validation: the group that each item is left out with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.seeds import seed_of
from sysbags._common.types import IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels
from sysbags.errors import ParameterError

__all__ = ["PROTOCOLS", "codebook_folds", "describe", "protocol_groups"]

PROTOCOLS = ("leave-one-out", "folds", "by-source")


def protocol_groups(
    labels: npt.ArrayLike,
    protocol: str,
    sources: npt.ArrayLike | None = None,
    *,
    folds: int = 10,
    random_state: int | np.random.Generator | None = 0,
) -> IntArray:
    """Return the index of the group that each item is left out with.

    Parameters
    ----------
    labels : (K,) array_like
    protocol : {"leave-one-out", "folds", "by-source"}
        One group per item; `folds` stratified groups of about equal size; or one group per source.
    sources : (K,) array_like, optional
        The source of each item, such as the recording that a clip was cut from. "by-source" needs them;
        "folds" never divides a source between folds.
    folds : int, default=10
    random_state : int, Generator or None, default=0
        For the assignment of items to folds.

    Returns
    -------
    (K,) array of int

    Examples
    --------
    >>> protocol_groups(list("aabb"), "leave-one-out")
    array([0, 1, 2, 3])
    >>> protocol_groups(list("aabb"), "by-source", ["sea", "lake", "lake", "brook"])
    array([2, 1, 1, 0])
    >>> protocol_groups(list("aaaabbbb"), "folds", folds=4).tolist()
    [2, 3, 0, 1, 0, 2, 1, 3]
    """
    check_choice(protocol, "protocol", PROTOCOLS)
    codes = _codes(labels)
    units = np.arange(len(codes))
    if protocol == "leave-one-out":
        return _check_several(units)
    if sources is not None:
        _, units = check_labels(sources, len(codes), "sources")
    elif protocol == "by-source":
        raise ParameterError('the protocol "by-source" needs the source of each item, but there are none')
    if protocol == "by-source":
        return _check_several(units)
    return _spread(codes, units, check_integer(folds, "folds", 2), seed_of(random_state))


def describe(protocol: str, groups: IntArray, sources: npt.ArrayLike | None = None) -> str:
    """Describe what is left out at a time.

    Examples
    --------
    >>> describe("by-source", np.array([0, 0, 1, 2]), list("aabc"))
    'one source left out at a time (3 sources)'
    >>> describe("folds", np.array([0, 0, 1, 1]))
    '2 folds'
    """
    count = len(np.unique(groups))
    if check_choice(protocol, "protocol", PROTOCOLS) == "leave-one-out":
        return f"one clip left out at a time ({count} clips)"
    if protocol == "by-source":
        return f"one source left out at a time ({count} sources)"
    return f"{count} folds" if sources is None else f"{count} folds, no source in two of them"


def codebook_folds(
    labels: npt.ArrayLike, groups: npt.ArrayLike, *, random_state: int | np.random.Generator | None = 0
) -> IntArray:
    """Divide the items into three stratified folds; the codebook of a fold is learnt from the other two.

    The folds have about equal size, and no group is divided between folds.

    Parameters
    ----------
    labels, groups : (K,) array_like
    random_state : int, Generator or None, default=0

    Returns
    -------
    (K,) array of int
        0, 1 or 2.

    Examples
    --------
    >>> codebook_folds(list("aaabbb"), range(6)).tolist()
    [1, 2, 0, 0, 2, 1]
    """
    codes = _codes(labels)
    _, units = check_labels(groups, len(codes), "groups")
    return _spread(codes, units, 3, seed_of(random_state))


def _codes(labels: Any) -> IntArray:
    """Return the class index of each item."""
    items = len(labels) if hasattr(labels, "__len__") else 0
    _, codes = check_labels(labels, items)
    if not items:
        raise ParameterError("there are no labels, but there must be one for each item")
    return codes


def _check_several(groups: IntArray) -> IntArray:
    if groups.max() == 0:
        raise ParameterError("there is only one group of items, but leaving it out leaves nothing")
    return groups


def _spread(codes: IntArray, units: IntArray, parts: int, seed: int) -> IntArray:
    """Divide units (numbered 0, 1, ...) into stratified parts of about equal size.

    The units are assigned in turn, large ones first, each to the part where it adds least to ``sum over parts
    and classes of count^2 / size of the class``; the whole set is one more class. For units of one item, no
    two parts differ by more than one item, in a class or in all.
    """
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
