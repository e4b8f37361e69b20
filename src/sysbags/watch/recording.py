"""What is written of events: records for JSON, a table that grows, and clips."""

from __future__ import annotations

import csv
import hashlib
import math
import os
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sysbags.errors import FileError
from sysbags.video import Frame, LiveFrame, write_video
from sysbags.watch.alarms import Event

FIELDS = (
    *("start", "end", "peak", "found", "rule", "kind", "part", "surprise", "evidence", "p_value", "per_day"),
    *("extrapolated", "bag"),
)
COLUMNS = (*FIELDS[:4], "duration", *FIELDS[4:], "region", "clip", "start_utc")
LINES = 240  # of the pictures of a clip, at most
MARGIN = 5.0  # seconds before and after an event
LONGEST = 60.0  # seconds of a clip
QUALITY = 90  # of JPEG

Picture = tuple[float, bytes]


def event_record(event: Event, began: float | None) -> dict[str, Any]:
    """Return what is known of an event, for JSON and tables.

    `began` is the time of day of the first frame of a live video, in seconds since 1970.

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
        # The same at the beginning and the end of an event, and when it is reported again after a crash.
        "id": hashlib.sha256(f"{began} {event.found}".encode()).hexdigest()[:16],
        **{name: getattr(event, name) for name in FIELDS},
        "duration": event.end - event.start,
        "start_utc": None if began is None else text,
    }


def check_event_table(path: Path) -> None:
    """Refuse to write events to a file that has something else."""
    if path.is_file() and path.stat().st_size:
        with path.open(encoding="utf-8", errors="replace") as file:
            if file.readline().rstrip("\r\n") != ",".join(COLUMNS):
                raise FileError(f"{path} is no table of events and would be overwritten: choose another name")


class EventTable:
    """A table of events, to which rows are added one by one.

    A table that had `length` bytes is continued: what comes after them is removed. Without a length, rows
    are added to a table that exists if `may_append`; otherwise it is replaced.
    """

    def __init__(self, path: Path, length: int | None, *, may_append: bool) -> None:
        check_event_table(path)
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


class Recorder:
    """Write a clip of each event, with some seconds before and after it.

    An event is known only after it has begun, so the last seconds are kept in memory, as JPEG pictures with
    at most 240 lines: `delay` is the number of seconds from the start of an event until `begin` is called, at
    most. A clip has at most 60 seconds: of a longer event, the beginning.

    Examples
    --------
    >>> import tempfile
    >>> recorder = Recorder(Path(tempfile.mkdtemp()), rate=10.0, delay=2.0)
    >>> for index in range(100):
    ...     recorder.add(LiveFrame(index / 10, index, np.zeros((48, 64), np.uint8), False))
    ...     if index == 60:
    ...         recorder.begin("", 5.0)
    >>> recorder.end("", 6.0, "event.mp4").name
    'event.mp4'
    """

    def __init__(self, folder: Path, rate: float, delay: float) -> None:
        self.folder, self.rate = folder, rate
        self._last: deque[Picture] = deque(maxlen=math.ceil((MARGIN + delay) * rate))
        self._starts: dict[str, float] = {}  # of the clips of open events, by their regions
        self._clips: dict[str, list[Picture]] = {}
        self._size: tuple[int, int] | None = None  # width and height

    def add(self, frame: LiveFrame) -> None:
        """Keep a frame."""
        import cv2

        height, width = frame.picture.shape[:2]
        if self._size is None:
            share = min(1.0, LINES / height)
            self._size = max(1, round(share * width)), max(1, round(share * height))
        small = frame.picture
        if self._size != (width, height):
            small = np.asarray(cv2.resize(small, self._size, interpolation=cv2.INTER_AREA), np.uint8)
        picture = frame.time, _encoded(small)
        self._last.append(picture)
        for region, clip in self._clips.items():
            begin = self._starts[region]
            if begin <= picture[0] and (not clip or picture[0] < clip[0][0] + LONGEST):
                clip.append(picture)

    def begin(self, region: str, start: float) -> None:
        """Begin a clip for an event that has started at a time."""
        self._starts[region] = begin = start - MARGIN
        self._clips[region] = [picture for picture in self._last if picture[0] >= begin]

    def end(self, region: str, end: float, name: str) -> Path:
        """Write the clip of the event of a region that has ended, and return its path."""
        pictures = [jpeg for time, jpeg in self._clips.pop(region, []) if time <= end + MARGIN]
        write_video(self.folder / name, _decoded(pictures), self.rate)
        return self.folder / name


def _encoded(picture: Frame) -> bytes:
    import cv2

    shown = picture if picture.ndim == 2 else picture[..., ::-1]
    return bytes(cv2.imencode(".jpg", shown, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1])


def _decoded(pictures: list[bytes]) -> Iterator[Frame]:
    import cv2

    for jpeg in pictures:
        picture = np.asarray(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_UNCHANGED), np.uint8)
        yield picture if picture.ndim == 2 else picture[..., ::-1]
