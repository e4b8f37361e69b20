"""Times and gaps of frames that come from several segments or connections, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sysbags.errors import ParameterError
from sysbags.video.decoding import END, Ticks
from sysbags.video.reading import Converter, Frame

LEAST_JUMP = Fraction(1)  # seconds
JITTER = Fraction(1, 5)  # seconds: the timestamps of some cameras go back a little, which is no gap
JUMP_FRAMES = 10  # a later frame than this many intervals follows a gap
USUAL_STAY = Fraction(1, 25)  # seconds, where nothing is known
MICROSECONDS = 10**6
ROUNDING = 0.0011  # seconds between exact times and those of formats that store milliseconds
NTSC = 1000 / 1001


@dataclass(frozen=True)
class LiveFrame:
    """One frame of a live video.

    Attributes
    ----------
    time : float
        Seconds since the first frame; it never decreases.
    index : int
        Number of the frame; frames that were skipped are counted too.
    picture : (H, W) or (H, W, 3) array of uint8
    is_gap : bool
        Whether frames may be missing before this one, or the camera has changed its picture size.

    Examples
    --------
    >>> import numpy as np
    >>> frame = LiveFrame(time=2.5, index=5, picture=np.zeros((48, 64), np.uint8), is_gap=False)
    >>> frame.index, frame.picture.shape
    (5, (48, 64))
    """

    time: float
    index: int
    picture: Frame
    is_gap: bool


@dataclass(frozen=True)
class Position:
    """Where reading continues, as `LiveVideo.position` gives it; all fields can be stored as JSON.

    Attributes
    ----------
    index, time : int and float
        Of the next frame; the time is an estimate.
    segment : str
        Name of the segment that is being read, or "".
    frame : int
        How many frames of the segment, or of the file, have been read.
    begin : float
        The time of the first frame of the segment.
    origin : float
        The time from which the frames of a given rate are counted.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from sysbags.video import open_live, write_video
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "clip.mp4"
    >>> _ = write_video(path, np.zeros((6, 48, 64, 3)), rate=2)
    >>> with open_live(path) as video:
    ...     first, second, position = next(video), next(video), video.position
    >>> position.index, position.frame
    (2, 2)
    >>> with open_live(path, start=position) as video:  # continues, for instance in another process
    ...     [frame.index for frame in video]
    [2, 3, 4, 5]
    """

    index: int = 0
    time: float = 0.0
    segment: str = ""
    frame: int = 0
    begin: float = 0.0
    origin: float = 0.0


@dataclass(frozen=True)
class _Shown:
    """A picture at its time among all segments: what `Ticks` needs of a picture."""

    picture: Any
    pts: Fraction | None  # in units of time_base, and not always a whole number
    time_base: Fraction
    duration: int | None


class FrameSequence:
    """Turns the pictures of segments or connections into frames with numbers, growing times and gaps.

    The first picture of a segment follows the last one of the previous segment after the usual interval,
    unless its timestamp is later. A timestamp that jumps back by more than `JITTER` seconds, or forwards by
    more than `JUMP_FRAMES` intervals and `LEAST_JUMP` seconds, is a gap; after a jump back, times continue
    from the last one. After a reconnection times continue by the clock, which only live sources have.

    With a rate, the picture on screen is used every 1/rate seconds, counted from the last gap. Frames before
    `start` are counted, but neither converted nor yielded. `part` is the beginning of the segment, `stay` the
    last interval between two pictures.
    """

    def __init__(
        self,
        convert: Converter,
        rate: Fraction | None,
        start: Position,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.convert, self.rate, self.clock = convert, rate, clock
        self.start, self.part, self.stay = start, start, USUAL_STAY
        self.pictures = self.frames = 0
        self._index = start.index - start.frame
        self._interval_is_known = False
        self._time: Fraction | None = None  # of the last picture
        self._offset = Fraction(0)  # from its timestamp to its time
        self._size: tuple[int, int] | None = None
        self._heard = 0.0  # when it arrived, by the clock
        self._segment: str | None = start.segment  # until its first picture
        self._is_late = False  # whether the next picture follows a reconnection
        self._is_broken = False  # whether pictures are missing before the next picture
        self._is_gap = False  # whether the next frame is the first one after a gap
        self._ticks: Ticks | None = None
        self._origin = _exact(start.origin)

    def begin_segment(self, name: str) -> None:
        """Announce that the next picture is the first one of a segment."""
        if self._time is None and self.start.segment not in ("", name):  # it is not there any more
            self.start = Position(self.start.index, begin=self.start.time)
            self._index, self._is_broken = self.start.index, True
        self._segment = name

    def position(self, last: LiveFrame) -> Position:
        """Return the position after a frame."""
        interval = self.stay if self.rate is None else 1 / self.rate
        following = last.index + 1
        time = last.time + float(interval)
        return replace(self.part, index=following, time=time, frame=following - self.part.index)

    def add_gap(self) -> None:
        """Announce that pictures are missing before the next one."""
        self._is_broken = True

    def reconnect(self) -> None:
        """Announce that the next picture follows a pause, whose length the clock gives."""
        self._is_late = self._is_broken = True

    def add(self, picture: Any) -> Iterator[LiveFrame]:
        """Yield the frames that are known after one more picture."""
        self.pictures += 1
        is_first, segment, self._segment = self._time is None, self._segment, None
        time, is_gap = self._place(picture, segment is not None)
        if self.rate is not None:
            if self._ticks is None or is_gap:
                yield from self.end(time)
                self._origin = self._origin if is_first else time
                ticks = math.floor((time - self._origin) * self.rate)
                self._ticks = Ticks(self.rate, self.convert.name, self._origin + ticks / self.rate)
            base = picture.time_base or USUAL_STAY
            pts = None if picture.pts is None and self.clock is None else time / base
            shown = _Shown(picture, pts, base, picture.duration)
            yield from self._on_screen(self._ticks, shown)
        if segment is not None:
            origin = float(self._origin)
            self.part = Position(self._index, segment=segment, begin=float(time), origin=origin)
        self._is_gap = self._is_gap or is_gap
        if self.rate is None:
            yield from self._frames(picture, [time])

    def end(self, before: Fraction | None = None) -> Iterator[LiveFrame]:
        """Yield the frames that are left, as far as they are earlier than a time."""
        if self._ticks is not None:
            yield from self._on_screen(self._ticks, END, before)
            self._ticks = None

    def _place(self, picture: Any, is_segment: bool) -> tuple[Fraction, bool]:
        """Return the time of a picture, and whether it follows a gap."""
        now = self.clock() if self.clock is not None else 0.0
        size = picture.height, picture.width
        is_gap = self._is_broken or self._size not in (None, size)
        stamp = self._stamp(picture, now)
        if self._time is None:
            time = _exact(self.start.begin)
        elif self._is_late:
            time = self._time + max(self.stay, Fraction(now - self._heard))
        else:
            time = stamp + self._offset
            interval = time - self._time
            if interval < -JITTER or (is_segment and interval <= 0):
                time, is_gap = self._time + self.stay, is_gap or not is_segment
            elif interval <= 0:
                time = self._time
            elif self._interval_is_known and interval > max(LEAST_JUMP, JUMP_FRAMES * self.stay):
                is_gap = True
            if time > self._time:
                self.stay, self._interval_is_known = time - self._time, True
        if is_gap or is_segment:
            time = Fraction(math.ceil(time * MICROSECONDS), MICROSECONDS)  # can be stored in a position
            self._offset = time - stamp
        self._time, self._size, self._heard = time, size, now
        self._is_late = self._is_broken = False
        return time, is_gap

    def _stamp(self, picture: Any, now: float) -> Fraction:
        """Return the timestamp of a picture in seconds; without one, the clock or the usual interval."""
        if picture.pts is not None and picture.time_base is not None:
            return Fraction(picture.pts * picture.time_base)
        if self.clock is not None or self._time is None:
            return Fraction(now)
        return self._time - self._offset + self.stay

    def _on_screen(self, ticks: Ticks, shown: Any, before: Fraction | None = None) -> Iterator[LiveFrame]:
        previous, times = ticks.next(shown)
        if previous is not None:
            assert ticks.first is not None
            numbers = range(ticks.count - times, ticks.count)
            moments = [ticks.first + number / ticks.rate for number in numbers]
            wanted = [moment for moment in moments if before is None or moment < before]
            yield from self._frames(previous.picture, wanted)

    def _frames(self, picture: Any, times: list[Fraction]) -> Iterator[LiveFrame]:
        """Yield a picture as one frame for each time."""
        array: Frame | None = None
        self.frames += len(times)
        for time in times:
            index, is_gap = self._index, self._is_gap
            self._index, self._is_gap = index + 1, False
            if index >= self.start.index or self.convert.first is None:  # the first sets the size of all
                array = self.convert(picture, index) if array is None else array.copy()
                if index >= self.start.index:
                    yield LiveFrame(float(time), index, array, is_gap)


def _exact(time: float) -> Fraction:
    """Return a stored time, which is a whole number of microseconds."""
    return Fraction(round(time * MICROSECONDS), MICROSECONDS)


def usual_rate(frames: Sequence[LiveFrame], stated: float | None = None) -> float:
    """Measure the rate of frames by their times, in frames per second.

    A stated rate is used if all times agree with it. Otherwise: most rates are whole numbers, or these
    divided by 1.001, and the times of most formats are rounded; so a rate within 0.5 % of such a rate
    becomes the nearest one.

    Parameters
    ----------
    frames : sequence of LiveFrame
        The first ones of a video.
    stated : float, optional
        The rate in the header of a file.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.zeros((8, 8), np.uint8)
    >>> frames = [LiveFrame(round(k / 29.97, 3), k, picture, False) for k in range(26)]
    >>> round(usual_rate(frames), 5)
    29.97003
    >>> usual_rate(frames, stated=29.97), usual_rate(frames, stated=25.0) == usual_rate(frames)
    (29.97, True)
    """
    if stated and all(abs(b.time - frames[0].time - k / stated) < ROUNDING for k, b in enumerate(frames)):
        return stated
    intervals = [b.time - a.time for a, b in pairwise(frames) if not b.is_gap]
    total = sum(intervals)
    if total <= 0.0:
        raise ParameterError("the times of the frames are not known, so give the rate of the frames")
    measured = len(intervals) / total
    usual = min(
        (base * max(1, round(measured / base)) for base in (1.0, NTSC)),
        key=lambda rate: abs(rate - measured),
    )
    return usual if abs(usual / measured - 1.0) < 0.005 else measured
