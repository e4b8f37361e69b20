"""Frames of long and live videos: files, folders of segments, pipes, devices and network addresses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from sysbags._common.files import VIDEO_SUFFIXES, natural_order
from sysbags._common.messages import BREAK, warn
from sysbags._common.validation import check_choice, check_integer, check_positive
from sysbags.errors import ParameterError, VideoError, VideoWarning
from sysbags.video.backlog import Backlog, Frames, Listener
from sysbags.video.decoding import Damage
from sysbags.video.feeds import (
    check_feed,
    is_address,
    is_device,
    open_feed,
    open_pipe,
    pictures,
    without_password,
)
from sysbags.video.reading import FORMATS, Converter, check_rate, check_size, pictures_of
from sysbags.video.timing import FrameSequence, LiveFrame, Position

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a reconnection
POLL_SECONDS = 0.5  # between looks at a folder for new segments
CHECKED = 100  # frames, after which it is known whether a given rate is above that of the video


def open_live(
    source: str | os.PathLike[str],
    *,
    colour: str = "grey",
    size: int | tuple[int, int] | None = None,
    rate: float | None = None,
    start: int | Position = 0,
    follow: bool = False,
    queue_seconds: float = 10.0,
    patience: float = 10.0,
    on_event: Listener | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] | None = None,
) -> LiveVideo:
    r"""Open a video of any length, stored or live, to read its frames one by one.

    Nothing but the source is opened: a playlist in a file or a pipe cannot open other files or addresses, and
    a server can refer to other network addresses, but not to files of this computer.

    Parameters
    ----------
    source : path or str
        One of:

        - a video file;
        - a folder of video files, which are the segments of one video in natural order;
        - ``-``, the standard input: any format that FFmpeg can read from a pipe. A pipe that stalls is waited
          for, and no frame is skipped;
        - a device such as ``/dev/video0``, or ``0`` for short;
        - an address that begins with rtsp, rtmp, http, https, srt, tcp or udp. RTSP uses TCP.

        Devices and addresses are live: a thread decodes them, opens them again when they fail or end, after
        pauses of 1, 2, 4, ... and at most 60 seconds, and skips frames that are not taken fast enough. This
        holds for the first connection, too. An address of a file, whose length is known, is not read again
        at its end.
    colour, size, rate
        As in `frames`; with a rate, ticks are counted from the last gap. A rate above that of the video
        repeats frames, which gives a `VideoWarning`.
    start : int or Position, default=0
        Where to begin: the number of a frame of a file, or the `position` of an earlier `LiveVideo`. Frames
        before it are decoded and left out. Pipes, devices and addresses continue the numbers and times.
    follow : bool, default=False
        Whether to wait for more segments of a folder. The last one is then complete when it has not changed
        for `patience` seconds, or when there is a later one.
    queue_seconds : float, default=10.0
        How much video may wait to be taken, in seconds. If there is more from a device or an address, all
        that waits is skipped at once, so that there are long runs of frames without gaps; a pipe is not read
        further.
    patience : float, default=10.0
        A device or an address without data for so many seconds is lost.
    on_event : callable, optional
        Called with a name and details, by the thread that takes the frames: ``"connected"``,
        ``"lost"`` (``reason`` and ``pause`` in seconds), ``"waiting"`` (for data of a pipe or a segment) and
        ``"skipped"`` (``frames``).
    clock, sleep : callables, optional
        The time in seconds, and what waits for some seconds.

    Returns
    -------
    LiveVideo
        An iterator of `LiveFrame` and a context manager.

    Raises
    ------
    VideoError
        If a file does not exist, or this build of FFmpeg cannot open such a device or address; while reading,
        if no frame of a file, a folder or a pipe can be read.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "clip.y4m"
    >>> _ = path.write_bytes(b"YUV4MPEG2 W8 H8 F25:1 Cmono\n" + 30 * (b"FRAME\n" + bytes(64)))
    >>> with open_live(path, rate=5.0) as video:
    ...     [(frame.index, frame.time, frame.is_gap) for frame in video][:3]
    [(0, 0.0, False), (1, 0.2, False), (2, 0.4, False)]
    """
    check_choice(colour, "colour", FORMATS)
    source = os.fspath(source)
    is_live, is_folder = is_address(source) or is_device(source), os.path.isdir(source)
    if follow and not is_folder:
        raise ParameterError("follow is for folders of segments, but the source is not a folder")
    if is_live:
        check_feed(source)
    elif source != "-" and not is_folder:
        pictures_of(source, [])  # so that a file that does not exist is reported at once
    if not isinstance(start, Position):
        number = check_integer(start, "start", 0)
        start = Position(index=number, frame=number)
    if is_live or source == "-":
        start = Position(start.index, start.time, begin=start.time, origin=start.time)
    name = "the standard input" if source == "-" else without_password(source) if is_live else source
    shape = None if size is None else check_size(size)
    sequence = FrameSequence(
        Converter(FORMATS[colour], shape, name, may_change=True),
        None if rate is None else check_rate(rate),
        start,
        clock if is_live else None,
    )
    return LiveVideo(
        source,
        sequence,
        follow=follow,
        is_live=is_live,
        queue_seconds=check_positive(queue_seconds, "queue_seconds"),
        patience=check_positive(patience, "patience"),
        on_event=on_event,
        clock=clock,
        sleep=sleep,
    )


class LiveVideo:
    """The frames of a video that `open_live` has opened.

    Attributes
    ----------
    name : str
        The source in messages, without a password.
    is_live : bool
        Whether it is a device or an address.
    reconnections : int
        How many times a device or an address was opened again.
    position : Position
        Where to continue after the last frame that was taken.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from sysbags.video import open_live, write_video
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "clip.mp4"
    >>> _ = write_video(path, np.zeros((6, 48, 64, 3)), rate=2)
    >>> with open_live(path) as video:
    ...     times = [frame.time for frame in video]
    >>> times, video.position.index, video.skipped, video.is_live
    ([0.0, 0.5, 1.0, 1.5, 2.0, 2.5], 6, 0, False)
    """

    def __init__(
        self,
        source: str,
        sequence: FrameSequence,
        *,
        follow: bool,
        is_live: bool,
        queue_seconds: float,
        patience: float,
        on_event: Listener | None,
        clock: Callable[[], float],
        sleep: Callable[[float], object] | None,
    ) -> None:
        self.source, self.name, self.is_live = source, sequence.convert.name, is_live
        self.follow, self.patience, self.clock = follow, patience, clock
        self.reconnections = self._taken = 0
        self.position = sequence.start
        self._sequence = sequence
        self._is_stopped = False  # not an Event, whose `set` could block in the handler of a signal
        self._notify = on_event or (lambda name, details: None)
        self._backlog: Backlog | None = None
        self._sleep = sleep or time.sleep
        if is_live or source == "-":
            frames = self._feed_frames() if is_live else self._pipe_frames()
            backlog = Backlog(frames, queue_seconds, is_live, self._notify, self._has_stopped)
            self._backlog, self._notify, self._frames = backlog, backlog.notify, backlog.frames()
            self._sleep = sleep or backlog.sleep
            if sequence.start.index:
                sequence.add_gap()
        else:
            self._frames = self._stored_frames()

    @property
    def skipped(self) -> int:
        """How many frames were skipped because they were not taken fast enough."""
        return 0 if self._backlog is None else self._backlog.skipped

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LiveFrame:
        frame = next(self._frames)
        self.position = self._sequence.position(frame)
        self._taken += 1
        if self._taken == CHECKED:
            self._check_rate()
        return frame

    def _check_rate(self) -> None:
        """Warn if the given rate is above that of the video; up to 1 % may be rounding."""
        sequence = self._sequence
        shown, frames = sequence.pictures - 1, sequence.frames  # the last picture has given no frame yet
        if sequence.rate is not None and 100 * shown < 99 * frames:
            own = float(sequence.rate * shown / frames)
            warn(
                f"rate is {float(sequence.rate):g} frames per second, but {self.name} has about {own:.2g}: "
                "frames are repeated, so use a lower rate or none",
                VideoWarning,
            )

    def stop(self) -> None:
        """End the iteration soon; this may be called by any thread and by the handler of a signal."""
        self._is_stopped = True
        if self._backlog is not None:
            self._backlog.wake()

    def close(self) -> None:
        """Stop, and wait for the thread that decodes: if a feed is silent, for at most `patience` seconds."""
        self.stop()
        if self._backlog is not None:
            self._backlog.join(self.patience + 1.0)
        with suppress(ValueError):  # another thread is taking a frame: it notices that it must end
            self._frames.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _stored_frames(self) -> Frames:
        """Yield the frames of a file or of a folder of segments."""
        sequence, path = self._sequence, Path(self.source)
        is_folder, has_frame = path.is_dir(), False
        for segment in self._segments(path) if is_folder else [path]:
            sequence.begin_segment(segment.name if is_folder else "")
            count = 0
            problems: list[str] = []
            try:
                for picture in pictures_of(segment, problems)[1]:
                    if self._has_stopped():
                        return
                    count, has_frame = count + 1, True
                    yield from sequence.add(picture)
                if problems:
                    _report(str(segment), count, problems[0])
            except VideoError as error:
                if not is_folder:
                    raise
                warn(str(error), VideoWarning)
            if problems or not count:
                sequence.add_gap()
        if not has_frame and not self._has_stopped() and not sequence.start.index:
            raise VideoError(f"the folder {self.name} has no video that can be read")
        yield from sequence.end()

    def _segments(self, folder: Path) -> Iterator[Path]:
        """Yield the video files of a folder in natural order, each when it is complete.

        With `follow`, wait for more segments; files that are added before a segment that was already used
        are ignored.
        """
        least, last = natural_order(Path(self._sequence.start.segment)), None
        state, since, is_waiting = None, self.clock(), False
        while not self._has_stopped():
            later = [path for path in _videos(folder) if natural_order(path) >= least and path != last]
            newest = _state(later[-1]) if later else None
            if newest != state:
                state, since = newest, self.clock()
            if len(later) > 1 or (later and (not self.follow or self.clock() - since >= self.patience)):
                is_waiting = False
                last = later[0]
                least = natural_order(last)
                yield last
            elif not self.follow:
                return
            else:
                if not is_waiting:
                    self._wait()
                is_waiting = True
                self._sleep(POLL_SECONDS)

    def _has_stopped(self) -> bool:
        return self._is_stopped

    def _wait(self) -> None:
        self._notify("waiting", {})

    def _pipe_frames(self) -> Frames:
        """Yield the frames of the standard input; the thread of the backlog runs this."""
        count, problem = 0, "there is no frame in it"
        try:
            with open_pipe(self._has_stopped, self._wait) as (container, stream):
                for picture, is_broken in pictures(container, stream, self.clock):
                    count += 1
                    yield from self._add(picture, is_broken)
                problem = problem if not count else ""
        except Damage as damage:
            problem = str(damage)
        if problem and not self._has_stopped():
            hint = (
                " (MP4 files have their index at the end, which a pipe cannot reach: use MPEG-TS or Matroska)"
            )
            _report(self.name, count, problem + hint * (not count))
        yield from self._sequence.end()

    def _feed_frames(self) -> Frames:
        """Yield the frames of a device or an address; the thread of the backlog runs this."""
        sequence, pause, has_frame = self._sequence, FIRST_PAUSE, False
        while not self._has_stopped():
            reason = "it has ended"
            try:
                with open_feed(self.source, self.patience) as (container, stream):
                    self.reconnections += has_frame
                    self._notify("connected", {})
                    for picture, is_broken in pictures(container, stream, self.clock, self.patience):
                        if self._has_stopped():
                            return
                        pause, has_frame = FIRST_PAUSE, True
                        yield from self._add(picture, is_broken)
                    if container.duration and has_frame:  # a file on a server
                        break
            except Damage as damage:
                reason = str(damage)
            if self._has_stopped():
                return
            if has_frame:
                yield from sequence.end()
                sequence.reconnect()
            self._notify("lost", {"reason": reason, "pause": pause})
            self._sleep(pause)
            pause = min(2.0 * pause, LONGEST_PAUSE)
        yield from sequence.end()

    def _add(self, picture: Any, is_broken: bool) -> Iterator[LiveFrame]:
        if is_broken:
            self._sequence.add_gap()
        return self._sequence.add(picture)


def _report(name: str, count: int, problem: str) -> None:
    """Warn about a video that breaks off; without a frame it is an error."""
    if not count:
        raise VideoError(f"{name} cannot be read: {problem}")
    warn(f"{name} breaks off after {count} frame{'s' * (count > 1)}{BREAK}: {problem}", VideoWarning)


def _videos(folder: Path) -> list[Path]:
    try:
        paths = [p for p in folder.iterdir() if p.suffix.lower() in VIDEO_SUFFIXES and p.name[0] != "."]
    except OSError as error:
        raise VideoError(f"the folder {folder} cannot be read: {error.strerror}") from None
    return sorted(paths, key=natural_order)


def _state(path: Path) -> tuple[str, int, int] | None:
    """Return what changes while a file is being written; None if it has been removed."""
    try:
        status = path.stat()
    except OSError:
        return None
    return path.name, status.st_size, status.st_mtime_ns
