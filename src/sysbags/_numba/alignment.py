"""Algorithm 2 for one pair and for all the pairs of a collection: starts, ascent, and when to stop."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled
from sysbags._numba.dense import square_norm, svd
from sysbags._numba.jacobi import sweep
from sysbags._numba.lanes import LANES, load, store
from sysbags._numba.newton import gradient, newton
from sysbags._numba.products import objective, refresh, skew_inner, spread, transpose, workspace

__all__ = ["align_many", "ascend", "polar_starts", "states"]

Flag = bool | np.bool_

SCANNED_SWEEPS, PLAIN_SWEEPS = 3, 2
MAX_ROUNDS = 500
TOLERANCE = 1e-7
"""Slope, relative to the problem's scale, at which a start has converged; the value's error is its square."""
SAME_VALUE = 1e-9
"""Two starts agree when their values differ by less than this, relative to the problem's scale."""
PATIENCE = 12.0
"""Measured: less loses winners, more spends most of the time on losers."""
EFFORT = 700
"""Newton rounds times the order after which no more starts are made, unless all are asked for."""
QUICK_SWEEPS, QUICK_SHARE = (3, 1), 0.65
"""Sweeps, and those with a scan, that are enough for an embedding up to this share (measured)."""
BENIGN_SHARE = 0.2
"""Below this share of the transitions in the cost, local optima are rare (measured)."""


@compiled(wrapper=False)
def states(n: int) -> Array:
    """Room for the state of `LANES` starts: Q, B and MQ."""
    return np.zeros((3, n, n, LANES))


@compiled(inline="always")
def polar_starts(M: Array, Q: Array) -> float:
    """Fill the lanes with the best rotations for the observers alone; return the nuclear norm of M.

    With ``M = U S V'`` they are ``V D U'`` for the four cheapest choices of signs D: none turned,
    the last, the one before it, both. Two have determinant +1, two -1. Where the observers dominate,
    the local optima lie near such turned copies.
    """
    n = M.shape[0]
    U, values, Vt = svd(M)
    last, before = n - 1, max(n - 2, 0)
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += Vt[k, i] * U[j, k]
            turn, turn_before = 2.0 * Vt[last, i] * U[j, last], 2.0 * Vt[before, i] * U[j, before]
            Q[i, j, 0] = total
            Q[i, j, 1] = total - turn
            Q[i, j, 2] = total - turn_before
            Q[i, j, 3] = total - turn - turn_before if n > 1 else total
    nuclear = 0.0
    for k in range(n):
        nuclear += values[k]
    return nuclear


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
    warm: Flag,
    patience: float,
    so_far: float,
    finish: Flag,
    most_rounds: int,
    report: Array,
) -> tuple[int, int]:
    """Bring every lane of ``state[0]`` to a critical point.

    Values go to ``report[0, 0]``, squared slopes to ``report[1, 0]``. `warm` lanes start close to their
    optimum and need no sweeps first. A lane is given up where it lies farther below the best (`so_far`
    or among the lanes) than `patience` times what it seems to have left to rise. With `finish` false
    there are sweeps alone, the paper's way. Returns the numbers of sweeps and of rounds after the first, of
    which there are `most_rounds` at most.
    """
    n = A.shape[0]
    Q, B, MQ = state[0], state[1], state[2]
    values, active, slopes = report[0, 0], report[0, 1], report[1, 0]
    refresh(problem, Q, B, MQ, work)
    sweeps, rounds = 0, 0
    count, scanned = 0 if warm else SCANNED_SWEEPS + PLAIN_SWEEPS, SCANNED_SWEEPS
    if most_rounds == 0:
        count, scanned = QUICK_SWEEPS
    while True:
        if count > 0:
            sweeps_of(A, state, work, orders, sweeps, count, scanned)
            sweeps += count
        gradient(problem, B, MQ, work)
        store(report, 0, 0, objective(problem[0], B, MQ))
        store(report, 1, 0, skew_inner(work[0], work[0]))
        best = so_far
        for lane in range(LANES):
            best = max(best, values[lane])
        busy = False
        for lane in range(LANES):
            # What a quadratic model with the mean curvature would rise by.
            rise = 0.25 * n * slopes[lane] / (abs(best) + 1e-300)
            steep = slopes[lane] > (TOLERANCE * scale) ** 2
            going = steep and values[lane] + patience * rise >= best
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
    lambda_a : float
        Weight of the transitions.
    starts : (groups, n, n, LANES) array
        Random orthogonal matrices, determinants alternating. Where there are observers, `polar_starts`
        take the place of the first group.
    orders : (count, n (n - 1) / 2, 2) array
        Random orders of the planes, one a sweep.
    thorough : bool
        Make all the starts and give none up.
    finish : bool
        Newton finish, or sweeps alone.
    quick : bool
        Where the observers dominate, make the first sweeps of the first group only.
    reports : (count, 6) array
        Filled with rho at the best Q, ``||M||_*`` and the norm of the gradient there (not a number where an
        input is not finite), and with the sweeps of the group that won, the number of starts that reached
        the best value and the number of starts made.
    rotations : (count, n, n) array
        Filled with the best Q.
    """
    n = starts.shape[1]
    A, A2, M = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    work, state, report = workspace(n), states(n), np.empty((2, 2, LANES))
    patience = np.inf if thorough else PATIENCE
    warm = np.bool_(False)
    for k in range(pairs.shape[0]):
        for i in range(n):
            for j in range(n):
                A[i, j] = first[pairs[k, 0], i, j] * lambda_a
                A2[i, j] = second[pairs[k, 1], i, j]
                M[i, j] = observer[k, i, j]
        problem = spread(A, A2, M)
        size_a, size_m = np.sqrt(square_norm(A) * square_norm(A2)), np.sqrt(square_norm(M))
        scale = size_a + size_m + 1e-300
        best, slope, nuclear, sweeps, agreed, tried = -np.inf, 0.0, 0.0, 0, 0, 0
        required, spent, groups, most_rounds = 1, 0, starts.shape[0], MAX_ROUNDS
        if not np.isfinite(scale):
            best, slope, nuclear, groups = np.nan, np.nan, np.nan, 0
        for group in range(groups):
            for i in range(n):
                for j in range(n):
                    store(state[0], i, j, load(starts[group], i, j))
            if group == 0:
                # Without observers their best rotations mean nothing: random starts are better spread.
                nuclear = polar_starts(M, state[0]) if size_m > 0.0 else 0.0
                # The larger the transitions' share of the cost, the more local optima there are.
                share = size_a / (size_a + nuclear + 1e-300)
                required = 1 + int(np.ceil(15.0 * max(0.0, share - BENIGN_SHARE)))
                if quick and share <= QUICK_SHARE:
                    most_rounds = 0
            group_sweeps, rounds = ascend(
                problem, A, state, work, orders, scale, warm, patience, best, finish, most_rounds, report
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
                    for i in range(n):
                        for j in range(n):
                            rotations[k, i, j] = state[0, i, j, lane]
            if most_rounds == 0 or (not thorough and (agreed >= required or spent * n >= EFFORT)):
                break
        reports[k, 0], reports[k, 1], reports[k, 2] = best, nuclear, slope
        reports[k, 3], reports[k, 4], reports[k, 5] = sweeps, agreed, tried
