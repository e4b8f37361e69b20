"""Systems in an embedding: observers as small matrices, so that no kernel is evaluated for every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run, use_client
from sysbags._common.types import Array
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.collection import LazySystems, check_systems, sizes_of, space_of
from sysbags.systems.system import System

TINY = 1e-30  # instead of a norm of 0


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbeddedSystems:
    """Observers and means of systems in an embedding, see `embed`.

    Attributes
    ----------
    observers : (K, n + 1, d) array of float32
        The columns of each observer, padded with zeros to the largest order n, and the mean.
    lost, lost_of_mean : (K,) arrays
        The share of the squared norm of each observer, and of each mean, that the embedding does not hold.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> from sysbags.distances.embedding import embed, fit_embedding
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> embedded = embed(fit_embedding(systems, size=50), systems)
    >>> embedded.observers.shape, bool(embedded.lost.max() < 0.05)
    ((8, 3, 50), True)
    """

    observers: npt.NDArray[np.float32]
    lost: Array
    lost_of_mean: Array

    def subset(self, indices: Any) -> EmbeddedSystems:
        """Return the systems at these indices."""
        return EmbeddedSystems(
            observers=self.observers[indices],
            lost=self.lost[indices],
            lost_of_mean=self.lost_of_mean[indices],
        )


def fit_embedding(
    systems: Sequence[System],
    size: int = 500,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> StreamEmbedding:
    """Fit an embedding for the kernel of systems, to their samples; only systems that are drawn are read.

    The block of two systems in it is a product of two small matrices instead of the kernel between all their
    frames. With `lost` the share of the squared norm of an observer that is not held, see `EmbeddedSystems`,
    the error of a block is at most ``sqrt(lost_i lost_j) ||C_i|| ||C_j||``.

    Parameters
    ----------
    systems : sequence of System
    size, random_state, n_jobs
        See `StreamEmbedding`.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> embedding = fit_embedding(systems, size=50)
    >>> exact, fast = (sysbags.pairwise_distances(systems, embedding=e) for e in (None, embedding))
    >>> bool(abs(exact - fast).max() < 0.1)
    True
    """
    given = check_systems(systems)
    embedding = StreamEmbedding(space_of(given).kernel, size, random_state=random_state, n_jobs=n_jobs)
    return fit_to_systems(embedding, given)


def fit_to_systems(embedding: StreamEmbedding, systems: Sequence[System]) -> StreamEmbedding:
    """Fit an embedding to the samples of systems with its kernel."""
    _check_space(embedding, systems)
    return embedding.fit_drawn(sizes_of(systems), lambda k: systems[k].samples)


def embed(
    embedding: StreamEmbedding, systems: Sequence[System], *, n_jobs: int | None = None, client: Any = None
) -> EmbeddedSystems:
    """Return observers and means in an embedding; `components` are those of paths, and are not applied.

    Parameters
    ----------
    embedding : StreamEmbedding
        Fitted.
    systems : sequence of System
    n_jobs : int, optional
        Threads; the result does not depend on it.
    client : distributed.Client, optional
        Compute on the cluster of this client; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> embed(fit_embedding(systems, size=20), systems).observers.shape
    (4, 3, 20)
    """
    given = check_systems(systems)
    _check_space(check_embedding(embedding), given)
    orders = given.orders if isinstance(given, LazySystems) else [system.order for system in given]
    with use_client(client):
        return embed_systems(embedding, given, int(max(orders)), n_jobs)


def check_embedding(embedding: Any) -> StreamEmbedding:
    """Return a fitted embedding; raise an error for anything else."""
    if not isinstance(embedding, StreamEmbedding) or not hasattr(embedding, "lost_"):
        raise ParameterError(
            f"embedding is {embedding!r}, but it must be a fitted StreamEmbedding, such as "
            "fit_embedding(systems, 500)"
        )
    return embedding


def landmark_count(embedding: StreamEmbedding) -> int | None:
    """Return the number of landmarks; None if the kernel has an explicit feature map and needs none."""
    return None if embedding.landmarks_ is None else len(embedding.landmarks_)


def _check_space(embedding: StreamEmbedding, systems: Sequence[System]) -> None:
    space, landmarks = space_of(systems), getattr(embedding, "landmarks_", None)
    length = None if landmarks is None else landmarks.shape[1]
    if space.kernel != embedding.kernel or length not in (None, space.bag_length):
        raise IncompatibleSystemsError(
            f"the embedding is for the kernel {embedding.kernel!r} and bags of {length} bins, but the "
            f"systems have the kernel {space.kernel!r} and {space.bag_length} bins"
        )


def embed_systems(
    embedding: StreamEmbedding, systems: Sequence[System], n: int, n_jobs: int | None
) -> EmbeddedSystems:
    """Embed systems, padded to order n; those on disk are read one by one, so that few are in memory."""
    observers: list[npt.NDArray[np.float32]] = []
    lost = np.zeros((2, len(systems)))

    def put(k: int, part: tuple[npt.NDArray[np.float32], float, float]) -> None:
        if not observers:
            observers.append(np.zeros((len(systems), *part[0].shape), np.float32))
        observers[0][k], lost[:, k] = part[0], part[1:]

    run(_embedded, systems, n_jobs, "embedding", shared=(embedding, n), consume=put, remote=True)
    return EmbeddedSystems(observers=observers[0], lost=lost[0], lost_of_mean=lost[1])


def embedded_products(
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    norms: Array,
    other_norms: Array,
    *,
    restore: bool = True,
) -> Array:
    """Return `[C_i mu_i]' [C_j mu_j]` of embedded systems, with an estimate of what the embedding has lost.

    The embedding holds the inner products of projections to the span of the landmarks. Systems that agree
    there agree beyond it as well, and near duplicates do completely, so the product of the norms that are
    lost is added in the direction of the block, times ``c^4``. Here c, from 0 to 1, is the RV coefficient of
    the projected observers, ``||C_i'C_j||_F^2 / (||C_i'C_i||_F ||C_j'C_j||_F)``; for means it is the squared
    cosine. Without `restore` the products are those of projections.

    Observers and means are (K, n + 1, d) and (L, m + 1, d), see `EmbeddedSystems`. The norms, (K, 2) and
    (L, 2), are the squared ones of the observers and of the means, in full.
    """
    products = np.tensordot(first, second, axes=(2, 2)).transpose(0, 2, 1, 3).astype(np.float64, order="C")
    for k, part in enumerate((slice(-1), slice(-1, None)) if restore else ()):
        sides = []
        for observers, squares in ((first, norms), (second, other_norms)):
            own = observers[:, part]
            grams = own @ own.transpose(0, 2, 1)
            held = np.maximum(np.einsum("kii->k", grams).astype(np.float64), TINY)
            sides.append((np.sqrt((grams**2).sum(axis=(1, 2))), np.maximum(squares[:, k] / held - 1.0, 0.0)))
        (size, lost), (other_size, other_lost) = sides
        block = products[..., part, part]
        agreement = np.einsum("klij,klij->kl", block, block) / np.maximum(np.outer(size, other_size), TINY)
        block *= (1.0 + np.sqrt(np.outer(lost, other_lost)) * np.minimum(agreement, 1.0) ** 4)[
            ..., None, None
        ]
    return products


def _embedded(
    system: System, embedding: StreamEmbedding, n: int
) -> tuple[npt.NDArray[np.float32], float, float]:
    """Return the coordinates of an observer, padded to order n, and of the mean; and what is lost of them."""
    held = embedding.combined_features(system.samples, np.column_stack([system.alpha, system.beta]))
    rows = np.zeros((n + 1, held.shape[1]))
    rows[: system.order], rows[n] = held[:-1], held[-1]
    lost = _lost(float((rows[:n] ** 2).sum()), float(np.trace(system.observer_gram)))
    return rows.astype(np.float32), lost, _lost(float(rows[n] @ rows[n]), system.mean_norm)


def _lost(held: float, norm: Any) -> float:
    return float(np.clip(1.0 - held / norm, 0.0, 1.0)) if norm > 0.0 else 0.0
