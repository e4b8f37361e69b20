"""The level of scores against a slow definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.watch.calibration import UPDATES, Level


@settings(max_examples=50, deadline=None)
@given(
    span=st.integers(1, UPDATES),  # the median of more is not computed for each window
    delay=st.integers(0, 4),
    steps=st.lists(
        st.tuples(st.floats(-9.0, 9.0) | st.just(np.nan), st.floats(-9.0, 9.0), st.booleans()), max_size=30
    ),
)
def test_the_median_of_what_was_usual(span, delay, steps):
    level = Level(span, delay)
    for *scores, is_usual in steps:
        level.update(np.array(scores), is_usual)
    rows = [scores for *scores, is_usual in steps[: max(0, len(steps) - delay)] if is_usual][-span:]
    if not rows:
        assert np.isnan(level.median)
        return
    for column, median in zip(np.transpose(rows), level.median, strict=True):
        known = column[~np.isnan(column)]
        np.testing.assert_equal(median, np.median(known) if len(known) else np.nan)


def test_no_level_without_a_span():
    level = Level(0, 3)
    level.update(np.array([2.0]), True)
    assert level.median == 0.0


def test_a_long_span_is_computed_from_time_to_time():
    level, span = Level(10 * UPDATES, 0), 10 * UPDATES
    for score in range(3 * span):
        level.update(np.array([float(score)]), True)
    assert level.median[0] == pytest.approx(2.5 * span, abs=span / UPDATES)
    assert len(level.recent) == span
