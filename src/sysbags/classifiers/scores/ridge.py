"""Kernel ridge regression on squared distances: one inverse gives the scores without any group."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_positive
from sysbags.classifiers.scores import NO_PREDICTION, half_mean, nearest_of_each_class

SMALLEST_SHARE = 0.01  # scores may be below -1


class RidgeFit(NamedTuple):
    """What `fit_ridge` has learnt.

    Attributes
    ----------
    coefficients : (K, C) array
    intercepts : (C,) array
    negative_share : float
        The share of the negative eigenvalues in the sum of the absolute values of all; 0 for Euclidean
        distances.
    """

    coefficients: Array
    intercepts: Array
    negative_share: float


def fit_ridge(squared: Array, codes: IntArray, classes: int, ridge: float, weights: Array) -> RidgeFit:
    """Fit scores to 1 for the items of a class and to -1 for all others by weighted least squares.

    With K the positive part of the centred `-D / 2`, the coefficients and intercepts are the solution of
    ``(K + penalty W^-1) a + b = Y`` and ``sum_i a_i = 0``; see `sysbags.KernelRidgeClassifier`.

    The penalty is `ridge` times half the mean squared distance, and `weights` are those of the items.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 6.0, 7.0])
    >>> squared, codes = (points[:, None] - points) ** 2, np.array([0, 0, 1, 1])
    >>> fit = fit_ridge(squared, codes, 2, 0.1, np.ones(4))
    >>> ridge_scores((2.0 - points[None]) ** 2, fit.coefficients, fit.intercepts).argmax(axis=1)
    array([0])
    """
    eigenvalues, vectors, negative_share = _positive_part(squared)
    values = targets(codes, classes)
    unit = half_mean(squared) or 1.0  # where all distances are 0, any penalty gives the same
    matrix = bordered(_between_points(eigenvalues, vectors) / unit, ridge / weights)
    solved = np.linalg.solve(matrix, np.pad(values, ((0, 1), (0, 0)))) / unit
    coefficients = vectors @ (vectors.T @ solved[:-1])  # no part in directions of negative eigenvalues
    coefficients = coefficients - coefficients.mean(axis=0)  # their sum is 0 but for round-off
    intercepts = np.average(values + 0.5 * squared @ coefficients, axis=0, weights=weights)
    return RidgeFit(coefficients, intercepts, negative_share)


def ridge_scores(squared: Array, coefficients: Array, intercepts: Array) -> Array:
    """Return the scores of new items, (K, C), from their squared distances to the training items, (K, L)."""
    return np.asarray(intercepts - 0.5 * squared @ coefficients)


class Ridge:
    """The scores of training items by a fit without their group, see `fit_ridge`.

    Nothing is solved again for an item that is left out. With R the inverse of the matrix of the linear
    system and ``R Y`` its coefficients, what it would have learnt without the items S predicts for them
    ``Y_S - (R_SS)^-1 (R Y)_S``. Where classes have equal weights, the weights of the other items of a class
    grow when some of its items are left out: a change of the diagonal, which changes R by Woodbury's formula.

    Parameters
    ----------
    distances : (K, K) array
        Squared Euclidean distances between all items, see `euclidean_part`.
    codes, groups : (K,) array of int
        Class and group of each item.
    penalty : float, default=1.0
        In the unit of squared distances.
    class_size : float, optional
        Give all classes the weight of so many items. By default each item has the weight 1.
    shown : (K, K) array, optional
        What `distances` is about, if `distances` were changed for the linear system.
    weights : (K,) array, optional
        Those of the items, where no `class_size` gives them.

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 2.0, 6.0, 7.0, 8.0])
    >>> between = (points[:, None] - points) ** 2
    >>> Ridge(between, np.array([0, 0, 0, 1, 1, 1]), np.arange(6)).predict()
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        distances: Array,
        codes: IntArray,
        groups: IntArray,
        penalty: float = 1.0,
        class_size: float | None = None,
        shown: Array | None = None,
        weights: Array | None = None,
    ) -> None:
        classes = int(codes.max()) + 1
        self._distances, self._squared = distances, distances if shown is None else shown
        self._codes, self._targets = codes, targets(codes, classes)
        self._penalty, self._class_size = check_positive(penalty, "the penalty"), class_size
        self._weights = np.ones(len(codes)) if weights is None else weights
        self._groups, self._group_indices = np.unique(groups, return_inverse=True)
        self._counts = np.zeros((len(self._groups), classes), dtype=np.int64)
        np.add.at(self._counts, (self._group_indices, codes), 1)
        self._members = [np.flatnonzero(self._group_indices == k) for k in range(len(self._groups))]
        # Groups with as many items, or with as many items of each class, are solved for at once.
        stacks: dict[Any, list[int]] = {}
        for k, members in enumerate(self._members):
            stacks.setdefault(len(members) if class_size is None else tuple(self._counts[k]), []).append(k)
        self._stacks = list(stacks.values())

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item; see `Predictor`."""
        scores = self._fitted(excluding)
        return np.where(np.isfinite(scores).any(axis=1), scores.argmax(axis=1), NO_PREDICTION)

    def scores(self, excluding: int | None = None) -> Array:
        """Return `log_shares` of what is fitted to 1 for a class and to -1 for the others."""
        return log_shares(self._fitted(excluding))

    def deciding(self) -> Array:
        """Return what is fitted to 1 for a class and to -1 for the others; see `deciding`."""
        return self._fitted(None)

    def _fitted(self, excluding: int | None) -> Array:
        """Return the scores of the classes, -inf for classes without items."""
        inverse, coefficients, counts = self._inverse, self._coefficients, self._counts.sum(axis=0)
        training_counts = counts - self._counts[self._group_indices]
        if excluding is not None and len(self._groups) == 2:
            return np.full(self._targets.shape, -np.inf)  # no group is left to learn from
        place, every = -1, np.arange(len(self._codes))
        if excluding is not None:
            place = int(np.searchsorted(self._groups, excluding))
            out, removed = self._members[place], self._counts[place]
            inverse, coefficients = self._reweighted(inverse, coefficients, counts, removed, every)
            step = np.linalg.solve(inverse[np.ix_(out, out)], inverse[out])
            coefficients = coefficients - step.T @ coefficients[out]
            inverse = inverse - inverse[:, out] @ step
            counts = counts - removed
            training_counts = training_counts - removed
        left, scores = self._group_indices != place, np.zeros_like(self._targets)
        spectra: dict[int, _Spectrum] = {}
        for stack in ([k for k in stack if k != place] for stack in self._stacks):
            if not stack:
                continue
            members, removed = np.array([self._members[k] for k in stack]), self._counts[stack[0]]
            losing = np.flatnonzero(removed).tolist()
            if self._class_size is None:
                blocks, part = inverse[members[:, :, None], members[:, None, :]], coefficients[members]
            elif len(losing) == 1:
                [c] = losing
                if c not in spectra:
                    rows = np.flatnonzero((self._codes == c) & left)
                    spectra[c] = _Spectrum.of(inverse[np.ix_(rows, rows)], coefficients[rows], rows)
                change = -self._penalty / self._class_size * removed[c] if removed[c] < counts[c] else 0.0
                blocks, part = spectra[c].shifted(change, members)
            else:
                rows = np.flatnonzero((removed > 0)[self._codes] & left)
                block, reduced = self._reweighted(inverse, coefficients, counts, removed, rows)
                places = np.searchsorted(rows, members)
                blocks, part = block[places[:, :, None], places[:, None, :]], reduced[places]
            scores[members] = self._targets[members] - np.linalg.solve(blocks, part)
        return np.where(training_counts > 0, scores, -np.inf)

    def _reweighted(
        self, inverse: Array, coefficients: Array, counts: IntArray, removed: IntArray, rows: IntArray
    ) -> tuple[Array, Array]:
        """Return R of some items, and R Y, where classes keep their weights when items are removed.

        `counts` and `removed` are the items of each class, and how many of them are removed; all items of
        classes that lose some must be among `rows`.
        """
        block, part = inverse[np.ix_(rows, rows)], coefficients[rows]
        if self._class_size is None:
            return block, part
        changed = ((removed > 0) & (removed < counts))[self._codes[rows]]
        change = -self._penalty / self._class_size * removed[self._codes[rows[changed]], None]
        within, right = block[np.ix_(changed, changed)], np.hstack([block[changed], part[changed]])
        step = np.linalg.solve(np.eye(len(change)) + change * within, change * right)
        left = block[:, changed]
        return block - left @ step[:, : len(rows)], part - left @ step[:, len(rows) :]

    def distances(self, excluding: int | None = None) -> Array:
        """Return the squared distances to the nearest item of each class; see `ScorePredictor`."""
        usable = self._groups[self._group_indices] != excluding
        return nearest_of_each_class(self._to_others, self._codes, self._targets.shape[1], usable)[0]

    @cached_property
    def _inverse(self) -> Array:
        """R; many of these predictors may be compared, and few of them asked."""
        items, penalties = len(self._codes), self._penalty / self._weights
        if self._class_size is not None:
            penalties *= self._counts.sum(axis=0)[self._codes] / self._class_size
        return np.asarray(np.linalg.inv(bordered(self._distances, penalties))[:items, :items])

    @cached_property
    def _coefficients(self) -> Array:
        """R Y."""
        return np.asarray(self._inverse @ self._targets)

    @cached_property
    def _to_others(self) -> Array:
        """The squared distances, infinite within a group."""
        return np.where(self._group_indices[:, None] == self._group_indices, np.inf, self._squared)


class _Spectrum(NamedTuple):
    """The spectrum of a block of R, by which it follows a shift of the penalties of its items.

    With R = V L V', the block of the inverse is ``V L / (1 + change L) V'`` when `change` is added to the
    penalties of its items: one decomposition serves the groups of all sizes.
    """

    rows: IntArray
    values: Array
    vectors: Array
    rotated: Array  # V' R Y

    @classmethod
    def of(cls, block: Array, part: Array, rows: IntArray) -> _Spectrum:
        """Decompose a block of R; `part` is its part of R Y, and `rows` are its items."""
        values, vectors = np.linalg.eigh(block)
        return cls(rows, values, vectors, vectors.T @ part)

    def shifted(self, change: float, members: IntArray) -> tuple[Array, Array]:
        """Return R and R Y of the items of each of some groups, (G, S, S) and (G, S, C)."""
        some, factors = self.vectors[np.searchsorted(self.rows, members)], 1.0 / (1.0 + change * self.values)
        scaled = some * factors
        return (scaled * self.values) @ some.transpose(0, 2, 1), scaled @ self.rotated


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


def centred_kernel(squared: Array) -> Array:
    """Return `-D / 2`, centred: the inner products of points with their mean at 0."""
    kernel = -0.5 * squared
    kernel -= kernel.mean(axis=0)
    kernel -= kernel.mean(axis=1, keepdims=True)
    return kernel


def _positive_part(squared: Array) -> tuple[Array, Array, float]:
    """Return the eigenvalues of the centred `-D / 2` from 0 on, their vectors, and the negative share.

    Those that are 0 but for round-off are kept: their directions are not determined.
    """
    centred = centred_kernel(squared)
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
