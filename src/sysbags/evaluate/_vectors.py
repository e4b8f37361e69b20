"""Candidates for items that are vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_matrix
from sysbags.errors import ParameterError
from sysbags.evaluate._nearest import NO_PREDICTION, Candidate, Centres, Measure, neighbours
from sysbags.evaluate.protocols import protocol_groups

__all__ = ["VECTOR_CLASSIFIERS", "vectors"]

VECTOR_CLASSIFIERS = ("1-NN", "nearest centroid", "linear SVM", "logistic regression")
VECTOR_METRICS = ("euclidean", "cosine", "chi2")
PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # scikit-learn's C, for points of length 1 on average
INNER_FOLDS = 3
ROUGHLY = 1e-2  # the tolerance while penalties are tried, several times faster


def vectors(
    points: Array,
    codes: IntArray,
    groups: IntArray,
    classifier: str,
    metric: str = "euclidean",
    *,
    wanted: npt.NDArray[np.bool_] | None = None,
    n_jobs: int | None = None,
) -> Candidate:
    """Predict classes of vectors.

    Parameters
    ----------
    points : (K, p) array
    codes, groups : (K,) array of int
        Class and group of each item.
    classifier : {"1-NN", "nearest centroid", "linear SVM", "logistic regression"}
        The last two are fitted once for each group that is left out, on points that are centred and scaled by
        the items fitted to; their penalty is chosen by cross-validation within those, by groups.
    metric : {"euclidean", "cosine", "chi2"}, default="euclidean"
        For the first two. "cosine" brings the vectors to length 1, "chi2" is ``sum (a - b)^2 / (a + b)``.
    wanted : (K,) array of bool, optional
        Items whose groups alone matter when no further group is left out: the last two are slow, and spare
        themselves the others.
    n_jobs : int, optional
        Threads for the last two; the result does not depend on it.

    Returns
    -------
    Candidate

    Examples
    --------
    >>> import numpy as np
    >>> points = np.array([[0.0, 1.0], [0.2, 1.0], [0.1, 0.9], [1.0, 0.1], [1.0, 0.0], [0.9, 0.0]])
    >>> codes, groups = np.repeat([0, 1], 3), np.arange(6)
    >>> [vectors(points, codes, groups, name)(None).tolist() for name in VECTOR_CLASSIFIERS]
    [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]]
    """
    check_choice(classifier, "classifier", VECTOR_CLASSIFIERS)
    check_choice(metric, "metric", VECTOR_METRICS)
    K = len(codes)
    points = check_matrix(points, "points", (K, None), f"({K}, p): one row for each of the {K} items")
    if classifier in ("linear SVM", "logistic regression"):
        return _machine(points, codes, groups, classifier, wanted, n_jobs)
    if metric == "chi2" and points.min() < 0.0:
        raise ParameterError(
            f'points holds the negative entry {points.min():.6g}, but "chi2" compares histograms: 0 or more'
        )
    if metric == "cosine":
        points = _unit(points)

    def make(members: IntArray) -> Measure:
        centroid = points[members].mean(axis=0, keepdims=True)
        return lambda items: _between(points[items], centroid, metric)

    if classifier == "nearest centroid":
        return Centres(codes, groups, make).nearest()
    return neighbours(_between(points, points, metric), codes, groups)


def _between(first: Array, second: Array, metric: str) -> Array:
    """Squared Euclidean, cosine or chi-squared distances, (K, L)."""
    from scipy.spatial.distance import cdist

    if metric == "chi2":
        between = np.empty((len(first), len(second)))
        for column, other in enumerate(second):
            total = first + other
            squares = np.divide((first - other) ** 2, total, out=np.zeros_like(total), where=total > 0.0)
            between[:, column] = squares.sum(axis=1)
        return between
    if metric == "cosine":
        return 1.0 - _unit(first) @ _unit(second).T
    return np.asarray(cdist(first, second, "sqeuclidean"))


def _unit(points: Array) -> Array:
    """Bring vectors to length 1, but for those that are 0."""
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(lengths > 0.0, lengths, 1.0)


def _machine(
    points: Array,
    codes: IntArray,
    groups: IntArray,
    classifier: str,
    wanted: npt.NDArray[np.bool_] | None,
    n_jobs: int | None,
) -> Candidate:
    """Fit once for each group that is left out."""

    def predict(group: int | None) -> IntArray:
        kept = np.ones(len(codes), dtype=bool) if group is None else groups != group
        predicted = np.full(len(codes), NO_PREDICTION)

        def judge(own: int) -> None:
            learnt, judged = np.flatnonzero(kept & (groups != own)), np.flatnonzero(groups == own)
            if learnt.size:
                first, second = _scaled(points[learnt], points[judged])
                penalty = _penalty(first, codes[learnt], groups[learnt], classifier)
                predicted[judged] = _fitted(first, codes[learnt], second, classifier, penalty)

        asked = kept if group is not None or wanted is None else wanted
        run(judge, np.unique(groups[asked]).tolist(), n_jobs, classifier)
        return predicted

    return predict


def _scaled(learnt: Array, judged: Array) -> tuple[Array, Array]:
    """Centre by what is learnt from, bring that to length 1 on average, and keep what it spans.

    Neither machine looks at what is orthogonal to all that it learns from. Columns keep their relative
    scales: histograms and activations share one, and standardised columns gave weaker machines.
    """
    centre = learnt.mean(axis=0)
    learnt, judged = learnt - centre, judged - centre
    length = np.sqrt((learnt**2).sum(axis=1).mean()) or 1.0
    learnt, judged = learnt / length, judged / length
    if learnt.shape[1] <= len(learnt):
        return learnt, judged
    basis, triangle = np.linalg.qr(learnt.T)
    return triangle.T, judged @ basis


def _penalty(points: Array, codes: IntArray, groups: IntArray, classifier: str) -> float:
    """Choose the penalty by folds that split no group; the strongest of equally good ones."""
    folds = min(INNER_FOLDS, np.unique(groups).size)
    if folds < 2:
        return PENALTIES[0]
    parts = protocol_groups(codes, "folds", groups, folds=folds)

    def right(penalty: float) -> int:
        return sum(
            int(
                (
                    _fitted(points[~held], codes[~held], points[held], classifier, penalty, ROUGHLY)
                    == codes[held]
                ).sum()
            )
            for held in (parts == part for part in range(folds))
        )

    return max(PENALTIES, key=right)


def _fitted(
    learnt: Array, codes: IntArray, judged: Array, classifier: str, penalty: float, tolerance: float = 1e-4
) -> IntArray:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    if (codes == codes[0]).all():
        return np.full(len(judged), codes[0])
    if classifier == "linear SVM":
        model = LinearSVC(C=penalty, dual=False, tol=tolerance, max_iter=10_000)
    else:
        model = LogisticRegression(C=penalty, tol=tolerance, max_iter=10_000)
    return np.asarray(model.fit(learnt, codes).predict(judged))
