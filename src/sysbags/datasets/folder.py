"""Clips on disk: one folder per class, or all clips below a folder."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from sysbags._common.files import IMAGE_SUFFIXES, VIDEO_SUFFIXES, natural_order
from sysbags.errors import FileError

__all__ = ["INDEX", "ClipFolder", "class_folders", "clips_under", "looks_like_clip"]

INDEX = "index.csv"
MOST_NAMES = 3  # clips that an error message names


@dataclass(frozen=True)
class ClipFolder:
    """The result of `class_folders`.

    Attributes
    ----------
    paths : list of Path
        The clips: video files, or folders of images.
    labels : list of str
        The class of each clip, the name of its folder.
    sources : list of str or None
        The recording that each clip was cut from, if there is an index.
    empty : list of str
        Class folders without a clip, which are skipped.
    """

    paths: list[Path]
    labels: list[str]
    sources: list[str] | None
    empty: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return one sentence for each class folder that is skipped."""
        return [f"skipped: the class folder {name} holds no clip" for name in self.empty]


def class_folders(folder: str | os.PathLike[str]) -> ClipFolder:
    """List the clips of a folder that holds one folder per class.

    A clip is a video file, recognised by its suffix, or a folder of images. Classes and clips come in natural
    order (2 before 10); names that begin with a dot are ignored. A class folder without a clip is skipped
    if at least two classes remain.

    An optional table ``index.csv`` in the folder, with the columns ``clip`` ("class/file") and ``source``,
    names the recording that each clip was cut from. It must list exactly the clips that are there: with a
    missing row, clips of one recording would be in the training and the test set at once.

    Parameters
    ----------
    folder : path

    Returns
    -------
    ClipFolder

    Raises
    ------
    FileError
        If the folder is missing, holds no class folder, or has empty class folders and fewer than two others;
        if the index is not such a table, or its rows are not the clips.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("rain/10.mp4", "rain/9.mp4", "fire/a.avi", "fire/notes.txt"):
    ...     (root / name).parent.mkdir(exist_ok=True)
    ...     (root / name).touch()
    >>> clips = class_folders(root)
    >>> [path.name for path in clips.paths], clips.labels, clips.sources
    (['a.avi', '9.mp4', '10.mp4'], ['fire', 'rain', 'rain'], None)
    """
    root = Path(folder)
    classes = [entry for entry in _entries(root) if entry.is_dir()]
    if not classes:
        raise FileError(f"{root} holds no folder, but it must hold one folder of clips for each class")
    clips_of = {entry: [clip for clip in _entries(entry) if looks_like_clip(clip)] for entry in classes}
    empty = [entry for entry, clips in clips_of.items() if not clips]
    if empty and len(classes) - len(empty) < 2:
        raise FileError(
            f"the class folder {empty[0]} holds no clip, but at least two class folders must hold video "
            "files or folders of images"
        )
    paths = [clip for clips in clips_of.values() for clip in clips]
    labels = [entry.name for entry, clips in clips_of.items() for _ in clips]
    sources = _read_index(root / INDEX)
    names = [path.relative_to(root).as_posix() for path in paths]
    if sources is not None:
        _check_index(root / INDEX, sources, names)
    return ClipFolder(
        paths,
        labels,
        None if sources is None else [sources[name] for name in names],
        [entry.name for entry in empty],
    )


def clips_under(folder: str | os.PathLike[str]) -> list[Path]:
    """List all clips below a folder, in natural order; a folder of images is one clip.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> (root / "walk").mkdir()
    >>> for name in ("b.mp4", "walk/1.png", "walk/2.png"):
    ...     (root / name).touch()
    >>> [path.name for path in clips_under(root)]
    ['b.mp4', 'walk']
    """
    root = Path(folder)
    clips = _below(root)
    if not clips:
        raise FileError(f"there is no clip in {root}, but it must hold video files or folders of images")
    return clips


def looks_like_clip(path: Path) -> bool:
    """Whether a path has the suffix of a video file, or is a folder of images.

    Examples
    --------
    >>> looks_like_clip(Path("walk.mp4")), looks_like_clip(Path("walk.csv"))
    (True, False)
    """
    if path.is_dir():
        return any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in _entries(path))
    return path.suffix.lower() in VIDEO_SUFFIXES


def _below(folder: Path) -> list[Path]:
    clips: list[Path] = []
    for entry in _entries(folder):
        if looks_like_clip(entry):
            clips.append(entry)
        elif entry.is_dir() and not entry.is_symlink():  # a link may lead to a parent folder
            clips += _below(entry)
    return clips


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, without hidden ones, in natural order."""
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except FileNotFoundError:
        raise FileError(f"there is no folder {folder}") from None
    except NotADirectoryError:
        raise FileError(f"{folder} is a file, but it must be a folder of clips") from None
    except OSError as error:
        raise FileError(f"cannot read the folder {folder}: {error.strerror or error}") from None
    return sorted(entries, key=natural_order)


def _read_index(path: Path) -> dict[str, str] | None:
    """Return the source of each clip that an index lists; None without an index."""
    if not path.exists():
        return None
    sources: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, strict=True)
            for column in ("clip", "source"):
                if column not in (table.fieldnames or ()):
                    raise FileError(
                        f"{path} has no column {column!r}, but it must have the columns 'clip' and 'source'"
                    )
            for row in table:
                clip, source = row["clip"], row["source"]
                if not (clip or "").strip() or not (source or "").strip():
                    raise FileError(f"line {table.line_num} of {path} must give both a clip and a source")
                name = clip.strip().replace("\\", "/")
                if sources.setdefault(name, source.strip()) != source.strip():
                    raise FileError(f"{path} gives two sources for {name}, but a clip has one")
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(f"{path} is not a table of comma-separated values in UTF-8: {error}") from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    return sources


def _check_index(path: Path, rows: Collection[str], clips: Collection[str]) -> None:
    """Raise an error unless the rows of the index are exactly the clips."""
    listed, present = set(rows), set(clips)
    unmatched = [name for name in rows if name not in present]
    unlisted = [name for name in clips if name not in listed]
    problems = []
    if unmatched:
        problems.append(f"{_count(unmatched, 'row names', 'rows name')} no clip ({_first(unmatched)})")
    if unlisted:
        problems.append(f"{_count(unlisted, 'clip has', 'clips have')} no row ({_first(unlisted)})")
    if problems:
        example = next(iter(clips))
        raise FileError(
            f"{path} does not match the clips: {', '.join(problems)}; there must be one row for each clip, "
            f"named by class folder and file, such as {example}"
        )


def _count(names: Collection[str], singular: str, plural: str) -> str:
    return f"1 {singular}" if len(names) == 1 else f"{len(names)} {plural}"


def _first(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
