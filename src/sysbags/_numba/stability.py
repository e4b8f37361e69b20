"""Least squares over matrices of bounded spectral norm: accelerated projected gradient."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags._numba.dense import dot, orthogonalise, svd

CHECK_EVERY = 10
SMALLEST_PIVOT = 0.01


@compiled()
def least_squares(X: Array) -> tuple[Array, float, Array, Array]:
    """Minimise ``||X2 - A X1||_F`` over A by the normal equations, for states that are far from dependent.

    The states are (N, n). Returns A, its largest singular value, or -1 if a state is nearly a combination of
    the others: A has no meaning; and `X1 X1'` and `X2 X1'`, with the states in columns.
    """
    size, n = X.shape
    G, H, A, L = np.zeros((n, n)), np.zeros((n, n)), np.empty((n, n)), np.zeros((n, n))
    for t in range(size - 1):
        for i in range(n):
            for j in range(n):
                G[i, j] += X[t, i] * X[t, j]
                H[i, j] += X[t + 1, i] * X[t, j]
    scale = np.empty(n)
    for i in range(n):
        scale[i] = np.sqrt(G[i, i])
    # Columns of length 1: then the pivots of Cholesky's factorisation, below, are the squared sines.
    for i in range(n):
        for j in range(i + 1):
            pivot = G[i, j] / (scale[i] * scale[j])
            for k in range(j):
                pivot -= L[i, k] * L[j, k]
            if j < i:
                L[i, j] = pivot / L[j, j]
            elif pivot >= SMALLEST_PIVOT:
                L[i, i] = np.sqrt(pivot)
            else:
                return A, -1.0, G, H
    for row in range(n):
        for i in range(n):
            value = H[row, i] / scale[i]
            for k in range(i):
                value -= L[i, k] * A[row, k]
            A[row, i] = value / L[i, i]
        for i in range(n - 1, -1, -1):
            value = A[row, i]
            for k in range(i + 1, n):
                value -= L[k, i] * A[row, k]
            A[row, i] = value / L[i, i]
        for i in range(n):
            A[row, i] /= scale[i]
    return A, svd(A)[1][0], G, H


@compiled()
def one_step_errors(X: Array, A: Array) -> tuple[Array, float]:
    """Return the mean of `e_t e_t'` with ``e_t = x_{t+1} - A x_t``, and ``||X2 - A X1||_F / ||X2||_F``."""
    size, n = X.shape
    covariance, error, total = np.zeros((n, n)), np.empty(n), 0.0
    for t in range(size - 1):
        for i in range(n):
            error[i] = X[t + 1, i]
            total += X[t + 1, i] * X[t + 1, i]
            for j in range(n):
                error[i] -= A[i, j] * X[t, j]
        for i in range(n):
            for j in range(n):
                covariance[i, j] += error[i] * error[j]
    squares = 0.0
    for i in range(n):
        squares += covariance[i, i]
        for j in range(n):
            covariance[i, j] /= size - 1
    return covariance, float(np.sqrt(squares / total))


@compiled()
def largest_singular_value(matrix: Array) -> float:
    """Return the spectral norm; for small matrices NumPy takes several times as long."""
    return float(svd(matrix)[1][0])


@compiled()
def clip_singular_values(matrix: Array, bound: float) -> Array:
    """Return the nearest matrix (Frobenius) whose singular values are not above the bound."""
    left, values, right = svd(matrix)
    if values[0] <= bound:
        return matrix.copy()
    n = values.size
    clipped = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            weight = left[i, k] * min(values[k], bound)
            for j in range(n):
                clipped[i, j] += weight * right[k, j]
    return clipped


@compiled(wrapper=False)
def _clip(matrix: Array, bound: float, right: Array) -> Array:
    """Do what `clip_singular_values` does, from right singular vectors (rows) of a similar matrix.

    They become those of this matrix: from a good start, few of Jacobi's rotations are needed.
    """
    n = matrix.shape[0]
    work, clipped, outside = np.zeros((n, n)), np.zeros((n, n)), False
    for k in range(n):
        for i in range(n):
            for j in range(n):
                work[k, i] += matrix[i, j] * right[k, j]
    orthogonalise(work, right)
    for k in range(n):
        value = np.sqrt(dot(work[k], work[k]))
        outside = outside or value > bound
        factor = bound / value if value > bound else 1.0
        for i in range(n):
            for j in range(n):
                clipped[i, j] += factor * work[k, i] * right[k, j]
    return clipped if outside else matrix.copy()


@compiled()
def optimality_gap(A: Array, G: Array, H: Array, bound: float) -> float:
    """Return a bound on how far `f(A) = tr(A G A')/2 - tr(A H')` is above its minimum, for a feasible A.

    f is convex, so its minimum is not below that of its tangent at A, and a linear function over the ball
    of the spectral norm is least at a multiple of a polar factor. With `D = H - A G`, minus the gradient, the
    gap is `bound * ||D||_* - <D, A>`; it is zero exactly at the minimiser.
    """
    D = descent(A, G, H)
    values = svd(D)[1]
    gap = 0.0
    for i in range(values.size):
        gap += bound * values[i]
        for j in range(values.size):
            gap -= D[i, j] * A[i, j]
    return gap


@compiled()
def descent(A: Array, G: Array, H: Array) -> Array:
    """Return `H - A G`, minus the gradient of `optimality_gap`'s f."""
    n = A.shape[0]
    D = H.copy()
    for i in range(n):
        for k in range(n):
            for j in range(n):
                D[i, j] -= A[i, k] * G[k, j]
    return D


@compiled()
def accelerated_gradient(
    start: Array, G: Array, H: Array, bound: float, tolerance: float, max_iterations: int
) -> tuple[Array, float]:
    """Minimise `tr(A G A')/2 - tr(A H')` subject to `||A||_2 <= bound` (FISTA with gradient restart).

    The start is any matrix; it is projected first. G is symmetric, with largest eigenvalue 1, so that the
    step length is 1. Stops once `optimality_gap` is not above the tolerance. Returns a feasible A and its
    gap.
    """
    n = G.shape[0]
    A = clip_singular_values(start, bound)
    ahead, right = A.copy(), np.eye(n)
    momentum = 1.0
    for iteration in range(max_iterations):
        if iteration % CHECK_EVERY == 0:
            gap = optimality_gap(A, G, H, bound)
            if gap <= tolerance:
                return A, gap
            right = np.eye(n)  # afresh, as rotations add up round-off
        step = descent(ahead, G, H)
        for i in range(n):
            for j in range(n):
                step[i, j] += ahead[i, j]
        following = _clip(step, bound, right)
        uphill = 0.0
        for i in range(n):
            for j in range(n):
                uphill += (ahead[i, j] - following[i, j]) * (following[i, j] - A[i, j])
        larger = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        # Where the momentum leads uphill, it is forgotten.
        onward = 0.0 if uphill > 0.0 else (momentum - 1.0) / larger
        momentum = 1.0 if uphill > 0.0 else larger
        for i in range(n):
            for j in range(n):
                ahead[i, j] = following[i, j] + onward * (following[i, j] - A[i, j])
        A = following
    return A, optimality_gap(A, G, H, bound)
