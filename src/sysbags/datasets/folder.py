"""Clips on disk: one folder per class, a table of labels, or all clips below a folder."""

from __future__ import annotations

import csv
import os
import posixpath
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from sysbags._common.files import IMAGE_SUFFIXES, VIDEO_SUFFIXES, natural_order, saved_contents
from sysbags.errors import FileError, SysbagsError

INDEX = "index.csv"
MOST_NAMES = 3  # clips that an error message names
NAMED_COLUMNS = ("clip", "label", "source")
TRIAL_PARTS = ("train", "test")


@dataclass(frozen=True)
class ClipFolder:
    """The result of `class_folders`.

    Attributes
    ----------
    paths : list of Path
        The clips: video files, or folders of images.
    labels : list of str
        The class of each clip: its label in the index, or the name of its folder.
    sources : list of str or None
        The recording that each clip was cut from, if the index has the column ``source``.
    empty : list of str
        Class folders without a clip, which are skipped.
    trials : dict of str to list of str
        The official splits of the index: for each column, "train" or "test" for each clip, or "" if the
        clip is not used in this trial.
    unlabelled : list of str
        Video files beside the class folders, which are skipped.

    Examples
    --------
    >>> ClipFolder([Path("fire/1.mp4")], ["fire"], None, empty=["snow"]).notes()
    ['skipped: the class folder snow holds no clip']
    """

    paths: list[Path]
    labels: list[str]
    sources: list[str] | None
    empty: list[str] = field(default_factory=list)
    trials: dict[str, list[str]] = field(default_factory=dict)
    unlabelled: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return one sentence for each class folder that is skipped, and for each clip without a class."""
        return [f"skipped: the class folder {name} holds no clip" for name in self.empty] + [
            f"skipped: {name} is in no class folder" for name in self.unlabelled
        ]


def class_folders(folder: str | os.PathLike[str]) -> ClipFolder:
    r"""List the labelled clips of a folder: one folder per class, or a table with a label for each clip.

    A clip is a video file, recognised by its suffix, or a folder of images. Classes and clips come in natural
    order (2 before 10); names that begin with a dot are ignored. A class folder without a clip is skipped
    if at least two classes remain, and so are video files beside the class folders.

    The folder may hold a table ``index.csv``, in UTF-8. It must list exactly the clips that are there: with a
    missing row, clips of one recording would be in the training and the test set at once. Its columns are:

    * ``clip``: the path of the clip in the folder, such as "fire/01.mp4".
    * ``label`` (optional): the class of the clip. With this column there need not be class folders: the clips
      may be anywhere below the folder.
    * ``source`` (optional): the recording that the clip was cut from.
    * Any other column that holds the words "train" and "test" is a trial, an official split: the clips of its
      training set and of its test set. A clip with an empty cell is not used in this trial.

    At least one of these must be there besides ``clip``. Columns with other contents are ignored.

    Raises
    ------
    FileError
        If the folder is missing; if there are no labels and it holds no class folder, or has empty class
        folders and fewer than two others; if the index is not such a table, or its rows are not the clips.

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

    A table with labels and one trial:

    >>> rows = ["clip,label,trial1", "rain/9.mp4,wet,train", "rain/10.mp4,wet,test", "fire/a.avi,dry,train"]
    >>> _ = (root / "index.csv").write_text("\n".join(rows))
    >>> clips = class_folders(root)
    >>> clips.labels, clips.trials
    (['dry', 'wet', 'wet'], {'trial1': ['train', 'train', 'test']})
    """
    root = Path(folder)
    classes = [entry for entry in _entries(root) if entry.is_dir()]
    index = _read_index(root / INDEX)
    unlabelled: list[str] = []
    if index is None or index.labels is None:
        paths, labels, empty = _clips_of_classes(root, classes)
        unlabelled = [entry.name for entry in _entries(root) if not entry.is_dir() and looks_like_clip(entry)]
        names = [_name(path, root) for path in paths]
        if index is not None:
            _check_index(root / INDEX, index.clips, names, "class folder and file")
    else:
        names = _clips_of_labels(root, index.labels)
        paths, labels, empty = [root / name for name in names], [index.labels[name] for name in names], []
    if index is None:
        return ClipFolder(paths, labels, None, empty, unlabelled=unlabelled)
    return ClipFolder(
        paths,
        labels,
        None if index.sources is None else [index.sources[name] for name in names],
        empty,
        {trial: [parts[name] for name in names] for trial, parts in index.trials.items()},
        unlabelled,
    )


def clips_under(folder: str | os.PathLike[str]) -> list[Path]:
    """List all clips below a folder, in natural order; a folder of images is one clip. None is a `FileError`.

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
    if os.path.isdir(path):  # also False without permission, where `Path.is_dir` raises an error
        return any(entry.suffix.lower() in IMAGE_SUFFIXES for entry in _entries(path))
    return path.suffix.lower() in VIDEO_SUFFIXES


def check_trial(
    words: Sequence[str], title: str, places: Sequence[str], error: type[SysbagsError] = FileError
) -> list[str]:
    """Return a trial, an official split, as "train", "test" or "" (not used) for each item.

    Capitals and surrounding spaces are ignored. `title` and `places` are the names of the trial and of each
    item in error messages; `error` is raised for any other word, and if one of the two sets is empty.
    """
    parts = [word.strip().lower() for word in words]
    for part, word, place in zip(parts, words, places, strict=True):
        if part and part not in TRIAL_PARTS:
            raise error(
                f"{place} has {word!r} in {title}, but a trial (an official split) has only the words "
                "'train' and 'test', and empty cells"
            )
    for part in TRIAL_PARTS:
        if part not in parts:
            raise error(
                f"{title} has no {part!r}, but a trial (an official split) needs at least one 'train' and "
                "one 'test'"
            )
    return parts


def _clips_of_classes(root: Path, classes: list[Path]) -> tuple[list[Path], list[str], list[str]]:
    """Return the clips of class folders, their labels, and the names of the folders without a clip."""
    if not classes:
        raise FileError(
            f"{root} holds no folder, but it must hold one folder of clips for each class, or a table "
            f"{INDEX} with the columns 'clip' and 'label'"
        )
    clips_of = {entry: [clip for clip in _entries(entry) if looks_like_clip(clip)] for entry in classes}
    empty = [entry for entry, clips in clips_of.items() if not clips]
    if empty and len(classes) - len(empty) < 2:
        raise FileError(
            f"the class folder {empty[0]} holds no clip, but at least two class folders must hold video "
            "files or folders of images"
        )
    paths = [clip for clips in clips_of.values() for clip in clips]
    labels = [entry.name for entry, clips in clips_of.items() for _ in clips]
    return paths, labels, [entry.name for entry in empty]


def _clips_of_labels(root: Path, labels: dict[str, str]) -> list[str]:
    """Return the names of the clips of an index with labels, ordered by label, then by name."""
    if not labels:
        clips_under(root)  # raises an error that says more if there are no clips either
    opened = {root / parent for name in labels for parent in PurePosixPath(name).parents}
    _check_index(
        root / INDEX, labels, [_name(path, root) for path in _below(root, opened)], "its path in the folder"
    )
    return sorted(labels, key=lambda name: (_natural(labels[name]), _natural(name)))


def _natural(text: str) -> tuple[list[tuple[list[tuple[bool, int, str]], str]], str]:
    """Return a sort key that compares the parts of a path one by one, with digits as numbers."""
    return [natural_order(Path(part)) for part in text.split("/")], text


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _below(folder: Path, opened: Collection[Path] = ()) -> list[Path]:
    """Return the clips below a folder.

    Folders in `opened` are not clips, even if they hold images, and are entered, even if they are links.
    """
    clips: list[Path] = []
    for entry in _entries(folder):
        if looks_like_clip(entry) and entry not in opened:
            clips.append(entry)
        elif entry.is_dir() and (entry in opened or not entry.is_symlink()):  # a link may lead to a parent
            clips += _below(entry, opened)
    return clips


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, without hidden ones, in natural order."""
    try:
        entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    except FileNotFoundError:
        raise FileError(f"there is no folder {folder}") from None
    except NotADirectoryError:
        what = f"holds {contents}" if (contents := saved_contents(folder)) else "is a file"
        raise FileError(f"{folder} {what}, but it must be a folder of clips") from None
    except OSError as error:
        raise FileError(f"cannot read the folder {folder}: {error.strerror or error}") from None
    return sorted(entries, key=natural_order)


@dataclass(frozen=True)
class _Index:
    """The columns of an index: each is a dictionary from the name of a clip to its cell."""

    clips: list[str]
    labels: dict[str, str] | None
    sources: dict[str, str] | None
    trials: dict[str, dict[str, str]]


def _read_index(path: Path) -> _Index | None:
    """Return the contents of an index; None if there is no such file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.reader(file, strict=True)
            header = [cell.strip() for cell in next(table, [])]
            rows = [([cell.strip() for cell in row], table.line_num) for row in table if row]
    except FileNotFoundError:
        return None
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(f"{path} is not a table of comma-separated values in UTF-8: {error}") from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    cells = [[row[i] if i < len(row) else "" for row, _ in rows] for i in range(len(header))]
    lines = [line for _, line in rows]
    named = _named_columns(path, header, cells, lines)
    trials = _trial_columns(path, header, cells, lines)
    if rows and len(named) == 1 and not trials:
        raise FileError(
            f"{path} has no column 'source', no column 'label' and no column with the words 'train' and "
            "'test', but it must have at least one of these besides the column 'clip'"
        )
    # A path with "./" must not look like a second clip.
    clips = [posixpath.normpath(clip.replace("\\", "/")) for clip in named["clip"]]

    def by_clip(column: list[str], what: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for clip, value in zip(clips, column, strict=True):
            if values.setdefault(clip, value) != value:
                raise FileError(f"{path} gives two {what} for {clip}, but a clip has one")
        return values

    return _Index(
        list(dict.fromkeys(clips)),
        by_clip(named["label"], "labels") if "label" in named else None,
        by_clip(named["source"], "sources") if "source" in named else None,
        {trial: by_clip(parts, f"entries of the column {trial!r}") for trial, parts in trials.items()},
    )


def _named_columns(
    path: Path, header: list[str], cells: list[list[str]], lines: list[int]
) -> dict[str, list[str]]:
    """Return the cells of the columns clip, label and source that are there; none of them may be empty."""
    if "clip" not in header:
        raise FileError(
            f"{path} has no column 'clip', but it must have the columns 'clip' and 'source', or 'clip' and "
            "'label'"
        )
    names: list[str] = [name for name in NAMED_COLUMNS if name in header]
    for name in names:
        if header.count(name) > 1:
            raise FileError(f"{path} has {header.count(name)} columns {name!r}, but it must have one")
    named = {name: cells[header.index(name)] for name in names}
    contents = {1: "a clip", 2: f"both a clip and a {names[-1]}", 3: "a clip, a label and a source"}
    for line, row in zip(lines, zip(*named.values(), strict=True), strict=True):
        if not all(row):
            raise FileError(f"line {line} of {path} must give {contents[len(names)]}")
    return named


def _trial_columns(
    path: Path, header: list[str], cells: list[list[str]], lines: list[int]
) -> dict[str, list[str]]:
    """Return the columns that hold train and test; columns without these words are ignored."""
    trials: dict[str, list[str]] = {}
    places = [f"line {line}" for line in lines]
    for i, (name, column) in enumerate(zip(header, cells, strict=True)):
        if name in NAMED_COLUMNS or not any(cell.lower() in TRIAL_PARTS for cell in column):
            continue
        if not name or name in trials:
            what = f"the same name as another, {name!r}" if name else "no name"
            raise FileError(
                f"column {i + 1} of {path} holds 'train' or 'test' and has {what}, but each trial needs "
                "a name of its own"
            )
        trials[name] = check_trial(column, f"the column {name!r} of {path}", places)
    return trials


def _check_index(path: Path, rows: Collection[str], clips: Collection[str], naming: str) -> None:
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
        example = f", such as {next(iter(clips))}" if clips else ""
        raise FileError(
            f"{path} does not match the clips: {', '.join(problems)}; there must be one row for each clip, "
            f"named by {naming}{example}"
        )


def _count(names: Collection[str], singular: str, plural: str) -> str:
    return f"1 {singular}" if len(names) == 1 else f"{len(names)} {plural}"


def _first(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
