"""``sysbags matrix``: the distances between all clips in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sysbags._common.messages import Stages
from sysbags.cli._clips import Features, report_skipped, skipped
from sysbags.cli._options import (
    Json,
    LambdaA,
    LambdaMu,
    Model,
    NJobs,
    OptionalMetric,
    RandomState,
    Scheduler,
    Settings,
    argument,
    out_option,
    with_settings,
)
from sysbags.cli._output import check_out, print_json, say


@with_settings
def matrix(
    folder: Annotated[Path, argument("FOLDER", "Folder with clips, also in folders below it.")],
    out: Annotated[Path, out_option("The table to write, comma-separated values.", "FILE.csv")],
    metric: OptionalMetric = None,
    lambda_a: LambdaA = None,
    lambda_mu: LambdaMu = None,
    model: Model = None,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    scheduler: Scheduler = None,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Write a table of the squared distances between all clips.

    The first row and the first column are the names of the clips. A clip that cannot be read is reported and
    skipped. The words of surf and sift are learnt from the clips, unless a model has them.

    Example: sysbags matrix clips --out distances.csv
    """
    check_out(out, folder, model)
    from sysbags._common.files import write_table
    from sysbags._common.parallel import connected, use_client
    from sysbags.datasets.folder import clips_under
    from sysbags.distances.pairwise import pairwise_distances
    from sysbags.means.compilation import compiled_for

    features = Features.of(settings, model, metric, lambda_a, lambda_mu, random_state)
    stages = Stages()
    with connected(scheduler) as client, use_client(client):
        with compiled_for(features.metric):
            clips = features.read(clips_under(folder), stages, n_jobs)
        report_skipped(clips)
        with stages("distances"):
            distances = pairwise_distances(
                clips.systems[0],
                metric=features.metric,
                lambda_a=features.lambda_a,
                lambda_mu=features.lambda_mu,
                random_state=random_state,
                n_jobs=n_jobs,
            )
    names = [path.relative_to(folder).as_posix() for path in clips.paths]
    rows = ([name, *row] for name, row in zip(names, distances.tolist(), strict=True))
    write_table(out, [["clip", *names], *rows])
    if as_json:
        facts = {"out": out, "metric": features.metric, "clips": names, "skipped": skipped(clips)}
        print_json({**facts, "seconds": stages.seconds})
    else:
        count = f"{len(names)} clips, {len(clips.failures)} skipped"
        say(f"squared {features.metric} distances between {count}: {out}")
