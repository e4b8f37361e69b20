"""Kernel ridge against definitions that solve everything anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.classifiers.kernel_ridge import KernelRidgeClassifier
from sysbags.datasets import make_streams
from sysbags.distances.pairwise import pairwise_distances
from sysbags.errors import ParameterError
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
