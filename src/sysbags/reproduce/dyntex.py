"""The paper's experiments on DynTex: Alpha, Beta and Gamma."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sysbags._common.messages import Stages
from sysbags.bags import LocalBinaryPatterns
from sysbags.classifiers.identifier import describe_clips
from sysbags.datasets.layouts import LayoutClips
from sysbags.distances import METRICS
from sysbags.distances.gram import CrossGram
from sysbags.evaluate import leave_one_out
from sysbags.evaluate.atlas import atlas
from sysbags.evaluate.details import curves, relations
from sysbags.evaluate.features import cached_gram, cached_system
from sysbags.evaluate.methods import make_method
from sysbags.evaluate.results import Details, Evaluation, Method
from sysbags.evaluate.splits import EvaluationSet
from sysbags.reproduce import published
from sysbags.reproduce.common import KERNEL, ROWS, Options, Outcome, departures, evaluation_set, facts

ORDER, LAMBDA_A, LAMBDA_MU = 5, 0.25, 0.0
BAG = "local binary patterns of grey frames, 8 neighbours, 256 bins"
PAPER_NAME = {"nearest-system": "1-NN", "nearest-mean": "NCC"}  # what the paper calls the classifiers


def dyntex(layout: LayoutClips, options: Options, stages: Stages) -> Outcome:
    """Run the experiments on one of the sets: nearest system and nearest mean with every metric, both sweeps.

    Each clip is classified by all the others. The center of a class is the Frechet mean, for the other two
    metrics the medoid; that of the clip's own class is computed without it. The main method is the nearest
    mean with the alignment distance, of which the paper shows the confusion matrix.
    """
    name = layout.layout.name
    clips = describe_clips(
        layout.paths,
        LocalBinaryPatterns(frames=dict(options.frames) or None),
        partial(cached_system, cache=options.cache, orders=[ORDER], kernel=KERNEL),
        cache=options.cache,
        n_jobs=options.n_jobs,
        stages=stages,
    )
    items = evaluation_set(layout, clips, options)
    [systems] = clips.systems
    with stages("kernel"):
        cached = cached_gram(options.cache, systems, options.n_jobs)
    gram = cached.gram
    methods = _methods(name, gram, items, stages)
    seconds = {m.classifier: m.seconds for m in methods if m.settings["metric"] == "alignment"}
    weights = LAMBDA_A, LAMBDA_MU
    common: dict[str, Any] = {"random_state": options.random_state, "n_jobs": options.n_jobs}

    def details() -> Details:
        with stages("sweeps"):
            lines = curves(gram, items.labels, items.groups, lambda_a=LAMBDA_A, lambda_mu=LAMBDA_MU, **common)
        with stages("map and atlas"):
            return Details(
                curves=lines,
                systems=tuple(systems),
                relations=relations(gram, *weights, **common),
                atlas=atlas(systems, gram, items.labels, *weights, **common),
            )

    paper = published.runtimes(name)
    pairs = len(items.clips) * (len(items.clips) - 1) // 2
    runtimes = {
        "pair": ((cached.seconds + seconds["nearest-system"]) / pairs, paper["pair"]),
        **{name: (cached.seconds + seconds[name], paper[PAPER_NAME[name]]) for name in PAPER_NAME},
    }
    listed = departures(layout, clips, options)
    evaluation = Evaluation(
        title=layout.layout.title,
        protocol=items.protocol,
        clips=items.clips,
        groups=tuple(items.groups.tolist()),
        classes=tuple(np.unique(items.labels).tolist()),
        methods=methods,
        main=len(methods) - 1,
        published=published.rates(name),
        make_details=details,
        failures=clips.failures,
        seconds=stages.seconds,
        facts=facts(
            options,
            BAG,
            ORDER,
            listed,
            lambda_a=LAMBDA_A,
            lambda_mu=LAMBDA_MU,
            **{"seconds per pair of clips, kernel and alignment": runtimes["pair"][0]},
        ),
    )
    return Outcome(evaluation=evaluation, runtimes=runtimes, departures=listed)


def _methods(name: str, gram: CrossGram, items: EvaluationSet, stages: Stages) -> tuple[Method, ...]:
    """Return the rows of the paper's two tables; the last is the nearest mean with the alignment distance."""
    rows = [
        (metric, classifier)
        for classifier in PAPER_NAME
        for metric in ("martin", "max-singular-value", "alignment")
    ]
    results = {}
    for metric, classifier in rows:
        with stages(f"{classifier}, {METRICS[metric].title}"):
            results[metric, classifier] = leave_one_out(
                gram,
                items.labels,
                classifier=classifier,
                metric=metric,
                lambda_a=LAMBDA_A,
                lambda_mu=LAMBDA_MU,
                random_state=items.random_state,
                n_jobs=items.n_jobs,
            )
    main_right = results[rows[-1]].predictions == items.labels
    return tuple(
        make_method(
            f"LBP systems, {METRICS[metric].title}",
            "nearest medoid" if classifier == "nearest-mean" and metric != "alignment" else classifier,
            "systems",
            results[metric, classifier].predictions,
            items,
            None if (metric, classifier) == rows[-1] else main_right,
            stages.seconds[f"{classifier}, {METRICS[metric].title}"],
            {"metric": metric, "paper": published.figure(name, ROWS[metric], PAPER_NAME[classifier])},
        )
        for metric, classifier in rows
    )
