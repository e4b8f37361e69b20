"""Cutting an order off against identifying anew with the smaller one."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import gram_in_form_of, make_stream
from sysbags import cross_gram, identify
from sysbags.distances import METRICS
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.truncation import to_unit_variance, truncate
from sysbags.errors import ParameterError
from sysbags.systems.system import System

LARGEST = 6
STREAMS = [make_stream(np.random.default_rng(seed), frames=20 + seed, bins=10) for seed in range(5)]
# Both ways solve the same eigenproblem; where eigenvalues lie near each other their vectors are less sure.
TOLERANCE = 1e-7


def identified(order, kernel="chi2"):
    systems = [identify(stream, order=order, kernel=kernel) for stream in STREAMS]
    return systems, cross_gram(systems)


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya", "intersection", "linear"])
@pytest.mark.parametrize("order", [1, 3, 5])
def test_distances_and_blocks_are_those_of_the_smaller_order(kernel, order):
    truncated, gram = truncate(*identified(LARGEST, kernel), order)
    systems, expected = identified(order, kernel)
    for metric in METRICS:
        weights = {"lambda_a": 0.7, "lambda_mu": 3.0} if metric == "alignment" else {}
        np.testing.assert_allclose(
            distance_matrix(gram_in_form_of(metric, gram), metric, **weights),
            distance_matrix(gram_in_form_of(metric, expected), metric, **weights),
            atol=TOLERANCE,
        )
    # An eigenvector has a sign that round-off may turn.
    np.testing.assert_allclose(np.abs(gram.observer), np.abs(expected.observer), atol=TOLERANCE)
    np.testing.assert_allclose(gram.mean, expected.mean, atol=1e-12)
    for system, expected_system in zip(truncated, systems, strict=True):
        np.testing.assert_allclose(
            np.abs(system.transition), np.abs(expected_system.transition), atol=TOLERANCE
        )
        np.testing.assert_allclose(np.abs(system.states), np.abs(expected_system.states), atol=TOLERANCE)
        np.testing.assert_allclose(system.eigenvalues, expected_system.eigenvalues, rtol=1e-9)
        np.testing.assert_allclose(system.observer_gram, np.eye(order), atol=1e-8)
        assert system.explained == pytest.approx(expected_system.explained, rel=1e-9)
        assert system.residual == pytest.approx(expected_system.residual, rel=1e-6)


def test_the_gram_is_that_of_the_systems():
    systems, gram = truncate(*identified(LARGEST), 2)
    again = cross_gram(systems)
    for first, second in [
        (gram.observer, again.observer),
        (gram.mean, again.mean),
        (gram.rows.transition, again.rows.transition),
        (gram.rows.observer_gram, again.rows.observer_gram),
        (gram.rows.mean_norm, again.rows.mean_norm),
        (gram.rows.orders, again.rows.orders),
    ]:
        np.testing.assert_allclose(first, second, atol=1e-12)
    assert gram.symmetric


def test_smaller_systems_stay_as_they_are():
    systems = [identify(stream, order=order) for stream, order in zip(STREAMS, [2, 6, 4, 3, 1], strict=True)]
    truncated, gram = truncate(systems, cross_gram(systems), 3)
    assert [system.order for system in truncated] == gram.rows.orders.tolist() == [2, 3, 3, 3, 1]
    assert [truncated[i] is systems[i] for i in range(5)] == [True, False, False, True, True]
    expected = cross_gram([identify(s, order=n) for s, n in zip(STREAMS, [2, 3, 3, 3, 1], strict=True)])
    np.testing.assert_allclose(distance_matrix(gram), distance_matrix(expected), atol=TOLERANCE)


def test_the_full_order_changes_nothing():
    systems, gram = identified(4)
    truncated, same = truncate(systems, gram, 4)
    assert truncated == systems
    np.testing.assert_array_equal(same.observer, gram.observer)


def test_mistakes():
    systems, gram = identified(3)
    bare = [System(s.transition, s.samples, s.alpha, s.beta) for s in systems]
    for arguments, sentence in [
        ((systems, gram, 4), "order is 4, but the largest among the systems is 3"),
        ((systems, gram, 0), "order is 0, but it must be a whole number"),
        ((systems[:2], gram, 2), "gram must be the CrossGram of the 2 systems"),
        ((systems, cross_gram(systems, systems), 2), "gram must be the CrossGram of the 5 systems"),
        ((bare, gram, 2), "systems[0] has no states"),
    ]:
        with pytest.raises(ParameterError) as caught:
            truncate(*arguments)
        assert sentence in str(caught.value)


# --- the other normal form


@pytest.mark.parametrize("kernel", ["chi2", "linear"])
def test_the_unit_variance_form_from_the_same_gram(kernel):
    orders = (4, 3, 4, 5, 2)
    systems = [identify(stream, order, kernel) for stream, order in zip(STREAMS, orders, strict=True)]
    expected = [
        identify(stream, order, kernel, normal_form="unit-variance")
        for stream, order in zip(STREAMS, orders, strict=True)
    ]
    changed, gram = to_unit_variance(systems, cross_gram(systems))
    twin = cross_gram(expected)
    for name in ("observer", "mean"):
        np.testing.assert_allclose(getattr(gram, name), getattr(twin, name), rtol=0, atol=1e-12)
    for name in ("orders", "transition", "observer_gram", "mean_norm"):
        np.testing.assert_allclose(getattr(gram.rows, name), getattr(twin.rows, name), rtol=0, atol=1e-9)
    assert gram.rows.normal_form == twin.rows.normal_form == "unit-variance"
    for system, other in zip(changed, expected, strict=True):
        for name in ("transition", "alpha", "beta", "states", "observer_gram", "residual", "explained"):
            np.testing.assert_allclose(getattr(system, name), getattr(other, name), rtol=0, atol=1e-9)
        assert system.normal_form == "unit-variance"


def test_the_other_form_is_refused_without_states_or_twice():
    systems = [identify(stream, 2) for stream in STREAMS]
    gram = cross_gram(systems)
    changed, changed_gram = to_unit_variance(systems, gram)
    with pytest.raises(ParameterError, match="unit-variance form already"):
        to_unit_variance(changed, changed_gram)
    with pytest.raises(ParameterError, match="gram must be the CrossGram of the 2 systems"):
        to_unit_variance(systems[:2], gram)
    bare = [System(theta.transition, theta.samples, theta.alpha, theta.beta) for theta in systems]
    with pytest.raises(ParameterError, match=r"systems\[0\] is in the orthonormal form and has no states"):
        to_unit_variance(bare, gram)
