"""Add clips to a library: what is new or has changed is read by threads and written as it is finished."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sysbags._common.messages import warn
from sysbags._common.parallel import ONE_BLAS_THREAD, run
from sysbags.bags.base import check_videos
from sysbags.datasets.folder import INDEX, class_folders, clips_under, looks_like_clip
from sysbags.errors import FileError, ParameterError, SysbagsError, VideoError, VideoWarning
from sysbags.library.reading import LARGE, FileState, GivenClip, ReadClip, file_state, read_clip
from sysbags.library.schema import checksum, pack
from sysbags.library.settings import (
    LibrarySettings,
    NewSettings,
    put_settings,
    settings_for,
)
from sysbags.library.systems import below, embed_clips
from sysbags.storage.files import versions
from sysbags.systems.collection import system_arrays

if TYPE_CHECKING:
    from sysbags.library.store import Library

RECENT_NS = 2_000_000_000  # clocks of file systems have a resolution of up to two seconds
CANDIDATES = 100  # contents of the same size that a clip is compared with before it is decoded


@dataclass(kw_only=True)
class Added:
    """What `Library.add` did.

    Attributes
    ----------
    added, updated, unchanged : int
        Numbers of clips: new ones, those with another content, label or source, and the others.
    failures : dict
        What is wrong with each of the clips that cannot be read; the sentence names it.
    missing : list of Path
        Clips of the library that are given, or in the folders that are given, and no longer on disk.
    unlabelled : list of Path
        New clips without a label.

    Examples
    --------
    >>> Added(added=4, missing=[Path("clips/rain/01.mp4")]).failures
    {}
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    failures: dict[Path, SysbagsError] = field(default_factory=dict)
    missing: list[Path] = field(default_factory=list)
    unlabelled: list[Path] = field(default_factory=list)


def add_clips(
    library: Library,
    paths: Sequence[str | os.PathLike[str]],
    labels: Sequence[str | None] | None,
    sources: Sequence[str | None] | None,
    wanted: Mapping[str, Any],
    n_jobs: int | None,
) -> Added:
    """Add clips to a library, see `Library.add`."""
    given = _given_clips(library, paths, labels, sources)
    # By one thread, however many clips there are, as the round-off of sums by several threads differs.
    with ONE_BLAS_THREAD:
        names, summary = [clip.path for clip in given], Added()
        settings = settings_for(library, wanted, names, n_jobs)
        todo = _changed(library, given, summary)
        while todo:
            todo = _read_and_write(library, todo, *settings, n_jobs, summary)
            if todo:
                settings = settings_for(library, wanted, names, n_jobs)
        if not library.path.exists():
            return summary  # no clip can be used, so that there is nothing to make a library of
        embed_clips(library, n_jobs)
    with library.connection() as connection:
        inside = dict.fromkeys(found for path in paths for found in below(connection, path))
    summary.missing = [Path(os.fsdecode(path)) for path in inside if not os.path.exists(path)]
    return summary


def _given_clips(
    library: Library,
    paths: Sequence[str | os.PathLike[str]],
    labels: Sequence[str | None] | None,
    sources: Sequence[str | None] | None,
) -> list[GivenClip]:
    """Return the clips, each once and ordered by path; folders are searched."""
    items = check_videos(paths)
    if not items:
        raise ParameterError("paths is empty, but there must be at least one clip or folder to add")
    for name, values in (("labels", labels), ("sources", sources)):
        if values is not None and (isinstance(values, str) or len(values) != len(items)):
            raise ParameterError(
                f"{name} must have one entry for each of the {len(items)} paths, which then must be clips, "
                "not folders of clips"
            )
    clips: list[GivenClip] = []
    for k, item in enumerate(items):
        path = Path(os.path.abspath(item))  # type: ignore[arg-type]
        is_clip = looks_like_clip(path) or not (os.path.isdir(path) or _has_clips(library, path))
        if (labels is not None or sources is not None) and not is_clip:
            raise ParameterError(
                f"paths[{k}], {path}, is a folder of clips, but labels and sources are for clips: name its "
                "clips one by one, or leave out labels and sources"
            )
        if is_clip:
            label, source = (None if values is None else values[k] for values in (labels, sources))
            clips.append(GivenClip(str(path), label, source))
        elif (path / INDEX).is_file():
            found = class_folders(path)
            origins: Sequence[str | None] = found.sources or [None] * len(found.paths)
            clips += map(GivenClip, map(str, found.paths), found.labels, origins)
            clips += [GivenClip(str(path / name)) for name in found.unlabelled]
        else:
            try:
                files = clips_under(path)
            except FileError:
                if not _has_clips(library, path):
                    raise
                continue  # all of them are missing, which is reported
            for file in files:
                clips.append(GivenClip(str(file), file.parent.name if file.parent.parent == path else None))
    unique: dict[str, GivenClip] = {}
    for clip in clips:  # a label that is known is not forgotten if the clip is named again
        other = unique.get(clip.path, clip)
        unique[clip.path] = clip._replace(
            label=_text(clip.label if clip.label is not None else other.label),
            source=_text(clip.source if clip.source is not None else other.source),
        )
    return [unique[path] for path in sorted(unique, key=os.fsencode)]


def _has_clips(library: Library, folder: Path) -> bool:
    """Whether the library has clips of a folder, which may have vanished."""
    try:
        with library.connection() as connection:
            return below(connection, folder) not in ([], [os.fsencode(folder)])
    except FileError:  # there is no library yet
        return False


def _text(name: str | None) -> str | None:
    """Return a label as text; what is not UTF-8 in the name of a folder becomes an escape."""
    if name is None:
        return None
    text = str(name)
    with suppress(UnicodeEncodeError):  # half a surrogate pair that is no byte of a file name
        # The names of folders are UTF-8, also where the locale is not.
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    return text.encode("utf-8", "backslashreplace").decode()


def _changed(library: Library, clips: Sequence[GivenClip], summary: Added) -> list[GivenClip]:
    """Return the clips that must be read; the labels and sources of the others are updated."""
    todo: list[GivenClip] = []

    def look(clip: GivenClip) -> None:
        path = os.fsencode(clip.path)
        try:
            state = file_state(clip.path)
        except VideoError as error:
            summary.failures[Path(clip.path)] = error
            return
        if not library.path.exists():
            todo.append(clip)
            return
        with library.connection() as connection:
            row = connection.execute(
                "SELECT clips.size, mtime_ns, ctime_ns, checked_ns, sha256, content, label, source "
                "FROM clips JOIN contents ON content = contents.id WHERE path = ?",
                [path],
            ).fetchone()
            if row is None or row[:3] != state or max(state[1:]) > row[3] - RECENT_NS:
                query = "SELECT DISTINCT sha256 FROM clips JOIN contents ON content = contents.id "
                same = connection.execute(f"{query} WHERE clips.size = ? LIMIT {CANDIDATES}", [state.size])
                known = dict.fromkeys([*(sha for (sha,) in same), *([] if row is None else [row[4]])])
                todo.append(clip._replace(known=tuple(known)))
                return
        if _differs(clip, *row[6:]):
            with library.transaction() as connection:
                _put_clip(connection, clip, row[4], row[5], state, row[3])
            summary.updated += 1
        else:
            summary.unchanged += 1

    run(look, clips, 1, "files", consume=lambda k, result: None)
    return todo


def _differs(clip: GivenClip, label: str | None, source: str | None) -> bool:
    return clip.label not in (None, label) or clip.source not in (None, source)


def _read_and_write(
    library: Library,
    clips: Sequence[GivenClip],
    settings: LibrarySettings,
    new: NewSettings | None,
    n_jobs: int | None,
    summary: Added,
) -> list[GivenClip]:
    """Read clips and write each in a transaction of its own; return those that must be read again."""
    again: list[GivenClip] = []
    made_with = json.dumps(versions(set()))

    def write(k: int, result: ReadClip | SysbagsError) -> None:
        clip = clips[k]
        if isinstance(result, SysbagsError):
            summary.failures[Path(clip.path)] = result
            return
        with library.transaction(create=True) as connection:
            if new is not None and not put_settings(connection, new):
                again.append(clip)  # another process was first, with other settings
                return
            content = _content(connection, result, made_with)
            if content is None:  # another process has removed the clip with the same content
                again.append(clip._replace(known=()))
                return
            query = "SELECT content, label, source FROM clips WHERE path = ?"
            row = connection.execute(query, [os.fsencode(clip.path)]).fetchone()
            _put_clip(connection, clip, result.sha256, content, result.state, result.checked_ns)
        if row is None:
            summary.added += 1
            summary.unlabelled += [Path(clip.path)] if clip.label is None else []
        elif row[0] != content or _differs(clip, *row[1:]):
            summary.updated += 1
        else:
            summary.unchanged += 1
        for text in result.warnings:
            warn(text, VideoWarning, stacklevel=2)

    run(read_clip, clips, n_jobs, "clips", shared=settings.reading, consume=write, remote=True)
    return again


def _content(connection: sqlite3.Connection, clip: ReadClip, made_with: str) -> int | None:
    """Return the row of a content, a new one if there is none; None if there is none and no system."""
    row = connection.execute("SELECT id FROM contents WHERE sha256 = ?", [clip.sha256]).fetchone()
    if row is not None or clip.system is None:
        return None if row is None else int(row[0])
    system = clip.system
    arrays = system_arrays(system)
    small = [np.asarray(arrays.pop(name), dtype="<f8").tobytes() for name in ("transition", "_observer_gram")]
    norm = arrays.pop("_mean_norm").item()
    for name in LARGE:
        arrays[name] = arrays[name].astype("<f4").T
    data = pack(arrays)
    columns = [
        clip.sha256,
        clip.frames,
        system.size,
        system.bag_length,
        system.order,
        *small,
        norm,
        checksum(data),
    ]
    content = connection.execute(
        'INSERT INTO contents (sha256, frames, size, bins, "order", transition, observer_gram, mean_norm, '
        "samples_checksum, versions, added, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [*columns, made_with, datetime.now(UTC).isoformat(timespec="seconds"), checksum(*columns)],
    ).lastrowid
    connection.execute("INSERT INTO samples VALUES (?, ?)", [content, data])
    return content


def _put_clip(
    connection: sqlite3.Connection,
    clip: GivenClip,
    sha256: str,
    content: int,
    state: FileState,
    checked_ns: int,
) -> None:
    """Write the row of a clip; a label or source that is not given stays what it is."""
    path = os.fsencode(clip.path)
    row = connection.execute("SELECT label, source FROM clips WHERE path = ?", [path]).fetchone()
    names = [own if own is not None else old for own, old in zip(clip[1:3], row or (None, None), strict=True)]
    connection.execute(
        "INSERT INTO clips (path, label, source, content, size, mtime_ns, ctime_ns, checked_ns, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET label = excluded.label, "
        "source = excluded.source, content = excluded.content, size = excluded.size, "
        "mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns, checked_ns = excluded.checked_ns, "
        "checksum = excluded.checksum",
        [path, *names, content, *state, checked_ns, checksum(path, *names, sha256)],
    )
