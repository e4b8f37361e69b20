import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from clips import moving_frames, write_clip
from sysbags import bags as kinds
from sysbags._common.cache import Cache
from sysbags.bags import Concatenated
from sysbags.bags.base import BagTransformer
from sysbags.errors import ParameterError, StreamError, VideoError
from sysbags.evaluate.features import ClipFeatures

CLIP = moving_frames(7)


class Levels(BagTransformer):
    """Histogram of grey levels; `drop` leaves out rows, as flow does."""

    def __init__(self, bins=4, drop=0, *, window=1, step=None, frames=None, n_jobs=None):
        self.bins = bins
        self.drop = drop
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames):
        rows = [np.histogram(frame, bins=self.bins, range=(0, 256))[0].astype(float) for frame in frames]
        return rows[: len(rows) - self.drop]


class Learnt(Levels):
    """The same around the mean of what it was fitted on."""

    requires_fit = True

    def fit(self, videos, labels=None):
        self.level_ = float(np.mean([frame.mean() for video in videos for frame in self.read(video)]))
        return self

    def masses(self, frames):
        check_is_fitted(self, "level_")
        return [np.array([(frame < self.level_).sum(), (frame >= self.level_).sum()]) for frame in frames]


def test_rows_side_by_side():
    bags = Concatenated([Levels(4), Levels(6)], weights=[3, 1])
    stream = bags.stream(CLIP)
    expected = np.hstack([0.75 * Levels(4).stream(CLIP), 0.25 * Levels(6).stream(CLIP)])
    np.testing.assert_allclose(stream, expected, rtol=1e-15)
    np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-14)


def test_weights_are_equal_by_default():
    stream = Concatenated((Levels(2), Levels(3), Levels(5))).stream(CLIP)
    assert stream.shape == (7, 10)
    for part in (stream[:, :2], stream[:, 2:5], stream[:, 5:]):
        np.testing.assert_allclose(part.sum(axis=1), 1.0 / 3.0, rtol=1e-14)


def test_one_member_is_itself():
    np.testing.assert_array_equal(Concatenated([Levels()], [7.0]).stream(CLIP), Levels().stream(CLIP))


def test_members_keep_their_windows_and_frames():
    options = {"window": 2, "frames": {"start": 1}}
    stream = Concatenated([Levels(2, **options), Levels(3, **options)]).stream(CLIP)
    assert stream.shape == (3, 5)
    np.testing.assert_allclose(2.0 * stream[:, :2], Levels(2, **options).stream(CLIP), rtol=1e-15)


def test_one_row_less_is_cut_at_the_end():
    stream = Concatenated([Levels(), Levels(3, drop=1)]).stream(CLIP)
    assert len(stream) == 6
    np.testing.assert_allclose(2.0 * stream[:, :4], Levels().stream(CLIP)[:6], rtol=1e-15)


def test_different_numbers_of_rows():
    with pytest.raises(StreamError, match="streams of 7, 4 and 7 rows, but these must be equal: give"):
        Concatenated([Levels(), Levels(frames={"stride": 2}), Levels()]).stream(CLIP)
    with pytest.raises(StreamError, match="video 1: the bags of Concatenated give streams of 7 and 5 rows"):
        Concatenated([Levels(), Levels(frames={"max_frames": 5})]).transform([CLIP[:3], CLIP])


def test_iterators_are_read_once():
    bags = Concatenated([Levels(2), Levels(3)])
    expected = bags.stream(CLIP)
    np.testing.assert_array_equal(bags.stream(iter(CLIP)), expected)
    np.testing.assert_array_equal(bags.stream(frame for frame in CLIP), expected)
    np.testing.assert_array_equal(bags.transform([iter(CLIP)])[0], expected)


def test_fit_transform_of_iterators():
    learnt = Concatenated([Learnt(), Levels(), Learnt()])
    streams = learnt.fit_transform([iter(CLIP), iter(CLIP[:5])])
    expected = clone(learnt).fit([CLIP, CLIP[:5]]).transform([CLIP, CLIP[:5]])
    assert [len(stream) for stream in streams] == [7, 5]
    for a, b in zip(streams, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_fit_leaves_the_members_given_alone():
    members = [Learnt(), Levels()]
    bags = Concatenated(members)
    with pytest.raises(NotFittedError):
        bags.stream(CLIP)
    with pytest.raises(NotFittedError):
        check_is_fitted(bags)
    assert bags.fit([CLIP]) is bags
    check_is_fitted(bags)
    assert bags.bags is members
    assert not hasattr(members[0], "level_")
    assert bags.bags_[0].level_ == pytest.approx(CLIP.mean(), rel=1e-12)
    np.testing.assert_allclose(2.0 * bags.stream(CLIP)[:, :2], Learnt().fit([CLIP]).stream(CLIP), rtol=1e-15)


def test_members_that_need_or_have_had_no_fitting():
    check_is_fitted(Concatenated([Levels()]))
    fitted = Concatenated([Learnt().fit([CLIP]), Levels()])
    check_is_fitted(fitted)
    assert fitted.stream(CLIP).shape == (7, 6)


def test_nested_parameters():
    bags = Concatenated([Levels(2), Concatenated([Levels(3)])], weights=(1, 2))
    params = bags.get_params()
    assert params["0__bins"] == 2
    assert params["1__0__bins"] == 3
    assert set(bags.get_params(deep=False)) == {"bags", "weights", "n_jobs"}
    assert bags.set_params(**{"0__bins": 5, "1__0__bins": 7, "weights": None}) is bags
    assert bags.stream(CLIP).shape == (7, 12)
    bags.set_params(**{"1": Levels(4), "1__drop": 1})
    assert (bags.bags[1].bins, bags.bags[1].drop) == (4, 1)
    bags.set_params(**{"bags": [Levels(8), Levels(8)], "1__bins": 9})
    assert bags.stream(CLIP).shape == (7, 17)
    with pytest.raises(ParameterError, match="there is no bag or parameter 2, but the bags are 0, 1 and the"):
        bags.set_params(**{"2": Levels()})
    with pytest.raises(ValueError, match="Invalid parameter 'wrong'"):
        bags.set_params(**{"0__wrong": 1})


def test_a_grid_of_nested_parameters_in_a_pipeline():
    pipeline = Pipeline([("bags", Concatenated([Levels(), Levels()]))])
    shapes = []
    for point in ParameterGrid({"bags__0__bins": [2, 3], "bags__1__bins": [10]}):
        candidate = clone(pipeline).set_params(**point)
        shapes.append(candidate.fit_transform([CLIP])[0].shape)
    assert shapes == [(7, 12), (7, 13)]
    assert pipeline["bags"].bags[0].bins == 4


def test_clone_pickle_and_hash():
    bags = Concatenated([Learnt(), Levels(3)], weights=[0.2, 0.8]).fit([CLIP])
    stream = bags.stream(CLIP)
    before = joblib.hash(bags)
    bags.stream(CLIP)
    assert joblib.hash(bags) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(bags)).stream(CLIP), stream)
    copy = clone(bags)
    assert not hasattr(copy, "bags_")
    assert copy.bags[0] is not bags.bags[0]
    assert copy.bags[1].bins == 3
    np.testing.assert_array_equal(copy.fit([CLIP]).stream(CLIP), stream)


def test_threads_change_nothing():
    clips = [moving_frames(4, seed=seed) for seed in range(5)]
    first, second = (Concatenated([Levels(), Levels(9)], n_jobs=jobs).transform(clips) for jobs in (1, 2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("bags", [[], None, Levels(), [Levels(), "lbp"], "lbp"])
def test_members_that_are_none(bags):
    with pytest.raises(ParameterError, match=r"bags is .*, but it must be a list of bags, for instance"):
        Concatenated(bags).stream(CLIP)
    with pytest.raises(ParameterError, match="bags is "):
        Concatenated(bags).fit([CLIP])


def test_a_single_video_is_not_several():
    with pytest.raises(ParameterError, match="put a single one in a list"):
        Concatenated([Levels()]).fit("clip.mp4")
    with pytest.raises(ParameterError, match="put a single one in a list"):
        Concatenated([Levels()]).fit_transform(CLIP)


@pytest.mark.parametrize("weights", [[1], [1, 0], [1, -1], [1, np.nan], [1, np.inf], "ab", 2.0, [[1, 1]]])
def test_weights_that_are_none(weights):
    with pytest.raises(ParameterError, match=r"weights is .*, but it must be 2 numbers above 0, one"):
        Concatenated([Levels(), Levels()], weights).stream(CLIP)


def test_real_members_on_a_file(tmp_path):
    path = write_clip(tmp_path / "clip.mp4", moving_frames(8, 64, 80))
    words = kinds.VisualWords(words=5, descriptor="sift", sampling="grid")
    members = Concatenated([kinds.LocalBinaryPatterns(), kinds.OpticalFlow(), words], weights=[2, 1, 1])
    with pytest.raises(NotFittedError):
        members.stream(path)
    stream = members.fit([path]).stream(path)
    assert len(stream) == 7
    np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        2.0 * stream[:, :256], kinds.LocalBinaryPatterns().stream(path)[:7], rtol=1e-12
    )
    with pytest.raises(VideoError, match="gone"):
        members.transform([path, tmp_path / "gone.mp4"])


def test_it_requires_fit_if_a_member_does():
    assert not Concatenated([Levels(), kinds.OpticalFlow()]).requires_fit
    assert Concatenated([Levels(), kinds.VisualWords()]).requires_fit
    assert Concatenated([Concatenated([Learnt()]), Levels()]).requires_fit
    check_is_fitted(Concatenated([Levels()]))
    with pytest.raises(NotFittedError):
        check_is_fitted(Concatenated([Learnt()]))


def test_what_was_learnt_as_arrays():
    nested = Concatenated([Levels(), Concatenated([Learnt(), Learnt()])])
    fitted = clone(nested).fit([CLIP])
    arrays = fitted.fitted_arrays()
    assert sorted(arrays) == ["1/0/level_", "1/1/level_"]
    copy = clone(nested).set_fitted_arrays(arrays)
    np.testing.assert_array_equal(copy.stream(CLIP), fitted.stream(CLIP))
    assert type(copy.bags_[1].bags_[0].level_) is float


@pytest.mark.parametrize("member", [kinds.OpticalFlow(), kinds.VisualWords(4, "sift", fit_stride=1)])
def test_an_evaluation_describes_clips_by_it(tmp_path, member):
    """Once where nothing is learnt; else by three codebooks, each learnt without a third, also from disk."""
    paths = [write_clip(tmp_path / f"{k}.mkv", moving_frames(4, 40, 48, seed=k)) for k in range(3)]
    bags, folds = Concatenated([Levels(), member]), np.arange(3)
    features = ClipFeatures(paths, folds, Cache(tmp_path / "cache"), 1)
    first = features.good_streams(bags)
    assert len(first) == (3 if bags.requires_fit else 1)
    for k, streams in enumerate(first):
        fitted = clone(bags).fit([path for path, fold in zip(paths, folds, strict=True) if fold != k])
        np.testing.assert_array_equal(streams[0], fitted.stream(paths[0]))
    for streams, again in zip(first, features.good_streams(bags), strict=True):
        np.testing.assert_array_equal(streams, again)
