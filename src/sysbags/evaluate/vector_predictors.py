"""Predictors of items that are vectors: neighbours, class means and linear models."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_matrix
from sysbags.classifiers.scores import NO_PREDICTION, Predictor
from sysbags.classifiers.scores.centers import Centers, ClassCenters
from sysbags.classifiers.scores.neighbors import Neighbors
from sysbags.errors import ParameterError
from sysbags.evaluate.splits import protocol_groups

VECTOR_CLASSIFIERS = ("1-NN", "nearest-mean", "linear SVM", "logistic regression")
VECTOR_METRICS = ("euclidean", "cosine", "chi2")
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # scikit-learn's C, for points of length 1 on average
INNER_FOLDS = 3
ROUGH_TOLERANCE = 1e-2  # while penalties are tried, several times faster


def vector_predictor(
    points: Array,
    codes: IntArray,
    groups: IntArray,
    classifier: str,
    metric: str = "euclidean",
    *,
    wanted: npt.NDArray[np.bool_] | None = None,
    n_jobs: int | None = None,
) -> Predictor:
    """Return a predictor of the classes of vectors, (K, p).

    "1-NN" and "nearest-mean" compare by the metric; means of "cosine" are means of vectors of length 1. The
    others are fitted once for each group that is left out, see `LinearModel`, which is slow: so only items
    that are `wanted` are predicted where no further group is excluded.

    Examples
    --------
    >>> points = np.array([[0.0, 1.0], [0.2, 1.0], [0.1, 0.9], [1.0, 0.1], [1.0, 0.0], [0.9, 0.0]])
    >>> codes, groups = np.repeat([0, 1], 3), np.arange(6)
    >>> {str(vector_predictor(points, codes, groups, name).predict()) for name in VECTOR_CLASSIFIERS}
    {'[0 0 0 1 1 1]'}
    """
    from sklearn.preprocessing import normalize

    check_choice(classifier, "classifier", VECTOR_CLASSIFIERS)
    check_choice(metric, "metric", VECTOR_METRICS)
    K = len(codes)
    points = check_matrix(points, "points", (K, None), f"({K}, p): one row for each of the {K} items")
    if classifier in ("linear SVM", "logistic regression"):
        return LinearModel(points, codes, groups, classifier, wanted, n_jobs)
    if metric == "chi2" and points.min() < 0.0:
        raise ParameterError(
            f'points holds the negative entry {points.min():.6g}, but "chi2" compares histograms: 0 or more'
        )
    if metric == "cosine":
        points = normalize(points)
    if classifier == "1-NN":
        return Neighbors(between_vectors(points, points, metric), codes, groups)

    def make(members: IntArray) -> Callable[[IntArray], Array]:
        mean = points[members].mean(axis=0, keepdims=True)
        return lambda items: between_vectors(points[items], mean, metric)

    return Centers((ClassCenters(codes, groups, make), (1.0,), 1.0))


def between_vectors(first: Array, second: Array, metric: str) -> Array:
    """Return squared Euclidean, cosine or chi-squared distances, (K, L); all are Euclidean when squared."""
    from scipy.spatial.distance import cdist
    from sklearn.metrics.pairwise import additive_chi2_kernel, cosine_distances

    if metric == "chi2":
        return np.asarray(-additive_chi2_kernel(first, second))
    return np.asarray(
        cosine_distances(first, second) if metric == "cosine" else cdist(first, second, "sqeuclidean")
    )


class LinearModel:
    """A linear support vector machine or logistic regression, fitted once for each group that is left out.

    Points are centred and scaled by those fitted to; the penalty is chosen by cross-validation within those,
    by groups. See `vector_predictor` for the parameters.
    """

    def __init__(
        self,
        points: Array,
        codes: IntArray,
        groups: IntArray,
        classifier: str,
        wanted: npt.NDArray[np.bool_] | None,
        n_jobs: int | None,
    ) -> None:
        self._points, self._codes, self._groups = points, codes, groups
        self._classifier, self._wanted, self._n_jobs = classifier, wanted, n_jobs

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `sysbags.classifiers.scores.Predictor`."""
        usable = np.ones(len(self._codes), dtype=bool) if excluding is None else self._groups != excluding
        predicted = np.full(len(self._codes), NO_PREDICTION)

        def fill(group: int) -> None:
            train = np.flatnonzero(usable & (self._groups != group))
            test = np.flatnonzero(self._groups == group)
            if train.size:
                codes = self._codes[train]
                first, second = _scaled(self._points[train], self._points[test])
                penalty = _best_penalty(first, codes, self._groups[train], self._classifier)
                predicted[test] = _fit_predict(first, codes, second, self._classifier, penalty)

        wanted = self._wanted if excluding is None and self._wanted is not None else usable
        run(fill, np.unique(self._groups[wanted]).tolist(), self._n_jobs, self._classifier)
        return predicted


def _scaled(train: Array, test: Array) -> tuple[Array, Array]:
    """Centre by the training points, bring these to length 1 on average, and keep what they span.

    Neither model looks at what is orthogonal to all training points. Columns keep their relative scales:
    histograms and activations share one, and standardised columns gave weaker models.
    """
    center = train.mean(axis=0)
    train, test = train - center, test - center
    length = np.sqrt((train**2).sum(axis=1).mean()) or 1.0
    train, test = train / length, test / length
    if train.shape[1] <= len(train):
        return train, test
    basis, triangle = np.linalg.qr(train.T)
    return triangle.T, test @ basis


def _best_penalty(points: Array, codes: IntArray, groups: IntArray, classifier: str) -> float:
    """Choose the penalty by folds that split no group; the strongest of equally good ones."""
    folds = min(INNER_FOLDS, np.unique(groups).size)
    if folds < 2:
        return PENALTIES[0]
    fold_of = protocol_groups(codes, "folds", groups, folds=folds)

    def right(penalty: float) -> int:
        count = 0
        for fold in range(folds):
            test = fold_of == fold
            predicted = _fit_predict(
                points[~test], codes[~test], points[test], classifier, penalty, ROUGH_TOLERANCE
            )
            count += int((predicted == codes[test]).sum())
        return count

    return max(PENALTIES, key=right)


def _fit_predict(
    train: Array, codes: IntArray, test: Array, classifier: str, penalty: float, tolerance: float = 1e-4
) -> IntArray:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if (codes == codes[0]).all():
        return np.full(len(test), codes[0])
    if classifier == "linear SVM":
        model = LinearSVC(C=penalty, dual=False, tol=tolerance, max_iter=10_000)
    else:
        model = LogisticRegression(C=penalty, tol=tolerance, max_iter=10_000)
    return np.asarray(model.fit(train, codes).predict(test))
