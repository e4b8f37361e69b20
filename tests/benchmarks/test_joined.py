from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from benchmarks.watching.joined import join_clips, schedule_events

from sysbags.datasets import class_folders
from sysbags.datasets.generated import write_clips
from sysbags.datasets.watching import first_frame
from sysbags.errors import FileError

CLASSES = ["fire", "rain", "snow"]
PER_CLASS = 4
WILD = Path(__file__).parents[3] / "shared" / "data" / "wild-scenes"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Each clip has one brightness, from which the tests tell which clip is shown; two clips per source."""
    root = tmp_path_factory.mktemp("clips")

    def film(name, number):
        value = 15 * (1 + PER_CLASS * CLASSES.index(name) + number)
        return np.full((25 + 5 * number, 32, 48, 3), value, np.uint8)

    paths, _ = write_clips(root, CLASSES, PER_CLASS, (25, 32, 48), film)
    with (root / "index.csv").open("w", newline="") as file:
        rows = [[path.relative_to(root).as_posix(), int(path.stem) // 2] for path in paths]
        csv.writer(file).writerows([["clip", "source"], *rows])
    return root


def shown(video):
    """The class and the number of the clip in each frame."""
    values = np.stack(list(video.frames())).mean(axis=(1, 2))
    return np.divmod(np.rint(values / 15.0).astype(int) - 1, PER_CLASS)


def test_joined_clips(folder):
    video = join_clips(folder, "rain", 120.0, learn=30.0, every=20.0, duration=6.0, height=16, width=24)
    labels, numbers = shown(video)
    assert next(video.frames()).shape == (16, 24)
    assert len(labels) == video.count == 1200
    assert [event.kind for event in video.events].count("fire") == 2
    assert len(video.events) == 4
    expected = np.full(1200, CLASSES.index("rain"))
    for event in video.events:
        assert event.start >= 30.0
        expected[first_frame(event.start, 10.0) : first_frame(event.stop, 10.0)] = CLASSES.index(event.kind)
    assert (labels == expected).all()
    learnt, watched = (set((numbers[part] // 2).tolist()) for part in (slice(300), slice(300, None)))
    normal = labels[300:] == CLASSES.index("rain")
    assert len(learnt) == 1
    assert set((numbers[300:][normal] // 2).tolist()) == {0, 1} - learnt
    assert watched >= {0, 1} - learnt
    assert len(set(numbers[:300].tolist())) == 2  # both clips of the source


def test_the_same_at_each_call_and_another_for_another_seed(folder):
    options = {"learn": 20.0, "every": 20.0, "duration": 6.0}
    video = join_clips(folder, "snow", 60.0, **options)
    other = join_clips(folder, "snow", 60.0, **options, seed=1)
    first, again, another = shown(video), shown(video), shown(other)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, another)


def test_the_frames_of_the_caller_are_copies(folder):
    video = join_clips(folder, "rain", 30.0, learn=10.0, every=10.0, duration=2.0)
    before = shown(video)
    for frame in video.frames():
        frame[:] = 0
    assert np.array_equal(shown(video), before)


def test_a_class_with_one_source(folder, tmp_path):
    film = np.zeros((5, 32, 48, 3), np.uint8)
    write_clips(tmp_path, ["a", "b"], 1, film.shape[:3], lambda name, number: film)
    with pytest.raises(FileError, match="has 1 sources of the class a and 1 other classes, but"):
        join_clips(tmp_path, "a", 60.0, learn=20.0, every=20.0, duration=5.0)


@pytest.mark.skipif(not WILD.is_dir(), reason="the clips are not here")
def test_real_clips():
    video = join_clips(WILD, "waterfall", 60.0, learn=20.0, every=20.0, duration=5.0)
    frames = np.stack(list(video.frames()))
    assert frames.shape == (600, 48, 64)
    assert {event.kind for event in video.events} < set(class_folders(WILD).labels) - {"waterfall"}


def test_the_schedule():
    options = {"every": 100.0, "quiet": 2400.0, "duration": 30.0}
    events = schedule_events(7200.0, ["fog", "shake", "object"], random_state=5, **options)
    starts, stops = np.array([[event.start, event.stop] for event in events]).T
    assert len(events) == 48
    assert starts[0] >= 2400.0 + 0.25 * 70.0
    assert stops[-1] <= 7200.0
    assert (starts[1:] - stops[:-1]).min() >= 0.25 * 70.0
    assert np.allclose(stops - starts, 30.0)
    assert np.ptp(starts % 100.0) > 30.0  # at random times
    kinds = [event.kind for event in events]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"fog": 16, "shake": 16, "object": 16}
