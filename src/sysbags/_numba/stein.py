"""Stein equations `X = A1' X A2 + F` for all pairs of two collections: distances that sum over all times."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled

# A doubling step that adds a smaller share than this changes no bit any more.
NEGLIGIBLE = 1e-17
MAX_SQUARINGS = 64


@compiled()
def solve_stein(
    X: Array, n: int, m: int, powers1: Array, norms1: Array, powers2: Array, norms2: Array, work: Array
) -> None:
    """Solve `X = A1' X A2 + F` in place by doubling (the squared Smith method); X comes in as F.

    After k steps X holds the first 2^k terms of `sum_t A1'^t F A2^t`, and a step adds as many again, `X +=
    B1' X B2` with `B = A^(2^k)`. These powers, (steps, N, N) and (steps, M, M), belong to the systems, not to
    the pair; once the product of their Frobenius norms is negligible, so is all that follows. F and the
    solution are the leading (n, m) block of X, for the orders n and m; `work` is scratch of the size of X.
    """
    for k in range(powers1.shape[0]):
        if norms1[k] * norms2[k] < NEGLIGIBLE:
            break
        B1, B2 = powers1[k], powers2[k]
        for i in range(n):
            for j in range(m):
                total = 0.0
                for r in range(m):
                    total += X[i, r] * B2[r, j]
                work[i, j] = total
        for i in range(n):
            for j in range(m):
                total = X[i, j]
                for r in range(n):
                    total += B1[r, i] * work[r, j]
                X[i, j] = total


@compiled()
def log_volume(X: Array, n: int, m: int) -> float:
    """Return the logarithm of the product of the singular values of the leading (n, m) block, n <= m.

    The rows are made orthogonal one after the other, twice because of round-off; what is left of each
    multiplies the volume. X is destroyed.
    """
    total = 0.0
    for i in range(n):
        for _ in range(2):
            for j in range(i):
                product = 0.0
                for r in range(m):
                    product += X[i, r] * X[j, r]
                for r in range(m):
                    X[i, r] -= product * X[j, r]
        square = 0.0
        for r in range(m):
            square += X[i, r] * X[i, r]
        if square == 0.0:
            return -np.inf
        total += 0.5 * np.log(square)
        for r in range(m):
            X[i, r] /= np.sqrt(square)
    return total


@compiled()
def gram_of_columns(X: Array, n: int, m: int, out: Array) -> float:
    """Fill `out` with ``X' X`` of the leading (n, m) part of X, and return its trace."""
    trace = 0.0
    for i in range(m):
        for j in range(i + 1):
            total = 0.0
            for r in range(n):
                total += X[r, i] * X[r, j]
            out[i, j] = out[j, i] = total
        trace += out[i, i]
    return trace


@compiled()
def largest_singular_value(X: Array, n: int, m: int, gram: Array, square: Array) -> float:
    """Return the largest singular value of the leading (n, m) block by repeated squaring.

    With `S = X'X` of largest eigenvalue l and `t_0 = tr S`, `S <- (S / t_k)^2`, `t_{k+1} = tr S`:
    `log l = sum_k 2^-k log t_k`, since the trace of a high power is that of l times its multiplicity.
    Eigenvalues near l do no harm: what is still missing after k squarings is below `2^-k log M`. `gram` and
    `square` are scratch, (M, M).
    """
    trace = gram_of_columns(X, n, m, gram)
    if trace == 0.0:
        return 0.0
    logarithm, weight = np.log(trace), 1.0
    for _ in range(MAX_SQUARINGS):
        for i in range(m):
            for j in range(m):
                gram[i, j] /= trace
        trace = gram_of_columns(gram, m, m, square)
        weight *= 0.5
        step = weight * np.log(trace)
        logarithm += step
        if abs(step) < NEGLIGIBLE:
            break
        gram, square = square, gram
    return float(np.exp(0.5 * logarithm))


@compiled()
def martin_rows(
    begin: int,
    end: int,
    symmetric: bool,
    observer: Array,
    orders1: IntArray,
    whitener1: Array,
    powers1: Array,
    norms1: Array,
    orders2: IntArray,
    whitener2: Array,
    powers2: Array,
    norms2: Array,
    out: Array,
) -> None:
    """Fill rows `begin` to `end` of `out` with squared Martin distances; above the diagonal if symmetric.

    Each system comes in the basis where its own solution of the Stein equation is the identity: then the
    cosines of the subspace angles are the singular values of the pair's solution. `observer`, (K, L, N, M),
    is `C_i' C_j`, zero-padded. The whiteners, (K, N, N) and (L, M, M), are the inverse Cholesky factors of
    the systems' own solutions: lower triangular. For the powers, (K, steps, N, N), and their norms, of the
    transitions in the new basis, see `solve_stein`.
    """
    N, M = observer.shape[2], observer.shape[3]
    X, work, flipped = np.empty((N, M)), np.empty((N, M)), np.empty((M, N))
    for a in range(begin, end):
        n, left = orders1[a], whitener1[a]
        for b in range(a + 1 if symmetric else 0, observer.shape[1]):
            m, right = orders2[b], whitener2[b]
            F = observer[a, b]
            for i in range(n):
                for j in range(m):
                    total = 0.0
                    for r in range(j + 1):
                        total += F[i, r] * right[j, r]
                    work[i, j] = total
            for i in range(n):
                for j in range(m):
                    total = 0.0
                    for r in range(i + 1):
                        total += left[i, r] * work[r, j]
                    X[i, j] = total
            solve_stein(X, n, m, powers1[a], norms1[a], powers2[b], norms2[b], work)
            if n <= m:
                volume = log_volume(X, n, m)
            else:
                for i in range(n):
                    for j in range(m):
                        flipped[j, i] = X[i, j]
                volume = log_volume(flipped, m, n)
            out[a, b] = max(0.0, -2.0 * volume)


@compiled()
def stein_rows(
    trace: bool,
    begin: int,
    end: int,
    symmetric: bool,
    observer: Array,
    orders1: IntArray,
    powers1: Array,
    norms1: Array,
    orders2: IntArray,
    powers2: Array,
    norms2: Array,
    out: Array,
) -> None:
    """Fill rows `begin` to `end` of `out` with a number of each pair's Stein solution S.

    It is ``tr(S M')`` with the pair's block M if `trace`, and the largest singular value of S otherwise. The
    other arguments are those of `martin_rows`, in the systems' own bases.
    """
    N, M = observer.shape[2], observer.shape[3]
    X, work = np.empty((N, M)), np.empty((N, M))
    gram, square = np.empty((M, M)), np.empty((M, M))
    for a in range(begin, end):
        n = orders1[a]
        for b in range(a + 1 if symmetric else 0, observer.shape[1]):
            m = orders2[b]
            for i in range(n):
                for j in range(m):
                    X[i, j] = observer[a, b, i, j]
            solve_stein(X, n, m, powers1[a], norms1[a], powers2[b], norms2[b], work)
            if trace:
                total = 0.0
                for i in range(n):
                    for j in range(m):
                        total += X[i, j] * observer[a, b, i, j]
                out[a, b] = total
            else:
                out[a, b] = largest_singular_value(X, n, m, gram, square)
