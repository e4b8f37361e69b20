"""``sysbags classify``: predicted classes of clips, with distances and their parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sysbags._common.stages import Stages
from sysbags.cli._model import load_model
from sysbags.cli._options import Json, NJobs
from sysbags.cli._output import note, number, print_json, show_table
from sysbags.cli._reading import read_clips

if TYPE_CHECKING:
    from sysbags.classifiers import Explanation

__all__ = ["classify"]


def classify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that fit has saved.")],
    clips: Annotated[list[Path], typer.Argument(metavar="CLIP...", help="Video files or folders of images.")],
    n_jobs: NJobs = -1,
    as_json: Json = False,
) -> None:
    """Predict the class of each clip, with its distances to all classes and their parts.

    Distances are squared; transition, observer and mean, or covariances and mean, are their shares of the
    distance to the predicted class. A clip that cannot be read is reported and skipped, and the exit code is
    then 2.

    Example: sysbags classify scenes.model new.mp4 --json
    """
    from dataclasses import asdict

    from sysbags.evaluate.compilation import compiled_for

    bags, identifier, classifier = load_model(model)
    with compiled_for(classifier.metric):
        read = read_clips(clips, bags, identifier, Stages(), n_jobs, fit=False)
    explanations = classifier.set_params(n_jobs=n_jobs).explain(read.systems[0]) if read.paths else []
    rows = dict(zip(read.paths, explanations, strict=True))
    if as_json:
        entries = {path: asdict(explanation) for path, explanation in rows.items()}
        entries |= {path: {"error": str(error)} for path, error in read.failures.items()}
        print_json({"clips": [{"path": path, **entries[path]} for path in clips]})
    elif rows:
        parts = list(explanations[0].parts)
        heads = ["clip", "label", *parts, "squared distances, the nearest first"]
        show_table(heads, [_row(path, rows[path], parts) for path in clips if path in rows])
    for error in read.failures.values():
        note(str(error))
    if read.failures:
        raise typer.Exit(2)


def _row(path: Path, explanation: Explanation, names: list[str]) -> list[str]:
    distances, parts = explanation.distances, explanation.parts
    total = sum(parts.values())
    shares = [f"{100 * parts[name] / total:.0f}%" if total else "-" for name in names]
    ranked = sorted(distances.items(), key=lambda item: item[1])
    listed = ", ".join(f"{name} {number(value)}" for name, value in ranked)
    return [str(path), str(explanation.label), *shares, listed]
