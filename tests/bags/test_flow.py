"""Histograms of optical flow against their definitions, pixel by pixel, and on textures that move."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.ndimage import gaussian_filter
from sklearn.base import clone

from clips import moving_frames, write_clip
from sysbags.bags import OpticalFlow
from sysbags.bags.flow import METHODS, optical_flow, oriented_histogram, speed_histogram
from sysbags.errors import OrderError, ParameterError

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


def direction(right, down, bins):
    """The bin of an angle, by the lower ends of the bins."""
    theta = math.atan2(-down, abs(right))
    return [b for b in range(bins) if -math.pi / 2 + math.pi * b / bins <= theta][-1]


def twin(flow, bins, threshold):
    """The definition, pixel by pixel."""
    masses = [0.0] * bins
    for right, down in flow.reshape(-1, 2).tolist():
        length = math.hypot(right, down)
        if length >= threshold:
            masses[direction(right, down, bins)] += length
    return np.array(masses)


def speed_twin(flow, bins, speeds, threshold):
    """The definition, pixel by pixel."""
    still, counts = 0, [[0] * bins for _ in range(speeds)]
    for right, down in np.reshape(flow, (-1, 2)).tolist():
        length = math.hypot(right, down)
        if not math.isfinite(length) or length < threshold:
            still += 1
            continue
        speed = 0
        while speed < speeds - 1 and length >= threshold * 2 ** (speed + 1):
            speed += 1
        counts[speed][direction(right, down, bins)] += 1
    return np.array([still, *(count for row in counts for count in row)], dtype=np.float64)


def roll(picture, pixels):
    """Three frames of a picture that moves up by so many pixels a frame."""
    return [np.roll(picture, -k * pixels, axis=0) for k in range(3)]


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


@pytest.mark.parametrize("bins", [1, 2, 7, 8])
@pytest.mark.parametrize("speeds", [1, 2, 6])
@pytest.mark.parametrize("threshold", [0.1, 0.7, 2.0])
def test_the_histogram_with_speeds_is_its_definition(bins, speeds, threshold):
    rng = np.random.default_rng(10 * bins + speeds)
    flow = rng.standard_normal((13, 17, 2)) * 2.0 ** rng.uniform(-6.0, 6.0, (13, 17, 1))
    flow[0, :5] = [[np.nan, 1.0], [1.0, np.nan], [np.inf, -np.inf], [0.0, np.inf], [0.0, 0.0]]
    flow[1, :8] = [[0.0, threshold * 2.0**k] for k in range(8)]  # exactly at the ends of bins
    flow[2, :8] = [[-threshold * 2.0**k, 0.0] for k in range(8)]
    for values in (flow, flow.astype(np.float32)):
        counts = speed_histogram(values, bins, speeds, threshold)
        assert counts.dtype == np.float64
        np.testing.assert_array_equal(counts, speed_twin(values, bins, speeds, threshold))


numbers = st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, -0.0, np.nan, np.inf, -np.inf])


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(0, 5), st.integers(1, 5), st.just(2)), elements=numbers),
    st.integers(1, 9),
    st.integers(1, 9),
    st.floats(1e-6, 1e3),
)
def test_every_pixel_counts_once_for_left_and_right_together(flow, bins, speeds, threshold):
    counts = speed_histogram(flow, bins, speeds, threshold)
    assert counts.shape == (1 + bins * speeds,)
    assert counts.sum() == flow.size / 2
    np.testing.assert_array_equal(counts, speed_histogram(flow * [-1.0, 1.0], bins, speeds, threshold))
    # Without the speeds these are the vectors of each direction, and without the directions of each speed.
    directions = speed_histogram(flow, bins, 1, threshold)
    np.testing.assert_array_equal(counts[1:].reshape(speeds, bins).sum(axis=0), directions[1:])
    by_speed = speed_twin(flow, 1, speeds, threshold)
    np.testing.assert_array_equal(counts[1:].reshape(speeds, bins).sum(axis=1), by_speed[1:])
    assert counts[0] == directions[0] == by_speed[0]


@given(st.floats(5e-324, 1e200), st.integers(1, 12))
def test_speeds_hold_their_lower_ends_exactly(threshold, speeds):
    for s in range(speeds):
        edge = threshold * 2.0**s
        below = speed_histogram([[0.0, np.nextafter(edge, 0.0)]], 1, speeds, threshold)
        at = speed_histogram([[0.0, edge], [-edge, 0.0]], 1, speeds, threshold)
        np.testing.assert_array_equal(at, 2.0 * np.eye(1 + speeds)[1 + s])
        assert below.argmax() == s
    last = speed_histogram([[0.0, 1e300], [threshold * 2.0**speeds, 0.0]], 1, speeds, threshold)
    assert last[-1] == 2


def test_one_motion_is_one_bin():
    flow = np.broadcast_to([0.0, -3.0], (6, 7, 2))
    # 3 pixels are 1.6 to 3.2, speed 4 of 6; straight up is the last of 8 directions.
    np.testing.assert_array_equal(speed_histogram(flow, 8, 6, 0.1), 42.0 * np.eye(49)[1 + 8 * 4 + 7])
    np.testing.assert_array_equal(speed_histogram(10 * flow, 8, 6, 0.1), 42.0 * np.eye(49)[1 + 8 * 5 + 7])
    np.testing.assert_array_equal(speed_histogram(flow, 8, 6, 3.5), 42.0 * np.eye(49)[0])
    np.testing.assert_array_equal(speed_histogram(0 * flow, 8, 6, 0.1), 42.0 * np.eye(49)[0])


@given(st.floats(2.0**-10, 2.0**10, width=32))
def test_diagonals_and_axes_are_at_the_lower_ends_of_their_bins(size):
    # Of all directions at an end of a bin, only these are possible as vectors of floating-point numbers.
    for (right, down), expected in {(0, 1): 0, (1, 1): 2, (1, 0): 4, (1, -1): 6, (0, -1): 7}.items():
        for sign in (-1, 1):
            counts = speed_histogram([[sign * size * right, size * down]], 8, 1, 2.0**-10)
            assert counts.argmax() == 1 + expected


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
    stream = OpticalFlow(9, method=method, speeds=None).stream(moving(right, down))
    assert stream.shape == (3, 9)
    assert stream[:, expected].min() > 0.95


@pytest.mark.parametrize("method", METHODS)
def test_faster_motion_is_in_higher_speeds(method):
    picture, speeds = texture(96, 80), []
    for pixels in (1, 2, 4):
        stream = OpticalFlow(method=method).stream(roll(picture, pixels))
        assert stream.shape == (2, 1 + 8 * 6)
        assert stream[:, 8::8].sum(axis=1).min() > 0.9  # up, at any speed
        speeds.append(float((stream[:, 1:].reshape(2, 6, 8).sum(axis=2) @ np.arange(6.0)).mean()))
    # 1 and 2 pixels are speeds 3 and 4; 4 pixels are speed 5. At the border nothing is found.
    np.testing.assert_allclose(speeds, [3.0, 4.0, 5.0], atol=0.5)
    assert np.diff(speeds).min() > 0.5
    # Without speeds the three videos are hardly different.
    slow, fast = (OpticalFlow(method=method, speeds=None).stream(roll(picture, pixels)) for pixels in (1, 4))
    assert np.abs(slow - fast).sum(axis=1).max() / 2 < 0.1


@pytest.mark.parametrize("method", METHODS)
def test_still_pixels_are_in_the_first_bin(method):
    still = np.repeat(texture(60, 70)[None], 3, axis=0)
    stream = OpticalFlow(method=method).stream(still)
    np.testing.assert_array_equal(stream, np.tile(np.eye(49)[0], (2, 1)))
    cells = OpticalFlow(method=method, grid=2).stream(still).reshape(2, 4, 49)
    np.testing.assert_array_equal(cells[:, :, 0], np.full((2, 4), 0.25))


@pytest.mark.parametrize("speeds", [None, 5])
@pytest.mark.parametrize("shape", [(60, 72), (41, 53), (3, 2)])
@pytest.mark.parametrize("grid", [1, 2, 3, 4])
def test_a_cell_has_the_histogram_of_its_part_of_the_flow(speeds, shape, grid):
    height, width = shape
    video = moving(2, -1, 3, height, width)
    rows = list(OpticalFlow(7, speeds=speeds, grid=grid).masses(iter(video)))
    assert len(rows) == 2
    for row, first, second in zip(rows, video[:-1], video[1:], strict=True):
        flow = optical_flow(first, second)
        # The first cells have one row more if the height is not a multiple of the grid, and so for columns.
        ends = [[min(c, n % grid) + c * (n // grid) for c in range(grid + 1)] for n in shape]
        expected = []
        for top, bottom in pairwise(ends[0]):
            for left, right in pairwise(ends[1]):
                cell = flow[top:bottom, left:right]
                expected.append(twin(cell, 7, 0.1) if speeds is None else speed_twin(cell, 7, speeds, 0.1))
        # Sums of lengths are rounded in another order.
        np.testing.assert_allclose(row, np.concatenate(expected), rtol=0.0 if speeds else 1e-12)
        if speeds is not None:
            assert row.sum() == height * width


def test_cells_are_in_order_row_by_row():
    picture = texture(128, 128)
    moved = picture.copy()
    moved[64:, :64] = np.roll(picture, -3, axis=0)[64:, :64]  # only the lower left moves
    cells = OpticalFlow(grid=2).stream([picture, moved]).reshape(4, 49)
    np.testing.assert_allclose(cells.sum(axis=1), 0.25)
    assert cells[:, 0].argmin() == 2
    assert cells[2].argmax() == 1 + 8 * 4 + 7


@pytest.mark.parametrize("bins", [8, 30])
def test_without_speeds_it_is_the_histogram_of_oriented_optical_flow(bins):
    video = np.concatenate([moving(2, 1), moving(-1, -2)])
    rows = [twin(optical_flow(*pair), bins, 0.1) for pair in pairwise(video)]
    expected = [row / row.sum() for row in rows]
    np.testing.assert_allclose(OpticalFlow(bins, speeds=None).stream(video), expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("method", METHODS)
def test_the_flow_is_the_motion(method):
    first, second = moving(2, -1, count=2)
    flow = optical_flow(first, second, method)
    assert flow.shape == (72, 96, 2)
    inner = flow[10:-10, 10:-10].reshape(-1, 2)
    np.testing.assert_allclose(np.median(inner, axis=0), [2.0, -1.0], atol=0.1)


@pytest.mark.parametrize("speeds", [None, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_mirror_image_has_the_same_stream(method, speeds):
    # The histogram is exactly mirror-invariant, OpenCV's search is not: it goes over the picture from one
    # corner. Rows sum to 1, and 0.05 is the mass that may be elsewhere.
    video = np.concatenate([moving(2, 1), moving(-1, -2)])
    bags = OpticalFlow(12, method=method, speeds=speeds)
    difference = np.abs(bags.stream(video) - bags.stream(video[:, :, ::-1])).sum(axis=1) / 2
    assert difference.max() < 0.05
    upside_down = np.abs(bags.stream(video) - bags.stream(video[:, ::-1])).sum(axis=1) / 2
    assert upside_down.max() > 0.5


@pytest.mark.parametrize("method", METHODS)
def test_without_speeds_the_bag_is_uniform_where_nothing_moves(method):
    still = np.repeat(texture(60, 70)[None], 3, axis=0)
    bags = OpticalFlow(10, method=method, speeds=None)
    stream = bags.stream(np.concatenate([still, moving(2, 0, 2, 60, 70)]))
    np.testing.assert_array_equal(stream[:2], np.full((2, 10), 0.1))
    assert np.ptp(stream[3]) > 0.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 50), (2, 2), (16, 3), (3, 16), (8, 8), (12, 200), (200, 12), (31, 33)]
)
def test_frames_of_any_size_give_a_stream(method, shape):
    video = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    for bags, length in [
        (OpticalFlow(6, method=method, speeds=None), 6),
        (OpticalFlow(6, method=method, speeds=3), 19),
        (OpticalFlow(6, method=method, speeds=3, grid=2), 4 * 19),
    ]:
        stream = bags.stream(video)
        assert stream.shape == (2, length)
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
        assert stream.shape == (7, 1 + 8 * 6)
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(stream, again)
        np.testing.assert_array_equal(stream, bags.stream(path))


def test_a_window_pools_the_masses_of_its_pairs_of_frames():
    video = np.concatenate([moving(2, 0), moving(0, 3)])
    for speeds in (None, 4):
        bags = OpticalFlow(8, speeds=speeds)
        masses = np.array(list(bags.masses(iter(video))))
        pooled = masses[:6].reshape(2, 3, -1).sum(axis=1)
        expected = pooled / pooled.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(bags.set_params(window=3).stream(video), expected, rtol=1e-14)


def test_one_frame_has_no_motion_and_gets_a_sentence():
    with pytest.raises(OrderError, match=r"^the video has too few frames for a single bag"):
        OpticalFlow().stream(texture(40, 40)[None])
    with pytest.raises(OrderError, match=r"^video 1: the video has too few frames"):
        OpticalFlow().transform([moving(1, 0), texture(40, 40)[None]])


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"bins": 0}, "bins is 0, but it must be a whole number of at least 1"),
        ({"bins": 2.5}, "bins is 2.5, but it must be a whole number"),
        ({"method": "guess"}, "method is 'guess', but it must be one of 'dis', 'farneback'"),
        ({"threshold": -1}, "threshold is -1, but it must be a finite number that is 0 or more"),
        ({"threshold": float("nan")}, "threshold is nan, but it must be a finite number"),
        ({"speeds": 0}, "speeds is 0, but it must be a whole number of at least 1$"),
        ({"speeds": 1.5}, "speeds is 1.5, but it must be a whole number of at least 1$"),
        ({"speeds": True}, "speeds is True, but it must be a whole number"),
        ({"grid": 0}, "grid is 0, but it must be a whole number of at least 1$"),
        ({"grid": 2.0}, "grid is 2.0, but it must be a whole number"),
        ({"threshold": 0}, "threshold is 0, but it must be above 0 if there are speeds, which are multiples"),
        ({"threshold": -0.0}, r"threshold is -0\.0, .*: only speeds=None allows 0$"),
        ({"window": 0}, "window is 0, but it must be a whole number"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        OpticalFlow(**parameters).stream(moving(1, 0))


def test_without_speeds_the_threshold_may_be_zero():
    assert OpticalFlow(threshold=0, speeds=None).stream(moving(1, 0)).shape == (3, 8)


@pytest.mark.skipif(not WILD.is_dir(), reason="needs the clips of wild-scenes beside the repository")
def test_real_clips_give_streams():
    paths = [sorted((WILD / name).glob("*.mp4"))[0] for name in ("waterfall", "traffic")]
    for stream in OpticalFlow(frames={"stride": 20, "size": 120}).transform(paths):
        assert stream.shape[0] >= 2
        assert stream.min() >= 0.0
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)
        assert np.ptp(stream) > 0.01
