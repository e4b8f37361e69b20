"""The settings and the results of the demonstration, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sysbags._common.parallel import check_jobs
from sysbags._common.types import Array
from sysbags._common.validation import check_integer
from sysbags.classifiers.registry import DISTANCE_CLASSIFIERS
from sysbags.distances import METRICS
from sysbags.report.results import LeaveOneOut
from sysbags.systems.system import System

__all__ = [
    "AVERAGES",
    "DISTANCES",
    "LAMBDA_A",
    "LAMBDA_MU",
    "ORDER",
    "Outcome",
    "Rate",
    "Settings",
]

# All distances that are defined for the paper's form of the systems.
DISTANCES = {name: metric.title for name, metric in METRICS.items() if metric.normal_form is None}
AVERAGES = "averages over time"

# Fixed beforehand: weights chosen on the clips of the table would make its accuracies too high.
ORDER, LAMBDA_A, LAMBDA_MU = 5, 0.25, 10.0


@dataclass(frozen=True)
class Settings:
    """The settings of the demonstration.

    Attributes
    ----------
    out : Path
        Folder for the clips, the model and the report.
    per_class, frames : int
        Clips per class, and frames per clip.
    random_state : int
        Seed of the clips. The new clips have the next seed.
    n_jobs : int
        Number of threads, -1 for all cores.
    """

    out: Path = Path("demo")
    per_class: int = 8
    frames: int = 60
    random_state: int = 0
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
    """The results that the table and the report show.

    Attributes
    ----------
    clips, labels : list
        The clips of the table and their classes.
    systems : list of System
    distances : (K, K) array
        Squared alignment distances between all clips.
    rates : list of Rate
    means : LeaveOneOut
        Predictions of the nearest mean with the alignment distance.
    new_clips, new_labels, predictions : list
        The new clips, their classes, and the predictions of the saved model.
    seconds : dict
        Runtime of each stage.
    """

    settings: Settings
    clips: list[Path]
    labels: list[str]
    systems: list[System]
    distances: Array
    rates: list[Rate]
    means: LeaveOneOut
    new_clips: list[Path]
    new_labels: list[str]
    predictions: list[str]
    seconds: dict[str, float]

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
        return ["distance", *(classifier.title for classifier in DISTANCE_CLASSIFIERS.values())], [
            *rows,
            ["chance", chance, chance],
        ]
