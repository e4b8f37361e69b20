"""Classifiers of vectors against plain loops and scikit-learn's own pipelines."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from sysbags.errors import ParameterError
from sysbags.evaluate.splits import protocol_groups
from sysbags.evaluate.vector_predictors import (
    INNER_FOLDS,
    PENALTIES,
    ROUGH_TOLERANCE,
    VECTOR_CLASSIFIERS,
    vector_predictor,
)

CODES = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2])
GROUPS = np.array([0, 0, 1, 2, 3, 2, 4, 5, 5, 6, 7, 7, 8, 9])
LINEAR_MODELS = VECTOR_CLASSIFIERS[2:]


def histograms(length, seed=0):
    """Classes that overlap; one column never changes, and one is always empty."""
    rng = np.random.default_rng(seed)
    points = rng.gamma(2.0, size=(3, length))[CODES] + rng.gamma(1.0, size=(len(CODES), length)) * 2.5
    points[:, 0], points[:, 1] = 0.0, 3.0
    return points


def chi2(a, b):
    return sum((x - y) ** 2 / (x + y) for x, y in zip(a, b, strict=True) if x + y > 0)


def cosine(a, b):
    return 1.0 - a @ b / np.sqrt((a @ a) * (b @ b))


METRICS = {"euclidean": lambda a, b: ((a - b) ** 2).sum(), "cosine": cosine, "chi2": chi2}


def cases():
    """Each group left out, each item judged, and who is left for it."""
    for group in [None, *range(10)]:
        for i in np.flatnonzero(group != GROUPS):
            yield group, i, np.flatnonzero((GROUPS[i] != GROUPS) & (group != GROUPS))


@pytest.mark.parametrize("metric", METRICS)
def test_the_nearest_vector(metric):
    points, wrong = histograms(6), 0
    predictor = vector_predictor(points, CODES, GROUPS, "1-NN", metric)
    for group, i, train in cases():
        predicted = predictor.predict(group)
        distances = [METRICS[metric](points[i], points[j]) for j in train]
        assert predicted[i] == CODES[train[np.argmin(distances)]]
        wrong += predicted[i] != CODES[i]
    assert wrong > 0


@pytest.mark.parametrize("metric", METRICS)
def test_the_nearest_mean(metric):
    """For "cosine" a mean is that of the vectors brought to length 1."""
    points, wrong = histograms(6), 0
    predictor = vector_predictor(points, CODES, GROUPS, "nearest-mean", metric)
    if metric == "cosine":
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    for group, i, train in cases():
        predicted = predictor.predict(group)
        present = np.unique(CODES[train])
        means = [points[train[CODES[train] == c]].mean(axis=0) for c in present]
        distances = [METRICS[metric](points[i], mean) for mean in means]
        assert predicted[i] == present[np.argmin(distances)]
        wrong += predicted[i] != CODES[i]
    assert wrong > 0


def pipeline(points, train, judged, machine):
    """scikit-learn throughout, in all dimensions."""
    folds = protocol_groups(CODES[train], "folds", GROUPS[train], folds=INNER_FOLDS)
    length = np.sqrt(points[train].var(axis=0).sum())
    scaled = make_pipeline(StandardScaler(with_std=False), FunctionTransformer(lambda x: x / length))
    learnt = scaled.fit_transform(points[train])
    rough = clone(machine).set_params(tol=ROUGH_TOLERANCE)
    search = GridSearchCV(rough, {"C": PENALTIES}, cv=PredefinedSplit(folds), scoring=right, refit=False)
    best = search.fit(learnt, CODES[train]).best_params_
    return (
        clone(machine).set_params(**best).fit(learnt, CODES[train]).predict(scaled.transform(points[judged]))
    )


def right(model, points, codes):
    """Items counted, not folds averaged: GridSearchCV takes the plain mean of its folds."""
    return float((model.predict(points) == codes).sum())


@pytest.mark.parametrize("classifier", LINEAR_MODELS)
@pytest.mark.parametrize(("length", "group"), [(6, 2), (40, None)])
def test_linear_models_are_scikit_learns(classifier, length, group):
    """With more columns than items they work in a rotated space; that must not show."""
    points = histograms(length)
    svm = LinearSVC(dual=False, max_iter=10_000)
    machine = svm if classifier == "linear SVM" else LogisticRegression(max_iter=10_000)
    predicted, hits = vector_predictor(points, CODES, GROUPS, classifier).predict(group), []
    for tested_group in np.unique(GROUPS[group != GROUPS]):
        judged = np.flatnonzero(tested_group == GROUPS)
        train = np.flatnonzero((tested_group != GROUPS) & (group != GROUPS))
        expected = pipeline(points, train, judged, machine)
        np.testing.assert_array_equal(predicted[judged], expected)
        hits.extend(expected == CODES[judged])
    assert 0.3 < np.mean(hits) < 1.0


@pytest.mark.parametrize("classifier", VECTOR_CLASSIFIERS)
def test_a_group_left_out_has_no_say(classifier):
    group = 2
    rows, others = np.flatnonzero(group == GROUPS), np.flatnonzero(group != GROUPS)
    points, codes = histograms(20), CODES.copy()
    expected = vector_predictor(points, CODES, GROUPS, classifier).predict(group)[others]
    points[rows] = 100.0 * histograms(20, seed=1)[rows]
    codes[rows] = 2
    predicted = vector_predictor(points, codes, GROUPS, classifier).predict(group)[others]
    np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize("classifier", VECTOR_CLASSIFIERS)
def test_the_own_group_has_no_say(classifier):
    points, codes, item, companion = histograms(20), CODES.copy(), 0, 1
    expected = vector_predictor(points, CODES, GROUPS, classifier).predict()[item]
    points[companion] *= 100.0
    codes[[item, companion]] = 2
    assert vector_predictor(points, codes, GROUPS, classifier).predict()[item] == expected


@pytest.mark.parametrize("classifier", LINEAR_MODELS)
def test_few_groups_and_classes(classifier):
    points, codes = np.array([[0.0, 1.0], [0.1, 1.1], [2.0, 0.0], [2.1, 0.1]]), np.array([0, 0, 1, 1])
    assert vector_predictor(points, codes, np.array([0, 0, 1, 1]), classifier).predict().tolist() == [
        1,
        1,
        0,
        0,
    ]
    assert vector_predictor(points, codes, np.array([0, 1, 0, 1]), classifier).predict().tolist() == [
        0,
        0,
        1,
        1,
    ]
    assert vector_predictor(points, codes, np.array([0, 1, 0, 1]), classifier).predict(0)[
        [1, 3]
    ].tolist() == [-1, -1]


@pytest.mark.parametrize("classifier", LINEAR_MODELS)
def test_same_for_any_number_of_threads(classifier):
    single, threaded = (
        vector_predictor(histograms(20), CODES, GROUPS, classifier, n_jobs=jobs).predict() for jobs in (1, 3)
    )
    np.testing.assert_array_equal(single, threaded)


def test_a_vector_of_zeros_has_no_direction():
    points, codes = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.1], [0.0, 1.0]]), np.array([0, 0, 0, 1])
    for classifier in VECTOR_CLASSIFIERS[:2]:
        assert vector_predictor(points, codes, np.arange(4), classifier, "cosine").predict()[
            1:3
        ].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"classifier": "forest"}, "classifier is 'forest', but it must be one of '1-NN'"),
        ({"classifier": "1-NN", "metric": "martin"}, "metric is 'martin', but it must be one of 'euclidean'"),
        (
            {"classifier": "1-NN", "points": np.zeros((3, 2))},
            "points has shape (3, 2), but it must be (14, p)",
        ),
        ({"classifier": "1-NN", "points": np.full((14, 2), np.nan)}, "points holds nan at index (0, 0)"),
        (
            {"classifier": "1-NN", "metric": "chi2", "points": np.full((14, 2), -1.0)},
            'points holds the negative entry -1, but "chi2" compares histograms',
        ),
    ],
)
def test_mistakes(options, sentence):
    options = {"points": histograms(4), **options}
    with pytest.raises(ParameterError) as caught:
        vector_predictor(options.pop("points"), CODES, GROUPS, **options)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("classifier", LINEAR_MODELS)
def test_only_the_groups_of_wanted_items_are_judged(classifier):
    points, wanted = histograms(6), GROUPS > 5
    everything, partial = (
        vector_predictor(points, CODES, GROUPS, classifier, wanted=w) for w in (None, wanted)
    )
    np.testing.assert_array_equal(partial.predict()[wanted], everything.predict()[wanted])
    assert (partial.predict()[~wanted] == -1).all()
    np.testing.assert_array_equal(partial.predict(2), everything.predict(2))
