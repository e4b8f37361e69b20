"""Weights in the units of the systems, against their definition and under changes of units."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from helpers import in_form_of, make_system, orthogonal
from sysbags.distances import METRICS
from sysbags.distances.gram import SystemStack
from sysbags.distances.pairwise import distance_matrix, resolve_weights, scaled_weights
from sysbags.errors import IncompatibleSystemsError, ParameterError

WEIGHTED = [name for name, metric in METRICS.items() if metric.weighted]
SCALED = {"lambda_a": "scale", "lambda_mu": "scale"}
POWERS = {"alignment": 2, "covariance": 4, "normalized-covariance": 0}  # of the unit of the stream
ORDERS = (3, 2, 4, 1)


def identify(stream, order, kernel="chi2"):
    return sysbags.identify(stream, order, kernel, normal_form="unit-variance")


def make_systems(seed=0, kernel="chi2", unit=1.0):
    """Systems of several orders."""
    streams = unit * np.random.default_rng(seed).dirichlet(np.ones(7), size=(len(ORDERS), 40))
    return [identify(stream, order, kernel) for stream, order in zip(streams, ORDERS, strict=True)]


def by_hand(systems, metric):
    """The definition, system by system."""
    v = np.mean([np.trace(system.observer_gram) for system in systems])
    t = np.mean([np.sum(system.transition**2) for system in systems])
    return {
        "alignment": (v / t, 1.0),
        "covariance": (0.9, v),
        "normalized-covariance": (0.9, 1.0 / v),
    }[metric]


@pytest.mark.parametrize("metric", WEIGHTED)
@pytest.mark.parametrize("kernel", ["chi2", "linear"])
def test_the_definition(metric, kernel):
    systems = make_systems(kernel=kernel)
    expected = by_hand(systems, metric)
    np.testing.assert_allclose(scaled_weights(SystemStack.of(systems), metric), expected, rtol=1e-13)
    np.testing.assert_allclose(scaled_weights(sysbags.cross_gram(systems).rows, metric), expected, rtol=1e-13)


def test_the_variance_is_that_of_the_stream():
    """With the linear kernel and all directions, ``||C||^2`` is the sum of the variances of the bins."""
    streams = np.random.default_rng(3).dirichlet(np.ones(5), size=(3, 40))
    systems = [identify(stream, 4, "linear") for stream in streams]
    variance = np.mean([stream.var(axis=0).sum() for stream in streams])
    assert scaled_weights(SystemStack.of(systems), "covariance")[1] == pytest.approx(variance, rel=1e-10)


def test_systems_without_dynamics_have_a_weight_too():
    """Where all transitions are 0, any weight gives the same distances; it must be a finite number."""
    still = [
        sysbags.System([[0.0]], np.eye(3), column, np.full(3, 1 / 3), "linear", normal_form="unit-variance")
        for column in ([[2.0], [0.0], [0.0]], [[0.0], [1.0], [1.0]])
    ]
    assert scaled_weights(SystemStack.of(still)) == (3.0, 1.0)  # the variances are 4 and 2
    assert np.isfinite(sysbags.pairwise_distances(still, **SCALED)).all()


@pytest.mark.parametrize("metric", WEIGHTED)
def test_distances_with_scale_are_those_with_the_numbers(metric):
    systems = make_systems()
    a, mu = by_hand(systems, metric)
    expected = sysbags.pairwise_distances(systems, metric=metric, lambda_a=a, lambda_mu=mu)
    np.testing.assert_allclose(
        sysbags.pairwise_distances(systems, metric=metric, **SCALED), expected, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        distance_matrix(sysbags.cross_gram(systems), metric, **SCALED), expected, rtol=1e-9, atol=1e-12
    )
    # One weight may be a number.
    expected = sysbags.pairwise_distances(systems, metric=metric, lambda_a=0.5, lambda_mu=mu)
    mixed = sysbags.pairwise_distances(systems, metric=metric, lambda_a=0.5, lambda_mu="scale")
    np.testing.assert_allclose(mixed, expected, rtol=1e-9, atol=1e-12)
    expected = sysbags.pairwise_distances(systems, metric=metric, lambda_a=a, lambda_mu=0.0)
    mixed = sysbags.pairwise_distances(systems, metric=metric, lambda_a="scale")
    np.testing.assert_allclose(mixed, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", WEIGHTED)
def test_the_first_collection_has_the_units(metric):
    """So that rows may be training systems, and columns any others."""
    first, second = make_systems(0), make_systems(1)
    a, mu = by_hand(first, metric)
    expected = sysbags.pairwise_distances(first, second, metric, lambda_a=a, lambda_mu=mu)
    np.testing.assert_allclose(
        sysbags.pairwise_distances(first, second, metric, **SCALED), expected, rtol=1e-9, atol=1e-12
    )


@given(st.integers(0, 10**6), st.sampled_from(WEIGHTED), st.floats(-2.0, 2.0))
@settings(max_examples=30, deadline=None, derandomize=True)  # starts of an alignment may, rarely, all be poor
def test_the_unit_of_streams_is_that_of_distances(seed, metric, exponent):
    """Streams times c: distances times c^2, c^4 or nothing, so that no neighbour changes."""
    factor = 10.0**exponent
    plain, scaled = (
        sysbags.pairwise_distances(make_systems(seed, "linear", unit), metric=metric, **SCALED)
        for unit in (1.0, factor)
    )
    expected = factor ** POWERS[metric] * plain
    # The round-off of differences of norms, which are as large as the distances; alignments are iterated.
    tolerance = 1e-7 if metric == "alignment" else 1e-10
    np.testing.assert_allclose(scaled, expected, rtol=0, atol=tolerance * expected.max())


@given(st.integers(0, 10**6), st.sampled_from(WEIGHTED))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_rotations_change_nothing(seed, metric):
    systems, rng = make_systems(seed), np.random.default_rng(seed)
    turned = [system.rotate(orthogonal(system.order, rng)) for system in systems]
    np.testing.assert_allclose(
        scaled_weights(SystemStack.of(turned), metric),
        scaled_weights(SystemStack.of(systems), metric),
        rtol=1e-12,
    )
    plain, rotated = (sysbags.pairwise_distances(s, metric=metric, **SCALED) for s in (systems, turned))
    tolerance = 1e-7 if metric == "alignment" else 1e-10
    np.testing.assert_allclose(rotated, plain, rtol=0, atol=tolerance * plain.max())


@pytest.mark.parametrize("metric", WEIGHTED)
def test_parts_have_the_same_unit(metric):
    """A change of the unit of streams changes no part's share of a distance."""
    shares = []
    for unit in (1.0, 8.0):
        systems = make_systems(kernel="linear", unit=unit)
        whole = sysbags.pairwise_distances(systems, metric=metric, **SCALED)
        without = sysbags.pairwise_distances(systems, metric=metric, lambda_a="scale")
        shares.append((without / np.where(whole > 0, whole, 1.0))[~np.eye(len(systems), dtype=bool)])
    np.testing.assert_allclose(shares[1], shares[0], rtol=0, atol=1e-7)
    assert 0.0 < shares[0].min() < shares[0].max() < 1.0


def test_without_transitions_it_is_the_distance_of_gaussians():
    """The squared 2-Wasserstein distance of the normal distributions of two streams; the linear kernel."""
    first, second = np.random.default_rng(5).standard_normal((2, 50, 3)) @ [[1, 0, 0], [1, 1, 0], [0, 1, 2]]
    systems = [identify(stream, 3, "linear") for stream in (first, second)]
    C1, C2 = (np.cov(stream.T, bias=True) for stream in (first, second))
    root = scipy.linalg.sqrtm(C1)
    means = np.sum((first.mean(axis=0) - second.mean(axis=0)) ** 2)
    expected = means + np.trace(C1 + C2 - 2.0 * scipy.linalg.sqrtm(root @ C2 @ root))
    distance = sysbags.pairwise_distances(systems, lambda_a=0.0, lambda_mu="scale")[0, 1]
    assert distance == pytest.approx(expected, rel=1e-9)


# --- resolve_weights


@pytest.mark.parametrize("metric", WEIGHTED)
def test_each_weight_is_resolved_on_its_own(metric):
    stack = SystemStack.of(make_systems())
    a, mu = scaled_weights(stack, metric)
    assert resolve_weights(stack, metric, "scale", "scale") == (a, mu)
    assert resolve_weights(stack, metric, 0.3, "scale") == (0.3, mu)
    assert resolve_weights(stack, metric, "scale", 7) == (a, 7.0)
    assert resolve_weights(stack, metric, np.float32(0.5), 2) == (0.5, 2.0)
    assert all(type(weight) is float for weight in resolve_weights(stack, metric, np.float32(0.5), 2))


def test_numbers_need_no_form():
    stack = SystemStack.of([make_system(0)])
    assert stack.normal_form == "orthonormal"
    assert resolve_weights(stack, "alignment", 0.25, 10) == (0.25, 10.0)


@pytest.mark.parametrize("metric", ["martin", "max-singular-value"])
def test_metrics_without_weights_ignore_them(metric):
    systems = [make_system(k) for k in range(3)]
    assert resolve_weights(SystemStack.of(systems), metric, "scale", -1.0) == (0.0, 0.0)
    np.testing.assert_array_equal(
        sysbags.pairwise_distances(systems, metric=metric, **SCALED),
        sysbags.pairwise_distances(systems, metric=metric),
    )
    with pytest.raises(ParameterError, match=f"the metric '{metric}' has no weights"):
        scaled_weights(SystemStack.of(in_form_of("covariance", systems)), metric)


@pytest.mark.parametrize("name", ["lambda_a", "lambda_mu"])
@pytest.mark.parametrize("word", ["auto", "Scale", ""])
def test_other_words_are_refused(name, word):
    with pytest.raises(ParameterError) as caught:
        sysbags.pairwise_distances(make_systems(), **{name: word})
    assert str(caught.value) == (f'{name} is {word!r}, but it must be a number that is 0 or more, or "scale"')


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ((-1.0, "scale"), "lambda_a is -1.0, but it must be a finite number that is 0 or more"),
        (("scale", np.nan), "lambda_mu is nan"),
        ((None, 0.0), "lambda_a is None"),
        (([0.1], 0.0), "lambda_a is "),
    ],
)
def test_bad_numbers(weights, sentence):
    with pytest.raises(ParameterError) as caught:
        resolve_weights(SystemStack.of(make_systems()), "alignment", *weights)
    assert sentence in str(caught.value)


def test_the_orthonormal_form_has_no_units():
    systems = [make_system(k) for k in range(2)]
    with pytest.raises(IncompatibleSystemsError) as caught:
        sysbags.pairwise_distances(systems, lambda_mu="scale")
    assert str(caught.value) == (
        'systems are in the orthonormal form, but the weight "scale" needs the unit-variance form: '
        'identify or SystemIdentifier with normal_form="unit-variance"'
    )


def test_unknown_metrics():
    with pytest.raises(ParameterError, match="metric is 'cosine', but it must be one of"):
        resolve_weights(SystemStack.of(make_systems()), "cosine", 0.1, 0.1)
