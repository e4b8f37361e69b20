"""The alignment against closed forms, brute force and general optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from helpers import make_pair, make_system, orthogonal, polar, rho
from sysbags.datasets import make_streams
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.distances.certificates import transition_bound

LAMBDA_A = 0.25
SIZES = range(1, 9)
# How far the rotation returned is from orthogonal: Newton-Schulz and Jacobi keep it at a few n ulp.
ORTHOGONAL = 1e-12


def check_orthogonal(Q):
    """Largest entry of ``Q'Q - I``."""
    assert np.abs(Q.T @ Q - np.eye(len(Q))).max() <= ORTHOGONAL


def scale_of(A1, A2, M, lambda_a):
    return lambda_a * np.linalg.norm(A1) * np.linalg.norm(A2) + np.linalg.norm(M)


def padded(matrix, n):
    out = np.zeros((n, n))
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    return out


def plane(t, determinant):
    """Element of O(2) at an angle."""
    c, s = np.cos(t), np.sin(t)
    return np.array([[c, -s * determinant], [s, c * determinant]])


# Closed forms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("solver", ["newton", "jacobi"])
def test_without_transitions_it_is_procrustes(n, solver):
    rng = np.random.default_rng(n)
    for kind in ("random", "related"):
        A1, A2, M = make_pair(kind, n, rng)
        alignment = sysbags.align_blocks(A1, A2, M, 0.0, solver=solver)
        nuclear = np.linalg.norm(M, "nuc")
        assert alignment.value == pytest.approx(nuclear, rel=1e-13)
        assert alignment.nuclear_norm == pytest.approx(nuclear, rel=1e-13)
        assert alignment.upper_bound == pytest.approx(alignment.value, rel=1e-13)
        # The polar factor is the only maximiser; its error is that of the value under a root, if that.
        np.testing.assert_allclose(alignment.rotation, polar(M).T, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_without_transitions_the_distance_is_tau_minus_twice_the_nuclear_norm(order):
    first, second = make_system(1, order=order), make_system(2, order=order)
    M = first.alpha.T @ sysbags.kernels.kernel_matrix(first.samples, second.samples) @ second.alpha
    alignment = sysbags.align(first, second, lambda_a=0.0)
    tau = np.trace(first.observer_gram) + np.trace(second.observer_gram)
    assert alignment.distance == pytest.approx(tau - 2.0 * np.linalg.norm(M, "nuc"), abs=1e-12)
    assert alignment.lower_bound == pytest.approx(alignment.distance, abs=1e-12)
    assert alignment.parts["transition"] == 0.0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("determinant", [1, -1])
def test_a_rotated_copy_gives_the_rotation_back(n, determinant):
    rng = np.random.default_rng(n)
    for _ in range(5):
        A1, C1 = make_pair("random", n, rng)[0], polar(rng.standard_normal((2 * n, n)))
        Q = orthogonal(n, rng, determinant)
        # align finds R with R' A2 R = A1 and C2 R = C1; the copy is A2 = Q' A1 Q, C2 = C1 Q.
        alignment = sysbags.align_blocks(A1, Q.T @ A1 @ Q, C1.T @ C1 @ Q)
        best = LAMBDA_A * np.sum(A1**2) + n
        assert alignment.value == pytest.approx(best, abs=1e-12)
        np.testing.assert_allclose(alignment.rotation, Q.T, atol=1e-6)
        assert alignment.determinant == determinant
        assert alignment.upper_bound == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("order", range(1, 9))
@pytest.mark.parametrize("determinant", [1, -1])
def test_a_rotated_system_is_at_distance_zero(order, determinant):
    theta = make_system(order, order=order)
    Q = orthogonal(order, np.random.default_rng(order), determinant)
    alignment = sysbags.align(theta, theta.rotate(Q), lambda_mu=1.0)
    assert 0.0 <= alignment.lower_bound <= alignment.distance <= 1e-9
    np.testing.assert_allclose(alignment.rotation, Q.T, atol=1e-6)
    assert alignment.determinant == determinant
    assert alignment.agreed >= 1
    # As the docstring says: the first is nearest to second.rotate(rotation), here equal to it.
    back = theta.rotate(Q).rotate(alignment.rotation)
    np.testing.assert_allclose(back.transition, theta.transition, atol=1e-6)


@pytest.mark.parametrize("a", [-0.9, 0.0, 0.4])
@pytest.mark.parametrize("m", [-0.7, 0.0, 0.3])
def test_order_one_by_hand(a, m):
    # Q is 1 or -1: the transitions do not see it, the observers take the better sign.
    alignment = sysbags.align_blocks([[a]], [[0.5]], [[m]], 2.0)
    assert alignment.value == pytest.approx(2.0 * a * 0.5 + abs(m), abs=1e-15)
    assert abs(alignment.rotation[0, 0]) == 1.0
    assert alignment.determinant == np.sign(alignment.rotation[0, 0])
    if m:
        assert alignment.rotation[0, 0] == np.sign(m)
    assert alignment.gradient_norm == 0.0


def test_systems_of_order_one_by_hand():
    samples = np.array([[0.5, 0.5], [0.9, 0.1]])
    first = sysbags.System([[0.8]], samples[:1], [[1.0]], [1.0])
    second = sysbags.System([[-0.3]], samples[1:], [[-1.0]], [1.0])
    k = np.exp(-0.5 * (0.4**2 / 1.4 + 0.4**2 / 0.6))
    alignment = sysbags.align(first, second, 0.5, 2.0)
    assert alignment.rotation[0, 0] == -1.0
    assert alignment.parts["transition"] == pytest.approx(0.5 * 1.1**2, abs=1e-15)
    assert alignment.parts["observer"] == pytest.approx(2.0 - 2.0 * k, abs=1e-15)
    assert alignment.parts["mean"] == pytest.approx(2.0 * (2.0 - 2.0 * k), abs=1e-15)
    assert alignment.distance == pytest.approx(sum(alignment.parts.values()), abs=1e-15)


def test_symmetric_transitions_alone_are_matched_by_their_eigenvalues():
    rng = np.random.default_rng(0)
    for n in SIZES:
        first, second = (X + X.T for X in rng.standard_normal((2, n, n)))
        alignment = sysbags.align_blocks(first, second, lambda_a=1.0)
        expected = np.linalg.eigvalsh(first) @ np.linalg.eigvalsh(second)
        assert alignment.value == pytest.approx(expected, rel=1e-10, abs=1e-10)
        assert alignment.upper_bound == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_zero_blocks():
    for n in (1, 2, 5):
        alignment = sysbags.align_blocks(np.zeros((n, n)), np.zeros((n, n)))
        assert alignment.value == 0.0
        assert alignment.upper_bound == 0.0
        check_orthogonal(alignment.rotation)


# Brute force ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_two_by_two_by_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    A1, A2, M = rng.standard_normal((3, 2, 2))
    for lambda_a, observer in ((0.25, M), (2.0, M), (1.0, 0.0 * M)):
        alignment = sysbags.align_blocks(A1, A2, observer, lambda_a)
        angles = np.linspace(0.0, 2.0 * np.pi, 4001)
        grid = np.array([[rho(A1, A2, observer, plane(t, d), lambda_a) for t in angles] for d in (1, -1)])
        # Between two angles of the grid the cost can rise by curvature * step^2 / 8.
        curvature = 4.0 * lambda_a * np.linalg.norm(A1) * np.linalg.norm(A2) + 2.0 * np.linalg.norm(observer)
        slack = curvature * (angles[1] - angles[0]) ** 2 / 8.0
        assert grid.max() <= alignment.value + 1e-12
        assert alignment.value <= grid.max() + slack
        # And it says which of the two components holds the best.
        if abs(grid[0].max() - grid[1].max()) > 2.0 * slack:
            assert alignment.determinant == (1 if grid[0].max() > grid[1].max() else -1)


@pytest.mark.parametrize(("n", "m"), [(1, 2), (2, 1), (2, 4), (5, 3)])
def test_different_orders_are_padded_with_zeros(n, m):
    rng = np.random.default_rng([n, m])
    A1, A2, M = rng.standard_normal((n, n)), rng.standard_normal((m, m)), rng.standard_normal((n, m))
    size = max(n, m)
    short = sysbags.align_blocks(A1, A2, M)
    explicit = sysbags.align_blocks(padded(A1, size), padded(A2, size), padded(M, size))
    assert short.rotation.shape == (size, size)
    assert short.value == explicit.value
    np.testing.assert_array_equal(short.rotation, explicit.rotation)
    # The definition with the small matrices: only a corner of Q is seen by each.
    Q = short.rotation
    expected = LAMBDA_A * np.sum(A1 * (Q[:m, :n].T @ A2 @ Q[:m, :n])) + np.sum(M.T * Q[:m, :n])
    assert short.value == pytest.approx(expected, rel=1e-12)


def test_orders_one_and_two_by_a_fine_grid():
    rng = np.random.default_rng(3)
    first, second = make_system(3, order=1), make_system(4, order=2)
    M = padded(first.alpha.T @ sysbags.kernels.kernel_matrix(first.samples, second.samples) @ second.alpha, 2)
    A1, A2 = padded(first.transition, 2), second.transition
    lambda_a = float(rng.uniform(0.5, 2.0))
    angles = np.linspace(0.0, 2.0 * np.pi, 4001)
    best = max(rho(A1, A2, M, plane(t, d), lambda_a) for t in angles for d in (1, -1))
    tau = lambda_a * (np.sum(A1**2) + np.sum(A2**2)) + 3.0
    distance = sysbags.alignment_distance(first, second, lambda_a)
    assert distance == pytest.approx(tau - 2.0 * best, abs=1e-5)
    assert distance <= tau - 2.0 * best + 1e-12
    assert distance == pytest.approx(sysbags.alignment_distance(second, first, lambda_a), abs=1e-12)


# What the record says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", ["random", "related"])
@pytest.mark.parametrize("solver", ["newton", "jacobi"])
def test_the_record_is_true(n, kind, solver):
    rng = np.random.default_rng(n)
    A1, A2, M = make_pair(kind, n, rng)
    alignment = sysbags.align_blocks(A1, A2, M, solver=solver)
    Q = alignment.rotation
    check_orthogonal(Q)
    assert alignment.value == pytest.approx(rho(A1, A2, M, Q), rel=1e-13)
    assert alignment.determinant == round(np.linalg.det(Q))
    assert alignment.nuclear_norm == pytest.approx(np.linalg.norm(M, "nuc"), rel=1e-13)
    assert alignment.upper_bound >= alignment.value
    bound = LAMBDA_A * transition_bound(A1, A2) + np.linalg.norm(M, "nuc")
    assert alignment.upper_bound == pytest.approx(max(bound, alignment.value), rel=1e-12)
    # The gradient along Q exp(X) by the formula, not by the kernel.
    B = Q.T @ A2 @ Q
    F = LAMBDA_A * (A1.T @ B - B @ A1.T) + M @ Q
    gradient = 0.5 * (F.T - F)
    assert alignment.gradient_norm == pytest.approx(np.linalg.norm(gradient), abs=1e-13)
    # A start ends at 1e-7 of the problem's scale.
    assert alignment.gradient_norm <= 1.01e-7 * scale_of(A1, A2, M, LAMBDA_A)
    assert 1 <= alignment.agreed <= alignment.starts
    assert alignment.sweeps >= 1
    for _ in range(50):
        value = rho(A1, A2, M, orthogonal(n, rng))
        # For order 1 there are two rotations only: the value may differ from the best by a rounding.
        assert value <= alignment.value + 1e-15
        assert value <= alignment.upper_bound + 1e-15


def test_the_bound_of_the_transitions_holds_for_every_rotation():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 6):
        for _ in range(20):
            first, second = rng.standard_normal((2, n, n))
            bound = transition_bound(first, second)
            plain = np.linalg.svd(first, compute_uv=False) @ np.linalg.svd(second, compute_uv=False)
            assert bound <= plain + 1e-12
            for _ in range(20):
                Q = orthogonal(n, rng)
                assert np.trace(first.T @ Q.T @ second @ Q) <= bound + 1e-12 * plain
            # Attained by a copy: the norm itself.
            copy = orthogonal(n, rng)
            norm = np.sum(first**2)
            assert transition_bound(first, copy.T @ first @ copy) == pytest.approx(norm, rel=1e-12)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_parts_are_the_definition(order):
    first, second = make_system(1, order=order), make_system(2, order=order)
    alignment = sysbags.align(first, second, 0.7, 1.3)
    kernels = sysbags.kernels.kernel_matrix
    samples = np.vstack([first.samples, second.samples])
    K = kernels(samples)
    Q = alignment.rotation
    alpha = np.vstack([first.alpha, -second.alpha @ Q])
    beta = np.concatenate([first.beta, -second.beta])
    expected = {
        "transition": 0.7 * np.sum((first.transition - Q.T @ second.transition @ Q) ** 2),
        "observer": np.trace(alpha.T @ K @ alpha),
        "mean": 1.3 * beta @ K @ beta,
    }
    assert set(alignment.parts) == set(expected)
    for name, value in expected.items():
        assert alignment.parts[name] == pytest.approx(value, abs=1e-11), name
    assert alignment.distance == sum(alignment.parts.values())
    assert alignment.lower_bound <= alignment.distance


# Seeds, inputs, options -------------------------------------------------------------------------------


def test_same_seed_same_bits():
    pair = make_pair("random", 6, np.random.default_rng(0))
    for seed in (0, 7):
        first, second = (sysbags.align_blocks(*pair, random_state=seed) for _ in range(2))
        assert first.value == second.value
        np.testing.assert_array_equal(first.rotation, second.rotation)
    generators = [sysbags.align_blocks(*pair, random_state=np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(generators[0].rotation, generators[1].rotation)


@pytest.mark.parametrize(
    "seed", [1, np.int32(5), None, np.random.default_rng(0), np.random.RandomState(0)], ids=type
)
def test_every_kind_of_seed_finds_the_same_value(seed):
    pair = make_pair("related", 5, np.random.default_rng(1))
    plain = sysbags.align_blocks(*pair).value
    assert sysbags.align_blocks(*pair, random_state=seed).value == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_inputs_stay_as_they_are(n):
    rng = np.random.default_rng(n)
    matrices = make_pair("random", n, rng)
    copies = [matrix.copy() for matrix in matrices]
    for solver in ("newton", "jacobi"):
        sysbags.align_blocks(*matrices, solver=solver)
        sysbags.align_blocks(*matrices, 1.0)
    for old, new in zip(copies, matrices, strict=True):
        np.testing.assert_array_equal(old, new)
    for matrix in matrices:
        matrix.setflags(write=False)
    frozen = sysbags.align_blocks(*matrices)
    # Lists, other number types and other memory layouts are the same problem.
    lists = sysbags.align_blocks(*[matrix.tolist() for matrix in matrices])
    columns = sysbags.align_blocks(*[np.asfortranarray(matrix) for matrix in matrices])
    assert frozen.value == lists.value == columns.value


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("kind", ["random", "related"])
def test_sweeps_alone_reach_the_same_values(n, kind):
    rng = np.random.default_rng(n)
    for _ in range(5):
        pair = make_pair(kind, n, rng)
        newton, jacobi = (sysbags.align_blocks(*pair, solver=solver) for solver in ("newton", "jacobi"))
        assert jacobi.value == pytest.approx(newton.value, abs=1e-10)
        assert jacobi.sweeps >= newton.sweeps


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_transitions_alone(n):
    # No observer is an observer of zeros; a copy of either determinant is recognised all the same.
    rng = np.random.default_rng(n)
    A1, A2, _ = make_pair("random", n, rng)
    omitted = sysbags.align_blocks(A1, A2, lambda_a=1.0)
    zeros = sysbags.align_blocks(A1, A2, np.zeros((n, n)), 1.0)
    assert omitted.value == zeros.value
    assert omitted.value <= omitted.upper_bound
    for determinant in (1, -1):
        Q = orthogonal(n, rng, determinant)
        alignment = sysbags.align_blocks(A1, Q.T @ A1 @ Q, lambda_a=1.0)
        assert alignment.value == pytest.approx(np.sum(A1**2), rel=1e-10)
        R = alignment.rotation
        np.testing.assert_allclose(R.T @ Q.T @ A1 @ Q @ R, A1, atol=1e-6)


def test_more_starts_never_lose():
    rng = np.random.default_rng(0)
    for n in (3, 6):
        A1, A2, _ = make_pair("random", n, rng)
        few, many = (sysbags.align_blocks(A1, A2, starts=starts) for starts in (4, 80))
        assert few.starts == 4
        assert few.starts <= many.starts <= 80
        assert many.value >= few.value - 1e-12


@pytest.mark.parametrize("exponent", [-12, -6, 6, 12])
def test_any_scale(exponent):
    # One scale for M and for lambda_a: the same problem, the value times the scale.
    pair = make_pair("random", 4, np.random.default_rng(2))
    scale = 10.0**exponent
    plain = sysbags.align_blocks(*pair)
    scaled = sysbags.align_blocks(pair[0], pair[1], pair[2] * scale, LAMBDA_A * scale)
    # An end at a slope of 1e-7 leaves an error of 1e-14 over the curvature, which is small in some direction.
    assert scaled.value == pytest.approx(plain.value * scale, rel=1e-11)
    assert scaled.gradient_norm <= 1.01e-7 * scale * scale_of(*pair, LAMBDA_A)
    check_orthogonal(scaled.rotation)


def test_the_matrix_of_a_pair_is_its_distance():
    first, second = make_system(5, order=3), make_system(6, order=2)
    gram = sysbags.cross_gram([first], [second])
    distances = alignment_matrix(gram, 0.5, 2.0)
    assert distances.shape == (1, 1)
    assert distances[0, 0] == pytest.approx(sysbags.alignment_distance(first, second, 0.5, 2.0), abs=1e-12)


# Properties -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(0, 10**6),
    st.sampled_from(["random", "related"]),
    st.floats(0.01, 2.0),
    st.booleans(),
)
def test_no_value_is_below_that_of_the_best_rotations_of_the_observers(n, seed, kind, lambda_a, degenerate):
    rng = np.random.default_rng(seed)
    A1, A2, M = make_pair(kind, n, rng)
    U, s, Vt = np.linalg.svd(M)
    if degenerate:  # two singular values that are equal, or two that are 0
        s[-2:] = s[-1] if seed % 2 else 0.0
        M = (U * s) @ Vt
    alignment = sysbags.align_blocks(A1, A2, M, lambda_a)
    check_orthogonal(alignment.rotation)
    slack = 1e-12 * (1.0 + scale_of(A1, A2, M, lambda_a))
    for signs in ([1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]):
        turned = (Vt.T * np.append(np.ones(n), signs)[-n:]) @ U.T
        assert alignment.value >= rho(A1, A2, M, turned, lambda_a) - slack


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 10**6), st.sampled_from(["random", "related"]), st.floats(0.01, 0.3))
def test_the_value_is_that_of_the_systems_in_any_basis_and_order(n, seed, kind, lambda_a):
    """Where no random start is made: those are not turned with the basis."""
    rng = np.random.default_rng(seed)
    A1, A2, M = make_pair(kind, n, rng)
    R, S = orthogonal(n, rng), orthogonal(n, rng)
    found = [
        sysbags.align_blocks(*blocks, lambda_a)
        for blocks in ((A1, A2, M), (R.T @ A1 @ R, S.T @ A2 @ S, R.T @ M @ S), (A2, A1, M.T))
    ]
    slack = 1e-9 * (1.0 + scale_of(A1, A2, M, lambda_a))
    for plain, other in ((found[0], found[1]), (found[0], found[2])):
        if plain.starts == other.starts == 4:
            assert abs(plain.value - other.value) <= slack


# General optimisers -----------------------------------------------------------------------------------


def climb(A1, A2, M, Q, iterations):
    """Ascent of many starts of many pairs at once: Q <- polar factor of the gradient plus c Q.

    With ``c = 2 lambda_a |A1| |A2|`` the cost plus ``c/2 |Q|^2`` is convex, so that its linear model is
    a lower bound and each step, its maximiser over O(n), can only rise. Nothing here is shared with
    the solver: no planes, no Newton step, no polar starts.
    """
    A1, A2, M = A1[:, None], A2[:, None], M[:, None]
    A1t, A2t, Mt = (np.swapaxes(X, -1, -2) for X in (A1, A2, M))
    norms = np.linalg.norm(A1, 2, axis=(-2, -1)) * np.linalg.norm(A2, 2, axis=(-2, -1))
    c = 2.0 * LAMBDA_A * norms[..., None, None]
    for _ in range(iterations):
        U, _, Vt = np.linalg.svd(LAMBDA_A * (A2 @ Q @ A1t + A2t @ Q @ A1) + Mt + c * Q)
        Q = U @ Vt
    values = LAMBDA_A * np.sum((Q @ A1) * (A2 @ Q), axis=(-2, -1)) + np.sum(Mt * Q, axis=(-2, -1))
    return Q, values


PAIRS = [(kind, n, 20 if n <= 3 else 18) for kind in ("random", "related") for n in range(2, 13)]


def test_there_are_enough_pairs():
    for kind in ("random", "related"):
        assert sum(count for name, _, count in PAIRS if name == kind) >= 200


@pytest.mark.parametrize(
    ("kind", "n", "count"),
    [pair if pair[1] in (2, 3, 7, 12) else pytest.param(*pair, marks=pytest.mark.long) for pair in PAIRS],
)
def test_a_general_optimiser_never_wins(kind, n, count):
    rng = np.random.default_rng([n, kind == "related"])
    pairs = [make_pair(kind, n, rng) for _ in range(count)]
    A1, A2, M = (np.stack(matrices) for matrices in zip(*pairs, strict=True))
    # Sixteen starts in either component, the best three to their end.
    starts = [[orthogonal(n, rng, 1 - 2 * (k % 2)) for k in range(16)] for _ in pairs]
    Q, values = climb(A1, A2, M, np.array(starts), 40)
    best = np.argsort(-values, axis=1)[:, :3, None, None]
    values = climb(A1, A2, M, np.take_along_axis(Q, best, axis=1), 200)[1].max(axis=1)
    optima = np.array([sysbags.align_blocks(*pair).value for pair in pairs])
    assert np.all(values <= optima + 1e-9), f"beaten at {np.flatnonzero(values > optima + 1e-9)}"
    # The twin is a serious rival: it finds the same optimum nearly always.
    assert np.mean(values >= optima - 1e-6) >= 0.9


@pytest.mark.parametrize("n", [3, 5, 8])
def test_a_general_optimiser_never_wins_on_identified_pairs(n):
    """Their observers are nearly degenerate: several rotations are nearly as good as the best one."""
    streams, _ = make_streams(classes=3, per_class=3, frames=60, bins=16, random_state=n)
    gram = sysbags.cross_gram([sysbags.identify(stream, n) for stream in streams])
    i, j = np.triu_indices(len(streams), 1)
    A1, A2, M = gram.rows.transition[i], gram.rows.transition[j], gram.observer[i, j]
    rng = np.random.default_rng(n)
    starts = [[orthogonal(n, rng, 1 - 2 * (k % 2)) for k in range(16)] for _ in i]
    values = climb(A1, A2, M, np.array(starts), 120)[1].max(axis=1)
    optima = np.array([sysbags.align_blocks(*pair).value for pair in zip(A1, A2, M, strict=True)])
    assert np.all(values <= optima + 1e-9), f"beaten at {np.flatnonzero(values > optima + 1e-9)}"
    assert np.mean(values >= optima - 1e-6) >= 0.9


@pytest.mark.parametrize(("seed", "n", "index"), [(99, 9, 4), (5, 12, 94), (5, 12, 225)])
def test_pairs_whose_best_start_is_slow(seed, n, index):
    # Found among some 12000 random pairs: the start that ends highest lies behind for many sweeps and is
    # given up, unless a number of starts is asked for.
    rng = np.random.default_rng([seed, n, 0])
    for _ in range(index + 1):
        pair = make_pair("random", n, rng)
    starts = np.array([[orthogonal(n, rng) for _ in range(48)]])
    best = climb(*(matrix[None] for matrix in pair), starts, 300)[1].max()
    assert sysbags.align_blocks(*pair, starts=16).value >= best - 1e-9
    assert sysbags.align_blocks(*pair).value >= best - 2e-3


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("n", range(2, 13, 2))
@pytest.mark.parametrize("kind", ["random", "related"])
def test_trust_regions_never_win(kind, n, seed):
    pymanopt = pytest.importorskip("pymanopt")
    rng = np.random.default_rng([seed, n, kind == "related"])
    A1, A2, M = make_pair(kind, n, rng)
    manifold = pymanopt.manifolds.SpecialOrthogonalGroup(n, retraction="polar")
    optimizer = pymanopt.optimizers.TrustRegions(verbosity=0, max_iterations=100)
    backend = pymanopt.function.numpy(manifold)
    best = -np.inf
    for sign in (1.0, -1.0):
        # Q = R S with a reflection S and R in SO(n).
        S = np.diag([sign] + [1.0] * (n - 1))
        first, cross = S @ A1 @ S, S @ M

        @backend
        def cost(R, first=first, cross=cross):
            return -rho(first, A2, cross, R)

        @backend
        def gradient(R, first=first, cross=cross):
            return -LAMBDA_A * (A2 @ R @ first.T + A2.T @ R @ first) - cross.T

        @backend
        def hessian(_, V, first=first):
            return -LAMBDA_A * (A2 @ V @ first.T + A2.T @ V @ first)

        problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian)
        for _ in range(3):
            best = max(best, -optimizer.run(problem, initial_point=orthogonal(n, rng, 1)).cost)
    optimum = sysbags.align_blocks(A1, A2, M).value
    assert best <= optimum + 1e-9
    # Serious, if with few starts: within a few per cent of the optimum.
    assert best >= 0.9 * optimum


@pytest.mark.parametrize("lambda_a", [0.25, 4.0])
@pytest.mark.parametrize(("n", "m"), [(1, 3), (2, 4), (2, 6), (3, 8), (4, 6)])
def test_many_padded_states_leave_flat_directions_and_no_nan(n, m, lambda_a):
    # Turning padded states into each other changes nothing: there the curvature is exactly 0.
    rng = np.random.default_rng([n, m])
    for _ in range(20):
        A1, A2 = make_pair("random", n, rng)[0], make_pair("random", m, rng)[0]
        M = polar(rng.standard_normal((2 * m, n))).T @ polar(rng.standard_normal((2 * m, m)))
        forward, backward = (
            sysbags.align_blocks(*blocks, lambda_a) for blocks in ((A1, A2, M), (A2, A1, M.T.copy()))
        )
        for alignment in (forward, backward):
            assert alignment.gradient_norm <= 1.01e-7 * scale_of(A1, A2, M, lambda_a)
            check_orthogonal(alignment.rotation)
        if lambda_a < 1.0:
            assert forward.value == pytest.approx(backward.value, abs=1e-9)
