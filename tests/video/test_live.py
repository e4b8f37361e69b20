"""Long videos that are stored or piped: files, folders of segments, the standard input."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import asdict
from fractions import Fraction

import av
import numpy as np
import pytest

from clips import moving_frames, read, write_clip
from servers import Clock
from sysbags.errors import ParameterError, VideoError, VideoWarning
from sysbags.video import Position, open_live
from sysbags.video.reading import Converter
from sysbags.video.timing import FrameSequence


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.enumerate()
    yield
    assert set(threading.enumerate()) <= set(before)


def live(source, **options):
    with open_live(source, **options) as video:
        return list(video)


def pictures(frames):
    return np.stack([frame.picture for frame in frames])


def described(frames):
    return [(f.time, f.index, f.is_gap, f.picture.tobytes()) for f in frames]


# --- files


@pytest.mark.parametrize(
    "options",
    [{}, {"size": 24, "colour": "rgb"}, {"rate": 10.0}, {"rate": 60}, {"rate": Fraction(30000, 1001)}],
)
def test_a_file_gives_the_frames_of_frames(tmp_path, options):
    path = write_clip(tmp_path / "clip.mp4", moving_frames(30))
    found = live(path, **options)
    np.testing.assert_array_equal(pictures(found), read(path, **options))
    assert [frame.index for frame in found] == list(range(len(found)))
    # the timestamps of MP4 are exact, so only the conversion to float rounds
    step = 1 / float(options.get("rate", 25))
    np.testing.assert_allclose([frame.time for frame in found], step * np.arange(len(found)), atol=1e-12)
    assert not any(frame.is_gap for frame in found)


@pytest.mark.parametrize(("rate", "own"), [(60, 25), (26, 25), (25.1, None), (25, None), (10, None)])
def test_a_rate_above_that_of_the_video_is_reported_once(tmp_path, rate, own):
    """A rate that is higher by less than 1 % may be a rounded one."""
    path = write_clip(tmp_path / "clip.mp4", moving_frames(260))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        live(path, rate=rate)
    told = f"rate is {rate} frames per second, but {path} has about {own}: frames are repeated"
    assert [str(warning.message)[: len(told)] for warning in found] == ([] if own is None else [told])
    assert all(warning.category is VideoWarning for warning in found)


def test_a_file_continues_from_any_frame(lossless):
    whole = live(lossless)
    for start in range(len(whole) + 1):
        assert described(live(lossless, start=start)) == described(whole[start:])


def test_what_is_not_there_is_reported_when_it_is_opened(tmp_path, lossless):
    with pytest.raises(VideoError, match="does not exist"):
        open_live(tmp_path / "none.mp4")
    with pytest.raises(ParameterError, match="follow is for folders"):
        open_live(lossless, follow=True)
    with pytest.raises(ParameterError, match="start is -1"):
        open_live(lossless, start=-1)
    with pytest.raises(VideoError, match="has no video that can be read"):
        live(tmp_path)


def test_a_file_that_breaks_off_is_used_with_a_warning(tmp_path):
    path = write_clip(tmp_path / "clip.mkv", moving_frames(20))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    with pytest.warns(VideoWarning, match="breaks off after"):
        assert 1 < len(live(path)) < 20
    path.write_bytes(b"no video" * 100)
    with pytest.raises(VideoError, match="cannot be read: FFmpeg finds no video"):
        live(path)


def test_stop_ends_the_iteration(lossless):
    with open_live(lossless) as video:
        next(video)
        video.stop()
        assert list(video) == []


# --- times and gaps


def sequence_of(stamps, *, rate=None, sizes=None, clock=None, start=None):
    """The frames of pictures with these timestamps in seconds; None is a picture without one."""
    sequence = FrameSequence(
        Converter("gray", None, "test", may_change=True), rate, start or Position(), clock
    )
    found = []
    for number, stamp in enumerate(stamps):
        size = sizes[number] if sizes else (8, 8)
        picture = av.VideoFrame.from_ndarray(np.full(size, number, np.uint8), "gray")
        picture.time_base = Fraction(1, 1000)
        picture.pts = None if stamp is None else round(1000 * stamp)
        found += sequence.add(picture)
    return [(round(f.time, 6), int(f.picture[0, 0]), f.is_gap) for f in [*found, *sequence.end()]]


def test_timestamps_that_jump_back_continue_after_a_gap():
    assert sequence_of([5.0, 5.2, 5.4, 0.0, 0.2]) == [
        (0.0, 0, False),
        (0.2, 1, False),
        (0.4, 2, False),
        (0.6, 3, True),
        (0.8, 4, False),
    ]


def test_timestamps_that_go_back_a_little_are_no_gap():
    found = sequence_of([0.0, 0.2, 0.15, 0.4])
    assert [(time, gap) for time, _, gap in found] == [(0.0, False), (0.2, False), (0.2, False), (0.4, False)]


def test_a_jump_forwards_is_a_gap_unless_frames_are_always_rare():
    times, _, gaps = zip(*sequence_of([0.0, 0.1, 1.0, 5.0, 5.1, 5.2]), strict=True)
    assert times == (0.0, 0.1, 1.0, 5.0, 5.1, 5.2)
    assert gaps == (False, False, False, False, False, False)  # 4 s are fewer than ten intervals of 0.9 s
    assert [gap for *_, gap in sequence_of([0.0, 0.1, 0.2, 5.0, 5.1])] == [False, False, False, True, False]
    assert not any(gap for *_, gap in sequence_of([0.0, 60.0, 120.0, 200.0]))


def test_a_new_size_is_a_gap_and_is_scaled_to_the_first():
    found = sequence_of([0.0, 0.1, 0.2, 0.3], sizes=[(8, 8), (8, 8), (16, 12), (16, 12)])
    assert [gap for *_, gap in found] == [False, False, True, False]


def test_pictures_without_timestamps_follow_the_clock_or_the_usual_interval():
    clock = Clock()
    assert [time for time, *_ in sequence_of([None, None, None])] == [0.0, 0.04, 0.08]
    sequence = FrameSequence(Converter("gray", None, "test", may_change=True), None, Position(), clock)
    found = []
    for _ in range(3):
        found += sequence.add(av.VideoFrame.from_ndarray(np.zeros((8, 8), np.uint8), "gray"))
        clock.sleep(0.25)
    assert [frame.time for frame in found] == [0.0, 0.25, 0.5]
    with pytest.raises(VideoError, match="without timestamps: leave rate out"):
        sequence_of([None, None], rate=Fraction(5))


def test_ticks_start_again_after_a_gap():
    found = sequence_of([0.0, 0.3, 0.6, 9.1, 9.4, 9.7], rate=Fraction(5))
    assert found == [
        (0.0, 0, False),
        (0.2, 0, False),
        (0.4, 1, False),
        (0.6, 2, False),
        (0.8, 2, False),
        (9.1, 3, True),
        (9.3, 3, False),
        (9.5, 4, False),
        (9.7, 5, False),
        (9.9, 5, False),
    ]


# --- folders of segments


@pytest.fixture(scope="module")
def clip():
    return moving_frames(40, 16, 24)


def write_segments(folder, clip, lengths, **options):
    """Lossless segments of a clip, part8.mkv, part9.mkv, part10.mkv, ..."""
    ends = np.cumsum(lengths)
    return [
        write_clip(folder / f"part{8 + n}.mkv", clip[end - length : end], pixel_format="gray", **options)
        for n, (end, length) in enumerate(zip(ends, lengths, strict=True))
    ]


def test_segments_are_one_video(tmp_path, clip):
    write_segments(tmp_path, clip, [7, 11, 1, 21])
    (tmp_path / "notes.txt").write_text("not a segment")
    found = live(tmp_path)
    np.testing.assert_array_equal(pictures(found), clip)
    assert described(live(tmp_path, start=9)) == described(found[9:])
    np.testing.assert_allclose([f.time for f in found], np.arange(40) / 25, atol=1e-3)  # Matroska has ms
    assert not any(f.is_gap for f in found)


@pytest.mark.parametrize("rate", [None, 30, Fraction(30000, 1001)])
def test_segments_are_the_same_with_many_interruptions(tmp_path, clip, rate):
    write_segments(tmp_path, clip, [7, 11, 1, 21])
    found, start = [], Position()
    for count in itertools.cycle([1, 2, 5]):
        with open_live(tmp_path, rate=rate, start=start) as video:
            taken = list(itertools.islice(video, count))
        found, start = [*found, *taken], Position(**json.loads(json.dumps(asdict(video.position))))
        if not taken:
            break
    assert described(found) == described(live(tmp_path, rate=rate))


@pytest.mark.parametrize("rate", [None, 10, 40])
def test_segments_continue_from_every_position(tmp_path, clip, rate):
    """After each frame the position, stored as JSON, gives exactly the frames that follow."""
    write_segments(tmp_path, clip, [7, 11, 1, 21])
    whole = live(tmp_path, rate=rate)
    with open_live(tmp_path, rate=rate) as video:
        positions = [json.dumps(asdict(video.position)) for _ in video]
    for position in positions[:: 3 if rate else 1]:
        start = Position(**json.loads(position))
        assert described(live(tmp_path, rate=rate, start=start)) == described(whole[start.index :])


def test_times_of_segments_that_go_on_are_used(tmp_path, clip):
    """A recorder that does not reset timestamps says how long it paused."""
    write_clip(tmp_path / "a.mkv", clip[:10], pixel_format="gray", times=range(10))
    write_clip(tmp_path / "b.mkv", clip[10:20], pixel_format="gray", times=range(10, 20))
    write_clip(tmp_path / "c.mkv", clip[20:30], pixel_format="gray", times=range(520, 530))
    found = live(tmp_path)
    np.testing.assert_allclose([f.time for f in found[:20]], np.arange(20) / 25, atol=1e-3)
    assert found[20].time == pytest.approx(520 / 25, abs=1e-3)
    assert [f.index for f in found if f.is_gap] == [20]


def test_a_segment_that_cannot_be_read_is_a_gap(tmp_path, clip):
    paths = write_segments(tmp_path, clip, [10, 10, 10])
    paths[1].write_bytes(b"")
    with pytest.warns(VideoWarning, match="part9.mkv is empty"):
        found = live(tmp_path)
    np.testing.assert_array_equal(pictures(found), np.r_[clip[:10], clip[20:30]])
    assert [f.index for f in found if f.is_gap] == [10]


def test_a_segment_that_was_removed_is_a_gap_after_a_restart(tmp_path, clip):
    paths = write_segments(tmp_path, clip, [10, 10, 10])
    with open_live(tmp_path) as video:
        last = [next(video) for _ in range(14)][-1]
    paths[0].unlink()
    paths[1].unlink()
    found = live(tmp_path, start=video.position)
    np.testing.assert_array_equal(pictures(found), clip[20:30])
    assert [f.index for f in found] == list(range(14, 24))
    assert found[0].is_gap
    assert found[0].time > last.time


def test_following_reads_a_segment_when_it_is_complete(tmp_path, clip):
    """The recorder works during the pauses: it writes a segment in two halves, then the next, then stops."""
    source = tmp_path / "made"
    source.mkdir()
    paths = write_segments(source, clip, [10, 10, 10])
    target = tmp_path / "watched"
    target.mkdir()
    events = []

    def record(pause):
        data = [path.read_bytes() for path in paths]
        if pause == 2:
            (target / "part8.mkv").write_bytes(data[0][: len(data[0]) // 2])
        elif pause == 8:  # 3 s later: less than the patience
            (target / "part8.mkv").write_bytes(data[0])
        elif pause == 12:
            (target / "part9.mkv").write_bytes(data[1])
        elif pause == 40:
            (target / "part10.mkv").write_bytes(data[2])
        elif pause == 80:
            video.stop()
        taken[pause] = len(found)

    taken, found = {}, []
    clock = Clock(record)
    with open_live(
        target,
        follow=True,
        patience=4.0,
        on_event=lambda *event: events.append(event),
        clock=clock,
        sleep=clock.sleep,
    ) as video:
        for frame in video:
            found.append(frame)
    np.testing.assert_array_equal(pictures(found), clip[:30])
    assert not any(f.is_gap for f in found)
    assert (taken[12], taken[13]) == (0, 10)  # complete when the next appeared
    assert (taken[19], taken[21]) == (10, 20)  # complete 4 s after the last change
    assert events == 4 * [("waiting", {})]
    assert set(clock.pauses) == {0.5}


# --- pipes

WRITER = """
import sys
data = open(sys.argv[1], "rb").read()
half = len(data) // 2
sys.stdout.buffer.write(data[:half])
sys.stdout.flush()
sys.stdin.readline()
sys.stdout.buffer.write(data[half:])
"""


@pytest.fixture
def piped(monkeypatch):
    """Start a process that writes half of a file to the standard input, and the rest when it is told."""
    started = []

    def start(path):
        command = [sys.executable, "-c", WRITER, os.fspath(path)]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        monkeypatch.setattr(sys, "stdin", started[-1].stdout)
        return started[-1]

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def y4m(clip):
    """The bytes of a grey Y4M file."""
    height, width = clip.shape[1:]
    head = f"YUV4MPEG2 W{width} H{height} F25:1 Cmono\n".encode()
    return head + b"".join(b"FRAME\n" + frame.tobytes() for frame in clip)


@pytest.mark.parametrize("suffix", [".ts", ".mkv", ".y4m", ".mjpeg"])
def test_a_pipe_that_stalls_is_waited_for(tmp_path, piped, suffix):
    path, clip = tmp_path / f"clip{suffix}", moving_frames(60)
    if suffix == ".y4m":
        path.write_bytes(y4m(clip))
    elif suffix == ".mjpeg":
        write_clip(path, clip, codec="mjpeg", format="mjpeg")
    else:
        write_clip(path, clip)
    process, events = piped(path), []

    def tell(*event):
        events.append((event[0], tuple(event[1])))
        process.stdin.write(b"\n")
        process.stdin.flush()

    found = live("-", on_event=tell)
    np.testing.assert_array_equal(pictures(found), read(path))
    assert not any(f.is_gap for f in found)
    np.testing.assert_allclose([f.time for f in found], np.arange(60) / 25, atol=1e-3)
    assert set(events) == {("waiting", ())}


def test_a_pipe_continues_the_numbers_after_a_restart(tmp_path, piped):
    process = piped(write_clip(tmp_path / "clip.ts", moving_frames(30)))
    process.stdin.write(b"\n")
    process.stdin.flush()
    found = live("-", start=Position(index=70, time=9.5))
    assert [f.index for f in found] == list(range(70, 100))
    assert found[0].time == 9.5
    assert [f.index for f in found if f.is_gap] == [70]


def test_a_size_that_changes_in_a_pipe(tmp_path, piped):
    parts = [moving_frames(20, 48, 64), moving_frames(20, 96, 80)]
    paths = [
        write_clip(tmp_path / f"{n}.mjpeg", p, codec="mjpeg", format="mjpeg") for n, p in enumerate(parts)
    ]
    joined = tmp_path / "joined.mjpeg"
    joined.write_bytes(b"".join(path.read_bytes() for path in paths))
    piped(joined).stdin.close()
    found = live("-")
    expected = np.r_[read(paths[0]), read(paths[1], size=(48, 64))]
    np.testing.assert_array_equal(pictures(found), expected)
    assert [f.index for f in found if f.is_gap] == [20]


def test_timestamps_that_jump_back_in_a_pipe(tmp_path, piped):
    path = write_clip(tmp_path / "clip.ts", moving_frames(30))
    path.write_bytes(2 * path.read_bytes())
    piped(path).stdin.close()
    found = live("-")
    gaps = [f.index for f in found if f.is_gap]
    assert len(found) >= 55  # frames at the joint may be lost
    assert gaps
    assert set(gaps) <= set(range(26, 32))
    steps = np.diff([f.time for f in found])
    np.testing.assert_allclose(steps, 0.04, atol=1e-5)  # MPEG-TS counts 1/90000 s


def test_what_is_not_a_video_in_a_pipe(tmp_path, piped, monkeypatch):
    """Also a playlist, which could name other files."""
    clip = write_clip(tmp_path / "clip.ts", moving_frames(30))
    path = tmp_path / "list.m3u8"
    path.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1.2,\nfile://{clip}\n#EXT-X-ENDLIST\n")
    piped(path).stdin.close()
    with pytest.raises(VideoError, match="the standard input cannot be read: "):
        live("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(VideoError, match="the standard input is a terminal"):
        live("-")


def test_a_pipe_is_stopped_by_another_thread_while_it_stalls(tmp_path, piped):
    piped(write_clip(tmp_path / "clip.ts", moving_frames(60)))
    stoppers = []

    def stop(*event):
        stoppers.append(threading.Thread(target=video.stop))
        stoppers[-1].start()

    with open_live("-", on_event=stop) as video:
        assert len(list(video)) < 60
    stoppers[0].join()
    assert len(stoppers) == 1


READER = """
import signal, sys
from sysbags.video import open_live
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts by `&` ignore it
with open_live("-", on_event=lambda *event: print(event[0], flush=True)) as video:
    if sys.argv[1] == "stop":
        signal.signal(signal.SIGTERM, lambda *_: video.stop())
    try:
        for frame in video:
            pass
        print("ended")
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize(
    ("how", "number", "text"), [("raise", signal.SIGINT, "interrupted"), ("stop", signal.SIGTERM, "ended")]
)
def test_a_signal_ends_a_pipe_that_stalls(tmp_path, how, number, text):
    data = write_clip(tmp_path / "clip.ts", moving_frames(60)).read_bytes()
    command = [sys.executable, "-c", READER, how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(data[: len(data) // 2])
        process.stdin.flush()
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(number)
        assert process.stdout.readline().decode() == f"{text}\n"
        process.stdin.close()
        assert process.wait() == 0
