"""Kernel ridge classification of systems: least squares on squared distances."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_sample_weight

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_positive, check_two_classes
from sysbags.classifiers.base import Item, SystemClassifier, TrainingClips
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.scores import (
    ClassScores,
    ScorePredictor,
    TrainingSet,
    half_mean,
    nearest_of_each_class,
)
from sysbags.classifiers.scores.ridge import (
    Ridge,
    euclidean_part,
    fit_ridge,
    gaussian_distances,
    log_shares,
    ridge_scores,
)
from sysbags.distances import METRICS
from sysbags.distances.pairwise import Weight
from sysbags.errors import DistanceWarning, ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.system import System

RIDGES = (1.0, 0.3, 0.1, 0.03)  # to choose from, the strongest first, which the rule prefers
WIDTHS = (None, 1.0)
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
        `sysbags.distances.pairwise.scaled_weights`. This and the two metrics of covariances are for the
        unit-variance form: systems in the orthonormal form, the default of `SystemIdentifier`, are changed to
        it exactly, as if they had been identified in it.
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
    embedding : int or StreamEmbedding, optional
        Approximate distances, which are faster for many clips: the number of landmarks that `fit` chooses
        among the training frames, one embedding per bag, or an embedding for the only bag, which is fitted
        unless it is already. By default distances are exact.
    probability : bool, default=True
        Calibrate probabilities and prediction sets in `fit`, by the scores of each clip without its group.
        They have a closed form, for which no distance is computed again.
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
    embeddings_ : list of StreamEmbedding, or None
        One per bag; None for exact distances.
    embedding_errors_ : (K,) array
        The share of the squared norm of each training clip's observers that the embedding does not hold, the
        largest of its bags; 0 for exact distances.
    calibration_ : Calibration or None
        With `probability`; None if no class is in two groups.

    Warns
    -----
    DistanceWarning
        If that share is above 5 %.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=6, frames=30, bins=8)
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> model = sysbags.KernelRidgeClassifier().fit(systems, labels)
    >>> model.coefficients_.shape, model.decision_function(systems[:3]).shape
    ((12, 2), (3,))
    >>> bool((model.predict(systems) == labels).all()), model.predict_proba(systems[:3]).shape
    (True, (3, 2))
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
        embedding: int | StreamEmbedding | None = None,
        probability: bool = True,
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
        bags, classes, codes, groups, grams = clips
        check_two_classes(classes)
        squared = between = self._between(bags, None, grams)
        self.variance_ = half_mean(squared)
        if self.width is not None:
            squared = gaussian_distances(squared, self.width * self.variance_)
        weights = self._weights(classes, codes)
        fit = fit_ridge(squared, codes, len(classes), self.ridge, weights)
        self.coefficients_, self.intercepts_, self.negative_share_ = fit
        if self.negative_share_ > LARGE_REPAIR:
            warnings.warn(
                f"the distances are far from Euclidean: {100 * self.negative_share_:.0f} % of their spectrum "
                'is negative and is set to 0; the metric "normalized-covariance" needs no such repair',
                DistanceWarning,
                stacklevel=3,
            )
        if self.probability:
            self._calibrate_ridge(squared, codes, groups, weights, between)
        return bags, classes[codes]

    def _calibrate_ridge(
        self, squared: Array, codes: IntArray, groups: IntArray, weights: Array, between: Array
    ) -> None:
        """Calibrate by the scores of each clip without its group, if a class has two."""
        if self.negative_share_ > 0.0:
            squared = euclidean_part(squared)
        penalty = self.ridge * (half_mean(squared) or 1.0)
        if self.class_weight == "balanced":
            class_size = len(codes) / (int(codes.max()) + 1)
            predictor = Ridge(squared, codes, groups, penalty, class_size, between)
        else:
            predictor = Ridge(squared, codes, groups, penalty, shown=between, weights=weights)
        try:
            self.calibration_ = Calibration.fit(predictor.scores(), predictor.distances(), codes, groups)
        except ParameterError:  # no class is in two groups
            self.calibration_ = None

    def _calibrate(self, clips: TrainingClips) -> None:
        """Do nothing: `_learn` has calibrated if it is possible."""

    @classmethod
    def candidates(
        cls, clips: TrainingSet, *, tune: bool = False
    ) -> Iterator[tuple[dict[str, Any], ScorePredictor]]:
        """Yield all ridges for each width; see `SystemClassifier.candidates`.

        Distances that are not Euclidean are repaired for all clips at once, which uses no label. Classes have
        the same weight.
        """
        class_size = len(clips.training) / len(np.unique(clips.codes[clips.training]))
        for width in WIDTHS:
            squared = clips.squared
            if width is not None:
                squared = gaussian_distances(squared, width * clips.variance(squared))
            squared = euclidean_part(squared)
            unit = clips.variance(squared) or 1.0  # where all distances are 0, any penalty gives the same
            for ridge in RIDGES:
                predictor = Ridge(squared, clips.codes, clips.groups, ridge * unit, class_size, clips.squared)
                yield {"width": width, "ridge": ridge}, predictor

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

    def _compare(self, bags: list[list[System]]) -> ClassScores:
        """Compute the scores, and the distances to the nearest training clip of each class."""
        between = self._to_members(bags)
        classes, codes = np.unique(self.labels_, return_inverse=True)
        squared = between
        if self.width is not None:
            squared = gaussian_distances(between, self.width * self.variance_)
        scores = ridge_scores(squared, self.coefficients_, self.intercepts_)
        nearest = nearest_of_each_class(between, codes, len(classes))
        return ClassScores(scores.argmax(axis=1), scores, *nearest, scores)
