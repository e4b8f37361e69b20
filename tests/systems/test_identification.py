"""Algorithm 1: from a stream to a system."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.errors import OrderError, ParameterError, StreamError
from sysbags.systems import identification
from sysbags.systems.identification import identify


def make_stream(frames=40, bins=6, seed=0):
    """Histograms that oscillate and wander."""
    rng = np.random.default_rng(seed)
    time = np.arange(frames)[:, None]
    logits = np.cos(0.4 * time + rng.uniform(0, 6, bins)) + 0.3 * rng.standard_normal((frames, bins))
    weights = np.exp(logits)
    return weights / weights.sum(axis=1, keepdims=True)


def slow_chi2(first, second):
    """The kernel as printed (`eq:chi`), one pair of bins after the other."""
    out = np.empty((len(first), len(second)))
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            nonzero = a + b > 0
            out[i, j] = np.exp(-0.5 * np.sum((a - b)[nonzero] ** 2 / (a + b)[nonzero]))
    return out


def gaussian(first, second):
    return np.exp(-((first[:, None] - second[None]) ** 2).sum(axis=2))


def lopsided(first, second):
    return first @ np.triu(np.ones((first.shape[1],) * 2)) @ second.T


def align_signs(reference, columns):
    return columns * np.sign(np.sum(reference * columns, axis=0))


@pytest.mark.parametrize("stability", ["none", "clip"])
def test_linear_kernel_is_the_classical_system(stability):
    """PCA by an SVD of the centred stream, then least squares: nothing of kernels in it."""
    stream = np.random.default_rng(3).standard_normal((30, 8)) @ np.diag(np.arange(8, 0, -1)) + 5.0
    mean = stream.mean(axis=0)
    left, values, right = np.linalg.svd(stream - mean, full_matrices=False)
    theta = identify(stream, order=3, kernel="linear", stability=stability)
    states = align_signs(theta.states, left[:, :3] * values[:3])
    np.testing.assert_allclose(theta.states, states, rtol=0, atol=1e-11)
    observer = align_signs(theta.samples.T @ theta.alpha, right[:3].T)
    np.testing.assert_allclose(theta.samples.T @ theta.alpha, observer, rtol=0, atol=1e-12)
    np.testing.assert_allclose(theta.samples.T @ theta.beta, mean, rtol=0, atol=1e-13)
    A = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0].T
    if stability == "clip":
        U, s, Vt = np.linalg.svd(A)
        A = U @ np.diag(np.minimum(s, 0.999)) @ Vt
    np.testing.assert_allclose(theta.transition, A, rtol=0, atol=1e-11)
    np.testing.assert_allclose(theta.eigenvalues, values[:3] ** 2, rtol=1e-12)


def test_chi2_equals_a_slow_twin():
    stream = make_stream(25, 5, 1)
    stream[3, 2] = 0.0
    stream[3] /= stream[3].sum()
    k = slow_chi2(stream, stream)
    H = np.eye(25) - 1 / 25
    values, vectors = np.linalg.eigh(H @ k @ H)
    values, vectors = values[::-1][:4], vectors[:, ::-1][:, :4]
    theta = identify(stream, order=4, stability="none")
    vectors = align_signs(theta.states, vectors)
    # Relative round-off 1e-16 of k, over a smallest eigenvalue (and gap) of a few percent of the largest.
    np.testing.assert_allclose(theta.eigenvalues, values, rtol=1e-11)
    np.testing.assert_allclose(theta.alpha, vectors / np.sqrt(values), rtol=0, atol=1e-11)
    states = vectors * np.sqrt(values)
    np.testing.assert_allclose(theta.states, states, rtol=0, atol=1e-11)
    A = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0].T
    np.testing.assert_allclose(theta.transition, A, rtol=0, atol=1e-10)
    expected = np.linalg.norm(states[1:] - states[:-1] @ A.T) / np.linalg.norm(states[1:])
    assert theta.residual == pytest.approx(expected, abs=1e-11)
    assert theta.explained == pytest.approx(values.sum() / np.trace(H @ k @ H), abs=1e-12)
    assert theta.mean_norm == pytest.approx(k.mean(), abs=1e-14)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 6),
    st.integers(8, 40),
    st.sampled_from(["chi2", "bhattacharyya", "intersection", "linear", gaussian]),
    st.integers(0, 10_000),
)
def test_what_every_system_obeys(order, frames, kernel, seed):
    stream = make_stream(frames, 9, seed)
    original = stream.copy()
    theta = identify(stream, order=order, kernel=kernel)
    np.testing.assert_array_equal(stream, original)
    np.testing.assert_array_equal(theta.samples, stream)
    # C'C = I with the kernel that was never centred, and it is what a fresh evaluation gives.
    # Eigenvalues of about 1e-3 of the largest lose three of sixteen digits.
    np.testing.assert_allclose(theta.observer_gram, np.eye(order), rtol=0, atol=1e-11)
    np.testing.assert_allclose(theta.alpha.sum(axis=0), 0.0, atol=1e-11)
    np.testing.assert_allclose(theta.states.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(theta.states.T @ theta.states, np.diag(theta.eigenvalues), atol=1e-12)
    np.testing.assert_allclose(theta.beta, 1.0 / frames)
    assert np.all(np.diff(theta.eigenvalues) <= 0)
    assert np.linalg.norm(theta.transition, 2) <= 0.999 + 1e-13
    assert 0.0 <= theta.residual <= 1.0 + 1e-9
    largest = np.abs(theta.alpha).argmax(axis=0)
    assert np.all(theta.alpha[largest, np.arange(order)] > 0)


def test_norms_handed_over_equal_those_worked_out():
    theta = identify(make_stream(), order=3)
    k = slow_chi2(theta.samples, theta.samples)
    np.testing.assert_allclose(theta.observer_gram, theta.alpha.T @ k @ theta.alpha, rtol=0, atol=1e-12)
    assert theta.mean_norm == pytest.approx(theta.beta @ k @ theta.beta, abs=1e-14)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_the_order_of_the_bins_does_not_matter(seed):
    stream = make_stream(30, 7, seed)
    shuffled = stream[:, np.random.default_rng(seed).permutation(7)]
    first, second = identify(stream, order=2), identify(shuffled, order=2)
    # Only sums over bins are reordered; the eigenvalue gap of a few percent costs two digits.
    np.testing.assert_allclose(first.alpha, second.alpha, rtol=0, atol=1e-10)
    np.testing.assert_allclose(first.transition, second.transition, rtol=0, atol=1e-7)


def test_a_known_rotation_is_found():
    """A circle in the space of bags: the transition turns by its angle."""
    time = np.arange(200)
    circle = np.stack([np.cos(0.25 * time), np.sin(0.25 * time)], axis=1)
    theta = identify(circle, order=2, kernel="linear", stability="none")
    angles = np.angle(np.linalg.eigvals(theta.transition))
    # The mean over a broken period is not quite zero, which bends the circle a little.
    np.testing.assert_allclose(np.abs(angles), 0.25, atol=1e-3)
    assert theta.residual < 0.02
    assert theta.explained == pytest.approx(1.0)


def test_the_constraint_binds_and_clipping_predicts_worse():
    stream = make_stream(60, 8, 4)
    free, best, clipped = (identify(stream, order=5, stability=s) for s in ("none", "constrained", "clip"))
    assert np.linalg.norm(free.transition, 2) > 1.0
    assert free.residual < best.residual < clipped.residual
    assert np.linalg.norm(best.transition, 2) == pytest.approx(0.999, abs=1e-12)
    wide = identify(stream, order=5, margin=0.2)
    assert np.linalg.norm(wide.transition, 2) == pytest.approx(0.8, abs=1e-12)


@pytest.mark.parametrize("variance", [0.3, 0.5, 0.8, 0.95, 0.999])
def test_auto_is_the_smallest_order_that_holds_the_variance(variance, monkeypatch):
    monkeypatch.setattr(identification, "EXPLAINED", variance)
    stream = make_stream(40, 6, 2)
    theta = identify(stream, order="auto")
    k = slow_chi2(stream, stream)
    H = np.eye(40) - 1 / 40
    shares = np.cumsum(np.linalg.eigvalsh(H @ k @ H)[::-1]) / np.trace(H @ k @ H)
    assert theta.order == int(np.sum(shares < variance)) + 1
    assert theta.explained >= variance
    if theta.order > 1:
        assert identify(stream, order=theta.order - 1).explained < variance


def test_auto_with_all_the_variance_is_the_rank(monkeypatch):
    monkeypatch.setattr(identification, "EXPLAINED", 1.0)
    stream = np.random.default_rng(0).standard_normal((20, 3))
    assert identify(stream, order="auto", kernel="linear").order == 3


def test_the_largest_order_exists_and_predicts_perfectly():
    """N - 1 states of N frames: the least squares transition has as many numbers as there are equations."""
    stream = make_stream(6, 9, 3)
    theta = identify(stream, order=5, stability="none")
    assert theta.residual == pytest.approx(0.0, abs=1e-9)
    # Centred states make it a companion matrix of 1 + z + .. + z^5: the sixth roots of unity but 1.
    roots = np.exp(2j * np.pi * np.arange(1, 6) / 6)
    eigenvalues = np.linalg.eigvals(theta.transition)
    assert max(np.abs(eigenvalues - root).min() for root in roots) < 1e-9


def test_two_frames_give_order_one():
    theta = identify([[1.0, 0.0], [0.0, 1.0]], order=1)
    # x_2 = -x_1, so the free transition is -1 and the bound makes it -0.999.
    np.testing.assert_allclose(theta.transition, [[-0.999]], rtol=0, atol=1e-12)
    assert theta.residual == pytest.approx(0.001)


def test_the_same_bits_every_time():
    stream = make_stream(50, 12, 8)
    first, second = identify(stream), identify(stream.copy())
    np.testing.assert_array_equal(first.transition, second.transition)
    np.testing.assert_array_equal(first.alpha, second.alpha)


STREAM = make_stream(20, 6)
STILL = np.repeat(STREAM[:1], 30, axis=0)
ALTERNATING = np.tile(STREAM[:2], (10, 1))
PLANE = np.random.default_rng(0).standard_normal((30, 2))


@pytest.mark.parametrize(
    ("stream", "options", "sentence"),
    [
        (STILL, {}, "all 30 frames have the same bag (a still clip)"),
        (STILL, {"order": "auto"}, "so there is no motion to learn"),
        (STILL, {"kernel": "intersection", "order": 1}, "still clip"),
        (np.full((9, 4), 3.7), {"kernel": "linear", "order": 2}, "still clip"),
        (STREAM[:1], {}, "the stream has one frame"),
        (
            STREAM[:4],
            {},
            "order 5 needs at least 6 frames, but the stream has 4: the largest order possible is 3",
        ),
        (STREAM, {"order": 20}, "order 20 needs at least 21 frames, but the stream has 20: the largest"),
        (ALTERNATING, {"order": 2}, "order 2 is above the rank of the stream's centred kernel"),
        (ALTERNATING, {"order": 2}, "the largest order possible is 1"),
        (ALTERNATING, {"order": 50}, "the largest order possible is 1"),
        (PLANE, {"order": 3, "kernel": "linear"}, "the largest order possible is 2"),
        (STREAM, {"order": 19, "kernel": "linear"}, "the largest order possible is 5"),
    ],
)
def test_orders_that_do_not_exist(stream, options, sentence):
    with pytest.raises(OrderError) as caught:
        identify(stream, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("stream", [ALTERNATING, PLANE, STREAM[:4]])
def test_the_largest_order_named_is_possible(stream):
    with pytest.raises(OrderError) as caught:
        identify(stream, order=19, kernel="linear")
    largest = int(str(caught.value).split()[-1])
    assert identify(stream, order=largest, kernel="linear").order == largest


BROKEN = STREAM.copy()
BROKEN[4, 1] = np.nan


@pytest.mark.parametrize(
    ("stream", "options", "error", "sentence"),
    [
        (BROKEN, {}, StreamError, "stream holds nan at row 4, column 1"),
        (STREAM * np.inf, {}, StreamError, "must be finite"),
        (-STREAM, {}, StreamError, "negative entry"),
        (2 * STREAM, {}, StreamError, "row 0 of stream sums to 2"),
        (STREAM[0], {}, StreamError, "must have 2"),
        (STREAM[None], {}, StreamError, "must have 2"),
        ([], {}, StreamError, "must have 2"),
        ([[]], {}, StreamError, "is empty"),
        ([[0.5, 0.5], [1.0]], {}, StreamError, "ragged"),
        ([["a", "b"]], {}, StreamError, "real numbers"),
        (STREAM, {"order": 0}, ParameterError, "order is 0, but it must be a whole number of at least 1"),
        (STREAM, {"order": -2}, ParameterError, "order is -2"),
        (STREAM, {"order": 2.5}, ParameterError, "order is 2.5"),
        (STREAM, {"order": None}, ParameterError, "order is None"),
        (STREAM, {"order": "automatic"}, ParameterError, "order is 'automatic', but it must be"),
        (STREAM, {"margin": -1e-3}, ParameterError, "margin is -0.001, but it must be a number in [0, 1)"),
        (STREAM, {"margin": 1}, ParameterError, "margin is 1"),
        (STREAM, {"stability": "stable"}, ParameterError, "'constrained', 'clip', 'none'"),
        (STREAM, {"kernel": "rbf"}, ParameterError, "kernel is 'rbf'"),
        (STREAM, {"kernel": None}, ParameterError, "kernel is None"),
        (STREAM, {"kernel": lopsided}, ParameterError, "the kernel lopsided is not symmetric"),
        (STREAM, {"kernel": lambda a, b: a}, ParameterError, "it must return (20, 20)"),
    ],
)
def test_bad_input(stream, options, error, sentence):
    with pytest.raises(error) as caught:
        identify(stream, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stream_too_long_for_its_kernel():
    with pytest.raises(StreamError) as caught:
        identify(np.full((30_000, 2), 0.5))
    assert "has 30000 frames, and the kernel between them would need 7 GB" in str(caught.value)
