"""Systems in the span of an embedding's landmarks, their inner products with others, and what is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.linalg

from sysbags._common.types import Array
from sysbags._common.validation import kernel_name
from sysbags.distances.embedding import embed
from sysbags.distances.gram import CrossGram, SystemStack, embedded_cross_gram
from sysbags.errors import IncompatibleSystemsError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.compression import feature_product
from sysbags.systems.system import System

LARGE_LOSS = 0.3  # of the median observer


def project(system: System, embedding: StreamEmbedding) -> System:
    """Return the system with the landmarks of an embedding as its samples.

    Observer and mean become their projections to the span of the landmarks L, with the coefficients
    ``k(L, L)^-1 k(L, Y) alpha``. So the blocks of projected systems are the exact blocks of the embedding,
    without its rounding to float32. As in ``cross_gram(..., embedding=)``, `observer_gram` and `mean_norm`
    stay those of the system. Without landmarks, for kernels with an explicit feature map, the system itself
    is returned.
    """
    if system.kernel != embedding.kernel:
        raise IncompatibleSystemsError(
            f"the embedding is for the kernel {kernel_name(embedding.kernel)}, but the system has the kernel "
            f"{kernel_name(system.kernel)}"
        )
    if embedding.landmarks_ is None:
        return system
    landmarks = embedding.landmarks_.astype(np.float64)
    products = feature_product(
        landmarks, system.samples, np.column_stack([system.alpha, system.beta]), system.kernel
    )
    coefficients = scipy.linalg.cho_solve((np.asarray(embedding.factor_), True), products)
    return replace(
        system,
        samples=landmarks,
        alpha=coefficients[:, :-1],
        beta=coefficients[:, -1],
        _observer_gram=system.observer_gram,
        _mean_norm=system.mean_norm,
    )


class EmbeddedStack(NamedTuple):
    """Systems that many others are compared with: embedded once, and not for each comparison.

    The observers are (K, n + 1, d) in float32, see `EmbeddedSystems`.
    """

    embedding: StreamEmbedding
    stack: SystemStack
    observers: npt.NDArray[np.float32]

    @classmethod
    def of(
        cls, systems: Sequence[System], embedding: StreamEmbedding, *, n_jobs: int | None = None
    ) -> EmbeddedStack:
        """Embed systems."""
        observers = embed(embedding, systems, n_jobs=n_jobs).observers
        return cls(embedding, SystemStack.of(systems), observers)

    def gram(self, systems: Sequence[System], *, n_jobs: int | None = None) -> CrossGram:
        """Return the CrossGram of other systems with these: one kernel block with the landmarks for each."""
        embedding, rows = self.embedding, SystemStack.of(systems)
        observers = embed(embedding, systems, n_jobs=n_jobs).observers
        approximate = embedding.landmarks_ is not None
        return embedded_cross_gram(
            observers, self.observers, rows, self.stack, approximate=approximate, restore=False
        )


class EmbeddingLoss(NamedTuple):
    """What embeddings lose of many systems: the shares of the squared norms of their observers.

    `landmarks` is the number of the largest embedding; None if no kernel needs any: nothing is lost.

    >>> loss = EmbeddingLoss.of([50, 40], [np.array([0.01, 0.02]), np.array([0.03])])
    >>> loss
    EmbeddingLoss(landmarks=50, median=0.02, largest=0.03)
    >>> loss.sentence().partition(", which ")[2]
    'loses 2.0 % of the observers in the median, 3.0 % at most'
    >>> EmbeddingLoss(5, median=0.4, largest=0.6).sentence().partition(", which ")[2]
    'loses 40.0 % of the observers in the median, 60.0 % at most: more landmarks lose less'
    """

    landmarks: int | None
    median: float
    largest: float

    @classmethod
    def of(cls, sizes: Sequence[int | None], lost: Sequence[Array]) -> Self:
        """Summarise the sizes of embeddings, and what each system loses."""
        shares = np.concatenate(lost)
        known = [size for size in sizes if size is not None]
        return cls(max(known, default=None), float(np.median(shares)), float(shares.max()))

    @property
    def is_large(self) -> bool:
        """Whether so much is lost that more landmarks are advisable."""
        return self.median > LARGE_LOSS

    def sentence(self) -> str:
        """Return what there is to say about distances."""
        if self.landmarks is None:
            return "distances are exact: the kernel has an explicit feature map and needs no landmarks"
        return (
            f"distances are approximate: an embedding of {self.landmarks} landmarks, which loses "
            f"{100 * self.median:.1f} % of the observers in the median, {100 * self.largest:.1f} % at most"
            f"{': more landmarks lose less' if self.is_large else ''}"
        )
