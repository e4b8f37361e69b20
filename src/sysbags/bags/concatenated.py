"""Concatenation of the histograms of several bags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer
from sysbags.bags.several import SeveralBags
from sysbags.errors import ParameterError, StreamError, SysbagsError

__all__ = ["Concatenated"]


class Concatenated(SeveralBags):
    """Concatenate the histograms of several bags, each times its weight.

    All bags must give the same number of rows for a video, so give them the same `frames`, `window` and
    `step`. A difference of one row is cut off at the end: optical flow needs two frames for its first row.
    The weights sum to 1, and so does each row.

    Parameters
    ----------
    bags : sequence of bags
    weights : sequence of float, optional
        Weights of the bags, above 0; they are divided by their sum. By default all are equal.
    n_jobs : int, optional
        Number of threads, over videos.

    Attributes
    ----------
    bags_ : list of bags
        Fitted copies of `bags`.

    Notes
    -----
    The names of the parameters of a bag begin with its index, for instance ``{"0__points": [8, 16]}`` in a
    grid search. Each picture is decoded once for all bags. `fit` keeps the frames of an iterator, which
    cannot be read twice, in memory. If no bag requires `fit`, `stream` works without it.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.bags import LocalBinaryPatterns
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(3, 48, 64), dtype=np.uint8)
    >>> both = Concatenated([LocalBinaryPatterns(8, 1), LocalBinaryPatterns(8, 2)], weights=[3, 1])
    >>> stream = both.stream(clip)
    >>> stream.shape, stream[:, :256].sum(axis=1)
    ((3, 512), array([0.75, 0.75, 0.75]))
    """

    def __init__(
        self,
        bags: Sequence[BagTransformer],
        weights: Sequence[float] | None = None,
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.bags = bags
        self.weights = weights
        self.n_jobs = n_jobs

    def named_bags(self) -> list[tuple[str, Any]]:
        """Return the bags, named by their indices."""
        bags = self.bags if isinstance(self.bags, (list, tuple)) else ()
        return [(str(i), bag) for i, bag in enumerate(bags)]

    def check_bags(self) -> list[BagTransformer]:
        """Return the bags; raise an error about values that are not bags, and about wrong weights."""
        bags = super().check_bags()
        self._check_weights(len(bags))
        return bags

    def join(self, streams: Sequence[Array | SysbagsError]) -> Array:
        """Return one stream, (N, p): the bins of all bags; each row sums to 1."""
        good = []
        for stream in streams:
            if isinstance(stream, SysbagsError):
                raise stream
            good.append(stream)
        counts = [len(stream) for stream in good]
        if max(counts) - min(counts) > 1:
            raise StreamError(
                f"the bags of Concatenated give streams of {_listed(counts)} rows, but these must be "
                "equal: give the bags the same frames, window and step"
            )
        rows, weights = min(counts), self._check_weights(len(good))
        return np.hstack([weight * stream[:rows] for weight, stream in zip(weights, good, strict=True)])

    def _check_weights(self, count: int) -> npt.NDArray[np.float64]:
        """Return the weights of the bags; their sum is 1."""
        if self.weights is None:
            return np.full(count, 1.0 / count)
        try:
            weights = np.array(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.shape != (count,) or not (np.isfinite(weights) & (weights > 0.0)).all():
            raise ParameterError(
                f"weights is {self.weights!r}, but it must be {count} numbers above 0, one for each of bags"
            )
        return np.asarray(weights / weights.sum())


def _listed(counts: list[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"
