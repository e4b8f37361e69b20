"""Which of two distances separates better: silhouettes, accuracies and sign flips."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_samples

import sysbags
from sysbags.datasets import make_streams
from sysbags.distances.pairwise import distance_matrix
from sysbags.errors import ParameterError
from sysbags.evaluate import leave_one_out
from sysbags.statistics import compare_distances, sign_flip_test, silhouette_values
from sysbags.statistics.rates import mcnemar


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


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9), st.booleans())
@settings(max_examples=60, deadline=None)
def test_all_signs(numbers, whole):
    values = [float(number) if whole else number / 7.0 for number in numbers]
    found = sign_flip_test(values)
    assert found.p_value == pytest.approx(slow_flips(values), abs=1e-12)
    assert (found.exact, found.arrangements) == (True, 2 ** len(values))


def test_the_same_as_scipy():
    values = np.random.default_rng(2).standard_normal(9) + 0.4
    expected = scipy.stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert sign_flip_test(values).p_value == pytest.approx(expected.pvalue, abs=1e-12)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 20))
def test_ones_are_the_test_of_mcnemar(ahead, behind, equal):
    differences = np.repeat([1.0, -1.0, 0.0], [ahead, behind, equal + 1])
    first, second = differences > 0, differences < 0
    found = sign_flip_test(differences)
    assert found.p_value == pytest.approx(mcnemar(first, second), rel=1e-9)
    assert found.exact


def test_random_signs():
    values = np.random.default_rng(3).standard_normal(13) + 0.3
    exact, drawn = (sign_flip_test(values, n_permutations=count) for count in (2**13, 2**13 - 1))
    assert (exact.exact, drawn.exact, drawn.arrangements) == (True, False, 2**13)
    # The standard deviation of a share of 8191 is at most 0.5 / 8191^(1/2) = 0.0055.
    assert abs(exact.p_value - drawn.p_value) < 4 * 0.0055
    assert sign_flip_test(values, n_permutations=500) == sign_flip_test(values, n_permutations=500)


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


def test_accuracies_of_systems_are_those_of_leave_one_out():
    streams, labels = make_streams(classes=4, per_class=5, frames=40, bins=10)
    sources = np.arange(20) // 2 * 10 + labels
    gram = sysbags.cross_gram([sysbags.identify(stream, order=3) for stream in streams])
    metrics = ("alignment", "sgot")
    matrices = [distance_matrix(gram, metric) for metric in metrics]
    for groups in (None, sources):
        test = compare_distances(*matrices, labels, score="accuracy", sources=groups)
        right = []
        for metric in metrics:
            one = leave_one_out(gram, labels, groups=groups, classifier="nearest-system", metric=metric)
            right.append(one.predictions == one.labels)
        assert (test.first, test.second) == (right[0].mean(), right[1].mean())
        assert test.difference == test.first - test.second
        if groups is None:
            assert test.p_value == pytest.approx(mcnemar(*right), rel=1e-9)
        assert test.exact
    silhouettes = compare_distances(*matrices, labels)
    expected = [silhouette_samples(np.sqrt(one), labels, metric="precomputed").mean() for one in matrices]
    assert (silhouettes.first, silhouettes.second) == pytest.approx(tuple(expected), abs=1e-12)


def test_a_clear_case_and_its_mirror():
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1], 10)
    good, bad = squared(rng.standard_normal(20) + 9 * labels), squared(rng.standard_normal(20))
    for score in ("silhouette", "accuracy"):
        forward, backward = (
            compare_distances(*pair, labels, score=score) for pair in ((good, bad), (bad, good))
        )
        assert forward.p_value == backward.p_value < 0.02
        assert forward.difference == -backward.difference > 0.2
        assert "is higher" in forward.summary()
        assert "is lower" in backward.summary()
    same = compare_distances(good, 7.0 * good, labels, score="accuracy")  # units do not matter
    assert (same.p_value, same.difference) == (1.0, 0.0)
    assert "is equal" in same.summary()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((squared([0, 1, 2]), squared([0, 1]), [0, 0, 1]), {}, "both must be of the same systems"),
        ((squared([0, 1, 2]), squared([0, 1, 2]), [0, 0, 0]), {}, "at least two of each"),
        ((squared([0, 1, 2]), squared([0, 1, 2]), [0, 0, 1]), {"sources": [0, 0, 0]}, "at least two of each"),
        ((squared([0, 1, 2]), -squared([0, 1, 2]), [0, 0, 1]), {}, "second holds a negative entry"),
        ((squared([0, 1, 2]),) * 2 + ([0, 0, 1],), {"score": "auc"}, "score is 'auc', but it must be one of"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(ParameterError) as error:
        compare_distances(*arguments, **options)
    assert message in str(error.value)


def test_bad_silhouettes_and_differences():
    with pytest.raises(ParameterError, match="a silhouette needs at least two"):
        silhouette_values(squared([0, 1]), [0, 0])
    with pytest.raises(ParameterError, match="differences is empty"):
        sign_flip_test([])
