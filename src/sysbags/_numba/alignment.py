"""Algorithm 2 for one pair and for all the pairs of a collection: starts, sweeps, ascent, and when to stop.

The cost is ``rho(Q) = tr(A' Q' A2 Q) + tr(M Q)``: `A` is the first transition times `lambda_a`, `A2` the
second transition, `M` the cross block of the two observers. A state is ``Q``, ``B = Q' A2 Q`` and
``MQ = M Q``, each with a last axis of `LANES` starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled
from sysbags._numba.dense import multiply_into, remove_trace, square_norm, svd
from sysbags._numba.newton import (
    gradient,
    newton,
    objective,
    refresh,
    skew_inner,
    spread,
    transpose,
    workspace,
)
from sysbags._numba.proof import proves
from sysbags._numba.vectors import LANES, fill, load, magnitude, multiply_add, pick, store


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

    A is (n, n); B, MQt and Qt are (n, n, LANES), the last two transposed, so that their rotations run along
    rows in memory. The planes are visited in the order of `pairs`, (count, 2).
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


Flag = bool | np.bool_

FAR_SWEEPS, NEAR_SWEEPS, QUICK_SWEEPS = (5, 3), (1, 0), (3, 1)
"""First sweeps, and how many of them scan the angle: from a random start, from the best rotation of the
observers, which more sweeps would leave for worse optima (measured), and where these are all that is done."""
MAX_ROUNDS = 500
TOLERANCE = 1e-7
"""Slope, relative to the problem's scale, at which a start has converged; the value's error is its square."""
SAME_VALUE = 1e-9
"""Two starts agree when their values differ by less than this, relative to the problem's scale."""
PATIENCE = 12.0
"""Measured: less loses winners, more spends most of the time on losers."""
EFFORT = 700
"""Newton rounds times the order after which no more starts are made, unless all are asked for."""
QUICK_SHARE = 0.35
"""Up to this share `QUICK_SWEEPS` are enough for an embedding (measured)."""
PROVEN_ORDER, ALWAYS_PROVEN = 10, 5
"""Up to the first order a proof takes less time than more starts, up to the second hardly any."""
BENIGN_SHARE = 0.2
"""Below this share of the transitions in the cost, local optima are rare (measured)."""


@compiled(wrapper=False)
def states(n: int) -> Array:
    """Room for the state of `LANES` starts: Q, B and MQ."""
    return np.zeros((3, n, n, LANES))


@compiled(inline="always")
def polar_starts(Q: Array) -> None:
    """Fill the lanes with the best rotations for a diagonal M >= 0 with descending entries alone.

    Identities with the four cheapest choices of signs: none turned, the last, the one before it, both. Two
    have determinant +1, two -1. Where the observers dominate, the local optima lie near such turned copies.
    """
    n = Q.shape[0]
    for i in range(n):
        for j in range(n):
            store(Q, i, j, fill(1.0 if i == j else 0.0))
    Q[n - 1, n - 1, 1] = -1.0
    Q[max(n - 2, 0), max(n - 2, 0), 2] = -1.0
    if n > 1:
        Q[n - 1, n - 1, 3], Q[n - 2, n - 2, 3] = -1.0, -1.0


@compiled(inline="always")
def sweeps_of(
    A: Array, state: Array, work: Array, orders: IntArray, first: int, count: int, scanned: int
) -> None:
    """Sweep every lane `count` times, with a scan of the angle in the first `scanned` of them."""
    Q, B, MQ = state[0], state[1], state[2]
    transpose(MQ, work[0])
    transpose(Q, work[1])
    for k in range(count):
        sweep(A, B, work[0], work[1], orders[(first + k) % orders.shape[0]], k < scanned)
    transpose(work[0], MQ)
    transpose(work[1], Q)


@compiled(wrapper=False)
def ascend(
    problem: Array,
    A: Array,
    state: Array,
    work: Array,
    orders: IntArray,
    scale: float,
    count: int,
    scanned: int,
    patience: float,
    so_far: float,
    finish: Flag,
    most_rounds: int,
    report: Array,
) -> tuple[int, int]:
    """Bring every lane of ``state[0]`` to a critical point.

    Values go to ``report[0, 0]``, squared slopes to ``report[1, 0]``. There are `count` sweeps first, and
    `scanned` of them scan the angle. A lane is given up where `patience` times what it seems to have left to
    rise does not take it to the best (`so_far` or among the lanes), or above one that has converged. With
    `finish` false there are sweeps alone, the paper's way. Returns the numbers of sweeps and of rounds after
    the first, of which there are `most_rounds` at most.
    """
    n = A.shape[0]
    Q, B, MQ = state[0], state[1], state[2]
    values, active, slopes = report[0, 0], report[0, 1], report[1, 0]
    refresh(problem, Q, B, MQ, work)
    sweeps, rounds = 0, 0
    while True:
        if count > 0:
            sweeps_of(A, state, work, orders, sweeps, count, scanned)
            sweeps += count
        gradient(problem, B, MQ, work)
        store(report, 0, 0, objective(problem[0], B, MQ))
        store(report, 1, 0, skew_inner(work[0], work[0]))
        best, done = so_far, so_far
        for lane in range(LANES):
            best = max(best, values[lane])
            if slopes[lane] <= (TOLERANCE * scale) ** 2:
                done = max(done, values[lane])
        busy = False
        for lane in range(LANES):
            # What a quadratic model with the mean curvature would rise by.
            hope = values[lane] + patience * 0.25 * n * slopes[lane] / (abs(best) + 1e-300)
            steep = slopes[lane] > (TOLERANCE * scale) ** 2
            going = steep and hope >= best and hope >= done + SAME_VALUE * scale
            active[lane] = 1.0 if going else 0.0
            busy = busy or going
        if not busy or rounds == most_rounds:
            break
        rounds += 1
        lost = not finish or newton(problem, B, MQ, Q, work, load(report, 0, 1)) > 0.0
        count, scanned = 1 if lost else 0, 0 if finish else 1
    return sweeps, rounds


@compiled()
def align_many(
    first: Array,
    second: Array,
    observer: Array,
    pairs: IntArray,
    lambda_a: float,
    starts: Array,
    orders: IntArray,
    thorough: bool,
    finish: Flag,
    quick: Flag,
    reports: Array,
    rotations: Array,
) -> None:
    """Maximise ``tr(A' Q' A2 Q) + tr(M Q)`` over O(n) for pairs, from starts until enough of them agree.

    Also for a single pair: the ascent is most of what is compiled, and this way it is compiled once.

    Parameters
    ----------
    first, second : (K, N, N), (L, N, N) arrays
        Transitions. The starts' size n says how much of what is padded with zeros belongs to these pairs.
    observer : (count, N, N) array
        Cross blocks M of the observers, one for each pair.
    pairs : (count, 2) array
        A is the first of these among `first`, times `lambda_a`, and A2 the second among `second`.
    starts : (groups, n, n, LANES) array
        Random orthogonal matrices, determinants alternating. Where there are observers, `polar_starts`
        take the place of the first group.
    orders : (count, n (n - 1) / 2, 2) array
        Random orders of the planes, one a sweep.
    thorough, finish, quick : bool
        Make all the starts and give none up; Newton finish, or sweeps alone; where the observers dominate,
        make the first sweeps of the first group only.
    reports : (count, 6) array
        Filled with rho at the best Q, ``||M||_*`` and the norm of the gradient there (not a number where an
        input is not finite), and with the sweeps of the group that won, the number of starts that reached
        the best value and the number of starts made.
    rotations : (count, n, n) array
        Filled with the best Q.
    """
    n = starts.shape[1]
    A, A2, M = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    kept, Ut, V = np.empty((3, n, n)), np.empty((n, n)), np.empty((n, n))
    work, state, report = workspace(n), states(n), np.empty((2, 2, LANES))
    patience = np.inf if thorough else PATIENCE
    for k in range(pairs.shape[0]):
        for i in range(n):
            for j in range(n):
                A[i, j] = first[pairs[k, 0], i, j] * lambda_a
                A2[i, j] = second[pairs[k, 1], i, j]
                M[i, j] = observer[k, i, j]
        # No rotation changes the traces, which are most of the transitions of slow or finely sampled streams.
        constant = n * remove_trace(A) * remove_trace(A2)
        size_a, size_m = np.sqrt(square_norm(A) * square_norm(A2)), np.sqrt(square_norm(M))
        scale = size_a + size_m + 1e-300
        best, slope, nuclear, sweeps, agreed, tried = -np.inf, 0.0, 0.0, 0, 0, 0
        required, spent, groups, most_rounds = 1, 0, starts.shape[0], MAX_ROUNDS
        if not np.isfinite(scale + constant):
            best, slope, nuclear, groups = np.nan, np.nan, np.nan, 0
        elif size_m > 0.0:
            # In the singular vectors of M the negative Hessian is nearly diagonal where observers dominate.
            U, values, Vt = svd(M)
            for i in range(n):
                nuclear += values[i]
                for j in range(n):
                    V[i, j], Ut[j, i] = Vt[j, i], U[i, j]
            multiply_into(A, U, M)
            multiply_into(Ut, M, A)
            multiply_into(A2, V, M)
            multiply_into(Vt, M, A2)
            for i in range(n):
                for j in range(n):
                    M[i, j] = values[i] if i == j else 0.0
        problem = spread(A, A2, M)
        for group in range(groups):
            count, scanned = FAR_SWEEPS
            for i in range(n):
                for j in range(n):
                    store(state[0], i, j, load(starts[group], i, j))
            if group == 0:
                # Without observers their best rotations mean nothing: random starts are better spread.
                if size_m > 0.0:
                    polar_starts(state[0])
                    count, scanned = NEAR_SWEEPS
                # The larger the transitions' share of the cost, the more local optima there are.
                share = size_a / (size_a + nuclear + 1e-300)
                required = 1 + int(np.ceil(15.0 * max(0.0, share - BENIGN_SHARE)))
                if quick and share <= QUICK_SHARE:
                    most_rounds = 0
                    count, scanned = QUICK_SWEEPS
            group_sweeps, rounds = ascend(
                problem,
                A,
                state,
                work,
                orders,
                scale,
                count,
                scanned,
                patience,
                best,
                finish,
                most_rounds,
                report,
            )
            tried += LANES
            spent += rounds
            for lane in range(LANES):
                value = report[0, 0, lane]
                if value > best + SAME_VALUE * scale:
                    agreed = 0
                if value > best - SAME_VALUE * scale:
                    agreed += 1
                if value > best:
                    best, slope, sweeps = value, np.sqrt(report[1, 0, lane]), group_sweeps
                    for m in range(3):
                        for i in range(n):
                            for j in range(n):
                                kept[m, i, j] = state[m, i, j, lane]
            # More starts are for pairs that are open.
            limit = PROVEN_ORDER if agreed < required else ALWAYS_PROVEN
            if group == 0 and n <= limit and most_rounds > 0 and not thorough:
                if proves(A, kept[1], kept[2], SAME_VALUE * scale):
                    break
                required = max(required, 2)
            if most_rounds == 0 or (not thorough and (agreed >= required or spent * n >= EFFORT)):
                break
        if size_m > 0.0:
            multiply_into(V, kept[0], M)
            multiply_into(M, Ut, kept[0])
        rotations[k] = kept[0]
        reports[k, 0], reports[k, 1], reports[k, 2] = best + constant, nuclear, slope
        reports[k, 3], reports[k, 4], reports[k, 5] = sweeps, agreed, tried
