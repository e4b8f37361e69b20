"""The codes of LBP-TOP, by their definition."""

import tracemalloc
from fractions import Fraction
from math import ceil, cos, floor, pi, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.feature import local_binary_pattern

from sysbags import errors
from sysbags._numba.pixels import share_of_sides
from sysbags.bags import PlanePatterns
from sysbags.bags.regions import Regions

NOISE = np.random.default_rng(0).integers(0, 256, size=(5, 9, 11), dtype=np.uint8)


def count_codes(clip, radii=(1, 1, 1)):
    """The counts of all frames together, (3, 256)."""
    return sum(PlanePatterns(radii, "default").masses(iter(clip))).reshape(3, 256)


def codes_by_definition(clip, radii):
    """The codes of all voxels with whole neighbourhoods, (3, n): one voxel and neighbour after the other."""
    (rx, ry, rt), (T, H, W) = radii, clip.shape
    planes = [((rx, (0, 0, 1)), (ry, (0, 1, 0))), ((rx, (0, 0, 1)), (rt, (1, 0, 0)))]
    planes.append(((ry, (0, 1, 0)), (rt, (1, 0, 0))))
    codes = [[], [], []]
    for t in range(rt, T - rt):
        for y in range(ry, H - ry):
            for x in range(rx, W - rx):
                for plane, ((first_radius, along), (second_radius, across)) in enumerate(planes):
                    code = 0
                    for p in range(8):
                        u = Fraction(round(first_radius * cos(pi * p / 4) * 2**20), 2**20)
                        v = Fraction(round(second_radius * sin(pi * p / 4) * 2**20), 2**20)
                        value = Fraction(0)
                        for i in (floor(u), floor(u) + 1):
                            for j in (floor(v), floor(v) + 1):
                                weight = (1 - abs(u - i)) * (1 - abs(v - j))
                                if weight:
                                    place = np.add((t, y, x), i * np.array(along) + j * np.array(across))
                                    value += weight * int(clip[tuple(place)])
                        code += (value >= int(clip[t, y, x])) << p
                    codes[plane].append(code)
    return np.array(codes)


def counted(codes):
    return np.stack([np.bincount(row, minlength=256) for row in codes])


@pytest.mark.parametrize("radii", [(1, 1, 1), (2, 1, 1), (1, 3, 2), (4, 2, 1)])
def test_the_definition_voxel_by_voxel(radii):
    np.testing.assert_array_equal(count_codes(NOISE, radii), counted(codes_by_definition(NOISE, radii)))


@settings(deadline=None, max_examples=25)
@given(clip=hnp.arrays(np.uint8, st.tuples(*[st.integers(3, 5)] * 3), elements=st.integers(0, 3)))
def test_the_definition_where_much_is_equal(clip):
    np.testing.assert_array_equal(count_codes(clip), counted(codes_by_definition(clip, (1, 1, 1))))


@pytest.mark.parametrize("radius", [1, 2])
def test_planes_are_what_scikit_image_finds_in_slices(radius):
    """It turns the other way, rounds to five digits and knows no ties, so fields are large and real."""
    clip, r = np.random.default_rng(1).integers(0, 256, (12, 13, 14), dtype=np.uint8), radius

    def codes(slices):
        patterns = np.stack([local_binary_pattern(picture, 8, r) for picture in slices]).astype(int)
        return sum((patterns >> (8 - p) % 8 & 1) << p for p in range(8))[:, r:-r, r:-r]

    xy, xt, yt = codes(clip), codes(clip.transpose(1, 0, 2)), codes(clip.transpose(2, 0, 1))
    inside = [part[r:-r].ravel() for part in (xy, xt, yt)]
    assert np.abs(count_codes(clip, (r, r, r)) - counted(inside)).sum() <= 4  # a near tie or two


def test_a_still_picture():
    """In time nothing changes: only the neighbours to the right and left (above and below) decide."""
    picture = NOISE[0].astype(int)
    xt, yt = count_codes([NOISE[0]] * 4)[1:]

    def still(picture):
        right, left = picture[1:-1, 2:] >= picture[1:-1, 1:-1], picture[1:-1, :-2] >= picture[1:-1, 1:-1]
        return 0b01000100 + right * 0b10000011 + left * 0b00111000

    np.testing.assert_array_equal(xt, 2 * np.bincount(still(picture).ravel(), minlength=256))
    np.testing.assert_array_equal(yt, 2 * np.bincount(still(picture.T).ravel(), minlength=256))


def test_a_flat_video_is_all_ones_and_a_flash_none():
    flat = np.full((3, 4, 5), 77, np.uint8)
    np.testing.assert_array_equal(count_codes(flat)[:, 255], [6, 6, 6])
    flat[1, 1, 1] = 200
    np.testing.assert_array_equal(count_codes(flat)[:, 0], [1, 1, 1])


def test_getting_brighter():
    """Neighbours later than now (1, 2, 3 in XT and YT) are brighter, those earlier (5, 6, 7) darker."""
    clip = np.arange(6, dtype=np.uint8)[:, None, None] * np.full((1, 4, 4), 9, np.uint8)
    np.testing.assert_array_equal(count_codes(clip).argmax(axis=1), [255, 0b00011111, 0b00011111])


@settings(deadline=None, max_examples=25)
@given(
    clip=hnp.arrays(np.uint8, (4, 5, 6), elements=st.integers(0, 80)),
    radii=st.sampled_from([(1, 1, 1), (2, 1, 1)]),
)
def test_time_turned_round_and_other_light(clip, radii):
    counts = count_codes(clip, radii)
    turned = [sum((code >> p & 1) << (8 - p) % 8 for p in range(8)) for code in range(256)]
    np.testing.assert_array_equal(count_codes(clip[::-1], radii)[0], counts[0])
    np.testing.assert_array_equal(count_codes(clip[::-1], radii)[1:], counts[1:, turned])
    np.testing.assert_array_equal(count_codes(3 * clip + 10, radii), counts)
    swapped = count_codes(clip.transpose(0, 2, 1), (radii[1], radii[0], radii[2]))
    np.testing.assert_array_equal(swapped[1:], counts[:0:-1])


def test_memory_does_not_grow_with_the_video():
    def peak(count):
        tracemalloc.start()
        try:
            count_codes(np.full((100, 100), k % 256, np.uint8) for k in range(count))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    count_codes(NOISE)  # compiled before it is measured
    assert peak(200) < peak(20) + 5 * 100 * 100  # bytes: five frames


def test_integers_decide_at_radii_1():
    """The smallest opposite corner that reaches the center is that of exact interpolation."""
    w = Fraction(round(cos(pi / 4) * 2**20), 2**20)
    for first in range(-255, 256):
        for second in (-255, -1, 0, 1, 255):
            share = int(share_of_sides(np.int16(first), np.int16(second)))
            exact = -(first + second) * (1 - w) / w
            assert -share == ceil(exact), (first, second)


def test_one_row_per_frame_with_neighbours_in_time():
    bag = PlanePatterns((1, 2, 2))
    rows = bag.stream(NOISE)
    assert rows.shape == (1, 177)
    np.testing.assert_allclose(rows.reshape(1, 3, 59).sum(axis=2), 1 / 3, rtol=1e-12)
    clip = np.concatenate([NOISE, NOISE[::-1]])
    rows = PlanePatterns().stream(clip)
    for first in range(len(clip) - 2):
        np.testing.assert_array_equal(
            rows[first : first + 1], PlanePatterns().stream(clip[first : first + 3])
        )


def test_a_new_size_begins_anew():
    other = NOISE[:, :6]
    expected = [*PlanePatterns().masses(iter(NOISE)), *PlanePatterns().masses(iter(other))]
    np.testing.assert_array_equal(list(PlanePatterns().masses(iter([*NOISE, *other]))), expected)


def test_regions_share_the_patterns_of_the_frame():
    whole = np.array(list(PlanePatterns().masses(iter(NOISE))))
    cells = np.array(list(Regions(PlanePatterns(), grid=(2, 3)).masses(iter(NOISE))))
    assert cells.shape == (3, 6, 177)
    np.testing.assert_array_equal(cells.sum(axis=1), whole)
    mask = np.zeros((9, 11), np.uint8)
    mask[3, 4] = 7
    (single,) = np.array(list(Regions(PlanePatterns(method="default"), mask=mask).masses(iter(NOISE[:3]))))
    crop = next(PlanePatterns(method="default").masses(iter(NOISE[:3, 2:5, 3:6])))
    np.testing.assert_array_equal(single[0], crop)


def test_frames_that_are_too_small():
    with pytest.raises(errors.VideoError, match=r"^frames have 2 x 9 pixels, but .* needs at least 3 x 3$"):
        PlanePatterns().stream(NOISE[..., :2])
