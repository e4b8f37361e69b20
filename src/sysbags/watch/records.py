"""What is written of events: records for JSON, and a table that grows."""

from __future__ import annotations

import csv
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sysbags.errors import FileError
from sysbags.watch.alarms import Event

__all__ = ["COLUMNS", "EventTable", "event_record"]

FIELDS = ("start", "end", "peak", "kind", "part", "surprise", "p_value", "per_day")
COLUMNS = (*FIELDS[:3], "duration", *FIELDS[3:], "region", "clip", "start_utc")


def event_record(event: Event, began: float | None) -> dict[str, Any]:
    """Return what is known of an event, for JSON and tables.

    Parameters
    ----------
    event : Event
    began : float or None
        The time of day of the first frame, in seconds since 1970, of a live video.

    Examples
    --------
    >>> event = Event(start=5.0, end=9.0, peak=6.0, kind="still", surprise=9.0, p_value=0.01, part="")
    >>> record = event_record(event, began=0.0)
    >>> record["duration"], record["start_utc"]
    (4.0, '1970-01-01T00:00:05.000Z')
    """
    moment = datetime.fromtimestamp((began or 0.0) + event.start, UTC)
    text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return {
        **{name: getattr(event, name) for name in FIELDS},
        "duration": event.end - event.start,
        "start_utc": None if began is None else text,
    }


class EventTable:
    """A table of events, to which rows are added one by one.

    Parameters
    ----------
    path : path
    length : int or None
        Continue a table that had so many bytes: what comes after them is removed.
    may_append : bool
        Without a length, whether rows are added to a table that exists; otherwise it is replaced.
    """

    def __init__(self, path: Path, length: int | None, *, may_append: bool) -> None:
        try:
            if length is not None or may_append:
                self._file = path.open("a", newline="", encoding="utf-8")
                if length is not None and self._file.tell() > length:
                    self._file.truncate(length)
            else:
                self._file = path.open("w", newline="", encoding="utf-8")
            self._file.seek(0, os.SEEK_END)
            self._writer = csv.DictWriter(self._file, COLUMNS)
            if not self._file.tell():
                self._writer.writeheader()
                self._file.flush()
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror or error}") from None

    @property
    def length(self) -> int:
        """The number of bytes so far."""
        return self._file.tell()

    def add(self, record: dict[str, Any]) -> None:
        """Write the row of an event."""
        shown = {name: record[name] for name in COLUMNS}
        self._writer.writerow(
            {name: f"{value:.9g}" if isinstance(value, float) else value for name, value in shown.items()}
        )
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
