"""CrossGram: the inner products between the observers and between the means of two collections of systems.

The kernel is evaluated once for each pair of streams. It turns two systems into the block
`M = C1' C2 = alpha1' k(Y1, Y2) alpha2` and the number `mu1' mu2 = beta1' k(Y1, Y2) beta2`; distances,
means and classifiers use these instead of histograms.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray, KernelLike
from sysbags.distances.embedding import Embedding, check_embedding, embedded_products
from sysbags.distances.tiles import Block, Collection, TileWork, Tiling, check_memory, products
from sysbags.kernels.functions import check_precision
from sysbags.systems.collection import LazySystems, check_same_space, check_systems

if TYPE_CHECKING:
    from sysbags.systems.system import System

__all__ = [
    "CrossGram",
    "SystemStack",
    "Tiling",
    "cross_gram",
    "embedded_cross_gram",
    "tile_gram",
    "tile_work",
]


@dataclass(frozen=True, eq=False)
class SystemStack:
    """The transitions and Gram matrices of K systems, padded with zeros to the largest order n.

    Parameters
    ----------
    orders : (K,) array of int
        The orders of the systems.
    transition : (K, n, n) array
        `A`.
    observer_gram : (K, n, n) array
        `C'C = alpha' k(Y, Y) alpha`.
    mean_norm : (K,) array
        `mu'mu`.
    normal_form : {"orthonormal", "unit-variance"}, default="orthonormal"
        That of the systems, see `identify`.
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
    >>> gram.observer.shape, gram.mean.shape, gram.symmetric
    ((4, 4, 2, 2), (4, 4), True)
    >>> gram.subset([0, 1], [2]).observer.shape  # the kernel is not evaluated again
    (2, 1, 2, 2)
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

    Parameters
    ----------
    first, second : (K, n + 1, d), (L, m + 1, d) arrays
        Observers and means, see `EmbeddedSystems`.
    rows, columns : SystemStack
        The small matrices of the same systems; the same object twice for systems with themselves.
    approximate : bool
        See `CrossGram`.
    restore : bool, default=True
        Estimate what the embedding has lost, see `embedded_products`.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, _ = make_streams(classes=2, per_class=2, frames=40, bins=8)
    >>> systems = [sysbags.identify(stream, order=2, kernel="linear") for stream in streams]
    >>> observers = Embedding.fit(systems).transform(systems).observers
    >>> stack = SystemStack.of(systems)
    >>> gram = embedded_cross_gram(observers, observers, stack, stack, approximate=False)
    >>> np.allclose(gram.observer, sysbags.cross_gram(systems).observer, atol=1e-5)
    True
    """
    products = embedded_products(first, second, rows.norms, columns.norms, restore=restore)
    return CrossGram(
        np.ascontiguousarray(products[..., :-1, :-1]),
        products[..., -1, -1].copy(),
        rows,
        columns,
        symmetric=rows is columns,
        approximate=approximate,
    )


def cross_gram(
    systems: Sequence[System],
    others: Sequence[System] | None = None,
    *,
    n_jobs: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    tiling: Tiling | None = None,
    embedding: Embedding | None = None,
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
        The first collection; all systems have the same kernel and bag length. `LazySystems` are read a part
        at a time.
    others : sequence of System, optional
        The second collection, by default the first; then each pair is computed once.
    n_jobs : int, optional
        Number of threads; -1 means all cores. The result does not depend on it.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Precision of the kernel's sums over bins, see `kernel_matrix`.
    tiling : Tiling, optional
        How the work is cut; the result does not depend on it but for round-off.
    embedding : Embedding, optional
        Multiply embedded observers instead of evaluating the kernel for each pair: much faster for many
        systems, with the error that `Embedding` states. What a system is to itself stays exact.
    out : path, optional
        Folder for the result, `observer.npy` and `mean.npy`, which the CrossGram has as memory maps. A call
        that was interrupted continues when it is repeated with the same input.
    memory : str or int, optional
        What is held in memory at a time, as "2GB", "500MB" or a number of bytes; by default everything. The
        result does not depend on it.
    client : distributed.Client, optional
        Compute on the cluster of this client; the result does not depend on it.

    Returns
    -------
    CrossGram

    Examples
    --------
    >>> from sysbags.systems.system import System
    >>> one = System([[0.5]], samples=[[0.0, 1.0], [1.0, 0.0]], alpha=[[1.0], [0.0]], beta=[0.5, 0.5])
    >>> two = System([[0.1]], samples=[[1.0, 0.0]], alpha=[[1.0]], beta=[1.0])
    >>> gram = cross_gram([one, two])
    >>> gram.observer[:, :, 0, 0].round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> gram.mean.round(4)
    array([[0.6839, 0.6839],
           [0.6839, 1.    ]])
    """
    precision = np.dtype(check_precision(dtype))
    work = tile_work(systems, others, tiling, embedding, n_jobs, memory, client)
    rows, columns = work.rows.stack, work.columns.stack
    blocks = {"observer": (rows.transition.shape[1], columns.transition.shape[1]), "mean": ()}
    output = work.output("gram", out, blocks, {"dtype": precision.str})
    observer, mean = work.compute(
        _gram_parts, (work.rows.kernel, precision), output, "kernel between streams"
    )
    return CrossGram(observer, mean, rows, columns, work.symmetric, work.rows.approximate)


def tile_work(
    systems: Sequence[System],
    others: Sequence[System] | None,
    tiling: Tiling | None,
    embedding: Embedding | None,
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


def tile_gram(
    tile: tuple[Block, Block, bool], kernel: KernelLike, dtype: npt.DTypeLike, *, restore: bool = False
) -> CrossGram:
    """Return the CrossGram of a tile: of two blocks, or of a block with itself if only one half is needed."""
    top, left, upper = tile
    block = products(top, left, upper, kernel, dtype, restore=restore)
    if upper:
        mirrored = np.tril_indices(len(block))
        block[mirrored] = block[mirrored[::-1]].transpose(0, 2, 1)
    observer = block[..., :-1, :-1].astype(np.float64, order="C")
    mean = block[..., -1, -1].astype(np.float64, order="C")
    if upper:
        diagonal = np.arange(len(block))
        observer[diagonal, diagonal] = top.stack.observer_gram
        mean[diagonal, diagonal] = top.stack.mean_norm
    return CrossGram(observer, mean, top.stack, left.stack, upper, top.approximate)


def _gram_parts(
    tile: tuple[Block, Block, bool], kernel: KernelLike, dtype: npt.DTypeLike
) -> tuple[Array, Array]:
    gram = tile_gram(tile, kernel, dtype)
    return gram.observer, gram.mean
