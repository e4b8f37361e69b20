"""Protocols: what is left out at once, as a group number for each item."""

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
    """Return the number of the group, 0, 1, ..., that each item is left out with.

    Parameters
    ----------
    labels : (K,) array_like
    protocol : {"leave-one-out", "folds", "by-source"}
        Each item is a group of its own; `folds` groups of about equal size that hold each class in equal
        shares; or the items of one source are a group.
    sources : (K,) array_like, optional
        What must not be split, such as the recording that a clip was cut from. "by-source" needs them;
        "folds" keeps each of them in one fold.
    folds : int, default=10
    random_state : int, Generator or None, default=0
        Which items share a fold.

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
        return _several(units)
    if sources is not None:
        _, units = check_labels(sources, len(codes), "sources")
    elif protocol == "by-source":
        raise ParameterError('the protocol "by-source" needs the source of each item, but there are none')
    if protocol == "by-source":
        return _several(units)
    return _spread(codes, units, check_integer(folds, "folds", 2), seed_of(random_state))


def describe(protocol: str, groups: IntArray, sources: npt.ArrayLike | None = None) -> str:
    """Say what is left out, for people.

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
    """Part the items into three: for codebooks, each learnt without the third that is judged by it.

    The parts have about equal size and equal shares of each class, and no group straddles two of them.

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
    """Class index of each item."""
    items = len(labels) if hasattr(labels, "__len__") else 0
    _, codes = check_labels(labels, items)
    if not items:
        raise ParameterError("there are no labels, but there must be one for each item")
    return codes


def _several(groups: IntArray) -> IntArray:
    if groups.max() == 0:
        raise ParameterError("there is only one group of items, but leaving it out leaves nothing")
    return groups


def _spread(codes: IntArray, units: IntArray, parts: int, seed: int) -> IntArray:
    """Part units (numbered 0, 1, ...) so that parts are alike in size and in their shares of classes.

    Large units first, each goes where it adds least to ``sum over parts and classes of count^2 / size of
    the class``, the whole set counting as one more class. Units of one item and one class so end as
    evenly as can be: no two parts differ by more than one item, in a class or in all.
    """
    counts = np.zeros((units.max() + 1, codes.max() + 2))
    np.add.at(counts, (units, codes), 1.0)
    counts[:, -1] = counts.sum(axis=1)
    if len(counts) < parts:
        raise ParameterError(
            f"there are {len(counts)} groups that must not be split, but {parts} parts need at least as many"
        )
    shuffled = np.random.default_rng(seed).permutation(len(counts))
    # Class by class among units of one size; within a class chance decides.
    order = shuffled[np.lexsort((counts[shuffled, :-1].argmax(axis=1), -counts[shuffled, -1]))]
    held, part_of = np.zeros((parts, counts.shape[1])), np.empty(len(counts), dtype=np.int64)
    for unit in order:
        added = ((2.0 * held + counts[unit]) * counts[unit] / counts.sum(axis=0)).sum(axis=1)
        part_of[unit] = added.argmin()
        held[part_of[unit]] += counts[unit]
    return part_of[units]
