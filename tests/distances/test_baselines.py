"""Martin and maximum singular value distances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags._numba.stein import largest_singular_value, log_volume, solve_stein
from sysbags.distances.gram import cross_gram
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.stein import (
    martin_distance,
    max_singular_value_distance,
)
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.identification import identify
from sysbags.systems.system import System

DISTANCES = {"martin": martin_distance, "max-singular-value": max_singular_value_distance}

BASELINES = ("martin", "max-singular-value")


def make_system(order=3, seed=0, radius=0.9, size=8, bins=6, kernel="chi2"):
    rng = np.random.default_rng(seed)
    transition = rng.standard_normal((order, order))
    transition *= radius / np.abs(np.linalg.eigvals(transition)).max()
    samples = rng.dirichlet(np.ones(bins), size)
    return System(transition, samples, rng.standard_normal((size, order)), np.full(size, 1 / size), kernel)


def change_basis(theta, P):
    """`P . theta` for any invertible P (`eq:P_tran`)."""
    return System(
        np.linalg.inv(P) @ theta.transition @ P, theta.samples, theta.alpha @ P, theta.beta, theta.kernel
    )


def slow_block(first, second):
    out = np.empty((first.size, second.size))
    for i, a in enumerate(first.samples):
        for j, b in enumerate(second.samples):
            out[i, j] = np.exp(-0.5 * np.sum((a - b) ** 2 / (a + b)))
    return first.alpha.T @ out @ second.alpha


def slow_stein(A1, A2, F):
    """The linear system of all entries: vec X = (A1' (x) A2') vec X + vec F, row by row."""
    n, m = F.shape
    X = np.linalg.solve(np.eye(n * m) - np.kron(A1.T, A2.T), F.ravel())
    return X.reshape(n, m)


def slow_martin(first, second):
    O11, O12, O22 = (
        slow_stein(a.transition, b.transition, slow_block(a, b))
        for a, b in ((first, first), (first, second), (second, second))
    )
    L1, L2 = np.linalg.cholesky(O11), np.linalg.cholesky(O22)
    cosines = np.linalg.svd(np.linalg.solve(L1, np.linalg.solve(L2, O12.T).T), compute_uv=False)
    return -np.sum(np.log(cosines**2))


def slow_max_singular_value(first, second):
    k11, k12, k22 = (
        np.linalg.norm(slow_stein(0.9 * a.transition, b.transition, slow_block(a, b)), 2)
        for a, b in ((first, first), (first, second), (second, second))
    )
    return 2.0 * (1.0 - k12 / np.sqrt(k11 * k22))


SLOW = {"martin": slow_martin, "max-singular-value": slow_max_singular_value}


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 0.99), st.integers(0, 10_000))
def test_doubling_solves_the_equation(n, m, radius, seed):
    rng = np.random.default_rng(seed)
    A1, A2 = make_system(n, seed, radius).transition, make_system(m, seed + 1, radius).transition
    F = rng.standard_normal((n, m))
    powers = [np.stack([np.linalg.matrix_power(A, 2**k) for k in range(13)]) for A in (A1, A2)]
    norms = [np.linalg.norm(power, axis=(1, 2)) for power in powers]
    X = F.copy()
    solve_stein(X, n, m, powers[0], norms[0], powers[1], norms[1], np.empty((n, m)))
    expected = slow_stein(A1, A2, F)
    # The equation's condition is about 1 / (1 - 0.99^2), and more where the transitions are far from normal.
    np.testing.assert_allclose(X, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 10_000))
def test_log_volume_equals_the_singular_values(n, more, seed):
    # Larger storage than matrix, as for systems of mixed orders.
    X = np.random.default_rng(seed).standard_normal((n + 1, n + more + 2))
    expected = np.log(np.linalg.svd(X[:n, : n + more], compute_uv=False)).sum()
    # A singular value near zero is known to 1e-16 over itself.
    assert log_volume(X, n, n + more) == pytest.approx(expected, abs=1e-10)


def test_log_volume_of_a_singular_matrix():
    assert log_volume(np.zeros((2, 2)), 2, 2) == -np.inf


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 7), st.integers(1, 7), st.floats(-8, 8), st.integers(0, 10_000))
def test_largest_singular_value_equals_numpy(n, m, exponent, seed):
    X = np.random.default_rng(seed).standard_normal((n + 1, m + 2)) * 10.0**exponent
    expected = np.linalg.norm(X[:n, :m], 2)
    scratch = np.empty((2, m + 2, m + 2))
    assert largest_singular_value(X, n, m, *scratch) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(
    "values", [[1.0, 1.0, 1.0], [1.0, 1.0 - 1e-9, 0.0], [2.0, 2.0, 1e-12], [0.0, 0.0, 0.0]]
)
def test_largest_singular_value_with_rivals(values):
    Q1, Q2 = (np.linalg.qr(np.random.default_rng(s).standard_normal((3, 3)))[0] for s in (0, 1))
    X = Q1 @ np.diag(values) @ Q2
    largest = largest_singular_value(X, 3, 3, np.empty((3, 3)), np.empty((3, 3)))
    assert largest == pytest.approx(values[0], rel=1e-14, abs=1e-300)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(BASELINES),
    st.integers(1, 5),
    st.integers(1, 5),
    st.floats(0.05, 0.98),
    st.integers(0, 10_000),
)
def test_both_equal_their_slow_twins(metric, n, m, radius, seed):
    first, second = make_system(n, seed, radius), make_system(m, seed + 1, radius, size=11)
    expected = SLOW[metric](first, second)
    # Random observers of condition up to 1e3, squared in O_ii, times the equation's own condition.
    assert DISTANCES[metric](first, second) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(BASELINES), st.integers(1, 5), st.integers(0, 10_000))
def test_symmetry_identity_and_rotation(metric, order, seed):
    first, second = make_system(order, seed), make_system(order, seed + 1)
    distance = DISTANCES[metric]
    value = distance(first, second)
    assert value >= 0.0
    assert distance(second, first) == pytest.approx(value, rel=1e-8, abs=1e-10)
    # Zero to round-off: the logarithm (or the ratio) of a number that is 1 up to the condition times 1e-16.
    assert distance(first, first) == pytest.approx(0.0, abs=1e-9)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((order, order)))[0]
    assert distance(first.rotate(Q), second) == pytest.approx(value, rel=1e-8, abs=1e-9)
    assert distance(first, first.rotate(Q)) == pytest.approx(0.0, abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(0, 10_000))
def test_martin_ignores_every_change_of_basis(order, seed):
    first, second = make_system(order, seed), make_system(order, seed + 1)
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((order, order)))[0] for _ in range(2))
    P = U @ np.diag(np.geomspace(1.0, 20.0, order)) @ V
    moved = change_basis(first, P)
    # The condition 20 of P enters O_ii squared.
    assert martin_distance(moved, second) == pytest.approx(martin_distance(first, second), rel=1e-6, abs=1e-7)
    assert martin_distance(moved, first) == pytest.approx(0.0, abs=1e-7)


def test_max_singular_value_does_not_ignore_every_change_of_basis():
    first, second = make_system(3, 0), make_system(3, 1)
    moved = change_basis(first, np.diag([1.0, 3.0, 9.0]))
    value = max_singular_value_distance(first, second)
    assert abs(max_singular_value_distance(moved, second) - value) > 1e-3


@settings(deadline=None, max_examples=30)
@given(st.floats(-0.95, 0.95), st.floats(-0.95, 0.95), st.floats(0.1, 3.0), st.floats(0.1, 1.0))
def test_order_one_by_hand(a, b, scale, c):
    """Observers with inner product c: geometric series are all there is."""
    samples = [[1.0, 0.0], [0.0, 1.0]]
    first = System([[a]], samples, [[scale], [0.0]], [0.5, 0.5], "linear")
    second = System([[b]], samples, [[c], [np.sqrt(1 - c * c)]], [0.5, 0.5], "linear")
    cosine2 = c * c * (1 - a * a) * (1 - b * b) / (1 - a * b) ** 2
    assert martin_distance(first, second) == pytest.approx(-np.log(cosine2), abs=1e-12)
    cosine = c * np.sqrt((1 - 0.9 * a * a) * (1 - 0.9 * b * b)) / (1 - 0.9 * a * b)
    assert max_singular_value_distance(first, second) == pytest.approx(2 * (1 - cosine), abs=1e-13)


def test_orthogonal_observers():
    samples = [[1.0, 0.0], [0.0, 1.0]]
    first, second = (
        System([[0.5]], samples, alpha, [0.5, 0.5], "linear") for alpha in ([[1.0], [0]], [[0.0], [1.0]])
    )
    assert martin_distance(first, second) == np.inf
    assert max_singular_value_distance(first, second) == 2.0


def test_a_part_of_a_system_lies_in_it():
    """Two systems side by side, and one of them alone: no angle between their spaces."""
    part, other = make_system(2, 3), make_system(3, 4)
    joint = System(
        np.block([[part.transition, np.zeros((2, 3))], [np.zeros((3, 2)), other.transition]]),
        np.concatenate([part.samples, other.samples]),
        np.block([[part.alpha, np.zeros((8, 3))], [np.zeros((8, 2)), other.alpha]]),
        np.full(16, 1 / 16),
    )
    assert martin_distance(part, joint) == pytest.approx(0.0, abs=1e-9)
    assert martin_distance(joint, part) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("metric", BASELINES)
def test_batch_equals_single_pairs_for_mixed_orders(metric):
    systems = [make_system(1 + i % 4, i, 0.2 + 0.07 * i) for i in range(11)]
    symmetric = distance_matrix(cross_gram(systems), metric)
    full = distance_matrix(cross_gram(systems[:3], systems), metric)
    np.testing.assert_array_equal(np.diag(symmetric), 0.0)
    np.testing.assert_array_equal(symmetric, symmetric.T)
    # Blocks may be summed in another order, and a batch squares transitions until its slowest one is done.
    np.testing.assert_allclose(full, symmetric[:3], rtol=1e-8, atol=1e-9)
    for i, j in ((0, 1), (1, 2), (3, 6), (2, 10), (9, 4)):
        assert symmetric[i, j] == pytest.approx(
            DISTANCES[metric](systems[i], systems[j]), rel=1e-8, abs=1e-10
        )
        assert symmetric[i, j] == pytest.approx(SLOW[metric](systems[i], systems[j]), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("metric", BASELINES)
def test_same_bits_for_any_number_of_threads(metric):
    gram = cross_gram([make_system(1 + i % 3, i) for i in range(20)])
    observer = gram.observer.copy()
    expected = distance_matrix(gram, metric, n_jobs=1)
    np.testing.assert_array_equal(expected, distance_matrix(gram, metric, n_jobs=2))
    np.testing.assert_array_equal(gram.observer, observer)


@pytest.mark.parametrize("metric", BASELINES)
def test_real_systems_close_to_the_stability_bound(metric):
    """Identified systems: norm 0.999, so thousands of terms of the series matter."""
    rng = np.random.default_rng(0)
    walks = np.exp(np.cumsum(0.3 * rng.standard_normal((2, 60, 5)), axis=1))
    first, second = (identify(walk / walk.sum(axis=1, keepdims=True), order=3) for walk in walks)
    assert DISTANCES[metric](first, second) == pytest.approx(SLOW[metric](first, second), rel=1e-8)


@pytest.mark.parametrize("radius", [0.999999, 1 - 1e-9])
def test_slow_decay_is_no_problem(radius):
    first, second = (System([[a]], [[1.0]], [[1.0]], [1.0], "linear") for a in (radius, 0.5))
    expected = -np.log((1 - radius**2) * 0.75 / (1 - 0.5 * radius) ** 2)
    assert martin_distance(first, second) == pytest.approx(expected, rel=1e-7)


def scaled(factor):
    theta = make_system(2, 0, radius=0.5)
    return System(theta.transition * factor, theta.samples, theta.alpha, theta.beta)


def silent(columns):
    theta = make_system(2, 0)
    return System(theta.transition * 0, theta.samples, theta.alpha * columns, theta.beta)


@pytest.mark.parametrize(
    ("metric", "systems", "error", "sentence"),
    [
        (
            "martin",
            [make_system(2, 1), scaled(2.0)],
            IncompatibleSystemsError,
            "others[0] has spectral radius 1,",
        ),
        (
            "martin",
            [scaled(2.2), make_system(2, 1)],
            IncompatibleSystemsError,
            "systems[0] has spectral radius 1.1",
        ),
        ("martin", [scaled(2.2), make_system(2, 1)], IncompatibleSystemsError, 'stability="constrained"'),
        ("max-singular-value", [scaled(2.2), scaled(1)], IncompatibleSystemsError, "needs one below 1.05409"),
        (
            "martin",
            [silent([1.0, 0.0]), scaled(1)],
            IncompatibleSystemsError,
            "states that are not observable",
        ),
        ("martin", [scaled(1), silent([0.0, 0.0])], IncompatibleSystemsError, "others[0] has states"),
        (
            "max-singular-value",
            [silent([0.0, 0.0]), scaled(1)],
            IncompatibleSystemsError,
            "observer of zeros",
        ),
        ("martin", [scaled(1), make_system(2, 1, bins=7)], IncompatibleSystemsError, "bags of length 6"),
        ("martin", [scaled(1), make_system(2, 1, kernel="linear")], IncompatibleSystemsError, "'linear'"),
        ("max-singular-value", [scaled(1), "theta"], ParameterError, "must be a System"),
        ("martin", [None, scaled(1)], ParameterError, "must be a System"),
    ],
)
def test_bad_systems(metric, systems, error, sentence):
    with pytest.raises(error) as caught:
        DISTANCES[metric](*systems)
    assert sentence in str(caught.value)


def test_the_discount_allows_a_radius_of_one():
    assert max_singular_value_distance(scaled(2.0), make_system(2, 1)) > 0.0


def test_the_guilty_system_is_named():
    with pytest.raises(IncompatibleSystemsError, match=r"systems\[2\]"):
        distance_matrix(cross_gram([scaled(1), scaled(1), scaled(2.5)]), "martin")


@pytest.mark.parametrize("metric", ["Martin", None])
def test_unknown_metric(metric):
    with pytest.raises(ParameterError, match=r"metric is .*, but it must be one of .*'martin'"):
        distance_matrix(cross_gram([scaled(1)]), metric)
