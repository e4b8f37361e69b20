"""``sysbags fit``: a model file from a folder of labelled clips."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags._common.stages import Stages
from sysbags.classifiers.registry import CLASSIFIERS
from sysbags.cli._options import ChosenForm, ChosenMetric, Json, NJobs, RandomState, number_or_auto
from sysbags.cli._output import check_out, note, number, print_json, say, show_table
from sysbags.cli._reading import read_clips, report_skipped, skipped
from sysbags.cli._settings import Settings, with_settings
from sysbags.errors import FileError

__all__ = ["fit"]


Classifier = StrEnum("Classifier", {name: name for name in CLASSIFIERS})  # type: ignore[misc]
NEAREST_MEAN = Classifier("nearest-mean")


@with_settings
def fit(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Folder with one folder of clips per class, or an index.csv with labels."
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The model file to write.")],
    classifier: Annotated[
        Classifier, typer.Option(help="Compare with every training clip, or with the mean of each class.")
    ] = NEAREST_MEAN,
    metric: ChosenMetric = None,
    normal_form: ChosenForm = None,
    lambda_a: Annotated[str, typer.Option(metavar="X|auto", help="Weight of the transition.")] = "auto",
    lambda_mu: Annotated[str, typer.Option(metavar="X|auto", help="Weight of the mean.")] = "auto",
    compress: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE", min=1, help="Number of samples per mean, or per system; by default all."
        ),
    ] = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Fit a classifier of clips to a folder of labelled clips, and save it.

    Metric, normal form and weights are chosen by cross-validation that leaves out one clip at a time; if the
    folder has an index.csv with the columns clip and source, one source at a time. With a column label there
    need not be class folders. A weight that is given is that of the alignment distance in the paper's,
    orthonormal form, unless these are given too. A clip that cannot be read is reported and skipped.

    Example: sysbags fit clips --out scenes.model --bag lbp --order 5
    """
    from sklearn.pipeline import Pipeline

    from sysbags.classifiers import NearestMean, NearestSystem
    from sysbags.classifiers.clips import check_classes
    from sysbags.datasets.folder import class_folders
    from sysbags.distances.gram import cross_gram
    from sysbags.evaluate import choose_settings, single_group_classes
    from sysbags.evaluate.alternatives import matching_grids
    from sysbags.evaluate.compilation import compiled_ahead
    from sysbags.storage import save

    fixed_a, fixed_mu = number_or_auto(lambda_a, "--lambda-a"), number_or_auto(lambda_mu, "--lambda-mu")
    check_out(out, [folder])
    matching_grids(metric, normal_form, fixed_a, fixed_mu)  # raises for a mistake before clips are read
    bags, identifier, stages = settings.make_bags(random_state), settings.make_identifier(), Stages()
    data = class_folders(folder)
    for text in data.notes():
        note(text)
    if len(set(data.labels)) < 2:
        raise FileError(f"{folder} holds a single class, {data.labels[0]}, but there must be at least two")
    with compiled_ahead("metrics"):
        clips = read_clips(data.paths, bags, identifier, stages, n_jobs, fit=True)
    report_skipped(clips)
    labels = check_classes(data.paths, data.labels, clips)
    [systems] = clips.systems
    groups = None if data.sources is None else [data.sources[k] for k in clips.indices]
    if groups is not None and len(set(groups)) < 2:
        note("all clips have the same source, so clips are left out, not sources")
        groups = None
    with stages("kernel"):
        gram = cross_gram(systems, n_jobs=n_jobs)
    isolated_classes = single_group_classes(labels, groups or clips.paths)
    if len(isolated_classes) == len(set(labels)):
        raise FileError(
            "each class has a single clip or source, but cross-validation needs at least two in one of them"
        )
    for name in isolated_classes:
        note(f"the class {name} has a single clip or source: when that is left out, it is classified wrongly")
    with stages("leave-one-out"):
        chosen = choose_settings(
            systems,
            gram,
            labels,
            groups=groups,
            classifier=str(classifier),
            metric=metric,
            normal_form=normal_form,
            lambda_a=fixed_a,
            lambda_mu=fixed_mu,
            random_state=random_state,
            n_jobs=n_jobs,
        )
    systems = chosen.systems
    identifier.set_params(normal_form=chosen.settings["normal form"])
    weights: dict[str, Any] = {name: chosen.settings[name] for name in ("metric", "lambda_a", "lambda_mu")}
    with stages("classifier"):
        model: NearestMean | NearestSystem
        if classifier == NEAREST_MEAN:
            model = NearestMean(**weights, compress=compress, random_state=random_state, n_jobs=n_jobs)
            model.fit(systems, labels, grams=[chosen.gram])
        else:
            model = NearestSystem(**weights, random_state=random_state, n_jobs=n_jobs)
            systems = systems if compress is None else [system.compress(compress) for system in systems]
            model.fit(systems, labels)
        model.set_params(n_jobs=None)
    with stages("file"):
        save(out, Pipeline([("bags", bags), ("systems", identifier), ("classify", model)]))
    right = int((chosen.result.predictions == chosen.result.labels).sum())
    _report(
        {
            "model": out,
            "bytes": out.stat().st_size,
            "classes": {name: labels.count(name) for name in dict.fromkeys(labels)},
            "clips": len(labels),
            "skipped": skipped(clips),
            **weights,
            "normal_form": identifier.normal_form,
            "settings_tried": len(chosen.tried),
            "chosen": [
                name.replace(" ", "_")
                for name in ("metric", "normal form", "lambda_a", "lambda_mu")
                if len({setting[name] for setting in chosen.tried}) > 1
            ],
            "left_out": "clip" if groups is None else "source",
            "right": right,
            "accuracy": chosen.result.accuracy,
            "seconds": stages.seconds,
        },
        as_json,
    )


def _report(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    say(f"{facts['clips']} clips of {len(facts['classes'])} classes, {len(facts['skipped'])} skipped")
    how = "as given"
    if facts["chosen"]:
        how = f"chosen from {facts['settings_tried']} settings by leave-one-{facts['left_out']}-out"
    weights = ", ".join(f"{name} = {facts[name]:.4g}" for name in ("lambda_a", "lambda_mu"))
    say(f"metric {facts['metric']} of {facts['normal_form']} states, {weights}, {how}")
    share = f"{facts['right']} of {facts['clips']}"
    biased = ", optimistic, as it made the choice: see `sysbags evaluate`" if facts["chosen"] else ""
    say(f"leave-one-{facts['left_out']}-out accuracy {100 * facts['accuracy']:.1f} % ({share}){biased}")
    say(f"saved in {facts['model']} ({facts['bytes'] / 1e6:.2f} MB)")
    show_table(["stage", "seconds"], [[name, number(seconds)] for name, seconds in facts["seconds"].items()])
