import tracemalloc
from fractions import Fraction
from math import cos, floor, pi, sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.feature import local_binary_pattern
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from clips import moving_frames, write_clip
from sysbags import comparators, errors
from sysbags.comparators import LBPTOP
from sysbags.comparators.base import Comparator
from sysbags.comparators.lbptop import count_codes

NOISE = np.random.default_rng(0).integers(0, 256, size=(5, 9, 11), dtype=np.uint8)


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


def test_vectors_are_histograms_of_equal_mass():
    plain, uniform = LBPTOP().vector(NOISE), LBPTOP(method="nri_uniform").vector(NOISE)
    codes = codes_by_definition(NOISE, (1, 1, 1))
    np.testing.assert_allclose(plain, (counted(codes) / codes.size).ravel(), rtol=1e-12)
    for vector, size in ((plain, 256), (uniform, 59)):
        assert vector.shape == (3 * size,)
        np.testing.assert_allclose(vector.reshape(3, size).sum(axis=1), 1 / 3, rtol=1e-12)

    runs = [bin(code ^ (code >> 1 | (code & 1) << 7)).count("1") for code in range(256)]
    several = plain.reshape(3, 256)[:, np.array(runs) > 2].sum(axis=1)
    np.testing.assert_allclose(uniform.reshape(3, 59)[:, -1], several, rtol=1e-12)
    single = np.sort(plain.reshape(3, 256)[:, np.array(runs) <= 2], axis=1)
    np.testing.assert_allclose(np.sort(uniform.reshape(3, 59)[:, :-1], axis=1), single, rtol=1e-12)


def test_memory_does_not_grow_with_the_video():
    def peak(count):
        tracemalloc.start()
        try:
            count_codes(np.full((100, 100), k % 256, np.uint8) for k in range(count))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    count_codes(NOISE)  # compiled before it is measured
    assert peak(200) < 20 * 100 * 100  # bytes: twenty frames


# What all comparators share


def test_comparators_are_listed_and_say_how_they_are_used():
    assert {"LBPTOP", "PooledActivations", "SpatiotemporalEnergy"} <= set(dir(comparators))
    for name in ("LBPTOP", "PooledActivations", "SpatiotemporalEnergy"):
        method = getattr(comparators, name)
        assert issubclass(method, Comparator)
        assert isinstance(method.title, str)
        assert {"1-NN", "nearest mean"} <= set(method.classifiers)
        assert method.metric in ("chi2", "cosine", "euclidean")
        assert method.requires_fit is False
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = comparators.Nothing


def test_manners_of_a_transformer(tmp_path):
    path = write_clip(tmp_path / "clip.mkv", moving_frames(6), pixel_format="gray")
    method = LBPTOP(method="nri_uniform", n_jobs=2, frames={"max_frames": 6})
    copy = clone(method)
    assert copy is not method
    assert copy.get_params() == method.get_params()
    check_is_fitted(method)
    assert method.fit([path]) is method
    videos = [path, str(path), moving_frames(6), iter(moving_frames(6)), moving_frames(8)]
    vectors = method.transform(videos)
    assert vectors.shape == (5, 177)
    for row in vectors[1:]:
        np.testing.assert_array_equal(row, vectors[0])
    expected = LBPTOP(method="nri_uniform").fit_transform([moving_frames(6)] * 2)
    np.testing.assert_array_equal(expected, vectors[:2])
    assert method.transform([]).shape == (0, 0)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_errors_name_the_video(n_jobs):
    method = LBPTOP((2, 1, 1), n_jobs=n_jobs)
    with pytest.raises(errors.VideoError, match=r"^video 1: the video has only 2 of the 3 frames that"):
        method.transform([NOISE, NOISE[:2]])
    with pytest.raises(
        errors.VideoError, match=r"^video 1: the video has frames of 4 x 9 .* at least 5 x 3$"
    ):
        method.transform([NOISE, NOISE[..., :4]])
    with pytest.raises(errors.VideoError, match=r"^nothing\.mp4 does not exist$"):
        method.vector("nothing.mp4")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"radii": 1}, r"^radii is 1, but it must be three numbers: columns, rows and frames$"),
        ({"radii": (1, 1)}, r"^radii is \(1, 1\), but it must be three"),
        ({"radii": (1, 0, 1)}, r"^a radius is 0, but it must be a whole number of at least 1$"),
        ({"method": "ror"}, r"^method is 'ror', but it must be"),
        ({"frames": {"strides": 2}}, r"^frames is .* for reading: start, stop, stride,"),
        ({"n_jobs": 0}, r"^n_jobs is 0, but"),
    ],
)
def test_senseless_options(options, sentence):
    with pytest.raises(errors.ParameterError, match=sentence):
        LBPTOP(**options).transform([NOISE, NOISE])


def test_a_single_video_where_several_belong():
    with pytest.raises(errors.ParameterError, match=r"^videos is the single path 'clip\.mp4', but"):
        LBPTOP().transform("clip.mp4")
