"""How sure a rate is, whether two methods differ, and how honest a method's confidence is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, ndtri

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_labels
from sysbags.classifiers.calibration import prediction_sets
from sysbags.errors import ParameterError
from sysbags.report.results import Confidence, Rate

__all__ = [
    "Coverage",
    "Reliability",
    "confidence_summary",
    "coverage",
    "expected_calibration_error",
    "mcnemar",
    "rate",
    "reliability",
]

LEVELS = (0.8, 0.9, 0.95)
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


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of a reliability diagram: where probabilities are honest, `accuracy` equals `confidence`.

    Attributes
    ----------
    confidence, accuracy : (B,) array
        Average probability of the predicted class, and share of correct predictions; NaN in empty bins.
    count : (B,) array of int
    """

    confidence: Array
    accuracy: Array
    count: IntArray


def reliability(probabilities: npt.ArrayLike, codes: npt.ArrayLike, bins: int = 10) -> Reliability:
    """Compare the probability of the predicted class with how often it is right, in bins of equal width.

    Parameters
    ----------
    probabilities : (K, C) array_like
        The class with the largest is predicted; none, if all are 0.
    codes : (K,) array_like of int
        The true classes.
    bins : int, default=10
        Each holds its upper end.

    Examples
    --------
    >>> found = reliability([[0.6, 0.4], [0.3, 0.7], [0.9, 0.1], [0.8, 0.2]], [0, 0, 0, 0], bins=2)
    >>> found.count, found.confidence.round(3), found.accuracy
    (array([0, 4]), array([ nan, 0.75]), array([ nan, 0.75]))
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
    places = np.searchsorted(edges, largest, side="left")
    count = np.bincount(places, minlength=bins)
    confidence, accuracy = (
        np.divide(
            np.bincount(places, weights=values, minlength=bins), count, np.full(bins, np.nan), where=count > 0
        )
        for values in (largest, right)
    )
    return Reliability(confidence, accuracy, count)


def expected_calibration_error(probabilities: npt.ArrayLike, codes: npt.ArrayLike, bins: int = 10) -> float:
    """Return the average difference of confidence and accuracy over the bins of `reliability`.

    Each bin counts with its items (Naeini, Cooper and Hauskrecht, 2015). It is 0 if the predicted class is
    right as often as its probability says.

    Examples
    --------
    >>> expected_calibration_error([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.5, 0.5]], [0, 1, 0, 1])
    0.25
    """
    found = reliability(probabilities, codes, bins)
    filled = found.count > 0
    differences = np.abs(found.confidence - found.accuracy)[filled]
    return float(differences @ found.count[filled] / found.count.sum())


@dataclass(frozen=True)
class Coverage:
    """How prediction sets did.

    Attributes
    ----------
    clips : float
        Share of clips whose set holds their class.
    sources : float
        The same with each source counted once: the average over sources, which the level is promised for.
    size : float
        Average number of classes in a set.
    empty : float
        Share of sets without any class.
    """

    clips: float
    sources: float
    size: float
    empty: float


def coverage(
    p_values: npt.ArrayLike, codes: npt.ArrayLike, groups: npt.ArrayLike | None = None, alpha: float = 0.1
) -> Coverage:
    """Count how often the prediction sets of some p-values hold the true class.

    Parameters
    ----------
    p_values : (K, C) array_like
        The set of an item holds the classes with a p-value above `alpha`.
    codes : (K,) array_like of int
        The true classes.
    groups : (K,) array_like, optional
        Sources; by default each item is one.
    alpha : float, default=0.1

    Examples
    --------
    >>> coverage([[0.9, 0.2], [0.3, 0.05], [0.02, 0.04]], [0, 1, 1], ["sea", "lake", "lake"])
    Coverage(clips=0.3333333333333333, sources=0.5, size=1.0, empty=0.3333333333333333)
    """
    sets = prediction_sets(np.asarray(p_values), alpha)
    items = len(sets)
    _, units = check_labels(np.arange(items) if groups is None else groups, items, "groups")
    covered = sets[np.arange(items), np.asarray(codes)]
    by_source = np.bincount(units, weights=covered) / np.bincount(units)
    sizes = sets.sum(axis=1)
    return Coverage(
        clips=float(covered.mean()),
        sources=float(by_source.mean()),
        size=float(sizes.mean()),
        empty=float(np.mean(sizes == 0)),
    )


def confidence_summary(confidence: Confidence, codes: npt.ArrayLike, groups: npt.ArrayLike) -> dict[str, Any]:
    """Return how honest a method's confidence is, as lists and numbers.

    Parameters
    ----------
    confidence : Confidence
    codes : (K,) array_like of int
        The true classes.
    groups : (K,) array_like
        Sources.

    Returns
    -------
    dict
        The expected calibration error, the filled bins of `reliability`, and `coverage` at several levels.
    """
    bins = reliability(confidence.probabilities, codes)
    columns = (bins.confidence, bins.accuracy, bins.count)
    return {
        "expected_calibration_error": expected_calibration_error(confidence.probabilities, codes),
        "reliability": [
            dict(zip(("confidence", "accuracy", "count"), row, strict=True))
            for row in zip(*(column.tolist() for column in columns), strict=True)
            if row[2]
        ],
        "coverage": [
            {"level": level, **asdict(coverage(confidence.p_values, codes, groups, round(1.0 - level, 12)))}
            for level in LEVELS
        ],
        "smallest_alpha": confidence.smallest_alpha,
    }


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
