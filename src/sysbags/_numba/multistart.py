"""Algorithm 2 without observers, from many starts: L-BFGS on the orthogonal group, one start in each lane.

Local optima are many then, and no rule that was tried (aligned spectra, matched eigenvalues, flows
inside the ball, turning what is aligned worst) begins nearer to the best of them than a random start. So what
counts is how many starts fit into a second: a start that falls behind is given up, and its lane goes to the
next. The cost and the state are those of `sysbags._numba.alignment`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled
from sysbags._numba.alignment import SAME_VALUE, TOLERANCE, ascend, states
from sysbags._numba.dense import remove_trace, square_norm
from sysbags._numba.newton import (
    gradient,
    multiply,
    objective,
    refresh,
    skew_inner,
    spread,
    transpose,
    workspace,
)
from sysbags._numba.vectors import LANES, fill, load, magnitude, pick, root, store

MEMORY = 6
"""Steps from which the curvature is known."""
LARGEST_TURN = 0.35
"""Longest step, as an angle, divided by the root of the order."""
SETTLED = 12
"""Steps before a start may be given up: the model of the curvature must have seen some."""
HOPE = 400.0
"""A start is given up where it is farther below the best than so many times what its model promises."""
REPAIR = 12
"""Steps after which Q is made orthogonal again."""
MOST_STEPS = 2000
SHARP, SHARP_ROUNDS = 1e-3, 3
"""The best start ends with Newton steps, until this share of the tolerance or after so many rounds."""

VALUE, TRIAL, SLOPE, PROMISE, TURN, SCALE, PRODUCT, CHANGE, LENGTH = range(9)


@compiled(inline="always")
def quasi_newton(
    G: Array, steps: Array, changes: Array, known: Array, newest: int, scale: Any, X: Array
) -> None:
    """Fill X with the direction of L-BFGS at the slope G; `scale` is the inverse curvature it begins with.

    ``known[0]`` holds the inverses of the products of `steps` and `changes`, 0 where there is none.
    """
    n, memory = G.shape[0], steps.shape[0]
    for i in range(n):
        for j in range(i):
            store(X, i, j, load(G, i, j))
    for k in range(memory):
        slot = (newest - k) % memory
        share = skew_inner(steps[slot], X) * load(known[0], slot, 0)
        store(known[1], slot, 0, share)
        for i in range(n):
            for j in range(i):
                store(X, i, j, load(X, i, j) - share * load(changes[slot], i, j))
    for i in range(n):
        for j in range(i):
            store(X, i, j, load(X, i, j) * scale)
    for k in range(memory):
        slot = (newest + 1 + k) % memory
        share = load(known[1], slot, 0) - skew_inner(changes[slot], X) * load(known[0], slot, 0)
        for i in range(n):
            for j in range(i):
                store(X, i, j, load(X, i, j) + share * load(steps[slot], i, j))
    for i in range(n):
        for j in range(i):
            store(X, j, i, load(X, i, j) * -1.0)


@compiled(inline="always")
def turned(state: Array, X: Array, work: Array, trial: Array) -> None:
    """Fill `trial` with Q and B after the step X: ``Q exp(X)``, to the fourth order."""
    n = X.shape[0]
    square, rest, R, product = work[2], work[3], work[4], work[5]
    multiply(X, X, 0.0, 1.0, square)
    for i in range(n):
        for j in range(n):
            x, x_too = load(X, i, j), load(square, i, j)
            store(rest, i, j, x * (1.0 / 6.0) + x_too * (1.0 / 24.0))
            store(R, i, j, x + x_too * 0.5)
        store(R, i, i, load(R, i, i) + fill(1.0))
    multiply(square, rest, 1.0, 1.0, R)
    multiply(state[0], R, 0.0, 1.0, trial[0])
    multiply(state[1], R, 0.0, 1.0, product)
    transpose(R, rest)
    multiply(rest, product, 0.0, 1.0, trial[1])


@compiled(wrapper=False)
def repair(problem: Array, state: Array, work: Array) -> None:
    """Make Q orthogonal by a step of Newton and Schulz, and compute B from it."""
    n = state.shape[1]
    Q = state[0]
    transpose(Q, work[0])
    for i in range(n):
        for j in range(n):
            store(work[1], i, j, fill(0.0))
        store(work[1], i, i, fill(1.5))
    multiply(work[0], Q, 1.0, -0.5, work[1])
    multiply(Q, work[1], 0.0, 1.0, work[0])
    for i in range(n):
        for j in range(n):
            store(Q, i, j, load(work[0], i, j))
    refresh(problem, Q, state[1], state[2], work)


@compiled(wrapper=False)
def climb_from_all(
    problem: Array, starts: Array, scale: float, enough: float, patient: bool, work: Array, state: Array
) -> tuple[int, int]:
    """Climb from all starts to local optima, and fill the lanes of ``state[0]`` with the best one.

    A start has converged where its slope is below `TOLERANCE` times the scale. No more are made once one has
    the value `enough`. Returns how many reached the best value, and how many were made.
    """
    n, total = starts.shape[1], starts.shape[0] * LANES
    Q, B, MQ = state[0], state[1], state[2]
    reserve, trial, winner = states(n), states(n), np.zeros((n, n))
    X, G = np.zeros((n, n, LANES)), np.zeros((n, n, LANES))
    steps, changes = np.zeros((MEMORY, n, n, LANES)), np.zeros((MEMORY, n, n, LANES))
    known, facts = np.zeros((2, MEMORY, 1, LANES)), np.zeros((9, 1, LANES))
    ages = np.full(LANES, -1)  # steps of the start in each lane; -1 where there is none
    longest = LARGEST_TURN * np.sqrt(n)
    following, newest, agreed, count = 0, 0, 0, 0
    best = -np.inf
    while True:
        busy = False
        if best >= enough - SAME_VALUE * scale:
            break
        for lane in range(LANES):
            if ages[lane] < 0 and following < total:
                place = following % LANES
                if place == 0:
                    for i in range(n):
                        for j in range(n):
                            store(reserve[0], i, j, load(starts[following // LANES], i, j))
                    refresh(problem, reserve[0], reserve[1], reserve[2], work)
                following += 1
                value = 0.0
                for i in range(n):
                    for j in range(n):
                        Q[i, j, lane], B[i, j, lane] = reserve[0, i, j, place], reserve[1, i, j, place]
                        value += B[i, j, lane] * problem[0, i, j, lane]
                facts[VALUE, 0, lane], facts[TURN, 0, lane] = value, longest
                facts[SCALE, 0, lane] = 0.5 * n / scale
                for slot in range(MEMORY):
                    known[0, slot, 0, lane] = 0.0
                ages[lane] = 0
            busy = busy or ages[lane] >= 0
        if not busy:
            break
        gradient(problem, B, MQ, work)
        for i in range(n):
            for j in range(n):
                g = load(work[0], i, j)
                store(changes[newest], i, j, load(G, i, j) - g)
                store(G, i, j, g)
        store(facts, PRODUCT, 0, skew_inner(steps[newest], changes[newest]))
        store(facts, CHANGE, 0, skew_inner(changes[newest], changes[newest]))
        store(facts, LENGTH, 0, skew_inner(steps[newest], steps[newest]))
        for lane in range(LANES):
            product, change = facts[PRODUCT, 0, lane], facts[CHANGE, 0, lane]
            # A new start, a step that was not taken, or one along which the cost bends upwards says nothing.
            usable = ages[lane] > 0 and product > 1e-8 * np.sqrt(change * facts[LENGTH, 0, lane])
            known[0, newest, 0, lane] = 1.0 / product if usable else 0.0
            if usable:
                facts[SCALE, 0, lane] = product / change
        quasi_newton(G, steps, changes, known, newest, load(facts, SCALE, 0), X)
        promise = skew_inner(G, X)
        store(facts, PROMISE, 0, promise)
        store(facts, SLOPE, 0, skew_inner(G, G))
        for lane in range(LANES):
            value, hope = facts[VALUE, 0, lane], HOPE * facts[PROMISE, 0, lane]
            converged = facts[SLOPE, 0, lane] <= (TOLERANCE * scale) ** 2 or ages[lane] >= MOST_STEPS
            behind = not patient and ages[lane] >= SETTLED and 0.0 < hope < best - value
            if ages[lane] < 0 or not (converged or behind):
                continue
            ages[lane] = -1
            if behind:
                continue
            agreed = 1 if value > best + SAME_VALUE * scale else agreed + (value > best - SAME_VALUE * scale)
            if value > best:
                best = value
                for i in range(n):
                    for j in range(n):
                        winner[i, j] = Q[i, j, lane]
        # A direction that does not climb is replaced by the slope.
        turn, gain = load(facts, TURN, 0), load(facts, SCALE, 0)
        for i in range(n):
            for j in range(n):
                store(X, i, j, pick(promise, fill(0.0), load(X, i, j), load(G, i, j) * gain))
        angle = root(skew_inner(X, X) * 0.5)
        shorter = pick(angle, turn, turn / (angle + 1e-300), fill(1.0))
        for i in range(n):
            for j in range(n):
                store(X, i, j, load(X, i, j) * shorter)
        turned(state, X, work, trial)
        before, after = load(facts, VALUE, 0), objective(problem[0], trial[1], trial[2])
        store(facts, TRIAL, 0, after)
        # Close to the optimum the gain drowns in round-off: the slack lets the last steps sharpen Q.
        slack = after + magnitude(after) * 1e-15
        store(facts, VALUE, 0, pick(slack, before, after, before))
        newest = (newest + 1) % MEMORY
        for i in range(n):
            for j in range(n):
                for k in range(2):
                    store(state[k], i, j, pick(slack, before, load(trial[k], i, j), load(state[k], i, j)))
                store(steps[newest], i, j, pick(slack, before, load(X, i, j), fill(0.0)))
        for lane in range(LANES):
            taken = facts[VALUE, 0, lane] == facts[TRIAL, 0, lane]
            facts[TURN, 0, lane] = (
                min(2.0 * facts[TURN, 0, lane], longest) if taken else 0.25 * facts[TURN, 0, lane]
            )
            ages[lane] += ages[lane] >= 0
        count += 1
        if count % REPAIR == 0:
            repair(problem, state, work)
            store(facts, VALUE, 0, objective(problem[0], B, MQ))
    for i in range(n):
        for j in range(n):
            store(Q, i, j, fill(winner[i, j]))
    for _ in range(2):
        repair(problem, state, work)
    return agreed, following


@compiled()
def align_transitions(
    A: Array,
    A2: Array,
    starts: Array,
    orders: IntArray,
    bound: float,
    patient: bool,
    report: Array,
    rotation: Array,
) -> None:
    """Maximise ``tr(A' Q' A2 Q)`` over O(n). A and A2 are destroyed.

    The bound of the value is from above: a start that reaches it is the last. With `patient` no start is
    given up. For the starts, the orders and the report, which is filled like the best rotation, see
    `alignment.align_many`.
    """
    n = A.shape[0]
    # No rotation changes the traces. Systems of finely sampled series are near the identity, and differ in
    # the digits behind.
    constant = n * remove_trace(A) * remove_trace(A2)
    scale = np.sqrt(square_norm(A) * square_norm(A2)) + 1e-300
    work, state, lanes = workspace(n), states(n), np.empty((2, 2, LANES))
    if not np.isfinite(scale + constant):
        report[:] = np.nan
        return
    problem = spread(A, A2, np.zeros((n, n)))
    agreed, tried = climb_from_all(problem, starts, scale, bound - constant, patient, work, state)
    # The error of the value is the square of the slope over a curvature, which may be small.
    finish, best = np.bool_(True), -np.inf
    ascend(problem, A, state, work, orders, SHARP * scale, 0, 0, np.inf, best, finish, SHARP_ROUNDS, lanes)
    report[0], report[1], report[2] = lanes[0, 0, 0] + constant, 0.0, np.sqrt(lanes[1, 0, 0])
    report[3], report[4], report[5] = 0.0, agreed, tried
    for i in range(n):
        for j in range(n):
            rotation[i, j] = state[0, i, j, 0]
