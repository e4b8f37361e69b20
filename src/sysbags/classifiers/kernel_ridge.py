"""Kernel ridge classification of systems: least squares on squared distances."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_sample_weight

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_positive
from sysbags.classifiers.base import (
    Comparison,
    Item,
    SystemClassifier,
    TrainingClips,
    half_mean,
    nearest_of_each_class,
)
from sysbags.distances import METRICS
from sysbags.distances.embedding import Embedding
from sysbags.distances.pairwise import Weight
from sysbags.errors import DistanceWarning, ParameterError
from sysbags.systems.system import System

__all__ = [
    "KernelRidgeClassifier",
    "bordered",
    "euclidean_part",
    "gaussian_distances",
    "log_shares",
    "targets",
]

SMALLEST_SHARE = 0.01  # scores may be below -1
LARGE_REPAIR = 0.05  # of the spectrum; it is then worth a warning

WEIGHTED_METRICS = tuple(name for name, metric in METRICS.items() if metric.weighted)  # always finite


class KernelRidgeClassifier(SystemClassifier):
    """Classify systems by kernel ridge regression on their squared distances.

    Each class has a score ``f(x) = b - 1/2 sum_i a_i d(x, x_i)^2`` with ``sum_i a_i = 0``: a linear
    function in the space in which the distances are Euclidean. It is fitted by least squares to 1 for the
    clips of the class and to -1 for all others, with the penalty ``ridge * variance``. By default each class
    has the same weight in the sum of squares, so that large classes are not preferred. The class with the
    largest score is predicted. With a `width`, the scores are linear functions of Gaussians of the distances
    instead: d^2 is replaced by ``2 - 2 exp(-d^2 / (2 width * variance))``.

    With W the weights of the training clips and K the matrix `-D / 2`, a and b are the solution
    of ``(K + penalty W^-1) a + b = Y`` and ``sum_i a_i = 0``. In a Euclidean space the centred K has no
    negative eigenvalue. Distances between covariances are Euclidean, alignment distances are not: directions
    of negative eigenvalues have no meaning for a linear function, and would be divided by nearly nothing
    where an eigenvalue is close to minus the penalty. So K is replaced by its positive part, its nearest
    matrix without negative eigenvalues: negative eigenvalues are set to 0, and the coefficients have no part
    in their directions, in training and in prediction alike.

    A clip may have several systems, one per bag: then d^2 is the weighted sum of their squared distances,
    those of each bag divided by its variance, see `sysbags.classifiers.base.SystemClassifier`.

    Parameters
    ----------
    metric : {"normalized-covariance", "covariance", "alignment"}
        By default "normalized-covariance", which is Euclidean; see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float or "scale", default="scale"
        Weights of the transition, or of the lags, and of the mean. "scale" gives all parts the same unit, see
        `sysbags.distances.pairwise.scaled_weights`; it needs systems in the unit-variance form.
    ridge : float, default=0.1
        Penalty, above 0, relative to the variance: half the mean squared distance of two training clips.
    width : float, optional
        Width of the Gaussian, above 0, relative to the variance. By default there is no Gaussian.
    class_weight : "balanced", mapping or None, default="balanced"
        Weights of clips by class, as in scikit-learn: "balanced" is ``K / (C * clips of the class)``, None 1.
    bag_weights : sequence of float, optional
        One weight per bag, by default 1.
    compress : int, optional
        Number of samples of each training system after `fit`; by default all.
    embedding : int or Embedding, optional
        Approximate distances, which are faster for many clips: the number of landmarks of an `Embedding` that
        `fit` chooses among the training frames, one per bag, or an embedding for the only bag. By default
        distances are exact.
    probability : bool, default=False
        Calibrate probabilities and prediction sets in `fit`, by cross-validation in five folds.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : (C,) array
    systems_ : list of System, or of tuples of System
        The training clips.
    labels_ : (K,) array
        Their labels.
    compression_errors_ : (K,) array
        Largest relative squared error of each clip's systems after `compress`, 0 where no sample was dropped.
    weights_ : (B, 2) array
        `lambda_a` and `lambda_mu` of each bag.
    scales_ : (B,) array
        What the squared distances of each bag are divided by; 1 for a single bag.
    variance_ : float
        Half the mean squared distance of two training clips.
    coefficients_ : (K, C) array
        `a`.
    intercepts_ : (C,) array
        `b`.
    negative_share_ : float
        The share of the negative eigenvalues in the sum of the absolute values of all; 0 for Euclidean
        distances.
    embeddings_ : list of Embedding, or None
        One per bag; None for exact distances.
    embedding_errors_ : (K,) array
        The share of the squared norm of each training clip's observers that the embedding does not hold, the
        largest of its bags; 0 for exact distances.
    calibration_ : Calibration
        With `probability`.

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

    systems_: list[Any]

    def __init__(
        self,
        *,
        metric: str = "normalized-covariance",
        lambda_a: Weight = "scale",
        lambda_mu: Weight = "scale",
        ridge: float = 0.1,
        width: float | None = None,
        class_weight: str | Mapping[Any, float] | None = "balanced",
        bag_weights: Sequence[float] | None = None,
        compress: int | None = None,
        embedding: int | Embedding | None = None,
        probability: bool = False,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.lambda_a = lambda_a
        self.lambda_mu = lambda_mu
        self.ridge = ridge
        self.width = width
        self.class_weight = class_weight
        self.bag_weights = bag_weights
        self.compress = compress
        self.embedding = embedding
        self.probability = probability
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check(self) -> None:
        check_choice(self.metric, "metric", WEIGHTED_METRICS)
        check_positive(self.ridge, "ridge")
        if self.width is not None:
            check_positive(self.width, "width")
        weight = self.class_weight
        if not isinstance(weight, Mapping | None) and not (isinstance(weight, str) and weight == "balanced"):
            raise ParameterError(
                f"class_weight is {weight!r}, but it must be 'balanced', a mapping from labels to weights, "
                "or None"
            )

    def _learn(self, clips: TrainingClips) -> tuple[list[list[System]], npt.NDArray[Any]]:
        """Solve for the coefficients."""
        bags, classes, codes, grams = clips
        squared = self._between(bags, None, grams)
        self.variance_ = half_mean(squared)
        if self.width is not None:
            squared = gaussian_distances(squared, self.width * self.variance_)
        eigenvalues, vectors, self.negative_share_ = _positive_part(squared)
        if self.negative_share_ > LARGE_REPAIR:
            warnings.warn(
                f"the distances are far from Euclidean: {100 * self.negative_share_:.0f} % of their spectrum "
                'is negative and is set to 0; the metric "normalized-covariance" needs no such repair',
                DistanceWarning,
                stacklevel=3,
            )
        values, weights = targets(codes, len(classes)), self._weights(classes, codes)
        unit = half_mean(squared) or 1.0  # where all distances are 0, any penalty gives the same
        matrix = bordered(_between_points(eigenvalues, vectors) / unit, self.ridge / weights)
        solved = np.linalg.solve(matrix, np.pad(values, ((0, 1), (0, 0)))) / unit
        coefficients = vectors @ (vectors.T @ solved[:-1])  # no part in directions of negative eigenvalues
        self.coefficients_ = coefficients - coefficients.mean(axis=0)  # their sum is 0 but for round-off
        self.intercepts_ = np.average(values + 0.5 * squared @ self.coefficients_, axis=0, weights=weights)
        return bags, classes[codes]

    def _weights(self, classes: npt.NDArray[Any], codes: IntArray) -> Array:
        """Return the weight of each training clip."""
        try:
            weights: Array = compute_sample_weight(self.class_weight, classes[codes])
        except (TypeError, ValueError):  # as in scikit-learn: labels that are not there need all that are
            named, labels = list(self.class_weight or ()), classes.tolist()
            unknown = [label for label in named if label not in labels]
            what = f"has the label {unknown[0]!r}" if unknown else f"is {self.class_weight}"
            raise ParameterError(
                f"class_weight {what}, but it must be a mapping from the labels, "
                f"{', '.join(map(repr, labels))}, to numbers; labels that are left out have the weight 1"
            ) from None
        if not np.all(weights > 0.0):
            raise ParameterError(f"class_weight is {self.class_weight}, but all weights must be above 0")
        return weights

    def decision_function(self, systems: Sequence[Item]) -> Array:
        """Return the scores of the classes, (K, C); for two classes, as in scikit-learn, one per clip."""
        scores = self.compare(systems).scores
        return scores[:, 1] if len(self.classes_) == 2 else scores

    def _calibrated_scores(self, scores: Array) -> Array:
        return log_shares(scores)

    def _compare(self, bags: list[list[System]]) -> Comparison:
        """Compute the scores, and the distances to the nearest training clip of each class."""
        between = self._to_members(bags)
        classes, codes = np.unique(self.labels_, return_inverse=True)
        squared = between
        if self.width is not None:
            squared = gaussian_distances(between, self.width * self.variance_)
        scores = self.intercepts_ - 0.5 * squared @ self.coefficients_
        return Comparison(scores.argmax(axis=1), scores, *nearest_of_each_class(between, codes, len(classes)))


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
    return _between_points(eigenvalues, vectors)


def _between_points(eigenvalues: Array, vectors: Array) -> Array:
    """Return the squared distances of points with these eigenvalues and eigenvectors of inner products."""
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


def bordered(squared: Array, penalties: Array) -> Array:
    """Return the matrix of the linear equations of Euclidean distances, given the penalty of each item.

    ``[[-D / 2 + penalties, 1], [1', 0]] [a; b] = [Y; 0]`` gives the coefficients of all classes at once.
    """
    items = len(squared)
    matrix = np.ones((items + 1, items + 1))
    matrix[:items, :items] = -0.5 * squared
    matrix[np.arange(items), np.arange(items)] = penalties
    matrix[items, items] = 0.0
    return matrix


def log_shares(scores: Array) -> Array:
    """Return the logarithm of ``(1 + scores) / 2``, what least squares estimate the probabilities by.

    Scores are fitted to 1 for a class and to -1 for the others, so that they estimate 2 p - 1. Values
    below 0.01 are set to it; -inf stays. The temperature of a calibration is then a power of these numbers.

    Examples
    --------
    >>> np.exp(log_shares(np.array([1.0, 0.0, -0.5, -1.2, -np.inf])))
    array([1.  , 0.5 , 0.25, 0.01, 0.  ])
    """
    shares = np.log(np.maximum(0.5 * (1.0 + scores), SMALLEST_SHARE))
    return np.where(np.isfinite(scores), shares, -np.inf)


def targets(codes: IntArray, classes: int) -> Array:
    """Return 1 for the own class and -1 for the others, (K, C)."""
    return np.where(codes[:, None] == np.arange(classes), 1.0, -1.0)
