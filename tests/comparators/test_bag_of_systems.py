from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from helpers import orthogonal
from sysbags import martin_distance
from sysbags.comparators import BagOfSystems
from sysbags.comparators.bag_of_systems import (
    LocalSystems,
    choose_words,
    embed,
    local_systems,
    martin,
    moving_cubes,
)
from sysbags.errors import ParameterError, VideoError
from sysbags.systems.system import System

SMALL = {"words": 4, "order": 2, "side": 8, "length": 10}


def smooth(seed=0, time=1.0, count=24):
    """Smooth noise that changes quickly or slowly: (count, 26, 36) uint8."""
    noise = gaussian_filter(np.random.default_rng(seed).standard_normal((count, 26, 36)), [time, 1.0, 1.0])
    return (200 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)


@pytest.fixture(scope="module")
def videos():
    return [smooth(seed, time) for seed, time in enumerate([0.5, 0.5, 3.0, 3.0])]


@pytest.fixture(scope="module")
def fitted(videos):
    return BagOfSystems(**SMALL).fit(videos)


def random_systems(count, order, pixels, rng):
    A = np.stack([rng.uniform(0.3, 0.9) * orthogonal(order, rng) for _ in range(count)])
    C = np.stack([np.linalg.qr(rng.standard_normal((pixels, order)))[0].T for _ in range(count)])
    return LocalSystems(A, C)


def by_definition(A1, C1, A2, C2, steps=400):
    """Angles between the column spaces of [C; CA; CA^2; ..], as long as need be: 0.9^400 is 1e-18."""
    bases = []
    for A, C in ((A1, C1), (A2, C2)):
        blocks = [C.T]
        for _ in range(steps):
            blocks.append(blocks[-1] @ A)
        bases.append(np.linalg.qr(np.concatenate(blocks))[0])
    cosines = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    return -2.0 * np.log(cosines).sum()


@pytest.mark.parametrize("order", [1, 2, 4])
def test_distances_are_martins_by_definition(order):
    rng = np.random.default_rng(order)
    systems, others = (random_systems(k, order, 12, rng) for k in (4, 3))
    between = martin(systems, others)
    for i in range(4):
        for j in range(3):
            A, C = (array[i] for array in systems)
            B, D = (array[j] for array in others)
            assert between[i, j] == pytest.approx(by_definition(A, C, B, D), rel=1e-8)
    within = martin(systems)
    np.testing.assert_allclose(within, within.T)
    np.testing.assert_array_equal(np.diag(within), np.zeros(4))
    np.testing.assert_allclose(within, martin(systems, systems), atol=1e-7)  # log of 1 less some round-off


def test_distances_are_those_of_systems():
    systems = random_systems(3, 2, 9, np.random.default_rng(0))
    converted = [System(A, C, np.eye(2), np.zeros(2), "linear") for A, C in zip(*systems, strict=True)]
    expected = [[martin_distance(first, second) for second in converted] for first in converted]
    np.testing.assert_allclose(martin(systems), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", [1, 3])
def test_a_cube_is_identified_by_singular_vectors_and_least_squares(order):
    cubes = np.random.default_rng(0).integers(0, 256, (5, 12, 16)).astype(np.uint8)
    systems = local_systems(cubes, order)
    assert systems.transitions.shape == (5, order, order)
    for cube, A, C in zip(cubes, *systems, strict=True):
        Y = cube - cube.mean(axis=0)
        U, s, Vt = np.linalg.svd(Y, full_matrices=False)
        signs = np.sign(np.sum(Vt[:order] * C, axis=1))
        np.testing.assert_allclose(C, signs[:, None] * Vt[:order], atol=1e-9)
        X = U[:, :order] * s[:order] * signs
        expected = np.linalg.lstsq(X[:-1], X[1:], rcond=None)[0].T
        assert np.abs(np.linalg.eigvals(expected)).max() < 0.999
        np.testing.assert_allclose(A, expected, atol=1e-9)


def test_a_swing_is_recovered_and_kept_stable():
    """Whole periods: no mean, so states turn by exactly one angle; radius 1 is scaled to 0.999."""
    time, phases = np.arange(20)[:, None], np.random.default_rng(0).uniform(0.0, 6.0, 9)
    swing = np.cos(2 * np.pi * 3 / 20 * time + phases)
    growing = swing * 1.1**time
    systems = local_systems([swing, growing], 2)
    values = np.linalg.eigvals(systems.transitions)
    np.testing.assert_allclose(np.abs(np.angle(values[0])), 2 * np.pi * 3 / 20, rtol=1e-9)
    np.testing.assert_allclose(np.abs(values).max(axis=1), 0.999, rtol=1e-9)
    assert np.isfinite(martin(systems)).all()


def test_cubes_of_too_low_a_rank_are_no_systems():
    rng = np.random.default_rng(0)
    still, flat = np.full((10, 9), 3.0), np.outer(rng.standard_normal(10), np.ones(9))
    systems = local_systems([still, rng.standard_normal((10, 9)), flat, rng.standard_normal((10, 9))], 2)
    assert len(systems.transitions) == len(systems.observers) == 2
    np.testing.assert_allclose(
        systems.observers @ systems.observers.transpose(0, 2, 1), [np.eye(2)] * 2, atol=1e-12
    )
    assert len(local_systems([still], 2).transitions) == 0


@pytest.mark.parametrize("count", [1, 5, 100])
def test_the_cubes_that_move_most_are_kept(count):
    rng = np.random.default_rng(0)
    video = (rng.integers(0, 256, (11, 13, 17)) * rng.uniform(size=(1, 13, 17))).astype(np.uint8)
    cubes = [video[t : t + 5, y : y + 4, x : x + 4] for t in (0, 5) for y in (0, 4, 8) for x in (0, 4, 8, 12)]
    cubes.sort(key=lambda cube: -cube.var(axis=0).mean())
    np.testing.assert_array_equal(moving_cubes(iter(video), 4, 5, count), cubes[:count])


def test_a_video_shorter_than_a_cube_is_one_layer_of_cubes():
    video = np.random.default_rng(0).integers(0, 256, (4, 8, 8)).astype(np.uint8)
    np.testing.assert_array_equal(moving_cubes(iter(video), 8, 25, 9), video[None])


def test_points_have_the_distances_that_were_given():
    points = np.random.default_rng(0).standard_normal((12, 3))
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    for dimensions in (3, 8, 50):
        placed = embed(squared, dimensions)
        np.testing.assert_allclose(((placed[:, None] - placed) ** 2).sum(axis=2), squared, atol=1e-7)
    flat = embed(squared, 2)
    variances = np.linalg.svd(points - points.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_allclose((flat**2).sum(axis=0), variances[:2])  # the leading principal components
    far = squared.copy()
    far[0, 1] = far[1, 0] = np.inf
    capped = np.where(np.isfinite(far), far, squared[far < np.inf].max())
    np.testing.assert_array_equal(embed(far, 3), embed(capped, 3))


def test_words_are_the_members_nearest_to_the_centres_of_clusters():
    rng = np.random.default_rng(0)
    points = np.repeat(20.0 * np.eye(4), 15, axis=0) + rng.standard_normal((60, 4))
    expected = set()
    for k in range(0, 60, 15):
        cluster = points[k : k + 15]
        expected.add(k + int(((cluster - cluster.mean(axis=0)) ** 2).sum(axis=1).argmin()))
    assert set(choose_words(points, 4, seed=0)) == expected


def test_a_histogram_counts_the_nearest_words(videos, fitted):
    words = [System(A, C, np.eye(2), np.zeros(2), "linear") for A, C in zip(*fitted.words_, strict=True)]
    counts, cubes = np.zeros(4), 0
    video = videos[0]
    for t, y, x in np.ndindex(2, 3, 4):  # 24 frames of 26 x 36: what fills no cube is left out
        cube = video[10 * t : 10 * t + 10, 8 * y : 8 * y + 8, 8 * x : 8 * x + 8].reshape(10, 64)
        A, C = (array[0] for array in local_systems([cube], 2))
        local = System(A, C, np.eye(2), np.zeros(2), "linear")
        counts[np.argmin([martin_distance(local, word) for word in words])] += 1
        cubes += 1
    np.testing.assert_allclose(fitted.vector(video), counts / cubes)


def test_slow_and_quick_videos_have_different_words(fitted):
    """Videos that no word came from; the same textures but for their time."""
    vectors = fitted.transform([smooth(seed, time) for seed, time in enumerate([0.5, 0.5, 3.0, 3.0], 10)])
    l1 = np.abs(vectors[:, None] - vectors).sum(axis=2)
    assert max(l1[0, 1], l1[2, 3]) < min(l1[0, 2], l1[0, 3], l1[1, 2], l1[1, 3])


def test_brightness_and_contrast_do_not_matter(videos, fitted):
    darker = (videos[0] // 2).astype(np.uint8)
    np.testing.assert_array_equal(fitted.vector(darker), fitted.vector((2 * darker + 50).astype(np.uint8)))


def test_threads_change_nothing(videos, fitted):
    other = BagOfSystems(**SMALL, n_jobs=3).fit(videos)
    np.testing.assert_array_equal(other.words_.transitions, fitted.words_.transitions)
    np.testing.assert_array_equal(other.words_.observers, fitted.words_.observers)
    np.testing.assert_array_equal(other.transform(videos), fitted.transform(videos))


def test_a_video_that_is_tested_changes_neither_the_codebook_nor_the_others(videos):
    bags = BagOfSystems(**SMALL).fit(videos[:3])
    words = bags.words_
    vectors = bags.transform(videos)
    np.testing.assert_array_equal(bags.vector(videos[3]), vectors[3])
    np.testing.assert_array_equal(bags.transform([smooth(9), videos[0]])[1], vectors[0])
    assert bags.words_ is words
    np.testing.assert_allclose(vectors.sum(axis=1), 1.0)


def test_local_systems_serve_several_codebooks(videos, fitted):
    systems = [fitted.local(video) for video in videos]
    bags = BagOfSystems(**SMALL).learn(systems)
    np.testing.assert_array_equal(bags.count(systems[1]), fitted.vector(videos[1]))


def test_the_sample_is_bounded_and_seeded(videos, monkeypatch):
    sizes = []

    def spy(squared, dimensions):
        sizes.append(len(squared))
        return embed(squared, dimensions)

    monkeypatch.setattr("sysbags.comparators.bag_of_systems.embed", spy)
    first, same, other = (
        BagOfSystems(**SMALL, samples=20, random_state=seed).fit(videos).words_.transitions
        for seed in (0, 0, 1)
    )
    assert sizes == [20] * 3
    np.testing.assert_array_equal(first, same)
    assert np.abs(first - other).max() > 1e-3


def test_a_still_video_has_the_uniform_histogram(fitted, videos):
    still = np.full((12, 26, 36), 7, np.uint8)
    np.testing.assert_array_equal(fitted.transform([still])[0], np.full(4, 0.25))
    bags = BagOfSystems(**SMALL).fit([still, *videos])  # and gives no word
    assert bags.words_.transitions.shape == (4, 2, 2)


def test_a_short_video_has_a_histogram(fitted, videos):
    vector = fitted.vector(videos[0][:6])
    assert vector.sum() == pytest.approx(1.0)
    assert np.abs(vector - 0.25).max() > 0.05


def test_what_is_not_fitted_says_so_and_a_clone_has_learnt_nothing(fitted, videos):
    with pytest.raises(NotFittedError):
        BagOfSystems().transform(videos)
    with pytest.raises(NotFittedError):
        clone(fitted).vector(videos[0])
    assert (fitted.title, fitted.metric, fitted.requires_fit) == ("Bag of Systems", "chi2", True)


def test_videos_that_cannot_be_cut_are_named(fitted, videos, tmp_path):
    with pytest.raises(VideoError, match=r"^video 1: the video has 2 frames, but order 2 needs at least 3"):
        fitted.transform([videos[0], videos[1][:2]])
    with pytest.raises(VideoError, match=r"^video 0: the video has frames of less than 8 x 8 pixels"):
        fitted.transform([videos[0][:, :7]])
    with pytest.raises(VideoError, match=r"^video 1: .*missing\.mp4 does not exist"):
        fitted.transform([videos[0], tmp_path / "missing.mp4"])


def test_too_many_words_get_a_sentence_with_the_number_there_is(videos):
    with pytest.raises(ParameterError, match=r"^words is 64, but the 1 videos have only 24 local systems"):
        BagOfSystems(64, 2, side=8, length=10).fit(videos[:1])
    with pytest.raises(ParameterError, match=r"^words is 64, but the 0 videos have only 0 local systems"):
        BagOfSystems().fit([])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"words": 0}, "words is 0, but it must be a whole number of at least 1"),
        ({"order": 0}, "order is 0, but it must be a whole number"),
        ({"side": 0}, "side is 0, but it must be a whole number"),
        ({"length": 2}, "length is 2, but it must be a whole number of at least 3"),
        ({"cubes": 0}, "cubes is 0, but it must be a whole number"),
        ({"dimensions": 0}, "dimensions is 0, but it must be a whole number"),
        ({"samples": 3}, "samples is 3, but it must be a whole number of at least 4"),
        ({"random_state": "x"}, "random_state is 'x', but it must be"),
        ({"n_jobs": 0}, "n_jobs is 0, but it must be"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence, videos):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        BagOfSystems(**{**SMALL, **parameters}).fit(videos)
    with pytest.raises(ParameterError, match="put a single one in a list"):
        BagOfSystems().fit("clip.mp4")
