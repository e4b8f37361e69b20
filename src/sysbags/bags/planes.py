"""Local binary patterns in the picture and in time (LBP-TOP): how the brightness of each place changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer
from sysbags._numba.pixels import encode_planes, pattern_bins
from sysbags.bags.base import BagTransformer
from sysbags.bags.lbp import METHODS as BIN_METHODS
from sysbags.errors import ParameterError, VideoError
from sysbags.video import Frame

METHODS = ("default", "nri_uniform")
POINTS = 8
CODES = 1 << POINTS
PLANES = ((2, 1), (2, 0), (1, 0))  # XY, XT and YT, as axes of (time, row, column)
GRAIN = 2.0**20  # see sysbags._numba.pixels


class PlanePatterns(BagTransformer):
    """Local binary patterns on three orthogonal planes (LBP-TOP; Zhao and Pietikainen 2007), for each frame.

    A histogram of a frame cannot tell slow from fast. Here each pixel is compared with 8 neighbours on an
    ellipse in the picture (XY), with 8 in the plane of its row and time (XT) and with 8 in the plane of its
    column and time (YT), so frames before and after it count. A neighbour at least as bright as the pixel is
    a 1, a darker one a 0. The histograms of these patterns in the three planes are concatenated, each with a
    third of the mass. Neighbours off the grid are interpolated between four pixels. Pixels whose neighbours
    are not all within the picture are ignored; N frames give N - 2 rt histograms.

    G. Zhao and M. Pietikainen, "Dynamic texture recognition using local binary patterns with an application
    to facial expressions", IEEE Transactions on Pattern Analysis and Machine Intelligence 29(6), 2007.

    Parameters
    ----------
    radii : (rx, ry, rt), default=(1, 1, 1)
        Half axes of the ellipses: columns, rows, frames; in the paper's notation LBP-TOP_{8,8,8,rx,ry,rt}.
    method : {"default", "nri_uniform"}, default="nri_uniform"
        256 bins per plane, one per pattern, or 59: one per uniform pattern (a single run of ones), and one
        for all others.
    window, step : int, default=1, None
        Pool `window` neighbouring histograms into one, every `step` histograms; the step is by default the
        window.
    frames : mapping, optional
        Options for `sysbags.video.frames`, for instance ``{"stride": 2, "size": 240}``.
    n_jobs : int, optional
        Number of threads, over videos.

    Examples
    --------
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(5, 48, 64), dtype=np.uint8)
    >>> PlanePatterns().stream(clip).shape
    (3, 177)
    >>> PlanePatterns((2, 2, 1), "default").stream(clip).shape
    (3, 768)
    """

    def __init__(
        self,
        radii: tuple[int, int, int] = (1, 1, 1),
        method: str = "nri_uniform",
        *,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.radii = radii
        self.method = method
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames: Iterator[Frame]) -> Iterator[Array]:
        """Turn N frames into N - 2 rt rows: counts of patterns, (p,) each."""
        return (counts[0] for counts in self._counts(frames, None))

    def masses_of_regions(
        self, frames: Iterator[Frame], labels: Callable[[int, int], IntArray]
    ) -> Iterator[Array]:
        """Turn frames into counts of the patterns in each region, (R, p): the whole frame is encoded once.

        ``labels(height, width)`` is the region of each pixel, 1 to R; 0 is ignored.
        """
        return (counts[1:] for counts in self._counts(frames, labels))

    def _counts(
        self, frames: Iterator[Frame], labels: Callable[[int, int], IntArray] | None
    ) -> Iterator[Array]:
        """Yield the counts of each region, (1 + R, p)."""
        radii, bins = _check_radii(self.radii), self._bins()
        rx, ry, _ = radii
        shape, count, offsets = (0, 0, 0), 1, np.zeros(1, np.int64)
        for codes in _codes(frames, radii):
            if codes.shape != shape and labels is not None:
                regions = labels(codes.shape[1] + 2 * ry, codes.shape[2] + 2 * rx)
                count, offsets = 1 + int(regions.max()), CODES * regions[ry:-ry, rx:-rx].ravel()
            shape = codes.shape
            planes = (np.bincount(offsets + plane.ravel(), minlength=CODES * count) for plane in codes)
            yield np.concatenate([plane.reshape(count, CODES) @ bins for plane in planes], axis=1)

    def _bins(self) -> Array:
        """Return a matrix of zeros and ones, (codes, bins): the bin of each code."""
        numbers = pattern_bins(POINTS, BIN_METHODS.index(check_choice(self.method, "method", METHODS)))
        return np.eye(int(numbers.max()) + 1)[numbers]


def _codes(frames: Iterator[Frame], radii: tuple[int, int, int]) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the codes of each frame that has enough neighbours, (3, height, width); one array for all."""
    corners, weights = neighbours(radii)
    rx, ry, rt = radii
    depth, number = 2 * rt + 1, 0
    window = np.empty((depth, 0, 0), np.uint8)
    for frame in frames:
        height, width = frame.shape
        if window.shape[1:] != frame.shape:
            if height <= 2 * ry or width <= 2 * rx:
                raise VideoError(
                    f"frames have {width} x {height} pixels, but LBP-TOP with radii {radii} needs at least "
                    f"{2 * rx + 1} x {2 * ry + 1}"
                )
            window, number = np.empty((depth, height, width), np.uint8), 0
            codes = np.empty((3, height - 2 * ry, width - 2 * rx), np.uint8)
        window[number % depth] = frame
        number += 1
        if number >= depth:
            encode_planes(window, number % depth, radii, corners, weights, codes)
            yield codes


def _check_radii(radii: Any) -> tuple[int, int, int]:
    if not isinstance(radii, (tuple, list, np.ndarray)) or len(radii) != 3:
        raise ParameterError(f"radii is {radii!r}, but it must be three numbers: columns, rows and frames")
    columns, rows, times = (check_integer(radius, "a radius") for radius in radii)
    return columns, rows, times


def neighbours(radii: tuple[int, int, int]) -> tuple[IntArray, Array]:
    """Return the voxels between which the neighbours lie, and the weights of their interpolation.

    `radii` are (rx, ry, rt). For each plane and neighbour there are four voxels as (time, row, column)
    relative to the center, (3, 8, 4, 3), and their weights, multiples of 2^-40 that sum to 1, (3, 8, 4).

    >>> corners, weights = neighbours((1, 1, 1))
    >>> corners[1, 1, 3].tolist(), weights[1, 1].round(3).tolist()  # in XT, halfway from right to later
    ([1, 0, 1], [0.086, 0.207, 0.207, 0.5])
    """
    sizes = np.array([radii[2], radii[1], radii[0]], dtype=np.float64)
    angles = 2.0 * np.pi * np.arange(POINTS) / POINTS
    corners = np.zeros((3, POINTS, 4, 3), np.int64)
    weights = np.ones((3, POINTS, 4))
    for plane, axes in enumerate(PLANES):
        for bit, (axis, turn) in enumerate(zip(axes, (np.cos(angles), np.sin(angles)), strict=True)):
            position = np.round(sizes[axis] * turn * GRAIN) / GRAIN
            floor = np.floor(position)
            share = position - floor
            upper = np.arange(4) >> bit & 1  # whether a corner lies beyond the neighbour on this axis
            # the voxel beyond a neighbour on the grid is not used, because it may not exist
            corners[plane, :, :, axis] = floor[:, None] + upper * (share > 0.0)[:, None]
            weights[plane] *= np.where(upper, share[:, None], 1.0 - share[:, None])
    return corners, weights
