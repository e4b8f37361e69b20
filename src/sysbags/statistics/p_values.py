"""What the tests share: p-values of permutations, their correction for many comparisons, and matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_matrix
from sysbags.errors import ParameterError


@dataclass(frozen=True)
class PValue:
    """A p-value of a permutation test, and how many arrangements it was counted from.

    If it is exact, all arrangements were counted, and it is the share of those that are at least as extreme
    as what was observed. With N random ones it is ``(1 + number at least as extreme) / (1 + N)``, which is
    never too small on average; the observed arrangement is counted too.
    """

    p_value: float
    exact: bool
    arrangements: int

    @property
    def resolution(self) -> float:
        """What p-values are multiples of: no smaller one can be found, however clear the difference is."""
        return 1.0 / self.arrangements

    @property
    def p_text(self) -> str:
        """The p-value and what it was counted from, as words."""
        kind = "all" if self.exact else "random"
        return f"p = {self.p_value:.4g} ({self.arrangements} arrangements, {kind})"


def holm(p_values: Sequence[float]) -> Array:
    """Correct p-values for their number by Holm's method.

    Of m sorted ones, ``p_i`` becomes ``max over j <= i of min(1, (m - j + 1) p_j)``. The probability that any
    true null hypothesis is rejected is at most the level, however the p-values depend on each other.
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    factors = np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return adjusted


def check_distances(distances: Any, name: str = "distances") -> Array:
    """Return a symmetric matrix of finite squared distances with zeros on the diagonal."""
    meaning = "a square matrix of squared distances, one row and one column per system"
    matrix = check_matrix(distances, name, (None, None), meaning)
    if matrix.shape[0] != matrix.shape[1]:
        raise ParameterError(f"{name} has shape {matrix.shape}, but it must be {meaning}")
    if matrix.min() < 0.0:
        raise ParameterError(f"{name} holds a negative entry, but squared distances must be 0 or more")
    rounding = 1e-9 * matrix.max()
    if np.abs(matrix - matrix.T).max() > rounding or np.diagonal(matrix).max() > rounding:
        raise ParameterError(
            f"{name} must be symmetric with zeros on the diagonal, as pairwise_distances(systems) is"
        )
    return matrix
