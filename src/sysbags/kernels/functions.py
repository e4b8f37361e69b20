"""Kernels between two streams: how alike is each bag of one to each bag of the other? At once, or sliding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags._common.lazy import load_name
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import check_stream, kernel_name
from sysbags._numba.histograms import (
    GROUP,
    LANES,
    append_rows,
    count_bins,
    cross_blocks,
    fill_lists,
    fill_tiles,
    kernel_rows,
    mirror,
)
from sysbags.errors import ParameterError, StreamError
from sysbags.kernels import FEATURE_MAPS, KERNELS


def kernel_matrix(
    first: Any,
    second: Any = None,
    kernel: KernelLike = "chi2",
    *,
    dtype: npt.DTypeLike = np.float64,
    n_jobs: int | None = None,
) -> Array:
    """Evaluate a kernel between every row of one stream and every row of another.

    For histograms a and b (rows without negative entries, of sum 1):

    ============= ================================================================
    chi2          ``exp(-1/2 sum (a - b)^2 / (a + b))`` (`eq:chi`), from exp(-1) to 1
    bhattacharyya ``sum sqrt(a b)``, from 0 to 1
    intersection  ``sum min(a, b)``, from 0 to 1
    linear        ``sum a b``, for any rows: the classical linear dynamic system
    ============= ================================================================

    Parameters
    ----------
    first : (N1, p) array_like
        Rows are time.
    second : (N2, p) array_like, optional
        The first itself by default, at half the cost.
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, default="chi2"
        A callable gets both streams and returns the (N1, N2) matrix.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Precision of the sums over bins of "chi2" and "intersection". With float32 the kernel is about
        twice as fast and off by some 3e-7 at 256 bins, never by more than ``(p/8 + 16) 2^-24``.
    n_jobs : int, optional
        Threads for large streams; -1 is all cores. The result does not depend on it.

    Returns
    -------
    (N1, N2) array of float64

    Examples
    --------
    >>> kernel_matrix([[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0]], kernel="intersection")
    array([[0. ],
           [0.5]])
    """
    kernel = check_kernel(kernel)
    precision = check_precision(dtype)
    rows = check_stream(first, kernel, name="first")
    columns = rows if second is None else check_stream(second, kernel, name="second")
    if rows.shape[1] != columns.shape[1]:
        raise StreamError(
            f"first has bags of length {rows.shape[1]} and second of {columns.shape[1]}, "
            "but both must have the same"
        )
    if not isinstance(kernel, str):
        return call_kernel(kernel, rows, columns)
    features = feature_map(kernel)
    if features is not None:
        left = features(rows)
        return left @ (left if second is None else features(columns)).T
    return histogram_matrix(rows, None if second is None else columns, kernel, precision, n_jobs)


def feature_map(kernel: KernelLike) -> Callable[[Array], Array] | None:
    """Return phi with `k(a, b) = phi(a)' phi(b)` where it has finitely many dimensions, else None.

    It takes (N, p) to (N, d) arrays. None for "chi2", "intersection" and callables.

    Examples
    --------
    >>> import numpy as np
    >>> feature_map("bhattacharyya")(np.array([[0.25, 0.75]])).round(3)
    array([[0.5  , 0.866]])
    """
    path = FEATURE_MAPS.get(kernel) if isinstance(kernel, str) else None
    return None if path is None else load_name(path)


def check_kernel(kernel: Any) -> KernelLike:
    """Return the kernel if it is one of `KERNELS` or a callable."""
    if (isinstance(kernel, str) and kernel in KERNELS) or callable(kernel):
        return kernel  # type: ignore[no-any-return]
    names = ", ".join(map(repr, KERNELS))
    raise ParameterError(f"kernel is {kernel!r}, but it must be one of {names} or a callable of two streams")


def check_precision(dtype: Any) -> npt.DTypeLike:
    """Return float64 or float32."""
    for precision in (np.float64, np.float32):
        if dtype is not None and _same_dtype(dtype, precision):
            return precision
    raise ParameterError(f"dtype is {dtype!r}, but it must be numpy.float64 or numpy.float32")


def _same_dtype(dtype: Any, precision: type) -> bool:
    try:
        return bool(np.dtype(dtype) == precision)
    except TypeError:
        return False


def call_kernel(kernel: Callable[[Array, Array], Array], first: Array, second: Array) -> Array:
    """Call a user's kernel, and make sure of what it returns."""
    views = first.view(), second.view()
    for view in views:
        view.setflags(write=False)
    name = f"the kernel {kernel_name(kernel)}"
    matrix = np.asarray(kernel(*views))
    shape = (first.shape[0], second.shape[0])
    if matrix.shape != shape:
        raise ParameterError(
            f"{name} returned shape {matrix.shape} for streams of {shape[0]} and {shape[1]} rows, "
            f"but it must return {shape}"
        )
    if matrix.dtype.kind not in "biuf":
        raise ParameterError(f"{name} returned {matrix.dtype} entries, but it must return real numbers")
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise ParameterError(
            f"{name} returned {matrix[i, j]} for row {i} of the first stream and row {j} of the second, "
            "but every value must be finite"
        )
    return matrix.astype(np.float64)


class SlidingKernel:
    """The last N rows of a stream and the kernel matrix between them, which slides when rows are added.

    Only the kernel between new rows and the last N rows is evaluated; the rest of the matrix is moved. Rows
    must be valid for the kernel, see `sysbags._common.validation.check_stream`: nothing is checked here.
    `rows`, in their order, are read-only, and new after each `append`; `matrix` is `kernel_matrix(rows)`, up
    to round-off, and changed in place.
    """

    def __init__(self, rows: Array, kernel: KernelLike = "chi2") -> None:
        self.kernel = kernel
        compiled = isinstance(kernel, str) and feature_map(kernel) is None
        self._code = Code.of(str(kernel), np.float64) if compiled else None
        self.rows: Array
        self.matrix: Array
        self._columns: Columns
        self._oldest: int
        self._start(rows.copy())

    def append(self, new: Array) -> None:
        """Add rows, at most N of them, and drop as many of the oldest."""
        count, size = new.shape[0], self.rows.shape[0]
        if count == size:
            self._start(new.copy())
            return
        self.rows = np.concatenate([self.rows[count:], new])
        self.rows.setflags(write=False)
        k, code = self.matrix, self._code
        if code is None:
            block = kernel_matrix(new, self.rows, self.kernel)
            k[:-count, :-count] = k[count:, count:]
            k[-count:] = block
            k[:, -count:] = block.T
            return
        tiles, sums = self._columns
        encoding = code.floor, code.unit, code.empty, code.intersection
        append_rows(self.rows[-count:], tiles, sums, *encoding, self._oldest, k)
        self._oldest = (self._oldest + count) % size

    def _start(self, rows: Array) -> None:
        self.rows = rows
        self.rows.setflags(write=False)
        self.matrix = kernel_matrix(self.rows, kernel=self.kernel)
        if self._code is not None:
            # In a ring, from the oldest row on: only new rows are encoded, in the place of the oldest ones.
            self._columns = self._code.columns(self.rows)
            self._oldest = 0


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
    """How histograms are written for the sums over bins, in the precision `dtype`.

    Intersection takes them as they are. Chi-squared (`intersection` is None) takes reciprocals, ``unit /
    max(a, floor)``: an empty bin counts as `floor`, which adds less than `floor` to the sum of ab/(a + b), so
    the kernel is off by less than ``2 p floor``. Products of four sums x + y of such reciprocals must neither
    overflow nor underflow: in float64, floor = 2^-250 and unit = 1 keep them between 2^4 and 2^1004; in
    float32, floor = 2^-62 and unit = 2^-32 keep them between 2^-124 and 2^124. Sums are to be multiplied with
    `unit`; `empty` is an empty bin, as it is written.
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
    step = max(1, CHUNK // right.size // LANES) * LANES

    def fill(begin: int) -> None:
        end = min(begin + step, out.shape[0])
        kernel_rows(*rows, *columns, code.unit, code.intersection, symmetric, begin, end, out)

    run(fill, range(0, out.shape[0], step), n_jobs, "kernel")
    if symmetric:
        mirror(out)
    return np.ascontiguousarray(out.T) if swapped else out


def histogram_products(
    first: tuple[list[Array], list[Array]],
    second: tuple[list[Array], list[Array]],
    upper: bool,
    kernel: str,
) -> Array:
    """Return `W1' k(Y1, Y2) W2` for all pairs of two lists of streams, (S1, S2, n, m).

    For "chi2" and "intersection": one compiled call, which does not store the kernel. `first` and `second`
    are the streams Y, (N, p), and their coefficients W, (N, n). With `upper`, only pairs in which the second
    stream comes after the first; the others are left as 0.
    """
    code = Code.of(kernel, np.float64)
    rows, columns = (
        (np.concatenate(samples), np.concatenate(weights), np.cumsum([0] + [len(one) for one in samples]))
        for samples, weights in (first, second)
    )
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
