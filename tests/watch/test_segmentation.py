"""Change points, their penalty and the groups of phases, against slow twins."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from sysbags.errors import ParameterError
from sysbags.watch import segmentation
from sysbags.watch.segmentation import change_penalty, change_points, group_phases, kernel_features


def steps(seed, sizes, spread=1.0):
    """Noise around a mean that jumps."""
    rng = np.random.default_rng(seed)
    means = 3.0 * rng.standard_normal((len(sizes), 2))
    return np.repeat(means, sizes, axis=0) + spread * rng.standard_normal((sum(sizes), 2))


def cost(points, changes):
    """The scatter from all pairs of points."""
    total = 0.0
    for start, stop in itertools.pairwise([0, *changes, len(points)]):
        own = points[start:stop]
        total += np.sum((own[:, None] - own) ** 2) / (2 * len(own))
    return total


def best(points, penalty, min_size):
    """The best segmentation among all of them."""
    candidates = [
        changes
        for count in range(len(points) // min_size)
        for changes in itertools.combinations(range(1, len(points)), count)
        if min(np.diff([0, *changes, len(points)])) >= min_size
    ]
    return min(candidates, key=lambda changes: cost(points, changes) + penalty * len(changes))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("min_size", [1, 2, 3])
def test_segmentation_is_optimal(seed, min_size):
    points = steps(seed, [4, 3, 4])
    for penalty in (0.5, 2.0, 8.0):
        assert change_points(points, penalty, min_size) == list(best(points, penalty, min_size))


def test_features_reproduce_the_kernel():
    points = steps(1, [9, 9])
    squared = np.sum((points[:, None] - points) ** 2, axis=-1)
    features = kernel_features(squared)
    median = np.median(squared[np.triu_indices(18, 1)])
    # The Gaussian kernel is positive definite, so that nothing is lost but round-off.
    np.testing.assert_allclose(features @ features.T, np.exp(-squared / median), atol=1e-10)


def test_equal_items_have_equal_features():
    features = kernel_features(np.zeros((4, 4)))
    np.testing.assert_allclose(features @ features.T, 1.0, atol=1e-12)


def test_bandwidth_ignores_overlapping_items():
    line = np.arange(6.0)
    squared = (line[:, None] - line) ** 2
    features = kernel_features(squared, lag=4)
    assert -np.log(features[0] @ features[1]) == pytest.approx(1.0 / 16.0)  # of 16, 16 and 25


def test_largest_gain_against_all_splits():
    points = steps(2, [7, 5])
    gains = [cost(points, []) - cost(points, [k]) for k in range(1, 12)]
    assert segmentation._largest_gain(points @ points.T) == pytest.approx(max(gains), rel=1e-10)


@pytest.mark.parametrize("lag", [1, 4])
def test_false_changes_are_as_rare_as_stated(lag):
    """Moving averages of noise overlap as windows do.

    Of 60 sequences at the level 0.05, more than 8 are divided with a probability below 0.005.
    """
    divided = 0
    for seed in range(60):
        noise = np.random.default_rng(seed).standard_normal((80 + lag - 1, 1))
        items = np.stack([noise[k : k + lag].mean(axis=0) for k in range(80)])
        divided += bool(change_points(items, change_penalty([items], lag, 0.05), lag))
    assert divided <= 8


def test_penalty_does_not_depend_on_threads_and_is_not_blown_up_by_changes():
    quiet = np.random.default_rng(0).standard_normal((120, 3))
    alone = change_penalty([quiet], 3)
    assert alone == change_penalty([quiet], 3, n_jobs=2)
    loud = quiet + 5.0 * (np.arange(120) >= 60)[:, None]
    assert alone < change_penalty([loud], 3) < 4.0 * alone  # while the scatter is 20 times larger
    assert change_points(loud, change_penalty([loud], 3), 3) == [60]


def test_short_runs_have_no_penalty():
    assert change_penalty([np.zeros((3, 2)), np.zeros((2, 2))], 3) == np.inf
    assert change_points(steps(0, [2, 1]), 1.0, 2) == []


def test_gaps_divide_the_differences():
    points = steps(3, [30, 30], spread=0.1)
    assert change_penalty(np.split(points, 2), 1) < 0.5 * change_penalty([points], 1)


def test_groups_of_returning_phases():
    low, middle, high = (np.random.default_rng(0).standard_normal((8, 2)) + mean for mean in (0.0, 4.0, 8.0))
    phases = [low, high, low + 0.1, middle, high[:5]]
    assert group_phases(phases, penalty=10.0).tolist() == [0, 1, 0, 2, 1]
    assert group_phases(phases, penalty=0.0).tolist() == [0, 1, 2, 3, 4]
    assert group_phases(phases, penalty=0.0, number=1).tolist() == [0] * 5
    assert len(set(group_phases(phases, penalty=0.0, number=2).tolist())) == 2


def test_ruptures_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(ParameterError, match="need ruptures: pip install 'sysbags\\[watch\\]'"):
        change_points(np.zeros((8, 1)), 1.0)
