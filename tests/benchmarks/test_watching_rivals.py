from __future__ import annotations

import sys

import numba
import numpy as np
import pytest
from benchmarks.watching.metrics import auc_pr, window_labels
from benchmarks.watching.rivals import RIVALS, foreground, window_spans

from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import WatchedEvent, make_watching

FOG = WatchedEvent(30.0, 45.0, "fog", 1.0)
SLOW = WatchedEvent(30.0, 45.0, "dynamics", 1.0)
WINDOWS = window_spans(600, 50, 10)
STUMPY = "matrix profile (stumpy)"


@pytest.fixture(scope="module")
def streams():
    """A normal minute of a wheel, and the minute before it with each of the events."""
    videos = [make_watching("wheel", 120.0, events=[event] if event else []) for event in (None, FOG, SLOW)]
    normal, *others = (LocalBinaryPatterns().stream(video.frames()) for video in videos)
    return normal[600:], *(stream[:600] for stream in others)


@pytest.mark.parametrize("name", [name for name in RIVALS if name != STUMPY])
def test_fog_is_found(name, streams):
    normal, fog, _ = streams
    scores = RIVALS[name](normal, fog, WINDOWS)
    labels = window_labels(WINDOWS, [FOG], 10.0)
    assert scores.shape == (len(WINDOWS),)
    assert np.isfinite(scores).all()
    assert auc_pr(labels, scores) > 2.0 * labels.mean()  # of random scores, it is the share of positives


def test_the_mean_histogram_does_not_see_the_dynamics(streams):
    normal, fog, slow = streams
    fogged, slowed = (RIVALS["mean histogram"](normal, rows, WINDOWS).max() for rows in (fog, slow))
    assert slowed < 0.1 * fogged


@pytest.fixture
def interpreted(monkeypatch):
    """Import stumpy without its compilation, which takes half a minute."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    pytest.importorskip("stumpy")
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "stumpy"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("interpreted")
def test_the_matrix_profile_is_the_distance_to_the_nearest_normal_window(streams):
    normal, _, slow = streams
    rows = np.concatenate([normal[20:50], slow[300:330]])
    scores = RIVALS[STUMPY](normal[:100], rows, window_spans(60, 20, 10))
    # Of a window that is in the normal video; the rows are projected in another order of summation.
    assert scores[0] == pytest.approx(0.0, abs=1e-3)
    assert scores[3] > 0.1


@pytest.mark.usefixtures("interpreted")
def test_no_window_is_in_two_recordings(streams):
    """A window across a join is normal only if the recordings are taken as one."""
    normal, fog, _ = streams
    train, windows = np.concatenate([normal[:40], fog[320:360]]), window_spans(40, 20, 10)
    across = train[20:60]  # its second window has the join in the middle
    for name in (STUMPY, "PCA, window"):
        taken_as_one = RIVALS[name](train, across, windows)
        apart = RIVALS[name](train, across, windows, [40])
        assert apart[1] > 2.0 * taken_as_one[1] + 1e-3, name
        assert apart[0] == pytest.approx(taken_as_one[0], abs=1e-3), name


def test_foreground_of_an_object():
    event = WatchedEvent(30.0, 45.0, "object", 1.0)
    normal = make_watching("flame", 60.0, random_state=1)
    watched = make_watching("flame", 60.0, events=[event], random_state=1)
    scores = foreground(normal.frames(), watched.frames(), WINDOWS)
    assert auc_pr(window_labels(WINDOWS, [event], 10.0), scores) > 0.5


def test_scores_do_not_depend_on_the_other_windows(streams):
    normal, fog, _ = streams
    for name, rival in RIVALS.items():
        if name != STUMPY:
            part = rival(normal[:200], fog, WINDOWS[20:23])
            assert part == pytest.approx(rival(normal[:200], fog, WINDOWS[15:30])[5:8], rel=1e-9), name
