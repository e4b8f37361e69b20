"""Frames of folders, arrays and iterables, in little memory."""

from __future__ import annotations

import itertools
import weakref

import numpy as np
import pytest

from clips import (
    image_bytes,
    moving_frames,
    read,
    read_broken,
    write_clip,
)
from sysbags.errors import ParameterError, VideoError
from sysbags.video import frames
from sysbags.video.reading import Converter

# --- folders of images


@pytest.fixture
def images(tmp_path):
    for index, array in enumerate(moving_frames(12, 19, 27, colour=True)):
        (tmp_path / f"frame{index}.png").write_bytes(image_bytes(array))
    (tmp_path / "notes.txt").write_text("not an image")
    return tmp_path


def test_images_come_in_natural_order(images):
    expected = moving_frames(12, 19, 27, colour=True)
    np.testing.assert_array_equal(read(images, colour="rgb"), expected)
    np.testing.assert_array_equal(read(str(images), colour="rgb", start=1, stride=4), expected[1::4])
    np.testing.assert_array_equal(read(images), read(expected))
    with pytest.raises(ParameterError, match="has no timestamps: choose frames by stride"):
        frames(images, rate=25)


@pytest.mark.parametrize(
    ("codec", "pixel_format", "suffix"),
    [("mjpeg", "yuvj444p", "JPG"), ("bmp", "bgr24", "bmp"), ("tiff", "rgb24", "tif"), ("pgm", "gray", "pgm")],
)
def test_images_of_other_kinds(tmp_path, codec, pixel_format, suffix):
    written = moving_frames(2, 20, 30)
    for index, array in enumerate(written):
        (tmp_path / f"{index}.{suffix}").write_bytes(image_bytes(array, codec, pixel_format))
    error = np.abs(read(tmp_path).astype(int) - written)
    assert error.max() <= (40 if codec == "mjpeg" else 0)


@pytest.mark.parametrize("codec", ["png", "mjpeg", "bmp"])
def test_a_broken_image_is_a_break(tmp_path, codec):
    written = moving_frames(5, 20, 30)
    pixel_format = {"png": "gray", "mjpeg": "yuvj444p", "bmp": "bgr24"}[codec]
    suffix = "jpg" if codec == "mjpeg" else codec
    for index, array in enumerate(written):
        data = image_bytes(array, codec, pixel_format)
        (tmp_path / f"{index}.{suffix}").write_bytes(data[: len(data) // 2] if index == 3 else data)
    assert len(read_broken(tmp_path)) == 3
    with pytest.raises(VideoError, match=f"breaks off after 3 frames: 3.{suffix}: "):
        list(frames(tmp_path, strict=True))
    (tmp_path / f"0.{suffix}").write_bytes(b"\0")
    with pytest.raises(VideoError, match=f"cannot be read: 0.{suffix}: "):
        list(frames(tmp_path))


def test_images_of_several_sizes_need_a_size(images):
    (images / "frame7.png").write_bytes(image_bytes(moving_frames(1, 20, 27)[0]))
    for options in ({}, {"size": 10}):
        with pytest.raises(VideoError, match=r"frame 7 of .* has 20 x 27 pixels, but the first has 19 x 27"):
            list(frames(images, **options))
    assert read(images, size=(10, 12)).shape == (12, 10, 12)


def test_a_file_whose_size_changes_keeps_that_of_the_first_frame(tmp_path):
    shapes = [(32, 48), (32, 48), (48, 32), (64, 64)]
    data = [image_bytes(moving_frames(1, *shape)[0], "mjpeg", "yuvj420p") for shape in shapes]
    (tmp_path / "changes.mjpeg").write_bytes(b"".join(data))
    result = read(tmp_path / "changes.mjpeg")
    assert result.shape == (4, 32, 48)
    assert len({frame.tobytes() for frame in result[1:]}) == 3


# --- arrays and iterables


def test_arrays_and_iterables_of_all_kinds_agree():
    grey, colour = moving_frames(5, 9, 11), moving_frames(5, 9, 11, colour=True)
    np.testing.assert_array_equal(read(grey), grey)
    np.testing.assert_array_equal(read(colour, colour="rgb"), colour)
    np.testing.assert_array_equal(read(grey, colour="rgb"), np.stack([grey] * 3, axis=-1))
    luma = colour @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(read(colour), luma, atol=1.5)
    for same in (
        grey / 255.0,
        (grey / 255.0).astype(np.float32),
        list(grey),
        (frame for frame in grey),
        [frame.tolist() for frame in grey / 255.0],
        np.asfortranarray(grey),
        grey[:, ::-1, ::-1][:, ::-1, ::-1],
    ):
        np.testing.assert_array_equal(read(same), grey)


MASKED = np.ma.masked_array(np.zeros((2, 4, 5)), np.arange(40).reshape(2, 4, 5) % 7 == 3)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (np.zeros((4, 5)), r"the array has shape \(4, 5\), but a video must be \(T, H, W\)"),
        (np.zeros((0, 4, 5)), "the array has shape"),
        (np.zeros((2, 4, 5, 4)), r"frame 0 of the array has shape \(4, 5, 4\)"),
        (np.zeros((2, 0, 5)), r"frame 0 of the array has shape \(0, 5\)"),
        (
            np.zeros((2, 4, 5), np.int64),
            "frame 0 of the array holds int64, but it must hold uint8",
        ),
        (np.zeros((2, 4, 5), bool), "frame 0 of the array holds bool"),
        (np.full((2, 4, 5), np.nan), "frame 0 of the array holds floats from nan to nan"),
        (np.full((2, 4, 5), 255.0), "frame 0 of the array holds floats from 255 to 255"),
        (np.full((2, 4, 5), -0.5), "frame 0 of the array holds floats from -0.5"),
        ([np.zeros((4, 5)), np.zeros(3)], r"frame 1 of the iterable has shape \(3,\)"),
        ([np.zeros((4, 5)), np.zeros((5, 4))], "frame 1 of the iterable has 5 x 4 pixels, but the first has"),
        ([np.zeros((4, 5)), [[1.0], [1.0, 0.5]]], "frame 1 of the iterable is ragged"),
        (["a.png"], r"frame 0 of the iterable has shape \(\)"),
        ([], "the iterable has no frame"),
        (MASKED, "frame 0 of the array is a masked array with masked pixels"),
        ([np.zeros((4, 5)), MASKED[0]], "frame 1 of the iterable is a masked array with masked pixels"),
        (b"clip.mp4", "the video is of type bytes, but it must be a path, an array or frames"),
        (7, "the video is of type int"),
        (None, "the video is of type NoneType"),
    ],
)
def test_arrays_that_are_no_video_are_refused(source, sentence):
    with pytest.raises(VideoError, match=sentence):
        list(frames(source))


def test_a_bad_frame_that_is_left_out_does_no_harm():
    array = np.zeros((6, 4, 5))
    array[3] = np.nan
    assert read(array, stride=2).shape == (3, 4, 5)
    with pytest.raises(VideoError, match="frame 3 of the array holds floats from nan to nan"):
        list(frames(array))


def test_iterators_are_consumed_no_further_than_needed():
    source = iter(moving_frames(20, 8, 8))
    reader = frames(source, start=2, stride=3, max_frames=3)
    assert len(list(source)) == 20  # nothing was taken before the first frame is asked for
    source = iter(moving_frames(20, 8, 8))
    reader = frames(source, start=2, stride=3, max_frames=3)
    next(reader)
    assert len(list(reader)) == 2
    assert len(list(source)) == 20 - 9
    endless = itertools.repeat(np.zeros((4, 4), np.uint8))
    assert len(list(frames(endless, start=100, stop=110))) == 10


# --- memory and files


def test_an_iterator_of_any_length_needs_the_memory_of_a_few_frames():
    alive = []

    def source():
        for _ in range(3000):
            frame = np.zeros((8, 8))
            alive.append(weakref.ref(frame))
            yield frame

    for index, frame in enumerate(frames(source())):
        alive.append(weakref.ref(frame))
        if index % 100 == 0:
            alive[:] = [reference for reference in alive if reference() is not None]
            assert len(alive) <= 4


def test_a_file_of_any_length_needs_the_memory_of_a_few_frames(folder):
    resource = pytest.importorskip("resource")
    few = moving_frames(4, 240, 320)
    path = write_clip(folder / "long.mp4", np.concatenate([few] * 150), preset="ultrafast")
    peaks = []
    for index, _ in enumerate(frames(path)):
        if index in (100, 599):
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[1] - peaks[0] < 12_000  # KiB; the frames between would take 37,000


def test_files_are_closed(folder, lossless, monkeypatch):
    opened = []

    def recording_open(*arguments, **options):
        opened.append(open(*arguments, **options))  # noqa: SIM115
        return opened[-1]

    monkeypatch.setattr("sysbags.video.decoding.open", recording_open, raising=False)
    reader = frames(lossless)
    assert not opened
    next(reader)
    assert not all(file.closed for file in opened)
    reader.close()
    assert opened
    assert all(file.closed for file in opened)
    assert len(list(frames(lossless, max_frames=2))) == 2
    assert all(file.closed for file in opened)


def test_pixels_that_ffmpeg_cannot_convert_get_a_sentence():
    class Stubborn:
        def reformat(self, *arguments, **options):
            raise ValueError("no way")

    convert = Converter("rgb24", None, "clip.mp4", may_change=True)
    convert.reformatter = Stubborn()
    with pytest.raises(VideoError, match=r"cannot convert the pixel format gray of .*clip\.mp4: no way"):
        convert(np.zeros((4, 4), np.uint8), 0)
