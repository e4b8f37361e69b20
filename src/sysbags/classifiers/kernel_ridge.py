"""Kernel ridge classification of systems: least squares on squared alignment distances."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_labels, check_weight
from sysbags.distances.pairwise import pairwise_distances
from sysbags.errors import DistanceWarning, ParameterError
from sysbags.systems.system import System
from sysbags.systems.validation import check_systems

__all__ = ["KernelRidgeClassifier", "bordered", "euclidean_shift", "targets"]

LARGE_SHIFT = 0.1  # of the variance; the repair is then worth a warning

Item = System | Sequence[System]


class KernelRidgeClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Classify systems by kernel ridge regression on their squared alignment distances.

    Each class has a score ``f(x) = b - 1/2 sum_i a_i d(x, x_i)^2`` with ``sum_i a_i = 0``: a linear
    function in the space in which the distances are Euclidean. It is fitted by least squares to 1 for the
    clips of the class and to -1 for all others, with the penalty `ridge`. The class with the largest score is
    predicted. For all classes at once this is one system of linear equations,

    ``[[-D / 2 + ridge I, 1], [1', 0]] [a; b] = [Y; 0]``,

    with D the squared distances between the training clips. In a Euclidean space `-D / 2` has no negative
    eigenvalue on vectors of sum 0. Alignment distances are not Euclidean: where an eigenvalue is close to
    minus the ridge, the solution is arbitrary. So D is repaired first by the constant shift embedding
    (Roth, Laub, Kawanabe & Buhmann 2003): ``D + 2 s`` off the diagonal, with the smallest `s` that makes it
    Euclidean, minus the smallest eigenvalue. The shift is the same for all training clips, so it cancels in
    the scores of new clips; on the training clips it has the effect of the ridge ``ridge + s``.

    A clip may have several systems, one per bag: then d^2 is the weighted sum of their squared distances.

    Parameters
    ----------
    lambda_a, lambda_mu : float, default=0.25, 100.0
        Weights of the transition and of the mean; the mean helps kernel ridge more than nearest neighbours.
    ridge : float, default=1.0
        Penalty, above 0, in the unit of squared distances. The shift of the repair is added to it.
    bag_weights : sequence of float, optional
        One weight per bag, by default 1.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : (C,) array
    systems_ : list of lists of System
        The training systems, bag by bag.
    coefficients_ : (K, C) array
        `a`.
    intercepts_ : (C,) array
        `b`.
    shift_ : float
        `s`, 0 for Euclidean distances.

    Warns
    -----
    DistanceWarning
        If the shift is above a tenth of the variance, half the mean squared distance of two training clips.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=6, frames=30, bins=8)
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> model = sysbags.KernelRidgeClassifier().fit(systems, labels)
    >>> model.coefficients_.shape, model.decision_function(systems[:3]).shape
    ((12, 2), (3,))
    >>> bool((model.predict(systems) == labels).all())
    True
    """

    def __init__(
        self,
        *,
        lambda_a: float = 0.25,
        lambda_mu: float = 100.0,
        ridge: float = 1.0,
        bag_weights: Sequence[float] | None = None,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.lambda_a = lambda_a
        self.lambda_mu = lambda_mu
        self.ridge = ridge
        self.bag_weights = bag_weights
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, systems: Sequence[Item], labels: npt.ArrayLike) -> KernelRidgeClassifier:
        """Solve for the coefficients.

        Parameters
        ----------
        systems : sequence of System, or of sequences of System
            One system per clip, or one per bag of each clip.
        labels : (K,) array_like
        """
        bags = _by_bag(systems)
        self.classes_, codes = check_labels(labels, len(bags[0]))
        values = targets(codes, len(self.classes_))
        between = self._between(bags, None)
        self.shift_ = euclidean_shift(between)
        variance = 0.5 * between.sum() / max(1, len(between) * (len(between) - 1))
        if self.shift_ > LARGE_SHIFT * variance:
            warnings.warn(
                f"the distances are far from Euclidean: their shift of {self.shift_:.3g} is "
                f"{100 * self.shift_ / variance:.0f} % of the variance, and raises the ridge from "
                f"{self.ridge:.3g} to {self.ridge + self.shift_:.3g}",
                DistanceWarning,
                stacklevel=2,
            )
        solution = np.linalg.solve(
            bordered(between, self.ridge, self.shift_), np.vstack([values, np.zeros((1, values.shape[1]))])
        )
        self.systems_, self.coefficients_, self.intercepts_ = bags, solution[:-1], solution[-1]
        return self

    def decision_function(self, systems: Sequence[Item]) -> Array:
        """Return the scores of the classes, (K, C); for two classes, as in scikit-learn, one per clip."""
        check_is_fitted(self)
        scores = self.intercepts_ - 0.5 * self._between(_by_bag(systems), self.systems_) @ self.coefficients_
        return np.asarray(scores[:, 1] if len(self.classes_) == 2 else scores)

    def predict(self, systems: Sequence[Item]) -> npt.NDArray[Any]:
        """Return the label of the class with the largest score."""
        scores = self.decision_function(systems)
        best = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _between(self, bags: list[list[System]], others: list[list[System]] | None) -> Array:
        """Return the weighted sum of squared distances over the bags."""
        weights = np.ones(len(bags)) if self.bag_weights is None else self.bag_weights
        expected = len(weights) if others is None else len(others)
        if len(bags) != expected:
            raise ParameterError(f"a clip has {len(bags)} systems, but there must be {expected} of them")
        total = np.zeros((len(bags[0]), len(bags[0] if others is None else others[0])))
        for k, weight in enumerate(weights):
            total += check_weight(weight, "a bag's weight") * pairwise_distances(
                bags[k],
                None if others is None else others[k],
                lambda_a=self.lambda_a,
                lambda_mu=self.lambda_mu,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
            )
        return total


def _by_bag(systems: Any) -> list[list[System]]:
    """Turn one system per clip, or several, into one list of systems per bag."""
    items = [[item] if isinstance(item, System) else list(item) for item in systems]
    if not items or len({len(item) for item in items}) > 1 or not items[0]:
        raise ParameterError("systems must hold at least one clip, each with the same number of systems")
    return [check_systems(list(bag)) for bag in zip(*items, strict=True)]


def euclidean_shift(distances: Array) -> float:
    """Return the smallest s, 0 or more, for which ``D + 2 s`` off the diagonal is Euclidean.

    That is minus the smallest eigenvalue of the centred `-D / 2`. For a part of the items it is not larger.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 3.0])
    >>> round(euclidean_shift((points[:, None] - points) ** 2), 12)
    0.0
    >>> triangle = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])  # 1 + 1 is less than 3
    >>> round(euclidean_shift(triangle), 6)
    0.833333
    """
    centred = -0.5 * distances
    centred = centred - centred.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    smallest = float(np.linalg.eigvalsh(0.5 * (centred + centred.T))[0])
    # Round-off of the eigenvalues is no reason for a repair.
    noise = len(distances) * np.finfo(float).eps * float(np.abs(centred).max(initial=0.0))
    return -smallest if smallest < -noise else 0.0


def bordered(distances: Array, ridge: float, shift: float) -> Array:
    """Return the matrix of the linear equations, ``[[-D / 2 + (ridge + shift) I, 1], [1', 0]]``."""
    if check_weight(ridge, "ridge") == 0.0:
        raise ParameterError("ridge is 0, but it must be above 0")
    items = len(distances)
    matrix = np.ones((items + 1, items + 1))
    matrix[:items, :items] = -0.5 * distances
    matrix[np.arange(items), np.arange(items)] = ridge + shift
    matrix[items, items] = 0.0
    return matrix


def targets(codes: IntArray, classes: int) -> Array:
    """Return 1 for the own class and -1 for the others, (K, C)."""
    return np.where(codes[:, None] == np.arange(classes), 1.0, -1.0)
