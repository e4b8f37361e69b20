"""Visual words: histograms of the local descriptors of a frame over the words of a codebook."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sysbags._common.cache import fingerprint
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_integer, check_matrix, check_weight, seed_of
from sysbags.bags.base import BagTransformer, check_videos
from sysbags.errors import ParameterError, StreamError, VideoError
from sysbags.video import Frame, Video

Descriptors = npt.NDArray[np.float32]

LENGTHS = {"surf": 64, "sift": 128}
# The search for keypoints: their minimal strength, and the octaves, scales per octave and step of SURF.
SIFT_THRESHOLD = 0.04
SURF_THRESHOLD, SURF_OCTAVES, SURF_SCALES, SURF_STEP = 0.1, 4, 6, 1
GRID_STEP, GRID_SCALE = 8, 1.6  # pixels
# Parameters of VisualWords that do not change the descriptors of a frame.
COUNTING = ("words", "assignment", "samples", "fit_stride", "random_state", "window", "step")

Self = TypeVar("Self", bound="CodebookBags")


class CodebookBags(BagTransformer, ABC):
    """The base class of bags of words: `fit` learns a codebook from a sample of what frames are described by.

    A subclass has the parameters `words`, `samples`, `fit_stride` and `random_state`, with the meaning that
    they have for `VisualWords`, and implements `descriptors`, `learn` and `codebook`. `local` is what error
    messages call the descriptors.
    """

    local: ClassVar[str] = "descriptors"
    words: int
    samples: int
    fit_stride: int
    random_state: int | np.random.Generator | None
    words_: npt.NDArray[Any]

    @abstractmethod
    def descriptors(self, frames: Iterator[Frame]) -> Iterator[Descriptors]:
        """Turn each frame into its descriptors, (n, d); the parameters are checked at once."""

    @abstractmethod
    def learn(self: Self, sample: Descriptors, centers: Array) -> Self:
        """Set the codebook: a sample of descriptors, (n, d), and the centers of its clusters, (words, d)."""

    @abstractmethod
    def codebook(self) -> tuple[npt.NDArray[Any], float | None]:
        """Return the words, (K, d), and the bandwidth of soft assignment, for `word_masses`."""

    @property
    def requires_fit(self) -> bool:
        """True, because `fit` learns the words."""
        return True

    def fit(self: Self, videos: Sequence[Video], y: Any = None) -> Self:
        """Learn the codebook. An iterator of frames is consumed."""
        numbered = list(enumerate(check_videos(videos)))
        count = check_integer(self.words, "words")
        quota = -(-check_integer(self.samples, "samples", count) // max(1, len(numbered)))
        stride, seed = check_integer(self.fit_stride, "fit_stride"), seed_of(self.random_state)
        self.descriptors(iter(()))  # checks the parameters before any video is read

        def sample_video(numbered_video: tuple[int, Video]) -> Descriptors:
            index, video = numbered_video
            try:
                return self.draw_from(video, quota, np.random.default_rng([seed, index]))
            except (VideoError, StreamError) as error:
                raise type(error)(f"video {index}: {error}") from None

        parts = [part for part in run(sample_video, numbered, self.n_jobs, self.local) if len(part)]
        sample = np.concatenate(parts) if parts else np.empty((0, 0), np.float32)
        distinct = count_distinct(sample)
        if distinct < count:
            raise ParameterError(
                f"words is {count}, but the {len(numbered)} videos have only {distinct} distinct {self.local}"
                f"{f' in 1 of {stride} frames' if stride > 1 else ''}: ask for fewer words, or give more "
                f"videos{' or a smaller fit_stride' if stride > 1 else ''}"
            )
        return self.learn(sample, learn_words(sample, count, seed))

    def draw_from(self, video: Video, quota: int, rng: np.random.Generator) -> Descriptors:
        """Draw at most `quota` descriptors at random from every `fit_stride`-th frame of a video."""
        frames = islice(self.read(video), 0, None, check_integer(self.fit_stride, "fit_stride"))
        return draw(self.descriptors(frames), quota, rng)


class VisualWords(CodebookBags):
    """Turn a video into histograms of visual words.

    A frame is described at keypoints, or on a grid, by SURF (mahotas) or SIFT (OpenCV). `fit` learns a
    codebook: the `words` cluster centers of the descriptors of the training videos, by k-means. The bag of a
    frame counts for each word the descriptors whose nearest word it is. With soft assignment each descriptor
    x is divided among all words w in proportion to ``exp(-|x - w|^2 / (2 bandwidth^2))`` (codeword
    uncertainty: van Gemert, Veenman, Smeulders and Geusebroek, "Visual word ambiguity", PAMI 2010), where the
    bandwidth is learnt: for half the descriptors the weight of the second nearest word is more than 1/e of
    the weight of the nearest. A bag without any keypoint is uniform.

    Descriptors of a frame of 240 lines take tens of milliseconds. ``frames={"stride": 3}`` or
    ``frames={"size": 120}`` is several times faster.

    Parameters
    ----------
    words : int, default=500
    descriptor : {"surf", "sift"}, default="surf"
    assignment : {"hard", "soft"}, default="hard"
    sampling : {"keypoints", "grid"}, default="keypoints"
        The points of the grid are 8 pixels apart and have scale 1.6: a SURF descriptor covers a square of
        20 scales, a SIFT descriptor one of 12.
    max_points : int, default=1024
        Approximate maximal number of keypoints per frame, the strongest.
    samples : int, default=100000
        Maximal number of descriptors that the codebook is learnt from, drawn in equal parts from the videos.
    fit_stride : int, default=5
        `fit` uses every `fit_stride`-th frame, because neighbouring frames are similar.
    random_state : int, Generator or None, default=0
        For the sample and the start of k-means.
    window, step : int, optional
        Pool `window` neighbouring frames into one bag, every `step` frames.
    frames : mapping, optional
        Options for `sysbags.video.frames`.
    n_jobs : int, optional
        Number of threads, over videos.

    Attributes
    ----------
    words_ : (words, 64 or 128) array
        The codebook.
    bandwidth_ : float

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> video = np.random.default_rng(0).integers(0, 256, (6, 64, 64), dtype=np.uint8)
    >>> bags = sysbags.bags.VisualWords(words=5, sampling="grid").fit([video])
    >>> bags.words_.shape, bags.stream(video).shape
    ((5, 64), (6, 5))
    """

    def __init__(
        self,
        words: int = 500,
        descriptor: str = "surf",
        *,
        assignment: str = "hard",
        sampling: str = "keypoints",
        max_points: int = 1024,
        samples: int = 100_000,
        fit_stride: int = 5,
        random_state: int | np.random.Generator | None = 0,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.words = words
        self.descriptor = descriptor
        self.assignment = assignment
        self.sampling = sampling
        self.max_points = max_points
        self.samples = samples
        self.fit_stride = fit_stride
        self.random_state = random_state
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def learn(self, sample: Descriptors, centers: Array) -> VisualWords:
        """Set the codebook, and the bandwidth from a sample of descriptors."""
        self.words_ = centers
        self.bandwidth_ = second_word_bandwidth(sample, centers)
        return self

    def codebook(self) -> tuple[Array, float | None]:
        """Return the words, and the bandwidth of soft assignment; None is hard assignment."""
        check_is_fitted(self)
        soft = check_choice(self.assignment, "assignment", ("hard", "soft")) == "soft"
        length = LENGTHS[check_choice(self.descriptor, "descriptor", LENGTHS)]
        words = check_matrix(self.words_, "words_", (None, length), f"(K, {length}): one row per word")
        return words, check_positive(self.bandwidth_, "bandwidth_") if soft else None

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn each frame into the counts of its descriptors by word."""
        return (row for (row,) in self.masses_with([], frames))

    def shares_a_pass(self, other: BagTransformer) -> bool:
        """Return whether another bag counts the same descriptors."""
        if type(other) is not type(self):
            return False
        own, theirs = (
            {name: value for name, value in bag.get_params().items() if name not in (*COUNTING, "n_jobs")}
            for bag in (self, other)
        )
        return bool(fingerprint(own) == fingerprint(theirs))

    def masses_with(
        self, others: Sequence[BagTransformer], frames: Iterator[Frame]
    ) -> Iterator[tuple[Array, ...]]:
        """Turn each frame into the counts of its descriptors by the words of several bags."""
        books = [bag.codebook() for bag in (self, *others) if isinstance(bag, VisualWords)]
        described = self.descriptors(frames)
        return (tuple(word_masses(rows, *book) for book in books) for rows in described)

    def descriptors(self, frames: Iterator[Frame]) -> Iterator[Descriptors]:
        """Turn each frame into its descriptors, (n, 64) or (n, 128)."""
        return map(self.describer(), frames)

    def describer(self) -> Callable[[Frame], Descriptors]:
        """Return a function from a grey frame to its descriptors (n, d); it is not thread-safe."""
        check_choice(self.descriptor, "descriptor", LENGTHS)
        grid = check_choice(self.sampling, "sampling", ("keypoints", "grid")) == "grid"
        limit = min(check_integer(self.max_points, "max_points"), 2**31 - 1)

        if self.descriptor == "surf":

            def describe(frame: Frame) -> Any:
                return surf_at(frame, grid_points(frame)) if grid else surf_keypoints(frame, limit)
        else:
            import cv2

            sift = cv2.SIFT.create(nfeatures=limit, contrastThreshold=SIFT_THRESHOLD)

            def describe(frame: Frame) -> Any:
                if not grid:
                    return sift.detectAndCompute(frame, None)[1]
                points = [cv2.KeyPoint(x, y, 2.0 * GRID_SCALE, 0.0) for y, x in grid_points(frame)]
                return sift.compute(frame, points)[1] if points else None

        def finite(frame: Frame) -> Descriptors:
            descriptors = describe(frame)
            rows = np.empty((0, LENGTHS[self.descriptor])) if descriptors is None else np.asarray(descriptors)
            return rows[np.isfinite(rows).all(axis=1)].astype(np.float32)

        return finite


def grid_points(frame: Frame) -> Array:
    """Return the rows and columns of a grid over a frame, (n, 2), which begins at half its step."""
    rows, columns = (np.arange(GRID_STEP // 2, n, GRID_STEP, dtype=np.float64) for n in frame.shape)
    return np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)


def surf_keypoints(frame: Frame, limit: int) -> Array:
    """Find and describe at most so many keypoints in a frame that is padded by its mirror image."""
    from mahotas.features import surf

    # mahotas finds no keypoints nearer to the border than half the widest filter of the octave: without this
    # margin for the first octave, two thirds would be missed in a frame of 120 lines.
    margin = SURF_STEP * math.ceil(1.5 * (2 * (SURF_SCALES + 1) + 1)) + 1
    mirrored = np.pad(frame, margin, mode="symmetric")
    search = SURF_OCTAVES, SURF_SCALES, SURF_STEP, SURF_THRESHOLD
    return np.asarray(surf.surf(mirrored, *search, limit, descriptor_only=True))


def surf_at(frame: Frame, points: Array) -> Array:
    """Describe points of one scale in a frame that is padded by its mirror image."""
    from mahotas.features import surf

    margin = math.ceil(16.0 * GRID_SCALE) + 2  # points within 15.5 scales of the border would be left out
    keypoints = np.column_stack(
        [points + margin, np.full(len(points), GRID_SCALE), np.ones((len(points), 2))]
    )
    mirrored = np.pad(frame, margin, mode="symmetric")
    return np.asarray(surf.descriptors(mirrored, keypoints, descriptor_only=True))


def draw(parts: Iterable[Descriptors], size: int, rng: np.random.Generator) -> Descriptors:
    """Draw at most `size` rows at random from an iterable of arrays; their order stays the same."""
    rows, keys = np.empty((0, 0), np.float32), np.empty(0)
    for part in parts:  # each row gets a random key, and the rows with the smallest keys are drawn
        rows = np.concatenate([rows, part]) if len(rows) else part
        keys = np.concatenate([keys, rng.random(len(part))])
        if len(keys) > size:
            smallest = np.sort(np.argpartition(keys, size)[:size])
            rows, keys = rows[smallest], keys[smallest]
    return rows


def count_distinct(rows: npt.NDArray[Any]) -> int:
    """Return the number of distinct rows."""
    return len({row.tobytes() for row in rows})  # np.unique takes seconds for long rows


def learn_words(sample: Descriptors, count: int, seed: int) -> Array:
    """Return the cluster centers (count, d) of mini-batch k-means."""
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    means = MiniBatchKMeans(count, batch_size=4096, n_init=1, random_state=seed % 2**32)
    with threadpool_limits(limits=1):  # the round-off of sums by several threads differs between runs
        return np.asarray(means.fit(sample).cluster_centers_, dtype=np.float64)


def second_word_bandwidth(sample: Descriptors, words: Array) -> float:
    """Return the bandwidth at which the median weight of the second word is 1/e of that of the nearest."""
    if len(words) == 1:
        return 1.0
    nearest = np.sort(nearness(sample[:: -(-len(sample) // 4096)], words), axis=1)
    return float(np.sqrt(np.median(nearest[:, -1] - nearest[:, -2]))) or 1.0


def word_masses(descriptors: npt.ArrayLike, words: npt.NDArray[Any], bandwidth: float | None = None) -> Array:
    """Count descriptors (n, d) by the nearest of the words (K, d), or divide each among all words.

    >>> word_masses([[0.1], [0.2], [0.6]], np.array([[0.0], [1.0]]))
    array([2., 1.])
    """
    near = nearness(descriptors, words)
    if bandwidth is None:
        return np.bincount(near.argmax(axis=1), minlength=len(words)).astype(np.float64)
    shares = np.exp((near - near.max(axis=1, keepdims=True)) / bandwidth**2)
    return np.asarray((shares / shares.sum(axis=1, keepdims=True)).sum(axis=0))


def nearness(descriptors: npt.ArrayLike, words: npt.NDArray[Any]) -> Array:
    """Return x'w - |w|^2 / 2: minus half the squared distance, up to |x|^2 / 2, which no word changes.

    The products are those of the type of the words, float32 or float64.
    """
    products = np.asarray(descriptors, dtype=words.dtype) @ words.T
    return np.asarray(products - 0.5 * (words**2).sum(axis=1, dtype=np.float64))


def check_positive(value: Any, name: str, maximum: float = 1e6) -> float:
    """Return a number above 0 that is at most `maximum`."""
    number = check_weight(value, name)
    if not 0.0 < number <= maximum:
        raise ParameterError(f"{name} is {value!r}, but it must be above 0 and at most {maximum:g}")
    return number
