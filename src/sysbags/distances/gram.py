"""CrossGram: the inner products between the observers and between the means of two collections of systems.

The kernel is evaluated once for each pair of streams. It turns two systems into the block
`M = C1' C2 = alpha1' k(Y1, Y2) alpha2` and the number `mu1' mu2 = beta1' k(Y1, Y2) beta2`; distances,
means and classifiers use these instead of histograms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import QUEUED
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags.distances.embedding import check_embedding, embed_systems, embedded_products, landmark_count
from sysbags.distances.tiles import TileWork, Tiling, check_memory
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.kernels.functions import call_kernel, feature_map, histogram_products
from sysbags.systems.collection import LazySystems, check_same_space, check_systems, sizes_of, space_of
from sysbags.systems.system import System

KERNEL_TILING = Tiling()
MATRIX_TILING = Tiling(systems=128)  # matrix products are efficient in large tiles


@dataclass(frozen=True, eq=False)
class SystemStack:
    """The transitions and Gram matrices of K systems, padded with zeros to the largest order n.

    `observer_gram` is `C'C = alpha' k(Y, Y) alpha`, (K, n, n), and `mean_norm` is `mu'mu`, (K,).
    """

    orders: IntArray
    transition: Array
    observer_gram: Array
    mean_norm: Array
    normal_form: str = "orthonormal"

    @classmethod
    def of(cls, systems: Sequence[System]) -> SystemStack:
        """Stack systems of the same normal form."""
        if isinstance(systems, LazySystems):
            names = ("orders", "transition", "observer_gram", "mean_norm", "normal_form")
            return cls(*(getattr(systems, name) for name in names)).copy()
        orders = np.array([system.order for system in systems])
        transition = np.zeros((orders.size, orders.max(), orders.max()))
        observer_gram = np.zeros_like(transition)
        for i, (system, n) in enumerate(zip(systems, orders, strict=True)):
            transition[i, :n, :n] = system.transition
            observer_gram[i, :n, :n] = system.observer_gram
        mean_norms = np.array([system.mean_norm for system in systems])
        return cls(orders, transition, observer_gram, mean_norms, systems[0].normal_form)

    @property
    def norms(self) -> Array:
        """Squared norms of the observers and of the means, (K, 2)."""
        return np.column_stack([np.einsum("kii->k", self.observer_gram), self.mean_norm])

    def subset(self, indices: Any) -> SystemStack:
        """Return the systems at these indices, still padded to the order n of all."""
        return SystemStack(
            self.orders[indices],
            self.transition[indices],
            self.observer_gram[indices],
            self.mean_norm[indices],
            self.normal_form,
        )

    def copy(self) -> SystemStack:
        """Return writeable copies.

        Compiled functions are compiled once more for read-only arrays, and their results have other bits.
        """
        return self.subset(np.arange(len(self.orders)))


@dataclass(frozen=True, eq=False)
class CrossGram:
    """Inner products between the observers and between the means of two collections of systems.

    Parameters
    ----------
    observer : (K, L, n, m) array
        `C_i' C_j`, padded with zeros to the largest order of each side.
    mean : (K, L) array
        `mu_i' mu_j`.
    rows, columns : SystemStack
        The systems of the two collections.
    symmetric : bool
        Whether both collections are the same: `observer[j, i]` is the transpose of `observer[i, j]`.
    approximate : bool, default=False
        Whether an embedding has taken the place of the kernel. Then alignments are only as exact as that.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> systems = [sysbags.identify(rng.dirichlet(np.ones(6), size=30), order=2) for _ in range(4)]
    >>> gram = sysbags.cross_gram(systems)
    >>> gram.observer.shape, gram.subset([0, 1], [2]).observer.shape  # the kernel is not evaluated again
    ((4, 4, 2, 2), (2, 1, 2, 2))
    """

    observer: Array
    mean: Array
    rows: SystemStack
    columns: SystemStack
    symmetric: bool
    approximate: bool = False

    def subset(self, rows: Any, columns: Any = None) -> CrossGram:
        """Return the CrossGram of a part of the systems.

        Parameters
        ----------
        rows : (k,) array of int or bool
            Systems of the first collection.
        columns : (l,) array of int or bool, optional
            Systems of the second collection. By default `rows` if the CrossGram is symmetric, else all.
        """
        symmetric = self.symmetric and columns is None
        left = np.arange(self.mean.shape[0])[np.asarray(rows)]
        if columns is None:
            right = left if symmetric else np.arange(self.mean.shape[1])
        else:
            right = np.arange(self.mean.shape[1])[np.asarray(columns)]
        part = np.ix_(left, right)
        first = self.rows.subset(left)
        return CrossGram(
            self.observer[part],
            self.mean[part],
            first,
            first if symmetric else self.columns.subset(right),
            symmetric,
            self.approximate,
        )


def mean_term(gram: CrossGram) -> Array:
    """Return ``||mu_i - mu_j||^2`` of all pairs, (K, L): `lambda_mu` is its weight in the distance."""
    norms = gram.rows.mean_norm[:, None] + gram.columns.mean_norm[None, :]
    return np.maximum(norms - 2.0 * gram.mean, 0.0)


def cross_gram(
    systems: Sequence[System],
    others: Sequence[System] | None = None,
    *,
    n_jobs: int | None = None,
    tiling: Tiling | None = None,
    embedding: StreamEmbedding | None = None,
    out: str | os.PathLike[str] | None = None,
    memory: str | int | None = None,
    client: Any = None,
) -> CrossGram:
    """Evaluate the kernel between all streams of two collections, and return `C_i' C_j` and `mu_i' mu_j`.

    With "chi2" and "intersection" the kernel matrices are never stored as a whole, so that memory contains
    the result and a few streams. With "linear" and "bhattacharyya" the observers are finite matrices and are
    multiplied. A callable is called once for each pair.

    Parameters
    ----------
    systems : sequence of System
        The first collection; all systems have the same kernel and bag length.
    others : sequence of System, optional
        The second collection, by default the first; then each pair is computed once.
    n_jobs : int, optional
        Number of threads; -1 means all cores. The result does not depend on it.
    tiling : Tiling, optional
        How the work is cut; the result does not depend on it but for round-off.
    embedding : StreamEmbedding, optional
        Multiply embedded observers instead of evaluating the kernel for each pair: much faster for many
        systems, with the error that `fit_embedding` states. What a system is to itself stays exact.
    out : path, optional
        Folder for the result, `observer.npy` and `mean.npy`, which the CrossGram has as memory maps.
    memory, client
        See `sysbags.pairwise_distances`, also for a call that was interrupted.

    Returns
    -------
    CrossGram

    Examples
    --------
    >>> from sysbags.systems.system import System
    >>> one = System([[0.5]], samples=[[0.0, 1.0], [1.0, 0.0]], alpha=[[1.0], [0.0]], beta=[0.5, 0.5])
    >>> two = System([[0.1]], samples=[[1.0, 0.0]], alpha=[[1.0]], beta=[1.0])
    >>> cross_gram([one, two]).mean.round(4)
    array([[0.6839, 0.6839],
           [0.6839, 1.    ]])
    """
    work = tile_work(systems, others, tiling, embedding, n_jobs, memory, client)
    rows, columns = work.rows.stack, work.columns.stack
    blocks = {"observer": (rows.transition.shape[1], columns.transition.shape[1]), "mean": ()}
    output = work.output("gram", out, blocks, {})
    observer, mean = work.compute(_gram_parts, (work.rows.kernel,), output, "kernel between streams")
    return CrossGram(observer, mean, rows, columns, work.symmetric, work.rows.approximate)


def tile_work(
    systems: Sequence[System],
    others: Sequence[System] | None,
    tiling: Tiling | None,
    embedding: StreamEmbedding | None,
    n_jobs: int | None,
    memory: str | int | None,
    client: Any,
) -> TileWork:
    """Check the collections of `cross_gram`, and divide the work on them."""
    first = check_systems(systems)
    if embedding is not None:
        check_embedding(embedding)
    rows = Collection(first, SystemStack.of(first), tiling, embedding)
    columns = rows
    if others is not None:
        second = check_systems(others, name="others")
        check_same_space(first, second)
        columns = Collection(second, SystemStack.of(second), tiling, embedding)
    return TileWork(rows, columns, n_jobs, check_memory(memory), client)


def tile_gram(tile: tuple[Block, Block, bool], kernel: KernelLike, *, restore: bool = False) -> CrossGram:
    """Return the CrossGram of a tile: of two blocks, or of a block with itself if only one half is needed."""
    top, left, upper = tile
    block = _products(top, left, upper, kernel, restore)
    if not upper:
        return _gram_of(block, top.stack, left.stack, False, top.approximate)
    mirrored, diagonal = np.tril_indices(len(block)), np.arange(len(block))
    block[mirrored] = block[mirrored[::-1]].transpose(0, 2, 1)
    gram = _gram_of(block, top.stack, left.stack, True, top.approximate)
    gram.observer[diagonal, diagonal] = top.stack.observer_gram
    gram.mean[diagonal, diagonal] = top.stack.mean_norm
    return gram


def _gram_of(
    products: Array, rows: SystemStack, columns: SystemStack, symmetric: bool, approximate: bool
) -> CrossGram:
    """Return the CrossGram of the products `[C_i mu_i]' [C_j mu_j]`, (K, L, n + 1, m + 1)."""
    observer, mean = np.ascontiguousarray(products[..., :-1, :-1]), products[..., -1, -1].copy()
    return CrossGram(observer, mean, rows, columns, symmetric, approximate)


def _gram_parts(tile: tuple[Block, Block, bool], kernel: KernelLike) -> tuple[Array, Array]:
    gram = tile_gram(tile, kernel)
    return gram.observer, gram.mean


def embedded_cross_gram(
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    rows: SystemStack,
    columns: SystemStack,
    *,
    approximate: bool,
    restore: bool = True,
) -> CrossGram:
    """Return the CrossGram of embedded systems, by products alone.

    `first` and `second` are observers and means, (K, n + 1, d) and (L, m + 1, d), see `EmbeddedSystems`.
    `rows` and `columns` are the small matrices of the same systems: the same object twice for systems with
    themselves. With `restore`, what the embedding has lost is estimated, see `embedded_products`.
    """
    products = embedded_products(first, second, rows.norms, columns.norms, restore=restore)
    return _gram_of(products, rows, columns, rows is columns, approximate)


@dataclass(frozen=True, eq=False)
class Block:
    """A run of systems with all that a tile needs of them.

    `place` are its systems in the collection; the stack is padded to the largest order n of the collection.
    The weights, (N, n + 1), are the coefficients of the observer and of the mean. For an embedding or a
    kernel with an explicit feature map there are no samples, but `observers`, (S, n + 1, d): observers and
    means as matrices; `approximate` if an embedding has lost a part of them.
    """

    place: slice
    stack: SystemStack
    samples: list[Array]
    weights: list[Array]
    observers: npt.NDArray[Any] | None = None
    approximate: bool = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copy arrays that came from another process, which are read-only; see `SystemStack.copy`."""
        observers = state["observers"]
        copies = {
            "stack": state["stack"].copy(),
            "observers": None if observers is None else observers.copy(),
        }
        self.__dict__.update(state, **copies)


class Collection:
    """Systems that are cut into blocks, which are read and prepared when they are needed.

    `bytes` is what each block takes in memory, `tile_bytes` what a thread takes beside the blocks to compute
    a tile, for the larger of its blocks, `read_bytes` what it takes before that to turn systems into
    matrices.
    """

    def __init__(
        self,
        systems: Sequence[System],
        stack: SystemStack,
        tiling: Tiling | None = None,
        embedding: StreamEmbedding | None = None,
    ) -> None:
        self.systems, self.stack, self.embedding = systems, stack, embedding
        space = space_of(systems)
        self.kernel: KernelLike = space.kernel
        landmarks = None if embedding is None else landmark_count(embedding)
        self.approximate = landmarks is not None
        self._features = feature_map(self.kernel)
        sizes = sizes_of(systems)
        length, n = space.bag_length, stack.transition.shape[1]
        if embedding is None and self._features is None:
            entries, numbers = sizes * length, sizes * (length + n + 1)
        else:
            width = length if landmarks is None else landmarks
            entries = numbers = np.full(len(sizes), (n + 1) * width)
        usual = KERNEL_TILING if entries is not numbers else MATRIX_TILING
        self.blocks = (tiling or usual).blocks_of(entries)
        item = 8 if embedding is None else 4
        self.bytes = np.array([item * int(numbers[block].sum()) for block in self.blocks])
        most = max(block.stop - block.start for block in self.blocks)
        if entries is numbers:  # products of matrices; systems that are read, and the kernel of one of them
            self.tile_bytes = 24 * (most * (n + 1)) ** 2
            read = min(most if embedding is None else QUEUED, len(sizes))
            self.read_bytes = 8 * int(sizes.max()) * ((read + 1) * length + width)
        else:  # copies of the blocks in the order of the kernel
            self.tile_bytes, self.read_bytes = 5 * int(self.bytes.max()), 0

    def read(self, places: Sequence[slice], n_jobs: int | None = None) -> list[Block]:
        """Read the systems of consecutive blocks."""
        n = self.stack.transition.shape[1]
        if self.embedding is not None:
            start, systems = places[0].start, self.systems
            every = slice(start, places[-1].stop)
            part = systems.subset(every) if isinstance(systems, LazySystems) else systems[every]
            observers = embed_systems(self.embedding, part, n, n_jobs).observers
            own = [observers[place.start - start : place.stop - start] for place in places]
            stacks = [self.stack.subset(place) for place in places]
            return [
                Block(place, stack, [], [], rows, self.approximate)
                for place, stack, rows in zip(places, stacks, own, strict=True)
            ]
        return [self._block(place, self.systems[place], n) for place in places]

    def _block(self, place: slice, systems: Sequence[System], n: int) -> Block:
        stack = self.stack.subset(place)
        samples, weights = [system.samples for system in systems], [_weights(s, n) for s in systems]
        features = self._features
        if features is None:
            return Block(place, stack, samples, weights)
        rows = [weight.T @ features(one) for one, weight in zip(samples, weights, strict=True)]
        return Block(place, stack, [], [], np.stack(rows))


def _products(first: Block, second: Block, upper: bool, kernel: KernelLike, restore: bool) -> Array:
    """Return `[C_i mu_i]' [C_j mu_j]` for a tile, (S1, S2, n + 1, m + 1); if `upper`, its upper half."""
    if first.observers is not None and second.observers is not None:
        norms, restore = (first.stack.norms, second.stack.norms), restore and first.approximate
        return embedded_products(first.observers, second.observers, *norms, restore=restore)
    if isinstance(kernel, str):
        streams = (first.samples, first.weights), (second.samples, second.weights)
        return histogram_products(*streams, upper, kernel)
    return _called_products(first, second, upper, kernel)


def _weights(system: System, n: int) -> Array:
    """Return the coefficients of the observer, padded to order n, and of the mean: (N, n + 1)."""
    weights = np.zeros((system.size, n + 1))
    weights[:, : system.order] = system.alpha
    weights[:, n] = system.beta
    return weights


def _called_products(
    first: Block, second: Block, upper: bool, kernel: Callable[[Array, Array], Array]
) -> Array:
    """Call the kernel of the caller for each pair."""
    n, m = first.weights[0].shape[1], second.weights[0].shape[1]
    found = np.zeros((len(first.samples), len(second.samples), n, m))
    for i, (row, weight) in enumerate(zip(first.samples, first.weights, strict=True)):
        for j, (column, other_weight) in enumerate(zip(second.samples, second.weights, strict=True)):
            if j > i or not upper:
                found[i, j] = weight.T @ call_kernel(kernel, row, column) @ other_weight
    return found
