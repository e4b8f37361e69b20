"""``sysbags classify``: labels for clips, and what the distances are made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags._common.stages import Stages
from sysbags.cli._model import load_model
from sysbags.cli._options import Jobs, Json
from sysbags.cli._output import note, number, print_json, show_table
from sysbags.cli._reading import read_clips

if TYPE_CHECKING:
    from sysbags.classifiers.nearest import NearestMean, NearestSystem
    from sysbags.systems.system import System

__all__ = ["classify", "verdict"]

PARTS = ("transition", "observer", "mean")


def classify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that fit has saved.")],
    clips: Annotated[list[Path], typer.Argument(metavar="CLIP...", help="Video files or folders of images.")],
    jobs: Jobs = -1,
    as_json: Json = False,
) -> None:
    """Say which class each clip belongs to, how far it is from every class, and why.

    Distances are squared; transition, observer and mean are their shares in the distance to the class found.
    A bad clip is reported, the others go on, and the exit code is then 2.

    Example: sysbags classify scenes.model new.mp4 --json
    """
    from sysbags._common.parallel import run

    bags, identifier, classifier = load_model(model)
    read = read_clips(clips, bags, identifier, Stages(), jobs, learn=False)
    judged = run(lambda system: verdict(system, classifier), read.systems, jobs, "verdicts")
    verdicts = dict(zip(read.paths, judged, strict=True))
    if as_json:
        known = verdicts | {path: {"error": str(error)} for path, error in read.failures.items()}
        print_json({"clips": [{"path": path, **known[path]} for path in clips]})
    elif verdicts:
        heads = ["clip", "label", *PARTS, "squared distances, the nearest first"]
        show_table(heads, [_row(path, verdicts[path]) for path in clips if path in verdicts])
    for error in read.failures.values():
        note(str(error))
    if read.failures:
        raise typer.Exit(2)


def verdict(system: System, classifier: NearestMean | NearestSystem) -> dict[str, Any]:
    """Return the label of a system, its squared distance to every class, and the parts of the label's.

    The distance to a class is that to its centre, or to its nearest training system. Only the alignment
    distance has parts, and they sum to it.
    """
    import numpy as np

    from sysbags.classifiers.nearest import NearestMean
    from sysbags.classifiers.votes import vote
    from sysbags.distances.alignment import align
    from sysbags.distances.pairwise import pairwise_distances

    weights: dict[str, Any] = {
        "lambda_a": classifier.lambda_a,
        "lambda_mu": classifier.lambda_mu,
        "random_state": classifier.random_state,
    }
    classes = [str(name) for name in classifier.classes_]
    aligned = classifier.metric == "alignment"
    winner = None
    if isinstance(classifier, NearestMean):
        members = classifier.centers_
        distances = [] if aligned else pairwise_distances([system], members, classifier.metric)[0].tolist()
    else:
        between = pairwise_distances([system], classifier.systems_, classifier.metric, **weights)
        codes = classifier._codes
        winner = int(vote(between, codes, len(classes), classifier.n_neighbors)[0])
        nearest = [int(np.where(codes == code, between[0], np.inf).argmin()) for code in range(len(classes))]
        members = [classifier.systems_[k] for k in nearest]
        distances = between[0, nearest].tolist()
    parts: list[dict[str, float]] = [{}] * len(classes)
    if aligned:
        found = [align(system, member, **weights) for member in members]
        distances, parts = [one.distance for one in found], [one.parts for one in found]
    winner = int(np.argmin(distances)) if winner is None else winner
    return {
        "label": classes[winner],
        "distances": dict(zip(classes, distances, strict=True)),
        "parts": parts[winner],
    }


def _row(path: Path, found: dict[str, Any]) -> list[str]:
    distances, parts = found["distances"], found["parts"]
    total = sum(parts.values())
    shares = [f"{100 * parts[part] / total:.0f}%" if total else "-" for part in PARTS]
    listed = ", ".join(f"{name} {number(distances[name])}" for name in sorted(distances, key=distances.get))
    return [str(path), found["label"], *shares, listed]
