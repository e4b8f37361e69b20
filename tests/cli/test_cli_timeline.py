"""sysbags timeline: tables, CSV, JSON, the page, and sentences for clips that have no phases."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest

from cli_folder import call, call_json
from pages import Page
from sysbags.datasets import make_frames
from sysbags.datasets.generated import write_clips

OPTIONS = ("--length", 40, "--step", 8)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A wheel, rain, and a still picture without the noise of a codec, at 25 frames per second."""
    wheel, rain = (make_frames(name, 160, 48, 64) for name in ("wheel", "rain"))
    film = np.concatenate([wheel, rain, np.repeat(rain[-1:], 80, axis=0)])
    folder = tmp_path_factory.mktemp("timeline")
    (path,), _ = write_clips(folder, ["clip"], 1, (400, 48, 64), lambda name, number: film)
    return path.rename(folder / "<clip>.mp4")


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_phases_in_every_format(clip, capsys, tmp_path):
    page, phases, stats = tmp_path / "page.html", tmp_path / "phases.csv", tmp_path / "windows.csv"
    told = call_json(capsys, "timeline", clip, *OPTIONS, "-o", page, "--csv", phases, "--stats", stats)
    assert [phase["label"] for phase in told["phases"]] == [0, 1, -1]
    assert told["phases"][0]["start_frame"] == 0
    assert abs(told["phases"][1]["start_frame"] - 160) <= 40
    assert told["phases"][2]["start_timecode"] == "00:00:12.800"
    assert told["phases"][2]["end_frame"] == 400
    assert "still" in told["phases"][2]["failure"]
    assert told["change_seconds"] == [phase["start_seconds"] for phase in told["phases"][1:]]
    assert [(kind["label"], kind["occurrences"]) for kind in told["labels"]] == [(0, 1), (1, 1), (-1, 1)]
    assert sum(kind["seconds"] for kind in told["labels"]) == pytest.approx(16.0)

    listed = rows(phases)
    assert [row["end_seconds"] for row in listed] == [str(phase["end_seconds"]) for phase in told["phases"]]
    windows = rows(stats)
    assert len(windows) == len(told["windows"]) == 46
    assert windows[0]["squared_distance"] == ""
    assert float(windows[9]["squared_distance"]) == pytest.approx(
        sum(float(windows[9][part]) for part in ("transition", "observer", "mean"))
    )
    assert 0.0 <= float(windows[9]["frequency_1"]) <= 12.5
    assert windows[-1]["modulus_1"] == ""

    html = Page(page.read_text())
    assert "Timeline of <clip>.mp4" in html.text
    assert len([image for image in html.all("img") if image["src"].startswith("data:image/jpeg")]) == 9
    assert not html.all("script")

    code, out, _ = call(capsys, "timeline", clip, *OPTIONS)
    assert code == 0
    assert "00:00:12.800" in out


def test_frames_and_times_of_options(clip, capsys):
    told = call_json(
        capsys, "timeline", clip, "--length", 20, "--step", 4, "--order", 2,
        "--stride", 2, "--start", 50, "--framerate", 50, "--penalty", "1000",
    )  # fmt: skip
    assert [phase["label"] for phase in told["phases"]] == [0, -1]
    first = told["phases"][0]
    assert (first["start_frame"], first["start_seconds"]) == (50, 1.0)
    assert told["windows"][1]["start_frame"] == 58
    assert "modulus_3" not in told["windows"][0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--length", 500), "the stream has 400 rows, but a window has 500"),
        (("--start", 330, "--length", 40), "no window of the stream has a system: all 40 frames"),
        (("--penalty", "much"), "--penalty is 'much'"),
        (("--penalty", "0"), "penalty is 0"),
        (("--framerate", "0"), "--framerate is 0"),
        (("--alpha", "2"), "alpha is 2"),
        (("--csv", "missing/phases.csv"), "cannot write"),
        (("--bags", "lbp,colour"), "takes a single bag"),
    ],
)
def test_one_sentence(clip, capsys, options, sentence):
    code, out, err = call(capsys, "timeline", clip, *options)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_ruptures_is_missing(clip, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    code, _, err = call(capsys, "timeline", clip, *OPTIONS)
    assert code == 2
    assert err == "sysbags: change points need ruptures: pip install 'sysbags[watch]'\n"


def test_a_folder_of_images_has_no_rate(clip, capsys, tmp_path):
    import cv2

    for k, frame in enumerate(make_frames("wheel", 24, 48, 64)):
        cv2.imwrite(str(tmp_path / f"{k:03d}.png"), frame)
    code, _, err = call(capsys, "timeline", tmp_path, "--length", 12, "--step", 6, "--order", 2)
    assert code == 0
    assert "25 frames per second are assumed, see --framerate" in err
