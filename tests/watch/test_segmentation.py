"""Change points, their penalty and the groups of phases, against slow twins."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from sysbags.errors import ParameterError
from sysbags.watch import segmentation
from sysbags.watch.segmentation import (
    change_penalty,
    change_points,
    distance_features,
    divide,
    group_phases,
)


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


@pytest.mark.parametrize("min_size", [1, 2, 3])
def test_segmentation_is_optimal(min_size):
    for seed, penalty in itertools.product(range(3), (0.5, 2.0, 8.0)):
        points = steps(seed, [4, 3, 4])
        assert change_points(points, penalty, min_size) == list(best(points, penalty, min_size))


def test_features_have_the_given_distances():
    points = steps(1, [9, 9])
    distances = np.sqrt(np.sum((points[:, None] - points) ** 2, axis=-1))
    features = distance_features(distances**2)
    # The root of a Euclidean distance is one, too, so that nothing is lost but round-off.
    found = np.sum((features[:, None] - features) ** 2, axis=-1)
    np.testing.assert_allclose(found, distances, atol=1e-10)
    assert change_points(features, 6.0) == [9]


def test_equal_items_have_equal_features():
    features = distance_features(np.zeros((4, 4)))
    np.testing.assert_array_equal(features, 0.0)
    assert change_points(features, 0.0) == []


def gain(points, change, reach):
    """The decrease of scatter by one change, among the items near it."""
    near = points[max(0, change - reach) : change + reach]
    return cost(near, []) - cost(near, [min(change, reach)])


@pytest.mark.parametrize("reach", [1, 3, 12])
def test_largest_gain_against_all_splits(reach):
    points = steps(2, [7, 5])
    gains = [gain(points, k, reach) for k in range(1, 12)]
    assert segmentation._largest_gain(points @ points.T, reach) == pytest.approx(max(gains), rel=1e-10)


@pytest.mark.parametrize("lag", [1, 4])
@pytest.mark.parametrize(("sequences", "most"), [(10, 3), pytest.param(60, 8, marks=pytest.mark.long)])
def test_false_changes_are_as_rare_as_stated(lag, sequences, most):
    """Moving averages of noise overlap as windows do.

    At the level 0.05, more than 3 of 10 sequences are divided with a probability of 0.001, and more than
    8 of 60 with one below 0.005.
    """
    divided = 0
    for seed in range(sequences):
        noise = np.random.default_rng(seed).standard_normal((80 + lag - 1, 1))
        items = np.stack([noise[k : k + lag].mean(axis=0) for k in range(80)])
        divided += bool(change_points(items, change_penalty([items], lag, 0.05), lag))
    assert divided <= most


@pytest.mark.parametrize(("sequences", "most"), [(5, 2), pytest.param(20, 4, marks=pytest.mark.long)])
def test_slow_drift_is_not_divided_but_a_step_is(sequences, most):
    """At the level 0.05, more than 4 of 20 sequences are divided with a probability below 0.003."""
    wave = 1.5 * np.sin(2 * np.pi * np.arange(120) / 120)[:, None]
    divided = np.zeros(2, dtype=int)
    for seed in range(sequences):
        items = wave + np.random.default_rng(seed).standard_normal((120, 1))
        for k, reach in enumerate((None, 4)):
            divided[k] += bool(divide([items], 1, reach=reach)[0][0])
    assert divided[0] == sequences
    assert divided[1] <= most
    items[40:] += 6.0
    assert divide([items], 1, reach=4)[0] == [[40]]


def test_changes_do_not_raise_the_penalty_in_the_end():
    """Large steps make the first penalty so large that it hides the smaller one."""
    noise = np.random.default_rng(1).standard_normal((160, 2))
    items = noise + np.repeat([0.0, 9.0, 0.0, 2.0], 40)[:, None]
    first = change_penalty([items], 1, reach=8)
    assert change_points(items, first, 1, 8) == [40, 80]
    changes, penalty = divide([items], 1, reach=8)
    assert changes[0][:2] == [40, 80]
    assert np.abs(np.array(changes[0][2:]) - 120).tolist() in ([0], [1])
    assert penalty < first


def test_runs_are_divided_by_one_penalty():
    noise = np.random.default_rng(1).standard_normal((140, 2))
    assert divide([noise[:70], noise[70:] + 9.0], 1)[0] == [[], []]  # a gap is no change
    assert divide([noise[:70], noise[70:] + 9.0 * (np.arange(70) >= 30)[:, None]], 1)[0] == [[], [30]]
    assert divide([noise[:1]], 3) == ([[]], np.inf)


def test_a_strong_event_of_two_windows_is_found():
    """With a bounded kernel its gain would be bounded too, below the price of two changes."""
    lag = 5
    noise = np.random.default_rng(1).standard_normal((150 + lag - 1, 6))
    noise[70 : 70 + 3 * lag - 1] += 8.0
    items = np.stack([noise[k : k + lag].mean(axis=0) for k in range(150)])
    squared = np.sum((items[:, None] - items) ** 2, axis=-1)
    ((start, stop),), _ = divide([distance_features(squared)], lag, reach=4 * lag)
    # the windows across its ends belong to either side
    assert abs(start - 70) <= lag
    assert abs(stop - 80) <= lag


def test_the_weakest_change_is_removed_first():
    """Two steps are too near each other for both: without the lower one, more items show the higher one."""
    points = np.repeat([[0.0], [1.0], [5.0]], [10, 3, 10], axis=0)
    assert [round(gain(points[:13], 10, 6), 3), round(gain(points[10:], 3, 6), 3)] == [2.0, 32.0]
    assert change_points(points, 1.5, reach=6) == [10, 13]
    assert change_points(points, 1.9, reach=3) == [13]


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


def test_ruptures_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(ParameterError, match="need ruptures: pip install 'sysbags\\[watch\\]'"):
        change_points(np.zeros((8, 1)), 1.0)
