"""How sure a rate is, and whether two methods differ."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, ndtri

from sysbags._common.validation import check_labels
from sysbags.errors import ParameterError
from sysbags.report.results import Rate

__all__ = ["mcnemar", "rate"]

TWO_SIDED = float(ndtri(0.975))


def rate(right: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Rate:
    """Count right items, with Wilson's 95 % interval of their share.

    Items of one group, such as clips of one recording, tend to be right or wrong together, and so tell
    less than as many others would. With `groups` the interval is that of the effective number of items:
    the number of independent ones of which the share would vary as much as it does between groups
    (the cluster-robust variance), never above the number there are. Where all items are right, or all
    wrong, nothing is known of how alike they are, and the groups are taken to be wholly so.

    Parameters
    ----------
    right : (K,) array_like of bool
    groups : (K,) array_like, optional
        What belongs together: sources rather than folds.

    Returns
    -------
    Rate

    Examples
    --------
    >>> print(rate([True] * 81 + [False] * 182))
    30.8 % (25.5 to 36.6)
    >>> print(rate([True] * 4 + [False] * 4))
    50.0 % (21.5 to 78.5)
    >>> print(rate([True] * 4 + [False] * 4, groups=[0, 0, 0, 0, 1, 1, 1, 1]))  # as sure as of two items
    50.0 % (9.5 to 90.5)
    """
    hits = _booleans(right, "right")
    total, share = len(hits), float(hits.mean())
    size = float(total)
    if groups is not None:
        _, codes = check_labels(groups, total, "groups")
        size = _effective_size(hits, codes)
    shrink = TWO_SIDED**2 / size
    centre = (share + shrink / 2.0) / (1.0 + shrink)
    half = np.sqrt(share * (1.0 - share) * shrink + shrink**2 / 4.0) / (1.0 + shrink)
    # Round-off must not keep a share of 0 or 1 out of its own interval.
    low, high = min(max(centre - half, 0.0), share), max(min(centre + half, 1.0), share)
    return Rate(int(hits.sum()), total, float(low), float(high))


def mcnemar(first_right: npt.ArrayLike, second_right: npt.ArrayLike) -> float:
    """McNemar's exact test: could two methods be equally good?

    Only the items that one of them has right and the other wrong tell anything. If both are equally
    good, each such item is a toss of a fair coin.

    Parameters
    ----------
    first_right, second_right : (K,) array_like of bool
        Which of the same items each method has right.

    Returns
    -------
    float
        The two-sided p-value; 1 where the methods never differ.

    Examples
    --------
    >>> mcnemar([True] * 5 + [False], [False] * 5 + [False])
    0.0625
    """
    first, second = _booleans(first_right, "first_right"), _booleans(second_right, "second_right")
    if len(first) != len(second):
        raise ParameterError(
            f"there are {len(first)} and {len(second)} predictions, but both must be of the same clips"
        )
    ahead, behind = int((first & ~second).sum()), int((second & ~first).sum())
    return min(1.0, 2.0 * float(bdtr(min(ahead, behind), ahead + behind, 0.5)))


def _effective_size(hits: npt.NDArray[np.bool_], groups: npt.NDArray[np.int64]) -> float:
    """Number n of independent items with ``p (1 - p) / (n - 1)`` equal to the variance between groups."""
    total, share, sizes = len(hits), hits.mean(), np.bincount(groups)
    if len(sizes) == 1:
        return 1.0
    if share in (0.0, 1.0):
        return float(total**2 / (sizes**2).sum())
    excess = np.bincount(groups, weights=hits - share)
    variance = len(sizes) / (len(sizes) - 1.0) * (excess**2).sum() / total**2
    # Groups of one share each vary not at all, and the number would be infinite.
    spread = share * (1.0 - share)
    return float(total) if variance * (total - 1.0) <= spread else float(1.0 + spread / variance)


def _booleans(values: npt.ArrayLike, name: str) -> npt.NDArray[np.bool_]:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind != "b":
        raise ParameterError(f"{name} must be a sequence of True and False, one for each item")
    return array
