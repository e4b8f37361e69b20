"""Clips on disk: a folder of class folders, or any folder that has clips somewhere below it."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

from sysbags._common.files import IMAGE_SUFFIXES, natural_order
from sysbags.errors import FileError

__all__ = ["VIDEOS", "ClipFolder", "class_folders", "clips_under"]

# fmt: off
VIDEOS = frozenset({
    ".3gp", ".asf", ".avi", ".flv", ".gif", ".m2ts", ".m4v", ".mjpeg", ".mkv", ".mov", ".mp4", ".mpeg",
    ".mpg", ".mts", ".mxf", ".ogg", ".ogv", ".ts", ".vob", ".webm", ".wmv", ".y4m",
})
# fmt: on
INDEX = "index.csv"


@dataclass(frozen=True)
class ClipFolder:
    """What `class_folders` found.

    Attributes
    ----------
    paths : list of Path
        The clips: video files, or folders of images.
    labels : list of str
        The class of each clip, the name of its folder.
    sources : list of str or None
        What each clip was cut from, if there is an index that says so.
    """

    paths: list[Path]
    labels: list[str]
    sources: list[str] | None


def class_folders(folder: str | os.PathLike[str]) -> ClipFolder:
    """Find the clips of a folder that holds one folder a class.

    A clip is a video file, known by its suffix, or a folder of images. Classes and clips come in natural
    order (2 before 10); names that begin with a dot are left out. An optional table ``index.csv`` in the
    folder, with the columns ``clip`` ("class/file") and ``source``, tells which clips were cut from the
    same recording; a clip that it does not list is its own source.

    Parameters
    ----------
    folder : path

    Returns
    -------
    ClipFolder

    Raises
    ------
    FileError
        If the folder is missing, holds no class folder, or a class folder without a clip, or if the
        index is not what it must be.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("rain/10.mp4", "rain/9.mp4", "fire/a.avi", "fire/notes.txt"):
    ...     (root / name).parent.mkdir(exist_ok=True)
    ...     (root / name).touch()
    >>> found = class_folders(root)
    >>> [path.name for path in found.paths], found.labels, found.sources
    (['a.avi', '9.mp4', '10.mp4'], ['fire', 'rain', 'rain'], None)
    """
    root = Path(folder)
    classes = [entry for entry in _entries(root) if entry.is_dir()]
    if not classes:
        raise FileError(f"{root} holds no folder, but it must hold one folder of clips for each class")
    paths: list[Path] = []
    labels: list[str] = []
    for kind in classes:
        clips = [entry for entry in _entries(kind) if _is_clip(entry)]
        if not clips:
            raise FileError(
                f"the class folder {kind} holds no clip, but it must hold video files or folders of images"
            )
        paths += clips
        labels += [kind.name] * len(clips)
    names = [path.relative_to(root).as_posix() for path in paths]
    index = _read_index(root / INDEX)
    return ClipFolder(paths, labels, None if index is None else [index.get(name) or name for name in names])


def clips_under(folder: str | os.PathLike[str]) -> list[Path]:
    """Find all clips below a folder, in natural order; a folder of images is one clip.

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
    found = _below(root)
    if not found:
        raise FileError(f"there is no clip in {root}, but it must hold video files or folders of images")
    return found


def _below(folder: Path) -> list[Path]:
    found: list[Path] = []
    for entry in _entries(folder):
        if _is_clip(entry):
            found.append(entry)
        elif entry.is_dir() and not entry.is_symlink():  # a link may lead back up
            found += _below(entry)
    return found


def _entries(folder: Path) -> list[Path]:
    """Return what a folder holds, but for hidden files, in natural order."""
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except FileNotFoundError:
        raise FileError(f"there is no folder {folder}") from None
    except NotADirectoryError:
        raise FileError(f"{folder} is a file, but it must be a folder of clips") from None
    except OSError as error:
        raise FileError(f"cannot read the folder {folder}: {error.strerror or error}") from None
    return sorted(entries, key=natural_order)


def _is_clip(path: Path) -> bool:
    if path.is_dir():
        return any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in _entries(path))
    return path.suffix.lower() in VIDEOS


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
                if not clip or source is None:
                    raise FileError(f"line {table.line_num} of {path} must give both a clip and a source")
                name = clip.strip().replace("\\", "/")
                if sources.setdefault(name, source.strip()) != source.strip():
                    raise FileError(f"{path} gives two sources for {name}, but a clip has one")
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(f"{path} is not a table of comma-separated values in UTF-8: {error}") from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    return sources
