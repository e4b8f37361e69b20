"""Facts of files that predict the class: warned of by `fit`, `evaluate` and the report, and only then."""

from __future__ import annotations

import json
import shutil

import av
import numpy as np
import pytest

import sysbags
from cli_folder import call
from clips import moving_frames, write_clip
from sysbags.datasets import make_clips
from sysbags.evaluate.evaluation import labelled_clips, make_request
from sysbags.evaluate.file_facts import file_facts, shortcut_notes
from sysbags.video import frames, write_video

FIXED = ("--order", 2, "--lambda-a", 0.25, "--lambda-mu", 0, "--classifier", "nearest-mean", "--n-jobs", 1)
WIDTH = "the width (100 %)"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A set of 2 x 4 clips that are alike as files, and one whose classes have different sizes."""
    root = tmp_path_factory.mktemp("facts")
    make_clips(root / "alike", per_class=4, textures=["fire", "waves"], frames=12, height=48, width=64)
    shutil.copytree(root / "alike", root / "unlike")
    for clip in (root / "unlike" / "fire").iterdir():
        write_video(clip, np.stack(list(frames(clip, colour="rgb", size=(48, 80)))), 25)
    return root


def notes_of(folder, **options):
    clips = sorted(folder.glob("*/*"))
    request = make_request(clips, options.pop("bags", "lbp"), None)
    return shortcut_notes(
        labelled_clips(clips, [clip.parent.name for clip in clips], **options), request, n_jobs=1
    )


def test_fit_evaluate_and_the_report_warn(capsys, place, tmp_path):
    for name in ("alike", "unlike"):
        code, out, err = call(capsys, "fit", place / name, "-o", tmp_path / "m", *FIXED, "--json")
        assert code == 0
        texts = [json.loads(out)["notes"]]
        more = ("--cache", tmp_path / "cache", "--report", tmp_path / "r.html")
        code, out, again = call(capsys, "evaluate", place / name, *FIXED, *more, "--json")
        assert code == 0
        texts.append(json.loads(out)["facts"]["notes"])
        for text, stderr in zip(texts, (err, again), strict=True):
            assert (WIDTH in stderr) == any(WIDTH in one for one in text) == (name == "unlike")
        summary = (tmp_path / "r.html").read_text(encoding="utf-8").partition("<nav")[0]
        assert (WIDTH in summary) == (name == "unlike")


def test_each_fact_is_seen(tmp_path):
    pictures = moving_frames(20, 48, 64)

    def write(name, **options):
        for k in range(4):
            for label, more in (("a", {}), ("b", options)):
                path = tmp_path / name / label / f"{k}.mkv"
                path.parent.mkdir(parents=True, exist_ok=True)
                many = more.get("frames", 20)
                write_clip(path, pictures[:many], **{o: v for o, v in more.items() if o != "frames"})
        return notes_of(tmp_path / name)

    assert write("none") == []
    (text,) = write("codec", codec="mpeg2video")
    assert text.startswith("the codec (100 %) alone predicts the class of clips (the most frequent")
    (text,) = write("rate", fps=10)
    assert "the frame rate (100 %) alone predicts" in text
    (text,) = write("length", frames=12)
    assert "the number of frames (100 %) alone predicts" in text
    bag = sysbags.bags.LocalBinaryPatterns(frames={"start": 1, "max_frames": 10})  # of each clip as many
    assert notes_of(tmp_path / "length", bags=bag) == []
    assert notes_of(tmp_path / "codec", groups=[0, 0, 0, 0, 1, 1, 1, 1]) == []  # two recordings tell nothing


def test_clips_that_cannot_be_read_and_folders_of_images(tmp_path):
    for label in ("a", "b"):
        for k in range(4):
            folder = tmp_path / label / str(k)
            folder.mkdir(parents=True)
            for t, picture in enumerate(moving_frames(3 if label == "a" else 4, 48, 64)):
                av.VideoFrame.from_ndarray(picture, format="gray").to_image().save(folder / f"{t}.png")
        (tmp_path / label / "broken.mp4").write_bytes(b"no video")
    facts = file_facts(tmp_path / "b" / "0")
    assert (facts["frames"], facts["width"], facts["height"], facts["codec"]) == (4, 64, 48, "png")
    (text,) = notes_of(tmp_path)
    assert text.startswith("the number of frames (100 %) alone")


def test_streams_have_a_length_only():
    rng = np.random.default_rng(0)
    streams = [rng.dirichlet(np.ones(4), 12 + 8 * (k % 2)) for k in range(8)]
    result = sysbags.evaluate.evaluate(
        streams, [k % 2 for k in range(8)], settings=sysbags.evaluate.Settings(order=2, lambda_a=0.25)
    )
    assert any("the number of frames (100 %) alone predicts" in text for text in result.facts["notes"])
