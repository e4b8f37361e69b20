"""Several bags as one: their histograms side by side."""

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
    """Several bags as one: a row is the members' rows side by side, each times its weight.

    The members see the same video, each in its own way; what must agree is how many rows they make of it,
    so give them the same `frames`, `window` and `step`. One row more or less, as optical flow has it,
    which needs two frames for its first, is cut off at the end. The weights sum to 1, and so does a row.

    Parameters
    ----------
    bags : sequence of bags
    weights : sequence of float, optional
        Shares of the members, above 0; they are divided by their sum. By default all are equal.
    n_jobs : int, optional
        Threads, for videos side by side.

    Attributes
    ----------
    bags_ : list of bags
        The members, fitted; those given are left as they were.

    Notes
    -----
    Parameters of members go by their numbers, for instance ``{"0__points": [8, 16]}`` in a grid search.
    Each member reads a video for itself; the frames of an iterator, which cannot be read twice, are kept
    in memory meanwhile. Where no member has to learn anything, `stream` works without `fit`.

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
        """Whether some member has to learn something."""
        # What are not bags is refused by `fit` and `stream`, not by a look at the parameters.
        members = self.bags if isinstance(self.bags, (list, tuple)) else ()
        return any(isinstance(member, BagTransformer) and member.requires_fit for member in members)

    def fit(self, videos: Sequence[Video], labels: Any = None) -> Concatenated:
        """Fit a copy of each member."""
        members, _ = self._checked()
        kept = [_kept(video) for video in check_videos(videos)]
        self.bags_ = [clone(member).fit(kept, labels) for member in members]
        return self

    def fit_transform(self, videos: Sequence[Video], labels: Any = None, **_: Any) -> list[Array]:
        """Fit a copy of each member, then turn each video into its stream."""
        kept = [_kept(video) for video in check_videos(videos)]
        return self.fit(kept, labels).transform(kept)

    def read(self, source: Video, **own: Any) -> Iterator[Frame]:
        """Read the frames of a video as the first member does."""
        return self._checked()[0][0].read(source, **own)

    def stream(self, video: Video) -> Array:
        """Turn one video into its stream, (N, p): p is the sum of the members' and each row sums to 1."""
        members, shares = self._checked()
        source = _kept(video)
        streams = [member.stream(source) for member in getattr(self, "bags_", members)]
        counts = [len(stream) for stream in streams]
        if max(counts) - min(counts) > 1:
            raise StreamError(
                f"the members of Concatenated give streams of {_listed(counts)} rows, but these must be "
                "alike: give the members the same frames, window and step"
            )
        rows = min(counts)
        return np.hstack([share * stream[:rows] for share, stream in zip(shares, streams, strict=True)])

    def fitted_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the members have learnt, as ``0/words_``."""
        return {
            f"{i}/{name}": array
            for i, member in enumerate(self.bags_)
            for name, array in member.fitted_arrays().items()
        }

    def set_fitted_arrays(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Concatenated:
        """Take over what the members of another one have learnt."""
        members, _ = self._checked()
        parts: list[dict[str, npt.NDArray[Any]]] = [{} for _ in members]
        for name, array in arrays.items():
            index, _, attribute = name.partition("/")
            parts[int(index)][attribute] = array
        self.bags_ = [clone(m).set_fitted_arrays(part) for m, part in zip(members, parts, strict=True)]
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; `deep` adds the members by their numbers, and theirs as ``0__points``."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.bags, (list, tuple)):
            for i, member in enumerate(self.bags):
                params[str(i)] = member
                if isinstance(member, BagTransformer):
                    params |= {f"{i}__{name}": value for name, value in member.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Concatenated:
        """Set parameters, also those of members, and members themselves by their numbers."""
        if "bags" in params:  # first, as the numbers mean its members
            self.bags = params.pop("bags")
        replaced = {name: params.pop(name) for name in [*params] if name.isdecimal()}
        if replaced:
            unknown = [name for name in replaced if name not in self.get_params()]
            if unknown:
                raise ParameterError(
                    f"there is no member {unknown[0]}, but there are {len(self.bags)} from 0"
                )
            self.bags = [replaced.get(str(i), member) for i, member in enumerate(self.bags)]
        super().set_params(**params)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        if hasattr(self, "bags_"):
            return True
        try:
            for member in self.bags:
                check_is_fitted(member)
        except NotFittedError:
            return False
        return True

    def _checked(self) -> tuple[list[BagTransformer], npt.NDArray[np.float64]]:
        """Return the members and their shares."""
        members = list(self.bags) if isinstance(self.bags, (list, tuple)) else []
        if not members or not all(isinstance(member, BagTransformer) for member in members):
            raise ParameterError(
                f"bags is {self.bags!r}, but it must be a list of bags, for instance "
                "[LocalBinaryPatterns(), OpticalFlow()]"
            )
        if self.weights is None:
            return members, np.full(len(members), 1.0 / len(members))
        try:
            weights = np.array(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            weights = np.empty(0)
        if weights.shape != (len(members),) or not (np.isfinite(weights) & (weights > 0.0)).all():
            raise ParameterError(
                f"weights is {self.weights!r}, but it must be {len(members)} numbers above 0, "
                "one for each of bags"
            )
        return members, weights / weights.sum()


def _kept(video: Video) -> Video:
    """Return a video that can be read more than once."""
    return list(video) if isinstance(video, Iterator) else video


def _listed(counts: list[int]) -> str:
    return f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"
