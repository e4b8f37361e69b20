"""The base class of the bags: masses of frames, pooled over windows and normalised to histograms."""

from __future__ import annotations

import inspect
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import TransformerMixin

from sysbags import video
from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags.errors import OrderError, ParameterError, StreamError, SysbagsError
from sysbags.video import Frame, Video

Self = TypeVar("Self", bound="BagTransformer")


class BagTransformer(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """The base class of transformers from videos to streams of histograms.

    A subclass sets `colour`, has the parameters `window`, `step`, `frames` and `n_jobs`, and implements
    `masses`, which turns an iterator of frames into an iterator of (p,) arrays of masses, 0 or more.
    """

    colour: ClassVar[str] = "grey"
    window: int
    step: int | None
    frames: Mapping[str, Any] | None
    n_jobs: int | None

    @property
    def requires_fit(self) -> bool:
        """Whether `fit` has to learn from videos before `stream` can be called; False by default."""
        return False

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn frames into masses over bins, in order, each a new array; all zeros are an empty bag."""
        raise NotImplementedError

    def members(self) -> list[BagTransformer]:
        """Return the bags that it consists of: itself, unless it is a `BagUnion`."""
        return [self]

    def join(self, streams: Sequence[Any]) -> Any:
        """Join the streams of the members; raise if one of them is an error."""
        (stream,) = streams
        if isinstance(stream, SysbagsError):
            raise stream
        return stream

    def shares_a_pass(self, other: BagTransformer) -> bool:
        """Return whether `masses_with` can turn frames into the masses of this bag and of another one.

        Then they read the same frames, and what takes long is done once for both. False by default.
        """
        return False

    def masses_with(
        self, others: Sequence[BagTransformer], frames: Iterator[Frame]
    ) -> Iterator[tuple[Array, ...]]:
        """Turn frames into tuples of masses: those of this bag, then those of others that share a pass."""
        raise NotImplementedError

    def fit(self: Self, videos: Sequence[Video], y: Any = None) -> Self:
        """Do nothing: by default there is nothing to learn."""
        return self

    def stream(self, video: Video) -> Array:
        """Turn one video into its stream of histograms, (N, p): rows are time, each row sums to 1."""
        return pool(self.masses(self.read(video)), self.window, self.step, name=video_name(video))

    def transform(self, videos: Sequence[Video]) -> list[Array]:
        """Turn each video into its stream."""

        def stream(numbered: tuple[int, Video]) -> Array:
            index, video = numbered
            try:
                return self.stream(video)
            except ParameterError:
                raise  # it does not depend on the video
            except SysbagsError as error:
                raise type(error)(f"video {index}: {error}") from None

        return run(stream, list(enumerate(check_videos(videos))), self.n_jobs, "bags")

    def read(self, source: Video, **fixed: Any) -> Iterator[Frame]:
        """Read the frames of a video with the options of the bags; `fixed` are set by a subclass."""
        options = {} if self.frames is None else self.frames
        known = [
            name for name in inspect.signature(video.frames).parameters if name not in ("video", "colour")
        ]
        if not isinstance(options, Mapping) or not set(options) <= set(known):
            raise ParameterError(
                f"frames is {options!r}, but it must be a mapping of options for reading: {', '.join(known)}"
            )
        return video.frames(source, colour=self.colour, **{**options, **fixed})


def check_videos(videos: Any) -> list[Video]:
    """Return a sequence of videos as a list; raise an error for a single video."""
    if isinstance(videos, (str, bytes, os.PathLike)):
        description = f"the single path {os.fspath(videos)!r}"
    elif isinstance(videos, np.ndarray) and videos.dtype.kind in "biuf" and videos.ndim < 4:
        description = f"an array of shape {videos.shape}"
    elif not isinstance(videos, Iterable):
        description = f"of type {type(videos).__name__}"
    else:
        return list(videos)
    raise ParameterError(
        f"videos is {description}, but it must be a sequence of videos: put a single one in a list"
    )


def video_name(video: Video) -> str:
    """Return the name of a video in error messages."""
    return str(video) if isinstance(video, (str, os.PathLike)) else "the video"


def pool(
    masses: Iterable[Array], window: int = 1, step: int | None = None, *, name: str = "the video"
) -> Array:
    """Add up the masses, (p,), of `window` neighbouring frames, every `step` frames, and divide by their sum.

    A bag without any mass has no information and becomes uniform. The last frames are left out where they
    do not fill a window, but a video shorter than a window gives one bag of all its frames. No more than one
    window of masses is in memory beside the result, (N, p). By default windows do not overlap.

    >>> pool(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), window=2, step=1)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    pooling = Pooling(window, step, name=name)
    for row in masses:
        pooling.add(row)
    return pooling.stream()


class Pooling:
    """`pool` for masses that come one by one."""

    def __init__(self, window: int = 1, step: int | None = None, *, name: str = "the video") -> None:
        self.width = check_integer(window, "window")
        self.stride = self.width if step is None else check_integer(step, "step")
        self.name, self.count = name, 0
        self.recent: deque[Array] = deque(maxlen=self.width)
        # Grows in place; a list of rows and the array made of it would need twice the memory.
        self.rows = bytearray()

    def add(self, row: Array) -> None:
        """Add the masses of the next frame."""
        self.recent.append(row)
        self.count += 1
        if self.count >= self.width and (self.count - self.width) % self.stride == 0:
            self.rows += _histogram(self.recent, self.name, self.count).tobytes()

    def stream(self) -> Array:
        """Return the histograms, (N, p), once all masses are added."""
        if not self.recent:
            raise OrderError(f"{self.name} has too few frames for a single bag")
        if not self.rows:
            self.rows += _histogram(self.recent, self.name, self.count).tobytes()
        return np.frombuffer(self.rows, dtype=np.float64).reshape(-1, *self.recent[0].shape)


def _histogram(masses: Collection[Array], name: str, count: int) -> Array:
    """Return the sum of the masses as a histogram, which sums to 1; several of them for (cells, p) masses."""
    total = np.asarray(sum(masses), dtype=np.float64)
    mass = total.sum(axis=-1, keepdims=True)
    if not np.isfinite(mass).all():
        raise StreamError(f"the bag that ends with frame {count - 1} of {name} holds NaN or infinity")
    # A bag without any mass has no information.
    return np.where(mass > 0.0, total / np.where(mass > 0.0, mass, 1.0), 1.0 / total.shape[-1])
