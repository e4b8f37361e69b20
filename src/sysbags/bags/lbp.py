"""Local binary patterns: histograms of the comparisons of pixels with their neighbours."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer
from sysbags._numba.pixels import (
    count_nearest,
    count_nearest_of_regions,
    count_patterns,
    count_patterns_of_regions,
    pattern_bins,
)
from sysbags.bags.base import BagTransformer
from sysbags.errors import ParameterError
from sysbags.video import Frame

METHODS = ("default", "ror", "uniform", "nri_uniform")
MAX_POINTS = {"default": 16, "ror": 16, "uniform": 32, "nri_uniform": 32}
MAX_RADIUS = 1000


class LocalBinaryPatterns(BagTransformer):
    """Local binary patterns (Ojala, Pietikainen and Maenpaa 2002): their histogram for each frame.

    Around each pixel lie `points` neighbours on a circle. A neighbour at least as bright as the pixel is a 1,
    a darker one a 0, and the pattern is the number with these bits; it does not change with brightness and
    contrast. Neighbours off the pixel grid are interpolated, and pixels outside of the frame are black. The
    bins and counts are those of ``skimage.feature.local_binary_pattern``.

    Parameters
    ----------
    points : int or sequence of int, default=8
        Number of neighbours, for each radius.
    radius : float or sequence of float, default=1
        In pixels. The histograms of several radii are concatenated, each with the same mass.
    method : {"default", "ror", "uniform", "nri_uniform"}, default="default"
        The bins; P is `points`, and a pattern is uniform if its ones are a single run:

        * "default": one bin per pattern. 2^P bins, 256 at 8 points.
        * "uniform": one bin for all uniform patterns with the same number of ones, and one for all other
          patterns (rotation-invariant uniform patterns, riu2). P + 2 bins, 10 at 8 points.
        * "nri_uniform": one bin per uniform pattern, and one for all other patterns (uniform patterns that
          are not rotation-invariant, u2). P (P - 1) + 3 bins, 59 at 8 points.
        * "ror": one bin for all patterns that are rotations of each other. 36 bins at 8 points.
    window, step : int, default=1, None
        Pool `window` frames into one bag, every `step` frames; the step is by default the window.
    frames : mapping, optional
        Options for `sysbags.video.frames`, for instance ``{"stride": 2, "size": 240}``.
    n_jobs : int, optional
        Number of threads, over videos.

    Notes
    -----
    In smooth areas many patterns depend on the round-off of the interpolation. The operations and their order
    are those of scikit-image, so the counts agree where its compiler did not fuse multiplications with
    additions, for instance on x86-64.

    Examples
    --------
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(5, 48, 64), dtype=np.uint8)
    >>> LocalBinaryPatterns().stream(clip).shape
    (5, 256)
    >>> LocalBinaryPatterns((8, 16, 24), (1, 2, 3), "uniform", window=2).stream(clip).shape
    (2, 54)
    """

    def __init__(
        self,
        points: int | Sequence[int] = 8,
        radius: float | Sequence[float] = 1,
        method: str = "default",
        *,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.points = points
        self.radius = radius
        self.method = method
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn frames into counts of patterns, (p,) each."""
        return _masses(frames, self._circles())

    def masses_of_regions(
        self, frames: Iterator[Frame], labels: Callable[[int, int], IntArray]
    ) -> Iterator[Array]:
        """Turn frames into counts of the patterns in each region, (R, p): the whole frame is encoded once.

        ``labels(height, width)`` is the region of each pixel, 1 to R; 0 is ignored.
        """
        return _masses(frames, self._circles(), labels)

    def _circles(self) -> list[Circle]:
        radii, points = _listed(self.radius), _listed(self.points)
        if len(points) == 1:
            points = points * len(radii)
        if not radii or len(points) != len(radii):
            raise ParameterError(
                f"points is {self.points!r} and radius {self.radius!r}, but there must be one number of "
                "points for each radius, or one for all"
            )
        return [Circle(*pair, self.method) for pair in zip(points, radii, strict=True)]


class Circle:
    """The neighbours on a circle, and the histogram of their patterns.

    `rows` and `columns` are the positions of the neighbours relative to the pixel, anticlockwise from the
    right; `margin` is their largest distance from the pixel, rounded up.

    >>> edge = np.pad(np.full((2, 2), 9, np.uint8), 1)  # a white frame within black
    >>> Circle(4, 1, "uniform").count(edge, margin=1)
    array([0., 0., 4., 0., 0., 0.])
    """

    def __init__(self, points: int, radius: float, method: str = "default") -> None:
        self.method = METHODS.index(check_choice(method, "method", METHODS))
        P, R = _check_points(points, method), _check_radius(radius)
        self.margin = math.ceil(R)
        angles = 2 * np.pi * np.arange(P, dtype=np.float64) / P
        # Rounded as in scikit-image, so that the coordinates of neighbours on the axes are exactly 0.
        self.rows = np.round(-R * np.sin(angles), 5)
        self.columns = np.round(R * np.cos(angles), 5)
        self.size = (2**P, 2**P, P + 2, P * (P - 1) + 3)[self.method]
        self.used_bins = np.unique(_bins(P, self.method)) if method == "ror" else None
        self.nearest = _bins(8, self.method) if P == 8 and R == 1 else None

    def count(self, picture: Frame, margin: int, regions: IntArray | None = None) -> Array:
        """Count the patterns in a frame that is surrounded by `margin` zeros, (H + 2 margin, W + 2 margin).

        The sum over the bins is the number of pixels. With `regions`, (H, W), each pixel is counted in its
        region, 1 to R, in an (R, bins) array; 0 is ignored.
        """
        place = picture, margin, self.rows, self.columns
        if regions is None:
            counts = np.zeros(self.size)
            if self.nearest is not None:
                count_nearest(*place, self.nearest, counts)
            else:
                count_patterns(*place, self.method, counts)
        else:
            counts = np.zeros((int(regions.max()), self.size))
            if self.nearest is not None:
                count_nearest_of_regions(*place, self.nearest, regions, counts)
            else:
                count_patterns_of_regions(*place, self.method, regions, counts)
        return counts if self.used_bins is None else counts[..., self.used_bins]


def _check_points(points: Any, method: str) -> int:
    count, limit = check_integer(points, "points"), MAX_POINTS[method]
    if count > limit:
        advice = "" if limit > 16 else ', as there are 2^points of them: method="uniform" has few bins'
        raise ParameterError(
            f"points is {count}, but it must be at most {limit} for {method!r} patterns{advice}"
        )
    return count


def _check_radius(radius: Any) -> float:
    real = isinstance(radius, numbers.Real) and not isinstance(radius, bool)
    if not real or not 0 < radius <= MAX_RADIUS:
        raise ParameterError(f"radius is {radius!r}, but it must be above 0 and at most {MAX_RADIUS} pixels")
    return float(radius)


@cache
def _bins(points: int, method: int) -> IntArray:
    return pattern_bins(points, method)


def _listed(value: Any) -> list[Any]:
    several = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    return list(value) if several else [value]


def _masses(
    frames: Iterable[Frame], circles: list[Circle], labels: Callable[[int, int], IntArray] | None = None
) -> Iterator[Array]:
    margin = max(circle.margin for circle in circles)
    picture = np.zeros((0, 0), dtype=np.uint8)
    for frame in frames:
        shape = frame.shape[0] + 2 * margin, frame.shape[1] + 2 * margin
        if picture.shape != shape:
            picture = np.zeros(shape, dtype=np.uint8)
            regions = None if labels is None else labels(*frame.shape)
        picture[margin:-margin, margin:-margin] = frame
        counts = [circle.count(picture, margin, regions) for circle in circles]
        yield np.concatenate(counts, axis=-1) if len(counts) > 1 else counts[0]
