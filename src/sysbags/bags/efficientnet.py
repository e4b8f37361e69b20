"""EfficientNet-lite0 as an ONNX graph, made from the weights in its package, without torch.

The weights are a file of torch from before it wrote zip archives: several pickles, then the raw numbers. The
graph is that of the original network, with batch normalisation merged into the convolutions.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from pickle import Unpickler, UnpicklingError
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags.errors import FileError

__all__ = ["CLASSES", "INPUT", "WORDS", "build_graph", "layer_names", "read_weights"]

Weights = dict[str, npt.NDArray[Any]]

INPUT = "frames"
CLASSES = "_fc"  # the scores of the 1000 classes of ImageNet, (B, 1000)
WORDS = "words"  # their probabilities at each position, (B, 1000, h, w)

MAGIC = 0x1950A86A20F9469CFC6C
STORAGES = {"FloatStorage": "<f4", "LongStorage": "<i8"}
EPSILON = 1e-3  # of batch normalisation

# The numbers of blocks and the strides of the stages of the network; the weights say all else.
STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
STRIDES = tuple(stride if k == 0 else 1 for count, stride in STAGES for k in range(count))
FIRST_BLOCKS = frozenset(accumulate((count for count, _ in STAGES[:-1]), initial=0))


class _Tensor(NamedTuple):
    """Where a tensor is: the key of its storage, the first entry, the lengths and the strides."""

    key: str
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _WeightsUnpickler(Unpickler):
    """Reads tensors and nothing else.

    A pickle can only do something by calling what `find_class` returns. This one returns four harmless names
    and refuses all others, so that no code in the file can run.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the names that a file of weights needs."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, first, shape, strides, *_: _Tensor(storage[0], first, shape, strides)
        if module == "torch" and name in STORAGES:
            return np.dtype(STORAGES[name])
        raise UnpicklingError(f"{module}.{name} is not a part of a file of weights")

    def persistent_load(self, pid: Any) -> tuple[str, np.dtype[Any], int]:
        """Return the key, the dtype and the length of a storage, whose numbers follow after the pickles."""
        kind, dtype, key, _, length, _ = pid
        if kind != "storage" or not isinstance(dtype, np.dtype):
            raise UnpicklingError(f"{kind!r} is not a part of a file of weights")
        self.storages[key] = dtype, length
        return key, dtype, length

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, tuple[np.dtype[Any], int]] = {}


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """Read the tensors of a file of torch from before version 1.6; no code in it is run.

    The file has five pickles: a magic number, the version of the protocol, facts about the machine, the
    tensors by name, and the keys of the storages. For each key there follow the length and the raw numbers.
    """
    try:
        with open(path, "rb") as file:
            magic, protocol, machine = (_WeightsUnpickler(file).load() for _ in range(3))
            if magic != MAGIC or protocol != 1001 or not machine["little_endian"]:
                raise UnpicklingError("it begins otherwise")
            reader = _WeightsUnpickler(file)
            tensors, keys = reader.load(), _WeightsUnpickler(file).load()
            numbers = {key: _storage(file, *reader.storages[key]) for key in keys}
        return {name: _tensor(numbers[tensor.key], tensor) for name, tensor in tensors.items()}
    except OSError as error:
        raise FileError(f"cannot read the weights {path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged file may raise any exception
        raise FileError(f"{path} is not a file of weights: {error}") from error


def _storage(file: BinaryIO, dtype: np.dtype[Any], length: int) -> npt.NDArray[Any]:
    if int.from_bytes(file.read(8), "little") != length:
        raise UnpicklingError("a storage has another length than its tensors")
    return np.frombuffer(file.read(length * dtype.itemsize), dtype, length)


def _tensor(numbers: npt.NDArray[Any], tensor: _Tensor) -> npt.NDArray[Any]:
    """Return a copy of the entries of a tensor; its strides count entries, not bytes."""
    shape, strides = tensor.shape, tensor.strides
    last = tensor.first + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    if min((tensor.first, *strides)) < 0 or min(shape, default=1) < 1 or last >= len(numbers):
        raise UnpicklingError("a tensor reaches beyond its storage")
    steps = [stride * numbers.itemsize for stride in strides]
    return np.array(np.lib.stride_tricks.as_strided(numbers[tensor.first :], shape, steps))


def build_graph(weights: Weights, size: tuple[int, int], outputs: Sequence[str]) -> bytes:
    """Return the ONNX model of EfficientNet-lite0 for frames of a size, (B, 3, height, width).

    The padding is that of TensorFlow, which depends on the size; it is the same for all sizes that are
    multiples of 32. The values inside have the names of the layers in the package efficientnet_lite_pytorch:
    ``_blocks.0`` to ``_blocks.15`` are the outputs of the blocks, ``_swish`` the 1280 channels before the
    pooling and ``_fc`` the scores of the classes. ``words`` are the probabilities of the classes at each
    position.

    Parameters
    ----------
    weights : dict of arrays
    size : tuple of int
        Height and width of the frames.
    outputs : sequence of str
        The values that are outputs of the graph.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: Weights = {"zero": np.array(0.0, np.float32), "six": np.array(6.0, np.float32)}
    sides: tuple[int, ...] = size

    def add(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolve(value: str, layer: str, normalisation: str, stride: int = 1) -> str:
        nonlocal sides
        kernel, bias = _merged(weights, layer, normalisation)
        constants[f"{layer}.weight"], constants[f"{layer}.bias"] = kernel, bias
        before, after, sides = zip(*(_same(side, kernel.shape[2], stride) for side in sides), strict=True)
        return add(
            "Conv",
            [value, f"{layer}.weight", f"{layer}.bias"],
            normalisation,
            strides=[stride, stride],
            pads=[*before, *after],
            group=len(kernel) if kernel.shape[1] == 1 else 1,
        )

    def relu6(value: str, output: str | None = None) -> str:
        return add("Clip", [value, "zero", "six"], output or f"{value}.relu6")

    value = relu6(convolve(INPUT, "_conv_stem", "_bn0", stride=2))
    for number, stride in enumerate(STRIDES):
        block, entry = f"_blocks.{number}", value
        if f"{block}._expand_conv.weight" in weights:
            value = relu6(convolve(value, f"{block}._expand_conv", f"{block}._bn0"))
        filtered = convolve(value, f"{block}._depthwise_conv", f"{block}._bn1", stride)
        value = relu6(filtered, f"{block}._swish")
        value = convolve(value, f"{block}._project_conv", f"{block}._bn2")
        # The first block of a stage changes the number of channels, so it has nothing to add.
        inner = number not in FIRST_BLOCKS
        value = add("Add", [value, entry], block) if inner else add("Identity", [value], block)
    value = relu6(convolve(value, "_conv_head", "_bn1"), "_swish")
    classes = weights["_fc.weight"]
    constants |= {"_fc.weight": classes, "_fc.bias": weights["_fc.bias"], "places": classes[:, :, None, None]}
    pooled = add("Flatten", [add("GlobalAveragePool", [value], "_avg_pooling")], "flat")
    add("Gemm", [pooled, "_fc.weight", "_fc.bias"], CLASSES, transB=1)
    add("Softmax", [add("Conv", [value, "places", "_fc.bias"], "scores")], WORDS, axis=1)
    graph = helper.make_graph(
        nodes,
        "efficientnet-lite0",
        # The size has names, so that frames of other sizes with the same padding are accepted.
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", 3, "height", "width"])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    # Versions that every supported onnxruntime reads.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


def layer_names() -> list[str]:
    """Return the names of the values of the graph that have the meaning of a layer."""
    parts = ("_bn0", "_bn1", "_swish", "_bn2")
    blocks = [f"_blocks.{number}" for number in range(len(STRIDES))]
    inside = [f"{block}.{part}" for block in blocks for part in parts if (block, part) != (blocks[0], "_bn0")]
    return ["_bn0", *inside, *blocks, "_bn1", "_swish", "_avg_pooling", CLASSES, WORDS]


def _merged(
    weights: Weights, layer: str, normalisation: str
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the kernel and the bias of a convolution with the batch normalisation after it."""
    scale, shift, mean, variance = (
        weights[f"{normalisation}.{name}"].astype(np.float64)
        for name in ("weight", "bias", "running_mean", "running_var")
    )
    factor = scale / np.sqrt(variance + EPSILON)
    kernel = weights[f"{layer}.weight"] * factor[:, None, None, None]
    return kernel.astype(np.float32), (shift - mean * factor).astype(np.float32)


def _same(side: int, kernel: int, stride: int) -> tuple[int, int, int]:
    """Return the padding before and after, and the length of the output, of TensorFlow's "same" padding."""
    length = -(-side // stride)
    total = max((length - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2, length
