"""All pairs of two collections with bounded memory, tile by tile; a tile is a pair of blocks of systems.

A collection is cut into blocks by the sizes of its systems alone. All that compares collections computes tile
by tile, so that the results are the same bits whatever is held in memory at a time and whoever computes them.
"""

from __future__ import annotations

import json
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
from sysbags._common.files import atomic_write
from sysbags._common.parallel import ONE_BLAS_THREAD, Shared, check_jobs, run, use_client
from sysbags._common.types import Array, IntArray
from sysbags.errors import FileError, ParameterError

if TYPE_CHECKING:
    from sysbags.distances.gram import Collection

SAVE_SECONDS = 30.0
PROGRESS = ".progress"
PAGE = 4096
MOST_WRITTEN = 64 * 10**6  # bytes in memory before they are saved
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Tiling:
    """How a collection is cut into blocks; a tile is a pair of blocks.

    A block has at most so many `systems`, with at most so many `entries` in their streams, or in their
    observers where these are matrices: this bounds the memory of a thread. There are at least so many
    `blocks`, where there are enough systems: work for many threads.
    """

    systems: int = 16
    entries: int = 1 << 20
    blocks: int = 8

    def blocks_of(self, entries: IntArray) -> list[slice]:
        """Cut systems with these numbers of entries into runs.

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


def check_memory(memory: Any) -> int | None:
    """Return a number of bytes for a text such as "2GB"."""
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

    For one collection, `rows` and `columns` are the same object, and only tiles above the diagonal are
    computed. `memory` is in bytes, beside the interpreter; `client` is that of a Dask cluster.
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
        """Return where results are written: new arrays if `out` is None, else arrays or files of the caller.

        `tails` has the name of each array and its shape after the two axes of systems. A path is that of the
        file "" of `tails`, or of a folder for files with names. `parameters` is what the results depend on
        beside the systems, and `kind` what they are.
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

        `function` takes a tile, ``(block, block, whether only pairs above the diagonal are needed)``, and
        `shared`, to the parts of a tile, one for each array of the output. It can be pickled. `description`
        is the text of the progress bar.
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
            "embedding": embedding and fingerprint([embedding.landmarks_, embedding.factor_]),
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


class ArrayOutput:
    """Arrays of the caller, or new ones: nothing is done before, and nothing has to be saved.

    Arrays have slice assignment, such as those of NumPy or Zarr. The array `done` says which of the tiles
    have been written. `size` is the number of bytes of the arrays, where they are new.
    """

    def __init__(self, arrays: Sequence[Any], tiles: int, size: int = 0) -> None:
        self.arrays, self._size = list(arrays), size
        self.done = np.zeros(tiles, bool)

    def write(
        self, rows: slice, columns: slice, parts: Sequence[Array], tile: int, mirrored: int | None
    ) -> None:
        """Write a tile: one part for each array, and the transposes to the tile on the other side."""
        for array, part in zip(self.arrays, parts, strict=True):
            array[rows, columns] = part
            if mirrored is not None:
                array[columns, rows] = part.transpose(1, 0, *range(part.ndim - 1, 1, -1))
        self.done[[tile] if mirrored is None else [tile, mirrored]] = True

    def held_bytes(self, rows: int, columns: int, symmetric: bool) -> int:
        """Return the memory that the output takes while a panel of systems by systems is written."""
        return self._size

    def open(self) -> None:
        """Nothing to do before tiles are written."""

    def save(self) -> None:
        """Nothing to do after tiles are written."""

    def results(self) -> list[Any]:
        """Return the arrays."""
        return self.arrays


class FileOutput(ArrayOutput):
    """Files of the format .npy, written through memory maps, and a file that says which tiles they hold.

    That file, `progress`, is a JSON document: the key, the finished tiles as bits, and whether all are
    finished. ``key()`` returns all that the results depend on, as JSON; files with another key are replaced.
    A quarter of `memory` may be filled with what is written.
    """

    def __init__(
        self,
        shapes: Mapping[Path, tuple[int, ...]],
        progress: Path,
        tiles: int,
        key: Callable[[], str],
        memory: int | None = None,
    ) -> None:
        super().__init__([], tiles)
        self._most = MOST_WRITTEN if memory is None else max(10**6, min(MOST_WRITTEN, memory // 4))
        self._shapes, self._progress = shapes, progress
        for path in (*shapes, progress):
            if path.is_dir():
                raise FileError(f"cannot write {path}: it is a folder, but it must be the name of a file")
        self._key = key()
        done = self._finished(tiles)
        self._exists = done is not None
        self.done = self.done if done is None else done
        self._saved, self._written = time.monotonic(), 0

    def open(self) -> None:
        """Open the files, which are created if they are not those of this work."""
        for path, shape in self._shapes.items():
            if not self._progress.exists() and path.exists() and not _may_be_result(path, shape):
                raise FileError(
                    f"{path} is not the result of an earlier call, and would be replaced: remove it, or use "
                    "another name"
                )
        try:
            if not self._exists:
                self._create()
            self._open()
        except (OSError, ValueError) as error:
            path = next(iter(self._shapes))
            raise FileError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None

    def write(
        self, rows: slice, columns: slice, parts: Sequence[Array], tile: int, mirrored: int | None
    ) -> None:
        """Write a tile; progress is saved from time to time."""
        super().write(rows, columns, parts, tile, mirrored)
        self._written += self._pages(
            rows.stop - rows.start, columns.stop - columns.start, mirrored is not None
        )
        if self._written > self._most or time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def held_bytes(self, rows: int, columns: int, symmetric: bool) -> int:
        """Return the memory that is filled before it is saved."""
        return min(self._most, self._pages(rows, columns, symmetric))

    def _pages(self, rows: int, columns: int, symmetric: bool) -> int:
        """Return the memory of a part of the arrays; each of its rows begins and ends within a page."""
        sides = [(rows, columns), (columns, rows)][: 1 + symmetric]
        items = [8 * int(np.prod(shape[2:])) for shape in self._shapes.values()]
        return sum(down * (across * item + 2 * PAGE) for down, across in sides for item in items)

    def save(self) -> None:
        """Write what is in memory, say that it is written, and free the memory."""
        for array in self.arrays:
            array.flush()
        bits = np.packbits(self.done).tobytes().hex()
        document = {
            "key": self._key,
            "tiles": self.done.size,
            "done": bits,
            "complete": bool(self.done.all()),
        }
        with atomic_write(self._progress) as temporary:
            temporary.write_text(json.dumps(document), encoding="utf-8")
        self._open()  # pages of a memory map stay in memory until it is closed
        self._saved, self._written = time.monotonic(), 0

    def results(self) -> list[Any]:
        """Return memory maps of the files; what the caller changes in them is not written."""
        self.arrays = []
        return [np.lib.format.open_memmap(path, mode="c") for path in self._shapes]

    def _open(self) -> None:
        self.arrays = []
        self.arrays = [np.lib.format.open_memmap(path, mode="r+") for path in self._shapes]

    def _finished(self, tiles: int) -> npt.NDArray[np.bool_] | None:
        """Return which tiles the files hold; None if they are not those of this work."""
        try:
            document = json.loads(self._progress.read_text(encoding="utf-8"))
            if document["key"] != self._key or document["tiles"] != tiles:
                return None
            bits = np.frombuffer(bytes.fromhex(document["done"]), np.uint8)
            for path, shape in self._shapes.items():
                array = np.lib.format.open_memmap(path, mode="r")
                if array.shape != shape or array.dtype != np.float64:
                    return None
            done = np.unpackbits(bits)[:tiles].astype(bool)
        except (OSError, ValueError, KeyError, TypeError):
            return None  # missing, or damaged
        return done if done.size == tiles else None

    def _create(self) -> None:
        """Create files of zeros; the space is taken now, as a full disk would end the process later."""
        self._progress.parent.mkdir(parents=True, exist_ok=True)
        self._progress.unlink(missing_ok=True)
        for path, shape in self._shapes.items():
            with path.open("wb") as file:
                header = {"descr": np.dtype(np.float64).str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                self._allocate(file, 8 * int(np.prod(shape)))

    @staticmethod
    def _allocate(file: Any, size: int) -> None:
        start = file.tell()
        file.truncate(start + size)
        if hasattr(os, "posix_fallocate"):
            file.flush()
            os.posix_fallocate(file.fileno(), 0, start + size)


def _may_be_result(path: Path, shape: tuple[int, ...]) -> bool:
    """Tell whether a file is empty, or has the header of a result: a killed call leaves such files."""
    try:
        with path.open("rb") as file:
            if not file.read(1):
                return True
            file.seek(0)
            np.lib.format.read_magic(file)
            return np.lib.format.read_array_header_1_0(file) == (shape, False, np.dtype(np.float64))
    except (OSError, ValueError):
        return False


def check_array(out: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of the caller that results can be written to."""
    if not hasattr(out, "__setitem__") or not hasattr(out, "shape"):
        raise ParameterError(
            f"out is of type {type(out).__name__}, but it must be a path, or an array with a shape"
        )
    if tuple(out.shape) != shape:
        raise ParameterError(f"out has shape {tuple(out.shape)}, but it must be {shape}")
    if np.dtype(getattr(out, "dtype", float)).kind != "f":
        raise ParameterError(f"out has the dtype {out.dtype}, but distances need a floating point array")
    return out
