"""Histograms of optical flow: the motion of a frame by direction and speed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_weight
from sysbags.bags.base import BagTransformer
from sysbags.errors import ParameterError
from sysbags.video import Frame

METHODS = ("dis", "farneback")
SMALLEST = 32  # DIS reads out of bounds below: it needs patches of 8 pixels at a quarter of the size


class OpticalFlow(BagTransformer):
    """Turn a video into histograms of its motion, by direction and speed.

    Between neighbouring frames each pixel moves by a vector (x, y), and each pixel counts once:

    * Its direction is its angle from the horizontal axis, ``theta = atan2(y, |x|)`` between -pi/2 (down) and
      pi/2 (up). Bin b of B holds ``-pi/2 + pi b / B <= theta < -pi/2 + pi (b + 1) / B``; the last bin
      includes its upper end. Left and right are not distinguished, so that a video and its mirror image have
      the same histogram if there is no grid.
    * Its speed is the length of the vector in pixels per frame. Bin s of S holds
      ``threshold * 2**s <= speed < threshold * 2**(s + 1)``; the last bin has no upper end.
    * If the vector is shorter than `threshold`, the pixel is still: one bin for all directions.

    Bin 0 of ``1 + bins * speeds`` holds the still pixels, and bin ``1 + bins * s + b`` speed s and direction
    b. N frames give N - 1 histograms.

    With ``speeds=None`` each pixel adds the length of its vector to the bin of its direction, and still
    pixels are ignored; without motion the bag is uniform. ``OpticalFlow(30, speeds=None)`` is the histogram
    of oriented optical flow (HOOF) of Chaudhry, Ravichandran, Hager and Vidal, "Histograms of oriented
    optical flow and Binet-Cauchy kernels on nonlinear dynamical systems for the recognition of human
    actions", CVPR 2009.

    Parameters
    ----------
    bins : int, default=8
        Number of directions.
    method : {"dis", "farneback"}, default="dis"
        OpenCV's estimator of the flow. "dis" (dense inverse search) is faster and detects motion of weak
        texture; "farneback" does not, so it gives less false motion in a still, noisy video.
    threshold : float, default=0.1
        Pixels with shorter vectors, mostly noise of the camera and of the encoder, are still. It must be
        above 0 unless `speeds` is None.
    speeds : int or None, default=6
        Number of speeds. With the default threshold the last one is 3.2 pixels per frame or more.
    grid : int, default=1
        The picture is divided into `grid` x `grid` cells, whose histograms are concatenated row by row. Rows
        and columns are split as by `numpy.array_split`.
    window, step : int, default=1, None
        Pool `window` neighbouring histograms into one, every `step` histograms; the step is by default the
        window.
    frames : mapping, optional
        Options for `sysbags.video.frames`. A smaller `size` is faster and makes motion smaller; with a
        `stride` the motion is between the frames that are used.
    n_jobs : int, optional
        Number of threads, over videos.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> noise = np.random.default_rng(0).uniform(size=(16, 16))
    >>> picture = np.kron(255 * noise, np.ones((4, 4))).astype(np.uint8)
    >>> slow = [np.roll(picture, -k, axis=0) for k in range(5)]  # everything moves up
    >>> bags = sysbags.bags.OpticalFlow()
    >>> bags.stream(slow).argmax(axis=1)  # 1 + 8 * 3 + 7 of 49: 0.8 to 1.6 pixels per frame, up
    array([32, 32, 32, 32])
    >>> bags.stream(slow[::2]).argmax(axis=1)  # one speed higher
    array([40, 40])
    """

    def __init__(
        self,
        bins: int = 8,
        *,
        method: str = "dis",
        threshold: float = 0.1,
        speeds: int | None = 6,
        grid: int = 1,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.bins = bins
        self.method = method
        self.threshold = threshold
        self.speeds = speeds
        self.grid = grid
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn N frames into N - 1 rows: counts of pixels, or sums of lengths if `speeds` is None."""
        bins, grid = check_integer(self.bins, "bins"), check_integer(self.grid, "grid")
        threshold = check_weight(self.threshold, "threshold")
        speeds = None if self.speeds is None else check_integer(self.speeds, "speeds")
        check_choice(self.method, "method", METHODS)
        if speeds is not None and threshold == 0.0:
            raise ParameterError(
                f"threshold is {self.threshold!r}, but it must be above 0 if there are speeds, which are "
                "multiples of it: only speeds=None allows 0"
            )

        def histogram(flow: npt.NDArray[np.float32]) -> Array:
            if speeds is None:
                return oriented_histogram(flow, bins, threshold)
            return speed_histogram(flow, bins, speeds, threshold)

        return (
            np.concatenate(
                [histogram(cell) for cell in _cells(optical_flow(first, second, self.method), grid)]
            )
            for first, second in pairwise(frames)
        )


def oriented_histogram(flow: npt.ArrayLike, bins: int, threshold: float = 0.0) -> Array:
    """Add up the lengths of vectors, (..., 2), by their angle from the horizontal, left and right together.

    The first bin is straight down, the last straight up. Vectors shorter than the threshold are ignored.

    >>> oriented_histogram([[3, 0], [-2, 0], [0, 1.5]], bins=3)
    array([1.5, 5. , 0. ])
    """
    length, direction, _ = _moving(flow, bins, threshold)
    return np.asarray(np.bincount(direction, weights=length, minlength=bins), dtype=np.float64)


def speed_histogram(flow: npt.ArrayLike, bins: int, speeds: int, threshold: float) -> Array:
    """Count vectors, (..., 2), by their length and by their angle from the horizontal axis.

    Speed s is from ``threshold * 2**s`` to below ``threshold * 2**(s + 1)``; the last one has no upper end.
    The result, (1 + bins * speeds,), is the number of still vectors, which are shorter than the threshold or
    not finite, then speed by speed, and within a speed by direction as in `oriented_histogram`.

    >>> speed_histogram([[0, 0], [1, 0], [-1.5, 0], [0, 2], [0, -9]], bins=3, speeds=2, threshold=1.0)
    array([1., 0., 2., 0., 1., 0., 1.])
    """
    length, direction, total = _moving(flow, bins, threshold)
    # frexp is exact; a logarithm would be rounded, and lengths at the ends of bins counted in the wrong one.
    fraction, power = np.frexp(length)
    first_fraction, first_power = np.frexp(threshold)
    speed = np.minimum(power - first_power - (fraction < first_fraction), speeds - 1)
    counts = np.bincount(1 + bins * speed + direction, minlength=1 + bins * speeds).astype(np.float64)
    counts[0] = total - length.size
    return counts


def _moving(flow: npt.ArrayLike, bins: int, threshold: float) -> tuple[Array, IntArray, int]:
    """Return the length and the bin of direction of the vectors that reach the threshold; count all vectors.

    Vectors that are not finite do not reach it.
    """
    right, down = np.asarray(flow, dtype=np.float64).reshape(-1, 2).T
    length = np.hypot(right, down)
    moves = (length >= threshold) & np.isfinite(length)
    angle = np.arctan2(-down[moves], np.abs(right[moves]))
    direction = np.minimum(((angle / np.pi + 0.5) * bins).astype(np.int64), bins - 1)
    return length[moves], direction, length.size


def _cells(flow: npt.NDArray[np.float32], grid: int) -> Iterator[npt.NDArray[np.float32]]:
    """Divide an (H, W, 2) flow into `grid` x `grid` cells, row by row."""
    for rows in np.array_split(flow, grid):
        yield from np.array_split(rows, grid, axis=1)


def optical_flow(first: Frame, second: Frame, method: str = "dis") -> npt.NDArray[np.float32]:
    """Estimate the motion of each pixel of a grey frame to the next frame, (H, W, 2): right and down."""
    import cv2

    no_guess: Any = None
    if method == "farneback":
        # OpenCV's example: scale 0.5, 3 levels, windows of 15, 3 iterations, polynomials over 5 pixels.
        return np.asarray(cv2.calcOpticalFlowFarneback(first, second, no_guess, 0.5, 3, 15, 3, 5, 1.2, 0))
    height, width = first.shape
    padding = ((0, max(0, SMALLEST - height)), (0, max(0, SMALLEST - width)))
    first, second = (np.pad(frame, padding, mode="edge") for frame in (first, second))
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    return np.asarray(search.calc(first, second, no_guess)[:height, :width])
