"""Proof that an alignment is the best one, cheap enough to end the search: a Cholesky factorisation.

The problem and its dual are those of `sysbags.distances.certificates.tight_bound`. Here the multipliers
have a closed form, so that no eigenvalues are needed.
"""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags._numba.dense import square_norm
from sysbags._numba.vectors import LANES, fill, load, multiply_add, store


@compiled(wrapper=False)
def is_positive(Z: Array) -> bool:
    """Return whether a symmetric matrix has a Cholesky factorisation, in place.

    Its rows come in blocks of `LANES`: entry (i, j) is ``Z[i // LANES, j, i % LANES]``, for i >= j.
    """
    blocks, n = Z.shape[0], Z.shape[1]
    row = np.empty(n)
    for j in range(n):
        first = j // LANES
        for k in range(j):
            row[k] = -Z[first, k, j % LANES]
        # Four blocks at once: their sums do not wait for each other.
        for i in range(first, blocks, 4):
            i1, i2, i3 = min(i + 1, blocks - 1), min(i + 2, blocks - 1), min(i + 3, blocks - 1)
            a, b, c, d = load(Z, i, j), load(Z, i1, j), load(Z, i2, j), load(Z, i3, j)
            for k in range(j):
                x = row[k]
                a = multiply_add(load(Z, i, k), x, a)
                b = multiply_add(load(Z, i1, k), x, b)
                c = multiply_add(load(Z, i2, k), x, c)
                d = multiply_add(load(Z, i3, k), x, d)
            store(Z, i, j, a)
            store(Z, i1, j, b)
            store(Z, i2, j, c)
            store(Z, i3, j, d)
        pivot = Z[first, j, j % LANES]
        if not pivot > 0.0:
            return False
        scale = fill(1.0 / np.sqrt(pivot))
        for i in range(first, blocks):
            store(Z, i, j, load(Z, i, j) * scale)
    return True


@compiled(wrapper=False)
def proves(A: Array, A2: Array, M: Array, Q: Array, slack: float) -> bool:
    """Return whether no rotation has a value above that of Q by more than ``4 n slack``, its slope being 0.

    With ``B = Q' A2 Q``, ``C = M Q`` and the gradient G at the identity, Q is a maximiser if
    ``Z = U (x) I + I (x) V - (B (x) A + B' (x) A') / 2`` is positive semidefinite for some symmetric U and V
    with ``U + V = G``. Z would be so for ``U = B B' / 2`` and ``V = A' A / 2``, but their sum is not G.
    Half of their difference, symmetric and with A and B of the same norm, is taken for U - V: it proves
    more than other choices that were tried.
    """
    n = A.shape[0]
    product, B, C = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                product[i, j] += A2[i, k] * Q[k, j]
                C[i, j] += M[i, k] * Q[k, j]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                B[i, j] += Q[k, i] * product[k, j]
    ratio = np.sqrt((square_norm(A) + 1e-300) / (square_norm(B) + 1e-300))
    U, V = np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        for j in range(n):
            gradient, of_a, of_b = C[i, j] + C[j, i], 0.0, 0.0
            for k in range(n):
                gradient += B[i, k] * A[j, k] + B[k, i] * A[k, j] + A[i, k] * B[j, k] + A[k, i] * B[k, j]
                of_a += A[i, k] * A[j, k] + A[k, i] * A[k, j]
                of_b += B[i, k] * B[j, k] + B[k, i] * B[k, j]
            U[i, j] = gradient / 8 + of_b * ratio / 16 - of_a / ratio / 16
            V[i, j] = gradient / 8 - of_b * ratio / 16 + of_a / ratio / 16
    Z = np.zeros((-(-n * n // LANES), n * n, LANES))
    for b in range(n):
        for j in range(n):
            column = b * n + j
            for a in range(b, n):
                for i in range(n):
                    row = a * n + i
                    entry = -0.5 * (B[a, b] * A[i, j] + B[b, a] * A[j, i])
                    if i == j:
                        entry += U[a, b]
                    if a == b:
                        entry += V[i, j]
                    Z[row // LANES, column, row % LANES] = entry
            Z[column // LANES, column, column % LANES] += slack
    return is_positive(Z)
