"""Tree-structured vector quantisation: local descriptors counted by the nodes of a vocabulary tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.bags.words import LENGTHS, Descriptors, VisualWords, draw, learn_words, nearness
from sysbags.comparators.base import Comparator
from sysbags.errors import ParameterError
from sysbags.video import Video

__all__ = ["Described", "TreeWords", "descend", "frames_through", "grow"]


class Described(NamedTuple):
    """The local descriptors of a video, (n, d), and the number of the frame that each is from, (n,)."""

    descriptors: Descriptors
    frame: IntArray


class TreeWords(Comparator):
    """Turn a video into weighted counts of its local descriptors at the nodes of a vocabulary tree.

    `fit` divides the descriptors of the training videos into `branches` by k-means, each part again,
    and so on `depth` times. A descriptor goes down the tree, at each node to the nearest of its children,
    and counts at every node on its way. Node i weighs ``w_i = ln(N / N_i)``, with `N_i` of the N training
    frames having a descriptor that passes it: the entropy weights of Nister and Stewenius ("Scalable
    recognition with a vocabulary tree", CVPR 2006), whose documents are images. Counts times weights over
    all nodes but the root are divided by their sum. Theirs is the L1 distance between such vectors; chi2 is
    the nearest to it among the metrics here, ``L1^2 / 4 <= sum (a - b)^2 / (2 (a + b)) <= L1 / 2``.

    A video without any descriptor, or with those alone that every frame has, gets the uniform vector.

    Parameters
    ----------
    branches : int, default=10
        Children of a node; a node of fewer distinct descriptors has none.
    depth : int, default=3
        Levels below the root. The tree has up to ``branches + .. + branches^depth`` nodes.
    descriptor : {"sift", "surf"}, default="sift"
    sampling : {"keypoints", "grid"}, default="keypoints"
        As in `sysbags.bags.VisualWords`.
    max_points : int, default=128
        About so many keypoints a frame at most, the strongest; `fit` holds those of all videos.
    samples : int, default=100000
        Descriptors that the tree is learnt from at most, drawn in equal parts from the videos.
    stride : int, default=10
        Every so many frames are looked at, because neighbours are alike.
    random_state : int, Generator or None, default=0
        For the sample and the starts of k-means.
    frames : mapping, optional
        Options for `sysbags.video.frames`.
    n_jobs : int, optional
        Threads, over videos.

    Attributes
    ----------
    centres_ : (M, d) array
        The nodes, level by level; the first is the root.
    children_ : (M, 2) array of int
        The first child of each node, and the one after its last; equal where there is none.
    weights_ : (M - 1,) array
        Of the nodes but the root.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> videos = np.random.default_rng(0).integers(0, 256, (2, 6, 64, 64), dtype=np.uint8)
    >>> words = sysbags.comparators.TreeWords(branches=3, depth=2, sampling="grid", stride=1).fit(videos)
    >>> words.children_[:2].tolist(), words.transform(videos).shape
    ([[1, 4], [4, 7]], (2, 12))
    """

    title: ClassVar[str] = "TSVQ"
    classifiers: ClassVar[tuple[str, ...]] = ("1-NN", "nearest mean", "linear SVM")
    metric: ClassVar[str] = "chi2"
    requires_fit: ClassVar[bool] = True

    def __init__(
        self,
        branches: int = 10,
        depth: int = 3,
        *,
        descriptor: str = "sift",
        sampling: str = "keypoints",
        max_points: int = 128,
        samples: int = 100_000,
        stride: int = 10,
        random_state: int | np.random.Generator | None = 0,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.branches = branches
        self.depth = depth
        self.descriptor = descriptor
        self.sampling = sampling
        self.max_points = max_points
        self.samples = samples
        self.stride = stride
        self.random_state = random_state
        self.frames = frames
        self.n_jobs = n_jobs

    def fit(self, videos: Sequence[Video], labels: Any = None) -> TreeWords:
        """Learn the tree and its weights. Frames that come from an iterator are used up by it."""
        self._check()
        return self.learn(self.each(self.local, videos))

    def local(self, video: Video) -> Described:
        """Describe one video; the tree has no part in it."""
        describe = self._describer()
        stride = check_integer(self.stride, "stride")
        parts = [describe(frame) for frame in islice(self.read(video), 0, None, stride)]
        return Described(
            np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        )

    def learn(self, described: Sequence[Described]) -> TreeWords:
        """Learn the tree and its weights from videos that `local` has described."""
        branches, depth, samples = self._check()
        seed = seed_of(self.random_state)
        quota = -(-samples // max(1, len(described)))
        drawn = [
            draw([one.descriptors], quota, np.random.default_rng([seed, k]))
            for k, one in enumerate(described)
            if len(one.frame)
        ]
        sample = np.concatenate([np.empty((0, LENGTHS[self.descriptor]), np.float32), *drawn])
        centres, children = grow(sample, branches, depth, seed)
        if len(centres) == 1:
            raise ParameterError(
                f"branches is {branches}, but the {len(described)} videos have fewer distinct descriptors in "
                f"1 of {self.stride} frames: ask for fewer branches, or give more videos or a smaller stride"
            )
        passing = sum(
            frames_through(descend(one.descriptors, centres, children), one.frame, len(centres))
            for one in described
        )
        total = sum(np.unique(one.frame).size for one in described)
        self.centres_, self.children_ = centres, children
        # Every node was learnt from some descriptor, which round-off may yet send to a neighbour.
        self.weights_ = np.log(total / np.maximum(passing, 1))
        return self

    def vector(self, video: Video) -> Array:
        """Turn one video into its weighted counts, (M - 1,), of sum 1."""
        check_is_fitted(self)
        return self.count(self.local(video))

    def count(self, described: Described) -> Array:
        """Count the descriptors of a video at the nodes."""
        way = descend(described.descriptors, self.centres_, self.children_)
        masses = np.bincount(way[way > 0], minlength=len(self.centres_))[1:] * self.weights_
        total = float(masses.sum())
        return np.asarray(masses / total) if total > 0.0 else np.full(masses.size, 1.0 / masses.size)

    def _describer(self) -> Any:
        bags = VisualWords(descriptor=self.descriptor, sampling=self.sampling, max_points=self.max_points)
        return bags.describer()

    def _check(self) -> tuple[int, int, int]:
        """Refuse bad parameters before any video is read."""
        self._describer()
        check_integer(self.stride, "stride")
        branches = check_integer(self.branches, "branches", 2)
        return branches, check_integer(self.depth, "depth"), check_integer(self.samples, "samples", branches)


def grow(sample: Descriptors, branches: int, depth: int, seed: int) -> tuple[Array, IntArray]:
    """Divide descriptors (n, d) by k-means, each part again and so on: the centres and children of all nodes.

    Examples
    --------
    >>> sample = np.array([[0.0], [1.0], [10.0], [11.0]], np.float32)
    >>> centres, children = grow(sample, 2, 2, seed=0)
    >>> np.sort(centres[3:, 0]).round(2)
    array([ 0.,  1., 10., 11.])
    >>> children.tolist()
    [[1, 3], [3, 5], [5, 7], [7, 7], [7, 7], [7, 7], [7, 7]]
    """
    root = sample.mean(axis=0, dtype=np.float64) if len(sample) else np.zeros(sample.shape[1])
    centres, children, parts = [root], [], [(sample, 0)]
    for part, level in parts:  # which grows meanwhile
        first = len(parts)
        if level < depth and len(np.unique(part, axis=0)) >= branches:
            words = learn_words(part, branches, seed)
            nearest = nearness(part, words).argmax(axis=1)
            for word in np.unique(nearest):  # mini-batches may leave a centre to nobody
                centres.append(words[word])
                parts.append((part[nearest == word], level + 1))
        children.append((first, len(parts)))
    return np.stack(centres), np.array(children)


def descend(descriptors: Descriptors, centres: Array, children: IntArray) -> IntArray:
    """Send descriptors (n, d) down a tree: the nodes that each passes, (n, levels), 0 below its leaf.

    Examples
    --------
    >>> centres = np.array([[0.0], [-1.0], [1.0], [0.8], [1.2]])
    >>> descend(np.array([[-3.0], [2.0]]), centres, np.array([[1, 3], [3, 3], [3, 5], [5, 5], [5, 5]]))
    array([[1, 0],
           [2, 4]])
    """
    way = [np.zeros(len(descriptors), np.int64)]
    nodes = [0]
    while nodes:
        here, below = way[-1], np.zeros(len(descriptors), np.int64)
        for node in nodes:
            first, end = children[node]
            if first < end:
                rows = np.flatnonzero(here == node)
                below[rows] = first + nearness(descriptors[rows], centres[first:end]).argmax(axis=1)
        way.append(below)
        nodes = [int(node) for node in np.unique(below) if node]
    return np.stack(way[1:-1], axis=1) if len(way) > 2 else np.zeros((len(descriptors), 0), np.int64)


def frames_through(way: IntArray, frame: IntArray, nodes: int) -> IntArray:
    """Count for each node but the root the frames of a video that have a descriptor passing it.

    Examples
    --------
    >>> frames_through(np.array([[1, 3], [1, 4], [2, 0]]), np.array([0, 0, 1]), 5)
    array([1, 1, 1, 1])
    """
    visits = np.unique(frame[:, None] * nodes + way)
    return np.bincount(visits % nodes, minlength=nodes)[1:]
