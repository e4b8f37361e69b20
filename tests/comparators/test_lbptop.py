import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from clips import moving_frames, write_clip
from sysbags import comparators, errors
from sysbags.bags import PlanePatterns
from sysbags.comparators import LBPTOP, LinearSystem
from sysbags.comparators.base import Comparator

NOISE = np.random.default_rng(0).integers(0, 256, size=(5, 9, 11), dtype=np.uint8)


def test_vectors_are_histograms_of_equal_mass():
    plain, uniform = LBPTOP().vector(NOISE), LBPTOP(method="nri_uniform").vector(NOISE)
    counts = sum(PlanePatterns(method="default").masses(iter(NOISE)))
    np.testing.assert_allclose(plain, counts / counts.sum(), rtol=1e-12)
    for vector, size in ((plain, 256), (uniform, 59)):
        assert vector.shape == (3 * size,)
        np.testing.assert_allclose(vector.reshape(3, size).sum(axis=1), 1 / 3, rtol=1e-12)

    runs = [bin(code ^ (code >> 1 | (code & 1) << 7)).count("1") for code in range(256)]
    several = plain.reshape(3, 256)[:, np.array(runs) > 2].sum(axis=1)
    np.testing.assert_allclose(uniform.reshape(3, 59)[:, -1], several, rtol=1e-12)
    single = np.sort(plain.reshape(3, 256)[:, np.array(runs) <= 2], axis=1)
    np.testing.assert_allclose(np.sort(uniform.reshape(3, 59)[:, :-1], axis=1), single, rtol=1e-12)


# What all comparators share


def test_comparators_are_listed_and_say_how_they_are_used():
    assert {"LBPTOP", "PooledActivations", "SpatiotemporalEnergy"} <= set(dir(comparators))
    for name in ("LBPTOP", "PooledActivations", "SpatiotemporalEnergy"):
        method = getattr(comparators, name)
        assert issubclass(method, Comparator)
        assert isinstance(method.title, str)
        assert {"1-NN", "nearest-mean"} <= set(method.classifiers)
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
    with pytest.raises(errors.VideoError, match=r"^video 1: the video has fewer than the 3 frames that"):
        method.transform([NOISE, NOISE[:2]])
    with pytest.raises(errors.VideoError, match=r"^video 1: frames have 4 x 9 .* at least 5 x 3$"):
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


def test_names_of_features_and_tables():
    """Of comparators whose output is vectors; systems have no names of features."""
    pytest.importorskip("pandas")
    videos = np.random.default_rng(0).integers(0, 256, size=(2, 12, 40, 40), dtype=np.uint8)
    vectors = LBPTOP().fit_transform(videos)
    table = LBPTOP().set_output(transform="pandas").fit_transform(videos)
    np.testing.assert_array_equal(table.to_numpy(), vectors)
    assert table.columns[:2].tolist() == ["lbptop0", "lbptop1"]
    assert not hasattr(LinearSystem(), "set_output")
