"""The base class of the comparators: transformers from videos to vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer, check_videos
from sysbags.errors import ParameterError, SysbagsError
from sysbags.video import Frame, Video

Self = TypeVar("Self", bound="Comparator")
Result = TypeVar("Result")


class Comparator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """The base class of transformers from videos to vectors.

    A subclass implements `vector`, which turns a video into a (p,) array, has the parameters `frames` and
    `n_jobs`, and sets the class attributes: its title in tables, the classifiers of its vectors ("1-NN",
    "nearest-mean" and those of the method's own paper), the metric of the first two ("chi2", "cosine" or
    "euclidean"), whether `fit` learns from videos, so that the test videos must not be among them, and the
    colour of frames ("grey" or "rgb").

    Vectors have names of features and `set_output`, unlike the lists of streams, paths or systems that bags
    and other transformers return.
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

    def fit(self: Self, videos: Sequence[Video], y: Any = None) -> Self:
        """Do nothing: by default there is nothing to learn."""
        return self

    def transform(self, videos: Sequence[Video]) -> Any:
        """Turn videos into vectors, (K, p): one row per video."""
        vectors = self.each(self.vector, videos)
        rows = np.stack(vectors) if vectors else np.empty((0, 0))
        self._n_features_out = rows.shape[1]  # for `get_feature_names_out` and `set_output`
        return rows

    def each(self, function: Callable[[Video], Result], videos: Sequence[Video]) -> list[Result]:
        """Call a function for each video, on threads; errors name the index of the video."""

        def call(numbered: tuple[int, Video]) -> Result:
            index, video = numbered
            try:
                return function(video)
            except ParameterError:
                raise  # it does not depend on the video
            except SysbagsError as error:
                raise type(error)(f"video {index}: {error}") from None

        return run(call, list(enumerate(check_videos(videos))), self.n_jobs, self.title)

    def read(self, source: Video, **fixed: Any) -> Iterator[Frame]:
        """Read the frames of a video as bags do; `fixed` are options that a subclass sets itself."""
        # The method of the bags uses nothing but `colour` and `frames`.
        return BagTransformer.read(cast(BagTransformer, self), source, **fixed)
