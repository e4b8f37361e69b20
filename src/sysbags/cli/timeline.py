"""``sysbags timeline``: the phases of a video."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from sysbags._common.messages import Stages
from sysbags.cli._clips import warnings_as_notes
from sysbags.cli._options import (
    Json,
    NJobs,
    RandomState,
    Settings,
    argument,
    number_or_auto,
    option,
    out_option,
    with_settings,
)
from sysbags.cli._output import check_out, note, print_json, say, show_records

USUAL_RATE = 25.0  # frames per second, for a folder of images


@with_settings
def timeline(
    clip: Annotated[Path, argument("CLIP", "A video file or a folder of images.")],
    out: Annotated[Path | None, out_option("Write a page with figures.", "FILE.html")] = None,
    phases_csv: Annotated[Path | None, option("Write the phases, one per row.", "FILE.csv", "--csv")] = None,
    stats: Annotated[
        Path | None, option("Write the windows, one per row: scores and eigenvalues.", "FILE.csv")
    ] = None,
    length: Annotated[int, option("Bags in a window.", "N", min=2)] = 100,
    step: Annotated[int, option("Bags from one window to the next.", "N", min=1)] = 20,
    penalty: Annotated[str, option("What a change must gain: more gives fewer phases.", "X|auto")] = "auto",
    alpha: Annotated[
        float, option("Probability of a change point in a clip without any, for auto.", "X")
    ] = 0.05,
    framerate: Annotated[float | None, option("Frames per second.", "X", default="that of the file")] = None,
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
    for path in (out, phases_csv, stats):
        check_out(path, clip)
    from sysbags._common.files import write_table
    from sysbags._common.validation import check_positive
    from sysbags.means.compilation import compiled_for
    from sysbags.report.timeline_page import write_timeline
    from sysbags.watch.timeline import Clock, kind_records, phase_records, window_records
    from sysbags.watch.timeline import timeline as find_phases

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
        for file, records in ((phases_csv, phases), (stats, windows)):
            if file is not None:
                write_table(file, [list(records[0]), *(list(record.values()) for record in records)])
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
    show_records([{name: row[name] for name in shown} for row in phases])
    say("")
    show_records([dict(list(row.items())[:3]) for row in kinds])
    for path in filter(None, (out, phases_csv, stats)):
        say(f"written: {path}")


def _framerate(clip: Path) -> float:
    """Return the frames per second of a file."""
    from sysbags.video import container_facts

    rate = container_facts(clip)["frames_per_second"] if clip.is_file() else None
    if rate is None:
        note(f"{clip} has no frame rate: {USUAL_RATE:g} frames per second are assumed, see --framerate")
    return rate or USUAL_RATE
