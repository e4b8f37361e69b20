"""Check a library: the structure of the file, and every checksum in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sysbags.errors import FileError, SysbagsError
from sysbags.library.schema import REPAIR, checksum
from sysbags.library.settings import read_settings
from sysbags.library.systems import CHECKED, read_embedding

if TYPE_CHECKING:
    from sysbags.library.store import Library


def verify_library(library: Library) -> list[str]:
    """Return one sentence for each problem of a library, see `Library.verify`."""
    try:
        problems = list(_structure(library))
    except SysbagsError as error:  # the other checks would read the same damaged pages
        return [str(error)]
    for check in (_settings, _clips, _contents, _embedded):
        try:
            problems.extend(check(library))
        except SysbagsError as error:  # the other checks continue
            problems.append(str(error))
    return list(dict.fromkeys(problems))


def _structure(library: Library) -> Iterator[str]:
    """Check pages, indexes and references."""
    with library.connection() as connection:
        if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            raise FileError(f"the library {library.path} is damaged: {REPAIR}")
        for table, row, *_ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row} of the table {table} refers to a row that is missing"


def _settings(library: Library) -> list[str]:
    if read_settings(library) is None and len(library):
        return ["there are clips, but no settings"]
    read_embedding(library)
    return []


def _clips(library: Library) -> Iterator[str]:
    query = """SELECT path, label, source, sha256, clips.checksum
        FROM clips JOIN contents ON content = contents.id ORDER BY path"""
    with library.connection() as connection:
        for *columns, expected in connection.execute(query):
            if not isinstance(columns[0], bytes) or checksum(*columns) != expected:
                yield f"the row of the clip {_name(columns[0])} is damaged"


def _contents(library: Library) -> Iterator[str]:
    """Check the arrays of systems one by one, so that few are in memory."""
    with library.connection() as connection:
        ids = [k for (k,) in connection.execute("SELECT id FROM contents ORDER BY id")]
    query = f"""SELECT (SELECT MIN(path) FROM clips WHERE content = contents.id), arrays, contents.checksum,
        {CHECKED} FROM contents LEFT JOIN samples ON content = contents.id WHERE contents.id = ?"""
    for k in ids:
        try:
            with library.connection() as connection:
                row = connection.execute(query, [k]).fetchone()
        except FileError as error:  # the pages of this one are damaged, maybe not those of the others
            yield str(error)
            continue
        if row is None:
            continue  # removed meanwhile
        path, arrays, expected, *columns = row
        if arrays is None or checksum(arrays) != columns[-1] or checksum(*columns) != expected:
            yield f"the arrays of the clip {_name(path)} are damaged: remove it and add it again"


def _embedded(library: Library) -> Iterator[str]:
    query = """SELECT (SELECT MIN(path) FROM clips WHERE clips.content = embedded.content),
        observers, lost, lost_of_mean, checksum FROM embedded"""
    with library.connection() as connection:
        for path, *columns, expected in connection.execute(query):
            if checksum(*columns) != expected:
                yield f"the embedding of the clip {_name(path)} is damaged: remove it and add it again"


def _name(path: Any) -> str:
    return os.fsdecode(path) if isinstance(path, bytes) else str(path)
