"""Rows of the table: ways to describe clips and to classify them, each evaluated by the same protocol."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_labels
from sysbags.classifiers.kernel_ridge import euclidean_shift
from sysbags.distances.alignment_matrix import alignment_matrix, mean_term
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.registry import METRICS
from sysbags.evaluate.predictors import (
    CodebookFolds,
    KernelRidge,
    NearestCenter,
    NearestNeighbors,
    Predictor,
    medoid_centers,
)
from sysbags.evaluate.selection import nested_accuracies, nested_predictions, one_standard_error_rule
from sysbags.evaluate.system_predictors import alignment_predictors
from sysbags.evaluate.vector_predictors import vector_predictor
from sysbags.report.results import Clip, Method
from sysbags.report.statistics import mcnemar, rate
from sysbags.systems.system import System

__all__ = [
    "BASELINES",
    "Alternative",
    "EvaluationSet",
    "MethodSpec",
    "SystemSet",
    "alignment_alternatives",
    "alignment_methods",
    "baseline_methods",
    "evaluate_method",
    "kernel_ridge_method",
    "make_method",
    "vector_methods",
]

BASELINES = tuple(name for name, metric in METRICS.items() if not metric.weighted)
# Of kernel ridge; what comes first is the usual setting.
RIDGE_LAMBDA_A = (0.25, 1.0)
RIDGE_LAMBDA_MU = (100.0, 30.0, 300.0)
RIDGES = (0.015, 0.005, 0.05)  # times lambda_mu and the sum of the bags' weights: in the unit of distances
BAG_WEIGHTS = (1.0, 0.5, 0.0)  # of each bag but the first, whose weight is 1

Alternative = tuple[dict[str, Any], Predictor]


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationSet:
    """Clips, what is left out together, and how to compute.

    Attributes
    ----------
    clips : tuple of Clip
    groups : (K,) array of int
        See `sysbags.evaluate.splits.protocol_groups`.
    codebook_folds : (K,) array of int or None
        For what is learnt from clips, see `sysbags.evaluate.splits.codebook_folds`; None where there are
        too few groups.
    protocol : str
        What is left out, in words.
    random_state : int, default=0
    n_jobs : int, optional
        Threads; nothing depends on it.
    """

    clips: tuple[Clip, ...]
    groups: IntArray
    codebook_folds: IntArray | None
    protocol: str
    random_state: int = 0
    n_jobs: int | None = None

    @cached_property
    def labels(self) -> npt.NDArray[Any]:
        """The class of each clip."""
        return np.array([clip.label for clip in self.clips])

    @cached_property
    def codes(self) -> IntArray:
        """The number of each clip's class, in sorted order."""
        return check_labels(self.labels, len(self.clips))[1]

    @cached_property
    def sources(self) -> IntArray | None:
        """The number of each clip's source, where all are known: errors within a source are alike."""
        sources = [clip.source for clip in self.clips]
        return None if None in sources else check_labels(sources, len(sources))[1]

    def combine(self, predictors: Sequence[Predictor]) -> Predictor:
        """Return one predictor for one description, or for one description per codebook fold."""
        if len(predictors) == 1:
            return predictors[0]
        assert self.codebook_folds is not None
        return CodebookFolds(predictors, self.codebook_folds, self.groups)


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A row of the table before it is evaluated.

    Attributes
    ----------
    name : str
        What clips are described by.
    classifier : str
    kind : {"systems", "comparator"}
    alternatives : callable
        Returns pairs of settings and predictors, the most usual first. Of several, one is chosen for each
        group that is left out, without that group.
    one_standard_error : bool, default=True
        Choose by `one_standard_error_rule`, or else the very best.
    """

    name: str
    classifier: str
    kind: str
    alternatives: Callable[[], Sequence[Alternative]] = field(repr=False)
    one_standard_error: bool = True


class SystemSet(NamedTuple):
    """Systems of all clips, with one codebook or without any, and their CrossGram."""

    systems: list[System]
    gram: CrossGram


def evaluate_method(
    spec: MethodSpec, items: EvaluationSet, main_right: npt.NDArray[np.bool_] | None
) -> tuple[Method, dict[str, Any]]:
    """Evaluate one row.

    Parameters
    ----------
    spec : MethodSpec
    items : EvaluationSet
    main_right : (K,) array of bool or None
        Where the main method was right; without it there is no test.

    Returns
    -------
    method : Method
        Its settings are those of the only alternative; of several, the values and for how many of the
        groups that are left out each was chosen.
    settings : dict
        The alternative that was chosen most often.
    """
    started = time.perf_counter()
    settings, predictors = zip(*spec.alternatives(), strict=True)
    if len(settings) == 1:
        codes, usual = predictors[0].predict(), settings[0]
        chosen_settings = dict(usual)
    else:
        accuracies = nested_accuracies(predictors, items.codes, items.groups, n_jobs=items.n_jobs)
        if spec.one_standard_error:
            chosen = one_standard_error_rule(accuracies, len(items.clips))
        else:
            chosen = accuracies.argmax(axis=1)
        codes = nested_predictions(predictors, chosen, items.groups)
        usual = settings[int(np.bincount(chosen).argmax())]
        chosen_settings = {name: _counts(settings[k][name] for k in chosen) for name in usual}
    method = make_method(
        spec.name,
        spec.classifier,
        spec.kind,
        np.unique(items.labels)[codes],
        items,
        main_right,
        time.perf_counter() - started,
        chosen_settings,
    )
    return method, usual


def make_method(
    name: str,
    classifier: str,
    kind: str,
    predictions: npt.NDArray[Any],
    items: EvaluationSet,
    main_right: npt.NDArray[np.bool_] | None = None,
    seconds: float = 0.0,
    settings: Mapping[str, Any] | None = None,
) -> Method:
    """Return a row: predictions, their accuracy with its interval, McNemar's test against the main method."""
    right = predictions == items.labels
    return Method(
        name=name,
        classifier=classifier,
        kind=kind,
        predictions=tuple(map(str, predictions)),
        rate=rate(right, items.sources),
        p_value=None if main_right is None else mcnemar(main_right, right),
        seconds=seconds,
        settings=dict(settings or {}),
    )


def _counts(values: Iterable[Any]) -> Any:
    """A value that was always chosen; else how often each was, the most frequent first."""
    chosen = list(values)
    counts = Counter(f"{value:g}" if isinstance(value, float) else str(value) for value in chosen)
    return chosen[0] if len(counts) == 1 else dict(counts.most_common())


def alignment_alternatives(
    sets: Sequence[SystemSet],
    items: EvaluationSet,
    classifier: str,
    grid_a: Sequence[float],
    grid_mu: Sequence[float],
    n_neighbors: Sequence[int] = (1,),
) -> list[Alternative]:
    """The alignment distance with "nearest mean" or nearest systems, for all weights of two grids."""
    alternatives: list[Alternative] = []
    for a in grid_a:
        families = [
            alignment_predictors(
                system_set.gram,
                items.codes,
                items.groups,
                classifier,
                a,
                random_state=items.random_state,
                n_jobs=items.n_jobs,
            )
            for system_set in sets
        ]
        for mu, count in product(grid_mu, n_neighbors):
            title = classifier if count == 1 else f"{count}-NN"
            settings = {"classifier": title, "lambda_a": float(a), "lambda_mu": float(mu)}
            alternatives.append((settings, items.combine([family(mu, count) for family in families])))
    return alternatives


def alignment_methods(
    name: str,
    kind: str,
    sets: Sequence[SystemSet],
    items: EvaluationSet,
    grid_a: Sequence[float],
    grid_mu: Sequence[float],
) -> list[MethodSpec]:
    """The alignment distance with the nearest mean and the nearest system."""
    alternatives = partial(alignment_alternatives, sets, items, grid_a=grid_a, grid_mu=grid_mu)
    return [
        MethodSpec(
            name=f"{name}, alignment",
            classifier=classifier,
            kind=kind,
            alternatives=partial(alternatives, classifier),
        )
        for classifier in ("nearest mean", "1-NN")
    ]


def baseline_methods(
    name: str, kind: str, sets: Sequence[SystemSet], items: EvaluationSet, metrics: Iterable[str] = BASELINES
) -> list[MethodSpec]:
    """Other distances between systems, with the nearest medoid and the nearest system."""

    def alternatives(metric: str, classifier: str) -> list[Alternative]:
        predictors: list[Predictor] = []
        for system_set in sets:
            between = distance_matrix(system_set.gram, metric, n_jobs=items.n_jobs)
            if classifier == "1-NN":
                predictors.append(NearestNeighbors(between, items.codes, items.groups))
            else:
                predictors.append(NearestCenter(medoid_centers(between, items.codes, items.groups)))
        return [({}, items.combine(predictors))]

    return [
        MethodSpec(
            name=f"{name}, {METRICS[metric].title}",
            classifier=classifier,
            kind=kind,
            alternatives=partial(alternatives, metric, classifier),
        )
        for metric, classifier in product(metrics, ("nearest medoid", "1-NN"))
    ]


def vector_methods(
    name: str, points: Sequence[Array], items: EvaluationSet, classifiers: Sequence[str], metric: str
) -> list[MethodSpec]:
    """Vectors, one per clip, with some classifiers."""

    def alternatives(classifier: str) -> list[Alternative]:
        # With codebooks, only the fold that a codebook has not seen is predicted with it.
        folds = items.codebook_folds if len(points) > 1 else None
        predictors = [
            vector_predictor(
                vectors,
                items.codes,
                items.groups,
                classifier,
                metric,
                wanted=None if folds is None else folds == k,
                n_jobs=items.n_jobs,
            )
            for k, vectors in enumerate(points)
        ]
        return [({}, items.combine(predictors))]

    return [
        MethodSpec(
            name=name,
            classifier=classifier,
            kind="comparator",
            alternatives=partial(alternatives, classifier),
        )
        for classifier in classifiers
    ]


def kernel_ridge_method(
    names: Sequence[str],
    bags: Sequence[Sequence[SystemSet]],
    items: EvaluationSet,
    lambda_a: float | None = None,
    lambda_mu: float | None = None,
) -> MethodSpec:
    """Kernel ridge on the sum of squared alignment distances over bags.

    The weights of the distance and of the bags and the ridge are chosen, the very best of all.

    Parameters
    ----------
    names : sequence of str
        What tables call the bags.
    bags : sequence of sequences of SystemSet
        For each bag the systems of all clips, once or once per codebook fold.
    items : EvaluationSet
    lambda_a, lambda_mu : float, optional
        What is given is used.
    """
    versions = max(map(len, bags))
    grid_a = RIDGE_LAMBDA_A if lambda_a is None else (lambda_a,)
    grid_mu = RIDGE_LAMBDA_MU if lambda_mu is None else (lambda_mu,)

    def terms(system_set: SystemSet, a: float) -> tuple[Array, Array]:
        aligned = alignment_matrix(system_set.gram, a, random_state=items.random_state, n_jobs=items.n_jobs)
        return aligned, mean_term(system_set.gram)

    def alternatives() -> list[Alternative]:
        candidates: list[Alternative] = []
        for a in grid_a:
            known = [[terms(system_set, a) for system_set in sets] for sets in bags]
            for mu, *further in product(grid_mu, *[BAG_WEIGHTS] * (len(bags) - 1)):
                weights = np.array([1.0, *further])
                versions_between = []
                for version in range(versions):
                    pairs = [sets[version % len(sets)] for sets in known]
                    between = sum(
                        weight * (aligned + mu * mean)
                        for weight, (aligned, mean) in zip(weights, pairs, strict=True)
                    )
                    versions_between.append((np.asarray(between), euclidean_shift(np.asarray(between))))
                for ridge in RIDGES:
                    scaled = ridge * max(mu, 1.0) * float(weights.sum())
                    predictors = [
                        KernelRidge(between, items.codes, items.groups, scaled, shift)
                        for between, shift in versions_between
                    ]
                    settings: dict[str, Any] = {
                        "lambda_a": float(a),
                        "lambda_mu": float(mu),
                        "ridge": scaled,
                    }
                    settings |= {f"weight of {name}": w for name, w in zip(names[1:], further, strict=True)}
                    candidates.append((settings, items.combine(predictors)))
        return candidates

    return MethodSpec(
        name=f"{' + '.join(names)} systems, alignment",
        classifier="kernel ridge",
        kind="systems",
        alternatives=alternatives,
        one_standard_error=False,
    )
