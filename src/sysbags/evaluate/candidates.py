"""The settings that evaluations and `sysbags fit` choose from: metric, normal form, weights and parameters.

What comes first is the usual setting: it is chosen unless another one is clearly better, see
`sysbags.evaluate.selection.one_standard_error_rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone

from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_weight
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import CLASSES
from sysbags.classifiers.registry import AUTO, CLASSIFIERS
from sysbags.classifiers.scores import TrainingSet, half_mean
from sysbags.classifiers.scores.centers import Centers, ClassCenters, average_centers, metric_centers
from sysbags.distances import METRICS
from sysbags.distances.gram import CrossGram, SystemStack, mean_term
from sysbags.distances.pairwise import SCALE, distance_matrix, scaled_weights
from sysbags.distances.truncation import to_unit_variance, truncate
from sysbags.errors import ParameterError, SysbagsError
from sysbags.evaluate.selection import Candidate, TabulatedPredictor
from sysbags.evaluate.splits import EvaluationSet
from sysbags.kernels import KERNELS
from sysbags.systems.identification import descending_orders
from sysbags.systems.system import NORMAL_FORMS, System

AND = " + "  # between the names of bags, none of which has it

# What tuning chooses from.
ORDERS = (5, 3, 8)
HISTOGRAM_KERNELS = tuple(name for name in KERNELS if name != "linear")
MOST_LAMBDA_A = 3  # of each metric
TUNED_CLASSIFIERS = ("nearest-mean", "nearest-system")
AS_GIVEN = "as given"

Version = TypeVar("Version")


@dataclass(frozen=True)
class WeightGrid:
    """A metric in a normal form, and the weights to try."""

    metric: str
    normal_form: str
    lambda_a: tuple[float, ...]
    lambda_mu: tuple[float, ...]
    scaled: tuple[bool, bool] = (True, True)  # whether each weight is a multiple of `scaled_weights`

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

    `sets` are in the orthonormal form; one, or one per codebook fold.
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

    def centers(self, grid: WeightGrid, lambda_a: float) -> list[ClassCenters]:
        """Return the centers of classes, for each codebook fold."""
        key = ("centers", grid.metric, grid.normal_form, lambda_a)
        if key not in self._known:
            options: Any = {"random_state": self.items.random_state, "n_jobs": self.items.n_jobs}
            self._known[key] = [
                metric_centers(gram, self.items.codes, self.items.groups, grid.metric, lambda_a, **options)
                for _, gram in self.sets(grid.normal_form)
            ]
        centers: list[ClassCenters] = self._known[key]
        return centers

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


@dataclass(frozen=True)
class _Weighting:
    """One choice from the weights of a grid, for each of several bags."""

    grid: WeightGrid
    numbers: list[tuple[float, float]]  # lambda_a and lambda_mu of each bag
    # What the settings say: with several bags, weights in the units of each bag are "scale".
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


def _cyclic(versions: Sequence[Version], k: int) -> Version:
    """Return the version for codebook fold k; a bag without codebook has a single one."""
    return versions[k % len(versions)]


def _chosen_bags(names: Sequence[str], chosen: Sequence[int]) -> dict[str, Any]:
    return {"bags": AND.join(names[k] for k in chosen)} if len(names) > 1 else {}


def system_candidates(
    classifier: str, bags: Mapping[str, Systems], grids: Sequence[WeightGrid], *, tune: bool = False
) -> list[Candidate]:
    """Return the settings of a classifier of systems to choose from; those of all classifiers for "auto".

    With several bags, distances are the sums over all or some of them, those of each bag divided by its
    variance, and only the first weights of each grid are tried, the same multiples for all bags. With `tune`,
    more parameters of the classifier than usual are tried.
    """
    if classifier == AUTO:
        return [each for name in CLASSIFIERS for each in system_candidates(name, bags, grids, tune=tune)]
    metrics = CLASSIFIERS[classifier].estimator.metrics_to_try([grid.metric for grid in grids])
    names, systems, candidates = list(bags), list(bags.values()), list[Candidate]()
    for choice in _weightings(systems, [grid for grid in grids if grid.metric in metrics]):
        known = {
            "classifier": classifier,
            "metric": choice.grid.metric,
            "normal form": choice.grid.normal_form,
            "lambda_a": choice.shown[0],
            "lambda_mu": choice.shown[1],
        }
        for chosen in subsets(names):
            parts = [(systems[k], *choice.numbers[k]) for k in chosen]
            versions = [
                _training_set(choice.grid, parts, version)
                for version in range(max(len(bag.sets(choice.grid.normal_form)) for bag, _, _ in parts))
            ]
            settings = known | _chosen_bags(names, chosen)
            candidates += _of_versions(classifier, versions, systems[0].items, settings, tune)
    return candidates


def _training_set(
    grid: WeightGrid, parts: Sequence[tuple[Systems, float, float]], version: int
) -> TrainingSet:
    """Return what candidates are made from, for some bags with their weights and one codebook fold."""
    items = parts[0][0].items

    def squared() -> list[Array]:
        return [_cyclic(bag.squared(grid, a, mu), version) for bag, a, mu in parts]

    def centers() -> Centers:
        # Alone, means need no distances between clips.
        units = [1.0] if len(parts) == 1 else _units(squared(), items)
        every = [_cyclic(bag.centers(grid, a), version) for bag, a, _ in parts]
        return Centers(*zip(every, [(1.0, mu) for _, _, mu in parts], units, strict=True))

    return items.training_set(lambda: _total(squared(), items), centers)


def squared_candidates(
    classifier: str, names: Sequence[str], bags: Sequence[Sequence[Array]], items: EvaluationSet
) -> list[Candidate]:
    """Return the settings of a classifier of squared Euclidean distances; centers are averages.

    Each of `bags` has its squared distances (K, K) once or once per codebook fold; they are summed over all
    or some bags, those of each bag divided by its variance.
    """

    def training_set(chosen: Sequence[int], version: int) -> TrainingSet:
        total = _total([_cyclic(bags[k], version) for k in chosen], items)

        def centers() -> Centers:
            averages = average_centers(total, np.zeros_like(total), items.codes, items.groups)
            return Centers((averages, (1.0, 0.0), 1.0))

        return items.training_set(lambda: total, centers)

    candidates: list[Candidate] = []
    for chosen in subsets(names):
        versions = [training_set(chosen, k) for k in range(max(len(bags[bag]) for bag in chosen))]
        candidates += _of_versions(classifier, versions, items, _chosen_bags(names, chosen))
    return candidates


def _of_versions(
    classifier: str,
    versions: Sequence[TrainingSet],
    items: EvaluationSet,
    settings: Mapping[str, Any],
    tune: bool = False,
) -> list[Candidate]:
    """Return the candidates of a classifier for one description of the clips, or one per codebook fold."""
    estimator, candidates = CLASSIFIERS[classifier].estimator, list[Candidate]()
    for pairs in zip(*(estimator.candidates(version, tune=tune) for version in versions), strict=True):
        parameters = {name: "none" if value is None else value for name, value in pairs[0][0].items()}
        predictors = [predictor for _, predictor in pairs]
        candidates.append(({**settings, **parameters}, items.combine(predictors)))
    return candidates


def bag_settings(bags: BagTransformer, fixed: Sequence[str] = ()) -> dict[str, BagTransformer]:
    """Return bags with other parameters by a description of them; parameters that are fixed do not change.

    Examples
    --------
    >>> from sysbags.bags import OpticalFlow
    >>> list(bag_settings(OpticalFlow(), fixed=["window"]))
    ['as given', 'grid 2']
    """
    name = type(bags).__name__
    changes = CLASSES[name].tuning if name in CLASSES else ({},)
    return {
        ", ".join(f"{name} {value}" for name, value in change.items()) or AS_GIVEN: clone(bags).set_params(
            **change
        )
        for change in changes
        if not set(change) & set(fixed)
    }


def tuning_candidates(
    streams: Callable[[BagTransformer | None], Sequence[Sequence[Array]]],
    make_systems: Callable[[Sequence[Sequence[Array]], str, Sequence[int | str]], Systems],
    bags: BagTransformer | None,
    items: EvaluationSet,
    *,
    order: int | str | None,
    kernel: str | None,
    grids: Sequence[WeightGrid],
    fixed: Sequence[str],
    note: Callable[[str], None],
) -> list[Candidate]:
    """All settings that can be chosen: one CrossGram for each setting of the bags and each kernel.

    Predictions are tabulated at once, so that no CrossGram need be kept. `streams` describes clips by bags,
    once or once per codebook fold (None where there are only streams); `make_systems` identifies those with
    a kernel and orders to try. An order or kernel that is given does not change, nor do the parameters of
    the bags that are `fixed`. `note` gets a sentence about settings that cannot be used.
    """
    candidates: list[Candidate] = []
    orders: Sequence[int | str] = ORDERS if order is None else (order,)
    some = [replace(grid, lambda_a=grid.lambda_a[:MOST_LAMBDA_A]) for grid in grids]
    choices: dict[str, BagTransformer | None] = (
        {AS_GIVEN: None} if bags is None else {**bag_settings(bags, fixed)}
    )
    for name, changed in choices.items():
        try:
            described = streams(changed)
            for kernel_name in HISTOGRAM_KERNELS if kernel is None else (kernel,):
                largest = make_systems(described, kernel_name, descending_orders(orders))
                for n, systems in _orders(largest, orders):
                    known: dict[str, Any] = {"bag parameters": name, "kernel": kernel_name, "order": n}
                    for classifier in TUNED_CLASSIFIERS:
                        found = system_candidates(classifier, {name: systems}, some, tune=True)
                        candidates += [
                            ({**known, **settings}, TabulatedPredictor(predictor, items.groups))
                            for settings, predictor in found
                        ]
        except SysbagsError as error:
            note(f"the bags with {name} were left out of the tuning: {error}")
    return candidates


def _orders(systems: Systems, orders: Sequence[int | str]) -> Iterator[tuple[int | str, Systems]]:
    """The systems at each of some orders that at least one clip has."""
    sets = systems.sets("orthonormal")
    largest = max(system.order for system_set in sets for system in system_set.systems)
    for order in orders:
        if isinstance(order, str) or order == largest:
            yield order, systems
        elif order < largest:
            cut = [SystemSet(*truncate(*system_set, order)) for system_set in sets]
            yield order, Systems(cut, systems.items)
