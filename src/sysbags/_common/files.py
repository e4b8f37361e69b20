"""Files: checks, atomic writing, JSON, tables, natural order, suffixes of clips, headers of saved files."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sysbags.errors import FileError

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".jp2", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
# fmt: off
VIDEO_SUFFIXES = frozenset({
    ".3gp", ".asf", ".avi", ".flv", ".gif", ".m2ts", ".m4v", ".mjpeg", ".mkv", ".mov", ".mp4", ".mpeg",
    ".mpg", ".mts", ".mxf", ".ogg", ".ogv", ".ts", ".vob", ".webm", ".wmv", ".y4m",
})
# fmt: on
TEMPORARY = ".tmp-"  # begins the names of temporary files
OLD_SECONDS = 24 * 3600.0
SQLITE_MAGIC = b"SQLite format 3\x00"
LIBRARY_ID = 0x53424C31  # "SBL1", SQLite's application id, which other programs can see too
MODEL_START = b'{"__metadata__":{"sysbags":'  # of model files, after a length of eight bytes
CONTENTS = {  # of saved files by their kinds, for messages
    "Checkpoint": "a checkpoint, for `sysbags watch --checkpoint`",
    "Normal": "what is normal in a video, for `sysbags watch --normal`",
    "Pipeline": "a model, for `sysbags classify`",
    "System": "a system, for `sysbags inspect`",
    "library": "a library of clips, for `sysbags library`",
}


def natural_order(path: Path) -> tuple[list[tuple[bool, int, str]], str]:
    """Return a sort key that compares digits as numbers; the name decides between 1 and 01."""
    parts = re.split(r"([0-9]+)", path.name.casefold())
    key = [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts if part]
    return key, path.name


def images_in(folder: Path) -> list[Path]:
    """Return the images of a folder in natural order, without those whose names begin with a dot."""
    images = [p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and p.name[0] != "."]
    return sorted(images, key=natural_order)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` if no exception was raised.

    After an error or Ctrl-C the file at `path` is the one from before. The temporary file has the suffix of
    `path` and is in the same folder, which is created if it does not exist. The new file has the permissions
    of the old one; if `path` is a link, the file that it points to is replaced.
    """
    target, mode = _target(path)
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode if mode is None else mode
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())  # otherwise the file could be empty after a power cut
        temporary.chmod(mode & 0o7777)  # the writer may have replaced the temporary file
        os.replace(temporary, target)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def check_folder(folder: Path) -> None:
    """Make a folder unless it exists, and raise an error unless files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(prefix=TEMPORARY, dir=folder):
            pass
    except FileExistsError:
        raise FileError(f"{folder} is a file, but it must be a folder") from None
    except OSError as error:
        raise FileError(f"cannot write to the folder {folder}: {error.strerror or error}") from None


def write_table(path: str | os.PathLike[str], rows: Iterable[Iterable[Any]]) -> None:
    r"""Write a table of comma-separated values, UTF-8, atomically.

    A file name that is not UTF-8 has its own bytes in the table.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> write_table(target, [["clip", "label"], ["no \udcff text.mp4", "rain"]])
    >>> target.read_bytes()
    b'clip,label\r\nno \xff text.mp4,rain\r\n'
    """
    with (
        atomic_write(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        csv.writer(file).writerows(rows)


def json_text(document: Any, indent: int | None = 2) -> str:
    """Return the text of a JSON document; numbers that are not finite become null, paths become text.

    With ``indent=None`` it is a single line.

    >>> json_text({"accuracy": 0.5, "p_value": float("nan")}, indent=None)
    '{"accuracy": 0.5, "p_value": null}'
    """
    return json.dumps(_plain(document), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def saved_kind(path: str | os.PathLike[str]) -> str | None:
    """Return the kind of a saved file by its header, "library" or that of a model file; None for any other.

    It is empty if a file begins as a model file does (a length of eight bytes, then JSON) and says no more.
    """
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        start = file.read(256)
    if start.startswith(SQLITE_MAGIC):
        return "library" if start[68:72] == LIBRARY_ID.to_bytes(4, "big") else None
    if start[8:9] != b"{":
        return None
    found = re.search(rb'\\"kind\\":\\"(\w+)', start) if start.startswith(MODEL_START, 8) else None
    return "" if found is None else found[1].decode()


def saved_contents(path: str | os.PathLike[str]) -> str:
    """Say what a saved file holds and what it is for, by its header; an empty text for any other file."""
    kind = saved_kind(path)
    return CONTENTS.get(kind, f"a saved {kind}, for `sysbags inspect`") if kind else ""


def remove_old_temporaries(folder: Path) -> None:
    """Remove temporary files that are more than a day old, from runs that were killed."""
    for path in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError):  # another process may remove it first
            if time.time() - path.stat().st_mtime > OLD_SECONDS:
                path.unlink()


def _target(path: str | os.PathLike[str]) -> tuple[Path, int | None]:
    """Return the file that a path points to, and its mode if it exists."""
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target, None
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    # Replacing a device, such as /dev/null, by a file would break the machine.
    if not stat.S_ISREG(mode):
        description = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise FileError(f"cannot write {path}: it is {description}, but it must be the name of a file")
    return target, mode
