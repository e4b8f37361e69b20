"""Optimal transport between uniform distributions, against all permutations and the linear program."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linprog

from sysbags.distances import sgot
from sysbags.distances.sgot import transport_cost


def slow_cost(costs):
    """The linear program of all entries, with dense constraints."""
    n, m = costs.shape
    sums = [np.repeat(np.eye(n)[i], m) for i in range(n)] + [np.tile(np.eye(m)[j], n) for j in range(m)]
    solved = linprog(costs.ravel(), A_eq=np.array(sums), b_eq=np.repeat([1 / n, 1 / m], [n, m]))
    assert solved.status == 0
    return solved.fun


@pytest.mark.parametrize("n", range(1, 6))
def test_equal_sizes_are_matched_by_the_best_permutation(n):
    costs = np.random.default_rng(n).random((n, n))
    best = min(np.mean([costs[i, j] for i, j in enumerate(order)]) for order in permutations(range(n)))
    assert transport_cost(costs) == pytest.approx(best, rel=1e-14)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (2, 3), (4, 6), (5, 3), (17, 16)])
def test_unequal_sizes_solve_the_linear_program(shape):
    costs = np.random.default_rng(shape).random(shape)
    # HiGHS is exact to its tolerance of 1e-7.
    assert transport_cost(costs) == pytest.approx(slow_cost(costs), rel=1e-6)
    assert transport_cost(costs.T) == pytest.approx(transport_cost(costs), rel=1e-6)


def test_copies_and_the_linear_program_agree(monkeypatch):
    costs = np.random.default_rng(0).random((6, 8))
    copied = transport_cost(costs)
    monkeypatch.setattr(sgot, "MOST_COPIES", 1)
    assert transport_cost(costs) == pytest.approx(copied, rel=1e-9)
