"""Rows of the table: ways to describe clips and to classify them, each evaluated by the same protocol."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.classifiers.base import Explanation
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.registry import CLASSIFIERS, MOMENTS
from sysbags.classifiers.scores import Predictor, ScorePredictor, deciding
from sysbags.distances import METRICS
from sysbags.distances.gram import mean_term
from sysbags.errors import ParameterError
from sysbags.evaluate.candidates import Systems, WeightGrid, squared_candidates, system_candidates
from sysbags.evaluate.results import Confidence, Method
from sysbags.evaluate.selection import Candidate, nested_choice, nested_predictions
from sysbags.evaluate.splits import EvaluationSet
from sysbags.evaluate.vector_predictors import between_vectors, vector_predictor
from sysbags.statistics.rates import mcnemar, rate

METHODS = (MOMENTS, *CLASSIFIERS)
UNWEIGHTED = tuple(name for name, metric in METRICS.items() if not metric.weighted)


@dataclass(frozen=True, kw_only=True)
class MethodSpec:
    """A row of the table before it is evaluated."""

    name: str  # what clips are described by
    classifier: str
    kind: str  # "systems", "averages" or "comparator"
    # The most usual first. Of several, `nested_choice` takes one for each group, without that group.
    candidates: Callable[[], Iterable[Candidate]] = field(repr=False)
    # Where it is not computed from the scores of the candidates.
    confidence: Callable[[], Confidence | None] | None = field(default=None, repr=False)
    explanations: Callable[[], tuple[Explanation, ...] | None] | None = field(default=None, repr=False)
    # Where they are known only when clips are predicted.
    settings: Callable[[], dict[str, Any]] | None = field(default=None, repr=False)


def evaluate_method(
    spec: MethodSpec, items: EvaluationSet, main_right: npt.NDArray[np.bool_] | None
) -> tuple[Method, dict[str, Any]]:
    """Evaluate one row; also return the settings of the candidate that was chosen most often.

    `main_right` says of the clips that are tested where the main method was right; without it there is no
    McNemar test. The settings of the row are those of the only candidate; of several, the values and for how
    many of the groups that are left out each was chosen.
    """
    started = time.perf_counter()
    settings, predictors = zip(*spec.candidates(), strict=True)
    wanted = None if items.test_group is None else [items.test_group]
    if len(settings) == 1:
        codes, usual = predictors[0].predict(), settings[0]
        chosen = np.zeros(len(np.unique(items.groups) if wanted is None else wanted), dtype=np.int64)
        chosen_settings = dict(usual) if spec.settings is None else spec.settings()
    else:
        families = [setting.get("bags") for setting in settings]
        chosen = nested_choice(
            predictors, items.codes, items.groups, families, wanted=wanted, n_jobs=items.n_jobs
        )
        codes = nested_predictions(predictors, chosen, items.groups, wanted=wanted)
        usual = settings[int(np.bincount(chosen).argmax())]
        names = dict.fromkeys(name for k in chosen for name in settings[k])
        chosen_settings = {
            name: counts(settings[k][name] for k in chosen if name in settings[k]) for name in names
        }
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
    method = replace(method, make_confidence=spec.confidence or _confidence(spec, predictors, chosen, items))
    return replace(
        method, make_explanations=spec.explanations or _explanations(method, predictors, chosen, items)
    ), usual


def _with_scores(kind: str, predictors: Sequence[Predictor], chosen: IntArray) -> list[ScorePredictor]:
    """Return the predictors that were chosen, in their order; none if some have no scores of all clips."""
    used = [predictors[k] for k in np.unique(chosen)]
    kept = [predictor for predictor in used if isinstance(predictor, ScorePredictor)]
    return [] if kind == "comparator" or len(kept) < len(used) else kept


def _explanations(
    method: Method, predictors: Sequence[Predictor], chosen: IntArray, items: EvaluationSet
) -> Callable[[], tuple[Explanation, ...] | None] | None:
    """Return what gives the distances and scores that clips were classified by, and their probabilities."""
    kept, places = _with_scores(method.kind, predictors, chosen), np.unique(chosen, return_inverse=True)[1]
    if not kept:
        return None
    names = np.unique(items.groups) if items.test_group is None else np.array([items.test_group])
    used = places[np.searchsorted(names, items.groups[items.tested])]
    distances = np.stack([predictor.distances() for predictor in kept])[used, items.tested]
    decided = [deciding(predictor) for predictor in kept]
    rows = [(decided[j], k) for j, k in zip(used, items.tested, strict=True)]
    scores = [None if values is None else values[k] for values, k in rows]
    classes = np.unique(items.labels).tolist()

    def explanations() -> tuple[Explanation, ...]:
        sure = method.confidence

        def by_class(values: Array) -> dict[str, float]:
            return dict(zip(classes, values.tolist(), strict=True))

        return tuple(
            Explanation(
                label=label,
                distances=by_class(distances[k]),
                parts={},
                probabilities=None if sure is None else by_class(sure.probabilities[k]),
                p_values=None if sure is None else by_class(sure.p_values[k]),
                scores=None if (row := scores[k]) is None else by_class(row),
            )
            for k, label in enumerate(method.predictions)
        )

    return explanations


def _confidence(
    spec: MethodSpec, predictors: Sequence[Predictor], chosen: IntArray, items: EvaluationSet
) -> Callable[[], Confidence | None] | None:
    """Return what computes the confidence of systems, where their predictors have scores."""
    kept, places = _with_scores(spec.kind, predictors, chosen), np.unique(chosen, return_inverse=True)[1]
    if not kept:
        return None
    if items.test_group is None:
        return partial(nested_confidence, kept, places, items)
    # A test set takes one pass. If it were left for later, the predictors of every trial would have to stay.
    found = nested_confidence(kept, places, items)
    return lambda: found


def nested_confidence(
    predictors: Sequence[ScorePredictor], chosen: IntArray, items: EvaluationSet
) -> Confidence | None:
    """Probabilities and p-values of every item that is tested, by a calibration that has not seen its group.

    For a group that is left out, the calibration items are all others, with their scores without that group
    and their own: what a classifier that is fitted without the group could know. So probabilities and sets
    are as honest as the predictions of `sysbags.evaluate.selection.nested_predictions`. The units of the
    calibration are sources, or items where there are none. `chosen` says which predictor each tested group,
    in ascending order, is predicted with. None if for some group nothing is left to calibrate with.
    """
    codes, groups = items.codes, items.groups
    units = np.arange(len(codes)) if items.sources is None else items.sources
    names = np.unique(groups) if items.test_group is None else np.array([items.test_group])
    known = {int(k): (predictors[k].scores(), predictors[k].distances()) for k in np.unique(chosen)}
    probabilities, p_values = np.empty((2, len(codes), int(codes.max()) + 1))

    def fill(task: tuple[int, int]) -> float:
        group, k = task
        others, own = groups != group, groups == group
        scores, distances = predictors[k].scores(group), predictors[k].distances(group)
        calibration = Calibration.fit(scores[others], distances[others], codes[others], units[others])
        scores, distances = known[k][0][own], known[k][1][own]
        probabilities[own], p_values[own] = calibration.confidence(scores, distances)
        return calibration.smallest_alpha

    try:
        tasks = list(zip(names.tolist(), chosen.tolist(), strict=True))
        smallest = max(run(fill, tasks, items.n_jobs, "calibration"))
    except ParameterError:
        return None
    return Confidence(
        classes=tuple(np.unique(items.labels).tolist()),
        probabilities=probabilities[items.tested],
        p_values=p_values[items.tested],
        smallest_alpha=smallest,
    )


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
    tested = items.tested
    right = (predictions == items.labels)[tested]
    return Method(
        name=name,
        classifier=classifier,
        kind=kind,
        predictions=tuple(map(str, predictions[tested])),
        rate=rate(right, None if items.sources is None else items.sources[tested]),
        p_value=None if main_right is None else mcnemar(main_right, right),
        seconds=seconds,
        settings=dict(settings or {}),
    )


def counts(values: Iterable[Any]) -> Any:
    """Return a value that was always chosen; else how often each was, the most frequent first."""
    chosen = list(values)
    by_text = Counter(f"{value:.3g}" if isinstance(value, float) else str(value) for value in chosen)
    return chosen[0] if len(by_text) == 1 else dict(by_text.most_common())


def system_methods(
    name: str,
    kind: str,
    bags: Mapping[str, Systems],
    classifiers: Sequence[str],
    grids: Sequence[WeightGrid],
) -> list[MethodSpec]:
    """Return systems with some classifiers; the metric and its weights are chosen from grids.

    `name` is what tables call the systems of the first bag. With several bags, distances are sums over all
    or some of them.
    """
    described = name if len(bags) == 1 else f"{' + '.join(bags)} systems"
    metric = f", {grids[0].title}" if len(grids) == 1 else ""
    return _rows(described + metric, kind, classifiers, partial(system_candidates, bags=bags, grids=grids))


def _rows(
    name: str, kind: str, classifiers: Iterable[str], candidates: Callable[[str], Iterable[Candidate]]
) -> list[MethodSpec]:
    """Return one row per classifier, whose candidates are a function of its name."""
    return [
        MethodSpec(name=name, classifier=each, kind=kind, candidates=partial(candidates, each))
        for each in classifiers
    ]


def baseline_methods(
    name: str, kind: str, systems: Systems, metrics: Iterable[str] = UNWEIGHTED
) -> list[MethodSpec]:
    """Return metrics without weights, with the nearest medoid and the nearest system."""

    def candidates(metric: str, classifier: str) -> list[Candidate]:
        grid = WeightGrid(metric, "orthonormal", (0.0,), (0.0,), scaled=(False, False))
        [(_, predictor)] = system_candidates(classifier, {name: systems}, [grid])
        return [({}, predictor)]

    return [
        MethodSpec(
            name=f"{name}, {METRICS[metric].title}",
            classifier=title,
            kind=kind,
            candidates=partial(candidates, metric, classifier),
        )
        for metric, (title, classifier) in product(
            metrics, (("nearest medoid", "nearest-mean"), ("nearest-system", "nearest-system"))
        )
    ]


def mean_methods(
    name: str, kind: str, bags: Mapping[str, Systems], classifiers: Iterable[str]
) -> list[MethodSpec]:
    """Return the means of systems without dynamics: averages of streams in the kernel's feature space."""
    squared = [[mean_term(gram) for _, gram in systems.sets("orthonormal")] for systems in bags.values()]
    items = next(iter(bags.values())).items
    candidates = partial(squared_candidates, names=list(bags), bags=squared, items=items)
    return _rows(name, kind, classifiers, candidates)


def vector_methods(
    name: str, points: Sequence[Array], items: EvaluationSet, classifiers: Sequence[str], metric: str
) -> list[MethodSpec]:
    """Return vectors, one per clip, with some classifiers."""

    def candidates(classifier: str) -> Iterable[Candidate]:
        if classifier == "kernel-ridge":
            squared = [between_vectors(vectors, vectors, metric) for vectors in points]
            return squared_candidates(classifier, [name], [squared], items)
        # With codebooks, only the fold that a codebook has not seen is predicted with it.
        folds = items.codebook_folds if len(points) > 1 else None
        predictors = [
            vector_predictor(
                vectors,
                items.codes,
                items.groups,
                classifier,
                metric,
                wanted=_wanted(items, None if folds is None else folds == k),
                n_jobs=items.n_jobs,
            )
            for k, vectors in enumerate(points)
        ]
        return [({}, items.combine(predictors))]

    return _rows(name, "comparator", classifiers, candidates)


def average_ridge_method(
    names: Sequence[str], averages: Sequence[Sequence[Array]], items: EvaluationSet
) -> MethodSpec:
    """Return kernel ridge on the averages of several bags, each once or once per codebook fold."""

    def candidates(classifier: str) -> Iterable[Candidate]:
        squared = [[between_vectors(points, points, "chi2") for points in bag] for bag in averages]
        return squared_candidates(classifier, names, squared, items)

    [row] = _rows(f"{' + '.join(names)} bags averaged over time", "comparator", ["kernel-ridge"], candidates)
    return row


def _wanted(items: EvaluationSet, fold: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    """Return the only items whose predictions are used: those of a test set or of a codebook fold."""
    return fold if items.test_group is None else np.asarray(items.groups == items.test_group)
