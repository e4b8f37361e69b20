"""The clips of a report or of a library as one table: the map, nearest clips, labels and predictions."""

from __future__ import annotations

import base64
import json
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sysbags._common.files import saved_contents
from sysbags._common.parallel import run
from sysbags.datasets.folder import clips_under
from sysbags.errors import FileError, SysbagsError, VideoWarning
from sysbags.evaluate.results import Clip
from sysbags.library.search import library_map
from sysbags.report.page import numbers, pictures

if TYPE_CHECKING:
    from sysbags.library import Library

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ClipRow:
    """One clip.

    `clip` is its name, such as "rain/01.mp4"; `path` where it is or should be, None if that is not known.
    `x` and `y` are its place on the map, `neighbours` the rows of the nearest other clips, nearest first.
    There is one prediction for each method of the table; the picture is a JPEG.
    """

    clip: str
    path: Path | None
    label: str | None
    source: str | None
    x: float | None
    y: float | None
    neighbours: tuple[int, ...]
    squared_distances: tuple[float, ...]
    predictions: tuple[str, ...] = ()
    picture: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class ClipTable:
    """All clips of a report or of a library.

    `methods` made the predictions, the main method of the report first; a library has none.
    """

    rows: tuple[ClipRow, ...]
    methods: tuple[str, ...] = ()

    @property
    def missing(self) -> list[Path]:
        """The clips that are not where they should be."""
        return [row.path for row in self.rows if row.path is not None and not os.path.exists(row.path)]


def report_table(path: str | os.PathLike[str], clips: str | os.PathLike[str] | None = None) -> ClipTable:
    """Read the clips of a report from the HTML file that ``sysbags evaluate --report`` has written.

    Squared distances have three digits there, and places on the map four. A report has the names of its clips
    only; with `clips`, the folder that was evaluated, the rows have their paths. A file that is not a report,
    or a folder without any of its clips, is a `FileError`.
    """
    content = _content(path)
    try:
        table = _report_table(content)
    except (IndexError, KeyError, TypeError, ValueError):
        raise FileError(f"the report {path} is damaged, or of another version: write it again") from None
    if clips is None:
        return table
    places = find_clips([row.clip for row in table.rows], Path(clips))
    if not places:
        raise FileError(f"no clip of the report {path} is in {clips}, but it must be the folder of its clips")
    expected = Path(clips).absolute()
    rows = (replace(row, path=places.get(row.clip, expected / row.clip)) for row in table.rows)
    return replace(table, rows=tuple(rows))


def _content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the data for the script of a report."""
    text = Path(path).read_bytes().decode("utf-8", "replace")
    found = DATA.search(text)
    try:
        content = json.loads(text if found is None else found[1])
    except ValueError:
        content = None
    if found is not None and isinstance(content, dict):
        return content
    if isinstance(content, dict) and "methods" in content:
        raise FileError(
            f"{path} is the JSON document of an evaluation, which has no map: "
            "export the report of `sysbags evaluate --report`"
        )
    what = f"holds {contents}, and " if (contents := saved_contents(path)) else ""
    raise FileError(f"{path} {what}is neither a report of `sysbags evaluate --report` nor a library of clips")


def _report_table(content: dict[str, Any]) -> ClipTable:
    classes, main, count = content["classes"], content["main"], len(content["clips"])
    order = [main, *(k for k in range(len(content["methods"])) if k != main)]
    columns = (
        content["clips"],
        content["truth"],
        content["plane"],
        content["neighbours"],
        content["neighbour_parts"],
        zip(*(content["predictions"][k] for k in order), strict=True),
        content["pictures"],
    )
    rows = []
    for clip, truth, (x, y), nearest, parts, predictions, picture in zip(*columns, strict=True):
        if not all(0 <= k < count for k in nearest):
            raise ValueError("a neighbour is not a row")
        rows.append(
            ClipRow(
                clip=str(clip["name"]),
                path=None,
                label=str(classes[truth]),
                source=clip["source"],
                x=x,
                y=y,
                neighbours=tuple(map(int, nearest)),
                squared_distances=tuple(numbers(sum(three)) for three in parts),
                predictions=tuple(str(classes[code]) for code in predictions),
                picture=base64.b64decode(picture, validate=True),
            )
        )
    return ClipTable(rows=tuple(rows), methods=tuple(str(content["methods"][k]) for k in order))


def find_clips(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """Return where the clips with some names are below a folder; a name is the end of a path.

    Of several clips with the same name it is the one with the shortest path.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("rain/old/rain/1.mp4", "rain/1.mp4"):
    ...     (root / name).parent.mkdir(parents=True, exist_ok=True)
    ...     (root / name).touch()
    >>> found = find_clips(["rain/1.mp4", "fire/2.mp4"], root)
    >>> [(name, path.relative_to(root).as_posix()) for name, path in found.items()]
    [('rain/1.mp4', 'rain/1.mp4')]
    """
    wanted = {PurePosixPath(name).parts: name for name in names}
    found: dict[str, Path] = {}
    for path in sorted((clip.absolute() for clip in clips_under(folder)), key=lambda one: len(one.parts)):
        for length in {len(parts) for parts in wanted}:
            name = wanted.get(path.parts[-length:])
            if name is not None:
                found.setdefault(name, path)
    return found


def library_table(library: Library, *, n_jobs: int | None = None) -> ClipTable:
    """Return the clips of a library, without pictures; the map is computed, see `library_map`."""
    found = library_map(library, n_jobs=n_jobs)
    columns = (found.clips, found.plane.tolist(), found.neighbours.tolist(), found.distances.tolist())
    return ClipTable(
        rows=tuple(
            ClipRow(
                clip=f"{clip.path.parent.name}/{clip.path.name}",
                path=clip.path,
                label=clip.label,
                source=clip.source,
                x=x,
                y=y,
                neighbours=tuple(nearest),
                squared_distances=tuple(squared),
            )
            for clip, (x, y), nearest, squared in zip(*columns, strict=True)
        )
    )


def with_pictures(table: ClipTable, *, n_jobs: int | None = None) -> ClipTable:
    """Return a table with a frame of each clip that has no picture yet, if it can be read."""

    def pictured(row: ClipRow) -> ClipRow:
        if row.picture is not None or row.path is None:
            return row
        try:
            [picture] = pictures([Clip(row.clip, row.path, "")])
        except SysbagsError:
            return row
        return replace(row, picture=picture)

    with warnings.catch_warnings():
        # Also here: `pictures` does the same in several threads, which would undo each other's filters.
        warnings.simplefilter("ignore", VideoWarning)
        return replace(table, rows=tuple(run(pictured, table.rows, n_jobs, "thumbnails")))
