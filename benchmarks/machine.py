"""What must stand beside a number so that it can be judged and repeated, and how numbers are taken."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = [
    "command_parser",
    "facts",
    "fill_page",
    "peak_memory",
    "print_table",
    "print_table_of_folder",
    "seconds",
]

Result = TypeVar("Result")


def command_parser(command: str, text: str | None) -> argparse.ArgumentParser:
    """Return a parser of the arguments of a command, whose help is the text as it is written."""
    return argparse.ArgumentParser(
        prog=command, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def facts(command: str, packages: Sequence[str]) -> list[str]:
    """Date, machine, command and versions, as lines of Markdown."""
    return [
        f"* date: {datetime.date.today().isoformat()}",
        f"* machine: {processor()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        f"* command: `{command}`",
        f"* versions: {', '.join(f'{name} {version(name)}' for name in packages)}",
    ]


def print_table(
    rows: Iterable[str], command: str, packages: Sequence[str], page: Path | None, mark: str
) -> None:
    """Print facts and the rows of a table as they come, and put them into a page after a mark."""
    lines = [*facts(command, packages), ""]
    print("\n".join(lines), flush=True)
    for line in rows:
        lines.append(line)
        print(line, flush=True)
    print(flush=True)
    if page:
        fill_page(page, mark, "\n".join(lines))


def print_table_of_folder(
    rows: Callable[[Path], Iterable[str]], command: str, packages: Sequence[str], about: str | None
) -> None:
    """Print the table of the folder, and fill the page, that are given on the command line."""
    parser = command_parser(command, about)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    print_table(rows(arguments.folder), f"{command} FOLDER", packages, arguments.page, command)


def version(package: str) -> str:
    """Version of a package, if it is there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def seconds(
    function: Callable[[], Result], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Result]:
    """Time a call; with `time.process_time`, what other processes do does not count."""
    started = clock()
    result = function()
    return clock() - started, result


def peak_memory() -> int:
    """The largest memory of this process so far, in bytes."""
    try:  # `getrusage` begins with the peak of the parent, so Linux is asked in another way
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def fill_page(page: Path, command: str, text: str) -> None:
    """Replace what a page has between the comments ``<!-- COMMAND -->`` and ``<!-- end -->``."""
    begin, end = f"<!-- {command} -->", "<!-- end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    filled, count = pattern.subn(lambda _: f"{begin}\n\n{text}\n\n{end}", page.read_text())
    if count != 1:
        raise SystemExit(f"{page} must have the comment {begin} once, followed by {end}")
    page.write_text(filled)
