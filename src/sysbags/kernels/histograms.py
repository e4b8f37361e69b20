"""Histograms laid out for the compiled sums over bins, and the kernel matrix of two streams from them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._numba.histograms import GROUP, LANES, count_bins, fill_lists, fill_tiles, kernel_rows, mirror

__all__ = ["Code", "Columns", "Rows", "density", "histogram_matrix", "in_tiles"]

TILE = 256  # columns: a running sum for each of them and eight bins of them fit the first cache
CHUNK = 1 << 26  # pairs of bins that make a thread worth its while, some 10 ms


class Rows(NamedTuple):
    """The rows of a kernel matrix: lists of the bins that matter, in groups; see `fill_lists`."""

    starts: IntArray
    bins: npt.NDArray[np.uint32]
    values: npt.NDArray[Any]
    sums: Array


class Columns(NamedTuple):
    """The columns of a kernel matrix: T tiles of bins by frames, (T, p, width), and sums, (T, width)."""

    tiles: npt.NDArray[Any]
    sums: Array


class Code(NamedTuple):
    """How histograms are written for the sums over bins.

    Intersection takes them as they are. Chi-squared takes reciprocals, ``unit / max(a, floor)``: an
    empty bin counts as `floor`, which adds less than `floor` to the sum of ab/(a + b), so the kernel
    is off by less than ``2 p floor``. Products of four sums x + y of such reciprocals must neither
    overflow nor underflow: in float64, floor = 2^-250 and unit = 1 keep them between 2^4 and 2^1004;
    in float32, floor = 2^-62 and unit = 2^-32 keep them between 2^-124 and 2^124.

    Parameters
    ----------
    dtype : numpy.dtype
        Precision of the sums.
    floor : float
        Entries up to here count as empty.
    unit : float
        What the sums are to be multiplied with.
    empty : float
        An empty bin, as it is written.
    intersection : True or None
        Chi-squared if None.
    """

    dtype: np.dtype[Any]
    floor: float
    unit: float
    empty: float
    intersection: Literal[True] | None

    @classmethod
    def of(cls, kernel: str, dtype: npt.DTypeLike) -> Code:
        """Return the code for "chi2" or "intersection" in float64 or float32."""
        precision = np.dtype(dtype)
        if kernel == "intersection":
            return cls(precision, 0.0, 1.0, 0.0, True)
        floor, unit = (2.0**-250, 1.0) if precision == np.float64 else (2.0**-62, 2.0**-32)
        return cls(precision, floor, unit, unit / floor, None)

    def rows(self, samples: Array) -> Rows:
        """Lay histograms out as the rows of a kernel matrix."""
        starts = np.zeros(samples.shape[0] + 1, np.int64)
        np.cumsum(-(-count_bins(_read_only(samples), self.floor) // GROUP), out=starts[1:])
        bins = np.zeros(starts[-1] * GROUP, np.uint32)
        values = np.full(starts[-1] * GROUP, self.empty, self.dtype)
        fill_lists(_read_only(samples), starts, self.floor, self.unit, self.intersection, bins, values)
        return Rows(starts, bins.reshape(-1, GROUP), values.reshape(-1, GROUP), samples.sum(axis=1))

    def columns(self, samples: Array) -> Columns:
        """Lay histograms out as the columns of a kernel matrix."""
        size, length = samples.shape
        count, width = _tiling(size)
        tiles = np.full((count, length, width), self.empty, self.dtype)
        fill_tiles(_read_only(samples), self.floor, self.unit, self.intersection, tiles)
        return Columns(tiles, in_tiles(samples.sum(axis=1)))


def in_tiles(lines: Array) -> Array:
    """Cut (N, ...) lines as columns are cut, the frames last: (T, ..., width)."""
    count, width = _tiling(lines.shape[0])
    padded = np.zeros((count * width, *lines.shape[1:]))
    padded[: lines.shape[0]] = lines
    return np.ascontiguousarray(np.moveaxis(padded.reshape(count, width, *lines.shape[1:]), 1, -1))


def _tiling(size: int) -> tuple[int, int]:
    count = -(-size // TILE)
    return count, -(-size // (count * LANES)) * LANES


def _read_only(array: Array) -> Array:
    """Return a read-only view: systems hold such arrays, and one kind is compiled once."""
    view = array.view()
    view.setflags(write=False)
    return view


def density(samples: Array) -> float:
    """Return the share of bins that are not empty."""
    return float(count_bins(_read_only(samples), 0.0).sum() / samples.size)


def histogram_matrix(
    first: Array,
    second: Array | None,
    kernel: str,
    dtype: npt.DTypeLike,
    n_jobs: int | None,
    chunk: int = CHUNK,
) -> Array:
    """Evaluate "chi2" or "intersection" for all rows of two streams, or of one with itself.

    Each row is worked out alone, so that chunks and threads cannot change it.
    """
    code = Code.of(kernel, dtype)
    left, right, symmetric = first, first if second is None else second, second is None
    # The lists come from the stream where they skip more (columns are padded, hence the cost of few).
    costs = [density(a) * a.shape[0] * (b.shape[0] + LANES) for a, b in ((left, right), (right, left))]
    swapped = costs[1] < costs[0]
    if swapped:
        left, right = right, left
    rows, columns = code.rows(left), code.columns(right)
    out = np.empty((left.shape[0], right.shape[0]))
    step = max(1, chunk // right.size // LANES) * LANES

    def fill(begin: int) -> None:
        end = min(begin + step, out.shape[0])
        kernel_rows(*rows, *columns, code.unit, code.intersection, symmetric, begin, end, out)

    run(fill, range(0, out.shape[0], step), n_jobs, "kernel")
    if symmetric:
        mirror(out)
    return np.ascontiguousarray(out.T) if swapped else out
