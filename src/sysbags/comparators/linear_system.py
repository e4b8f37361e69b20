"""Doretto's linear dynamic system on pixels: the classical model that systems of bags generalise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sysbags._common.validation import check_integer
from sysbags.comparators.base import Comparator
from sysbags.systems.identification import identify
from sysbags.systems.system import System
from sysbags.video import Video


class LinearSystem(Comparator, auto_wrap_output_keys=None):  # type: ignore[call-arg]  # systems have no names of features
    """Turn a video into the linear dynamic system that generates its pixels.

    With `y_t` the grey frame at time t as a vector of pixels from 0 to 1,

        x_{t+1} = A x_t + noise,    y_t = mu + C x_t + noise,    C'C = I

    is learnt by principal components and least squares (Doretto, Chiuso, Wu and Soatto, "Dynamic textures",
    IJCV 2003): `mu` is the mean frame, C holds the leading left singular vectors of the centered frames.
    One thing differs from the original: the transition is the best one of spectral norm below 1, so that the
    Martin distance is always defined. Pixels are not histograms; the linear kernel accepts any rows.

    The result is a `System` and not a vector: compare it with the alignment distance, or with the Martin
    distance as in Saisan, Doretto, Wu and Soatto, "Dynamic texture recognition", CVPR 2001.

    Parameters
    ----------
    order : int, default=10
        Dimension of the state space; a video needs at least `order + 1` frames.
    size : int, default=48
        Frames of any shape are scaled to squares of `size` x `size` pixels, because only systems with the
        same number of pixels can be compared.
    frames : mapping, optional
        Options for `sysbags.video.frames` except `size`.
    n_jobs : int, optional
        Number of threads, over videos.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> videos = np.random.default_rng(0).integers(0, 256, (2, 30, 40, 60), dtype=np.uint8)
    >>> systems = sysbags.comparators.LinearSystem(order=4, size=16).transform(videos)
    >>> systems[0]
    System(order=4, size=5, bag_length=256, kernel='linear')
    >>> sysbags.pairwise_distances(systems, metric="martin").shape
    (2, 2)
    """

    title: ClassVar[str] = "LDS on pixels"
    classifiers: ClassVar[tuple[str, ...]] = ()  # those of systems, not of vectors

    def __init__(
        self,
        order: int = 10,
        *,
        size: int = 48,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.order = order
        self.size = size
        self.frames = frames
        self.n_jobs = n_jobs

    def system(self, video: Video) -> System:
        """Turn one video into its system."""
        side = check_integer(self.size, "size")
        order = check_integer(self.order, "order")
        rows = [frame.ravel() for frame in self.read(video, size=(side, side))]
        return pixel_system(np.stack(rows) / 255.0, order)

    def transform(self, videos: Sequence[Video]) -> list[System]:
        """Turn each video into its system."""
        return self.each(self.system, videos)


def pixel_system(rows: npt.ArrayLike, order: int) -> System:
    """Learn the linear dynamic system of a stream (N, p) of vectors, with order + 1 samples instead of N.

    See `System.compress`: under the linear kernel nothing is lost.
    """
    return identify(rows, order, "linear").compress(order + 1)
