"""The sequential test: its bets, a slow twin, how rarely it errs, and what it finds."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from sysbags.watch.evidence import (
    CAP,
    MEMORY,
    POWERS,
    Evidence,
    independence,
    needed_evidence,
    poisson_interval,
    rank_bets,
)


def overlapping(rng, count, phases):
    """Scores of windows of which each shares rows with `phases` - 1 ones on either side."""
    noise = rng.standard_normal(count + phases - 1)
    return np.convolve(noise, np.ones(phases) / np.sqrt(phases), "valid")


def slow_values(normal, scores, phases, needed):
    """The statistic as its definition says: sums of products of bets from each window on."""
    every, first, share = np.concatenate([normal, scores]), len(normal), independence(normal, phases)
    bets = np.ones((len(every), every.shape[1], len(POWERS)))
    for i in range(first, len(every)):
        for s, score in enumerate(every[i]):
            before = [every[j, s] for j in range(i % phases, i, phases) if not np.isnan(every[j, s])]
            if not np.isnan(score):
                bets[i, s] = (
                    rank_bets(1 + sum(other >= score for other in before), 1 + len(before)) ** share[s]
                )
    values = []
    for i in range(first, len(every)):
        total = np.zeros(bets.shape[1:])
        for phase in range(phases):
            mine = [j for j in range(first, i + 1) if j % phases == phase]
            # A score that is not known makes no bet, so that none begins there either.
            for k, begin in enumerate(mine):
                known = ~np.isnan(every[begin])
                total[known] += np.prod(bets[mine[k:]], axis=0)[known]
        values.append(total.sum() / (phases * total.size))
    return np.array(values)


def test_the_mean_of_a_bet_is_1():
    for count in (2, 7, 50):
        bets = np.array([rank_bets(rank, count) for rank in range(1, count + 1)])
        np.testing.assert_allclose(bets.mean(axis=0), 1.0, rtol=1e-12)
        assert (np.diff(bets, axis=0) < 0.0).all()  # the more unusual, the more is won


@pytest.mark.parametrize("phases", [1, 4])
def test_values_are_those_of_the_definition(phases):
    rng = np.random.default_rng(phases)
    normal, scores = rng.standard_normal((27, 2)), rng.standard_normal((30, 2))
    normal[0, 1] = scores[7, 0] = np.nan
    evidence = Evidence(normal, phases, needed=1e9)
    values = [evidence.update(row) for row in scores]
    np.testing.assert_allclose(values, slow_values(normal, scores, phases, 1e9), rtol=1e-9)


def test_the_mean_of_the_statistic_is_the_number_of_windows():
    """Exactly, over all orders in which 3 normal and 3 further windows may come."""
    sums = []
    for order in itertools.permutations(range(6)):
        scores = np.array(order, dtype=float)[:, None]
        evidence = Evidence(scores[:3], 1, needed=1e9)
        np.testing.assert_array_equal(evidence.powers, 1.0)  # too few to know better
        for row in scores[3:]:
            evidence.update(row)
        sums.append(evidence.sums[0, 0])
    np.testing.assert_allclose(np.mean(sums, axis=0), 3.0, rtol=1e-12)


@pytest.mark.parametrize("phases", [1, 5])
def test_alarms_are_as_rare_as_promised(phases):
    """Windows that overlap, after few normal ones: at most one alarm in `needed` windows apart."""
    rng, needed, alarms, windows = np.random.default_rng(5), 40.0, 0, 0
    for _ in range(30):
        level = overlapping(rng, 60 + 500, phases)
        scores = np.column_stack([level, -level, level**2 + 0.5 * level])  # they depend on each other
        evidence = Evidence(scores[:60], phases, needed)
        for row in scores[60:]:
            if evidence.update(row) >= needed:
                alarms += 1
                evidence.reset()
            windows += 1
    expected = windows / phases / needed
    assert 0 < alarms <= chi2.ppf(0.9999, 2 * expected) / 2.0


def test_a_small_lasting_change_is_found_and_dated():
    found, starts, first = [], [], 400
    for seed in range(20):
        scores = overlapping(np.random.default_rng(seed), 700, 5)
        scores[first:] += 1.5
        evidence = Evidence(scores[:200, None], 5, needed=500.0)
        values = np.array([evidence.update(row) for row in scores[200:, None]][: first - 200 + 200])
        alarms = np.flatnonzero(values >= 500.0)
        found.append(bool(len(alarms)) and alarms[0] >= first - 200)
        starts.append(evidence.began - (len(scores) - 1 - first))
    assert np.mean(found) >= 0.9
    assert np.median(np.abs(starts)) <= 15


def test_evidence_is_limited_and_goes():
    rng = np.random.default_rng(1)
    evidence = Evidence(rng.standard_normal((100, 1)), 2, needed=50.0)
    for _ in range(100):
        evidence.update(np.array([9.0]), is_normal=False)
    assert evidence.value == pytest.approx(CAP * 50.0)
    assert evidence.kept.tolist() == [50, 50]
    values = [evidence.update(row) for row in rng.standard_normal((30, 1))]
    assert values[-1] < 10.0
    evidence.reset()
    assert evidence.value == 0.0
    for row in rng.standard_normal((4 * MEMORY, 1)):  # the oldest ones are forgotten
        evidence.update(row)
    assert evidence.normal.shape == (2, MEMORY, 1)
    assert not np.isnan(evidence.normal).any()


def test_thresholds_and_intervals():
    assert needed_evidence(1 / 7200, 10.0) == 720.0
    assert needed_evidence(1.0, 10.0) == 1.0
    low, high = poisson_interval(2, 120.0)
    assert (low * 120.0, high * 120.0) == pytest.approx((chi2.ppf(0.025, 4) / 2, chi2.ppf(0.975, 6) / 2))


def test_what_lasts_in_normal_video_is_no_evidence():
    """Scores of an autoregressive process: 1 of 6 windows tells something new."""
    alarms = {}
    for is_known in (False, True):
        rng, alarms[is_known] = np.random.default_rng(2), 0
        for _ in range(20):
            scores = np.empty((600, 1))
            scores[0] = rng.standard_normal()
            for t, noise in enumerate(rng.standard_normal((599, 1))):
                scores[t + 1] = 0.7 * scores[t] + np.sqrt(0.51) * noise
            evidence = Evidence(scores[:300], 1, needed=100.0)
            if not is_known:
                evidence.powers[:] = 1.0
            for row in scores[300:]:
                if evidence.update(row) >= 100.0:
                    alarms[is_known] += 1
                    evidence.reset()
    expected = 20 * 300 / 100.0
    assert alarms[False] > expected
    assert alarms[True] < 0.3 * alarms[False]
