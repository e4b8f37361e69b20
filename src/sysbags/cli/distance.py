"""``sysbags distance``: how far are two clips apart?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags._common.stages import Stages
from sysbags.cli._model import Features
from sysbags.cli._options import Jobs, Json, LambdaA, LambdaMu, Metric, Model, Seed
from sysbags.cli._output import number, print_json, show_table
from sysbags.cli._settings import Settings, with_settings

__all__ = ["distance"]


@with_settings
def distance(
    first: Annotated[Path, typer.Argument(metavar="CLIP", help="A video file or a folder of images.")],
    second: Annotated[Path, typer.Argument(metavar="CLIP", help="Another.")],
    metric: Annotated[Metric, typer.Option(help="Which distance.")] = Metric.ALIGNMENT,
    lambda_a: LambdaA = None,
    lambda_mu: LambdaMu = None,
    model: Model = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Measure the distance between two clips.

    For the alignment distance also its parts and a lower bound that no rotation of the states goes below. The
    words of surf and sift are learnt from the two clips, unless a model brings its own.

    Example: sysbags distance one.mp4 two.mp4 --lambda-mu 10
    """
    from sysbags.distances.alignment import align
    from sysbags.distances.pairwise import pairwise_distances

    features = Features.of(settings, model, lambda_a, lambda_mu, seed)
    clips = features.read([first, second], Stages(), jobs)
    clips.raise_first_error()
    facts: dict[str, Any] = {"clips": [first, second], "metric": str(metric)}
    if metric == Metric.ALIGNMENT:
        one, other = clips.systems
        found = align(one, other, features.lambda_a, features.lambda_mu, random_state=seed)
        facts |= {"squared_distance": found.distance, "distance": math.sqrt(found.distance)}
        facts |= {"lower_bound": found.lower_bound, "parts": found.parts}
        facts |= {"lambda_a": features.lambda_a, "lambda_mu": features.lambda_mu}
    else:
        squared = float(pairwise_distances(clips.systems[:1], clips.systems[1:], str(metric))[0, 0])
        facts |= {"squared_distance": squared, "distance": math.sqrt(squared)}
    if as_json:
        print_json(facts)
        return
    rows = [[f"{metric} distance", facts["distance"]], ["squared", facts["squared_distance"]]]
    rows += [[f"  {name}", part] for name, part in facts.get("parts", {}).items()]
    rows += [["  lower bound", facts["lower_bound"]]] if "lower_bound" in facts else []
    show_table(["", "value"], [[name, number(value)] for name, value in rows])
