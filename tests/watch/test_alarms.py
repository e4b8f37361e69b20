"""Events against a slow twin that sees the whole series at once."""

from dataclasses import replace
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from sysbags.watch.alarms import Alarm, Event, Verdict

HIGH, LOW = 3.0, 2.0
LENGTH = 4  # windows are longer than the step from one to the next
KINDS = {"normal": "change", "learning": "change", "change": "change", "still": "still"}


def verdicts_of(surprises, kinds=None):
    kinds = kinds or ["normal"] * len(surprises)
    return [
        Verdict(
            start=t + 1.0 - LENGTH,
            stop=t + 1.0,
            new=float(t),
            kind=kind,
            surprise=surprise,
            p_value=10.0**-surprise,
            part=f"part {t}",
        )
        for t, (surprise, kind) in enumerate(zip(surprises, kinds, strict=True))
    ]


def run(alarm, verdicts):
    """Events with the number of the window at which each was returned; that of the last is None."""
    found = [(t, event) for t, verdict in enumerate(verdicts) for event in alarm.update(verdict)]
    return found + [(None, event) for event in alarm.finish()]


def slow_events(verdicts, patience):
    """Runs of windows above the low threshold, divided where the kind of high ones changes."""
    above = [t for t, verdict in enumerate(verdicts) if verdict.surprise >= LOW]
    runs = []
    for t in above:
        if runs and t - runs[-1][-1] <= patience:  # fewer than `patience` quiet windows between
            runs[-1].append(t)
        else:
            runs.append([t])
    events = []
    for run_ in runs:
        high = [t for t in run_ if verdicts[t].surprise >= HIGH]
        groups = [list(group) for _, group in groupby(high, key=lambda t: KINDS[verdicts[t].kind])]
        for i, group in enumerate(groups):
            first = run_[0] if i == 0 else group[0]
            cut = groups[i + 1][0] if i + 1 < len(groups) else None
            last = max(t for t in run_ if cut is None or t < cut)
            peak = max(group, key=lambda t: (verdicts[t].surprise, -t))
            event = Event(
                start=max(verdicts[first].new, verdicts[group[0]].start),
                end=max(verdicts[group[0]].stop, verdicts[last].start, verdicts[peak].new),
                peak=verdicts[peak].new,
                kind=KINDS[verdicts[peak].kind],
                surprise=verdicts[peak].surprise,
                p_value=verdicts[peak].p_value,
                part=verdicts[peak].part,
                found=verdicts[group[0]].stop,
            )
            ended = last + patience if cut is None else cut
            events.append((ended if ended < len(verdicts) else None, event))
    return events


windows = st.tuples(st.sampled_from([0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 9.0]), st.sampled_from(sorted(KINDS)))


@given(series=st.lists(windows, max_size=40), patience=st.integers(1, 5))
def test_events_against_their_slow_twin(series, patience):
    verdicts = verdicts_of([s for s, _ in series], [k for _, k in series])
    assert run(Alarm(HIGH, LOW, patience), verdicts) == slow_events(verdicts, patience)


@given(series=st.lists(windows, max_size=40), patience=st.integers(1, 5))
def test_events_do_not_overlap_and_the_open_one_is_kept(series, patience):
    verdicts = verdicts_of([s for s, _ in series], [k for _, k in series])
    alarm, ended = Alarm(HIGH, LOW, patience), []
    for verdict in verdicts:
        ended += alarm.update(verdict)
        if verdict.surprise >= HIGH:  # an event is under way with every such window
            assert alarm.event is not None
            assert alarm.event.kind == KINDS[verdict.kind]
            assert alarm.event.surprise >= verdict.surprise
    unfinished = alarm.event
    last = alarm.finish()
    assert [(event.start, event.end) for event in last] == (
        [] if unfinished is None else [(unfinished.start, unfinished.end)]
    )
    assert alarm.finish() == []
    starts = [event.start for event in ended + last]
    assert starts == sorted(set(starts))


def test_hysteresis():
    def spans(surprises, patience=2):
        found = run(Alarm(HIGH, LOW, patience), verdicts_of(surprises))
        return [(event.start, event.peak) for _, event in found]

    assert spans([0.0, 2.5, 2.9, 2.5, 0.0]) == []  # never high
    assert spans([2.5, 3.0, 0.0, 0.0]) == [(0.0, 1.0)]
    assert spans([3.0, 1.0, 3.5, 0.0, 0.0]) == [(0.0, 2.0)]  # one quiet window does not end it
    assert spans([3.0, 1.0, 1.0, 3.5]) == [(0.0, 0.0), (3.0, 3.0)]
    assert spans([3.0, 1.0, 3.5], patience=1) == [(0.0, 0.0), (2.0, 2.0)]
    assert spans([2.5, 1.0, 1.0, 3.5]) == [(3.0, 3.0)]  # the early window is no part of that run
    assert spans([2.5] * 9 + [3.5]) == [(10.0 - LENGTH, 9.0)]  # nor are those before the unusual window


def test_another_kind_is_another_event():
    kinds = ["normal", "normal", "still", "still", "normal", "normal"]
    found = run(Alarm(HIGH, LOW, 3), verdicts_of([4.0, 5.0, 300.0, 300.0, 4.0, 0.0], kinds))
    assert [(t, event.kind, event.start) for t, event in found] == [
        (2, "change", 0.0),
        (4, "still", 2.0),
        (None, "change", 4.0),
    ]
    # Still windows that are usual are quiet ones.
    found = run(Alarm(HIGH, LOW, 2), verdicts_of([4.0, 0.0, 0.0], ["normal", "still", "still"]))
    assert [(t, event.kind) for t, event in found] == [(2, "change")]


def test_evidence_of_a_lasting_change():
    verdicts = verdicts_of([0.0, 1.0, 1.0, 2.5, 1.0, 0.0, 0.0, 4.0])
    for t, evidence in enumerate([0.0, 0.5, 1.0, 1.5, 0.3, 0.05, 0.0]):
        verdicts[t] = replace(verdicts[t], evidence=evidence, changed=0.5)
    (ended, lasting), (_, jump) = run(Alarm(HIGH, LOW, 2), verdicts)
    assert (ended, lasting.rule, lasting.start, lasting.found, lasting.evidence) == (
        6,
        "lasting",
        0.5,
        3.0,
        1.5,
    )
    assert (lasting.surprise, lasting.peak) == (2.5, 3.0)
    assert (jump.rule, jump.found, jump.evidence) == ("jump", 8.0, 0.0)
    # A window that is unusual enough by itself is a jump, whatever was before it.
    verdicts = verdicts_of([1.0, 4.0])
    verdicts[1] = replace(verdicts[1], evidence=1.2, changed=0.0)
    ((_, event),) = run(Alarm(HIGH, LOW, 2), verdicts)
    assert (event.rule, event.start, event.evidence) == ("jump", 1.0, 1.2)
