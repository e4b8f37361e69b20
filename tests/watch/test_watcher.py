"""Watching streams whose process is known: what is found, and that nothing depends on how rows arrive."""

from dataclasses import asdict

import numpy as np
import pytest

from sysbags.errors import ParameterError, StreamError
from sysbags.watch import Watcher, window_systems
from sysbags.watch.normal import AXES, SCORES, Scorer
from sysbags.watch.watcher import DAY, LARGEST, RULES, SMALLEST

RATE, LENGTH, STEP, LEARN = 10.0, 60, 20, 800.0
LEARNT = int(LEARN * RATE)  # rows
WINDOWS = {"length": LENGTH, "step": STEP, "order": 3, "kernel": "bhattacharyya"}
OPTIONS = {"rate": RATE, "learn": LEARN, "false_alarms": 1 / 3600, **WINDOWS}
PATIENCE = LENGTH // STEP


def rotating(angles, seed=0, *, damping=1.0, jitter=0.05, drift=0.0):
    """Histograms of two states that are turned by an angle per row, and of a slow third one.

    With damping 1 the states stay on a circle, at angles that are slightly irregular; below it, noise drives
    them and their size varies.
    """
    rng = np.random.default_rng(seed)
    turns = np.asarray(angles) + jitter * rng.standard_normal(len(angles))
    drive = rng.standard_normal((len(turns), 2)) @ np.array([1.0, 1j])
    state, states = 1.0 + 0.0j, np.empty(len(turns), dtype=complex)
    for t, turn in enumerate(turns):
        state = damping * np.exp(1j * turn) * state + np.sqrt(1.0 - damping**2) * drive[t]
        states[t] = state
    C = np.random.default_rng(99).standard_normal((3, 16))
    logits = 0.3 * np.column_stack([states.real, states.imag]) @ C[:2] + np.outer(
        np.broadcast_to(drift, len(turns)), C[2]
    )
    weights = np.exp(logits + 0.1 * rng.standard_normal(logits.shape))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def stream():
    """An angle of 1 per row, and from row 9,000 on of 0.9: all single histograms stay as they were."""
    return rotating(np.where(np.arange(10_000) < 9000, 1.0, 0.9))


@pytest.fixture(scope="module")
def watched(stream):
    watcher = Watcher(**OPTIONS)
    verdicts, events = watcher.update(stream)
    return watcher, verdicts, events


@pytest.fixture(scope="module")
def learnt(watched):
    return watched[0].learnt


def assert_same(verdicts, expected, shift=0.0):
    """The same verdicts up to the round-off of systems (1e-8) and of times, which begin `shift` later."""
    assert len(verdicts) == len(expected)
    for one, other in zip(verdicts, expected, strict=True):
        assert (one.kind, one.part) == (other.kind, other.part)
        assert [one.start, one.stop, one.new] == pytest.approx(
            [other.start + shift, other.stop + shift, other.new + shift]
        )
        assert one.surprise == pytest.approx(other.surprise, abs=1e-4)
        assert list(one.p_values) == list(other.p_values)
        np.testing.assert_allclose(
            list(one.p_values.values()), list(other.p_values.values()), rtol=1e-3, atol=1e-12
        )


def test_a_change_of_the_dynamics_alone(watched):
    watcher, verdicts, events = watched
    assert events == []  # none that has ended: none before the change
    assert watcher.event is not None
    (event,) = watcher.finish()
    assert watcher.finish() == []
    # The first window with a new row ends at 902 s; two windows are 12 s.
    assert 900.0 <= event.start <= 912.0
    assert event.end == verdicts[-1].start
    assert (event.kind, event.part) == ("change", "transition")
    assert 0.0 < event.per_day < 5.0
    # More unusual than all normal windows: the smallest conformal p-value.
    count = len(watcher.learnt.scores)
    assert event.p_value == PATIENCE / (PATIENCE + count)
    changed = [verdict for verdict in verdicts if verdict.start >= 900.0]
    assert np.mean([verdict.kind == "change" for verdict in changed]) > 0.9
    watched_before = [v for v in verdicts if v.kind != "learning" and v.stop <= 900.0]
    assert {verdict.kind for verdict in watched_before} == {"normal"}


def test_a_small_lasting_change():
    """A level that moves by a part of its spread: found by the sum, after a while, and dated."""
    stream = rotating(np.ones(11_000), seed=1, drift=np.where(np.arange(11_000) < 9000, 0.0, 0.02))
    watcher = Watcher(**OPTIONS)
    verdicts, events = watcher.update(stream)
    (event,) = events + watcher.finish()
    assert event.rule == "lasting"
    assert 870.0 <= event.start <= 930.0
    assert 900.0 < event.found <= 960.0
    at_found = next(verdict for verdict in verdicts if verdict.stop == event.found)
    assert at_found.evidence >= 1.0
    assert at_found.surprise < watcher.threshold.high  # no jump
    # At most as often as asked: each of the two rules has half of the rate.
    assert event.per_day <= DAY * OPTIONS["false_alarms"]


def test_what_is_learnt_and_reported(watched):
    watcher, verdicts, _ = watched
    learning = [verdict for verdict in verdicts if verdict.kind == "learning"]
    assert verdicts[: len(learning)] == learning
    assert (learning[-1].stop, verdicts[len(learning)].stop) == (800.0, 802.0)
    assert all(verdict.surprise == 0.0 for verdict in learning)
    # The second half of the windows: those that end from 402 s to 800 s.
    assert watcher.learnt.scores.shape == (200, len(SCORES) + AXES)
    assert watcher.learnt.failures == 0
    assert watcher.observed.seconds == 400.0
    assert 0 <= watcher.observed.events <= 5
    assert watcher.threshold.low < watcher.threshold.high
    assert watcher.threshold.seconds == 400.0
    assert verdicts[-1].new == verdicts[-1].stop - STEP / RATE
    assert list(verdicts[-1].p_values) == list(SCORES)
    assert watcher.drift == 0.0


@pytest.mark.parametrize("sizes", [[1], [7, 0, 333]])
def test_verdicts_do_not_depend_on_how_rows_arrive(sizes):
    options = OPTIONS | {"learn": 140.0, "adapt": 30.0, "false_alarms": 1 / 600}
    stream = rotating(np.where(np.arange(2400) < 2000, 1.0, 0.7), seed=3)
    stream[2100:2200] = stream[2100]  # still
    whole = Watcher(**options)
    verdicts, events = whole.update(stream)
    watcher, found, ended, at, turn = Watcher(**options), [], [], 0, 0
    while at < len(stream):
        more = watcher.update(stream[at : at + sizes[turn % len(sizes)]])
        found, ended = found + more[0], ended + more[1]
        at, turn = at + sizes[turn % len(sizes)], turn + 1
    # Unknown p-values are NaN, which NumPy takes for equal to itself.
    np.testing.assert_equal([asdict(v) for v in found], [asdict(v) for v in verdicts])
    assert ended + watcher.finish() == events + (last := whole.finish())
    assert watcher.threshold == whole.threshold
    assert {event.kind for event in ended + last} >= {"still"}


def test_what_another_watcher_has_learnt(stream, watched, learnt):
    watcher, verdicts, _ = watched
    other = Watcher(**OPTIONS, learnt=learnt)
    assert (other.threshold, other.observed) == (watcher.threshold, watcher.observed)
    first = next(k for k, verdict in enumerate(verdicts) if verdict.kind != "learning")
    found, _ = other.update(stream[first * STEP :])
    # The first windows of the other watcher have fewer windows before them.
    known = 2 * PATIENCE
    assert_same(found[known:], verdicts[first + known :], shift=-first * STEP / RATE)


def test_a_rarer_alarm_has_a_higher_threshold(learnt):
    rates = [1 / 60, 1 / 600, 1 / 86400, 1 / 864000]
    thresholds = [Watcher(**(OPTIONS | {"false_alarms": rate}), learnt=learnt).threshold for rate in rates]
    assert (np.diff([threshold.high for threshold in thresholds]) > 0.0).all()
    for rate, threshold in zip(rates[1:], thresholds[1:], strict=True):  # the first one is counted
        assert threshold.rate(threshold.high) == pytest.approx(rate / RULES, rel=1e-9)


def test_a_gap_while_watching(stream, learnt):
    rows = stream[LEARNT : LEARNT + 400]
    watcher = Watcher(**OPTIONS, learnt=learnt)
    before, _ = watcher.update(rows[:150])
    watcher.gap(rows=100)
    after, _ = watcher.update(rows[150:])
    assert before[-1].stop == 14.0
    assert after[0].start == 25.0
    fresh, _ = Watcher(**OPTIONS, learnt=learnt).update(rows[150:])
    assert_same(after, fresh, shift=25.0)


def test_a_gap_while_learning(stream):
    options = OPTIONS | {"learn": 240.0}  # 2,400 rows: those from 1,200 on give the scores
    for cut, missing in ((500, 7), (1810, 7), (1810, 50_000)):
        watcher = Watcher(**options)
        watcher.update(stream[:cut])
        watcher.gap(rows=missing)
        watcher.update(stream[cut:2600])
        assert len(watcher.learnt.scores) == 60
    # Scores of the windows after the gap belong to their own rows.
    parts = [window_systems(part, **WINDOWS) for part in (stream[:1810], stream[1810:2600])]
    scored = [[w for w in parts[0] if w.stop > 1200], parts[1]]
    scorers = [(Scorer(watcher.learnt.process), part) for part in scored]
    expected = np.array([scorer.score(window) for scorer, part in scorers for window in part])
    np.testing.assert_allclose(watcher.learnt.scores[:, : len(SCORES)], expected[:60], atol=1e-5)
    levels = [
        np.mean(scorer.normal.embedding.features(window.rows), axis=0) @ scorer.normal.motion.axes
        for scorer, part in scorers
        for window in part
    ]
    np.testing.assert_allclose(watcher.learnt.scores[:, len(SCORES) :], levels[:60], atol=1e-9)


def test_a_still_camera_is_an_event_of_its_own(stream, learnt):
    rows = stream[LEARNT : LEARNT + 600]
    frozen = np.concatenate([rows[:300], np.repeat(rows[300:301], 200, axis=0), rows[300:]])
    watcher = Watcher(**OPTIONS, learnt=learnt)
    verdicts, events = watcher.update(frozen)
    events += watcher.finish()
    still = [verdict for verdict in verdicts if verdict.kind == "still"]
    assert [(v.start, v.stop) for v in still] == [(t, t + 6.0) for t in np.arange(30.0, 45.0, 2.0)]
    assert {(v.surprise, v.p_value, v.part) for v in still} == {(LARGEST, PATIENCE / (PATIENCE + 200), "")}
    (event,) = [event for event in events if event.kind == "still"]
    assert (event.start, event.surprise) == (34.0, LARGEST)
    assert event.per_day < 1e-6
    # Half frozen windows before and after it are unusual in another way.
    assert {event.kind for event in events} == {"change", "still"}


def test_still_windows_that_are_normal(stream):
    rows = stream[:2600].copy()
    for start in (1500, 2450):
        rows[start : start + 100] = rows[start]
    watcher = Watcher(**(OPTIONS | {"learn": 240.0}))
    verdicts, events = watcher.update(rows)
    failures = watcher.learnt.failures
    assert failures == 3
    still = [verdict for verdict in verdicts if verdict.kind == "still"]
    assert {verdict.surprise for verdict in still} == {0.0}
    assert {verdict.p_value for verdict in still} == {(PATIENCE + failures) / (PATIENCE + 60)}
    assert all(event.kind == "change" for event in events + watcher.finish())


@pytest.mark.parametrize("half", [0, 1])
def test_too_many_still_windows_to_learn_from(stream, half):
    rows = stream[:2600].copy()
    start = 1200 * half
    rows[start : start + 1200] = rows[start]
    watcher = Watcher(**(OPTIONS | {"learn": 240.0}))
    with pytest.raises(StreamError, match=r"others, but 1[05] are needed: let it learn for longer"):
        watcher.update(rows)


def test_bad_arguments():
    least = 2 * SMALLEST * LENGTH / RATE
    Watcher(**(OPTIONS | {"learn": least}))
    with pytest.raises(ParameterError, match=r"learn is 119 s, but windows of 6 s need at least 120 s"):
        Watcher(**(OPTIONS | {"learn": least - 1.0}))
    for name in ("rate", "learn", "false_alarms", "adapt"):
        with pytest.raises(ParameterError, match=name):
            Watcher(**(OPTIONS | {name: 0.0}))
    with pytest.raises(ParameterError, match="order"):
        Watcher(**(OPTIONS | {"order": 0}))


def test_nothing_happens_before_the_first_window():
    watcher = Watcher(**OPTIONS)
    assert watcher.update(rotating(np.ones(LENGTH - 1))) == ([], [])
    assert (watcher.event, watcher.finish(), watcher.threshold, watcher.drift) == (None, [], None, 0.0)


def test_a_slow_drift_can_be_followed():
    # When learning has ended, the third state begins to move, in 600 s as far as the others ever go.
    drift = np.concatenate([np.zeros(LEARNT), np.linspace(0.0, 0.3, 6000)])
    stream = rotating(np.ones(14_000), drift=drift)
    shares, drifts = [], []
    for adapt in (None, 20.0):
        watcher = Watcher(**(OPTIONS | {"false_alarms": 1 / 36_000}), adapt=adapt)
        verdicts, _ = watcher.update(stream)
        shares.append(np.mean([v.kind == "change" for v in verdicts if v.kind != "learning"]))
        drifts.append(watcher.drift)
    # For three seeds: at least 0.88 and at most 0.02.
    assert shares[0] > 0.5
    assert shares[1] < 0.1
    assert drifts[0] == 0.0
    assert drifts[1] > 2.0


def test_what_is_unusual_is_not_followed(stream, learnt):
    watcher = Watcher(**OPTIONS, adapt=200.0, learnt=learnt)
    watcher.update(stream[9000:])
    assert watcher.event is not None
    assert watcher.event.start < 12.0
    np.testing.assert_array_equal(watcher.process.observers, learnt.process.observers)
    # What lasts for longer than it takes to follow becomes normal.
    watcher = Watcher(**OPTIONS, adapt=6.0, learnt=learnt)
    _, events = watcher.update(stream[9000:])
    assert events
    assert watcher.event is None
    # A window that is normal takes the place of the oldest one, and what was learnt stays as it is.
    kept = learnt.process.observers.copy()
    watcher = Watcher(**OPTIONS, adapt=10.0, learnt=learnt)
    watcher.update(stream[LEARNT:9000])
    assert 10 <= watcher.oldest < len(kept)
    changed = np.any(watcher.process.observers != kept, axis=(1, 2))
    np.testing.assert_array_equal(changed, np.arange(len(kept)) < watcher.oldest)
    np.testing.assert_array_equal(learnt.process.observers, kept)
    assert watcher.drift > 0.0
