"""Intervals against published values and simulation, McNemar's test and confidence against slow twins."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from sysbags.errors import ParameterError
from sysbags.statistics.rates import (
    confidence_summary,
    coverage,
    mcnemar,
    rate,
    reliability,
)


def items(right, total):
    return np.arange(total) < right


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_values(right, total, low, high):
    """Method 3 in table I of Newcombe, Statistics in Medicine 17 (1998) 857-872."""
    result = rate(items(right, total))
    assert (result.right, result.total) == (right, total)
    assert (round(result.low, 4), round(result.high, 4)) == (low, high)


@pytest.mark.parametrize("total", [1, 2, 7, 229])
def test_wilson_is_scipys(total):
    for right in {0, 1, total // 2, total - 1, total}:
        result = rate(items(right, total))
        expected = binomtest(right, total).proportion_ci(method="wilson")
        assert result.low == pytest.approx(expected.low, abs=1e-14)
        assert result.high == pytest.approx(expected.high, abs=1e-14)
        assert 0.0 <= result.low <= result.share <= result.high <= 1.0


def test_nothing_and_everything_right():
    none, every = rate(items(0, 12)), rate(items(12, 12))
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(1.0 - every.low, abs=1e-15)


@pytest.mark.parametrize("right", [0, 1, 4, 8, 12])
@pytest.mark.parametrize("copies", [2, 5])
def test_copies_tell_nothing(right, copies):
    distinct, repeated = rate(items(right, 12)), np.repeat(items(right, 12), copies)
    result = rate(repeated, np.repeat(np.arange(12), copies))
    assert (result.low, result.high) == (pytest.approx(distinct.low), pytest.approx(distinct.high))
    assert result.total == 12 * copies
    assert result.high - result.low > rate(repeated).high - rate(repeated).low + 0.02


@pytest.mark.parametrize("right", [0, 5, 12])
def test_groups_of_one_change_nothing(right):
    hits = items(right, 12)
    assert rate(hits, np.arange(12)) == rate(hits)


def test_no_more_than_all_items():
    """Groups that are more alike to each other than chance would have it do not narrow the interval."""
    hits = np.tile([True, False], 10)
    assert rate(hits, np.repeat(np.arange(10), 2)) == rate(hits)


def test_one_group_is_one_item():
    result, single = rate(items(3, 4), [0, 0, 0, 0]), rate([True])
    assert result.high - result.low > 0.7
    assert rate([True] * 4, [0, 0, 0, 0]).low == single.low


def test_intervals_cover_where_errors_come_in_groups():
    """60 groups of 4, of which the share right varies: intraclass correlation 1/2, design effect 2.5."""
    rng, share, draws = np.random.default_rng(0), 0.7, 1500
    groups = np.repeat(np.arange(60), 4)
    covered, naive, sizes = 0, 0, []
    for _ in range(draws):
        # A beta distribution of a + b = 1 has the intraclass correlation 1 / (a + b + 1).
        hits = rng.random(240) < rng.beta(share, 1.0 - share, size=60)[groups]
        result, plain = rate(hits, groups), rate(hits)
        covered += result.low <= share <= result.high
        naive += plain.low <= share <= plain.high
        sizes.append(((plain.high - plain.low) / (result.high - result.low)) ** 2)
    # Three standard errors of a coverage of 95 % in 1500 draws are 1.7 points, and the variance is estimated.
    assert 0.925 <= covered / draws <= 0.967
    assert naive / draws < 0.85
    assert np.mean(sizes) == pytest.approx(1 / 2.5, rel=0.05)


def test_mcnemar_is_the_binomial_test():
    for ahead in range(13):
        for behind in range(13):
            first = np.repeat([True, False, True, False], [ahead, behind, 5, 3])
            second = np.repeat([False, True, True, False], [ahead, behind, 5, 3])
            expected = binomtest(ahead, ahead + behind).pvalue if ahead + behind else 1.0
            assert mcnemar(first, second) == pytest.approx(expected, rel=1e-12)
            assert mcnemar(second, first) == mcnemar(first, second)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: rate([]), "right must be a sequence of True and False"),
        (lambda: rate([0.5, 1.0]), "right must be a sequence of True and False"),
        (lambda: rate([True, False], [1]), "groups have shape (1,)"),
        (lambda: mcnemar([True], [True, False]), "there are 1 and 2 predictions"),
        (lambda: mcnemar([True], [1]), "second_right must be a sequence"),
    ],
)
def test_mistakes(call, sentence):
    with pytest.raises(ParameterError) as caught:
        call()
    assert sentence in str(caught.value)


def slow_bins(probabilities, codes, bins):
    """The definition: a bin from just above (m - 1) / bins to m / bins."""
    result = [[] for _ in range(bins)]
    for row, code in zip(probabilities, codes, strict=True):
        best = max(row)
        place = next(m for m in range(1, bins + 1) if best <= m / bins or m == bins)
        result[place - 1].append((best, row.index(best) == code and best > 0.0))
    return result


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 12))
def test_reliability_and_calibration_error(seed, classes, bins):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(classes, 0.5), 30)
    probabilities[:5] = np.eye(classes)[0]  # on the edge of the last bin
    probabilities[5] = 0.0  # without any prediction
    codes = rng.integers(0, classes, 30)
    found = reliability(probabilities, codes, bins)
    expected = [members for members in slow_bins(probabilities.tolist(), codes.tolist(), bins) if members]
    assert [row["count"] for row in found] == [len(members) for members in expected]
    for row, members in zip(found, expected, strict=True):
        assert (row["confidence"], row["accuracy"]) == pytest.approx(np.mean(members, axis=0))


def test_edges_of_bins_belong_below():
    tenths = np.arange(1, 11) / 10
    bins = reliability(np.column_stack([tenths, 0.0 * tenths]), np.zeros(10))
    assert [row["count"] for row in bins] == [1] * 10


def calibration_error(probabilities, codes):
    summary = confidence_summary(probabilities, probabilities, codes, np.arange(len(codes)))
    return summary["expected_calibration_error"]


def test_calibration_errors_by_hand():
    probabilities = np.repeat([[0.8, 0.2], [0.6, 0.4]], 10, axis=0)
    codes = np.array([0] * 8 + [1] * 2 + [0] * 6 + [1] * 4)
    assert calibration_error(probabilities, codes) == pytest.approx(0.0, abs=1e-15)
    assert calibration_error(probabilities, 1 - codes) == pytest.approx(0.4)
    probabilities[10:] = 0.9, 0.1  # right in 6 of 10
    assert calibration_error(probabilities, codes) == pytest.approx(0.15)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.9))
def test_coverage_of_sets(seed, alpha):
    rng = np.random.default_rng(seed)
    p_values, codes, groups = rng.random((20, 3)), rng.integers(0, 3, 20), rng.integers(0, 6, 20)
    found = coverage(p_values, codes, groups, alpha)
    sets = [{c for c in range(3) if row[c] > alpha} for row in p_values]
    covered = [code in chosen for code, chosen in zip(codes, sets, strict=True)]
    assert found["clips"] == pytest.approx(np.mean(covered))
    by_source = [np.mean([covered[k] for k in np.flatnonzero(groups == g)]) for g in set(groups.tolist())]
    assert found["sources"] == pytest.approx(np.mean(by_source))
    assert found["size"] == pytest.approx(np.mean([len(chosen) for chosen in sets]))
    assert found["empty"] == np.mean([not chosen for chosen in sets])
    assert coverage(p_values, codes, np.arange(20), alpha)["sources"] == pytest.approx(found["clips"])


def test_what_the_summary_holds():
    rng = np.random.default_rng(0)
    probabilities, p_values, codes = (
        rng.dirichlet(np.ones(3), 40),
        rng.random((40, 3)),
        rng.integers(0, 3, 40),
    )
    groups = np.arange(40) // 3
    summary = confidence_summary(probabilities, p_values, codes, groups)
    assert summary["reliability"] == reliability(probabilities, codes)
    for row, level in zip(summary["coverage"], (0.8, 0.9, 0.95), strict=True):
        assert row == {"level": level, **coverage(p_values, codes, groups, 1.0 - level)}
    json.dumps(summary, allow_nan=False)


def test_mistakes_in_confidence():
    with pytest.raises(ParameterError, match=r"shapes \(3, 2\) and \(2,\)"):
        reliability(np.ones((3, 2)), [0, 1])
    with pytest.raises(ParameterError, match="bins"):
        reliability(np.ones((3, 2)), [0, 1, 1], 0)
    with pytest.raises(ParameterError, match="alpha"):
        coverage(np.ones((3, 2)), [0, 1, 1], [0, 1, 2], 1.5)
