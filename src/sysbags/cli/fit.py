"""``sysbags fit``: a model file from a folder of labelled clips."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sysbags._common.messages import QUIET, VERBOSITY, Stages
from sysbags.cli._clips import note_outcome, skipped, warnings_as_notes, without_class
from sysbags.cli._options import (
    Classifier,
    FolderSettings,
    Json,
    NJobs,
    RandomState,
    argument,
    option,
    out_option,
    with_settings,
)
from sysbags.cli._output import check_out, note, number, print_json, say, show_seconds, usable_cache
from sysbags.errors import FileError, ParameterError

if TYPE_CHECKING:
    from sysbags.evaluate.training import TrainedModel


@with_settings
def fit(
    folder: Annotated[
        Path, argument("FOLDER", "Folder with one folder of clips per class, or an index.csv with labels.")
    ],
    out: Annotated[Path, out_option("The model file to write.", "MODEL")],
    classifier: Annotated[
        Classifier | None,
        option("The classifier; auto chooses.", default="moments, or auto with options of systems"),
    ] = None,
    compress: Annotated[
        str,
        option(
            "Samples per system: by default the fewest that change no held-out prediction.", "SIZE|auto|none"
        ),
    ] = "auto",
    cache: Annotated[
        Path | None, option("Folder for intermediate results, which a second run reuses.", "DIR")
    ] = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    as_json: Json = False,
    *,
    settings: FolderSettings,
) -> None:
    """Fit a classifier to a folder of labelled clips, and save it.

    The classifier moments compares averages over time, their course and lagged covariances. The other
    classifiers compare systems, which --compress is for: with --order, --metric, --normal-form, --lambda-a,
    --lambda-mu or --embedding, the classifier is chosen among these, and moments is left out. Everything is
    chosen by cross-validation; if the folder has an index.csv with the columns clip and source, clips of one
    source are left out together. With a column label there need not be class folders. The accuracy that is
    printed is that of nested cross-validation, which repeats all choices without the clips that are
    predicted. Without --metric and --normal-form, --lambda-a and --lambda-mu are the weights of the paper's
    distance: the metric is then alignment, and the form orthonormal. A clip that cannot be read is reported
    and skipped.

    Example: sysbags fit clips --out scenes.model --bags lbp,colour
    """
    check_out(out, folder, kind="Pipeline")
    from sysbags import evaluate
    from sysbags.datasets.folder import class_folders
    from sysbags.storage import save

    size, stages = _size(compress), Stages()
    settings = settings.with_preset()
    choices = settings.choices(random_state)
    data = class_folders(folder)
    for text in data.notes():
        note(text)
    if len(set(data.labels)) < 2:
        raise FileError(f"{folder} holds a single class, {data.labels[0]}, but there must be at least two")
    groups = data.sources
    if groups is not None and len(set(groups)) < 2:
        note("all clips have the same source, so clips are left out, not sources")
        groups = None
    with warnings_as_notes():
        trained = evaluate.train(
            data.paths,
            data.labels,
            groups,
            classifier=None if classifier is None else str(classifier),
            compress=size,
            **choices,
            cache=usable_cache(cache),
            n_jobs=n_jobs,
            stages=stages,
        )
    note_outcome(trained, trained.notes)
    with stages("file"):
        save(out, trained.pipeline)
    facts = _facts(trained, out, groups is not None, stages)
    facts["skipped"] += without_class(folder, data)
    if as_json:
        print_json(facts)
    else:
        _show(facts)


def _size(compress: str) -> int | str | None:
    if compress in ("auto", "none"):
        return "auto" if compress == "auto" else None
    if not compress.isdecimal() or int(compress) < 1:
        raise ParameterError(
            f"--compress is {compress!r}, but it must be a whole number of at least 1, auto or none"
        )
    return int(compress)


def _facts(trained: TrainedModel, out: Path, by_source: bool, stages: Stages) -> dict[str, Any]:
    items, method = trained.items, trained.method
    labels, model = items.labels.tolist(), trained.pipeline[-1]
    loss = getattr(model, "embedding_loss_", None)
    return {
        "model": out,
        "bytes": out.stat().st_size,
        "classes": {name: labels.count(name) for name in dict.fromkeys(labels)},
        "clips": len(labels),
        "skipped": skipped(trained),
        **{name.replace(" ", "_"): value for name, value in trained.settings.items()},
        "settings_tried": trained.tried,
        "chosen": [name.replace(" ", "_") for name in trained.chosen],
        "left_out": "source" if by_source else "clip",
        "right": method.rate.right,
        "estimated": method.rate.total,
        "accuracy": method.rate.share,
        "averages_accuracy": trained.averages.rate.share,
        "most_frequent_accuracy": trained.most_frequent_accuracy,
        "accuracy_interval": [method.rate.low, method.rate.high],
        "embedding": None if loss is None else loss._asdict(),
        "compression": trained.compression._asdict(),
        "smallest_alpha": None if model.calibration_ is None else model.calibration_.smallest_alpha,
        "notes": list(trained.notes),
        "seconds": stages.seconds,
    }


def _show_systems(facts: dict[str, Any]) -> None:
    """Print the settings of a classifier of systems, which an option of systems asks for."""
    from sysbags.distances.projection import EmbeddingLoss

    weights = ", ".join(
        f"{name} = {facts[name] if isinstance(facts[name], str) else number(facts[name])}"
        for name in ("lambda_a", "lambda_mu")
    )
    bags = f" of {facts['bags']}" if "bags" in facts else ""
    how = "as given"
    if facts["chosen"]:
        how = f"chosen from {facts['settings_tried']} settings by leave-one-{facts['left_out']}-out"
    say(f"{facts['classifier']}{bags}, metric {facts['metric']} of {facts['normal_form']} states, {weights}")
    say(f"settings {how}")
    if facts["embedding"] is not None:
        say(EmbeddingLoss(**facts["embedding"]).sentence())


def _show(facts: dict[str, Any]) -> None:
    say(f"{facts['clips']} clips of {len(facts['classes'])} classes, {len(facts['skipped'])} skipped")
    if "compared" in facts:
        say(f"{facts['classifier']}, squared distances: {facts['compared']}")
        how = f"folds of {facts['left_out']}s left out"
    else:
        _show_systems(facts)
        how = f"leave-one-{facts['left_out']}-out"
    low, high = facts["accuracy_interval"]
    say(
        f"accuracy by nested cross-validation, {how}: {100 * facts['accuracy']:.1f} % "
        f"({facts['right']} of {facts['estimated']}; 95 % interval {100 * low:.1f} to {100 * high:.1f} %)"
    )
    say(f"averages over time alone: {100 * facts['averages_accuracy']:.1f} %")
    say(f"always predicting the most frequent class: {100 * facts['most_frequent_accuracy']:.1f} %")
    compression = facts["compression"]
    size = ""
    if compression["size"] is not None and compression["clips"]:
        size = (
            f"; {compression['size']} samples per system are kept: for {compression['clips']} held-out clips "
            f"this changes no prediction, and the scores by {100 * compression['error']:.1f} %"
        )
    say(f"saved in {facts['model']} ({facts['bytes'] / 1e6:.2f} MB){size}")
    if VERBOSITY.get() > QUIET:
        show_seconds(facts["seconds"])
