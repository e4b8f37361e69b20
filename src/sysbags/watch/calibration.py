"""From scores of normal windows to p-values, and from a rate of false alarms to a threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysbags._common.types import Array, IntArray

__all__ = [
    "Tails",
    "Threshold",
    "clusters",
    "combine_p_values",
    "conformal_p_values",
    "fit_tails",
    "tail_p_values",
    "threshold_for_rate",
]

TAIL = 0.1  # the share of the normal scores to which a tail is fitted
PEAKS = 20  # the largest peaks, to which the tail of the rate is fitted
SMALLEST = 1e-300  # p-value


def conformal_p_values(scores: Array, normal: Array, overlap: float = 1.0) -> Array:
    """Return the shares of normal scores that are as large as each score.

    With ``overlap = 1`` these are conformal p-values, ``(1 + #{normal >= score}) / (1 + n)``: if score and
    normal scores are exchangeable, the p-value is at most a with probability at most a. Windows that share
    rows have similar scores. If each row is in ``overlap`` windows, n of them know no more than
    ``n / overlap`` windows apart; the p-value is the mean of those of `overlap` sets of windows that share no
    row, ``(overlap + #{normal >= score}) / (overlap + n)``.

    Parameters
    ----------
    scores : (K,) array
        Larger is more unusual.
    normal : (n,) array
        NaN is left out.
    overlap : float, default=1.0
        At least 1.

    Examples
    --------
    >>> conformal_p_values(np.array([0.5, 2.5, 9.0]), np.array([3.0, 1.0, 2.0]))
    array([1.  , 0.5 , 0.25])
    """
    order = np.sort(normal[~np.isnan(normal)])
    above = len(order) - np.searchsorted(order, scores, side="left")
    return np.asarray((overlap + above) / (overlap + len(order)))


class Tails(NamedTuple):
    """The distributions of normal scores: of most of them as they are, of the largest an exponential tail.

    Attributes
    ----------
    normal : (S, n) array
        Sorted, with NaN at the end.
    start : (S,) array
        Where the tails begin; infinity if nothing is known.
    scale : (S,) array
        The mean excess over the start.
    overlap : float
    """

    normal: Array
    start: Array
    scale: Array
    overlap: float


def fit_tails(normal: Array, overlap: float) -> Tails:
    """Learn the distributions of scores from those of normal windows.

    Parameters
    ----------
    normal : (n, S) array
        NaN is a score that is not known.
    overlap : float
        See `conformal_p_values`.
    """
    order = np.sort(normal, axis=0).T
    known = [row[~np.isnan(row)] for row in order]
    start = np.array([np.quantile(row, 1.0 - TAIL) if len(row) else np.inf for row in known])
    excess = np.fmax(order - start[:, None], 0.0)
    scale = excess.sum(axis=1) / np.maximum((excess > 0.0).sum(axis=1), 1)
    return Tails(order, start, np.maximum(scale, 1e-9 * (1.0 + np.abs(start))), overlap)


def tail_p_values(scores: Array, tails: Tails) -> Array:
    """Return p-values of scores, which may be larger than all normal ones.

    Up to `Tails.start` these are `conformal_p_values`. Beyond it the p-value falls exponentially with the
    score, which conformal p-values, at least ``1 / (1 + n)``, cannot.

    Parameters
    ----------
    scores : (K, S) array
        NaN is a score that is not known: so is its p-value.
    tails : Tails
    """
    p = np.empty(scores.shape)
    for s, (column, normal, start, scale) in enumerate(zip(scores.T, *tails[:3], strict=True)):
        first = conformal_p_values(np.array([start]), normal, tails.overlap)
        beyond = first * np.exp(-np.maximum(column - start, 0.0) / scale)
        p[:, s] = np.where(column > start, beyond, conformal_p_values(column, normal, tails.overlap))
    return np.where(np.isnan(scores), np.nan, np.maximum(p, SMALLEST))


def combine_p_values(p: Array) -> Array:
    """Combine p-values that depend on each other in an unknown way, by Cauchy's distribution.

    Liu and Xie (2020): each p-value becomes a variable of Cauchy's distribution, and so is their mean, nearly
    so in the tail even if they are correlated. One very small p-value is enough for a small result.

    Parameters
    ----------
    p : (..., S) array
        NaN is left out.

    Returns
    -------
    (...) array
        1 where nothing is known.

    Examples
    --------
    >>> combine_p_values(np.array([[0.2, 0.2], [0.5, 2e-9], [0.1, np.nan], [np.nan, np.nan]]))
    array([2.e-01, 4.e-09, 1.e-01, 1.e+00])
    """
    known = np.isfinite(p)
    # cot(pi p) = tan(pi (1/2 - p)), also for small p; a p-value near 1 must not outweigh all others.
    cotangents = np.where(known, 1.0 / np.tan(np.pi * np.clip(np.where(known, p, 0.5), SMALLEST, 0.99)), 0.0)
    counts = known.sum(axis=-1)
    combined = np.arctan2(1.0, cotangents.sum(axis=-1) / np.maximum(counts, 1)) / np.pi
    return np.asarray(np.where(counts > 0, combined, 1.0))


class Threshold(NamedTuple):
    """When windows are unusual.

    Attributes
    ----------
    high : float
        An event begins at a surprise above it.
    low : float
        It ends when the surprise stays below it.
    extrapolated : float
        How many times rarer the asked rate is than what was seen; 1 if it was seen.
    start, scale : float
        The tail: ``rate(u) = rate(start) (1 + (u - start) / (peaks scale))^-peaks``.
    """

    high: float
    low: float
    extrapolated: float
    start: float
    scale: float
    peaks: int
    seconds: float

    def rate(self, surprise: float) -> float:
        """Return how often normal windows give an event with such a peak, per second."""
        excess = max(surprise - self.start, 0.0)
        return float(self.peaks / self.seconds * (1.0 + excess / (self.peaks * self.scale)) ** -self.peaks)


def clusters(values: Array, gap: int) -> tuple[IntArray, Array]:
    """Return the places of peaks of a series, and their values.

    The first is the largest value, the second the largest of those more than `gap` places from it, and so on.
    Of equal values, the first is taken.

    Examples
    --------
    >>> clusters(np.array([0.0, 3.0, 2.0, 0.0, 0.0, 1.0, 0.5]), 2)
    (array([1, 5]), array([3., 1.]))
    """
    places: list[int] = []
    free = np.ones(len(values), dtype=bool)
    for place in np.argsort(-values, kind="stable").tolist():
        if free[place]:
            places.append(place)
            free[max(place - gap, 0) : place + gap + 1] = False
    order = np.sort(np.array(places, dtype=np.int64))
    return order, values[order]


def threshold_for_rate(
    surprise: Array, gap: int, seconds: float, rate: float, *, peaks: int = PEAKS
) -> Threshold:
    """Choose a threshold that normal windows exceed as often as asked.

    Neighbouring windows share rows, so the rate is that of peaks of the series, which are at least `gap`
    windows apart. The excess of the largest peaks over the smallest of them is exponential with an unknown
    scale; with its uncertainty (the predictive distribution) the rate of peaks above u is
    ``K / seconds (1 + (u - start) / (K scale))^-K``. This is solved for u.

    Parameters
    ----------
    surprise : (n,) array
        Of consecutive normal windows that took no part in learning what is normal.
    gap : int
        Windows between events.
    seconds : float
        Time that the windows cover.
    rate : float
        Events per second.
    peaks : int, default=20
        Number of peaks to which the tail is fitted; fewer, if there are fewer.
    """
    _, heights = clusters(surprise, gap)
    heights = np.sort(heights)[::-1]
    count = max(min(peaks, len(heights) - 1), 1)
    start = float(heights[min(count, len(heights) - 1)])
    scale = max(float(np.mean(heights[:count] - start)), 1e-6)
    expected = rate * seconds

    def level(events: float) -> float:
        if events >= count:  # as often as was seen
            return float(heights[min(int(events), len(heights) - 1)])
        return float(start + count * scale * ((count / events) ** (1.0 / count) - 1.0))

    return Threshold(
        level(expected), level(4.0 * expected), max(1.0, 1.0 / expected), start, scale, count, seconds
    )
