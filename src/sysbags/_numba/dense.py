"""Small dense linear algebra for matrices of a system's order: no LAPACK call, the same bits everywhere.

Without `fastmath`: several kernels contain these functions, see `sysbags._numba.compiled`.
"""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled


@compiled(wrapper=False)
def dot(x: Array, y: Array) -> float:
    """Inner product of two vectors."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@compiled(wrapper=False)
def rotate_rows(x: Array, y: Array, c: float, s: float) -> None:
    """Rotate two vectors into each other, in place."""
    for i in range(x.shape[0]):
        u, v = x[i], y[i]
        x[i] = c * u - s * v
        y[i] = s * u + c * v


@compiled(wrapper=False)
def square_norm(matrix: Array) -> float:
    """Sum of the squared entries of a matrix."""
    total = 0.0
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * matrix[i, j]
    return total


@compiled(wrapper=False)
def remove_trace(A: Array) -> float:
    """Subtract from the diagonal its mean, in place, and return the mean."""
    n = A.shape[0]
    mean = 0.0
    for i in range(n):
        mean += A[i, i] / n
    for i in range(n):
        A[i, i] -= mean
    return mean


@compiled(wrapper=False)
def orthogonalise(work: Array, right: Array) -> None:
    """Make the rows of `work` orthogonal by Jacobi rotations, in place; `right` is rotated alike."""
    n = work.shape[0]
    squares = np.empty(n)
    for _ in range(60):
        largest = 0.0
        for p in range(n):
            squares[p] = dot(work[p], work[p])
        for p in range(n - 1):
            for q in range(p + 1, n):
                pp, qq, pq = squares[p], squares[q], dot(work[p], work[q])
                top = 0.0
                for k in range(n):
                    top = max(top, squares[k])
                # Next to the largest column, a column of rounding errors has no direction.
                if min(pp, qq) <= 1e-32 * top:
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


@compiled(wrapper=False)
def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Singular value decomposition of a small square matrix, of any rank, by one-sided Jacobi rotations.

    Returns the orthogonal U, the values, descending, and the orthogonal V', with ``matrix = U diag(values)
    V'``.
    """
    # Plain loops throughout: they compile several times faster than array expressions.
    n = matrix.shape[0]
    scale = 0.0
    for i in range(n):
        for j in range(n):
            scale = max(scale, abs(matrix[i, j]))
    # Scaled, because squares of its entries are formed.
    scale = scale if scale > 0.0 else 1.0
    # Rows of `work` are the columns of the matrix: contiguous, so that the inner loops vectorise.
    work, right, squares = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    for i in range(n):
        for j in range(n):
            right[i, j] = 1.0 if i == j else 0.0
            work[j, i] = matrix[i, j] / scale
    orthogonalise(work, right)
    for p in range(n):
        squares[p] = np.sqrt(dot(work[p], work[p]))
    left, values, right_transposed = np.empty((n, n)), np.empty(n), np.empty((n, n))
    candidate = np.empty(n)
    for k in range(n):
        chosen = 0
        for p in range(n):
            if squares[p] > squares[chosen]:
                chosen = p
        values[k] = squares[chosen]
        squares[chosen] = -1.0
        for i in range(n):
            right_transposed[k, i] = right[chosen, i]
            left[i, k] = work[chosen, i]
        if values[k] > values[0] * n * 2.3e-16:
            for i in range(n):
                left[i, k] /= values[k]
            continue
        # A null direction: any unit vector orthogonal to those before it.
        best = -1.0
        for axis in range(n):
            for i in range(n):
                candidate[i] = 1.0 if i == axis else 0.0
            for _ in range(2):
                for j in range(k):
                    share = 0.0
                    for i in range(n):
                        share += left[i, j] * candidate[i]
                    for i in range(n):
                        candidate[i] -= share * left[i, j]
            length = np.sqrt(dot(candidate, candidate))
            if length > best + 1e-3:
                best = length
                for i in range(n):
                    left[i, k] = candidate[i] / length
    for k in range(n):
        values[k] *= scale
    return left, values, right_transposed
