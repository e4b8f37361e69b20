"""All pairs of two collections with bounded memory, tile by tile; a tile is a pair of blocks of systems.

A collection is cut into blocks by the sizes of its systems alone. All that compares collections computes tile
by tile, so that the results are the same bits whatever is held in memory at a time and whoever computes them.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sysbags._common.cache import SCHEMAS, fingerprint
from sysbags._common.parallel import ONE_BLAS_THREAD, QUEUED, Shared, check_jobs, run, use_client
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._numba.histograms import cross_blocks
from sysbags.distances.embedding import Embedding, embed_systems, embedded_products
from sysbags.distances.output import PROGRESS, ArrayOutput, FileOutput, check_array
from sysbags.errors import FileError, ParameterError
from sysbags.kernels.functions import call_kernel, feature_map
from sysbags.kernels.histograms import Code, density, in_tiles
from sysbags.systems.collection import LazySystems, sizes_of, space_of
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.distances.gram import SystemStack

__all__ = ["Block", "Collection", "TileWork", "Tiling", "check_memory", "products"]


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


UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
QUIET_SECONDS = 2.0


def check_memory(memory: Any) -> int | None:
    """Return a number of bytes for a text such as "2GB".

    Examples
    --------
    >>> check_memory("1.5GB"), check_memory(4096)
    (1500000000, 4096)
    """
    if memory is None:
        return None
    size = 0
    if isinstance(memory, str):
        found = re.fullmatch(r"([0-9]+\.?[0-9]*) ?([KMGT]?B)?", memory.strip().upper())
        size = int(float(found[1]) * UNITS[found[2] or "B"]) if found else 0
    elif isinstance(memory, (int, float, np.number)) and not isinstance(memory, bool):
        size = int(memory) if np.isfinite(memory) else 0
    if size <= 0:
        raise ParameterError(
            f'memory is {memory!r}, but it must be a text such as "2GB" or "500MB" (B, KB, MB, GB or TB), '
            "or a number of bytes"
        )
    return size


@dataclass(frozen=True, eq=False)
class TileWork:
    """The tiles of two collections, or of one with itself, and how they are computed.

    Attributes
    ----------
    rows, columns : Collection
        The same object for one collection with itself: then only tiles above the diagonal are computed.
    n_jobs : int or None
    memory : int or None
        Bytes at most, beside the interpreter.
    client : distributed.Client or None
    """

    rows: Collection
    columns: Collection
    n_jobs: int | None = None
    memory: int | None = None
    client: Any = None

    @property
    def symmetric(self) -> bool:
        """Whether this is one collection with itself."""
        return self.rows is self.columns

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of systems."""
        return len(self.rows.systems), len(self.columns.systems)

    @property
    def tiles(self) -> int:
        """The number of tiles, with those below the diagonal."""
        return len(self.rows.blocks) * len(self.columns.blocks)

    def output(
        self,
        kind: str,
        out: Any,
        tails: Mapping[str, tuple[int, ...]],
        parameters: Mapping[str, Any],
    ) -> ArrayOutput:
        """Return where results are written.

        Parameters
        ----------
        kind : {"distances", "gram"}
        out : path, array-like or None
            None for new arrays in memory. A path is that of the file "" of `tails`, or of a folder for files
            with names.
        tails : mapping of str to tuple of int
            The name of each array and its shape after the two axes of systems.
        parameters : mapping
            What the results depend on beside the systems.
        """
        shapes = {name: (*self.shape, *tail) for name, tail in tails.items()}
        if out is None:
            size = sum(8 * int(np.prod(shape)) for shape in shapes.values())
            self._check_result(kind, size)
            return ArrayOutput([np.empty(shape) for shape in shapes.values()], self.tiles, size)
        if not isinstance(out, (str, os.PathLike)):
            if "" not in tails:
                raise ParameterError(
                    f"out is of type {type(out).__name__}, but it must be the path of a folder"
                )
            return ArrayOutput([check_array(out, shape) for shape in shapes.values()], self.tiles)
        path = Path(out)
        if "" in tails:
            if path.suffix != ".npy":
                raise ParameterError(f"out is {str(out)!r}, but the name of the file must end in .npy")
            paths, progress = [path], path.with_name(f"{path.name}{PROGRESS}")
        else:
            if path.exists() and not path.is_dir():
                raise FileError(f"cannot write into {path}: it is a file, but it must be a folder")
            paths, progress = [path / f"{name}.npy" for name in shapes], path / f"{kind}{PROGRESS}"
        key = partial(self._key, kind, parameters)
        files = dict(zip(paths, shapes.values(), strict=True))
        return FileOutput(files, progress, self.tiles, key, self.memory)

    def compute(
        self,
        function: Callable[..., Sequence[Any]],
        shared: Sequence[Any],
        output: ArrayOutput,
        description: str,
    ) -> list[Any]:
        """Compute all tiles that are not done, write them, and return the arrays of the output.

        Parameters
        ----------
        function : callable
            From a tile, ``(block, block, whether only pairs above the diagonal are needed)``, and `shared` to
            the parts of a tile, one for each array of the output. It can be pickled.
        shared : sequence
        output : ArrayOutput
        description : str
            The text of the progress bar.
        """
        if output.done.all():
            return output.results()
        held: dict[tuple[Collection, int], list[Shared]] = {}
        step, started = self._blocks_per_panel(output), time.monotonic()
        output.open()
        # A panel with a single tile must not be computed with more threads of BLAS than in a larger panel.
        threads = nullcontext() if self.tiles == 1 else ONE_BLAS_THREAD
        try:
            with use_client(self.client), threads:
                for tops, lefts in self._panels(step):
                    tiles = [(i, j) for i in tops for j in lefts if self._is_needed(i, j, output)]
                    if not tiles:
                        continue
                    wanted = {(self.rows, tops[0]): tops, (self.columns, lefts[0]): lefts}
                    held = {panel: held[panel] for panel in wanted if panel in held}  # the others are freed
                    for panel, places in wanted.items():
                        if panel not in held:
                            held[panel] = self._read(panel[0], places)
                    first, second = held[self.rows, tops[0]], held[self.columns, lefts[0]]
                    run(
                        function,
                        [
                            (first[i - tops[0]], second[j - lefts[0]], self.symmetric and i == j)
                            for i, j in tiles
                        ],
                        self.n_jobs,
                        description,
                        shared=shared,
                        consume=partial(self._write, output, tiles),
                        remote=True,
                        quiet_seconds=max(0.0, started + QUIET_SECONDS - time.monotonic()),
                    )
                    del first, second  # otherwise they would be held while the next panel is read
                    output.save()
        finally:
            output.save()
        return output.results()

    def _is_needed(self, i: int, j: int, output: ArrayOutput) -> bool:
        return not output.done[self._tile(i, j)] and not (self.symmetric and j < i)

    def _tile(self, i: int, j: int) -> int:
        return i * len(self.columns.blocks) + j

    def _read(self, collection: Collection, places: range) -> list[Shared]:
        blocks = collection.read(collection.blocks[places.start : places.stop], self.n_jobs)
        return [Shared(block) for block in blocks]

    def _write(self, output: ArrayOutput, tiles: list[tuple[int, int]], k: int, parts: Sequence[Any]) -> None:
        i, j = tiles[k]
        mirrored = self._tile(j, i) if self.symmetric and i != j else None
        output.write(self.rows.blocks[i], self.columns.blocks[j], parts, self._tile(i, j), mirrored)

    def _panels(self, step: int) -> Iterator[tuple[range, range]]:
        """Yield the blocks of each pair of panels."""
        tops, lefts = (
            [range(k, min(k + step, len(side.blocks))) for k in range(0, len(side.blocks), step)]
            for side in (self.rows, self.columns)
        )
        for top in tops:
            for left in lefts:
                if not self.symmetric or left.start >= top.start:
                    yield top, left

    def _blocks_per_panel(self, output: ArrayOutput) -> int:
        """Return the largest number of blocks in a panel that keeps within the memory."""
        low, high = 1, max(len(self.rows.blocks), len(self.columns.blocks))
        if self.memory is None:
            return high
        least = self._bytes(low, output)
        if least > self.memory:
            raise ParameterError(
                f"memory is {_megabytes(self.memory)}, but at least {_megabytes(least)} are needed for two "
                "blocks of systems and the work on them: give more, or use fewer threads"
            )
        while low < high:
            middle = (low + high + 1) // 2
            if self._bytes(middle, output) <= self.memory:
                low = middle
            else:
                high = middle - 1
        return low

    def _bytes(self, step: int, output: ArrayOutput) -> int:
        """Return what panels of some blocks take at most: streams, tiles being computed, and the output."""
        streams: list[int] = []
        systems: list[int] = []
        for side in (self.rows, self.columns):
            starts = range(0, len(side.blocks), step)
            streams.append(max(int(side.bytes[k : k + step].sum()) for k in starts))
            ends = [(k, min(k + step, len(side.blocks)) - 1) for k in starts]
            systems.append(max(side.blocks[last].stop - side.blocks[k].start for k, last in ends))
        tiles = self.rows.tile_bytes + self.columns.tile_bytes
        working: int = check_jobs(self.n_jobs) * max(tiles, self.rows.read_bytes, self.columns.read_bytes)
        return sum(streams) + working + output.held_bytes(systems[0], systems[1], self.symmetric)

    def _check_result(self, kind: str, size: int) -> None:
        if self.memory is not None and size > self.memory:
            rows, columns = self.shape
            raise ParameterError(
                f"the result for {rows} x {columns} systems takes {_megabytes(size)}, but memory is "
                f"{_megabytes(self.memory)}: give more, or out, a "
                f"{'file' if kind == 'distances' else 'folder'} to write the result to"
            )

    def _key(self, kind: str, parameters: Mapping[str, Any]) -> str:
        """Return a hash of all that the result depends on."""
        sides = [self.rows] if self.symmetric else [self.rows, self.columns]
        kernel, embedding = self.rows.kernel, self.rows.embedding
        content = {
            "kind": kind,
            "schema": SCHEMAS[kind],
            # What a callable computes cannot be known: a file with it is never continued.
            "kernel": kernel if isinstance(kernel, str) else secrets.token_hex(16),
            "blocks": [[[block.start, block.stop] for block in side.blocks] for side in sides],
            "systems": [_prints(side) for side in sides],
            "embedding": None if embedding is None else fingerprint([embedding.landmarks, embedding.factor]),
            **parameters,
        }
        return str(fingerprint(repr(fingerprint(content)).encode()))


def _prints(side: Collection) -> list[Any]:
    """Return what identifies each system; those on disk are read one by one."""
    return [
        fingerprint([system.samples, system.alpha, system.beta, system.transition, system.normal_form])
        for system in side.systems
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 10**6 else f"{size:,} bytes"
