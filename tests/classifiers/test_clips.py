"""Clips become streams and systems, and a clip that cannot be used keeps nobody from the others."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

from clips import moving_frames, write_clip
from sysbags import SystemIdentifier, identify
from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags._common.types import PerBag
from sysbags.bags import BagUnion, ColourHistogram, LocalBinaryPatterns, OpticalFlow, VisualWords
from sysbags.classifiers.identifier import ClipSystems, check_classes, describe_clips, read_clips
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
    monkeypatch.setattr("sysbags.bags.streams.describe", lambda *arguments: pytest.fail("computed again"))
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


# --- several bags


UNION = BagUnion(
    [
        ("lbp", LocalBinaryPatterns()),
        ("flow", OpticalFlow(frames={"stride": 2})),
        ("words", WORDS),
    ]
)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_union_gives_tuples(good, bad, n_jobs):
    """As the single bags do; what one bag cannot use is a failure that names the clip and the bag."""
    paths, places = mixed(good, bad)
    union, identifier = clone(UNION), SystemIdentifier((2, 1, 1), ("chi2", "linear", "chi2"))
    clips = describe_clips(paths, union, identifier.system, fit=True, n_jobs=n_jobs)
    assert clips.indices == places
    readable = [path for path in paths if bad.get(path) is not VideoError]
    np.testing.assert_array_equal(union.bags_[2].words_, clone(WORDS).fit(readable).words_)
    for path, streams, systems in zip(good, clips.streams[0], clips.systems[0], strict=True):
        assert isinstance(streams, tuple)
        for bag, stream in zip(union.bags_, streams, strict=True):
            np.testing.assert_array_equal(stream, bag.stream(path))
        for stream, system, order, kernel in zip(
            streams, systems, identifier.order, identifier.kernel, strict=True
        ):
            np.testing.assert_array_equal(system.transition, identify(stream, order, kernel).transition)
    assert {path: type(error) for path, error in clips.failures.items()} == bad
    short = next(path for path in bad if path.name == "short.mkv")
    assert str(clips.failures[short]) == f"the bag flow: {short} has too few frames for a single bag"
    still = next(path for path in bad if path.name == "still.mkv")
    assert str(clips.failures[still]).startswith(f"{still}: the bag lbp: all 10 frames have the same bag")
    for path, error in clips.failures.items():
        assert str(error).count(str(path)) == 1


def test_the_first_frames_of_every_bag_are_checked(good):
    """A clip that is too short for one bag must not keep the others from a codebook."""
    late = BagUnion([("words", WORDS), ("late", ColourHistogram(frames={"start": FRAMES}))])
    clips = describe_clips(good, late, identify_two, fit=True)
    assert clips.paths == []
    assert "leaves no frame" in str(clips.failures[good[0]])
    assert not hasattr(late, "bags_")


def test_records_of_a_union_are_those_of_its_bags(good, tmp_path, monkeypatch):
    cache, union = Cache(tmp_path), BagUnion([LocalBinaryPatterns(), OpticalFlow()])
    first = describe_clips(good, union, identify_two, cache=cache)
    monkeypatch.setattr("sysbags.bags.streams.describe", lambda *arguments: pytest.fail("computed again"))
    monkeypatch.setattr(LocalBinaryPatterns, "masses", lambda *arguments: pytest.fail("computed again"))
    again = describe_clips(good, union, identify_two, cache=cache)
    single = describe_clips(good, LocalBinaryPatterns(), identify_two, cache=cache)
    for streams, cached, lbp in zip(first.streams[0], again.streams[0], single.streams[0], strict=True):
        np.testing.assert_array_equal(streams[0], lbp)
        for a, b in zip(streams, cached, strict=True):
            np.testing.assert_array_equal(a, b)


# --- streams to systems


def random_streams(*lengths):
    return tuple(np.random.default_rng(0).dirichlet(np.ones(6), size=length) for length in lengths)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_tuples_of_streams_become_tuples_of_systems(n_jobs):
    items = [random_streams(20, 9), random_streams(7, 30)]
    options = {"normal_form": "unit-variance", "stability": "clip", "margin": 0.02}
    identifier = SystemIdentifier((3, "auto"), ["linear", "chi2"], **options, n_jobs=n_jobs)
    systems = identifier.fit_transform(items)
    for item, pair in zip(items, systems, strict=True):
        assert isinstance(pair, tuple)
        for stream, system, order, kernel in zip(item, pair, (3, "auto"), ("linear", "chi2"), strict=True):
            expected = identify(stream, order, kernel, **options)
            np.testing.assert_array_equal(system.transition, expected.transition)
            assert (system.kernel, system.normal_form) == (kernel, "unit-variance")
    same = SystemIdentifier(2).system(items[0])
    assert [(system.order, system.kernel) for system in same] == [(2, "chi2")] * 2


def test_a_tuple_of_rows_is_one_stream():
    (stream,) = random_streams(9)
    rows = tuple(map(tuple, stream))
    np.testing.assert_array_equal(identify_two(rows).transition, identify_two(stream).transition)


def test_smaller_orders_where_the_stream_has_no_larger():
    short, long = random_streams(4, 20)
    identifier = SystemIdentifier(np.int64(5), smaller_orders=True)
    first, second = identifier.system((short, long))
    assert (first.order, second.order) == (3, 5)
    np.testing.assert_array_equal(first.transition, identify(short, 3).transition)
    assert identifier.system(short).order == 3
    assert SystemIdentifier("auto", smaller_orders=True).system(long).order == identify(long, "auto").order
    form = SystemIdentifier(5, smaller_orders=True, normal_form="unit-variance").system(short)
    assert (form.order, form.normal_form) == (3, "unit-variance")
    with pytest.raises(OrderError, match=r"^stream 1: bag 1: the stream has one frame"):
        identifier.transform([(short, long), (long, short[:1])])
    named = PerBag((long, short[:1]), ("lbp", "colour"))
    with pytest.raises(OrderError, match=r"^stream 0: the bag colour: the stream has one frame"):
        identifier.transform([named])
    with pytest.raises(OrderError, match=r"^bag 0: order 5 needs at least 6 frames"):
        SystemIdentifier(5).system((short, long))
    with pytest.raises(ParameterError, match="order is 0"):
        SystemIdentifier(0, smaller_orders=True).system(long)


@pytest.mark.parametrize("parameter", [{"order": (2, 3, 4)}, {"kernel": ["chi2"]}])
def test_one_entry_for_each_bag(parameter):
    streams = random_streams(9, 9)
    with pytest.raises(ParameterError, match="must be a single value or have one entry for each bag, here 2"):
        SystemIdentifier(**parameter).system(streams)
    with pytest.raises(ParameterError, match=r"have one entry for each bag, here 1"):
        SystemIdentifier((2, 3)).system(streams[0])
