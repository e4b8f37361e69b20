"""What commands say: tables for people, one JSON document for machines, notes on the error stream."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sysbags.errors import FileError

__all__ = ["check_out", "note", "number", "print_json", "say", "show_table"]


def print_json(document: Any) -> None:
    """Print one JSON document; what is not finite becomes null."""
    print(json.dumps(_plain(document), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def say(text: str) -> None:
    """Print a line for people."""
    print(text)


def note(text: str) -> None:
    """Print a line on the error stream."""
    print(f"sysbags: {text}", file=sys.stderr)


def number(value: float) -> str:
    """Write a number for people."""
    return f"{value:.4g}"


def show_table(heads: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; nothing in it is cut off, and without a terminal nothing is wrapped."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    screen = sys.stdout.isatty()
    table = Table(box=box.SIMPLE if screen else None)
    cells = [list(row) for row in rows]
    for k, head in enumerate(heads):
        numeric = bool(cells) and all(_is_number(row[k]) for row in cells)
        table.add_column(head, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))  # not markup: names of files may hold brackets
    Console(file=sys.stdout, width=None if screen else 100_000).print(table)


def _is_number(text: str) -> bool:
    try:
        float(text.removesuffix("%"))
    except ValueError:
        return text == "-"
    return True


def check_out(path: Path) -> None:
    """Refuse, before any work, a file that could not be written after it."""
    if path.is_dir():
        raise FileError(f"{path} is a folder, but the output must be a file")
    above = path.absolute().parent
    if not above.is_dir() or not os.access(above, os.W_OK):
        what = "is not a folder that may be written to" if above.exists() else "does not exist"
        raise FileError(f"cannot write {path}: {above} {what}")
