"""Which of two distances separates better: silhouettes, accuracies and sign flips."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_samples

from sysbags.errors import ParameterError
from sysbags.statistics import compare_distances, silhouette_values
from sysbags.statistics.comparison import sign_flip_test


def squared(points):
    points = np.asarray(points, dtype=float).reshape(len(points), -1)
    return ((points[:, None] - points) ** 2).sum(axis=2)


@given(st.integers(0, 10_000), st.integers(2, 4))
@settings(max_examples=30, deadline=None)
def test_silhouettes_are_those_of_scikit_learn(seed, classes):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=8)])
    distances = squared(rng.standard_normal((len(labels), 2)))
    expected = silhouette_samples(np.sqrt(distances), labels, metric="precomputed")
    np.testing.assert_allclose(silhouette_values(distances, labels), expected, atol=1e-12)


def slow_silhouettes(roots, labels, sources):
    found = []
    for i, label in enumerate(labels):
        means = {}
        for other in sorted(set(labels)):
            near = [
                roots[i, j] for j in range(len(labels)) if labels[j] == other and sources[j] != sources[i]
            ]
            if near:
                means[other] = sum(near) / len(near)
        own = means.pop(label, None)
        if own is None or not means:
            found.append(0.0)
        else:
            nearest = min(means.values())
            found.append((nearest - own) / max(nearest, own))
    return found


def test_silhouettes_leave_the_own_source_out():
    rng = np.random.default_rng(1)
    labels, sources = list("aaaabbbbcc"), list("rrstuuvvww")
    distances = squared(rng.standard_normal((10, 2)))
    expected = slow_silhouettes(np.sqrt(distances), labels, sources)
    np.testing.assert_allclose(silhouette_values(distances, labels, sources=sources), expected, atol=1e-12)
    assert expected[-2:] == [0.0, 0.0]  # the only source of its class
    assert silhouette_values(np.zeros((4, 4)), [0, 0, 1, 1]).tolist() == [0.0] * 4


def slow_flips(differences):
    sums = [abs(np.dot(signs, differences)) for signs in product((1.0, -1.0), repeat=len(differences))]
    return np.mean(np.array(sums) >= abs(sum(differences)) - 1e-9)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_all_signs(numbers):
    values = np.array(numbers) / 7.0
    found = sign_flip_test(values, 1000)
    assert found.p_value == pytest.approx(slow_flips(values), abs=1e-12)
    assert (found.exact, found.arrangements) == (True, 2 ** len(values))


def test_the_same_as_scipy():
    values = np.random.default_rng(2).standard_normal(9) + 0.4
    expected = scipy.stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip_test(values, 1000).p_value == pytest.approx(expected.pvalue, abs=1e-12)


def test_random_signs():
    values = np.random.default_rng(3).standard_normal(13) + 0.3
    exact, drawn = (sign_flip_test(values, count) for count in (2**13, 2**13 - 1))
    assert (exact.exact, drawn.exact, drawn.arrangements) == (True, False, 2**13)
    # The standard deviation of a share of 8191 is at most 0.5 / 8191^(1/2) = 0.0055.
    assert abs(exact.p_value - drawn.p_value) < 4 * 0.0055
    assert sign_flip_test(values, 500) == sign_flip_test(values, 500)


def test_p_values_are_uniform_where_both_are_equally_good():
    """Two noisy views of the same points. 200 tests: Kolmogorov's 0.001 quantile is 1.95 / n^(1/2).

    The scores of items have other items in common, for which the tolerance has room; resolution 1 / 500.
    """
    rng = np.random.default_rng(4)
    labels, found = np.repeat([0, 1], 8), []
    for _ in range(200):
        points = rng.standard_normal((16, 2)) + labels[:, None]
        views = [squared(points + 0.5 * rng.standard_normal(points.shape)) for _ in range(2)]
        found.append(compare_distances(*views, labels, n_permutations=499, random_state=rng).p_value)
    assert scipy.stats.kstest(found, "uniform").statistic < 1.95 / np.sqrt(200) + 0.05


def test_a_clear_case_and_its_mirror():
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1], 10)
    good, bad = squared(rng.standard_normal(20) + 9 * labels), squared(rng.standard_normal(20))
    forward, backward = (compare_distances(*pair, labels) for pair in ((good, bad), (bad, good)))
    assert forward.p_value == backward.p_value < 0.02
    assert forward.difference == -backward.difference > 0.2
    assert "is higher" in forward.summary()
    assert "is lower" in backward.summary()
    expected = [silhouette_samples(np.sqrt(one), labels, metric="precomputed").mean() for one in (good, bad)]
    assert (forward.first, forward.second) == pytest.approx(tuple(expected), abs=1e-12)
    same = compare_distances(good, 4.0 * good, labels)  # units do not matter
    assert (same.p_value, same.difference) == (1.0, 0.0)
    assert "is equal" in same.summary()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((squared([0, 1, 2]), squared([0, 1]), [0, 0, 1]), {}, "both must be of the same systems"),
        ((squared([0, 1, 2]), squared([0, 1, 2]), [0, 0, 0]), {}, "at least two of each"),
        ((squared([0, 1, 2]), squared([0, 1, 2]), [0, 0, 1]), {"sources": [0, 0, 0]}, "at least two of each"),
        ((squared([0, 1, 2]), -squared([0, 1, 2]), [0, 0, 1]), {}, "second holds a negative entry"),
        ((squared([0, 1, 2]),) * 2 + ([0, 0, 1],), {"n_permutations": 0}, "n_permutations is 0"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(ParameterError) as error:
        compare_distances(*arguments, **options)
    assert message in str(error.value)


def test_bad_silhouettes():
    with pytest.raises(ParameterError, match="a silhouette needs at least two"):
        silhouette_values(squared([0, 1]), [0, 0])
