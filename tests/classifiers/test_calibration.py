"""Temperatures against scikit-learn, p-values against slow loops, coverage on exchangeable groups."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin

from sysbags.classifiers.calibration import (
    Calibration,
    ConfidenceMixin,
    conformal_p_values,
    cross_fitted_scores,
    prediction_sets,
)
from sysbags.classifiers.streams import StreamClassifier
from sysbags.datasets import make_streams
from sysbags.errors import CalibrationError, ParameterError, SysbagsError

SEEDS = st.integers(0, 2**32 - 1)


def noisy(rng, items, classes, noise=1.0):
    """Scores and squared distances of items near the center of their class, which are often confused."""
    codes = np.arange(items) % classes
    points = np.eye(classes)[codes] + noise * rng.standard_normal((items, classes))
    squared = ((points[:, None] - np.eye(classes)) ** 2).sum(axis=2)
    return -squared, squared, codes


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def weights_of(groups):
    return 1.0 / np.bincount(groups)[groups]


class Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its scores."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X):
        raise NotImplementedError  # scikit-learn wants it to be there


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator")  # for calibration alone the weights are meant
@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8), reason="no temperatures before 1.8"
)
@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("sizes", [(1,), (1, 2, 9)])
def test_temperature_is_scikit_learns(classes, sizes):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    scores, squared, codes = noisy(np.random.default_rng(classes), 210, classes)
    groups = np.repeat(np.arange(210), np.resize(sizes, 210))[:210]
    # For two classes, scikit-learn has one score x, and -x and x are those of the classes.
    given_scores = (scores[:, 1:] - scores[:, :1]) / 2.0 if classes == 2 else scores
    model = CalibratedClassifierCV(FrozenEstimator(Scores().fit(given_scores, codes)), method="temperature")
    model.fit(given_scores, codes, sample_weight=weights_of(groups))
    calibration = Calibration.fit(scores, squared, codes, groups)
    # scikit-learn minimises, which finds a place up to the root of the machine precision.
    expected = model.predict_proba(given_scores)
    assert calibration.probabilities(scores) == pytest.approx(expected, abs=1e-6)


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6), st.floats(1e-12, 1e12))
def test_neither_scale_nor_shift_of_the_scores_matters(seed, classes, scale):
    rng = np.random.default_rng(seed)
    scores, squared, codes = noisy(rng, 30, classes, rng.uniform(0.01, 2.0))
    groups = rng.integers(0, 8, 30)
    calibration = Calibration.fit(scores, squared, codes, groups)
    scaled = Calibration.fit(scale * scores, squared, codes, groups)
    assert scaled.temperature == pytest.approx(scale * calibration.temperature, rel=1e-9)
    shifted = Calibration.fit(scores + rng.standard_normal((30, 1)), squared, codes, groups)
    assert shifted.temperature == pytest.approx(calibration.temperature, rel=1e-9)


@settings(deadline=None)
@given(SEEDS, st.integers(2, 6))
def test_probabilities_are_a_softmax(seed, classes):
    rng = np.random.default_rng(seed)
    scores, squared, codes = noisy(rng, 30, classes, rng.uniform(0.01, 2.0))
    calibration = Calibration.fit(scores, squared, codes, rng.integers(0, 8, 30))
    probabilities = calibration.probabilities(scores)
    assert probabilities == pytest.approx(softmax(scores / calibration.temperature), abs=1e-12)
    assert probabilities.sum(axis=1) == pytest.approx(1.0)
    ordered = np.take_along_axis(probabilities, np.argsort(scores, axis=1), axis=1)
    assert (np.diff(ordered, axis=1) >= 0.0).all()
    own = probabilities[np.arange(30), codes]
    assert np.exp(-calibration.surprise) == pytest.approx(own, abs=1e-12)
    assert calibration.distances.tolist() == squared[np.arange(30), codes].tolist()


@pytest.mark.parametrize("groups", [2, 5, 40])
def test_where_all_is_right_the_rule_of_succession_limits_the_probability(groups):
    rng = np.random.default_rng(groups)
    codes = np.arange(2 * groups) % 3
    scores = 100.0 * np.eye(3)[codes] + rng.uniform(0.0, 1.0, (2 * groups, 3))
    calibration = Calibration.fit(scores, -scores, codes, np.repeat(np.arange(groups), 2))
    best = calibration.probabilities(scores).max(axis=1)
    assert best.mean() == pytest.approx((groups + 1) / (groups + 2))
    assert np.isfinite(calibration.surprise).all()


def test_scores_that_tell_nothing():
    codes, equal = np.arange(20) % 2, np.ones((20, 2))
    calibration = Calibration.fit(equal, equal, codes, np.arange(20))
    assert calibration.temperature > 0.0
    assert (calibration.probabilities(equal) == 0.5).all()
    assert (calibration.p_values(equal, equal) == 1.0).all()
    wrong = np.eye(2)[1 - codes]  # nothing is as likely as equal probabilities, at an infinite temperature
    calibration = Calibration.fit(wrong, 1.0 - wrong, codes, np.arange(20))
    assert calibration.probabilities(wrong) == pytest.approx(0.5, abs=1e-3)


def test_classes_without_items():
    """They have the probability 0; an item that is alone in its class cannot calibrate."""
    scores, squared, codes = noisy(np.random.default_rng(0), 20, 3)
    groups = np.arange(20) // 2
    codes[4] = 3
    scores, squared = (
        np.column_stack([a, np.full(20, gap)]) for a, gap in ((scores, -np.inf), (squared, np.inf))
    )
    calibration = Calibration.fit(scores, squared, codes, groups)
    kept = np.arange(20) != 4
    other = Calibration.fit(scores[kept, :3], squared[kept, :3], codes[kept], groups[kept])
    assert calibration.temperature == pytest.approx(other.temperature, rel=1e-12)
    assert calibration.weights.tolist() == other.weights.tolist()
    assert calibration.weights[4] == 1.0  # it is the only one of its group now
    assert calibration.groups == 10
    assert (calibration.probabilities(scores)[:, 3] == 0.0).all()
    assert calibration.p_values(scores, squared)[:, 3] == pytest.approx(1.0 / 11.0)
    nothing = np.full((1, 4), np.inf)
    assert (calibration.probabilities(-nothing) == 0.0).all()
    assert calibration.p_values(-nothing, nothing) == pytest.approx(1.0 / 11.0)


def test_a_single_class_left_over_says_nothing_of_the_temperature():
    scores, squared, codes = noisy(np.random.default_rng(0), 20, 3)
    alone = np.where(np.arange(3) == 1, 0.3, -np.inf)
    more = (
        np.vstack([scores, [alone] * 5]),
        np.vstack([squared, [np.where(np.arange(3) == 1, 1.0, np.inf)] * 5]),
    )
    calibration = Calibration.fit(*more, np.append(codes, [1] * 5), np.arange(25))
    expected = Calibration.fit(scores, squared, codes, np.arange(20)).temperature
    assert calibration.temperature == pytest.approx(expected, rel=1e-12)
    assert (calibration.surprise[20:] == 0.0).all()
    assert Calibration.fit(more[0][20:], more[1][20:], np.full(5, 1), np.arange(5)).temperature > 0.0


def test_numbers_that_are_nearly_infinite():
    """Some metrics have infinite distances, which are cut to very large ones."""
    _, squared, codes = noisy(np.random.default_rng(0), 20, 3)
    squared[2, 0] = squared[5, 1] = 1e305
    calibration = Calibration.fit(-squared, squared, codes, np.arange(20))
    assert 0.0 < calibration.temperature < np.inf
    assert not np.isnan(calibration.p_values(-squared, squared)).any()
    assert calibration.probabilities(-squared)[2, 0] == 0.0


def slow_p_value(surprise, distances, weights, new_surprise, new_distance):
    """The definition for groups of one item: ranks in the augmented set, ties counted in full."""
    pairs = [*zip(surprise, distances, strict=True), (new_surprise, new_distance)]
    every = [*weights, 1.0]

    def rank(side, value):
        return sum(weight for weight, pair in zip(every, pairs, strict=True) if pair[side] <= value)

    strange = [max(rank(0, pair[0]), rank(1, pair[1])) for pair in pairs]
    return sum(w for w, a in zip(every, strange, strict=True) if a >= strange[-1]) / sum(every)


@settings(deadline=None)
@given(SEEDS, st.integers(1, 12), st.booleans())
def test_p_values_of_groups_of_one_item(seed, items, ties):
    values = np.random.default_rng(seed).standard_normal((2, items + 6))
    values = np.round(values) if ties else values
    known, new = values[:, :items], values[:, items:].reshape(2, 2, 3)
    new[0, 0, 0] = new[1, 0, 0] = np.inf
    found = conformal_p_values(*known, np.ones(items), *new)
    expected = [slow_p_value(*known, np.ones(items), *new[:, r, c]) for r, c in np.ndindex(2, 3)]
    assert found.ravel() == pytest.approx(expected, abs=1e-12)
    assert found[0, 0] == pytest.approx(1.0 / (items + 1))


@settings(deadline=None, max_examples=300)
@given(SEEDS, st.integers(1, 6), st.integers(1, 5), st.booleans())
def test_p_values_of_larger_groups_are_not_below_those_of_all_items(seed, count, largest, ties):
    """If the other items of the clip's group were known: these p-values are valid, whatever the groups."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(count + 1), rng.integers(1, largest + 1, count + 1))
    values = rng.standard_normal((2, len(groups)))
    values = np.round(values) if ties else values
    weights = weights_of(groups)
    known = groups < count
    ranks = [(weights * (side <= side[:, None])).sum(axis=1) for side in values]
    strange = np.maximum(*ranks)
    for k in np.flatnonzero(~known):
        exact = weights[strange >= strange[k] - 1e-9].sum() / (count + 1)
        [[found]] = conformal_p_values(*values[:, known], weights[known], *values[:, [[k]]])
        assert found >= exact - 1e-9
        assert found >= 1.0 / (count + 1) - 1e-12


@settings(deadline=None)
@given(SEEDS)
def test_long_lists_are_divided(seed):
    """As many comparisons as are done at a time change nothing."""
    from unittest.mock import patch

    rng = np.random.default_rng(seed)
    arguments = *rng.random((2, 10)), weights_of(rng.integers(0, 3, 10)), *rng.random((2, 7, 3))
    expected = conformal_p_values(*arguments)
    with patch("sysbags.classifiers.calibration.CELLS", 60):
        assert conformal_p_values(*arguments) == pytest.approx(expected, abs=1e-15)


def repeated(repetitions, groups, sizes, spread):
    """The p-value of one item of a new group, for many draws of groups.

    Large groups are harder: their pairs lie elsewhere. Within a group pairs are alike, with this spread.
    """
    rng = np.random.default_rng(0)
    by_groups, by_items = np.empty((2, repetitions))
    for r in range(repetitions):
        size = rng.choice(sizes, groups + 1)
        units = np.repeat(np.arange(groups + 1), size)
        centers = rng.standard_normal((2, groups + 1)) + (size == 1)
        values = centers[:, units] + spread * rng.standard_normal((2, len(units)))
        known, new = units < groups, [[np.flatnonzero(units == groups)[0]]]
        by_groups[r] = conformal_p_values(*values[:, known], weights_of(units)[known], *values[:, new])[0, 0]
        by_items[r] = conformal_p_values(*values[:, known], np.ones(known.sum()), *values[:, new])[0, 0]
    return by_groups, by_items


@pytest.mark.parametrize("alpha", [0.1, 0.3])
@pytest.mark.parametrize("sizes", [(1,), (1, 12)])
def test_coverage(alpha, sizes):
    """At least 1 - alpha, up to three standard errors; not much more where values are continuous.

    Without ties, p-values of groups of one item have steps of 1 / (G + 1). With larger groups as much again
    is added: the place of the unknown items.
    """
    repetitions, groups = 4000, 19
    by_groups, by_items = repeated(repetitions, groups, sizes, 0.1)
    error = np.sqrt(alpha * (1.0 - alpha) / repetitions)
    covered = float(np.mean(by_groups > alpha + 1e-9))
    assert covered >= 1.0 - alpha - 3.0 * error
    steps = 1.0 if sizes == (1,) else 2.0
    assert covered <= 1.0 - alpha + steps / (groups + 1) + 3.0 * error
    if sizes != (1,):  # the small groups are hard, but have a small share of the items
        assert np.mean(by_items > alpha + 1e-9) < 1.0 - alpha - 10.0 * error


def test_p_values_are_uniform():
    """With one item per group and one side that tells nothing more, each of G + 1 values is as frequent."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3000, 10))
    found = [conformal_p_values(v[:-1], v[:-1], np.ones(9), v[-1:, None], v[-1:, None])[0, 0] for v in values]
    counts = np.bincount(np.rint(10.0 * np.array(found)).astype(int), minlength=11)
    assert counts[0] == 0
    # Each count is binomial; four standard deviations are exceeded once in 1500 such tests.
    assert np.abs(counts[1:] - 300.0).max() < 4.0 * np.sqrt(3000 * 0.1 * 0.9)


def test_sets_of_a_classifier_cover():
    """Scores of fixed centers, and a temperature from the calibration items alone."""
    rng, alpha, hits, size = np.random.default_rng(0), 0.1, [], []
    for _ in range(200):
        scores, squared, codes = noisy(rng, 60, 3, 0.5)
        calibration = Calibration.fit(scores, squared, codes, np.arange(60) // 2)
        scores, squared, codes = noisy(rng, 30, 3, 0.5)
        sets = calibration.sets(scores, squared, alpha)
        hits.append(sets[np.arange(30), codes].mean())
        size.append(sets.sum(axis=1).mean())
    error = np.std(hits) / np.sqrt(len(hits))
    assert np.mean(hits) >= 1.0 - alpha - 3.0 * error
    assert np.mean(hits) <= 1.0 - alpha + 2.0 / 31.0 + 3.0 * error
    assert 1.0 < np.mean(size) < 2.0  # of 3


def test_sets_of_clips_from_new_recordings():
    """Clips of a recording are alike. Each taken for itself, they make what is new look far from all."""
    by_source, by_clip = [], []
    for seed in range(5):
        recordings, codes = make_streams(3, 18, 160, noise=2.0, random_state=seed)
        clips = [part for recording in recordings for part in np.split(recording, 4)]
        codes, sources = np.repeat(codes, 4), np.repeat(np.arange(54), 4)
        new = sources % 18 >= 8
        known = [clips[k] for k in np.flatnonzero(~new)]
        for shares, groups in ((by_source, sources[~new]), (by_clip, None)):
            model = StreamClassifier(size=40).fit(known, codes[~new], groups)
            sets = model.predict_set([clips[k] for k in np.flatnonzero(new)])
            shares.append(np.mean([code in one for code, one in zip(codes[new], sets, strict=True)]))
    assert np.mean(by_source) >= 0.9 - 3.0 * np.std(by_source, ddof=1) / np.sqrt(len(by_source))
    assert np.mean(by_clip) < 0.5


@pytest.mark.parametrize(("groups", "empty"), [(9, False), (18, False), (19, True), (60, True)])
def test_what_is_far_from_everything_is_none_of_these(groups, empty):
    """It is far away, but not surprising, so that as many are counted again: p is 2 / (G + 1)."""
    scores, squared, codes = noisy(np.random.default_rng(1), 2 * groups, 3, 0.3)
    calibration = Calibration.fit(scores, squared, codes, np.repeat(np.arange(groups), 2))
    far = np.array([[1000.0, 1001.0, 1300.0]])
    assert calibration.probabilities(-far)[0, 0] > 0.5
    assert calibration.p_values(-far, far)[0, 0] == pytest.approx(2.0 / (groups + 1))
    assert bool((~calibration.sets(-far, far, 0.1)).all()) == empty


def test_too_few_groups_for_a_level():
    scores, squared, codes = noisy(np.random.default_rng(1), 18, 3, 0.3)
    calibration = Calibration.fit(scores, squared, codes, np.arange(18) // 2)
    assert calibration.smallest_alpha == 0.1
    far = np.full((1, 3), 1e6)
    assert calibration.sets(-far, far, 0.099).all()


def test_levels_that_are_met_exactly():
    """1 / 3 + 1 / 3 + 1 / 3 may be more or less than 1."""
    p_values = np.array([[0.1, 0.1 + 1e-12, 0.1 - 1e-12, 0.1 + 1e-6]])
    assert prediction_sets(p_values, 0.1).tolist() == [[False, False, False, True]]


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, "0.1", np.nan])
def test_levels_are_between_0_and_1(alpha):
    with pytest.raises(ParameterError, match="alpha is"):
        prediction_sets(np.ones((1, 2)), alpha)


def test_mistakes():
    good = np.ones((4, 2))
    with pytest.raises(ParameterError, match=r"shapes \(4, 2\) and \(4, 3\)"):
        Calibration.fit(good, np.ones((4, 3)), np.zeros(4, dtype=int), np.arange(4))
    with pytest.raises(ParameterError, match="NaN"):
        Calibration.fit(good * np.nan, good, np.zeros(4, dtype=int), np.arange(4))
    with pytest.raises(ParameterError, match="no class has items in two groups"):
        Calibration.fit(-good * np.inf, good, np.zeros(4, dtype=int), np.arange(4))
    with pytest.raises(ParameterError, match="groups have shape"):
        Calibration.fit(good, good, np.zeros(4, dtype=int), np.arange(3))


class Centers(ConfidenceMixin, BaseEstimator):
    """The nearest class mean of numbers."""

    def fit(self, points, codes):
        self.points_ = list(points)
        self.classes_ = np.unique(codes)
        codes = np.asarray(codes)
        self.centers_ = np.array([np.mean(np.array(points)[codes == c]) for c in self.classes_])
        return self

    def _class_scores(self, points):
        squared = (np.array(points)[:, None] - self.centers_) ** 2
        return -squared, squared


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    codes, groups = np.arange(60) % 3, np.arange(60) // 3
    return list(codes + 0.3 * rng.standard_normal(60)), codes, groups


def test_a_calibrated_classifier(points):
    values, codes, groups = points
    names = np.array(["a", "b", "c"])
    model = Centers().fit(values, names[codes])
    scores, squared = cross_fitted_scores(model, values, codes, groups)
    model.calibration_ = Calibration.fit(scores, squared, codes, groups)
    new = [0.1, 1.5, 9.0]
    probabilities = model.predict_proba(new)
    assert probabilities == pytest.approx(model.calibration_.probabilities(model._class_scores(new)[0]))
    p_values = model.p_values(new)
    assert p_values == pytest.approx(model.calibration_.p_values(*model._class_scores(new)))
    for alpha in (0.02, 0.05, 0.1, 0.5):
        sets = model.predict_set(new, alpha)
        for row, found in enumerate(sets):
            order = sorted(range(3), key=lambda c: -probabilities[row, c])
            assert found == [names[c] for c in order if p_values[row, c] > alpha]
    assert model.predict_set(new, 0.1)[2] == []
    assert model.predict_set(new)[0] == ["a"]


def test_without_a_calibration_there_are_no_probabilities(points):
    model = Centers().fit(*points[:2])
    for name in ("predict_proba", "p_values", "predict_set"):
        assert not hasattr(model, name)
        with pytest.raises(CalibrationError, match=f"^{name} needs .* two groups at least$") as error:
            getattr(model, name)
        assert isinstance(error.value, SysbagsError)
        assert isinstance(error.value, AttributeError)
        assert callable(getattr(Centers, name))
    model.calibration_ = None
    assert not hasattr(model, "predict_proba")


class Recorder(Centers):
    """Keeps what each clone was fitted to and asked for."""

    calls: list = []  # noqa: RUF012  (clones share it)

    def _class_scores(self, points):
        Recorder.calls.append((self.points_, list(points)))
        return super()._class_scores(points)


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("folds", [2, 5, 100])
def test_scores_are_those_of_clones_that_have_not_seen_the_group(points, grouped, folds):
    values, codes, groups = points
    codes = codes.copy()
    codes[7] = 3  # a class of one item
    units = groups if grouped else np.arange(60)
    group_of = dict(zip(values, units.tolist(), strict=True))
    Recorder.calls = []
    scores, squared = cross_fitted_scores(Recorder(), values, codes, groups if grouped else None, folds=folds)
    assert len(Recorder.calls) == min(folds, len(np.unique(units)), 20)
    assert sorted(value for _, test in Recorder.calls for value in test) == sorted(values)
    for train, test in Recorder.calls:
        assert {group_of[v] for v in train}.isdisjoint(group_of[v] for v in test)
        assert len(train) + len(test) == 60
        model = Centers().fit(train, codes[[values.index(v) for v in train]])
        expected = dict(zip(test, model._class_scores(test)[1], strict=True))
        for value, row in expected.items():
            k = values.index(value)
            assert squared[k][model.classes_] == pytest.approx(row)
            assert scores[k][model.classes_] == pytest.approx(-row)
            missing = np.setdiff1d(np.arange(4), model.classes_)
            assert np.isinf(squared[k][missing]).all()
    assert squared[7, 3] == np.inf
    assert scores[7, 3] == -np.inf


def test_nothing_to_leave_out(points):
    values, _, groups = points
    with pytest.raises(ParameterError, match="single item"):
        cross_fitted_scores(Centers(), values, np.arange(60), groups)
    with pytest.raises(ParameterError, match="one group"):
        cross_fitted_scores(Centers(), values, points[1], np.zeros(60))
