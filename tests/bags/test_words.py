from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from clips import moving_frames, write_clip
from sysbags.bags import VisualWords
from sysbags.bags.words import draw, grid_points, learn_words, second_word_bandwidth, surf_at, word_masses
from sysbags.errors import ParameterError, VideoError

WILD = Path(__file__).parents[2].parent / "shared" / "data" / "wild-scenes"
KINDS = list(product(["surf", "sift"], ["keypoints", "grid"]))


def blobs(count=6, height=96, width=120, seed=0):
    """Frames of smooth noise that changes: full of keypoints."""
    noise = gaussian_filter(
        np.random.default_rng(seed).standard_normal((count, height, width)), [1.0, 2.0, 2.0]
    )
    return (255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    frames = [blobs(), blobs(seed=1), moving_frames(7, 90, 110)]
    return [write_clip(folder / f"{k}.mp4", video) for k, video in enumerate(frames)]


@pytest.fixture(scope="module")
def fitted(paths):
    options = {"words": 12, "fit_stride": 2}
    return {kind: VisualWords(descriptor=kind[0], sampling=kind[1], **options).fit(paths) for kind in KINDS}


def distances(descriptors, words):
    """Squared distances, one by one."""
    return np.array([[((x - w) ** 2).sum() for w in words] for x in descriptors])


@pytest.mark.parametrize("dimension", [1, 3, 64])
def test_hard_masses_count_the_nearest_words(dimension):
    rng = np.random.default_rng(dimension)
    descriptors, words = rng.standard_normal((40, dimension)), rng.standard_normal((7, dimension))
    nearest = distances(descriptors, words).argmin(axis=1)
    np.testing.assert_array_equal(word_masses(descriptors, words), [(nearest == k).sum() for k in range(7)])


@pytest.mark.parametrize("bandwidth", [0.05, 0.7, 30.0])
def test_soft_masses_share_each_descriptor_by_a_gaussian(bandwidth):
    rng = np.random.default_rng(0)
    descriptors, words = rng.standard_normal((40, 3)), rng.standard_normal((7, 3))
    squares = distances(descriptors, words)
    weights = np.exp(-(squares - squares.min(axis=1, keepdims=True)) / (2 * bandwidth**2))
    expected = sum(row / row.sum() for row in weights)
    masses = word_masses(descriptors, words, bandwidth)
    np.testing.assert_allclose(masses, expected, rtol=1e-10)
    assert masses.sum() == pytest.approx(40.0)


def test_a_narrow_bandwidth_is_the_hard_assignment_and_a_wide_one_is_even():
    rng = np.random.default_rng(0)
    descriptors, words = rng.standard_normal((30, 5)), rng.standard_normal((4, 5))
    hard = word_masses(descriptors, words)
    np.testing.assert_allclose(word_masses(descriptors, words, 1e-4), hard, atol=1e-12)
    np.testing.assert_allclose(word_masses(descriptors, words, 1e6), np.full(4, 7.5), rtol=1e-9)


@pytest.mark.parametrize("bandwidth", [None, 1.0])
def test_no_descriptor_is_no_mass(bandwidth):
    np.testing.assert_array_equal(word_masses(np.empty((0, 64)), np.ones((3, 64)), bandwidth), np.zeros(3))


def test_the_second_word_of_the_median_descriptor_weighs_1_over_e():
    rng = np.random.default_rng(0)
    sample, words = rng.standard_normal((301, 8)).astype(np.float32), rng.standard_normal((20, 8))
    bandwidth = second_word_bandwidth(sample, words)
    squares = np.sort(distances(sample, words), axis=1)
    ratios = np.exp((squares[:, 0] - squares[:, 1]) / (2 * bandwidth**2))
    assert np.median(ratios) == pytest.approx(np.exp(-1.0))
    assert second_word_bandwidth(sample, words[:1]) == 1.0
    assert second_word_bandwidth(sample, np.zeros((2, 8))) == 1.0


def test_the_codebook_finds_clusters_that_are_there():
    rng = np.random.default_rng(0)
    centres = 20.0 * rng.standard_normal((15, 64))
    sample = np.repeat(centres, 60, axis=0) + rng.standard_normal((900, 64))
    words = learn_words(sample.astype(np.float32), 15, seed=0)
    squares = distances(centres, words)
    assert sorted(squares.argmin(axis=1)) == list(range(15))
    # A word is the mean of its 60 descriptors: off by 64 / 60 in the square; those of mini-batches by more.
    assert squares.min(axis=1).max() < 10.0
    squared_errors = distances(sample[::7], words).min(axis=1)
    assert squared_errors.mean() < 1.2 * 64


def test_a_draw_is_a_sample_without_repetition_and_fair():
    parts = np.split(np.arange(200.0, dtype=np.float32)[:, None], [3, 3, 50, 51, 120])
    counts = np.zeros(200)
    for seed in range(400):
        rows = draw(iter(parts), 20, np.random.default_rng(seed))[:, 0]
        assert rows.shape == (20,)
        assert (np.diff(rows) > 0).all()
        counts[rows.astype(int)] += 1
    # 400 draws of 20 of 200: 40 each, deviation 6.
    assert counts.min() > 10
    assert counts.max() < 70
    np.testing.assert_array_equal(draw(iter(parts), 200, np.random.default_rng(0))[:, 0], np.arange(200))
    np.testing.assert_array_equal(draw(iter(parts), 900, np.random.default_rng(0))[:, 0], np.arange(200))


def test_the_grid_covers_the_frame_and_surf_describes_each_of_its_points():
    frame = blobs(1, 50, 30)[0]
    points = grid_points(frame)
    assert {tuple(point) for point in points} == set(product(range(4, 50, 8), range(4, 30, 8)))
    assert grid_points(frame[:1, :1]).shape == (0, 2)
    descriptors = surf_at(frame, points)
    assert descriptors.shape == (len(points), 64)
    np.testing.assert_allclose((descriptors**2).sum(axis=1), 1.0, rtol=1e-6)


def test_surf_on_the_grid_is_mahotas_own_inside_the_frame():
    from mahotas.features import surf

    frame = blobs(1, 120, 140)[0]
    points = grid_points(frame)
    inner = ((points >= 40) & (points < np.array(frame.shape) - 40)).all(axis=1)
    rows = surf.dense(frame, 8, 1.6, include_interest_point=True)
    by_point = {
        (y, x): descriptor for y, x, descriptor in zip(rows[:, 0], rows[:, 1], rows[:, 6:], strict=True)
    }
    descriptors = surf_at(frame, points)[inner]
    assert len(descriptors) > 20
    expected = np.array([by_point[tuple(point)] for point in points[inner]])
    # sums of integral images end in other digits
    np.testing.assert_allclose(descriptors, expected, atol=1e-9)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_files_give_streams(kind, assignment, fitted, paths):
    bags = fitted[kind]
    assert bags.words_.shape == (12, 64 if kind[0] == "surf" else 128)
    bags.set_params(assignment=assignment)
    for stream, count in zip(bags.transform(paths), (6, 6, 7), strict=True):
        assert stream.shape == (count, 12)
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)
        assert np.ptp(stream) > 0.01
        if assignment == "soft":
            assert stream.min() > 0.0


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_a_seed_gives_the_same_bits_for_any_number_of_threads(kind, fitted, paths):
    bags = fitted[kind].set_params(assignment="soft")
    again = clone(bags).set_params(n_jobs=2).fit(paths)
    np.testing.assert_array_equal(bags.words_, again.words_)
    assert bags.bandwidth_ == again.bandwidth_
    for first, second, path in zip(bags.transform(paths), again.transform(paths), paths, strict=True):
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, bags.stream(path))


def test_other_seeds_give_other_words(paths):
    first, second = (
        VisualWords(5, "sift", samples=50, random_state=seed).fit(paths).words_ for seed in (0, 1)
    )
    assert np.abs(first - second).max() > 1.0


def test_a_sample_takes_the_same_number_of_descriptors_from_each_video(paths, monkeypatch):
    taken = []
    monkeypatch.setattr(
        "sysbags.bags.words.learn_words", lambda sample, count, seed: taken.append(sample) or sample[:count]
    )
    VisualWords(4, "sift", sampling="grid", samples=30).fit(paths)
    assert taken[0].shape == (30, 128)
    assert taken[0].dtype == np.float32


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_frames_too_small_for_any_descriptor_give_uniform_bags(kind, fitted):
    bags = fitted[kind].set_params(assignment="hard")
    for shape in [(1, 1), (2, 3), (3, 40)]:
        video = np.random.default_rng(0).integers(0, 256, (2, *shape), dtype=np.uint8)
        np.testing.assert_array_equal(bags.stream(video), np.full((2, 12), 1 / 12))
    video = np.random.default_rng(0).integers(0, 256, (2, 8, 8), dtype=np.uint8)
    np.testing.assert_allclose(bags.stream(video).sum(axis=1), 1.0)


@pytest.mark.parametrize("descriptor", ["surf", "sift"])
def test_a_frame_without_keypoints_has_a_uniform_bag_among_others(descriptor, fitted):
    bags = fitted[descriptor, "keypoints"].set_params(assignment="hard")
    video = blobs()
    video[[1, 4]] = 77
    stream = bags.stream(video)
    np.testing.assert_array_equal(stream[[1, 4]], np.full((2, 12), 1 / 12))
    np.testing.assert_array_equal(stream[[0, 2, 3, 5]], bags.stream(video[[0, 2, 3, 5]]))
    pooled = clone(bags).set_params(window=2)
    pooled.words_ = bags.words_
    np.testing.assert_array_equal(pooled.stream(video)[0], stream[0])


def test_masses_are_numbers_of_descriptors(fitted):
    bags = fitted["sift", "grid"].set_params(assignment="hard")
    masses = np.array(list(bags.masses(iter(blobs()))))
    np.testing.assert_array_equal(masses.sum(axis=1), np.full(6, 12 * 15))
    np.testing.assert_array_equal(masses, masses.round())


@pytest.mark.parametrize("descriptor", ["surf", "sift"])
def test_max_points_limits_the_keypoints(descriptor):
    counts = []
    for options in ({}, {"max_points": 5}):
        bags = VisualWords(1, descriptor, **options)
        bags.words_ = np.zeros((1, 64 if descriptor == "surf" else 128))
        counts.append(max(row.sum() for row in bags.masses(iter(blobs()))))
    assert counts[0] > 10
    assert 1 <= counts[1] < 10  # OpenCV keeps all directions of a point that has several


def test_words_can_be_set_as_for_a_model_from_a_file(fitted):
    bags = fitted["sift", "keypoints"].set_params(assignment="soft")
    other = VisualWords(**bags.get_params())
    other.words_, other.bandwidth_ = bags.words_, bags.bandwidth_
    np.testing.assert_array_equal(other.stream(blobs()), bags.stream(blobs()))
    other.set_params(descriptor="surf")
    with pytest.raises(ParameterError, match=r"^words_ has shape \(12, 128\), but it must be \(K, 64\)"):
        other.stream(blobs())


def test_what_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        VisualWords().stream(blobs())


def test_a_clone_has_the_parameters_and_nothing_learnt(fitted):
    bags = fitted["surf", "grid"]
    copy = clone(bags)
    assert copy.get_params() == bags.get_params()
    assert not hasattr(copy, "words_")


def test_too_many_words_get_a_sentence_with_the_number_there_is():
    video = np.zeros((1, 24, 24), dtype=np.uint8)
    video[:, :12] = 200
    with pytest.raises(
        ParameterError, match=r"^words is 500, but the 1 videos have only [23] distinct descr"
    ):
        VisualWords(sampling="grid").fit([video])
    with pytest.raises(ParameterError, match=r"^words is 500, but the 2 videos have only 0 distinct descr"):
        VisualWords().fit([video, video])
    with pytest.raises(ParameterError, match=r"only 0 distinct"):
        VisualWords().fit([])


def test_a_bad_video_is_named(tmp_path):
    with pytest.raises(VideoError, match=r"^video 1: .*missing\.mp4 does not exist"):
        VisualWords(2, "sift").fit([blobs(), tmp_path / "missing.mp4"])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"words": 0}, "words is 0, but it must be a whole number of at least 1"),
        ({"descriptor": "orb"}, "descriptor is 'orb', but it must be one of 'surf', 'sift'"),
        ({"sampling": "all"}, "sampling is 'all', but it must be one of 'keypoints', 'grid'"),
        ({"assignment": "firm"}, "assignment is 'firm', but it must be one of 'hard', 'soft'"),
        ({"max_points": 0}, "max_points is 0, but it must be a whole number"),
        ({"samples": 3}, "samples is 3, but it must be a whole number of at least 5"),
        ({"fit_stride": 0}, "fit_stride is 0, but it must be a whole number"),
        ({"random_state": "x"}, "random_state is 'x', but it must be"),
        ({"n_jobs": 0}, "n_jobs is 0, but it must be"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        VisualWords(**{"words": 5, "sampling": "grid", **parameters}).fit_transform([blobs(2)])


def test_one_video_is_no_list_of_videos():
    with pytest.raises(ParameterError, match="put a single one in a list"):
        VisualWords().fit("clip.mp4")


@pytest.mark.skipif(not WILD.is_dir(), reason="needs the clips of wild-scenes beside the repository")
def test_real_clips_give_streams():
    clips = [sorted((WILD / name).glob("*.mp4"))[0] for name in ("waterfall", "traffic")]
    for descriptor, assignment in [("surf", "hard"), ("sift", "soft")]:
        options = {"fit_stride": 1, "frames": {"stride": 20, "size": 120}}
        bags = VisualWords(20, descriptor, assignment=assignment, **options)
        for stream in bags.fit_transform(clips):
            assert stream.shape[0] >= 3
            assert stream.shape[1] == 20
            assert stream.min() >= 0.0
            np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)
            assert np.ptp(stream) > 0.01
