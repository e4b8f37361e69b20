"""The command line as a whole: help, version, exit codes, mistakes; the commands have files of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

import sysbags
from cli_folder import call, make_classes
from sysbags.cli import app, main

COMMANDS = ["evaluate", "reproduce", "fit", "classify", "distance", "matrix", "mean", "inspect", "demo"]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return make_classes(tmp_path_factory.mktemp("cli") / "clips", per_class=1)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(capsys, command):
    code, out, err = call(capsys, command, "--help")
    assert (code, err) == (0, "")
    assert re.search(rf"Example:\s+sysbags {command}", out)
    assert "--json" in out


def test_help_lists_every_command(capsys):
    code, out, _ = call(capsys, "--help")
    assert code == 0
    assert all(re.search(rf"\b{command}\b", out) for command in COMMANDS)
    assert call(capsys)[:2] == (0, out)


def test_no_command_is_missing():
    assert {command.callback.__name__ for command in app.registered_commands} == set(COMMANDS)


def test_version_in_a_process_of_its_own():
    done = subprocess.run([sys.executable, "-m", "sysbags", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sysbags {sysbags.__version__}\n", "")


def test_help_imports_nothing_heavy():
    heavy = ("numpy", "numba", "scipy", "sklearn", "av", "cv2", "torch", "matplotlib", "joblib")
    code = (
        "import sys; from sysbags.cli import main; main(['fit', '--help']); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("fot", "No such command 'fot'"),
        ("fit", "Missing argument"),
        ("fit {clips}", "Missing option '--out'"),
        ("fit {clips} --out m --tempo 3", "No such option: --tempo"),
        (
            "fit {clips} --out m --bag words",
            "'words' is not one of 'lbp', 'surf', 'sift', 'flow', 'colour', 'deep', 'deep-words'",
        ),
        (
            "fit {clips} --out m --order five",
            "--order is 'five', but it must be a whole number of at least 1",
        ),
        ("fit {clips} --out m --order 0", "--order is '0', but it must be"),
        (
            "fit {clips} --out m --lambda-a big",
            "--lambda-a is 'big', but it must be a number that is 0 or more",
        ),
        (
            "fit {clips} --out m --lambda-mu -1",
            "--lambda-mu is '-1', but it must be a number that is 0 or more",
        ),
        ("fit {clips} --out m --lambda-mu nan", "--lambda-mu is 'nan'"),
        ("fit {clips} --out m --stride 0", "Invalid value for '--stride'"),
        ("fit {clips} --out m --words 9", "--words is for the bags surf and sift, but the bag is lbp"),
        ("fit {clips} --out m --jobs 0", "n_jobs is 0"),
        ("fit nowhere --out m", "there is no folder nowhere"),
        ("fit {clips}/waves --out m", "holds no folder"),
        ("fit {clips} --out {clips}", "is a folder, but the output must be a file"),
        ("fit {clips} --out {text}/m", "is not a folder that may be written to"),
        ("classify {text} {clips}/waves/0.mp4", "note.txt is no model file"),
        ("classify nowhere {clips}/waves/0.mp4", "cannot read nowhere"),
        ("distance {clips}/waves/0.mp4 nowhere.mp4", "nowhere.mp4"),
        ("distance {clips}/waves/0.mp4 {text}", "note.txt"),
        ("distance {clips}/waves/0.mp4", "Missing argument"),
        ("distance {clips}/waves/0.mp4 {clips}/waves/0.mp4 --lambda-a=-1", "Invalid value for '--lambda-a'"),
        ("distance {clips}/waves/0.mp4 {clips}/waves/0.mp4 --metric city", "'city' is not one of"),
        ("distance {clips}/waves/0.mp4 {clips}/waves/0.mp4 --model {text} --order 3", "leave out --order"),
        ("matrix nowhere --out d.csv", "there is no folder nowhere"),
        ("mean {clips}/waves/0.mp4 {text} --out m", "note.txt"),
        ("inspect nowhere", "nowhere"),
        ("inspect {text}", "note.txt"),
    ],
)
def test_mistakes(capsys, classes, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("not a video, not a model\n")
    argv = words.format(clips=classes, text=tmp_path / "note.txt").split()
    code, out, err = call(capsys, *argv)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.startswith("sysbags: ")
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_a_full_disk_is_a_sentence(capsys, classes, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(import_module("csv"), "writer", full)
    code, out, err = call(capsys, "matrix", classes, "--out", tmp_path / "d.csv")
    assert (code, out) == (2, "")
    assert "No space left on device" in err
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_foresaw_is_not_hidden(classes, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("sysbags.distances.pairwise.pairwise_distances", broken)
    with pytest.raises(ZeroDivisionError):
        main(["matrix", str(classes), "--out", str(tmp_path / "d.csv")])


@pytest.mark.parametrize("words", [["--version"], ["fit", "--help"]])
def test_a_reader_that_stops_listening(words):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        command = [sys.executable, "-m", "sysbags", *words]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "")
