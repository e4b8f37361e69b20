"""Frames of files: all kinds of them, which frames, their size, way up and time."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clips import (
    FRAGMENTED,
    image_bytes,
    moving_frames,
    read,
    write_clip,
)
from sysbags.errors import ParameterError, VideoError
from sysbags.video import frames
from sysbags.video.decoding import END, Ticks

WILD_SCENES = Path(__file__).parents[3] / "shared" / "data" / "wild-scenes"


# --- files of many kinds


KINDS = {
    "h264.mp4": {},
    "h264-odd.mp4": {"pixel_format": "yuv444p", "size": (37, 51)},
    "h264-10bit.mp4": {"pixel_format": "yuv420p10le"},
    "h264-rgb.mkv": {"codec": "libx264rgb", "pixel_format": "rgb24", "qp": 0},
    "fragmented.mp4": FRAGMENTED,
    "mpeg4.avi": {"size": (33, 47)},
    "mjpeg.avi": {"codec": "mjpeg"},
    "vp9.webm": {"size": (35, 61)},
    "vp8.webm": {"codec": "libvpx"},
    "mpeg2.ts": {},
    "h264.ts": {"codec": "libx264"},
    "h264.mov": {"pixel_format": "yuv422p"},
    "clip.gif": {"size": (31, 45)},
}


@pytest.mark.parametrize("colour", ["grey", "rgb"])
@pytest.mark.parametrize("name", KINDS)
def test_a_file_gives_the_frames_that_were_written(folder, name, colour):
    options = {"b": 4_000_000, **KINDS[name]}
    height, width = options.pop("size", (48, 64))
    written = moving_frames(12, height, width, colour=colour == "rgb")
    path = folder / f"{colour}-{name}"
    result = read(write_clip(path, written, **options), colour=colour)
    assert result.dtype == np.uint8
    assert result.shape == written.shape
    error = np.abs(result.astype(int) - written)
    assert error.mean() < (25.0 if name == "clip.gif" else 8.0 if colour == "grey" else 16.0)
    others = np.abs(result.astype(int) - np.roll(written, 1, axis=0))
    assert error.mean() < 0.8 * others.mean()  # in the right order


@pytest.mark.parametrize("size", [(1, 1), (17, 23), (32, 64)])
def test_lossless_files_give_the_very_pixels(folder, size):
    grey, colour = moving_frames(6, *size), moving_frames(6, *size, colour=True)
    grey_path = write_clip(folder / "grey.mkv", grey, pixel_format="gray")
    colour_path = write_clip(folder / "colour.mkv", colour, pixel_format="bgr0")
    np.testing.assert_array_equal(read(grey_path), grey)
    np.testing.assert_array_equal(read(colour_path, colour="rgb"), colour)
    np.testing.assert_array_equal(read(grey_path, colour="rgb"), np.stack([grey] * 3, axis=-1))


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p", "yuv444p"])
def test_grey_spreads_a_luma_of_limited_range_over_all_values(folder, pixel_format):
    path = folder / "ramp.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 256, 6, pixel_format
        frame = av.VideoFrame(256, 6, pixel_format)
        for plane in frame.planes:
            plane.update(np.full(plane.buffer_size, 128, np.uint8))
        luma = np.zeros((6, frame.planes[0].line_size), np.uint8)
        luma[:, :256] = np.arange(256)
        frame.planes[0].update(luma.tobytes())
        frame.pts = 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    expected = np.clip(np.rint((np.arange(256) - 16) * 255 / 219), 0, 255)
    result = read(path)[0]
    np.testing.assert_array_equal(result, np.tile(expected, (6, 1)))
    # the same by FFmpeg's scaler, which other formats and sizes go through
    scaled = read(path, size=(12, 256))[0]
    np.testing.assert_array_equal(scaled, np.tile(expected, (12, 1)))


def test_grey_of_full_range_is_the_luma_itself(folder):
    path = write_clip(folder / "full.avi", moving_frames(3), codec="mjpeg")
    with av.open(str(path)) as container:
        planes = [np.array(f.planes[0]).reshape(48, -1)[:, :64] for f in container.decode(video=0)]
    np.testing.assert_array_equal(read(path), planes)


def test_frames_are_fresh_arrays(folder, lossless):
    array = moving_frames(12, 17, 23)
    for source in (lossless, array, list(array), write_clip(folder / "fresh.mp4", moving_frames(12))):
        expected = read(source)
        for frame, expected_frame in zip(frames(source), expected, strict=True):
            assert frame.flags.c_contiguous
            assert frame.flags.writeable
            np.testing.assert_array_equal(frame, expected_frame)
            frame[:] = 0  # neither the array nor the decoder's references may feel this
    np.testing.assert_array_equal(array, moving_frames(12, 17, 23))


# --- which frames


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 14),
    st.none() | st.integers(1, 15),
    st.integers(1, 5),
    st.none() | st.integers(1, 6),
    st.booleans(),
)
def test_selection_is_slicing(lossless, start, stop, stride, most, from_file):
    video = moving_frames(12, 17, 23)
    expected = video[start:stop:stride][:most]
    options = {"start": start, "stop": stop, "stride": stride, "max_frames": most}
    source = lossless if from_file else video
    if stop is not None and stop <= start:
        with pytest.raises(ParameterError, match=f"stop is {stop}, but"):
            frames(source, **options)
    elif len(expected) == 0:
        with pytest.raises(VideoError, match=f"start={start} leaves no frame of .*, which has 12 frames"):
            list(frames(source, **options))
    else:
        np.testing.assert_array_equal(read(source, **options), expected)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"colour": "gray"}, "colour is 'gray', but it must be one of 'grey', 'rgb'"),
        ({"start": -1}, "start is -1, but it must be a whole number of at least 0"),
        ({"stop": -1}, "stop is -1, but"),
        ({"stop": 0}, "stop is 0, but it must be a whole number of at least 1"),
        ({"stride": 0}, "stride is 0, but"),
        ({"max_frames": 0}, "max_frames is 0, but"),
        ({"size": 0}, "size is 0, but"),
        ({"size": 2.5}, "size is 2.5, but it must be the length of the shorter side or"),
        ({"size": (3, 0)}, "a side in size is 0, but"),
        ({"size": (3, 4, 5)}, "or \\(height, width\\)"),
        ({"size": (2**20, 2**20)}, "with at most"),
        ({"rate": 25}, "rate is 25, but the array has no timestamps"),
    ],
)
def test_wrong_options_are_refused_at_once(options, sentence):
    with pytest.raises(ParameterError, match=sentence):
        frames(moving_frames(2), **options)  # not only when frames are asked for


def test_a_start_beyond_all_numbers_leaves_no_frame():
    with pytest.raises(VideoError, match=r"leaves no frame of the array, which has 1 frame$"):
        list(frames(moving_frames(1), start=10**30))


# --- size, rotation


@pytest.mark.parametrize(
    ("size", "shape"),
    [(24, (24, 32)), (96, (96, 128)), (25, (25, 33)), ((20, 90), (20, 90)), ([7, 5], (7, 5))],
)
def test_size(folder, size, shape):
    path = write_clip(folder / "size.mp4", moving_frames(3))
    assert read(path, size=size).shape == (3, *shape)
    assert read(path, size=size, colour="rgb").shape == (3, *shape, 3)
    assert read(moving_frames(3), size=size).shape == (3, *shape)


def test_scaling_keeps_a_flat_picture_flat_and_a_slope_a_slope():
    flat = np.full((1, 40, 60), 77, np.uint8)
    np.testing.assert_array_equal(read(flat, size=(13, 29)), np.full((1, 13, 29), 77))
    slope = np.tile(np.arange(0, 240, 4, dtype=np.uint8), (1, 40, 1))
    halved = read(slope, size=(20, 30))[0]
    np.testing.assert_allclose(halved, np.tile(2 + 8 * np.arange(30), (20, 1)), atol=2)


ONE = 1 << 16
MATRICES = {0: (ONE, 0, 0, ONE), 1: (0, -ONE, ONE, 0), 2: (-ONE, 0, 0, -ONE), 3: (0, ONE, -ONE, 0)}


@pytest.mark.parametrize("turns", MATRICES)
@pytest.mark.parametrize("colour", ["grey", "rgb"])
def test_rotation_metadata_are_honoured(folder, turns, colour):
    plain = write_clip(folder / "plain.mp4", moving_frames(4, 40, 64, colour=True))
    data = bytearray(plain.read_bytes())
    at = data.index(b"tkhd") + 44  # the display matrix of the track
    a, b, c, d = MATRICES[turns]
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    turned = folder / "turned.mp4"
    turned.write_bytes(data)
    expected = np.rot90(read(plain, colour=colour), turns, axes=(1, 2))
    np.testing.assert_array_equal(read(turned, colour=colour), expected)
    size = (20, 32) if turns % 2 == 0 else (32, 20)
    assert read(turned, colour=colour, size=20).shape[1:3] == size
    assert read(turned, colour=colour, size=(30, 10)).shape[1:3] == (30, 10)
    small = np.rot90(read(plain, colour=colour, size=(20, 32)), turns, axes=(1, 2))
    np.testing.assert_array_equal(read(turned, colour=colour, size=20), small)


def test_orientation_of_an_image_is_honoured(tmp_path):
    data = image_bytes(moving_frames(1, 24, 40)[0], "mjpeg", "yuvj444p")
    tiff = struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, 0x0112, 3, 1, 6, 0, 0)  # 6: turn it clockwise
    exif = b"Exif\0\0" + tiff
    (tmp_path / "plain.jpg").write_bytes(data)
    (tmp_path / "turned.jpg").write_bytes(
        data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
    )
    plain = read(tmp_path / "plain.jpg")
    np.testing.assert_array_equal(read(tmp_path / "turned.jpg"), np.rot90(plain, -1, axes=(1, 2)))


# --- timestamps


TICKS = [0, 1, 2, 5, 9, 10]


@pytest.fixture(scope="module")
def uneven(folder):
    return write_clip(folder / "uneven.mkv", moving_frames(6, 16, 16), pixel_format="gray", times=TICKS)


def test_uneven_frames_come_once_each(uneven):
    np.testing.assert_array_equal(read(uneven), moving_frames(6, 16, 16))


@pytest.mark.parametrize("rate", [25, 25.0, 50, 12.5, Fraction(25, 3), 25 / 3, np.float32(5)])
def test_rate_shows_the_frame_on_screen(uneven, rate):
    step = 25 / Fraction(rate if isinstance(rate, Fraction) else float(rate)).limit_denominator(1000)
    ticks = [step * k for k in range(math.ceil(11 / step))]  # the last frame stays for one tick
    shown = [max(i for i, time in enumerate(TICKS) if time <= tick) for tick in ticks]
    result = read(uneven, rate=rate)
    np.testing.assert_array_equal(result, moving_frames(6, 16, 16)[shown])
    np.testing.assert_array_equal(read(uneven, rate=rate, start=1, stride=2), result[1::2])


def test_rate_on_even_frames_with_b_frames(folder):
    path = write_clip(folder / "even.mp4", moving_frames(20), bf=3)
    pictures = read(path)
    np.testing.assert_array_equal(read(path, rate=25), pictures)
    np.testing.assert_array_equal(read(path, rate=5), pictures[::5])
    np.testing.assert_array_equal(read(path, rate=50), np.repeat(pictures, 2, axis=0))


@pytest.mark.parametrize("rate", [30, 24, 60])
def test_rate_forgives_rounded_timestamps(folder, rate):
    pictures = moving_frames(2 * rate, 8, 8)
    path = write_clip(folder / "rounded.mkv", pictures, fps=rate, pixel_format="gray")  # to milliseconds
    np.testing.assert_array_equal(read(path, rate=rate), pictures)
    np.testing.assert_array_equal(read(path, rate=rate / 3), pictures[::3])


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf, "25", True])
def test_rates_that_make_no_sense_are_refused(uneven, rate):
    with pytest.raises(ParameterError, match=r"^rate is "):
        frames(uneven, rate=rate)


def test_timestamps_that_make_no_sense_get_a_sentence():
    def picture(pts):
        return SimpleNamespace(pts=pts, time_base=Fraction(1, 1000), duration=0)

    def repeated(*times):
        """Which picture is on screen at each tick."""
        pictures, ticks = [picture(pts) for pts in times], Ticks(Fraction(25), "clip")
        shown = [ticks.next(item) for item in [*pictures, END]]
        return [pictures.index(item) for item, count in shown for _ in range(count)]

    with pytest.raises(VideoError, match="clip has timestamps 1e\\+12 s apart: leave rate out"):
        repeated(0, 10**15)
    with pytest.raises(VideoError, match="clip has frames without timestamps"):
        repeated(None)
    assert repeated(40, 80, 0, 120) == [0, 2, 3, 3, 3]


# --- real clips


@pytest.mark.skipif(not WILD_SCENES.is_dir(), reason="wild-scenes is not there")
def test_real_clips_are_read_whole_without_a_warning():
    paths = sorted(WILD_SCENES.glob("*/*.mp4"))[::46]
    assert len(paths) == 5
    for path in paths:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            expected = stream.frames, stream.height, stream.width
        assert read(path, strict=True).shape == expected
