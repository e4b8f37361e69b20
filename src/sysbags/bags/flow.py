"""Histograms of oriented optical flow: the motion of a frame by direction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_integer, check_weight
from sysbags.bags.base import BagTransformer
from sysbags.video import Frame

__all__ = ["METHODS", "OpticalFlow", "optical_flow", "oriented_histogram"]

METHODS = ("dis", "farneback")
SMALLEST = 32  # DIS reads out of bounds below: it needs patches of 8 pixels at a quarter of the size


class OpticalFlow(BagTransformer):
    """Turn a video into histograms of oriented optical flow (HOOF).

    Between neighbouring frames each pixel moves by a vector (x, y). It adds its length to the bin of its
    angle from the horizontal axis, ``theta = atan2(y, |x|)`` between -pi/2 (down) and pi/2 (up): bin b of
    B holds ``-pi/2 + pi b / B <= theta < -pi/2 + pi (b + 1) / B``; the last bin includes its upper end. Left
    and right are not distinguished, so that a video and its mirror image have the same histogram; neither are
    distance and speed, because histograms are divided by their sum (Chaudhry, Ravichandran, Hager and Vidal,
    "Histograms of oriented optical flow and Binet-Cauchy kernels on nonlinear dynamical systems for the
    recognition of human actions", CVPR 2009).

    N frames give N - 1 histograms. Without motion there is no mass, and the bag is uniform.

    Parameters
    ----------
    bins : int, default=30
    method : {"dis", "farneback"}, default="dis"
        OpenCV's estimator of the flow. "dis" (dense inverse search) is faster and detects motion of weak
        texture; "farneback" does not, so it gives less false motion in a still, noisy video.
    threshold : float, default=0.1
        Vectors shorter than this, in pixels per frame, are ignored: they are mostly noise of the camera and
        of the encoder, and a still video would get a random histogram.
    window, step : int, optional
        Pool `window` neighbouring histograms into one, every `step` histograms.
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
    >>> video = [np.roll(picture, -k, axis=0) for k in range(5)]  # everything moves up
    >>> stream = sysbags.bags.OpticalFlow(bins=8).stream(video)
    >>> stream.shape
    (4, 8)
    >>> stream.argmax(axis=1)
    array([7, 7, 7, 7])
    """

    def __init__(
        self,
        bins: int = 30,
        *,
        method: str = "dis",
        threshold: float = 0.1,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.bins = bins
        self.method = method
        self.threshold = threshold
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn N frames into N - 1 rows: the sum of the lengths of the vectors of each direction."""
        bins = check_integer(self.bins, "bins")
        threshold = check_weight(self.threshold, "threshold")
        check_choice(self.method, "method", METHODS)
        return (
            oriented_histogram(optical_flow(first, second, self.method), bins, threshold)
            for first, second in pairwise(frames)
        )


def oriented_histogram(flow: npt.ArrayLike, bins: int, threshold: float = 0.0) -> Array:
    """Add up the lengths of vectors by their angle from the horizontal axis, for left and right together.

    Parameters
    ----------
    flow : (..., 2) array
        Motion to the right and down, as OpenCV returns it.
    bins : int
        The first is straight down, the last straight up.
    threshold : float, default=0.0
        Shorter vectors are ignored.

    Examples
    --------
    >>> oriented_histogram([[3, 0], [-2, 0], [0, 1.5]], bins=3)
    array([1.5, 5. , 0. ])
    """
    right, down = np.asarray(flow, dtype=np.float64).reshape(-1, 2).T
    length = np.hypot(right, down)
    moves = (length >= threshold) & np.isfinite(length)
    angle = np.arctan2(-down[moves], np.abs(right[moves]))
    index = np.minimum(((angle / np.pi + 0.5) * bins).astype(np.int64), bins - 1)
    return np.asarray(np.bincount(index, weights=length[moves], minlength=bins), dtype=np.float64)


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
