"""Products of small matrices, several starts abreast: every array has a last axis of `LANES` starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags._numba.lanes import LANES, fill, load, multiply_add, store

__all__ = ["multiply", "objective", "refresh", "skew_inner", "spread", "transpose", "workspace"]


@compiled(wrapper=False)
def spread(A: Array, A2: Array, M: Array) -> Array:
    """The problem's matrices A, A', A2 and M, repeated over the lanes."""
    n = A.shape[0]
    problem = np.empty((4, n, n, LANES))
    for i in range(n):
        for j in range(n):
            store(problem[0], i, j, fill(A[i, j]))
            store(problem[1], i, j, fill(A[j, i]))
            store(problem[2], i, j, fill(A2[i, j]))
            store(problem[3], i, j, fill(M[i, j]))
    return problem


@compiled(wrapper=False)
def workspace(n: int) -> Array:
    """Scratch for `newton`: nine (n, n, LANES) arrays, zero because `multiply` may read what it writes."""
    return np.zeros((9, n, n, LANES))


@compiled(wrapper=False)
def multiply(X: Array, Y: Array, keep: float, sign: float, out: Array) -> None:
    """Lane by lane ``out = keep * out + sign * X Y``.

    In blocks of two by five entries, as many sums as hide their latency in the registers there are;
    where n is no multiple of that, the last row or column is done more than once.
    """
    n = X.shape[0]
    for i in range(0, n, 2):
        i_too = min(i + 1, n - 1)
        for j in range(0, n, 5):
            j1, j2, j3, j4 = min(j + 1, n - 1), min(j + 2, n - 1), min(j + 3, n - 1), min(j + 4, n - 1)
            a0, a1, a2, a3, a4 = fill(0.0), fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            b0, b1, b2, b3, b4 = fill(0.0), fill(0.0), fill(0.0), fill(0.0), fill(0.0)
            for k in range(n):
                x, x_too = load(X, i, k), load(X, i_too, k)
                y = load(Y, k, j)
                a0, b0 = multiply_add(x, y, a0), multiply_add(x_too, y, b0)
                y = load(Y, k, j1)
                a1, b1 = multiply_add(x, y, a1), multiply_add(x_too, y, b1)
                y = load(Y, k, j2)
                a2, b2 = multiply_add(x, y, a2), multiply_add(x_too, y, b2)
                y = load(Y, k, j3)
                a3, b3 = multiply_add(x, y, a3), multiply_add(x_too, y, b3)
                y = load(Y, k, j4)
                a4, b4 = multiply_add(x, y, a4), multiply_add(x_too, y, b4)
            # All reads come before the writes: a column that is done twice must not be added twice.
            a0 = multiply_add(load(out, i, j), keep, a0 * sign)
            b0 = multiply_add(load(out, i_too, j), keep, b0 * sign)
            a1 = multiply_add(load(out, i, j1), keep, a1 * sign)
            b1 = multiply_add(load(out, i_too, j1), keep, b1 * sign)
            a2 = multiply_add(load(out, i, j2), keep, a2 * sign)
            b2 = multiply_add(load(out, i_too, j2), keep, b2 * sign)
            a3 = multiply_add(load(out, i, j3), keep, a3 * sign)
            b3 = multiply_add(load(out, i_too, j3), keep, b3 * sign)
            a4 = multiply_add(load(out, i, j4), keep, a4 * sign)
            b4 = multiply_add(load(out, i_too, j4), keep, b4 * sign)
            store(out, i, j, a0)
            store(out, i, j1, a1)
            store(out, i, j2, a2)
            store(out, i, j3, a3)
            store(out, i, j4, a4)
            store(out, i_too, j, b0)
            store(out, i_too, j1, b1)
            store(out, i_too, j2, b2)
            store(out, i_too, j3, b3)
            store(out, i_too, j4, b4)


@compiled(wrapper=False)
def transpose(X: Array, out: Array) -> None:
    """Lane by lane ``out = X'``."""
    n = X.shape[0]
    for i in range(n):
        for j in range(n):
            store(out, j, i, load(X, i, j))


@compiled(wrapper=False)
def skew_inner(X: Array, Y: Array) -> Any:
    """Lane by lane the inner product of two skew-symmetric matrices, from their lower halves."""
    total = fill(0.0)
    for i in range(1, X.shape[0]):
        row = fill(0.0)
        for j in range(i):
            row = multiply_add(load(X, i, j), load(Y, i, j), row)
        total = total + row
    return total * 2.0


@compiled(wrapper=False)
def refresh(problem: Array, Q: Array, B: Array, MQ: Array, work: Array) -> None:
    """``B = Q' A2 Q`` and ``MQ = M Q`` from Q, free of the drift of many rotations."""
    multiply(problem[2], Q, 0.0, 1.0, work[0])
    multiply(problem[3], Q, 0.0, 1.0, MQ)
    transpose(Q, work[1])
    multiply(work[1], work[0], 0.0, 1.0, B)


@compiled(wrapper=False)
def objective(A: Array, B: Array, MQ: Array) -> Any:
    """``tr(A' B) + tr(MQ)`` of every lane."""
    n = B.shape[0]
    total = fill(0.0)
    for i in range(n):
        row = load(MQ, i, i)
        for j in range(n):
            row = multiply_add(load(B, i, j), load(A, i, j), row)
        total = total + row
    return total
