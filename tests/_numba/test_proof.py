"""The proof that ends a search, against a dense matrix, 200 starts and cases with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import from_python, make_pair, orthogonal, polar, rho
from sysbags._numba import proof
from sysbags._numba.vectors import LANES
from sysbags.distances.alignment import align_blocks

is_positive, proves_state = map(from_python, (proof.is_positive, proof.proves))
SLACK = 1e-9


def proves(A, A2, M, Q, slack):
    return proves_state(A, Q.T @ A2 @ Q, M @ Q, slack)


def in_rows_of_lanes(matrix):
    """The layout that the kernel reads, padded with zeros."""
    n = len(matrix)
    padded = np.zeros((-(-n // LANES) * LANES, n))
    padded[:n] = matrix
    return np.ascontiguousarray(padded.reshape(-1, LANES, n).swapaxes(1, 2))


def smallest_eigenvalue(A, A2, M, Q):
    """That of the docstring's Z, by Kronecker products."""
    B, C, one = Q.T @ A2 @ Q, M @ Q, np.eye(len(A))
    G = (B @ A.T + A @ B.T + B.T @ A + A.T @ B + C + C.T) / 4
    ratio = np.linalg.norm(A) / np.linalg.norm(B)
    W = (ratio * (B @ B.T + B.T @ B) - (A @ A.T + A.T @ A) / ratio) / 16
    Z = np.kron(G / 2 + W, one) + np.kron(one, G / 2 - W) - (np.kron(B, A) + np.kron(B.T, A.T)) / 2
    return np.linalg.eigvalsh(Z)[0]


def traceless(matrix):
    return matrix - np.eye(len(matrix)) * (np.trace(matrix) / len(matrix))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 17, 30])
@pytest.mark.parametrize("smallest", [1e-6, -1e-6])
def test_a_matrix_is_positive_if_its_eigenvalues_are(n, smallest):
    rng = np.random.default_rng(n)
    values = np.append(rng.uniform(0.5, 2.0, n - 1), smallest)
    U = orthogonal(n, rng)
    assert is_positive(in_rows_of_lanes((U * values) @ U.T)) == (smallest > 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 7), st.integers(0, 10**6), st.sampled_from(["random", "related"]), st.floats(0.01, 2.0))
def test_the_proof_is_the_sign_of_an_eigenvalue(n, seed, kind, weight):
    A1, A2, M = make_pair(kind, n, np.random.default_rng(seed))
    A, A2 = traceless(A1) * weight, traceless(A2)
    for Q in (align_blocks(A, A2, M, 1.0).rotation, polar(M).T):
        lowest = smallest_eigenvalue(A, A2, M, Q)
        # Where it is nearly 0, round-off decides.
        if abs(lowest + SLACK) > 1e-11:
            assert proves(A, A2, M, Q, SLACK) == (lowest > -SLACK)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10**6), st.sampled_from(["random", "related"]))
def test_no_start_finds_more_than_what_is_proven(n, seed, kind):
    A, A2, M = make_pair(kind, n, np.random.default_rng(seed))
    A, A2 = traceless(A) * 0.25, traceless(A2)
    found = align_blocks(A, A2, M, 1.0)
    if proves(A, A2, M, found.rotation, SLACK):
        assert align_blocks(A, A2, M, 1.0, starts=200, random_state=1).value <= found.value + 4 * n * SLACK


@pytest.mark.parametrize("n", [2, 5, 10])
def test_what_is_known_to_be_the_best_is_proven_and_what_is_not_is_not(n):
    rng = np.random.default_rng(n)
    _, _, M = make_pair("random", n, rng)
    zeros, best = np.zeros((n, n)), polar(M).T
    assert proves(zeros, zeros, M, best, SLACK)  # the observers alone: a polar factor
    assert not proves(zeros, zeros, M, -best, SLACK)  # a critical point, too
    A = traceless(rng.standard_normal((n, n)))
    Q = orthogonal(n, rng)
    copied = Q @ A @ Q.T  # the same dynamics, in other coordinates
    assert proves(A, copied, zeros, Q, SLACK)
    assert rho(A, copied, zeros, Q, 1.0) == pytest.approx(np.sum(A * A))


def test_a_proven_pair_needs_one_group_of_starts():
    """Related transitions that dominate: many starts were made to be sure of what is proven at once."""
    A1, A2, M = make_pair("related", 5, np.random.default_rng(3))
    alignment = align_blocks(A1, A2, 0.2 * M, 1.0)
    assert alignment.starts == LANES
    assert alignment.value == pytest.approx(align_blocks(A1, A2, 0.2 * M, 1.0, starts=200).value, rel=1e-9)


def test_traces_do_not_cost_starts():
    """Transitions near the identity count by what a rotation can change."""
    rng = np.random.default_rng(0)
    _, _, M = make_pair("random", 12, rng)
    A1, A2 = (np.eye(12) + 0.01 * rng.standard_normal((12, 12)) for _ in range(2))
    assert align_blocks(A1, A2, M, 1.0).starts == LANES
