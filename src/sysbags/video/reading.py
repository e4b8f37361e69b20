"""Frames of a video, one by one: from a file, a folder of images, an array or an iterator.

All frames of a video are arrays of the same pixel format and size, upright, from 0 to 255.
"""

from __future__ import annotations

import numbers
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from fractions import Fraction
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from sysbags._common.files import IMAGE_SUFFIXES, images_in, saved_contents
from sysbags._common.messages import BREAK, warn
from sysbags._common.validation import check_choice, check_integer, check_weight
from sysbags.errors import ParameterError, SysbagsError, VideoError, VideoWarning
from sysbags.video.decoding import END, MAX_PIXELS, Damage, Ticks, decoded

Frame = npt.NDArray[np.uint8]
# The same pixels on every processor: the fast conversions of FFmpeg differ between instruction sets.
EXACT = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT
FORMATS = {"grey": "gray", "rgb": "rgb24"}
NO_FRAME = "there is no frame in it"

Pictures = Generator[Any, None, None]


class SharedVideo:
    """A video with several readers, each with its own options: every picture is decoded once.

    Each call of `frames` with this video adds a reader. A reader without a frame in its queue decodes the
    next picture, which is converted for each reader that wants it and added to its queue. So a reader that
    is ahead of the others makes their queues grow; readers that take turns do not.

    Parameters
    ----------
    video : path, array or iterable of arrays
        See `frames`; an iterator is consumed once.

    Attributes
    ----------
    readers : list of Reader
        In the order of the calls of `frames`.
    has_ended : bool
        Whether there are no more pictures.

    Examples
    --------
    >>> shared = SharedVideo(iter(np.zeros((6, 48, 64))))
    >>> large, small = frames(shared), frames(shared, stride=2, size=24)
    >>> [frame.shape for frame in large][-1], [frame.shape for frame in small]
    ((48, 64), [(24, 32), (24, 32), (24, 32)])
    """

    def __init__(self, video: Video) -> None:
        self.video = video
        self.readers: list[Reader] = []
        self.has_ended = False
        self.problems: list[str] = []
        self.failure: Exception | None = None
        self.warned: set[str] = set()
        self._has_started = False
        self._source: tuple[str, Pictures, bool] | None = None

    def open(self) -> tuple[str, bool]:
        """Return the name of the video in messages, and whether its pictures have timestamps."""
        if self._has_started:
            raise ParameterError("the shared video is already being read: add all readers before")
        if self._source is None:
            self._source = pictures_of(self.video, self.problems)
        name, _, timed = self._source
        return name, timed

    def advance(self) -> None:
        """Decode the next picture, and add it to the queues of the readers that want it."""
        assert self._source is not None  # there is a reader
        self._has_started = True
        try:
            picture = next(self._source[1], END)
        except Exception as error:  # of an iterator of frames: each reader has to raise it
            self.has_ended, self.failure = True, error
            return
        self.has_ended = picture is END
        for reader in self.readers:
            if not reader.is_done:
                reader.add(picture)

    def close(self) -> None:
        """Close the video if no reader needs it."""
        if self._source is not None and all(reader.is_closed for reader in self.readers):
            self._source[1].close()


class Reader:
    """One reader of a shared video: the frames that it wants, as far as they are decoded.

    Attributes
    ----------
    waiting : int
        Number of frames in its queue.
    is_done : bool
        Whether it wants no more pictures.
    warning : str or None
        The text of its warning about a video that breaks off, which is given once for all readers.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.video import SharedVideo, frames
    >>> shared = SharedVideo(iter(np.zeros((6, 48, 64))))
    >>> every, second = frames(shared), frames(shared, stride=2)
    >>> len(list(every)), [reader.waiting for reader in shared.readers]  # decoded, but not taken yet
    (6, [0, 3])
    >>> len(list(second)), [reader.waiting for reader in shared.readers]
    (3, [0, 0])
    """

    def __init__(
        self, shared: SharedVideo, convert: Converter, indices: range, ticks: Ticks | None, strict: bool
    ) -> None:
        self.shared, self.convert, self.indices, self.strict = shared, convert, indices, strict
        self.waiting = 0
        self.is_done = self.is_closed = False
        self.warning: str | None = None
        self._ticks = ticks
        self._count = 0  # pictures, or ticks, so far
        self._queue: deque[tuple[Frame, int]] = deque()  # a frame, and how many times it is to be yielded
        self._error: SysbagsError | None = None

    def add(self, picture: Any) -> None:
        """Add the next picture of the video to the queue, if it is wanted; END is the end of the video."""
        try:
            if self._ticks is not None:
                self._append(*self._ticks.next(picture))
            elif picture is not END:
                self._append(picture, 1)
        except SysbagsError as error:  # raised by this reader when its queue is empty, not by others
            self.is_done, self._error = True, error

    def _append(self, picture: Any, times: int) -> None:
        first = self._wanted_before(self._count)
        self._count += times
        wanted = self._wanted_before(self._count) - first
        if wanted:
            self._queue.append((self.convert(picture, self.indices[first]), wanted))
            self.waiting += wanted
        self.is_done = self._count > self.indices[-1]

    def _wanted_before(self, index: int) -> int:
        """Return how many of the indices are below an index."""
        start, stop, step = self.indices.start, self.indices.stop, self.indices.step
        return len(range(start, min(index, stop), step))

    def frames(self) -> Iterator[Frame]:
        """Yield the frames; at the end, raise or warn about a problem."""
        try:
            while True:
                if self._queue:
                    frame, times = self._queue.popleft()
                    for left in reversed(range(times)):
                        self.waiting -= 1
                        yield frame.copy() if left else frame
                elif self._error is not None:
                    raise self._error
                elif self.is_done:
                    return
                elif not self.shared.has_ended:
                    self.shared.advance()
                else:
                    break
            self.warning = self._text_at_end()
            if self.warning is not None and self.warning not in self.shared.warned:
                self.shared.warned.add(self.warning)
                warn(self.warning, VideoWarning, stacklevel=2)
        finally:
            self.close()

    def _text_at_end(self) -> str | None:
        """Return the warning at the end of the video, or raise an error."""
        name, count, problems = self.convert.name, self._count, self.shared.problems
        if self.shared.failure is not None:
            raise self.shared.failure
        if not count:
            raise VideoError(f"{name} cannot be read: {problems[0]}" if problems else f"{name} has no frame")
        total = f"{count} frame{'s' if count > 1 else ''}"
        if problems and self.strict:
            raise VideoError(f"{name} breaks off after {total}: {problems[0]}")
        if count <= self.indices.start:
            raise VideoError(f"start={self.indices.start} leaves no frame of {name}, which has {total}")
        return f"{name} breaks off after {total}{BREAK}: {problems[0]}" if problems else None

    def close(self) -> None:
        """Stop reading; the last reader closes the video."""
        self.is_done = self.is_closed = True
        self.waiting = 0
        self._queue.clear()
        self.shared.close()


Video = str | os.PathLike[str] | npt.NDArray[Any] | Iterable[npt.ArrayLike] | SharedVideo


def frames(
    video: Video,
    *,
    colour: str = "grey",
    start: int = 0,
    stop: int | None = None,
    stride: int = 1,
    max_frames: int | None = None,
    size: int | tuple[int, int] | None = None,
    rate: float | None = None,
    strict: bool = False,
) -> Iterator[Frame]:
    """Read the frames of a video one by one; memory does not grow with its length.

    A file is decoded by the threads of FFmpeg. Each frame is yielded once, in the order of presentation, also
    if the timestamps are not evenly spaced (see `rate`). Pictures are rotated by quarter turns as in the
    metadata of the file, and values are scaled to the range 0 to 255. No other file and no network address is
    opened, also not from a playlist.

    Parameters
    ----------
    video : path, array or iterable of arrays
        A file that FFmpeg can read; a folder of images, taken in natural order (frame2 before frame10);
        a (T, H, W) or (T, H, W, 3) array; or an iterable of (H, W) or (H, W, 3) frames, which is consumed
        only as far as needed. Arrays are uint8, or floats from 0 to 1.
    colour : {"grey", "rgb"}, default="grey"
        Grey is the luma.
    start, stop, stride : int, default=0, None, 1
        The frames to use, as in ``list(...)[start:stop:stride]``; they must not be negative.
    max_frames : int, optional
        Maximal number of frames.
    size : int or (height, width), optional
        Scale the upright picture: an int is the length of its shorter side and keeps the aspect ratio. If the
        frames of a file change their size, all are scaled to the size of the first; images and arrays must
        have the same size unless (height, width) is given.
    rate : float, optional
        Use the frame on screen every 1/rate seconds, from the first frame on: frames are repeated or left
        out by their timestamps. `start`, `stop` and `stride` then apply to the result. Files only.
    strict : bool, default=False
        Whether a damaged or truncated video is an error; otherwise the frames before the damage are used.

    Returns
    -------
    iterator of (H, W) or (H, W, 3) arrays of uint8
        Each frame is a new C-contiguous array.

    Raises
    ------
    VideoError
        If no frame can be read; if `strict`, when the video breaks off.

    Warns
    -----
    VideoWarning
        When the video breaks off: the decoder finds damage, or the file is shorter than its header says. See
        `collect_warnings` for many videos.

    Examples
    --------
    >>> clip = np.zeros((10, 48, 64, 3))
    >>> [frame.shape for frame in frames(clip, start=2, stride=3, size=24)]
    [(24, 32), (24, 32), (24, 32)]
    """
    check_choice(colour, "colour", FORMATS)
    start = check_integer(start, "start", 0)
    stride = check_integer(stride, "stride")
    end = start + 2**62 if stop is None else check_integer(stop, "stop", start + 1)
    indices = range(start, end, stride)
    if max_frames is not None:
        indices = indices[: check_integer(max_frames, "max_frames")]
    shape = None if size is None else check_size(size)
    shared = video if isinstance(video, SharedVideo) else SharedVideo(video)
    name, timed = shared.open()
    if rate is not None and not timed:
        raise ParameterError(f"rate is {rate!r}, but {name} has no timestamps: choose frames by stride")
    ticks = None if rate is None else Ticks(check_rate(rate), name)
    convert = Converter(FORMATS[colour], shape, name, may_change=timed)
    shared.readers.append(Reader(shared, convert, indices, ticks, strict))
    return shared.readers[-1].frames()


def check_size(size: Any) -> int | tuple[int, int]:
    """Return the length of the shorter side, or the height and the width."""
    if isinstance(size, (tuple, list)) and len(size) == 2:
        height, width = (check_integer(side, "a side in size") for side in size)
        if height * width <= MAX_PIXELS:
            return height, width
    elif isinstance(size, numbers.Integral) and check_integer(size, "size") ** 2 <= MAX_PIXELS:
        return int(size)
    raise ParameterError(
        f"size is {size!r}, but it must be the length of the shorter side or (height, width), with at most "
        f"{MAX_PIXELS} pixels"
    )


def check_rate(rate: Any) -> Fraction:
    """Return a rate, frames per second, as a fraction."""
    value = check_weight(rate, "rate")
    if value == 0.0:
        raise ParameterError("rate is 0, but it must be above 0: a number of frames per second")
    return rate if isinstance(rate, Fraction) else Fraction(value)


def pictures_of(video: Any, problems: list[str]) -> tuple[str, Pictures, bool]:
    """Return the name of a video in messages, its pictures, and whether these have timestamps."""
    if isinstance(video, (str, os.PathLike)):
        name = os.fspath(video)
        try:
            return name, *_stored(Path(video), name, problems)
        except OSError as error:
            raise VideoError(f"{name} cannot be read: {error.strerror}") from None
    if isinstance(video, np.ndarray):
        if video.ndim not in (3, 4) or len(video) == 0:
            raise VideoError(
                f"the array has shape {video.shape}, but a video must be (T, H, W) or (T, H, W, 3), T > 0"
            )
        check_pixels(video[0], "frame 0 of the array")
        return "the array", (frame for frame in video), False
    if isinstance(video, (bytes, bytearray)) or not isinstance(video, Iterable):
        kind = type(video).__name__
        raise VideoError(f"the video is of type {kind}, but it must be a path, an array or frames")
    return "the iterable", (frame for frame in video), False


def _stored(path: Path, name: str, problems: list[str]) -> tuple[Pictures, bool]:
    if path.is_dir():
        images = images_in(path)
        if not images:
            suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
            raise VideoError(f"the folder {name} has no images ({suffixes}): name videos in it one by one")
        return _folder(images, problems), False
    if not path.is_file():
        raise VideoError(f"{name} is not a regular file" if path.exists() else f"{name} does not exist")
    if path.stat().st_size == 0:
        raise VideoError(f"{name} is empty: it has no bytes")
    if contents := saved_contents(path):
        raise VideoError(f"{name} holds {contents}, but it must be a video")
    return _file(path, problems), True


def _folder(images: list[Path], problems: list[str]) -> Pictures:
    for image in images:
        try:
            with closing(decoded(image, 1)) as pictures:
                picture = next(pictures)
        except (Damage, StopIteration) as damage:
            problems.append(f"{image.name}: {str(damage) or NO_FRAME}")
            return
        yield picture


def _file(path: Path, problems: list[str]) -> Pictures:
    """Decode with several threads; after damage continue with one, which finds its exact position."""
    count, damage = 0, ""
    for threads in (0, 1):
        try:
            damage = ""
            with closing(decoded(path, threads)) as pictures:
                for picture in islice(pictures, count, None):
                    count += 1
                    yield picture
            break
        except Damage as error:
            damage = str(error)
    if not damage and not count:
        damage = NO_FRAME
    if damage:
        problems.append(damage)


class Converter:
    """Turns pictures into arrays of the same pixel format, with the size of the first."""

    def __init__(self, format: str, size: int | tuple[int, int] | None, name: str, may_change: bool) -> None:
        self.format, self.size, self.name = format, size, name
        self.may_change = may_change or isinstance(size, tuple)
        self.first: tuple[int, int] | None = None
        self.reformatter = VideoReformatter()

    def __call__(self, picture: Any, index: int) -> Frame:
        """Return a picture as an array."""
        if not isinstance(picture, av.VideoFrame):
            pixels = check_pixels(picture, f"frame {index} of {self.name}")
            picture = av.VideoFrame.from_ndarray(pixels, "gray" if pixels.ndim == 2 else "rgb24")
        turns = round(picture.rotation / 90) % 4
        upright = (picture.height, picture.width)[:: -1 if turns % 2 else 1]
        if self.first is None:
            self.first, self.shape = upright, self._scaled(*upright)
        if upright != self.first and not self.may_change:
            raise VideoError(
                f"frame {index} of {self.name} has {upright[0]} x {upright[1]} pixels, but the first has "
                f"{self.first[0]} x {self.first[1]}: give size=(height, width) to scale all of them"
            )
        if self.format == "gray" and upright == self.shape and _has_plain_luma(picture.format.name):
            luma = _luma(picture)
            return np.ascontiguousarray(np.rot90(luma, turns)) if turns else luma
        height, width = self.shape[:: -1 if turns % 2 else 1]
        try:
            converted = self.reformatter.reformat(
                picture,
                width,
                height,
                self.format,
                interpolation=EXACT,
                dst_color_range=ColorRange.JPEG,
                threads=1,
            )
        except (av.FFmpegError, ValueError) as error:
            layout = picture.format.name
            raise VideoError(f"cannot convert the pixel format {layout} of {self.name}: {error}") from None
        return np.array(np.rot90(converted.to_ndarray(), turns), order="C")  # a copy: it may view a buffer

    def _scaled(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size
        if self.size is not None:
            scale = self.size / min(height, width)
            height, width = round(height * scale), round(width * scale)
        if height * width > MAX_PIXELS:
            raise VideoError(f"{self.name} has {height} x {width} pixels, more than the limit {MAX_PIXELS}")
        return height, width


@cache
def _has_plain_luma(name: str) -> bool:
    """Return whether the first plane is an 8-bit luma, for which grey needs no scaler."""
    layout = av.VideoFormat(name)
    return name.startswith(("yuv", "nv")) and layout.is_planar and layout.components[0].bits == 8


def _luma(picture: av.VideoFrame) -> Frame:
    """Copy the luma at full range: exactly the values of the scaler, but faster."""
    plane = picture.planes[0]
    rows = np.frombuffer(memoryview(plane), np.uint8, plane.height * plane.line_size)
    lines = rows.reshape(plane.height, plane.line_size)
    luma = lines[:, : plane.width]
    if picture.color_range == ColorRange.JPEG:
        return luma.copy()
    from sysbags._numba.pixels import full_range

    full = np.empty(luma.shape, np.uint8)
    full_range(lines, full)  # with what pads each line, so that one layout is compiled for all widths
    return full


def check_pixels(frame: Any, name: str) -> Frame:
    """Return a frame of an array or an iterable as (H, W) or (H, W, 3) uint8."""
    if np.ma.is_masked(frame):
        raise VideoError(f"{name} is a masked array with masked pixels, but each pixel must have a value")
    try:
        pixels = np.asarray(frame)
    except ValueError:
        raise VideoError(f"{name} is ragged, but it must be an array (H, W) or (H, W, 3)") from None
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)) or pixels.size == 0:
        raise VideoError(f"{name} has shape {pixels.shape}, but it must be (H, W) or (H, W, 3)")
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype.kind != "f":
        raise VideoError(f"{name} holds {pixels.dtype}, but it must hold uint8, or floats from 0 to 1")
    low, high = float(pixels.min()), float(pixels.max())
    if not (low >= 0.0 and high <= 1.0):
        raise VideoError(f"{name} holds floats from {low:.6g} to {high:.6g}, but they must be from 0 to 1")
    return np.rint(pixels * 255.0).astype(np.uint8)
