"""What commands print and write: inputs stay as they are, names cannot send commands to a terminal."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from cli_folder import call, flicker, make_classes
from clips import write_clip
from sysbags import NearestMean, System, SystemIdentifier, save
from sysbags._common.files import saved_kind
from sysbags.cli._output import check_out, note_summary
from sysbags.errors import FileError
from sysbags.library import Library

COMMANDS = {
    "mean": "mean {data}/flicker/0.mp4 {data}/waves/0.mp4 --out {out}",
    "mean of frames": "mean {data}/images {data}/waves/0.mp4 --out {out}",
    "mean with a model": "mean {data}/images --model {data}/flicker/0.mp4 --out {out}",
    "matrix": "matrix {data} --out {out}",
    "fit": "fit {data} --out {out}",
    "evaluate": "evaluate {data} --cache {cache} --report {out}",
    "reproduce": "reproduce dyntex-alpha {data} --cache {cache} --report {out}",
    "inspect": "inspect {data}/flicker/0.mp4 --plot {out}",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    root = make_classes(tmp_path_factory.mktemp("output") / "data", per_class=1)
    (root / "images").mkdir()
    for k in range(3):
        cv2.imwrite(str(root / "images" / f"{k}.png"), np.full((20, 30), 80 * k, dtype=np.uint8))
    (root / "index.csv").write_text("clip,source\nflicker/0.mp4,x\n")
    return root


@pytest.fixture
def data(original, tmp_path):
    return shutil.copytree(original, tmp_path / "data")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("link", ["itself", "symbolic link", "hard link"])
@pytest.mark.parametrize("command", COMMANDS)
def test_inputs_are_not_overwritten(capsys, data, tmp_path, monkeypatch, command, link):
    clip = data / "flicker" / "0.mp4" if command != "mean of frames" else data / "images" / "1.png"
    out = clip
    if link != "itself":
        out = tmp_path / "result.png"
        (out.symlink_to if link == "symbolic link" else out.hardlink_to)(clip)
    before = contents(data)
    # Refused before any work: nothing is decoded.
    monkeypatch.setattr("sysbags.video.frames", lambda *_, **__: pytest.fail("a clip was read"))
    words = COMMANDS[command].format(data=data, out=out, cache=tmp_path / "cache")
    code, printed, err = call(capsys, *words.split())
    assert (code, printed) == (2, "")
    assert err.startswith(f"sysbags: cannot write {out}: it is an input")
    assert err.count("\n") == 1
    assert contents(data) == before
    assert not (tmp_path / "cache").exists()


def test_which_files_of_a_folder_are_inputs(data, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(data)
    for name in ("new.mp4", "waves/new.AVI", "images/new.png", "index.csv", "images/2.png"):
        for folder in (data, link):
            with pytest.raises(FileError, match="cannot write"):
                check_out(folder / name, data)
    (data / "waves" / "old.csv").touch()
    for name in ("report.html", "waves/old.csv", "waves/new.png", "model", "images/table.csv"):
        check_out(data / name, data)
    check_out(tmp_path / "new.mp4", data)
    with pytest.raises(FileError, match="nowhere does not exist"):
        check_out(tmp_path / "new.mp4", data, tmp_path / "nowhere")


SAVED = {"res.model": "Pipeline", "fire.system": "System", "clips.library": "library"}
WRITTEN = {
    "fit {data} --out {out}": "Pipeline",
    "mean {data}/waves/0.mp4 --out {out}": "System",
    "library export {saved}/clips.library --out {out}": "list",
    "evaluate {data} --report {out}": "",
    "timeline {data}/waves/0.mp4 --csv {out}": "",
    "inspect {data}/waves/0.mp4 --plot {out}": "image",
    "watch {data}/waves/0.mp4 --save-normal {out}": "Normal",
    "watch {data}/waves/0.mp4 --events {out}": "",
}


@pytest.fixture(scope="module")
def saved(original, tmp_path_factory):
    """Saved files of several kinds, and a video and an image that are no inputs."""
    root = tmp_path_factory.mktemp("saved")
    save(root / "res.model", make_pipeline(NearestMean()))
    save(root / "fire.system", System([[0.5]], [[0.0, 1.0], [1.0, 0.0]], [[1.0], [0.5]], [0.5, 0.5]))
    with Library(root / "clips.library") as library:
        library.add([original / "waves" / "0.mp4"], identifier=SystemIdentifier(order=2))
    for name in ("0.MP4", "1.png"):
        (root / name).write_bytes(b"frames")
    (root / "link").symlink_to(root / "0.MP4")
    assert {name: saved_kind(root / name) for name in SAVED} == SAVED
    return root


@pytest.mark.parametrize("command", WRITTEN)
def test_other_kinds_of_files_are_not_overwritten(capsys, original, saved, command):
    """A file of the same kind may be replaced, and so may a file that is of no known kind."""
    before, kind = contents(saved), WRITTEN[command]
    for name in ("res.model", "fire.system", "clips.library", "0.MP4", "1.png", "link"):
        out = saved / name
        if kind == SAVED.get(name, "image" if name == "1.png" else None):
            check_out(out, kind=kind)
            continue
        code, printed, err = call(capsys, *command.format(data=original, saved=saved, out=out).split())
        assert (code, printed, err.count("\n")) == (2, "", 1)
        assert "would be overwritten" in err
        if name != "clips.library" or kind != "list":  # there it is an input
            assert f"{out} {'holds a' if name in SAVED else 'has the suffix of'}" in err
    assert contents(saved) == before


def test_files_of_no_known_kind_are_overwritten(tmp_path):
    for name, start in {"old.html": b"<html>", "empty.model": b"", "cut.model": b"12345678{"}.items():
        (tmp_path / name).write_bytes(start)
        for kind in ("", "Pipeline", "image"):
            check_out(tmp_path / name, kind=kind)


def test_linked_clips_are_inputs(data, tmp_path):
    """Classes and clips may be links themselves, also links that lead back up."""
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "waves").symlink_to(data / "waves")
    (linked / "up").symlink_to(tmp_path)
    with pytest.raises(FileError, match="it is an input"):
        check_out(data / "waves" / "0.mp4", linked)


@pytest.mark.parametrize("name", ["\x1b[31mred.mp4", "bell\x07.mp4", "c1\x9b.mp4", "line\nbreak.mp4"])
def test_control_characters_in_names_are_made_visible(capsys, data, tmp_path, name):
    folder = tmp_path / "odd"
    folder.mkdir()
    good, bad = folder / name, folder / f"bad{name}"
    shutil.copy(data / "waves" / "0.mp4", good)
    bad.write_text("not a video")
    write_clip(data / "flicker" / "1.mp4", flicker(1))
    shutil.rmtree(data / "images")
    (data / "index.csv").unlink()
    assert call(capsys, "fit", data, "--out", tmp_path / "m", "--order", 2)[0] == 0
    code, out, err = call(capsys, "classify", tmp_path / "m", good, bad)
    assert code == 2
    visible = name.encode("unicode_escape").decode()
    assert visible in out
    assert f"bad{visible}" in err
    for text in (out, err):
        assert all(character.isprintable() for line in text.split("\n") for character in line)
    assert out.count("\n") == 2


def test_names_that_are_not_utf8(capsys, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.mp4")
    code, _, err = call(capsys, "inspect", path)
    assert (code, "\\udcff.mp4" in err) == (2, True)


def test_tables_of_names_that_are_not_utf8(capsys, data, tmp_path):
    name = os.fsdecode(b"no \xff text.mp4")
    try:
        shutil.copy(data / "waves" / "0.mp4", data / "waves" / name)
    except OSError:
        pytest.skip("the file system does not have such names")
    write_clip(data / "flicker" / "1.mp4", flicker(1))
    shutil.rmtree(data / "images")
    (data / "index.csv").unlink()
    model, table = tmp_path / "m", tmp_path / "table.csv"
    assert call(capsys, "fit", data, "--out", model, "--order", 2)[0] == 0
    assert call(capsys, "classify", model, data / "waves" / name, "--csv", table)[0] == 0
    assert table.read_bytes().splitlines()[1].startswith(os.fsencode(data / "waves" / name) + b",")
    assert call(capsys, "matrix", data, "--out", table, "--order", 2)[0] == 0
    assert b"waves/no \xff text.mp4" in table.read_bytes().splitlines()[0].split(b",")


# The commands of one process are separated by plus signs, as it takes seconds to start one.
PROCESS = """
import sys
from sysbags.cli import main
words = sys.argv[1:]
while words:
    end = words.index("+")
    code = main(words[:end])
    print(code)
    words = words[end + 1 :]
"""


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.long)])
def test_an_encoding_that_does_not_have_all_characters(data, tmp_path, encoding):
    """A name is printed with escapes where the encoding of the output does not have its characters."""
    folder, library = tmp_path / "\u00e9t\u00e9 \u6d77", tmp_path / "clips.library"
    clip = folder / "\u6d77" / "0.mp4"
    try:
        shutil.copytree(data / "waves", clip.parent)
    except OSError:
        pytest.skip("the file system does not have such names")
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment |= {"LC_ALL": "C"} if encoding == "ascii" else {"PYTHONIOENCODING": encoding}
    commands = [
        ["library", "add", library, folder, "--order", "2"],
        ["library", "list", library],
        ["library", "export", library, "--out", folder / "clips.csv"],
        ["inspect", clip, "--order", "2"],
        ["inspect", folder / "none.mp4"],
    ]
    words = [os.fspath(word) for command in commands for word in (*command, "+")]
    done = subprocess.run([sys.executable, "-c", PROCESS, *words], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode(encoding).splitlines()
    assert [line for line in lines if len(line) == 1] == ["0", "0", "0", "0", "2"]
    assert any("0.mp4  \\u6d77  " in line for line in lines)  # the label, in the table
    assert done.stderr.count(b"\n") == 1
    with (folder / "clips.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.DictReader(file))["path"] == str(clip)


def test_many_notes_are_one(capsys):
    note_summary(["a", "b", "c"], "clips are damaged")
    assert capsys.readouterr().err == "sysbags: a\nsysbags: b\nsysbags: c\n"
    note_summary(["a", "b", "c", "d"], "clips are damaged")
    assert capsys.readouterr().err == "sysbags: 4 clips are damaged, for example: a\n"
    note_summary([], "clips are damaged")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("skipped", "cut"), [(10, 3), (11, 4)])
def test_notes_about_many_clips(capsys, data, tmp_path, skipped, cut):
    folder = tmp_path / "many"
    folder.mkdir()
    for k in range(skipped):
        (folder / f"bad{k}.mp4").write_text("not a video")
    video = write_clip(tmp_path / "whole.avi", flicker(9), codec="mjpeg").read_bytes()
    for k in range(cut):
        (folder / f"cut{k}.avi").write_bytes(video[: int(0.7 * len(video))])
    code, out, err = call(capsys, "matrix", folder, "--out", tmp_path / "d.csv", "--order", 2)
    assert code == 0
    assert f"{cut} clips, {skipped} skipped" in out
    if skipped == 10:
        assert err.count("\n") == skipped + cut
        assert err.count("sysbags: skipped: ") == skipped
    else:
        first, second = err.splitlines()
        assert first.startswith(
            "sysbags: 4 clips break off early and are used without the rest, for example "
        )
        assert second.startswith("sysbags: 11 clips are skipped (--json lists them), for example: skipped: ")
