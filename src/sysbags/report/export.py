"""Write a table of clips for other programs: Embedding Atlas, FiftyOne, or anything that reads CSV."""

from __future__ import annotations

import json
import mimetypes
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from sysbags._common import __version__
from sysbags._common.files import atomic_write, json_text, write_table
from sysbags.errors import FileError, ParameterError
from sysbags.report.clip_table import ClipTable, with_pictures

PARQUET = ".parquet"


class Exported(NamedTuple):
    """What was written.

    `columns` are the columns, or the fields of a sample; `thumbnails` is how many clips have one, None where
    the videos themselves are used; `command` is what opens it, if one program does.
    """

    columns: list[str]
    thumbnails: int | None
    command: str | None


def check_format(to: str, out: Path) -> None:
    """Raise an error, before any work, if an export cannot be written."""
    if to != "embedding-atlas":
        return
    if out.suffix != PARQUET:
        raise FileError(f"{out} must end in {PARQUET}: Embedding Atlas tells the format from the name")
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise ParameterError("--to embedding-atlas needs pyarrow: pip install 'sysbags[export]'") from None


def export_table(
    table: ClipTable, to: str, out: str | os.PathLike[str], *, n_jobs: int | None = None
) -> Exported:
    """Write a table of clips: a .parquet file for Embedding Atlas, a folder for FiftyOne, or a CSV file.

    Threads read the thumbnails.
    """
    path = Path(out)
    check_format(to, path)
    if to != "fiftyone" or not _has_videos(table):
        table = with_pictures(table, n_jobs=n_jobs)
    return FORMATS[to](table, path)


def write_parquet(table: ClipTable, path: Path) -> Exported:
    """Write a table for Embedding Atlas, with the JPEGs of the thumbnails in it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "x": pa.float64(),
        "y": pa.float64(),
        "correct": pa.bool_(),
        "neighbors": pa.struct({"ids": pa.list_(pa.int64()), "distances": pa.list_(pa.float64())}),
        "thumbnail": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
    }
    images = [
        None if row.picture is None else {"bytes": row.picture, "path": _picture_name(k)}
        for k, row in enumerate(table.rows)
    ]
    columns = _columns(table, images)
    with atomic_write(path) as temporary:
        arrays = {name: pa.array(values, kinds.get(name, pa.string())) for name, values in columns.items()}
        pq.write_table(pa.table(arrays), temporary)
    command = shlex.join(["embedding-atlas", str(path), "--x", "x", "--y", "y", "--neighbors", "neighbors"])
    return Exported(list(columns), _pictured(table), command)


def write_csv(table: ClipTable, path: Path) -> Exported:
    """Write a table of comma-separated values, and the thumbnails into a folder beside it."""
    images = _write_pictures(table, path.with_name(f"{path.stem}_thumbnails"))
    columns = _columns(table, images)
    columns["neighbors"] = [json.dumps(value) for value in columns["neighbors"]]
    write_table(path, [list(columns), *zip(*columns.values(), strict=True)])
    return Exported(list(columns), _pictured(table), None)


def write_fiftyone(table: ClipTable, folder: Path) -> Exported:
    """Write a folder that FiftyOne imports as ``fiftyone.types.FiftyOneDataset``.

    This is the form of FiftyOne before 0.8, which later versions read too: it depends on no version, and
    FiftyOne finds the types of the fields itself. The samples are the videos where FiftyOne would recognise
    all of them as videos, and the thumbnails otherwise.
    """
    videos = _has_videos(table)
    if not videos:
        _write_pictures(table, folder / "data")
    samples = [
        {"filepath": _text(row.path) if videos else f"data/{_picture_name(k)}"} | _sample(table, k)
        for k, row in enumerate(table.rows)
    ]
    info = {"made_by": f"sysbags {__version__}", "methods": list(table.methods)}
    # The metadata of an earlier export with a version would make FiftyOne read the samples in another way.
    for name, document in (("metadata.json", {"info": info}), ("samples.json", {"samples": samples})):
        with atomic_write(folder / name) as temporary:
            temporary.write_text(json_text(document), encoding="utf-8")
    fields = list(dict.fromkeys(name for sample in samples for name in sample))
    name, kind = folder.absolute().name, "fiftyone.types.FiftyOneDataset"
    command = shlex.join(
        ["fiftyone", "datasets", "create", "--name", name, "--dataset-dir", str(folder), "--type", kind]
    )
    return Exported(fields, None if videos else _pictured(table), command)


FORMATS: dict[str, Callable[[ClipTable, Path], Exported]] = {
    "embedding-atlas": write_parquet,
    "fiftyone": write_fiftyone,
    "csv": write_csv,
}


def _columns(table: ClipTable, thumbnails: list[Any]) -> dict[str, list[Any]]:
    """Return the columns that the two kinds of tables share, but for their thumbnails."""
    rows = table.rows
    columns: dict[str, list[Any]] = {
        "clip": [_text(row.clip) for row in rows],
        "thumbnail": thumbnails,
        "path": [_text(row.path) for row in rows],
        "label": [_text(row.label) for row in rows],
        "source": [_text(row.source) for row in rows],
        "x": [row.x for row in rows],
        "y": [row.y for row in rows],
    }
    for k, method in enumerate(table.methods):
        name = "prediction" if k == 0 else f"prediction: {_text(method)}"
        columns[name] = [_text(row.predictions[k]) for row in rows]
        if k == 0:
            columns["correct"] = [row.predictions[0] == row.label for row in rows]
    columns["neighbors"] = [
        {"ids": list(row.neighbours), "distances": list(row.squared_distances)} for row in rows
    ]
    return columns


def _sample(table: ClipTable, k: int) -> dict[str, Any]:
    """Return the fields of a row for FiftyOne; what is not known is left out."""
    row = table.rows[k]
    fields: dict[str, Any] = {
        "row": k,
        "clip": _text(row.clip),
        "source": _text(row.source),
        "x": row.x,
        "y": row.y,
        "ground_truth": _classification(row.label),
    }
    for method, prediction in zip(table.methods, row.predictions, strict=True):
        name = "prediction" if method == table.methods[0] else f"prediction {method}"
        fields[re.sub(r"\W+", "_", name.lower()).strip("_")] = _classification(prediction)
    if row.predictions:
        fields["correct"] = row.predictions[0] == row.label
    fields |= {"neighbors": list(row.neighbours), "squared_distances": list(row.squared_distances)}
    return {name: value for name, value in fields.items() if value is not None}


def _classification(label: str | None) -> dict[str, Any] | None:
    return None if label is None else {"_cls": "Classification", "label": _text(label)}


def _has_videos(table: ClipTable) -> bool:
    """Whether the clips are known, and FiftyOne would recognise each as a video, by its name."""
    return all(
        row.path is not None and (mimetypes.guess_type(row.path)[0] or "").startswith("video/")
        for row in table.rows
    )


def _write_pictures(table: ClipTable, folder: Path) -> list[str | None]:
    """Write the thumbnails, and return their paths from the folder above."""
    written: list[str | None] = []
    for k, row in enumerate(table.rows):
        if row.picture is None:
            written.append(None)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _picture_name(k)).write_bytes(row.picture)
        written.append(f"{folder.name}/{_picture_name(k)}")
    return written


def _pictured(table: ClipTable) -> int:
    return sum(row.picture is not None for row in table.rows)


def _picture_name(row: int) -> str:
    return f"{row:05d}.jpg"


def _text(value: str | Path | None) -> str | None:
    """Return text that can be encoded: a file name need not be."""
    return None if value is None else str(value).encode("utf-8", "replace").decode()
