"""Least squares for the transition, and its errors of prediction."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags._numba.dense import svd

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
