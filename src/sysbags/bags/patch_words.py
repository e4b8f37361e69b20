"""Visual words of the patches of a network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sysbags._common.types import Array
from sysbags._common.validation import check_matrix
from sysbags.bags.deep import Counter, NetworkBags, Outputs, network_outputs
from sysbags.bags.networks import layer_name, patch_features
from sysbags.bags.words import CodebookBags, Descriptors, check_positive, word_masses
from sysbags.errors import ParameterError
from sysbags.video import Frame, Video


class PatchWords(NetworkBags, CodebookBags):
    """Turn a video into histograms of the patches of a network over the words of a codebook.

    A network describes each patch of a frame: each position of a feature map, or each token of a transformer
    such as ``model="dinov2-small"``, which has 16 x 16 patches of 384 numbers. `fit` learns a codebook: the
    `words` cluster centers of the patches of the training videos, by k-means. Patches and words are scaled to
    length 1. The bag of a frame is how its patches are shared among the words: each patch is divided among
    all words in proportion to ``exp(cosine / temperature)``, where the cosine is that of the angle between
    patch and word. A patch of zeros has no direction and is left out; a bag without any patch is uniform.

    With `DeepActivations` of the same network and reading options, in a `BagUnion` for example, the network
    runs once per frame for both.

    ONNX Runtime runs the network; ``pip install 'sysbags[deep]'`` installs the required packages.

    Parameters
    ----------
    words : int, default=512
    model : str, path or bytes, default="efficientnet-lite0"
        The network, as for `DeepActivations`.
    temperature : float or None, default=0.05
        The smaller, the more of a patch goes to its nearest word. None is hard assignment: all of it.
    samples : int, default=60000
        Maximal number of patches that the codebook is learnt from, drawn in equal parts from the videos.
    layers : str, optional
        The name of a layer, as for `DeepActivations`. Its output is (frames, channels, height, width) or, for
        tokens, (frames, tokens, channels). By default that of the network; some networks average over the
        picture there, and need the name of a layer before.
    batch_size, size, keep_aspect, mean, std, output : optional
        As for `DeepActivations`.
    random_state : int, Generator or None, default=0
        For the sample and the start of k-means.
    fit_stride : int, default=1
        `fit` uses every `fit_stride`-th of the frames that are read.
    window, step : int, default=1, None
        Pool `window` frames into one bag, every `step` frames; the step is by default the window.
    frames : mapping, optional
        Options for `sysbags.video.frames` except `size`, for instance ``{"stride": 6, "max_frames": 42}``.
    n_jobs : int, optional
        Number of threads that decode videos; the network has threads of its own.

    Attributes
    ----------
    words_ : (words, channels) array of float32
        The codebook; each word has length 1.

    Examples
    --------
    >>> import numpy as np
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(3, 48, 64, 3), dtype=np.uint8)
    >>> bags = PatchWords(words=5, size=96).fit([clip])  # 3 x 3 patches in each frame
    >>> bags.words_.shape, bags.stream(clip).shape
    ((5, 1280), (3, 5))
    """

    local = "patches"

    def __init__(
        self,
        words: int = 512,
        model: str | os.PathLike[str] | bytes = "efficientnet-lite0",
        *,
        temperature: float | None = 0.05,
        samples: int = 60_000,
        layers: str | None = None,
        batch_size: int = 16,
        size: int | tuple[int, int] | None = None,
        keep_aspect: bool = False,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        output: str | None = None,
        random_state: int | np.random.Generator | None = 0,
        fit_stride: int = 1,
        window: int = 1,
        step: int | None = None,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.words = words
        self.model = model
        self.temperature = temperature
        self.samples = samples
        self.layers = layers
        self.batch_size = batch_size
        self.size = size
        self.keep_aspect = keep_aspect
        self.mean = mean
        self.std = std
        self.output = output
        self.random_state = random_state
        self.fit_stride = fit_stride
        self.window = window
        self.step = step
        self.frames = frames
        self.n_jobs = n_jobs

    def fit(self, videos: Sequence[Video], y: Any = None) -> PatchWords:
        """Learn the codebook. An iterator of frames is consumed."""
        self._bandwidth()  # checked before the network runs
        return super().fit(videos, y)

    def learn(self, sample: Descriptors, centers: Array) -> PatchWords:
        """Set the codebook: the centers, scaled to length 1."""
        self.words_ = unit_rows(centers)
        return self

    def codebook(self) -> tuple[npt.NDArray[np.float32], float | None]:
        """Return the words, and the bandwidth of soft assignment; None is hard assignment."""
        check_is_fitted(self)
        words = check_matrix(self.words_, "words_", (None, None), "(K, d): one row per word")
        return words.astype(np.float32), self._bandwidth()

    def layer_names(self) -> tuple[str, ...]:
        """Return the name of the layer, in a tuple."""
        names = super().layer_names()
        if len(names) != 1:
            raise ParameterError(f"layers is {self.layers!r}, but patches need the name of a single layer")
        return names

    def counter(self) -> Counter:
        """Return the function from the output of the layer to the masses of the words."""
        words, bandwidth = self.codebook()

        def count(outputs: Outputs, output: str) -> Array:
            frames = frame_patches(outputs, output)
            channels = frames[0].shape[1]
            if channels != words.shape[1]:
                raise ParameterError(
                    f"words_ has the shape {words.shape}, but the patches have {channels} channels: "
                    "call fit with this network and layer"
                )
            return np.stack([word_masses(patches, words, bandwidth) for patches in frames])

        return count

    def descriptors(self, frames: Iterator[Frame]) -> Iterator[Descriptors]:
        """Turn each frame into its patches, (n, channels), each of length 1."""
        batches = network_outputs([self], frames)
        return chain.from_iterable(frame_patches(outputs, output) for (outputs,), output in batches)

    def _bandwidth(self) -> float | None:
        """Return the bandwidth for `word_masses`, which divides the cosine of unit rows by its square."""
        if self.temperature is None:
            return None
        return float(np.sqrt(check_positive(self.temperature, "temperature")))


def frame_patches(outputs: Outputs, output: str) -> list[Descriptors]:
    """Return the patches of each frame, (n, channels), scaled to length 1, from the output of one layer."""
    ((layer, activations),) = outputs.items()
    has_tokens = output == "tokens" and activations.ndim == 3
    name = f"{layer_name(layer)} of the model"
    features = patch_features(activations, "tokens" if has_tokens else "channels", name=name)
    return [unit_rows(frame.reshape(-1, frame.shape[-1])) for frame in features]


def unit_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Scale rows to length 1, and leave out rows of zeros."""
    lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    some = lengths[:, 0] > 0.0
    return np.asarray(rows[some] / lengths[some], dtype=np.float32)
