"""Colour histograms of a frame, or of each cell of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags.bags.base import BagTransformer
from sysbags.errors import ParameterError
from sysbags.video import Frame

MOST_BINS = (256, 128, 128)  # the numbers of different values


class ColourHistogram(BagTransformer):
    """Turn a video into joint histograms of colour, one for each cell of a grid over the picture.

    The colour of a pixel is its lightness L, its position a between green and red, and its position b between
    blue and yellow: OpenCV's CIELAB in 8 bits, where L is from 0 to 255 and grey is a = b = 128. L is divided
    into equal bins from 0 to 256, a and b from 64 to 192; stronger colours are in the first and last bin, so
    that each pixel is counted. A bin of the joint histogram is a bin of L, a bin of a and a bin of b.

    Row i of H is in row ``i * grid // H`` of the cells, and columns likewise, so that each pixel is in
    one cell.

    Parameters
    ----------
    bins : three int, default=(6, 8, 8)
        Bins of L, of a and of b.
    grid : int, default=2
        The picture is divided into `grid` x `grid` cells, whose histograms are concatenated row by row:
        ``grid**2 * bins[0] * bins[1] * bins[2]`` bins in all.
    window, step : int, default=1, None
        Pool `window` frames into one bag, every `step` frames; the step is by default the window.
    frames : mapping, optional
        Options for `sysbags.video.frames`, for instance ``{"stride": 2, "size": 240}``.
    n_jobs : int, optional
        Number of threads, over videos.

    Examples
    --------
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(5, 48, 64, 3), dtype=np.uint8)
    >>> ColourHistogram().stream(clip).shape
    (5, 1536)
    >>> ColourHistogram((4, 4, 4), grid=1, window=2).stream(clip).shape
    (2, 64)
    """

    colour = "rgb"

    def __init__(
        self,
        bins: Sequence[int] = (6, 8, 8),
        *,
        grid: int = 2,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.bins = bins
        self.grid = grid
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn frames into counts of pixels, (p,) each."""
        bins, grid = _check_bins(self.bins), check_integer(self.grid, "grid")
        return (colour_histogram(frame, bins, grid) for frame in frames)


def colour_histogram(frame: Frame, bins: tuple[int, int, int], grid: int = 1) -> Array:
    """Count the pixels of each colour in each cell of an RGB frame, (H, W, 3) of uint8.

    `bins` are those of L, of a and of b, `grid` is the number of cells per side. The counts are ordered cell
    by cell, row by row; within a cell by L, then by a, then by b.

    >>> frame = np.zeros((2, 2, 3), np.uint8)
    >>> frame[0, 1] = 255  # white, upper right
    >>> colour_histogram(frame, (2, 1, 1), grid=2)
    array([1., 0., 0., 1., 1., 0., 1., 0.])
    """
    import cv2

    light, red, yellow = cv2.split(cv2.LUT(cv2.cvtColor(frame, cv2.COLOR_RGB2LAB), _table(bins)))
    height, width = frame.shape[:2]
    row, column = (np.arange(length) * grid // length for length in (height, width))
    size = bins[0] * bins[1] * bins[2]
    index = (row[:, None] * grid + column) * size
    index += light
    index += red
    index += yellow
    return np.bincount(index.ravel(), minlength=grid * grid * size).astype(np.float64)


def _table(bins: tuple[int, int, int]) -> npt.NDArray[np.int32]:
    """Return the contribution of each value of L, a and b to the index of the bin, (1, 256, 3)."""
    value = np.arange(256)
    light = value * bins[0] // 256
    red, yellow = (np.clip((value - 64) * count // 128, 0, count - 1) for count in bins[1:])
    return np.stack([light * bins[1] * bins[2], red * bins[2], yellow], axis=1).astype(np.int32)[None]


def _check_bins(bins: Any) -> tuple[int, int, int]:
    try:
        light, red, yellow = (check_integer(count, "bins") for count in bins)
        if all(count <= most for count, most in zip((light, red, yellow), MOST_BINS, strict=True)):
            return light, red, yellow
    except (TypeError, ValueError, ParameterError):
        pass
    raise ParameterError(
        f"bins is {bins!r}, but it must be three whole numbers: 1 to 256 for L, and 1 to 128 for a and for b"
    )
