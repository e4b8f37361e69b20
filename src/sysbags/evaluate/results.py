"""What an evaluation found, as plain data: what tables, JSON and the report are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags.classifiers.base import Explanation
from sysbags.errors import ParameterError, SysbagsError
from sysbags.statistics.rates import Rate, confidence_summary
from sysbags.systems.system import System


@dataclass(frozen=True)
class Clip:
    """One item: its name ("class/file"), its file, its class, and what it must not be split from.

    A stream has no file.
    """

    name: str
    path: Path | None
    label: str
    source: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Confidence:
    """How sure a method is of each clip, as calibrated without the clip's group."""

    classes: tuple[str, ...]
    probabilities: Array  # (K, C), of each class; 0 for a class without training clips
    p_values: Array  # (K, C), how well each class fits, see `sysbags.classifiers.calibration.Calibration`
    smallest_alpha: float  # the smallest p-value there can be: 1 / (G + 1) for G calibration groups

    @classmethod
    def stack(cls, parts: Sequence[Confidence | None], classes: tuple[str, ...]) -> Confidence | None:
        """Return that of several lists of clips one after the other; None if one of them has none."""
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None

        def widened(part: Confidence, values: Array, missing: float) -> Array:
            wide = np.full((len(values), len(classes)), missing)
            wide[:, [classes.index(name) for name in part.classes]] = values
            return wide

        return cls(
            classes=classes,
            probabilities=np.concatenate([widened(part, part.probabilities, 0.0) for part in known]),
            # As for a class without training clips.
            p_values=np.concatenate([widened(part, part.p_values, part.smallest_alpha) for part in known]),
            smallest_alpha=max(part.smallest_alpha for part in known),
        )


@dataclass(frozen=True, kw_only=True)
class Method:
    """What one way of describing clips and one classifier reached."""

    name: str  # what clips were described by, such as "LBP systems, alignment" or "LBP-TOP"
    classifier: str  # one of `CLASSIFIERS`, or "nearest medoid", "1-NN", "linear SVM", ...
    kind: str  # "systems", "averages" or "comparator"
    predictions: tuple[str, ...]
    rate: Rate
    p_value: float | None = None  # of McNemar's test against the main method; None for that method itself
    seconds: float = 0.0  # features apart
    # For people to read; of several that were chosen, how often each was.
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: Mapping[str, float] = field(default_factory=dict)  # the accuracy in each, for official splits
    make_confidence: Callable[[], Confidence | None] | None = field(default=None, repr=False, compare=False)
    make_explanations: Callable[[], tuple[Explanation, ...] | None] | None = field(
        default=None, repr=False, compare=False
    )

    @cached_property
    def confidence(self) -> Confidence | None:
        """Probabilities and p-values, computed when they are first asked for; None if there are none."""
        return None if self.make_confidence is None else self.make_confidence()

    @cached_property
    def explanations(self) -> tuple[Explanation, ...] | None:
        """Why each clip is predicted so, by the classifier without its group; None if that is not known."""
        return None if self.make_explanations is None else self.make_explanations()

    def to_dict(self) -> dict[str, Any]:
        """Return all but confidence and explanations as lists, numbers and text."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("make_")}
        return values | {"rate": asdict(self.rate)}


@dataclass(frozen=True)
class Published:
    """A figure that somebody has published, in per cent, and where."""

    name: str
    classifier: str
    rate: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Accuracies against one weight, the other fixed: one line of the paper's two figures."""

    weight: str  # "lambda_a" or "lambda_mu"
    classifier: str  # "nearest-system" or "nearest-mean"
    values: tuple[float, ...]
    accuracies: tuple[float, ...]
    fixed: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Relations:
    """Where each of K clips lies among the others, at the evaluation's weights. Distances are squared."""

    lambda_a: float
    lambda_mu: float
    distances: Array  # (K, K), alignment distances between all clips
    plane: Array  # (K, 2), classical multidimensional scaling of them
    neighbours: IntArray  # (K, N), the nearest other clips of each, nearest first
    neighbour_parts: Array  # (K, N, 3), of those distances: transition, observer and mean, weighted


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassMean:
    """What the Frechet mean of a class looks like: one page of the atlas."""

    label: str
    members: tuple[int, ...]  # all clips of the class, the nearest to the mean first
    distances: tuple[float, ...]  # theirs to it, squared
    eigenvalues: np.ndarray[Any, np.dtype[np.complex128]]  # of the mean's transition
    histogram: Array
    dynamics: Array  # (T, p), a typical course of the mean system


@dataclass(frozen=True, eq=False, kw_only=True)
class Details:
    """What there is to see beside the accuracies: systems, and their alignment distances at some weights."""

    systems: tuple[System, ...]  # one for each clip, of the main method
    relations: Relations
    atlas: tuple[ClassMean, ...]
    curves: tuple[Curve, ...] = ()  # of experiments that are about weights
    facts: Mapping[str, Any] = field(default_factory=dict)  # further lines for people


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """Everything that an evaluation found.

    Attributes
    ----------
    title : str
        Such as "wild-scenes" or "DynTex Beta".
    protocol : str
        What was left out, in words for people: "one source left out at a time (121 sources)".
    clips : tuple of Clip
    groups : tuple of int
        What each clip was left out with.
    classes : tuple of str
        Sorted.
    methods : tuple of Method
        In the order of the table; `methods[main]` is the one whose errors are shown.
    make_details : callable
        Computes `details` when they are first asked for.
    main : int
    published : tuple of Published
    failures : mapping
        The clips that could not be used, and why.
    single_group_classes : tuple of str
        Classes that have all their clips in one group, so that none of them can be right.
    seconds : mapping
        What each stage took, in the order of the work.
    facts : mapping
        Further lines for people: bag, order, kernel, cores, version, command, seconds per pair and so on.
    label_values : mapping
        The labels as they were given, by their names in `classes`; a name that is not there is the label.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> from sysbags.evaluate import Settings, evaluate
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> result = evaluate(streams, labels, settings=Settings(order=2, lambda_a=0.25, lambda_mu=0.0))
    >>> result.classes, len(result.clips), [method.classifier for method in result.methods]
    (('0', '1'), 8, ['kernel-ridge', 'nearest-mean', 'nearest-system', 'kernel-ridge'])
    >>> result.accuracy > result.most_frequent_accuracy, result.confusion.sum(axis=1)
    (True, array([4, 4]))
    """

    title: str
    protocol: str
    clips: tuple[Clip, ...]
    groups: tuple[int, ...]
    classes: tuple[str, ...]
    methods: tuple[Method, ...]
    make_details: Callable[[], Details]
    main: int = 0
    published: tuple[Published, ...] = ()
    failures: Mapping[Path, SysbagsError] = field(default_factory=dict)
    single_group_classes: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    label_values: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        methods = "".join(f"\n  {method.name}, {method.classifier}: {method.rate}" for method in self.methods)
        return f"Evaluation of {self.title}: {len(self.clips)} clips, {len(self.classes)} classes{methods}"

    @property
    def predictions(self) -> npt.NDArray[Any]:
        """The label that the main method predicts for each clip, (K,)."""
        names = self.methods[self.main].predictions
        return np.array([self.label_values.get(name, name) for name in names])

    @property
    def accuracy(self) -> float:
        """Cross-validated accuracy of the main method."""
        return self.methods[self.main].rate.share

    @property
    def averages(self) -> Method | None:
        """Averages over time alone, by a classifier like the main method's; None if they are not there."""
        return next((method for method in self.methods if method.kind == "averages"), None)

    @property
    def most_frequent_accuracy(self) -> float:
        """Accuracy of always predicting the most frequent class."""
        return most_frequent_share([clip.label for clip in self.clips])

    @cached_property
    def confusion(self) -> IntArray:
        """Counts of the main method, (C, C): rows are true classes, columns predicted ones."""
        labels = [clip.label for clip in self.clips]
        return _confusion(labels, self.methods[self.main].predictions, self.classes)

    @cached_property
    def confidence_summary(self) -> dict[str, Any] | None:
        """How honest the main method's confidence is, see `sysbags.statistics.rates.confidence_summary`.

        Computed when it is first asked for; None if the main method has no scores.
        """
        confidence = self.methods[self.main].confidence
        if confidence is None:
            return None
        codes = [confidence.classes.index(clip.label) for clip in self.clips]
        # A clip that is tested in several trials is one source.
        sources = [clip.source or str(clip.path or clip.name) for clip in self.clips]
        summary = confidence_summary(confidence.probabilities, confidence.p_values, codes, sources)
        return {**summary, "smallest_alpha": confidence.smallest_alpha}

    @cached_property
    def details(self) -> Details:
        """Systems, map and class means; computed when they are first asked for."""
        return self.make_details()

    def to_frame(self) -> Any:
        """Return the table of methods as a pandas DataFrame, one row per method."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ParameterError("to_frame needs pandas: pip install pandas") from None
        return pd.DataFrame(
            {
                "method": method.name,
                "classifier": method.classifier,
                "kind": method.kind,
                "accuracy": method.rate.share,
                "low": method.rate.low,
                "high": method.rate.high,
                "right": method.rate.right,
                "total": method.rate.total,
                "p_value": method.p_value,
                "seconds": method.seconds,
            }
            for method in self.methods
        )

    def to_dict(self, *, details: bool = False) -> dict[str, Any]:
        """Return everything as lists, numbers and text; distances are squared.

        Parameters
        ----------
        details : bool, default=False
            Also the confidence of the main method, the nearest clips and the class means, which may have to
            be computed first.
        """
        document: dict[str, Any] = {
            "title": self.title,
            "protocol": self.protocol,
            "groups": list(self.groups),
            "classes": list(self.classes),
            "clips": [{"name": c.name, "label": c.label, "source": c.source} for c in self.clips],
            "skipped": [{"path": str(path), "error": str(error)} for path, error in self.failures.items()],
            "methods": [
                {**method.to_dict(), "share": method.rate.share, "main": k == self.main}
                for k, method in enumerate(self.methods)
            ],
            "averages_accuracy": None if self.averages is None else self.averages.rate.share,
            "most_frequent_accuracy": self.most_frequent_accuracy,
            "confusion": self.confusion.tolist(),
            "facts": dict(self.facts),
            "seconds": dict(self.seconds),
        }
        if details:
            document |= {
                "confidence": self.confidence_summary,
                "neighbours": self.details.relations.neighbours.tolist(),
                "atlas": [
                    {
                        "class": mean.label,
                        "members": [self.clips[k].name for k in mean.members],
                        "squared_distances": list(mean.distances),
                        "eigenvalues": [[value.real, value.imag] for value in mean.eigenvalues.tolist()],
                    }
                    for mean in self.details.atlas
                ],
            }
            document["facts"] |= self.details.facts
            document["seconds"] = dict(self.seconds)
        return document


def most_frequent_share(labels: Sequence[Any]) -> float:
    """Return the accuracy of always predicting the most frequent class.

    Examples
    --------
    >>> most_frequent_share(["rain", "fire", "rain", "rain"])
    0.75
    """
    return max(Counter(labels).values()) / len(labels)


def _confusion(labels: Any, predictions: Any, classes: Any) -> IntArray:
    from sklearn.metrics import confusion_matrix

    return np.asarray(confusion_matrix(labels, predictions, labels=classes))


@dataclass(frozen=True, eq=False, kw_only=True)
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

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=60, bins=8, noise=0.1)
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> result = sysbags.evaluate.leave_one_out(gram, labels)
    >>> result.predictions, result.accuracy
    (array([0, 0, 0, 0, 1, 1, 1, 1]), 1.0)
    >>> result.classes, result.distances.shape
    (array([0, 1]), (8, 2))
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
        return _confusion(self.labels, self.predictions, self.classes)
