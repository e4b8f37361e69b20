"""``sysbags timeline``: the phases of a video."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags._common.messages import Stages
from sysbags.cli._clips import warnings_as_notes
from sysbags.cli._options import Json, NJobs, RandomState, Settings, number_or_auto, with_settings
from sysbags.cli._output import check_out, note, number, print_json, say, show_table

__all__ = ["timeline"]

USUAL_RATE = 25.0  # frames per second, for a folder of images


@with_settings
def timeline(
    clip: Annotated[Path, typer.Argument(metavar="CLIP", help="A video file or a folder of images.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.html", help="Write a page with figures.")
    ] = None,
    phases_csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE.csv", help="Write the phases, one per row.")
    ] = None,
    stats: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Write the windows, one per row: scores and eigenvalues."),
    ] = None,
    length: Annotated[int, typer.Option(metavar="N", min=2, help="Bags in a window.")] = 100,
    step: Annotated[int, typer.Option(metavar="N", min=1, help="Bags from one window to the next.")] = 20,
    penalty: Annotated[
        str,
        typer.Option(metavar="X|auto", help="What a change must gain: more gives fewer phases."),
    ] = "auto",
    alpha: Annotated[
        float,
        typer.Option(metavar="X", help="Probability of a change point in a clip without any, for auto."),
    ] = 0.05,
    framerate: Annotated[
        float | None,
        typer.Option(metavar="X", show_default="that of the file", help="Frames per second."),
    ] = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Divide a video into phases, and find those that return.

    In a phase the dynamics do not change. Phases with the same label do not differ; the label -1 is for
    stretches that have no system, such as a still picture. Frames are counted from 0, and the end of a phase
    is the first frame after it. A clip should be at least eight windows long. This needs ruptures, which the
    extra `watch` installs.

    Example: sysbags timeline clip.mp4 -o clip.html --csv phases.csv
    """
    from sysbags._common.validation import check_positive
    from sysbags.means.compilation import compiled_for
    from sysbags.report.timeline_page import write_timeline
    from sysbags.watch.timeline import Clock, kind_records, phase_records, window_records
    from sysbags.watch.timeline import timeline as find_phases

    for path in filter(None, (out, phases_csv, stats)):
        check_out(path, [clip])
    bag, identifier, stages = settings.make_bags(random_state), settings.make_identifier(), Stages()
    amount = number_or_auto(penalty, "--penalty")
    if framerate is not None:
        check_positive(framerate, "--framerate")
    with compiled_for("alignment"), warnings_as_notes():
        with stages("frames and bags"):
            stream = (bag.fit([clip]) if bag.requires_fit else bag).stream(clip)
        clock = Clock(
            framerate or _framerate(clip),
            start=settings.start or 0,
            frames_per_row=(settings.stride or 1) * (settings.window or 1),
        )
        result = find_phases(
            stream,
            length=length,
            step=step,
            order=identifier.order,
            kernel=identifier.kernel,
            penalty="auto" if amount is None else amount,
            alpha=alpha,
            rate=clock.rate / clock.frames_per_row,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        phases, kinds = phase_records(result, clock), kind_records(result, clock)
        windows = window_records(result, clock)
        if phases_csv is not None:
            _write_csv(phases_csv, phases)
        if stats is not None:
            _write_csv(stats, windows)
        if out is not None:
            with stages("page"):
                write_timeline(out, result, clock, clip, title=clip.name)
    facts: dict[str, Any] = {
        "clip": clip,
        "frames_per_second": clock.rate,
        "lambda_a": result.lambda_a,
        "lambda_mu": result.lambda_mu,
        "landmarks": result.landmarks,
        "penalty": result.penalty,
        "change_seconds": [clock.seconds(row) for row in result.change_points],
    }
    if as_json:
        print_json({**facts, "labels": kinds, "phases": phases, "windows": windows})
        return
    shown = ("phase", "label", "start_timecode", "end_timecode", "start_frame", "end_frame", "length_seconds")
    show_table(
        [name.replace("_", " ") for name in shown], [[_text(row[name]) for name in shown] for row in phases]
    )
    say("")
    show_table(list(kinds[0])[:3], [[_text(value) for value in list(row.values())[:3]] for row in kinds])
    for path in filter(None, (out, phases_csv, stats)):
        say(f"written: {path}")


def _framerate(clip: Path) -> float:
    """Return the frames per second of a file."""
    from sysbags.video import container_facts

    rate = container_facts(clip)["frames_per_second"] if clip.is_file() else None
    if rate is None:
        note(f"{clip} has no frame rate: {USUAL_RATE:g} frames per second are assumed, see --framerate")
    return rate or USUAL_RATE


def _write_csv(path: Path, records: Sequence[dict[str, Any]]) -> None:
    from sysbags._common.files import atomic_write

    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(records[0]))
        table.writeheader()
        table.writerows(records)


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
