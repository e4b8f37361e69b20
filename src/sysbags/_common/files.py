"""Files: atomic writing, natural order, suffixes of videos and images."""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sysbags.errors import FileError

__all__ = [
    "IMAGE_SUFFIXES",
    "VIDEO_SUFFIXES",
    "atomic_write",
    "natural_order",
    "remove_old_temporaries",
]

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


def natural_order(path: Path) -> tuple[list[tuple[bool, int, str]], str]:
    """Sort key that compares runs of digits as numbers; the name itself decides between 1 and 01."""
    parts = re.split(r"([0-9]+)", path.name.casefold())
    key = [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts if part]
    return key, path.name


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; it takes the place of `path` only if all went well.

    Whatever interrupts the writing, a Ctrl-C too, leaves what was at `path` before and no half file.
    The temporary file lies in the folder of `path`, which is made if need be, and has its suffix. A file
    that is replaced hands on its permissions; a link stays, and the file that it leads to is replaced.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "new" / "table.csv"
    >>> with atomic_write(target) as temporary:
    ...     _ = temporary.write_text("1,2")
    >>> target.read_text()
    '1,2'
    """
    target, mode = _place(path)
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode if mode is None else mode
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())  # or a power cut could leave the new name on an empty file
        temporary.chmod(mode & 0o7777)  # a writer may have put a file of its own there
        os.replace(temporary, target)
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def remove_old_temporaries(folder: Path) -> None:
    """Remove the temporary files in a folder that runs left when they were killed, at least a day ago."""
    for path in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError):  # another process may remove it first
            if time.time() - path.stat().st_mtime > OLD_SECONDS:
                path.unlink()


def _place(path: str | os.PathLike[str]) -> tuple[Path, int | None]:
    """Return the file that a path leads to, and its mode if it is there already."""
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target, None
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    # A file in the place of a device, such as /dev/null, would break the machine.
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise FileError(f"cannot write {path}: it is {what}, but it must be the name of a file")
    return target, mode
