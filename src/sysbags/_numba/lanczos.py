"""The Lanczos process: an orthonormal basis in which a symmetric matrix is tridiagonal, vector by vector."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled

__all__ = ["lanczos"]


@compiled(fastmath={"contract", "reassoc", "nsz"}, inline="always", wrapper=False)
def _remove(component: Array, vector: Array) -> float:
    """Make a vector orthogonal to a unit vector; return its coefficient."""
    coefficient = 0.0
    for i in range(np.uint64(vector.size)):
        coefficient += component[i] * vector[i]
    for i in range(np.uint64(vector.size)):
        vector[i] -= coefficient * component[i]
    return coefficient


@compiled(fastmath={"contract", "reassoc", "nsz"})
def lanczos(matrix: Array, basis: Array, diagonal: Array, beside: Array, begin: int, end: int) -> int:
    """Continue the Lanczos process from step `begin` to step `end`, with full reorthogonalisation.

    With Q the first m basis vectors in columns and T the tridiagonal matrix of `diagonal[:m]` and
    `beside[:m - 1]`, it holds that ``matrix Q = Q T + beside[m - 1] q_{m+1} e_m'``.

    Parameters
    ----------
    matrix : (N, N) array
        Symmetric.
    basis : (M, N) array
        Rows up to `begin` are given, those up to `end` are written. The first is any unit vector.
    diagonal, beside : (M - 1,) arrays
        Written from `begin` to `end`.
    begin, end : int

    Returns
    -------
    int
        The number of steps so far: `end`, or fewer if the basis spans an invariant subspace.
    """
    size = np.uint64(matrix.shape[0])
    fours = np.uint64(matrix.shape[0] // 4 * 4)
    for step in range(begin, end):
        current, following = basis[step], basis[step + 1]
        for j in range(size):
            following[j] = 0.0
        # Four rows a pass over the product, which is then read and written less often.
        for i in range(np.uint64(0), fours, np.uint64(4)):
            x0, x1 = current[i], current[i + np.uint64(1)]
            x2, x3 = current[i + np.uint64(2)], current[i + np.uint64(3)]
            r0, r1 = matrix[i], matrix[i + np.uint64(1)]
            r2, r3 = matrix[i + np.uint64(2)], matrix[i + np.uint64(3)]
            for j in range(size):
                following[j] += (x0 * r0[j] + x1 * r1[j]) + (x2 * r2[j] + x3 * r3[j])
        for i in range(fours, size):
            x0, r0 = current[i], matrix[i]
            for j in range(size):
                following[j] += x0 * r0[j]
        largest = 0.0
        for j in range(size):
            largest = max(largest, abs(following[j]))
        diagonal[step] = _remove(current, following)
        for other in range(step, -1, -1):
            _remove(basis[other], following)
        norm = 0.0
        for j in range(size):
            norm += following[j] * following[j]
        beside[step] = np.sqrt(norm)
        if beside[step] <= 1e-14 * largest:
            return step + 1
        for j in range(size):
            following[j] /= beside[step]
    return end
