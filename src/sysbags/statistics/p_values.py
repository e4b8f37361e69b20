"""P-values of permutation tests, and their correction for many comparisons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_matrix
from sysbags.errors import ParameterError

__all__ = ["CORRECTIONS", "PValue", "adjust_p_values"]

CORRECTIONS = ("holm", "benjamini-hochberg")


@dataclass(frozen=True)
class PValue:
    """A p-value of a permutation test, and how many arrangements it was counted from.

    Attributes
    ----------
    p_value : float
        With all arrangements, the share of those that are at least as extreme as what was observed. With N
        random ones, ``(1 + number at least as extreme) / (1 + N)``, which is never too small on average.
    exact : bool
        Whether all arrangements were counted.
    arrangements : int
        How many were counted; with random ones, the observed one is counted too.

    Examples
    --------
    >>> from sysbags.statistics import sign_flip_test
    >>> test = sign_flip_test([0.5, 0.25, 0.1])  # 8 patterns of signs, 2 of them as extreme
    >>> test.p_value, test.exact, test.resolution
    (0.25, True, 0.125)
    >>> print(test.p_text)
    p = 0.25 (8 arrangements, all)
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


def adjust_p_values(p_values: npt.ArrayLike, method: str = "holm") -> Array:
    """Correct p-values for the number of comparisons.

    An adjusted p-value is compared with the level as a p-value is. With sorted p-values ``p_1 <= .. <= p_m``,

    * "holm": ``max over j <= i of min(1, (m - j + 1) p_j)``. The probability that any true null hypothesis is
      rejected is at most the level, however the p-values depend on each other.
    * "benjamini-hochberg": ``min over j >= i of min(1, m p_j / j)``. The false discovery rate is at most the
      level: the expected share of true null hypotheses among those that are rejected. This holds for p-values
      that are independent or positively dependent.

    Parameters
    ----------
    p_values : (m,) array_like
    method : {"holm", "benjamini-hochberg"}, default="holm"

    Returns
    -------
    (m,) array
        In the order of `p_values`.

    Examples
    --------
    >>> adjust_p_values([0.01, 0.04, 0.02]).tolist()
    [0.03, 0.04, 0.04]
    >>> adjust_p_values([0.01, 0.04, 0.02], "benjamini-hochberg").tolist()
    [0.03, 0.04, 0.03]
    """
    check_choice(method, "method", CORRECTIONS)
    values = check_matrix(p_values, "p_values", (None,), "a list of numbers from 0 to 1")
    if values.min() < 0.0 or values.max() > 1.0:
        raise ParameterError("p_values hold a number outside of 0 to 1, but each must be a probability")
    order = np.argsort(values, kind="stable")
    ranks = np.arange(1, len(values) + 1)
    if method == "holm":
        scaled = np.maximum.accumulate(ranks[::-1] * values[order])
    else:
        scaled = np.minimum.accumulate((len(values) / ranks * values[order])[::-1])[::-1]
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(scaled, 1.0)
    return adjusted
