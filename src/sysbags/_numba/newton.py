"""Newton steps on the orthogonal group, several starts abreast, and the products of matrices they need.

It spares Jacobi's long tail. Every array has a last axis of `LANES` starts; the cost and the state are those
of `sysbags._numba.alignment`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags._numba.vectors import LANES, fill, largest, load, magnitude, multiply_add, pick, root, store


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


EXACT_ORDER = 7
"""Up to this order factorising the Hessian takes less time than conjugate gradients (measured)."""
MAX_TURN = 0.5
"""Longest Newton step, as an angle: up to here three Newton-Schulz steps restore orthogonality."""


@compiled(wrapper=False)
def gradient(problem: Array, B: Array, MQ: Array, work: Array) -> None:
    """Slope ``G = skew((A'B - BA' + MQ)')`` of rho along ``Q exp(X)``, and ``T = sym(A'B + BA' + MQ)``.

    G goes to ``work[0]``, T to ``work[1]``.
    """
    n = B.shape[0]
    G, T, left, right = work[0], work[1], work[2], work[3]
    multiply(problem[1], B, 0.0, 1.0, left)
    multiply(B, problem[1], 0.0, 1.0, right)
    for i in range(n):
        for j in range(i + 1):
            m, m_too = load(MQ, i, j), load(MQ, j, i)
            slope = (load(left, j, i) - load(right, j, i) + m_too) - (
                load(left, i, j) - load(right, i, j) + m
            )
            bend = load(left, i, j) + load(right, i, j) + m + load(left, j, i) + load(right, j, i) + m_too
            store(G, i, j, slope * 0.5)
            store(G, j, i, slope * -0.5)
            store(T, i, j, bend * 0.5)
            store(T, j, i, bend * 0.5)


@compiled(inline="always")
def negative_hessian(problem: Array, Bt: Array, T: Array, X: Array, D: Array, E: Array, out: Array) -> None:
    """``out = skew(T X - A X B' - B' X A)`` for skew X: minus the curvature of rho along ``Q exp(X)``."""
    n = X.shape[0]
    multiply(X, Bt, 0.0, 1.0, D)
    multiply(X, problem[0], 0.0, 1.0, E)
    multiply(T, X, 0.0, 1.0, out)
    multiply(problem[0], D, 1.0, -1.0, out)
    multiply(Bt, E, 1.0, -1.0, out)
    for i in range(n):
        for j in range(i + 1):
            half = (load(out, i, j) - load(out, j, i)) * 0.5
            store(out, i, j, half)
            store(out, j, i, half * -1.0)


@compiled(inline="always")
def inverse_diagonal(A: Array, Bt: Array, T: Array, out: Array) -> None:
    """One over the diagonal of minus the Hessian in the basis of planes, kept positive."""
    n = A.shape[0]
    one = fill(1.0)
    typical = fill(1e-300)
    for p in range(n):
        typical = typical + magnitude(load(T, p, p)) * (0.01 / n)
    for p in range(n):
        store(out, p, p, fill(0.0))
        for q in range(p):
            t_p, t_q = load(T, p, p), load(T, q, q)
            crossed = load(Bt, p, q) * load(A, p, q) + load(Bt, q, p) * load(A, q, p)
            straight = load(Bt, q, q) * load(A, p, p) + load(Bt, p, p) * load(A, q, q)
            diagonal = (t_p + t_q) * 0.5 + crossed - straight
            floor = (magnitude(t_p) + magnitude(t_q)) * 0.1 + typical
            inverse = one / pick(diagonal, floor, diagonal, floor)
            store(out, p, q, inverse)
            store(out, q, p, inverse)


@compiled(inline="always")
def newton_direction(problem: Array, B: Array, work: Array, active: Any) -> None:
    """Solve ``-H[X] = G`` in every active lane by preconditioned conjugate gradients, X in ``work[2]``.

    A lane stops where it meets negative curvature, with a step uphill if at once; all stop once each
    has reduced its residual enough for a step that converges superlinearly, or after n iterations.
    ``work[0]`` holds G (destroyed), ``work[1]`` T.
    """
    n = B.shape[0]
    G, T, X, P, H = work[0], work[1], work[2], work[3], work[4]
    D, E, Z, Bt = work[5], work[6], work[7], work[8]
    tiny, zero, one = fill(1e-300), fill(0.0), fill(1.0)
    transpose(B, Bt)
    inverse_diagonal(problem[0], Bt, T, Z)
    for i in range(n):
        for j in range(n):
            g = load(G, i, j) * active
            store(G, i, j, g)
            store(X, i, j, zero)
            store(P, i, j, g * load(Z, i, j))
    residual = skew_inner(G, P)
    tolerance = residual * pick(fill(0.09), residual, root(residual), fill(0.3)) + tiny
    uphill = one
    for _ in range(n):
        negative_hessian(problem, Bt, T, P, D, E, H)
        curvature = skew_inner(P, H)
        convex = pick(curvature, skew_inner(P, P) * 1e-12 + tiny, one, zero)
        alpha = pick(convex, zero, residual / (curvature + tiny), uphill)
        uphill = zero
        following = zero
        for i in range(n):
            for j in range(i):
                x = load(X, i, j) + alpha * load(P, i, j)
                g = load(G, i, j) - alpha * load(H, i, j)
                store(X, i, j, x)
                store(X, j, i, x * -1.0)
                store(G, i, j, g)
                following = following + g * g * load(Z, i, j)
        following = following * convex * 2.0
        if largest(following - tolerance) <= 0.0:
            break
        beta = following / (residual + tiny)
        residual = following
        for i in range(n):
            for j in range(i):
                direction = (load(G, i, j) * load(Z, i, j) + beta * load(P, i, j)) * convex
                store(P, i, j, direction)
                store(P, j, i, direction * -1.0)


@compiled(wrapper=False)
def exact_direction(A: Array, B: Array, work: Array, active: Any) -> None:
    """Solve ``-H[X] = G`` in every active lane by factorising the negative Hessian into L D L'.

    The unknowns are the entries (p, q) of X, p > q. Negative entries of D change their sign, so that the
    step is uphill. ``work[0]`` holds G, ``work[1]`` T, and X goes to ``work[2]``.
    """
    n = B.shape[0]
    G, T, X = work[0], work[1], work[2]
    size = n * (n - 1) // 2
    H, x = np.empty((size, size, LANES)), np.empty((2, size, LANES))
    typical = fill(1e-300)
    for p in range(n):
        typical = typical + magnitude(load(T, p, p)) * (1e-3 / n)
    row = 0
    for r in range(1, n):
        for s in range(r):
            column = 0
            for p in range(1, r + 1):
                for q in range(p if p < r else s + 1):
                    a = multiply_add(load(A, r, p), load(B, s, q), load(A, s, q) * load(B, r, p))
                    b = multiply_add(load(A, q, s), load(B, p, r), load(A, p, r) * load(B, q, s))
                    c = multiply_add(load(A, r, q), load(B, s, p), load(A, s, p) * load(B, r, q))
                    d = multiply_add(load(A, p, s), load(B, q, r), load(A, q, r) * load(B, p, s))
                    h = c + d - a - b
                    if q == s:
                        h = h + load(T, r, p)
                    if p == s:
                        h = h - load(T, r, q)
                    if q == r:
                        h = h - load(T, s, p)
                    if p == r:
                        h = h + load(T, s, q)
                    store(H, row, column, h * 0.5)
                    column += 1
            store(x, 0, row, load(G, r, s) * active)
            row += 1
    one = fill(1.0)
    for j in range(size):
        # Rows of L D are below the diagonal, of -L' above it; the right-hand side is one more column.
        pivot, known = load(H, j, j), load(x, 0, j)
        for k in range(j):
            entry = load(H, j, k) * load(x, 1, k) * -1.0
            pivot = multiply_add(load(H, j, k), entry, pivot)
            known = multiply_add(load(x, 0, k), entry, known)
            store(H, k, j, entry)
        pivot = magnitude(pivot)
        store(x, 0, j, known)
        store(x, 1, j, one / pick(pivot, typical, pivot, typical))
        for i in range(j + 1, size):
            entry = load(H, i, j)
            for k in range(j):
                entry = multiply_add(load(H, i, k), load(H, k, j), entry)
            store(H, i, j, entry)
    row = size
    for r in range(n - 1, -1, -1):
        store(X, r, r, fill(0.0))
        for s in range(r - 1, -1, -1):
            row -= 1
            known = load(x, 0, row) * load(x, 1, row)
            for k in range(row + 1, size):
                known = multiply_add(load(H, row, k), load(x, 0, k), known)
            store(x, 0, row, known)
            store(X, r, s, known)
            store(X, s, r, known * -1.0)


@compiled(inline="always")
def newton(problem: Array, B: Array, MQ: Array, Q: Array, work: Array, active: Any) -> float:
    """One Newton step of every active lane, in place; a lane where it does not gain stays where it was.

    The step X is taken as ``I + X + X^2 / 2``, brought back to the orthogonal group by Newton-Schulz.
    ``work[0]`` and ``work[1]`` hold the result of `gradient`. Returns a positive number if some active
    lane did not gain more than round-off.
    """
    n = B.shape[0]
    if n <= EXACT_ORDER:
        exact_direction(problem[0], B, work, active)
    else:
        newton_direction(problem, B, work, active)
    X, P, H, D, E = work[2], work[3], work[4], work[5], work[6]
    one, zero = fill(1.0), fill(0.0)
    # The largest angle of a skew X is at most its Frobenius norm over the root of two.
    angle = root(skew_inner(X, X) * 0.5)
    scale = pick(angle, fill(MAX_TURN), fill(MAX_TURN) / (angle + 1e-300), one)
    for i in range(n):
        for j in range(n):
            store(X, i, j, load(X, i, j) * scale)
            store(H, i, j, load(X, i, j))
        store(H, i, i, one)
    multiply(X, X, 1.0, 0.5, H)
    multiply(Q, H, 0.0, 1.0, P)
    # I + X + X^2 / 2 is orthogonal up to |X|^4 / 4, and each Newton-Schulz step squares what is missing.
    turn = largest(angle * scale)
    for _ in range(1 if turn < 1e-3 else 2 if turn < 0.1 else 3):
        transpose(P, E)
        for i in range(n):
            for j in range(n):
                store(D, i, j, zero)
            store(D, i, i, fill(1.5))
        multiply(E, P, 1.0, -0.5, D)
        multiply(P, D, 0.0, 1.0, E)
        P, E = E, P
    before = objective(problem[0], B, MQ)
    refresh(problem, P, H, D, work)
    # Close to the optimum the gain drowns in round-off: the slack lets the last steps sharpen Q.
    after = objective(problem[0], H, D)
    slack = magnitude(after) * 1e-15
    lost: float = largest(active * pick(after, before + slack, zero, one))
    after = after + slack
    for i in range(n):
        for j in range(n):
            store(Q, i, j, pick(after, before, load(P, i, j), load(Q, i, j)))
            store(B, i, j, pick(after, before, load(H, i, j), load(B, i, j)))
            store(MQ, i, j, pick(after, before, load(D, i, j), load(MQ, i, j)))
    return lost
