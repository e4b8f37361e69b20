"""Colour histograms against their definition, pixel by pixel."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from clips import moving_frames, write_clip
from sysbags.bags import ColourHistogram
from sysbags.bags.colour import colour_histogram
from sysbags.errors import ParameterError


def picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def one_bin(value, low, high, count):
    """The bin of a value whose ends are equally far apart; what lies outside is in the nearest."""
    edges = [low + (high - low) * k / count for k in range(count)]
    return max(sum(edge <= value for edge in edges) - 1, 0)


def twin(frame, bins, grid):
    """The definition, pixel by pixel."""
    height, width = frame.shape[:2]
    counts = np.zeros((grid, grid, *bins))
    lab = cv2.cvtColor(frame, cv2.COLOR_RGB2LAB)
    for i in range(height):
        for j in range(width):
            light, red, yellow = (int(value) for value in lab[i, j])
            place = one_bin(light, 0, 256, bins[0]), one_bin(red, 64, 192, bins[1])
            counts[(i * grid // height, j * grid // width, *place, one_bin(yellow, 64, 192, bins[2]))] += 1
    return counts.ravel()


def cielab(rgb):
    """CIELAB of sRGB under D65 (IEC 61966-2-1, CIE 15), scaled as OpenCV does."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = ((linear @ np.transpose(matrix)) / [0.9505, 1.0, 1.089]).T
    x, y, z = (np.where(t > (6 / 29) ** 3, np.cbrt(t), t * (29 / 6) ** 2 / 3 + 4 / 29) for t in (x, y, z))
    return np.stack([(116 * y - 16) * 2.55, 500 * (x - y) + 128, 200 * (y - z) + 128], axis=1)


@pytest.mark.parametrize(
    ("bins", "grid"), [((6, 8, 8), 2), ((1, 1, 1), 3), ((5, 3, 7), 1), ((256, 2, 1), 2), ((2, 128, 128), 1)]
)
def test_the_histogram_is_its_definition(bins, grid):
    frame = picture(11, 14)
    counts = colour_histogram(frame, bins, grid)
    assert counts.dtype == np.float64
    np.testing.assert_array_equal(counts, twin(frame, bins, grid))


@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.tuples(*[st.integers(1, 9)] * 3),
    st.integers(1, 8),
    st.integers(0),
)
def test_every_pixel_counts_once_in_its_cell(height, width, bins, grid, seed):
    frame = picture(height, width, seed)
    counts = colour_histogram(frame, bins, grid)
    np.testing.assert_array_equal(counts, twin(frame, bins, grid))
    assert counts.sum() == height * width
    total = counts.reshape(grid * grid, -1).sum(axis=0)
    np.testing.assert_array_equal(total, colour_histogram(frame, bins))


def test_bins_are_those_of_cielab():
    # A pixel at a time, and only colours that are more than OpenCV's rounding (1.5) off the nearest edge.
    colours = picture(20, 20, seed=3).reshape(-1, 3)
    places = cielab(colours / 255.0)
    edges = [256 / 6 * np.arange(1, 6), 64 + 16 * np.arange(1, 8), 64 + 16 * np.arange(1, 8)]
    clear = [np.abs(places[:, [k]] - edges[k]).min(axis=1) > 1.5 for k in range(3)]
    chosen = np.flatnonzero(np.logical_and.reduce(clear))
    assert len(chosen) > 100
    for k in chosen:
        index = [int(np.searchsorted(edges[axis], places[k, axis])) for axis in range(3)]
        counts = colour_histogram(colours[k].reshape(1, 1, 3), (6, 8, 8)).reshape(6, 8, 8)
        assert counts[tuple(index)] == 1


@pytest.mark.parametrize(
    ("colour", "place"),
    [
        ((0, 0, 0), (0, 4, 4)),
        ((255, 255, 255), (5, 4, 4)),
        ((255, 0, 0), (3, 7, 7)),  # a is 208 and b is 195: beyond the bins at the ends
        ((0, 255, 0), (5, 0, 7)),
        ((0, 0, 255), (1, 7, 0)),
    ],
)
def test_known_colours_and_the_ends(colour, place):
    counts = colour_histogram(np.full((3, 4, 3), colour, np.uint8), (6, 8, 8)).reshape(6, 8, 8)
    assert counts[place] == counts.sum() == 12


def test_cells_stand_side_by_side_row_by_row():
    frame = np.zeros((4, 6, 3), np.uint8)
    for (row, column), colour in zip(np.ndindex(2, 2), [0, 90, 160, 255], strict=True):
        frame[2 * row : 2 * row + 2, 3 * column : 3 * column + 3] = colour
    stream = ColourHistogram((4, 1, 1)).stream(frame[None])
    np.testing.assert_array_equal(stream.reshape(4, 4), np.eye(4) / 4)


def test_a_mirror_image_has_the_same_histogram_without_a_grid_and_swapped_cells_with_one():
    video = np.stack([picture(10, 12, seed) for seed in range(3)])
    mirrored = video[:, :, ::-1]
    bags = ColourHistogram(grid=1)
    np.testing.assert_array_equal(bags.stream(video), bags.stream(mirrored))
    cells = ColourHistogram().stream(video).reshape(3, 2, 2, -1)
    swapped = ColourHistogram().stream(mirrored).reshape(3, 2, 2, -1)
    np.testing.assert_array_equal(cells[:, :, ::-1], swapped)
    assert np.abs(cells - swapped).max() > 0


def test_red_is_not_blue():
    video = np.zeros((1, 8, 8, 3), np.uint8)
    video[..., 0] = 200
    bags = ColourHistogram(grid=1)
    assert bags.stream(video).argmax() != bags.stream(video[..., ::-1]).argmax()


def test_grey_frames_are_in_the_bins_of_grey():
    stream = ColourHistogram((6, 2, 2), grid=1).stream(moving_frames(3)).reshape(3, 6, 2, 2)
    np.testing.assert_allclose(stream[:, :, 1, 1].sum(axis=1), 1.0)


def test_a_window_pools_the_counts_of_its_frames():
    video = np.stack([picture(9, 7, seed) for seed in range(6)])
    counts = np.array(list(ColourHistogram((2, 2, 2)).masses(iter(video))))
    expected = counts.reshape(2, 3, -1).sum(axis=1) / (3 * 9 * 7)
    np.testing.assert_allclose(ColourHistogram((2, 2, 2), window=3).stream(video), expected, rtol=1e-14)


def test_files_give_streams_that_do_not_depend_on_threads(tmp_path):
    paths = [
        write_clip(tmp_path / f"{k}.mp4", moving_frames(4, 48, 64, seed=k, colour=True)) for k in range(3)
    ]
    bags = ColourHistogram(frames={"size": 24, "stride": 2})
    streams = bags.fit(paths).transform(paths)
    again = clone(bags).set_params(n_jobs=2).transform(paths)
    for stream, expected in zip(streams, again, strict=True):
        assert stream.shape == (2, 4 * 6 * 8 * 8)
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)
        # counts of the small frame
        np.testing.assert_array_equal(stream * 24 * 32, np.round(stream * 24 * 32))
        np.testing.assert_array_equal(stream, expected)


BINS = "but it must be three whole numbers: 1 to 256 for L, and 1 to 128 for a and for b$"


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"bins": 8}, f"bins is 8, {BINS}"),
        ({"bins": None}, f"bins is None, {BINS}"),
        ({"bins": (6, 8)}, rf"bins is \(6, 8\), {BINS}"),
        ({"bins": (6, 8, 8, 8)}, rf"bins is \(6, 8, 8, 8\), {BINS}"),
        ({"bins": (6, 0, 8)}, rf"bins is \(6, 0, 8\), {BINS}"),
        ({"bins": (6, 8.0, 8)}, rf"bins is \(6, 8.0, 8\), {BINS}"),
        ({"bins": "888"}, f"bins is '888', {BINS}"),
        ({"bins": (257, 8, 8)}, rf"bins is \(257, 8, 8\), {BINS}"),
        ({"bins": (6, 8, 129)}, rf"bins is \(6, 8, 129\), {BINS}"),
        ({"grid": 0}, "grid is 0, but it must be a whole number of at least 1$"),
        ({"grid": 1.5}, "grid is 1.5, but it must be a whole number"),
        ({"window": 0}, "window is 0, but it must be a whole number"),
        ({"frames": {"speed": 2}}, "frames is .*'speed'.* but it must be a mapping of options"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ParameterError, match=f"^{sentence}"):
        ColourHistogram(**parameters).stream(picture(8, 8)[None])


def test_bins_may_be_an_array():
    video = picture(8, 8)[None]
    expected = ColourHistogram((2, 3, 4)).stream(video)
    np.testing.assert_array_equal(ColourHistogram(np.array([2, 3, 4])).stream(video), expected)
