"""``sysbags reproduce``: the paper's experiments on its own data sets, with its figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags._common.stages import Stages
from sysbags.cli._options import Jobs, Json, Seed
from sysbags.cli._output import check_out, note, number, print_json, say, show_table
from sysbags.errors import ParameterError

if TYPE_CHECKING:
    from sysbags.datasets.layouts import LayoutClips
    from sysbags.report.results import Method
    from sysbags.reproduce import Outcome

__all__ = ["reproduce"]

READING = "Departures from the paper"


class Name(StrEnum):
    """The paper's data sets."""

    DYNTEX_ALPHA = "dyntex-alpha"
    DYNTEX_BETA = "dyntex-beta"
    DYNTEX_GAMMA = "dyntex-gamma"
    YUPENN = "yupenn"


def _reading(words: str) -> Any:
    return typer.Option(help=words, metavar="N", min=1, show_default=False, rich_help_panel=READING)


def reproduce(
    name: Annotated[Name, typer.Argument(metavar="NAME", help="dyntex-alpha, -beta, -gamma or yupenn.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Holds one folder of clips a class.")],
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report too, one HTML file.")
    ] = None,
    cache: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder for finished stages, from which an interrupted run goes on."
        ),
    ] = Path(".sysbags-cache"),
    allow_incomplete: Annotated[
        bool,
        typer.Option(
            "--allow-incomplete", help="Go on if clips are missing or surplus.", rich_help_panel=READING
        ),
    ] = False,
    words: Annotated[int | None, _reading("Visual words for yupenn; 500 in the paper.")] = None,
    stride: Annotated[int | None, _reading("Take every N-th frame.")] = None,
    max_frames: Annotated[int | None, _reading("Take N frames of a clip at most.")] = None,
    size: Annotated[int | None, _reading("Shrink the short side to N pixels.")] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments on one of its data sets, and show its figures beside ours.

    DATA must hold the clips in one folder a class, as many as in the paper, as video files or folders of
    images; the paper gives no names of clips, and --json lists those found. Clips that no system can be made
    of, being too short, still or broken, are reported and left out of all rates.

    Example: sysbags reproduce dyntex-beta DynTex/beta --report beta.html
    """
    from sysbags import reproduce as experiments
    from sysbags._common.cache import Cache
    from sysbags.cli._reading import warnings_as_notes
    from sysbags.datasets.layouts import LAYOUTS

    if words is not None and name != Name.YUPENN:
        raise ParameterError(f"--words is for yupenn, but the data set is {name}")
    if report is not None:
        check_out(report)
    found = LAYOUTS[name].find(data, allow_incomplete=allow_incomplete)
    if found.differences:
        note(f"{data} is not {found.layout.title} as in the paper: {'; '.join(found.differences)}")
    read = {"stride": stride, "max_frames": max_frames, "size": size}
    options = experiments.Options(
        Cache(cache),
        {option: value for option, value in read.items() if value is not None},
        words=500 if words is None else words,
        seed=seed,
        jobs=jobs,
    )
    run, stages = experiments.yupenn if name == Name.YUPENN else experiments.dyntex, Stages()
    with warnings_as_notes():
        outcome = run(found, options, stages)
    for error in outcome.skipped.values():
        note(f"left out: {error}")
    if report is not None:
        from sysbags.report.page import write

        with stages("report"):
            write(report, outcome.evaluation, n_jobs=jobs)
    if as_json:
        print_json(_document(name, data, found, outcome, stages, cache, report))
    else:
        _show(name, outcome, stages)
        say(f"Finished stages are kept in {cache}")
        if report is not None:
            say(f"Report: {report}")


def _document(
    name: str,
    data: Path,
    found: LayoutClips,
    outcome: Outcome,
    stages: Stages,
    cache: Path,
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
            label: {"paper": found.layout.counts[label], "found": [path.name for path in members]}
            for label, members in found.members.items()
        },
        "unknown_folders": dict(found.unknown_folders),
        "skipped": [{"path": path, "error": str(error)} for path, error in outcome.skipped.items()],
        "clips": [clip.name for clip in evaluation.clips],
        "methods": [
            {
                **asdict(method),
                "settings": dict(method.settings),
                "main": k == evaluation.main,
                "per_cent": _share(method),
                "paper": method.settings["paper"],
            }
            for k, method in enumerate(evaluation.methods)
        ],
        "published": [asdict(row) for row in evaluation.published],
        "curves": [asdict(curve) for curve in evaluation.curves],
        "confusion": {
            "classes": evaluation.classes,
            "counts": evaluation.confusion().tolist(),
            "paper": published.confusion(name),
        },
        "runtimes": {
            what: {"ours": ours, "paper": paper} for what, (ours, paper) in outcome.runtimes.items()
        },
        **outcome.details,
        "facts": dict(evaluation.facts),
        "seconds": stages.seconds,
        "cache": cache,
        "report": report,
    }


def _share(method: Method) -> float:
    """Return the rate as the paper has it, in per cent: with three codebooks, the average of theirs."""
    return 100.0 * float(method.settings.get("average of the three codebooks", method.rate.share))


def _show(name: str, outcome: Outcome, stages: Stages) -> None:
    from sysbags.reproduce import published

    evaluation, skipped = outcome.evaluation, len(outcome.skipped)
    say(
        f"{evaluation.title}: {len(evaluation.clips)} clips of {len(evaluation.classes)} classes, "
        f"{skipped} left out; {evaluation.protocol}"
    )
    if outcome.details["departures"]:
        say(f"Not as in the paper: {'; '.join(outcome.details['departures'])}")
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
    _show_confusion(evaluation.classes, evaluation.confusion().tolist())
    printed = published.confusion(name)
    if printed is not None:
        say(f"The paper's, {printed['method']} ({printed['table']}):")
        _show_confusion(printed["classes"], printed["counts"])
        say(printed["note"])
    for curve in evaluation.curves:
        other = "lambda_mu" if curve.weight == "lambda_a" else "lambda_a"
        say(f"{curve.classifier} with alignment, {other} = {curve.fixed:g}:")
        pairs = zip(curve.values, curve.accuracies, strict=True)
        show_table([curve.weight, "right"], [[f"{value:g}", f"{100 * a:.1f} %"] for value, a in pairs])
    say(f"Runtimes with the alignment distance, without features (threads: {evaluation.facts['threads']}):")
    show_table(
        ["seconds", "ours", "paper"],
        [
            ["a pair" if what == "pair" else f"{what} in all", number(ours), f"{paper:g}"]
            for what, (ours, paper) in outcome.runtimes.items()
        ],
    )
    show_table(["stage", "seconds"], [[stage, number(took)] for stage, took in stages.seconds.items()])


def _show_confusion(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> None:
    heads = [str(k + 1) for k in range(len(classes))]
    rows = [
        [f"{k + 1} {label}", *[str(count or ".") for count in row]]
        for k, (label, row) in enumerate(zip(classes, counts, strict=True))
    ]
    show_table(["", *heads], rows)
