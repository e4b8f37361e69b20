"""Video files that are written, and frames in another order."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest

from clips import moving_frames
from sysbags.errors import FileError, ParameterError, VideoError
from sysbags.video import frames, reordered_frames, write_video
from sysbags.video.writing import FORMATS

COLOUR = moving_frames(12, 48, 64, colour=True)


def read(path):
    return np.array(list(frames(path, colour="rgb", strict=True)))


def codec_of(path):
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return stream.codec_context.name, stream.average_rate


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("suffix", FORMATS)
def test_there_and_back(tmp_path, suffix, lossless):
    path = tmp_path / f"clip{suffix.upper()}"
    assert write_video(path, iter(COLOUR), Fraction(30000, 1001), lossless=lossless) == 12
    back = read(path)
    assert back.shape == COLOUR.shape
    # Colours are stored at half the resolution, but the grain of this clip differs from pixel to pixel; its
    # neighbours in time differ by 17 or more.
    distances = np.abs(back[:, None].astype(float) - COLOUR[None]).mean(axis=(2, 3, 4))
    assert (distances.argmin(axis=1) == np.arange(12)).all()
    assert np.diag(distances).max() < 14.0
    name, rate = codec_of(path)
    assert name == "h264"
    assert float(rate) == pytest.approx(30000 / 1001, rel=1e-3)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_lossless_file_keeps_its_luma(tmp_path):
    """Grey frames need no colours, so only the rounding to 219 levels is left."""
    grey = moving_frames(6, 48, 64)
    write_video(tmp_path / "a.mp4", grey, 25, lossless=True)
    back = np.array(list(frames(tmp_path / "a.mp4")))
    assert np.abs(back.astype(int) - grey).max() <= 1
    write_video(tmp_path / "b.mkv", back, 25, lossless=True)
    np.testing.assert_array_equal(np.array(list(frames(tmp_path / "b.mkv"))), back)


@pytest.mark.parametrize(("lossless", "name"), [(False, "mpeg4"), (True, "ffv1")])
@pytest.mark.parametrize("side", [48, 47])
def test_without_the_h264_encoder(tmp_path, monkeypatch, lossless, name, side):
    monkeypatch.setattr(av, "codecs_available", {"mpeg4", "ffv1"})
    path = tmp_path / "clip.mp4"
    write_video(path, COLOUR[:, :side, :side], 12.5, lossless=lossless)
    assert codec_of(path) == (name, Fraction(25, 2))
    assert read(path).shape == (12, side, side, 3)


def test_odd_sizes_are_kept(tmp_path):
    write_video(tmp_path / "clip.mp4", COLOUR[:, :47, :33], 25)
    assert read(tmp_path / "clip.mp4").shape == (12, 47, 33, 3)


def several_sizes():
    yield COLOUR[0]
    yield COLOUR[1, :32]


def interrupted():
    yield COLOUR[0]
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "pictures", "rate", "error", "sentence"),
    [
        ("clip.txt", COLOUR, 25, FileError, "the suffix of a video must be one of .avi, .m4v, .mkv"),
        ("clip", COLOUR, 25, FileError, "the suffix of a video"),
        ("clip.mp4", [], 25, VideoError, "there is no frame to write"),
        (
            "clip.mp4",
            several_sizes(),
            25,
            VideoError,
            "frame 1 has 32 x 64 pixels, but the first",
        ),
        ("clip.mp4", [COLOUR], 25, VideoError, "frame 0 has shape (12, 48, 64, 3)"),
        ("clip.mp4", COLOUR, 0, ParameterError, "rate is 0, but it must be above 0"),
        ("clip.mp4", COLOUR, float("nan"), ParameterError, "rate is nan"),
        ("file/clip.mp4", COLOUR, 25, FileError, "clip.mp4: Not a directory"),
        ("clip.mp4", interrupted(), 25, KeyboardInterrupt, ""),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(tmp_path, name, pictures, rate, error, sentence):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "clip.mp4").write_text("what was there before")
    with pytest.raises(error) as caught:
        write_video(tmp_path / name, pictures, rate)
    assert sentence in str(caught.value)
    assert (tmp_path / "clip.mp4").read_text() == "what was there before"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["clip.mp4", "file"]


def test_frames_in_another_order(tmp_path):
    write_video(tmp_path / "clip.mp4", COLOUR, 25)
    order = [7, 8, 8, 0, 11, 7]
    back = list(reordered_frames(tmp_path / "clip.mp4", order, colour="rgb"))
    np.testing.assert_array_equal(back, read(tmp_path / "clip.mp4")[order])
    strided = list(reordered_frames(tmp_path / "clip.mp4", [2, 1], stride=3, colour="rgb"))
    np.testing.assert_array_equal(strided, read(tmp_path / "clip.mp4")[[6, 3]])


def test_a_frame_that_is_not_there():
    with pytest.raises(VideoError, match="the video has no frame 12"):
        list(reordered_frames(COLOUR, [0, 12]))
