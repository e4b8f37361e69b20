"""Kernel ridge against definitions that solve everything anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.classifiers.kernel_ridge import KernelRidgeClassifier, bordered, euclidean_shift, targets
from sysbags.datasets import make_streams
from sysbags.distances.pairwise import pairwise_distances
from sysbags.errors import DistanceWarning, ParameterError
from sysbags.evaluate.predictors import KernelRidge

WEIGHTS = {"lambda_a": 0.5, "lambda_mu": 20.0}


def squares(points):
    return ((points[:, None] - points) ** 2).sum(axis=-1)


def least_squares(points, codes, judged, ridge, classes):
    """Penalised linear functions of the points themselves, with a free constant: ``ridge ||w||^2 + ...``."""
    design = np.hstack([points, np.ones((len(points), 1))])
    penalty = ridge * np.eye(design.shape[1])
    penalty[-1, -1] = 0.0
    wanted = np.where(codes[:, None] == np.arange(classes), 1.0, -1.0)
    solution = np.linalg.solve(design.T @ design + penalty, design.T @ wanted)
    return np.hstack([judged, np.ones((len(judged), 1))]) @ solution


@given(st.integers(0, 10_000), st.floats(0.05, 20.0))
@settings(max_examples=25, deadline=None)
def test_without_any_group_it_is_ridge_regression_of_the_rest(seed, ridge):
    """Euclidean distances, where kernel ridge is an ordinary ridge regression; both ways of leaving out."""
    rng = np.random.default_rng(seed)
    points, codes = rng.normal(size=(16, 3)), np.arange(16) % 3
    groups = rng.permutation(np.repeat(np.arange(6), [4, 3, 3, 3, 2, 1]))
    predict = KernelRidge(squares(points), codes, groups, ridge).predict
    for group in (None, 0, 5):
        predicted = predict(group)
        for i in range(16):
            train = (groups != groups[i]) & (groups != group)
            if groups[i] == group:
                continue
            scores = least_squares(points[train], codes[train], points[[i]], ridge, 3)[0]
            scores[~np.isin(np.arange(3), codes[train])] = -np.inf
            assert scores[predicted[i]] > scores.max() - 1e-9  # equal but for round-off


def test_a_class_of_which_nobody_is_left_is_never_predicted():
    points = np.array([[0.0], [0.1], [5.0], [5.1], [9.0]])
    codes, groups = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 2, 3, 4])
    predict = KernelRidge(squares(points), codes, groups).predict
    assert predict(None)[4] == 1
    assert 2 not in predict(4)[:4]
    predictor = KernelRidge(squares(points[:2]), codes[:2], np.array([0, 1]))
    assert predictor.predict(0)[1] == -1


@pytest.fixture(scope="module")
def clips():
    streams, labels = make_streams(classes=3, per_class=5, frames=30, bins=8)
    others, _ = make_streams(classes=3, per_class=5, frames=30, bins=5, random_state=1)
    identifier = sysbags.SystemIdentifier(order=2)
    return identifier.fit_transform(streams), identifier.fit_transform(others), np.asarray(labels)


def test_closed_form_is_the_estimator_fitted_anew(clips):
    first, second, labels = clips
    groups, codes = np.arange(15) // 2, np.unique(labels, return_inverse=True)[1]
    pairs = list(zip(first, second, strict=True))
    between = pairwise_distances(first, **WEIGHTS) + 0.5 * pairwise_distances(second, **WEIGHTS)
    predicted = KernelRidge(between, codes, groups, ridge=3.0).predict()
    for group in np.unique(groups):
        train, judged = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        model = KernelRidgeClassifier(**WEIGHTS, ridge=3.0, bag_weights=[1.0, 0.5])
        model.fit([pairs[k] for k in train], labels[train])
        assert (
            model.predict([pairs[k] for k in judged]).tolist()
            == labels[[np.flatnonzero(codes == code)[0] for code in predicted[judged]]].tolist()
        )


def test_training_items_are_met_as_the_ridge_falls(clips):
    systems, _, labels = clips
    model = KernelRidgeClassifier(ridge=1e-6).fit(systems, labels)
    wanted = np.where(labels[:, None] == model.classes_, 1.0, -1.0)
    np.testing.assert_allclose(model.decision_function(systems), wanted, atol=1e-3)
    np.testing.assert_allclose(model.coefficients_.sum(axis=0), 0.0, atol=1e-9)


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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ridge": 0.0}, "ridge is 0, but it must be above 0"),
        ({"ridge": -1.0}, "ridge is -1.0"),
        ({"bag_weights": [1.0, 1.0]}, "a clip has 1 systems, but there must be 2"),
        ({"bag_weights": [-1.0]}, "a bag's weight is -1.0"),
    ],
)
def test_bad_options(clips, options, sentence):
    systems, _, labels = clips
    with pytest.raises(ParameterError, match=sentence):
        KernelRidgeClassifier(**options).fit(systems, labels)


def test_bad_systems(clips):
    first, second, labels = clips
    with pytest.raises(ParameterError, match="same number of systems"):
        KernelRidgeClassifier().fit([first[0], [first[1], second[1]]], labels[:2])
    model = KernelRidgeClassifier().fit(first, labels)
    with pytest.raises(ParameterError, match="there must be 1"):
        model.predict(list(zip(first, second, strict=True)))


# --- distances that are not Euclidean


@given(st.integers(0, 10_000), st.integers(3, 12))
@settings(max_examples=25, deadline=None)
def test_the_shift_is_the_smallest_that_makes_distances_euclidean(seed, items):
    rng = np.random.default_rng(seed)
    distances = rng.random((items, items))
    distances = np.triu(distances, 1) + np.triu(distances, 1).T
    shift = euclidean_shift(distances)
    centring = np.eye(items) - 1.0 / items
    for factor, smallest in ((1.0, -1e-12), (0.99, -np.inf)):
        shifted = distances + 2.0 * factor * shift * (1.0 - np.eye(items))
        spectrum = np.linalg.eigvalsh(-0.5 * centring @ shifted @ centring)
        assert spectrum[0] >= smallest
        assert factor == 1.0 or shift == 0.0 or spectrum[0] < 0.0
    part = rng.permutation(items)[: items - 1]
    assert euclidean_shift(distances[np.ix_(part, part)]) <= shift + 1e-12


def test_points_need_no_shift():
    for seed in range(20):
        points = np.random.default_rng(seed).normal(size=(12, 3)) * 10.0 ** (seed - 10)
        assert euclidean_shift(squares(points)) == 0.0
    assert euclidean_shift(np.zeros((4, 4))) == 0.0


@given(st.integers(0, 10_000), st.floats(0.01, 3.0))
@settings(max_examples=25, deadline=None)
def test_the_solution_is_bounded_where_distances_are_not_euclidean(seed, factor):
    """Without the repair, a ridge of minus an eigenvalue leaves no solution at all."""
    rng = np.random.default_rng(seed)
    distances = np.triu(rng.random((12, 12)), 1)
    distances = distances + distances.T
    shift, wanted = euclidean_shift(distances), targets(np.arange(12) % 3, 3)
    ridge = factor * shift
    right = np.vstack([wanted, np.zeros((1, 3))])
    coefficients = np.linalg.solve(bordered(distances, ridge, shift), right)[:-1]
    # On vectors of sum 0 no eigenvalue is below the ridge.
    assert np.linalg.norm(coefficients, 2) <= np.linalg.norm(wanted, 2) / ridge * (1 + 1e-9)
    if factor == 1.0:
        assert np.linalg.cond(bordered(distances, ridge, 0.0)) > 1e12


def test_predictions_are_those_of_an_estimator_with_the_same_shift(clips):
    """Distances far from Euclidean; the shift of all items is used for each part of them."""
    labels = clips[2]
    codes, groups = np.unique(labels, return_inverse=True)[1], np.arange(15) // 2
    noise = np.triu(np.random.default_rng(0).normal(scale=0.2, size=(15, 15)), 1)
    distances = squares(np.eye(3)[codes]) + 0.3 * (1.0 - np.eye(15)) + noise + noise.T
    distances = np.maximum(distances, 0.0)
    shift = euclidean_shift(distances)
    assert shift > 0.1
    predicted = KernelRidge(distances, codes, groups, 0.05).predict()
    for group in np.unique(groups):
        train, judged = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        matrix = bordered(distances[np.ix_(train, train)], 0.05, shift)
        solution = np.linalg.solve(matrix, np.vstack([targets(codes[train], 3), np.zeros((1, 3))]))
        scores = solution[-1] - 0.5 * distances[np.ix_(judged, train)] @ solution[:-1]
        assert predicted[judged].tolist() == scores.argmax(axis=1).tolist()


def test_a_large_repair_is_told_with_numbers(clips, monkeypatch):
    systems, _, labels = clips
    triangle = np.ones((15, 15)) - np.eye(15)
    triangle[0, 1] = triangle[1, 0] = 9.0  # 1 + 1 is less than 3
    monkeypatch.setattr(KernelRidgeClassifier, "_between", lambda self, bags, others: triangle)
    with pytest.warns(DistanceWarning, match=r"is \d+ % of the variance, and raises the ridge from 2"):
        model = KernelRidgeClassifier(ridge=2.0).fit(systems, labels)
    assert model.shift_ == pytest.approx(euclidean_shift(triangle))
