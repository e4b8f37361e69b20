"""The bootstrap interval of the difference between two groups."""

from __future__ import annotations

import numpy as np
import pytest

from sysbags.errors import ParameterError
from sysbags.statistics import difference_interval
from sysbags.statistics.differences import _block_sums, _differences, _resampled


def squared(points):
    points = np.asarray(points, dtype=float).reshape(len(points), -1)
    return ((points[:, None] - points) ** 2).sum(axis=2)


def slow_difference(distances, labels, sources, weights):
    """By loops over pairs of items of different sources, each as often as both are drawn."""

    def mean(one, two):
        total = number = 0.0
        for i, j in np.ndindex(distances.shape):
            if labels[i] == one and labels[j] == two and sources[i] != sources[j]:
                weight = weights[sources[i]] * weights[sources[j]]
                total, number = total + weight * distances[i, j], number + weight
        return total / number

    return mean(0, 1) - 0.5 * mean(0, 0) - 0.5 * mean(1, 1)


@pytest.mark.parametrize("crossed", [False, True])
def test_the_definition(crossed):
    rng = np.random.default_rng(0)
    sources = np.repeat(np.arange(8), [2, 1, 3, 1, 2, 2, 1, 2])
    labels = np.arange(14) % 2 if crossed else (sources >= 4).astype(int)
    distances = squared(rng.standard_normal((14, 3)))
    weights = rng.integers(1, 4, size=(5, 8)).astype(float)
    found = _differences(*_block_sums(distances, labels, sources), weights)
    expected = [slow_difference(distances, labels, sources, row) for row in weights]
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    interval = difference_interval(distances, labels, sources=sources, n_resamples=50)
    assert interval.difference == pytest.approx(slow_difference(distances, labels, sources, np.ones(8)))


def test_the_squared_distance_of_means_without_bias():
    """The difference m of two means of 5 numbers has variance v = 2 / 5, and m^2 is v too large on average.

    The variance of m^2 is 4 v + 2 v^2 for a true difference of 1, that of what is subtracted is 0.04, so the
    average of 2000 has a deviation of 0.031.
    """
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 5)
    found = []
    for _ in range(2000):
        distances = squared(rng.standard_normal((10, 1)) + labels[:, None])
        found.append(_differences(*_block_sums(distances, labels, np.arange(10)), np.ones((1, 10)))[0])
    assert np.mean(found) == pytest.approx(1.0, abs=4 * 0.031)


def test_resamples():
    present = np.zeros((2, 7), dtype=bool)
    present[0, :3] = present[1, 3:] = True
    drawn = _resampled(present, 500, np.random.default_rng(0))
    assert (drawn[:, :3].sum(axis=1) == 3).all()
    assert (drawn[:, 3:].sum(axis=1) == 4).all()
    assert ((drawn[:, :3] > 0).sum(axis=1) >= 2).all()
    present[1, 0] = True
    together = _resampled(present, 500, np.random.default_rng(0))
    assert (together.sum(axis=1) == 7).all()
    assert len(set(together[:, :3].sum(axis=1).tolist())) > 1


def test_coverage_of_a_difference():
    """The squared distance of the means, 4, is in the 90 % interval in about that share of 200 samples.

    Percentile intervals of 20 items are a little narrow: 0.85 is allowed for, less three standard
    deviations of a share of 200, 0.02 each.
    """
    rng = np.random.default_rng(2)
    labels, hits = np.repeat([0, 1], 20), 0
    for _ in range(200):
        distances = squared(rng.standard_normal((40, 2)) + 2.0 * labels[:, None] * [1.0, 0.0])
        found = difference_interval(distances, labels, level=0.9, n_resamples=199, random_state=rng)
        hits += found.low <= 4.0 <= found.high
    assert 0.79 <= hits / 200 <= 0.97


def test_clips_of_a_source_add_nothing():
    """Ten copies of each clip leave the estimate as it is, and the interval no narrower."""
    rng = np.random.default_rng(3)
    points, labels = rng.standard_normal(12) + np.repeat([0.0, 3.0], 6), np.repeat([0, 1], 6)
    plain = difference_interval(squared(points), labels)
    copies = np.repeat(np.arange(12), 10)
    copied = difference_interval(squared(points[copies]), labels[copies], sources=copies)
    assert copied.difference == pytest.approx(plain.difference)
    assert (copied.low, copied.high) == pytest.approx((plain.low, plain.high))
    assert plain == difference_interval(squared(points), labels, n_jobs=2)
    assert "between the groups 0 and 1 is" in plain.summary()
    assert "95 % interval" in plain.summary()


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 0, 0, 1, 1, 2], {}, "the number of groups in labels is 3, but it must be 2"),
        ([0, 0, 0, 0, 1, 1], {}, "the group 1 has 2 items, but resampling needs at least 3"),
        ([0, 0, 0, 0, 0, 1], {}, "the group 1 has 1 item, but"),
        ([0, 0, 0, 1, 1, 1], {"sources": [0, 0, 1, 2, 3, 4]}, "the group 0 has 2 sources"),
        ([0, 0, 0, 1, 1, 1], {"level": 1.0}, "level is 1.0, but it must be a number in (0, 1)"),
        ([0, 0, 0, 1, 1, 1], {"n_resamples": 0}, "n_resamples is 0"),
    ],
)
def test_bad_input(labels, options, message):
    with pytest.raises(ParameterError) as error:
        difference_interval(squared(np.arange(6)), labels, **options)
    assert message in str(error.value)
