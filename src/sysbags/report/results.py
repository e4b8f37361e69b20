"""What an evaluation found, as plain data: what tables, JSON and the report are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags.systems.system import System

__all__ = [
    "ClassMean",
    "Clip",
    "Curve",
    "Evaluation",
    "LeaveOneOut",
    "Method",
    "Published",
    "Rate",
    "Relations",
]


@dataclass(frozen=True)
class Rate:
    """How many items were put into the right class, with a 95 % confidence interval of the share."""

    right: int
    total: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of right items."""
        return self.right / self.total

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class Clip:
    """One item: its name ("class/file"), its file, its class, and what it must not be split from."""

    name: str
    path: Path
    label: str
    source: str | None = None


@dataclass(frozen=True)
class Method:
    """What one way of describing clips and one classifier reached.

    Attributes
    ----------
    name : str
        What clips were described by, such as "LBP systems, alignment" or "LBP-TOP".
    classifier : str
        "1-NN", "nearest mean", "nearest medoid", "nearest centroid", "linear SVM", ...
    kind : {"systems", "comparator"}
    predictions : tuple of str
        One for each clip.
    rate : Rate
    p_value : float or None
        McNemar's test against the evaluation's main method; None for that method itself.
    seconds : float
        What it took, features apart.
    settings : mapping
        Weights, order and the like, for people to read; for tuned methods what was chosen and how often.
    """

    name: str
    classifier: str
    kind: str
    predictions: tuple[str, ...]
    rate: Rate
    p_value: float | None = None
    seconds: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """A figure that somebody has published, in per cent, and where."""

    name: str
    classifier: str
    rate: float
    source: str


@dataclass(frozen=True)
class Curve:
    """Accuracies against one weight, the other fixed: one line of the paper's two figures."""

    weight: str  # "lambda_a" or "lambda_mu"
    classifier: str  # "1-NN" or "nearest mean"
    values: tuple[float, ...]
    accuracies: tuple[float, ...]
    fixed: float


@dataclass(frozen=True, eq=False)
class Relations:
    """Where each of K clips lies among the others, at the evaluation's weights. Distances are squared.

    Attributes
    ----------
    lambda_a, lambda_mu : float
    distances : (K, K) array
        Alignment distances between all clips.
    plane : (K, 2) array
        Classical multidimensional scaling of them.
    neighbours : (K, N) array of int
        The N nearest other clips of each, nearest first.
    neighbour_parts : (K, N, 3) array
        The split of those distances: transition, observer and mean, each with its weight.
    class_parts : (K, C, 3) array
        The same for the distance to the Frechet mean of each class, that of the clip's own class worked
        out without the clip's group; NaN where nobody is left.
    """

    lambda_a: float
    lambda_mu: float
    distances: Array
    plane: Array
    neighbours: IntArray
    neighbour_parts: Array
    class_parts: Array


@dataclass(frozen=True, eq=False)
class ClassMean:
    """What the Frechet mean of a class looks like: one page of the atlas.

    Attributes
    ----------
    label : str
    members : tuple of int
        All clips of the class, the nearest to the mean first.
    distances : tuple of float
        Theirs to it, squared.
    eigenvalues : (n,) array of complex
        Of the mean's transition.
    histogram : (p,) array
        The mean histogram.
    dynamics : (T, p) array
        Histograms of a typical course of the mean system, rows are time.
    """

    label: str
    members: tuple[int, ...]
    distances: tuple[float, ...]
    eigenvalues: np.ndarray[Any, np.dtype[np.complex128]]
    histogram: Array
    dynamics: Array


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything that an evaluation found.

    Attributes
    ----------
    title : str
        Such as "wild-scenes" or "DynTex Beta".
    protocol : str
        What was left out, in words for people: "one source left out at a time (121 sources)".
    clips : tuple of Clip
    classes : tuple of str
        Sorted.
    methods : tuple of Method
        In the order of the table; `methods[main]` is the one whose errors are shown.
    published : tuple of Published
    curves : tuple of Curve
    systems : tuple of System
        One for each clip, of the main method.
    relations : Relations
    atlas : tuple of ClassMean
        One for each class.
    seconds : mapping
        What each stage took, in the order of the work.
    facts : mapping
        Further lines for people: bag, order, kernel, cores, version, command, seconds per pair and so on.
    """

    title: str
    protocol: str
    clips: tuple[Clip, ...]
    classes: tuple[str, ...]
    methods: tuple[Method, ...]
    main: int
    published: tuple[Published, ...]
    curves: tuple[Curve, ...]
    systems: tuple[System, ...]
    relations: Relations
    atlas: tuple[ClassMean, ...]
    seconds: Mapping[str, float]
    facts: Mapping[str, Any]

    def confusion(self) -> IntArray:
        """Counts of the main method, (C, C): rows are true classes, columns verdicts."""
        place = {name: k for k, name in enumerate(self.classes)}
        table = np.zeros((len(place), len(place)), dtype=np.int64)
        for clip, verdict in zip(self.clips, self.methods[self.main].predictions, strict=True):
            table[place[clip.label], place[verdict]] += 1
        return table


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What `leave_one_out` found.

    Attributes
    ----------
    classes : (C,) array
        The labels there are, sorted.
    labels, predictions : (K,) array
        True and predicted label of each item.
    distances : (K, C) array
        Squared distance of each item to each class without it: to its mean or medoid, or to its nearest
        member. Infinite for the own class of an item that is alone in it.
    """

    classes: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    predictions: npt.NDArray[Any]
    distances: Array

    @cached_property
    def accuracy(self) -> float:
        """Share of items that are predicted rightly."""
        return float(np.mean(self.labels == self.predictions))

    @cached_property
    def confusion(self) -> IntArray:
        """Counts, (C, C): rows are true classes, columns predicted ones."""
        table = np.zeros((len(self.classes), len(self.classes)), dtype=np.int64)
        rows, columns = (
            np.searchsorted(self.classes, self.labels),
            np.searchsorted(self.classes, self.predictions),
        )
        np.add.at(table, (rows, columns), 1)
        return table
