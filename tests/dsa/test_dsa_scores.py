"""Distances between linear systems: known optima, certificates, inputs, and optimal transport."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.datasets import make_lorenz
from sysbags.dsa import euclidean_distance, fit_dmd
from sysbags.dsa.scores import angular_distance, wasserstein_distance
from sysbags.errors import ParameterError

SAME = 1e-6  # rotations converge to a slope of 1e-7, and distances near 0 are of the order of the slope


def rotation(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def normal_matrix(values):
    """Return a matrix with orthogonal planes: real eigenvalues, and pairs a +- ib given as complex a + ib."""
    blocks = [
        np.array([[v.real, -v.imag], [v.imag, v.real]]) if isinstance(v, complex) else np.array([[v]])
        for v in values
    ]
    n = sum(map(len, blocks))
    A, k = np.zeros((n, n)), 0
    for block in blocks:
        A[k : k + len(block), k : k + len(block)] = block
        k += len(block)
    return A


SYSTEMS = {
    "one state": np.array([[0.7]]),
    "real spectrum": np.diag([0.9, 0.5, -0.3]),
    "complex spectrum": normal_matrix([0.9 + 0.3j, 0.2 + 0.8j, 0.5]),
    "defective": np.array([[0.9, 1.0, 0.0], [0.0, 0.9, 1.0], [0.0, 0.0, 0.9]]),
    "nilpotent": np.eye(4, k=1),
    "not normal": np.random.default_rng(0).standard_normal((5, 5)),
    "identity": np.eye(6),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("distance", [angular_distance, euclidean_distance])
def test_a_rotated_and_scaled_copy_is_the_same_system(name, distance):
    A = SYSTEMS[name]
    Q = rotation(len(A), 1)
    score, lower_bound = distance(A, 3.0 * Q @ A @ Q.T)
    assert score == pytest.approx(0.0, abs=SAME)
    assert 0.0 <= lower_bound <= score


@pytest.mark.parametrize(
    ("first", "second"),
    [([0.9, 0.1, -0.5], [0.4, 0.8, 0.2]), ([1.0, -1.0], [0.5, 0.5]), ([0.3] * 4, [0.3, 0.2, 0.1, 0.0])],
)
def test_symmetric_systems_match_their_sorted_eigenvalues(first, second):
    """For symmetric matrices the best rotation pairs the sorted eigenvalues, and the certificate is tight."""
    a, b = (np.sort(v) / np.linalg.norm(v) for v in (first, second))
    Q = rotation(len(a), 2)
    expected = np.linalg.norm(a - b)
    score = euclidean_distance(np.diag(first), Q @ np.diag(second) @ Q.T)
    assert score == pytest.approx((expected, expected), abs=SAME)
    angle = np.arccos(a @ b)
    assert angular_distance(np.diag(first), Q @ np.diag(second) @ Q.T) == pytest.approx(
        (angle, angle), abs=SAME
    )


def test_two_rotations_of_a_plane_differ_by_their_angle():
    score = angular_distance(normal_matrix([complex(np.cos(0.4), np.sin(0.4))]), normal_matrix([1j]))
    assert score == pytest.approx((np.pi / 2 - 0.4,) * 2, abs=SAME)


def test_one_state_keeps_its_sign():
    assert angular_distance([[2.0]], [[0.1]]) == (0.0, 0.0)
    assert angular_distance([[2.0]], [[-0.1]]).score == pytest.approx(np.pi)
    assert euclidean_distance([[2.0]], [[-0.1]]).score == pytest.approx(2.0)


def test_unequal_ranks_are_padded_with_zeros():
    A = normal_matrix([0.9 + 0.3j, 0.5])
    Q = rotation(5, 3)
    padded = np.zeros((5, 5))
    padded[:3, :3] = A
    assert angular_distance(A, Q @ padded @ Q.T).score == pytest.approx(0.0, abs=SAME)
    # diag(1, 1) against diag(1, 1, 1, 1): the cosine is 2 / (sqrt(2) sqrt(4)).
    assert angular_distance(np.eye(2), np.eye(4)).score == pytest.approx(np.arccos(2**-0.5))


def test_a_hundred_states():
    A, Q = np.random.default_rng(0).standard_normal((100, 100)), rotation(100, 1)
    score, lower_bound = angular_distance(A, Q @ A @ Q.T)
    assert 0.0 <= lower_bound <= score == pytest.approx(0.0, abs=SAME)
    assert lower_bound == pytest.approx(0.0, abs=1e-5)  # the root of the round-off in 100 eigenvalues


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_no_rotation_is_below_the_certificate(n, m, inputs, seed):
    rng = np.random.default_rng(seed)
    A1, A2 = rng.standard_normal((n, n)), rng.standard_normal((m, m))
    B1, B2 = rng.standard_normal((n, inputs)), rng.standard_normal((m, inputs))
    controls = (B1, B2) if inputs else None
    score, lower_bound = euclidean_distance(A1, A2, controls)
    size = max(n, m)
    systems = []
    for A, B in ((A1, B1), (A2, B2)):
        norm = np.sqrt(np.sum(A**2) + np.sum(B**2))
        missing = size - len(A)
        systems.append((np.pad(A, (0, missing)) / norm, np.pad(B, ((0, missing), (0, 0))) / norm))
    (A1, B1), (A2, B2) = systems
    assert 0.0 <= lower_bound <= score <= 2.0
    for k in range(5):
        Q = rotation(size, [seed, k])
        other = np.sqrt(np.sum((A1 - Q.T @ A2 @ Q) ** 2) + np.sum((B1 - Q.T @ B2) ** 2))
        assert other >= lower_bound - 1e-12
        assert other >= score - 1e-6


def test_one_rotation_acts_on_transitions_and_inputs():
    rng = np.random.default_rng(0)
    A, B, Q = rng.standard_normal((4, 4)), rng.standard_normal((4, 2)), rotation(4, 5)
    turned = Q @ A @ Q.T, Q @ B
    assert euclidean_distance(A, turned[0], (B, turned[1])).score == pytest.approx(0.0, abs=SAME)
    # Inputs turned by another rotation: each part alone matches, both together do not.
    other = rotation(4, 6) @ B
    assert euclidean_distance(A, turned[0]).score == pytest.approx(0.0, abs=SAME)
    assert euclidean_distance(A, turned[0], (B, other), weights=(0, 1)).score == pytest.approx(0.0, abs=SAME)
    joint = euclidean_distance(A, turned[0], (B, other)).score
    assert joint > 0.05


def test_inputs_alone_are_the_procrustes_problem():
    rng = np.random.default_rng(1)
    B1, B2 = rng.standard_normal((2, 5, 3))
    B1, B2 = B1 / np.linalg.norm(B1), B2 / np.linalg.norm(B2)
    A1, A2 = rng.standard_normal((2, 5, 5))
    expected = np.arccos(np.linalg.svd(B1 @ B2.T, compute_uv=False).sum())
    score = angular_distance(A1, A2, (B1, B2), weights=(0.0, 1.0))
    assert score == pytest.approx((expected, expected), abs=SAME)


def test_inputs_of_weight_zero_play_no_part():
    rng = np.random.default_rng(2)
    A1, A2 = rng.standard_normal((2, 3, 3))
    controls = tuple(rng.standard_normal((2, 3, 2)))
    assert angular_distance(A1, A2, controls, weights=(1.0, 0.0)) == pytest.approx(angular_distance(A1, A2))


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales(scale):
    A1, A2 = np.random.default_rng(0).standard_normal((2, 3, 3))
    assert angular_distance(scale * A1, A2).score == pytest.approx(angular_distance(A1, A2).score, abs=SAME)


def test_assignment_of_eigenvalues_is_the_best_of_all():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5)) + 1j * rng.standard_normal((2, 5))
    best = min(np.mean(np.abs(a - b[list(order)]) ** 2) for order in permutations(range(5)))
    assert wasserstein_distance(a, b) == pytest.approx(best, rel=1e-12)
    assert wasserstein_distance(a, a[::-1]) == 0.0


@pytest.mark.parametrize(("n", "m"), [(1, 4), (2, 3), (6, 4), (30, 17)])
def test_unequal_numbers_of_eigenvalues_are_exact(n, m):
    """The same as the assignment between copies, n of each value of one set and m of each of the other."""
    rng = np.random.default_rng(n)
    a = rng.standard_normal(n) + 1j * rng.standard_normal(n)
    b = rng.standard_normal(m) + 1j * rng.standard_normal(m)
    expected = wasserstein_distance(np.repeat(a, m), np.repeat(b, n))
    assert wasserstein_distance(a, b) == pytest.approx(expected, rel=1e-7)  # the tolerance of HiGHS
    assert wasserstein_distance(b, a) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: angular_distance(np.ones((2, 3)), np.eye(2)),
            r"first has shape \(2, 3\), but it must be a square",
        ),
        (lambda: angular_distance(np.eye(2), np.zeros((2, 2))), "second is 0 everywhere"),
        (lambda: angular_distance(np.eye(2), [[np.inf]]), "second holds inf"),
        (lambda: angular_distance(np.eye(2), np.eye(2), weights=(-1, 1)), "each of weights is -1"),
        (
            lambda: angular_distance(np.eye(2), np.eye(2), (np.ones((2, 1)), np.ones((2, 2)))),
            "1 and 2 columns",
        ),
        (
            lambda: angular_distance(np.eye(2), np.eye(2), (np.ones((3, 1)), np.ones((2, 1)))),
            r"controls\[0\]",
        ),
    ],
)
def test_bad_input_is_one_clear_sentence(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


@pytest.mark.parametrize(("n_delays", "delay_interval", "rank"), [(1, 1, None), (4, 1, None), (20, 1, 10)])
def test_a_rotated_copy_of_a_finely_sampled_series(n_delays, delay_interval, rank):
    """Its transition is near the identity, beside which the search must not lose the rest."""
    rows = make_lorenz(steps=1000)
    rows -= rows.mean(axis=0)
    options = {"n_delays": n_delays, "delay_interval": delay_interval, "rank": rank}
    first = fit_dmd(rows, **options).transition
    for seed in range(3):
        second = fit_dmd(rows @ rotation(3, seed), **options).transition
        score = euclidean_distance(first, second)
        assert score.score < SAME
        assert score.lower_bound < SAME


def test_multiples_of_the_identity():
    score = euclidean_distance(np.eye(3), -2.0 * np.eye(3))
    assert score.score == pytest.approx(2.0, abs=1e-15)
    assert score.lower_bound == pytest.approx(2.0, abs=1e-15)
    assert euclidean_distance(np.eye(3), 5.0 * np.eye(3)).score == pytest.approx(0.0, abs=1e-15)
