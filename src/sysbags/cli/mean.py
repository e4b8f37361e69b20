"""``sysbags mean``: the Frechet mean of clips, a system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from sysbags._common.messages import Stages
from sysbags.cli._clips import Features
from sysbags.cli._options import (
    Json,
    LambdaA,
    LambdaMu,
    Model,
    NJobs,
    RandomState,
    Settings,
    argument,
    out_option,
    with_settings,
)
from sysbags.cli._output import check_out, print_json, show_facts


@with_settings
def mean(
    clips: Annotated[list[Path], argument("CLIP...", "Video files or folders of images.")],
    out: Annotated[Path, out_option("The system file to write.", "FILE")],
    lambda_a: LambdaA = None,
    lambda_mu: LambdaMu = None,
    model: Model = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Compute the Frechet mean of clips, a system, and save it.

    Its objective is the mean of the squared distances to the clips. The words of surf and sift are learnt
    from the clips, unless a model has them.

    Example: sysbags mean fire/*.mp4 --out fire.system
    """
    check_out(out, *clips, model, kind="System")
    from sysbags.means.compilation import compiled_ahead
    from sysbags.means.frechet import frechet_mean
    from sysbags.storage import save

    features, stages = Features.of(settings, model, "alignment", lambda_a, lambda_mu, random_state), Stages()
    with compiled_ahead("means"):
        read = features.read(clips, stages, n_jobs)
    read.raise_first_error()
    with stages("mean"):
        result = frechet_mean(
            read.systems[0], features.lambda_a, features.lambda_mu, random_state=random_state, n_jobs=n_jobs
        )
    system = result.system
    save(out, system)
    facts: dict[str, Any] = {
        "out": out,
        "clips": len(read.paths),
        "objective": result.objective,
        "iterations": len(result.history),
        "converged": result.converged,
        "order": system.order,
        "samples": system.size,
        "lambda_a": features.lambda_a,
        "lambda_mu": features.lambda_mu,
    }
    if as_json:
        print_json({**facts, "seconds": stages.seconds})
    else:
        show_facts(facts, digits=6)
