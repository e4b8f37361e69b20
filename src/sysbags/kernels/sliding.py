"""The kernel matrix of the last rows of an endless stream."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array, KernelLike
from sysbags._numba.histograms import append_rows
from sysbags.kernels.functions import feature_map, kernel_matrix
from sysbags.kernels.histograms import Code, Columns

__all__ = ["SlidingKernel"]


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
