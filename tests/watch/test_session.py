"""A session: gaps, regions, clips, checkpoints and what was learnt, from frames to events."""

from __future__ import annotations

import csv
import dataclasses
import math
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from servers import http, server
from sysbags.bags import BagUnion, LocalBinaryPatterns, OpticalFlow, PlanePatterns, VisualWords
from sysbags.bags.regions import Regions
from sysbags.datasets import WatchedEvent, make_streams, make_watching
from sysbags.errors import FileError, ParameterError, StreamError
from sysbags.storage import load_values, save_values
from sysbags.video import LiveFrame, frames, usual_rate, write_video
from sysbags.watch import Watcher
from sysbags.watch.checkpoint import load_normal, pack, unpack
from sysbags.watch.session import Outputs, Session

RATE = 10.0
OPTIONS = {"learn": 42.0, "false_alarms": 1 / 600, "length": 20, "step": 5}
EVENTS = (
    WatchedEvent(50.0, 58.0, "covered", 1.0),
    WatchedEvent(66.0, 72.0, "frozen"),
)


def film(seconds=76.0, events=EVENTS, **options):
    return np.stack(list(make_watching("wheel", seconds, rate=RATE, events=events, **options).frames()))


@pytest.fixture(scope="module")
def pictures():
    return film()


@pytest.fixture(scope="module")
def video(tmp_path_factory, pictures):
    path = tmp_path_factory.mktemp("session") / "wheel.mkv"
    write_video(path, pictures, RATE, lossless=True)
    return path


@pytest.fixture(scope="module")
def other():
    """Another wheel without events."""
    return film(60.0, (), random_state=1)


@pytest.fixture(scope="module")
def learnt(video, tmp_path_factory):
    """The records of a session, and the file of what it has learnt."""
    model = tmp_path_factory.mktemp("learnt") / "wheel.normal"
    return watched(video, learnt=model), model


def session_of(source, bag=None, **options):
    """A session with the options of these tests; outputs are given by their names."""
    names = [field.name for field in dataclasses.fields(Outputs) if field.name in options]
    outputs = Outputs(**{name: options.pop(name) for name in names})
    return Session(source, bag or LocalBinaryPatterns(), outputs=outputs, **{**OPTIONS, **options})


def watched(source, bag=None, **options):
    """The records of a session."""
    records = []
    session_of(source, bag, **options).run(records.append)
    return records


def of(kind, records):
    return [record for record in records if record["type"] == kind]


def facts(records):
    """What is decided about the events, and what is computed."""
    events = of("event", records)
    return (
        [(e["start"], e["end"], e["peak"], e["kind"], e["part"], e["region"]) for e in events],
        [(e["surprise"], e["p_value"], e["per_day"]) for e in events],
    )


def assert_same_events(found, expected):
    assert facts(found)[0] == facts(expected)[0]
    # after a continuation the state is the same, so only the sums of another process may round otherwise
    np.testing.assert_allclose(facts(found)[1], facts(expected)[1], rtol=1e-6)


class Stopped(BaseException):
    """Ends a session without any of its work at the end, as SIGKILL does."""


def interrupted(session, frames):
    """Run a session until it has taken so many frames."""
    take = session._take

    def taking(batch):
        if session.frames >= frames:
            raise Stopped
        take(batch)

    session._take = taking
    with pytest.raises(Stopped):
        session.run(lambda record: None)


def test_events_are_found_and_written(video, tmp_path, pictures):
    table, clips = tmp_path / "events.csv", tmp_path / "clips"
    records = watched(video, events=table, clips=clips, windows=True)
    kinds = [record["type"] for record in records if record["type"] != "window"]
    count = len(of("event", records))
    assert kinds == ["start", "learnt", *["event_start", "event"] * count, "end"]
    assert len(of("window", records)) == (len(pictures) - 20) // 5 + 1
    covered = of("event", records)[0]
    still = next(event for event in of("event", records) if event["kind"] == "still")
    assert 50.0 <= covered["start"] <= covered["peak"] <= 58.0
    assert 66.0 < still["start"] <= 69.0
    assert (still["part"], covered["kind"]) == ("", "change")
    assert still["duration"] == still["end"] - still["start"]
    assert all(event["start_utc"] is None and event["region"] is None for event in of("event", records))

    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("kind", "part", "clip"):
        assert [row[name] for row in rows] == [event[name] for event in of("event", records)]
    for name in ("start", "end", "peak", "surprise", "p_value"):  # nine digits are written
        found, told = [float(row[name]) for row in rows], [event[name] for event in of("event", records)]
        np.testing.assert_allclose(found, told, rtol=1e-8)
    shots = list(frames(Path(covered["clip"])))
    # 5 s before the event, and after it until it is known that it has ended, at most 5 s
    assert RATE * (covered["duration"] + 5.0) < len(shots) <= RATE * (covered["duration"] + 10.0) + 1
    first = round(RATE * (covered["start"] - 5.0))
    assert np.abs(shots[0].astype(float) - pictures[first]).mean() < 6.0  # compressed twice
    end = of("end", records)[0]
    assert (end["frames"], end["events"], end["reason"]) == (len(pictures), count, "end of the input")


def test_a_clip_that_cannot_be_written_loses_no_event(video, tmp_path):
    session, records = session_of(video, clips=tmp_path / "clips"), []
    (tmp_path / "clips").rmdir()
    (tmp_path / "clips").write_text("a file")
    session.run(records.append)
    assert {record["clip"] for record in of("event", records)} == {None}
    assert len(of("note", records)) == len(of("event", records)) > 0
    assert all(record["text"].startswith("cannot write") for record in of("note", records))
    assert session.failures == [record["text"] for record in of("note", records)]
    with pytest.raises(FileError, match="clips is a file, but it must be a folder"):
        session_of(video, clips=tmp_path / "clips")


def test_what_was_learnt_gives_the_same_events(video, learnt):
    expected, model = learnt
    normal = load_normal(model)
    assert normal.options == {"learn": 42.0, "length": 20, "step": 5, "order": 5, "kernel": "chi2"}
    records = []
    Session(video, normal.bag, normal=normal, false_alarms=OPTIONS["false_alarms"]).run(records.append)
    # the windows of the time to learn are judged too
    assert_same_events([record for record in records if record.get("start", 99.0) > 42.0], expected)
    with pytest.raises(ParameterError, match="is read at 5 frames per second, but normal was learnt at 10"):
        Session(video, normal.bag, normal=normal, rate=5.0).run(records.append)


def test_a_file_of_what_was_learnt_is_checked(video, tmp_path, learnt):
    model = tmp_path / "wheel.normal"
    values = load_values(learnt[1], "Normal")
    for entry in values["learnt"]:
        if isinstance(entry, dict) and entry["type"] == "Motion":
            entry["state"]["center"] = 3
    save_values(model, "Normal", values)
    with pytest.raises(FileError, match="is not a valid file of a normal process"):
        load_normal(model)
    values = load_values(model, "Normal")
    values["learnt"][-1] = {"type": "Popen", "state": {"args": "true"}}
    save_values(model, "Normal", values)
    with pytest.raises(FileError, match="is not a valid file of a normal process"):
        load_normal(model)
    with pytest.raises(FileError, match=r"holds what is normal .*, but it must hold a checkpoint"):
        watched(video, checkpoint=model)


def test_what_several_bags_find_is_one_event(video):
    """Each bag has half of the false alarms; an event that both see has the name of one of them."""
    bags = BagUnion([("lbp", LocalBinaryPatterns()), ("top", PlanePatterns())])
    records = watched(video, bags, windows=True)
    about = of("learnt", records)
    assert [(record["bag"], record["share_per_day"]) for record in about] == [("lbp", 72.0), ("top", 72.0)]
    seen = {
        bag: [
            w["start"] for w in of("window", records) if w["bag"] == bag and w["kind"] in ("change", "still")
        ]
        for bag in ("lbp", "top")
    }
    events = of("event", records)
    assert len(of("event_start", records)) == len(events)
    # What one bag sees as several events, of different kinds, is joined by the other.
    assert [round(event["start"], -1) for event in events] == [50.0, 70.0]
    for event in events:
        assert event["bag"] in seen
        assert event["per_day"] <= 144.0
    covered = events[0]
    assert all(any(covered["start"] - 2.0 <= t <= covered["end"] for t in times) for times in seen.values())
    with pytest.raises(ParameterError, match=r"the bags have steps of \[1, 2\] frames, but all must"):
        Session(video, BagUnion([LocalBinaryPatterns(), LocalBinaryPatterns(window=2)]))


# --- checkpoints


def test_a_watcher_is_the_same_after_it_was_saved(tmp_path):
    stream = make_streams(classes=1, per_class=1, frames=700, bins=8)[0][0]
    stream[600:] = stream[600]
    for cut in (100, 300, 630):  # references, scores, an event
        watcher = Watcher(rate=10.0, learn=42.0, false_alarms=1 / 600, length=20, step=10, adapt=600.0)
        watcher.update(stream[:cut])
        save_values(tmp_path / "state", "State", {"watcher": pack(watcher)})
        again = unpack(load_values(tmp_path / "state", "State")["watcher"])
        found, expected = again.update(stream[cut:]), watcher.update(stream[cut:])
        # NaN is not equal to itself
        assert [repr(verdict) for verdict in found[0]] == [repr(verdict) for verdict in expected[0]]
        assert found[1] == expected[1]
        assert (len(found[1]), again.event) != (0, None)
        assert again.finish() == watcher.finish()


@pytest.mark.parametrize(
    ("bag", "times"),
    [
        (LocalBinaryPatterns(), 3),
        (LocalBinaryPatterns(window=2), 2),
        (BagUnion([("lbp", LocalBinaryPatterns()), ("top", PlanePatterns())]), 3),  # one row is 2 frames late
        pytest.param(LocalBinaryPatterns(), 10, marks=pytest.mark.long),
        pytest.param(OpticalFlow(), 2, marks=pytest.mark.long),
    ],
)
def test_a_session_that_breaks_off_continues(video, tmp_path, bag, times):
    options = {"checkpoint": tmp_path / "state", "events": tmp_path / "events.csv"}
    window = getattr(bag, "window", 1)
    options |= {"length": 20 // window, "step": 6 // window}
    expected = watched(video, bag, **{**options, "checkpoint": None})
    table = options["events"].read_bytes()
    assert of("event", expected)
    rng = np.random.default_rng(0)
    for moment in np.sort(rng.choice(np.arange(30, 750), times, replace=False)).tolist():
        # with few checkpoints events are found again, with many none is
        every = float(rng.choice([0.02, 60.0]))
        interrupted(session_of(video, bag, **options, checkpoint_every=every), moment)
        if options["checkpoint"].exists():
            with options["events"].open("a") as file:
                file.write("1,2,3\r\n")
    records = watched(video, bag, **options)
    assert options["events"].read_bytes() == table
    assert of("end", records) == of("end", expected)
    found = of("event", records)
    assert_same_events(found, of("event", expected)[len(of("event", expected)) - len(found) :])
    assert not options["checkpoint"].exists()  # the file has ended


def test_a_session_that_is_stopped_continues(video, tmp_path):
    """The event that is open is written, and goes on afterwards as if nothing had been, its clip as well."""
    options = {"events": tmp_path / "events.csv", "clips": tmp_path / "clips"}
    expected = watched(video, **options)
    table = options["events"].read_text()
    clips = [list(frames(path)) for path in sorted(options["clips"].iterdir())]
    options["checkpoint"] = tmp_path / "state"
    session, records = session_of(video, **options), []

    def report(record):
        records.append(record)
        if record["type"] == "event_start":
            session.stop()

    session.run(report)
    assert [record["type"] for record in records[-3:]] == ["event_start", "event", "end"]
    assert records[-1]["reason"] == "stopped"
    assert len(options["events"].read_text().splitlines()) == 2
    assert_same_events(watched(video, **options), expected)
    assert options["events"].read_text() == table
    again = [list(frames(path)) for path in sorted(options["clips"].iterdir())]
    assert [len(clip) for clip in again] == [len(clip) for clip in clips]
    for found, shown in zip(again, clips, strict=True):
        np.testing.assert_allclose(found, shown, atol=2)  # the same pictures, encoded again


def test_a_checkpoint_of_another_session_is_refused(video, tmp_path):
    options = {"checkpoint": tmp_path / "state"}
    session = session_of(video, **options, checkpoint_every=1e-9)
    interrupted(session, 100)
    with pytest.raises(FileError, match="another session: its length is 20, not 21"):
        watched(video, **options, length=21)
    with pytest.raises(FileError, match=r"its bag is 'LocalBinaryPatterns.*', not 'OpticalFlow"):
        watched(video, OpticalFlow(), **options)


def test_a_folder_continues_with_new_segments(pictures, tmp_path):
    folder, options = tmp_path / "segments", {"checkpoint": tmp_path / "state", "events": tmp_path / "e.csv"}
    folder.mkdir()
    parts = [pictures[:300], pictures[300:530], pictures[530:]]
    write_video(folder / "1.mkv", parts[0], RATE, lossless=True)
    first = watched(folder, **options)
    assert of("end", first)[0]["has_learnt"] is False
    write_video(folder / "2.mkv", parts[1], RATE, lossless=True)
    write_video(folder / "10.mkv", parts[2], RATE, lossless=True)
    found = watched(folder, **options)
    assert_same_events(found, watched(folder))
    assert of("event", found)


# --- regions


def test_an_event_in_a_cell_names_it(tmp_path, pictures, other):
    path = tmp_path / "two.mkv"
    write_video(path, np.concatenate([other, pictures[:600]], axis=2), RATE, lossless=True)
    records = watched(path, Regions(LocalBinaryPatterns(), grid="1x2"))
    assert {record["region"] for record in of("event", records)} == {"row 1, column 2"}
    assert [record["region"] for record in of("learnt", records)] == ["row 1, column 1", "row 1, column 2"]
    assert {record["share_per_day"] for record in of("learnt", records)} == {72.0}  # half of 1 in 10 minutes


def test_regions_that_learn_from_little_video_are_noted(tmp_path, other, learnt, monkeypatch):
    path, regions = tmp_path / "one.mkv", Regions(LocalBinaryPatterns(), grid="1x2")
    write_video(path, other[:450], RATE, lossless=True)
    told = (
        "regions are learnt from 42 s{}: if light or weather change slowly, there will be more false alarms"
    )
    for adapt, how in ((None, " without --adapt"), (20.0, "")):
        (note,) = of("note", watched(path, regions, adapt=adapt))
        assert note["text"].startswith(told.format(how))
        assert note["text"].endswith("use --adapt, and --learn 600s or more")
    assert of("note", learnt[0]) == []  # the whole picture
    monkeypatch.setattr("sysbags.watch.session.ENOUGH", 42.0)
    assert of("note", watched(path, regions, adapt=20.0)) == []


def test_a_cell_where_nothing_moves_is_left_out(tmp_path, other):
    moving = other[:450]
    path, model = tmp_path / "sky.mkv", tmp_path / "model"
    write_video(path, np.concatenate([np.full_like(moving, 99), moving], axis=1), RATE, lossless=True)
    # the cell above shares a line of patterns with the one below, so there is a line between them
    mask = np.repeat([1, 0, 2], [40, 16, 40])[:, None] * np.ones((1, 64), int)
    records = watched(path, Regions(LocalBinaryPatterns(), mask=mask), learnt=model)
    _, note = of("note", records)
    assert note["text"].startswith("region 1 is not watched: only 0 of the windows")
    normal = load_normal(model)
    assert normal.learnt[0] is None
    np.testing.assert_array_equal(normal.bag.mask, mask)
    records = watched(path, normal.bag, normal=normal)
    assert [record["region"] for record in of("learnt", records)] == ["region 2"]
    write_video(path, np.full((450, 48, 64), 99, np.uint8), RATE, lossless=True)
    with pytest.raises(StreamError, match="only 0 of the windows to learn from can be described"):
        watched(path)


# --- gaps and live videos


def transport(frames, path):
    """The bytes of frames as an MPEG-2 transport stream, which can be sent over a connection."""
    import av

    with av.open(str(path), "w", format="mpegts") as container:
        stream = container.add_stream("mpeg2video", rate=25, options={"qmin": "2", "qmax": "3"})
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:], "yuv420p"
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame, "gray").reformat(format="yuv420p")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path.read_bytes()


def test_a_feed_that_dies_and_returns(pictures, tmp_path):
    """Learnt on the first connection; what happens on the second is dated by the clock."""
    parts = [transport(part, tmp_path / "part.ts") for part in (pictures[:490], pictures[490:580])]
    records = []

    def report(record):
        records.append(record)
        if len(of("reconnect", records)) == 2:
            session.stop()

    with server(*(http(part) for part in parts)) as port:
        session = session_of(
            f"http://127.0.0.1:{port}/",
            learn=18.0,
            live={"queue_seconds": 100.0, "sleep": lambda seconds: None},
            now=lambda: 1e9,  # when the rate is known
            events=tmp_path / "events.csv",
        )
        session.run(report)
    kinds = [record["type"] for record in records if record["type"] != "note"]
    assert kinds[:6] == ["start", "connected", "learnt", "reconnect", "connected", "gap"]
    assert (kinds[-2:], "event_start" in kinds[6:]) == (["event", "end"], True)
    event = of("event", records)[0]
    assert 490 / 25 <= event["start"] < 580 / 25 + 1.0  # a reconnection takes as long as the computer needs
    began = datetime.fromisoformat(event["start_utc"]).timestamp() - event["start"]
    assert began == pytest.approx(1e9, abs=2.0)  # the first frames were taken within the first second
    assert of("end", records)[0]["reconnections"] == 1


def test_the_times_of_a_feed_go_on_by_the_clock(pictures, tmp_path):
    """The first session is stopped after it has learnt; the second one begins 100 seconds later."""
    parts = [transport(part, tmp_path / "part.ts") for part in (pictures[:490], pictures[490:600])]
    records = []

    def watch(now):
        def report(record):
            records.append(record)
            if record["type"] in ("learnt", "reconnect"):
                session.stop()

        session = session_of(
            f"http://secret:word@127.0.0.1:{port}/",
            learn=18.0,
            live={"queue_seconds": 100.0},
            now=lambda: now,
            checkpoint=tmp_path / "state",
        )
        session.run(report)

    # If the first part is read before it is learnt from, the first session connects again, maybe often.
    with server(http(parts[0]), *9 * [http(parts[1])]) as port:
        watch(1e9)
        watch(1e9 + 100.0)
    (gap,) = of("gap", records)
    assert gap["time"] == pytest.approx(100.0, abs=2.0)  # the first frames came within two seconds
    event = of("event", records)[0]
    assert 100.0 - 2.0 <= event["start"] <= 106.0
    assert event["start_utc"].startswith("2001-09-09T01:48:2")
    assert b"word" not in (tmp_path / "state").read_bytes()


def test_regions_are_at_the_same_frame_in_a_checkpoint(tmp_path, pictures):
    """Two regions have an event; the session breaks off after the checkpoint at the first one."""
    both = np.concatenate([pictures[:600], pictures[:600, :, ::-1]], axis=2)
    path, bag = tmp_path / "two.mkv", Regions(LocalBinaryPatterns(), grid=(1, 2))
    write_video(path, both, RATE, lossless=True)
    expected = watched(path, bag)
    assert {record["region"] for record in of("event", expected)} == set(bag.names)
    session = session_of(path, bag, checkpoint=tmp_path / "state")

    def report(record):
        if record["type"] == "event_start":
            interrupt()

    def interrupt():
        save = session._save

        def saving():
            save()
            raise Stopped

        session._save = saving

    with pytest.raises(Stopped):
        session.run(report)
    assert_same_events(watched(path, bag, checkpoint=tmp_path / "state"), expected)


def test_a_frame_size_that_changes_is_a_gap(pictures, tmp_path):
    folder = tmp_path / "segments"
    folder.mkdir()
    write_video(folder / "1.mkv", pictures[:470], RATE, lossless=True)
    write_video(folder / "2.mkv", np.repeat(np.repeat(pictures[470:], 2, 1), 2, 2), RATE, lossless=True)
    records = watched(folder)
    (gap,) = of("gap", records)
    assert (gap["time"], gap["seconds"]) == (47.0, 0.0)
    assert "still" in [event["kind"] for event in of("event", records)]


def test_black_frames_are_an_event(pictures, tmp_path):
    path = tmp_path / "black.mkv"
    black = pictures[:560].copy()
    black[460:520] = 0
    write_video(path, black, RATE, lossless=True)
    event = next(event for event in of("event", watched(path)) if event["kind"] == "still")
    assert 46.0 < event["start"] < 49.0
    assert event["surprise"] == 300.0


def test_a_bag_that_must_be_fitted_is_refused(video):
    with pytest.raises(ParameterError, match="VisualWords has to be fitted to clips first"):
        watched(video, VisualWords(5, "sift"))


def test_the_rate_is_measured():
    def at(times, gaps=()):
        picture = np.zeros((8, 8), np.uint8)
        return [LiveFrame(time, k, picture, k in gaps) for k, time in enumerate(times)]

    assert usual_rate(at(round(k / 30, 3) for k in range(26))) == 30.0
    assert usual_rate(at([0.0, 0.1, 0.2, 9.0, 9.1], gaps=[3])) == 10.0
    assert math.isclose(usual_rate(at([0.0, 3.0, 6.0])), 1 / 3)
    with pytest.raises(ParameterError, match="give the rate"):
        usual_rate(at([0.0]))


def test_the_rate_that_a_file_states(pictures, tmp_path):
    """Measured, it would be taken for 24 frames per second."""
    path = tmp_path / "odd.mkv"
    write_video(path, pictures[:60], 24.1, lossless=True)
    (end,) = of("end", watched(path))
    assert end["seconds"] == pytest.approx(60 / 24.1, rel=1e-6)
