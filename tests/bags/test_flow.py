from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.base import clone

from clips import moving_frames, write_clip
from sysbags.bags import OpticalFlow
from sysbags.bags.flow import METHODS, optical_flow, oriented_histogram
from sysbags.errors import ParameterError, VideoError

WILD = Path(__file__).parents[2].parent / "shared" / "data" / "wild-scenes"


def texture(height, width, seed=0):
    """Smooth noise over the whole range of grey."""
    noise = gaussian_filter(np.random.default_rng(seed).standard_normal((height, width)), 2.0)
    return (255 * (noise - noise.min()) / np.ptp(noise)).astype(np.uint8)


def moving(right, down, count=4, height=72, width=96):
    """A window on a larger texture, whose content moves by so many pixels a frame."""
    margin = 5 * count
    picture = texture(height + 2 * margin, width + 2 * margin)
    return np.stack(
        [picture[margin - k * down :, margin - k * right :][:height, :width] for k in range(count)]
    )


def twin(flow, bins, threshold):
    """The definition, pixel by pixel."""
    masses = [0.0] * bins
    for right, down in flow.reshape(-1, 2).tolist():
        length = math.hypot(right, down)
        if length < threshold:
            continue
        theta = math.atan2(-down, abs(right))
        inside = [b for b in range(bins) if -math.pi / 2 + math.pi * b / bins <= theta]
        masses[inside[-1]] += length
    return np.array(masses)


@pytest.mark.parametrize("bins", [1, 2, 7, 30])
@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_the_histogram_is_its_definition(bins, threshold):
    flow = np.random.default_rng(bins).standard_normal((13, 17, 2)).astype(np.float32)
    expected = twin(flow, bins, threshold)
    np.testing.assert_allclose(oriented_histogram(flow, bins, threshold), expected, rtol=1e-12, atol=1e-12)


def test_bins_go_from_straight_down_to_straight_up_and_hold_their_lower_ends():
    for bins in (2, 4, 30):
        assert oriented_histogram([[0.0, 1.0]], bins).argmax() == 0
        assert oriented_histogram([[1.0, 0.0]], bins).argmax() == bins // 2
        assert oriented_histogram([[-1.0, 0.0]], bins).argmax() == bins // 2
        assert oriented_histogram([[0.0, -1.0]], bins).argmax() == bins - 1
        middles = -np.pi / 2 + np.pi * (np.arange(bins) + 0.5) / bins
        for b, angle in enumerate(middles):
            row = oriented_histogram([[2.0 * np.cos(angle), -2.0 * np.sin(angle)]], bins)
            np.testing.assert_allclose(row, 2.0 * np.eye(bins)[b], atol=1e-15)


def test_the_histogram_is_exactly_the_same_for_left_and_right():
    flow = np.random.default_rng(0).standard_normal((20, 30, 2))
    np.testing.assert_array_equal(oriented_histogram(flow, 9), oriented_histogram(flow * [-1.0, 1.0], 9))


def test_a_vector_counts_by_its_length_and_only_from_the_threshold_on():
    row = oriented_histogram([[3.0, 0.0], [0.0, 0.5], [0.0, -0.25]], 3, threshold=0.5)
    np.testing.assert_array_equal(row, [0.5, 3.0, 0.0])
    flow = np.random.default_rng(0).standard_normal((8, 9, 2))
    np.testing.assert_allclose(oriented_histogram(3 * flow, 5), 3 * oriented_histogram(flow, 5), rtol=1e-14)


def test_vectors_that_are_no_numbers_do_not_count():
    flow = [[np.nan, 1.0], [np.inf, -np.inf], [1.0, np.nan], [1.0, 0.0]]
    np.testing.assert_array_equal(oriented_histogram(flow, 3), [0.0, 1.0, 0.0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("right", "down", "expected"),
    [
        (2, 0, 4),
        (-3, 0, 4),
        (0, 2, 0),
        (0, -2, 8),
        (2, 2, 2),
        (-2, 2, 2),
        (2, -2, 6),
        (-3, -3, 6),
        (1, -3, 8),
    ],
)
def test_a_moving_texture_puts_its_mass_in_the_bin_of_its_direction(method, right, down, expected):
    stream = OpticalFlow(9, method=method).stream(moving(right, down))
    assert stream.shape == (3, 9)
    assert stream[:, expected].min() > 0.95


@pytest.mark.parametrize("method", METHODS)
def test_the_flow_is_the_motion(method):
    first, second = moving(2, -1, count=2)
    flow = optical_flow(first, second, method)
    assert flow.shape == (72, 96, 2)
    inner = flow[10:-10, 10:-10].reshape(-1, 2)
    np.testing.assert_allclose(np.median(inner, axis=0), [2.0, -1.0], atol=0.1)


@pytest.mark.parametrize("method", METHODS)
def test_a_mirror_image_has_the_same_stream(method):
    # The histogram is exactly mirror-invariant, OpenCV's search is not: it goes over the picture from one
    # corner. Rows sum to 1, and 0.05 is the mass that may be elsewhere.
    video = np.concatenate([moving(2, 1), moving(-1, -2)])
    bags = OpticalFlow(12, method=method)
    difference = np.abs(bags.stream(video) - bags.stream(video[:, :, ::-1])).sum(axis=1) / 2
    assert difference.max() < 0.05
    upside_down = np.abs(bags.stream(video) - bags.stream(video[:, ::-1])).sum(axis=1) / 2
    assert upside_down.max() > 0.5


@pytest.mark.parametrize("method", METHODS)
def test_where_nothing_moves_the_bag_is_uniform(method):
    still = np.repeat(texture(60, 70)[None], 3, axis=0)
    stream = OpticalFlow(10, method=method).stream(np.concatenate([still, moving(2, 0, 2, 60, 70)]))
    np.testing.assert_array_equal(stream[:2], np.full((2, 10), 0.1))
    assert np.ptp(stream[3]) > 0.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 50), (2, 2), (16, 3), (3, 16), (8, 8), (12, 200), (200, 12), (31, 33)]
)
def test_frames_of_any_size_give_a_stream(method, shape):
    video = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    stream = OpticalFlow(6, method=method).stream(video)
    assert stream.shape == (2, 6)
    assert stream.min() >= 0.0
    np.testing.assert_allclose(stream.sum(axis=1), 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_files_give_streams_that_do_not_depend_on_threads(tmp_path, method):
    paths = [write_clip(tmp_path / f"{k}.mp4", moving_frames(8, 50, 62, seed=k)) for k in range(3)]
    bags = OpticalFlow(method=method)
    streams = bags.fit(paths).transform(paths)
    for stream, again, path in zip(
        streams, clone(bags).set_params(n_jobs=2).transform(paths), paths, strict=True
    ):
        assert stream.shape == (7, 30)
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(stream, again)
        np.testing.assert_array_equal(stream, bags.stream(path))


def test_a_window_pools_the_masses_of_its_pairs_of_frames():
    video = np.concatenate([moving(2, 0), moving(0, 3)])
    masses = np.array(list(OpticalFlow(8).masses(iter(video))))
    pooled = masses[:6].reshape(2, 3, 8).sum(axis=1)
    expected = pooled / pooled.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(OpticalFlow(8, window=3).stream(video), expected, rtol=1e-14)


def test_one_frame_has_no_motion_and_gets_a_sentence():
    with pytest.raises(VideoError, match=r"^the video has too few frames for a single bag"):
        OpticalFlow().stream(texture(40, 40)[None])
    with pytest.raises(VideoError, match=r"^video 1: the video has too few frames"):
        OpticalFlow().transform([moving(1, 0), texture(40, 40)[None]])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"bins": 0}, "bins is 0, but it must be a whole number of at least 1"),
        ({"bins": 2.5}, "bins is 2.5, but it must be a whole number"),
        ({"method": "guess"}, "method is 'guess', but it must be one of 'dis', 'farneback'"),
        ({"threshold": -1}, "threshold is -1, but it must be a finite number that is 0 or more"),
        ({"threshold": float("nan")}, "threshold is nan, but it must be a finite number"),
        ({"window": 0}, "window is 0, but it must be a whole number"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        OpticalFlow(**parameters).stream(moving(1, 0))


@pytest.mark.skipif(not WILD.is_dir(), reason="needs the clips of wild-scenes beside the repository")
def test_real_clips_give_streams():
    paths = [sorted((WILD / name).glob("*.mp4"))[0] for name in ("waterfall", "traffic")]
    for stream in OpticalFlow(frames={"stride": 20, "size": 120}).transform(paths):
        assert stream.shape[0] >= 2
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)
        assert np.ptp(stream) > 0.01
