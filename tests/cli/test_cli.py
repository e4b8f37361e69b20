"""The command line as a whole: help, version, exit codes, mistakes; the commands have files of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import typer

import sysbags
from cli_folder import call, make_classes, waves
from clips import write_clip
from sysbags._common.messages import NORMAL, QUIET, VERBOSITY
from sysbags._common.parallel import with_progress
from sysbags.cli import app
from sysbags.cli._output import note

HEAVY = ("numpy", "numba", "scipy", "sklearn", "av", "cv2", "torch", "matplotlib", "joblib")
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
    "export",
    "warm-up",
    "config",
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


def test_help_has_panels_and_flags(capsys):
    code, out, _ = call(capsys, "-h")
    assert (code, out) == call(capsys, "--help")[:2]
    panels = re.findall(r"\u256d\u2500 (\w+) ", out)
    assert panels == ["Options", "Everyday", "Library", "Watching", "Research"]
    for command in ("fit", "watch", "library add"):
        words = call(capsys, *command.split(), "-h")[1]
        assert "--help" in words
        assert "<bool>" not in out + words


def test_no_command_is_missing():
    names = {command.callback.__name__.replace("_", "-") for command in app.registered_commands}
    assert names | {group.name for group in app.registered_groups} == set(COMMANDS)


def test_version_in_a_process_of_its_own():
    done = subprocess.run([sys.executable, "-m", "sysbags", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"sysbags {sysbags.__version__}\n", "")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from sysbags.cli import main; main(['fit', '--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
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
        ("fit nowhere --out m", "nowhere does not exist"),
        ("fit {clips}/waves --out m", "holds no folder"),
        ("fit {clips} --out {clips}", "is a folder, but the output must be a file"),
        ("fit {clips} --out {text}/m", "is not a folder that may be written to"),
        ("classify {text} {clips}/waves/0.mp4", "note.txt is not a model file"),
        ("classify nowhere {clips}/waves/0.mp4", "nowhere does not exist"),
        ("distance {clips}/waves/0.mp4 nowhere.mp4", "nowhere.mp4"),
        ("distance {clips}/waves/0.mp4 {text}", "note.txt"),
        ("distance {clips}/waves/0.mp4", "Missing argument"),
        ("distance {clips}/waves/0.mp4 {clips}/waves/0.mp4 --lambda-a=-1", "Invalid value for '--lambda-a'"),
        ("distance {clips}/waves/0.mp4 {clips}/waves/0.mp4 --metric city", "'city' is not one of"),
        ("distance {clips}/waves/0.mp4 {clips}/waves/0.mp4 --model {text} --order 3", "leave out --order"),
        ("matrix nowhere --out d.csv", "nowhere does not exist"),
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


def test_what_nobody_foresaw_is_not_hidden(capsys, classes, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("by a test")

    monkeypatch.setattr("sysbags.distances.pairwise.pairwise_distances", broken)
    code, out, err = call(capsys, "matrix", classes, "--out", tmp_path / "d.csv")
    assert (code, out, err.count("\n")) == (70, "", 1)
    assert "a mistake in sysbags, ZeroDivisionError by a test (line" in err
    assert "test_cli.py); with --verbose there is a traceback" in err
    code, _, err = call(capsys, "matrix", classes, "--out", tmp_path / "d.csv", "-v")
    assert code == 70
    assert "Traceback (most recent call last)" in err
    assert "matrix.py" in err


def each_command(group=None, name="sysbags"):
    """All commands, groups and commands of groups, with their full names."""
    group = group or typer.main.get_command(app)
    yield name, group
    for part, command in getattr(group, "commands", {}).items():
        yield from each_command(command, f"{name} {part}")


def test_every_command_can_be_quiet_and_verbose():
    commands = dict(each_command())
    assert {"sysbags", "sysbags fit", "sysbags library", "sysbags library add", "sysbags models"} < set(
        commands
    )
    for name, command in commands.items():
        words = [word for parameter in command.params for word in parameter.opts]
        assert len(set(words)) == len(words), name
        assert {"-q", "--quiet", "-v", "--verbose"} <= set(words), name


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    for k in range(2):
        write_clip(folder / f"{k}.mp4", waves(k))
    (folder / "bad.mp4").write_text("not a video")
    return folder


@pytest.mark.parametrize("terminal", [False, True])
def test_quiet(capsys, damaged, tmp_path, monkeypatch, terminal):
    words = ["matrix", damaged, "--out", tmp_path / "d.csv", "--order", 2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    code, out, err = call(capsys, *words)
    assert (code, "skipped: " in err, "distances ..." in err) == (0, True, terminal)
    for quiet in (["-q", *words], [*words, "--quiet"]):
        assert call(capsys, *quiet) == (0, out, "")
    code, _, err = call(capsys, "-q", "inspect", "nowhere")
    assert (code, err.count("\n")) == (2, 1)


def test_quiet_shows_no_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for level, is_shown in ((NORMAL, True), (QUIET, False)):
        token = VERBOSITY.set(level)
        assert list(with_progress(iter("ab"), 2, "letters", quiet_seconds=-1.0)) == ["a", "b"]
        VERBOSITY.reset(token)
        assert ("letters" in capsys.readouterr().err) == is_shown


@pytest.mark.parametrize("place", [0, 6])
def test_verbose(capsys, damaged, tmp_path, place):
    words = ["matrix", damaged, "--out", tmp_path / "d.csv", "--order", 2]
    words.insert(place, "-v")
    code, _, err = call(capsys, *words)
    lines = err.splitlines()
    assert code == 0
    assert lines[0].startswith(f"sysbags: version {sysbags.__version__}, Python ")
    assert "numpy" in lines[0]
    assert "distances ..." in lines
    assert sum(bool(re.fullmatch(r"distances: \d+\.\d\d s", line)) for line in lines) == 1
    assert re.fullmatch(r"sysbags: \d+\.\d\d s in all", lines[-1])


def test_the_last_word_about_verbosity_counts(capsys):
    assert call(capsys, "-v", "models", "list", "-q")[0] == 0
    assert "version" not in call(capsys, "-q", "models", "list")[2]
    assert "version" in call(capsys, "-q", "models", "list", "-v")[2]
    code, out, err = call(capsys, "models", "list", "-v", "-q")
    assert (code, out) == (2, "")
    assert "--quiet and --verbose exclude each other" in err


def test_quiet_ends_with_the_command(capsys):
    call(capsys, "-q", "--version")
    note("still here")
    assert capsys.readouterr().err == "sysbags: still here\n"


def test_exit_codes_are_documented(capsys):
    page = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text()
    codes = re.findall(r"^\| (\d+) \|", page, flags=re.M)
    assert codes == ["0", "1", "2", "70", "130", "143"]
    text = call(capsys, "--help")[1].partition("Exit codes: ")[2].partition("Options")[0]
    assert re.findall(r"\b\d+\b", text) == codes


COMPLETIONS = {
    "sysbags cl": ["classify"],
    "sysbags library li": ["list"],
    "sysbags fit --me": ["--metric"],
    "sysbags fit --metric ": ["alignment", "covariance", "normalized-covariance"],
    "sysbags matrix --metric ma": ["martin", "max-singular-value"],
    "sysbags fit --bags lbp,s": ["lbp,surf", "lbp,sift"],
    "sysbags watch --bags s": [],  # nothing can be learnt before a video is watched
    "sysbags evaluate --classifier n": ["nearest-mean", "nearest-system"],
    "sysbags library add --kernel b": ["bhattacharyya"],
    "sysbags mean --network resn": ["resnet18-v2"],
    "sysbags fit --normal-form u": ["unit-variance"],
    "sysbags fit no-such-f": [],
}


@pytest.fixture
def shell(tmp_path):
    """The environment of a shell that finds this sysbags, in an empty home."""
    program = tmp_path / "bin" / "sysbags"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sysbags "$@"\n')
    program.chmod(0o755)
    (tmp_path / "home").mkdir()
    return {**os.environ, "HOME": str(tmp_path / "home"), "PATH": f"{program.parent}:{os.environ['PATH']}"}


BASH = """
sysbags --install-completion >/dev/null
source ~/.bashrc
complete -p sysbags >/dev/null || exit 1
while IFS= read -r line; do
    read -r -a COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _sysbags_completion sysbags
    echo "${COMPREPLY[@]}"
done
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_completion_in_bash(shell):
    lines = "".join(f"{line}\n" for line in COMPLETIONS)
    done = subprocess.run(["bash", "-c", BASH], input=lines, env=shell, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == list(COMPLETIONS.values())


@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_completion_in_other_shells(shell, name):
    """What the two shells ask and get, as the scripts of `sysbags --install-completion` do."""
    line = "sysbags fit --metric a"
    asked = {"_SYSBAGS_COMPLETE": f"complete_{name}", "_TYPER_COMPLETE_ARGS": line}
    for action, told in (("get-args", "alignment\n"), ("is-args", "")) if name == "fish" else (("", None),):
        environment = {**shell, **asked, "_TYPER_COMPLETE_FISH_ACTION": action}
        done = subprocess.run("sysbags", env=environment, capture_output=True, text=True, shell=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == ("_arguments '*: :((\"alignment\"))'\n" if told is None else told)


def test_completion_imports_nothing_heavy():
    code = f"""
import os, sys
from sysbags.cli import main
os.environ["_SYSBAGS_COMPLETE"] = "complete_bash"
for line in {list(COMPLETIONS)!r}:
    os.environ |= {{"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}}
    main([])
print()
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *found, heavy = done.stdout.splitlines()
    assert {"alignment", "unit-variance"} <= set(found)
    assert heavy == "[]"


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
    "module", ["sysbags.cli", "typer", "sysbags.cli._options", "numpy", "sysbags.storage"]
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


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.5])
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
