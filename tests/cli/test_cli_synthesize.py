"""`sysbags synthesize`."""

from __future__ import annotations

import av
import numpy as np
import pytest

import sysbags
from cli_folder import call, call_json
from clips import moving_frames, write_clip
from sysbags.cli.synthesize import NOTE
from sysbags.datasets import make_frames
from sysbags.video import frames, write_video

COUNT = 50


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "smoke.mp4"
    write_video(path, make_frames("smoke", COUNT, 64, 80), 20, lossless=True)
    return path


def colours(path):
    return np.array(list(frames(path, colour="rgb", strict=True)))


def test_the_frames_are_those_of_the_clip(capsys, clip, tmp_path):
    out = tmp_path / "endless.mkv"
    facts = call_json(capsys, "synthesize", clip, "--seconds", 4, "-o", out, "--order", 3)
    assert (facts["frames"], facts["frames_per_second"], facts["order"]) == (80, 20.0, 3)
    assert facts["note"] == NOTE
    order = np.array(facts["indices"])
    assert (facts["frames_of_clip"], facts["frames_used"]) == (COUNT, len(set(facts["indices"])))
    assert facts["jumps"] == (np.diff(order) != 1).sum()
    own, written = colours(clip), colours(out)
    assert written.shape == (80, 64, 80, 3)
    # Each frame was converted to YCbCr once more and compressed, which rounds.
    distances = np.array([np.abs(picture.astype(float) - own).mean(axis=(1, 2, 3)) for picture in written])
    assert distances[np.arange(80), order].max() < 3.0
    np.testing.assert_array_equal(distances.argmin(axis=1), order)
    with av.open(str(out)) as container:
        assert float(container.streams.video[0].average_rate) == 20.0


def test_steps_are_smooth(capsys, clip, tmp_path):
    facts = call_json(capsys, "synthesize", clip, "--seconds", 20, "-o", tmp_path / "a.mp4")
    steps = np.diff(facts["indices"])
    assert (np.abs(steps - 1) <= 3).mean() > 0.9
    assert facts["frames_used"] > COUNT // 2
    assert np.isfinite(colours(tmp_path / "a.mp4")).all()


def test_the_seed_decides(capsys, clip, tmp_path):
    orders = [
        call_json(capsys, "synthesize", clip, "--seconds", 3, "-o", tmp_path / f"{k}.mp4", *words)["indices"]
        for k, words in enumerate([(), ("--random-state", 0), ("--random-state", 1)])
    ]
    assert orders[0] == orders[1] != orders[2]


def test_the_output_says_what_it_is(capsys, clip, tmp_path):
    path = tmp_path / "a.mp4"
    code, out, err = call(capsys, "synthesize", clip, "--seconds", 1, "--stride", 2, "-o", path)
    assert (code, err) == (0, "")
    assert "does not compete with methods that synthesize pixels" in out
    assert len(colours(path)) == 10  # every second frame, at half the rate


def test_a_bag_without_the_last_frame(capsys, clip, tmp_path):
    """Optical flow has a bag for each pair of frames."""
    facts = call_json(capsys, "synthesize", clip, "--bag", "flow", "--seconds", 1, "-o", tmp_path / "a.mp4")
    assert (facts["frames"], facts["frames_of_clip"]) == (20, COUNT - 1)


def test_a_folder_of_images(capsys, tmp_path):
    from PIL import Image

    (tmp_path / "images").mkdir()
    for k, picture in enumerate(moving_frames(12, 48, 63, colour=True)):
        Image.fromarray(picture).save(tmp_path / "images" / f"{k}.png")
    facts = call_json(capsys, "synthesize", tmp_path / "images", "--seconds", 1, "-o", tmp_path / "a.mp4")
    assert (facts["frames"], facts["frames_per_second"]) == (25, 25.0)
    assert colours(tmp_path / "a.mp4").shape == (25, 48, 63, 3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--seconds", "0"), "--seconds is 0, but it must be above 0 and at most 600"),
        (("--seconds", "-3"), "--seconds is -3"),
        (("--seconds", "nan"), "--seconds is nan"),
        (("--seconds", "601"), "at most 600"),
        (("--max-frames", "1"), "the stream has one frame, but a system needs at least two"),
        (("--order", "60"), "order 60 needs at least 61 frames"),
        (("--window", "2"), "No such option: --window"),
        (("--bag", "lbp,colour"), "this command takes a single bag"),
        (("-o", "a.txt"), "the suffix of a video must be one of .avi"),
        (("-o", "missing/a.mp4"), "missing does not exist"),
        (("-o", "."), "is a folder, but the output must be a file"),
    ],
)
def test_bad_input(capsys, clip, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    out = () if "-o" in words else ("-o", "a.mp4")
    code, out, err = call(capsys, "synthesize", clip, *words, *out)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_still_clip(capsys, tmp_path):
    still = write_clip(tmp_path / "still.mp4", np.repeat(moving_frames(1), 20, axis=0))
    code, _, err = call(capsys, "synthesize", still, "-o", tmp_path / "a.mp4")
    assert code == 2
    assert "all 20 frames have the same bag (a still clip)" in err
    assert not (tmp_path / "a.mp4").exists()


def test_the_clip_is_not_overwritten(capsys, clip):
    before = clip.read_bytes()
    code, _, err = call(capsys, "synthesize", clip, "-o", clip)
    assert code == 2
    assert "it is an input and would be overwritten" in err
    assert clip.read_bytes() == before


def test_no_file_is_written_that_was_not_named(capsys, clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "synthesize", clip, "--seconds", 1)
    assert (code, out) == (2, "")
    assert "Missing option '--out'" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_that_exists_is_not_overwritten(capsys, clip, tmp_path, is_link):
    path = tmp_path / "a.mp4"
    if is_link:
        path.symlink_to(tmp_path / "nothing")
    else:
        path.write_bytes(b"mine")
    code, out, err = call(capsys, "synthesize", clip, "--seconds", 1, "-o", path)
    assert (code, out) == (2, "")
    assert f"{path} exists already: remove it, or choose another name" in err
    assert list(tmp_path.iterdir()) == [path]
    assert is_link or path.read_bytes() == b"mine"


def test_the_system_is_that_of_the_clip(capsys, clip, tmp_path):
    facts = call_json(capsys, "synthesize", clip, "--seconds", 1, "-o", tmp_path / "a.mp4")
    twin = sysbags.identify(sysbags.bags.LocalBinaryPatterns().stream(clip), normal_form="unit-variance")
    assert (facts["explained"], facts["residual"]) == (twin.explained, twin.residual)
