"""Watch numbers of sensors instead of a video: a table whose rows become those of a stream."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.preprocessing import StandardScaler

from sysbags._common.types import Array
from sysbags.bags.streams import LiveBag
from sysbags.datasets.tables import Row, Table, open_table
from sysbags.errors import ParameterError, StreamError
from sysbags.video import LiveFrame, LiveVideo, Position
from sysbags.watch.normal import STATES
from sysbags.watch.session import Outputs, Session, WatcherOptions

JUMP_ROWS = 10  # a later row than this many intervals follows a gap, as for frames
LEAST = 3  # rows from which the rate is measured
RATE_DIGITS = 9  # of the rate that is measured
LINEAR = 1e-3  # what a column adds to others, relative, if it does not follow from them


class Feed:
    """The rows of a table as frames at a constant rate, standardised by those of the first seconds.

    Rows between two others are interpolated linearly. Numbers that were constant are not scaled. The
    attributes are known with the first frame.

    Parameters
    ----------
    table : Table
    seconds : float
        How long the part is by which others are standardised.
    rate : float, optional
        Rows per second; by default the median of that part.

    Attributes
    ----------
    began : float or None
        The first time if times are dates, in seconds since 1970.
    changing : int
        The number of columns that change in the first part, without those that follow linearly from others.

    Examples
    --------
    >>> table = Table("pump", ["bar"], iter([(t, np.array([float(t)])) for t in (5, 6, 7, 9, 30)]), False)
    >>> feed = Feed(table, seconds=3.0)
    >>> [(frame.time, round(float(frame.picture[0]), 1), frame.is_gap) for frame in feed]
    [(0.0, -1.2, False), (1.0, -0.5, False), (2.0, 0.2, False), (3.0, 0.8, False), (4.0, 1.5, False),
     (25.0, 15.7, True)]
    """

    is_live, skipped, reconnections = False, 0, 0
    source = ""  # no file of video

    def __init__(self, table: Table, seconds: float, rate: float | None = None) -> None:
        self.name, self.position, self.is_stopped = table.name, Position(), False
        self.rate, self.began, self.changing = rate or 0.0, None, 0
        self._frames = self._read(table, seconds)

    def _read(self, table: Table, seconds: float) -> Iterator[LiveFrame]:
        """Read the first part, and then yield all rows."""
        first: list[Row] = []
        for row in table.rows:
            first.append(row)
            if row[0] - first[0][0] >= seconds or self.is_stopped:
                break
        if self.is_stopped:
            return
        times, numbers = np.array([time for time, _ in first]), np.array([row for _, row in first])
        interval = float(np.median(np.diff(times))) if len(first) >= LEAST else 0.0
        if len(first) >= LEAST and interval <= 0.0:
            raise StreamError(f"the times of {table.name} do not increase from row to row")
        if interval <= 0.0 or times[-1] - times[0] < seconds:
            raise StreamError(
                f"{table.name} is too short: {2 * seconds:g} s are needed to learn what is normal"
            )
        # Times may have been rounded: the median tells how many intervals there are, not how long one is.
        span = times[-1] - times[0]
        self.rate = self.rate or float(f"{round(span / interval) / span:.{RATE_DIGITS}g}")
        scaler = StandardScaler().fit(numbers)
        spread = np.linalg.svd(scaler.transform(numbers), compute_uv=False)
        self.changing = int(np.count_nonzero(spread > LINEAR * spread[0]))
        if not self.changing:
            raise StreamError(f"no column of {table.name} changes while learning")
        self.began = times[0] if table.has_dates else None
        for frame in self._at_rate(chain(first, table.rows), times[0], JUMP_ROWS * interval):
            yield replace(frame, picture=(frame.picture - scaler.mean_) / scaler.scale_)

    def _at_rate(self, rows: Iterator[Row], origin: float, limit: float) -> Iterator[LiveFrame]:
        """Yield rows at multiples of the interval; after a gap, from the first one that has a row before."""
        before: Row | None = None
        tick, is_gap = 0, False
        for time, numbers in rows:
            now = (time - origin) * self.rate
            if before is not None and not 0.0 <= now - before[0] <= limit * self.rate:
                before, is_gap = None, True
            if before is None:
                tick = max(tick, int(np.ceil(now - 1e-6)))
            while tick <= now + 1e-6:
                share = 1.0 if before is None or now <= before[0] else (tick - before[0]) / (now - before[0])
                start = numbers if before is None else before[1]
                row: Any = start + min(share, 1.0) * (numbers - start)
                yield LiveFrame(tick / self.rate, tick, row, is_gap)
                tick, is_gap = tick + 1, False
            before = now, numbers

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LiveFrame:
        if self.is_stopped:
            raise StopIteration
        frame = next(self._frames)
        self.position = Position(index=frame.index + 1, time=(frame.index + 1) / self.rate)
        return frame

    def stop(self) -> None:
        """End the iteration soon."""
        self.is_stopped = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


class Numbers:
    """The bag of the rows of a `Feed`: these rows, with those before them if there are few columns.

    There must be more numbers than states, or nothing is left that the states do not explain.
    """

    requires_fit, colour, window, step = False, "grey", 1, 1

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self._before: Array | None = None

    def members(self) -> list[Numbers]:
        """Return the only bag."""
        return [self]

    def update(self, rows: list[Array]) -> Array:
        """Return one row for each, as a `LiveBag` does for frames."""
        delays, new = STATES // self.feed.changing + 1, np.array(rows)
        if self._before is None:
            self._before = np.repeat(new[:1], delays - 1, axis=0)
        joined = np.concatenate([self._before, new])
        self._before = joined[len(new) :]
        return np.hstack([joined[delay : delay + len(new)] for delay in range(delays)])


class NumberSession(Session):
    """Watch the rows of a table; see `Session` for the rest.

    Systems have the linear kernel. Rows are standardised by the first half of the time to learn.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> series = 0.3 * rng.standard_normal((900, 4))
    >>> series[1:] += series[:-1] @ np.diag([0.9, 0.5, -0.5, 0.0])
    >>> series[700:760] = series[640:700] * 4.0
    >>> table = Table("pump", list("abcd"), iter(enumerate(series)), False)
    >>> records = []
    >>> NumberSession(table, learn=500.0, false_alarms=1 / 3600, length=20, step=5).run(records.append)
    >>> [(round(one["start"], -1), one["kind"]) for one in records if one["type"] == "event"]
    [(700.0, 'change')]
    """

    unit = "rows"

    def __init__(
        self, table: Table, *, outputs: Outputs | None = None, rate: float | None = None, **options: Any
    ) -> None:
        if outputs is not None and (outputs.clips or outputs.checkpoint or outputs.learnt):
            raise ParameterError("numbers have no clips, and no checkpoint or saved model yet")
        self.feed = Feed(table, WatcherOptions(**options).learn / 2.0, rate)
        bag: Any = Numbers(self.feed)
        super().__init__(table.name, bag, outputs=outputs, kernel="linear", **options)

    @classmethod
    def opened(
        cls,
        source: str | os.PathLike[str],
        *,
        time: str | None = None,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> NumberSession:
        """Return a session of a file or of the standard input, see `open_table`."""
        sessions: list[NumberSession] = []  # it can be stopped while its first rows are waited for

        def has_stopped() -> bool:
            return any(session.feed.is_stopped for session in sessions)

        table = open_table(source, time=time, columns=columns, has_stopped=has_stopped)
        sessions.append(cls(table, **options))
        return sessions[0]

    def _opened(self, source: Any, **options: Any) -> LiveVideo:
        return self.feed  # type: ignore[return-value]

    def _live_bags(self) -> list[LiveBag]:
        return [Numbers(self.feed)]  # type: ignore[list-item]

    def _measure(self, frames: Sequence[LiveFrame]) -> None:
        self._fixed_rate, self._began = self.feed.rate, self.feed.began
        super()._measure(frames)
