"""Frames of broken files, and sentences for what is no video."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest

from clips import (
    FASTSTART,
    FRAGMENTED,
    moving_frames,
    read,
    read_broken,
    write_clip,
    write_sound,
)
from sysbags.errors import VideoError, VideoWarning
from sysbags.video import container_facts, frames
from sysbags.video.decoding import Damage, _Tally, decoded, is_cut

# --- damage


CUT = {
    "faststart.mp4": FASTSTART,
    "fragmented.mp4": FRAGMENTED,
    "mpeg4.avi": {"b": 2_000_000},
    "mjpeg.avi": {"codec": "mjpeg"},
    "vp9.webm": {"b": 2_000_000},
    "vp8.webm": {"codec": "libvpx"},
    "ffv1.mkv": {"pixel_format": "gray"},
    "h264.mkv": {"codec": "libx264"},
    "mpeg2.ts": {},
    "h264.ts": {"codec": "libx264"},
    "clip.gif": {},
}


@pytest.mark.parametrize("name", CUT)
def test_a_truncated_file_gives_the_frames_before_the_break(folder, name, capfd):
    complete = write_clip(folder / f"whole-{name}", moving_frames(24), **CUT[name])
    assert not is_cut(complete)
    expected = read(complete)
    data = complete.read_bytes()
    path = folder / f"cut-{name}"
    counts = []
    for length in (len(data) - 1, int(0.93 * len(data)) | 1, int(0.77 * len(data)) | 1):
        path.write_bytes(data[:length])
        result = read_broken(path)
        np.testing.assert_array_equal(result, expected[: len(result)])
        counts.append(len(result))
        with pytest.raises(VideoError, match=rf"^{path} breaks off after {len(result)} frames?: "):
            list(frames(path, strict=True))
        np.testing.assert_array_equal(read(path, strict=True, stop=len(result)), result)  # not that far
    assert 20 <= counts[0] <= 24
    assert counts[0] >= counts[1] >= counts[2] >= 1
    assert counts[2] < 24
    assert capfd.readouterr().err == ""  # FFmpeg keeps its complaints to itself


def test_a_file_without_its_index_gets_a_sentence(folder):
    data = write_clip(folder / "whole.mp4", moving_frames(8)).read_bytes()
    path = folder / "no-index.mp4"
    path.write_bytes(data[: len(data) // 2])  # the index of a plain MP4 file is at its end
    with pytest.raises(VideoError, match=rf"^{path} cannot be read: FFmpeg finds no video in it"):
        list(frames(path))


@pytest.mark.parametrize(
    ("name", "options"),
    [("b.mp4", {"bf": 2}), ("p.mp4", {"bf": 0}), ("j.avi", {"codec": "mjpeg"}), ("m.avi", {"b": 2_000_000})],
)
@pytest.mark.parametrize("at", [5, 20, 28])
def test_damage_in_the_middle_gives_the_frames_before_it(folder, name, options, at):
    path = write_clip(folder / f"damaged-{name}", moving_frames(30), **options)
    expected = read(path)
    with av.open(str(path)) as container:
        spans = [(p.pos, p.size, p.pts) for p in container.demux(video=0) if p.size]
    data = bytearray(path.read_bytes())
    position, size, pts = spans[at]
    data[position + 8 : position + size] = b"\xff" * (size - 8)
    path.write_bytes(data)
    result = read_broken(path)
    np.testing.assert_array_equal(result, expected[: len(result)])
    presented = sorted(pts for _, _, pts in spans).index(pts)
    assert presented - 3 <= len(result) <= presented  # earlier where others refer to the damaged one
    assert len(result) == len(read_one_thread(path))


def read_one_thread(path):
    collected = []
    with suppress(Damage):
        for picture in decoded(path, 1):
            collected.append(picture)
    return collected


def test_a_file_that_lost_bytes_in_the_middle_says_so(folder):
    for name, options in {"lost.avi": {"codec": "mjpeg"}, "lost.webm": {}, "lost.gif": {}}.items():
        path = write_clip(folder / name, moving_frames(20), **options)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) * 3 // 4] + bytes(600) + data[len(data) * 3 // 4 + 600 :])
        assert 1 <= len(read_broken(path)) < 20


@pytest.mark.parametrize("lost", [set(), {7}, {1900}, set(range(1, 2000, 2))])
def test_frames_that_never_come_are_noticed_in_constant_memory(lost):
    container = SimpleNamespace(format=SimpleNamespace(name="mov,mp4"), duration=None, streams=[None])
    stream = SimpleNamespace(codec_context=SimpleNamespace(name="h264"), average_rate=25, frames=0)
    tally = _Tally(container, stream)
    for pts in range(2000):
        tally.add_packet(SimpleNamespace(size=9, pts=pts, duration=1, is_discard=False))
        if pts not in lost:
            tally.add_picture(SimpleNamespace(pts=pts, interlaced_frame=False))
        assert len(tally.pending) <= 1002
    assert tally.missing(suspicious=False) == ("some frames cannot be decoded" if lost else "")


# --- what is no video


def test_sentences_for_what_is_no_video(tmp_path):
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("It was a bright cold day in April.\n" * 40)
    (tmp_path / "ansi.txt").write_text("\x1b[31mred\x1b[0m\n" * 40)
    (tmp_path / "noise.avi").write_bytes(np.random.default_rng(0).bytes(5000))
    (tmp_path / "no-images").mkdir()
    (tmp_path / "no-images" / ".hidden.png").touch()
    write_sound(tmp_path / "sound.m4a")
    write_sound(tmp_path / "sound.mkv")
    for name, sentence in {
        "missing.mp4": "does not exist",
        "empty.mp4": "is empty: it has no bytes",
        "text.mp4": "cannot be read: FFmpeg finds no video in it",
        "ansi.txt": "cannot be read: FFmpeg finds no video in it",
        "noise.avi": "cannot be read: FFmpeg finds no video in it",
        "sound.m4a": "cannot be read: it holds no moving picture, only audio",
        "sound.mkv": "cannot be read: it holds no moving picture, only audio",
        "no-images": "has no images",
        "a" * 5000: "cannot be read: File name too long",
    }.items():
        with pytest.raises(VideoError, match=f"{name} {sentence}") as caught:
            list(frames(tmp_path / name))
        assert "\n" not in str(caught.value)
    with pytest.raises(VideoError, match="is not a regular file"):
        frames("/dev/null")


def test_a_cover_is_no_video(tmp_path):
    path = tmp_path / "song.m4a"
    with av.open(str(path), "w", format="mp4") as container:
        sound = container.add_stream("aac", rate=16000, layout="mono")
        cover = container.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 16, 16, "yuvj444p"
        cover.disposition = av.stream.Disposition.attached_pic
        for start in range(0, 8192, 1024):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            frame.sample_rate, frame.pts = 16000, start
            container.mux(sound.encode(frame))
        picture = av.VideoFrame.from_ndarray(moving_frames(1, 16, 16)[0], format="gray")
        container.mux(cover.encode(picture.reformat(format="yuvj444p")) + cover.encode(None))
        container.mux(sound.encode(None))
    with pytest.raises(VideoError, match="it holds no moving picture, only audio and video"):
        list(frames(path))


def test_nothing_but_the_file_is_opened(tmp_path):
    write_clip(tmp_path / "clip.ts", moving_frames(4), codec="libx264")
    write_clip(tmp_path / "clip.mp4", moving_frames(4))
    playlist = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXTINF:1.0,\n{}\n#EXT-X-ENDLIST\n"
    (tmp_path / "list.m3u8").write_text(playlist.format(tmp_path / "clip.ts"))
    (tmp_path / "remote.m3u8").write_text(playlist.format("http://127.0.0.1:9/clip.ts"))
    (tmp_path / "list.ffconcat").write_text("ffconcat version 1.0\nfile clip.mp4\n")
    (tmp_path / "list.sdp").write_text(
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
        "a=rtpmap:96 H264/90000\n"
    )
    for name in ("list.m3u8", "remote.m3u8", "list.ffconcat", "list.sdp"):
        with pytest.raises(VideoError, match=f"{name} cannot be read: FFmpeg finds no video in it"):
            list(frames(tmp_path / name))
    for name in ("http://127.0.0.1:9/clip.mp4", f"file:{tmp_path}/clip.mp4", f"concat:{tmp_path}/clip.ts"):
        with pytest.raises(VideoError, match="does not exist"):
            frames(name)


def test_a_header_with_absurd_sizes_gets_a_sentence(tmp_path):
    data = bytearray(write_clip(tmp_path / "wide.gif", moving_frames(3, 16, 16)).read_bytes())
    data[6:10] = b"\xff" * 4
    (tmp_path / "wide.gif").write_bytes(data)
    with pytest.raises(VideoError, match=r"wide\.gif cannot be read: "):
        list(frames(tmp_path / "wide.gif"))
    with pytest.raises(VideoError, match="more than the limit"):
        list(frames(np.zeros((1, 1, 4000), np.uint8), size=1000))


def patch_size(path, size, big):
    """Replace the size in a header, (320, 272), by a big one; `size` writes two numbers as the file does."""
    data = path.read_bytes()
    assert size(320, 272) in data
    path.write_bytes(data.replace(size(320, 272), size(big, big)))


@pytest.mark.parametrize("big", [15000, 32000])  # above our own limit, and above that of FFmpeg too
@pytest.mark.parametrize("name", ["plain.y4m", "plain.avi", "plain.mkv", "folder"])
def test_a_header_that_claims_too_many_pixels(tmp_path, name, big, capfd):
    clip, path = moving_frames(3, 272, 320), tmp_path / name
    if name == "plain.y4m":
        path.write_bytes(f"YUV4MPEG2 W{big} H{big} F25:1 Ip A1:1 C420jpeg\nFRAME\n".encode() + bytes(5000))
    elif name == "plain.avi":
        write_clip(path, clip, codec="huffyuv", pixel_format="yuv422p")
        patch_size(path, lambda width, height: struct.pack("<II", width, height), big)
    elif name == "plain.mkv":
        write_clip(path, clip)
        patch_size(path, lambda w, h: struct.pack(">2sH2sH", b"\xb0\x82", w, b"\xba\x82", h), big)
    else:
        path.mkdir()
        (path / "1.pgm").write_bytes(f"P5\n{big} {big}\n255\n".encode() + bytes(5000))
    with pytest.raises(VideoError, match=r"above the limit of 134217728( pixels|$)") as caught:
        list(frames(path))
    assert str(caught.value).startswith(f"{path} cannot be read: ")
    assert "busy" not in str(caught.value)
    assert capfd.readouterr().err == ""


# --- a thousand mutations


def mutated(data, other, rng):
    """A copy with flipped bits, a cut, a stretch of zeros, a hole or a splice; and which it is."""
    data, kind = bytearray(data), int(rng.integers(5))
    at = int(rng.integers(len(data)))
    length = int(rng.integers(1, 300))
    if kind == 0:
        for place in rng.integers(len(data), size=rng.integers(1, 9)):
            data[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif kind == 3:
        del data[at : at + length]
    else:
        source = int(rng.integers(len(other)))
        data[at : at + length] = other[source : source + length]
    return bytes(data), kind


def try_mutations(count, seed=0):
    """Read mutated files; each gives frames or a sentence, and a cut is never passed over in silence."""
    rng = np.random.default_rng(seed)
    clip = moving_frames(10, 32, 48)
    outcomes = {"whole": 0, "warning": 0, "error": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        originals = [
            write_clip(folder / "plain.mp4", clip),
            write_clip(folder / "faststart.mp4", clip, **FASTSTART),
            write_clip(folder / "clip.avi", clip),
            write_clip(folder / "clip.webm", clip),
        ]
        contents = [path.read_bytes() for path in originals]
        for _ in range(count):
            which = int(rng.choice(4, p=[0.4, 0.3, 0.15, 0.15]))
            data, kind = mutated(contents[which], contents[int(rng.integers(4))], rng)
            path = folder / f"mutated{originals[which].suffix}"
            path.write_bytes(data)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    result = list(frames(path))
                except VideoError as error:
                    sentence = str(error)
                    result = []
            if not result:
                assert "mutated" in sentence
                assert "\n" not in sentence
                outcomes["error"] += 1
                continue
            assert all(warning.category is VideoWarning for warning in caught)
            assert caught or kind != 1, "a cut passed over in silence"
            assert len({frame.shape for frame in result}) == 1
            assert all(frame.dtype == np.uint8 and frame.ndim == 2 for frame in result)
            outcomes["warning" if caught else "whole"] += 1
    print(outcomes)
    assert all(number >= count // 20 for number in outcomes.values())


@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.long)])
def test_mutations_give_frames_or_a_sentence(count):
    """In a process of its own: a crash must be a failed test, not the end of the tests."""
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            f"from test_video_damage import try_mutations as run; run({count})",
        ],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("{'whole': ")


@pytest.mark.parametrize("content", [None, b"no video"])
def test_facts_of_what_is_no_video(tmp_path, content):
    path = tmp_path / "clip.mp4"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(VideoError, match=r"clip\.mp4 cannot be read: FFmpeg finds no video in it"):
        container_facts(path)
