"""Tree-structured vector quantisation: local descriptors counted by the nodes of a vocabulary tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, seed_of
from sysbags.bags.words import LENGTHS, Descriptors, VisualWords, draw, learn_words, nearness
from sysbags.comparators.base import Comparator
from sysbags.errors import ParameterError
from sysbags.video import Video

MAX_POINTS = 128  # keypoints per frame


class Described(NamedTuple):
    """The local descriptors of a video, (n, d), and the index of the frame of each, (n,)."""

    descriptors: Descriptors
    frame: IntArray


class TreeWords(Comparator):
    """Turn a video into weighted counts of its local descriptors at the nodes of a vocabulary tree.

    `fit` clusters the descriptors of the training videos by k-means into `branches` parts, and each part
    again, down to `depth` levels. A descriptor goes down the tree, at each node to the nearest child, and is
    counted at every node of its path. The weight of node i is ``w_i = ln(N / N_i)``, where `N_i` of the N
    training frames have a descriptor that passes it: the entropy weights of Nister and Stewenius ("Scalable
    recognition with a vocabulary tree", CVPR 2006), whose documents are images. Counts times weights of all
    nodes but the root are divided by their sum. The paper uses the L1 distance between such vectors; of the
    metrics here, chi2 is nearest to it: ``L1^2 / 4 <= sum (a - b)^2 / (2 (a + b)) <= L1 / 2``.

    The descriptors are those of `sysbags.bags.VisualWords`: SIFT at about 128 keypoints per frame, the
    strongest. `fit` has the descriptors of all videos in memory. A video without any, or whose nodes all have
    the weight 0, gets the uniform vector.

    Parameters
    ----------
    branches : int, default=10
        Children of a node; a node with fewer distinct descriptors is a leaf.
    depth : int, default=3
        Levels below the root. The tree has up to ``branches + .. + branches^depth`` nodes below the root.
    samples : int, default=100000
        Maximal number of descriptors that the tree is learnt from, drawn in equal parts from the videos.
    stride : int, default=10
        Every `stride`-th frame is used, because neighbouring frames are similar.
    random_state : int, Generator or None, default=0
        For the sample and the starts of k-means.
    frames : mapping, optional
        Options for `sysbags.video.frames`.
    n_jobs : int, optional
        Number of threads, over videos.

    Attributes
    ----------
    centers_ : (M, d) array
        Cluster centers of the nodes, level by level; the first is the root.
    children_ : (M, 2) array of int
        The index of the first child of each node, and the index after its last child; equal for a leaf.
    weights_ : (M - 1,) array
        Weights of all nodes but the root.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> videos = np.random.default_rng(0).integers(0, 256, (2, 6, 64, 64), dtype=np.uint8)
    >>> words = sysbags.comparators.TreeWords(branches=3, depth=2, stride=1).fit(videos)
    >>> words.children_[:2].tolist(), words.transform(videos).shape
    ([[1, 4], [4, 7]], (2, 12))
    """

    title: ClassVar[str] = "TSVQ"
    classifiers: ClassVar[tuple[str, ...]] = ("1-NN", "nearest-mean", "linear SVM")
    metric: ClassVar[str] = "chi2"
    requires_fit: ClassVar[bool] = True

    def __init__(
        self,
        branches: int = 10,
        depth: int = 3,
        *,
        samples: int = 100_000,
        stride: int = 10,
        random_state: int | np.random.Generator | None = 0,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.branches = branches
        self.depth = depth
        self.samples = samples
        self.stride = stride
        self.random_state = random_state
        self.frames = frames
        self.n_jobs = n_jobs

    def fit(self, videos: Sequence[Video], y: Any = None) -> TreeWords:
        """Learn the tree and its weights. An iterator of frames is consumed."""
        self._check()
        return self.learn(self.each(self.local, videos))

    def local(self, video: Video) -> Described:
        """Return the descriptors of one video; this does not use the tree."""
        describe = VisualWords(descriptor="sift", sampling="keypoints", max_points=MAX_POINTS).describer()
        stride = check_integer(self.stride, "stride")
        parts = [describe(frame) for frame in islice(self.read(video), 0, None, stride)]
        return Described(
            np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        )

    def learn(self, described: Sequence[Described]) -> TreeWords:
        """Learn the tree and its weights from the descriptors of videos, see `local`."""
        branches, depth, samples = self._check()
        seed = seed_of(self.random_state)
        quota = -(-samples // max(1, len(described)))
        drawn = [
            draw([video.descriptors], quota, np.random.default_rng([seed, k]))
            for k, video in enumerate(described)
            if len(video.frame)
        ]
        sample = np.concatenate([np.empty((0, LENGTHS["sift"]), np.float32), *drawn])
        centers, children = grow(sample, branches, depth, seed)
        if len(centers) == 1:
            raise ParameterError(
                f"branches is {branches}, but the {len(described)} videos have fewer distinct descriptors in "
                f"1 of {self.stride} frames: ask for fewer branches, or give more videos or a smaller stride"
            )
        passing = sum(
            frames_through(descend(video.descriptors, centers, children), video.frame, len(centers))
            for video in described
        )
        total = sum(np.unique(video.frame).size for video in described)
        self.centers_, self.children_ = centers, children
        # Every node was learnt from a descriptor, but round-off may send that to a neighbour: then 0 pass.
        self.weights_ = np.log(total / np.maximum(passing, 1))
        return self

    def vector(self, video: Video) -> Array:
        """Turn one video into its weighted counts, (M - 1,), which sum to 1."""
        check_is_fitted(self)
        return self.count(self.local(video))

    def count(self, described: Described) -> Array:
        """Count the descriptors of a video at the nodes."""
        paths = descend(described.descriptors, self.centers_, self.children_)
        masses = np.bincount(paths[paths > 0], minlength=len(self.centers_))[1:] * self.weights_
        total = float(masses.sum())
        return np.asarray(masses / total) if total > 0.0 else np.full(masses.size, 1.0 / masses.size)

    def _check(self) -> tuple[int, int, int]:
        """Refuse bad parameters before any video is read."""
        check_integer(self.stride, "stride")
        branches = check_integer(self.branches, "branches", 2)
        return branches, check_integer(self.depth, "depth"), check_integer(self.samples, "samples", branches)


def grow(sample: Descriptors, branches: int, depth: int, random_state: int) -> tuple[Array, IntArray]:
    """Cluster descriptors (n, d) by k-means, level by level; return the centers and children of all nodes.

    >>> sample = np.array([[0.0], [1.0], [10.0], [11.0]], np.float32)
    >>> grow(sample, 2, 2, random_state=0)[1].tolist()
    [[1, 3], [3, 5], [5, 7], [7, 7], [7, 7], [7, 7], [7, 7]]
    """
    root = sample.mean(axis=0, dtype=np.float64) if len(sample) else np.zeros(sample.shape[1])
    centers, children, parts = [root], [], [(sample, 0)]
    for part, level in parts:  # the loop appends the parts of the next level
        first = len(parts)
        if level < depth and len(np.unique(part, axis=0)) >= branches:
            words = learn_words(part, branches, random_state)
            nearest = nearness(part, words).argmax(axis=1)
            for word in np.unique(nearest):  # a cluster of mini-batch k-means may be empty
                centers.append(words[word])
                parts.append((part[nearest == word], level + 1))
        children.append((first, len(parts)))
    return np.stack(centers), np.array(children)


def descend(descriptors: Descriptors, centers: Array, children: IntArray) -> IntArray:
    """Return the path of each descriptor (n, d) down a tree: its nodes, (n, levels), 0 below the leaf.

    >>> centers = np.array([[0.0], [-1.0], [1.0], [0.8], [1.2]])
    >>> children = np.array([[1, 3], [3, 3], [3, 5], [5, 5], [5, 5]])
    >>> descend(np.array([[-3.0], [2.0]]), centers, children).tolist()
    [[1, 0], [2, 4]]
    """
    paths = [np.zeros(len(descriptors), np.int64)]
    nodes = [0]
    while nodes:
        level, below = paths[-1], np.zeros(len(descriptors), np.int64)
        for node in nodes:
            first, end = children[node]
            if first < end:
                rows = np.flatnonzero(level == node)
                below[rows] = first + nearness(descriptors[rows], centers[first:end]).argmax(axis=1)
        paths.append(below)
        nodes = [int(node) for node in np.unique(below) if node]
    return np.stack(paths[1:-1], axis=1) if len(paths) > 2 else np.zeros((len(descriptors), 0), np.int64)


def frames_through(paths: IntArray, frame: IntArray, nodes: int) -> IntArray:
    """Count for each node but the root the frames of a video with a descriptor that passes it."""
    visits = np.unique(frame[:, None] * nodes + paths)
    return np.bincount(visits % nodes, minlength=nodes)[1:]
