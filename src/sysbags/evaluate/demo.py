"""The demonstration: from generated clips to a saved model.

Clips of eight textures are written as MP4 files. A model of them is trained as by `sysbags fit`, saved,
loaded again, and applied to new clips.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sysbags._common.messages import Stages
from sysbags._common.parallel import check_jobs
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.classifiers.streams import StreamClassifier
from sysbags.evaluate.training import TrainedModel, train
from sysbags.statistics.rates import Rate


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
        check_integer(self.frames, "frames", 10)
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
class Outcome:
    """The results that the table and the report show."""

    settings: Settings
    clips: list[Path]
    labels: list[str]
    trained: TrainedModel
    paths: dict[str, Array]  # of the first clip of each class, in the space of the model
    new_clips: list[Path]
    new_labels: list[str]
    predictions: list[str]  # of the new clips, by the saved model
    seconds: dict[str, float]  # runtime of each stage

    @property
    def model(self) -> StreamClassifier:
        """The classifier of streams."""
        model: StreamClassifier = self.trained.pipeline[-1]
        return model

    @property
    def rates(self) -> dict[str, Rate]:
        """The accuracies of cross-validation."""
        return {"moments": self.trained.method.rate, "averages over time": self.trained.averages.rate}

    @property
    def chance(self) -> float:
        """The chance accuracy."""
        return 1.0 / len(self.model.classes_)

    @property
    def confusion(self) -> IntArray:
        """How many clips of each class (rows) are predicted as each, in cross-validation."""
        from sklearn.metrics import confusion_matrix

        assert self.model.estimate_ is not None
        predicted = self.model.classes_[self.model.estimate_[1]]
        return np.asarray(confusion_matrix(self.model.labels_, predicted))

    def distances(self) -> tuple[Array, IntArray]:
        """Return the squared distances that the model compares clips by, (K, K), and the clip of each row."""
        assert self.model.estimate_ is not None
        [moments] = self.model.moments_
        weights = self.model.term_weights_.mean(axis=0)
        return np.tensordot(weights, moments.squared(moments), axes=1), self.model.estimate_[0]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the column names and the rows of the table of accuracies."""
        rows = [
            [
                name,
                f"{100 * rate.share:.1f} % ({rate.right} of {rate.total})",
                f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %",
            ]
            for name, rate in self.rates.items()
        ]
        return ["compared", "accuracy", "95 % interval"], [
            *rows,
            ["chance", f"{100 * self.chance:.1f} %", ""],
        ]


def experiment(settings: Settings, stages: Stages | None = None) -> Outcome:
    """Generate clips, train a model of them, and test the saved model on new clips."""
    from sysbags.datasets import make_clips
    from sysbags.storage import load, save

    s, stage, n_jobs = settings, stages or Stages(), settings.n_jobs
    with stage("make clips"):
        clips, labels = make_clips(
            s.out / "clips", s.per_class, s.frames, random_state=s.random_state, n_jobs=n_jobs
        )
        new_clips, new_labels = make_clips(
            s.out / "new", 1, s.frames, random_state=s.random_state + 1, n_jobs=n_jobs
        )
    trained = train(clips, labels, random_state=s.random_state, n_jobs=n_jobs, stages=stage)
    with stage("file"):
        save(s.model, trained.pipeline)
    with stage("predictions of new clips"):
        predictions = load(s.model).predict(new_clips)
    with stage("paths"):
        bags, model = trained.pipeline
        first = [clips[labels.index(name)] for name in new_labels]
        streams = bags.set_params(n_jobs=n_jobs).transform(first)
        paths = [model.embeddings_[0].path(stream) for stream in streams]
    return Outcome(
        s,
        clips,
        labels,
        trained,
        dict(zip(new_labels, paths, strict=True)),
        new_clips,
        new_labels,
        [str(prediction) for prediction in predictions],
        stage.seconds,
    )
