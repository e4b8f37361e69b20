"""Permutation tests of groups, against slow twins, SciPy and cases by hand."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
import scipy.stats

import sysbags
from sysbags.datasets import make_streams
from sysbags.errors import ParameterError
from sysbags.statistics import group_test, pairwise_group_tests

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


def slow_p(distances, labels, allowed):
    """All different arrangements that are allowed, from all permutations of the items."""
    different = {
        tuple(labels[i] for i in order) for order in permutations(range(len(labels))) if allowed(order)
    }
    values = [slow_f(distances, arrangement) for arrangement in different]
    observed = slow_f(distances, labels)
    return np.mean(np.array(values) >= SAME * observed), len(different)


@pytest.mark.parametrize("labels", ["aaabbb", "aabbbb", "aabbcc", "abbbbbb", "aaabbcc"])
@pytest.mark.parametrize("statistic", ["pseudo-f", "energy"])
def test_all_arrangements(labels, statistic):
    distances = squared(np.random.default_rng(len(labels)).standard_normal((len(labels), 2)))
    used = distances if statistic == "pseudo-f" else np.sqrt(distances)
    p, count = slow_p(used, labels, lambda order: True)
    test = group_test(distances, list(labels), statistic=statistic)
    assert (test.exact, test.arrangements, test.p_value) == (True, count, pytest.approx(p, abs=1e-12))
    assert test.value == pytest.approx(slow_f(used, labels), rel=1e-9)
    assert test.resolution == 1.0 / count


def test_arrangements_within_blocks():
    labels, blocks = "abaabbab", "uuvvwwww"
    distances = squared(np.random.default_rng(0).standard_normal(8))
    p, count = slow_p(
        distances, labels, lambda order: all(blocks[i] == blocks[k] for k, i in enumerate(order))
    )
    test = group_test(distances, list(labels), blocks=list(blocks))
    assert (test.exact, test.arrangements) == (True, count) == (True, 2 * 1 * 4)
    assert test.p_value == pytest.approx(p, abs=1e-12)


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


def test_energy_distance_of_scipy():
    """For two groups, the spread between them is their energy distance times n m / 2 (n + m)."""
    rng = np.random.default_rng(3)
    first, second = rng.standard_normal(5), 3.0 * rng.standard_normal(8)
    points = np.concatenate([first, second])
    test = group_test(squared(points), np.repeat([0, 1], [5, 8]), statistic="energy", n_permutations=10)
    total = np.abs(points[:, None] - points).sum() / (2 * 13)
    # SciPy has the root of half of the squared energy distance of Szekely.
    energy = 2.0 * scipy.stats.energy_distance(first, second) ** 2 / 2.0
    assert test.share * total == pytest.approx(energy * 5 * 8 / (2 * 13))


def test_energy_finds_a_spread_that_the_pseudo_f_cannot():
    rng = np.random.default_rng(4)
    points = np.concatenate([0.2 * rng.standard_normal((25, 2)), 2.0 * rng.standard_normal((25, 2))])
    points -= np.repeat([points[:25].mean(axis=0), points[25:].mean(axis=0)], 25, axis=0)  # equal means
    labels = np.repeat(["a", "b"], 25)
    by_mean, by_energy = (group_test(squared(points), labels, statistic=s) for s in ("pseudo-f", "energy"))
    assert by_mean.p_value > 0.9
    assert by_energy.p_value < 0.01


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


@pytest.mark.parametrize("design", ["items", "sources", "blocks"])
def test_p_values_are_uniform_where_nothing_differs(design):
    """300 tests: the distance of their distribution to the uniform one is that of Kolmogorov's test.

    P-values are multiples of 1 / 100, which adds at most that.
    """
    rng = np.random.default_rng({"items": 10, "sources": 11, "blocks": 12}[design])
    found = []
    for _ in range(300):
        points = rng.standard_normal((12, 2))
        labels, options = np.repeat([0, 1], 6), {}
        if design == "sources":  # clips of a source are nearly the same
            options["sources"] = np.repeat(np.arange(12), 3)
            points, labels = np.repeat(points, 3, axis=0), np.repeat(labels, 3)
            points = points + 0.01 * rng.standard_normal(points.shape)
        if design == "blocks":  # blocks are far apart
            labels, options["blocks"] = np.arange(12) % 2, np.arange(12) // 4
            points += 10.0 * options["blocks"][:, None]
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
    blocks = np.tile(np.arange(5), 3)
    tests = pairwise_group_tests(squared(points), labels)
    assert [test.groups for test in tests.tests] == [("a", "b"), ("a", "c"), ("b", "c")]
    for test, pair in zip(tests.tests, ("ab", "ac", "bc"), strict=True):
        chosen = np.isin(labels, list(pair))
        assert test == group_test(squared(points[chosen]), labels[chosen])
    assert tests.adjusted[1:] == pytest.approx([6 / 252, 6 / 252])
    options = {"statistic": "energy", "n_permutations": 50, "random_state": 3, "n_jobs": 2}
    chosen = np.isin(labels, ["a", "b"])
    random = pairwise_group_tests(squared(points), labels, **options)
    assert random.tests[0] == group_test(squared(points[chosen]), labels[chosen], **options)
    assert tests.summary().startswith("2 of 3 pairs of groups differ at level 0.05")
    blocked = pairwise_group_tests(squared(points), labels, blocks=blocks)
    assert [test.arrangements for test in blocked.tests] == [32, 32, 32]
    assert pairwise_group_tests(squared(points), labels, blocks=blocks).summary(0.01).endswith("holm.")


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
        (GOOD, [0, 0, 1], {}, "one for each of the 4 systems"),
        (GOOD, [0, 0, 0, 0], {}, "the number of groups in labels is 1 for 4 systems"),
        (GOOD, [0, 1, 2, 3], {}, "the number of groups in labels is 4 for 4 systems"),
        (GOOD, [0, 0, 1, 1], {"statistic": "t"}, "statistic is 't', but it must be one of 'pseudo-f'"),
        (GOOD, [0, 0, 1, 1], {"n_permutations": 0}, "n_permutations is 0"),
        (GOOD, [0, 0, 1, 1], {"sources": list("rsst")}, "source s has clips in more than one group"),
        (
            GOOD,
            [0, 0, 1, 1],
            {"sources": list("rrss"), "blocks": list("uvww")},
            "source r has clips in more than one block",
        ),
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
    with pytest.raises(ParameterError, match="correction is 'none', but it must be one of 'holm'"):
        pairwise_group_tests(GOOD, [0, 0, 1, 1], correction="none")
    with pytest.raises(
        TypeError, match=r"pairwise_group_tests\(\) got an unexpected keyword argument 'iters'"
    ):
        pairwise_group_tests(GOOD, [0, 0, 1, 1], iters=3)


def test_inputs_stay_as_they_are():
    distances, labels = GOOD.copy(), np.array([0, 0, 1, 1])
    for statistic, sources in product(("pseudo-f", "energy"), (None, [0, 1, 2, 2])):
        group_test(distances, labels, statistic=statistic, sources=sources)
    np.testing.assert_array_equal(distances, GOOD)
    np.testing.assert_array_equal(labels, [0, 0, 1, 1])
