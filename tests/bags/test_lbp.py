from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.feature import local_binary_pattern

from clips import moving_frames
from sysbags import errors
from sysbags._numba import pixels as compiled
from sysbags.bags import LocalBinaryPatterns
from sysbags.bags.lbp import METHODS, Circle

W = 0.70711  # where a diagonal neighbour lies, rounded to five digits


def picture_of(kind, shape, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "random":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if kind == "few levels":  # full of ties
        return rng.integers(126, 130, shape, dtype=np.uint8)
    if kind == "constant":
        return np.full(shape, rng.integers(0, 256), np.uint8)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    smooth = 128.0 + 100.0 * np.sin(columns / 17.0 + rows / 23.0) + rng.normal(0.0, 0.7, shape)
    return smooth.astype(np.uint8)


def size(points, method):
    return {"default": 2**points, "uniform": points + 2, "nri_uniform": points * (points - 1) + 3}[method]


def skimage_counts(frame, points, radius, method):
    patterns = local_binary_pattern(frame, points, radius, method).astype(np.int64).ravel()
    if method != "ror":
        return np.bincount(patterns, minlength=size(points, method))
    least = least_codes(points)
    return np.bincount(np.searchsorted(least, patterns), minlength=len(least))


def counts_of(frame, points, radius, method, margin=4):
    return Circle(points, radius, method).count(np.pad(frame, margin), margin)


def ror_twin(code, points):
    bits = f"{code:0{points}b}"
    return min(int(bits[k:] + bits[:k], 2) for k in range(points))


@cache
def least_codes(points):
    return sorted({ror_twin(code, points) for code in range(2**points)})


def codes_twin(frame, points, radius):
    """The definition in NumPy, pixel by pixel and neighbour by neighbour."""

    def pixel(r, c):
        inside = 0 <= r < frame.shape[0] and 0 <= c < frame.shape[1]
        return np.float64(frame[r, c]) if inside else np.float64(0.0)

    codes = np.zeros(frame.shape, np.int64)
    for (r, c), i in itertools.product(np.ndindex(frame.shape), range(points)):
        angle = 2 * np.pi * i / points
        y, x = r + round(-radius * np.sin(angle), 5), c + round(radius * np.cos(angle), 5)
        top, bottom, left, right = (int(f(v)) for v in (y, x) for f in (np.floor, np.ceil))
        upper = (1 - (x - left)) * pixel(top, left) + (x - left) * pixel(top, right)
        lower = (1 - (x - left)) * pixel(bottom, left) + (x - left) * pixel(bottom, right)
        codes[r, c] += 2**i * ((1 - (y - top)) * upper + (y - top) * lower >= pixel(r, c))
    return codes


@pytest.mark.parametrize("kind", ["random", "few levels", "constant", "smooth"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 3), (33, 47)])
def test_every_bin_is_skimages(kind, shape):
    frame = picture_of(kind, shape)
    for points, radius, method in itertools.product((4, 8, 12, 16), (1, 1.5, 2, 3), METHODS):
        ours, theirs = (f(frame, points, radius, method) for f in (counts_of, skimage_counts))
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{points}, {radius}, {method}")


@pytest.mark.parametrize("shape", [(5, 1300), (1300, 5), (530, 540)])
def test_every_bin_is_skimages_far_from_the_corner(shape):
    for kind in ("few levels", "smooth"):
        frame = picture_of(kind, shape)
        np.testing.assert_array_equal(
            counts_of(frame, 8, 1, "default"), skimage_counts(frame, 8, 1, "default")
        )


@pytest.mark.parametrize(("points", "radius"), [(24, 3), (32, 4), (1, 1), (3, 0.4), (8, 7.3)])
def test_unusual_circles_are_skimages(points, radius):
    frame = picture_of("smooth", (21, 30))
    for method in ("uniform", "nri_uniform"):
        ours = counts_of(frame, points, radius, method, margin=8)
        np.testing.assert_array_equal(ours, skimage_counts(frame, points, radius, method))


@settings(deadline=None, max_examples=60)
@given(
    frame=hnp.arrays(
        np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.integers(0, 3)
    ),
    points=st.integers(1, 10),
    radius=st.sampled_from([1, 1.5, 2, 2.7]),
)
def test_codes_are_their_definition(frame, points, radius):
    twin = np.bincount(codes_twin(frame, points, radius).ravel(), minlength=2**points)
    np.testing.assert_array_equal(counts_of(frame, points, radius, "default"), twin)


@settings(deadline=None, max_examples=60)
@given(
    frame=hnp.arrays(
        np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 40)), elements=st.integers(0, 255)
    ),
    margin=st.integers(1, 3),
)
def test_integers_and_double_precision_agree(frame, margin):
    circle, picture = Circle(8, 1), np.pad(frame, margin)
    fast, slow = np.zeros(256), np.zeros(256)
    compiled.count_nearest(picture, margin, circle.rows, circle.columns, np.arange(256), fast)
    compiled.count_patterns(picture, margin, circle.rows, circle.columns, 0, slow)
    np.testing.assert_array_equal(fast, slow)


def test_bins_of_codes():
    for points in range(1, 11):
        default, ror, uniform, nri = (compiled.pattern_bins(points, k) for k in range(4))
        ones = np.array([code.bit_count() for code in range(2**points)])
        bits = [[code >> i & 1 for i in range(points)] for code in range(2**points)]
        runs = np.array([sum(row[i - 1] != row[i] for i in range(points)) // 2 for row in bits])
        np.testing.assert_array_equal(default, np.arange(2**points))
        np.testing.assert_array_equal(ror, [ror_twin(code, points) for code in range(2**points)])
        np.testing.assert_array_equal(uniform, np.where(runs <= 1, ones, points + 1))
        # Uniform patterns have a bin each, in the order of their ones; the others share the last.
        np.testing.assert_array_equal(nri[runs > 1], points * (points - 1) + 2)
        order = np.argsort(nri[runs <= 1])
        assert sorted(nri[runs <= 1]) == sorted(set(nri[runs <= 1]))
        assert (np.diff(ones[runs <= 1][order]) >= 0).all()


@pytest.mark.parametrize(
    ("method", "bins"), [("default", 256), ("ror", 36), ("uniform", 10), ("nri_uniform", 59)]
)
def test_numbers_of_bins(method, bins):
    assert LocalBinaryPatterns(method=method).stream(moving_frames(2)).shape == (2, bins)


# What `_compiled.lbp` claims for 8 points at radius 1, for all bytes there are.


def test_the_small_ratio_has_the_signs_of_the_exact_one():
    b, s = np.mgrid[-255:256, -510:511]
    exact = 70711 * b + 29289 * s
    np.testing.assert_array_equal(b + (s * int(compiled.RATIO) >> 16) >= 0, exact >= 0)
    assert ((exact == 0) == ((b == 0) & (s == 0))).all()
    assert np.abs(exact[exact != 0]).min() / 70711 > 0.001


def tie_values(vertical, horizontal, row, column, centre, excess):
    """Interpolate where the opposite corner equals the centre, and the others differ from it oppositely."""
    y, x = row + vertical * W, column + horizontal * W
    down, across = y - np.floor(y), x - np.floor(x)

    def along(own_row):
        own_column, other_column = (centre, centre - excess) if own_row else (centre + excess, centre)
        left, right = (other_column, own_column) if horizontal < 0 else (own_column, other_column)
        return (1 - across) * left + across * right

    upper, lower = along(vertical > 0), along(vertical < 0)
    return (1 - down) * upper + down * lower


def distinct(sign, begin, end):
    """One coordinate for each way in which its sum with the offset is rounded."""
    where = np.arange(begin, end)
    share = where + sign * W - np.floor(where + sign * W)
    return where[np.unique(share, return_index=True)[1]]


def ties():
    """All bytes, and what the two corners beside may differ from them."""
    centre, excess = (grid.astype(float).ravel() for grid in np.mgrid[:256, -127:128])
    valid = (np.abs(excess) <= centre) & (np.abs(excess) <= 255 - centre)
    return centre[valid], excess[valid]


def test_ties_are_never_rounded_down_where_integers_decide():
    centre, excess = ties()
    for vertical, horizontal in itertools.product((-1, 1), repeat=2):
        rows, columns = (distinct(s, compiled.SAFE_BEGIN, compiled.SAFE_END) for s in (vertical, horizontal))
        for row, column in itertools.product(rows, columns):
            assert (tie_values(vertical, horizontal, row, column, centre, excess) >= centre).all()


def test_flat_squares_are_never_rounded_down_anywhere():
    centre = np.arange(256.0)
    for vertical, horizontal in itertools.product((-1, 1), repeat=2):
        rows, columns = (distinct(s, 0, 5000) for s in (vertical, horizontal))
        for row, column in itertools.product(rows, columns):
            assert (tie_values(vertical, horizontal, row, column, centre, 0.0) >= centre).all()


@pytest.mark.parametrize(("row", "column"), [(0, 100), (100, 0), (100, 1), (600, 100), (100, 600)])
def test_ties_are_rounded_down_elsewhere_at_times(row, column):
    centre, excess = ties()
    directions = itertools.product((-1, 1), repeat=2)
    assert any((tie_values(*signs, row, column, centre, excess) < centre).any() for signs in directions)


# Properties


def test_brightness_and_contrast_do_not_matter():
    frame = picture_of("random", (30, 40)) // 2
    brighter = (frame.astype(int) * 2 + 1).astype(np.uint8)
    inside = (slice(1, -1), slice(1, -1))  # outside is black, however bright the frame is
    before, after = (local_binary_pattern(f, 4, 1)[inside] for f in (frame, brighter))
    np.testing.assert_array_equal(before, after)
    black = np.pad(frame, 1)  # where the border is black itself, the whole frame's counts are the same
    lighter = np.where(black > 0, black + 100, 0).astype(np.uint8)
    np.testing.assert_array_equal(counts_of(black, 4, 1, "default"), counts_of(lighter, 4, 1, "default"))


@pytest.mark.parametrize("method", ["ror", "uniform"])
@pytest.mark.parametrize("radius", [1, 2])
def test_a_quarter_turn_does_not_matter(method, radius):
    frame = np.random.default_rng(0).permutation(256).astype(np.uint8).reshape(16, 16)  # without ties
    turned = counts_of(np.rot90(frame), 8, radius, method)
    np.testing.assert_array_equal(counts_of(frame, 8, radius, method), turned)
    assert (counts_of(frame, 8, radius, "default") != counts_of(np.rot90(frame), 8, radius, "default")).any()


# The transformer


def test_stream_of_a_clip():
    clip = moving_frames(7, 31, 45)
    stream = LocalBinaryPatterns().stream(clip)
    want = np.array([skimage_counts(frame, 8, 1, "default") for frame in clip]) / (31 * 45)
    np.testing.assert_allclose(stream, want, rtol=1e-15)


def test_several_radii_stand_side_by_side_with_equal_mass():
    clip = moving_frames(4)
    stream = LocalBinaryPatterns((8, 16), [1, 2.5], "uniform").stream(clip)
    singles = [
        LocalBinaryPatterns(points, radius, "uniform").stream(clip) for points, radius in ((8, 1), (16, 2.5))
    ]
    np.testing.assert_allclose(stream, np.hstack(singles) / 2.0, rtol=1e-14)
    same = LocalBinaryPatterns(8, np.array([1, 2, 3]), "nri_uniform").stream(clip)
    assert same.shape == (4, 3 * 59)
    np.testing.assert_allclose(same.reshape(4, 3, 59).sum(axis=2), 1 / 3, rtol=1e-14)


def test_frames_that_change_their_size():
    frames = [picture_of("random", (20, 30)), picture_of("random", (31, 17))]
    masses = list(LocalBinaryPatterns().masses(iter(frames)))
    for frame, mass in zip(frames, masses, strict=True):
        np.testing.assert_array_equal(mass, skimage_counts(frame, 8, 1, "default"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"points": 0}, "points is 0, but it must be a whole number of at least 1"),
        ({"points": 8.5}, "points is 8.5, but it must be a whole number of at least 1"),
        (
            {"points": 24},
            "points is 24, but it must be at most 16 for 'default' .* method=\"uniform\" has few",
        ),
        ({"points": 17, "method": "ror"}, "at most 16 for 'ror' patterns, as there are 2\\^points of them"),
        (
            {"points": 33, "method": "uniform"},
            "points is 33, but it must be at most 32 for 'uniform' patterns$",
        ),
        (
            {"points": (8, 8)},
            "points is \\(8, 8\\) and radius 1, but there must be one number of points for each",
        ),
        ({"radius": ()}, "radius \\(\\), but there must be one number"),
        ({"radius": 0}, "radius is 0, but it must be above 0 and at most 1000 pixels"),
        ({"radius": (1, -2.0)}, "radius is -2.0, but it must be above 0"),
        ({"radius": np.inf}, "radius is inf, but it must be above 0"),
        ({"radius": "1"}, "radius is '1', but it must be above 0"),
        ({"radius": True}, "radius is True, but it must be above 0"),
        (
            {"method": "riu2"},
            "method is 'riu2', but it must be one of 'default', 'ror', 'uniform', 'nri_uniform'",
        ),
    ],
)
def test_senseless_options(options, sentence):
    with pytest.raises(errors.ParameterError, match=sentence):
        LocalBinaryPatterns(**options).transform([moving_frames(2)])
