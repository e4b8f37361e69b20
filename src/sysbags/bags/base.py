"""What all bags share: frames in, masses pooled over windows, histograms out."""

from __future__ import annotations

import inspect
import math
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin

from sysbags import video
from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags.errors import ParameterError, StreamError, SysbagsError, VideoError
from sysbags.video import Frame, Video

__all__ = ["BagTransformer", "check_videos", "pool", "video_name"]

Self = TypeVar("Self", bound="BagTransformer")


class BagTransformer(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """A transformer from videos to streams of histograms; a child says what one frame is worth.

    A child names its `colour`, keeps `window`, `step`, `frames` and `n_jobs` as parameters, and has
    `masses`, which turns an iterator of frames into one of (p,) arrays of masses that are 0 or more.
    """

    colour: ClassVar[str] = "grey"
    window: int
    step: int | None
    frames: Mapping[str, Any] | None
    n_jobs: int | None

    @property
    def requires_fit(self) -> bool:
        """Whether `fit` has to learn something from videos before there can be streams, here not."""
        return False

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn frames into masses over bins, in order, each a fresh array; all zero is an empty bag."""
        raise NotImplementedError

    def fit(self: Self, videos: Sequence[Video], labels: Any = None) -> Self:
        """Learn what the bags need, here nothing."""
        return self

    def stream(self, video: Video) -> Array:
        """Turn one video into its stream of histograms, (N, p): rows are time, each sums to 1."""
        return pool(self.masses(self.read(video)), self.window, self.step, name=video_name(video))

    def transform(self, videos: Sequence[Video]) -> list[Array]:
        """Turn each video into its stream."""

        def streamed(numbered: tuple[int, Video]) -> Array:
            index, item = numbered
            try:
                return self.stream(item)
            except ParameterError:
                raise  # no fault of this video
            except SysbagsError as error:
                raise type(error)(f"video {index}: {error}") from None

        return run(streamed, list(enumerate(check_videos(videos))), self.n_jobs, "bags")

    def read(self, source: Video, **own: Any) -> Iterator[Frame]:
        """Read the frames of a video as these bags want them; `own` are options that a child fixes."""
        options = {} if self.frames is None else self.frames
        known = [
            name for name in inspect.signature(video.frames).parameters if name not in ("video", "colour")
        ]
        if not isinstance(options, Mapping) or not set(options) <= set(known):
            raise ParameterError(
                f"frames is {options!r}, but it must be a mapping of options for reading: {', '.join(known)}"
            )
        return video.frames(source, colour=self.colour, **{**options, **own})

    def fitted_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `fit` has learnt: the attributes that end with an underscore, as arrays."""
        learnt = {name: value for name, value in vars(self).items() if name.endswith("_")}
        return {name: np.asarray(value) for name, value in learnt.items()}

    def set_fitted_arrays(self: Self, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Take over what another one with the same parameters has learnt, as `fitted_arrays` returned it."""
        for name, array in arrays.items():
            setattr(self, name, array if array.ndim else array.item())
        return self


def check_videos(videos: Any) -> list[Video]:
    """Return several videos as a list; a single one is refused, as its frames are not videos."""
    if isinstance(videos, (str, bytes, os.PathLike)):
        what = f"the single path {os.fspath(videos)!r}"
    elif isinstance(videos, np.ndarray) and videos.dtype.kind in "biuf" and videos.ndim < 4:
        what = f"an array of shape {videos.shape}"
    elif not isinstance(videos, Iterable):
        what = f"of type {type(videos).__name__}"
    else:
        return list(videos)
    raise ParameterError(f"videos is {what}, but it must be a sequence of videos: put a single one in a list")


def video_name(video: Video) -> str:
    """Return what sentences call a video."""
    return str(video) if isinstance(video, (str, os.PathLike)) else "the video"


def pool(
    masses: Iterable[Array], window: int = 1, step: int | None = None, *, name: str = "the video"
) -> Array:
    """Add up the masses of `window` neighbouring frames, every `step` frames, and divide by their sum.

    A bag without any mass says nothing, so it becomes the uniform one. Frames at the end that do not
    fill a window are left out, unless there are fewer than one window in all: then they are one bag.
    No more than one window of masses is held beside the result.

    Parameters
    ----------
    masses : iterable of (p,) array
    window : int, default=1
    step : int, optional
        By default `window`: windows side by side.
    name : str, default="the video"
        What the sentences call the source.

    Returns
    -------
    (N, p) array

    Examples
    --------
    >>> pool(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
    array([[1. , 0. ],
           [0. , 1. ],
           [0.5, 0.5]])
    >>> pool(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), window=2, step=1)
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    width = check_integer(window, "window")
    stride = width if step is None else check_integer(step, "step")
    recent: deque[Array] = deque(maxlen=width)
    rows = bytearray()  # grows in place; a list of rows and the array made of it would take twice the room
    count = 0
    for count, row in enumerate(masses, start=1):
        recent.append(row)
        if count >= width and (count - width) % stride == 0:
            rows += _histogram(recent, name, count).tobytes()
    if not recent:
        raise VideoError(f"{name} has too few frames for a single bag")
    if not rows:
        rows += _histogram(recent, name, count).tobytes()
    return np.frombuffer(rows, dtype=np.float64).reshape(-1, len(recent[0]))


def _histogram(masses: Collection[Array], name: str, count: int) -> Array:
    """Return the sum of some masses, divided by its sum."""
    total = np.asarray(sum(masses), dtype=np.float64)
    mass = float(total.sum())
    if not math.isfinite(mass):
        raise StreamError(f"the bag that ends with frame {count - 1} of {name} holds NaN or infinity")
    return np.asarray(total / mass if mass > 0.0 else np.full(total.shape, 1.0 / total.size))
