"""Corrections for many comparisons, against their definitions and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from sysbags.errors import ParameterError
from sysbags.statistics import adjust_p_values

P_VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


@given(P_VALUES)
def test_holm_rejects_step_by_step(p_values):
    """The smallest is rejected at level a if it is at most a / m, the next if at most a / (m - 1), ..."""
    m = len(p_values)
    adjusted = adjust_p_values(p_values)
    for level in (0.01, 0.05, 0.3, 0.9):
        if np.any(np.abs(adjusted - level) < 1e-9):
            continue  # decided by round-off
        rejected = np.zeros(m, dtype=bool)
        for step, k in enumerate(np.argsort(p_values, kind="stable")):
            if p_values[k] * (m - step) > level:
                break
            rejected[k] = True
        np.testing.assert_array_equal(adjusted <= level, rejected)


@given(P_VALUES)
def test_benjamini_hochberg_is_that_of_scipy(p_values):
    expected = scipy.stats.false_discovery_control(p_values, method="bh")
    np.testing.assert_allclose(adjust_p_values(p_values, "benjamini-hochberg"), expected, rtol=1e-12)


@given(P_VALUES)
def test_order_and_size(p_values):
    holm, hochberg = adjust_p_values(p_values), adjust_p_values(p_values, "benjamini-hochberg")
    assert np.all(np.asarray(p_values) <= hochberg * (1 + 1e-12))
    assert np.all(hochberg <= holm * (1 + 1e-12))
    assert np.all(holm <= 1.0)
    assert adjust_p_values(p_values[::-1]).tolist() == pytest.approx(holm[::-1].tolist())


@pytest.mark.parametrize(
    ("p_values", "method", "message"),
    [
        ([0.1, 1.2], "holm", "p_values hold a number outside of 0 to 1"),
        ([], "holm", "p_values is empty"),
        ([[0.1]], "holm", "p_values has shape"),
        ([0.1], "bonferroni", "method is 'bonferroni', but it must be one of 'holm'"),
    ],
)
def test_bad_input(p_values, method, message):
    with pytest.raises(ParameterError, match=message):
        adjust_p_values(p_values, method)
