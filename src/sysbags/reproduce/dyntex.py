"""The paper's experiments on DynTex: Alpha, Beta and Gamma."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.stages import Stages
from sysbags.bags import LocalBinaryPatterns
from sysbags.bags.cached import cached_streams
from sysbags.datasets.layouts import Found
from sysbags.distances.gram import CrossGram
from sysbags.errors import SysbagsError
from sysbags.evaluate import leave_one_out
from sysbags.evaluate.assemble import curves, method, relations
from sysbags.evaluate.atlas import atlas
from sysbags.evaluate.cached_gram import cached_gram
from sysbags.evaluate.protocols import describe
from sysbags.report.results import Evaluation, Method
from sysbags.reproduce import published
from sysbags.reproduce._common import (
    DISTANCES,
    Options,
    Outcome,
    clips_of,
    departures,
    facts,
    identified,
    usable,
)

__all__ = ["dyntex"]

ORDER, LAMBDA_A, LAMBDA_MU = 5, 0.25, 0.0
BAG = "local binary patterns of grey frames, 8 neighbours, 256 bins"
CENTRES = {"alignment": "nearest mean"}  # of the other distances it is medoids


def dyntex(found: Found, options: Options, stages: Stages) -> Outcome:
    """Run the experiments on one of the sets: 1-NN and NCC with every distance, both sweeps.

    Each clip is classified by all the others. A class's centre is the Frechet mean, for the other two
    distances the medoid; that of the clip's own class is worked out without it.

    Parameters
    ----------
    found : Found
        The clips, see `Layout.find`.
    options : Options
    stages : Stages
        Told of each stage.

    Returns
    -------
    Outcome
        The main method of its evaluation is NCC with the alignment distance, the paper's confusion matrix.
    """
    name, jobs, seed = found.layout.name, options.jobs, options.seed
    bags = LocalBinaryPatterns(frames=dict(options.frames) or None)
    with stages("frames and bags"):
        read = cached_streams(options.store, bags, found.paths, n_jobs=jobs)
    with stages("systems"):
        outcomes = identified(options.store, found.paths, read, ORDER, jobs)
    failures = {p: o for p, o in zip(found.paths, outcomes, strict=True) if isinstance(o, SysbagsError)}
    clips = clips_of(found, usable(found, failures))
    systems = [outcome for outcome in outcomes if not isinstance(outcome, SysbagsError)]
    classes, codes = np.unique([clip.label for clip in clips], return_inverse=True)
    labels, groups = classes[codes], np.arange(len(clips))
    with stages("kernel"):
        kept = cached_gram(options.store, systems, jobs)
    gram, kernel_seconds = kept.gram, kept.seconds
    methods = _methods(name, gram, labels, options, stages)
    seconds = {m.classifier: m.seconds for m in methods if m.settings["metric"] == "alignment"}
    with stages("sweeps"):
        lines = curves(
            gram, labels, groups, lambda_a=LAMBDA_A, lambda_mu=LAMBDA_MU, random_state=seed, n_jobs=jobs
        )
    with stages("map and atlas"):
        places = relations(systems, gram, codes, groups, LAMBDA_A, LAMBDA_MU, random_state=seed, n_jobs=jobs)
        pages = atlas(systems, gram, labels, LAMBDA_A, LAMBDA_MU, random_state=seed, n_jobs=jobs)
    paper = published.runtimes(name)
    pairs = len(clips) * (len(clips) - 1) // 2
    runtimes = {
        "pair": ((kernel_seconds + seconds["1-NN"]) / pairs, paper["pair"]),
        "1-NN": (kernel_seconds + seconds["1-NN"], paper["1-NN"]),
        "NCC": (kernel_seconds + seconds["nearest mean"], paper["NCC"]),
    }
    told = departures(found, failures, options)
    evaluation = Evaluation(
        found.layout.title,
        describe("leave-one-out", groups),
        clips,
        tuple(map(str, classes)),
        methods,
        len(methods) - 1,
        published.rates(name),
        lines,
        tuple(systems),
        places,
        pages,
        dict(stages.seconds),
        facts(
            options,
            BAG,
            ORDER,
            told,
            lambda_a=LAMBDA_A,
            lambda_mu=LAMBDA_MU,
            **{"seconds per pair of clips, kernel and alignment": runtimes["pair"][0]},
        ),
    )
    return Outcome(evaluation, failures, runtimes, {"departures": told})


def _methods(
    name: str, gram: CrossGram, labels: np.ndarray[Any, Any], options: Options, stages: Stages
) -> tuple[Method, ...]:
    """Return the rows of the paper's two tables; the last is NCC with the alignment distance."""
    found = []
    for classifier, short in (("nearest-system", "1-NN"), ("nearest-mean", "NCC")):
        for metric, (title, row) in DISTANCES.items():
            stage = f"{short}, {title}"
            with stages(stage):
                result = leave_one_out(
                    gram,
                    labels,
                    classifier=classifier,
                    metric=metric,
                    lambda_a=LAMBDA_A,
                    lambda_mu=LAMBDA_MU,
                    random_state=options.seed,
                    n_jobs=options.jobs,
                )
            shown = short if short == "1-NN" else CENTRES.get(metric, "nearest medoid")
            settings = {"metric": metric, "paper": published.figure(name, row, short)}
            found.append((f"LBP systems, {title}", shown, result, stages.seconds[stage], settings))
    main = found[-1][2].predictions == labels
    return tuple(
        method(
            title,
            shown,
            "systems",
            result.predictions,
            labels,
            None,
            None if k == 5 else main,
            took,
            settings,
        )
        for k, (title, shown, result, took, settings) in enumerate(found)
    )
