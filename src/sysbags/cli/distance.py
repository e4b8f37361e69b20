"""``sysbags distance``: the distance between two clips."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

from sysbags._common.messages import Stages
from sysbags.cli._clips import Features, note_too_short, too_short
from sysbags.cli._options import (
    Json,
    LambdaA,
    LambdaMu,
    Model,
    NJobs,
    OptionalMetric,
    RandomState,
    Settings,
    argument,
    with_settings,
)
from sysbags.cli._output import check_inputs, number, print_json, show_table
from sysbags.distances import METRICS


@with_settings
def distance(
    first: Annotated[Path, argument("CLIP", "A video file or a folder of images.")],
    second: Annotated[Path, argument("CLIP", "Another clip.")],
    metric: OptionalMetric = None,
    lambda_a: LambdaA = None,
    lambda_mu: LambdaMu = None,
    model: Model = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Compute the squared distance between two clips.

    The alignment distance comes with its parts and with a lower bound of it over all rotations of the
    states, all squared. The words of surf and sift are learnt from the two clips, unless a model has them.

    Example: sysbags distance one.mp4 two.mp4 --lambda-mu 10
    """
    check_inputs(first, second, model)
    from sysbags.distances.alignment import align
    from sysbags.distances.pairwise import pairwise_distances
    from sysbags.means.compilation import compiled_for

    features = Features.of(settings, model, metric, lambda_a, lambda_mu, random_state)
    with compiled_for(features.metric):
        clips = features.read([first, second], Stages(), n_jobs)
    clips.raise_first_error()
    facts: dict[str, Any] = {"clips": [first, second], "metric": features.metric}
    weights: dict[str, Any] = {"lambda_a": features.lambda_a, "lambda_mu": features.lambda_mu}
    first_system, second_system = clips.systems[0]
    lengths, wanted = [len(stream) for stream in clips.streams[0]], features.identifier.order
    note_too_short(
        too_short(path, rows, max(lengths), "the other clip", (system.order, wanted))
        for path, rows, system in zip(clips.paths, lengths, clips.systems[0], strict=True)
    )
    if features.metric == "alignment":
        alignment = align(first_system, second_system, **weights, random_state=random_state)
        squared = alignment.distance
        facts |= {
            "squared_distance": squared,
            "squared_lower_bound": alignment.lower_bound,
            "squared_parts": alignment.parts,
            **weights,
        }
    else:
        squared = float(pairwise_distances([first_system], [second_system], features.metric, **weights)[0, 0])
        facts |= {"squared_distance": squared, **(weights if METRICS[features.metric].weighted else {})}
    facts["root_of_squared_distance"] = math.sqrt(squared)
    if as_json:
        print_json(facts)
        return
    rows = {f"squared {features.metric} distance": squared}
    rows |= {f"  {name} part": part for name, part in facts.get("squared_parts", {}).items()}
    rows |= {"  lower bound": facts["squared_lower_bound"]} if "squared_lower_bound" in facts else {}
    rows |= {f"  {name}": facts[name] for name in ("lambda_a", "lambda_mu") if name in facts}
    rows |= {"root of squared distance": facts["root_of_squared_distance"]}
    show_table(["", "value"], ([name, number(value)] for name, value in rows.items()))
