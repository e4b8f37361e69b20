"""The kernel matrix of the last rows of an endless stream."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array, KernelLike
from sysbags._numba.histograms import kernel_rows, mirror
from sysbags.kernels.functions import feature_map, kernel_matrix
from sysbags.kernels.histograms import Code

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
        self._start(rows.copy())

    def append(self, new: Array) -> None:
        """Add rows, at most N of them, and drop as many of the oldest."""
        count, size = new.shape[0], self.rows.shape[0]
        if count == size:
            self._start(new.copy())
            return
        self.rows = _read_only(np.concatenate([self.rows[count:], new]))
        block = self._block(new)
        corner = np.ascontiguousarray(block[:, size - count :])
        mirror(corner)  # exactly symmetric, as in a matrix that is evaluated at once
        k = self.matrix
        k[:-count, :-count] = k[count:, count:]
        k[-count:] = block
        k[:, -count:] = block.T
        k[-count:, -count:] = corner

    def _start(self, rows: Array) -> None:
        self.rows = _read_only(rows)
        self.matrix = kernel_matrix(self.rows, kernel=self.kernel)
        if self._code is not None:
            self._columns = self._code.columns(self.rows)
            self._oldest = 0

    def _block(self, new: Array) -> Array:
        """Evaluate the kernel between new rows and all rows, in their order."""
        if self._code is None:
            return kernel_matrix(new, self.rows, self.kernel)
        # The encoded columns are in a ring, so that only new ones are encoded: they replace the oldest.
        (tiles, sums), size = self._columns, self.rows.shape[0]
        tile, column = np.divmod((self._oldest + np.arange(new.shape[0])) % size, tiles.shape[2])
        encoded = self._code.columns(new).tiles
        tiles[tile, :, column] = np.moveaxis(encoded, 1, 2).reshape(-1, new.shape[1])[: new.shape[0]]
        sums[tile, column] = new.sum(axis=1)
        self._oldest = (self._oldest + new.shape[0]) % size
        block = np.empty((new.shape[0], size))
        code = self._code
        kernel_rows(
            *code.rows(new), tiles, sums, code.unit, code.intersection, False, 0, new.shape[0], block
        )
        return np.roll(block, -self._oldest, axis=1)


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array
