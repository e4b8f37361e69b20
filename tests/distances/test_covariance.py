"""Distances between lagged covariances, against their definition."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from helpers import orthogonal
from sysbags.datasets import make_streams
from sysbags.distances import METRICS
from sysbags.distances.gram import SystemStack
from sysbags.distances.stein import (
    covariance_kernel,
    covariance_matrix,
    covariance_norms,
    normalized_covariance_matrix,
)
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.evaluate import leave_one_out
from sysbags.means import covariance_mean

ORDERS = (4, 3, 5, 4, 1)
AVERAGED = ("covariance", "normalized-covariance")
STREAMS = np.random.default_rng(0).dirichlet(0.5 * np.ones(8), size=(5, 60))


def identify(stream, order, kernel="chi2"):
    return sysbags.identify(stream, order, kernel, normal_form="unit-variance")


@pytest.fixture(scope="module", params=["chi2", "linear"])
def systems(request):
    return [identify(stream, order, request.param) for stream, order in zip(STREAMS, ORDERS, strict=True)]


def twin(systems, lambda_a, lags=400):
    """The sum over the lags, term by term."""
    gram = sysbags.cross_gram(systems)
    kernel = np.zeros((len(systems), len(systems)))
    for i, first in enumerate(systems):
        for j, second in enumerate(systems):
            M = gram.observer[i, j, : first.order, : second.order]
            left, right = np.eye(first.order), np.eye(second.order)
            for k in range(lags):
                kernel[i, j] += lambda_a**k * np.trace(left @ M @ right.T @ M.T)
                left, right = left @ first.transition, right @ second.transition
    return kernel


@pytest.mark.parametrize("lambda_a", [0.0, 0.25, 0.9])
def test_the_closed_form_is_the_sum_over_the_lags(systems, lambda_a):
    gram = sysbags.cross_gram(systems)
    kernel, rows, columns = covariance_kernel(gram, lambda_a)
    expected = twin(systems, lambda_a)
    # Sums of products below 1; 0.9^400 is below 1e-18.
    np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(rows, columns)
    np.testing.assert_allclose(rows, np.diag(expected), rtol=0, atol=1e-13)
    norms = np.diag(expected)
    np.testing.assert_allclose(
        covariance_matrix(gram, lambda_a), norms[:, None] + norms - 2 * expected, atol=1e-13
    )
    np.testing.assert_allclose(
        normalized_covariance_matrix(gram, lambda_a),
        2.0 - 2.0 * expected / np.sqrt(np.outer(norms, norms)),
        atol=1e-11,
    )


def test_lag_zero_is_the_covariance_of_the_frames():
    """With the linear kernel and all directions."""
    systems = [identify(stream, 7, "linear") for stream in STREAMS[:3]]
    covariances = [np.cov(stream.T, bias=True) for stream in STREAMS[:3]]
    distances = covariance_matrix(sysbags.cross_gram(systems), 0.0, 2.0)
    for i in range(3):
        for j in range(3):
            means = np.sum((STREAMS[i].mean(axis=0) - STREAMS[j].mean(axis=0)) ** 2)
            expected = np.sum((covariances[i] - covariances[j]) ** 2) + 2.0 * means
            assert distances[i, j] == pytest.approx(expected, abs=1e-14)


def test_lags_are_the_covariances_with_later_frames():
    """Of a long stationary stream that obeys the model; the linear kernel."""
    rng = np.random.default_rng(1)
    transition = np.array([[0.6, 0.5], [-0.5, 0.6]])  # 0.61 is its squared norm
    noise = rng.standard_normal((1500, 2)) * np.sqrt(1 - 0.61)
    states = np.zeros((1500, 2))
    for t in range(1, len(states)):
        states[t] = transition @ states[t - 1] + noise[t]
    stream = states @ rng.standard_normal((2, 4))
    theta = identify(stream, 2, "linear")
    observer = theta.samples.T @ theta.alpha
    centred = stream - stream.mean(axis=0)
    variance = np.abs(np.cov(stream.T)).max()
    for lag in range(4):
        empirical = centred[lag:].T @ centred[: len(centred) - lag] / len(centred)
        model = observer @ np.linalg.matrix_power(theta.transition, lag) @ observer.T
        # The model has the lag 1 of the sample; the error of later lags is statistical, about 1 / sqrt(1500).
        assert np.abs(model - empirical).max() < 0.1 * variance


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 1.0))
def test_rotations_change_nothing_and_the_kernel_is_positive(seed, lambda_a):
    rng = np.random.default_rng(seed)
    systems = [identify(stream, 3) for stream in rng.dirichlet(np.ones(6), size=(5, 20))]
    turned = [system.rotate(orthogonal(3, rng)) for system in systems]
    kernel, norms, _ = covariance_kernel(sysbags.cross_gram(systems), lambda_a)
    rotated, _, _ = covariance_kernel(sysbags.cross_gram(turned), lambda_a)
    np.testing.assert_allclose(rotated, kernel, rtol=0, atol=1e-12 * norms.max())
    assert np.linalg.eigvalsh(kernel)[0] > -1e-12 * norms.max()
    distances = sysbags.pairwise_distances(systems, turned, "covariance", lambda_a=lambda_a)
    assert np.abs(np.diag(distances)).max() < 1e-12 * norms.max()


@pytest.mark.parametrize("metric", AVERAGED)
def test_one_and_two_collections_and_threads(systems, metric):
    options = {"lambda_a": 0.5, "lambda_mu": 3.0}
    whole = sysbags.pairwise_distances(systems, metric=metric, **options)
    np.testing.assert_array_equal(whole, whole.T)
    np.testing.assert_array_equal(np.diag(whole), 0.0)
    np.testing.assert_array_equal(
        whole, sysbags.pairwise_distances(systems, metric=metric, n_jobs=2, **options)
    )
    part = sysbags.pairwise_distances(systems[:2], systems[2:], metric, **options)
    np.testing.assert_allclose(part, whole[:2, 2:], rtol=0, atol=1e-12)


def test_normalized_covariances_do_not_see_the_amount_of_motion():
    stream = np.random.default_rng(0).standard_normal((50, 5))
    first, second = identify(stream, 3, "linear"), identify(3.0 * stream, 3, "linear")
    assert sysbags.pairwise_distances([first], [second], "normalized-covariance")[0, 0] < 1e-14
    assert sysbags.pairwise_distances([first], [second], "covariance")[0, 0] > 1.0


def test_what_is_refused(systems):
    paper = [sysbags.identify(stream, 3) for stream in STREAMS[:2]]
    with pytest.raises(IncompatibleSystemsError, match="orthonormal form, but lagged covariances need the"):
        sysbags.pairwise_distances(paper, metric="covariance")
    for lambda_a in (-0.1, 1.5, np.nan):
        with pytest.raises(ParameterError, match=r"lambda_a is .*, but it must be"):
            sysbags.pairwise_distances(systems, metric="covariance", lambda_a=lambda_a)


# --- means


def test_the_mean_has_the_average_covariances(systems):
    weights = np.array([0.1, 0.3, 0.2, 0.4, 0.0])
    mean = covariance_mean(systems, weights=weights)
    assert mean.order == sum(ORDERS)
    whole = [*systems, mean]
    for lambda_a in (0.0, 0.7):
        kernel = twin(whole, lambda_a)
        # An inner product with an average is the average of the inner products.
        np.testing.assert_allclose(kernel[-1, :-1], weights @ kernel[:-1, :-1], rtol=0, atol=1e-12)
        assert kernel[-1, -1] == pytest.approx(weights @ kernel[:-1, :-1] @ weights, abs=1e-12)
        options = {"metric": "covariance", "lambda_a": lambda_a, "lambda_mu": 2.0}
        to_mean = weights @ sysbags.pairwise_distances(systems, [mean], **options)[:, 0]
        between = sysbags.pairwise_distances(systems, **options)
        # Huygens: the mean squared distance to the average is half of that between two.
        assert to_mean == pytest.approx(weights @ between @ weights / 2, abs=1e-12)
    np.testing.assert_allclose(
        mean.observer_gram, dataclasses.replace(mean, _observer_gram=None).observer_gram, atol=1e-12
    )


@pytest.mark.parametrize("lambda_mu", [0.0, 3.0])
@pytest.mark.parametrize("metric", AVERAGED)
def test_nearest_mean_is_the_average_that_leave_one_out_uses(metric, lambda_mu):
    streams, labels = make_streams(classes=3, per_class=4, frames=40, bins=8)
    systems = [identify(stream, 3) for stream in streams]
    labels, options = np.asarray(labels), {"metric": metric, "lambda_a": 0.6, "lambda_mu": lambda_mu}
    result = leave_one_out(sysbags.cross_gram(systems), labels, classifier="nearest-mean", **options)
    for k in range(len(systems)):
        rest = np.delete(np.arange(len(systems)), k)
        model = sysbags.NearestMean(**options).fit([systems[i] for i in rest], labels[rest])
        np.testing.assert_allclose(model.distances([systems[k]])[0], result.distances[k], rtol=0, atol=1e-12)
        assert model.predict([systems[k]])[0] == result.predictions[k]


def lagged(system, lambda_a, lags=150):
    """Lagged covariances as one vector, for the linear kernel; 0.7^150 is below 1e-23."""
    observer = system.samples.T @ system.alpha
    covariances, power = [], np.eye(system.order)
    for lag in range(lags):
        covariances.append(lambda_a ** (lag / 2) * (observer @ power @ observer.T).ravel())
        power = power @ system.transition
    return np.concatenate(covariances)


@pytest.mark.parametrize("lambda_a", [0.0, 0.7])
@pytest.mark.parametrize("weights", [None, (0.1, 0.3, 0.2, 0.4, 0.0)])
def test_the_normalized_mean_is_the_average_of_normalized_covariances(lambda_a, weights):
    systems = [identify(stream, order, "linear") for stream, order in zip(STREAMS, ORDERS, strict=True)]
    mean = covariance_mean(systems, weights=weights, normalized_by=lambda_a)
    vectors = np.stack([lagged(system, lambda_a) for system in systems])
    shares = np.full(5, 0.2) if weights is None else np.array(weights)
    average = shares @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    np.testing.assert_allclose(lagged(mean, lambda_a), average, rtol=0, atol=1e-12)
    # The mean of the bags is not divided by anything.
    means = shares @ np.stack([stream.mean(axis=0) for stream in STREAMS])
    np.testing.assert_allclose(mean.samples.T @ mean.beta, means, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        mean.observer_gram, dataclasses.replace(mean, _observer_gram=None).observer_gram, atol=1e-12
    )
    expected = np.sum(
        (vectors / np.linalg.norm(vectors, axis=1)[:, None] - average / np.linalg.norm(average)) ** 2, 1
    )
    expected += 3.0 * np.sum((np.stack([stream.mean(axis=0) for stream in STREAMS]) - means) ** 2, axis=1)
    options = {"lambda_a": lambda_a, "lambda_mu": 3.0}
    distances = sysbags.pairwise_distances(systems, [mean], "normalized-covariance", **options)[:, 0]
    np.testing.assert_allclose(distances, expected, rtol=0, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 0.9]), st.floats(0.0, 5.0))
def test_no_other_average_is_nearer_to_all(seed, lambda_a, lambda_mu):
    """Neither other averages, nor the members, nor strangers have a smaller sum of squared distances."""
    rng = np.random.default_rng(seed)
    # Amounts of motion differ, so that the mean of covariances is another one.
    units = rng.uniform(0.1, 1.0, size=5)
    streams = [
        identify(u * s, 3, "linear") for u, s in zip(units, rng.dirichlet(np.ones(6), (5, 20)), strict=True)
    ]
    systems, weights = streams, rng.dirichlet(np.ones(5))
    options = {"metric": "normalized-covariance", "lambda_a": lambda_a, "lambda_mu": lambda_mu}

    def objective(candidate):
        return weights @ sysbags.pairwise_distances(systems, [candidate], **options)[:, 0]

    least = objective(covariance_mean(systems, weights=weights, normalized_by=lambda_a))
    strangers = [identify(stream, 3, "linear") for stream in rng.dirichlet(np.ones(6), (3, 20))]
    mixtures = [
        covariance_mean(systems, weights=0.9 * weights + 0.1 * other, normalized_by=lambda_a)
        for other in rng.dirichlet(np.ones(5), size=5)
    ]
    plain = covariance_mean(systems, weights=weights)
    for candidate in (*systems, *strangers, *mixtures, plain):
        assert least <= objective(candidate) + 1e-12
    # In closed form: 2 - 2 ||average||, and the variance of the means.
    unit = np.stack([lagged(system, lambda_a) for system in systems])
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    means = np.stack([system.samples.T @ system.beta for system in systems])
    variance = weights @ np.sum((means - weights @ means) ** 2, axis=1)
    assert least == pytest.approx(2.0 - 2.0 * np.linalg.norm(weights @ unit) + lambda_mu * variance, abs=1e-6)


def test_one_system_is_its_own_normalized_mean(systems):
    mean = covariance_mean(systems[:1], normalized_by=0.5)
    distance = sysbags.pairwise_distances(
        [mean], systems[:1], "normalized-covariance", lambda_a=0.5, lambda_mu=1.0
    )
    assert distance[0, 0] < 1e-14
    # The norm of its covariances is 1.
    assert covariance_norms(SystemStack.of([mean]), 0.5)[0] == pytest.approx(1.0, rel=1e-13)


@pytest.mark.parametrize("metric", AVERAGED)
@pytest.mark.parametrize("given_gram", [False, True])
def test_nearest_mean_has_averages_and_no_medoids(systems, metric, given_gram):
    assert METRICS[metric].averages
    labels = np.array(["a", "b", "a", "a", "b"])
    model = sysbags.NearestMean(metric=metric, lambda_a=0.5, lambda_mu=2.0)
    model.fit(systems, labels, grams=[sysbags.cross_gram(systems)] if given_gram else None)
    for label, center in zip(model.classes_, model.centers_, strict=True):
        members = [systems[k] for k in np.flatnonzero(labels == label)]
        expected = covariance_mean(members, normalized_by=0.5 if metric == "normalized-covariance" else None)
        for name in ("transition", "alpha", "beta", "observer_gram"):
            np.testing.assert_allclose(
                getattr(center, name), getattr(expected, name), rtol=0, atol=1e-13, err_msg=name
            )
    assert not any(metric.averages for name, metric in METRICS.items() if name not in AVERAGED)


def test_norms_are_the_kernel_of_a_system_with_itself(systems):
    for lambda_a in (0.0, 0.25, 0.9):
        norms = covariance_norms(SystemStack.of(systems), lambda_a)
        np.testing.assert_allclose(norms, np.diag(twin(systems, lambda_a)), rtol=0, atol=1e-13)


def test_a_mean_of_the_other_form_is_refused():
    paper = [sysbags.identify(stream, 3) for stream in STREAMS[:2]]
    with pytest.raises(IncompatibleSystemsError, match="covariances needs the unit-variance"):
        covariance_mean(paper)
    with pytest.raises(ParameterError, match="weights must be 0 or more"):
        covariance_mean([identify(stream, 3) for stream in STREAMS[:2]], weights=[-1.0, 2.0])
    for weight in (-0.1, 1.1, np.nan, "scale"):
        with pytest.raises(ParameterError, match="normalized_by is "):
            covariance_mean([identify(stream, 3) for stream in STREAMS[:2]], normalized_by=weight)
