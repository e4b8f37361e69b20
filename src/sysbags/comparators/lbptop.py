"""LBP-TOP: local binary patterns in three orthogonal planes of a video; time is an axis of two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.bags.base import video_name
from sysbags.bags.planes import PlanePatterns
from sysbags.comparators.base import Comparator
from sysbags.errors import VideoError
from sysbags.video import Video


class LBPTOP(Comparator):
    """Local binary patterns on three orthogonal planes (Zhao and Pietikainen 2007): one histogram per video.

    The patterns of all frames are counted together; see `sysbags.bags.PlanePatterns` for what they are.

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
    classifiers = ("1-NN", "nearest-mean", "linear SVM")
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
        counts = np.zeros(1)
        for masses in PlanePatterns(self.radii, self.method).masses(self.read(video)):
            counts = counts + masses
        if counts.size == 1:
            raise VideoError(
                f"{video_name(video)} has fewer than the {2 * self.radii[2] + 1} frames that LBP-TOP with "
                f"radii {self.radii} needs"
            )
        return np.asarray(counts / counts.sum())
