"""The settings of systems that evaluations and `sysbags fit` choose from: metric, normal form and weights.

What comes first is the usual setting: it is chosen unless another one is clearly better, see
`sysbags.evaluate.selection.one_standard_error_rule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_weight
from sysbags.classifiers.base import half_mean
from sysbags.classifiers.kernel_ridge import euclidean_part, gaussian_distances
from sysbags.distances import METRICS
from sysbags.distances.alignment_matrix import mean_term
from sysbags.distances.gram import CrossGram, SystemStack
from sysbags.distances.pairwise import SCALE, distance_matrix, scaled_weights
from sysbags.distances.truncation import to_unit_variance
from sysbags.errors import ParameterError
from sysbags.evaluate.kernel_ridge_predictor import KernelRidge
from sysbags.evaluate.predictors import NearestNeighbors, Predictor, SmallestSum
from sysbags.evaluate.splits import EvaluationSet
from sysbags.evaluate.system_predictors import PredictorFamily, metric_predictors
from sysbags.systems.system import NORMAL_FORMS, System

__all__ = [
    "AND",
    "GRIDS",
    "Alternative",
    "SystemSet",
    "Systems",
    "WeightGrid",
    "matching_grids",
    "neighbour_alternatives",
    "ridge_alternatives",
    "subsets",
    "system_ridge_alternatives",
]

RIDGES = (1.0, 0.3, 0.1, 0.03)  # the strongest first, which the rule prefers
AND = " + "  # between the names of bags, none of which has it
WIDTHS = (None, 1.0)

Alternative = tuple[dict[str, Any], Predictor]
Version = TypeVar("Version")


@dataclass(frozen=True)
class WeightGrid:
    """A metric in a normal form, and the weights to try.

    Attributes
    ----------
    metric, normal_form : str
    lambda_a, lambda_mu : tuple of float
    scaled : pair of bool
        Whether each weight is given as a multiple of `scaled_weights`.
    """

    metric: str
    normal_form: str
    lambda_a: tuple[float, ...]
    lambda_mu: tuple[float, ...]
    scaled: tuple[bool, bool] = (True, True)

    @property
    def title(self) -> str:
        """The name in tables."""
        title = METRICS[self.metric].title
        unit = METRICS[self.metric].normal_form is None and self.normal_form == "unit-variance"
        return f"{title} of unit-variance states" if unit else title

    def given(self, lambda_a: float | None, lambda_mu: float | None) -> WeightGrid:
        """Return the grid with numbers in the place of its weights, where they are given."""
        return replace(
            self,
            lambda_a=self.lambda_a if lambda_a is None else (check_weight(lambda_a, "lambda_a"),),
            lambda_mu=self.lambda_mu if lambda_mu is None else (check_weight(lambda_mu, "lambda_mu"),),
            scaled=(self.scaled[0] and lambda_a is None, self.scaled[1] and lambda_mu is None),
        )

    def first(self) -> WeightGrid:
        """Return the grid with its first weights only."""
        return replace(self, lambda_a=self.lambda_a[:1], lambda_mu=self.lambda_mu[:1])

    def weights(self, stack: SystemStack) -> tuple[list[float], list[float]]:
        """Return the weights as numbers, for these systems."""
        units = scaled_weights(stack, self.metric) if any(self.scaled) else (1.0, 1.0)
        first, second = (
            [value * unit if scaled else value for value in values]
            for values, unit, scaled in zip((self.lambda_a, self.lambda_mu), units, self.scaled, strict=True)
        )
        return first, second


MULTIPLES = (1.0, 0.0, 10.0)
GRIDS = (
    WeightGrid("normalized-covariance", "unit-variance", (1.0, 0.5), MULTIPLES),
    WeightGrid("covariance", "unit-variance", (1.0, 0.5), MULTIPLES),
    WeightGrid("alignment", "unit-variance", (1.0, 0.1, 10.0), MULTIPLES),
    WeightGrid(
        "alignment",
        "orthonormal",
        (0.25, 0.05, 1.0, 0.0, 4.0),
        (10.0, 3.0, 30.0, 1.0, 100.0, 0.0, 300.0),
        scaled=(False, False),
    ),
)


def matching_grids(
    metric: str | None = None,
    normal_form: str | None = None,
    lambda_a: float | None = None,
    lambda_mu: float | None = None,
) -> list[WeightGrid]:
    """Return the grids of a metric and a normal form, by default all, with the weights that are given.

    A weight is a number for one metric in one form: where weights are given without these, they are those of
    the paper, the alignment distance in the orthonormal form.

    Examples
    --------
    >>> [grid.title for grid in matching_grids(normal_form="unit-variance")][1:]
    ['lagged covariances', 'alignment of unit-variance states']
    >>> matching_grids(lambda_a=1.0, lambda_mu=3.0)
    [WeightGrid(metric='alignment', normal_form='orthonormal', lambda_a=(1.0,), lambda_mu=(3.0,),
                scaled=(False, False))]
    """
    if metric is not None:
        check_choice(metric, "metric", dict.fromkeys(grid.metric for grid in GRIDS))
    if normal_form is not None:
        check_choice(normal_form, "normal_form", NORMAL_FORMS)
    given = lambda_a is not None or lambda_mu is not None
    if given and metric is None:
        metric = "alignment"
    if given and normal_form is None:
        normal_form = METRICS[metric or "alignment"].normal_form or "orthonormal"
    grids = [
        grid for grid in GRIDS if metric in (None, grid.metric) and normal_form in (None, grid.normal_form)
    ]
    if not grids:
        raise ParameterError(
            f"the metric {metric} needs the unit-variance form, but the form is {normal_form}"
        )
    return [grid.given(lambda_a, lambda_mu) for grid in grids] if given else grids


class SystemSet(NamedTuple):
    """Systems of all clips, with one codebook or without any, and their CrossGram."""

    systems: list[System]
    gram: CrossGram


class Systems:
    """The systems of all clips in both normal forms, and what was computed from them: nothing is done twice.

    Parameters
    ----------
    sets : sequence of SystemSet
        In the orthonormal form; one, or one per codebook fold.
    items : EvaluationSet
    """

    def __init__(self, sets: Sequence[SystemSet], items: EvaluationSet) -> None:
        self.items = items
        self._forms = {sets[0].systems[0].normal_form: list(sets)}
        self._known: dict[tuple[Any, ...], Any] = {}

    def sets(self, normal_form: str) -> list[SystemSet]:
        """Return the systems in a normal form."""
        if normal_form not in self._forms:
            self._forms[normal_form] = [
                SystemSet(*to_unit_variance(*original)) for original in self._forms["orthonormal"]
            ]
        return self._forms[normal_form]

    def weights(self, grid: WeightGrid) -> tuple[list[float], list[float]]:
        """Return the weights of a grid as numbers, in the units of the training clips."""
        stack = self.sets(grid.normal_form)[0].gram.rows
        return grid.weights(stack.subset(self.items.training))

    def families(self, classifier: str, grid: WeightGrid, lambda_a: float) -> list[PredictorFamily]:
        """Return the predictors of nearest systems or means, one family per codebook fold."""
        key = (classifier, grid.metric, grid.normal_form, lambda_a)
        if key not in self._known:
            self._known[key] = [
                metric_predictors(
                    system_set.gram,
                    self.items.codes,
                    self.items.groups,
                    classifier,
                    grid.metric,
                    lambda_a,
                    random_state=self.items.random_state,
                    n_jobs=self.items.n_jobs,
                )
                for system_set in self.sets(grid.normal_form)
            ]
        families: list[PredictorFamily] = self._known[key]
        return families

    def terms(self, grid: WeightGrid, lambda_a: float) -> list[tuple[Array, Array]]:
        """Return the squared distances without means, and those of means, for each codebook fold."""
        key = ("terms", grid.metric, grid.normal_form, lambda_a)
        if key not in self._known:
            options: Any = {"random_state": self.items.random_state, "n_jobs": self.items.n_jobs}
            self._known[key] = [
                (distance_matrix(gram, grid.metric, lambda_a=lambda_a, **options), mean_term(gram))
                for _, gram in self.sets(grid.normal_form)
            ]
        terms: list[tuple[Array, Array]] = self._known[key]
        return terms

    def squared(self, grid: WeightGrid, lambda_a: float, lambda_mu: float) -> list[Array]:
        """Return the squared distances between all clips, for each codebook fold."""
        return [first + lambda_mu * mean for first, mean in self.terms(grid, lambda_a)]


def _settings(classifier: str, grid: WeightGrid, lambda_a: Any, lambda_mu: Any) -> dict[str, Any]:
    return {
        "classifier": classifier,
        "metric": grid.metric,
        "normal form": grid.normal_form,
        "lambda_a": lambda_a,
        "lambda_mu": lambda_mu,
    }


@dataclass(frozen=True)
class _Weighting:
    """One choice from the weights of a grid, for each of several bags.

    Attributes
    ----------
    grid : WeightGrid
    numbers : list of pairs of float
        `lambda_a` and `lambda_mu` of each bag.
    shown : pair
        What the settings say: with several bags, weights in the units of each bag are "scale".
    """

    grid: WeightGrid
    numbers: list[tuple[float, float]]
    shown: tuple[float | str, float | str]


def _weightings(bags: Sequence[Systems], grids: Sequence[WeightGrid]) -> Iterator[_Weighting]:
    """Yield all weights of the grids; with several bags, only the first of each grid."""
    for grid in grids if len(bags) == 1 else [grid.first() for grid in grids]:
        weights = [systems.weights(grid) for systems in bags]
        for a, mu in product(range(len(grid.lambda_a)), range(len(grid.lambda_mu))):
            numbers = [(float(values_a[a]), float(values_mu[mu])) for values_a, values_mu in weights]
            shown = [
                SCALE if scaled and len(bags) > 1 else number
                for scaled, number in zip(grid.scaled, numbers[0], strict=True)
            ]
            yield _Weighting(grid, numbers, (shown[0], shown[1]))


def subsets(names: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the choices of bags: all, then all but one, and so on.

    Examples
    --------
    >>> subsets(["lbp", "flow"])
    [(0, 1), (0,), (1,)]
    """
    count = len(names)
    return [some for size in range(count, 0, -1) for some in combinations(range(count), size)]


def _units(squared: Sequence[Array], items: EvaluationSet) -> list[float]:
    """Return what the squared distances of each bag are divided by in their sum: the variance of its clips.

    A bag that is alone is not divided, so that distances are those of a classifier of the chosen bags.
    """
    training = np.ix_(items.training, items.training)
    return [1.0] if len(squared) < 2 else [half_mean(between[training]) or 1.0 for between in squared]


def _total(squared: Sequence[Array], items: EvaluationSet) -> Array:
    """Return the sum of the squared distances of some bags, each in its own unit."""
    return np.asarray(sum(part / unit for part, unit in zip(squared, _units(squared, items), strict=True)))


def _chosen_bags(names: Sequence[str], chosen: Sequence[int]) -> dict[str, Any]:
    return {"bags": AND.join(names[k] for k in chosen)} if len(names) > 1 else {}


def neighbour_alternatives(
    bags: Mapping[str, Systems],
    classifier: str,
    grids: Sequence[WeightGrid],
    n_neighbors: Sequence[int] = (1,),
) -> list[Alternative]:
    """Return "nearest mean", or "1-NN" with some numbers of neighbours, for all weights of the grids.

    With several bags, distances are the sums over all or some of them, those of each bag divided by its
    variance. Where there is a choice, means are those of the alignment distance: the average of covariances
    is a system whose order is the sum of all orders, too large to be saved and used for large classes.

    Parameters
    ----------
    bags : mapping
        The systems of each bag.
    classifier : {"nearest mean", "1-NN"}
    grids : sequence of WeightGrid
    n_neighbors : sequence of int
    """
    alternatives: list[Alternative] = []
    names, systems = list(bags), list(bags.values())
    items = systems[0].items
    by_mean = classifier == "nearest mean"
    compact = [grid for grid in grids if not (by_mean and METRICS[grid.metric].averages)]
    for choice in _weightings(systems, compact or grids):
        pairs = list(zip(systems, choice.numbers, strict=True))
        needed = not by_mean or len(pairs) > 1  # alone, means need no distances between clips
        squared = [bag.squared(choice.grid, *weights) for bag, weights in pairs] if needed else []
        families = [bag.families(classifier, choice.grid, a) for bag, (a, _) in pairs] if by_mean else []
        for count, chosen in product(n_neighbors, subsets(names)):
            predictors: list[Predictor] = []
            for version in range(max(len((families or squared)[k]) for k in chosen)):
                between = [_cyclic(squared[k], version) for k in chosen] if needed else []
                if by_mean:
                    parts = [
                        (1.0 / unit, _cyclic(families[k], version)(choice.numbers[k][1], 1))
                        for k, unit in zip(chosen, _units(between, items), strict=True)
                    ]
                    predictors.append(parts[0][1] if len(parts) == 1 else SmallestSum(parts))
                else:
                    total = _total(between, items)
                    predictors.append(NearestNeighbors(total, items.codes, items.groups, count))
            title = classifier if count == 1 else f"{count}-NN"
            settings = _settings(title, choice.grid, *choice.shown) | _chosen_bags(names, chosen)
            alternatives.append((settings, items.combine(predictors)))
    return alternatives


def _cyclic(versions: Sequence[Version], k: int) -> Version:
    """Return the version for codebook fold k; a bag without codebook has a single one."""
    return versions[k % len(versions)]


def system_ridge_alternatives(bags: Mapping[str, Systems], grids: Sequence[WeightGrid]) -> list[Alternative]:
    """Return the alternatives of kernel ridge on the sum of the squared distances of all bags or some.

    Weights of the metric, the ridge and the width vary; with several bags, only the first weights of each
    grid, which are the same multiples for all bags.

    Parameters
    ----------
    bags : mapping
        The systems of each bag, of all clips, once or once per codebook fold.
    grids : sequence of WeightGrid
    """
    alternatives: list[Alternative] = []
    names, systems = list(bags), list(bags.values())
    for choice in _weightings(systems, grids):
        squared = [
            bag.squared(choice.grid, *weights) for bag, weights in zip(systems, choice.numbers, strict=True)
        ]
        settings = _settings("kernel ridge", choice.grid, *choice.shown)
        alternatives += ridge_alternatives(names, squared, systems[0].items, settings)
    return alternatives


def ridge_alternatives(
    names: Sequence[str],
    bags: Sequence[Sequence[Array]],
    items: EvaluationSet,
    settings: Mapping[str, Any],
) -> Iterator[Alternative]:
    """Yield kernel ridge on sums of squared distances over all or some bags, for all ridges and widths.

    In a sum, the distances of each bag are divided by the variance of the training clips first. Those that
    are not Euclidean are repaired for all items at once, which uses no label. Classes have the same weight.

    Parameters
    ----------
    names : sequence of str
        What tables call the bags.
    bags : sequence of sequences of (K, K) array
        Squared distances for each bag, once or once per codebook fold.
    items : EvaluationSet
    settings : mapping
        What else there is to say.
    """
    training = np.ix_(items.training, items.training)
    class_size = len(items.training) / len(np.unique(items.codes[items.training]))
    for chosen, width in product(subsets(names), WIDTHS):
        repaired = []
        for version in range(max(len(bags[k]) for k in chosen)):
            total = _total([_cyclic(bags[k], version) for k in chosen], items)
            squared = (
                total if width is None else gaussian_distances(total, width * half_mean(total[training]))
            )
            squared = euclidean_part(squared)
            # Where all distances are 0, any penalty gives the same.
            repaired.append((squared, half_mean(squared[training]) or 1.0, total))
        known = {**settings, **_chosen_bags(names, chosen), "width": "none" if width is None else width}
        for ridge in RIDGES:
            predictors = [
                KernelRidge(squared, items.codes, items.groups, ridge * variance, class_size, total)
                for squared, variance, total in repaired
            ]
            yield {**known, "ridge": ridge}, items.combine(predictors)
