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
    rows = np.empty((2, n))
    for j in range(0, n, 2):
        first, last = j // LANES, min(j + 1, n - 1)
        for k in range(j):
            rows[0, k], rows[1, k] = -Z[first, k, j % LANES], -Z[first, k, last % LANES]
        # Two columns of three blocks at once: their sums do not wait for each other.
        for i in range(first, blocks, 3):
            i1, i2 = min(i + 1, blocks - 1), min(i + 2, blocks - 1)
            a0, b0, c0 = load(Z, i, j), load(Z, i1, j), load(Z, i2, j)
            a1, b1, c1 = load(Z, i, last), load(Z, i1, last), load(Z, i2, last)
            for k in range(j):
                x, y = rows[0, k], rows[1, k]
                a, b, c = load(Z, i, k), load(Z, i1, k), load(Z, i2, k)
                a0, b0, c0 = multiply_add(a, x, a0), multiply_add(b, x, b0), multiply_add(c, x, c0)
                a1, b1, c1 = multiply_add(a, y, a1), multiply_add(b, y, b1), multiply_add(c, y, c1)
            store(Z, i, j, a0)
            store(Z, i1, j, b0)
            store(Z, i2, j, c0)
            store(Z, i, last, a1)
            store(Z, i1, last, b1)
            store(Z, i2, last, c1)
        for column in range(j, last + 1):
            pivot = Z[first, column, column % LANES]
            if not pivot > 0.0:
                return False
            scale = fill(1.0 / np.sqrt(pivot))
            for i in range(first, blocks):
                store(Z, i, column, load(Z, i, column) * scale)
            if column < last:
                share = -Z[first, j, last % LANES]
                for i in range(first, blocks):
                    store(Z, i, last, multiply_add(load(Z, i, j), share, load(Z, i, last)))
    return True


@compiled(wrapper=False)
def proves(A: Array, B: Array, C: Array, slack: float) -> bool:
    """Return whether no rotation has a value above that of Q by more than ``4 n slack``, its slope being 0.

    With ``B = Q' A2 Q``, ``C = M Q`` and the gradient G at the identity, Q is a maximiser if
    ``Z = U (x) I + I (x) V - (B (x) A + B' (x) A') / 2`` is positive semidefinite for some symmetric U and V
    with ``U + V = G``. Z would be so for ``U = B B' / 2`` and ``V = A' A / 2``, but their sum is not G.
    Half of their difference, symmetric and with A and B of the same norm, is taken for U - V: it proves
    more than other choices that were tried.
    """
    n = A.shape[0]
    ratio = np.sqrt((square_norm(A) + 1e-300) / (square_norm(B) + 1e-300))
    U, V = np.empty((n, n)), np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            gradient, of_a, of_b = C[i, j] + C[j, i], 0.0, 0.0
            for k in range(n):
                gradient += B[i, k] * A[j, k] + B[k, i] * A[k, j] + A[i, k] * B[j, k] + A[k, i] * B[k, j]
                of_a += A[i, k] * A[j, k] + A[k, i] * A[k, j]
                of_b += B[i, k] * B[j, k] + B[k, i] * B[k, j]
            U[i, j] = gradient / 8 + of_b * ratio / 16 - of_a / ratio / 16
            V[i, j] = gradient / 8 - of_b * ratio / 16 + of_a / ratio / 16
            U[j, i], V[j, i] = U[i, j], V[i, j]
    Z = np.zeros((-(-n * n // LANES), n * n, LANES))
    for b in range(n):
        for a in range(b, n):
            x, x_too = -0.5 * B[a, b], -0.5 * B[b, a]
            for i in range(n):
                block, lane = (a * n + i) // LANES, (a * n + i) % LANES
                for j in range(n):
                    Z[block, b * n + j, lane] = x * A[i, j] + x_too * A[j, i]
                Z[block, b * n + i, lane] += U[a, b]
            if a == b:
                for i in range(n):
                    block, lane = (a * n + i) // LANES, (a * n + i) % LANES
                    for j in range(n):
                        Z[block, b * n + j, lane] += V[i, j]
                    Z[block, b * n + i, lane] += slack
    return is_positive(Z)
