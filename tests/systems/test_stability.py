"""The transition of least residual under a bound on its spectral norm."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from benchmarks.projected_gradient import projected_gradient_minimum
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.systems import stability
from sysbags.systems.stability import (
    clip_singular_values,
    constrained_minimum,
    optimality_gap,
    stable_transition,
)


def make_states(order, frames, spread, seed):
    """States of a noisy random walk: uncorrelated, with variances from 1 down to 1 / spread."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.standard_normal((frames, order)), axis=0)
    left = np.linalg.svd(walk - walk.mean(axis=0), full_matrices=False)[0]
    return left * np.sqrt(np.geomspace(1.0, 1.0 / spread, order))


def residual(states, A):
    return np.linalg.norm(states[1:] - states[:-1] @ A.T)


def slow_clip(matrix, bound):
    left, values, right = np.linalg.svd(matrix)
    return left @ np.diag(np.minimum(values, bound)) @ right


def products(states):
    """`X1 X1'` and `X2 X1'`, divided by the largest eigenvalue of the first."""
    G, H = states[:-1].T @ states[:-1], states[1:].T @ states[:-1]
    return G / np.linalg.norm(G, 2), H / np.linalg.norm(G, 2)


def orthogonal(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def slow_gap(states, A, bound):
    """Duality gap over the largest eigenvalue of G, from NumPy's SVD."""
    X1, X2 = states[:-1].T, states[1:].T
    D = (X2 - A @ X1) @ X1.T
    gap = bound * np.linalg.norm(D, "nuc") - np.sum(D * A)
    return gap / np.linalg.norm(X1 @ X1.T, 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 7), st.floats(0.01, 2.0), st.integers(0, 10_000))
def test_clipping_is_the_projection(n, bound, seed):
    rng = np.random.default_rng(seed)
    matrix, other = rng.standard_normal((2, n, n))
    clipped = clip_singular_values(matrix, bound)
    assert np.linalg.norm(clipped, 2) <= bound + 1e-14
    # Seen from the projection, no point of a convex set is in the direction of the projected point.
    inside = other * bound / np.linalg.norm(other, 2)
    assert np.vdot(matrix - clipped, inside - clipped) <= 1e-13


def test_clipping_leaves_what_is_inside():
    matrix = 0.1 * np.random.default_rng(0).standard_normal((4, 4))
    np.testing.assert_array_equal(clip_singular_values(matrix, 10.0), matrix)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.floats(0.3, 1.0), st.integers(0, 10_000))
def test_the_gap_bounds_the_objective(n, bound, seed):
    rng = np.random.default_rng(seed)
    states = make_states(n, 5 * n + 3, 10.0, seed)
    scale = np.linalg.norm(states[:-1], 2) ** 2
    A, B = (slow_clip(rng.standard_normal((n, n)), bound) for _ in range(2))
    gap = optimality_gap(A, *products(states), bound)
    assert gap == pytest.approx(slow_gap(states, A, bound), abs=1e-12)
    # No other feasible matrix may be better by more than the gap.
    improvement = 0.5 * (residual(states, A) ** 2 - residual(states, B) ** 2) / scale
    assert improvement <= gap + 1e-12


def plain_projected_gradient(states, bound, steps):
    """The textbook method: small steps along the gradient, each followed by the projection."""
    G, H = states[:-1].T @ states[:-1], states[1:].T @ states[:-1]
    step = 1.0 / np.linalg.norm(G, 2)
    A = np.zeros_like(G)
    for _ in range(steps):
        A = slow_clip(A - step * (A @ G - H), bound)
    return A


@pytest.mark.parametrize(("order", "seed"), [(1, 0), (2, 1), (3, 2), (5, 3), (8, 4)])
def test_agrees_with_plain_projected_gradient(order, seed):
    # Variances within a factor 3: 1500 plain steps contract by (1 - 1/3)^1500, far below the last bit.
    states = make_states(order, 10 * order + 5, 3.0, seed)
    slow = plain_projected_gradient(states, 0.8, 1500)
    # The gap of 1e-13 bounds the squared error of A by 2e-13 over the smallest curvature 1/3; so 1e-6.
    np.testing.assert_allclose(stable_transition(states, margin=0.2), slow, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        residual(states, slow), residual(states, stable_transition(states, margin=0.2))
    )


def test_agrees_with_a_general_solver():
    """SLSQP knows nothing of singular values but their largest, as a constraint."""
    states = make_states(2, 30, 5.0, 7)
    minimum = min(
        scipy.optimize.minimize(
            lambda m: residual(states, 0.9 * m.reshape(2, 2)) ** 2,
            np.random.default_rng(seed).uniform(-0.5, 0.5, 4),
            constraints={"type": "ineq", "fun": lambda m: 1.0 - np.linalg.norm(m.reshape(2, 2), 2)},
            options={"ftol": 1e-14, "maxiter": 500},
        ).fun
        for seed in range(3)
    )
    ours = residual(states, stable_transition(states, margin=0.1)) ** 2
    # SLSQP may leave the feasible set by about 1e-8, so it may be better by that much, but no more.
    assert ours == pytest.approx(minimum, rel=1e-6)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 8), st.floats(1.0, 1e6), st.floats(0.0, 0.6), st.integers(0, 10_000))
def test_the_optimality_condition_holds(order, spread, margin, seed):
    states = make_states(order, 4 * order + 10, spread, seed)
    A = stable_transition(states, margin=margin)
    assert np.linalg.norm(A, 2) <= 1.0 - margin + 1e-13
    if np.linalg.norm(A, 2) < 1.0 - margin - 1e-9:
        # Inside: the gradient vanishes. lstsq is exact to about eps times the root of the spread.
        gradient = (states[1:] - states[:-1] @ A.T).T @ states[:-1]
        assert np.abs(gradient).max() <= 1e-12
    else:
        # The stated tolerance is 1e-13; the two ways to sum the gap differ by round-off.
        assert slow_gap(states, A, 1.0 - margin) <= 3e-13


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.floats(1.0, 1e4), st.integers(0, 10_000))
def test_order_of_the_residuals(order, spread, seed):
    states = make_states(order, 30, spread, seed)
    free, best, clipped = (
        residual(states, stable_transition(states, stability=kind, margin=0.05))
        for kind in ("none", "constrained", "clip")
    )
    assert free <= best * (1 + 1e-12)
    assert best <= clipped * (1 + 1e-12)


def test_clipping_predicts_worse_where_the_bound_binds():
    states = make_states(5, 60, 1e4, 3)
    best, clipped = (
        residual(states, stable_transition(states, stability=kind)) for kind in ("constrained", "clip")
    )
    assert np.linalg.norm(stable_transition(states, stability="none"), 2) > 1.0
    assert clipped > 1.1 * best


@pytest.mark.parametrize("kind", ["constrained", "clip", "none"])
def test_a_feasible_least_squares_solution_is_returned(kind):
    rng = np.random.default_rng(1)
    states = np.empty((200, 3))
    states[0] = 1.0
    for t in range(1, 200):
        states[t] = 0.5 * states[t - 1] + rng.standard_normal(3)
    free = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0].T
    # Normal equations of well-conditioned states: a few units of round-off from the QR factorisation.
    np.testing.assert_allclose(stable_transition(states, stability=kind), free, rtol=0, atol=1e-13)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(-10, 10), min_size=3, max_size=12), st.floats(0.0, 0.9))
def test_order_one_by_hand(values, margin):
    x = np.array(values)
    energy = x[:-1] @ x[:-1]
    if energy < 1e-3:
        return
    expected = np.clip(x[1:] @ x[:-1] / energy, margin - 1.0, 1.0 - margin)
    assert stable_transition(x[:, None], margin=margin)[0, 0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("order", "spread", "margin"),
    [(2, 1e2, 0.3), (5, 1.0, 1e-3), (5, 1e3, 1e-3), (8, 1e4, 0.9), (12, 1e6, 1e-3), (20, 1e2, 0.1)],
)
def test_agrees_with_the_slow_twin(order, spread, margin):
    states = make_states(order, 3 * order, spread, seed=order)
    G, H = products(states)
    slow = projected_gradient_minimum(G, H, np.eye(order), 1.0 - margin)
    fast = constrained_minimum(G, H, 1.0 - margin)
    # f(A) is above the minimum by at least half the smallest eigenvalue times the squared error of A.
    error = np.sqrt(2e-13 / np.linalg.eigvalsh(G)[0])
    assert np.linalg.norm(slow - fast) <= 2.0 * error
    assert residual(states, fast) == pytest.approx(residual(states, slow), rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 10), st.floats(0.05, 1.0), st.floats(1.0, 1e4), st.integers(0, 10_000))
def test_closed_form_for_common_singular_vectors(n, bound, spread, seed):
    """With `X1 X1' = V g V'` and `X2 X1' = U h V'`, each singular value is a problem of its own.

    With g = 1 this is the clipping of the least squares solution.
    """
    rng = np.random.default_rng(seed)
    U, V = orthogonal(rng, n), orthogonal(rng, n)
    g, a = np.geomspace(1.0, 1.0 / spread, n), rng.uniform(0.0, 2.0, n)
    A = constrained_minimum((V * g) @ V.T, (U * (a * g)) @ V.T, bound)
    error = np.linalg.norm(A - (U * np.minimum(a, bound)) @ V.T)
    assert error <= np.sqrt(2e-13 * spread)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.data(), st.floats(1e-3, 1.0), st.floats(1.0, 1e6), st.integers(0, 10_000))
def test_a_minimiser_made_from_its_multiplier_is_found(n, data, bound, spread, seed):
    """Any feasible A, and any L >= 0 on its right singular vectors at the bound."""
    active = data.draw(st.integers(0, n))
    rng = np.random.default_rng(seed)
    U, V, W = (orthogonal(rng, n) for _ in range(3))
    singular = np.where(np.arange(n) < active, 1.0, rng.uniform(0.0, 0.99, n)) * bound
    expected = (U * singular) @ V.T
    G = (W * np.geomspace(1.0, 1.0 / spread, n)) @ W.T
    multiplier = (V[:, :active] * rng.uniform(0.0, 1.0, active)) @ V[:, :active].T
    H = expected @ (G + multiplier)
    A = constrained_minimum(G, H, bound)
    assert np.linalg.norm(A, 2) <= bound + 1e-14
    # H is rounded, too: that adds n 1e-16 to the gap of the exact solution.
    assert optimality_gap(A, G, H, bound) <= 1.1e-13
    assert np.linalg.norm(A - expected) <= np.sqrt(2.4e-13 * spread)


def test_a_small_bound_gives_a_multiple_of_the_polar_factor():
    G, H = products(make_states(6, 30, 20.0, 3))
    left, values, right = np.linalg.svd(H)
    bound = 0.5 * values[-1]  # now (H'H)^(1/2) / bound is above G
    np.testing.assert_allclose(constrained_minimum(G, H, bound), bound * left @ right, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("spread", "margin"), [(1.0, 1e-3), (1e2, 1e-3), (1e4, 0.1)])
def test_order_40_takes_few_steps(monkeypatch, spread, margin):
    # The gradient steps of the slow twin are above 1000 here, each as dear as a tenth of a Newton step.
    monkeypatch.setattr(stability, "STEPS", 15)
    monkeypatch.setattr(stability, "RIDGES", stability.RIDGES[:1])
    states = make_states(40, 60, spread, 0)
    # The stated tolerance for this order is 2.9e-13; the two ways to sum the gap differ by round-off.
    assert slow_gap(states, stable_transition(states, margin=margin), 1.0 - margin) <= 3.5e-13


def test_ridges_help_where_variances_differ_by_orders_of_magnitude(monkeypatch):
    states = make_states(8, 42, 1.5e9, 85)
    gap = slow_gap(states, stable_transition(states), 0.999)
    assert gap <= 1e-10
    monkeypatch.setattr(stability, "RIDGES", stability.RIDGES[:1])
    assert slow_gap(states, stable_transition(states), 0.999) > 1e-6


def test_dependent_states_are_no_problem():
    """Two equal states: many minimisers, each with the same residual."""
    states = np.repeat(make_states(1, 20, 1.0, 0), 2, axis=1) * 3.0
    A = stable_transition(states, margin=0.3)
    assert np.linalg.norm(A, 2) <= 0.7 + 1e-13
    # Along the common direction it is a problem of order 1.
    single = stable_transition(states[:, :1], margin=0.3)
    assert residual(states, A) == pytest.approx(np.sqrt(2.0) * residual(states[:, :1], single), rel=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 10), st.data(), st.integers(2, 20), st.integers(0, 10_000))
def test_states_that_are_combinations_of_fewer(order, data, frames, seed):
    rank = data.draw(st.integers(1, order - 1))
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((frames, rank)) @ rng.standard_normal((rank, order))
    A = stable_transition(states, margin=0.2)
    assert np.linalg.norm(A, 2) <= 0.8 + 1e-13
    assert slow_gap(states, A, 0.8) <= 1e-12 or np.linalg.norm(A, 2) < 0.8 - 1e-9


def test_scale_does_not_matter_and_the_input_stays():
    states = make_states(4, 30, 50.0, 5)
    original = states.copy()
    A = stable_transition(states)
    np.testing.assert_array_equal(states, original)
    for scale in (1e-8, 1e8):
        np.testing.assert_allclose(stable_transition(scale * states), A, rtol=0, atol=1e-9)


def test_still_states_have_no_transition_to_speak_of():
    np.testing.assert_array_equal(stable_transition(np.zeros((5, 2))), np.zeros((2, 2)))
