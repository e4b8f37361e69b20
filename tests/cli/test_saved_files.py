"""A saved file of one kind in the place of another: messages say what it is, and which command takes it."""

from __future__ import annotations

import pytest
from sklearn.pipeline import Pipeline

import sysbags
from cli_folder import call
from clips import moving_frames
from sysbags.bags import LocalBinaryPatterns
from sysbags.library.schema import connect
from sysbags.storage import save_values
from sysbags.video import write_video


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """One file of each kind, and what messages say that it holds."""
    root = tmp_path_factory.mktemp("saved")
    sysbags.save(root / "model", Pipeline([("bags", LocalBinaryPatterns())]))
    sysbags.save(
        root / "system", sysbags.System([[0.5]], [[0.0, 1.0], [1.0, 0.0]], [[1.0], [0.5]], [0.5, 0.5])
    )
    save_values(root / "normal", "Normal", {"rate": 25.0})
    save_values(root / "checkpoint", "Checkpoint", {"rate": 25.0})
    connect(root / "library", create=True).close()
    write_video(root / "clip.mkv", moving_frames(8, 48, 64), 8)
    return root


TAKEN = {
    "model": "a model, for `sysbags classify`",
    "system": "a system, for `sysbags inspect`",
    "normal": "what is normal in a video, for `sysbags watch --normal`",
    "checkpoint": "a checkpoint, for `sysbags watch --checkpoint`",
    "library": "a library of clips, for `sysbags library`",
}


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize(
    ("words", "wanted", "sentence"),
    [
        ("classify {file}", "model", "must be a model that `sysbags fit` has saved"),
        ("classify {file} {clip}", "model", "must be a model that `sysbags fit` has saved"),
        ("distance {clip} {clip} --model {file}", "model", "must be a model that `sysbags fit` has saved"),
        ("watch {clip} --normal {file}", "normal", "must hold what is normal in a video, for"),
        ("watch {clip} --checkpoint {file}", "checkpoint", "would be overwritten: choose another name"),
        ("library list {file}", "library", "`sysbags library add LIBRARY CLIP...` makes a library"),
        ("export {file} --to csv --out {file}.csv", "library", "is neither a report"),
        ("timeline {file}", "", "must be a video"),
        ("watch {file}", "", "must be a video"),
        ("fit {file} --out {file}.model", "", "must be a folder of clips"),
        ("evaluate {file}", "", "must be a folder of clips"),
    ],
)
def test_a_file_of_another_kind_is_named(saved, capsys, kind, words, wanted, sentence):
    if kind != wanted:
        line = words.format(file=saved / kind, clip=saved / "clip.mkv")
        code, out, err = call(capsys, *line.split())
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{saved / kind} holds {TAKEN[kind]}" in err
        assert sentence in err
