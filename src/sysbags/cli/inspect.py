"""``sysbags inspect``: the facts of a model, a system, a normal process or a clip."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sysbags._common.files import saved_kind
from sysbags._common.messages import Stages
from sysbags.cli._clips import read_clips
from sysbags.cli._options import Json, Settings, argument, option, with_settings
from sysbags.cli._output import check_out, print_json, say, show_facts, show_records
from sysbags.errors import FileError, OrderError, ParameterError, VideoWarning

if TYPE_CHECKING:
    from sysbags.systems.system import System

Named = list[tuple[str, "System"]]


@with_settings
def inspect(
    file: Annotated[Path, argument("FILE", "A saved file, a video or a folder of images.")],
    plot: Annotated[Path | None, option("Draw the systems, as an image file.", "FILE.png")] = None,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Show the facts of a model, a system or a clip.

    These are its sizes, eigenvalues and the spectrum of the transition. An eigenvalue of the transition is an
    oscillation: its angle gives the period, its modulus the rate of decay, both in bags (one bag per frame,
    unless --window is larger). The options for frames, bags and systems are for clips. For a file of `sysbags
    watch --save-normal`, the bag, the options and the numbers of windows are shown.

    Example: sysbags inspect clip.mp4 --plot clip.png
    """
    check_out(plot, file, kind="image")
    if saved_kind(file) is not None:
        if settings.given():
            raise ParameterError(f"{', '.join(settings.given())} goes with clips, but {file} is a saved file")
        facts, systems = _saved_facts(file)
    else:
        facts, systems = _clip_facts(file, settings)
    if plot is not None:
        from sysbags.cli._plot import draw

        metric = {name: facts[name] for name in ("metric", "lambda_a", "lambda_mu") if name in facts}
        draw(systems, plot, file.name, **metric)
        facts["plot"] = plot
    facts["systems"] = [{"name": name, **_system_facts(system)} for name, system in systems]
    if as_json:
        print_json({"path": file, **facts})
    else:
        _show(facts)


def _saved_facts(file: Path) -> tuple[dict[str, Any], Named]:
    """Return the facts of a saved file, and its systems with their names or classes."""
    from sklearn.pipeline import Pipeline

    from sysbags.classifiers.base import by_bag
    from sysbags.classifiers.streams import StreamClassifier, compared
    from sysbags.evaluate.results import most_frequent_share
    from sysbags.means.frechet import FrechetMean
    from sysbags.storage import describe, load
    from sysbags.systems.system import System

    about = describe(file)
    facts: dict[str, Any] = {
        "kind": about["kind"],
        "bytes": file.stat().st_size,
        "versions": about["versions"],
    }
    if about["kind"] == "Normal":
        return facts | _normal_facts(file), []
    if about["kind"] == "Checkpoint":
        raise FileError(f"{file} is a checkpoint of sysbags watch, which the same command continues with")
    saved = load(file)
    if isinstance(saved, (System, FrechetMean)):
        return facts, [(file.stem, saved if isinstance(saved, System) else saved.system)]
    if isinstance(saved, list):
        return facts, [(str(k), system) for k, system in enumerate(saved)]
    steps = dict(saved.steps) if isinstance(saved, Pipeline) else {"parameters": saved}
    facts["steps"] = {name: str(step).replace("\n", "") for name, step in steps.items()}
    last = list(steps.values())[-1]
    if hasattr(last, "metric"):
        facts["metric"] = last.metric
    if isinstance(last, StreamClassifier) and hasattr(last, "labels_"):
        names = (
            [name for name, _ in steps["bags"].named_bags()]
            if len(last.bins_) > 1 and "bags" in steps
            else []
        )
        facts |= {
            "classes": [str(name) for name in last.classes_],
            "compared": compared(last.shares_, names),
            "accuracy": last.accuracy_,
            "averages_accuracy": last.averages_accuracy_,
            "most_frequent_accuracy": None
            if last.estimate_ is None
            else most_frequent_share(last.labels_.tolist()),
        } | _calibration(last)
    if not hasattr(last, "weights_"):
        return facts, []
    if len(last.weights_) == 1:
        facts |= dict(zip(("lambda_a", "lambda_mu"), last.weights_[0].tolist(), strict=True))
    else:
        facts |= {"lambda_a": last.weights_[:, 0].tolist(), "lambda_mu": last.weights_[:, 1].tolist()}
    facts["classes"] = [str(name) for name in last.classes_]
    if last.embedding_loss_ is not None:
        facts["embedding"] = last.embedding_loss_._asdict()
    if last.accuracies_ is not None:
        known = ("accuracy", "averages_accuracy", "most_frequent_accuracy")
        facts |= dict(zip(known, last.accuracies_.tolist(), strict=True))
    facts |= _calibration(last)
    bags = by_bag(last.members_)
    names = [name for name, _ in steps["bags"].named_bags()] if len(bags) > 1 and "bags" in steps else []
    return facts, [
        (f"{label}, {names[k]}" if names else str(label), system)
        for k, bag in enumerate(bags)
        for label, system in zip(last.labels_, bag, strict=True)
    ]


def _calibration(classifier: Any) -> dict[str, Any]:
    found = classifier.calibration_
    if found is None:
        return {}
    names = ("temperature", "groups", "smallest_alpha")
    return {"calibration": {name: getattr(found, name) for name in names}}


def _normal_facts(file: Path) -> dict[str, Any]:
    """Return the facts of a file that ``sysbags watch --save-normal`` wrote."""
    from sysbags.bags.regions import Regions
    from sysbags.bags.union import BagUnion
    from sysbags.watch.checkpoint import load_normal

    normal = load_normal(file)
    bag = normal.bag
    names: list[Any] = [None]
    titles: list[Any] = [None]
    if isinstance(bag, Regions):
        bag, names = bag.bag, bag.names
    elif isinstance(bag, BagUnion):
        titles = [title for title, _ in bag.named_bags()]
    options = dict(normal.options)
    return {
        "bag": " ".join(str(bag).split()),
        "frames_per_second": normal.rate,
        "size": normal.size,
        "learn_seconds": options.pop("learn"),
        **options,
        "regions": [
            {
                "region": name,
                "bag": title,
                "normal_windows": 0 if learnt is None else len(learnt.process.observers),
                "scored_windows": 0 if learnt is None else len(learnt.scores),
            }
            for (name, title), learnt in zip(product(names, titles), normal.learnt, strict=True)
        ],
    }


def _clip_facts(file: Path, settings: Settings) -> tuple[dict[str, Any], Named]:
    """Return the facts of a clip, and its system, if it has one, under the name of its bag."""
    from sysbags.video import container_facts, frames

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VideoWarning)  # there is a note when the clip is read for its bags
        count, height, width = 0, 0, 0
        for frame in frames(file):
            count, (height, width) = count + 1, frame.shape[:2]
    facts: dict[str, Any] = {"kind": "clip", **(container_facts(file) if file.is_file() else {})}
    facts |= {"frames": count, "height": height, "width": width}  # those that were read
    bags, identifier = settings.make_bags(), settings.make_identifier()
    try:
        clips = read_clips([file], bags, identifier, Stages(), 1, fit=True)
        clips.raise_first_error()
    except OrderError as error:  # a still or a very short clip has no system
        facts["note"] = str(error)
        return facts, []
    return facts, [(settings.names()[0], clips.systems[0][0])]


def _system_facts(system: System) -> dict[str, Any]:
    """Return the sizes, the eigenvalues and the spectrum of a system."""
    return {
        "order": system.order,
        "samples": system.size,
        "bag_length": system.bag_length,
        "kernel": system.kernel,
        "explained": system.explained,
        "residual": system.residual,
        "compression_error": None if system.compression_error is None else dict(system.compression_error),
        "eigenvalues": None if system.eigenvalues is None else system.eigenvalues.tolist(),
        "spectrum": spectrum(system),
    }


def spectrum(system: System) -> list[dict[str, float | None]]:
    """Return the eigenvalues of the transition, the largest first, one per conjugate pair.

    Each has its modulus, its angle per step, its period in steps, and the steps until it has halved.
    """
    import numpy as np

    values = np.linalg.eigvals(system.transition)
    values = values[values.imag >= 0.0]
    waves: list[dict[str, float | None]] = []
    for value in values[np.argsort(-np.abs(values), kind="stable")]:
        modulus, angle = float(abs(value)), float(np.angle(value))
        period = 2.0 * np.pi / angle if angle > 0.0 else None
        half_life = -np.log(2.0) / np.log(modulus) if 0.0 < modulus < 1.0 else None
        waves.append({"modulus": modulus, "angle": angle, "period": period, "half_life": half_life})
    return waves


def _show(facts: dict[str, Any]) -> None:
    systems, regions = facts.pop("systems"), facts.pop("regions", [])
    rows: dict[str, Any] = {}
    for name, value in facts.items():
        rows |= value if name == "steps" else {name: value}
    if len(systems) == 1:
        rows |= {
            name: value
            for name, value in systems[0].items()
            if name not in ("name", "spectrum") and value is not None
        }
    show_facts(rows)
    if systems or regions:
        say("")
    if len(systems) == 1:
        say("Spectrum of the transition")
        show_records(systems[0]["spectrum"])
    elif regions:
        show_records(regions)
    elif systems:
        say("Systems, and the largest eigenvalue of each transition")
        heads = ("name", "order", "samples")
        show_records(
            [{**{head: system[head] for head in heads}, **system["spectrum"][0]} for system in systems]
        )
