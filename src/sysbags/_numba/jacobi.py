"""The sweeps of Algorithm 2, several starts abreast.

They climb ``rho(Q) = tr(A' Q' A2 Q) + tr(M Q)``: `A` is the first transition times `lambda_a`, `A2`
the second transition, `M` the cross block of the two observers. A state is ``Q``, ``B = Q' A2 Q`` and
``MQ = M Q``, each with a last axis of `LANES` starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled
from sysbags._numba.lanes import fill, load, magnitude, multiply_add, pick, store

__all__ = ["sweep"]


@compiled(inline="always")
def rotate(array: Array, i: int, j: int, k: int, m: int, c: Any, s: Any) -> None:
    """Rotate entries (i, j) and (k, m) of every lane into each other."""
    u, v = load(array, i, j), load(array, k, m)
    store(array, i, j, multiply_add(v, s * -1.0, u * c))
    store(array, k, m, multiply_add(u, s, v * c))


@compiled(wrapper=False)
def sweep(A: Array, B: Array, MQt: Array, Qt: Array, pairs: IntArray, scan: bool) -> None:
    """One Jacobi sweep of every lane: for each pair (p, q) the best plane rotation, in place.

    With ``a = (k0 - k1) / 2`` and ``b = k2 / 2`` the cost along the angle t is
    ``a cos 2t + b sin 2t + k3 cos t + k4 sin t`` (`eq:jacobi_eq`; the quartic `eq:polynom` is its
    derivative in sin t). The angle is found by Newton steps from the best of eight fixed angles
    (`scan`) or from 0; a step that would lower the cost is replaced by t = 0.

    Parameters
    ----------
    A : (n, n) array
    B, MQt, Qt : (n, n, LANES) array
        The last two transposed, so that their rotations run along rows in memory.
    pairs : (count, 2) array
        The order in which the planes are visited.
    scan : bool
    """
    n = A.shape[0]
    half = np.sqrt(0.5)
    one, zero = fill(1.0), fill(0.0)
    steps = 3 if scan else 2
    for index in range(pairs.shape[0]):
        p, q = pairs[index, 0], pairs[index, 1]
        k3 = load(MQt, p, p) + load(MQt, q, q)
        k4 = load(MQt, p, q) - load(MQt, q, p)
        k3_too, k4_too = zero, zero
        for r in range(n):
            if r != p and r != q:
                b_pr, b_qr, b_rp, b_rq = load(B, p, r), load(B, q, r), load(B, r, p), load(B, r, q)
                a_pr, a_qr, a_rp, a_rq = A[p, r], A[q, r], A[r, p], A[r, q]
                k3 = multiply_add(b_qr, a_qr, multiply_add(b_pr, a_pr, k3))
                k4 = multiply_add(b_qr, -a_pr, multiply_add(b_pr, a_qr, k4))
                k3_too = multiply_add(b_rq, a_rq, multiply_add(b_rp, a_rp, k3_too))
                k4_too = multiply_add(b_rq, -a_rp, multiply_add(b_rp, a_rq, k4_too))
        k3, k4 = k3 + k3_too, k4 + k4_too
        # (k0 - k1) / 2 and k2 / 2 of the errata, their products gathered.
        a_diagonal, a_crossed = 0.5 * (A[p, p] - A[q, q]), 0.5 * (A[p, q] + A[q, p])
        b_diagonal, b_crossed = load(B, p, p) - load(B, q, q), load(B, p, q) + load(B, q, p)
        a = b_diagonal * a_diagonal + b_crossed * a_crossed
        b = b_diagonal * a_crossed - b_crossed * a_diagonal
        origin = a + k3
        c, s, best = one, zero, origin
        if scan:
            for t in range(7):
                c_t = (half, half, 0.0, 0.0, -half, -half, -1.0)[t]
                s_t = (half, -half, 1.0, -1.0, half, -half, 0.0)[t]
                value = a * (c_t * c_t - s_t * s_t) + b * (2.0 * c_t * s_t) + k3 * c_t + k4 * s_t
                c, s = pick(value, best, fill(c_t), c), pick(value, best, fill(s_t), s)
                best = pick(value, best, value, best)
        # A bound of the second derivative: dividing by it never overshoots.
        bound = (magnitude(a) + magnitude(b)) * 4.0 + magnitude(k3) + magnitude(k4) + 1e-300
        for _ in range(steps):
            c2, s2 = c * c - s * s, c * s * 2.0
            slope = (b * c2 - a * s2) * 2.0 + k4 * c - k3 * s
            curvature = (a * c2 + b * s2) * 4.0 + k3 * c + k4 * s
            tau = slope * 0.5 / pick(curvature, bound * 0.2, curvature, bound)
            # The half-angle form turns by a true rotation without a trigonometric call.
            scale = one / (tau * tau + 1.0)
            turn_c, turn_s = (one - tau * tau) * scale, tau * scale * 2.0
            c, s = c * turn_c - s * turn_s, s * turn_c + c * turn_s
        value = a * (c * c - s * s) + b * c * s * 2.0 + k3 * c + k4 * s
        c, s = pick(value, origin, c, one), pick(value, origin, s, zero)
        for r in range(n):
            rotate(B, r, p, r, q, c, s)
        for r in range(n):
            rotate(B, p, r, q, r, c, s)
            rotate(MQt, p, r, q, r, c, s)
            rotate(Qt, p, r, q, r, c, s)
