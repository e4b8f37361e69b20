"""Permutation tests of groups, against slow twins, SciPy and cases by hand."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import sysbags
from sysbags.datasets import make_streams
from sysbags.errors import ParameterError
from sysbags.statistics import group_test, pairwise_group_tests
from sysbags.statistics.p_values import holm

# Divisions that are equal but for their names have sums that differ by round-off.
SAME = 1.0 - 1e-9


def squared(points):
    points = np.asarray(points, dtype=float).reshape(len(points), -1)
    return ((points[:, None] - points) ** 2).sum(axis=2)


def slow_f(distances, labels):
    """The definition, by loops over pairs; for points this is the F of an analysis of variance."""
    labels = list(labels)
    items, groups = len(labels), sorted(set(labels))
    total = sum(distances[i, j] for i in range(items) for j in range(i)) / items
    within = 0.0
    for group in groups:
        own = [i for i in range(items) if labels[i] == group]
        within += sum(distances[i, j] for i in own for j in own if i > j) / len(own)
    return ((total - within) / (len(groups) - 1)) / (within / (items - len(groups)))


def slow_p(distances, labels):
    """All different arrangements, from all permutations of the items."""
    different = set(permutations(labels))
    values = [slow_f(distances, arrangement) for arrangement in different]
    observed = slow_f(distances, labels)
    return np.mean(np.array(values) >= SAME * observed), len(different)


@pytest.mark.parametrize("labels", ["aaabbb", "aabbbb", "aabbcc", "abbbbbb", "aaabbcc"])
def test_all_arrangements(labels):
    distances = squared(np.random.default_rng(len(labels)).standard_normal((len(labels), 2)))
    p, count = slow_p(distances, labels)
    test = group_test(distances, list(labels))
    assert (test.exact, test.arrangements, test.p_value) == (True, count, pytest.approx(p, abs=1e-12))
    assert test.value == pytest.approx(slow_f(distances, labels), rel=1e-9)
    assert test.resolution == 1.0 / count


def test_sources_keep_a_common_label():
    rng = np.random.default_rng(1)
    sources = np.array(["r", "r", "r", "s", "t", "t", "u", "u", "v"])
    group_of = {"r": "a", "s": "a", "t": "b", "u": "b", "v": "b"}
    labels = [group_of[source] for source in sources]
    distances = squared(rng.standard_normal((9, 3)))
    names = sorted(group_of)
    values = []
    for chosen in set(permutations([group_of[name] for name in names])):
        arrangement = dict(zip(names, chosen, strict=True))
        values.append(slow_f(distances, [arrangement[source] for source in sources]))
    test = group_test(distances, labels, sources=sources)
    assert (test.exact, test.arrangements) == (True, 10)
    observed = slow_f(distances, labels)
    assert test.p_value == pytest.approx(np.mean(np.array(values) >= SAME * observed), abs=1e-12)
    assert test.value == pytest.approx(observed)


def test_the_same_as_scipy():
    """One bin: F of the analysis of variance, and its permutation test."""
    rng = np.random.default_rng(2)
    groups = [rng.standard_normal(4), 0.8 + rng.standard_normal(4)]
    points = np.concatenate(groups)
    test = group_test(squared(points), np.repeat([0, 1], 4))
    assert test.value == pytest.approx(scipy.stats.f_oneway(*groups).statistic)
    expected = scipy.stats.permutation_test(
        groups, lambda a, b: scipy.stats.f_oneway(a, b).statistic, alternative="greater", n_resamples=np.inf
    )
    assert test.p_value == pytest.approx(expected.pvalue, abs=1e-12)


def test_random_permutations_are_close_to_all_of_them():
    distances = squared(np.random.default_rng(5).standard_normal(10) + np.repeat([0.0, 0.9], 5))
    labels = np.repeat(["a", "b"], 5)
    exact = group_test(distances, labels)
    drawn = group_test(distances, labels, n_permutations=251)  # one fewer than there are
    assert exact.arrangements == 252
    assert (drawn.exact, drawn.arrangements, drawn.resolution) == (False, 252, 1 / 252)
    # The standard deviation of a share of 251 is at most 0.5 / 251^(1/2) = 0.032.
    assert abs(drawn.p_value - exact.p_value) < 4 * 0.032
    again = group_test(distances, labels, n_permutations=251, n_jobs=2)
    assert again == drawn


def test_the_same_for_each_number_of_threads_and_another_for_another_seed():
    distances = squared(np.random.default_rng(6).standard_normal((40, 2)))
    labels = np.arange(40) % 4
    one, two, other = (
        group_test(distances, labels, n_permutations=1999, n_jobs=jobs, random_state=seed)
        for jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    assert one == two
    assert one.p_value != other.p_value


@pytest.mark.parametrize("design", ["items", "sources"])
def test_p_values_are_uniform_where_nothing_differs(design):
    """300 tests: the distance of their distribution to the uniform one is that of Kolmogorov's test.

    P-values are multiples of 1 / 100, which adds at most that.
    """
    rng = np.random.default_rng({"items": 10, "sources": 11}[design])
    found = []
    for _ in range(300):
        points = rng.standard_normal((12, 2))
        labels, options = np.repeat([0, 1], 6), {}
        if design == "sources":  # clips of a source are nearly the same
            options["sources"] = np.repeat(np.arange(12), 3)
            points, labels = np.repeat(points, 3, axis=0), np.repeat(labels, 3)
            points = points + 0.01 * rng.standard_normal(points.shape)
        test = group_test(squared(points), labels, n_permutations=99, random_state=rng, **options)
        found.append(test.p_value)
    # The 0.001 quantile of Kolmogorov's distribution is 1.95 / n^(1/2).
    assert scipy.stats.kstest(found, "uniform").statistic < 1.95 / np.sqrt(300) + 0.01
    assert np.mean(np.array(found) <= 0.1) <= 0.1 + 3.1 * np.sqrt(0.1 * 0.9 / 300)


def test_without_sources_clips_of_one_recording_mislead():
    """Eight recordings in two groups that do not differ, ten clips of each: how often p is at most 0.05.

    Clips as items make F about ten times too large. Sources have the promised rate, but for the three
    standard deviations of a share of 100.
    """
    rng = np.random.default_rng(13)
    sources = np.repeat(np.arange(8), 10)
    labels = sources % 2
    items, recordings = [], []
    for _ in range(100):
        points = rng.standard_normal((8, 2))[sources] + 0.01 * rng.standard_normal((80, 2))
        items.append(group_test(squared(points), labels, n_permutations=99, random_state=rng).p_value)
        recordings.append(group_test(squared(points), labels, sources=sources).p_value)
    assert np.mean(np.array(items) <= 0.05) > 0.3
    assert np.mean(np.array(recordings) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)


def test_systems_of_streams():
    streams, labels = make_streams(classes=2, per_class=6, frames=60, bins=12, noise=0.5)
    systems = [sysbags.identify(stream, order=4) for stream in streams]
    test = group_test(sysbags.pairwise_distances(systems), labels)
    assert test.p_value == 2 * test.resolution  # the clearest of all divisions, by both names
    assert "the groups 0 (6), 1 (6)" in test.summary()
    assert "924 arrangements, all" in test.summary()


def test_pairs_of_groups():
    rng = np.random.default_rng(7)
    labels = np.repeat(["a", "b", "c"], 5)
    points = rng.standard_normal(15) + np.repeat([0.0, 0.0, 20.0], 5)
    tests = pairwise_group_tests(squared(points), labels)
    assert [test.groups for test in tests.tests] == [("a", "b"), ("a", "c"), ("b", "c")]
    for test, pair in zip(tests.tests, ("ab", "ac", "bc"), strict=True):
        chosen = np.isin(labels, list(pair))
        assert test == group_test(squared(points[chosen]), labels[chosen])
    assert tests.adjusted[1:] == pytest.approx([6 / 252, 6 / 252])
    options = {"n_permutations": 50, "random_state": 3, "n_jobs": 2}
    chosen = np.isin(labels, ["a", "b"])
    random = pairwise_group_tests(squared(points), labels, **options)
    assert random.tests[0] == group_test(squared(points[chosen]), labels[chosen], **options)
    assert tests.summary().startswith("2 of 3 pairs of groups differ at level 0.05")
    assert tests.summary(0.01).endswith("holm.")
    sources = np.arange(15) // 5 * 5 + np.array([0, 0, 1, 2, 2] * 3)
    by_source = pairwise_group_tests(squared(points), labels, sources=sources)
    assert [test.arrangements for test in by_source.tests] == [20, 20, 20]  # 6 over 3


def test_no_spread():
    same = group_test(np.zeros((4, 4)), [0, 0, 1, 1])
    assert np.isnan(same.value)
    assert same.p_value == 1.0
    apart = group_test(squared([0.0, 0.0, 1.0, 1.0]), [0, 0, 1, 1])
    assert (apart.value, apart.share, apart.p_value) == (np.inf, 1.0, 2 / 6)


GOOD = squared([0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("distances", "labels", "options", "message"),
    [
        (GOOD[:3], [0, 0, 1, 1], {}, "distances has shape (3, 4), but it must be a square matrix"),
        (-GOOD, [0, 0, 1, 1], {}, "distances holds a negative entry"),
        (np.triu(GOOD), [0, 0, 1, 1], {}, "distances must be symmetric with zeros on the diagonal"),
        (GOOD + np.eye(4), [0, 0, 1, 1], {}, "distances must be symmetric with zeros on the diagonal"),
        (np.where(GOOD == 9, np.inf, GOOD), [0, 0, 1, 1], {}, "every entry must be finite"),
        (GOOD, [0, 0, 1], {}, "one for each of the 4 items"),
        (GOOD, [0, 0, 0, 0], {}, "the number of groups in labels is 1 for 4 systems"),
        (GOOD, [0, 1, 2, 3], {}, "the number of groups in labels is 4 for 4 systems"),
        (GOOD, [0, 0, 1, 1], {"n_permutations": 0}, "n_permutations is 0"),
        (GOOD, [0, 0, 1, 1], {"sources": list("rsst")}, "source s has clips in more than one group"),
    ],
)
def test_bad_input(distances, labels, options, message):
    with pytest.raises(ParameterError) as error:
        group_test(distances, labels, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_bad_pairs():
    with pytest.raises(ParameterError, match="labels have one group"):
        pairwise_group_tests(GOOD, [0, 0, 0, 0])


def test_inputs_stay_as_they_are():
    distances, labels = GOOD.copy(), np.array([0, 0, 1, 1])
    for sources in (None, [0, 1, 2, 2]):
        group_test(distances, labels, sources=sources)
    np.testing.assert_array_equal(distances, GOOD)
    np.testing.assert_array_equal(labels, [0, 0, 1, 1])


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_holm_rejects_step_by_step(p_values):
    """The smallest is rejected at level a if it is at most a / m, the next if at most a / (m - 1), ..."""
    m, adjusted = len(p_values), holm(p_values)
    assert np.all((adjusted >= np.asarray(p_values)) & (adjusted <= 1.0))
    for level in (0.01, 0.05, 0.3, 0.9):
        if np.any(np.abs(adjusted - level) < 1e-9):
            continue  # decided by round-off
        rejected = np.zeros(m, dtype=bool)
        for step, k in enumerate(np.argsort(p_values, kind="stable")):
            if p_values[k] * (m - step) > level:
                break
            rejected[k] = True
        np.testing.assert_array_equal(adjusted <= level, rejected)
