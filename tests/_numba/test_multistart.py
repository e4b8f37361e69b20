"""L-BFGS of many starts: its pieces against NumPy, lane by lane, and its optima against closed forms."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize

import sysbags
from helpers import from_python, make_pair, orthogonal
from sysbags._numba import multistart, newton
from sysbags._numba.vectors import LANES, load
from sysbags.distances.alignment import crowded_starts
from sysbags.errors import ParameterError

spread, workspace = from_python(newton.spread), from_python(newton.workspace)
repair = from_python(multistart.repair)


@numba.njit(error_model="numpy")
def turned(state, X, work, trial):
    multistart.turned(state, X, work, trial)


@numba.njit(error_model="numpy")
def direction(G, steps, changes, known, newest, scales, X):
    multistart.quasi_newton(G, steps, changes, known, newest, load(scales, 0, 0), X)


def skew(rng, *shape):
    X = rng.standard_normal(shape)
    return X - np.swapaxes(X, -1, -2)


def abreast(matrices):
    return np.ascontiguousarray(np.moveaxis(np.asarray(matrices), 0, -1))


def textbook(G, pairs, scale):
    """The inverse Hessian of BFGS as a matrix, updated from the oldest pair to the newest, times G."""
    H = scale * np.eye(G.size)
    for s, y in ((s.ravel(), y.ravel()) for s, y in pairs):
        r = 1.0 / (s @ y)
        V = np.eye(G.size) - r * np.outer(y, s)
        H = V.T @ H @ V + r * np.outer(s, s)
    return (H @ G.ravel()).reshape(G.shape)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("newest", [0, 3])
def test_direction_is_that_of_bfgs(n, newest):
    rng, memory = np.random.default_rng(n), multistart.MEMORY
    G, steps = skew(rng, LANES, n, n), skew(rng, memory, LANES, n, n)
    changes = steps + 0.3 * skew(rng, memory, LANES, n, n)
    products_ = np.einsum("mlij,mlij->ml", steps, changes)
    known = np.zeros((2, memory, 1, LANES))
    # A pair that bends the wrong way, and each pair of the last lane, do not count.
    used = products_ > 0.0
    used[:, -1] = False
    known[0, :, 0] = np.where(used, 1.0 / products_, 0.0)
    scales, X = rng.uniform(0.5, 2.0, (1, 1, LANES)), np.zeros((n, n, LANES))
    moved = (np.ascontiguousarray(np.moveaxis(array, 1, -1)) for array in (steps, changes))
    direction(abreast(G), *moved, known, newest, scales, X)
    for lane in range(LANES):
        slots = [(newest + 1 + k) % memory for k in range(memory)]
        pairs = [(steps[slot, lane], changes[slot, lane]) for slot in slots if used[slot, lane]]
        expected = textbook(G[lane], pairs, scales[0, 0, lane])
        # Both sum a few dozen products, of numbers that the updates make larger by up to 1e3.
        np.testing.assert_allclose(X[..., lane], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_a_step_is_the_exponential(n):
    rng = np.random.default_rng(n)
    A2 = make_pair("random", n, rng)[1]
    Q, X = [orthogonal(n, rng) for _ in range(LANES)], skew(rng, LANES, n, n)
    X *= 0.1 / max(np.linalg.norm(X, 2, axis=(1, 2)).max(), 1e-300)
    state = np.stack([abreast(Q), abreast([q.T @ A2 @ q for q in Q])])
    trial = np.zeros_like(state)
    turned(state, abreast(X), workspace(n), trial)
    for lane, q in enumerate(Q):
        turn = q @ expm(X[lane])
        # The first term left out is X^5 / 120; B has it twice.
        for got, expected in zip(trial[..., lane], (turn, turn.T @ A2 @ turn), strict=True):
            np.testing.assert_allclose(got, expected, atol=2.5 * 0.1**5 / 120)


def test_repair_makes_orthogonal():
    n, rng = 6, np.random.default_rng(0)
    A1, A2, M = make_pair("random", n, rng)
    Q = [orthogonal(n, rng) + 1e-5 * rng.standard_normal((n, n)) for _ in range(LANES)]
    state = np.stack([abreast(Q), np.zeros((n, n, LANES)), np.zeros((n, n, LANES))])
    repair(spread(A1, A2, M), state, workspace(n))
    for q, b, mq in np.moveaxis(state, -1, 0):
        # A step of Newton and Schulz squares the error.
        np.testing.assert_allclose(q.T @ q, np.eye(n), atol=1e-8)
        np.testing.assert_allclose(b, q.T @ A2 @ q, atol=1e-14)
        np.testing.assert_allclose(mq, M @ q, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 4, 7, 12, 25])
def test_copies_of_either_determinant_are_found(n):
    rng = np.random.default_rng(n)
    A = make_pair("random", n, rng)[0]
    for determinant in (1, -1):
        Q = orthogonal(n, rng, determinant)
        alignment = sysbags.align_blocks(A, Q.T @ A @ Q, lambda_a=1.0)
        assert alignment.value == pytest.approx(np.sum(A**2), rel=1e-12)
        assert 1 <= alignment.agreed <= alignment.starts
        # The bound proves it, so that no more starts are made; for small orders all have begun by then.
        assert n < 7 or alignment.starts < crowded_starts(n)


@pytest.mark.parametrize("n", [3, 8])
def test_symmetric_pairs_have_a_closed_form(n):
    # The best rotation sorts the eigenvectors (von Neumann).
    rng = np.random.default_rng(n)
    first, second = (X + X.T for X in rng.standard_normal((2, n, n)))
    expected = np.linalg.eigvalsh(first) @ np.linalg.eigvalsh(second)
    alignment = sysbags.align_blocks(first, second, lambda_a=1.0)
    assert alignment.value == pytest.approx(expected, rel=1e-12)
    assert n < 7 or alignment.starts < crowded_starts(n)


@pytest.mark.parametrize("n", [3, pytest.param(5, marks=pytest.mark.long)])
def test_another_optimiser_never_wins(n):
    """BFGS of SciPy over ``Q = Q0 expm(X)``, from starts in both components."""
    rng = np.random.default_rng(n)
    lower = np.tril_indices(n, -1)
    for kind in ("random", "related"):
        A1, A2, _ = make_pair(kind, n, rng)
        ours = sysbags.align_blocks(A1, A2, lambda_a=1.0).value
        values = []
        for k in range(8):
            start = orthogonal(n, rng, 1 - 2 * (k % 2))

            def cost(x, start=start, A1=A1, A2=A2):
                X = np.zeros((n, n))
                X[lower] = x
                Q = start @ expm(X - X.T)
                return -np.sum(A1 * (Q.T @ A2 @ Q))

            values.append(-minimize(cost, np.zeros(len(lower[0]))).fun)
        assert ours >= max(values) - 1e-9
        assert max(values) >= ours - 1e-3 * abs(ours)  # it is a rival


@given(
    n=st.integers(1, 6),
    seed=st.integers(0, 10_000),
    shifts=st.tuples(*[st.floats(-1e3, 1e3)] * 2),
    factor=st.sampled_from([1e-6, 1.0, 1e6]),
)
@settings(max_examples=25, deadline=None)
def test_multiples_of_the_identity_change_nothing_else(n, seed, shifts, factor):
    rng = np.random.default_rng(seed)
    A1, A2, _ = make_pair("random", n, rng)
    plain = sysbags.align_blocks(A1, A2, lambda_a=1.0)
    moved = [factor * (A + shift * np.eye(n)) for A, shift in zip((A1, A2), shifts, strict=True)]
    alignment = sysbags.align_blocks(*moved, lambda_a=1.0)
    Q = alignment.rotation
    np.testing.assert_allclose(Q.T @ Q, np.eye(n), atol=1e-13)
    # The shift of up to 1000 leaves 13 digits of the rest; the value is quadratic near the optimum.
    assert np.sum(A1 * (Q.T @ A2 @ Q)) == pytest.approx(plain.value, abs=1e-9)
    assert alignment.value == pytest.approx(np.sum(moved[0] * (Q.T @ moved[1] @ Q)), rel=1e-12, abs=1e-12)


def test_a_few_more_starts_never_lose():
    rng = np.random.default_rng(1)
    for n in (4, 9):
        A1, A2, _ = make_pair("random", n, rng)
        values = [sysbags.align_blocks(A1, A2, lambda_a=1.0, starts=count).value for count in (4, 12, 40)]
        assert values == sorted(values) or np.ptp(values) < 1e-12


def test_the_number_of_starts_falls_for_large_orders_only():
    counts = [crowded_starts(n) for n in range(1, 101)]
    assert counts[:20] == sorted(counts[:20])
    assert counts[19:] == sorted(counts[19:], reverse=True)
    assert (min(counts), max(counts)) == (8, 112)
    A = np.random.default_rng(0).standard_normal((2, 6, 6))
    assert sysbags.align_blocks(*A).starts == crowded_starts(6) + -crowded_starts(6) % LANES


def test_no_starts_are_refused():
    with pytest.raises(ParameterError, match="starts"):
        sysbags.align_blocks(np.diag([0.2, 0.5]), np.diag([0.3, 0.4]), starts=0)


def test_matrices_that_are_not_finite_get_one_sentence():
    with pytest.raises(ParameterError, match="first"):
        sysbags.align_blocks([[np.nan, 0.0], [0.0, 1.0]], np.eye(2))
    with pytest.raises(ParameterError, match="too large"):
        sysbags.align_blocks(
            1e200 * np.array([[0.0, 1.0], [0.0, 0.0]]), 1e200 * np.array([[0.0, 1.0], [0.0, 0.0]])
        )
