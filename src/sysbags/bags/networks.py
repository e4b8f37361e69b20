"""Run a network on batches of frames and return the outputs of its layers.

A network has a name (`sysbags.bags.network_files`) or is an ONNX file; ONNX Runtime runs it. onnxruntime and
onnx are imported where they are used, because they belong to an extra.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.validation import check_choice
from sysbags.bags.efficientnet import CLASSES, WORDS, build_graph, layer_names, read_weights
from sysbags.bags.network_files import (
    OUTPUTS,
    NetworkFile,
    check_colours,
    check_size,
    checksum,
    find_network,
    is_name,
    known_checksum,
    known_networks,
    need,
    read_description,
    verified_path,
)
from sysbags.errors import ParameterError
from sysbags.video import Frame

Batch = npt.NDArray[np.float32]
Network = Callable[[Batch], dict[str, npt.NDArray[Any]]]

PLAIN, WITH_WORDS = "efficientnet-lite0", "efficientnet-lite0-words"

# One batch at a time: ONNX Runtime has threads of its own, so that more would cost memory and gain nothing.
_LOCK = threading.Lock()


class NetworkRunner:
    """A network with its preprocessing: from frames to the outputs of its layers by name.

    `model` is a name (see ``sysbags models``), or an ONNX file or its bytes. `layers` are by default those of
    the description of the network, or its (first) output; `size` (height and width), `mean`, `std` and
    `output` are by default those of its name, or of the JSON file beside an ONNX file. Others have the size
    224, the mean 127 and the standard deviation 128, and their outputs are channels.

    >>> runner = NetworkRunner("efficientnet-lite0", size=64)
    >>> outputs = runner(np.zeros((2, 64, 64, 3), np.uint8))
    >>> {name: output.shape for name, output in outputs.items()}
    {'_swish': (2, 1280, 2, 2)}
    """

    def __init__(
        self,
        model: Any,
        layers: str | Sequence[str] | None = None,
        *,
        size: Any = None,
        mean: Any = None,
        std: Any = None,
        output: str | None = None,
    ) -> None:
        own = describe_network(model)
        self.size = own.size if size is None else check_size(size)
        self.mean = np.array(check_colours(own.mean if mean is None else mean, "mean"), np.float32)
        self.std = np.array(check_colours(own.std if std is None else std, "std", True), np.float32)
        self.output = own.output if output is None else output
        check_choice(self.output, "output", OUTPUTS)
        self.run = network(model, check_layers(layers), self.size)

    def __call__(self, frames: Sequence[Frame] | npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs of the layers for RGB frames of the size, by the names of the layers."""
        pixels = np.asarray(frames).astype(np.float32)
        pixels -= self.mean  # in place, as a batch is large
        pixels /= self.std
        return self.run(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))


def patch_features(
    activations: npt.NDArray[Any], output: str = "channels", *, name: str = "the layer"
) -> npt.NDArray[Any]:
    """Return the features of each patch of the frames, (B, h, w, C).

    The patches of channels, (B, C, h, w), are the positions of the feature map; those of tokens,
    (B, 1 + h * h, C), are all but the first token. `name` is for error messages.
    """
    if output == "tokens":
        check_tokens(activations, name)
        side = round((activations.shape[1] - 1) ** 0.5)
        return activations[:, 1:].reshape(len(activations), side, side, -1)
    if activations.ndim != 4:
        raise ParameterError(
            f"{name} has the shape {activations.shape}, but patches need (frames, channels, height, width): "
            "name another layer"
        )
    return activations.transpose(0, 2, 3, 1)


def check_tokens(activations: npt.NDArray[Any], name: str) -> None:
    """Raise an error unless an output has the tokens of a class and of a square grid of patches."""
    patches = activations.shape[1] - 1 if activations.ndim == 3 else 0
    if patches < 1 or round(patches**0.5) ** 2 != patches or 0 in activations.shape:
        raise ParameterError(
            f"{name} has the shape {activations.shape}, but tokens must be (frames, 1 + patches, channels) "
            "with a square grid of patches: name another layer, or use output='channels'"
        )


def describe_network(model: Any) -> NetworkFile:
    """Return the preprocessing of a network and the shape of its outputs; defaults for one without name."""
    if _is_onnx_path(model):
        return read_description(Path(model)) or NetworkFile()
    if isinstance(model, str):
        entry = find_network(model)
        if entry is None:
            raise _unknown(model)
        return entry
    return NetworkFile()


def default_layers(model: Any) -> tuple[str, ...]:
    """Return the layer of a network that is used by default; "" is its output."""
    return (describe_network(model).layer,)


def network(model: Any, layers: tuple[str, ...] | None, size: tuple[int, int]) -> Network:
    """Return a function from a batch, (B, 3, height, width), to the outputs of the layers by name.

    The layers are by default those of `default_layers`; "" is the output. EfficientNet-lite0 is built for
    the size.
    """
    if isinstance(model, bytes):
        return _onnx_network(model, None, layers or ("",))
    if _is_onnx_path(model):
        return _file_network(Path(model), layers or ("",))
    if isinstance(model, str):
        entry, names = describe_network(model), layers or default_layers(model)
        path = verified_path(entry)
        if entry.package is None:
            return _file_network(path, names)
        return _lite0_network(path, model, names, size)
    raise _unknown(model)


def check_saved(model: Any, saved: Mapping[str, str]) -> None:
    """Raise an error if a network is not the one that a model was made with, by the `saved` checksums."""
    expected = saved.get(model) if isinstance(model, str) else None
    found = known_checksum(str(model)) if expected else None
    if expected and found and found != expected:
        raise ParameterError(
            f"the model was made with a file of the network {model} whose checksum begins with "
            f"{expected[:12]}, but that of this machine begins with {found[:12]}: add the former with "
            f"sysbags models add {model} FILE, or make the model again"
        )


def check_network(path: Path, entry: NetworkFile) -> None:
    """Raise an error unless ONNX Runtime runs a file, and its output fits its description."""
    black = np.zeros((1, 3, *entry.size), np.float32)
    ((name, output),) = _file_network(path, (entry.layer,))(black).items()
    what = f"{layer_name(name)} of the network"
    if entry.output == "tokens":
        check_tokens(output, what)
    elif output.ndim not in (2, 4):
        raise ParameterError(
            f"{what} has the shape {output.shape}, but channels must be (frames, channels) or (frames, "
            "channels, height, width): is the output tokens?"
        )


def network_identity(model: Any) -> dict[str, Any]:
    """Return what identifies a network beside the parameter `model`: nothing, unless its file may change."""
    if isinstance(model, str) and _is_onnx_path(model):
        return {"network": checksum(Path(model))}
    if isinstance(model, str):
        registered, found = describe_network(model).sha256, known_checksum(model)
        return {} if found in (None, registered) else {"network": found}
    return {}


def backbone(model: Any) -> Any:
    """Return the plain network that has the same layers: that of "efficientnet-lite0-words" has no words."""
    return PLAIN if model == WITH_WORDS else model


def _is_onnx_path(model: Any) -> bool:
    return isinstance(model, (str, os.PathLike)) and os.fspath(model).lower().endswith(".onnx")


def _unknown(model: Any) -> ParameterError:
    description = repr(model) if isinstance(model, (str, os.PathLike)) else f"of type {type(model).__name__}"
    return ParameterError(
        f"model is {description}, but it must be {', '.join(map(repr, known_networks()))}, "
        "the path of a file that ends in .onnx, or the bytes of one"
        + (f"; sysbags models add {model} FILE adds a network" if is_name(model) else "")
    )


def _lite0_network(path: Path, name: str, layers: tuple[str, ...], size: tuple[int, int]) -> Network:
    values = {layer: layer or (WORDS if name == WITH_WORDS else CLASSES) for layer in layers}
    _check_layers(values.values(), layer_names())
    need("onnxruntime")
    return _session_network(_lite0_session(path, size, tuple(sorted(set(values.values())))), values)


@lru_cache(maxsize=2)  # each has the weights and the memory of a batch
def _lite0_session(path: Path, size: tuple[int, int], outputs: tuple[str, ...]) -> Any:
    need("onnx")
    return _open_session(build_graph(read_weights(path), size, outputs), PLAIN)


def _file_network(path: Path, layers: tuple[str, ...]) -> Network:
    try:
        stamp = path.stat()
    except OSError as error:
        raise ParameterError(f"model is {path}, which cannot be read: {error.strerror or error}") from None
    return _onnx_network(str(path), (stamp.st_mtime_ns, stamp.st_size), layers)


def _onnx_network(source: str | bytes, stamp: tuple[int, int] | None, layers: tuple[str, ...]) -> Network:
    need("onnxruntime")
    session, output = _session(source, stamp, layers)
    return _session_network(session, {layer: layer or output for layer in layers})


def _session_network(session: Any, values: Mapping[str, str]) -> Network:
    """Return the network of a session; `values` has the name in the graph for each layer."""
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
            missing = step - len(part)
            filled = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part
            try:
                with _LOCK:
                    outputs = session.run(list(values.values()), {inputs[0].name: filled})
            except Exception as error:  # the exceptions of onnxruntime have no common base class
                raise ParameterError(
                    f"the model does not accept frames as float32 of shape {batch.shape}: "
                    f"{_first_line(error)}"
                ) from error
            for name, output in zip(values, outputs, strict=True):
                if not isinstance(output, np.ndarray) or output.ndim == 0:
                    raise ParameterError(
                        f"{layer_name(name)} of the model gives no array, but it must give one tensor with "
                        "one row per frame: name another layer"
                    )
            parts.append([output[: len(part)] for output in outputs])
        return {
            name: pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            for name, *pieces in zip(values, *parts, strict=True)
        }

    return run


@lru_cache(maxsize=2)  # each has the weights and the memory of a batch
def _session(source: str | bytes, stamp: tuple[int, int] | None, layers: tuple[str, ...]) -> tuple[Any, str]:
    """Open an ONNX model, and return it with the name of its first output.

    The stamp is part of the cache key, so that a changed file is read again.
    """
    name = source if isinstance(source, str) else "bytes"
    session = _open_session(source, name)
    outputs = [output.name for output in session.get_outputs()]
    if not {layer for layer in layers if layer} <= set(outputs):
        session = _open_session(_with_outputs(source, layers, outputs), name)
    return session, outputs[0]


def _open_session(model: str | bytes, name: str) -> Any:
    onnxruntime = need("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its messages are also in the exceptions
    options.intra_op_num_threads = _cores()
    options.enable_mem_pattern = False  # less memory
    # Threads that wait in a loop would take time from those that decode videos.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ParameterError(
            f"model is {name}, but that is no ONNX model that onnxruntime can run: {_first_line(error)}"
        ) from error


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


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
    wanted = [name for name in dict.fromkeys(layers) if name]
    _check_layers(wanted, inside)
    for name in wanted:
        if name not in outputs:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return bytes(model.SerializeToString())


def _check_layers(layers: Iterable[str], known: list[str]) -> None:
    for name in layers:
        if name not in known:
            examples = ", ".join(map(repr, known[-5:]))
            raise ParameterError(f"the model has no layer {name!r}: its layers are, for instance, {examples}")


def layer_name(name: str) -> str:
    """Return the name of a layer in error messages."""
    return f"layer {name!r}" if name else "the output"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def check_layers(layers: Any) -> tuple[str, ...] | None:
    """Return the names of one layer or several; None for the default of the network."""
    if layers is None or isinstance(layers, str):
        return None if layers is None else (layers,)
    names = tuple(layers) if isinstance(layers, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError(f"layers is {layers!r}, but it must be a name, several different names or None")
    return names
