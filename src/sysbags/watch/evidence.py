"""A sequential test of windows: small evidence is added up until it is as rare as a rate allows.

A conformal test martingale (Vovk, Nouretdinov and Gammerman, 2021) bets that scores become larger. The score
of each window is ranked among those of all normal windows before it. While windows are exchangeable, ranks
are uniform and independent of each other, whatever the distribution of the scores is, and a bet, which is a
function of the rank with the mean 1, wins nothing on average. The statistic of Shiryaev and Roberts adds the
products of all bets that begin at any window until now, ``R_n = (1 + R_{n-1}) b_n``. Its mean after n windows
is at most n, so by Doob's inequality it exceeds c within n windows with a probability of at most n / c.

Windows that share rows have similar ranks. If `phases` windows share a row, each phase-th window belongs to a
statistic of its own, whose windows share no row. The evidence is the mean of the statistics of all phases, of
several bets, for large and for small changes, and of several scores. Each of them has this bound; that alarms
of their mean are no more frequent is no theorem, as they depend on each other, but is tested by simulation.
Windows that share no row may be alike, too, because what is normal changes slowly: see `independence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from sysbags._common.types import Array

POWERS = (0.05, 0.2, 0.5)  # the smaller, the more is won by a window that is more unusual than all others
MEMORY = 1000  # normal windows of a phase that others are ranked among
LONGEST = 4  # correlations are known up to this part of the normal windows
CAP = 2.0  # times the threshold: the evidence of a long event must not need long to go


def rank_bets(rank: Any, count: Any, powers: Sequence[float] = POWERS) -> Array:
    """Return what bets on small ranks win: along a last axis for each power, with the mean 1 over all ranks.

    The rank is 1 for the largest of `count` scores. Each bet is the mean of the density ``k p^(k - 1)`` from
    ``(rank - 1) / count`` to ``rank / count``.

    Examples
    --------
    >>> rank_bets(1, 4, [0.5]), rank_bets(4, 4, [0.5])
    (array([2.]), array([0.53589838]))
    >>> float(np.mean([rank_bets(rank, 30)[0] for rank in range(1, 31)]).round(12))
    1.0
    """
    k, rank, count = np.asarray(powers), np.asarray(rank)[..., None], np.asarray(count)[..., None]
    return np.asarray(count * ((rank / count) ** k - ((rank - 1) / count) ** k))


def independence(normal: Array, phases: int) -> Array:
    """Return how much each score of a window tells beside those of the windows before it, (S,), at most 1.

    This is ``1 / (1 + 2 (r_1 + r_2 + ...))`` with the correlations of the ranks of consecutive normal windows
    (n, S) that share no row, up to the first that is not positive: the share of independent windows among
    them. Bets to this power have a mean of at most 1 (Jensen), and what lasts for some windows in normal
    video, such as a gust of wind, is no evidence of a change.

    Examples
    --------
    >>> noise = np.random.default_rng(0).standard_normal(4000)
    >>> slow = np.convolve(noise, np.ones(5), "same")
    >>> independence(np.column_stack([noise, slow]), 1).round(1)
    array([1. , 0.2])
    """
    ranks = np.argsort(np.argsort(np.nan_to_num(normal), axis=0), axis=0) + 0.5 - 0.5 * len(normal)
    sums, is_positive = np.ones(ranks.shape[1]), np.ones(ranks.shape[1], dtype=bool)
    for lag in range(phases, len(ranks) // LONGEST, phases):
        correlation = np.mean(ranks[lag:] * ranks[:-lag], axis=0) / np.mean(ranks**2, axis=0)
        is_positive &= correlation > 0.0
        sums += np.where(is_positive, 2.0 * correlation, 0.0)
    return np.asarray(1.0 / sums)


def needed_evidence(rate: float, seconds: float) -> float:
    """Return the threshold of the statistic for a rate of false alarms, per second.

    `seconds` is the time from a window to the next one that shares no row with it. With ``n / c`` as above,
    the probability of an alarm of one statistic within a time is at most the time multiplied by the rate.

    Examples
    --------
    >>> needed_evidence(1 / 3600, 10.0)
    360.0
    """
    return max(1.0, 1.0 / (rate * seconds))


def poisson_interval(events: int, seconds: float, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a rate, per second, of which so many events were seen in a time.

    Examples
    --------
    >>> low, high = poisson_interval(0, 3600.0)
    >>> low, round(3600.0 * high, 2)  # per hour
    (0.0, 3.69)
    """
    tail = (1.0 - level) / 2.0
    low = 0.0 if events == 0 else float(gammaincinv(events, tail))
    return low / seconds, float(gammaincinv(events + 1, 1.0 - tail)) / seconds


class Evidence:
    """The evidence that windows have become more unusual than normal ones.

    Parameters
    ----------
    normal : (n, S) array
        Scores of consecutive normal windows, larger is more unusual; NaN where a score is not known.
    phases : int
        Number of windows that share a row.
    needed : float
        The evidence of an alarm.

    Attributes
    ----------
    value : float
        The evidence so far.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> evidence = Evidence(rng.standard_normal((50, 1)), phases=1, needed=360.0)
    >>> values = [evidence.update(np.array([score])) for score in rng.standard_normal(30)]
    >>> max(values) < 360.0
    True
    >>> values = [evidence.update(np.array([score])) for score in 2.0 + rng.standard_normal(10)]
    >>> max(values) >= 360.0, evidence.began  # windows before the last one
    (True, 10)
    """

    def __init__(self, normal: Array, phases: int, needed: float) -> None:
        self.phases, self.needed = phases, needed
        # The normal windows of each phase, the last ones if there are more; NaN where there is none.
        self.normal = np.full((phases, MEMORY, normal.shape[1]), np.nan)
        self.powers = independence(normal, phases)[:, None]
        self.kept = np.zeros(phases, dtype=np.int64)  # how many
        self.count = 0  # windows, also the normal ones
        for scores in normal:
            self._keep(scores)
        self.reset()

    def reset(self) -> None:
        """Begin anew, as after an alarm."""
        shape = self.phases, self.normal.shape[2], len(POWERS)
        self.sums, self.products = np.zeros(shape), np.zeros(shape)
        self.starts = np.full(shape, self.count)

    @property
    def value(self) -> float:
        """The statistic: the mean over phases, scores and bets."""
        return float(self.sums.mean())

    @property
    def began(self) -> int:
        """How many windows ago the evidence began, by the most convincing product of bets."""
        return self.count - 1 - int(self.starts.ravel()[np.argmax(self.products)])

    def update(self, scores: Array, is_normal: bool = True) -> float:
        """Add the scores of a window, and return the evidence so far; an unusual window is not kept."""
        phase = self.count % self.phases
        before = self.normal[phase]
        ranks, counts = np.sum(before >= scores, axis=0), np.sum(~np.isnan(before), axis=0)
        bets = rank_bets(1 + ranks, 1 + counts) ** self.powers
        bets[np.isnan(scores)] = 1.0
        sums, products = self.sums[phase], self.products[phase]
        self.sums[phase] = np.where(np.isnan(scores)[:, None], sums, (1.0 + sums) * bets)
        # The largest product of bets that end here: the CUSUM of their logarithms.
        self.starts[phase][products <= 1.0] = self.count
        self.products[phase] = np.maximum(products, 1.0) * bets
        self.sums *= min(1.0, CAP * self.needed / max(self.value, self.needed))
        self._keep(scores if is_normal else None)
        return self.value

    def _keep(self, scores: Array | None) -> None:
        """Count a window, and remember its scores if they are normal."""
        phase, self.count = self.count % self.phases, self.count + 1
        if scores is not None:
            self.normal[phase, self.kept[phase] % MEMORY] = scores
            self.kept[phase] += 1
