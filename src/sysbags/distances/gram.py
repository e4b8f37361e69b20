"""CrossGram: the inner products between the observers and between the means of two collections of systems.

The kernel is evaluated once for each pair of streams. It turns two systems into the block
`M = C1' C2 = alpha1' k(Y1, Y2) alpha2` and the number `mu1' mu2 = beta1' k(Y1, Y2) beta2`; distances,
means and classifiers use these instead of histograms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._numba.histograms import cross_blocks
from sysbags.distances.embedding import Embedding
from sysbags.kernels.functions import call_kernel, check_precision, feature_map
from sysbags.kernels.histograms import Code, density, in_tiles
from sysbags.systems.lazy import LazySystems
from sysbags.systems.validation import check_same_space, check_systems

if TYPE_CHECKING:
    from sysbags.systems.system import System

__all__ = ["CrossGram", "SystemStack", "Tiling", "cross_gram"]


@dataclass(frozen=True)
class Tiling:
    """How a collection is cut into blocks; pairs of blocks are computed one after the other.

    Attributes
    ----------
    systems : int
        At most in a block.
    entries : int
        Numbers in their streams at most, which bounds the memory of a thread.
    blocks : int
        At least, where there are enough systems: work for many threads.
    """

    systems: int = 16
    entries: int = 1 << 20
    blocks: int = 8


TILING = Tiling()


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
            return cls(*(getattr(systems, name) for name in names))
        orders = np.array([system.order for system in systems])
        transition = np.zeros((orders.size, orders.max(), orders.max()))
        observer_gram = np.zeros_like(transition)
        for i, (system, n) in enumerate(zip(systems, orders, strict=True)):
            transition[i, :n, :n] = system.transition
            observer_gram[i, :n, :n] = system.observer_gram
        mean_norms = np.array([system.mean_norm for system in systems])
        return cls(orders, transition, observer_gram, mean_norms, systems[0].normal_form)

    def subset(self, indices: Any) -> SystemStack:
        """Return the systems at these indices, still padded to the order n of all."""
        return SystemStack(
            self.orders[indices],
            self.transition[indices],
            self.observer_gram[indices],
            self.mean_norm[indices],
            self.normal_form,
        )


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
    """

    observer: Array
    mean: Array
    rows: SystemStack
    columns: SystemStack
    symmetric: bool

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
        )


def cross_gram(
    systems: Sequence[System],
    others: Sequence[System] | None = None,
    *,
    n_jobs: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    tiling: Tiling = TILING,
    embedding: Embedding | None = None,
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
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Precision of the kernel's sums over bins, see `kernel_matrix`.
    tiling : Tiling, optional
        How the work is cut; the result does not depend on it but for round-off.
    embedding : Embedding, optional
        Multiply embedded observers instead of evaluating the kernel for each pair: much faster for many
        systems, with the error that `Embedding` states. What a system is to itself stays exact.

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
    first = check_systems(systems)
    second = first
    if others is not None:
        second = check_systems(others, name="others")
        check_same_space(first, second)
    symmetric = others is None
    precision = check_precision(dtype)
    rows = SystemStack.of(first)
    columns = rows if symmetric else SystemStack.of(second)
    shape = len(first), len(second)
    observer = np.empty((*shape, rows.transition.shape[1], columns.transition.shape[1]))
    mean = np.empty(shape)

    tiles = [
        (top, left)
        for top in _blocks(first, tiling)
        for left in _blocks(second, tiling)
        if not symmetric or left.start >= top.start
    ]
    if embedding is None:
        products = _products(first, second, precision)
    else:
        left = embedding.transform(first, n_jobs=n_jobs).observers
        right = left if symmetric else embedding.transform(second, n_jobs=n_jobs).observers
        products = partial(_explicit_products, left, right)

    def fill(tile: tuple[slice, slice]) -> None:
        top, left = tile
        upper = symmetric and top == left
        block = products(top, left, upper)
        if upper:
            # Only the blocks above the diagonal were computed; the diagonal is filled in at the end.
            mirrored = np.tril_indices(len(block))
            block[mirrored] = block[mirrored[::-1]].transpose(0, 2, 1)
        observer[top, left] = block[..., :-1, :-1]
        mean[top, left] = block[..., -1, -1]
        if symmetric:
            observer[left, top] = observer[top, left].transpose(1, 0, 3, 2)
            mean[left, top] = mean[top, left].T

    run(fill, tiles, n_jobs, "kernel between streams")
    if symmetric:
        diagonal = np.arange(shape[0])
        observer[diagonal, diagonal] = rows.observer_gram
        mean[diagonal, diagonal] = rows.mean_norm
    return CrossGram(observer, mean, rows, columns, symmetric)


def _blocks(systems: Sequence[System], tiling: Tiling) -> Iterator[slice]:
    """Cut a collection into runs of a few systems, by their sizes alone, whatever the number of threads."""
    most = min(tiling.systems, -(-len(systems) // tiling.blocks))
    start = entries = 0
    for stop, system in enumerate(systems):
        if stop > start and (stop - start == most or entries + system.samples.size > tiling.entries):
            yield slice(start, stop)
            start, entries = stop, 0
        entries += system.samples.size
    yield slice(start, len(systems))


def _products(
    first: Sequence[System], second: Sequence[System], dtype: npt.DTypeLike
) -> Callable[[slice, slice, bool], Array]:
    """Return a function that computes `[C_i mu_i]' [C_j mu_j]` for a tile of pairs, (S1, S2, n + 1, m + 1).

    Its arguments are the two blocks of systems and whether only pairs above the diagonal are needed.
    """
    kernel = first[0].kernel
    features = feature_map(kernel)
    n, m = (max(system.order for system in side) for side in (first, second))
    if features is not None:
        left = np.stack([_weights(system, n).T @ features(system.samples) for system in first])
        right = (
            left if second is first else np.stack([_weights(s, m).T @ features(s.samples) for s in second])
        )
        return partial(_explicit_products, left, right)
    if isinstance(kernel, str):
        return partial(_histogram_products, first, second, n, m, kernel, dtype)
    return partial(_called_products, first, second, n, m, kernel)


def _weights(system: System, n: int) -> Array:
    """Return the coefficients of the observer, padded to order n, and of the mean: (N, n + 1)."""
    weights = np.zeros((system.size, n + 1))
    weights[:, : system.order] = system.alpha
    weights[:, n] = system.beta
    return weights


def _explicit_products(
    first: npt.NDArray[Any], second: npt.NDArray[Any], top: slice, left: slice, upper: bool
) -> Array:
    """Multiply observers given as (K, n + 1, p) arrays."""
    return np.tensordot(first[top], second[left], axes=(2, 2)).transpose(0, 2, 1, 3)


def _called_products(
    first: Sequence[System],
    second: Sequence[System],
    n: int,
    m: int,
    kernel: Callable[[Array, Array], Array],
    top: slice,
    left: slice,
    upper: bool,
) -> Array:
    """Call the kernel of the caller for each pair."""
    rows, columns = first[top], second[left]
    products = np.zeros((len(rows), len(columns), n + 1, m + 1))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if j > i or not upper:
                matrix = call_kernel(kernel, row.samples, column.samples)
                products[i, j] = _weights(row, n).T @ matrix @ _weights(column, m)
    return products


def _histogram_products(
    first: Sequence[System],
    second: Sequence[System],
    n: int,
    m: int,
    kernel: str,
    dtype: npt.DTypeLike,
    top: slice,
    left: slice,
    upper: bool,
) -> Array:
    """Sum over bins in one compiled call for the whole tile, without storing the kernel."""
    code = Code.of(kernel, dtype)
    rows, columns = _concatenate(first[top], n), _concatenate(second[left], m)
    # The empty bins of the rows are skipped, so the sparser collection becomes the rows.
    swapped = not upper and density(columns[0]) < density(rows[0])
    if swapped:
        rows, columns = columns, rows
    (samples, weights, bounds), (others, other_weights, other_bounds) = rows, columns
    products = np.zeros((bounds.size - 1, other_bounds.size - 1, weights.shape[1], other_weights.shape[1]))
    cross_blocks(
        *code.rows(samples),
        weights,
        bounds,
        *code.columns(others),
        in_tiles(other_weights),
        other_bounds,
        code.unit,
        code.intersection,
        upper,
        products,
    )
    return products.transpose(1, 0, 3, 2) if swapped else products


def _concatenate(systems: Sequence[System], n: int) -> tuple[Array, Array, IntArray]:
    """Concatenate the histograms and the coefficients of systems; the bounds are their first rows."""
    samples = np.concatenate([system.samples for system in systems])
    weights = np.concatenate([_weights(system, n) for system in systems])
    return samples, weights, np.cumsum([0] + [system.size for system in systems])
