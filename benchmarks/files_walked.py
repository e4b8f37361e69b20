"""How many files of the package does a command pass through, and how often does it go from file to file?

Run as `python -m benchmarks.files_walked`, with `--list` to see each change of file. One `classify` of a clip
by a model that `fit` has saved, one `evaluate` of a folder of clips and one `align` of two systems run in
this process, with the default options, on small generated clips. What is counted:

* **Files**: files of the package in which a function was called, compiled functions too.
* **Changes of file**: distinct pairs of functions, where one calls the other directly and the two are in
  different files. A call in a loop counts once. Resuming a generator is a call; calls that go through another
  package, such as a callback of a library, are none.

What runs while a module is imported does not count. Threads are followed too.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

import sysbags
from sysbags.cli import main as command_line
from sysbags.datasets import make_clips

__all__ = ["Walk", "main", "walk", "works"]

PACKAGE = os.path.dirname(sysbags.__file__) + os.sep


@dataclass(frozen=True)
class Walk:
    """The files that some work passes through.

    Attributes
    ----------
    files : set of str
        Relative to the package.
    changes : set of (str, str)
        The caller and the called function, such as ``cli/classify.py:classify``.
    """

    files: set[str]
    changes: set[tuple[str, str]]


def walk(work: Callable[[], object], package: str = PACKAGE) -> Walk:
    """Run some work, and return the files of a package that it passes through.

    Parameters
    ----------
    work : callable
    package : str
        The folder of the package, with a separator at its end.
    """
    found = Walk(set(), set())

    def place(frame: FrameType | None) -> tuple[str, str] | None:
        if frame is None or not frame.f_code.co_filename.startswith(package):
            return None
        file = frame.f_code.co_filename.removeprefix(package)
        return file, f"{file}:{frame.f_code.co_qualname}"

    def is_import(frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_name == "<module>" and place(frame) is not None:
                return True
            frame = frame.f_back
        return False

    def profile(frame: FrameType, event: str, _: Any) -> None:
        called = place(frame) if event == "call" else None
        if called is None or is_import(frame):
            return
        found.files.add(called[0])
        caller = place(frame.f_back)
        if caller is not None and caller[0] != called[0]:
            found.changes.add((caller[1], called[1]))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def works(folder: str) -> dict[str, Callable[[], object]]:
    """Make clips and a model in a folder, and return what is counted: a callable for each name."""
    clips, _ = make_clips(f"{folder}/clips", 3, frames=24, height=48, width=48, textures=["rain", "fire"])
    model = f"{folder}/scenes.model"
    _command("fit", f"{folder}/clips", "--out", model)
    streams = [sysbags.bags.LocalBinaryPatterns().stream(clip) for clip in (clips[0], clips[-1])]
    first, second = (sysbags.identify(stream, order=5) for stream in streams)
    return {
        "classify": lambda: _command("classify", model, str(clips[0])),
        "evaluate": lambda: _command("evaluate", f"{folder}/clips"),
        "align": lambda: sysbags.align(first, second),
    }


def _command(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        code = command_line(arguments)
    if code:
        raise RuntimeError(f"sysbags {' '.join(arguments)} ended with {code}")


def main() -> None:
    """Print the table, and the changes of file if they are wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print each change of file")
    listed = parser.parse_args().list
    table = Table("work", "files", "changes of file")
    with tempfile.TemporaryDirectory() as folder:
        for name, work in works(folder).items():
            found = walk(work)
            table.add_row(name, str(len(found.files)), str(len(found.changes)))
            if listed:
                print(name, *sorted(f"{caller} -> {called}" for caller, called in found.changes), sep="\n  ")
    Console(width=80).print(table)


if __name__ == "__main__":
    main()
