"""The regions of a picture: a bag for each cell of a grid or each region of a mask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.bags.base import BagTransformer, pool, video_name
from sysbags.bags.lbp import LocalBinaryPatterns
from sysbags.bags.planes import PlanePatterns
from sysbags.errors import FileError, ParameterError
from sysbags.video import Frame, Video

MOST_REGIONS = 1000


class Regions:
    """Describe each cell of a grid, or each region of a mask, by a bag of its own.

    Frames are read once for all regions. With `LocalBinaryPatterns` and `PlanePatterns` the patterns
    are those of the whole frame, each counted in the region of its pixel: at the border of a region its
    neighbours in other regions are compared, and the counts of a grid sum to those of the frame. Any
    other bag describes crops of the frame; for a region of a mask, which may have any shape, this is the
    smallest rectangle around it.

    A grid is (3, 4) or "3x4", three rows of four cells; frames are split as by `numpy.array_split`. A mask is
    a picture or (H, W) array: 0 is ignored, and the pixels of each other value are a region, in the order of
    the values. For frames of another size it is scaled. Give either of them.

    >>> clip = np.random.default_rng(0).integers(0, 256, size=(5, 48, 64), dtype=np.uint8)
    >>> regions = Regions(LocalBinaryPatterns(), grid=(1, 2))
    >>> regions.names, regions.boxes(48, 64)
    (['row 1, column 1', 'row 1, column 2'], [(0, 0, 48, 32), (0, 32, 48, 64)])
    >>> regions.stream(clip).shape
    (5, 2, 256)
    """

    def __init__(
        self,
        bag: BagTransformer,
        grid: tuple[int, int] | str | None = None,
        mask: str | os.PathLike[str] | npt.ArrayLike | None = None,
    ) -> None:
        if (grid is None) == (mask is None):
            raise ParameterError("regions need either a grid or a mask: give one of them")
        self.bag, self.window, self.step = bag, bag.window, bag.step
        self.grid = None if grid is None else _check_grid(grid)
        self.mask: IntArray | None = None
        if self.grid is not None:
            rows, columns = self.grid
            self.names = [f"row {r + 1}, column {c + 1}" for r in range(rows) for c in range(columns)]
        else:
            self._regions, values = _check_mask(mask)
            self.mask = np.array([0, *values])[self._regions]
            self.names = [f"region {value}" for value in values]

    def labels(self, height: int, width: int) -> IntArray:
        """Return the region of each pixel of a frame, (height, width): 1 for the first; 0 is ignored."""
        if self.mask is not None:
            # The middle of each pixel of the frame.
            rows = (2 * np.arange(height) + 1) * self.mask.shape[0] // (2 * height)
            columns = (2 * np.arange(width) + 1) * self.mask.shape[1] // (2 * width)
            labels = self._regions[np.ix_(rows, columns)]
        else:
            assert self.grid is not None
            row, column = (
                np.repeat(np.arange(count), [len(part) for part in np.array_split(np.arange(length), count)])
                for length, count in zip((height, width), self.grid, strict=True)
            )
            labels = 1 + self.grid[1] * row[:, None] + column
        missing = np.flatnonzero(np.bincount(labels.ravel(), minlength=len(self.names) + 1)[1:] == 0)
        if missing.size:
            raise ParameterError(
                f"{self.names[missing[0]]} has no pixel in frames of {width} x {height} pixels: use larger "
                "frames or fewer regions"
            )
        return np.ascontiguousarray(labels, dtype=np.int64)

    def boxes(self, height: int, width: int) -> list[tuple[int, int, int, int]]:
        """Return the smallest rectangle around each region of a frame: top, left, bottom, right.

        Bottom and right are the first row and column after the region.
        """
        labels = self.labels(height, width)
        boxes = []
        for region in range(1, len(self.names) + 1):
            rows, columns = (np.flatnonzero((labels == region).any(axis=axis)) for axis in (1, 0))
            boxes.append((int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1))
        return boxes

    def masses(self, frames: Iterator[Frame]) -> Iterator[Array]:
        """Turn frames into masses over bins for each region, (cells, p)."""
        if isinstance(self.bag, (LocalBinaryPatterns, PlanePatterns)):
            return self.bag.masses_of_regions(frames, self.labels)
        # The bags take turns, so that few frames are in memory.
        copies = tee(frames, len(self.names))
        return map(
            np.stack,
            zip(*(self.bag.masses(self._crops(copy, i)) for i, copy in enumerate(copies)), strict=True),
        )

    def _crops(self, frames: Iterator[Frame], region: int) -> Iterator[Frame]:
        shape: tuple[int, ...] = ()
        for frame in frames:
            if frame.shape != shape:
                shape = frame.shape
                top, left, bottom, right = self.boxes(*shape[:2])[region]
            yield np.ascontiguousarray(frame[top:bottom, left:right])

    def read(self, source: Video) -> Iterator[Frame]:
        """Read the frames of a video with the options of the bag."""
        return self.bag.read(source)

    def stream(self, video: Video) -> Array:
        """Turn a video into the streams of its regions, (N, cells, p): that of a cell is `[:, cell]`."""
        return pool(self.masses(self.read(video)), self.window, self.step, name=video_name(video))


def _check_grid(grid: Any) -> tuple[int, int]:
    """Return the rows and columns of (3, 4) or "3x4"."""
    parts = grid.lower().split("x") if isinstance(grid, str) else grid
    try:
        rows, columns = (int(part) if isinstance(part, str) else part for part in parts)
    except (TypeError, ValueError):
        raise ParameterError(f"grid is {grid!r}, but it must be rows and columns: (3, 4) or '3x4'") from None
    rows, columns = check_integer(rows, "rows of grid"), check_integer(columns, "columns of grid")
    if rows * columns > MOST_REGIONS:
        raise ParameterError(
            f"grid has {rows * columns} cells, but at most {MOST_REGIONS} are possible: use fewer rows"
        )
    return rows, columns


def _check_mask(mask: Any) -> tuple[IntArray, list[int]]:
    """Return the numbers of the regions, from 1, of each pixel, and the values of the regions."""
    name = "the mask"
    if isinstance(mask, (str, os.PathLike)):
        import cv2

        name = f"the mask {os.fspath(mask)}"
        picture = cv2.imread(os.fspath(mask), cv2.IMREAD_UNCHANGED) if Path(mask).is_file() else None
        if picture is None:
            raise FileError(f"{name} cannot be read: it must be a picture, such as a PNG file")
        # A grey picture may be stored with three equal colours.
        grey = picture.ndim == 3 and (picture[..., :3] == picture[..., :1]).all()
        mask = picture[..., 0] if grey else picture
    array = np.asarray(mask)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biu" or array.min() < 0:
        raise ParameterError(
            f"{name} has shape {array.shape} and {array.dtype} entries, but it must be a grey picture of "
            "whole numbers: 0 where nothing is watched, and one number for each region"
        )
    values = np.unique(array[array > 0])
    if not 0 < values.size <= MOST_REGIONS:
        raise ParameterError(
            f"{name} has {values.size} regions (values other than 0), but it must have 1 to {MOST_REGIONS}: "
            "store it without lossy compression, for instance as a PNG file"
        )
    return np.where(array > 0, np.searchsorted(values, array) + 1, 0), values.tolist()
