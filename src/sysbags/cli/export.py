"""``sysbags export``: the clips of a report or of a library, for other programs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from sysbags._common.files import saved_kind
from sysbags.cli._options import Json, NJobs, argument, option, out_option
from sysbags.cli._output import check_out, note, print_json, say
from sysbags.errors import FileError, ParameterError


class Format(StrEnum):
    """What is written."""

    EMBEDDING_ATLAS = "embedding-atlas"
    FIFTYONE = "fiftyone"
    CSV = "csv"


def export(
    source: Annotated[
        Path,
        argument(
            "REPORT.html|LIBRARY",
            "A report of `sysbags evaluate --report`, or a library of `sysbags library add`.",
        ),
    ],
    to: Annotated[Format, option("The program that reads it, or a table for any other.")],
    out: Annotated[
        Path, out_option("A file: .parquet for embedding-atlas, .csv for csv. A folder for fiftyone.", "PATH")
    ],
    clips: Annotated[
        Path | None,
        option("The folder that was evaluated, as a report does not say where its clips are.", "FOLDER"),
    ] = None,
    n_jobs: NJobs = -1,
    as_json: Json = False,
) -> None:
    """Write the map of a report or a library for other programs.

    There is one row per clip: its place on the map, its nearest clips with their squared distances, label,
    source, a thumbnail, and of a report the predictions of all methods. A clip that is missing has no
    thumbnail. For fiftyone the videos themselves are used, if it is known where they are. embedding-atlas
    needs pyarrow, which the extra `export` installs.

    Example: sysbags export clips.html --to embedding-atlas --out clips.parquet
    """
    is_folder = to is Format.FIFTYONE
    if is_folder and out.is_file():
        raise FileError(f"{out} is a file, but fiftyone reads a folder")
    check_out(out / "samples.json" if is_folder and out.is_dir() else out, source, clips)
    from sysbags.library import Library
    from sysbags.means.compilation import compiled_for
    from sysbags.report.clip_table import library_table, report_table
    from sysbags.report.export import check_format, export_table

    check_format(to, out)
    if saved_kind(source) == "library":
        if clips is not None:
            raise ParameterError("--clips goes with a report: a library knows where its clips are")
        with Library(source) as library, compiled_for("alignment"):
            table = library_table(library, n_jobs=n_jobs)
    else:
        table = report_table(source, clips)
    written = export_table(table, to, out, n_jobs=n_jobs)
    missing = table.missing
    if as_json:
        print_json(
            {
                "source": source,
                "to": to,
                "out": out,
                "clips": len(table.rows),
                "methods": table.methods,
                "columns": written.columns,
                "thumbnails": written.thumbnails or 0,
                "missing": missing,
                "command": written.command,
            }
        )
    else:
        say(f"{len(table.rows)} clips of {source}: {out}")
        if written.command is not None:
            say(f"open it: {written.command}")
    if is_folder and table.methods and clips is None:
        note("a report does not say where its clips are: without --clips FOLDER, fiftyone shows thumbnails")
    if missing:
        note(f"no longer on disk: {len(missing)} of the clips, such as {missing[0]}")
    unreadable = 0 if written.thumbnails is None else len(table.rows) - len(missing) - written.thumbnails
    if unreadable > 0:
        note(f"{unreadable} of the clips cannot be read, and have no thumbnail")
