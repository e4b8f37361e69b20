"""Confidence of classifiers: calibrated probabilities and conformal prediction sets, with groups as units."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_labels, check_share, seed_of
from sysbags.errors import CalibrationError, ParameterError

TEMPERATURES = (1e-3, 1e3)  # in the unit of the scores: the median difference of the best and the worst class
FARTHEST = 1e9  # in the same unit: farther scores have no further say in the temperature
ROUND_OFF = 1e-9  # of sums of weights; what is equal in exact numbers must not depend on their order
CELLS = 4_000_000  # comparisons at a time

Method = TypeVar("Method", bound=Callable[..., Any])


# Why not MAPIE: it takes an estimator, which it calls itself, and weighs all items alike. Its `groups` go to
# the cross-validator and its sample weights to `fit` only (1.6.0), so that it cannot calibrate by groups, nor
# by scores that were computed without an item's group.
@dataclass(frozen=True, eq=False, kw_only=True)
class Calibration:
    """How much the scores of a classifier are worth, learnt from items that it has not seen.

    Items of one group, such as clips of one recording, are alike, and a new clip comes from a new group. So
    groups are the units: each has the weight 1, divided between its items.

    **Probabilities** are ``softmax(scores / temperature)``; the temperature has the largest likelihood on
    the calibration items (Guo et al., 2017). It is no lower than what gives the predicted classes the
    average probability ``(G + 1) / (G + 2)``: if all of G groups are predicted rightly, the likelihood grows
    until each probability is 1, but Laplace's rule of succession allows no more.

    **p-values** answer for a clip and a class: if this were the clip's class, how large is the share of items
    that fit their own class no better? An item fits badly if its class is improbable (its surprise, minus the
    log probability, is large) or far away; each is turned into a rank among the calibration items and the
    clip, and the larger rank counts. A clip of an unknown class is far from all classes, and fits none.

    Given the items of all G + 1 groups, with those of the clip's own group, the clip is a draw that takes
    each group equally often and then one of its items, so the weight of the items that fit no better is a
    p-value (hierarchical conformal prediction: Lee, Barber and Willett, 2023; Dunn, Wasserman and Ramdas,
    2022). Of its own group only the clip is known, so the ranks are known up to the place of its weight of 1:
    an item is counted if any place makes it fit no better, which can only enlarge the p-value, and with one
    item per group nothing is unknown. Sets then cover items of new groups that are exchangeable with the
    known ones, on average: not each class, nor other kinds of groups. This is exact if scores and
    temperature do not depend on the calibration items; out-of-group scores of the same classifier come close
    to it, as in cross-validation (`benchmarks/coverage.py` tests it).

    Attributes
    ----------
    temperature : float
    surprise : (K,) array
        Minus the log probability of the true class of each calibration item.
    distances : (K,) array
        The squared distance of each to its true class.
    weights : (K,) array
        1 / number of calibration items in the item's group; their sum is the number of groups.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes, groups = np.arange(60) % 2, np.arange(60) // 2
    >>> points = codes + 0.3 * rng.standard_normal(60)
    >>> squared = (points[:, None] - np.arange(2)) ** 2
    >>> calibration = Calibration.fit(-squared, squared, codes, groups)
    >>> new = (np.array([0.0, 0.5, 5.0])[:, None] - np.arange(2)) ** 2
    >>> calibration.probabilities(-new).round(2)
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 1. ]])
    >>> calibration.sets(-new, new, alpha=0.1)  # the last is far from both
    array([[ True, False],
           [False, False],
           [False, False]])
    """

    temperature: float
    surprise: Array
    distances: Array
    weights: Array

    @classmethod
    def fit(
        cls, scores: npt.ArrayLike, distances: npt.ArrayLike, codes: IntArray, groups: npt.ArrayLike
    ) -> Calibration:
        """Calibrate with items whose scores were computed without their group.

        Parameters
        ----------
        scores : (K, C) array_like
            Larger is better; -inf for a class of which no item was left.
        distances : (K, C) array_like
            Squared distance to each class; infinite where no item was left. An item with nothing left of its
            own class cannot calibrate, and is left out.
        codes : (K,) array of int
            The true class of each item.
        groups : (K,) array_like
            What belongs together.
        """
        scores, distances = _check_pair(scores, distances)
        rows = np.arange(len(scores))
        _, units = check_labels(groups, len(rows), "groups")
        usable = np.isfinite(scores[rows, codes]) & np.isfinite(distances[rows, codes])
        if not usable.any():
            raise ParameterError(
                "no class has items in two groups, but those calibrate whose class is in another group too"
            )
        scores, distances, codes, units = scores[usable], distances[usable], codes[usable], units[usable]
        rows = np.arange(len(scores))
        weights = 1.0 / np.bincount(units)[units]
        temperature = _temperature(scores, codes, weights)
        return cls(
            temperature=temperature,
            surprise=-_log_probabilities(scores, temperature)[rows, codes],
            distances=distances[rows, codes],
            weights=weights,
        )

    @property
    def groups(self) -> int:
        """The number of groups."""
        return round(float(self.weights.sum()))

    @property
    def smallest_alpha(self) -> float:
        """The smallest p-value there can be, 1 / (G + 1): below this level, every set holds all classes."""
        return 1.0 / (self.groups + 1)

    def probabilities(self, scores: npt.ArrayLike) -> Array:
        """Return the probability of each class, (n, C); 0 for scores of -inf."""
        return np.exp(_log_probabilities(np.asarray(scores, dtype=np.float64), self.temperature))

    def p_values(self, scores: npt.ArrayLike, distances: npt.ArrayLike) -> Array:
        """Return the p-value of each class, (n, C)."""
        scores, distances = _check_pair(scores, distances)
        surprise = -_log_probabilities(scores, self.temperature)
        return conformal_p_values(self.surprise, self.distances, self.weights, surprise, distances)

    def confidence(self, scores: npt.ArrayLike, distances: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the probability and the p-value of each class, (n, C) each."""
        return self.probabilities(scores), self.p_values(scores, distances)

    def sets(self, scores: npt.ArrayLike, distances: npt.ArrayLike, alpha: float = 0.1) -> Any:
        """Return which classes are in the set of each item, (n, C); see `prediction_sets`."""
        return prediction_sets(self.p_values(scores, distances), alpha)


def conformal_p_values(
    surprise: Array, distances: Array, weights: Array, new_surprise: Array, new_distances: Array
) -> Array:
    """Return p-values of pairs of a surprise and a distance among those of calibration items.

    See `Calibration` for the former, (K,); the new ones and the result are (n, C).

    Examples
    --------
    >>> known, weights = np.array([1.0, 2.0, 3.0]), np.ones(3)
    >>> conformal_p_values(known, known, weights, np.array([[0.5, 2.5, 9.0]]), np.array([[0.5, 2.5, 9.0]]))
    array([[1.  , 0.5 , 0.25]])
    """
    sides = (surprise, distances)
    ranks = [_ranks(known, weights, known) for known in sides]
    result = np.empty(new_surprise.shape)
    step = max(1, CELLS // (new_surprise.shape[1] * len(weights)))
    for rows in (slice(start, start + step) for start in range(0, len(result), step)):
        new = (new_surprise[rows], new_distances[rows])
        new_ranks = [_ranks(known, weights, side)[..., None] for known, side in zip(sides, new, strict=True)]
        beyond = [known >= side[..., None] for known, side in zip(sides, new, strict=True)]
        counted = beyond[0] & beyond[1]
        for this, other in ((0, 1), (1, 0)):
            # Beyond the new item in one rank alone. That rank may hold up to 1 more, all of the new item's
            # group; the other rank of the new item holds more than it has here, by its own part of the 1.
            counted |= beyond[this] & (ranks[this] + 1.0 > new_ranks[other] + ROUND_OFF)
        result[rows] = 1.0 + counted @ weights
    return np.asarray(result / (weights.sum() + 1.0))


def prediction_sets(p_values: Array, alpha: float = 0.1) -> npt.NDArray[np.bool_]:
    """Return which classes have a p-value above `alpha`: a set that misses the true class so rarely.

    A set can be empty: then the item fits none of the classes.

    Examples
    --------
    >>> prediction_sets(np.array([[0.9, 0.2, 0.05], [0.04, 0.1, 0.02]]), alpha=0.1)
    array([[ True,  True, False],
           [False, False, False]])
    """
    return np.asarray(p_values > check_share(alpha, "alpha", low="(", high=")") + ROUND_OFF)


class _Calibrated:
    """A method that exists only once there is a calibration, as scikit-learn has them for probabilities."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._function
        if getattr(instance, "calibration_", None) is None:
            what = "fit with items of one class in two groups at least"
            if not getattr(instance, "probability", True):
                what = "fit with probability=True, which takes five more fits"
            raise CalibrationError(f"{self._function.__name__} needs scores of items left out: {what}")
        return MethodType(self._function, instance)


def _if_calibrated(function: Method) -> Method:
    return cast(Method, _Calibrated(function))


class ConfidenceMixin:
    """Probabilities and prediction sets of a classifier with `classes_` and, if calibrated, `calibration_`.

    The classifier has a method ``_class_scores(systems)`` that returns scores, larger for better classes, and
    squared distances to the classes, both (n, C).
    """

    calibration_: Calibration | None

    def _class_scores(self, systems: Any) -> tuple[Array, Array]:
        raise NotImplementedError

    @_if_calibrated
    def predict_proba(self, systems: Any) -> Array:
        """Return the probability of each class, (n, C); see `Calibration`.

        Parameters
        ----------
        systems : sequence
            As for `predict`.
        """
        scores, _ = self._class_scores(systems)
        return cast(Calibration, self.calibration_).probabilities(scores)

    @_if_calibrated
    def p_values(self, systems: Any) -> Array:
        """Return the conformal p-value of each class, (n, C); see `Calibration`.

        Parameters
        ----------
        systems : sequence
            As for `predict`.
        """
        return cast(Calibration, self.calibration_).p_values(*self._class_scores(systems))

    @_if_calibrated
    def predict_set(self, systems: Any, alpha: float = 0.1) -> list[list[Any]]:
        """Return the classes that each system may have: sets that miss the true one with probability `alpha`.

        Parameters
        ----------
        systems : sequence
            As for `predict`.
        alpha : float, default=0.1
            With G groups of training clips no p-value is below 1 / (G + 1), `calibration_.smallest_alpha`:
            below that level, every set holds all classes.

        Returns
        -------
        list of lists
            Labels, the most probable first. An empty list means: none of these.
        """
        calibration = cast(Calibration, self.calibration_)
        scores, distances = self._class_scores(systems)
        sets = calibration.sets(scores, distances, alpha)
        ordered = np.argsort(-calibration.probabilities(scores), axis=1, kind="stable")
        classes = cast(Any, self).classes_  # an attribute of some classifiers, a property of others
        return [classes[order[inside[order]]].tolist() for order, inside in zip(ordered, sets, strict=True)]


def cross_fitted_scores(
    estimator: Any,
    systems: Sequence[Any],
    labels: npt.ArrayLike,
    groups: npt.ArrayLike | None = None,
    *,
    folds: int = 5,
    random_state: int | np.random.Generator | None = 0,
) -> tuple[Array, Array]:
    """Return scores and squared distances of each item by clones that were fitted without its group.

    Groups are not split; by default each item is a group of its own. There are fewer folds if there are not
    so many groups, or no class has so many items. Scores and distances, (K, C), are -inf and infinite for
    classes of which no item was left.
    """
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedGroupKFold

    items = len(systems)
    classes, codes = check_labels(labels, items)
    names, units = (np.arange(items),) * 2 if groups is None else check_labels(groups, items, "groups")
    counts = np.bincount(codes)
    parts = min(check_integer(folds, "folds", 2), len(names), int(counts.max()))
    if parts < 2:
        raise ParameterError(
            "each class has a single item, or all items are in one group, but calibration needs two of each"
        )
    scores, distances = np.full((items, len(counts)), -np.inf), np.full((items, len(counts)), np.inf)
    splitter = StratifiedGroupKFold(parts, shuffle=True, random_state=seed_of(random_state))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # classes of few items are allowed
        splits = list(splitter.split(codes, codes, units))
    for train, test in splits:
        model = clone(estimator).fit([systems[k] for k in train], classes[codes[train]])
        cells = np.ix_(test, np.searchsorted(classes, model.classes_))
        scores[cells], distances[cells] = model._class_scores([systems[k] for k in test])
    return scores, distances


def _check_pair(scores: npt.ArrayLike, distances: npt.ArrayLike) -> tuple[Array, Array]:
    first, second = np.asarray(scores, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    if first.ndim != 2 or first.shape != second.shape:
        raise ParameterError(
            f"scores and distances have shapes {first.shape} and {second.shape}, but both must be (K, C): "
            "one row per item, one column per class"
        )
    if np.isnan(first).any() or np.isnan(second).any():
        raise ParameterError("scores or distances hold NaN, but each must be a number, or infinite")
    return first, second


def _log_probabilities(scores: Array, temperature: float) -> Array:
    """Return the logarithm of ``softmax(scores / temperature)``; -inf in rows without any class."""
    best = scores.max(axis=1, keepdims=True)
    best = np.where(np.isfinite(best), best, 0.0)
    with np.errstate(over="ignore"):  # what is too far away has the probability 0
        shifted = (scores - best) / temperature
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.where(total > 0.0, total, 1.0)))


def _temperature(scores: Array, codes: IntArray, weights: Array) -> float:
    """Return the temperature with the largest likelihood, but for the limit of `Calibration`.

    scikit-learn has the same as ``CalibratedClassifierCV(FrozenEstimator(...), method="temperature")``, from
    1.8 on. It takes scores between 0 and 1 for probabilities, allows no -inf, and its bounds depend on the
    unit of the scores, which is arbitrary here.
    """
    from scipy.optimize import brentq

    finite = np.isfinite(scores)
    kept = finite.sum(axis=1) > 1  # others have the probability 1 at every temperature
    scores, codes, weights, finite = scores[kept], codes[kept], weights[kept], finite[kept]
    below = scores.max(axis=1, keepdims=True, initial=-np.inf) - scores
    ranges = np.where(finite, below, 0.0).max(axis=1, initial=0.0)
    if not (ranges > 0.0).any():
        return 1.0  # all scores are alike, and so are the probabilities at every temperature
    unit = float(np.median(ranges[ranges > 0.0]))
    with np.errstate(over="ignore"):
        scaled = np.where(finite, -np.minimum(below / unit, FARTHEST), -np.inf)
    known = np.where(finite, scaled, 0.0)
    true, groups = known[np.arange(len(codes)), codes], float(weights.sum())

    def slope(log_temperature: float) -> float:
        """Derivative of minus the log likelihood by 1 / temperature."""
        probabilities = np.exp(_log_probabilities(scaled, np.exp(log_temperature)))
        return float(weights @ ((probabilities * known).sum(axis=1) - true))

    def excess(log_temperature: float) -> float:
        """Average probability of the predicted classes, above the largest that is allowed."""
        probabilities = np.exp(_log_probabilities(scaled, np.exp(log_temperature)))
        return float(weights @ probabilities.max(axis=1) / groups - (groups + 1.0) / (groups + 2.0))

    low, high = np.log(TEMPERATURES)

    def zero(falling: Callable[[float], float], start: float) -> float:
        if falling(start) <= 0.0:
            return start
        return float(high) if falling(high) >= 0.0 else float(brentq(falling, start, high, xtol=1e-12))

    return float(unit * np.exp(zero(excess, zero(slope, float(low)))))


def _ranks(values: Array, weights: Array, at: Array) -> Array:
    """Return the weight of the values that are not above some places."""
    order = np.argsort(values, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    return np.asarray(below[np.searchsorted(values[order], at, side="right")])
