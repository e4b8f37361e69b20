"""Conversion of pictures to arrays of the same pixel format and size, upright, from 0 to 255."""

from __future__ import annotations

from functools import cache
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Interpolation, VideoReformatter

from sysbags.errors import VideoError
from sysbags.video.decoding import MAX_PIXELS

__all__ = ["EXACT", "Converter", "Frame", "check_pixels"]

Frame = npt.NDArray[np.uint8]
# The same pixels on every processor: the fast conversions of FFmpeg differ between instruction sets.
EXACT = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT


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
