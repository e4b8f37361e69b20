"""Paths of streams: Nystrom with a pseudo-inverse, exact kernels, singular values, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags import StreamEmbedding
from sysbags.datasets import make_streams
from sysbags.errors import (
    DistanceWarning,
    IncompatibleSystemsError,
    ParameterError,
    SysbagsError,
)
from sysbags.kernels import embedding as module
from sysbags.kernels import kernel_matrix

STREAMS, _ = make_streams(classes=2, per_class=3, frames=20, bins=8)
FRAMES = np.concatenate(STREAMS)
# Landmarks are added until this share of the squared norm is left, so that a product of two features of
# length 1 is off by at most the share times the number of frames.
SPANNED = 1e-9


def gaussian(first, second):
    return np.exp(-((first[:, None] - second) ** 2).sum(axis=2))


def fitted(*args, streams=STREAMS, **options):
    """Fit without the warning that much is lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DistanceWarning)
        return StreamEmbedding(*args, **options).fit(streams)


@pytest.mark.parametrize("kernel", ["chi2", "intersection", gaussian])
def test_products_are_those_of_nystrom(kernel):
    embedding = fitted(kernel, size=7)
    paths = embedding.transform(STREAMS[:2])
    assert [path.shape for path in paths] == [(20, 7), (20, 7)]
    first, second = (kernel_matrix(stream, embedding.landmarks_, kernel) for stream in STREAMS[:2])
    inverse = np.linalg.pinv(kernel_matrix(embedding.landmarks_, kernel=kernel), rcond=1e-12)
    np.testing.assert_allclose(paths[0] @ paths[1].T, first @ inverse @ second.T, rtol=0, atol=1e-10)


@given(st.integers(0, 1000), st.lists(st.integers(1, 12), min_size=1, max_size=5), st.booleans())
@settings(max_examples=25, deadline=None)
def test_exact_where_the_landmarks_span_the_frames(seed, lengths, own):
    rng = np.random.default_rng(seed)
    streams = [rng.dirichlet(np.ones(6), size=length) for length in lengths]
    kernel = gaussian if own else "chi2"
    embedding = StreamEmbedding(kernel, size=100, random_state=seed).fit(streams)
    path = np.concatenate(embedding.transform(streams))
    expected = kernel_matrix(np.concatenate(streams), kernel=kernel)
    # Besides, the round-off of a solution, 1e-16, over the least pivot, the root of what is negligible.
    assert np.abs(path @ path.T - expected).max() < SPANNED * len(path) + 1e-10
    assert embedding.lost_ <= SPANNED


@pytest.mark.parametrize(("kernel", "power"), [("linear", 1.0), ("bhattacharyya", 0.5)])
def test_explicit_kernels_lose_nothing(kernel, power):
    embedding = StreamEmbedding(kernel, size=1).fit(STREAMS)
    assert (embedding.landmarks_, embedding.factor_, embedding.components_) == (None, None, None)
    assert embedding.lost_ == 0.0
    np.testing.assert_allclose(np.concatenate(embedding.transform(STREAMS)), FRAMES**power, rtol=1e-15)


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya"])
def test_components_are_the_best_approximation(kernel):
    """By singular values: no other projection to so many dimensions holds more of the frames."""
    full, some = (fitted(kernel, size=30, components=c) for c in (None, 3))
    features, path = (np.concatenate(one.transform(STREAMS)) for one in (full, some))
    singular = np.linalg.svd(features, compute_uv=False)
    assert path.shape == (len(FRAMES), 3)
    np.testing.assert_allclose(np.linalg.norm(path, axis=0), singular[:3], rtol=1e-9)  # the largest first
    assert np.square(features).sum() - np.square(path).sum() == pytest.approx(np.square(singular[3:]).sum())
    np.testing.assert_allclose(some.components_.T @ some.components_, np.eye(3), rtol=0, atol=1e-12)
    # Systems have all coordinates.
    np.testing.assert_array_equal(some.features(STREAMS[0]), full.features(STREAMS[0]))


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya", gaussian])
@pytest.mark.parametrize("components", [None, 2])
def test_what_is_lost_is_its_definition(kernel, components):
    embedding = fitted(kernel, size=12, components=components)  # all 120 frames are drawn
    held = np.square(np.concatenate(embedding.transform(STREAMS))).sum()
    total = sum(kernel_matrix(frame[None], kernel=kernel).item() for frame in FRAMES)
    # The frames that are drawn are rounded to 24 bits, an error of up to 6e-8.
    assert embedding.lost_ == pytest.approx(1.0 - held / total, abs=1e-7)


def test_a_warning_if_much_is_lost():
    with pytest.warns(DistanceWarning, match=r"loses \d\d % of the squared norm .*: more landmarks or comp"):
        assert StreamEmbedding("intersection", size=1).fit(STREAMS).lost_ > 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0.0 < StreamEmbedding(size=60).fit(STREAMS).lost_ < 0.1


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya"])
def test_blocks_of_frames_give_the_same_path(kernel, monkeypatch):
    embedding = fitted(kernel, size=9, components=4)
    expected = embedding.transform(STREAMS)
    monkeypatch.setattr(module, "BLOCK", 27)  # three frames
    for path, one in zip(embedding.transform(STREAMS), expected, strict=True):
        np.testing.assert_allclose(path, one, rtol=0, atol=1e-13)  # sums in another order


def test_the_dtype_is_that_of_the_path():
    double, single = (fitted(size=9, dtype=dtype) for dtype in (np.float64, "float32"))
    for path, expected in zip(single.transform(STREAMS), double.transform(STREAMS), strict=True):
        assert (path.dtype, expected.dtype) == (np.float32, np.float64)
        np.testing.assert_array_equal(path, expected.astype(np.float32))


def test_streams_of_different_lengths():
    streams = [STREAMS[0][:1], STREAMS[1], STREAMS[2][:7]]
    embedding = fitted(size=9, streams=streams)
    for path, stream in zip(embedding.transform(streams), streams, strict=True):
        np.testing.assert_allclose(path, embedding.features(stream), rtol=0, atol=1e-13)


def test_the_same_for_a_seed_and_for_any_number_of_threads():
    one, two, other = (fitted(size=9, random_state=s, n_jobs=j) for s, j in ((3, 1), (3, 2), (4, 1)))
    for name in ("landmarks_", "factor_", "lost_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(one.landmarks_, other.landmarks_)
    for path, same in zip(one.transform(STREAMS), two.transform(STREAMS), strict=True):
        np.testing.assert_array_equal(path, same)


def test_the_order_of_frames_within_a_path_is_that_of_time():
    embedding = fitted(size=9)
    [path] = embedding.transform([STREAMS[0][::-1]])
    np.testing.assert_allclose(path[::-1], embedding.transform(STREAMS)[0], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "noise", "share"), [("chi2", 1.0, 0.99), ("intersection", 1.0, 0.99), ("chi2", 0.1, 0.90)]
)
def test_pivoting_loses_less_than_random_landmarks(kernel, noise, share):
    """In the mean of ten seeds, by more where frames have less noise and lie closer to a small space."""
    streams, _ = make_streams(classes=4, per_class=4, frames=30, bins=16, noise=noise, random_state=1)
    frames = np.concatenate(streams)
    gram = kernel_matrix(frames, kernel=kernel)
    lost = np.empty((10, 2))
    for seed in range(10):
        lost[seed, 0] = fitted(kernel, size=30, random_state=seed, streams=streams).lost_
        some = np.random.default_rng(seed).permutation(len(frames))[:30]
        held = gram[:, some] @ np.linalg.pinv(gram[np.ix_(some, some)], rcond=1e-12) @ gram[some]
        lost[seed, 1] = 1.0 - np.trace(held) / np.trace(gram)
    assert lost[:, 0].mean() < share * lost[:, 1].mean()


@pytest.mark.parametrize(
    ("kernel", "options"),
    [("chi2", {"components": 3, "dtype": np.float32}), ("bhattacharyya", {"components": 2}), ("linear", {})],
)
def test_save_and_load(tmp_path, kernel, options):
    embedding = fitted(kernel, size=9, **options)
    sysbags.save(tmp_path / "embedding", embedding)
    loaded = sysbags.load(tmp_path / "embedding")
    assert loaded.get_params() == embedding.get_params()
    assert loaded.lost_ == embedding.lost_
    for path, expected in zip(loaded.transform(STREAMS), embedding.transform(STREAMS), strict=True):
        np.testing.assert_array_equal(path, expected)
        assert path.dtype == expected.dtype
    with pytest.raises(ParameterError, match="kernel"):
        sysbags.save(tmp_path / "own", fitted(gaussian, size=3))


BROKEN = STREAMS[0].copy()
BROKEN[3, 2] = np.nan


@pytest.mark.parametrize(
    ("streams", "sentence"),
    [
        *(
            (bad, "streams must be a sequence of at least one")
            for bad in ("clip.mp4", [], None, iter(STREAMS))
        ),
        ([STREAMS[0], np.empty((0, 8))], r"streams\[1\] is empty \(shape \(0, 8\)\)"),
        ([STREAMS[0], BROKEN], r"streams\[1\] holds nan at row 3, column 2"),
        ([-STREAMS[0]], r"streams\[0\] holds the negative entry"),
        ([STREAMS[0], STREAMS[1][:, :4] / STREAMS[1][:, :4].sum(axis=1, keepdims=True)], "numbers of bins"),
        ([STREAMS[0][0]], r"streams\[0\] has 1 dimensions"),
    ],
)
def test_streams_that_are_not_valid(streams, sentence):
    for call in (StreamEmbedding().fit, fitted(size=9).transform):
        with pytest.raises(SysbagsError, match=sentence) as caught:
            call(streams)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya"])
def test_other_bins_than_those_of_training(kernel):
    other, _ = make_streams(classes=1, per_class=1, frames=5, bins=5)
    with pytest.raises(IncompatibleSystemsError, match=r"streams\[0\] has 5 and not 8"):
        fitted(kernel, size=9, components=2).transform(other)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": 0}, "size is 0"),
        ({"components": 0}, "components is 0"),
        ({"kernel": "gauss"}, "kernel is 'gauss', but"),
        ({"dtype": int}, "dtype is"),
    ],
)
def test_parameters_that_are_not_valid(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        StreamEmbedding(**options).fit(STREAMS).transform(STREAMS)
