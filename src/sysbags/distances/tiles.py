"""All tiles of two collections with bounded memory: a panel of rows and a panel of columns at a time."""

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
from typing import Any

import numpy as np

from sysbags._common.cache import SCHEMAS, fingerprint
from sysbags._common.cluster import Shared, use_client
from sysbags._common.parallel import ONE_BLAS_THREAD, check_jobs, run
from sysbags.distances.blocks import Collection
from sysbags.distances.output import PROGRESS, ArrayOutput, FileOutput, check_array
from sysbags.errors import FileError, ParameterError

__all__ = ["TileWork", "check_memory"]

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
