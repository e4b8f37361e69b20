from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sysbags.bags import VisualWords
from sysbags.comparators import TreeWords
from sysbags.comparators.tree_words import Described, descend, frames_through, grow
from sysbags.errors import ParameterError, VideoError

SMALL = {"branches": 6, "depth": 2, "stride": 2}


def blobs(seed=0, count=6, sigma=2.0):
    """Frames of smooth noise that changes: full of keypoints."""
    noise = np.random.default_rng(seed).standard_normal((count, 64, 72))
    noise = gaussian_filter(noise, [1.0, sigma, sigma])
    return (255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)


@pytest.fixture(scope="module")
def videos():
    return [blobs(0), blobs(1), blobs(2, sigma=1.0), blobs(3, sigma=1.0)]


@pytest.fixture(scope="module")
def fitted(videos):
    return TreeWords(**SMALL).fit(videos)


def path_of(descriptor, centers, children):
    """One descriptor's nodes, one comparison at a time."""
    node, path = 0, []
    while children[node][0] < children[node][1]:
        node = min(range(*children[node]), key=lambda child: ((descriptor - centers[child]) ** 2).sum())
        path.append(node)
    return path


def paths_of(descriptors, centers, children):
    return [path_of(descriptor, centers, children) for descriptor in descriptors]


def passed(paths):
    return [[int(node) for node in row if node] for row in paths]


def test_the_way_down_is_the_nearest_child_at_each_node():
    rng = np.random.default_rng(0)
    sample = rng.standard_normal((400, 5)).astype(np.float32)
    centers, children = grow(sample, 3, 3, random_state=0)
    descriptors = rng.standard_normal((200, 5)).astype(np.float32)
    assert passed(descend(descriptors, centers, children)) == paths_of(descriptors, centers, children)
    assert len(centers) == 1 + 3 + 9 + 27


def test_leaves_may_end_at_different_levels():
    sample = np.concatenate([np.full((9, 2), 50.0), np.random.default_rng(0).standard_normal((60, 2))])
    centers, children = grow(sample.astype(np.float32), 3, 3, random_state=0)
    paths = descend(sample, centers, children)
    assert passed(paths) == paths_of(sample, centers, children)
    lengths = {len(path) for path in passed(paths)}
    assert lengths == {1, 3}  # nine equal descriptors cannot be divided


def test_the_tree_is_whole():
    """Each node but the root is the child of one, and is learnt from those of its parent that are nearest."""
    sample = np.random.default_rng(1).standard_normal((500, 4)).astype(np.float32)
    centers, children = grow(sample, 4, 2, random_state=3)
    assert sorted(k for first, end in children for k in range(first, end)) == list(range(1, len(centers)))
    paths = descend(sample, centers, children)
    assert set(paths.ravel()) == set(range(1, len(centers)))
    np.testing.assert_allclose(centers[0], sample.mean(axis=0), atol=1e-6)
    errors = [((sample - centers[nodes]) ** 2).sum(axis=1).mean() for nodes in (np.zeros(500, int), *paths.T)]
    assert errors[0] > 1.5 * errors[1] > 1.5**2 * errors[2]  # each level quantises finer


def test_clusters_within_clusters_become_branches():
    rng = np.random.default_rng(0)
    large = 100.0 * np.eye(3)
    small = (large[:, None] + 10.0 * np.eye(3)).reshape(9, 3)
    sample = np.repeat(small, 20, axis=0) + 0.1 * rng.standard_normal((180, 3))
    centers, children = grow(sample.astype(np.float32), 3, 2, random_state=0)
    assert len(centers) == 13
    paths = descend(small, centers, children)
    assert len(set(paths[:, 1])) == 9
    assert [len(set(paths[k : k + 3, 0])) for k in (0, 3, 6)] == [1, 1, 1]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 12))
def test_frames_are_counted_once_a_node(seed, nodes):
    rng = np.random.default_rng(seed)
    frame = np.sort(rng.integers(0, 4, rng.integers(0, 20)))
    paths = rng.integers(0, nodes, (len(frame), 3))
    expected = [len({f for f, row in zip(frame, paths, strict=True) if k in row}) for k in range(1, nodes)]
    assert frames_through(paths, frame, nodes).tolist() == expected


def test_weights_and_vectors_are_those_of_the_definition(videos, fitted):
    describe = VisualWords(descriptor="sift", max_points=128).describer()
    documents, clips = [], []
    for video in videos:
        descriptors = [describe(frame) for frame in video[::2]]
        visits = [paths_of(part, fitted.centers_, fitted.children_) for part in descriptors]
        documents += [{node for path in frame for node in path} for frame in visits if frame]
        clips.append([node for frame in visits for path in frame for node in path])
    nodes = range(1, len(fitted.centers_))
    weights = [np.log(len(documents) / sum(k in document for document in documents)) for k in nodes]
    np.testing.assert_allclose(fitted.weights_, weights, rtol=1e-12, atol=1e-12)
    assert fitted.weights_.max() > 0.0
    for vector, clip in zip(fitted.transform(videos), clips, strict=True):
        masses = np.array([clip.count(k) for k in nodes]) * weights
        np.testing.assert_allclose(vector, masses / masses.sum(), rtol=1e-12)


def test_a_node_that_every_frame_passes_says_nothing():
    descriptors = np.outer([0.0, 1.0, 9.0, 0.1], np.ones(128)).astype(np.float32)
    described = [Described(descriptors, np.array([0, 0, 0, 1]))] * 2
    words = TreeWords(2, 1).learn(described)
    leaf = descend(descriptors[[0, 2]], words.centers_, words.children_)[:, 0]
    np.testing.assert_allclose(words.weights_[leaf - 1], [0.0, np.log(2.0)])
    np.testing.assert_array_equal(words.count(described[0])[leaf - 1], [0.0, 1.0])
    only = Described(descriptors[:2], np.zeros(2, np.int64))
    np.testing.assert_array_equal(words.count(only), [0.5, 0.5])


def test_frames_without_keypoints_are_no_documents(videos):
    still = np.full((6, 64, 72), 77, np.uint8)
    with_still, without_still = TreeWords(**SMALL).fit([*videos, still]), TreeWords(**SMALL).fit([*videos])
    assert with_still.weights_.shape == with_still.transform([still])[0].shape
    np.testing.assert_array_equal(
        with_still.transform([still])[0], np.full(with_still.weights_.size, 1 / with_still.weights_.size)
    )
    assert with_still.weights_.max() <= np.log(12) + 1e-12  # 3 frames of each of 4 videos
    assert without_still.weights_.max() <= np.log(12) + 1e-12


def test_vectors_have_sum_1_and_chi2_is_near_l1(videos, fitted):
    vectors = fitted.transform(videos)
    np.testing.assert_allclose(vectors.sum(axis=1), 1.0)
    assert vectors.min() >= 0.0
    l1 = np.abs(vectors[:, None] - vectors).sum(axis=2)
    chi2 = ((vectors[:, None] - vectors) ** 2 / np.maximum(vectors[:, None] + vectors, 1e-300)).sum(
        axis=2
    ) / 2
    assert (l1**2 / 4 <= chi2 + 1e-12).all()
    assert (chi2 <= l1 / 2 + 1e-12).all()


def test_threads_and_companions_change_nothing(videos, fitted):
    other = TreeWords(**SMALL, n_jobs=3).fit(videos)
    np.testing.assert_array_equal(other.centers_, fitted.centers_)
    np.testing.assert_array_equal(other.weights_, fitted.weights_)
    np.testing.assert_array_equal(other.transform(videos), fitted.transform(videos))


def test_a_video_that_is_tested_changes_neither_the_tree_nor_the_others(videos):
    words = TreeWords(**SMALL).fit(videos[:3])
    tree = words.centers_.copy(), words.weights_.copy()
    vectors = words.transform(videos)
    np.testing.assert_array_equal(words.vector(videos[3]), vectors[3])
    np.testing.assert_array_equal(words.transform([blobs(9), videos[0]])[1], vectors[0])
    np.testing.assert_array_equal(words.centers_, tree[0])
    np.testing.assert_array_equal(words.weights_, tree[1])


def test_what_is_described_once_serves_several_trees(videos, fitted):
    described = [fitted.local(video) for video in videos]
    words = TreeWords(**SMALL).learn(described)
    np.testing.assert_array_equal(words.count(described[1]), fitted.vector(videos[1]))


def test_the_sample_is_bounded_and_seeded(videos):
    first, same, other = (
        TreeWords(**SMALL, samples=90, random_state=s).fit(videos).centers_ for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert np.abs(first[1:4] - other[1:4]).max() > 1.0


def test_what_is_not_fitted_says_so_and_a_clone_has_learnt_nothing(fitted):
    with pytest.raises(NotFittedError):
        TreeWords().transform([blobs()])
    with pytest.raises(NotFittedError):
        clone(fitted).vector(blobs())
    assert (fitted.title, fitted.metric, fitted.requires_fit) == ("TSVQ", "chi2", True)


def test_too_few_descriptors_get_a_sentence():
    with pytest.raises(ParameterError, match=r"^branches is 10, but the 2 videos have fewer distinct"):
        TreeWords().fit([np.full((3, 40, 40), 9, np.uint8)] * 2)
    with pytest.raises(ParameterError, match=r"^branches is 10, but the 0 videos have fewer distinct"):
        TreeWords().fit([])


def test_a_bad_video_is_named(tmp_path):
    with pytest.raises(VideoError, match=r"^video 1: .*missing\.mp4 does not exist"):
        TreeWords(**SMALL).fit([blobs(), tmp_path / "missing.mp4"])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"branches": 1}, "branches is 1, but it must be a whole number of at least 2"),
        ({"depth": 0}, "depth is 0, but it must be a whole number of at least 1"),
        ({"samples": 5}, "samples is 5, but it must be a whole number of at least 6"),
        ({"stride": 0}, "stride is 0, but it must be a whole number"),
        ({"random_state": "x"}, "random_state is 'x', but it must be"),
        ({"n_jobs": 0}, "n_jobs is 0, but it must be"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        TreeWords(**{**SMALL, **parameters}).fit([blobs()])
    with pytest.raises(ParameterError, match="put a single one in a list"):
        TreeWords().fit(Path("clip.mp4"))
