"""Activations of a network averaged over time: of the frames, and of their differences."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags.bags.base import video_name
from sysbags.bags.deep import channel_masses, signed_halves
from sysbags.bags.network_files import check_size
from sysbags.bags.networks import (
    NetworkRunner,
    check_tokens,
    describe_network,
    layer_name,
    network_identity,
)
from sysbags.comparators.base import Comparator
from sysbags.errors import ParameterError, StreamError, VideoError
from sysbags.video import Frame, Video

STREAMS = ("spatial", "temporal")
Picture = npt.NDArray[np.float32]


class PooledActivations(Comparator):
    """Features of a pretrained network averaged over a video: the idea of st-TCoF.

    The inputs of the network are the frames, ``(frame - mean) / std`` (the spatial stream), and, in a second
    run, the differences of adjacent frames, ``(next - frame) / std`` (the temporal stream). The activations
    of the channels of a layer, averaged over the picture and over time, are one vector per stream. Both are
    divided by their length and concatenated.

    This follows X. Qi, C.-G. Li, G. Zhao, X. Hong and M. Pietikainen, "Dynamic texture and scene
    classification by transferring deep image features", Neurocomputing 171, 2016 (arXiv:1502.00303), in the
    two streams, the frozen network and averages over time. It is not their method: their network is an
    older and larger one, and they take second-order statistics beside averages.

    ONNX Runtime runs the network; ``pip install 'sysbags[deep]'`` installs the required packages.

    Parameters
    ----------
    model : str, path or bytes, default="efficientnet-lite0"
        The network, as in `sysbags.bags.DeepActivations`, and its default layer, such as the 1280 channels
        before the pooling of EfficientNet-lite0; of tokens, the positive and negative parts of that of the
        class.
    batch_size : int, default=16
        Number of pictures per call of the network.
    size : int or (height, width), optional
        Frames are scaled to this size; a number means a square. By default that of the network.
    frames : mapping, optional
        Options for `sysbags.video.frames` except `size`, for instance ``{"stride": 6, "max_frames": 42}``.
        The difference is to the next frame of the video, for any stride.
    n_jobs : int, optional
        Number of threads that decode videos; the network has threads of its own.

    Examples
    --------
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(3, 48, 64, 3), dtype=np.uint8)
    >>> PooledActivations(size=64).vector(clip).shape
    (2560,)
    """

    title = "st-TCoF idea (EfficientNet-lite0)"
    classifiers = ("1-NN", "nearest-mean", "linear SVM", "logistic regression")
    metric = "cosine"
    colour = "rgb"

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes = "efficientnet-lite0",
        *,
        batch_size: int = 16,
        size: int | tuple[int, int] | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.batch_size = batch_size
        self.size = size
        self.frames = frames
        self.n_jobs = n_jobs

    def vector(self, video: Video) -> Array:
        """Turn one video into the averages of its streams, each with Euclidean norm 1."""
        name, count = video_name(video), check_integer(self.batch_size, "batch_size")
        runner = NetworkRunner(self.model, size=self.size)
        sums: dict[str, Array] = {}  # a sum and an average are the same after division by their norm
        pairs = self._pairs(video)
        while batch := list(islice(pairs, count)):
            pictures = {
                "spatial": [frame - runner.mean for frame, _ in batch],
                "temporal": [difference for _, difference in batch if difference is not None],
            }
            for stream in STREAMS:
                if pictures[stream]:
                    total = _features(pictures[stream], runner).sum(axis=0)
                    sums[stream] = sums.get(stream, 0.0) + total
        if len(sums) < len(STREAMS):
            raise VideoError(f"{name} has a single frame, but the temporal stream needs two adjacent frames")
        return np.concatenate([_direction(sums[stream], name) for stream in STREAMS])

    def cache_key(self) -> dict[str, Any]:
        """Return what identifies the network beside its name in the keys of cached results."""
        return network_identity(self.model)

    def _pairs(self, video: Video) -> Iterator[tuple[Picture, Picture | None]]:
        """Read the selected frames, each with the difference to the next frame."""
        options = {} if self.frames is None else self.frames
        if not isinstance(options, Mapping) or "size" in options:
            raise ParameterError(
                f"frames is {options!r}, but it must be a mapping of options for reading, without 'size', "
                "which is a parameter of PooledActivations"
            )
        stride, limit = check_integer(options.get("stride", 1), "stride"), options.get("max_frames")
        size = describe_network(self.model).size if self.size is None else check_size(self.size)
        frames = self.read(video, size=size, stride=1, max_frames=None)
        return islice(
            with_differences(frames, stride), None if limit is None else check_integer(limit, "max_frames")
        )


def with_differences(frames: Iterable[Frame], stride: int = 1) -> Iterator[tuple[Picture, Picture | None]]:
    """Yield every `stride`-th frame with the difference to the frame after it; None for the last frame.

    >>> clip = [np.full((1, 1), grey, np.uint8) for grey in (9, 7, 5, 6, 8)]
    >>> [(int(a[0, 0]), b if b is None else int(b[0, 0])) for a, b in with_differences(clip, 2)]
    [(9, -2), (5, 1), (8, None)]
    """
    for number, (frame, following) in enumerate(pairwise(chain(frames, (None,)))):
        if number % stride == 0 and frame is not None:
            picture = frame.astype(np.float32)
            yield picture, None if following is None else following - picture


def _features(pictures: list[Picture], runner: NetworkRunner) -> Array:
    """Return the mean activation of each channel of the layers for each picture, (pictures, channels)."""
    batch = np.ascontiguousarray((np.stack(pictures) / runner.std).transpose(0, 3, 1, 2))
    outputs = {f"{layer_name(name)} of the model": output for name, output in runner.run(batch).items()}
    for layer, output in outputs.items():
        if output.ndim == 0 or len(output) != len(batch):
            raise ParameterError(
                f"{layer} has the shape {output.shape} for {len(batch)} frames, but it must have one row per "
                "frame: name another layer"
            )
        if runner.output == "tokens" and output.ndim == 3:
            check_tokens(output, layer)
            outputs[layer] = signed_halves(output[:, 0])
    return np.concatenate([channel_masses(output, name=layer) for layer, output in outputs.items()], axis=1)


def _direction(total: Array, name: str) -> Array:
    """Divide by the Euclidean norm; zeros stay zeros."""
    length = float(np.linalg.norm(total))
    if not np.isfinite(length):
        raise StreamError(
            f"the activations for {name} are not finite, but they must be: check mean and std, and the "
            "weights of the model"
        )
    return np.asarray(total / length if length > 0.0 else total)
