"""Blocks of systems, and the inner products of a tile, which is a pair of blocks.

A collection is cut into blocks by the sizes of its systems alone. All that compares collections computes tile
by tile, so that the results are the same bits whatever is held in memory at a time and whoever computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import QUEUED
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._numba.histograms import cross_blocks
from sysbags.distances.embedding import Embedding, embed_systems, embedded_products
from sysbags.kernels.functions import call_kernel, feature_map
from sysbags.kernels.histograms import Code, density, in_tiles
from sysbags.systems.lazy import LazySystems, sizes_of, space_of
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.distances.gram import SystemStack

__all__ = ["Block", "Collection", "Tiling", "products"]


@dataclass(frozen=True)
class Tiling:
    """How a collection is cut into blocks; a tile is a pair of blocks.

    Attributes
    ----------
    systems : int
        At most in a block.
    entries : int
        Numbers in their streams at most, or in their observers where these are matrices. This bounds the
        memory of a thread.
    blocks : int
        At least, where there are enough systems: work for many threads.
    """

    systems: int = 16
    entries: int = 1 << 20
    blocks: int = 8

    def blocks_of(self, entries: IntArray) -> list[slice]:
        """Cut systems with these numbers of entries into runs.

        Examples
        --------
        >>> Tiling(systems=2, blocks=1).blocks_of(np.array([5, 5, 5]))
        [slice(0, 2, None), slice(2, 3, None)]
        """
        most = min(self.systems, -(-len(entries) // self.blocks))
        blocks, start, held = [], 0, 0
        for stop, size in enumerate(entries.tolist()):
            if stop > start and (stop - start == most or held + size > self.entries):
                blocks.append(slice(start, stop))
                start, held = stop, 0
            held += size
        return [*blocks, slice(start, len(entries))]


KERNEL_TILING = Tiling()
MATRIX_TILING = Tiling(systems=128)  # matrix products are efficient in large tiles


@dataclass(frozen=True, eq=False)
class Block:
    """A run of systems with all that a tile needs of them.

    Attributes
    ----------
    place : slice
        Its systems in the collection.
    stack : SystemStack
        Of its systems, padded to the largest order n of the collection.
    samples : list of (N, p) arrays
    weights : list of (N, n + 1) arrays
        Coefficients of the observer and of the mean.
    observers : (S, n + 1, d) array or None
        Observers and means as matrices, for an embedding or a kernel with an explicit feature map; then there
        are no samples.
    approximate : bool
        Whether an embedding has lost a part of them.
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

    Parameters
    ----------
    systems : sequence of System
    stack : SystemStack
        Of all of them.
    tiling : Tiling, optional
        By default larger blocks where observers are matrices.
    embedding : Embedding, optional

    Attributes
    ----------
    blocks : list of slice
    bytes : (number of blocks,) array of int
        What a block takes in memory.
    tile_bytes : int
        What a thread takes to compute a tile, for the larger of its blocks, beside the blocks.
    read_bytes : int
        What a thread takes to turn systems into matrices, before that.
    """

    def __init__(
        self,
        systems: Sequence[System],
        stack: SystemStack,
        tiling: Tiling | None = None,
        embedding: Embedding | None = None,
    ) -> None:
        self.systems, self.stack, self.embedding = systems, stack, embedding
        space = space_of(systems)
        self.kernel: KernelLike = space.kernel
        self.approximate = embedding is not None and embedding.size is not None
        self._features = feature_map(self.kernel)
        sizes = sizes_of(systems)
        length, n = space.bag_length, stack.transition.shape[1]
        if embedding is None and self._features is None:
            entries, numbers = sizes * length, sizes * (length + n + 1)
        else:
            width = length if embedding is None or embedding.size is None else embedding.size
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


def products(
    first: Block,
    second: Block,
    upper: bool,
    kernel: KernelLike,
    dtype: npt.DTypeLike,
    *,
    restore: bool = False,
) -> Array:
    """Return `[C_i mu_i]' [C_j mu_j]` for a tile, (S1, S2, n + 1, m + 1).

    Parameters
    ----------
    first, second : Block
    upper : bool
        Whether only pairs above the diagonal are needed: the others are left as they are.
    kernel : str or callable
    dtype : {numpy.float64, numpy.float32}
        See `cross_gram`.
    restore : bool, default=False
        Estimate what an embedding has lost, see `embedded_products`.
    """
    if first.observers is not None and second.observers is not None:
        if restore and first.approximate:
            return embedded_products(first.observers, second.observers, first.stack.norms, second.stack.norms)
        return np.tensordot(first.observers, second.observers, axes=(2, 2)).transpose(0, 2, 1, 3)
    if isinstance(kernel, str):
        return _histogram_products(first, second, upper, kernel, dtype)
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


def _histogram_products(first: Block, second: Block, upper: bool, kernel: str, dtype: npt.DTypeLike) -> Array:
    """Sum over bins in one compiled call for the whole tile, without storing the kernel."""
    code = Code.of(kernel, dtype)
    rows, columns = _concatenate(first), _concatenate(second)
    # The empty bins of the rows are skipped, so the sparser collection becomes the rows.
    swapped = not upper and density(columns[0]) < density(rows[0])
    if swapped:
        rows, columns = columns, rows
    (samples, weights, bounds), (others, other_weights, other_bounds) = rows, columns
    found = np.zeros((bounds.size - 1, other_bounds.size - 1, weights.shape[1], other_weights.shape[1]))
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
        found,
    )
    return found.transpose(1, 0, 3, 2) if swapped else found


def _concatenate(block: Block) -> tuple[Array, Array, IntArray]:
    """Concatenate the histograms and the coefficients of systems; the bounds are their first rows."""
    bounds = np.cumsum([0] + [len(samples) for samples in block.samples])
    return np.concatenate(block.samples), np.concatenate(block.weights), bounds
