"""Algorithm 3 from the n x n blocks alone."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled
from sysbags._numba.alignment import MAX_ROUNDS, align_many, ascend, states
from sysbags._numba.dense import square_norm, svd
from sysbags._numba.newton import spread, workspace
from sysbags._numba.vectors import LANES


@compiled(fastmath=True)
def update_mean(
    A: Array, G: Array, weights: Array, Q: Array, polar: bool, mean: Array, blocks: Array, mixing: Array
) -> float:
    """The mean that is best for given rotations (`eq:fopt`), exactly, over the whole feature space.

    G is (K, n, K, n), with ``C_i' C_j`` at ``[i, :, j, :]``: a row of it is read once, for all j. The weights
    sum to 1. `polar` says that observers are orthonormal, and the mean is to be too. Filled are `mean` with
    the mean transition (`eq:a_avg`), `blocks` with ``Cbar' C_t``, where ``Cbar`` is ``sum_i w_i C_i Q_i`` or,
    if `polar`, its polar factor, and `mixing` with W: ``Cbar = sum_i C_i W_i``. Returns ``||Cbar||^2``; of a
    polar factor the number of directions in which the sum does not vanish.
    """
    members, n = A.shape[0], A.shape[1]
    # U_t = sum_j w_j C_t' C_j Q_j; then S = sum_t w_t Q_t' U_t and Cbar' C_t = (U_t S^(-1/2))'.
    S = np.zeros((n, n))
    AQ = np.empty((n, n))
    rows = G.reshape(members, n, members * n)
    columns = np.empty((n, members * n))  # w_j Q_j side by side, transposed
    for j in range(members):
        for k in range(n):
            for m in range(n):
                columns[m, j * n + k] = weights[j] * Q[j, k, m]
    for i in range(n):
        for m in range(n):
            mean[i, m] = 0.0
    for t in range(members):
        U = blocks[t]
        for i in range(n):
            for m in range(n):
                total = 0.0
                for k in range(members * n):
                    total += rows[t, i, k] * columns[m, k]
                U[i, m] = total
        for i in range(n):
            for m in range(n):
                AQ[i, m] = 0.0
            for k in range(n):
                for m in range(n):
                    AQ[i, m] += A[t, i, k] * Q[t, k, m]
        for k in range(n):
            for i in range(n):
                q = weights[t] * Q[t, k, i]
                for m in range(n):
                    S[i, m] += q * U[k, m]
                    mean[i, m] += q * AQ[k, m]
    root = np.zeros((n, n))
    for i in range(n):
        for m in range(n):
            root[i, m] = 0.5 * (S[i, m] + S[m, i])
    squared_norm = 0.0
    if polar:
        vectors, values, _ = svd(root)
        for i in range(n):
            for m in range(n):
                root[i, m] = 0.0
        for k in range(n):
            if values[k] > 1e-12 * values[0]:
                squared_norm += 1.0
                for i in range(n):
                    for m in range(n):
                        root[i, m] += vectors[i, k] * vectors[m, k] / np.sqrt(values[k])
    else:
        for i in range(n):
            squared_norm += root[i, i]
            for m in range(n):
                root[i, m] = 1.0 if i == m else 0.0
    product = np.empty((n, n))
    for t in range(members):
        for i in range(n):
            for m in range(n):
                total = 0.0
                mixed = 0.0
                for k in range(n):
                    total += blocks[t, m, k] * root[k, i]
                    mixed += Q[t, i, k] * root[k, m]
                product[i, m] = total
                mixing[t, i, m] = weights[t] * mixed
        for i in range(n):
            for m in range(n):
                blocks[t, i, m] = product[i, m]
    return squared_norm


@compiled(inline="always")
def realign(mean: Array, A: Array, blocks: Array, Q: Array, orders: IntArray, values: Array) -> None:
    """Improve each member's rotation from where it is, four members abreast; `values` get the rho reached."""
    members, n = A.shape[0], A.shape[1]
    problem, work, state, report = spread(mean, mean, mean), workspace(n), states(n), np.zeros((2, 2, LANES))
    largest = 0.0
    for t in range(members):
        largest = max(largest, square_norm(blocks[t]))
    scale = np.sqrt(square_norm(mean) * n) + np.sqrt(largest)
    for begin in range(0, members, LANES):
        for lane in range(LANES):
            t = min(begin + lane, members - 1)
            for i in range(n):
                for j in range(n):
                    problem[2, i, j, lane] = A[t, i, j]
                    problem[3, i, j, lane] = blocks[t, i, j]
                    state[0, i, j, lane] = Q[t, i, j]
        enabled = np.bool_(True)
        ascend(problem, mean, state, work, orders, scale, 0, 0, np.inf, -np.inf, enabled, MAX_ROUNDS, report)
        for lane in range(min(LANES, members - begin)):
            t = begin + lane
            values[t] = report[0, 0, lane]
            for i in range(n):
                for j in range(n):
                    Q[t, i, j] = state[0, i, j, lane]


@compiled()
def weighted_sum(weights: Array, values: Array) -> float:
    """Sum of products, in the order of the members."""
    total = 0.0
    for t in range(weights.shape[0]):
        total += weights[t] * values[t]
    return total


@compiled()
def mean_descent(
    A: Array,
    G: Array,
    weights: Array,
    lambda_a: float,
    constant: float,
    Q: Array,
    starts: Array,
    orders: IntArray,
    thorough: bool,
    polar: bool,
    tolerance: float,
    mean: Array,
    mixing: Array,
    history: Array,
) -> tuple[int, bool]:
    """Alternate between the best mean for the rotations and better rotations for the mean (Algorithm 3).

    Q is improved in place. Once the objective hardly falls, every member is aligned anew from all
    `starts`; only if that gains nothing is the descent over. `history` receives the objective
    ``sum_i w_i d(mean, system_i)^2`` after each iteration. Returns their number and whether the
    descent came to its end.
    """
    members, n = A.shape[0], A.shape[1]
    blocks, values, rotations = np.empty((members, n, n)), np.empty(members), np.empty((members, n, n))
    scaled, finish, quick = np.empty((1, n, n)), np.bool_(True), np.bool_(False)
    pairs, reports = np.empty((members, 2), np.int64), np.empty((members, 6))
    for t in range(members):
        pairs[t, 0], pairs[t, 1] = 0, t
    for iteration in range(history.shape[0]):
        observer_norm = update_mean(A, G, weights, Q, polar, mean, blocks, mixing)
        for i in range(n):
            for j in range(n):
                scaled[0, i, j] = mean[i, j] * lambda_a
        realign(scaled[0], A, blocks, Q, orders, values)
        squared_norms = constant + lambda_a * square_norm(mean) + observer_norm
        objective = squared_norms - 2.0 * weighted_sum(weights, values)
        settled = iteration > 0 and history[iteration - 1] - objective <= tolerance * constant
        if settled or iteration == 0:
            align_many(
                scaled, A, blocks, pairs, 1.0, starts, orders, thorough, finish, quick, reports, rotations
            )
            for t in range(members):
                if reports[t, 0] > values[t]:
                    values[t] = reports[t, 0]
                    for i in range(n):
                        for j in range(n):
                            Q[t, i, j] = rotations[t, i, j]
            better = squared_norms - 2.0 * weighted_sum(weights, values)
            settled = settled and objective - better <= tolerance * constant
            objective = better
        history[iteration] = objective
        if settled:
            return iteration + 1, True
    return history.shape[0], False
