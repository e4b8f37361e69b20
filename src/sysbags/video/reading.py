"""Frames of a video, one by one: from a file, a folder of images, an array or an iterator."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from fractions import Fraction
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from sysbags._common.files import IMAGE_SUFFIXES, natural_order
from sysbags._common.validation import check_choice, check_integer, check_weight
from sysbags._common.warnings import BREAK, warn
from sysbags.errors import ParameterError, VideoError, VideoWarning
from sysbags.video.decoding import MAX_PIXELS, Damage, decoded
from sysbags.video.pixels import Converter, Frame, check_pixels

__all__ = ["Frame", "Video", "frames"]

Video = str | os.PathLike[str] | npt.NDArray[Any] | Iterable[npt.ArrayLike]

FORMATS = {"grey": "gray", "rgb": "rgb24"}
NO_FRAME = "there is no frame in it"
MAX_REPEATS = 2**20  # of one frame: damaged timestamps must not give an endless video

Pictures = Generator[Any, None, None]


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

    Yields
    ------
    (H, W) or (H, W, 3) array of uint8
        New and C-contiguous.

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
    shape = None if size is None else _check_size(size)
    problems: list[str] = []
    name, pictures, timed = _pictures(video, problems)
    if rate is not None:
        if not timed:
            raise ParameterError(f"rate is {rate!r}, but {name} has no timestamps: choose frames by stride")
        pictures = _ticks(pictures, _check_rate(rate), name)
    convert = Converter(FORMATS[colour], shape, name, may_change=timed)
    return _selected(pictures, convert, indices, problems, strict)


def _check_size(size: Any) -> int | tuple[int, int]:
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


def _check_rate(rate: Any) -> Fraction:
    value = check_weight(rate, "rate")
    if value == 0.0:
        raise ParameterError("rate is 0, but it must be above 0: a number of frames per second")
    return rate if isinstance(rate, Fraction) else Fraction(value)


def _selected(
    pictures: Pictures, convert: Converter, indices: range, problems: list[str], strict: bool
) -> Iterator[Frame]:
    """Convert the pictures at the indices; at the end, raise or warn about a problem."""
    name, count = convert.name, 0
    with closing(pictures):
        for picture in pictures:
            if count in indices:
                yield convert(picture, count)
            count += 1
            if count > indices[-1]:
                return
    if not count:
        raise VideoError(f"{name} cannot be read: {problems[0]}" if problems else f"{name} has no frame")
    total = f"{count} frame{'s' if count > 1 else ''}"
    if problems and strict:
        raise VideoError(f"{name} breaks off after {total}: {problems[0]}")
    if count <= indices.start:
        raise VideoError(f"start={indices.start} leaves no frame of {name}, which has {total}")
    if problems:
        warn(f"{name} breaks off after {total}{BREAK}: {problems[0]}", VideoWarning, stacklevel=2)


def _ticks(pictures: Pictures, rate: Fraction, name: str) -> Pictures:
    """Repeat and leave out pictures: yield the one on screen every 1/rate seconds."""
    tick, first, before = 0, Fraction(0), Fraction(0)
    shown: Any = None

    def until(time: Fraction) -> Iterator[av.VideoFrame]:
        nonlocal tick
        count = max(0, math.ceil((time - first) * rate) - tick)
        if count > MAX_REPEATS:
            raise VideoError(f"{name} has timestamps {float(time - before):.3g} s apart: leave rate out")
        tick += count
        return repeat(shown, count)

    for picture in pictures:
        if picture.pts is None or picture.time_base is None:
            raise VideoError(f"{name} has frames without timestamps: leave rate out")
        now = picture.pts * picture.time_base
        if shown is None:
            first = now
            stay = 1 / rate
        else:
            # stored times and rate are rounded, so a tick just before a frame belongs to that frame
            yield from until(now - min(picture.time_base / 2, Fraction(1, 1000)))
            stay = now - before if now > before else stay
        shown, before = picture, now
    if shown is not None:  # the last picture stays for its duration, or for that of the previous one
        yield from until(before + (shown.duration * shown.time_base if shown.duration else stay))


def _pictures(video: Any, problems: list[str]) -> tuple[str, Pictures, bool]:
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
        images = [p for p in path.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and p.name[0] != "."]
        if not images:
            suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
            raise VideoError(f"the folder {name} has no images ({suffixes}): name videos in it one by one")
        return _folder(sorted(images, key=natural_order), problems), False
    if not path.is_file():
        raise VideoError(f"{name} is not a regular file" if path.exists() else f"{name} does not exist")
    if path.stat().st_size == 0:
        raise VideoError(f"{name} is empty: it has no bytes")
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
