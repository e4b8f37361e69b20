"""Short videos of events: the last seconds of a video are kept in memory, small and compressed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sysbags.video import Frame, LiveFrame, write_video

__all__ = ["MARGIN", "Recorder"]

LINES = 240  # of the pictures of a clip, at most
MARGIN = 5.0  # seconds before and after an event
LONGEST = 60.0  # seconds of a clip
QUALITY = 90  # of JPEG

Picture = tuple[float, bytes]


class Recorder:
    """Write a clip of each event, with some seconds before and after it.

    An event is known only after it has begun, so the last seconds are kept in memory, as JPEG pictures with
    at most 240 lines. A clip has at most 60 seconds: of a longer event, the beginning.

    Parameters
    ----------
    folder : path
        Made when it is needed.
    rate : float
        Frames per second.
    delay : float
        Seconds from the start of an event until `begin` is called, at most.

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
