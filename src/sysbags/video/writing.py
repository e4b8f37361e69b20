"""Video files from frames, and the frames of a video in another order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import av
import numpy as np

from sysbags._common.files import atomic_write
from sysbags._common.validation import check_positive
from sysbags.errors import FileError, VideoError
from sysbags.video.reading import EXACT, Frame, Video, check_pixels, frames

FORMATS = {".avi": "avi", ".m4v": "mp4", ".mkv": "matroska", ".mov": "mov", ".mp4": "mp4"}
# The first encoder that FFmpeg has, with its options.
LOSSLESS = {"libx264": {"qp": "0", "preset": "veryfast"}, "ffv1": {}}
LOSSY = {"libx264": {"crf": "18", "preset": "veryfast"}, "mpeg4": {"qmin": "2", "qmax": "4"}}


def write_video(
    path: str | os.PathLike[str], pictures: Iterable[Any], rate: float | Fraction, *, lossless: bool = False
) -> int:
    """Write frames to a video file, one by one, and return how many there were.

    The file is written under a temporary name, so that a file that exists is replaced by a whole one or not
    at all. The codec is H.264; where FFmpeg has no encoder for it, MPEG-4, or FFV1 if `lossless`.

    Parameters
    ----------
    path : path
        Its suffix is the format: .mp4, .m4v, .mov, .mkv or .avi.
    pictures : iterable of (H, W) or (H, W, 3) array
        Of the same size: uint8, or floats from 0 to 1.
    rate : float or Fraction
        Frames per second.
    lossless : bool, default=False
        Whether the encoder keeps every value. The conversion to YCbCr, which stores colours at half the
        resolution, is rounded in any case.

    Raises
    ------
    FileError
        If the file cannot be written.
    VideoError
        If there is no frame, or one of another size.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "clip.mp4"
    >>> write_video(path, np.zeros((5, 48, 64, 3)), rate=25)
    5
    >>> len(list(frames(path)))
    5
    """
    format = check_format(path)
    with atomic_write(path) as temporary:
        try:
            return encode_video(str(temporary), pictures, rate, lossless=lossless, format=format)
        except av.FFmpegError as error:
            raise FileError(f"cannot write {path}: {error.strerror or error}") from None


def check_format(path: str | os.PathLike[str]) -> str:
    """Return what FFmpeg calls the format of a file that is to be written, by its suffix."""
    format = FORMATS.get(Path(path).suffix.lower())
    if format is None:
        raise FileError(f"cannot write {path}: the suffix of a video must be one of {', '.join(FORMATS)}")
    return format


def encode_video(
    file: str | IO[bytes],
    pictures: Iterable[Any],
    rate: float | Fraction,
    *,
    lossless: bool = False,
    format: str = "mp4",
) -> int:
    """Encode frames into a file or a file object, see `write_video`.

    Encoders differ between processors and versions, but the decoded frames of a lossless file do not. The
    conversion to YCbCr is FFmpeg's exact one, which does not depend on the processor either.
    """
    check_positive(float(rate), "rate")
    numbered = enumerate(pictures)
    first = next(numbered, None)
    if first is None:
        raise VideoError("there is no frame to write")
    height, width = check_pixels(first[1], "frame 0").shape[:2]
    encoders = {
        name: options
        for name, options in (LOSSLESS if lossless else LOSSY).items()
        if name in av.codecs_available
    }
    codec, options = next(iter(encoders.items()))
    # With colours at half the resolution, H.264 needs an even number of pixels.
    layout = "yuv444p" if codec == "libx264" and (height % 2 or width % 2) else "yuv420p"
    count = 0
    with av.open(file, "w", format=format) as container:
        # One thread: with several, the encoded bytes depend on their number.
        stream: Any = container.add_stream(
            codec, Fraction(rate).limit_denominator(1001), options=options | {"threads": "1"}
        )
        stream.height, stream.width, stream.pix_fmt = height, width, layout
        for index, picture in chain([first], numbered):
            pixels = check_pixels(picture, f"frame {index}")
            if pixels.shape[:2] != (height, width):
                raise VideoError(
                    f"frame {index} has {pixels.shape[0]} x {pixels.shape[1]} pixels, but the first has "
                    f"{height} x {width}"
                )
            frame = av.VideoFrame.from_ndarray(pixels, format="gray" if pixels.ndim == 2 else "rgb24")
            container.mux(stream.encode(frame.reformat(format=layout, interpolation=EXACT)))
            count += 1
        container.mux(stream.encode(None))
    return count


def reordered_frames(video: Video, order: Sequence[int], **options: Any) -> Iterator[Frame]:
    """Yield the frames of a video in another order, some several times; the video is read once.

    The frames are kept in a temporary file meanwhile, as a long video does not fit into memory.

    Parameters
    ----------
    video : path, array or iterable of arrays
    order : sequence of int
        Indices of frames.
    **options
        Options of `frames`.

    Examples
    --------
    >>> clip = np.arange(3)[:, None, None] * np.full((1, 8, 8), 0.2)
    >>> [int(frame[0, 0]) for frame in reordered_frames(clip, [2, 0, 2])]
    [102, 0, 102]
    """
    places = {int(index): place for place, index in enumerate(sorted(set(order)))}
    last = max(places)
    with TemporaryFile() as file:
        shape: tuple[int, ...] = ()
        for index, frame in enumerate(frames(video, **options)):
            if index in places:
                shape = frame.shape
                file.write(frame.tobytes())
            if index == last:
                break
        else:
            raise VideoError(f"the video has no frame {last}")
        length = int(np.prod(shape))
        for index in order:
            file.seek(places[int(index)] * length)
            yield np.frombuffer(file.read(length), dtype=np.uint8).reshape(shape)
