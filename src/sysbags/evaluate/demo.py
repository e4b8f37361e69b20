"""The demonstration: from generated clips to a saved model.

Clips of eight textures are written as MP4 files. Each becomes a stream of local binary patterns and then a
system. The kernel between all systems is evaluated once, and leave-one-out cross-validation is run with every
distance. A model of all clips is saved, loaded again, and applied to new clips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sysbags._common.messages import Stages
from sysbags._common.parallel import check_jobs
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.distances import METRICS
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS
from sysbags.evaluate.results import LeaveOneOut
from sysbags.evaluate.vector_predictors import vector_predictor
from sysbags.systems.system import System

# All distances that are defined for the paper's form of the systems.
DISTANCES = {name: metric.title for name, metric in METRICS.items() if metric.normal_form is None}
AVERAGES = "averages over time"

# Fixed beforehand: weights chosen on the clips of the table would make its accuracies too high.
ORDER, LAMBDA_A, LAMBDA_MU = 5, 0.25, 10.0


@dataclass(frozen=True)
class Settings:
    """The settings of the demonstration."""

    out: Path = Path("demo")  # folder for the clips, the model and the report
    per_class: int = 8
    frames: int = 60
    random_state: int = 0  # of the clips; the new clips have the next seed
    n_jobs: int = -1

    def __post_init__(self) -> None:
        # Checked before any work starts.
        check_integer(self.per_class, "per_class", 2)
        check_integer(self.frames, "frames", 2 * ORDER)
        check_integer(self.random_state, "random_state", 0)
        check_jobs(self.n_jobs)

    @property
    def model(self) -> Path:
        """The model file."""
        return self.out / "model.safetensors"

    @property
    def report(self) -> Path:
        """The report."""
        return self.out / "report.html"


@dataclass(frozen=True)
class Rate:
    """The number of clips that are classified correctly with a distance and a classifier."""

    distance: str
    classifier: str
    right: int
    total: int

    def __str__(self) -> str:
        return f"{100 * self.right / self.total:.1f} % ({self.right} of {self.total})"


@dataclass(frozen=True)
class Outcome:
    """The results that the table and the report show."""

    settings: Settings
    clips: list[Path]
    labels: list[str]
    systems: list[System]
    distances: Array  # (K, K), squared alignment distances between all clips
    rates: list[Rate]
    means: LeaveOneOut  # of the nearest mean with the alignment distance
    new_clips: list[Path]
    new_labels: list[str]
    predictions: list[str]  # of the new clips, by the saved model
    seconds: dict[str, float]  # runtime of each stage

    @property
    def chance(self) -> float:
        """The chance accuracy."""
        return 1.0 / len(self.means.classes)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the column names and the rows of the table of accuracies."""
        rows = [
            [distance, *(str(rate) for rate in self.rates if rate.distance == distance)]
            for distance in (*DISTANCES.values(), AVERAGES)
        ]
        chance = f"{100 * self.chance:.1f} %"
        return ["distance", *DISTANCE_CLASSIFIERS], [
            *rows,
            ["chance", chance, chance],
        ]


def experiment(settings: Settings, stages: Stages | None = None) -> Outcome:
    """Generate clips, cross-validate every distance, and test a saved model on new clips."""
    from sklearn.pipeline import Pipeline

    from sysbags.bags import LocalBinaryPatterns
    from sysbags.classifiers import NearestMean, SystemIdentifier
    from sysbags.datasets import make_clips
    from sysbags.distances.gram import cross_gram
    from sysbags.distances.pairwise import distance_matrix
    from sysbags.evaluate import leave_one_out
    from sysbags.means.compilation import compiled_ahead
    from sysbags.storage import load, save

    s, stage, n_jobs = settings, stages or Stages(), settings.n_jobs
    with compiled_ahead("metrics"):
        with stage("make clips"):
            clips, labels = make_clips(
                s.out / "clips", s.per_class, s.frames, random_state=s.random_state, n_jobs=n_jobs
            )
            new_clips, new_labels = make_clips(
                s.out / "new", 1, s.frames, random_state=s.random_state + 1, n_jobs=n_jobs
            )
        with stage("frames and bags"):
            bags = LocalBinaryPatterns(n_jobs=n_jobs)
            streams = bags.fit_transform(clips)
        with stage("systems"):
            identifier = SystemIdentifier(ORDER, n_jobs=n_jobs)
            systems = identifier.fit_transform(streams)
        with stage("kernel"):
            gram = cross_gram(systems, n_jobs=n_jobs)
    results = {}
    for metric, distance in DISTANCES.items():
        with stage(f"leave-one-out, {distance}"):
            for classifier in DISTANCE_CLASSIFIERS:
                results[metric, classifier] = leave_one_out(
                    gram,
                    labels,
                    classifier=classifier,
                    metric=metric,
                    lambda_a=LAMBDA_A,
                    lambda_mu=LAMBDA_MU,
                    n_jobs=n_jobs,
                )
    with stage("model"):
        classifier_step = NearestMean(
            lambda_a=LAMBDA_A, lambda_mu=LAMBDA_MU, probability=True, n_jobs=n_jobs
        ).fit(systems, labels)
        steps = [("bags", bags), ("systems", identifier), ("classify", classifier_step)]
        save(s.model, Pipeline([(name, step.set_params(n_jobs=None)) for name, step in steps]))
    with stage("predictions of new clips"):
        predictions = load(s.model).predict(new_clips)
    return Outcome(
        s,
        clips,
        labels,
        systems,
        distance_matrix(gram, lambda_a=LAMBDA_A, lambda_mu=LAMBDA_MU, n_jobs=n_jobs),
        [
            Rate(DISTANCES[metric], classifier, int((result.predictions == result.labels).sum()), len(labels))
            for (metric, classifier), result in results.items()
        ]
        + _average_rates(streams, labels),
        results["alignment", "nearest-mean"],
        new_clips,
        new_labels,
        [str(prediction) for prediction in predictions],
        stage.seconds,
    )


def _average_rates(streams: Sequence[Array], labels: Sequence[str]) -> list[Rate]:
    """Return the accuracies of histograms averaged over time: nearest clip, and nearest class average."""
    averages = np.array([stream.mean(axis=0) for stream in streams])
    codes: IntArray = np.unique(labels, return_inverse=True)[1]
    rates = []
    for classifier, kind in (("nearest-system", "1-NN"), ("nearest-mean", "nearest-mean")):
        predicted = vector_predictor(averages, codes, np.arange(len(codes)), kind, "chi2").predict()
        rates.append(Rate(AVERAGES, classifier, int((predicted == codes).sum()), len(codes)))
    return rates
