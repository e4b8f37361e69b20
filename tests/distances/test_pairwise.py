"""The distances as a metric on real systems, and all pairs of a collection against one pair at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from helpers import gram_in_form_of, in_form_of, make_system, orthogonal
from sysbags.distances import METRICS
from sysbags.distances.alignment_matrix import PAIRS_PER_CHUNK, alignment_matrix
from sysbags.distances.pairwise import distance_matrix

# The same examples on every run: that the best of many starts is the global optimum is likely, not certain.
SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
SEEDS, ORDERS = st.integers(0, 10**6), st.integers(1, 4)
WEIGHTS = st.sampled_from([(0.25, 0.0), (0.0, 0.0), (2.0, 10.0), (0.25, 1.0)])
ONE_PAIR = {
    "alignment": lambda first, second: sysbags.alignment_distance(first, second, 0.5, 2.0),
    "martin": sysbags.martin_distance,
    "max-singular-value": sysbags.max_singular_value_distance,
    "sgot": sysbags.sgot_distance,
}


@given(SEEDS, ORDERS, ORDERS, WEIGHTS)
@SETTINGS
def test_symmetry_and_bounds(seed, order, other_order, weights):
    first, second = make_system(seed, order=order), make_system([seed, 1], order=other_order)
    forward, backward = sysbags.align(first, second, *weights), sysbags.align(second, first, *weights)
    assert abs(forward.distance - backward.distance) <= 1e-9
    assert 0.0 <= forward.lower_bound <= forward.distance
    assert 0.0 <= backward.lower_bound <= forward.distance + 1e-9
    assert abs(sum(forward.parts.values()) - forward.distance) <= 1e-15 * (1.0 + forward.distance)
    assert all(part >= 0.0 for part in forward.parts.values())
    # Each transition has norm at most 1, each observer is orthonormal: nothing is farther apart than this.
    most = weights[0] * 2.0 * (order + other_order) + order + other_order + forward.parts["mean"]
    assert forward.distance <= most


@given(SEEDS, ORDERS, WEIGHTS)
@SETTINGS
def test_triangle_inequality_of_the_root(seed, order, weights):
    systems = [make_system([seed, k], order=order) for k in range(3)]
    roots = np.sqrt(sysbags.pairwise_distances(systems, lambda_a=weights[0], lambda_mu=weights[1]))
    # The root turns a round-off of 1e-15 into 3e-8 near 0.
    for i, j, k in itertools.permutations(range(3)):
        assert roots[i, k] <= roots[i, j] + roots[j, k] + 1e-7


def test_triangle_inequality_may_fail_for_different_orders():
    """Each pair is padded to its own larger order, and more zeros allow more rotations."""

    def system(transition, first):
        alpha = 0.1 * np.eye(4)[:, first : first + len(transition)]
        options = {"kernel": "linear", "normal_form": "unit-variance"}
        return sysbags.System(transition, np.eye(4), alpha, np.full(4, 0.25), **options)

    systems = [system(np.diag(values), first) for values, first in (([0.9], 0), ([0.9, 0.0], 0), ([-0.9], 2))]
    roots = np.sqrt(sysbags.pairwise_distances(systems, lambda_a=0.25))
    # (lambda_a 1.8^2 + 0.02)^(1/2), and the way by the second system, which is 0.15 shorter.
    assert abs(roots[0, 2] - np.sqrt(0.83)) < 1e-12
    assert roots[0, 1] + roots[1, 2] < 0.77


@given(SEEDS, ORDERS, WEIGHTS)
@SETTINGS
def test_triangle_inequality_is_sharp_for_relatives(seed, order, weights):
    # A system, its rotated copy and a third: both sides of the inequality are equal.
    rng = np.random.default_rng(seed)
    first, second = make_system(seed, order=order), make_system([seed, 1], order=order)
    copy = first.rotate(orthogonal(order, rng))
    assert sysbags.alignment_distance(first, copy, *weights) <= 1e-9
    direct, around = (sysbags.alignment_distance(theta, second, *weights) for theta in (first, copy))
    assert abs(np.sqrt(direct) - np.sqrt(around)) <= 1e-7


@given(SEEDS, ORDERS, ORDERS, WEIGHTS)
@SETTINGS
def test_invariance_under_rotations_of_either_side(seed, order, other_order, weights):
    rng = np.random.default_rng(seed)
    first, second = make_system(seed, order=order), make_system([seed, 1], order=other_order)
    turned = first.rotate(orthogonal(order, rng)), second.rotate(orthogonal(other_order, rng))
    plain = sysbags.alignment_distance(first, second, *weights)
    assert abs(sysbags.alignment_distance(*turned, *weights) - plain) <= 1e-8
    for metric in ("martin", "max-singular-value", "sgot"):
        expected = sysbags.pairwise_distances([first], [second], metric)
        rotated = sysbags.pairwise_distances([turned[0]], [turned[1]], metric)
        np.testing.assert_allclose(rotated, expected, atol=1e-8)


def test_the_mean_part_by_hand():
    # mu_i' mu_j = beta_i' k(Y_i, Y_j) beta_j; the states have no say in it.
    first, second = make_system(0, order=2), make_system(1, order=3)
    k = [
        [sysbags.kernels.kernel_matrix(a.samples, b.samples) for b in (first, second)]
        for a in (first, second)
    ]
    a, b = first.beta, second.beta
    expected = a @ k[0][0] @ a + b @ k[1][1] @ b - 2.0 * (a @ k[0][1] @ b)
    alignment = sysbags.align(first, second, lambda_mu=3.0)
    np.testing.assert_allclose(alignment.parts["mean"], 3.0 * expected, atol=1e-14)
    without = sysbags.pairwise_distances([first], [second])
    np.testing.assert_allclose(
        sysbags.pairwise_distances([first], [second], lambda_mu=3.0) - without, 3.0 * expected, atol=1e-13
    )


@pytest.mark.parametrize("metric", ONE_PAIR)
def test_all_pairs_are_each_pair(metric):
    systems = [make_system([7, k], order=order) for k, order in enumerate((2, 3, 1, 4, 2, 3))]
    others = [make_system([8, k], order=order) for k, order in enumerate((1, 5, 2))]
    options = {"lambda_a": 0.5, "lambda_mu": 2.0}
    square = sysbags.pairwise_distances(systems, metric=metric, **options)
    oblong = sysbags.pairwise_distances(systems, others, metric, **options)
    assert square.shape == (6, 6)
    assert oblong.shape == (6, 3)
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_array_equal(np.diag(square), np.zeros(6))
    expected = [
        [ONE_PAIR[metric](first, second) if first is not second else 0.0 for second in systems]
        for first in systems
    ]
    # Martin adds logarithms of small determinants; the others lose a few ulp.
    np.testing.assert_allclose(square, expected, rtol=1e-9, atol=1e-9)
    expected = [[ONE_PAIR[metric](first, second) for second in others] for first in systems]
    np.testing.assert_allclose(oblong, expected, rtol=1e-9, atol=1e-9)
    # Compared with themselves as if they were others, the diagonal is worked out too.
    again = sysbags.pairwise_distances(systems, systems, metric, **options)
    np.testing.assert_allclose(again, square, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def large():
    """Two orders with more pairs each than a chunk holds, so that several threads have work."""
    return [make_system([9, k], order=2 + k % 2, frames=10, bins=5) for k in range(48)]


@pytest.mark.parametrize("metric", METRICS)
def test_same_bits_for_each_number_of_threads(large, metric):
    pairs_of_order_two = 24 * 23 // 2
    assert pairs_of_order_two > PAIRS_PER_CHUNK
    large = in_form_of(metric, large)
    single, threaded, again = (
        sysbags.pairwise_distances(large, metric=metric, lambda_mu=1.0, n_jobs=n_jobs) for n_jobs in (1, 2, 1)
    )
    assert np.array_equal(single, threaded)
    assert np.array_equal(single, again)
    halves = [sysbags.pairwise_distances(large[:30], large[18:], metric, n_jobs=n_jobs) for n_jobs in (1, 2)]
    assert np.array_equal(*halves)


@pytest.mark.parametrize("metric", METRICS)
def test_a_pair_does_not_depend_on_its_company(large, metric):
    gram = sysbags.cross_gram(in_form_of(metric, large))
    everyone = distance_matrix(gram, metric)
    indices = np.array([1, 40, 17, 30])
    np.testing.assert_allclose(
        distance_matrix(gram.subset(indices), metric),
        everyone[np.ix_(indices, indices)],
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        distance_matrix(gram.subset(indices, [0, 5]), metric),
        everyone[np.ix_(indices, [0, 5])],
        rtol=1e-9,
        atol=1e-9,
    )


def test_seeds(large):
    few = large[:8]
    plain = sysbags.pairwise_distances(few)
    for seed in (3, np.int64(5), None, np.random.default_rng(0), np.random.RandomState(0)):
        np.testing.assert_allclose(sysbags.pairwise_distances(few, random_state=seed), plain, atol=1e-9)


def test_inputs_stay_as_they_are(large):
    few = large[:5]
    gram = sysbags.cross_gram(few)
    parts = [gram.observer, gram.mean, gram.rows.transition, gram.rows.observer_gram, gram.rows.mean_norm]
    part_copies = [part.copy() for part in parts]
    arrays = [array for theta in few for array in (theta.transition, theta.samples, theta.alpha, theta.beta)]
    array_copies = [array.copy() for array in arrays]
    for metric in METRICS:
        distance_matrix(gram_in_form_of(metric, gram), metric)
        sysbags.pairwise_distances(in_form_of(metric, few), metric=metric, lambda_mu=1.0)
    for old, new in zip(part_copies + array_copies, parts + arrays, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("kernel", ["linear", "bhattacharyya", "intersection"])
def test_other_kernels(kernel):
    streams = [make_system([11, k], order=1).samples for k in range(3)]
    systems = [sysbags.identify(stream, order=2, kernel=kernel) for stream in streams]
    expected = [[ONE_PAIR["alignment"](first, second) for second in systems] for first in systems]
    distances = sysbags.pairwise_distances(systems, lambda_a=0.5, lambda_mu=2.0)
    np.testing.assert_allclose(distances, expected, atol=1e-9)
    assert distances[0, 1] > 1e-3


def test_one_system_alone():
    (theta,) = [make_system(0, order=2)]
    for metric in METRICS:
        distances = sysbags.pairwise_distances(in_form_of(metric, [theta]), metric=metric)
        np.testing.assert_array_equal(distances, [[0.0]])
    assert alignment_matrix(sysbags.cross_gram([theta], [theta]))[0, 0] <= 1e-12
