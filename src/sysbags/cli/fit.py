"""``sysbags fit``: from a folder of class folders to a model file."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags._common.stages import Stages
from sysbags.cli._options import Jobs, Json, Seed, number_or_auto
from sysbags.cli._output import check_out, note, number, print_json, say, show_table
from sysbags.cli._reading import Clips, read_clips
from sysbags.cli._settings import Settings, with_settings
from sysbags.errors import FileError

if TYPE_CHECKING:
    from sysbags.datasets.folder import ClipFolder

__all__ = ["fit"]


class Classifier(StrEnum):
    """What a clip is compared with."""

    NEAREST_MEAN = "nearest-mean"
    NEAREST_SYSTEM = "nearest-system"


@with_settings
def fit(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds one folder of clips a class.")],
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The model file to write.")],
    classifier: Annotated[
        Classifier, typer.Option(help="Compare with the mean of each class, or with every clip.")
    ] = Classifier.NEAREST_MEAN,
    lambda_a: Annotated[str, typer.Option(metavar="X|auto", help="Weight of the transition.")] = "auto",
    lambda_mu: Annotated[str, typer.Option(metavar="X|auto", help="Weight of the mean.")] = "auto",
    compress: Annotated[
        int | None, typer.Option(metavar="SIZE", min=1, help="Keep means, or systems, on SIZE samples.")
    ] = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Learn to classify clips from a folder that holds one folder a class.

    Weights that are "auto" are chosen by leaving out one clip after the other; if the folder has an index.csv
    with the columns clip and source, one source after the other. A bad clip is reported and skipped.

    Example: sysbags fit clips --out scenes.model --bag lbp --order 5
    """
    from sklearn.pipeline import Pipeline

    from sysbags.classifiers import NearestMean, NearestSystem
    from sysbags.datasets.folder import class_folders
    from sysbags.distances.gram import cross_gram
    from sysbags.evaluate import LAMBDA_A_GRID, LAMBDA_MU_GRID, choose_weights
    from sysbags.storage import save

    fixed_a, fixed_mu = number_or_auto(lambda_a, "--lambda-a"), number_or_auto(lambda_mu, "--lambda-mu")
    check_out(out)
    bags, identifier, stages = settings.make_bags(seed), settings.make_identifier(), Stages()
    found = class_folders(folder)
    if len(set(found.labels)) < 2:
        raise FileError(f"{folder} holds the one class {found.labels[0]}, but there must be at least two")
    clips = read_clips(found.paths, bags, identifier, stages, jobs, learn=True)
    labels = _labels(found, clips)
    groups = None if found.sources is None else [found.sources[k] for k in clips.kept]
    if groups is not None and len(set(groups)) < 2:
        note("all clips come from one source, so it is clips that are left out")
        groups = None
    with stages("kernel"):
        gram = cross_gram(clips.systems, n_jobs=jobs)
    single_group_classes = _single_group_classes(labels, groups or clips.paths)
    if len(single_group_classes) == len(set(labels)):
        raise FileError(
            "each class has a single clip or source, so none can be left out to judge by: there must be two"
        )
    for name in single_group_classes:
        note(f"the class {name} has a single clip or source, which is never right when it is left out")
    with stages("leave-one-out"):
        chosen = choose_weights(
            gram,
            labels,
            groups=groups,
            classifier=str(classifier),
            lambda_a=LAMBDA_A_GRID if fixed_a is None else fixed_a,
            lambda_mu=LAMBDA_MU_GRID if fixed_mu is None else fixed_mu,
            random_state=seed,
            n_jobs=jobs,
        )
    weights: dict[str, Any] = {"lambda_a": chosen.lambda_a, "lambda_mu": chosen.lambda_mu}
    with stages("classifier"):
        systems = clips.systems
        judge: NearestMean | NearestSystem
        if classifier == Classifier.NEAREST_MEAN:
            judge = NearestMean(**weights, compress=compress, random_state=seed, n_jobs=jobs)
        else:
            judge = NearestSystem(**weights, random_state=seed, n_jobs=jobs)
            systems = systems if compress is None else [system.compress(compress) for system in systems]
        judge.fit(systems, labels).set_params(n_jobs=None)
    with stages("file"):
        save(out, Pipeline([("bags", bags), ("systems", identifier), ("classify", judge)]))
    right = int((chosen.result.predictions == chosen.result.labels).sum())
    _report(
        {
            "model": out,
            "bytes": out.stat().st_size,
            "classes": {name: labels.count(name) for name in dict.fromkeys(labels)},
            "clips": len(labels),
            "skipped": clips.skipped(),
            **weights,
            "chosen": [
                name for name, fixed in zip(weights, (fixed_a, fixed_mu), strict=True) if fixed is None
            ],
            "left_out": "clip" if groups is None else "source",
            "right": right,
            "accuracy": chosen.result.accuracy,
            "seconds": stages.seconds,
        },
        as_json,
    )


def _labels(found: ClipFolder, clips: Clips) -> list[str]:
    """Report the clips to skip, and return the labels of the others."""
    clips.report()
    labels = [found.labels[k] for k in clips.kept]
    for label in found.labels:
        if label not in labels:
            raise FileError(f"no clip of the class {label} can be used, but each class needs at least one")
    return labels


def _single_group_classes(labels: list[str], groups: Sequence[object]) -> list[str]:
    """Return the classes that have all their clips from one group."""
    pairs = set(zip(labels, groups, strict=True))
    return [name for name in dict.fromkeys(labels) if sum(label == name for label, _ in pairs) < 2]


def _report(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    say(f"{facts['clips']} clips of {len(facts['classes'])} classes, {len(facts['skipped'])} skipped")
    for name in ("lambda_a", "lambda_mu"):
        how = f"chosen by leaving one {facts['left_out']} out" if name in facts["chosen"] else "as given"
        say(f"{name} = {facts[name]:g}, {how}")
    share = f"{facts['right']} of {facts['clips']}"
    flattered = ", a little too good, as the weights were chosen by it" if facts["chosen"] else ""
    say(f"leave-one-{facts['left_out']}-out accuracy {100 * facts['accuracy']:.1f} % ({share}){flattered}")
    say(f"saved in {facts['model']} ({facts['bytes'] / 1e6:.2f} MB)")
    show_table(["stage", "seconds"], [[name, number(took)] for name, took in facts["seconds"].items()])
