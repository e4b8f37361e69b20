"""Concatenation of the histograms of several bags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer, check_videos
from sysbags.errors import ParameterError, StreamError
from sysbags.video import Frame, Video

__all__ = ["Concatenated"]


class Concatenated(BagTransformer):
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
    grid search. Each bag reads the video; the frames of an iterator, which cannot be read twice, are kept in
    memory. If no bag requires `fit`, `stream` works without it.

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

    @property
    def requires_fit(self) -> bool:
        """Whether one of the bags requires `fit`."""
        # `fit` and `stream` raise the error about values that are not bags; a property should not.
        bags = self.bags if isinstance(self.bags, (list, tuple)) else ()
        return any(isinstance(bag, BagTransformer) and bag.requires_fit for bag in bags)

    def fit(self, videos: Sequence[Video], labels: Any = None) -> Concatenated:
        """Fit a copy of each bag."""
        bags, _ = self._check()
        rereadable = [_rereadable(video) for video in check_videos(videos)]
        self.bags_ = [clone(bag).fit(rereadable, labels) for bag in bags]
        return self

    def fit_transform(self, videos: Sequence[Video], labels: Any = None, **_: Any) -> list[Array]:
        """Fit a copy of each bag, then turn each video into its stream."""
        rereadable = [_rereadable(video) for video in check_videos(videos)]
        return self.fit(rereadable, labels).transform(rereadable)

    def read(self, source: Video, **fixed: Any) -> Iterator[Frame]:
        """Read the frames of a video with the options of the first bag."""
        return self._check()[0][0].read(source, **fixed)

    def stream(self, video: Video) -> Array:
        """Turn one video into its stream, (N, p): the bins of all bags; each row sums to 1."""
        bags, weights = self._check()
        source = _rereadable(video)
        streams = [bag.stream(source) for bag in getattr(self, "bags_", bags)]
        counts = [len(stream) for stream in streams]
        if max(counts) - min(counts) > 1:
            raise StreamError(
                f"the bags of Concatenated give streams of {_listed(counts)} rows, but these must be "
                "equal: give the bags the same frames, window and step"
            )
        rows = min(counts)
        return np.hstack([weight * stream[:rows] for weight, stream in zip(weights, streams, strict=True)])

    def fitted_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the bags have learnt, with names such as ``0/words_``."""
        return {
            f"{i}/{name}": array
            for i, bag in enumerate(self.bags_)
            for name, array in bag.fitted_arrays().items()
        }

    def set_fitted_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Concatenated:
        """Set what the bags of another Concatenated have learnt, as returned by its `fitted_arrays`."""
        bags, _ = self._check()
        parts: list[dict[str, npt.NDArray[Any]]] = [{} for _ in bags]
        for name, array in arrays.items():
            index, _, attribute = name.partition("/")
            parts[int(index)][attribute] = array
        self.bags_ = [clone(bag).set_fitted_arrays(part) for bag, part in zip(bags, parts, strict=True)]
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; `deep` adds the bags as ``0`` and their parameters as ``0__points``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.bags, (list, tuple)):
            for i, bag in enumerate(self.bags):
                params[str(i)] = bag
                if isinstance(bag, BagTransformer):
                    params |= {f"{i}__{name}": value for name, value in bag.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Concatenated:
        """Set parameters, also the bags and their parameters by the names of `get_params`."""
        if "bags" in params:  # first, because the other names refer to it
            self.bags = params.pop("bags")
        replaced = {name: params.pop(name) for name in [*params] if name.isdecimal()}
        if replaced:
            unknown = [name for name in replaced if name not in self.get_params()]
            if unknown:
                raise ParameterError(
                    f"there is no bag {unknown[0]}, but the bags are numbered from 0 to {len(self.bags) - 1}"
                )
            self.bags = [replaced.get(str(i), bag) for i, bag in enumerate(self.bags)]
        super().set_params(**params)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        if hasattr(self, "bags_"):
            return True
        try:
            for bag in self.bags:
                check_is_fitted(bag)
        except NotFittedError:
            return False
        return True

    def _check(self) -> tuple[list[BagTransformer], npt.NDArray[np.float64]]:
        """Return the bags and their weights."""
        bags = list(self.bags) if isinstance(self.bags, (list, tuple)) else []
        if not bags or not all(isinstance(bag, BagTransformer) for bag in bags):
            raise ParameterError(
                f"bags is {self.bags!r}, but it must be a list of bags, for instance "
                "[LocalBinaryPatterns(), OpticalFlow()]"
            )
        if self.weights is None:
            return bags, np.full(len(bags), 1.0 / len(bags))
        try:
            weights = np.array(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.shape != (len(bags),) or not (np.isfinite(weights) & (weights > 0.0)).all():
            raise ParameterError(
                f"weights is {self.weights!r}, but it must be {len(bags)} numbers above 0, "
                "one for each of bags"
            )
        return bags, weights / weights.sum()


def _rereadable(video: Video) -> Video:
    """Return a video that can be read more than once."""
    return list(video) if isinstance(video, Iterator) else video


def _listed(counts: list[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"
