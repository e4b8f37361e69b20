"""Delay embedding, dynamic mode decomposition, automatic rank and delays."""

from __future__ import annotations

import numpy as np
import pytest

from signals import oscillation, random_system
from sysbags.datasets import make_streams
from sysbags.dsa import DSA, fit_dmd
from sysbags.dsa.modes import hard_threshold_rank
from sysbags.dsa.trials import delay_embed
from sysbags.errors import OrderError, ParameterError, StreamError

ROUND_OFF = 1e-9  # condition numbers here are below 1e6


def sorted_eigenvalues(matrix):
    return np.sort_complex(np.round(np.linalg.eigvals(matrix), 8))


def test_rows_join_the_newest_observation_first():
    data = np.arange(14.0).reshape(7, 2)
    embedded = delay_embed(data, n_delays=3, delay_interval=2)
    assert np.array_equal(embedded, [[8, 9, 4, 5, 0, 1], [10, 11, 6, 7, 2, 3], [12, 13, 8, 9, 4, 5]])
    trials = delay_embed(np.stack([data, data + 1]), 3, 2)
    assert np.array_equal(trials, [embedded, embedded + 1])


def test_one_delay_is_a_copy():
    data = np.ones((4, 2))
    embedded = delay_embed(data)
    embedded[:] = 0
    assert np.array_equal(data, np.ones((4, 2)))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_noiseless_dynamics_are_recovered(n):
    A, _, x, _ = random_system(n, seed=n, length=60)
    modes = fit_dmd(x)
    assert modes.rank == n
    assert np.allclose(np.poly(modes.transition), np.poly(A), rtol=0, atol=1e-6)
    states = x @ modes.encoder
    assert np.allclose(np.mean(states**2, axis=0), 1.0)
    assert np.allclose(states @ modes.decoder, x)


def test_inputs_are_told_from_the_dynamics():
    A, B, x, u = random_system(3, seed=0, inputs=2)
    modes = fit_dmd(x, control=u)
    # In the coordinates of the data: x = decoder' z.
    assert np.allclose(modes.decoder.T @ modes.transition @ modes.encoder.T, A, atol=ROUND_OFF)
    assert np.allclose(modes.decoder.T @ modes.control, B, atol=ROUND_OFF)
    assert not np.allclose(fit_dmd(x).transition, modes.transition, atol=1e-3)


def test_input_matrices_do_not_depend_on_the_number_of_time_points():
    _, _, x, u = random_system(3, seed=0, inputs=2, length=4000)
    whole, half = fit_dmd(x, control=u), fit_dmd(x[:2000], control=u[:2000])
    # The states are scaled by their mean square, which differs between the halves of a random series.
    assert np.linalg.norm(half.control) == pytest.approx(np.linalg.norm(whole.control), rel=0.1)


def test_delays_use_the_inputs_of_the_newest_observation():
    _, _, x, u = random_system(2, seed=3, inputs=1)
    modes = fit_dmd(x, control=u, n_delays=3, rank=4)
    states = delay_embed(x, 3) @ modes.encoder
    following = states[:-1] @ modes.transition.T + u[2:-1] @ modes.control.T
    assert np.allclose(following @ modes.decoder[:, :2], x[3:], atol=1e-6)


def test_no_step_leads_from_one_trial_to_the_next():
    _, _, x, _ = random_system(3, seed=1)
    A = sorted_eigenvalues(fit_dmd(x).transition)
    ragged = [x[:50], 100.0 * x[50:120], x[120:]]  # a step from trial to trial would be far off
    assert np.allclose(sorted_eigenvalues(fit_dmd(ragged).transition), A, atol=1e-6)
    stacked = np.stack([x[:100], 100.0 * x[100:]])
    assert np.allclose(sorted_eigenvalues(fit_dmd(stacked).transition), A, atol=1e-6)
    assert np.allclose(fit_dmd(list(stacked)).transition, fit_dmd(stacked).transition, atol=ROUND_OFF)


def test_more_columns_than_time_points():
    x = np.random.default_rng(0).standard_normal((3, 6, 40))
    modes = fit_dmd(x, rank=4)
    assert modes.transition.shape == (4, 4)
    assert fit_dmd(x).rank == 18


def test_the_penalty_shrinks_the_transition():
    x = oscillation([0.3], 0)
    sizes = [np.linalg.norm(fit_dmd(x, rank=2, lamb=lamb).transition) for lamb in (0.0, 1e-8, 1.0)]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-6)
    assert sizes[2] < 0.6 * sizes[0]


def test_a_linear_kernel_is_dynamic_mode_decomposition_of_centred_data():
    x = oscillation([0.3, 1.0], 0)
    kernel = fit_dmd(x, kernel="linear", rank=4, n_delays=2)
    rows = delay_embed(x, 2)
    plain = fit_dmd(rows - rows.mean(axis=0), rank=4)
    assert np.allclose(np.abs(kernel.transition), np.abs(plain.transition), atol=1e-6)
    assert np.allclose(np.abs(kernel.eigenvalues), np.abs(plain.eigenvalues), atol=1e-6)


@pytest.mark.parametrize("kernel", ["chi2", "intersection", "bhattacharyya"])
def test_histograms_through_kernels(kernel):
    streams, _ = make_streams(classes=1, per_class=2, frames=60, bins=8)
    modes = fit_dmd(streams, kernel=kernel, n_delays=3, rank=5)
    assert modes.transition.shape == (5, 5)
    assert np.abs(modes.eigenvalues).max() < 1.1


def test_a_callable_kernel_sees_a_circle():
    """The states of a Gaussian kernel on a circle turn with the circle."""
    time = 0.3 * np.arange(200)
    circle = np.column_stack([np.cos(time), np.sin(time)])

    def gaussian(a, b):
        return np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2))

    modes = fit_dmd(circle, kernel=gaussian, rank=4)
    angles = np.sort(np.abs(np.angle(modes.eigenvalues)))
    assert np.allclose(angles, [0.3, 0.3, 0.6, 0.6], atol=0.01)  # 200 steps are no whole number of turns


@pytest.mark.parametrize("seed", range(3))
def test_the_hard_threshold_finds_the_rank_of_the_signal(seed):
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 30))
    noisy = signal + 0.2 * rng.standard_normal(signal.shape)
    assert hard_threshold_rank(np.linalg.svd(noisy, compute_uv=False), noisy.shape) == 4
    assert hard_threshold_rank(np.linalg.svd(signal, compute_uv=False), signal.shape) == 4
    assert fit_dmd(noisy, rank="auto").rank == 4


def test_pure_noise_has_at_least_rank_one():
    noise = np.random.default_rng(0).standard_normal((400, 50))
    assert hard_threshold_rank(np.linalg.svd(noise, compute_uv=False), noise.shape) == 1


def chosen_delays(data, control=None, **options):
    inputs = None if control is None else [control]
    dsa = DSA([data], X_control=inputs, n_delays="auto", compare="state", **options)
    return dsa.fit_dmds().n_delays_[0]


def test_delays_until_the_state_is_seen():
    """One sensor of two oscillations has four hidden states; rows of four observations determine them."""
    time = np.arange(300)
    series = (np.cos(0.2 * time) + np.cos(0.9 * time))[:, None]
    assert chosen_delays(series) == 4
    assert chosen_delays(series, delay_interval=2) == 4
    assert chosen_delays([series[:100], series[100:]]) == 4
    assert chosen_delays(series, rank=3) >= 3
    _, _, x, u = random_system(3, seed=2, inputs=2)
    assert chosen_delays(x, control=u) == 1


def test_delays_of_noisy_series_help_prediction():
    series = oscillation([0.3, 1.0], 5, channels=1, length=600, noise=0.3)
    assert chosen_delays(series) > 2


def test_one_dimension_is_one_channel():
    series, inputs = np.random.default_rng(0).standard_normal((2, 60))
    assert np.array_equal(delay_embed(series, 3), delay_embed(series[:, None], 3))
    assert delay_embed([0, 1, 2], 2).tolist() == [[1.0, 0.0], [2.0, 1.0]]
    columns = fit_dmd(series[:, None], control=inputs[:, None], n_delays=2)
    assert np.array_equal(fit_dmd(series, control=inputs, n_delays=2).transition, columns.transition)
    halves = fit_dmd([series[:20], series[20:]], control=[inputs[:20], inputs[20:]], n_delays=2)
    expected = fit_dmd([series[:20, None], series[20:, None]], control=[inputs[:20], inputs[20:]], n_delays=2)
    assert np.array_equal(halves.transition, expected.transition)
    assert not np.array_equal(halves.transition, columns.transition)
    assert chosen_delays(series) == chosen_delays(series[:, None])
    flat = fit_dmd(series.tolist(), control=tuple(inputs), n_delays=2)
    assert np.array_equal(flat.transition, columns.transition)


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (np.float64(5), {}, StreamError, r"data has shape \(\), but it must be an array \(time,\)"),
        (np.ones((2, 2, 2, 2)), {}, StreamError, r"but it must be an array \(time,\), \(time, channels\) or"),
        ([1.0, None], {}, StreamError, "data holds nan at index"),
        ([1.0, [2.0]], {}, StreamError, "data is ragged"),
        (
            [[1.0, 2.0], [3.0, 4.0]],
            {},
            StreamError,
            r"data\[0\] is a list of numbers, .*: pass data as a numpy array or as a list of numpy arrays",
        ),
        (np.empty(0), {}, StreamError, "data is empty"),
        (np.empty((0, 3)), {}, StreamError, "data is empty"),
        ([], {}, StreamError, "data is an empty list"),
        ([[[1.0, 2.0], [3.0]]], {}, StreamError, r"data\[0\] is ragged"),
        ([np.ones((5, 2)), np.ones((5, 3))], {}, StreamError, "have 2 and 3 channels"),
        ([np.ones((5, 2)), np.ones(3)], {}, StreamError, "have 1 and 2 channels"),
        (np.array([[1.0], [np.nan], [1.0]]), {}, StreamError, "data holds nan at index"),
        (np.array([["a"], ["b"]]), {}, StreamError, "must hold real numbers"),
        (np.zeros((5, 2)), {}, StreamError, "data is 0 everywhere"),
        (np.ones((5, 2)), {"n_delays": 5}, StreamError, "trial 0 of data has 5 time points, but n_delays=5"),
        (np.ones((5, 2)), {"n_delays": 0}, ParameterError, "n_delays is 0"),
        (np.ones((5, 2)), {"delay_interval": 1.5}, ParameterError, "delay_interval is 1.5"),
        (np.ones((5, 2)), {"rank": 2}, OrderError, "rank 2 is above the rank .* of data, which is 1"),
        (np.ones((5, 2)), {"rank": "best"}, ParameterError, "rank is 'best'"),
        (np.ones((5, 2)), {"rank": 0}, ParameterError, "rank is 0"),
        (np.ones((5, 2)), {"lamb": -1.0}, ParameterError, "lamb is -1.0"),
        (np.ones((5, 2)), {"kernel": "gauss"}, ParameterError, "kernel is 'gauss'"),
        (np.ones((5, 2)), {"control": np.ones((4, 1))}, StreamError, "have 4 time points, but .* have 5"),
    ],
)
def test_bad_input_is_one_clear_sentence(data, options, error, message):
    with pytest.raises(error, match=message):
        fit_dmd(data, **options)


def test_too_short_for_automatic_delays():
    with pytest.raises(StreamError, match=r"X\[0\] is too short for n_delays="):
        chosen_delays(np.ones((2, 1)))
    with pytest.raises(
        StreamError, match="data has 3 time points, but 3 delays at the interval 2 need at least 5"
    ):
        delay_embed(np.ones((3, 1)), 3, 2)
