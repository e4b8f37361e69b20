"""``sysbags evaluate``: how well clips of a folder are told apart, by every method and with its interval."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags._common.stages import Stages
from sysbags.bags.registry import BAGS
from sysbags.cli._options import Bag, Jobs, Json, Seed, number_or_auto
from sysbags.cli._output import check_out, note, number, print_json, say, show_table
from sysbags.cli._settings import DEFAULT, Settings, with_settings
from sysbags.errors import FileError

if TYPE_CHECKING:
    from sysbags.datasets.folder import ClipFolder
    from sysbags.evaluate.gather import Gathered
    from sysbags.report.results import Evaluation, Method

__all__ = ["evaluate"]

COMPARED = "Frames of the comparators"


class Protocol(StrEnum):
    """What is left out at once."""

    LEAVE_ONE_OUT = "leave-one-out"
    FOLDS = "folds"
    BY_SOURCE = "by-source"


def _reading(words: str, least: int) -> Any:
    return typer.Option(help=words, metavar="N", min=least, show_default=False, rich_help_panel=COMPARED)


@with_settings
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds one folder of clips a class.")],
    protocol: Annotated[
        Protocol | None,
        typer.Option(
            help="Leave out each clip, each fold, or each source that index.csv names.",
            show_default="by-source if there are sources",
        ),
    ] = None,
    folds: Annotated[int, typer.Option(metavar="N", min=2, help="Number of folds.")] = 10,
    lambda_a: Annotated[str, typer.Option(metavar="X|auto", help="Weight of the transition.")] = "auto",
    lambda_mu: Annotated[str, typer.Option(metavar="X|auto", help="Weight of the mean.")] = "auto",
    compare: Annotated[
        bool, typer.Option("--compare", help="All distances, averages over time, other people's methods.")
    ] = False,
    add_bag: Annotated[
        list[Bag] | None,
        typer.Option(metavar="BAG", help="A further bag beside --bag, for the kernel machine; repeatable."),
    ] = None,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Choose order, kernel, weights, neighbours and parameters of the bag."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report too, one HTML file.")
    ] = None,
    atlas: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write what the mean of each class looks like.")
    ] = None,
    cache: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for what a second run need not work out again.")
    ] = Path(".sysbags-cache"),
    compare_stride: Annotated[int | None, _reading("Take every N-th frame.", 1)] = None,
    compare_frames: Annotated[int | None, _reading("Take N frames at most.", 2)] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Tell how well the clips of a folder are told apart, each judged by others alone.

    FOLDER holds one folder a class. An optional index.csv with the columns clip and source names clips of one
    recording, which never vouch for each other. What is auto or tuned is chosen by nested cross-validation,
    never by the clips to be judged; the words of surf and sift are learnt without them. Each rate has its
    95 % interval, and McNemar's test against the first line. A bad clip is reported and skipped.

    Example: sysbags evaluate clips --compare --report clips.html
    """
    from sysbags._common.cache import Cache
    from sysbags.cli._reading import warnings_as_notes
    from sysbags.datasets.folder import class_folders
    from sysbags.evaluate.experiment import Options, experiment
    from sysbags.evaluate.features import descending_orders
    from sysbags.evaluate.gather import gather

    fixed_a, fixed_mu = number_or_auto(lambda_a, "--lambda-a"), number_or_auto(lambda_mu, "--lambda-mu")
    identifier, bags = settings.make_identifier(), settings.make_bags(seed)
    if report is not None:
        check_out(report)
    if atlas is not None:
        if atlas.is_file():
            raise FileError(f"{atlas} is a file, but the atlas is written into a folder")
        check_out(atlas / "atlas.html" if atlas.is_dir() else atlas)
    found, stages = class_folders(folder), Stages()
    if len(set(found.labels)) < 2:
        raise FileError(f"{folder} holds the one class {found.labels[0]}, but there must be at least two")
    read = {"stride": compare_stride, "max_frames": compare_frames}
    options = Options(
        order=None if settings.order is None else identifier.order,
        kernel=None if settings.kernel is None else str(settings.kernel),
        lambda_a=fixed_a,
        lambda_mu=fixed_mu,
        compare=compare,
        tune=tune,
        bag=BAGS[settings.bag or DEFAULT].title,
        add_bags={BAGS[other].title: settings.of(other).make_bags(seed) for other in add_bag or ()},
        fixed=[name for name in ("window", "words") if getattr(settings, name) is not None],
        frames={name: value for name, value in read.items() if value is not None},
    )
    with warnings_as_notes():
        good = gather(
            found,
            bags,
            _protocol(found, protocol, folder),
            orders=[identifier.order] if settings.order else descending_orders([identifier.order]),
            kernel=str(identifier.kernel),
            folds=folds,
            cache=Cache(cache),
            stages=stages,
            seed=seed,
            jobs=jobs,
        )
        for error in good.failures.values():
            note(f"skipped: {error}")
        for name in good.single_group_classes:
            note(f"the class {name} has its clips in a single group, and none is right when it is left out")
        title = folder.absolute().name
        outcome = experiment(title, good.items, good.streams, bags, good.features, options, stages)
    for text in outcome.facts["notes"]:
        note(text)
    if report is not None:
        from sysbags.report.page import write

        with stages("report"):
            write(report, outcome, n_jobs=jobs)
    if atlas is not None:
        from sysbags.report.atlas_page import write_atlas

        with stages("atlas page"):
            write_atlas(atlas, outcome, n_jobs=jobs)
    if as_json:
        print_json(_document(outcome, good, stages, {"report": report, "atlas": atlas, "cache": cache}))
        return
    _show(outcome, good, stages)
    for what, path in (("Report", report), ("Atlas", atlas and atlas / "atlas.html")):
        if path is not None:
            say(f"{what}: {path}")


def _protocol(found: ClipFolder, protocol: Protocol | None, folder: Path) -> str:
    """Return the protocol: what is asked for, or else what the index allows."""
    sources = set(found.sources or ())
    if protocol == Protocol.BY_SOURCE and len(sources) < 2:
        what = "names a single source" if sources else "is missing"
        raise FileError(
            f"{folder / 'index.csv'} {what}, but the protocol by-source needs at least two sources"
        )
    if protocol is None and len(sources) == 1:
        note("all clips come from one source, so it is clips that are left out")
    return str(protocol or (Protocol.BY_SOURCE if len(sources) > 1 else Protocol.LEAVE_ONE_OUT))


def _document(outcome: Evaluation, good: Gathered, stages: Stages, files: dict[str, Any]) -> dict[str, Any]:
    """Return all that was found, as JSON has it."""
    from dataclasses import asdict

    return {
        "title": outcome.title,
        "protocol": outcome.protocol,
        "groups": good.items.groups.tolist(),
        "classes": list(outcome.classes),
        "clips": [{"name": c.name, "label": c.label, "source": c.source} for c in outcome.clips],
        "skipped": [{"path": path, "error": str(error)} for path, error in good.failures.items()],
        "methods": [
            {**asdict(method), "share": method.rate.share, "main": k == outcome.main}
            for k, method in enumerate(outcome.methods)
        ],
        "confusion": outcome.confusion().tolist(),
        "curves": [asdict(curve) for curve in outcome.curves],
        "neighbours": outcome.relations.neighbours.tolist(),
        "atlas": [
            {
                "class": mean.label,
                "members": [outcome.clips[k].name for k in mean.members],
                "distances": list(mean.distances),
                "eigenvalues": [[value.real, value.imag] for value in mean.eigenvalues.tolist()],
            }
            for mean in outcome.atlas
        ],
        "facts": dict(outcome.facts),
        "seconds": stages.seconds,
        "files": files,
    }


def _show(outcome: Evaluation, good: Gathered, stages: Stages) -> None:
    say(
        f"{len(outcome.clips)} clips of {len(outcome.classes)} classes, {len(good.failures)} skipped; "
        f"{outcome.protocol}"
    )
    heads = ["method", "classifier", "right", "95 % interval", "p", "seconds"]
    show_table(heads, [_row(method) for method in outcome.methods])
    for method in outcome.methods:
        chosen = {name: value for name, value in method.settings.items() if isinstance(value, dict)}
        if method.kind == "systems" and chosen:
            say(f"Chosen for {method.name}, {method.classifier}, and how often:")
            counts = (", ".join(f"{v} ({count})" for v, count in value.items()) for value in chosen.values())
            show_table(["setting", "values"], zip(chosen, counts, strict=True))
    show_table(["stage", "seconds"], [[name, number(took)] for name, took in stages.seconds.items()])


def _row(method: Method) -> list[str]:
    rate, p = method.rate, method.p_value
    return [
        method.name,
        method.classifier,
        f"{100 * rate.share:.1f} %",
        f"{100 * rate.low:.1f} to {100 * rate.high:.1f}",
        "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}",
        f"{method.seconds:.1f}",
    ]
