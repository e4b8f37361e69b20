"""EfficientNet-lite0 as an ONNX graph, made from the weights in its package, without torch.

The weights are a file of torch from before it wrote zip archives: several pickles, then the raw numbers. Only
torch could convert it. As its checksum is known, it is read by its layout, and no pickle is loaded. The graph
is that of the original network, with batch normalisation merged into the convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from pickletools import genops
from typing import Any

import numpy as np
import numpy.typing as npt

Weights = dict[str, npt.NDArray[Any]]

INPUT = "frames"
CLASSES = "_fc"  # the scores of the 1000 classes of ImageNet, (B, 1000)
WORDS = "words"  # their probabilities at each position, (B, 1000, h, w)

EPSILON = 1e-3  # of batch normalisation

# The numbers of blocks and the strides of the stages of the network; the weights say all else.
STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
STRIDES = tuple(stride if k == 0 else 1 for count, stride in STAGES for k in range(count))
FIRST_BLOCKS = frozenset(accumulate((count for count, _ in STAGES[:-1]), initial=0))


def read_weights(path: Path) -> Weights:
    """Read the tensors of the file in the package, whose checksum the caller has compared.

    Of its five pickles the fourth describes the tensors: a name, the key and the length of a storage, the
    first entry, the shape and the strides. The fifth has the keys in the order in which the lengths and the
    raw numbers of the storages follow. Pickles are taken apart, but not loaded.
    """
    with path.open("rb") as file:
        pickles = [[(code.name, value) for code, value, _ in genops(file)] for _ in range(5)]
        places: dict[str, tuple[str, list[int]]] = {}
        texts: list[Any] = []
        numbers: list[Any] = []
        for code, value in pickles[3]:
            if code == "BINUNICODE" and value not in ("storage", "cpu"):
                texts.append(value)
            elif code.startswith("BININT"):
                numbers.append(value)
            elif code == "NEWFALSE":  # the last part of a tensor: it needs no gradient
                name, key = texts
                places[key] = name, numbers[2:]
                texts, numbers = [], []
        weights = {}
        for name, sizes in (places[str(value)] for code, value in pickles[4] if code == "BINUNICODE"):
            shape, strides = sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]
            dtype = np.dtype("<f4" if shape else "<i8")  # numbers without a shape are counters
            raw = file.read(dtype.itemsize * int.from_bytes(file.read(8), "little"))
            steps = [dtype.itemsize * stride for stride in strides]
            weights[name] = np.array(np.lib.stride_tricks.as_strided(np.frombuffer(raw, dtype), shape, steps))
    return weights


def build_graph(weights: Weights, size: tuple[int, int], outputs: Sequence[str]) -> bytes:
    """Return the ONNX model of EfficientNet-lite0 for frames of a size, (B, 3, height, width).

    The padding is that of TensorFlow, which depends on the size; it is the same for all sizes that are
    multiples of 32. The values inside have the names of the layers in the package efficientnet_lite_pytorch:
    ``_blocks.0`` to ``_blocks.15`` are the outputs of the blocks, ``_swish`` the 1280 channels before the
    pooling and ``_fc`` the scores of the classes. ``words`` are the probabilities of the classes at each
    position. `outputs` names the values that are outputs of the graph.
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
