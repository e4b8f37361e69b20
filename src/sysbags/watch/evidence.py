"""A sequential test of windows: small evidence is added up until it is as rare as a rate allows.

A conformal test martingale (Vovk, Nouretdinov and Gammerman, 2021) bets that scores become larger. The score
of each window is ranked among those of all normal windows before it. While windows are exchangeable, ranks
are uniform and independent of each other, whatever the distribution of the scores is, and a bet, which is a
function of the rank with the mean 1, wins nothing on average. The statistic of Shiryaev and Roberts adds the
products of all bets that begin at any window until now, ``R_n = (1 + R_{n-1}) b_n``. Its mean after n windows
is at most n, so by Doob's inequality it exceeds c within n windows with a probability of at most n / c.

Windows that share rows have similar ranks. If `phases` windows share a row, each phase-th window belongs to a
statistic of its own, whose windows share no row, and the mean of these statistics keeps the bound. So does
the mean over several bets, for large and for small changes, and over several scores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaincinv

from sysbags._common.types import Array

POWERS = (0.05, 0.2, 0.5)  # the smaller, the more is won by a window that is more unusual than all others
MEMORY = 2000  # normal windows of a phase that others are ranked among
CAP = 2.0  # times the threshold: the evidence of a long event must not need long to go


def rank_bets(rank: int, count: int, powers: Sequence[float] = POWERS) -> Array:
    """Return what bets on small ranks win: one for each power, with the mean 1 over all ranks.

    The rank is 1 for the largest of `count` scores. Each bet is the mean of the density ``k p^(k - 1)`` from
    ``(rank - 1) / count`` to ``rank / count``.

    Examples
    --------
    >>> rank_bets(1, 4, [0.5]), rank_bets(4, 4, [0.5])
    (array([2.]), array([0.53589838]))
    >>> float(np.mean([rank_bets(rank, 30)[0] for rank in range(1, 31)]).round(12))
    1.0
    """
    k = np.asarray(powers)
    return np.asarray(count * ((rank / count) ** k - ((rank - 1) / count) ** k))


def needed_evidence(rate: float, seconds: float) -> float:
    """Return the threshold of the statistic for a rate of false alarms, per second.

    `seconds` is the time from a window to the next one that shares no row with it. With ``n / c`` as above,
    the probability of an alarm within a time is at most the time multiplied by the rate.

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
    >>> max(values) >= 360.0, evidence.began  # the change is at window 30
    (True, 29)
    """

    def __init__(self, normal: Array, phases: int, needed: float) -> None:
        self.phases, self.needed = phases, needed
        self.count = 0  # windows so far
        self.normal = [
            [deque(column[~np.isnan(column)].tolist(), MEMORY) for column in normal[phase::phases].T]
            for phase in range(phases)
        ]
        # The window after the last normal one belongs to this phase.
        self.first = len(normal) % phases
        self.reset()

    def reset(self) -> None:
        """Begin anew, as after an alarm."""
        shape = self.phases, len(self.normal[0]), len(POWERS)
        self.sums, self.products = np.zeros(shape), np.zeros(shape)
        self.starts = np.full(shape, self.count)

    @property
    def value(self) -> float:
        """The statistic: the mean over phases, scores and bets."""
        return float(self.sums.mean())

    @property
    def began(self) -> int:
        """The window at which the evidence began, from the most convincing product of bets."""
        return int(self.starts.ravel()[np.argmax(self.products)])

    def update(self, scores: Array, is_normal: bool = True) -> float:
        """Add the scores of a window, and return the evidence so far; an unusual window is not kept."""
        phase = (self.first + self.count) % self.phases
        for s, (score, before) in enumerate(zip(scores.tolist(), self.normal[phase], strict=True)):
            if np.isnan(score):
                continue
            bets = rank_bets(1 + sum(other >= score for other in before), 1 + len(before))
            self.sums[phase, s] = (1.0 + self.sums[phase, s]) * bets
            # The largest product of bets that end here: the CUSUM of their logarithms.
            begins = self.products[phase, s] <= 1.0
            self.starts[phase, s, begins] = self.count
            self.products[phase, s] = np.where(begins, 1.0, self.products[phase, s]) * bets
            if is_normal:
                before.append(score)
        self.sums *= min(1.0, CAP * self.needed / max(self.value, self.needed))
        self.count += 1
        return self.value
