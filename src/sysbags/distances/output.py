"""Where the results of tiles are written: arrays, or files that an interrupted call continues."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.files import atomic_write
from sysbags._common.types import Array
from sysbags.errors import FileError, ParameterError

__all__ = ["ArrayOutput", "FileOutput", "check_array"]

SAVE_SECONDS = 30.0
PROGRESS = ".progress"
PAGE = 4096
MOST_WRITTEN = 64 * 10**6  # bytes in memory before they are saved


class ArrayOutput:
    """Arrays of the caller, or new ones: nothing is done before, and nothing has to be saved.

    Parameters
    ----------
    arrays : sequence of array-like
        With slice assignment, such as arrays of NumPy or Zarr.
    tiles : int
        Number of tiles.
    size : int, default=0
        Bytes of the arrays, where they are new.

    Attributes
    ----------
    done : (tiles,) array of bool
        The tiles that have been written.
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

    Parameters
    ----------
    shapes : mapping of path to tuple of int
    progress : path
        A JSON document: the key, the finished tiles as bits, and whether all are finished.
    tiles : int
    key : callable
        Returns all that the results depend on, as JSON. Files with another key are replaced.
    memory : int or None
        A quarter of it may be filled with what is written.
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
