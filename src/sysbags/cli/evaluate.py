"""``sysbags evaluate``: cross-validated accuracies of several methods on the clips in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from sysbags._common.messages import Stages
from sysbags.classifiers.registry import MOMENTS
from sysbags.cli._clips import note_outcome, warnings_as_notes, without_class
from sysbags.cli._config import from_file, given
from sysbags.cli._options import (
    Classifier,
    FolderSettings,
    Json,
    NJobs,
    RandomState,
    Scheduler,
    Settings,
    argument,
    flag,
    option,
    with_settings,
)
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
from sysbags.errors import FileError, ParameterError

if TYPE_CHECKING:
    from sysbags.evaluate.results import Evaluation, Method

STREAMS = ("order", "kernel")  # settings for streams, which are not read from clips


class Protocol(StrEnum):
    """What is left out together."""

    LEAVE_ONE_OUT = "leave-one-out"
    FOLDS = "folds"
    BY_SOURCE = "by-source"
    PREDEFINED = "predefined"


@with_settings
def evaluate(
    folder: Annotated[
        Path,
        argument(
            "FOLDER|STREAMS.npz",
            "Folder with one folder of clips per class, an index.csv of labels, or a file of streams.",
        ),
    ],
    classifier: Annotated[
        Classifier | None, option("Only one classifier; auto chooses, as `sysbags fit` does.", default="all")
    ] = None,
    protocol: Annotated[
        Protocol | None,
        option(
            "Leave out one clip, one fold, or one source of index.csv at a time, or use its trials.",
            default="predefined if there are trials, by-source if there are sources",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        option(
            "Number of folds, for --protocol folds and inside training sets of predefined.",
            "N",
            min=2,
            default="10",
        ),
    ] = None,
    compare: Annotated[
        bool, flag("--compare", "Compare with all distances, averages over time and published methods.")
    ] = False,
    tune: Annotated[
        bool, flag("--tune", "Choose order, kernel, weights, neighbours and parameters of the bag too.")
    ] = False,
    report: Annotated[Path | None, option("Write a report, one HTML file.", "FILE")] = None,
    cache: Annotated[
        Path | None, option("Folder for intermediate results, which a second run reuses.", "DIR")
    ] = Path(".sysbags-cache"),
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    scheduler: Scheduler = None,
    as_json: Json = False,
    *,
    settings: FolderSettings,
) -> None:
    """Compute cross-validated accuracies of several methods.

    FOLDER has one folder per class, or an index.csv with the columns clip and label. The column source of an
    index.csv tells which clips were cut from the same recording: they are left out together. Columns with the
    words train and test are official splits, each a trial. STREAMS.npz holds labelled streams, see
    sysbags.datasets.write_streams. Metric, weights and whatever is tuned are chosen by nested
    cross-validation, without the clips that are left out; the words of surf and sift are learnt without them
    too. Each accuracy has its 95 % interval and the p-value of McNemar's test against the first line. A clip
    that cannot be read is reported and skipped.

    Example: sysbags evaluate clips --compare --report clips.html
    """
    check_out(report, folder)
    from sysbags import evaluate as evaluation
    from sysbags._common.parallel import connected

    data, settings = _read(folder, settings)
    resolved, stages = _protocol(data, protocol, folder), Stages()
    if folds is not None and not from_file("folds") and resolved not in (Protocol.FOLDS, Protocol.PREDEFINED):
        raise ParameterError("--folds goes with --protocol folds or predefined")
    cache = usable_cache(cache)
    with connected(scheduler) as client, warnings_as_notes():
        outcome = evaluation.evaluate(
            data.clips,
            data.labels,
            data.groups,
            **settings.choices(random_state, tune=tune),
            methods=None if classifier is None else [str(classifier)],
            protocol=evaluation.Protocol(name=resolved, folds=folds or 10, trials=data.trials),
            compare=compare,
            clip_names=data.names,
            title=folder.absolute().name,
            cache=cache,
            n_jobs=n_jobs,
            client=client,
            stages=stages,
        )
    note_outcome(outcome, outcome.facts["notes"])
    if report is not None:
        from sysbags.report import write_report

        _ = outcome.details  # computed here, so that their stages are not part of the report's
        with stages("report"):
            write_report(report, outcome, n_jobs=n_jobs)
    if as_json:
        document = outcome.to_dict(details=report is not None)
        document["skipped"] += data.skipped
        print_json({**document, "files": {"report": report, "cache": cache}})
    else:
        _show(outcome, len(outcome.failures) + len(data.skipped))
        if report is not None:
            say(f"Report: {report}")


class _Data(NamedTuple):
    """Labelled clips or streams."""

    clips: Sequence[Any]
    labels: Sequence[Any]
    groups: Sequence[Any] | None
    trials: dict[str, list[str]]
    names: list[str] | None = None
    skipped: Sequence[dict[str, str]] = ()


def _read(folder: Path, settings: FolderSettings) -> tuple[_Data, FolderSettings]:
    """List the clips of a folder, or read a file of streams; also return the settings that are for these."""
    if folder.suffix == ".npz":
        from sysbags.datasets.stream_files import read_streams

        unused = ["--preset"] if given(preset=settings.preset) != (None,) else []
        unused += [name for name in settings.given() if name.removeprefix("--") not in STREAMS]
        if unused:
            raise ParameterError(f"a file of streams has no clips to read: leave out {', '.join(unused)}")
        streams = read_streams(folder)
        data = _Data(streams.streams, streams.labels, streams.groups, streams.trials, streams.names)
        # Configuration files may have more, for clips.
        for_clips: dict[str, Any] = dict.fromkeys(
            field.name for field in fields(Settings) if field.name not in STREAMS
        )
        settings = replace(settings, preset=None, **for_clips)
    else:
        from sysbags.datasets.folder import class_folders

        clips = class_folders(folder)
        for text in clips.notes():
            note(text)
        skipped = without_class(folder, clips)
        data = _Data(clips.paths, clips.labels, clips.sources, clips.trials, skipped=skipped)
        settings = settings.with_preset()
    if len(set(data.labels)) < 2:
        raise FileError(f"{folder} holds a single class, {data.labels[0]}, but there must be at least two")
    return data, settings


def _protocol(data: _Data, protocol: Protocol | None, folder: Path) -> str:
    """Return the protocol: the option, or else the trials, or else by source if there are several."""
    sources = set(data.groups or ())
    if protocol == Protocol.PREDEFINED and not data.trials:
        raise FileError(
            f"{folder} has no trials, but the protocol predefined needs a column of index.csv, or the array "
            "'trials' of a file of streams, with the words train and test"
        )
    if protocol is None and data.trials:
        return str(Protocol.PREDEFINED)
    if protocol == Protocol.BY_SOURCE and len(sources) < 2:
        what = "a single source" if sources else "no sources"
        raise FileError(f"{folder} has {what}, but the protocol by-source needs at least two")
    if protocol is None and len(sources) == 1:
        note("all clips have the same source, so clips are left out, not sources")
    return str(protocol or (Protocol.BY_SOURCE if len(sources) > 1 else Protocol.LEAVE_ONE_OUT))


def _show(outcome: Evaluation, skipped: int) -> None:
    say(
        f"{len(outcome.clips)} clips of {len(outcome.classes)} classes, {skipped} skipped; {outcome.protocol}"
    )
    if any(method.classifier == MOMENTS and not method.trials for method in outcome.methods):
        say(
            "moments leaves out one of at most ten folds at a time; so does `sysbags fit`, with other folds "
            "and an embedding of all clips: its accuracy may differ by a few clips"
        )
    heads = ["method", "classifier", "accuracy", "95 % interval", "p", "seconds"]
    show_table(heads, [_row(method) for method in outcome.methods])
    if outcome.averages is not None:
        say(f"Averages over time alone: {100 * outcome.averages.rate.share:.1f} %")
    say(f"Always predicting the most frequent class: {100 * outcome.most_frequent_accuracy:.1f} %")
    confidence = outcome.confidence_summary
    if confidence is not None:
        say(
            f"Confidence of the first line: expected calibration error "
            f"{confidence['expected_calibration_error']:.3f}"
        )
        show_table(
            ["prediction sets", "hold the class", "by source", "classes in a set", "empty"],
            [
                [
                    f"{100 * row['level']:.0f} %",
                    f"{100 * row['clips']:.1f} %",
                    f"{100 * row['sources']:.1f} %",
                    f"{row['size']:.2f}",
                    f"{100 * row['empty']:.1f} %",
                ]
                for row in confidence["coverage"]
            ],
        )
    if outcome.methods[0].trials:
        trials = list(outcome.methods[0].trials)
        say("Accuracy in each trial, and their mean:")
        show_table(["method", "classifier", *trials, "mean"], [_trial_row(m) for m in outcome.methods])
    say("Settings:")
    rows = [["all systems", "", _listed({name: outcome.facts[name] for name in ("bag", "order", "kernel")})]]
    for method in outcome.methods:
        fixed = {
            name: value
            for name, value in method.settings.items()
            if not isinstance(value, dict) and value != method.classifier
        }
        rows += [[method.name, method.classifier, _listed(fixed)]] if fixed else []
    show_table(["method", "classifier", "settings"], rows)
    for method in outcome.methods:
        chosen = {name: value for name, value in method.settings.items() if isinstance(value, dict)}
        if method.kind == "systems" and chosen:
            say(f"Chosen for {method.name}, {method.classifier}, and how often:")
            counts = (", ".join(f"{v} ({count})" for v, count in value.items()) for value in chosen.values())
            show_table(["setting", "values"], zip(chosen, counts, strict=True))
    show_seconds(outcome.seconds)


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {number(v) if isinstance(v, float) else v}" for name, v in settings.items())


def _trial_row(method: Method) -> list[str]:
    shares = [*method.trials.values(), sum(method.trials.values()) / len(method.trials)]
    return [method.name, method.classifier, *(f"{100 * share:.1f} %" for share in shares)]


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
