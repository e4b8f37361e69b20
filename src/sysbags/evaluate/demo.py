"""The demonstration: the main job end to end, on clips that it generates itself.

Clips of eight textures are written as MP4 files. Each becomes a stream of local binary patterns and then a
system; the kernel between all systems is evaluated once, and each clip is classified by all the others with
every distance. A model of all clips is saved, loaded again, and asked about clips that it has never seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sysbags._common.stages import Stages
from sysbags._common.types import Array, IntArray
from sysbags.evaluate.vector_predictors import vector_predictor
from sysbags.report.demo import (
    AVERAGES,
    CLASSIFIERS,
    DISTANCES,
    LAMBDA_A,
    LAMBDA_MU,
    ORDER,
    Outcome,
    Rate,
    Settings,
)

__all__ = ["experiment"]


def experiment(settings: Settings, stages: Stages | None = None) -> Outcome:
    """Make clips, classify each by all the others, and put a saved model to the test on new clips.

    Parameters
    ----------
    settings : Settings
    stages : Stages, optional
        Keeps the times, and says on a terminal what is going on.
    """
    from sklearn.pipeline import Pipeline

    from sysbags.bags import LocalBinaryPatterns
    from sysbags.classifiers import NearestMean, SystemIdentifier
    from sysbags.datasets import make_clips
    from sysbags.distances.gram import cross_gram
    from sysbags.distances.pairwise import distance_matrix
    from sysbags.evaluate import leave_one_out
    from sysbags.evaluate.compilation import compiled_ahead
    from sysbags.storage import load, save

    s, stage, jobs = settings, stages or Stages(), settings.jobs
    with compiled_ahead():
        with stage("make clips"):
            clips, labels = make_clips(
                s.out / "clips", s.per_class, s.frames, random_state=s.seed, n_jobs=jobs
            )
            new_clips, new_labels = make_clips(
                s.out / "new", 1, s.frames, random_state=s.seed + 1, n_jobs=jobs
            )
        with stage("frames and bags"):
            bags = LocalBinaryPatterns(n_jobs=jobs)
            streams = bags.fit_transform(clips)
        with stage("systems"):
            identifier = SystemIdentifier(ORDER, n_jobs=jobs)
            systems = identifier.fit_transform(streams)
        with stage("kernel"):
            gram = cross_gram(systems, n_jobs=jobs)
    found = {}
    for metric, distance in DISTANCES.items():
        with stage(f"leave-one-out, {distance}"):
            for classifier in CLASSIFIERS:
                found[metric, classifier] = leave_one_out(
                    gram,
                    labels,
                    classifier=classifier,
                    metric=metric,
                    lambda_a=LAMBDA_A,
                    lambda_mu=LAMBDA_MU,
                    n_jobs=jobs,
                )
    with stage("model"):
        judge = NearestMean(lambda_a=LAMBDA_A, lambda_mu=LAMBDA_MU, n_jobs=jobs).fit(systems, labels)
        steps = [("bags", bags), ("systems", identifier), ("classify", judge)]
        save(s.model, Pipeline([(name, step.set_params(n_jobs=None)) for name, step in steps]))
    with stage("verdicts on new clips"):
        verdicts = load(s.model).predict(new_clips)
    return Outcome(
        s,
        clips,
        labels,
        systems,
        distance_matrix(gram, lambda_a=LAMBDA_A, lambda_mu=LAMBDA_MU, n_jobs=jobs),
        [
            Rate(DISTANCES[metric], classifier, int((one.predictions == one.labels).sum()), len(labels))
            for (metric, classifier), one in found.items()
        ]
        + _average_rates(streams, labels),
        found["alignment", "nearest-mean"],
        new_clips,
        new_labels,
        [str(verdict) for verdict in verdicts],
        stage.seconds,
    )


def _average_rates(streams: Sequence[Array], labels: Sequence[str]) -> list[Rate]:
    """Accuracies of histograms averaged over time: by the nearest clip, and by the nearest class average."""
    averages = np.array([stream.mean(axis=0) for stream in streams])
    codes: IntArray = np.unique(labels, return_inverse=True)[1]
    rates = []
    for classifier, kind in (("nearest-system", "1-NN"), ("nearest-mean", "nearest mean")):
        predicted = vector_predictor(averages, codes, np.arange(len(codes)), kind, "chi2").predict()
        rates.append(Rate(AVERAGES, classifier, int((predicted == codes).sum()), len(codes)))
    return rates
