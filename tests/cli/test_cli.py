"""The command line as a whole: help, version, exit codes, mistakes; the commands have files of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module

import pytest

import sysbags
from cli_folder import call, make_classes
from sysbags.cli import app, main

COMMANDS = [
    "evaluate",
    "reproduce",
    "fit",
    "classify",
    "distance",
    "matrix",
    "mean",
    "inspect",
    "synthesize",
    "timeline",
    "watch",
    "demo",
    "models",
    "library",
    "warm-up",
]


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
    names = {command.callback.__name__.replace("_", "-") for command in app.registered_commands}
    assert names | {group.name for group in app.registered_groups} == set(COMMANDS)


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
            "--bags has 'words', but there are only lbp, lbp-top, surf, sift, flow, colour, deep, deep-words",
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
        (
            "fit {clips} --out m --words 9",
            "--words is for the bags surf, sift and patch-words, but the bag is lbp",
        ),
        (
            "fit {clips} --out m --network-stride 9",
            "--network-stride is for the bags deep, deep-words, deep-patches and patch-words, but the bag is",
        ),
        (
            "fit {clips} --out m --preset fast --network efficientnet-lite0",
            "--network is for the bags deep, deep-patches and patch-words, but the bag is lbp",
        ),
        (
            "fit {clips} --out m --bags deep --network nosuch",
            "--network is 'nosuch', but there is no such network: `sysbags models` lists them, and",
        ),
        ("fit {clips} --out m --n-jobs 0", "n_jobs is 0"),
        ("fit nowhere --out m", "there is no folder nowhere"),
        ("fit {clips}/waves --out m", "holds no folder"),
        ("fit {clips} --out {clips}", "is a folder, but the output must be a file"),
        ("fit {clips} --out {text}/m", "is not a folder that may be written to"),
        ("classify {text} {clips}/waves/0.mp4", "note.txt is not a model file"),
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
        ("inspect {empty}", "argument 2 is empty, but it must be a path or a value"),
        ("inspect {text} --plot {empty}", "argument 4 is empty"),
        ("classify {text} {empty}", "argument 3 is empty"),
        ("classify {empty} {text}", "argument 2 is empty"),
        ("distance {empty} {text}", "argument 2 is empty"),
        ("matrix {empty} --out d.csv", "argument 2 is empty"),
        ("mean {empty} --out m", "argument 2 is empty"),
        ("fit {empty} --out m", "argument 2 is empty"),
        ("fit {clips} --out=", "--out is empty, but it must have a value"),
        ("evaluate {empty}", "argument 2 is empty"),
        ("reproduce yupenn {empty}", "argument 3 is empty"),
        ("demo --out {empty}", "argument 3 is empty"),
        ("inspect {text}", "note.txt"),
    ],
)
def test_mistakes(capsys, classes, tmp_path, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("not a video, not a model\n")
    argv = words.format(clips=classes, text=tmp_path / "note.txt", empty="EMPTY").split()
    argv = ["" if word == "EMPTY" else word for word in argv]
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


INTERRUPTED_IMPORT = """
import os, signal, sys

MODULE = sys.argv.pop(1)

def interrupt(event, arguments):
    if event == "import" and arguments[0] == MODULE:
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
from sysbags.__main__ import run
sys.addaudithook(interrupt)
run()
"""


@pytest.mark.parametrize(
    "module", ["sysbags.cli", "typer", "sysbags.cli._settings", "numpy", "sysbags.storage"]
)
def test_ctrl_c_while_modules_are_imported(classes, tmp_path, module):
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, "fit", classes, "--out", tmp_path / "m"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sysbags: interrupted\n")
    assert list(tmp_path.iterdir()) == []


STARTED = """
import signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
from sysbags.__main__ import run
try:
    sys.stdout.write("started\\n")
    sys.stdout.flush()
    run()
except KeyboardInterrupt:  # before run has begun
    sys.stderr.write("sysbags: interrupted\\n")
    sys.exit(130)
"""


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1, 0.3, 0.6])
def test_ctrl_c_at_any_time(classes, tmp_path, delay):
    """Whenever the interrupt comes, there is no traceback; a fast machine may have finished before."""
    command = [sys.executable, "-c", STARTED, "fit", str(classes), "--out", str(tmp_path / "m")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "started\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert "Traceback" not in err
    assert process.returncode in (130, 2)  # 2: these classes of one clip cannot be cross-validated


def test_only_what_is_quick_is_imported_before_ctrl_c_is_handled():
    code = (
        "import sys; before = set(sys.modules); import sysbags.__main__; "
        "print(sorted(set(sys.modules) - before - {'__future__'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['sysbags', 'sysbags.__main__', 'sysbags._common', 'sysbags._common.lazy']\n"
