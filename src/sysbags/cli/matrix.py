"""``sysbags matrix``: the distances between all clips of a folder."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer

from sysbags._common.stages import Stages
from sysbags.cli._model import Features
from sysbags.cli._options import Jobs, Json, LambdaA, LambdaMu, Metric, Model, Seed
from sysbags.cli._output import check_out, print_json, say
from sysbags.cli._settings import Settings, with_settings

__all__ = ["matrix"]


@with_settings
def matrix(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds clips, in folders or not.")],
    out: Annotated[Path, typer.Option(metavar="FILE.csv", help="The table to write, comma-separated.")],
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
    """Write the squared distances between all clips of a folder as a table.

    The first row and the first column name the clips. A bad clip is reported and skipped. The words of surf
    and sift are learnt from the clips, unless a model brings its own.

    Example: sysbags matrix clips --out distances.csv
    """
    from sysbags._common.files import atomic_write
    from sysbags.datasets.folder import clips_under
    from sysbags.distances.pairwise import pairwise_distances

    check_out(out)
    features, stages = Features.of(settings, model, lambda_a, lambda_mu, seed), Stages()
    clips = features.read(clips_under(folder), stages, jobs)
    clips.report()
    with stages("distances"):
        distances = pairwise_distances(
            clips.systems,
            metric=str(metric),
            lambda_a=features.lambda_a,
            lambda_mu=features.lambda_mu,
            random_state=seed,
            n_jobs=jobs,
        )
    names = [path.relative_to(folder).as_posix() for path in clips.paths]
    with atomic_write(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["clip", *names])
        table.writerows([name, *row] for name, row in zip(names, distances.tolist(), strict=True))
    if as_json:
        facts = {"out": out, "metric": str(metric), "clips": names, "skipped": clips.skipped()}
        print_json({**facts, "seconds": stages.seconds})
    else:
        say(f"squared {metric} distances of {len(names)} clips, {len(clips.failures)} skipped: {out}")
