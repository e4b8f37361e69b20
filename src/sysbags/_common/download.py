"""Download a file whose checksum is known; a download that was interrupted is continued."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sysbags._common.messages import shows_progress
from sysbags.errors import FileError

__all__ = ["download"]

CHUNK = 2**18
TIMEOUT_SECONDS = 30.0


def download(url: str, path: Path, sha256: str, advice: str = "") -> None:
    """Download a file; it is at `path` only when it is complete and has the checksum.

    What has arrived is in a file beside `path` whose name ends in ``.part``. After an interruption the next
    call asks for the rest; if the server sends everything again, it starts again. A terminal shows the
    progress.

    Parameters
    ----------
    url : str
    path : Path
        Its folder is created if it does not exist.
    sha256 : str
        The checksum in hexadecimal digits.
    advice : str, optional
        The end of the sentence where the server cannot be reached or refuses.

    Raises
    ------
    FileError
        If the server or the disk refuses, the connection breaks off, or the checksum is another one.
    """
    # The checksum in the name: parts of another version of the file are not continued.
    part = path.with_name(f"{path.name}.{sha256[:12]}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(url, part)
        with part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            part.unlink()
            raise FileError(
                f"the file from {url} has the checksum {found[:12]}, but it must have {sha256[:12]}: it was "
                "removed, as it is another file or was damaged on the way"
            )
        os.replace(part, path)
    except urllib.error.HTTPError as error:
        raise FileError(
            f"cannot download {url}: the server says {error.code} {error.reason}{advice}"
        ) from None
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise FileError(f"cannot download {url}: {reason}{advice}") from None
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise _broken(url, part, f"{type(error).__name__} {error}".strip()) from None
    except OSError as error:
        raise FileError(f"cannot write {part}: {error.strerror or error}") from None


def _receive(url: str, part: Path) -> None:
    """Append to a file what is missing of it."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "sysbags", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        response = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # there is nothing more: the checksum decides
            return
        raise
    with response:
        is_rest = response.status == 206 and _first(response.headers.get("Content-Range")) == have
        if response.status == 206 and not is_rest:
            part.unlink()
            raise FileError(f"cannot download {url}: the server sent another part, so run the command again")
        have = have if is_rest else 0
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else None
        with part.open("ab" if is_rest else "wb") as file, _progress(part, total) as show:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                show(have)
    if total is not None and have < total:
        raise _broken(url, part, f"{have} of {total} bytes")


def _first(content_range: str | None) -> int | None:
    """Return the number of the first byte in a header such as ``bytes 100-199/200``."""
    first = (content_range or "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdecimal() else None


def _broken(url: str, part: Path, detail: str) -> FileError:
    return FileError(
        f"the download of {url} broke off ({detail}), but {part} keeps what has arrived: run the command "
        "again"
    )


@contextmanager
def _progress(part: Path, total: int | None) -> Iterator[Any]:
    """Yield a function that shows the number of bytes, on a terminal."""
    if not shows_progress():
        yield lambda have: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(part.name, total=total)
        yield lambda have: progress.update(task, completed=have)
