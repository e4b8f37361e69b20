"""Small dense linear algebra for matrices of a system's order: no LAPACK call, the same bits everywhere."""

from __future__ import annotations

import numpy as np

from sysbags._compiled import compiled
from sysbags._types import Array

__all__ = ["svd"]


@compiled(fastmath=True)
def dot(x: Array, y: Array) -> float:
    """Inner product of two vectors."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@compiled(fastmath=True)
def rotate_rows(x: Array, y: Array, c: float, s: float) -> None:
    """Rotate two vectors into each other, in place."""
    for i in range(x.shape[0]):
        u, v = x[i], y[i]
        x[i] = c * u - s * v
        y[i] = s * u + c * v


@compiled()
def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Singular value decomposition of a small square matrix by one-sided Jacobi rotations.

    Parameters
    ----------
    matrix : (n, n) array
        Any real square matrix; rank deficient ones too.

    Returns
    -------
    left : (n, n) array
        Orthogonal.
    values : (n,) array
        Descending, non-negative.
    right_transposed : (n, n) array
        Orthogonal; `left @ diag(values) @ right_transposed` is the matrix.
    """
    n = matrix.shape[0]
    # Scaled, because squares of its entries are formed.
    scale = np.abs(matrix).max()
    scale = scale if scale > 0.0 else 1.0
    # Rows of `work` are the columns of the matrix: contiguous, so that the inner loops vectorise.
    work = matrix.T / scale
    right = np.eye(n)
    squares = np.empty(n)
    for _ in range(60):
        largest = 0.0
        for p in range(n):
            squares[p] = dot(work[p], work[p])
        for p in range(n - 1):
            for q in range(p + 1, n):
                pp, qq, pq = squares[p], squares[q], dot(work[p], work[q])
                # Next to the largest column, a column of rounding errors has no direction.
                if min(pp, qq) <= 1e-32 * squares.max():
                    continue
                cosine = abs(pq) / np.sqrt(pp * qq)
                largest = max(largest, cosine)
                if cosine <= 1e-16:
                    continue
                zeta = (qq - pp) / (2.0 * pq)
                t = np.copysign(1.0, zeta) / (abs(zeta) + np.sqrt(1.0 + zeta * zeta))
                c = 1.0 / np.sqrt(1.0 + t * t)
                rotate_rows(work[p], work[q], c, c * t)
                rotate_rows(right[p], right[q], c, c * t)
                squares[p], squares[q] = max(pp - t * pq, 0.0), qq + t * pq
        # Jacobi ends quadratically: from here the next sweep would find nothing above round-off.
        if largest < 1e-13:
            break
    norms = np.empty(n)
    for p in range(n):
        norms[p] = np.sqrt(np.sum(work[p] * work[p]))
    order = np.argsort(-norms)
    values = norms[order]
    right_transposed = right[order].copy()
    left_transposed = work[order].copy()
    floor = values[0] * n * 2.3e-16
    for k in range(n):
        if values[k] > floor:
            left_transposed[k] /= values[k]
            continue
        # A null direction: any unit vector orthogonal to those before it.
        best = -1.0
        for axis in range(n):
            candidate = np.zeros(n)
            candidate[axis] = 1.0
            for _ in range(2):
                for j in range(k):
                    candidate -= np.sum(left_transposed[j] * candidate) * left_transposed[j]
            length = np.sqrt(np.sum(candidate * candidate))
            if length > best + 1e-3:
                best = length
                left_transposed[k] = candidate / length
    return left_transposed.T.copy(), values * scale, right_transposed
