"""Lines of the table: ways to describe clips and to classify them, each as candidates for one protocol."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_labels
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import distance_matrix
from sysbags.evaluate.assemble import by_alignment, method
from sysbags.evaluate.cached_gram import cached_gram
from sysbags.evaluate.candidates import Candidate, by_codebook_fold, medoids, neighbours, vectors
from sysbags.evaluate.features import Features
from sysbags.evaluate.nested import nested
from sysbags.report.results import Clip, Method
from sysbags.systems.system import System

__all__ = [
    "COMPARATORS",
    "Alternative",
    "EvaluationSet",
    "MethodSpec",
    "SystemSet",
    "aligned",
    "alignment_methods",
    "baseline_methods",
    "comparator_methods",
    "evaluate_method",
    "one_standard_error_rule",
    "vector_methods",
]

BASELINES = {"martin": "Martin", "max-singular-value": "maximum singular value"}
# Other people's methods and the frames they see, of the first 250; who looks at motion needs all of them.
COMPARATORS: dict[str, dict[str, Any]] = {
    "LBPTOP": {"max_frames": 250},
    "SpatiotemporalEnergy": {"max_frames": 250, "size": 120},
    "BagOfSystems": {"max_frames": 250},
    "TreeWords": {"max_frames": 125, "stride": 2},
    "PooledActivations": {"max_frames": 42, "stride": 6},
    "LinearSystem": {"max_frames": 250},
}

Alternative = tuple[dict[str, Any], Candidate]


@dataclass(frozen=True, eq=False)
class EvaluationSet:
    """Clips, what is left out at once, and how to work.

    Attributes
    ----------
    clips : tuple of Clip
    groups : (K,) array of int
        See `sysbags.evaluate.protocols.protocol_groups`.
    codebook_folds : (K,) array of int or None
        For what is learnt from clips, see `sysbags.evaluate.protocols.codebook_folds`; None where there are
        too few groups.
    protocol : str
        What is left out, in words.
    seed : int, default=0
    jobs : int, optional
        Threads; nothing depends on it.
    """

    clips: tuple[Clip, ...]
    groups: IntArray
    codebook_folds: IntArray | None
    protocol: str
    seed: int = 0
    jobs: int | None = None

    @cached_property
    def labels(self) -> npt.NDArray[Any]:
        """The class of each clip."""
        return np.array([clip.label for clip in self.clips])

    @cached_property
    def codes(self) -> IntArray:
        """The number of each clip's class, in sorted order."""
        return check_labels(self.labels, len(self.clips))[1]

    @cached_property
    def units(self) -> IntArray | None:
        """What errors are alike in, for intervals: the sources, where they are known."""
        sources = [clip.source for clip in self.clips]
        return None if None in sources else check_labels(sources, len(sources))[1]

    def judge(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return one candidate for one description, or for three by codebooks without a third each."""
        if len(candidates) == 1:
            return candidates[0]
        assert self.codebook_folds is not None
        return by_codebook_fold(candidates, self.codebook_folds, self.groups)


class MethodSpec(NamedTuple):
    """A line of the table: what clips are described by, the classifier, "systems" or "comparator".

    `alternatives` gives pairs of settings and candidates, the most usual first; among several one is chosen
    for each group that is left out, without that group: the very best, or with `one_standard_error` the first
    that is as good.
    """

    name: str
    classifier: str
    kind: str
    alternatives: Callable[[], Sequence[Alternative]]
    one_standard_error: bool = True


class SystemSet(NamedTuple):
    """Systems of all clips, by one codebook or by none, and their CrossGram."""

    systems: list[System]
    gram: CrossGram


def evaluate_method(
    entry: MethodSpec, items: EvaluationSet, main_right: npt.NDArray[np.bool_] | None
) -> tuple[Method, dict[str, Any]]:
    """Judge one line.

    Returns
    -------
    method : Method
        Its settings are those of the only alternative; of several, the values and for how many of the
        groups that are left out each was chosen.
    settings : dict
        The alternative that was chosen most often.
    """
    started = time.perf_counter()
    told, candidates = zip(*entry.alternatives(), strict=True)
    if len(told) == 1:
        codes, usual = candidates[0](None), told[0]
        settings = dict(usual)
    else:
        found = nested(candidates, items.codes, items.groups, n_jobs=items.jobs)
        chosen = (
            one_standard_error_rule(found.accuracies, len(items.clips))
            if entry.one_standard_error
            else found.chosen
        )
        answers = {int(k): candidates[k](None) for k in np.unique(chosen)}
        own = np.unique(items.groups, return_inverse=True)[1]
        codes = np.array([answers[int(chosen[group])][k] for k, group in enumerate(own)])
        usual = told[int(np.bincount(chosen).argmax())]
        settings = {name: _counts(told[k][name] for k in chosen) for name in usual}
    classes = np.unique(items.labels)
    predictions = classes[codes]
    seconds = time.perf_counter() - started
    line = method(*entry[:3], predictions, items.labels, items.units, main_right, seconds, settings)
    return line, usual


def one_standard_error_rule(accuracies: Array, items: int) -> IntArray:
    """Choose, in each row, the first candidate within one standard error of the best (Breiman et al., 1984).

    The very best is a poor choice where many are alike: without a group those look best that are wrong
    about it. On wild-scenes it reached 16 %, where each of 35 settings alone has 19 % or more.

    Parameters
    ----------
    accuracies : (G, S) array
        See `Nested`.
    items : int
        How many they are shares of, about.

    Examples
    --------
    >>> one_standard_error_rule(np.array([[0.70, 0.60, 0.72], [0.50, 0.60, 0.72]]), 100)
    array([0, 2])
    """
    best = accuracies.max(axis=1, keepdims=True)
    error = np.sqrt(best * (1.0 - best) / items)
    return np.asarray((accuracies >= best - error).argmax(axis=1))


def _counts(values: Iterable[Any]) -> Any:
    """A value that was always chosen; else how often each was, the commonest first."""
    chosen = list(values)
    counts = Counter(f"{value:g}" if isinstance(value, float) else str(value) for value in chosen)
    return chosen[0] if len(counts) == 1 else dict(counts.most_common())


def aligned(
    views: Sequence[SystemSet],
    items: EvaluationSet,
    classifier: str,
    grid_a: Sequence[float],
    grid_mu: Sequence[float],
    n_neighbors: Sequence[int] = (1,),
) -> list[Alternative]:
    """The alignment distance with "nearest mean" or nearest systems, for all weights of two grids."""
    found: list[Alternative] = []
    codes, groups, seed, jobs = items.codes, items.groups, items.seed, items.jobs
    for a in grid_a:
        weighted = [by_alignment(view.gram, codes, groups, classifier, a, seed, jobs) for view in views]
        for mu in grid_mu:
            for count in n_neighbors:
                title = classifier if count == 1 else f"{count}-NN"
                settings = {"classifier": title, "lambda_a": float(a), "lambda_mu": float(mu)}
                found.append((settings, items.judge([at(mu, count) for at in weighted])))
    return found


def alignment_methods(
    name: str,
    kind: str,
    views: Sequence[SystemSet],
    items: EvaluationSet,
    grid_a: Sequence[float],
    grid_mu: Sequence[float],
) -> list[MethodSpec]:
    """The alignment distance with its classifiers. A further classifier of systems is one more line here."""
    title = f"{name}, alignment"
    found = partial(aligned, views, items, grid_a=grid_a, grid_mu=grid_mu)
    return [
        MethodSpec(title, "nearest mean", kind, partial(found, "nearest mean")),
        MethodSpec(title, "1-NN", kind, partial(found, "1-NN")),
    ]


def baseline_methods(
    name: str, kind: str, views: Sequence[SystemSet], items: EvaluationSet, metrics: Iterable[str] = BASELINES
) -> list[MethodSpec]:
    """Other distances between systems, with the nearest medoid and 1-NN."""

    def found(metric: str, rule: Callable[..., Candidate]) -> list[Alternative]:
        between = [distance_matrix(view.gram, metric, n_jobs=items.jobs) for view in views]
        return [({}, items.judge([rule(one, items.codes, items.groups) for one in between]))]

    rules: dict[str, Callable[..., Candidate]] = {"nearest medoid": medoids, "1-NN": neighbours}
    return [
        MethodSpec(f"{name}, {BASELINES[metric]}", title, kind, partial(found, metric, rule))
        for metric in metrics
        for title, rule in rules.items()
    ]


def vector_methods(
    name: str, points: Sequence[Array], items: EvaluationSet, classifiers: Sequence[str], metric: str
) -> list[MethodSpec]:
    """Vectors, one a clip, with some classifiers."""

    def found(classifier: str) -> list[Alternative]:
        # By codebooks without a third each, only that third is judged by each.
        codebook_folds = items.codebook_folds if len(points) > 1 else None
        parts = [None if codebook_folds is None else codebook_folds == k for k in range(len(points))]
        made = [
            vectors(one, items.codes, items.groups, classifier, metric, wanted=part, n_jobs=items.jobs)
            for one, part in zip(points, parts, strict=True)
        ]
        return [({}, items.judge(made))]

    return [MethodSpec(name, kind, "comparator", partial(found, kind)) for kind in classifiers]


def comparator_methods(
    name: str,
    frames: dict[str, Any],
    features: Features,
    items: EvaluationSet,
    lambda_a: float,
    grid_mu: Sequence[float],
) -> list[MethodSpec]:
    """One of `sysbags.comparators` with the classifiers that belong to it.

    Raises
    ------
    SysbagsError
        If it cannot be had, or cannot describe some clip.
    """
    from sysbags import comparators

    kind: Any = getattr(comparators, name)
    options: dict[str, Any] = {"frames": {**COMPARATORS[name], **frames}}
    if "random_state" in kind._get_param_names():
        options["random_state"] = items.seed
    if name != "LinearSystem":
        points = features.vectors(kind(**options))
        return vector_methods(kind.title, points, items, kind.classifiers, kind.metric)
    systems = features.systems(kind(**options))
    views = [SystemSet(systems, cached_gram(features.store, systems, items.jobs).gram)]
    return [
        *alignment_methods(kind.title, "comparator", views, items, (lambda_a,), grid_mu),
        *baseline_methods(kind.title, "comparator", views, items, ["martin"]),
    ]
