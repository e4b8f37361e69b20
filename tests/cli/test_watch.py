"""sysbags watch: sentences, JSON lines, tables, pipes, signals, kill -9, and mistakes."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import numpy as np
import pytest

from cli_folder import call, call_json
from servers import server
from sysbags.cli._options import rate_per_second, seconds_of
from sysbags.cli.watch import POSSIBLE
from sysbags.datasets import WatchedEvent, make_watching
from sysbags.errors import ParameterError
from sysbags.video import write_video
from sysbags.watch.checkpoint import load_normal

RATE = 10.0
WINDOWS = ("--length", 20, "--step", 5)
OPTIONS = ("--learn", "42s", *WINDOWS, "--false-alarms", "1/10min")
EVENTS = (WatchedEvent(50.0, 58.0, "covered", 1.0), WatchedEvent(66.0, 72.0, "frozen"))


@pytest.fixture(scope="module")
def film():
    return np.stack(list(make_watching("wheel", 76.0, rate=RATE, events=EVENTS).frames()))


@pytest.fixture(scope="module")
def video(tmp_path_factory, film):
    path = tmp_path_factory.mktemp("watch") / "wheel.mkv"
    write_video(path, film, RATE, lossless=True)
    return path


def start(*words, **options):
    """The command in a process of its own, which prints JSON lines."""
    command = [sys.executable, "-m", "sysbags", "watch", *map(str, words), "--json-lines"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def lines(capsys, *words):
    code, out, err = call(capsys, "watch", *words, "--json-lines")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def events_of(records):
    names = ("start", "end", "peak", "kind", "part", "surprise")
    return [[record[name] for name in names] for record in records if record["type"] == "event"]


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def expected(video, tmp_path_factory):
    """The table of an undisturbed run."""
    path = tmp_path_factory.mktemp("expected") / "events.csv"
    process = start(video, *OPTIONS, "--events", path)
    assert process.communicate()[1] == b""
    assert len(table(path)) > 1
    return table(path)


def assert_same_tables(found, expected):
    decided = ("start", "end", "peak", "duration", "kind", "part", "region")
    assert [[row[name] for name in decided] for row in found] == [
        [row[name] for name in decided] for row in expected
    ]
    computed = ("surprise", "p_value", "per_day")
    np.testing.assert_allclose(
        *([[float(row[name]) for name in computed] for row in rows] for rows in (found, expected)), rtol=1e-6
    )


def test_sentences_json_and_a_model(video, capsys, tmp_path, expected):
    model, path = tmp_path / "wheel.normal", tmp_path / "events.csv"
    code, out, err = call(capsys, "watch", video, *OPTIONS, "--save-normal", model, "--events", path)
    assert (code, err) == (0, "")
    first, second, *sentences, last = out.splitlines()
    for line, bag in ((first, "lbp-top"), (second, "flow")):
        # Each bag has half of 144 per day; no rate that is printed contradicts another one.
        found = re.fullmatch(
            rf"{bag}: learnt from 42 s; false alarms: asked for 72 of all 144 per day, seen (\d+) in "
            r"([\d.]+) s of what is normal, which is ([\d.]+) to ([\d.]+) per day \(95 %\)(.*)",
            line,
        )
        events, seconds, low, high = map(float, found.groups()[:4])
        assert low <= 86400.0 * events / seconds <= high
        if low <= 72.0:
            told = re.search(
                r"less than (\d+) per day cannot be promised: (\d+) s without .* show 72$", found[5]
            )
            promised, needed = map(float, told.groups())
            assert promised * seconds == pytest.approx(72.0 * needed, rel=1e-3)
            assert needed == pytest.approx(-np.log(0.025) / 72.0 * 86400.0, rel=1e-3)
            assert events > 0 or promised == pytest.approx(high, rel=1e-3)
    for line in sentences:
        if not line.startswith("event begins"):  # an event is at most as frequent as asked
            rate = re.search(r"(?:about|at most) (\S+) times per day", line)[1]
            assert float(rate) <= 144.0
    assert len([line for line in sentences if line.startswith("event 00:00:5")]) >= 1
    assert len(sentences) == 2 * len(expected)
    assert last == f"{len(expected)} events in 00:01:16.000, 760 frames"
    assert_same_tables(table(path), expected)

    records = lines(capsys, video, "--normal", model, "--false-alarms", "1/10min", "--windows")
    assert records[0] == {"type": "start", "input": str(video), "regions": []}
    assert [record["bag"] for record in records[1:3]] == ["lbp-top", "flow"]
    assert len([record for record in records if record["type"] == "window"]) == 2 * ((758 - 20) // 5 + 1)
    later = [event for event in events_of(records) if event[0] > 42.0]
    assert [event[3:5] for event in later] == [[row["kind"], row["part"]] for row in expected]
    assert [event[0] for event in later] == [float(row["start"]) for row in expected]
    assert records[-1]["type"] == "end"

    told = call_json(capsys, "inspect", model)
    expected_facts = {"kind": "Normal", "frames_per_second": RATE, "size": None, "learn_seconds": 42.0}
    expected_facts |= {"length": 20, "step": 5, "order": 5, "kernel": "chi2", "systems": []}
    assert {name: told[name] for name in expected_facts} == expected_facts
    assert told["bag"].startswith("BagUnion(bags=[('lbp-top', PlanePatterns(")
    assert told["regions"] == [
        {
            "region": None,
            "bag": name,
            "normal_windows": len(learnt.process.observers),
            "scored_windows": len(learnt.scores),
        }
        for name, learnt in zip(("lbp-top", "flow"), load_normal(model).learnt, strict=True)
    ]
    code, out, err = call(capsys, "inspect", model)
    assert (code, err) == (0, "")
    assert "learn seconds" in out
    code, out, err = call(capsys, "inspect", model, "--plot", tmp_path / "p.png")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_learning_from_recordings_and_more_normal_video(film, video, capsys, tmp_path, monkeypatch):
    paths = [tmp_path / f"{k}.mkv" for k in range(3)]
    for path, part in zip(paths, (film[:230], film[220:450], film[100:430]), strict=True):
        write_video(path, part, RATE, lossless=True)
    first, second = tmp_path / "first.normal", tmp_path / "second.normal"
    recordings = f"{paths[0]},{paths[1]}"
    options = ("--false-alarms", "1/10min", "--bags", "lbp-top")
    learnt = lines(capsys, video, "--learn", recordings, *WINDOWS, *options[:4], "--save-normal", first)
    assert len(events_of(learnt)) > 0
    assert all(event[1] > 50.0 for event in events_of(learnt))
    # No window is in two recordings of 228 rows; those of the first half are compared with.
    (about,) = [record for record in learnt if record["type"] == "learnt"]
    assert about["learn_seconds"] == pytest.approx(46.0, abs=0.2)
    count = len(load_normal(first).learnt[0].scores)
    more = lines(
        capsys, video, "--normal", first, *options[:2], "--calibrate", paths[2], "--save-normal", second
    )
    (again,) = [record for record in more if record["type"] == "learnt"]
    scores = load_normal(second).learnt[0].scores
    assert len(scores) == count + (328 - 20) // 5 + 1
    assert again["observed_seconds"] == pytest.approx(len(scores) * 0.5)
    assert again["promised_per_day"] < about["promised_per_day"]
    np.testing.assert_array_equal(scores[:count], load_normal(first).learnt[0].scores)
    short, state = tmp_path / "segments", tmp_path / "state"  # nothing is learnt from the input
    short.mkdir()
    write_video(short / "1.mkv", film[:150], RATE, lossless=True)
    options = ("--learn", recordings, *WINDOWS, *options, "--checkpoint", state)
    assert lines(capsys, short, *options)[-1]["frames"] == 150
    monkeypatch.setattr("sysbags.watch.learning.learn_recordings", None)  # it is in the checkpoint
    assert lines(capsys, short, *options)[-1]["frames"] == 150
    assert lines(capsys, short / "1.mkv", "--normal", first)[-1]["has_learnt"]
    for words, told in (
        (("--calibrate", paths[2]), "--calibrate needs --normal"),
        (("--learn", f"{paths[0]},none.mp4"), "--learn has none.mp4, but there is no such file"),
    ):
        code, _, err = call(capsys, "watch", video, *words)
        assert code == 2
        assert told in err


def test_someone_is_told_and_events_are_kept(video, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("sysbags.watch.delivery.GRACE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        webhook = f"http://127.0.0.1:{listener.getsockname()[1]}/"  # nobody answers after this
    command = f"cp {{event.json}} {tmp_path}/last.json"
    words = (video, *OPTIONS, "--events", tmp_path / "e.csv", "--exec", command, "--webhook", webhook)
    code, out, err = call(capsys, "watch", *words, "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    told = [record for record in records if record["type"] in ("event_start", "event")]
    assert json.loads((tmp_path / "last.json").read_text()) == {"input": str(video), **told[-1]}
    assert told[0]["id"] == told[1]["id"] != told[2]["id"] == told[3]["id"]
    unsent = tmp_path / "e.csv.unsent"
    kept = [json.loads(path.read_text()) for path in sorted(unsent.glob("*/*.json"))]
    assert kept == [{"input": str(video), **record} for record in told]
    notes = [record["text"] for record in records if record["type"] == "note"]
    assert "Connection refused" in notes[0]
    assert notes[1].startswith(f"{len(told)} messages for the webhook {webhook} kept in {unsent}")
    assert records[-1]["type"] == "end"


def test_a_live_page_while_it_runs(video):
    """The pipe goes on until the page has been read."""
    data = video.read_bytes()
    process = start("-", *OPTIONS, "--view", "0", stdin=subprocess.PIPE)
    process.stdin.write(data[: len(data) * 4 // 5])
    process.stdin.flush()
    records = [json.loads(process.stdout.readline())]
    while records[-1]["type"] != "event_start":
        records.append(json.loads(process.stdout.readline()))
    url = records[1]["text"].removeprefix("the live page is ")
    assert url.startswith("http://127.0.0.1:")
    with urlopen(url, timeout=30.0) as page:
        assert b"<h1>the standard input</h1>" in page.read()
    out, err = process.communicate(data[len(data) * 4 // 5 :])
    assert (process.returncode, err) == (0, b"")
    assert {json.loads(line)["type"] for line in out.splitlines()} <= {"event", "event_start", "end", "note"}


def test_a_signal_while_the_first_numbers_are_waited_for():
    process = start("-", "--time", "t", "--learn", "400s", "--length", 20, stdin=subprocess.PIPE)
    process.stdin.write(b"t,a,b\n0,1,2\n1,2,3\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["type"] == "start"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM  # the pipe is still open
    assert json.loads(process.stdout.read())["reason"] == "stopped"
    for file in (process.stdin, process.stdout, process.stderr):
        file.close()


def test_a_grid_and_clips(capsys, tmp_path, film):
    path, clips = tmp_path / "two.mkv", tmp_path / "clips"
    normal = np.roll(film, 200, axis=0)[:560]
    write_video(path, np.concatenate([film[:560], normal], axis=2), RATE, lossless=True)
    model = tmp_path / "two.normal"
    records = lines(capsys, path, *OPTIONS, "--grid", "1x2", "--save-clips", clips, "--save-normal", model)
    assert records[0]["regions"] == ["row 1, column 1", "row 1, column 2"]
    found = [record for record in records if record["type"] == "event"]
    assert {record["region"] for record in found} == {"row 1, column 1"}
    assert sorted(map(str, clips.iterdir())) == sorted(record["clip"] for record in found)
    told = call_json(capsys, "inspect", model)["regions"]
    assert [region["region"] for region in told] == records[0]["regions"]
    assert all(region["normal_windows"] > 20 for region in told)
    code, out, err = call(capsys, "inspect", model)
    assert (code, err) == (0, "")
    assert all(name in out for name in records[0]["regions"])
    mask = tmp_path / "mask.png"
    import cv2

    cv2.imwrite(str(mask), np.repeat([[0, 0, 7, 7]], 4, axis=0).astype(np.uint8))
    write_video(path, np.concatenate([normal, film[:560]], axis=2), RATE, lossless=True)
    records = lines(capsys, path, *OPTIONS, "--mask", mask)
    assert {record["region"] for record in records if record["type"] == "event"} == {"region 7"}


def test_a_rate_above_that_of_the_video_is_noted_once(capsys, video):
    words = (video, "--rate", 20, "--learn", "42s", "--length", 40, "--step", 40)
    notes = [record["text"] for record in lines(capsys, *words) if record["type"] == "note"]
    told = f"rate is 20 frames per second, but {video} has about 10"
    assert [text.startswith(told) for text in notes] == [True]
    code, _, err = call(capsys, "watch", *words)
    assert (code, err) == (0, f"sysbags: {notes[0]}\n")


def test_a_pipe_that_stalls(video, expected):
    """The first part is watched while the rest is not there yet."""
    data = video.read_bytes()
    process = start("-", *OPTIONS, stdin=subprocess.PIPE)
    process.stdin.write(data[: len(data) * 4 // 5])
    process.stdin.flush()
    records = []
    while not records or records[-1]["type"] != "event_start":
        records.append(json.loads(process.stdout.readline()))
    out, err = process.communicate(data[len(data) * 4 // 5 :])
    records += map(json.loads, out.splitlines())
    assert (process.returncode, err) == (0, b"")
    found = [record for record in records if record["type"] == "event"]
    assert [record["start"] for record in found] == [float(row["start"]) for row in expected]
    assert [record["kind"] for record in found] == [row["kind"] for row in expected]


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_run_that_can_be_continued(video, tmp_path, expected, kind):
    """The pipe goes on, so that only the signal ends the run."""
    data = video.read_bytes()
    words = (*OPTIONS, "--events", tmp_path / "events.csv", "--checkpoint", tmp_path / "state")
    process = start("-", *words, stdin=subprocess.PIPE)
    process.stdin.write(data[: len(data) * 4 // 5])
    process.stdin.flush()
    while json.loads(process.stdout.readline())["type"] != "event_start":
        pass
    process.send_signal(kind)
    process.wait(60)
    records = [json.loads(line) for line in process.stdout]
    assert [record["type"] for record in records][-2:] == ["event", "end"]
    assert records[-1]["reason"] == "stopped"
    told = b"sysbags: interrupted\n" if kind == signal.SIGINT else b""
    assert (process.returncode, process.stderr.read()) == (128 + kind, told)
    assert (tmp_path / "state").exists()
    assert 1 <= len(table(tmp_path / "events.csv")) <= len(expected)
    assert sorted(os.listdir(tmp_path)) == ["events.csv", "state"]  # nothing is half-written
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


# Forks a run of the command some times, each of which is killed after some lines, one for each window: so the
# modules are imported only once. Nothing has started a thread before.
KILLER = """
import os, signal, sys
import sysbags.means.compilation, sysbags.watch.session
from sysbags.cli import main
counts, *words = sys.argv[1:]
for count in counts.split(","):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os._exit(main(words))
    os.close(writing)
    with os.fdopen(reading) as lines:
        for _ in range(int(count)):
            lines.readline()
        os.kill(child, signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
"""


@pytest.mark.parametrize("times", [3, pytest.param(10, marks=pytest.mark.long)])
def test_kill_at_any_moment(video, tmp_path, expected, times):
    path, state = tmp_path / "events.csv", tmp_path / "state"
    words = [video, *OPTIONS, "--events", path, "--checkpoint", state]
    often = ["--checkpoint-every", "0.01s", "--windows", "--json-lines"]
    counts = ",".join(map(str, np.random.default_rng(0).integers(2, 21, times)))
    command = [sys.executable, "-c", KILLER, counts, "watch", *words, *often]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert state.exists()
    process = start(*words)
    assert process.communicate()[1] == b""
    assert process.returncode == 0
    assert_same_tables(table(path), expected)
    assert not state.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nowhere.mp4", "nowhere.mp4 does not exist"),
        ("{video} --learn soon", "--learn is 'soon', but it must be a time, such as 90s, 10min"),
        ("{video} --false-alarms 3", "--false-alarms is '3', but it must be a rate, such as 1/day"),
        ("{video} --learn 30s --length 20", "learn is 30 s, but windows of 2 s need at least 40 s"),
        ("{video} --normal {video}", "is not a model file of sysbags"),
        ("{video} --normal m --length 9", "--normal says what was learnt, and how: leave out --length"),
        ("{video} --normal m --bag flow", "--normal says what was learnt, and how: leave out --bags"),
        ("{video} --stride 2", "No such option: --stride"),
        ("{video} --order auto", "--order is auto, but all windows must have the same order"),
        ("{video} --bag sift", "VisualWords has to be fitted to clips first"),
        ("{video} --grid 3", "grid is '3', but it must be rows and columns"),
        ("{video} --mask {video}", "cannot be read: it must be a picture"),
        ("{video} --exec true", "but it needs {event.json}, a file with the event"),
        ("{video} --view page", "--view is 'page', but it must be a port such as 8765"),
        ("{video} --webhook server", "it must be such as https://server/path"),
        ("{video} --follow", "follow is for folders of segments"),
        ("{video} --events {video}", "it is an input and would be overwritten"),
        ("{video} --save-clips {video}", "wheel.mkv is a file, but it must be a folder"),
        ("{video} --save-clips {text}/clips", "cannot write to the folder text.csv/clips: Not a directory"),
        ("{video} --normal nowhere", "nowhere does not exist"),
        ("{video} --mask nowhere", "nowhere does not exist"),
        ("{video} --events a --checkpoint a", "must be different files"),
        ("{video} --events {text}", "text.csv is no table of events and would be overwritten"),
        ("{video} --adapt 1s --learn 60s --length 20", "adapt is 1 s, but a window has 2 s: use more"),
        ("{video} --checkpoint {text}", "text.csv is not a model file of sysbags"),
    ],
)
def test_mistakes_are_one_sentence(video, capsys, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.csv").write_text("start,end\n" * 20)
    (tmp_path / "m").touch()
    code, out, err = call(capsys, "watch", *words.format(video=video, text="text.csv").split())
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_camera_that_cannot_be_reached_is_opened_again_until_ctrl_c():
    with server() as port:  # closes each connection
        command = [sys.executable, "-m", "sysbags", "watch", f"http://127.0.0.1:{port}/"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        notes = [process.stderr.readline(), process.stderr.readline()]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert [re.sub(r"\(.*\)", "()", text) for text in notes] == [
        "sysbags: no connection (), again in 1 s\n",
        "sysbags: no connection (), again in 2 s\n",
    ]
    assert (process.returncode, err) == (130, "sysbags: interrupted\n")
    assert out.startswith("0 events in 00:00:00.000, 0 frames")


def test_options_for_clips_are_not_listed(capsys):
    code, out, err = call(capsys, "watch", "--help")
    assert (code, err) == (0, "")
    listed = set(re.findall(r"--[a-z-]+", out))
    assert not listed & {"--start", "--stop", "--stride", "--max-frames", "--network-stride", "--words"}
    assert {"--bags", "--order", "--kernel", "--window", "--size", "--network"} <= listed
    assert "auto" not in out
    assert not {"surf", "sift", "patch-words"} & set(POSSIBLE)


def test_a_video_that_is_too_short_says_so(video, capsys, tmp_path):
    code, out, err = call(capsys, "watch", video, "--learn", "10min", *WINDOWS)
    assert (code, out) == (2, "")  # before any work, as its header gives its length
    assert "wheel.mkv has 76 s, but --learn is 600 s: use a shorter --learn" in err
    (tmp_path / "1.mkv").symlink_to(video)  # the length of a folder of segments is not known before
    code, out, err = call(capsys, "watch", tmp_path, "--learn", "10min", *WINDOWS)
    assert code == 2
    assert "it is not yet learnt what is normal" in out
    assert "the input ended before it was learnt what is normal" in err


def test_clips_that_cannot_be_written_are_told_and_end_with_an_error(video, capsys, tmp_path, monkeypatch):
    def full(path, *arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("sysbags.watch.recording.write_video", full)
    code, out, err = call(capsys, "watch", video, *OPTIONS, "--save-clips", tmp_path / "clips")
    events = out.count("\nevent 00:")
    assert code == 2
    assert events > 1
    assert err.splitlines()[-1].startswith(f"sysbags: {events} times a file was not written, first: ")
    assert "No space left on device" in err.splitlines()[-1]


def test_the_paths_of_the_page(video, capsys, tmp_path, monkeypatch):
    """Both commands at the top of docs/watch.md, with a file in the place of the camera."""
    monkeypatch.chdir(tmp_path)
    outputs = "--events events.csv --save-clips clips --checkpoint camera.state --save-normal camera.normal"
    assert call(capsys, "watch", video, *OPTIONS, *outputs.split())[0] == 0
    rows = table(tmp_path / "events.csv")
    assert len(rows) > 1
    assert all((tmp_path / row["clip"]).is_file() for row in rows)
    records = lines(capsys, video, "--normal", "camera.normal", "--false-alarms", "1/10min")
    assert len(events_of(records)) >= len(rows)
    assert records[-1]["has_learnt"]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10min", 600), ("6h", 21600), ("1.5 hours", 5400), ("2 days", 172800)]
)
def test_durations(text, seconds):
    assert seconds_of(text, "--learn") == seconds
    assert rate_per_second(f"3/{text}", "--rate") == 3 / seconds


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "0min", "1e3s", "nan s", "1..2s", "5 fortnights"])
def test_mistakes_in_durations(text):
    with pytest.raises(ParameterError, match="must be a time"):
        seconds_of(text, "--learn")


@pytest.mark.parametrize("text", ["", "1", "/day", "0/day", "-1/h", "1/", "inf/day", "1/fortnight", "1/0s"])
def test_mistakes_in_rates(text):
    with pytest.raises(ParameterError, match="must be a rate"):
        rate_per_second(text, "--false-alarms")
