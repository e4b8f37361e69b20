"""The output of commands: tables, or one JSON document; notes on the error stream; checks of output files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sysbags._common.files import (
    IMAGE_SUFFIXES,
    VIDEO_SUFFIXES,
    check_folder,
    json_text,
    saved_contents,
    saved_kind,
)
from sysbags._common.messages import QUIET, VERBOSITY, printable
from sysbags.errors import FileError


def print_json(document: Any) -> None:
    """Print one JSON document; numbers that are not finite become null."""
    print(json_text(document))


def say(text: str) -> None:
    """Print one line; control characters in it, as file names may have them, become visible."""
    print(printable(text))


def note(text: str) -> None:
    """Print one line on the error stream, but not with --quiet."""
    if VERBOSITY.get() > QUIET:
        note_error(text)


def note_error(text: str) -> None:
    """Print what went wrong as one line on the error stream."""
    print(f"sysbags: {printable(text)}", file=sys.stderr)


def note_summary(texts: Sequence[str], what: str, limit: int = 3) -> None:
    """Print each text as a note; of more than `limit` only how many there are, and the first as an example.

    `what` is what there are many of, such as "clips are damaged".
    """
    if len(texts) <= limit:
        for text in texts:
            note(text)
    else:
        note(f"{len(texts)} {what}, for example: {texts[0]}")


def number(value: float, digits: int = 4) -> str:
    """Write a number with four digits."""
    return f"{value:.{digits}g}"


def as_text(value: Any, digits: int = 4) -> str:
    """Write a value in a table: numbers with four digits, lists and mappings with commas, "-" for None."""
    if isinstance(value, list):
        return ", ".join(as_text(item, digits) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {as_text(item, digits)}" for name, item in value.items()) or "-"
    return "-" if value is None else number(value, digits) if isinstance(value, float) else str(value)


def show_facts(facts: Mapping[str, Any], digits: int = 4) -> None:
    """Print a table with one row per fact."""
    rows = ([name.replace("_", " "), as_text(value, digits)] for name, value in facts.items())
    show_table(["", "value"], rows)


def show_seconds(seconds: Mapping[str, float]) -> None:
    """Print how long each stage took."""
    show_table(["stage", "seconds"], [[name, number(value)] for name, value in seconds.items()])


def show_records(records: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with one row per record; the names of their fields are its heads."""
    heads = [name.replace("_", " ") for name in records[0]]
    show_table(heads, [map(as_text, record.values()) for record in records])


def show_table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; nothing in it is cut off, and without a terminal nothing is wrapped."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = sys.stdout.isatty()
    table = Table(box=box.SIMPLE if screen else None)
    # Not markup: file names may hold brackets.
    first, *cells = [[Text(printable(cell)) for cell in row] for row in (heads, *rows)]
    for k, head in enumerate(first):
        numeric = bool(cells) and all(_is_number(row[k].plain) for row in cells)
        table.add_column(head, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    Console(file=sys.stdout, width=None if screen else 100_000).print(table)


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%"))
    except ValueError:
        return text == "-"
    return True


def check_inputs(*paths: Path | None, some_of: Sequence[Path] = ()) -> None:
    """Refuse paths that do not exist; of clips that can be skipped, `some_of`, one must exist."""
    missing = [path for path in paths if path is not None and not os.path.exists(path)]
    if some_of and not any(map(os.path.exists, some_of)):
        missing.append(some_of[0])
    for path in missing:
        raise FileError(f"{path} does not exist")


def check_out(path: Path | None, *inputs: Path | None, kind: str = "") -> None:
    """Refuse an output file that cannot be written or would overwrite what it must not, and missing inputs.

    This is called before any work and before slow imports. Inputs are the files and folders that the command
    reads. In a folder these are the video files, the images of folders of images and the index, whether or
    not they are there already. None is an option without a value.
    Saved files, videos and images are only overwritten by the same `kind`: one of `saved_kind`, "video" or
    "image".
    """
    check_inputs(*inputs)
    if path is None:
        return
    if path.is_dir():
        raise FileError(f"{path} is a folder, but the output must be a file")
    above = path.absolute().parent
    if not above.is_dir() or not os.access(above, os.W_OK):
        what = "is not a folder that may be written to" if above.exists() else "does not exist"
        raise FileError(f"cannot write {path}: {above} {what}")
    for entry in filter(None, inputs):
        if any(_is_same(path, file) for file in ([entry] if entry.is_file() else _input_files(entry))):
            what = "an input" if entry.is_file() else f"an input, in {entry},"
            raise FileError(f"cannot write {path}: it is {what} and would be overwritten")
        target = Path(os.path.realpath(path))
        if target.is_relative_to(os.path.realpath(entry)) and _is_input(target):
            raise FileError(f"cannot write {path}: it would be one of the clips in the input folder {entry}")
    if other := _other_kind(path, kind):
        raise FileError(f"{path} {other} and would be overwritten: choose another name")


def usable_cache(folder: Path | None) -> Path | None:
    """Return the folder of a cache if it can be written; otherwise that of the user or None, with a note."""
    from platformdirs import user_cache_path

    problem = ""
    for place in () if folder is None else (folder, user_cache_path("sysbags", appauthor=False)):
        try:
            check_folder(place)
        except FileError as error:
            problem = problem or str(error)
        else:
            if problem:
                note(f"{problem}; intermediate results are kept in {place}")
            return place
    if problem:
        note(f"{problem}; intermediate results are not kept")
    return None


def _is_same(first: Path, second: Path) -> bool:
    """Tell whether two paths lead to one file, through links too."""
    try:
        return os.path.samefile(first, second)
    except OSError:  # one of them does not exist
        return False


def _other_kind(path: Path, kind: str) -> str:
    """Say what a file is if it is a saved file, a video or an image, and not of this kind."""
    if not path.is_file() or saved_kind(path) == kind:
        return ""
    if contents := saved_contents(path):
        return f"holds {contents},"
    suffixes = {file.suffix.lower() for file in (path, path.resolve())}
    for name, known in (("video", VIDEO_SUFFIXES), ("image", IMAGE_SUFFIXES)):
        if kind != name and suffixes & known:
            return f"has the suffix of {name}s"
    return ""


def _input_files(folder: Path) -> Iterator[Path]:
    """Return the clips, frames and index files below a folder; links are followed."""
    visited: set[str] = set()
    for name, folders, files in os.walk(folder, followlinks=True):
        place = os.path.realpath(name)
        if place in visited:
            folders.clear()
            continue
        visited.add(place)
        yield from (Path(name, file) for file in files if _is_input(Path(name, file)))


def _is_input(file: Path) -> bool:
    """Tell whether a file of an input folder is read, by its name and by the images beside it."""
    from sysbags.datasets.folder import INDEX

    if file.name == INDEX or file.suffix.lower() in VIDEO_SUFFIXES:
        return True
    if file.suffix.lower() not in IMAGE_SUFFIXES:
        return False
    return any(sibling.suffix.lower() in IMAGE_SUFFIXES for sibling in file.parent.iterdir())
