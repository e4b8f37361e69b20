"""Facts that predict the class: against a slow twin, cases by hand, and the share of false findings."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from sysbags.errors import ParameterError
from sysbags.statistics.shortcuts import find_shortcuts

TWO = ["rain"] * 4 + ["fire"] * 4


def slow_accuracy(values, labels, groups):
    """The average accuracy over groups and the share of the most frequent class, exact, item by item."""
    is_number = all(isinstance(value, (int, float)) for value in values)
    sizes = Counter(groups)
    sum_, shares = Fraction(0), Counter()
    for value, label, group in zip(values, labels, groups, strict=True):
        others = [k for k, other in enumerate(groups) if other != group]
        apart = [abs(values[k] - value) if is_number else values[k] != value for k in others]
        votes = Counter(labels[k] for k, a in zip(others, apart, strict=True) if a == min(apart))
        best = [name for name, count in votes.items() if count == max(votes.values())]
        sum_ += Fraction(label in best, len(best) * sizes[group])
        shares[label] += Fraction(1, sizes[group])
    return sum_ / len(sizes), max(shares.values()) / len(sizes)


def slow_tail(least, trials, chance):
    return sum(comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(least, trials + 1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", [int, float, str])
def test_accuracy_and_p_value_are_those_of_the_slow_twin(seed, kind):
    rng = np.random.default_rng(seed)
    values = [kind(v) for v in rng.integers(0, 6, 30).tolist()]
    labels = [f"class {v}" for v in rng.integers(0, 3, 30)]
    groups = rng.integers(0, 12, 30).tolist()
    (found,) = find_shortcuts({"fact": values}, labels, groups, level=1.0)
    accuracy, chance = slow_accuracy(values, labels, groups)
    count = len(set(groups))
    assert found.accuracy == pytest.approx(float(accuracy), abs=1e-12)
    assert found.chance == pytest.approx(float(chance), abs=1e-12)
    assert found.p_value == pytest.approx(float(slow_tail(accuracy * count // 1, count, chance)), rel=1e-9)


def test_cases_by_hand():
    facts = {
        "codec": ["h264"] * 4 + ["vp9"] * 4,
        "width": 8 * [640],
        "frames": [50, 51, 52, 53, 50, 51, 52, 53],
    }
    (found,) = find_shortcuts(facts, TWO)
    assert (found.fact, found.accuracy, found.chance) == ("codec", 1.0, 0.5)
    assert found.p_value == 2 * 0.5**8  # of two facts that vary
    assert find_shortcuts({"codec": facts["codec"]}, TWO, groups=[0] * 4 + [1] * 4) == []
    assert find_shortcuts({"width": 8 * [640]}, TWO) == []
    assert find_shortcuts({"rate": [25.0, None] * 4}, ["a", "b"] * 4)[0].accuracy == 1.0


def test_nothing_is_found_where_there_is_nothing():
    rng, found = np.random.default_rng(0), 0
    for _ in range(200):
        facts = {name: rng.integers(0, many, 24).tolist() for name, many in (("a", 2), ("b", 6), ("c", 1000))}
        found += bool(find_shortcuts(facts, rng.permutation(["x"] * 12 + ["y"] * 12)))
    assert found <= 20  # 10 at most are expected; more than 20 have a probability below 0.002


def test_labels_must_fit():
    with pytest.raises(ParameterError, match="there must be one for each of the 2 items"):
        find_shortcuts({"width": [1, 2]}, ["a"])
