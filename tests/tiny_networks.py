"""Small ONNX networks with slow twins in NumPy."""

from __future__ import annotations

import json

import numpy as np

SIDE, PATCH, CHANNELS = 8, 4, 5


def weights(seed=0):
    return np.random.default_rng(seed).standard_normal((CHANNELS, 3, PATCH, PATCH)).astype(np.float32)


def patches_twin(pixels, seed=0):
    """The features of the patches, (B, 2, 2, 5), of pixels (B, 3, 8, 8) by loops."""
    kernel = weights(seed).astype(np.float64)
    out = np.zeros((len(pixels), SIDE // PATCH, SIDE // PATCH, CHANNELS))
    for b, i, j, c in np.ndindex(*out.shape):
        window = pixels[b, :, i * PATCH : (i + 1) * PATCH, j * PATCH : (j + 1) * PATCH]
        out[b, i, j, c] = (window * kernel[c]).sum()
    return out


def tokens_twin(pixels, seed=0):
    """The token of the class, here the maximum of the patches, before those of the patches: (B, 1 + 4, 5)."""
    patches = patches_twin(pixels, seed).reshape(len(pixels), -1, CHANNELS)
    return np.concatenate([patches.max(axis=1, keepdims=True), patches], axis=1)


def tiny_onnx(output="tokens", seed=0, batch="batch"):
    """A convolution of 4 x 4 patches: as channels, (B, 5, 2, 2), or as tokens, (B, 1 + 4, 5)."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [helper.make_node("Conv", ["frames", "kernel"], ["map"], strides=[PATCH, PATCH])]
    if output == "tokens":
        nodes += [
            helper.make_node("Reshape", ["map", "shape"], ["flat"]),
            helper.make_node("Transpose", ["flat"], ["patches"], perm=[0, 2, 1]),
            helper.make_node("ReduceMax", ["patches"], ["class"], axes=[1], keepdims=1),
            helper.make_node("Concat", ["class", "patches"], ["tokens"], axis=1),
        ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("frames", TensorProto.FLOAT, [batch, 3, SIDE, SIDE])],
        [helper.make_empty_tensor_value_info("tokens" if output == "tokens" else "map")],
        [
            numpy_helper.from_array(weights(seed), "kernel"),
            numpy_helper.from_array(np.array([0, CHANNELS, -1]), "shape"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


def operators(*kinds, shape=("batch", 3, "height", "width"), dtype=None, **attributes):
    """A graph of operators without weights, one after the other; the attributes are those of the last."""
    from onnx import TensorProto, helper

    names = ["frames", *(f"value{k}" for k in range(len(kinds)))]
    nodes = [helper.make_node(kind, [names[k]], [names[k + 1]]) for k, kind in enumerate(kinds)]
    nodes[-1].attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    frames = helper.make_tensor_value_info("frames", dtype or TensorProto.FLOAT, shape)
    outputs = [helper.make_empty_tensor_value_info(names[-1])]
    graph = helper.make_graph(nodes, "operators", [frames], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


def tiny_module(seed=0):
    """A module of torch, the twin of `convolutions`: Conv, ReLU, Conv."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3, stride=2))


def convolutions(module=None, batch="batch"):
    """A graph with the weights of `tiny_module`: its values are conv, relu, last and pooled."""
    from onnx import TensorProto, helper, numpy_helper

    weights = [
        numpy_helper.from_array(value.detach().numpy(), name.replace(".", "_"))
        for name, value in (module or tiny_module()).state_dict().items()
    ]
    nodes = [
        helper.make_node("Conv", ["frames", "0_weight", "0_bias"], ["conv"]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("Conv", ["relu", "2_weight", "2_bias"], ["last"], strides=[2, 2]),
        helper.make_node("ReduceMean", ["last"], ["pooled"], axes=[2, 3], keepdims=0),
    ]
    frames = helper.make_tensor_value_info("frames", TensorProto.FLOAT, [batch, 3, "height", "width"])
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("last", "pooled")]
    graph = helper.make_graph(nodes, "tiny", [frames], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return model.SerializeToString()


def write_network(folder, name="tiny", output="tokens", seed=0, **fields):
    """An ONNX file with its JSON in a folder."""
    path = folder / f"{name}.onnx"
    path.write_bytes(tiny_onnx(output, seed))
    described = {"size": SIDE, "mean": [1, 2, 3], "std": 50.0, "output": output, **fields}
    path.with_suffix(".json").write_text(json.dumps(described))
    return path
