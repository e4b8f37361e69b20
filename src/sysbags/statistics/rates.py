"""How sure a rate is, whether two methods differ, and how honest a method's confidence is.

Wilson's interval is not SciPy's, which takes whole numbers of items: clips of common sources count less than
one each. McNemar's test is one call of ``scipy.special``, which loads faster than ``scipy.stats``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, ndtri

from sysbags._common.types import IntArray
from sysbags._common.validation import check_integer, check_labels
from sysbags.classifiers.calibration import prediction_sets
from sysbags.errors import ParameterError

LEVELS = (0.8, 0.9, 0.95)
TWO_SIDED = float(ndtri(0.975))


@dataclass(frozen=True)
class Rate:
    """How many clips were predicted correctly, with a 95 % confidence interval of the share."""

    right: int
    total: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of correct predictions: the accuracy."""
        return self.right / self.total

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


def rate(right: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Rate:
    """Count right items, with Wilson's 95 % interval of their share.

    Items of one group, such as clips of one recording, tend to be right or wrong together, and so tell
    less than as many others would. With `groups` the interval is that of the effective number of items:
    the number of independent ones of which the share would vary as much as it does between groups
    (the cluster-robust variance), never above the number there are. Where all items are right, or all
    wrong, nothing is known of how alike they are, and the groups are taken to be wholly so.

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
    """McNemar's exact test: could two methods be equally good? Returns the two-sided p-value.

    Only the items that one of them has right and the other wrong tell anything. If both are equally
    good, each such item is a toss of a fair coin. It is 1 where the methods never differ.
    """
    first, second = _booleans(first_right, "first_right"), _booleans(second_right, "second_right")
    if len(first) != len(second):
        raise ParameterError(
            f"there are {len(first)} and {len(second)} predictions, but both must be of the same clips"
        )
    ahead, behind = int((first & ~second).sum()), int((second & ~first).sum())
    return min(1.0, 2.0 * float(bdtr(min(ahead, behind), ahead + behind, 0.5)))


def reliability(probabilities: npt.ArrayLike, codes: npt.ArrayLike, bins: int = 10) -> list[dict[str, Any]]:
    """Compare the probability of the predicted class with how often it is right, in bins of equal width.

    The class with the largest of the (K, C) probabilities is predicted; none, if all are 0. `codes` are the
    true classes. For each bin that is not empty, which holds its upper end: the average probability
    ("confidence"), the share of correct predictions ("accuracy"), which equals it where probabilities are
    honest, and the number of items.
    """
    shares, true = np.asarray(probabilities, dtype=np.float64), np.asarray(codes)
    if shares.ndim != 2 or true.shape != shares.shape[:1]:
        raise ParameterError(
            f"probabilities and codes have shapes {shares.shape} and {true.shape}, but they must be (K, C) "
            "and (K,): one row and one class for each item"
        )
    largest = shares.max(axis=1)
    right = (shares.argmax(axis=1) == true) & (largest > 0.0)
    edges = np.arange(1, check_integer(bins, "bins")) / bins
    _, places, count = np.unique(
        np.searchsorted(edges, largest, side="left"), return_inverse=True, return_counts=True
    )
    means = [np.bincount(places, weights=values) / count for values in (largest, right)]
    return [
        dict(zip(("confidence", "accuracy", "count"), row, strict=True))
        for row in zip(*(column.tolist() for column in (*means, count)), strict=True)
    ]


def coverage(
    p_values: npt.ArrayLike, codes: npt.ArrayLike, groups: npt.ArrayLike, alpha: float = 0.1
) -> dict[str, float]:
    """Count how often the prediction sets of (K, C) p-values hold the true class, given in `codes`.

    A set holds the classes with a p-value above `alpha`. Returns the share of clips whose set holds their
    class ("clips"), the same with each source of `groups` counted once, which the level is promised for
    ("sources"), the average number of classes in a set ("size"), and the share of sets without any ("empty").
    """
    sets = prediction_sets(np.asarray(p_values), alpha)
    _, units = check_labels(groups, len(sets), "groups")
    covered = sets[np.arange(len(sets)), np.asarray(codes)]
    by_source = np.bincount(units, weights=covered) / np.bincount(units)
    sizes = sets.sum(axis=1)
    return {
        "clips": float(covered.mean()),
        "sources": float(by_source.mean()),
        "size": float(sizes.mean()),
        "empty": float(np.mean(sizes == 0)),
    }


def confidence_summary(
    probabilities: npt.ArrayLike, p_values: npt.ArrayLike, codes: npt.ArrayLike, groups: npt.ArrayLike
) -> dict[str, Any]:
    """Return how honest a method's confidence is, as lists and numbers.

    These are the bins of `reliability`, `coverage` at several levels, and the expected calibration error: the
    average difference of confidence and accuracy over the bins, each with its items (Naeini, Cooper and
    Hauskrecht, 2015).
    """
    bins = reliability(probabilities, codes)
    count = np.array([row["count"] for row in bins])
    differences = np.abs([row["confidence"] - row["accuracy"] for row in bins])
    return {
        "expected_calibration_error": float(differences @ count / count.sum()),
        "reliability": bins,
        "coverage": [
            {"level": level, **coverage(p_values, codes, groups, round(1.0 - level, 12))} for level in LEVELS
        ],
    }


def _effective_size(hits: npt.NDArray[np.bool_], groups: IntArray) -> float:
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
