"""Kernel ridge against definitions that solve everything anew."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge as KernelRidgeRegression
from sklearn.linear_model import Ridge as LinearRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer
from sklearn.utils.class_weight import compute_sample_weight

import sysbags
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.kernel_ridge import KernelRidgeClassifier
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.ridge import (
    Ridge,
    bordered,
    euclidean_part,
    gaussian_distances,
    log_shares,
    targets,
)
from sysbags.datasets import make_streams
from sysbags.distances.pairwise import pairwise_distances
from sysbags.errors import CalibrationError, DistanceWarning, ParameterError

WEIGHTS = {"metric": "covariance", "lambda_a": 0.5, "lambda_mu": 2.0}
ON_POINTS = {"metric": "covariance", "lambda_a": 0.5, "lambda_mu": 1.0}
TRIANGLE = np.array([[0.0, 1.0, 9.0], [1.0, 0.0, 1.0], [9.0, 1.0, 0.0]])  # 1 + 1 is less than 3

seeds = st.integers(0, 10_000)


def squares(points, others=None):
    return ((points[:, None] - (points if others is None else others)) ** 2).sum(axis=-1)


def point_system(point):
    """A system that differs from others only in its mean: with the weight 1, distances are of points."""
    return sysbags.System(
        [[0.5]],
        np.stack([np.ones(len(point)), point]),
        [[1.0], [0.0]],
        [0.0, 1.0],
        "linear",
        normal_form="unit-variance",
    )


def point_systems(points):
    return [point_system(point) for point in points]


class OfTable(KernelRidgeClassifier):
    """With distances from a table: the system of the point (k,) is item k."""

    table = None

    def _between(self, bags, others, grams=None):
        first, second = ([int(system.samples[1, 0]) for system in side] for [side] in (bags, others or bags))
        return self.table[np.ix_(first, second)]


def of_table(table, labels, training, **options):
    model = OfTable(**ON_POINTS, **options)
    model.table = table
    return model.fit(items(training), labels)


def items(indices):
    return point_systems(np.asarray(indices, dtype=float)[:, None])


def random_table(rng, count):
    """Numbers that are symmetric and positive, and no distances of points."""
    table = np.triu(rng.random((count, count)), 1)
    return table + table.T


def least_squares(points, codes, judged, penalty, classes, weights=None):
    """Linear functions of the points themselves, with a free constant and the penalty ``penalty ||w||^2``."""
    weights = np.ones(len(codes)) if weights is None else weights
    design = np.hstack([points, np.ones((len(points), 1))])
    diagonal = penalty * np.eye(design.shape[1])
    diagonal[-1, -1] = 0.0
    wanted = np.where(codes[:, None] == np.arange(classes), 1.0, -1.0)
    weighted = design.T * weights
    solution = np.linalg.solve(weighted @ design + diagonal, weighted @ wanted)
    return np.hstack([judged, np.ones((len(judged), 1))]) @ solution


def embedding(table, training, judged):
    """Coordinates of training and other items on the positive axes of the centred -D / 2 (Gower, 1968)."""
    count = len(training)
    between = table[np.ix_(training, training)]
    centring = np.eye(count) - 1.0 / count
    eigenvalues, vectors = np.linalg.eigh(-0.5 * centring @ between @ centring)
    axes = eigenvalues > 1e-12 * np.abs(eigenvalues).max()
    coordinates = vectors[:, axes] * np.sqrt(eigenvalues[axes])
    rows = -0.5 * (table[np.ix_(judged, training)] - between.mean(axis=0)) @ centring
    return coordinates, rows @ vectors[:, axes] / np.sqrt(eigenvalues[axes])


@pytest.fixture(scope="module")
def clips():
    streams, labels = make_streams(classes=3, per_class=5, frames=30, bins=8)
    others, _ = make_streams(classes=3, per_class=5, frames=30, bins=5, random_state=1)
    identifier = sysbags.SystemIdentifier(order=2, normal_form="unit-variance")
    return identifier.fit_transform(streams), identifier.fit_transform(others), np.asarray(labels)


# --- predictions without a group


@given(seeds, st.floats(0.05, 20.0), st.none() | st.floats(0.5, 20.0))
@settings(max_examples=50, deadline=None)
def test_without_any_group_it_is_ridge_regression_of_the_rest(seed, penalty, class_size):
    """Euclidean distances, where kernel ridge is an ordinary ridge regression; both ways of leaving out."""
    rng = np.random.default_rng(seed)
    points, codes = rng.normal(size=(16, 3)), np.array([0] * 9 + [1] * 5 + [2] * 2)
    groups = rng.permutation(np.repeat(np.arange(6), [4, 3, 3, 3, 2, 1]))
    predictor = Ridge(squares(points), codes, groups, penalty, class_size)
    for group in (None, 0, 5):
        predicted, fitted = predictor.predict(group), predictor._fitted(group)
        for i in range(16):
            train = (groups != groups[i]) & (groups != group)
            if groups[i] == group:
                continue
            counts = np.bincount(codes[train], minlength=3)
            weights = None if class_size is None else class_size / counts[codes[train]]
            scores = least_squares(points[train], codes[train], points[[i]], penalty, 3, weights)[0]
            scores[~np.isin(np.arange(3), codes[train])] = -np.inf
            assert scores[predicted[i]] > scores.max() - 1e-9  # equal but for round-off
            # Scores are about 1; round-off is divided by penalties that may be 0.05 / 20.
            np.testing.assert_allclose(fitted[i], scores, rtol=0, atol=1e-9)


def test_a_class_of_which_nobody_is_left_is_never_predicted():
    points = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]])
    codes, groups = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 3, 4])
    predict = Ridge(squares(points), codes, groups).predict
    assert predict(None)[4] == 1
    assert 2 not in predict(4)[:4]
    predictor = Ridge(squares(points[:2]), codes[:2], np.array([0, 1]))
    assert predictor.predict(0)[1] == -1


def test_closed_form_is_the_estimator_fitted_anew(clips):
    first, second, labels = clips
    groups, codes = np.arange(15) // 2, np.unique(labels, return_inverse=True)[1]
    pairs = list(zip(first, second, strict=True))
    terms = [pairwise_distances(first, **WEIGHTS), 0.5 * pairwise_distances(second, **WEIGHTS)]
    between = terms[0] + terms[1]
    penalty = 0.3 * half_mean(between)
    predicted = Ridge(between, codes, groups, penalty).predict()
    for group in np.unique(groups):
        train, judged = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        # The ridge of the estimator is relative to the variance of its own training clips.
        ridge = penalty / half_mean(between[np.ix_(train, train)])
        # It divides the distances of each bag by their variance.
        scales = [half_mean(term[np.ix_(train, train)]) for term in terms]
        model = KernelRidgeClassifier(**WEIGHTS, ridge=ridge, bag_weights=scales, class_weight=None)
        model.fit([pairs[k] for k in train], labels[train])
        assert (
            model.predict([pairs[k] for k in judged]).tolist()
            == labels[[np.flatnonzero(codes == code)[0] for code in predicted[judged]]].tolist()
        )


# --- Euclidean distances


@given(seeds, st.floats(0.01, 10.0), st.floats(-3.0, 3.0), st.sampled_from(["balanced", None]))
@settings(max_examples=25, deadline=None)
def test_on_points_it_is_ridge_regression(seed, ridge, exponent, class_weight):
    """Of the points themselves, with a penalty in the unit of their variance and weights of scikit-learn."""
    rng = np.random.default_rng(seed)
    points, judged = 10.0**exponent * rng.normal(size=(12, 3)), 10.0**exponent * rng.normal(size=(5, 3))
    codes = rng.permutation([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    model = KernelRidgeClassifier(**ON_POINTS, ridge=ridge, class_weight=class_weight)
    model.fit(point_systems(points), codes)
    weights = compute_sample_weight(class_weight, codes)
    variance = points.var(axis=0, ddof=1).sum()
    assert model.variance_ == pytest.approx(variance, rel=1e-9)
    # Round-off of scores of about 1, divided by the smallest ridge.
    assert model.negative_share_ < 1e-12
    expected = least_squares(points, codes, judged, ridge * variance, 3, weights)
    np.testing.assert_allclose(model.decision_function(point_systems(judged)), expected, rtol=0, atol=1e-9)
    expected = LinearRidge(alpha=ridge * variance).fit(points, targets(codes, 3), weights).predict(points)
    np.testing.assert_allclose(model.decision_function(point_systems(points)), expected, rtol=0, atol=1e-9)


def test_weights_by_label(tmp_path):
    """A weight of 2 is a clip that is there twice; calibration and files know the labels."""
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(10, 3)), np.array(["a", "b"] * 5)
    options = {**ON_POINTS, "ridge": 1.0}
    model = KernelRidgeClassifier(**options, class_weight={"a": 1.0, "b": 2.0}, probability=True)
    model.fit(point_systems(points), labels)
    twice = np.concatenate([points, points[labels == "b"]])
    # The ridge is relative to the variance, which more clips change.
    unit = points.var(axis=0, ddof=1).sum() / twice.var(axis=0, ddof=1).sum()
    other = KernelRidgeClassifier(**{**options, "ridge": unit}, class_weight=None)
    other.fit(point_systems(twice), [*labels, *"bbbbb"])
    expected = other.decision_function(point_systems(points))
    np.testing.assert_allclose(model.decision_function(point_systems(points)), expected, rtol=0, atol=1e-10)
    one_label = KernelRidgeClassifier(**options, class_weight={"b": 2.0}).fit(point_systems(points), labels)
    np.testing.assert_array_equal(one_label.coefficients_, model.coefficients_)  # the other has the weight 1
    sysbags.save(tmp_path / "file.model", model)
    loaded = sysbags.load(tmp_path / "file.model")
    assert loaded.class_weight == {"a": 1.0, "b": 2.0}
    np.testing.assert_array_equal(loaded.predict(point_systems(points)), model.predict(point_systems(points)))


@pytest.mark.parametrize("class_weight", ["balanced", None, {0: 1.0, 1: 3.0, 2: 0.5}])
@pytest.mark.parametrize("grouped", [False, True])
def test_probabilities_are_calibrated_in_fit_by_scores_without_the_group(class_weight, grouped):
    rng = np.random.default_rng(1)
    points, codes, ridge = rng.normal(size=(18, 3)), np.array([0, 1, 2] * 4 + [0] * 6), 0.3
    points[:, 0] += codes
    groups = np.arange(18) // (2 if grouped else 1)
    model = KernelRidgeClassifier(**ON_POINTS, ridge=ridge, class_weight=class_weight)
    model.fit(point_systems(points), codes, groups)
    scores, distances = np.zeros((18, 3)), np.zeros((18, 3))
    for group in np.unique(groups):
        out = groups == group
        inside = points[~out], codes[~out]
        # The penalty, and the sum of balanced weights, are those of all clips.
        weights = compute_sample_weight(class_weight, codes[~out])
        weights *= len(codes) / (~out).sum() if class_weight == "balanced" else 1.0
        scores[out] = least_squares(*inside, points[out], ridge * model.variance_, 3, weights)
        between = squares(points[out], inside[0])
        distances[out] = np.stack([between[:, inside[1] == c].min(axis=1) for c in range(3)], axis=1)
    expected = Calibration.fit(log_shares(scores), distances, codes, groups)
    assert model.calibration_.temperature == pytest.approx(expected.temperature, rel=1e-6)
    np.testing.assert_allclose(model.calibration_.surprise, expected.surprise, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.calibration_.distances, expected.distances, rtol=1e-9)
    assert model.predict_proba(point_systems(points)).shape == (18, 3)


def test_a_single_group_cannot_calibrate():
    points = np.random.default_rng(0).normal(size=(6, 2))
    model = KernelRidgeClassifier(**ON_POINTS).fit(point_systems(points), ["a", "b"] * 3, np.zeros(6))
    assert model.calibration_ is None
    with pytest.raises(CalibrationError, match=r"predict_proba needs .* in two groups at least"):
        model.predict_proba(point_systems(points))


def features(system, lambda_a, lambda_mu, lags=80):
    """The lagged covariances and the mean as one vector, for the linear kernel; 0.5^80 is below 1e-24."""
    observer = system.samples.T @ system.alpha
    parts, power = [np.sqrt(lambda_mu) * (system.samples.T @ system.beta)], np.eye(system.order)
    for lag in range(lags):
        parts.append(lambda_a ** (lag / 2) * (observer @ power @ observer.T).ravel())
        power = power @ system.transition
    return np.concatenate(parts)


def test_on_systems_it_is_ridge_regression_of_their_covariances():
    streams, labels = make_streams(classes=3, per_class=6, frames=30, bins=4)
    identifier = sysbags.SystemIdentifier(2, "linear", normal_form="unit-variance")
    systems, labels = identifier.fit_transform(streams), np.asarray(labels)
    table = np.stack([features(system, 0.5, 2.0) for system in systems])
    train, judged = np.arange(18) % 3 > 0, np.arange(18) % 3 == 0
    model = KernelRidgeClassifier(**WEIGHTS, ridge=0.2)
    model.fit([systems[k] for k in np.flatnonzero(train)], labels[train])
    variance = table[train].var(axis=0, ddof=1).sum()
    assert model.variance_ == pytest.approx(variance, rel=1e-10)
    codes = np.unique(labels[train], return_inverse=True)[1]
    twin = LinearRidge(alpha=0.2 * variance, solver="svd").fit(table[train], targets(codes, 3))
    scores = model.decision_function([systems[k] for k in np.flatnonzero(judged)])
    # Distances are differences of norms: their round-off relative to the variance, and a ridge of 0.2.
    np.testing.assert_allclose(scores, twin.predict(table[judged]), rtol=0, atol=1e-9)


@given(seeds, st.floats(0.05, 5.0), st.floats(0.1, 5.0))
@settings(max_examples=25, deadline=None)
def test_with_a_width_it_is_kernel_ridge_regression_of_gaussians(seed, ridge, width):
    """scikit-learn's, on the centred kernel: a free intercept."""
    rng = np.random.default_rng(seed)
    points, judged = rng.normal(size=(12, 3)), rng.normal(size=(5, 3))
    codes = rng.permutation(np.arange(12) % 3)
    model = KernelRidgeClassifier(**ON_POINTS, ridge=ridge, width=width).fit(point_systems(points), codes)
    gamma = 1.0 / (2.0 * width * points.var(axis=0, ddof=1).sum())
    kernel, wanted = rbf_kernel(points, gamma=gamma), targets(codes, 3)
    # The mean squared distance of two points of the sphere on which the Gaussian puts them.
    variance = (1.0 - kernel[~np.eye(12, dtype=bool)]).mean()
    centerer = KernelCenterer().fit(kernel)
    twin = KernelRidgeRegression(alpha=ridge * variance, kernel="precomputed")
    twin.fit(centerer.transform(kernel), wanted - wanted.mean(axis=0))
    new = centerer.transform(rbf_kernel(judged, points, gamma=gamma))
    np.testing.assert_allclose(
        model.decision_function(point_systems(judged)),
        twin.predict(new) + wanted.mean(axis=0),
        rtol=0,
        atol=1e-9,
    )


@given(seeds, st.floats(0.05, 5.0))
@settings(max_examples=20, deadline=None)
def test_the_linear_equations_give_the_same_coefficients(seed, ridge):
    """Those of `bordered`, which predictions without a group are made of."""
    rng = np.random.default_rng(seed)
    points, codes = rng.normal(size=(10, 12)), np.arange(10) % 2
    model = KernelRidgeClassifier(**ON_POINTS, ridge=ridge).fit(point_systems(points), codes)
    squared, wanted = squares(points), targets(codes, 2)
    matrix = bordered(squared, ridge * half_mean(squared))
    np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=0)
    solution = np.linalg.solve(matrix, np.vstack([wanted, np.zeros((1, 2))]))
    np.testing.assert_allclose(model.coefficients_, solution[:-1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(model.intercepts_, solution[-1], rtol=0, atol=1e-9)


def test_training_items_are_met_as_the_ridge_falls(clips):
    systems, _, labels = clips
    model = KernelRidgeClassifier(**WEIGHTS, ridge=1e-9).fit(systems, labels)
    wanted = np.where(labels[:, None] == model.classes_, 1.0, -1.0)
    # A ridge of 1e-9 of the variance against the smallest eigenvalue of 15 clips.
    np.testing.assert_allclose(model.decision_function(systems), wanted, atol=1e-3)
    sums = model.coefficients_.sum(axis=0) / np.abs(model.coefficients_).sum(axis=0)
    np.testing.assert_allclose(sums, 0.0, atol=1e-12)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("width", [None, 2.0])
def test_scores_have_the_average_of_the_targets_and_large_ridges_leave_nothing_else(clips, ridge, width):
    systems, _, labels = clips
    model = KernelRidgeClassifier(**WEIGHTS, ridge=ridge, width=width).fit(systems, labels)
    wanted = targets(np.unique(labels, return_inverse=True)[1], 3)
    scores = model.decision_function(systems)
    np.testing.assert_allclose(scores.mean(axis=0), wanted.mean(axis=0), rtol=0, atol=1e-10)
    flat = KernelRidgeClassifier(**WEIGHTS, ridge=1e9, width=width).fit(systems, labels)
    # What remains is at most the largest eigenvalue, 15 variances, divided by the penalty.
    np.testing.assert_allclose(
        flat.decision_function(systems), np.broadcast_to(wanted.mean(axis=0), (15, 3)), rtol=0, atol=1e-7
    )


# --- units


@pytest.mark.parametrize("metric", ["alignment", "covariance", "normalized-covariance"])
@pytest.mark.parametrize("width", [None, 0.7])
@pytest.mark.parametrize("factor", [0.25, 3.0])
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_the_unit_of_streams_does_not_matter(metric, width, factor):
    streams, labels = make_streams(classes=3, per_class=4, frames=30, bins=6)
    identifier = sysbags.SystemIdentifier(2, "linear", normal_form="unit-variance")
    scores, shares = [], []
    for unit in (1.0, factor):
        systems = identifier.fit_transform([unit * stream for stream in streams])
        model = KernelRidgeClassifier(metric=metric, width=width).fit(systems[:-2], labels[:-2])
        scores.append(model.decision_function(systems))
        shares.append(model.negative_share_)
    # Round-off relative to the variance, divided by a ridge of 0.1; alignments are iterated to 1e-8 or so.
    np.testing.assert_allclose(scores[1], scores[0], rtol=0, atol=1e-6 if metric == "alignment" else 1e-9)
    assert shares[1] == pytest.approx(shares[0], abs=1e-6)


@given(seeds, st.floats(-6.0, 6.0), st.sampled_from([None, 0.5]))
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_a_constant_factor_of_all_distances_changes_no_score(seed, exponent, width):
    """Also where they are not Euclidean."""
    rng = np.random.default_rng(seed)
    table, codes = random_table(rng, 14), np.arange(10) % 3
    plain, scaled = (
        of_table(factor * table, codes, np.arange(10), width=width).decision_function(items(range(10, 14)))
        for factor in (1.0, 10.0**exponent)
    )
    np.testing.assert_allclose(scaled, plain, rtol=0, atol=1e-9)


# --- distances that are not Euclidean


@given(seeds, st.floats(0.01, 3.0), st.sampled_from([None, 0.5]))
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_scores_are_those_of_points_on_the_positive_axes(seed, ridge, width):
    """Ridge regression of the coordinates; those of a new item are the projection of its centred row."""
    rng = np.random.default_rng(seed)
    table, codes = random_table(rng, 15), rng.permutation(np.arange(11) % 3)
    training, judged = np.arange(11), np.arange(15)
    model = of_table(table, codes, training, ridge=ridge, width=width)
    used = table
    if width is not None:
        used = 2.0 - 2.0 * np.exp(-table / (2.0 * width * half_mean(table[:11, :11])))
    points, places = embedding(used, training, judged)
    np.testing.assert_allclose(places[:11], points, rtol=0, atol=1e-12)
    weights = compute_sample_weight("balanced", codes)
    expected = least_squares(points, codes, places, ridge * half_mean(used[:11, :11]), 3, weights)
    # Coordinates on axes of small eigenvalues are quotients of round-off by their roots.
    np.testing.assert_allclose(model.decision_function(items(judged)), expected, rtol=0, atol=1e-7)


@given(seeds, st.floats(0.001, 3.0))
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_no_direction_has_more_than_its_target(seed, ridge):
    """A direction of the eigenvalue e > 0 has ``e / (e + penalty)`` of its target, others have nothing."""
    rng = np.random.default_rng(seed)
    table, codes = random_table(rng, 12), np.arange(12) % 3
    wanted = targets(codes, 3) - targets(codes, 3).mean(axis=0)
    model = of_table(table, codes, np.arange(12), ridge=ridge)
    deviations = model.decision_function(items(range(12))) - targets(codes, 3).mean(axis=0)
    centring = np.eye(12) - 1.0 / 12
    eigenvalues, vectors = np.linalg.eigh(-0.5 * centring @ table @ centring)
    shares = np.maximum(eigenvalues, 0.0) / (np.maximum(eigenvalues, 0.0) + ridge * half_mean(table))
    np.testing.assert_allclose(vectors.T @ deviations, shares[:, None] * (vectors.T @ wanted), atol=1e-10)
    assert np.all(np.linalg.norm(deviations, axis=0) <= np.linalg.norm(wanted, axis=0))
    assert model.negative_share_ == pytest.approx(
        -eigenvalues[eigenvalues < 0].sum() / np.abs(eigenvalues).sum(), rel=1e-9
    )


@given(seeds)
@settings(max_examples=25, deadline=None)
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_the_solution_is_bounded_where_the_equations_have_none(seed):
    """Without the repair, a penalty of minus an eigenvalue leaves no solution at all."""
    rng = np.random.default_rng(seed)
    table, codes = random_table(rng, 12), np.arange(12) % 3
    centring = np.eye(12) - 1.0 / 12
    penalty = -np.linalg.eigvalsh(-0.5 * centring @ table @ centring)[0]
    assert np.linalg.cond(bordered(table, penalty)) > 1e12
    model = of_table(table, codes, np.arange(12), ridge=penalty / half_mean(table))
    bound = np.linalg.norm(targets(codes, 3), 2) / penalty
    assert np.linalg.norm(model.coefficients_, 2) <= bound * (1 + 1e-9)


def centred(squared):
    centring = np.eye(len(squared)) - 1.0 / len(squared)
    return -0.5 * centring @ squared @ centring


@given(seeds, st.integers(3, 12))
@settings(max_examples=30, deadline=None)
def test_the_euclidean_part_is_the_nearest(seed, count):
    """No matrix without negative eigenvalues is nearer to the centred -D / 2, in the Frobenius norm."""
    rng = np.random.default_rng(seed)
    table = random_table(rng, count)
    repaired = euclidean_part(table)
    np.testing.assert_allclose(repaired, repaired.T, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(np.diag(repaired), 0.0)
    original, kernel = centred(table), centred(repaired)
    spectrum = np.linalg.eigvalsh(original)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-13
    error = np.linalg.norm(original - kernel)
    assert error == pytest.approx(np.linalg.norm(np.minimum(spectrum, 0.0)), abs=1e-13)
    for _ in range(20):
        root = rng.normal(size=(count, count)) * rng.exponential(0.3)
        candidate = root @ root.T
        assert np.linalg.norm(original - candidate) >= error - 1e-13
        # What is left over has no positive product with any of them: this holds for the nearest alone.
        assert np.sum((original - kernel) * (candidate - kernel)) <= 1e-12
    np.testing.assert_allclose(euclidean_part(repaired), repaired, rtol=0, atol=1e-13)


def test_points_need_no_repair():
    for seed in range(20):
        points = np.random.default_rng(seed).normal(size=(12, 3)) * 10.0 ** (seed - 10)
        squared = squares(points)
        np.testing.assert_allclose(euclidean_part(squared), squared, rtol=1e-12, atol=0)
        np.testing.assert_array_equal(squared, squares(points))  # what is given does not change
    np.testing.assert_array_equal(euclidean_part(np.zeros((4, 4))), 0.0)
    np.testing.assert_array_equal(euclidean_part(np.zeros((1, 1))), 0.0)


@pytest.mark.parametrize("metric", ["covariance", "normalized-covariance"])
def test_distances_of_covariances_need_no_repair(clips, metric):
    for systems in clips[:2]:
        model = KernelRidgeClassifier(metric=metric).fit(systems, clips[2])
        assert model.negative_share_ < 1e-12


def test_a_large_repair_is_told_with_its_share():
    """A triangle by hand: the eigenvalues of the centred -D / 2 are 9 / 2, 0 and -5 / 6."""
    with pytest.warns(DistanceWarning, match=r"16 % of their spectrum is negative and is set to 0"):
        model = of_table(TRIANGLE, ["a", "b", "b"], range(3))
    assert model.negative_share_ == pytest.approx(5 / 32, rel=1e-12)
    np.testing.assert_allclose(
        euclidean_part(TRIANGLE), [[0, 2.25, 9], [2.25, 0, 2.25], [9, 2.25, 0]], atol=1e-13
    )


def test_a_small_repair_is_made_in_silence():
    nearly = TRIANGLE.copy()
    nearly[0, 2] = nearly[2, 0] = 4.1  # 4 would be three points on a line: the eigenvalue is -1 / 60
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = of_table(nearly, ["a", "b", "b"], range(3))
    assert model.negative_share_ == pytest.approx((1 / 60) / (4.1 / 2 + 1 / 60), rel=1e-9)


def test_alignment_distances_are_repaired():
    """With several states and a large weight of the transition they are not Euclidean, by about 1 %."""
    streams = np.random.default_rng(0).dirichlet(np.ones(8), size=(20, 40))
    systems = sysbags.SystemIdentifier(4, normal_form="unit-variance").fit_transform(streams)
    options = {"metric": "alignment", "lambda_a": 10.0, "lambda_mu": "scale"}
    spectrum = np.linalg.eigvalsh(centred(pairwise_distances(systems, **options)))
    share = -spectrum[spectrum < 0].sum() / np.abs(spectrum).sum()
    assert share > 0.005
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DistanceWarning)
        model = KernelRidgeClassifier(**options).fit(systems, np.arange(20) % 2)
    assert model.negative_share_ == pytest.approx(share, rel=1e-9)


# --- the parts


@given(seeds, st.integers(2, 9), st.floats(-5.0, 5.0))
@settings(max_examples=25, deadline=None)
def test_half_of_the_mean_squared_distance_is_the_variance(seed, count, exponent):
    points = 10.0**exponent * np.random.default_rng(seed).normal(size=(count, 3))
    assert half_mean(squares(points)) == pytest.approx(points.var(axis=0, ddof=1).sum(), rel=1e-10)


def test_gaussian_distances_by_hand():
    squared = np.array([[0.0, 4.0], [1e-18, np.inf]])
    # The second order of a small distance is lost in 2 - 2 exp, not here.
    expected = np.array([[0.0, 2.0 - 2.0 * np.exp(-4.0 / 6.0)], [1e-18 / 3.0, 2.0]])
    np.testing.assert_allclose(gaussian_distances(squared, 3.0), expected, rtol=1e-15)
    np.testing.assert_array_equal(gaussian_distances(squared, 0.0), squared)


@pytest.mark.parametrize("width", [None, 1.0])
@pytest.mark.parametrize(("labels", "expected"), [("abbb", "b"), ("aaab", "a"), ("abcc", "c")])
def test_training_clips_that_are_all_the_same(labels, expected, width):
    """Nothing is left but the averages: the most frequent class, for whatever is classified."""
    model = KernelRidgeClassifier(**ON_POINTS, width=width, class_weight=None)
    model.fit(point_systems(np.ones((4, 2))), list(labels))
    assert (model.variance_, model.negative_share_) == (0.0, 0.0)
    np.testing.assert_array_equal(model.coefficients_, 0.0)
    assert model.predict(point_systems([[1.0, 1.0], [50.0, -3.0]])).tolist() == [expected] * 2


def test_a_single_training_clip_has_no_variance():
    with pytest.raises(ParameterError) as caught:
        KernelRidgeClassifier(**ON_POINTS).fit([], [])
    assert "at least one clip" in str(caught.value)
    model = KernelRidgeClassifier(**ON_POINTS).fit(point_systems([[1.0], [1.0]]), ["a", "b"])
    np.testing.assert_array_equal(model.decision_function(point_systems([[3.0]])), 0.0)


# --- several bags


@given(seeds, st.floats(0.0, 3.0))
@settings(max_examples=15, deadline=None)
def test_several_bags_are_points_side_by_side(seed, weight):
    rng = np.random.default_rng(seed)
    first, second, codes = rng.normal(size=(12, 2)), rng.normal(size=(12, 3)), np.arange(12) % 3
    pairs = list(zip(point_systems(first), point_systems(second), strict=True))
    model = KernelRidgeClassifier(**ON_POINTS, bag_weights=[1.0, weight]).fit(pairs[:9], codes[:9])
    # Each bag is divided by its variance.
    scales = [half_mean(squares(points[:9])) for points in (first, second)]
    np.testing.assert_allclose(model.scales_, scales, rtol=1e-9)
    together = point_systems(np.hstack([first / np.sqrt(scales[0]), np.sqrt(weight / scales[1]) * second]))
    twin = KernelRidgeClassifier(**ON_POINTS).fit(together[:9], codes[:9])
    np.testing.assert_allclose(
        model.decision_function(pairs), twin.decision_function(together), rtol=0, atol=1e-9
    )


def test_each_bag_has_weights_in_its_own_units(clips):
    first, second, labels = clips
    pairs = list(zip(first, second, strict=True))
    model = KernelRidgeClassifier(metric="covariance").fit(pairs, labels)
    variances = [np.mean([system.observer_gram.trace() for system in bag]) for bag in (first, second)]
    np.testing.assert_allclose(model.weights_, [[0.9, variance] for variance in variances], rtol=1e-12)
    given_weight = KernelRidgeClassifier(metric="covariance", lambda_a=0.5).fit(pairs, labels)
    np.testing.assert_allclose(given_weight.weights_, [[0.5, variance] for variance in variances], rtol=1e-12)


def test_one_bag_and_a_list_of_one_are_the_same(clips):
    systems, _, labels = clips
    plain = KernelRidgeClassifier().fit(systems, labels).decision_function(systems)
    listed = (
        KernelRidgeClassifier().fit([[s] for s in systems], labels).decision_function([[s] for s in systems])
    )
    np.testing.assert_array_equal(plain, listed)


def test_two_classes_have_one_score(clips):
    systems, _, labels = clips
    indices = np.flatnonzero(labels != labels[-1])
    model = KernelRidgeClassifier().fit([systems[k] for k in indices], labels[indices])
    scores = model.decision_function(systems)
    assert scores.shape == (15,)
    np.testing.assert_array_equal(model.predict(systems), model.classes_[(scores > 0).astype(int)])


# --- mistakes


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ridge": 0.0}, "ridge is 0, but it must be above 0"),
        ({"ridge": -1.0}, "ridge is -1.0"),
        ({"width": 0.0}, "width is 0, but it must be above 0"),
        ({"width": -1.0}, "width is -1.0"),
        ({"width": np.nan}, "width is nan"),
        (
            {"class_weight": "auto"},
            "class_weight is 'auto', but it must be 'balanced', a mapping from labels to weights, or None",
        ),
        (
            {"class_weight": {0: 2.0, "rain": 1.0}},
            "class_weight has the label 'rain', but it must be a mapping from the labels, 0, 1",
        ),
        (
            {"class_weight": {0: "many"}},
            "class_weight is {0: 'many'}, but it must be a mapping from the labels, 0, 1",
        ),
        ({"class_weight": {0: 0.0}}, "class_weight is {0: 0.0}, but all weights must be above 0"),
        ({"bag_weights": [1.0, 1.0]}, "bag_weights has 2 numbers, but a clip has 1 systems"),
        ({"bag_weights": [-1.0]}, "a bag's weight is -1.0"),
        (
            {"metric": "martin"},
            "metric is 'martin', but it must be one of 'alignment', 'covariance', 'normalized-covariance'",
        ),
        ({"lambda_a": "auto"}, "lambda_a is 'auto', but it must be a number that is 0 or more, or \"scale\""),
        ({"lambda_a": 2.0}, "lambda_a is 2"),
    ],
)
def test_bad_options(clips, options, sentence):
    systems, _, labels = clips
    with pytest.raises(ParameterError) as caught:
        KernelRidgeClassifier(**options).fit(systems, labels)
    assert sentence in str(caught.value)


def test_a_penalty_of_zero_is_refused():
    with pytest.raises(ParameterError, match="the penalty is 0, but it must be above 0"):
        Ridge(TRIANGLE, np.array([0, 0, 1]), np.arange(3), 0.0)


def test_bad_systems(clips):
    first, second, labels = clips
    with pytest.raises(ParameterError, match="same number of systems"):
        KernelRidgeClassifier().fit([first[0], [first[1], second[1]]], labels[:2])
    model = KernelRidgeClassifier().fit(first, labels)
    with pytest.raises(ParameterError, match="there must be 1"):
        model.predict(list(zip(first, second, strict=True)))
    bare = [dataclasses.replace(sysbags.identify(system.samples, 2), states=None) for system in first]
    with pytest.raises(ParameterError, match=r"systems\[0\] is in the orthonormal form and has no states"):
        KernelRidgeClassifier().fit(bare, labels)


def test_a_single_class_is_refused():
    systems = point_systems(np.arange(4.0)[:, None])
    with pytest.raises(ParameterError, match="all clips have the class 0, but there must be at least two"):
        KernelRidgeClassifier(**ON_POINTS).fit(systems, [0] * 4)
