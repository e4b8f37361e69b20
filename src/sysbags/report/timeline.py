"""The tables of a timeline: one record per phase, per kind of phase, and per window, for CSV and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sysbags.watch.timeline import Timeline

__all__ = ["Clock", "kind_records", "phase_records", "window_records"]


@dataclass(frozen=True)
class Clock:
    """The frames and times of the rows of a stream.

    Parameters
    ----------
    rate : float
        Frames per second.
    start : int, default=0
        The frame of the first row.
    frames_per_row : int, default=1

    Examples
    --------
    >>> clock = Clock(rate=25.0, start=50, frames_per_row=2)
    >>> clock.frame(100), clock.seconds(100), clock.timecode(100)
    (250, 10.0, '00:00:10.000')
    """

    rate: float
    start: int = 0
    frames_per_row: int = 1

    def frame(self, row: int) -> int:
        """Return the frame of a row, counted from 0."""
        return self.start + row * self.frames_per_row

    def seconds(self, row: int) -> float:
        """Return the time of a row."""
        return self.frame(row) / self.rate

    def timecode(self, row: int) -> str:
        """Return the time of a row as hours, minutes and seconds."""
        return timecode(self.seconds(row))

    def span(self, start: int, stop: int) -> dict[str, Any]:
        """Return the frames, times in seconds and timecodes of a stretch; its end is not part of it."""
        named = {"start": start, "end": stop}
        facts = {
            f"{name}_{kind}": getattr(self, kind)(row)
            for name, row in named.items()
            for kind in ("frame", "timecode", "seconds")
        }
        return facts | {"length_seconds": (stop - start) * self.frames_per_row / self.rate}


def timecode(seconds: float) -> str:
    """Return a time as hours, minutes and seconds.

    Examples
    --------
    >>> timecode(3725.5)
    '01:02:05.500'
    """
    milliseconds = round(1000.0 * seconds)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def phase_records(timeline: Timeline, clock: Clock) -> list[dict[str, Any]]:
    """Return the phases in the order of time, numbered from 1."""
    return [
        {
            "phase": number,
            "label": phase.label,
            **clock.span(phase.start, phase.stop),
            "windows": phase.last - phase.first,
            "failure": phase.failure,
        }
        for number, phase in enumerate(timeline.phases, start=1)
    ]


def kind_records(timeline: Timeline, clock: Clock) -> list[dict[str, Any]]:
    """Return the labels of the phases: how often each occurs, for how long, and a window typical of it."""
    return [
        {
            "label": kind.label,
            "occurrences": kind.occurrences,
            "seconds": kind.rows * clock.frames_per_row / clock.rate,
            "typical_window": kind.medoid,
            "typical_frame": clock.frame(timeline.windows[kind.medoid].start),
        }
        for kind in timeline.kinds
    ]


def window_records(timeline: Timeline, clock: Clock) -> list[dict[str, Any]]:
    """Return the windows with their scores, squared, and their eigenvalues; None for what is missing."""
    totals = timeline.scores.sum(axis=1)
    records = []
    for k, (window, label) in enumerate(zip(timeline.windows, timeline.labels, strict=True)):
        numbers = {"squared_distance": totals[k]}
        numbers |= zip(("transition", "observer", "mean"), timeline.scores[k], strict=True)
        waves = zip(np.abs(timeline.eigenvalues[k]), timeline.frequencies[k], strict=True)
        for place, (modulus, frequency) in enumerate(waves, start=1):
            numbers |= {f"modulus_{place}": modulus, f"frequency_{place}": frequency}
        plain = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
        span = clock.span(window.start, window.stop)
        records.append({"window": k, "label": label, **span, **plain, "failure": window.failure})
    return records
