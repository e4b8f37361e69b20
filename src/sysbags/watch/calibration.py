"""Levels of scores, p-values from scores of normal windows, and a threshold from a rate of false alarms."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.types import Array, IntArray

PEAKS = 20  # to which a tail is fitted
SHARE = 4  # at most one of so many peaks belongs to the tail
LASTING = 10.0  # an event lasts while the surprise is above the level of so many times its rate
TINY = 1e-6  # the smallest scale of a tail, relative to its start
SMALLEST = 1e-300  # p-value
UPDATES = 50  # of the median of a level, in the time of its span


def conformal_p_values(scores: Array, normal: Array, overlap: float = 1.0) -> Array:
    """Return the shares of normal scores that are as large as each score; larger is more unusual.

    With ``overlap = 1`` these are conformal p-values, ``(1 + #{normal >= score}) / (1 + n)``: if score and
    normal scores are exchangeable, the p-value is at most a with probability at most a. Windows that share
    rows have similar scores. If each row is in ``overlap`` windows, n of them know no more than
    ``n / overlap`` windows apart; the p-value is the mean of those of `overlap` sets of windows that share no
    row, ``(overlap + #{normal >= score}) / (overlap + n)``.

    Examples
    --------
    >>> conformal_p_values(np.array([0.5, 2.5, 9.0]), np.array([3.0, 1.0, 2.0]))
    array([1.  , 0.5 , 0.25])
    """
    order = np.sort(normal)
    above = len(order) - np.searchsorted(order, scores, side="left")
    return np.asarray((overlap + above) / (overlap + len(order)))


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


class Tail(NamedTuple):
    """How often a series of scores of normal windows has peaks above a level."""

    start: float  # the level above which the tail is fitted
    scale: float  # the mean excess of peaks over it
    peaks: int  # above it
    known: int  # number of peaks from which the scale is known

    def expected(self, level: Any) -> Any:
        """Return how many peaks above a level are expected in a series as long as the normal one.

        If the excess of peaks over the start is exponential with an unknown scale, this is the predictive
        distribution of the next one, ``peaks (1 + excess / (known scale))^-known``.
        """
        excess = np.maximum(level - self.start, 0.0)
        return self.peaks * (1.0 + excess / (self.known * self.scale)) ** -self.known

    def likely(self, level: Any) -> Any:
        """Return the same if the scale were known, ``peaks exp(-excess / scale)``."""
        return self.peaks * np.exp(-np.maximum(level - self.start, 0.0) / self.scale)

    def level(self, expected: float) -> float:
        """Return the level above which so many peaks are expected, at most `peaks`."""
        factor = self.known * ((self.peaks / expected) ** (1.0 / self.known) - 1.0)
        return float(self.start + factor * self.scale)


def fit_tail(normal: Array, gap: int, *, prior: tuple[int, float] = (0, 0.0)) -> Tail:
    """Learn how often a series has high peaks, from its 20 highest ones, at most a quarter of all.

    `normal` are scores of consecutive windows; peaks are more than `gap` windows apart. The prior is a number
    of peaks that were seen elsewhere, and the scale of these: a few peaks alone say little about the scale.

    Examples
    --------
    >>> tail = fit_tail(np.random.default_rng(0).exponential(size=1000), 0)
    >>> tail.peaks, round(float(tail.expected(tail.level(1.0))), 12)
    (20, 1.0)
    """
    heights = np.sort(clusters(normal, gap)[1])[::-1]
    if len(heights) == 1:
        heights = np.repeat(heights, 2)
    count = max(min(PEAKS, len(heights) // SHARE), 1)
    start, known = float(heights[count]), count + prior[0]
    scale = float(np.sum(heights[:count] - start) + prior[0] * prior[1]) / known
    return Tail(start, max(scale, TINY * (1.0 + abs(start))), count, known)


class Tails(NamedTuple):
    """The distributions of normal scores."""

    normal: tuple[Array, ...]  # of each score, those that are known
    tails: tuple[Tail, ...]  # of each score
    overlap: int  # number of windows that have a row in common


def fit_tails(normal: Array, overlap: int) -> Tails:
    """Learn the distributions of scores from those of consecutive normal windows, (n, S); NaN is left out."""
    known = tuple(series[~np.isnan(series)] for series in normal.T)
    nothing = Tail(np.inf, 1.0, 1, 1)  # no score is beyond it
    tails = [_filled(fit_tail(series, overlap), series) if len(series) > 1 else nothing for series in known]
    return Tails(known, tuple(tails), overlap)


def _filled(tail: Tail, series: Array) -> Tail:
    """Return a tail of few peaks as if there were 20: the others have half of the spread of the series."""
    missing = max(0, PEAKS - tail.peaks)
    scale = (tail.peaks * tail.scale + missing * 0.5 * float(np.std(series))) / (tail.peaks + missing)
    return tail._replace(scale=max(scale, tail.scale * TINY), known=tail.peaks + missing)


def tail_p_values(scores: Array, tails: Tails) -> Array:
    """Return p-values of scores, (K, S), which may be larger than all normal ones; NaN of those not known.

    Up to the start of the tail these are `conformal_p_values`. Beyond it the p-value is the number of peaks
    that are expected in the time of a window, which falls with the score; conformal p-values are at least
    ``1 / (1 + n)``.
    """
    p = np.empty(scores.shape)
    for s, (column, normal, tail) in enumerate(zip(scores.T, tails.normal, tails.tails, strict=True)):
        beyond = tail.likely(column) * tails.overlap / (tails.overlap + len(normal))
        within = np.maximum(conformal_p_values(column, normal, tails.overlap), beyond)
        p[:, s] = np.where(column > tail.start, beyond, within)
    return np.where(np.isnan(scores), np.nan, np.maximum(p, SMALLEST))


def combine_p_values(p: Array) -> Array:
    """Combine p-values that depend on each other in an unknown way, by Cauchy's distribution.

    Liu and Xie (2020): each p-value becomes a variable of Cauchy's distribution, and so is their mean, nearly
    so in the tail even if they are correlated. One very small p-value is enough for a small result. Those
    along the last axis are combined; NaN is left out, and the result is 1 where nothing is known.

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
    """When windows are unusual."""

    high: float  # an event begins at a surprise above it
    low: float  # and ends when the surprise stays below this
    tail: Tail  # of the surprise of normal windows
    seconds: float  # the time that these windows cover

    def rate(self, surprise: float) -> float:
        """Return how often normal windows give an event with such a peak, per second."""
        return float(self.tail.expected(surprise) / self.seconds)


def threshold_for_rate(
    surprise: Array, gap: int, seconds: float, rate: float, *, prior: tuple[int, float] = (0, 0.0)
) -> Threshold:
    """Choose a threshold that normal windows exceed as often as asked, in events per second.

    `surprise` is that of consecutive normal windows that took no part in learning what is normal, `seconds`
    the time that they cover, and `gap` the windows between events. Neighbouring windows share rows, so what
    is counted are peaks of the series, see `fit_tail`. A rate below one in the time of the series is
    extrapolated by its tail. An event may last until ten times as many peaks are expected.
    """
    tail = fit_tail(surprise, gap, prior=prior)
    heights = np.sort(clusters(surprise, gap)[1])[::-1]

    def level(events: float) -> float:
        """Return the level above which so many peaks were seen, or are expected."""
        if events < tail.peaks:
            return tail.level(events)
        return float(heights[min(int(events), len(heights) - 1)])

    return Threshold(level(rate * seconds), level(LASTING * rate * seconds), tail, seconds)


class Level:
    """Running medians of scores, to which scores are compared if slow changes are followed.

    The scores of `span` windows count; with 0 the level is always 0. Those of the latest `delay` windows do
    not count yet: the beginning of an event is not recognised as such. The median is NaN where no score is
    known.

    Examples
    --------
    >>> level = Level(span=3, delay=1)
    >>> for score in [1.0, 5.0, 2.0, 7.0]:
    ...     level.update(np.array([score]), is_usual=score != 5.0)
    >>> level.median
    array([1.5])
    """

    def __init__(self, span: int, delay: int) -> None:
        self.span, self.delay, self.count = span, delay, 0
        self.recent: deque[Array] = deque(maxlen=span)
        self.waiting: deque[tuple[Array, bool]] = deque()
        self.median: Array | float = np.nan if span else 0.0

    def update(self, scores: Array, is_usual: bool) -> None:
        """Add the scores of the next window; those of an unusual one do not count."""
        if self.span == 0:
            return
        self.waiting.append((scores, is_usual))
        if len(self.waiting) <= self.delay:
            return
        scores, is_usual = self.waiting.popleft()
        if is_usual:
            self.recent.append(scores)
            self.count += 1
            if self.count <= UPDATES or self.count % max(1, self.span // UPDATES) == 0:
                recent = np.array(self.recent)
                unknown = np.isnan(recent).all(axis=0)
                self.median = np.where(unknown, np.nan, np.nanmedian(np.where(unknown, 0.0, recent), axis=0))
