"""LBP-TOP: local binary patterns in three orthogonal planes of a video; time is an axis of two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer
from sysbags._numba import compiled
from sysbags._numba.lbp import pattern_bins
from sysbags.bags.base import video_name
from sysbags.bags.lbp import METHODS as BIN_METHODS
from sysbags.comparators.base import Comparator
from sysbags.errors import ParameterError, VideoError
from sysbags.video import Frame, Video

__all__ = ["LBPTOP", "METHODS", "count_codes", "neighbours"]

METHODS = ("default", "nri_uniform")
POINTS = 8
PLANES = ((2, 1), (2, 0), (1, 0))  # XY, XT and YT, as axes of (time, row, column)
GRAIN = 2.0**20
"""Positions are rounded to 1 / GRAIN pixels, so that interpolation in double precision has no round-off: in
smooth areas many neighbours equal the center, and `>=` must hold for each of them."""


class LBPTOP(Comparator):
    """Local binary patterns on three orthogonal planes (Zhao and Pietikainen 2007).

    Each voxel of the video has 8 neighbours on an ellipse in the picture (XY), 8 in the plane of its row
    and time (XT) and 8 in the plane of its column and time (YT). A neighbour at least as bright as the voxel
    is a 1, a darker one a 0. The histograms of these patterns in the three planes are concatenated, each
    with a third of the mass. Neighbours off the grid are interpolated between four voxels. Only voxels whose
    neighbours all lie within the video are counted.

    G. Zhao and M. Pietikainen, "Dynamic texture recognition using local binary patterns with an application
    to facial expressions", IEEE Transactions on Pattern Analysis and Machine Intelligence 29(6), 2007.

    Parameters
    ----------
    radii : (rx, ry, rt), default=(1, 1, 1)
        Half axes of the ellipses: columns, rows, frames; in the paper's notation LBP-TOP_{8,8,8,rx,ry,rt}.
    method : {"default", "nri_uniform"}, default="default"
        256 bins per plane, one per pattern, or 59: one per uniform pattern (a single run of ones), and one
        for all others.
    frames : mapping, optional
        Options for `sysbags.video.frames`.
    n_jobs : int, optional
        Number of threads, over videos.

    Examples
    --------
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(5, 24, 32), dtype=np.uint8)
    >>> LBPTOP().vector(clip).shape
    (768,)
    >>> LBPTOP((2, 2, 1), "nri_uniform").transform([clip, clip[::-1]]).shape
    (2, 177)
    """

    title = "LBP-TOP"
    classifiers = ("1-NN", "nearest mean", "linear SVM")
    metric = "chi2"

    def __init__(
        self,
        radii: tuple[int, int, int] = (1, 1, 1),
        method: str = "default",
        *,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.radii = radii
        self.method = method
        self.frames = frames
        self.n_jobs = n_jobs

    def vector(self, video: Video) -> Array:
        """Turn one video into the histograms of its XY, XT and YT planes, (768,) or (177,)."""
        radii = _check_radii(self.radii)
        bins = pattern_bins(POINTS, BIN_METHODS.index(check_choice(self.method, "method", METHODS)))
        counts = count_codes(self.read(video), radii, name=video_name(video))
        planes = [np.bincount(bins, weights=row) for row in counts]
        return np.asarray(np.concatenate(planes) / counts.sum())


def _check_radii(radii: Any) -> tuple[int, int, int]:
    if not isinstance(radii, (tuple, list, np.ndarray)) or len(radii) != 3:
        raise ParameterError(f"radii is {radii!r}, but it must be three numbers: columns, rows and frames")
    columns, rows, times = (check_integer(radius, "a radius") for radius in radii)
    return columns, rows, times


def neighbours(radii: tuple[int, int, int]) -> tuple[IntArray, Array]:
    """Return the voxels between which the neighbours lie, and the weights of their interpolation.

    Parameters
    ----------
    radii : (rx, ry, rt)

    Returns
    -------
    corners : (3, 8, 4, 3) array of int
        For each plane and neighbour four voxels as (time, row, column) relative to the center.
    weights : (3, 8, 4) array
        Multiples of 2^-40 that sum to 1.

    Examples
    --------
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


def count_codes(
    frames: Iterable[Frame], radii: tuple[int, int, int] = (1, 1, 1), *, name: str = "the video"
) -> IntArray:
    """Count the codes in the three planes of a video, with at most 2 rt + 1 frames in memory.

    Parameters
    ----------
    frames : iterable of (H, W) array of uint8
    radii : (rx, ry, rt), default=(1, 1, 1)
    name : str, default="the video"
        The name of the video in error messages.

    Returns
    -------
    (3, 256) array of int
        Neighbour p has the value 2^p in a code. Neighbour 0 is to the right (XY, XT) or below (YT), and the
        next ones turn towards below (XY) or later (XT, YT).

    Examples
    --------
    >>> still = np.arange(9, dtype=np.uint8).reshape(3, 3)  # brighter to the right, and more so downwards
    >>> count_codes([still] * 3).argmax(axis=1).tolist()
    [15, 199, 199]
    """
    corners, weights = neighbours(radii)
    rx, ry, rt = radii
    depth = 2 * rt + 1
    counts = np.zeros((3, 1 << POINTS), np.int64)
    window = np.empty((0, 0, 0), np.uint8)
    number = 0
    for number, frame in enumerate(frames, start=1):
        if number == 1:
            if frame.shape[0] <= 2 * ry or frame.shape[1] <= 2 * rx:
                raise VideoError(
                    f"{name} has frames of {frame.shape[1]} x {frame.shape[0]} pixels, but LBP-TOP with "
                    f"radii {radii} needs at least {2 * rx + 1} x {2 * ry + 1}"
                )
            window = np.empty((depth, *frame.shape), np.uint8)
        window[(number - 1) % depth] = frame
        if number >= depth:
            _count(window, number % depth, radii, corners, weights, counts)
    if number < depth:
        raise VideoError(
            f"{name} has only {number} of the {depth} frames that LBP-TOP with radii {radii} needs"
        )
    return counts


@compiled()
def _count(
    window: npt.NDArray[np.uint8],
    first: int,
    radii: tuple[int, int, int],
    corners: IntArray,
    weights: Array,
    counts: IntArray,
) -> None:
    """Add the codes of the middle frame of a window, a ring buffer whose earliest frame is at `first`."""
    depth, height, width = window.shape
    rx, ry, rt = radii
    codes = np.empty(width - 2 * rx, np.uint8)
    for y in range(ry, height - ry):
        center = window[(first + rt) % depth, y, rx:]
        for plane in range(3):
            codes[:] = 0
            for p in range(POINTS):
                times = (first + rt + corners[plane, p, :, 0]) % depth
                rows, starts = y + corners[plane, p, :, 1], rx + corners[plane, p, :, 2]
                _add(
                    window[times[0], rows[0], starts[0] :],
                    window[times[1], rows[1], starts[1] :],
                    window[times[2], rows[2], starts[2] :],
                    window[times[3], rows[3], starts[3] :],
                    weights[plane, p],
                    center,
                    np.uint8(1 << p),
                    codes,
                )
            for code in codes:
                counts[plane, code] += 1


@compiled()
def _add(
    a: npt.NDArray[np.uint8],
    b: npt.NDArray[np.uint8],
    c: npt.NDArray[np.uint8],
    d: npt.NDArray[np.uint8],
    weights: Array,
    center: npt.NDArray[np.uint8],
    bit: Any,
    codes: npt.NDArray[np.uint8],
) -> None:
    """Set a bit where the neighbour between four voxels is not below the center."""
    zero = np.uint8(0)
    wa, wb, wc, wd = weights[0], weights[1], weights[2], weights[3]
    if wa == 1.0:
        for i in range(np.uint64(codes.size)):
            codes[i] = np.bitwise_or(codes[i], bit if a[i] >= center[i] else zero)
        return
    # Unsigned, because a loop over an index that might be negative is not vectorised.
    for i in range(np.uint64(codes.size)):
        value = wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i]
        codes[i] = np.bitwise_or(codes[i], bit if value >= center[i] else zero)
