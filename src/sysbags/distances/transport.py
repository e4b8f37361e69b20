"""Exact optimal transport between two small uniform distributions."""

from __future__ import annotations

from math import lcm
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.errors import ParameterError

__all__ = ["transport_cost"]

MOST_COPIES = 256  # a larger assignment takes longer than the linear program


def transport_cost(costs: Array) -> float:
    """Return the smallest mean cost of moving one uniform distribution to another.

    Solves ``min <P, costs>`` over all non-negative P with row sums 1 / n and column sums 1 / m. For n = m an
    optimal P is a permutation, found by linear assignment. Otherwise the points are copied until there are
    equally many, the least common multiple of n and m; where these are too many, the linear program is solved
    as it stands. All are exact.

    Parameters
    ----------
    costs : (n, m) array
        Finite, and not negative.

    Examples
    --------
    >>> transport_cost(np.array([[1.0, 3.0], [0.0, 1.0]]))
    1.0
    >>> transport_cost(np.array([[1.0, 3.0]]))  # a half of it goes to each
    2.0
    """
    from scipy.optimize import linear_sum_assignment

    n, m = costs.shape
    size = lcm(n, m)
    if size <= MOST_COPIES or n == m:
        copies = costs if n == m else np.repeat(np.repeat(costs, size // n, axis=0), size // m, axis=1)
        return float(copies[linear_sum_assignment(copies)].mean())
    from scipy.optimize import linprog
    from scipy.sparse import eye, kron, vstack

    sums: Any = vstack([kron(eye(n), np.ones((1, m))), kron(np.ones((1, n)), eye(m))])
    # In multiples of 1 / (n m), so that the right-hand sides are whole numbers.
    masses = np.repeat([float(m), float(n)], [n, m])
    solved = linprog(costs.ravel(), A_eq=sums.tocsr(), b_eq=masses, method="highs")
    if solved.status != 0:
        raise ParameterError(f"the two distributions cannot be matched: {solved.message}")
    return float(max(0.0, solved.fun / (n * m)))
