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

from cli_folder import make_classes

# Prints what it compiled itself to standard error; the second process is not counted.
COUNTED = """
import sys
from numba.core import event
from sysbags.cli import main
with event.install_recorder("numba:compile") as recorder:
    main(sys.argv[1:])
print([str(e.data["dispatcher"]) for _, e in recorder.buffer], file=sys.stderr)
"""
LINE = "compiling, once ..."


class Run(NamedTuple):
    out: str
    terminal: str


def run_on_terminal(*words: str, cache: Path) -> Run:
    """Run a command whose standard error is a terminal, with a cache of compiled functions of its own."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    with tempfile.TemporaryFile("w+") as out:
        command = [sys.executable, "-c", COUNTED, *words]
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


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def first(cache):
    return run_on_terminal("warm-up", "--json", cache=cache)


def test_it_says_how_long_it_took(first):
    result = json.loads(first.out)
    assert set(result) == {"seconds"}
    assert result["seconds"] > 0


def test_the_terminal_is_told_once_by_two_processes(first):
    assert first.terminal.count(LINE) == 1


def test_nothing_is_compiled_again(first, cache, tmp_path):
    assert run_on_terminal("warm-up", cache=cache).terminal.splitlines()[-1] == "[]"
    clips, model = make_classes(tmp_path / "clips"), str(tmp_path / "m.model")
    for words in (
        ["fit", str(clips), "--out", model],
        ["classify", model, str(next(clips.glob("*/*.mp4")))],
        ["evaluate", str(clips)],
    ):
        terminal = run_on_terminal(*words, cache=cache).terminal
        assert LINE not in terminal
        assert terminal.splitlines()[-1] == "[]", words


def test_a_file_is_not_told(tmp_path):
    """Compiles for the first time, with standard error that is no terminal."""
    code = "import numpy; from sysbags.kernels.histograms import density; print(density(numpy.ones((1, 1))))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("1.0\n", "")
    assert list(tmp_path.rglob("*.nbi"))
