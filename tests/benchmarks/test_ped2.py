"""The benchmark of UCSD Ped2, on clips that are generated."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from benchmarks.watching import ped2

from sysbags.bags import OpticalFlow, PlanePatterns
from sysbags.bags.regions import Regions
from sysbags.datasets import WatchedEvent, make_watching
from sysbags.errors import ParameterError
from sysbags.video import write_video
from sysbags.watch import Watcher
from sysbags.watch.learning import learn_recordings

METHODS = ("sysbags, LBP-TOP", "mean histogram", "mean histogram, grid 3x4", "MOG2 background subtractor")


def frames(seed, events=()):
    return make_watching("wheel", 12.0, events=events, random_state=seed).frames()


def test_recordings_are_learnt_as_by_the_command(tmp_path):
    paths = [tmp_path / f"{seed}.mp4" for seed in range(4)]
    for seed, path in enumerate(paths):
        write_video(path, frames(seed), ped2.RATE)
    how = {"length": ped2.LENGTH, "step": ped2.STEP}
    (expected,) = learn_recordings(paths, PlanePatterns(), **how).learnt
    watcher = Watcher(rate=ped2.RATE, learn=48.0, false_alarms=1.0, **how)
    found = ped2.learn(watcher, [PlanePatterns().stream(path) for path in paths])
    # Windows are the same, but rows come in other bunches, so that eigenvectors have other last digits.
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)


def test_abnormal_frames():
    """They are those of the data set: 1648 of 2010."""
    counts = (180, 180, 150, 180, 150, 180, 180, 180, 120, 150, 180, 180)
    labels = [ped2.labels_of(*pair, count) for pair, count in zip(ped2.ABNORMAL, counts, strict=True)]
    assert sum(counts) == 2010
    assert int(sum(map(np.sum, labels))) == 1648


def test_the_table(tmp_path, monkeypatch):
    def write(part, name, pictures):
        folder = tmp_path / part / "frames" / name
        folder.mkdir(parents=True)
        for number, picture in enumerate(pictures):
            cv2.imwrite(str(folder / f"{number:03}.png"), picture)

    for seed in range(4):
        write("training", f"{seed:02}", frames(seed))
    write("testing", "01", frames(4, [WatchedEvent(5.0, 12.0, "fog", 1.0)]))
    write("testing", "02", frames(5))
    with pytest.raises(ParameterError, match="has 2 test clips, but it must have 12"):
        list(ped2.rows(tmp_path))
    monkeypatch.setattr(ped2, "ABNORMAL", ((51, 120), (121, 121)))
    monkeypatch.setattr(ped2, "METHODS", {name: ped2.METHODS[name] for name in METHODS})
    monkeypatch.setattr(ped2, "WARM", 0)
    head, _, *lines = ped2.rows(tmp_path)
    assert head.startswith("| method, 2 clips, 240 frames |")
    areas = {line.split(" | ")[0].strip("| "): float(line.split(" | ")[1]) for line in lines}
    assert list(areas) == list(METHODS)
    assert min(areas.values()) > 70.0  # of random scores it is 50
    assert areas[METHODS[0]] > 95.0


def test_a_clip_is_described_by_bags_or_cells():
    """All its streams have the rows of lbp-top."""
    clip = np.stack(list(frames(0)))[:25]
    for bags, bins in (
        ([PlanePatterns(), OpticalFlow()], [177, 49]),
        (Regions(PlanePatterns(), "1x2"), [177, 177]),
    ):
        streams = ped2.describe_clip(bags, clip)
        assert [stream.shape for stream in streams] == [(23, count) for count in bins]


def test_nothing_is_learnt_from_what_does_not_move():
    watcher = Watcher(rate=ped2.RATE, learn=50.0, false_alarms=1.0, length=ped2.LENGTH, step=ped2.STEP)
    assert ped2.learn(watcher, [np.full((600, 4), 0.25)]) is None


def test_the_scores_of_clips_are_their_own():
    """A window of the second clip is not scored as one of the first."""
    lengths = [30, 40]
    windows = ped2.window_spans(70, ped2.LENGTH, ped2.STEP, ped2._joins(lengths))
    first, second = ped2._by_clip(windows[:, 0], lengths)
    assert first.tolist() == [0, 2, 4, 6, 8, 10]
    assert second.tolist() == list(range(30, 51, 2))
