from __future__ import annotations

import numpy as np
import pytest
from benchmarks.surfaces import DYNAMICS, SURFACES, make_dynamics_clips, make_dynamics_frames
from scipy.stats import binom

from benchmarks import surfaces
from sysbags import alignment_distance, cross_gram, identify, video
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import class_folders
from sysbags.datasets._scenery import TURN
from sysbags.evaluate import leave_one_out
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS
from sysbags.evaluate.vector_predictors import vector_predictor

SMALL = {"frames": 12, "height": 32, "width": 48}
ONE_WAY = [name for name in DYNAMICS if f"{name}-reversed" in DYNAMICS]


def path(name, frames=90, seed=0):
    return surfaces._path(np.random.default_rng(seed), name, frames)


def steps(name, frames=90, seed=0):
    """Steps of a path in turns, the shorter way round."""
    return (np.diff(path(name, frames, seed)) / frames + 0.5) % 1.0 - 0.5


def pictures(film):
    return sorted(frame.tobytes() for frame in film)


def test_classes():
    assert ONE_WAY == ["slow", "fast", "jerky"]
    assert set(DYNAMICS) == {*ONE_WAY, *(f"{name}-reversed" for name in ONE_WAY), "wandering", "swinging"}


@pytest.mark.parametrize("name", DYNAMICS)
@pytest.mark.parametrize("frames", [1, 2, 7, 60, 90])
def test_a_path_shows_each_picture_once(name, frames):
    for seed in range(5):
        assert sorted(path(name, frames, seed)) == list(range(frames))


@pytest.mark.parametrize("name", DYNAMICS)
def test_no_picture_has_its_time(name):
    """The first angle is uniform: over many paths each picture is first about as often as any other."""
    first = np.bincount([path(name, 10, seed)[0] for seed in range(2000)], minlength=10)
    assert np.abs(first - 200).max() < 5 * np.sqrt(180.0)  # five deviations of a binomial number


@pytest.mark.parametrize("name", ONE_WAY)
def test_reversed_is_the_same_backwards(name):
    for seed in range(5):
        assert np.array_equal(path(f"{name}-reversed", seed=seed), path(name, seed=seed)[::-1])


@pytest.mark.parametrize("seed", range(10))
def test_each_class_moves_as_it_should(seed):
    # Ranks make a step longer or shorter by one picture of 90 where a path closes upon itself.
    slack = 1.5 / 90
    assert np.all(np.abs(steps("slow", seed=seed) - 0.05) < 0.006 + slack)
    assert np.all(np.abs(steps("fast", seed=seed) - 0.1325) < 0.0125 + slack)
    jerky = steps("jerky", seed=seed)
    rests = np.isclose(jerky, 1 / 90)
    assert 0.7 < rests.mean() < 0.9
    assert np.all(jerky[~rests] > 0.05)
    swinging = steps("swinging", seed=seed)
    assert np.all(np.abs(swinging) < 0.06)
    assert abs(np.mean(swinging > 0) - 0.5) < 0.1
    assert np.count_nonzero(np.diff(np.sign(swinging))) <= 5  # it turns seldom
    wandering = steps("wandering", seed=seed)
    assert 0.3 < np.mean(wandering > 0) < 0.7
    assert np.count_nonzero(np.diff(np.sign(wandering))) > 20
    assert 0.03 < np.median(np.abs(wandering)) < 0.12


@pytest.mark.parametrize("surface", SURFACES)
def test_nothing_but_the_order_depends_on_the_class(surface):
    films = {
        name: make_dynamics_frames(name, surface, np.random.default_rng(3), **SMALL) for name in DYNAMICS
    }
    shown = pictures(films["slow"])
    assert len(set(shown)) == 12
    for name, film in films.items():
        assert film.shape == (12, 32, 48, 3)
        assert film.dtype == np.uint8
        assert pictures(film) == shown, name
    for name in ONE_WAY:
        assert np.array_equal(films[f"{name}-reversed"], films[name][::-1])


@pytest.mark.parametrize("surface", SURFACES)
def test_seeds(surface):
    first, again, other = (
        make_dynamics_frames("slow", surface, np.random.default_rng(seed), **SMALL) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again)
    assert np.abs(first.astype(int) - other).mean() > 5.0


def test_surfaces_turn_evenly_and_all_the_same_way():
    for surface in SURFACES:
        film = surfaces._pictures(np.random.default_rng(5), surface, 16, 96, 96).mean(axis=3)
        down, across = np.gradient(film[:, 8:-8, 8:-8], axis=(1, 2))
        main = ((across + 1j * down) ** 2).sum(axis=(1, 2))  # twice the main direction, as an angle
        turned = np.angle(main[1:] / main[:-1]) / 2.0
        # Anticlockwise in a picture whose rows count downwards; other parts of the surface come into view.
        np.testing.assert_allclose(turned, TURN / 16, atol=0.15, err_msg=surface)


def test_files_hold_the_same_pictures_in_every_class(tmp_path):
    paths, labels = make_dynamics_clips(tmp_path, 2, 7, **SMALL)
    assert labels == [name for name in DYNAMICS for _ in range(2)]
    assert [path.relative_to(tmp_path).as_posix() for path in paths[:2]] == ["slow/00.mp4", "slow/01.mp4"]
    for number, surface in enumerate(["brushed", "stripes"]):
        read = {name: np.stack(list(video.frames(tmp_path / name / f"0{number}.mp4"))) for name in DYNAMICS}
        shown = pictures(read["slow"])
        assert all(pictures(film) == shown for film in read.values())
        rng = np.random.default_rng([7, number])
        drawn = make_dynamics_frames("slow", surface, rng, **SMALL).astype(np.float64)
        loss = read["slow"] - drawn @ [0.299, 0.587, 0.114]
        assert 10 * np.log10(255**2 / np.mean(loss**2)) > 30.0


def test_the_index_names_what_shows_the_same_pictures(tmp_path):
    paths, labels = make_dynamics_clips(tmp_path, 3, 0, frames=4, height=32, width=32)
    clips = class_folders(tmp_path)
    assert sorted(zip(clips.paths, clips.labels, strict=True)) == sorted(zip(paths, labels, strict=True))
    assert clips.sources == [file.stem for file in clips.paths]


@pytest.fixture(scope="module")
def streams():
    """Streams of 8 classes and 5 surfaces, each clip with pictures of its own."""
    bag = LocalBinaryPatterns()
    return {
        (name, surface): bag.stream(
            make_dynamics_frames(name, surface, np.random.default_rng([code, number]), 60, 80, 112)
        )
        for code, name in enumerate(DYNAMICS)
        for number, surface in enumerate(SURFACES)
    }


def test_a_loop_is_seen_as_a_rotation(streams):
    """Two steady turns of the histogram for one of the surface: the transition's angle says how fast."""
    for surface in SURFACES:
        for name, low, high in (("slow", 0.044, 0.056), ("fast", 0.117, 0.15)):
            eigenvalues = np.linalg.eigvals(identify(streams[name, surface], order=2).transition)
            turns = np.abs(np.angle(eigenvalues)) / (2.0 * np.pi)
            # Turns are whole, so the speed is one of few; PCA's plane is not quite the loop's.
            assert np.all((turns > 2.0 * low - 0.03) & (turns < 2.0 * high + 0.03)), (surface, name, turns)


@pytest.mark.parametrize("surface", SURFACES)
def test_reversal_is_seen_by_the_transition_alone(streams, surface):
    def backwards(name, lambda_a):
        stream = streams[name, surface]
        forward, backward = identify(stream, order=2), identify(stream[::-1], order=2)
        return alignment_distance(forward, backward, lambda_a=lambda_a)

    # The same pictures have the same observer, but for round-off of the kernel's eigenvectors.
    assert backwards("slow", 0.0) < 1e-9
    # What has a sense of time differs by much more than what has none.
    assert min(backwards(name, 1.0) for name in ONE_WAY) > 8 * backwards("swinging", 1.0)


def test_systems_tell_the_classes_apart_and_averages_do_not(streams):
    codes = np.array([DYNAMICS.index(name) for name, _ in streams])
    surfaces = np.array([list(SURFACES).index(surface) for _, surface in streams])
    gram = cross_gram([identify(stream, order=2) for stream in streams.values()])
    for classifier in DISTANCE_CLASSIFIERS:
        # Not even the surface has been seen before.
        result = leave_one_out(gram, codes, groups=surfaces, classifier=classifier, lambda_a=4.0)
        assert result.accuracy > 0.9, classifier
    averages = np.array([stream.mean(axis=0) for stream in streams.values()])
    for classifier in ("1-NN", "nearest-mean", "logistic regression"):
        predictor = vector_predictor(averages, codes, surfaces, classifier, "chi2")
        right = int((predictor.predict() == codes).sum())
        low, high = binom.interval(0.99, len(codes), 1 / len(DYNAMICS))
        assert low <= right <= high, classifier
