"""Kernel ridge classification of systems: least squares on squared distances."""

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
from sysbags._common.validation import check_choice, check_labels, check_positive, check_weight
from sysbags.distances.gram import SystemStack
from sysbags.distances.pairwise import pairwise_distances
from sysbags.distances.registry import METRICS
from sysbags.distances.weights import Weight, resolve_weights
from sysbags.errors import DistanceWarning, ParameterError
from sysbags.systems.system import System
from sysbags.systems.validation import check_systems

__all__ = [
    "KernelRidgeClassifier",
    "bordered",
    "euclidean_part",
    "gaussian_distances",
    "half_mean",
    "targets",
]

LARGE_REPAIR = 0.05  # of the spectrum; it is then worth a warning

WEIGHTED_METRICS = tuple(name for name, metric in METRICS.items() if metric.weighted)  # always finite

Item = System | Sequence[System]


class KernelRidgeClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Classify systems by kernel ridge regression on their squared distances.

    Each class has a score ``f(x) = b - 1/2 sum_i a_i d(x, x_i)^2`` with ``sum_i a_i = 0``: a linear
    function in the space in which the distances are Euclidean. It is fitted by least squares to 1 for the
    clips of the class and to -1 for all others, with the penalty ``ridge * variance``. The class with the
    largest score is predicted. With a `width`, the scores are linear functions of Gaussians of the distances
    instead: d^2 is replaced by ``2 - 2 exp(-d^2 / (2 width * variance))``.

    With K the centred matrix `-D / 2` of the training clips, the coefficients are ``a = (K + ridge)^-1 Y``.
    In a Euclidean space K has no negative eigenvalue. Distances between covariances are Euclidean, alignment
    distances are not: directions of negative eigenvalues have no meaning for a linear function, and would be
    divided by nearly nothing where an eigenvalue is close to minus the ridge. So K is replaced by its
    positive part, its nearest matrix without negative eigenvalues: negative eigenvalues are set to 0, and the
    coefficients have no part in their directions, in training and in prediction alike.

    A clip may have several systems, one per bag: then d^2 is the weighted sum of their squared distances.

    Parameters
    ----------
    metric : {"normalized-covariance", "covariance", "alignment"}
        By default "normalized-covariance", which is Euclidean; see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float or "scale", default="scale"
        Weights of the transition, or of the lags, and of the mean. "scale" gives all parts the same unit, see
        `sysbags.distances.weights.scaled_weights`; it needs systems in the unit-variance form.
    ridge : float, default=0.1
        Penalty, above 0, relative to the variance: half the mean squared distance of two training clips.
    width : float, optional
        Width of the Gaussian, above 0, relative to the variance. By default there is no Gaussian.
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
    weights_ : (B, 2) array
        `lambda_a` and `lambda_mu` of each bag.
    variance_ : float
        Half the mean squared distance of two training clips.
    coefficients_ : (K, C) array
        `a`.
    intercepts_ : (C,) array
        `b`.
    negative_share_ : float
        The share of the negative eigenvalues in the sum of the absolute values of all; 0 for Euclidean
        distances.

    Warns
    -----
    DistanceWarning
        If that share is above 5 %.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=6, frames=30, bins=8)
    >>> systems = sysbags.SystemIdentifier(order=2, normal_form="unit-variance").fit_transform(streams)
    >>> model = sysbags.KernelRidgeClassifier().fit(systems, labels)
    >>> model.coefficients_.shape, model.decision_function(systems[:3]).shape
    ((12, 2), (3,))
    >>> bool((model.predict(systems) == labels).all())
    True
    """

    def __init__(
        self,
        *,
        metric: str = "normalized-covariance",
        lambda_a: Weight = "scale",
        lambda_mu: Weight = "scale",
        ridge: float = 0.1,
        width: float | None = None,
        bag_weights: Sequence[float] | None = None,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.lambda_a = lambda_a
        self.lambda_mu = lambda_mu
        self.ridge = ridge
        self.width = width
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
        check_choice(self.metric, "metric", WEIGHTED_METRICS)
        bags = _by_bag(systems)
        self.classes_, codes = check_labels(labels, len(bags[0]))
        ridge, width = check_positive(self.ridge, "ridge"), self.width
        if width is not None:
            check_positive(width, "width")
        self.weights_ = np.array(
            [resolve_weights(SystemStack.of(bag), self.metric, self.lambda_a, self.lambda_mu) for bag in bags]
        )
        squared = self._between(bags, None)
        self.variance_ = half_mean(squared)
        if width is not None:
            squared = gaussian_distances(squared, width * self.variance_)
        eigenvalues, vectors, self.negative_share_ = _positive_part(squared)
        if self.negative_share_ > LARGE_REPAIR:
            warnings.warn(
                f"the distances are far from Euclidean: {100 * self.negative_share_:.0f} % of their spectrum "
                'is negative and is set to 0; the metric "normalized-covariance" needs no such repair',
                DistanceWarning,
                stacklevel=2,
            )
        values = targets(codes, len(self.classes_))
        penalty = ridge * half_mean(squared)
        averages = values.mean(axis=0)
        parts = (vectors.T @ (values - averages)) / (eigenvalues + penalty)[:, None]
        coefficients = vectors @ parts
        self.coefficients_ = coefficients - coefficients.mean(axis=0)  # their sum is 0 but for round-off
        self.intercepts_ = averages + 0.5 * squared.mean(axis=0) @ self.coefficients_
        self.systems_ = bags
        return self

    def decision_function(self, systems: Sequence[Item]) -> Array:
        """Return the scores of the classes, (K, C); for two classes, as in scikit-learn, one per clip."""
        check_is_fitted(self)
        squared = self._between(_by_bag(systems), self.systems_)
        if self.width is not None:
            squared = gaussian_distances(squared, self.width * self.variance_)
        scores = self.intercepts_ - 0.5 * squared @ self.coefficients_
        return np.asarray(scores[:, 1] if len(self.classes_) == 2 else scores)

    def predict(self, systems: Sequence[Item]) -> npt.NDArray[Any]:
        """Return the label of the class with the largest score."""
        scores = self.decision_function(systems)
        best = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _between(self, bags: list[list[System]], others: list[list[System]] | None) -> Array:
        """Return the weighted sum of squared distances over the bags."""
        bag_weights = np.ones(len(bags)) if self.bag_weights is None else self.bag_weights
        expected = len(bag_weights) if others is None else len(others)
        if len(bags) != expected:
            raise ParameterError(f"a clip has {len(bags)} systems, but there must be {expected} of them")
        total = np.zeros((len(bags[0]), len(bags[0] if others is None else others[0])))
        for k, weight in enumerate(bag_weights):
            total += check_weight(weight, "a bag's weight") * pairwise_distances(
                bags[k],
                None if others is None else others[k],
                self.metric,
                lambda_a=self.weights_[k, 0],
                lambda_mu=self.weights_[k, 1],
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


def half_mean(squared: Array) -> float:
    """Return half the mean squared distance of two items: the variance, if the distances are Euclidean.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 5.0])
    >>> half_mean((points[:, None] - points) ** 2), float(points.var(ddof=1))
    (7.0, 7.0)
    """
    return 0.5 * float(squared.sum()) / max(1, len(squared) * (len(squared) - 1))


def gaussian_distances(squared: Array, width: float) -> Array:
    """Return the squared distances in the feature space of a Gaussian, ``2 - 2 exp(-D / (2 width))``."""
    return np.asarray(-2.0 * np.expm1(squared / (-2.0 * width)) if width > 0.0 else squared)


def euclidean_part(squared: Array) -> Array:
    """Return the squared distances of the positive part of the centred `-D / 2`: these are Euclidean.

    Distances that are Euclidean do not change.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 3.0])
    >>> squared = (points[:, None] - points) ** 2
    >>> bool(np.allclose(euclidean_part(squared), squared))
    True
    >>> triangle = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])  # 1 + 1 is less than 3
    >>> euclidean_part(triangle).round(6)[0]
    array([0.  , 2.25, 9.  ])
    """
    eigenvalues, vectors, negative_share = _positive_part(squared)
    if negative_share == 0.0:
        return squared
    kernel = (vectors * eigenvalues) @ vectors.T
    norms = np.diag(kernel)
    return np.maximum(norms[:, None] + norms - kernel - kernel.T, 0.0)


def _positive_part(squared: Array) -> tuple[Array, Array, float]:
    """Return the eigenvalues of the centred `-D / 2` from 0 on, their vectors, and the negative share.

    Those that are 0 but for round-off are kept: their directions are not determined.
    """
    centred = -0.5 * squared
    centred = centred - centred.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (centred + centred.T))
    # Round-off is not counted.
    noise = len(squared) * np.finfo(float).eps * float(np.abs(centred).max(initial=0.0))
    total = float(np.abs(eigenvalues).sum())
    negative = float(-eigenvalues[eigenvalues < -noise].sum())
    kept = eigenvalues > -noise
    return np.maximum(eigenvalues[kept], 0.0), vectors[:, kept], negative / total if negative else 0.0


def bordered(squared: Array, penalty: float) -> Array:
    """Return the matrix of the linear equations of Euclidean distances.

    ``[[-D / 2 + penalty I, 1], [1', 0]] [a; b] = [Y; 0]`` gives the coefficients of all classes at once.
    """
    check_positive(penalty, "the penalty")
    items = len(squared)
    matrix = np.ones((items + 1, items + 1))
    matrix[:items, :items] = -0.5 * squared
    matrix[np.arange(items), np.arange(items)] = penalty
    matrix[items, items] = 0.0
    return matrix


def targets(codes: IntArray, classes: int) -> Array:
    """Return 1 for the own class and -1 for the others, (K, C)."""
    return np.where(codes[:, None] == np.arange(classes), 1.0, -1.0)
