"""Kernels between two streams: how alike is each bag of one to each bag of the other? At once, or sliding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.lazy import load_name
from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import check_stream, kernel_name
from sysbags._numba.histograms import append_rows
from sysbags.errors import ParameterError, StreamError
from sysbags.kernels import FEATURE_MAPS, KERNELS
from sysbags.kernels.histograms import Code, Columns, histogram_matrix

__all__ = [
    "SlidingKernel",
    "bhattacharyya",
    "check_kernel",
    "chi2",
    "feature_map",
    "intersection",
    "kernel_matrix",
    "linear",
]


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


def chi2(first: Any, second: Any = None, *, n_jobs: int | None = None) -> Array:
    """Chi-squared kernel of two streams of histograms, see `kernel_matrix`.

    Parameters
    ----------
    first, second, n_jobs
        See `kernel_matrix`.

    Returns
    -------
    (N1, N2) array of float64

    Examples
    --------
    >>> chi2([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]).round(4)
    array([[1.    , 0.3679]])
    """
    return kernel_matrix(first, second, "chi2", n_jobs=n_jobs)


def bhattacharyya(first: Any, second: Any = None) -> Array:
    """Bhattacharyya kernel of two streams of histograms, see `kernel_matrix`.

    Parameters
    ----------
    first, second
        See `kernel_matrix`.

    Returns
    -------
    (N1, N2) array of float64

    Examples
    --------
    >>> bhattacharyya([[0.36, 0.64]], [[0.64, 0.36]])
    array([[0.96]])
    """
    return kernel_matrix(first, second, "bhattacharyya")


def intersection(first: Any, second: Any = None, *, n_jobs: int | None = None) -> Array:
    """Histogram intersection of two streams of histograms, see `kernel_matrix`.

    Parameters
    ----------
    first, second, n_jobs
        See `kernel_matrix`.

    Returns
    -------
    (N1, N2) array of float64

    Examples
    --------
    >>> intersection([[0.25, 0.75]], [[0.5, 0.5]])
    array([[0.75]])
    """
    return kernel_matrix(first, second, "intersection", n_jobs=n_jobs)


def linear(first: Any, second: Any = None) -> Array:
    """Inner products of two streams of any rows, see `kernel_matrix`.

    Parameters
    ----------
    first, second
        See `kernel_matrix`.

    Returns
    -------
    (N1, N2) array of float64

    Examples
    --------
    >>> linear([[1.0, 2.0]], [[3.0, -4.0]])
    array([[-5.]])
    """
    return kernel_matrix(first, second, "linear")


def feature_map(kernel: KernelLike) -> Callable[[Array], Array] | None:
    """Return phi with `k(a, b) = phi(a)' phi(b)` where it has finitely many dimensions, else None.

    Parameters
    ----------
    kernel : str or callable
        See `kernel_matrix`.

    Returns
    -------
    callable or None
        From (N, p) to (N, d) arrays. None for "chi2", "intersection" and callables.

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

    Parameters
    ----------
    rows : (N, p) array
        The first N rows, contiguous.
    kernel : str or callable, default="chi2"

    Attributes
    ----------
    rows : (N, p) array
        The last rows, in their order; read-only. Each `append` makes a new one.
    matrix : (N, N) array
        `kernel_matrix(rows)`, up to round-off; changed in place by `append`.

    Examples
    --------
    >>> stream = np.random.default_rng(0).dirichlet(np.ones(6), size=9)
    >>> sliding = SlidingKernel(stream[:5])
    >>> sliding.append(stream[5:7])
    >>> sliding.append(stream[7:])
    >>> np.allclose(sliding.matrix, kernel_matrix(stream[4:]), rtol=0, atol=1e-14)
    True
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
        self.rows = _read_only(np.concatenate([self.rows[count:], new]))
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
        self.rows = _read_only(rows)
        self.matrix = kernel_matrix(self.rows, kernel=self.kernel)
        if self._code is not None:
            # In a ring, from the oldest row on: only new rows are encoded, in the place of the oldest ones.
            self._columns = self._code.columns(self.rows)
            self._oldest = 0


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array
