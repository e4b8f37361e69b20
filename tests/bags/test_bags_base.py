from __future__ import annotations

import tracemalloc
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import sysbags
from clips import moving_frames, write_clip
from sysbags import errors, video
from sysbags.bags import LocalBinaryPatterns
from sysbags.bags.base import BagTransformer, check_videos, pool

WILD = Path(__file__).parents[2].parent / "shared" / "data" / "wild-scenes"


class Levels(BagTransformer):
    """How many pixels have each of four levels of grey; black ones do not count."""

    def __init__(self, *, window=1, step=None, frames=None, n_jobs=None):
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames):
        return (np.bincount(frame[frame > 0] // 64, minlength=4).astype(float) for frame in frames)


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Four clips of each of two speeds, and their labels."""
    folder = tmp_path_factory.mktemp("clips")
    paths, labels = [], []
    for seed in range(8):
        frames = moving_frames(20 if seed % 2 else 40, 32, 40, seed=seed)[:: 1 if seed % 2 else 2]
        paths.append(str(write_clip(folder / f"{seed}.mp4", frames)))
        labels.append(["slow", "fast"][seed % 2])
    return paths, labels


# Pooling


@settings(deadline=None, max_examples=200)
@given(
    masses=hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 4)),
        elements=st.one_of(st.just(0.0), st.floats(1e-3, 1e3)),
    ),
    window=st.integers(1, 14),
    step=st.one_of(st.none(), st.integers(1, 14)),
)
def test_pooling_by_brute_force(masses, window, step):
    count, bins = masses.shape
    starts = range(0, max(count - window, 0) + 1, step or window)
    sums = [masses[start : start + window].sum(axis=0) for start in starts]
    want = [s / s.sum() if s.sum() > 0 else np.full(bins, 1 / bins) for s in sums]
    for source in (masses, iter(masses)):
        pooled = pool(source, window, step)
        assert pooled.dtype == np.float64
        assert pooled.flags.c_contiguous
        np.testing.assert_allclose(pooled, want, rtol=1e-13)
        np.testing.assert_allclose(pooled.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_pooling_takes_whole_numbers_and_leaves_the_masses_alone():
    masses = [np.array([1, 3]), np.array([0, 0])]
    np.testing.assert_array_equal(pool(masses), [[0.25, 0.75], [0.5, 0.5]])
    np.testing.assert_array_equal(masses, [[1, 3], [0, 0]])


def test_pooling_holds_little_beside_the_result():
    frames, bins = 4000, 256
    tracemalloc.start()
    try:
        pooled = pool((np.full(bins, float(k)) for k in range(frames)), 3, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert pooled.shape == (frames - 2, bins)
    assert peak < 1.3 * pooled.nbytes  # a list of rows beside the array would be twice that


def test_without_masses():
    with pytest.raises(errors.OrderError, match=r"^clip\.mp4 has too few frames for a single bag$"):
        pool(iter([]), name="clip.mp4")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_masses_that_are_no_numbers(bad):
    masses = [np.ones(2), np.array([bad, 1.0])]
    with pytest.raises(errors.StreamError, match="ends with frame 1 of the video holds NaN or infinity"):
        pool(masses)


@pytest.mark.parametrize("options", [{"window": 0}, {"window": 1.5}, {"step": 0}, {"step": "2"}])
def test_senseless_windows(options):
    (name,) = options
    with pytest.raises(errors.ParameterError, match=f"^{name} is .* whole number of at least 1$"):
        LocalBinaryPatterns(**options).transform([moving_frames(3)])


# BagTransformer


def test_an_empty_bag_is_uniform():
    clip = np.zeros((3, 4, 4), np.uint8)
    clip[1] = 200
    np.testing.assert_array_equal(Levels().stream(clip), [[0.25] * 4, [0, 0, 0, 1], [0.25] * 4])
    np.testing.assert_array_equal(Levels(window=3).stream(clip), [[0, 0, 0, 1]])


def test_options_for_reading():
    clip = moving_frames(20)
    stream = Levels(frames={"start": 2, "stride": 3, "max_frames": 4}).stream(clip)
    np.testing.assert_array_equal(stream, Levels().stream(clip)[2::3][:4])


@pytest.mark.parametrize("frames", [{"strides": 2}, {"colour": "rgb"}, 5, ["stride"]])
def test_senseless_options_for_reading(frames):
    with pytest.raises(errors.ParameterError, match=r"^frames is .* for reading: start, stop, stride,"):
        Levels(frames=frames).transform([moving_frames(3)])


def test_manners_of_a_transformer():
    bags = LocalBinaryPatterns((8, 16), (1, 2), "uniform", window=3, frames={"stride": 2})
    copy = clone(bags)
    assert copy is not bags
    assert copy.get_params() == bags.get_params()
    assert copy.set_params(points=4, radius=1).get_params()["points"] == 4
    check_is_fitted(bags)
    assert bags.fit([moving_frames(3)]) is bags
    assert repr(LocalBinaryPatterns(method="uniform")) == "LocalBinaryPatterns(method='uniform')"
    videos = [moving_frames(4), moving_frames(5)]
    for first, second in zip(bags.fit_transform(videos), bags.transform(videos), strict=True):
        np.testing.assert_array_equal(first, second)


def test_sources_of_all_kinds(clips, tmp_path):
    path, array = clips[0][0], moving_frames(6)
    folder = tmp_path / "images"
    folder.mkdir()
    for k, frame in enumerate(array):
        (folder / f"{k}.pgm").write_bytes(b"P5\n64 48\n255\n" + frame.tobytes())
    colour = moving_frames(5, colour=True)
    mixed = [path, Path(path), array, iter(array), list(array), folder, colour, array / 255.0]
    streams = LocalBinaryPatterns(n_jobs=2).transform(mixed)
    assert [len(stream) for stream in streams] == [20, 20, 6, 6, 6, 6, 5, 6]
    np.testing.assert_array_equal(streams[0], streams[1])
    for same in (3, 4, 5, 7):
        np.testing.assert_array_equal(streams[2], streams[same])
    for stream in streams:
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_the_same_for_any_number_of_threads(clips):
    first, *others = (LocalBinaryPatterns(n_jobs=n, window=2).transform(clips[0]) for n in (None, 2, 3, -1))
    for other in others:
        for expected, stream in zip(first, other, strict=True):
            np.testing.assert_array_equal(expected, stream)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_bad_file_is_named(clips, tmp_path, n_jobs):
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"")
    videos = [*clips[0][:3], str(bad), clips[0][3]]
    with pytest.raises(errors.VideoError, match=r"^video 3: .*bad\.mp4 is empty"):
        LocalBinaryPatterns(n_jobs=n_jobs).transform(videos)
    with pytest.raises(errors.VideoError, match=r"^[^:]*bad\.mp4 is empty"):
        LocalBinaryPatterns(n_jobs=n_jobs).stream(bad)


@pytest.mark.parametrize(
    ("videos", "what"),
    [
        ("clip.mp4", "the single path 'clip.mp4'"),
        (Path("clip.mp4"), "the single path 'clip.mp4'"),
        (moving_frames(3), r"an array of shape \(3, 48, 64\)"),
        (5, "of type int"),
        (None, "of type NoneType"),
    ],
)
def test_a_single_video_where_several_belong(videos, what):
    sentence = f"^videos is {what}, but it must be a sequence of videos: put a single one in a list$"
    with pytest.raises(errors.ParameterError, match=sentence):
        LocalBinaryPatterns().transform(videos)


def test_several_videos():
    assert check_videos(np.array(["a", "b"])) == ["a", "b"]
    assert len(check_videos(np.zeros((2, 3, 4, 5)))) == 2
    assert check_videos(iter("ab")) == ["a", "b"]
    assert LocalBinaryPatterns().transform([]) == []


# Anywhere scikit-learn goes


def pipeline(**options):
    steps = [
        ("bags", LocalBinaryPatterns(method="uniform")),
        ("systems", sysbags.SystemIdentifier(order=3)),
        ("classify", sysbags.NearestMean()),
    ]
    return Pipeline(steps, **options)


def test_a_pipeline_on_paths(clips):
    paths, labels = clips
    fitted = pipeline().fit(paths, labels)
    streams = [LocalBinaryPatterns(method="uniform").stream(path) for path in paths]
    systems = [sysbags.identify(stream, 3) for stream in streams]
    by_hand = sysbags.NearestMean().fit(systems, labels)
    np.testing.assert_array_equal(fitted.predict(paths), by_hand.predict(systems))
    np.testing.assert_array_equal(fitted[-1].distances(systems), by_hand.distances(systems))
    assert fitted.score(paths, labels) > 0.5


def test_a_grid_search_on_paths(clips):
    grid = {
        "systems__order": [1, 3],
        "classify__lambda_a": [0.1, 1.0],
        "classify__lambda_mu": [0.0, 10.0],
    }
    search = GridSearchCV(pipeline(), grid, cv=2, error_score="raise").fit(*clips)
    assert len(search.cv_results_["params"]) == 8
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert set(search.predict(clips[0])) <= {"slow", "fast"}


def test_a_cache_keeps_the_streams(clips, tmp_path, monkeypatch):
    paths, labels = clips
    cached = pipeline(memory=joblib.Memory(tmp_path, verbose=0))
    first = cached.set_params(classify__lambda_a=0.5).fit(paths, labels).predict(paths[:1])
    again = clone(cached)

    def refuse(*_, **__):
        raise AssertionError("decoded again")

    with monkeypatch.context() as patch:
        patch.setattr(video, "frames", refuse)
        again.fit(paths, labels)  # the same bags and videos
        again.set_params(classify__lambda_a=2.0, systems__order=2).fit(paths, labels)
        with pytest.raises(AssertionError, match="decoded again"):
            again.set_params(bags__radius=2).fit(paths, labels)
    assert clone(cached).fit(paths, labels).predict(paths[:1]) == first


@pytest.mark.skipif(not WILD.is_dir(), reason="the real clips are not here")
def test_real_clips():
    paths = [sorted(folder.glob("*.mp4"))[0] for folder in sorted(WILD.iterdir()) if folder.is_dir()][:10]
    streams = LocalBinaryPatterns(n_jobs=2).fit_transform(paths)
    assert len(streams) == 10
    for stream in streams:
        assert stream.shape[1] == 256
        assert 50 <= len(stream) <= 250
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert (np.abs(np.diff(stream, axis=0)).sum(axis=1) > 0).mean() > 0.3  # something moves
