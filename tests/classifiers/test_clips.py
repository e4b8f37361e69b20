"""Clips become streams and systems, and a clip that cannot be used keeps nobody from the others."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from clips import moving_frames, write_clip
from sysbags import SystemIdentifier, identify
from sysbags._common.cache import Cache
from sysbags._common.stages import Stages
from sysbags.bags import LocalBinaryPatterns, VisualWords
from sysbags.classifiers.clips import ClipSystems, check_classes, describe_clips, read_clips
from sysbags.errors import OrderError, ParameterError, StreamError, VideoError

FRAMES, HEIGHT, WIDTH = 10, 48, 64
WORDS = VisualWords(5, sampling="grid", n_jobs=None)
identify_two = SystemIdentifier(order=2).system


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    root = tmp_path_factory.mktemp("good")
    return [write_clip(root / f"{k}.mkv", moving_frames(FRAMES, HEIGHT, WIDTH, seed=k)) for k in range(3)]


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """Clips that cannot be read at all, and clips that no system can be made of."""
    root = tmp_path_factory.mktemp("bad")
    broken = root / "broken.mp4"
    broken.write_bytes(b"no video")
    return {
        broken: VideoError,
        root / "missing.mp4": VideoError,
        write_clip(root / "still.mkv", np.full((FRAMES, HEIGHT, WIDTH), 128, np.uint8)): OrderError,
        write_clip(root / "short.mkv", moving_frames(2, HEIGHT, WIDTH)): OrderError,
    }


def mixed(good, bad):
    """Bad clips before, between and after the good ones, and where the good ones are."""
    broken, missing, still, short = bad
    return [broken, good[0], missing, good[1], still, good[2], short], [1, 3, 5]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_bad_clips_become_failures_that_name_them(good, bad, n_jobs):
    paths, places = mixed(good, bad)
    bags = LocalBinaryPatterns()
    clips = describe_clips(paths, bags, identify_two, n_jobs=n_jobs)
    assert (clips.paths, clips.indices) == (good, places)
    [streams], [systems] = clips.streams, clips.systems
    for path, stream, system in zip(good, streams, systems, strict=True):
        np.testing.assert_array_equal(stream, bags.stream(path))
        np.testing.assert_array_equal(system.transition, identify(stream, 2).transition)
    assert {path: type(error) for path, error in clips.failures.items()} == bad
    for path, error in clips.failures.items():
        assert str(error).count(str(path)) == 1
    with pytest.raises(VideoError, match=r"broken\.mp4"):
        clips.raise_first_error()


def test_without_failures_nothing_is_raised(good):
    clips = describe_clips(good, LocalBinaryPatterns(), identify_two)
    assert clips.failures == {}
    clips.raise_first_error()


def test_codebooks_are_fitted_to_the_clips_that_can_be_read(good, bad):
    """A still clip has a part in the codebook, one without frames has none; with `fit` alone."""
    paths, places = mixed(good, bad)
    bags = clone(WORDS)
    stages = Stages()
    clips = describe_clips(paths, bags, identify_two, fit=True, n_jobs=2, stages=stages)
    readable = [path for path in paths if bad.get(path) is not VideoError]
    expected = clone(WORDS).fit(readable)
    np.testing.assert_array_equal(bags.words_, expected.words_)
    assert bags.n_jobs is None
    assert clips.indices == places
    for path, stream in zip(good, clips.streams[0], strict=True):
        np.testing.assert_array_equal(stream, expected.stream(path))
    assert {path: type(error) for path, error in clips.failures.items()} == bad
    assert list(stages.seconds) == ["first frames", "codebook", "frames and bags", "systems"]
    again = describe_clips(paths, bags, identify_two)  # fitted now, and not to be fitted again
    np.testing.assert_array_equal(bags.words_, expected.words_)
    for first, second in zip(clips.streams[0], again.streams[0], strict=True):
        np.testing.assert_array_equal(first, second)


def test_bags_that_learn_nothing_are_not_fitted(good, monkeypatch):
    monkeypatch.setattr(LocalBinaryPatterns, "fit", lambda *arguments: pytest.fail("fitted"))
    stages = Stages()
    describe_clips(good, LocalBinaryPatterns(), identify_two, fit=True, stages=stages)
    assert list(stages.seconds) == ["frames and bags", "systems"]


@pytest.mark.parametrize("bags", [LocalBinaryPatterns(), WORDS])
def test_all_clips_are_bad(bad, bags):
    unreadable = [path for path, kind in bad.items() if kind is VideoError]
    clips = describe_clips(unreadable, clone(bags), identify_two, fit=True)
    assert (clips.paths, clips.indices) == ([], [])
    assert all(not version for version in [*clips.streams, *clips.systems])
    assert list(clips.failures) == unreadable
    with pytest.raises(VideoError, match=r"^none of the clips can be used: .*broken\.mp4"):
        check_classes(unreadable, ["a", "b"], clips)


def test_no_clips():
    clips = describe_clips([], LocalBinaryPatterns(), identify_two)
    assert (clips.paths, clips.indices, clips.failures) == ([], [], {})


def test_streams_are_found_again(good, tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    first = describe_clips(good, LocalBinaryPatterns(), identify_two, cache=cache)
    monkeypatch.setattr(LocalBinaryPatterns, "stream", lambda *arguments: pytest.fail("computed again"))
    again = describe_clips(good, LocalBinaryPatterns(), identify_two, cache=cache)
    for stream, cached in zip(first.streams[0], again.streams[0], strict=True):
        np.testing.assert_array_equal(stream, cached)


def test_a_wrong_parameter_is_not_the_fault_of_a_clip(good):
    with pytest.raises(ParameterError, match="order is 0"):
        describe_clips(good, LocalBinaryPatterns(), partial(identify, order=0))
    with pytest.raises(ParameterError, match="frames is"):
        describe_clips(good, LocalBinaryPatterns(frames={"speed": 2}), identify_two)


def test_a_clip_must_be_good_with_every_codebook(good, bad):
    """Several versions of each stream; whatever is wrong with one of them is wrong with the clip."""
    broken = next(iter(bad))
    paths = [good[0], broken, good[1], good[2]]
    streams = [LocalBinaryPatterns().stream(path) for path in good]
    asked = []

    def describe(indices):
        asked.append(indices)
        first = [streams[0], streams[1], streams[2]]
        second = [streams[0][::-1], StreamError("no words"), streams[2][::-1]]
        return [first, second]

    clips = read_clips(paths, WORDS, describe, identify_two, fit=True, stages=Stages())
    assert asked == [[0, 2, 3]]
    assert (clips.paths, clips.indices) == ([good[0], good[2]], [0, 3])
    assert len(clips.streams) == len(clips.systems) == 2
    for version, step in zip(clips.systems, (1, -1), strict=True):
        for system, stream in zip(version, (streams[0], streams[2]), strict=True):
            np.testing.assert_array_equal(system.transition, identify(stream[::step], 2).transition)
    for version, step in zip(clips.streams, (1, -1), strict=True):
        np.testing.assert_array_equal(version[1], streams[2][::step])
    assert list(clips.failures) == [broken, good[1]]
    assert str(clips.failures[good[1]]) == f"{good[1]}: no words"


def test_a_class_without_a_clip(good, bad):
    paths, _ = mixed(good, bad)
    clips = describe_clips(paths, LocalBinaryPatterns(), identify_two)
    labels = ["sea", "sea", "fire", "fire", "sea", "sea", "fire"]
    assert check_classes(paths, labels, clips) == ["sea", "fire", "sea"]
    labels[4] = "rain"
    with pytest.raises(OrderError) as caught:
        check_classes(paths, labels, clips)
    still = paths[4]
    assert str(caught.value).startswith(
        f"no clip of the class rain can be used, but there must be one: {still}: "
    )


def test_classes_of_nothing():
    assert check_classes([], [], ClipSystems()) == []
