"""``sysbags mean``: the Frechet mean of clips, as a system of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags._common.stages import Stages
from sysbags.cli._model import Features
from sysbags.cli._options import Jobs, Json, LambdaA, LambdaMu, Model, Seed
from sysbags.cli._output import check_out, print_json, show_table
from sysbags.cli._settings import Settings, with_settings

__all__ = ["mean"]


@with_settings
def mean(
    clips: Annotated[list[Path], typer.Argument(metavar="CLIP...", help="Video files or folders of images.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The system file to write.")],
    compress: Annotated[
        int | None, typer.Option(metavar="SIZE", min=1, help="Keep the mean on SIZE samples.")
    ] = None,
    lambda_a: LambdaA = None,
    lambda_mu: LambdaMu = None,
    model: Model = None,
    seed: Seed = 0,
    jobs: Jobs = -1,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Find the system in the middle of some clips, their Frechet mean, and save it.

    The objective is the mean of the squared distances from it to the clips. The words of surf and sift are
    learnt from the clips, unless a model brings its own.

    Example: sysbags mean fire/*.mp4 --out fire.system
    """
    from sysbags.means.frechet import frechet_mean
    from sysbags.storage import save

    check_out(out)
    features, stages = Features.of(settings, model, lambda_a, lambda_mu, seed), Stages()
    read = features.read(clips, stages, jobs)
    read.raise_first_error()
    with stages("mean"):
        found = frechet_mean(
            read.systems, features.lambda_a, features.lambda_mu, random_state=seed, n_jobs=jobs
        )
        system = found.system if compress is None else found.system.compress(compress)
    save(out, system)
    facts: dict[str, Any] = {
        "out": out,
        "clips": len(read.systems),
        "objective": found.objective,
        "iterations": len(found.history),
        "converged": found.converged,
        "order": system.order,
        "samples": system.size,
        "lambda_a": features.lambda_a,
        "lambda_mu": features.lambda_mu,
    }
    if system.compression_error is not None:
        facts["compression_error"] = system.compression_error["relative"]
    if as_json:
        print_json({**facts, "seconds": stages.seconds})
    else:
        show_table(["", "value"], [[name.replace("_", " "), _text(value)] for name, value in facts.items()])


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
