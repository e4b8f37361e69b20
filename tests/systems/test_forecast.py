"""Projection, noise, forecast and simulation of systems, and the nearest histograms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sysbags
from helpers import make_system, orthogonal
from sysbags.datasets import make_streams
from sysbags.errors import ParameterError, StreamError
from sysbags.systems.forecast import forecast_states, nearest_histograms

STREAM = make_streams(classes=1, per_class=1, frames=160, bins=12)[0][0]
SEEN = STREAM[:120]
THETA = sysbags.identify(SEEN, order=3)
KERNELS = ["chi2", "bhattacharyya", "intersection", "linear"]
FORMS = ["orthonormal", "unit-variance"]


def stationary_stream(frames, seed=0):
    """Numbers for the linear kernel, from a stationary process with a known transition and slow modes."""
    rng = np.random.default_rng(seed)
    A = 0.9 * np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    states = np.zeros((frames + 200, 2))
    for t in range(1, len(states)):
        states[t] = A @ states[t - 1] + rng.standard_normal(2)
    return states[200:] @ np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_samples_get_their_states_back(kernel, form):
    theta = sysbags.identify(SEEN, order=3, kernel=kernel, normal_form=form)
    # Kernel sums of 120 terms, divided by eigenvalues that are at least 1e-4 of the largest.
    np.testing.assert_allclose(theta.project(SEEN), theta.states, rtol=0, atol=1e-10)
    Q = orthogonal(3, np.random.default_rng(0))
    np.testing.assert_allclose(theta.rotate(Q).project(STREAM), theta.project(STREAM) @ Q, rtol=0, atol=1e-10)


def test_projection_minimises_the_distance_in_feature_space():
    """With the linear kernel the feature space is that of the bags, and least squares can be solved there."""
    theta = sysbags.identify(SEEN, order=3, kernel="linear")
    observer, mean = theta.samples.T @ theta.alpha, theta.samples.T @ theta.beta
    slow = np.linalg.lstsq(observer, (STREAM - mean).T, rcond=None)[0].T
    np.testing.assert_allclose(theta.project(STREAM), slow, rtol=0, atol=1e-12)


def test_noise_is_the_mean_of_the_squared_errors():
    slow = np.zeros((3, 3))
    for now, after in zip(THETA.states[:-1], THETA.states[1:], strict=True):
        error = after - THETA.transition @ now
        slow += np.outer(error, error) / (len(THETA.states) - 1)
    np.testing.assert_allclose(THETA.noise, slow, rtol=0, atol=1e-14)
    assert np.trace(THETA.noise) == pytest.approx(
        THETA.residual**2 * (THETA.states[1:] ** 2).sum() / (len(SEEN) - 1), rel=1e-12
    )
    Q = orthogonal(3, np.random.default_rng(1))
    np.testing.assert_allclose(THETA.rotate(Q).noise, Q.T @ THETA.noise @ Q, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(THETA.compress(40).noise, THETA.noise)


def test_one_step_k_times_is_k_steps_at_once():
    (state,), covariance = THETA.project(SEEN[-1:]), np.zeros((3, 3))
    ahead = THETA.forecast(SEEN, 12)
    for k in range(12):
        (state,), (covariance,) = forecast_states(THETA.transition, THETA.noise, state, 1, covariance)
        np.testing.assert_allclose(ahead.states[k], state, rtol=0, atol=1e-14)
        np.testing.assert_allclose(ahead.covariances[k], covariance, rtol=0, atol=1e-14)
    # The powers of a transition of norm below 1: round-off alone, more of it in the projection.
    powers = [np.linalg.matrix_power(THETA.transition, k) for k in range(13)]
    np.testing.assert_allclose(ahead.states[-1], powers[12] @ THETA.states[-1], rtol=0, atol=1e-11)
    total = sum(power @ THETA.noise @ power.T for power in powers[:12])
    np.testing.assert_allclose(ahead.covariances[-1], total, rtol=0, atol=1e-14)


def test_forecast_begins_after_the_last_bag():
    ahead = THETA.forecast(n_steps=4)
    for other in (THETA.forecast(SEEN, 4), THETA.forecast(SEEN[-1:], 4)):
        for mine, same in zip(ahead, other, strict=True):
            np.testing.assert_allclose(mine, same, rtol=0, atol=1e-11)
    assert not np.allclose(ahead.states, THETA.forecast(SEEN[:-1], 4).states, rtol=0, atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_forecast_does_not_depend_on_the_coordinates(kernel):
    theta = sysbags.identify(SEEN, order=3, kernel=kernel)
    Q = orthogonal(3, np.random.default_rng(2), determinant=-1)
    for stream in (None, STREAM[:140]):
        ahead, rotated = theta.forecast(stream, 20), theta.rotate(Q).forecast(stream, 20)
        np.testing.assert_allclose(rotated.histograms, ahead.histograms, rtol=0, atol=1e-10)
        np.testing.assert_allclose(rotated.deviations, ahead.deviations, rtol=0, atol=1e-10)
        np.testing.assert_allclose(rotated.states, ahead.states @ Q, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
def test_forecast_of_compressed_systems(kernel):
    """A third of the samples give histograms whose error is well below their change over time."""
    theta = sysbags.identify(SEEN, order=3, kernel=kernel)
    small = theta.compress(40)
    whole, part = (system.simulate(400, initial=np.zeros(3))[1] for system in (theta, small))
    change = np.sqrt(((whole - whole.mean(axis=0)) ** 2).mean())
    # The regression has 40 samples instead of 120, chosen for the observer: measured 0.1 to 0.27.
    assert np.sqrt(((whole - part) ** 2).mean()) < 0.4 * change
    np.testing.assert_allclose(part.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_readout_is_the_combination_of_the_samples(kernel):
    theta = sysbags.identify(SEEN, order=3, kernel=kernel)
    combination = (theta.beta + theta.states @ theta.alpha.T) @ theta.samples
    readout = theta._readout
    linear = readout.intercept + theta.states @ readout.slope
    np.testing.assert_allclose(linear, combination, rtol=0, atol=1e-11)
    residual = ((SEEN - combination) ** 2).mean(axis=0)
    np.testing.assert_allclose(readout.variance, residual, rtol=1e-8, atol=1e-14)


def test_covariance_against_simulation():
    paths = np.array([THETA.simulate(6, seed)[0] for seed in range(4000)])
    ahead = THETA.forecast(n_steps=6)
    for k in range(6):
        error = paths[:, k] - ahead.states[k]
        scale = np.sqrt(np.diag(ahead.covariances[k]))
        # Means have the standard error 1/63 of a deviation, covariances at most 1/45: four of these.
        assert np.abs(error.mean(axis=0) / scale).max() < 4.0 / 63.0
        assert np.abs((error.T @ error / 4000 - ahead.covariances[k]) / np.outer(scale, scale)).max() < 4 / 44


def test_covariance_grows_to_the_stationary_one():
    stationary = scipy.linalg.solve_discrete_lyapunov(THETA.transition, THETA.noise)
    ahead = THETA.forecast(n_steps=4000)
    assert np.abs(np.linalg.eigvals(THETA.transition)).max() ** 8000 < 1e-6
    np.testing.assert_allclose(
        ahead.covariances[-1], stationary, rtol=0, atol=1e-5 * np.abs(stationary).max()
    )
    smallest = [
        np.linalg.eigvalsh(b - a)[0] for a, b in zip(ahead.covariances, ahead.covariances[1:50], strict=False)
    ]
    assert min(smallest) > -1e-12  # the spread never shrinks
    assert (np.diff(ahead.deviations[:50], axis=0) > -1e-12).all()


def test_stationary_covariance_of_unit_variance_is_the_identity():
    theta = sysbags.identify(stationary_stream(1500), order=2, kernel="linear", normal_form="unit-variance")
    stationary = scipy.linalg.solve_discrete_lyapunov(theta.transition, theta.noise)
    # First and last state differ from the mean of all by 1/1500 of their squares, up to 9 or so, and the
    # Lyapunov equation multiplies this by 1/(1 - 0.9^2).
    np.testing.assert_allclose(stationary, np.eye(2), rtol=0, atol=9 / 1500 / 0.19)
    # The noise is what makes the process stationary, see identify.
    np.testing.assert_allclose(
        theta.noise, np.eye(2) - theta.transition @ theta.transition.T, rtol=0, atol=0.02
    )


def test_the_spread_covers_what_comes():
    """Of a stationary process, standardised one-step errors have about the variance that was said."""
    stream = stationary_stream(3000, seed=1)
    theta = sysbags.identify(stream[:1500], order=2, kernel="linear")
    rest = stream[1500:]
    errors = np.array([theta.forecast(rest[t : t + 1]).histograms[0] - rest[t + 1] for t in range(300)])
    deviation = theta.forecast(rest[:1]).deviations[0]
    # 300 squares have the relative standard deviation 0.08; the model was learnt from other frames.
    np.testing.assert_allclose((errors**2).mean(axis=0) / deviation**2, 1.0, rtol=0, atol=0.3)


def test_forecast_beats_the_mean_on_smooth_streams():
    time = np.arange(200)[:, None]
    stream = (2.0 + np.cos(0.3 * time + 0.5 * np.pi * np.arange(4))) / 8.0
    theta = sysbags.identify(stream[:150], order=2)
    errors, spread = [], []
    for t in range(150, 190):
        ahead = theta.forecast(stream[:t], 5).histograms[-1]
        errors.append(((ahead - stream[t + 4]) ** 2).sum())
        spread.append(((stream[:150].mean(axis=0) - stream[t + 4]) ** 2).sum())
    assert np.mean(errors) < 0.1 * np.mean(spread)


def test_simulation_is_reproducible_and_continues():
    states, histograms = THETA.simulate(30, random_state=7)
    again, _ = THETA.simulate(30, random_state=7)
    np.testing.assert_array_equal(states, again)
    assert not np.allclose(states, THETA.simulate(30, random_state=8)[0])
    np.testing.assert_array_equal(THETA.simulate(30, 7, initial=THETA.states[-1])[0], states)
    assert histograms.min() >= 0.0
    np.testing.assert_allclose(histograms.sum(axis=1), 1.0, rtol=0, atol=1e-13)
    still = replace(THETA, noise=np.zeros((3, 3))).simulate(5)[0]
    np.testing.assert_allclose(still, THETA.forecast(n_steps=5).states, rtol=0, atol=1e-15)


def test_numbers_that_are_no_histograms_stay_what_they_are():
    theta = sysbags.identify(stationary_stream(200), order=2, kernel="linear")
    assert theta.forecast(n_steps=3).histograms.sum(axis=1).min() != 1.0
    assert theta.simulate(200)[1].min() < 0.0


def test_dependent_columns_of_an_observer():
    blind = sysbags.System([[0.5]], [[0.5, 0.5], [1.0, 0.0]], [[0.0], [0.0]], [0.5, 0.5], noise=[[1.0]])
    np.testing.assert_array_equal(blind.project([[0.5, 0.5]]), [[0.0]])
    np.testing.assert_allclose(blind.forecast([[1.0, 0.0]]).histograms, [[0.75, 0.25]], rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("attempt", "error", "sentence"),
    [
        (lambda: THETA.forecast(n_steps=0), ParameterError, "n_steps is 0, but it must be a whole number"),
        (lambda: THETA.simulate(-1), ParameterError, "n_steps is -1"),
        (
            lambda: THETA.simulate(3, initial=[1.0]),
            ParameterError,
            "initial has shape (1,), but it must be (3,)",
        ),
        (lambda: THETA.simulate(3, "x"), ParameterError, "random_state is 'x'"),
        (lambda: THETA.project(SEEN[:, :4]), StreamError, "row 0 of stream sums to"),
        (lambda: THETA.project(np.eye(4)), StreamError, "bags of length 4, but those of the system have 12"),
        (lambda: replace(THETA, noise=None).forecast(), ParameterError, "the system has no noise"),
        (lambda: replace(THETA, states=None).simulate(2), ParameterError, "has no states to continue"),
        (
            lambda: replace(THETA, noise=np.eye(2)),
            ParameterError,
            "noise has shape (2, 2), but it must be (3, 3)",
        ),
    ],
)
def test_bad_input(attempt, error, sentence):
    with pytest.raises(error) as caught:
        attempt()
    assert sentence in str(caught.value)


def test_a_smaller_order_has_its_own_noise():
    from sysbags.distances.gram import cross_gram
    from sysbags.distances.truncation import truncate

    systems = [make_system(seed, order=4) for seed in range(2)]
    smaller, _ = truncate(systems, cross_gram(systems), 2)
    for system in smaller:
        errors = system.states[1:] - system.states[:-1] @ system.transition.T
        np.testing.assert_allclose(system.noise, errors.T @ errors / len(errors), rtol=0, atol=1e-14)


def slow_projection(row):
    """The quadratic problem by a general solver."""
    found = scipy.optimize.minimize(
        lambda h: 0.5 * ((h - row) ** 2).sum(),
        np.full(len(row), 1.0 / len(row)),
        jac=lambda h: h - row,
        bounds=[(0.0, None)] * len(row),
        constraints={"type": "eq", "fun": lambda h: h.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


def test_nearest_histograms_against_a_general_solver():
    rng = np.random.default_rng(0)
    rows = rng.normal(0.2, rng.uniform(0.01, 2.0, (30, 1)), (30, 6))
    slow = np.array([slow_projection(row) for row in rows])
    # SLSQP stops where the objective no longer changes in its 14th digit: half of the digits of the solution.
    np.testing.assert_allclose(nearest_histograms(rows), slow, rtol=0, atol=1e-6)


VALUES = st.floats(-1e6, 1e6)


@settings(deadline=None, max_examples=100)
@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=VALUES), VALUES)
def test_properties_of_nearest_histograms(rows, shift):
    nearest = nearest_histograms(rows)
    scale = 1.0 + np.abs(rows).max() + abs(shift)
    assert nearest.min() >= 0.0
    np.testing.assert_allclose(nearest.sum(axis=1), 1.0, rtol=0, atol=1e-14 * 8 * scale)
    np.testing.assert_allclose(nearest_histograms(nearest), nearest, rtol=0, atol=1e-15 * 64 * scale)
    np.testing.assert_allclose(nearest_histograms(rows + shift), nearest, rtol=0, atol=1e-15 * 64 * scale)
    # The condition of optimality: no corner of the simplex is in the direction of what is missing.
    missing = rows - nearest
    products = missing - (missing * nearest).sum(axis=1, keepdims=True)
    assert products.max() <= 1e-14 * 64 * scale
