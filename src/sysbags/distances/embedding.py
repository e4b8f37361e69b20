"""Embeddings: observers as matrices of few rows, so that the kernel is not evaluated for every pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run, use_client
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import check_integer, check_stream, kernel_name, seed_of
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.kernels.functions import check_kernel, feature_map, kernel_matrix
from sysbags.systems.collection import LazySystems, check_systems, sizes_of, space_of
from sysbags.systems.system import System

CANDIDATES = 10  # frames that are drawn for each landmark
MOST_CANDIDATES = 5000  # as the kernel between all of them is in memory
TINY = 1e-30  # instead of a norm of 0
NEGLIGIBLE = 1e-9  # of the trace: below this the candidates are spanned by the landmarks, in float32


@dataclass(frozen=True, eq=False, kw_only=True)
class EmbeddedSystems:
    """Observers and means of systems in an embedding, see `Embedding.transform`.

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
    >>> from sysbags.library import Embedding
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> embedded = Embedding.fit(systems, size=50).transform(systems)
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


class Embedding:
    """A finite feature map for a kernel: its projection to the span of some histograms, the landmarks.

    With landmarks L, each histogram y becomes ``R^-1 k(L, y)`` where ``k(L, L) = R R'`` (Nystrom). An
    observer is then a matrix with as many rows as there are landmarks, and the block of two systems the
    product of two such matrices instead of the kernel between all their frames. Inner products are those of
    projections: with `lost` the share of the squared norm that is not held, the error of a block is at most
    ``sqrt(lost_i lost_j) ||C_i|| ||C_j||``.

    Kernels with an explicit feature map ("linear", "bhattacharyya") need no landmarks and lose nothing.

    Parameters
    ----------
    kernel : str or callable
    landmarks : (m, p) array or None
        None for kernels with an explicit feature map.
    factor : (m, m) array or None
        R, lower triangular.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> embedding = Embedding.fit(systems, size=50)
    >>> embedding
    Embedding(kernel='chi2', landmarks=50)
    >>> exact, fast = (sysbags.pairwise_distances(systems, embedding=e) for e in (None, embedding))
    >>> bool(abs(exact - fast).max() < 0.1)
    True
    """

    def __init__(self, kernel: KernelLike, landmarks: Array | None, factor: Array | None) -> None:
        self.kernel, self.landmarks, self.factor = kernel, landmarks, factor

    def __repr__(self) -> str:
        return f"Embedding(kernel={kernel_name(self.kernel)}, landmarks={self.size})"

    @classmethod
    def fit(
        cls,
        systems: Sequence[System] | Sequence[Array],
        size: int = 500,
        *,
        kernel: KernelLike = "chi2",
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> Self:
        """Choose landmarks among the frames of systems or streams.

        Parameters
        ----------
        systems : sequence of System, or of (N, p) arrays
        size : int, default=500
            Number of landmarks; fewer, if these span all frames that were drawn.
        kernel : str or callable, default="chi2"
            For streams; systems have their own.
        random_state : int, Generator or None, default=0
            For the frames that are drawn, at most ten for each landmark, and the choice among them.
        n_jobs : int, optional
            Threads; the result does not depend on it.
        """
        count = check_integer(size, "size")
        given: Sequence[Any]
        if all(isinstance(item, np.ndarray) for item in systems) and len(systems):
            check_kernel(kernel)
            given = [check_stream(item, kernel, name=f"streams[{k}]") for k, item in enumerate(systems)]
            if len({stream.shape[1] for stream in given}) > 1:
                raise IncompatibleSystemsError("streams have different numbers of bins, but must have one")
            sizes = np.array([len(stream) for stream in given])
        else:
            given = check_systems(systems)
            kernel, sizes = space_of(given).kernel, sizes_of(given)
        if feature_map(kernel) is not None:
            return cls(kernel, None, None)
        rng = np.random.default_rng(seed_of(random_state))
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        drawn = np.sort(rng.permutation(bounds[-1])[: max(count, min(CANDIDATES * count, MOST_CANDIDATES))])
        owners = np.searchsorted(bounds, drawn, side="right") - 1
        candidates = np.concatenate(
            [_samples(given[k])[drawn[owners == k] - bounds[k]] for k in np.unique(owners).tolist()]
        )
        chosen, factor = pivoted_landmarks(candidates, kernel, count, rng, n_jobs=n_jobs)
        return cls(kernel, candidates[chosen], factor)

    @property
    def size(self) -> int | None:
        """The number of landmarks; None if there are none."""
        return None if self.landmarks is None else len(self.landmarks)

    def features(self, samples: Array) -> Array:
        """Return the features of histograms, (N, d)."""
        return self._coordinates(samples, np.eye(len(samples)))

    def _coordinates(self, samples: Array, weights: Array) -> Array:
        """Return the features of combinations of histograms, (r, d), for (N, r) weights."""
        explicit = feature_map(self.kernel)
        if explicit is not None:
            return np.asarray(weights.T @ explicit(samples))
        from scipy.linalg import solve_triangular

        # The products come first: there are fewer of them than histograms.
        products = kernel_matrix(self.landmarks, samples, self.kernel) @ weights
        # R' from above, in the order of LAPACK's arrays: otherwise it is copied each time.
        factor = np.asarray(self.factor).T
        return np.asarray(solve_triangular(factor, products, trans=1, check_finite=False).T)

    def transform(
        self, systems: Sequence[System], *, n_jobs: int | None = None, client: Any = None
    ) -> EmbeddedSystems:
        """Embed systems.

        Parameters
        ----------
        systems : sequence of System
        n_jobs : int, optional
            Threads; the result does not depend on it.
        client : distributed.Client, optional
            Compute on the cluster of this client; the result does not depend on it.
        """
        given = check_systems(systems)
        orders = given.orders if isinstance(given, LazySystems) else [system.order for system in given]
        self._check(space_of(given))
        with use_client(client):
            return embed_systems(self, given, int(max(orders)), n_jobs)

    def _check(self, system: System | LazySystems) -> None:
        length = None if self.landmarks is None else self.landmarks.shape[1]
        if system.kernel != self.kernel or length not in (None, system.bag_length):
            raise IncompatibleSystemsError(
                f"the embedding is for the kernel {self.kernel!r} and bags of {length} bins, but the systems "
                f"have the kernel {system.kernel!r} and {system.bag_length} bins"
            )


def check_embedding(embedding: Any) -> Embedding:
    """Return an embedding; raise an error for anything else."""
    if not isinstance(embedding, Embedding):
        raise ParameterError(
            f"embedding is {embedding!r}, but it must be an Embedding, such as Embedding.fit(systems, 500)"
        )
    return embedding


def embed_systems(
    embedding: Embedding, systems: Sequence[System], n: int, n_jobs: int | None
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


def _embedded(system: System, embedding: Embedding, n: int) -> tuple[npt.NDArray[np.float32], float, float]:
    """Return the coordinates of an observer, padded to order n, and of the mean; and what is lost of them."""
    held = embedding._coordinates(system.samples, np.column_stack([system.alpha, system.beta]))
    rows = np.zeros((n + 1, held.shape[1]))
    rows[: system.order], rows[n] = held[:-1], held[-1]
    lost = _lost(float((rows[:n] ** 2).sum()), float(np.trace(system.observer_gram)))
    return rows.astype(np.float32), lost, _lost(float(rows[n] @ rows[n]), system.mean_norm)


def _samples(item: System | Array) -> Array:
    return item.samples if isinstance(item, System) else item


def pivoted_landmarks(
    candidates: Array,
    kernel: KernelLike,
    size: int,
    rng: np.random.Generator,
    *,
    n_jobs: int | None = None,
) -> tuple[IntArray, Array]:
    """Choose histograms that span the others well, and return the Cholesky factor of their kernel.

    Randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2022): the next landmark is drawn with a
    probability in proportion to what is left of each candidate, its squared distance to the span of the
    landmarks. k-means++ draws its centers so, in the space of the kernel.

    Returns the indices of m landmarks, `size` or fewer if nothing is left, and the lower triangular (m, m)
    factor: ``factor @ factor.T`` is the kernel between them.
    """
    gram = kernel_matrix(candidates, kernel=kernel, n_jobs=n_jobs)
    left = np.diagonal(gram).copy()
    enough = NEGLIGIBLE * left.sum()
    columns = np.zeros((len(candidates), min(size, len(candidates))))
    chosen: list[int] = []
    while len(chosen) < columns.shape[1] and left.sum() > enough:
        k, pivot = len(chosen), int(rng.choice(len(left), p=left / left.sum()))
        column = gram[pivot] - columns[:, :k] @ columns[pivot, :k]
        columns[:, k] = column / np.sqrt(column[pivot])
        left = np.maximum(left - columns[:, k] ** 2, 0.0)
        left[pivot] = 0.0
        chosen.append(pivot)
    places = np.array(chosen)
    return places, np.tril(columns[places, : len(places)])


def _lost(held: float, norm: Any) -> float:
    return float(np.clip(1.0 - held / norm, 0.0, 1.0)) if norm > 0.0 else 0.0
