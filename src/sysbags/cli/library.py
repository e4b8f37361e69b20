"""``sysbags library``: add clips to a library, list, search, check and export it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags.cli._clips import Features, note_skipped, note_too_short, skipped, too_short, warnings_as_notes
from sysbags.cli._config import given
from sysbags.cli._options import (
    Json,
    LambdaA,
    LambdaMu,
    Metric,
    Model,
    NJobs,
    RandomState,
    Scheduler,
    Settings,
    argument,
    flag,
    option,
    out_option,
    with_settings,
)
from sysbags.cli._output import (
    check_inputs,
    check_out,
    note,
    note_error,
    number,
    print_json,
    say,
    show_facts,
    show_table,
)
from sysbags.errors import FileError, ParameterError

if TYPE_CHECKING:
    from sysbags.library import ClipRecord, Library

library = typer.Typer(rich_markup_mode="rich", invoke_without_command=True)

IDENTIFYING = {"--order", "--kernel"}
File = Annotated[Path, argument("LIBRARY", "The file of the library.")]


@library.callback()
def about(context: typer.Context) -> None:
    """Keep the systems of many clips in one file, and search it.

    Every command prints one JSON document with --json.

    Example: sysbags library add clips.library clips, then sysbags library search clips.library new.mp4
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@contextmanager
def _opened(path: Path) -> Iterator[Library]:
    """Open a library that exists."""
    if not path.exists():
        raise FileError(f"there is no library {path}: `sysbags library add LIBRARY CLIP...` makes a library")
    from sysbags.library import Library

    with Library(path) as opened:
        len(opened)  # raises the error about a file that is not there
        yield opened


@library.command()
@with_settings
def add(
    file: File,
    clips: Annotated[
        list[Path],
        argument(
            "CLIP...", "Video files, folders of images, or folders to search; stored as absolute paths."
        ),
    ],
    compress: Annotated[int | None, option("Compress each system to at most N samples.", "N", min=1)] = None,
    landmarks: Annotated[
        int | None,
        option(
            "Landmarks of the embedding: more of them lose less, and take longer.", "N", min=1, default="500"
        ),
    ] = None,
    model: Model = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    scheduler: Scheduler = None,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Add clips to a library.

    Clips that are in it and have not changed are not read again. The first clips make the library, and
    --compress, --landmarks, --model and the options for frames, bags and systems are then fixed: leave them
    out later. With --model, searches use the metric and the weights of the model. A classifier of streams,
    the default of `sysbags fit`, has no metric: its bags are used, with the metric alignment of systems of
    the default order.

    Labels are the names of the folders in a folder that is added: clips/rain/1.mp4 has the label rain if
    clips is added, but no label if clips/rain or the file itself is added. A table index.csv in a folder that
    is added gives labels and sources.

    Clips are added one by one, so that nothing is lost if this is interrupted: add again to continue. A clip
    that cannot be read is reported and skipped.

    Example: sysbags library add clips.library clips --order 5
    """
    is_new = not file.exists()
    if not is_new:  # it has its settings: those of configuration files are for new ones
        compress, landmarks, model = given(compress=compress, landmarks=landmarks, model=model)
    check_inputs(model, some_of=clips if is_new else ())
    check_out(file, *filter(os.path.exists, clips), kind="library")
    from sysbags._common.parallel import connected
    from sysbags.library import Library

    bags = identifier = None
    metric: dict[str, Any] = {}
    chosen = set(settings.given(with_files=is_new))
    if chosen or model is not None:
        features = Features.of(settings, model, None, None, None, random_state, of_streams=True)
        # What is not given is not compared with the settings of the library.
        bags = features.bags if model is not None or chosen - IDENTIFYING else None
        identifier = features.identifier if model is not None or chosen & IDENTIFYING else None
        if model is not None:
            names = ("metric", "lambda_a", "lambda_mu")
            metric = {name: getattr(features, name) for name in names}
    with connected(scheduler) as client, Library(file) as opened, warnings_as_notes():
        result = opened.add(
            clips,
            bags=bags,
            identifier=identifier,
            compress=compress,
            landmarks=landmarks,
            **metric,
            n_jobs=n_jobs,
            client=client,
        )
        if result.failures and not result.added + result.updated + result.unchanged:
            error = next(iter(result.failures.values()))
            raise type(error)(f"none of the clips can be used: {error}")
        total = len(opened)
    counts = {"added": result.added, "updated": result.updated, "unchanged": result.unchanged}
    if as_json:
        others = {"skipped": skipped(result), "missing": result.missing, "clips": total}
        print_json({"library": file, **counts, **others})
    else:
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        say(f"{words}, {len(result.failures)} skipped; {total} clips in {file}")
    note_skipped(result.failures.values())
    if len({path.parent for path in result.unlabelled}) > 1:
        note(
            f"{len(result.unlabelled)} new clips have no label: for labels, add the folder that has "
            "one folder per class"
        )
    if result.missing:
        note(
            f"no longer on disk: {len(result.missing)} of the clips in the library, such as "
            f"{result.missing[0]}; `sysbags library remove {file} --missing` removes them"
        )


@library.command("list")
def list_clips(file: File, as_json: Json = False) -> None:
    """List the clips of a library, with labels and sources.

    Example: sysbags library list clips.library
    """
    with _opened(file) as opened:
        records = opened.clips()
    if as_json:
        print_json({"clips": [record._asdict() for record in records]})
        return
    if not records:
        note("the library has no clips")
    show_table(
        ["path", "label", "source", "frames", "order", "samples", "checksum"],
        (
            [
                *(str(record.path), record.label or "-", record.source or "-"),
                *map(str, (record.frames, record.order, record.samples)),
                record.checksum[:12],
            ]
            for record in records
        ),
    )


@library.command()
def search(
    file: File,
    clip: Annotated[Path, argument("CLIP", "A video file or a folder of images.")],
    k: Annotated[int, option("Number of clips to find.", "N", "-k", min=1)] = 10,
    exact: Annotated[bool, flag("--exact", "Find provably the nearest clips, which takes longer.")] = False,
    metric: Annotated[Metric | None, option("Distance between two systems.", default="the library's")] = None,
    lambda_a: LambdaA = None,
    lambda_mu: LambdaMu = None,
    n_jobs: NJobs = -1,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Find the clips of a library that are nearest to a clip.

    Distances are squared. Candidates are found in the embedding and their exact distances computed. A clip of
    the library is compared with the others, not with itself. The metric and its weights are by default those
    of the model that the library was made with.

    Example: sysbags library search clips.library new.mp4 -k 5
    """
    check_inputs(file, clip)
    from sysbags._common.parallel import connected
    from sysbags.library.settings import search_metric
    from sysbags.means.compilation import compiled_for

    with connected(scheduler) as client, _opened(file) as opened, warnings_as_notes():
        options = search_metric(opened, metric and str(metric), lambda_a, lambda_mu)
        with compiled_for(options["metric"]):
            found = opened.search(clip, k, exact=exact, n_jobs=n_jobs, client=client, **options)
        settings, shortest = opened.settings, min(record.frames for record in found.clips)
        orders = None if settings is None else (found.order, settings.identifier.order)
        note_too_short([too_short(clip, found.frames, shortest, "the shortest clip found", orders)])
    spent: Any = found.neighbours
    rows = list(zip(found.clips, spent.distances.tolist(), spent.lower_bounds.tolist(), strict=True))
    if as_json:
        print_json(
            {
                "library": file,
                "clip": clip,
                "exact": exact,
                **options,
                "neighbours": [
                    {
                        "rank": rank,
                        **_short(record),
                        "squared_distance": distance,
                        "squared_lower_bound": bound,
                    }
                    for rank, (record, distance, bound) in enumerate(rows, start=1)
                ],
                "blocks": int(spent.blocks),
                "alignments": int(spent.alignments),
                "pruned": float(spent.pruned) if exact else None,
            }
        )
        return
    show_table(
        ["rank", "path", "label", "squared distance", "lower bound"],
        (
            [str(rank), str(record.path), record.label or "-", number(distance), number(bound)]
            for rank, (record, distance, bound) in enumerate(rows, start=1)
        ),
    )
    pruned = f"; {spent.pruned:.1%} of the clips were ruled out by bounds" if exact else ""
    work = "alignments" if options["metric"] == "alignment" else f"{options['metric']} distances"
    say(f"{spent.blocks} kernel blocks and {spent.alignments} {work} computed{pruned}")


def _short(record: ClipRecord) -> dict[str, Any]:
    return {"path": record.path, "label": record.label, "source": record.source}


@library.command()
def duplicates(
    file: File,
    below: Annotated[
        float | None,
        option(
            "Largest squared distance of a pair.", "X", min=0.0, default="5% of the median of random pairs"
        ),
    ] = None,
    n_jobs: NJobs = -1,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Find equal clips of a library, and pairs with a small distance.

    Example: sysbags library duplicates clips.library
    """
    from sysbags._common.parallel import connected
    from sysbags.library.settings import search_metric
    from sysbags.means.compilation import compiled_for

    with connected(scheduler) as client, _opened(file) as opened:
        options = search_metric(opened)
        with compiled_for(options["metric"]):
            found = opened.duplicates(below, n_jobs=n_jobs, client=client, **options)
    if as_json:
        near = [{"paths": [one, two], "squared_distance": distance} for one, two, distance in found.near]
        pairs = {"largest_squared_distance": found.below, "equal": found.equal, "near": near}
        print_json({"library": file, **options, **pairs})
        return
    for paths in found.equal:
        say(f"equal content: {', '.join(map(str, paths))}")
    if found.near:
        show_table(
            ["clip", "other clip", "squared distance"],
            ([str(one), str(two), number(distance)] for one, two, distance in found.near),
        )
    limit = f"pairs with a squared distance of at most {number(found.below)}"
    say(f"groups of equal content: {len(found.equal)}; {limit}: {len(found.near)}")


@library.command()
def info(file: File, as_json: Json = False) -> None:
    """Show the facts of a library: clips, classes, settings, size.

    Example: sysbags library info clips.library
    """
    from sysbags.distances.projection import EmbeddingLoss

    with _opened(file) as opened:
        facts = opened.info()
    if as_json:
        print_json(facts)
        return
    show_facts(facts)
    # With fewer landmarks than wanted, these span all frames that the embedding was fitted to.
    if facts["landmarks"] is not None and facts["landmarks"] == facts["most_landmarks"]:
        loss = EmbeddingLoss(facts["landmarks"], facts["lost_median"] or 0.0, facts["lost_largest"] or 0.0)
        if loss.is_large:
            note(
                f"the embedding loses {loss.median:.0%} of the observers in the median: a new library with "
                "more --landmarks loses less"
            )


@library.command()
def verify(file: File, as_json: Json = False) -> None:
    """Check the file of a library and all checksums in it.

    The exit code is 0 if every checksum is right. Otherwise it is 1, with one sentence per problem.

    Example: sysbags library verify clips.library
    """
    total = None
    try:
        with _opened(file) as opened:
            total = len(opened)
            problems = opened.verify()
    except FileError as error:
        if not file.is_file():
            raise
        problems = [str(error)]
    if as_json:
        print_json({"library": file, "clips": total, "problems": problems})
    elif not problems:
        say(f"{total} clips in {file}: every checksum is right")
    for problem in problems:
        note_error(problem)
    if problems:
        raise typer.Exit(1)


@library.command()
def export(
    file: File,
    out: Annotated[
        Path, out_option("FILE.csv: a table; FILE.npz: arrays; any other name: a model file.", "FILE")
    ],
    as_json: Json = False,
) -> None:
    """Write the clips of a library to a table, arrays or a model.

    Example: sysbags library export clips.library --out clips.csv
    """
    check_out(out, file, kind="list")
    with _opened(file) as opened:
        opened.export(out)
        total = len(opened)
    if as_json:
        print_json({"library": file, "out": out, "clips": total})
    else:
        say(f"{total} clips of {file}: {out}")


@library.command()
def remove(
    file: File,
    clips: Annotated[list[Path] | None, argument("CLIP...", "Clips, or folders of clips.")] = None,
    missing: Annotated[bool, flag("--missing", "Remove the clips that are no longer on disk.")] = False,
    as_json: Json = False,
) -> None:
    """Remove clips from a library; the files themselves stay.

    Example: sysbags library remove clips.library clips/rain/01.mp4
    """
    if bool(clips) == missing:
        raise ParameterError("name the clips to remove, or give --missing, but not both")
    with _opened(file) as opened:
        removed = opened.remove(opened.missing() if missing else clips or [])
        total = len(opened)
    if as_json:
        print_json({"library": file, "removed": removed, "clips": total})
    else:
        say(f"{len(removed)} removed; {total} clips in {file}")
