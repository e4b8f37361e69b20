"""Small dense linear algebra for matrices of a system's order: no LAPACK call, the same bits everywhere.

Without `fastmath`: several kernels contain these functions, see `sysbags._numba.compiled`.
"""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags._numba.vectors import LANES, load, multiply_add, store, total

SETTLED = 1e-26
"""Largest squared cosine of two columns in the last sweep of Jacobi rotations."""


@compiled(wrapper=False)
def dot(x: Array, y: Array) -> float:
    """Inner product of two vectors."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


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
def multiply_into(X: Array, Y: Array, out: Array) -> None:
    """``out = X Y``."""
    for i in range(X.shape[0]):
        for j in range(Y.shape[1]):
            out[i, j] = 0.0
        for k in range(X.shape[1]):
            x = X[i, k]
            for j in range(Y.shape[1]):
                out[i, j] += x * Y[k, j]


@compiled(inline="always")
def row_product(rows: Array, p: int, q: int) -> float:
    """Inner product of two rows in blocks of `LANES`."""
    product = load(rows, p, 0) * load(rows, q, 0)
    for k in range(1, rows.shape[1]):
        product = multiply_add(load(rows, p, k), load(rows, q, k), product)
    value: float = total(product)
    return value


@compiled(wrapper=False)
def orthogonalise(work: Array, right: Array, squares: Array) -> None:
    """Make the rows of `work` orthogonal by Jacobi rotations, in place; `right` is rotated alike.

    Both have rows in blocks of `LANES`. `squares` is filled with the squared norms of the rows.
    """
    n, blocks = work.shape[0], work.shape[1]
    rounds = n - 1 + n % 2
    for _ in range(60):
        largest, top = 0.0, 0.0
        for p in range(n):
            squares[p] = row_product(work, p, p)
            top = max(top, squares[p])
        # Every pair once, in rounds of pairs with no row in common, which do not wait for each other.
        turn, k = 0, -1
        for _ in range(n * (n - 1) // 2):
            k += 1
            if 2 * k > rounds:
                turn, k = turn + 1, 0
            if k == 0 and n % 2 == 1:
                k = 1
            p, q = turn + k, turn - k if k > 0 else rounds
            p, q = p - rounds if p >= rounds else p, q + rounds if q < 0 else q
            pp, qq, pq = squares[p], squares[q], row_product(work, p, q)
            # Next to the largest column, a column of rounding errors has no direction.
            if min(pp, qq) <= 1e-32 * top:
                continue
            square = pq * pq / (pp * qq)
            largest = max(largest, square)
            if square <= 1e-32:
                continue
            gap = qq - pp
            t = 2.0 * pq / (gap + np.copysign(np.sqrt(gap * gap + 4.0 * pq * pq), gap))
            c = 1.0 / np.sqrt(1.0 + t * t)
            s = c * t
            for j in range(blocks):
                u, v = load(work, p, j), load(work, q, j)
                store(work, p, j, u * c - v * s)
                store(work, q, j, u * s + v * c)
                u, v = load(right, p, j), load(right, q, j)
                store(right, p, j, u * c - v * s)
                store(right, q, j, u * s + v * c)
            squares[p], squares[q] = max(pp - t * pq, 0.0), qq + t * pq
        # Jacobi ends quadratically: from here the next sweep would find nothing above round-off.
        if largest < SETTLED:
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
    # Rows of `work` are the columns of the matrix.
    blocks = -(-n // LANES)
    work, right, squares = np.zeros((n, blocks, LANES)), np.zeros((n, blocks, LANES)), np.empty(n)
    for i in range(n):
        right[i, i // LANES, i % LANES] = 1.0
        for j in range(n):
            work[j, i // LANES, i % LANES] = matrix[i, j] / scale
    orthogonalise(work, right, squares)
    for p in range(n):
        squares[p] = np.sqrt(row_product(work, p, p))
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
            right_transposed[k, i] = right[chosen, i // LANES, i % LANES]
            left[i, k] = work[chosen, i // LANES, i % LANES]
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


@compiled()
def nuclear_norms(matrices: Array) -> Array:
    """Sums of the singular values of small square matrices, (count, n, n)."""
    norms = np.zeros(matrices.shape[0])
    for k in range(matrices.shape[0]):
        for value in svd(matrices[k])[1]:
            norms[k] += value
    return norms
