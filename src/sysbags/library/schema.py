"""The tables of a library file, and how such a file is opened and made.

A library is one SQLite file in WAL mode: readers never wait for writers, and a process that is killed leaves
a whole file. Its tables:

* ``settings``: one row, how clips become systems. A tree and its arrays, see `sysbags.storage.files`.
* ``clips``: the paths, as bytes, since a name need not be text; labels, sources, and the size and times of
  the files when they were last checked.
* ``contents``: one row for each content of clips, by its SHA-256, with the small arrays of its system. Clips
  with the same content share it. A content without clips is deleted.
* ``samples``: the other arrays of these systems, apart, so that the small ones are read without them. The
  samples are in single precision and bin by bin: what changes little from frame to frame compresses better.
* ``embeddings``: at most one row, the landmarks; their factor is computed from them.
* ``embedded``: the contents in that embedding, in half precision, divided by the norms of observer and mean.

Arrays are compressed by zlib, but those of ``embedded``, which would not become smaller.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common import __version__
from sysbags._common.files import (
    LIBRARY_ID,
    SQLITE_MAGIC,
    TEMPORARY,
    remove_old_temporaries,
    saved_contents,
)
from sysbags.errors import FileError

BUSY_SECONDS = 60.0
LEVEL = 3  # of zlib: a few ms for a clip; higher levels take three times as long for 6 % less
REPAIR = "restore a copy of the file, or add the clips to a new library"

# A file that is replaced by one of the same size and modification time has another time of change (ctime_ns);
# and a change within the resolution of the clock is noticed by the time of the last check (checked_ns).
TABLES = (
    """CREATE TABLE settings (
        id INTEGER PRIMARY KEY CHECK (id = 1), tree TEXT NOT NULL, arrays BLOB NOT NULL,
        versions TEXT NOT NULL, checksum TEXT NOT NULL
    )""",
    """CREATE TABLE contents (
        id INTEGER PRIMARY KEY AUTOINCREMENT, sha256 TEXT NOT NULL UNIQUE, frames INTEGER NOT NULL,
        size INTEGER NOT NULL, bins INTEGER NOT NULL, "order" INTEGER NOT NULL,
        transition BLOB NOT NULL, observer_gram BLOB NOT NULL, mean_norm REAL NOT NULL,
        versions TEXT NOT NULL, added TEXT NOT NULL, checksum TEXT NOT NULL,
        samples_checksum TEXT NOT NULL
    )""",
    """CREATE TABLE samples (
        content INTEGER PRIMARY KEY REFERENCES contents ON DELETE CASCADE, arrays BLOB NOT NULL
    )""",
    """CREATE TABLE clips (
        id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL UNIQUE, label TEXT, source TEXT,
        content INTEGER NOT NULL REFERENCES contents, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
        ctime_ns INTEGER NOT NULL, checked_ns INTEGER NOT NULL, checksum TEXT NOT NULL
    )""",
    "CREATE INDEX clips_content ON clips (content)",
    "CREATE INDEX clips_size ON clips (size)",
    """CREATE TRIGGER clip_deleted AFTER DELETE ON clips BEGIN
        DELETE FROM contents WHERE id = OLD.content
        AND NOT EXISTS (SELECT 1 FROM clips WHERE content = OLD.content);
    END""",
    """CREATE TRIGGER clip_changed AFTER UPDATE OF content ON clips WHEN OLD.content <> NEW.content BEGIN
        DELETE FROM contents WHERE id = OLD.content
        AND NOT EXISTS (SELECT 1 FROM clips WHERE content = OLD.content);
    END""",
    """CREATE TABLE embeddings (
        id INTEGER PRIMARY KEY AUTOINCREMENT, fitted_on INTEGER NOT NULL, arrays BLOB NOT NULL,
        checksum TEXT NOT NULL
    )""",
    """CREATE TABLE embedded (
        content INTEGER PRIMARY KEY REFERENCES contents ON DELETE CASCADE,
        embedding INTEGER NOT NULL REFERENCES embeddings ON DELETE CASCADE,
        observers BLOB NOT NULL, lost REAL NOT NULL, lost_of_mean REAL NOT NULL, checksum TEXT NOT NULL
    )""",
    # What is left to embed is found without a look at all contents, however many there are.
    "CREATE TABLE waiting (content INTEGER PRIMARY KEY REFERENCES contents ON DELETE CASCADE)",
    """CREATE TRIGGER content_added AFTER INSERT ON contents BEGIN
        INSERT INTO waiting VALUES (NEW.id);
    END""",
)
SCHEMA = 3  # increased with every change of the tables: a file of another schema is not opened


def connect(path: Path, *, create: bool = False) -> sqlite3.Connection:
    """Open a library; with `create`, make one if there is no file. Another schema is a `FileError`."""
    check_file(path, create=create)
    with sqlite_errors(path):
        if create and not path.exists():
            _create(path)
        return _open(path, create)


def _create(path: Path) -> None:
    """Make an empty library under another name first: a file without its tables never has this name."""
    remove_old_temporaries(path.absolute().parent)
    temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        _open(temporary, create=True).close()
        with suppress(OSError):  # another process was first; or no links here, and it is made in its place
            os.link(temporary, path)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)


def _open(path: Path, create: bool) -> sqlite3.Connection:
    try:
        return _prepared(path, create)
    except sqlite3.OperationalError as error:
        if not _is_read_only(error) or Path(f"{path}-wal").exists():
            raise
        # SQLite cannot make its WAL files in this folder; and as there are none, nobody writes at present.
        return _prepared(path, create, immutable=True)


def _prepared(path: Path, create: bool, *, immutable: bool = False) -> sqlite3.Connection:
    # Connections are used by one thread at a time, but not always by the same.
    options: Any = {"timeout": BUSY_SECONDS, "isolation_level": None, "check_same_thread": False}
    name = f"{path.absolute().as_uri()}?immutable=1" if immutable else path
    connection: sqlite3.Connection = sqlite3.connect(name, **options, uri=immutable)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # a file from elsewhere must not run code
        connection.execute("PRAGMA foreign_keys = ON")
        if not _has_tables(connection, path, create):
            _make_tables(connection, path)
        with suppress(sqlite3.OperationalError):  # another process is about to do the same
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def check_file(path: Path, *, create: bool) -> None:
    """Raise an error for what SQLite would take for an empty database, or would not explain."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            with open(path, "rb") as file:
                start = file.read(len(SQLITE_MAGIC))
    except FileNotFoundError:
        folder = path.absolute().parent
        if create and folder.is_dir():
            if not os.access(folder, os.W_OK):
                raise FileError(f"cannot write to the library {path}: its folder must be writable") from None
            return
        where = f"there is no folder {folder}" if create else f"there is no library {path}"
        raise FileError(f"{where}: `sysbags library add LIBRARY CLIP...` makes a library") from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    if not stat.S_ISREG(mode):
        description = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise FileError(f"{path} is {description}, but it must be a library, a file")
    if start != SQLITE_MAGIC and not (create and not start):
        other = saved_contents(path)
        description = f"holds {other}" if other else "is not a library of sysbags" if start else "is empty"
        raise FileError(f"{path} {description}: `sysbags library add LIBRARY CLIP...` makes a library")


def _has_tables(connection: sqlite3.Connection, path: Path, create: bool) -> bool:
    """Return whether a file is a library, not an empty file that may become one; otherwise raise an error."""
    (application,), (version,), (tables,) = (
        connection.execute(query).fetchone()
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT COUNT(*) FROM sqlite_master")
    )
    if application != LIBRARY_ID:
        if create and not tables:
            return False
        description = "another SQLite database, not a library of sysbags" if tables else "empty"
        raise FileError(f"{path} is {description}: `sysbags library add LIBRARY CLIP...` makes a library")
    if version != SCHEMA:
        raise FileError(
            f"{path} is a library of another version of sysbags (schema {version}), but this one "
            f"({__version__}) reads schema {SCHEMA}: use that version, or add the clips to a new library"
        )
    return True


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in one transaction: all of them are there afterwards, or none."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        if not _has_tables(connection, path, create=True):  # another process may be first
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {LIBRARY_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _is_read_only(error: sqlite3.Error) -> bool:
    """Whether an error of SQLite is about permissions."""
    texts = ("readonly", "unable to open")
    return isinstance(error, sqlite3.OperationalError) and any(text in str(error) for text in texts)


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one sentence about the library."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            advice = "make room on the disk and add again; the clips that were added before are kept"
            raise FileError(f"cannot write to the library {path}: {text}: {advice}") from None
        if "locked" in text:
            raise FileError(
                f"another process is writing to the library {path} for more than a minute: try again later"
            ) from None
        if _is_read_only(error):
            raise FileError(
                f"cannot write to the library {path}: {text}; the file and its folder must be writable"
            ) from None
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the bits of extended codes
        detail = "" if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) else f" ({text})"
        raise FileError(f"the library {path} is damaged{detail}: {REPAIR}") from error


def checksum(*parts: Any) -> str:
    """Return a checksum of values, with their types and lengths: ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(f"{type(part).__name__} {len(data)} ".encode())
        digest.update(data)
    return digest.hexdigest()


def pack(arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """Return named arrays as the bytes of a safetensors file, compressed."""
    from safetensors.numpy import save

    data = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    return zlib.compress(data, LEVEL)


def unpack(data: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that `pack` was given."""
    from safetensors.numpy import load

    return load(zlib.decompress(data))
