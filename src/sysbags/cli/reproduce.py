"""``sysbags reproduce``: the experiments of the paper on its data sets, with its results beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags._common.messages import Stages
from sysbags.cli._clips import note_skipped, skipped, warnings_as_notes
from sysbags.cli._config import from_file
from sysbags.cli._options import Json, NJobs, RandomState, argument, option
from sysbags.cli._output import (
    check_out,
    note,
    number,
    print_json,
    say,
    show_seconds,
    show_table,
    usable_cache,
)
from sysbags.errors import ParameterError

if TYPE_CHECKING:
    from sysbags.datasets.layouts import LayoutClips
    from sysbags.evaluate.results import Method
    from sysbags.reproduce import Outcome

READING = "Differences from the paper"


class Name(StrEnum):
    """The paper's data sets."""

    DYNTEX_ALPHA = "dyntex-alpha"
    DYNTEX_BETA = "dyntex-beta"
    DYNTEX_GAMMA = "dyntex-gamma"
    YUPENN = "yupenn"


def _reading(words: str) -> Any:
    return typer.Option(help=words, metavar="N", min=1, show_default=False, rich_help_panel=READING)


def reproduce(
    name: Annotated[Name, argument("NAME", "dyntex-alpha, -beta, -gamma or yupenn.")],
    data: Annotated[Path, argument("DATA", "Folder with one folder of clips per class.")],
    report: Annotated[Path | None, option("Write a report, one HTML file.", "FILE")] = None,
    cache: Annotated[
        Path | None, option("Folder for intermediate results; an interrupted run continues from them.", "DIR")
    ] = Path(".sysbags-cache"),
    allow_incomplete: Annotated[
        bool,
        option(
            "Continue if the number of clips is not that of the paper.",
            None,
            "--allow-incomplete",
            rich_help_panel=READING,
        ),
    ] = False,
    words: Annotated[int | None, _reading("Visual words for yupenn; 500 in the paper.")] = None,
    stride: Annotated[int | None, _reading("Use every N-th frame.")] = None,
    max_frames: Annotated[int | None, _reading("Use at most N frames per clip.")] = None,
    size: Annotated[int | None, _reading("Shrink the short side to N pixels.")] = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments on one of its data sets.

    Its results are shown beside ours. DATA has one folder per class with as many clips as in the paper, video
    files or folders of images. The paper does not name its clips; --json lists those that were used. Clips
    that have no system, because they are too short, still or damaged, are reported and left out of all
    results.

    Example: sysbags reproduce dyntex-beta DynTex/beta --report beta.html
    """
    check_out(report, data)
    from sysbags import reproduce as experiments
    from sysbags._common.cache import Cache
    from sysbags.datasets.layouts import LAYOUTS

    if words is not None and name != Name.YUPENN and not from_file("words"):
        raise ParameterError(f"--words goes with yupenn, but the data set is {name}")
    clips = LAYOUTS[name].find(data, allow_incomplete=allow_incomplete)
    if clips.differences:
        note(f"{data} is not {clips.layout.title} as in the paper: {'; '.join(clips.differences)}")
    cache = usable_cache(cache)
    read = {"stride": stride, "max_frames": max_frames, "size": size}
    options = experiments.Options(
        cache=Cache(cache),
        frames={option: value for option, value in read.items() if value is not None},
        words=500 if words is None else words,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    run, stages = experiments.yupenn if name == Name.YUPENN else experiments.dyntex, Stages()
    with warnings_as_notes():
        outcome = run(clips, options, stages)
    note_skipped(outcome.evaluation.failures.values())
    _ = outcome.evaluation.details  # computed here, so that their stages are not part of the report's
    if report is not None:
        from sysbags.report import write_report

        with stages("report"):
            write_report(report, outcome.evaluation, n_jobs=n_jobs)
    if as_json:
        print_json(_document(name, data, clips, outcome, stages, cache, report))
    else:
        _show(name, outcome, stages)
        if cache is not None:
            say(f"Intermediate results: {cache}")
        if report is not None:
            say(f"Report: {report}")


def _document(
    name: str,
    data: Path,
    clips: LayoutClips,
    outcome: Outcome,
    stages: Stages,
    cache: Path | None,
    report: Path | None,
) -> dict[str, Any]:
    from dataclasses import asdict

    from sysbags.reproduce import published

    evaluation = outcome.evaluation
    return {
        "set": name,
        "title": evaluation.title,
        "data": data,
        "protocol": evaluation.protocol,
        "classes": {
            label: {"paper": clips.layout.counts[label], "found": [path.name for path in members]}
            for label, members in clips.members.items()
        },
        "unknown_folders": dict(clips.unknown_folders),
        "skipped": skipped(evaluation),
        "clips": [clip.name for clip in evaluation.clips],
        "methods": [
            {
                **method.to_dict(),
                "main": k == evaluation.main,
                "per_cent": _share(method),
                "paper": method.settings["paper"],
            }
            for k, method in enumerate(evaluation.methods)
        ],
        "published": [asdict(row) for row in evaluation.published],
        "curves": [asdict(curve) for curve in evaluation.details.curves],
        "confusion": {
            "classes": evaluation.classes,
            "counts": evaluation.confusion.tolist(),
            "paper": published.confusion(name),
        },
        "runtimes": {
            what: {"ours": ours, "paper": paper} for what, (ours, paper) in outcome.runtimes.items()
        },
        "departures": outcome.departures,
        **outcome.details,
        "facts": dict(evaluation.facts),
        "seconds": stages.seconds,
        "cache": cache,
        "report": report,
    }


def _share(method: Method) -> float:
    """Return the accuracy in per cent; with three codebooks the average of theirs, as in the paper."""
    return 100.0 * float(method.settings.get("average of the three codebooks", method.rate.share))


def _show(name: str, outcome: Outcome, stages: Stages) -> None:
    from sysbags.reproduce import published

    evaluation = outcome.evaluation
    say(
        f"{evaluation.title}: {len(evaluation.clips)} clips of {len(evaluation.classes)} classes, "
        f"{len(evaluation.failures)} skipped; {evaluation.protocol}"
    )
    if outcome.departures:
        say(f"Not as in the paper: {'; '.join(outcome.departures)}")
    rows = [
        [
            method.name,
            method.classifier,
            f"{_share(method):.1f} %",
            f"{100 * method.rate.low:.1f} to {100 * method.rate.high:.1f}",
            f"{method.settings['paper']:.1f} %",
        ]
        for method in evaluation.methods
    ]
    rows += [
        [f"{row.name} (published)", row.classifier, "-", "-", f"{row.rate:.1f} %"]
        for row in evaluation.published
        if not row.name.startswith("SoB")
    ]
    show_table(["method", "classifier", "ours", "95 % interval", "paper"], rows)
    main = evaluation.methods[evaluation.main]
    say(f"Confusion of {main.name}, {main.classifier}; rows are true classes:")
    _show_confusion(evaluation.classes, evaluation.confusion.tolist())
    printed = published.confusion(name)
    if printed is not None:
        say(f"The paper's, {printed['method']} ({printed['table']}):")
        _show_confusion(printed["classes"], printed["counts"])
        say(printed["note"])
    for curve in evaluation.details.curves:
        fixed_weight = "lambda_mu" if curve.weight == "lambda_a" else "lambda_a"
        say(f"{curve.classifier} with alignment, {fixed_weight} = {curve.fixed:g}:")
        pairs = zip(curve.values, curve.accuracies, strict=True)
        show_table([curve.weight, "accuracy"], [[f"{value:g}", f"{100 * a:.1f} %"] for value, a in pairs])
    say(f"Seconds for alignment distances, without features, on {evaluation.facts['threads']} threads:")
    show_table(
        ["seconds", "ours", "paper"],
        [
            ["one pair" if what == "pair" else f"{what}, all clips", number(ours), f"{paper:g}"]
            for what, (ours, paper) in outcome.runtimes.items()
        ],
    )
    show_seconds(stages.seconds)


def _show_confusion(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> None:
    heads = [str(k + 1) for k in range(len(classes))]
    rows = [
        [f"{k + 1} {label}", *[str(count or ".") for count in row]]
        for k, (label, row) in enumerate(zip(classes, counts, strict=True))
    ]
    show_table(["", *heads], rows)
