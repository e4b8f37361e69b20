"""What all comparators share: videos in, one vector each out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from sklearn.base import TransformerMixin

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer, check_videos
from sysbags.errors import ParameterError, SysbagsError
from sysbags.video import Frame, Video

__all__ = ["Comparator"]

Self = TypeVar("Self", bound="Comparator")
Result = TypeVar("Result")


class Comparator(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """A transformer from videos to vectors; a child says what one video is worth.

    A child has `vector`, which turns a video into a (p,) array, keeps `frames` and `n_jobs` as parameters
    and names itself and how its vectors are used.

    Attributes
    ----------
    title : str
        What tables call the method.
    classifiers : tuple of str
        What its vectors are used with: "1-NN", "nearest mean" and those of the method's own paper.
    metric : str
        "chi2", "cosine" or "euclidean", for the first two of them.
    requires_fit : bool
        Whether `fit` learns from videos, so that those to be tested must not be among them.
    colour : str
        "grey" or "rgb".
    """

    title: ClassVar[str]
    classifiers: ClassVar[tuple[str, ...]]
    metric: ClassVar[str]
    requires_fit: ClassVar[bool] = False
    colour: ClassVar[str] = "grey"
    frames: Mapping[str, Any] | None
    n_jobs: int | None

    def vector(self, video: Video) -> Array:
        """Turn one video into its vector, (p,)."""
        raise NotImplementedError

    def fit(self: Self, videos: Sequence[Video], labels: Any = None) -> Self:
        """Learn what the method needs, here nothing."""
        return self

    def transform(self, videos: Sequence[Video]) -> Any:
        """Turn videos into their vectors, (K, p), one row each."""
        vectors = self.each(self.vector, videos)
        return np.stack(vectors) if vectors else np.empty((0, 0))

    def each(self, function: Callable[[Video], Result], videos: Sequence[Video]) -> list[Result]:
        """Call a function of one video for several, on threads; errors say which video it was."""

        def called(numbered: tuple[int, Video]) -> Result:
            index, item = numbered
            try:
                return function(item)
            except ParameterError:
                raise  # no fault of this video
            except SysbagsError as error:
                raise type(error)(f"video {index}: {error}") from None

        return run(called, list(enumerate(check_videos(videos))), self.n_jobs, self.title)

    def read(self, source: Video, **own: Any) -> Iterator[Frame]:
        """Read the frames of a video as bags do; `own` are options that a child fixes."""
        return BagTransformer.read(
            cast(BagTransformer, self), source, **own
        )  # it needs no more than `colour` and `frames`
