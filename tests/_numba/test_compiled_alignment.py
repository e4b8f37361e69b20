"""Twins of the kernels that run four starts abreast: each lane is checked on its own with plain NumPy."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from scipy.linalg import expm

from helpers import from_python, make_pair, orthogonal, plane_rotation, rho
from sysbags._numba import alignment, newton
from sysbags._numba.alignment import align_many, polar_starts, sweeps_of
from sysbags._numba.vectors import LANES, fill, largest, load, magnitude, pick, root, store, total
from sysbags.distances.alignment import start_tables

multiply, refresh, spread = map(from_python, (newton.multiply, newton.refresh, newton.spread))
transpose, workspace = from_python(newton.transpose), from_python(newton.workspace)
gradient, sweep = from_python(newton.gradient), from_python(alignment.sweep)
ascend, states = from_python(alignment.ascend), from_python(alignment.states)

SIZES = range(2, 9)
# Sums of at most a few hundred products of numbers below 10.
EXACT = 1e-12


def abreast(matrices):
    """One (n, n) matrix a lane, as the kernels want them."""
    return np.ascontiguousarray(np.moveaxis(np.asarray(matrices), 0, -1))


def apart(array):
    return np.moveaxis(array, -1, 0)


def check_orthogonal(matrices, tolerance):
    gram = matrices.swapaxes(1, 2) @ matrices
    assert np.abs(gram - np.eye(matrices.shape[1])).max() <= tolerance


def make_state(n, seed, kind="random", observer=True):
    """A problem and four states Q, ``B = Q' A2 Q``, ``MQ`` of it; A carries the weight 0.25 already."""
    rng = np.random.default_rng([n, seed])
    A1, A2, M = make_pair(kind, n, rng)
    A, M = 0.25 * A1, M if observer else np.zeros((n, n))
    Q = [orthogonal(n, rng) for _ in range(LANES)]
    return A, A2, M, Q, abreast([q.T @ A2 @ q for q in Q]), abreast([M @ q for q in Q])


# Lanes ------------------------------------------------------------------------------------------------


@numba.njit(error_model="numpy")
def every_operation(X, Y, number, out, largests):
    x, y = load(X, 1, 2), load(Y, 0, 1)
    store(out, 0, 0, x + y)
    store(out, 0, 1, x - y)
    store(out, 0, 2, x * y)
    store(out, 0, 3, x / y)
    store(out, 1, 0, x + number)
    store(out, 1, 1, number - x)
    store(out, 1, 2, number * x)
    store(out, 1, 3, x / number)
    store(out, 2, 0, pick(x, y, x * 2.0, y * 3.0))
    store(out, 2, 1, magnitude(x))
    store(out, 2, 2, root(magnitude(x)))
    store(out, 2, 3, fill(number))
    largests[0] = largest(x)
    largests[1] = largest(y)
    largests[2] = total(x)


def test_lanes_are_numpy():
    rng = np.random.default_rng(0)
    out, largests = np.empty((3, 4, LANES)), np.empty(3)
    for _ in range(50):
        X, Y = rng.standard_normal((2, 3, LANES)), rng.standard_normal((1, 2, LANES))
        number = float(rng.standard_normal())
        before = X.copy(), Y.copy()
        every_operation(X, Y, number, out, largests)
        x, y = X[1, 2], Y[0, 1]
        expected = [
            [x + y, x - y, x * y, x / y],
            [x + number, number - x, number * x, x / number],
            [np.where(x > y, 2 * x, 3 * y), np.abs(x), np.sqrt(np.abs(x)), np.full(LANES, number)],
        ]
        # Division may be by a reciprocal, so the last bit may differ.
        np.testing.assert_allclose(out, expected, rtol=1e-15)
        assert tuple(largests) == (x.max(), y.max(), (x[0] + x[1]) + (x[2] + x[3]))
        np.testing.assert_array_equal(X, before[0])
        np.testing.assert_array_equal(Y, before[1])


@pytest.mark.parametrize("lane", range(LANES))
def test_largest_looks_at_every_lane_and_pick_is_strict(lane):
    X, Y = np.full((2, 3, LANES), -5.0), np.full((1, 2, LANES), -5.0)
    X[1, 2, lane] = -1.0
    out, largests = np.empty((3, 4, LANES)), np.empty(3)
    every_operation(X, Y, 1.0, out, largests)
    assert tuple(largests) == (-1.0, -5.0, -16.0)
    expected = np.full(LANES, -15.0)  # equal lanes are not greater
    expected[lane] = -2.0
    np.testing.assert_array_equal(out[2, 0], expected)


# Products ---------------------------------------------------------------------------------------------


@numba.njit
def objective_into(A, B, MQ, out):
    store(out, 0, 0, newton.objective(A, B, MQ))


@numba.njit
def skew_inner_into(X, Y, out):
    store(out, 0, 0, newton.skew_inner(X, Y))


@pytest.mark.parametrize("n", range(1, 13))
@pytest.mark.parametrize(("keep", "sign"), [(0.0, 1.0), (1.0, -1.0), (0.5, 2.0)])
def test_multiply(n, keep, sign):
    rng = np.random.default_rng(n)
    X, Y, out = rng.standard_normal((3, n, n, LANES))
    expected = keep * apart(out) + sign * apart(X) @ apart(Y)
    multiply(X, Y, keep, sign, out)
    np.testing.assert_allclose(apart(out), expected, atol=EXACT)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_transpose_spread_workspace_and_skew_inner(n):
    rng = np.random.default_rng(n)
    X, out = rng.standard_normal((2, n, n, LANES))
    transpose(X, out)
    np.testing.assert_array_equal(out, X.swapaxes(0, 1))
    A, A2, M = rng.standard_normal((3, n, n))
    np.testing.assert_array_equal(
        spread(A, A2, M), np.stack([A, A.T, A2, M])[..., None].repeat(LANES, axis=-1)
    )
    assert not workspace(n).any()
    Y = rng.standard_normal((n, n, LANES))
    X, Y = X - X.swapaxes(0, 1), Y - Y.swapaxes(0, 1)
    total = np.empty((1, 1, LANES))
    skew_inner_into(X, Y, total)
    np.testing.assert_allclose(total[0, 0], np.sum(X * Y, axis=(0, 1)), atol=EXACT)


@pytest.mark.parametrize("n", [1, *SIZES])
def test_refresh_and_objective(n):
    A, A2, M, Q, B, MQ = make_state(n, 0)
    problem, total = spread(A, A2, M), np.empty((1, 1, LANES))
    new_B, new_MQ = np.zeros_like(B), np.zeros_like(MQ)
    refresh(problem, abreast(Q), new_B, new_MQ, workspace(n))
    np.testing.assert_allclose(new_B, B, atol=EXACT)
    np.testing.assert_allclose(new_MQ, MQ, atol=EXACT)
    objective_into(problem[0], B, MQ, total)
    np.testing.assert_allclose(total[0, 0], [rho(A, A2, M, q, 1.0) for q in Q], atol=EXACT)


# Newton -----------------------------------------------------------------------------------------------


def skew(rng, n):
    X = rng.standard_normal((n, n))
    return (X - X.T) / np.linalg.norm(X - X.T)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["random", "related"])
def test_gradient_is_the_slope_along_rotations(n, kind):
    A, A2, M, Q, B, MQ = make_state(n, 1, kind)
    work = workspace(n)
    gradient(spread(A, A2, M), B, MQ, work)
    rng = np.random.default_rng(n)
    h = 1e-5
    for lane, q in enumerate(Q):
        G = apart(work[0])[lane]
        np.testing.assert_allclose(G, -G.T, atol=1e-15)
        for _ in range(4):
            X = skew(rng, n)
            slope = (rho(A, A2, M, q @ expm(h * X), 1.0) - rho(A, A2, M, q @ expm(-h * X), 1.0)) / (2 * h)
            # Central differences: h^2 |rho'''| / 6 plus round-off 1e-16 |rho| / h, both some 1e-10.
            assert abs(np.sum(G * X) - slope) < 1e-8


@pytest.mark.parametrize("n", SIZES)
def test_negative_hessian_is_minus_the_curvature_along_rotations(n):
    A, A2, M, Q, B, MQ = make_state(n, 2)
    problem, work = spread(A, A2, M), workspace(n)
    gradient(problem, B, MQ, work)
    T, Bt = work[1].copy(), np.ascontiguousarray(B.swapaxes(0, 1))
    rng = np.random.default_rng(n)
    h = 1e-3
    X, Z = ([skew(rng, n) for _ in range(LANES)] for _ in range(2))
    images = []
    for direction in (X, Z):
        D, E, out = np.zeros((3, n, n, LANES))
        newton.negative_hessian(problem, Bt, T, abreast(direction), D, E, out)
        images.append(apart(out))
    for lane, q in enumerate(Q):
        H, x = images[0][lane], X[lane]
        np.testing.assert_allclose(H, -H.T, atol=1e-15)
        values = [rho(A, A2, M, q @ expm(k * h * x), 1.0) for k in (-2, -1, 0, 1, 2)]
        curvature = np.dot(values, [-1, 16, -30, 16, -1]) / (12 * h * h)
        # Fourth order differences: h^4 |rho^(6)| and round-off 1e-15 / h^2, both below 1e-9.
        assert abs(np.sum(x * H) + curvature) < 1e-8
        # As a Hessian it is symmetric.
        assert abs(np.sum(Z[lane] * H) - np.sum(x * images[1][lane])) < EXACT


@pytest.mark.parametrize("n", SIZES)
def test_inverse_diagonal_is_the_hessian_in_one_plane(n):
    A, A2, M, _, B, MQ = make_state(n, 3, "related")
    problem, work = spread(A, A2, M), workspace(n)
    gradient(problem, B, MQ, work)
    T, Bt, inverse = work[1].copy(), np.ascontiguousarray(B.swapaxes(0, 1)), np.empty((n, n, LANES))
    newton.inverse_diagonal(problem[0], Bt, T, inverse)
    checked = 0
    for p in range(n):
        assert not inverse[p, p].any()
        for q in range(p):
            X = np.zeros((n, n, LANES))
            X[p, q], X[q, p] = 1.0, -1.0
            D, E, out = np.zeros((3, n, n, LANES))
            newton.negative_hessian(problem, Bt, T, X, D, E, out)
            # Where the curvature is clearly positive it is inverted; elsewhere a positive number stands in.
            size = np.abs(T[p, p]) + np.abs(T[q, q])
            clear = out[p, q] > 0.2 * (size + np.abs(np.einsum("iik->ik", T)).mean(axis=0))
            np.testing.assert_allclose(inverse[p, q][clear], 1.0 / out[p, q][clear], rtol=1e-9)
            assert np.all(inverse[p, q] > 0.0)
            assert np.all(inverse[p, q] <= 1.0 / np.maximum(out[p, q], 0.1 * size) * (1.0 + 1e-9))
            np.testing.assert_array_equal(inverse[p, q], inverse[q, p])
            checked += clear.sum()
    assert checked


@numba.njit
def solve(A, B, work):
    newton.exact_direction(A, B, work, fill(1.0))


@pytest.mark.parametrize("n", range(1, newton.EXACT_ORDER + 1))
@pytest.mark.parametrize("curved", [True, False])
def test_exact_direction_solves_the_newton_equation_or_climbs(n, curved):
    A, A2, M, Q, B, MQ = make_state(n, 8)
    if curved:  # observers that dominate, at their best rotation: everywhere the curvature is negative
        M = 10.0 * np.eye(n)
        Q = [
            expm(0.01 * skew(np.random.default_rng([n, k]), n)) if n > 1 else np.eye(1) for k in range(LANES)
        ]
        B, MQ = abreast([q.T @ A2 @ q for q in Q]), abreast([M @ q for q in Q])
    problem, work = spread(A, A2, M), workspace(n)
    gradient(problem, B, MQ, work)
    G, T = work[0].copy(), work[1].copy()
    solve(problem[0], B, work)
    X = work[2].copy()
    np.testing.assert_array_equal(X, -X.swapaxes(0, 1))
    D, E, out = np.zeros((3, n, n, LANES))
    newton.negative_hessian(problem, np.ascontiguousarray(B.swapaxes(0, 1)), T, X, D, E, out)
    if curved:
        np.testing.assert_allclose(out, G, atol=EXACT)
    assert np.all(np.sum(G * X, axis=(0, 1)) >= 0.0)


@numba.njit
def newton_step(problem, B, MQ, Q, work, active):
    return newton.newton(problem, B, MQ, Q, work, load(active, 0, 0))


@pytest.mark.parametrize("n", SIZES)
def test_newton_steps_never_fall_keep_orthogonality_and_leave_idle_lanes(n):
    A, A2, M, Q, B, MQ = make_state(n, 4)
    # Sweeps first: far from an optimum the curvature is negative, and Newton does not move.
    for pairs in start_tables(n, None, 0)[1][:8]:
        Q, B, MQ = swept(A, B, MQ, Q, pairs, True)
        B, MQ = abreast(B), abreast(MQ)
    problem, work, q = spread(A, A2, M), workspace(n), abreast(Q)
    active = np.ones((1, 1, LANES))
    active[0, 0, 1] = 0.0
    values = np.array([rho(A, A2, M, x, 1.0) for x in Q])
    for _ in range(8):
        gradient(problem, B, MQ, work)
        newton_step(problem, B, MQ, q, work, active)
        after = np.array([rho(A, A2, M, x, 1.0) for x in apart(q)])
        # 1e-15 |rho| of slack is granted by design, the rest is the twin's own round-off.
        assert np.all(after >= values - 1e-14 * (1.0 + np.abs(values)))
        values = after
        np.testing.assert_allclose(
            apart(q).swapaxes(1, 2) @ apart(q), np.eye(n)[None].repeat(LANES, 0), atol=1e-12
        )
        np.testing.assert_allclose(apart(B), apart(q).swapaxes(1, 2) @ A2 @ apart(q), atol=1e-12)
    np.testing.assert_allclose(apart(q)[1], Q[1], atol=1e-13)
    gradient(problem, B, MQ, work)
    slopes = np.linalg.norm(apart(work[0]), axis=(1, 2))
    assert np.all(slopes[[0, 2, 3]] < 1e-9)


def test_newton_does_not_rest_where_the_curvature_is_negative():
    # Close to the minimum of rho there is no Newton step: it must rise otherwise, or ask for a sweep.
    n = 3
    M = np.diag([3.0, 2.0, 1.0])
    rng = np.random.default_rng(0)
    Q = [-expm(0.01 * skew(rng, n)) for _ in range(LANES)]
    B, MQ, work = np.zeros((n, n, LANES)), abreast([M @ x for x in Q]), workspace(n)
    problem = spread(np.zeros((n, n)), np.zeros((n, n)), M)
    gradient(problem, B, MQ, work)
    q = abreast(Q)
    lost = newton_step(problem, B, MQ, q, work, np.ones((1, 1, LANES)))
    rise = np.array([np.trace(M @ (new - old)) for new, old in zip(apart(q), Q, strict=True)])
    assert np.all(rise >= -1e-14)
    assert lost > 0.0 or np.all(rise > 1e-6)


# Sweeps -----------------------------------------------------------------------------------------------


def swept(A, B, MQ, Q, pairs, scan):
    """`sweep` on copies, with the transposes that it wants; returns Q, B and MQ by lane."""
    B = B.copy()
    MQt, Qt = np.ascontiguousarray(MQ.swapaxes(0, 1)), abreast([x.T for x in Q])
    sweep(A, B, MQt, Qt, np.asarray(pairs, dtype=np.int64), scan)
    return apart(Qt).swapaxes(1, 2), apart(B), apart(MQt).swapaxes(1, 2)


def trigonometric(t):
    return np.column_stack([np.ones_like(t), *(f(k * t) for k in (1, 2) for f in (np.cos, np.sin))])


def test_one_plane_against_a_scan_of_the_angle():
    grid = np.linspace(-np.pi, np.pi, 2001)
    waves = trigonometric(grid)
    behind = plain_behind = total = 0
    for seed in range(30):
        for n in SIZES:
            A, A2, M, Q, B, MQ = make_state(n, 100 + seed, ("random", "related")[seed % 2], seed % 3 > 0)
            rng = np.random.default_rng(seed)
            p, q = sorted(rng.choice(n, size=2, replace=False))
            # Along the angle rho is a trigonometric polynomial of degree two: five values are all of it.
            angles = 2.0 * np.pi * np.arange(5) / 5.0
            new_Q = swept(A, B, MQ, Q, [[p, q]], True)[0]
            plain_Q = swept(A, B, MQ, Q, [[p, q]], False)[0]
            for lane in range(LANES):
                samples = [rho(A, A2, M, Q[lane] @ plane_rotation(n, p, q, t), 1.0) for t in angles]
                k = np.linalg.solve(trigonometric(angles), samples)
                scanned = waves @ k
                before, after = rho(A, A2, M, Q[lane], 1.0), rho(A, A2, M, new_Q[lane], 1.0)
                plain = rho(A, A2, M, plain_Q[lane], 1.0)
                assert min(after, plain) >= before - 1e-14
                total += 1
                # On a grid of 0.003 the best lies less than 1e-5 of the curvature below the maximum, and
                # three Newton steps from a grid of pi / 4 come about as near.
                behind += after < scanned.max() - 1e-5
                plain_behind += plain < scanned.max() - 1e-5
                turn = Q[lane].T @ new_Q[lane]
                np.testing.assert_allclose(
                    turn, plane_rotation(n, p, q, np.arctan2(turn[p, q], turn[p, p])), atol=1e-13
                )
    assert total == 30 * len(SIZES) * LANES
    assert behind <= 0.02 * total, f"{behind} of {total} angles lie below the best of the grid"
    # Without the scan the far maximum may be missed: the test above is not one that anything passes.
    assert plain_behind > behind


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["random", "related"])
def test_sweeps_are_monotone_and_orthogonal(n, kind):
    A, A2, M, Q, B, MQ = make_state(n, 5, kind)
    orders = start_tables(n, None, 0)[1]
    values = np.array([rho(A, A2, M, x, 1.0) for x in Q])
    for k in range(12):
        Q, new_B, new_MQ = swept(A, B, MQ, Q, orders[k], k < 6)
        after = np.array([rho(A, A2, M, x, 1.0) for x in Q])
        assert np.all(after >= values - 1e-13 * np.abs(values))
        check_orthogonal(Q, 1e-13)
        np.testing.assert_allclose(new_B, Q.swapaxes(1, 2) @ A2 @ Q, atol=EXACT)
        np.testing.assert_allclose(new_MQ, M @ Q, atol=EXACT)
        values, B, MQ = after, abreast(new_B), abreast(new_MQ)


def test_sweeps_of_is_sweep_in_turn():
    n = 5
    A, _, _, Q, B, MQ = make_state(n, 6)
    orders = start_tables(n, None, 0)[1]
    state = np.stack([abreast(Q), B, MQ])
    sweeps_of(A, state, workspace(n), orders, 15, 3, 1)
    for k in range(3):
        Q, new_B, new_MQ = swept(A, B, MQ, Q, orders[(15 + k) % 16], k < 1)
        B, MQ = abreast(new_B), abreast(new_MQ)
    # Inlined into another function the sums may be contracted differently, so not to the last bit.
    np.testing.assert_allclose(state, np.stack([abreast(Q), B, MQ]), atol=1e-13)


# Starts, ascent, batches ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 9))
def test_polar_starts(n):
    values, Q = np.sort(np.random.default_rng(n).uniform(0.1, 1.0, n))[::-1], np.empty((n, n, LANES))
    polar_starts(Q)
    # A turned direction costs twice its singular value.
    last, before = values[-1], values[max(n - 2, 0)]
    lost = [0.0, 2 * last, 2 * before, 2 * (last + before) if n > 1 else 0.0]
    np.testing.assert_allclose([np.trace(np.diag(values) @ x) for x in apart(Q)], values.sum() - lost)
    np.testing.assert_array_equal([np.linalg.det(x) for x in apart(Q)], [1, -1, -1, 1])
    np.testing.assert_array_equal(np.abs(apart(Q)), np.eye(n)[None].repeat(LANES, 0))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("finish", [True, False])
def test_ascend_ends_at_critical_points_not_below_the_start(n, finish):
    A, A2, M, Q, _, _ = make_state(n, 7, "related")
    problem, work, state = spread(A, A2, M), workspace(n), states(n)
    report, orders = np.zeros((2, 2, LANES)), start_tables(n, None, 0)[1]
    state[0] = abreast(Q)
    ascend(problem, A, state, work, orders, 1.0, 0, 0, np.inf, -np.inf, finish, 500, report)
    for lane, q in enumerate(apart(state[0])):
        value = rho(A, A2, M, q, 1.0)
        assert value == pytest.approx(report[0, 0, lane], abs=EXACT)
        assert value >= rho(A, A2, M, Q[lane], 1.0) - EXACT
        assert report[1, 0, lane] <= 1.0001e-14
        E = A2 @ q @ A.T + A2.T @ q @ A + M.T
        slope = np.linalg.norm(q.T @ E - E.T @ q) / 2
        assert slope == pytest.approx(np.sqrt(report[1, 0, lane]), abs=1e-12)


def test_align_many_aligns_each_pair_alone_in_its_leading_block():
    rng = np.random.default_rng(0)
    N, n = 6, 4
    first, second = rng.standard_normal((2, 3, N, N))
    observer, pairs = rng.standard_normal((4, N, N)), np.array([[0, 1], [2, 2], [1, 0], [0, 0]])
    tables = start_tables(n, None, 0)
    reports, rotations = np.empty((4, 6)), np.empty((4, n, n))
    align_many(first, second, observer, pairs, 0.3, *tables, True, False, reports, rotations)
    for k, (i, j) in enumerate(pairs):
        A, A2, M = first[i, :n, :n], second[j, :n, :n], observer[k, :n, :n]
        report, rotation = np.empty((1, 6)), np.empty((1, n, n))
        blocks = [np.ascontiguousarray(block)[None] for block in (A, A2, M)]
        align_many(*blocks, np.zeros((1, 2), np.int64), 0.3, *tables, True, False, report, rotation)
        np.testing.assert_array_equal(report[0], reports[k])
        np.testing.assert_array_equal(rotation[0], rotations[k])
        assert rho(0.3 * A, A2, M, rotations[k], 1.0) == pytest.approx(reports[k, 0], rel=1e-13)
        assert reports[k, 1] == pytest.approx(np.linalg.svd(M, compute_uv=False).sum(), rel=1e-12)


@pytest.mark.parametrize("n", [3, 6, 11])
def test_a_change_of_basis_changes_the_rotation_alone(n):
    """Of either system, so that the path of the search is the same: values agree to round-off."""
    rng = np.random.default_rng(n)
    tables = start_tables(n, None, 0)
    for kind in ("random", "related"):
        A, A2, M = make_pair(kind, n, rng)
        R, S = orthogonal(n, rng), orthogonal(n, rng, -1)
        found = []
        for problem in ((A, A2, M), (R.T @ A @ R, S.T @ A2 @ S, R.T @ M @ S)):
            reports, rotations = np.empty((1, 6)), np.empty((1, n, n))
            blocks = [np.ascontiguousarray(block)[None] for block in problem]
            align_many(*blocks, np.zeros((1, 2), np.int64), 0.25, *tables, True, False, reports, rotations)
            found.append((reports[0], rotations[0]))
        assert found[1][0][0] == pytest.approx(found[0][0][0], rel=1e-12)
        np.testing.assert_allclose(S @ found[1][1] @ R.T, found[0][1], atol=1e-5)


def test_align_many_reports_pairs_that_are_not_finite():
    n = 2
    A, M = np.full((1, n, n), np.inf), np.eye(n)[None]
    reports, rotations = np.empty((1, 6)), np.empty((1, n, n))
    tables = start_tables(n, None, 0)
    align_many(A, A, M, np.zeros((1, 2), np.int64), 1.0, *tables, True, False, reports, rotations)
    assert np.isnan(reports[0, :3]).all()
    assert not reports[0, 3:].any()
