"""The cores of the classifiers: pure functions of arrays, on which estimators and evaluations are built.

Each core gives the scores of new items, and in closed form the scores of all training items without their
group, and without one more. Estimators wrap the first, `sysbags.evaluate` the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags.errors import ParameterError

__all__ = [
    "NO_PREDICTION",
    "ClassScores",
    "Predictor",
    "ScorePredictor",
    "TrainingSet",
    "deciding",
    "finite_distances",
    "half_mean",
    "nearest_of_each_class",
]

NO_PREDICTION = -1  # the index of no class


class ClassScores(NamedTuple):
    """New items compared with what a classifier has learnt.

    Attributes
    ----------
    codes : (K,) array of int
        Index of the class that is predicted.
    scores : (K, C) array
        Of each class, larger is better.
    distances : (K, C) array
        Squared distance to each class.
    nearest : (K, C) array of int
        What of each class the distance is to: the index of a training item or center.
    deciding : (K, C) array or None
        Of each class, larger is better, of equals the nearest; None where the smallest distance decides.
    """

    codes: IntArray
    scores: Array
    distances: Array
    nearest: IntArray
    deciding: Array | None = None


class Predictor(Protocol):
    """Predicts the class of every training item without its own group."""

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item, (K,), from items outside its own group.

        Parameters
        ----------
        excluding : int, optional
            A further group whose items are not used, so that nested selection can choose between predictors
            for that group. What is returned for these items themselves has no meaning.
        """


@runtime_checkable
class ScorePredictor(Predictor, Protocol):
    """Predicts by scores of classes, and can tell how far away these are."""

    def distances(self, excluding: int | None = None) -> Array:
        """Distances of each item to each class, (K, C), without its own group and a further one.

        Infinite to a class of which no item is left.
        """

    def scores(self, excluding: int | None = None) -> Array:
        """Scores of each item for each class, (K, C), without its own group and a further one.

        Larger is better, in the form that probabilities are calibrated from; -inf for a class of which no
        item is left.
        """


def deciding(predictor: ScorePredictor) -> Array | None:
    """Return what decides for each item without its own group, (K, C), as `ClassScores.deciding`.

    These are the scores, unless the predictor has a method ``deciding()``.
    """
    own: Callable[[], Array | None] = getattr(predictor, "deciding", predictor.scores)
    return own()


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingSet:
    """What the candidates of a classifier are made from, see `SystemClassifier.candidates`.

    Attributes
    ----------
    codes, groups : (K,) array of int
        Class and group of each item.
    training : (K',) array of int
        The items that units are averages over: all, but for those of an official test set.
    make_squared : callable
        Computes the squared distances between all items, (K, K), when they are first asked for.
    make_centers : callable, optional
        Returns the predictor of class centers.
    """

    codes: IntArray
    groups: IntArray
    training: IntArray
    make_squared: Callable[[], Array]
    make_centers: Callable[[], ScorePredictor] | None = None

    @cached_property
    def squared(self) -> Array:
        """The squared distances between all items."""
        return self.make_squared()

    @cached_property
    def centers(self) -> ScorePredictor:
        """The predictor of class centers."""
        if self.make_centers is None:
            raise ParameterError("these items have no means, but the classifier needs them")
        return self.make_centers()

    def variance(self, squared: Array) -> float:
        """Return `half_mean` of the training items."""
        return half_mean(squared[np.ix_(self.training, self.training)])


def half_mean(squared: Array) -> float:
    """Return half the mean squared distance of two items: the variance, if the distances are Euclidean.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 5.0])
    >>> half_mean((points[:, None] - points) ** 2), float(points.var(ddof=1))
    (7.0, 7.0)
    """
    return 0.5 * float(squared.sum()) / max(1, len(squared) * (len(squared) - 1))


def nearest_of_each_class(
    distances: Array, codes: IntArray, classes: int, usable: npt.NDArray[np.bool_] | None = None
) -> tuple[Array, IntArray]:
    """Return the smallest distance to an item of each class, (K, C), and which item that is.

    The distances, (K, L), are to L items with these class indices, of which all or some are `usable`. A class
    without any is infinitely far away.

    Examples
    --------
    >>> nearest_of_each_class(np.array([[3.0, 1.0, 2.0]]), np.array([0, 1, 0]), 2)
    (array([[2., 1.]]), array([[2, 1]]))
    """
    smallest = np.full((len(distances), classes), np.inf)
    nearest = np.full((len(distances), classes), NO_PREDICTION)
    for c in range(classes):
        members = np.flatnonzero(codes == c if usable is None else (codes == c) & usable)
        if members.size:
            nearest[:, c] = members[distances[:, members].argmin(axis=1)]
            smallest[:, c] = distances[np.arange(len(distances)), nearest[:, c]]
    return smallest, nearest


def finite_distances(distances: npt.ArrayLike, shape: tuple[int, int]) -> Array:
    """Check distances; infinite ones, as some metrics have them, become numbers that can be summed."""
    array = np.asarray(distances)
    if array.shape != shape:
        raise ParameterError(f"distances has shape {array.shape}, but it must be {shape}")
    if np.isnan(array).any():
        raise ParameterError("distances holds NaN, but every distance must be a number or infinite")
    return np.asarray(np.minimum(array, np.finfo(np.float64).max / (2.0 * shape[1])))
