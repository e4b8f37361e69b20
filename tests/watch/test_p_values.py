"""p-values by counting and by SciPy, and thresholds whose rate is known."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sysbags.watch.calibration import (
    LASTING,
    PEAKS,
    SMALLEST,
    clusters,
    combine_p_values,
    conformal_p_values,
    fit_tail,
    fit_tails,
    tail_p_values,
    threshold_for_rate,
)

numbers = st.floats(-100.0, 100.0)
with_ties = st.one_of(numbers, st.integers(-3, 3).map(float))


@given(normal=st.lists(with_ties, min_size=1, max_size=30), score=with_ties)
def test_conformal_p_values_by_counting(normal, score):
    expected = (1 + sum(value >= score for value in normal)) / (1 + len(normal))
    assert conformal_p_values(np.array([score]), np.array(normal)).tolist() == [expected]


@given(values=st.lists(with_ties, min_size=2, max_size=30))
def test_conformal_p_values_are_valid(values):
    # Exchangeable: each of the n + 1 values is equally likely to be the new one. So P(p <= a) is exactly the
    # share of the values whose p-value among the others is at most a.
    ordered = np.array(values)
    p = np.array([conformal_p_values(ordered[[i]], np.delete(ordered, i))[0] for i in range(len(ordered))])
    for a in np.unique(p):
        assert np.mean(p <= a) <= a + 1e-12
    if len(set(values)) == len(values):  # then p is uniform on 1 / (n + 1), ..., 1
        np.testing.assert_allclose(np.sort(p), np.arange(1, len(p) + 1) / len(p), rtol=1e-15)


@given(
    normal=st.lists(with_ties, min_size=1, max_size=5),
    overlap=st.integers(1, 6),
    scores=st.lists(with_ties, min_size=1, max_size=5),
    seed=st.integers(0, 100),
)
def test_overlap_averages_the_p_values_of_windows_apart(normal, overlap, scores, seed):
    rng = np.random.default_rng(seed)
    series = rng.permutation(np.repeat(normal, overlap))
    apart = [conformal_p_values(np.array(scores), series[k::overlap]) for k in range(overlap)]
    p = conformal_p_values(np.array(scores), series, overlap)
    np.testing.assert_allclose(p, np.mean(apart, axis=0), rtol=1e-13)
    # Valid where each set is exchangeable with the score: the mean of p-values that share a score.
    assert p.min() >= 1.0 / (1 + len(normal)) - 1e-12


def slow_clusters(values, gap):
    """Take the largest value that is left, and remove its neighbours, until nothing is left."""
    left, found = list(range(len(values))), []
    while left:
        best = max(left, key=lambda i: (values[i], -i))
        found.append(best)
        left = [i for i in left if abs(i - best) > gap]
    return sorted(found)


@settings(deadline=None)
@given(
    normal=arrays(float, st.tuples(st.integers(2, 60), st.integers(1, 3)), elements=with_ties),
    overlap=st.sampled_from([1, 5]),
    seed=st.integers(0, 100),
)
def test_tails_are_monotone_and_continuous(normal, overlap, seed):
    tails = fit_tails(normal, overlap)
    rng = np.random.default_rng(seed)
    scores = np.sort(np.concatenate([normal, rng.normal(0.0, 200.0, (50, normal.shape[1]))]), axis=0)
    p = tail_p_values(scores, tails)
    assert (np.diff(p, axis=0) <= 0.0).all()
    assert (p <= 1.0).all()
    assert (p >= SMALLEST).all()
    for s, tail in enumerate(tails.tails):
        conformal = conformal_p_values(scores[:, s], normal[:, s], overlap)
        below = scores[:, s] <= tail.start
        assert (p[below, s] >= conformal[below]).all()  # never less than what was counted
        # Just beyond the start, as many peaks are expected as were seen, each in as many windows as overlap.
        # The next number is at most 2e-14 away, and scales are at least 1e-6.
        just_above = np.full((1, normal.shape[1]), np.nextafter(tail.start, np.inf))
        share = tail.peaks * overlap / (overlap + len(normal))
        assert tail_p_values(just_above, tails)[0, s] == pytest.approx(share, rel=1e-4)


@given(values=st.lists(with_ties, min_size=2, max_size=60), gap=st.integers(0, 5))
def test_a_tail_is_that_of_the_highest_peaks(values, gap):
    heights = sorted((values[i] for i in slow_clusters(values, gap)), reverse=True)
    heights = heights * 2 if len(heights) == 1 else heights
    tail = fit_tail(np.array(values), gap)
    assert tail.peaks == tail.known == max(min(PEAKS, len(heights) // 4), 1)
    assert tail.start == heights[tail.peaks]
    excesses = [height - tail.start for height in heights[: tail.peaks]]
    smallest = 1e-6 * (1.0 + abs(tail.start))
    assert tail.scale == pytest.approx(max(np.mean(excesses), smallest), rel=1e-9)
    more = fit_tail(np.array(values), gap, prior=(10, 2.0))
    assert (more.start, more.peaks, more.known) == (tail.start, tail.peaks, tail.peaks + 10)
    assert more.scale == pytest.approx(max((sum(excesses) + 20.0) / more.known, smallest), rel=1e-9)
    for one in (tail, more):
        for expected in (one.peaks, 0.5, 1e-3):
            assert one.expected(one.level(expected)) == pytest.approx(expected, rel=1e-5)
        # With a scale that is known, high peaks are rarer.
        level = one.start + one.scale * np.array([0.0, 1.0, 5.0])
        np.testing.assert_allclose(one.likely(level), one.peaks * np.exp([0.0, -1.0, -5.0]), rtol=1e-9)
        assert (one.likely(level) <= one.expected(level) * (1.0 + 1e-9)).all()


def test_scores_that_are_not_known():
    normal = np.random.default_rng(0).normal(size=(100, 3))
    gaps = normal.copy()
    gaps[:20, 1], gaps[:, 2] = np.nan, np.nan
    tails, scores = fit_tails(gaps, 5), np.linspace(-3.0, 9.0, 20)[:, None] * np.ones(3)
    p = tail_p_values(scores, tails)
    np.testing.assert_array_equal(p[:, :1], tail_p_values(scores[:, :1], fit_tails(normal[:, :1], 5)))
    np.testing.assert_array_equal(p[:, 1:2], tail_p_values(scores[:, :1], fit_tails(normal[20:, 1:2], 5)))
    assert p[-1, 1] < 5 / (5 + 80)  # the smallest conformal one: it is beyond all normal scores
    assert (p[:, 2] == 1.0).all()  # nothing was seen, so nothing is unusual
    scores[3] = np.nan
    np.testing.assert_array_equal(np.isnan(tail_p_values(scores, tails)), np.isnan(scores))


@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 11)), elements=st.floats(1e-12, 1.0)))
def test_combination_by_the_distribution_of_cauchy(p):
    expected = scipy.stats.cauchy.sf(scipy.stats.cauchy.isf(np.minimum(p, 0.99)).mean(axis=1))
    combined = combine_p_values(p)
    np.testing.assert_allclose(combined, expected, rtol=1e-9)
    # Between the smallest and the largest, and what is not known changes nothing.
    assert (combined >= np.minimum(p, 0.99).min(axis=1) * (1 - 1e-9)).all()
    assert (combined <= p.max(axis=1) * (1 + 1e-9)).all()
    unknown = np.concatenate([p, np.full((len(p), 2), np.nan)], axis=1)
    np.testing.assert_allclose(combine_p_values(unknown), combined, rtol=1e-12)


def test_combination_of_extreme_p_values():
    p = np.array([[1e-300, 1.0, 1.0, 1.0], [1e-200, 1e-200, 1e-200, 1e-200], [1.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(combine_p_values(p), [4e-300, 1e-200, 0.99], rtol=1e-12)
    assert combine_p_values(np.full((2, 3), np.nan)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_combination_keeps_its_level(correlation):
    # Normal variables with one correlation. In the tail, p <= 0.001, Liu and Xie's approximation holds: the
    # share of 400,000 has a standard deviation of 5 %; for independent p-values it is exact but for the clip.
    rng = np.random.default_rng(0)
    common, own = rng.standard_normal((400_000, 1)), rng.standard_normal((400_000, 5))
    z = np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * own
    share = np.mean(combine_p_values(scipy.stats.norm.sf(z)) <= 0.001)
    assert 0.0008 <= share <= 0.0013


@given(values=st.lists(with_ties, min_size=1, max_size=40), gap=st.integers(0, 8))
def test_clusters_against_their_slow_twin(values, gap):
    series = np.array(values)
    places, heights = clusters(series, gap)
    assert places.tolist() == slow_clusters(values, gap)
    np.testing.assert_array_equal(heights, series[places])
    assert (np.diff(places) > gap).all()


@given(
    values=st.lists(with_ties, min_size=1, max_size=60),
    gap=st.integers(0, 5),
    rates=st.tuples(st.floats(1e-6, 10.0), st.floats(1e-6, 10.0)),
    seconds=st.floats(1.0, 1e5),
)
def test_thresholds_are_monotone_in_the_rate(values, gap, rates, seconds):
    often, seldom = (
        threshold_for_rate(np.array(values), gap, seconds, rate) for rate in sorted(rates, reverse=True)
    )
    assert seldom.high >= often.high - 1e-9
    for threshold, rate in ((often, max(rates)), (seldom, min(rates))):
        assert threshold.low <= threshold.high + 1e-9
        # The rate is inverted wherever it is that of the tail.
        if rate * seconds < threshold.tail.peaks:
            assert threshold.rate(threshold.high) == pytest.approx(rate, rel=1e-6)
        if LASTING * rate * seconds < threshold.tail.peaks:
            assert threshold.rate(threshold.low) == pytest.approx(LASTING * rate, rel=1e-6)


def test_a_rate_that_was_seen_needs_no_tail():
    values = np.random.default_rng(0).permutation(np.arange(100.0))
    for events in (20, 50, 99):
        threshold = threshold_for_rate(values, 0, 100.0, events / 100.0)
        assert np.count_nonzero(values > threshold.high) == events
    rates = [threshold_for_rate(values, 0, 100.0, 0.01).rate(u) for u in np.linspace(0.0, 200.0, 50)]
    assert (np.diff(rates) <= 0.0).all()


@pytest.mark.parametrize("asked", [3.0, 0.5, 0.05])
def test_the_rate_of_exponential_peaks(asked):
    # Of n exponential peaks with a scale that is not told, the K largest lie above the next one by
    # exponential amounts (Renyi). A new peak exceeds that one with mean probability (K + 1) / (n + 1), and,
    # averaged over the fitted scale, the threshold with asked / K of this. So the mean number of exceedances
    # among n new peaks is known exactly: it is 5 % above the one asked for, for K = 20.
    n, K, draws = 300, 20, 700
    rng = np.random.default_rng(0)
    counts = np.empty(draws)
    for draw in range(draws):
        thresholds = threshold_for_rate(7.0 * rng.exponential(size=n), 0, float(n), asked / n)
        counts[draw] = n * np.exp(-thresholds.high / 7.0)  # the mean number, given the threshold
    expected = asked * (K + 1) / K * n / (n + 1)
    assert abs(counts.mean() - expected) < 4.0 * counts.std() / np.sqrt(draws)


def test_series_with_too_few_peaks_to_fit():
    for values in ([2.0], [2.0, 2.0], [1.0, 5.0, 1.0]):
        threshold = threshold_for_rate(np.array(values), 1, 10.0, 0.01)
        assert np.isfinite(threshold.high)
        assert threshold.high >= max(values) - 1e-9 or threshold.tail.peaks == 1
        assert threshold.rate(threshold.high) == pytest.approx(0.01, rel=1e-6)
