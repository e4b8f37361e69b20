"""The level of scores in the recent past, to which scores are compared if slow changes are followed."""

from __future__ import annotations

from collections import deque

import numpy as np

from sysbags._common.types import Array

__all__ = ["Level"]

UPDATES = 50  # of the median, in the time of a span


class Level:
    """Running medians of scores.

    Parameters
    ----------
    span : int
        Number of windows whose scores count; 0 for none: then the level is always 0.
    delay : int
        Number of the latest windows that do not count yet: the beginning of an event is not recognised as
        such.

    Attributes
    ----------
    median : array or float
        The level; NaN where no score is known.

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
