"""Bag of Systems: a histogram of the local linear dynamic systems of a video over a codebook of systems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, seed_of
from sysbags.bags.base import video_name
from sysbags.comparators.base import Comparator
from sysbags.distances.gram import CrossGram, SystemStack
from sysbags.distances.pairwise import classical_scaling
from sysbags.distances.stein import martin_matrix
from sysbags.errors import ParameterError, VideoError
from sysbags.video import Frame, Video

# A state with less than a thousandth of the first state's amplitude is the rounding of pixels to integers.
RANK_TOLERANCE = 1e-6
LARGEST_RADIUS = 0.999


class LocalSystems(NamedTuple):
    """Linear dynamic systems of the same order: `A` (m, n, n), and `C'` (m, n, p) with orthonormal rows."""

    transitions: Array
    observers: Array

    def subset(self, indices: IntArray) -> LocalSystems:
        """Return the systems at these indices."""
        return LocalSystems(self.transitions[indices], self.observers[indices])


class BagOfSystems(Comparator):
    """Turn a video into a histogram of the linear dynamic systems of its small parts.

    The grey video is divided into adjacent cubes of `side` x `side` pixels and `length` frames. The cubes
    with the largest variance over time become linear dynamic systems, by Doretto's principal components and
    least squares. `fit` learns a codebook as Ravichandran, Chaudhry and Vidal do ("View-invariant dynamic
    texture recognition using a bag of dynamical systems", CVPR 2009; "Categorizing dynamic textures using a
    bag of dynamical systems", PAMI 2013): multidimensional scaling of the Martin distances between local
    systems, then k-means; the word of a cluster is the system nearest to its center. The vector of a video
    holds for each word the fraction of its cubes whose nearest word, by the Martin distance, it is ("term
    frequency").

    The paper takes cubes at interest points. Here the grid and the selection by variance replace them and
    bound the cost. A cube of lower rank than `order`, for instance a still one, is ignored; a video in which
    all cubes are ignored gets the uniform histogram.

    Parameters
    ----------
    words : int, default=64
        Number of systems in the codebook.
    order : int, default=3
        Order of the local systems.
    side, length : int, default=16, 25
        Pixels and frames of a cube. In a video with fewer frames a cube has all of them.
    cubes : int, default=100
        Maximal number of cubes per video.
    dimensions : int, default=20
        Dimension of the space of the multidimensional scaling.
    samples : int, default=2000
        Maximal number of systems that the codebook is learnt from, drawn in equal parts from the videos;
        time and memory grow with its square.
    random_state : int, Generator or None, default=0
        For the sample and the start of k-means.
    frames : mapping, optional
        Options for `sysbags.video.frames`.
    n_jobs : int, optional
        Number of threads.

    Attributes
    ----------
    words_ : LocalSystems
        The codebook: `transitions` (words, order, order) and `observers` (words, order, side^2).

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> videos = np.random.default_rng(0).integers(0, 256, (2, 20, 32, 48), dtype=np.uint8)
    >>> bags = sysbags.comparators.BagOfSystems(words=4, order=2, length=10).fit(videos)
    >>> bags.words_.transitions.shape, bags.transform(videos).shape
    ((4, 2, 2), (2, 4))
    """

    title: ClassVar[str] = "Bag of Systems"
    classifiers: ClassVar[tuple[str, ...]] = ("1-NN", "nearest-mean", "linear SVM")
    metric: ClassVar[str] = "chi2"
    requires_fit: ClassVar[bool] = True

    def __init__(
        self,
        words: int = 64,
        order: int = 3,
        *,
        side: int = 16,
        length: int = 25,
        cubes: int = 100,
        dimensions: int = 20,
        samples: int = 2000,
        random_state: int | np.random.Generator | None = 0,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.words = words
        self.order = order
        self.side = side
        self.length = length
        self.cubes = cubes
        self.dimensions = dimensions
        self.samples = samples
        self.random_state = random_state
        self.frames = frames
        self.n_jobs = n_jobs

    def fit(self, videos: Sequence[Video], y: Any = None) -> BagOfSystems:
        """Learn the codebook. An iterator of frames is consumed."""
        self._check()
        return self.learn(self.each(self.local, videos))

    def local(self, video: Video) -> LocalSystems:
        """Turn one video into the systems of its moving cubes; this does not use the codebook."""
        order = check_integer(self.order, "order")
        side = check_integer(self.side, "side")
        length = check_integer(self.length, "length", order + 1)
        cubes = moving_cubes(self.read(video), side, length, check_integer(self.cubes, "cubes"))
        if cubes.shape[0] == 0:
            raise VideoError(
                f"{video_name(video)} has frames of less than {side} x {side} pixels: choose a smaller side"
            )
        if cubes.shape[1] <= order:
            frames = f"{cubes.shape[1]} frame{'s' if cubes.shape[1] > 1 else ''}"
            raise VideoError(
                f"{video_name(video)} has {frames}, but order {order} needs at least {order + 1}"
            )
        return local_systems(cubes.reshape(*cubes.shape[:2], -1), order)

    def learn(self, systems: Sequence[LocalSystems]) -> BagOfSystems:
        """Learn the codebook from the local systems of videos, of which it draws equal numbers."""
        words, samples, dimensions = self._check()
        seed = seed_of(self.random_state)
        quota = -(-samples // max(1, len(systems)))
        drawn = []
        for k, local in enumerate(systems):
            chosen = np.random.default_rng([seed, k]).permutation(len(local.transitions))[:quota]
            drawn.append(local.subset(np.sort(chosen)))
        count = sum(len(local.transitions) for local in drawn)
        if count < words:
            raise ParameterError(
                f"words is {words}, but the {len(systems)} videos have only {count} local systems of order "
                f"{self.order}: ask for fewer words, or give more videos or smaller cubes"
            )
        sample = LocalSystems(*(np.concatenate(arrays) for arrays in zip(*drawn, strict=True)))
        points = embed(martin(sample, n_jobs=self.n_jobs), dimensions)
        self.words_ = sample.subset(choose_words(points, words, seed))
        return self

    def vector(self, video: Video) -> Array:
        """Turn one video into its histogram, (words,)."""
        check_is_fitted(self)
        return self.count(self.local(video))

    def count(self, systems: LocalSystems) -> Array:
        """Turn the local systems of a video into the fraction for each word whose nearest word it is."""
        words = len(self.words_.transitions)
        if not len(systems.transitions):
            return np.full(words, 1.0 / words)
        nearest = martin(systems, self.words_).argmin(axis=1)
        return np.bincount(nearest, minlength=words) / len(nearest)

    def _check(self) -> tuple[int, int, int]:
        """Refuse bad parameters before any video is read."""
        words = check_integer(self.words, "words")
        return (
            words,
            check_integer(self.samples, "samples", words),
            check_integer(self.dimensions, "dimensions"),
        )


def moving_cubes(frames: Iterator[Frame], side: int, length: int, count: int) -> npt.NDArray[np.uint8]:
    """Divide frames into adjacent cubes, and keep those with the largest variance over time, the largest
    first.

    The result is (at most count, length, side, side). The last frames are ignored where they do not fill a
    cube, unless the video has fewer than `length` frames. No more than `length` frames and `count` cubes are
    in memory.
    """
    best, energies = np.empty((0, length, side, side), np.uint8), np.empty(0)
    started = False
    for window in iter(lambda: list(islice(frames, length)), []):
        if started and len(window) < length:
            break
        started = True
        height, width = (extent // side for extent in window[0].shape)
        block = np.stack(window)[:, : height * side, : width * side]
        blocks = block.reshape(len(window), height, side, width, side).transpose(1, 3, 0, 2, 4)
        cubes = blocks.reshape(height * width, len(window), side, side)
        energy = cubes.var(axis=1).mean(axis=(1, 2))
        if len(best):
            cubes, energy = np.concatenate([best, cubes]), np.concatenate([energies, energy])
        first = np.argsort(-energy, kind="stable")[:count]
        best, energies = cubes[first], energy[first]
    return best


def local_systems(cubes: npt.ArrayLike, order: int) -> LocalSystems:
    """Learn the linear dynamic system of each stream of pixels, (m, length, p); those of lower rank are left
    out.

    Principal components give the states, least squares the transition, as in Doretto's identification. A
    transition of spectral radius above 0.999 is scaled down to 0.999, because the Martin distance is defined
    for stable systems only. A stream needs more than `order` rows.
    """
    Y = np.asarray(cubes, dtype=np.float64)
    Y = Y - Y.mean(axis=1, keepdims=True)
    eigenvalues, V = np.linalg.eigh(Y @ Y.transpose(0, 2, 1))
    eigenvalues, V = eigenvalues[:, : -order - 1 : -1], V[:, :, : -order - 1 : -1]
    moving = (eigenvalues[:, -1] > RANK_TOLERANCE * eigenvalues[:, 0]) & (eigenvalues[:, 0] > 0.0)
    root, V, Y = np.sqrt(eigenvalues[moving])[:, None], V[moving], Y[moving]
    observers = (V / root).transpose(0, 2, 1) @ Y
    # Scaled so that the variances of the states are 1, the least squares problem is well conditioned.
    before, after = V[:, :-1].transpose(0, 2, 1), V[:, 1:]
    A = np.linalg.solve(before @ V[:, :-1], before @ after).transpose(0, 2, 1)
    A = root.transpose(0, 2, 1) * A / root
    radius = np.abs(np.linalg.eigvals(A)).max(axis=1)
    return LocalSystems(
        A * np.minimum(1.0, LARGEST_RADIUS / np.maximum(radius, 1e-300))[:, None, None], observers
    )


def martin(systems: LocalSystems, others: LocalSystems | None = None, n_jobs: int | None = None) -> Array:
    """Squared Martin distances of local systems, (K, L)."""
    stacks = [_stack(systems), _stack(others or systems)]
    left, right = systems.observers, (others or systems).observers
    products = np.tensordot(left, right, axes=(2, 2)).transpose(0, 2, 1, 3)
    gram = CrossGram(products, np.zeros(products.shape[:2]), stacks[0], stacks[1], others is None)
    return martin_matrix(gram, n_jobs)


def _stack(systems: LocalSystems) -> SystemStack:
    A, C = systems
    return SystemStack(np.full(len(A), A.shape[1]), A, C @ C.transpose(0, 2, 1), np.zeros(len(A)))


def embed(squared: Array, dimensions: int) -> Array:
    """Embed items in a Euclidean space, given their squared distances (K, K): multidimensional scaling.

    The leading eigenvectors of the doubly centered matrix, for positive eigenvalues only. Infinite distances
    are replaced by the largest finite one.
    """
    finite = np.isfinite(squared)
    return classical_scaling(np.where(finite, squared, squared[finite].max()), min(dimensions, len(squared)))


def choose_words(points: Array, count: int, seed: int) -> IntArray:
    """Cluster points by k-means, and return for each cluster the index of the point nearest to its center."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):  # the round-off of sums by several threads differs between runs
        means = KMeans(count, n_init=3, random_state=seed % 2**32).fit(points)
    squares = ((points - means.cluster_centers_[means.labels_]) ** 2).sum(axis=1)
    order = np.lexsort((squares, means.labels_))
    return order[np.unique(means.labels_[order], return_index=True)[1]]
