"""Tables of numbers that are watched: rows at a constant rate, standardised; events; the command."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cli_folder import call
from sysbags.datasets.tables import Table
from sysbags.errors import StreamError
from sysbags.watch.numbers import Feed, NumberSession
from sysbags.watch.watcher import Watcher

LEARN = 400.0
OPTIONS = {"learn": LEARN, "false_alarms": 1 / 3600, "length": 20, "step": 5}


def series(seed=0, count=900):
    """Four channels, an oscillation among them that is twice as fast from row 600 to 700."""
    rng = np.random.default_rng(seed)
    phase = np.cumsum(0.3 * (1.0 + 0.05 * rng.standard_normal(count) + (np.arange(count) // 100 == 6)))
    numbers = 0.1 * rng.standard_normal((count, 4))
    numbers[:, :2] += np.column_stack([np.sin(phase), np.cos(phase)])
    return numbers * [1.0, 100.0, 1e-3, 1.0] + [0.0, 5.0, 100.0, 0.0]


def table(numbers, times=None, *, has_dates=False):
    times = np.arange(len(numbers), dtype=float) if times is None else times
    names = [f"c{k}" for k in range(numbers.shape[1])]
    return Table("pump", names, iter(list(zip(times, numbers, strict=True))), has_dates)


def watch(*arguments, **options):
    records = []
    NumberSession(table(*arguments), **{**OPTIONS, **options}).run(records.append)
    return records


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_the_events_are_those_of_a_watcher_of_standardised_rows(channels):
    numbers = series()[:, :channels]
    first = numbers[: int(LEARN) // 2 + 1]
    rows = (numbers - first.mean(axis=0)) / first.std(axis=0)
    delays = {1: 6, 2: 3, 4: 2}[channels]  # more numbers than the five states
    padded = np.concatenate([np.repeat(rows[:1], delays - 1, axis=0), rows])
    watcher = Watcher(rate=1.0, kernel="linear", **OPTIONS)
    ended = watcher.update(np.hstack([padded[k : k + len(rows)] for k in range(delays)]))[1]
    found = [one for one in watch(numbers) if one["type"] == "event"]
    assert [(one["start"], one["end"], one["part"]) for one in found] == [
        (event.start, event.end, event.part) for event in [*ended, *watcher.finish()]
    ]
    assert channels == 2 or any(590.0 <= one["start"] < 640.0 for one in found)  # 400 rows teach little


def test_units_do_not_matter():
    numbers = series()
    one, other = (
        [record for record in watch(data) if record["type"] == "event"]
        for data in (numbers, numbers * [1e3, 1.0, 1e-3, 7.0] - 5.0)
    )
    for first, second in zip(one, other, strict=True):
        assert (first["start"], first["end"], first["kind"]) == (
            second["start"],
            second["end"],
            second["kind"],
        )


def test_rows_come_at_a_constant_rate():
    """A straight line, interpolated where a row is missing, is a straight line; a long gap is none."""
    times = np.array([0.0, 0.5, 1.0, 1.5, 3.0, 3.5, 4.1, 4.5, 20.25, 20.5, 21.0])
    feed = Feed(table(times[:, None], times), seconds=3.0)
    frames = list(feed)
    assert feed.rate == 2.0
    mean, scale = times[:5].mean(), times[:5].std()  # 3 seconds
    expected = [*np.arange(0.0, 4.6, 0.5), 20.5, 21.0]
    assert [frame.time for frame in frames] == expected
    assert [frame.index for frame in frames] == [round(2 * time) for time in expected]
    np.testing.assert_allclose([f.picture[0] * scale + mean for f in frames], expected, rtol=1e-12)
    assert [frame.time for frame in frames if frame.is_gap] == [20.5]
    feed = Feed(table(times[:, None], times), seconds=3.0, rate=1.0)
    assert [frame.time for frame in feed] == [0.0, 1.0, 2.0, 3.0, 4.0, 21.0]


def test_a_clock_that_is_set_back_begins_new_windows():
    times = np.concatenate([np.arange(500.0), np.arange(490.0, 900.0)])
    records = watch(series(count=len(times)), times)
    assert [record["time"] for record in records if record["type"] == "gap"] == [500.0]
    assert records[-1]["seconds"] == 900.0


def test_a_constant_column_changes_nothing():
    numbers = series()
    constant = np.concatenate([numbers[:, [0]], np.full((900, 2), 7.0)], axis=1)
    one, other = (
        [(one["start"], one["end"]) for one in watch(data) if one["type"] == "event"]
        for data in (numbers[:, [0]], constant)
    )
    assert one == other != []


def test_columns_that_follow_from_others_change_nothing():
    """Degrees Celsius and Fahrenheit are one number."""
    numbers = series()
    both = np.column_stack([numbers[:, 0], 1.8 * numbers[:, 0] + 32.0])
    one, other = (
        [(one["start"], one["end"]) for one in watch(data) if one["type"] == "event"]
        for data in (numbers[:, [0]], both)
    )
    assert one == other != []


def test_times_that_are_rounded_give_the_rate():
    times = 1.76e9 + np.arange(500) / 10.0  # to a quarter of a microsecond
    feed = Feed(table(series(count=500), times, has_dates=True), seconds=30.0)
    assert [frame.time for frame in feed] == [k / 10.0 for k in range(500)]
    assert feed.rate == 10.0


def test_an_event_ends_before_an_error():
    rows = list(zip(np.arange(900.0), series(), strict=True))

    def broken():
        yield from rows[:640]
        raise StreamError("the sensor is gone")

    records = []
    session = NumberSession(Table("pump", list("abcd"), broken(), False), **OPTIONS)
    with pytest.raises(StreamError, match="the sensor is gone"):
        session.run(records.append)
    assert [record["type"] for record in records][-3:] == ["event_start", "event", "end"]
    assert records[-1]["reason"] == "failed"


@pytest.mark.parametrize(
    ("numbers", "times", "sentence"),
    [
        (series(count=100), None, "pump is too short: 400 s are needed"),
        (0.0 * series(), None, "no column of pump changes while learning"),
        (series(count=300), np.repeat(np.arange(3) * 150.0, 100), "the times of pump do not increase"),
    ],
)
def test_mistakes(numbers, times, sentence):
    with pytest.raises(StreamError, match=sentence):
        watch(numbers, times)


def test_the_command(tmp_path, capsys):
    path, events = tmp_path / "pump.csv", tmp_path / "events.csv"
    lines = [
        f"2026-01-01 00:{t // 60:02}:{t % 60:02},on,{','.join(map(str, row))}"
        for t, row in enumerate(series())
    ]
    path.write_text("\n".join(["time,state,a,b,c,d", *lines]))
    words = ("--learn", "400s", "--length", 20, "--step", 5, "--false-alarms", "1/h")
    code, out, err = call(
        capsys, "watch", path, *words, "--columns", "a,b, c,d", "--events", events, "--json-lines"
    )
    assert (code, err) == (0, "")
    found = [one for one in map(json.loads, out.splitlines()) if one["type"] == "event"]
    assert found[0]["start_utc"].startswith("2026-01-01T00:10:")
    assert len(events.read_text().splitlines()) == 1 + len(found)
    for more, sentence in (
        ((), "'on' in the column 'state', but it must be a number"),
        (("--columns", "a", "--grid", "2x2"), "a table of numbers is watched without --grid"),
        (("--columns", "a", "--bags", "lbp"), "a table of numbers is watched without --bags"),
        (("--columns", "a", "--checkpoint", tmp_path / "c"), "is watched without --checkpoint"),
        (("--time", "when"), "has no column 'when'"),
    ):
        code, out, err = call(capsys, "watch", path, *words, *more)
        assert code == 2
        assert sentence in err
        assert err.count("\n") == 1
