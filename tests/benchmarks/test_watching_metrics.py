from __future__ import annotations

import numpy as np
import pytest
from benchmarks.watching.metrics import auc_pr, vus_pr, window_labels
from benchmarks.watching.rivals import window_spans
from hypothesis import given
from hypothesis import strategies as st

from sysbags.datasets import WatchedEvent


def flags(text):
    return np.array([letter == "x" for letter in text])


def test_a_window_is_positive_from_half_of_its_length_on():
    windows = window_spans(300, 100, 10)
    labels = window_labels(windows, [WatchedEvent(15.0, 40.0, "fog")], 10.0)  # rows from 150 on
    assert windows[labels][0].tolist() == [100, 200]
    assert labels.tolist() == sorted(labels)


def test_a_window_with_half_of_a_short_event_is_positive():
    windows = window_spans(400, 100, 10)
    labels = window_labels(windows, [WatchedEvent(20.0, 24.0, "fog")], 10.0)  # rows 200 to 239
    assert windows[labels][[0, -1], 0].tolist() == [120, 220]
    assert not window_labels(windows, [], 10.0).any()


def test_average_precision():
    """The first positive has precision 1, the second 2/4, the third 3/5."""
    assert auc_pr(flags("x..xx"), np.array([5.0, 4.0, 3.0, 2.0, 1.0])) == pytest.approx((1 + 0.5 + 0.6) / 3)


def test_volume_of_perfect_scores_without_a_buffer():
    assert vus_pr(flags(".xx.."), np.array([0.1, 0.9, 0.8, 0.2, 0.0]), 0) == pytest.approx(1.0)


def test_volume_by_hand():
    """One positive window, second in rank.

    Without a buffer (lengths 0 and 1): precision 0 at recall 0, then 1/2 at recall 1, so the area is 1/4.
    With length 2 both neighbours have the label r = sqrt(1/2), and the mass of positives is
    (1 + 1 + 2 r) / 2 = 1 + r. The points are (0, 1), (r / (1 + r), r) and (1, (1 + r) / 2).
    """
    r = np.sqrt(0.5)
    area = r / (1 + r) * (1 + r) / 2 + (1 - r / (1 + r)) * (r + (1 + r) / 2) / 2
    labels, scores = flags(".x.."), np.array([4.0, 3.0, 2.0, 1.0])
    assert vus_pr(labels, scores, 1) == pytest.approx(0.25)
    assert vus_pr(labels, scores, 2) == pytest.approx((0.25 + 0.25 + area) / 3)


def test_an_event_that_is_missed_costs_recall():
    """Two events of one window each: the recall 1/2 of the first counts half, because half are found."""
    labels, scores = flags("x...x"), np.array([9.0, 1.0, 2.0, 3.0, 0.5])
    # Points (recall, precision): (0, 1), (1/4, 1), then 1/4 down to the precision 1/4, then (1, 2/5).
    assert vus_pr(labels, scores, 0) == pytest.approx(0.25 + 0.75 * (0.25 + 0.4) / 2)


def test_equal_scores_have_one_threshold():
    """All windows at once: from precision 1 at recall 0 to the share of positives at recall 1."""
    assert vus_pr(flags("..x."), np.ones(4), 0) == pytest.approx((1 + 0.25) / 2)


def by_definition(labels, scores, buffer):
    """One threshold and one buffer after another."""
    areas = []
    for length in range(buffer + 1):
        soft = labels.astype(float)
        starts = [i for i in np.flatnonzero(labels) if i == 0 or not labels[i - 1]]
        ends = [i for i in np.flatnonzero(labels) if i == len(labels) - 1 or not labels[i + 1]]
        for away in range(1, length // 2 + 1):
            for place in [s - away for s in starts] + [e + away for e in ends]:
                if 0 <= place < len(soft):
                    soft[place] += np.sqrt(1 - away / length)
        soft = np.minimum(soft, 1.0)
        number = np.cumsum((soft > 0) & (np.append(0.0, soft[:-1]) == 0))  # of the event
        area, before = 0.0, (0.0, 1.0)
        for threshold in sorted(set(scores), reverse=True):
            found = scores >= threshold
            events = set(number[found & (soft > 0)])
            mass = soft[found].sum()
            recall = min(1.0, mass / ((labels.sum() + soft.sum()) / 2)) * len(events) / number.max()
            point = recall, mass / found.sum()
            area += (point[0] - before[0]) * (point[1] + before[1]) / 2
            before = point
        areas.append(area)
    return np.mean(areas)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 12)), min_size=2, max_size=40).filter(
        lambda windows: any(label for label, _ in windows)
    ),
    st.integers(0, 9),
)
def test_volume_against_its_definition(windows, buffer):
    labels, scores = np.array([label for label, _ in windows]), np.array([float(s) for _, s in windows])
    assert vus_pr(labels, scores, buffer) == pytest.approx(by_definition(labels, scores, buffer), abs=1e-12)
