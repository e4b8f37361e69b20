"""Devices and network addresses: feeds that die and return, slow consumers, passwords."""

from __future__ import annotations

import threading
import time

import av
import numpy as np
import pytest

from clips import moving_frames, read, write_clip
from servers import Clock, http, rtp_packets, rtsp, server, silence
from sysbags.errors import ParameterError, VideoError
from sysbags.video import Position, open_live, without_password
from sysbags.video.backlog import Backlog
from sysbags.video.timing import LiveFrame

ENOUGH = 20.0  # seconds: a patience that no test waits for
SHORT = 2.0  # a patience that tests wait for, long enough for a busy machine to answer


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.enumerate()
    yield
    assert threading.enumerate() == before


@pytest.fixture(scope="module")
def clip(folder):
    return write_clip(folder / "clip.ts", moving_frames(60))


class Recorded:
    """A live video with a clock that stands still; it is stopped when it is lost for the n-th time."""

    def __init__(self, address, *, stop_after=1, **options):
        self.events, self.stop_after, self.clock = [], stop_after, Clock()
        options = {"patience": ENOUGH, "clock": self.clock, "sleep": self.clock.sleep, **options}
        self.video = open_live(address, on_event=self.hear, **options)

    def hear(self, *event):
        self.events.append(event)
        if names(self).count("lost") == self.stop_after:
            self.video.stop()

    def frames(self):
        with self.video:
            return list(self.video)


def names(recorded):
    return [name for name, _ in recorded.events]


def pictures(frames):
    return np.stack([frame.picture for frame in frames])


# --- HTTP


def test_a_feed_that_dies_in_the_middle_of_a_frame_and_returns(clip):
    data, expected = clip.read_bytes(), read(clip)
    with server(http(data[: len(data) // 2 + 100]), http(data)) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", stop_after=2)
        found = recorded.frames()
    gaps = [f.index for f in found if f.is_gap]
    assert (recorded.video.reconnections, recorded.video.skipped) == (1, 0)
    (joint,) = gaps
    assert 10 < joint < 40  # the incomplete frame is not used
    np.testing.assert_array_equal(pictures(found[:joint]), expected[:joint])
    np.testing.assert_array_equal(pictures(found[joint:]), expected[: len(found) - joint])
    assert len(found) - joint >= 55  # FFmpeg keeps the last packets when a connection breaks
    # the clock of the test passes during the pause only, which was one second
    assert found[joint].time == pytest.approx(found[joint - 1].time + 1.0, abs=1e-5)
    assert [f.index for f in found] == list(range(len(found)))
    assert names(recorded)[:3] == ["connected", "lost", "connected"]
    assert recorded.events[1][1]["pause"] == 1.0
    assert recorded.events[1][1]["reason"]


def test_pauses_grow_up_to_a_minute_and_begin_again_after_a_frame(clip):
    data = clip.read_bytes()
    with server(http(data), *8 * [None], http(data)) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", stop_after=11)
        found = recorded.frames()
    pauses = [details["pause"] for name, details in recorded.events if name == "lost"]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2]
    assert recorded.clock.pauses[:11] == pauses
    assert recorded.video.reconnections == 1
    assert sum(f.is_gap for f in found) == 1


def test_a_server_that_never_answers_is_noticed():
    with server(silence) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", patience=0.3)
        assert recorded.frames() == []
    assert recorded.events == [("lost", {"reason": "no data in 0.3 s", "pause": 1.0})]


def test_a_camera_that_cannot_be_reached_at_the_start_is_opened_again(clip):
    with server(None, None, None, http(clip.read_bytes())) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", stop_after=4)
        found = recorded.frames()
    np.testing.assert_array_equal(pictures(found), read(clip)[: len(found)])
    assert len(found) > 50
    assert (found[0].index, found[0].time) == (0, 0.0)
    assert not any(frame.is_gap for frame in found)  # nothing is missing before the first frame
    assert names(recorded) == ["lost", "lost", "lost", "connected", "lost"]
    assert [details["pause"] for name, details in recorded.events if name == "lost"] == [1, 2, 4, 1]
    assert recorded.video.reconnections == 0


def test_a_protocol_that_this_ffmpeg_lacks_is_an_error(monkeypatch):
    def refuse(*arguments, **options):
        raise av.error.ProtocolNotFoundError(1, "Protocol not found")

    monkeypatch.setattr(av, "open", refuse)
    with pytest.raises(VideoError, match="this build of FFmpeg lacks the protocol of the address"):
        Recorded("srt://127.0.0.1:1").frames()


def test_a_feed_that_falls_silent_is_lost(clip):
    with server(http(clip.read_bytes(), then_wait=True)) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", patience=SHORT)
        assert len(recorded.frames()) > 50
    assert recorded.events == [
        ("connected", {}),
        ("lost", {"reason": f"no data in {SHORT:g} s", "pause": 1.0}),
    ]


def test_a_file_on_a_server_is_read_once(folder):
    path = write_clip(folder / "clip.mkv", moving_frames(30))
    data = path.read_bytes()
    with server(http(data, kind="video/x-matroska", length=len(data)), http(data)) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/clip.mkv")
        np.testing.assert_array_equal(pictures(recorded.frames()), read(path))
    assert recorded.clock.pauses == []


def test_pictures_of_a_web_camera_have_the_time_of_their_arrival(folder):
    """FFmpeg makes up 25 frames per second; here no time passes at all."""
    path = write_clip(folder / "clip.mpjpeg", moving_frames(30), codec="mjpeg", format="mpjpeg")
    kind = "multipart/x-mixed-replace;boundary=ffmpeg"
    with server(http(path.read_bytes(), kind=kind, then_wait=True)) as port:
        found = Recorded(f"http://127.0.0.1:{port}/live", patience=SHORT).frames()
    assert [f.time for f in found] == 30 * [0.0]


def test_a_size_that_changes(folder, clip):
    large = write_clip(folder / "large.ts", moving_frames(60, 96, 80))
    with server(http(clip.read_bytes() + large.read_bytes())) as port:
        found = Recorded(f"http://127.0.0.1:{port}/live").frames()
    assert pictures(found).shape[1:] == (48, 64)
    gaps = [f.index for f in found if f.is_gap]
    assert gaps
    assert set(gaps) <= set(range(55, 63))
    assert len(found) > 110
    assert np.all(np.diff([f.time for f in found]) > 0)


def test_a_rate_is_counted_from_the_gap(clip):
    data = clip.read_bytes()
    with server(http(data), http(data)) as port:
        found = Recorded(f"http://127.0.0.1:{port}/live", stop_after=2, rate=10).frames()
    (joint,) = (f.index for f in found if f.is_gap)
    for part in (found[:joint], found[joint:]):
        np.testing.assert_allclose(np.diff([f.time for f in part]), 0.1, atol=1e-9)
    np.testing.assert_array_equal(pictures(found[joint:]), read(clip, rate=10)[: len(found) - joint])


def test_numbers_and_times_continue_after_a_restart(clip):
    with server(http(clip.read_bytes())) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", start=Position(index=500, time=40.0))
        found = recorded.frames()
    assert (found[0].index, found[0].time, found[0].is_gap) == (500, 40.0, True)
    assert recorded.video.position.index == found[-1].index + 1
    assert recorded.video.position.time == pytest.approx(found[-1].time + 0.04, abs=1e-5)


def test_a_server_cannot_make_it_read_a_local_file(clip):
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:1.2,\nfile://{clip}\n#EXT-X-ENDLIST\n"
    kind = "application/vnd.apple.mpegurl"
    with server(*3 * [http(playlist.encode(), kind=kind, length=len(playlist))]) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live.m3u8")
        assert recorded.frames() == []
    assert names(recorded) == ["lost"]


# --- RTSP


def test_rtsp_over_tcp_dies_and_returns():
    packets = rtp_packets(moving_frames(60))
    with server(rtsp(packets[:40]), rtsp(packets)) as port:
        recorded = Recorded(f"rtsp://user:secret@127.0.0.1:{port}/live", stop_after=2)
        found = recorded.frames()
    assert "secret" not in recorded.video.name
    assert recorded.video.reconnections == 1
    (joint,) = (f.index for f in found if f.is_gap)
    assert joint >= 30
    assert len(found) - joint >= 55
    # the same stream twice, so the same pictures
    np.testing.assert_array_equal(pictures(found[joint:])[:30], pictures(found[:30]))


# --- slow consumers


def numbered(count, go=None):
    """Frames at 8 per second; after the first the source waits for an event."""
    for index in range(count):
        yield LiveFrame(index / 8, index, np.zeros((4, 4), np.uint8), False)
        if go is not None:
            go.wait()


def test_the_whole_backlog_is_skipped_at_once():
    """One frame is taken, then 95 come: 16 may wait, so 5 backlogs of 16 are skipped and 15 are left."""
    go, events = threading.Event(), []
    backlog = Backlog(numbered(96, go), 2.0, True, lambda *event: events.append(event), bool)
    frames = backlog.frames()
    assert next(frames).index == 0
    go.set()
    backlog.join(ENOUGH)
    rest = list(frames)
    assert [f.index for f in rest] == list(range(81, 96))
    assert [f.index for f in rest if f.is_gap] == [81]
    assert backlog.skipped == 80
    assert events == 5 * [("skipped", {"frames": 16})]


def test_without_skipping_the_source_waits():
    backlog = Backlog(numbered(96), 0.5, False, lambda *event: None, bool)
    assert [f.index for f in backlog.frames()] == list(range(96))
    assert backlog.skipped == 0
    backlog.join(ENOUGH)


def test_a_source_that_waits_is_stopped():
    stopped = threading.Event()
    backlog = Backlog(numbered(96), 0.5, False, lambda *event: None, stopped.is_set)
    next(backlog.frames())
    stopped.set()
    backlog.wake()
    backlog.join(ENOUGH)


def test_a_slow_consumer_of_a_feed_sees_each_skip(clip):
    with server(http(clip.read_bytes(), then_wait=True)) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", patience=SHORT, queue_seconds=0.4)
        with recorded.video as video:
            found = [next(video)]
            for _ in range(1000):
                if video.skipped < 30:
                    time.sleep(0.01)
            found += list(video)
    missing = np.diff([f.index for f in found], prepend=-1) - 1
    assert missing.sum() == video.skipped >= 30
    assert [f.is_gap for f in found] == list(missing > 0)
    skips = [details["frames"] for name, details in recorded.events if name == "skipped"]
    assert sum(skips) == video.skipped


# --- ends


def test_closing_while_a_feed_is_silent(clip):
    with server(http(clip.read_bytes(), then_wait=True)) as port:
        with Recorded(f"http://127.0.0.1:{port}/live", patience=SHORT).video as video:
            next(video)
        assert list(video) == []


def test_stopping_from_another_thread_while_waiting_for_a_frame(clip):
    with server(http(clip.read_bytes(), then_wait=True)) as port:
        recorded = Recorded(f"http://127.0.0.1:{port}/live", patience=SHORT)
        with recorded.video as video:
            stopper = threading.Thread(target=video.stop)
            for frame in video:
                if frame.index == 50:
                    stopper.start()
        stopper.join()
    assert "lost" not in names(recorded)


def test_stopping_during_a_pause(clip):
    """The pause is a real one of a second here, which `stop` ends."""

    def stop(name, details):
        if name == "lost":
            video.stop()

    with server(http(clip.read_bytes())) as port:
        video = open_live(f"http://127.0.0.1:{port}/live", patience=ENOUGH, on_event=stop)
        with video:
            assert len(list(video)) > 50
    assert video.reconnections == 0


# --- addresses and devices


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("rtsp://user:secret@host/a", "rtsp://user:***@host/a"),
        ("rtsp://user:se:c@ret@host:554/a@b", "rtsp://user:***@host:554/a@b"),
        ("rtsp://user:sec/ret@host/a", "rtsp://user:***@host/a"),
        ("rtsp://user@host/a", "rtsp://user@host/a"),
        ("http://host:80/a@b:c", "http://host:80/a@b:c"),
        ("http://host/a?user=me&password=secret#x", "http://host/a?user=me&password=***#x"),
        ("srt://host:9000?passphrase=secret", "srt://host:9000?passphrase=***"),
        ("http://host/a?apikey=secret&b=1", "http://host/a?apikey=***&b=1"),
    ],
)
def test_passwords_are_not_shown(address, shown):
    assert without_password(address) == shown


def test_no_message_has_a_password():
    with server() as port:  # closes each connection
        recorded = Recorded(f"http://user:secret@127.0.0.1:{port}/?token=secret")
        assert recorded.frames() == []
    assert "secret" not in f"{recorded.events} {recorded.video.name}"
    with pytest.raises(
        ParameterError, match=r"the scheme of gopher://user:.* is gopher, but it must be"
    ) as caught:
        open_live("gopher://user:secret@host/")
    assert "secret" not in str(caught.value)


def test_a_file_cannot_be_named_as_an_address(clip):
    for address in (f"file://{clip}", f"concat://{clip}", "data://text"):
        with pytest.raises(ParameterError, match="the scheme of"):
            open_live(address)


def test_a_device_that_is_not_there(monkeypatch):
    for device in ("/dev/video987", "987"):
        recorded = Recorded(device)
        assert recorded.frames() == []
        assert recorded.events == [("lost", {"reason": "No such file or directory", "pause": 1.0})]
    monkeypatch.setattr(av, "formats_available", frozenset())
    with pytest.raises(VideoError, match="this build of FFmpeg has no input for Video4Linux devices"):
        open_live("/dev/video0")
