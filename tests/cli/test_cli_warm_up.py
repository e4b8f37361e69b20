"""``sysbags warm-up``: everything is compiled once, and a terminal is told so once."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from cli_folder import call_json, make_classes

LINE = "compiling, once ..."
# The smallest function there is, so that tests can afford to compile it.
DENSITY = "import numpy; from sysbags.kernels.functions import density; print(density(numpy.ones((1, 1))))"
# Prints what each command uses of compiled functions, and for which types, that commands before did not.
# This does not depend on what the cache holds: a function that is loaded counts as one that is compiled.
USED = """
import json, sys
from pkgutil import iter_modules
from importlib import import_module
from numba.core.dispatcher import Dispatcher
import sysbags._numba as package
from sysbags.cli import main
modules = [import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)]
functions = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
known = set()
for words in json.loads(sys.argv[1]):
    assert main(words) == 0, words
    used = {f"{function.__name__}{types}" for function in functions for types in function.signatures}
    print(json.dumps(sorted(used - known)), file=sys.stderr)
    known |= used
"""


class Run(NamedTuple):
    out: str
    terminal: str


def run_on_terminal(code: str, *words: str, cache: Path) -> Run:
    """Run a program whose standard error is a terminal, with a cache of compiled functions of its own."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    with tempfile.TemporaryFile("w+") as out:
        command = [sys.executable, "-c", code, *words]
        process = subprocess.Popen(command, stdout=out, stderr=writer, env=environment)
        os.close(writer)
        chunks = []
        # Read as it comes, because a terminal holds little; on Linux it ends with an error.
        with suppress(OSError):
            while chunk := os.read(reader, 1 << 16):
                chunks.append(chunk)
        os.close(reader)
        terminal = b"".join(chunks).decode()
        assert process.wait() == 0, terminal
        out.seek(0)
        return Run(out.read(), terminal)


def test_it_says_how_long_it_took(capsys):
    result = call_json(capsys, "warm-up")
    assert set(result) == {"seconds"}
    assert result["seconds"] > 0


def test_it_leaves_nothing_to_compile(tmp_path):
    clips, model = make_classes(tmp_path / "clips"), str(tmp_path / "m.model")
    commands = [
        ["warm-up"],
        ["fit", str(clips), "--out", model],
        ["classify", model, str(next(clips.glob("*/*.mp4")))],
        ["evaluate", str(clips)],
    ]
    done = subprocess.run(
        [sys.executable, "-c", USED, json.dumps(commands)], capture_output=True, text=True, check=True
    )
    warm_up, *others = (json.loads(line) for line in done.stderr.splitlines() if line.startswith("["))
    assert len(warm_up) > 20
    assert len(others) == 3
    assert not any(others)


def test_a_terminal_is_told_and_a_file_is_not(tmp_path):
    first = run_on_terminal(DENSITY, cache=tmp_path / "first")
    assert (first.out, first.terminal.splitlines()) == ("1.0\n", [LINE])
    assert list((tmp_path / "first").rglob("*.nbi"))
    second = run_on_terminal(DENSITY, cache=tmp_path / "first")
    assert (second.out, second.terminal) == ("1.0\n", "")
    done = subprocess.run(
        [sys.executable, "-c", DENSITY],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "second")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("1.0\n", "")
    assert list((tmp_path / "second").rglob("*.nbi"))


@pytest.mark.long
def test_the_terminal_is_told_once_by_two_processes(tmp_path):
    code = "import sys; from sysbags.cli import main; main(sys.argv[1:])"
    assert run_on_terminal(code, "warm-up", cache=tmp_path).terminal.count(LINE) == 1
    assert LINE not in run_on_terminal(code, "warm-up", cache=tmp_path).terminal
