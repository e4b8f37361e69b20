"""Nested selection against loops that refit everything, and against what a tested group could tell."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import make_stream
from sysbags import cross_gram, identify
from sysbags.classifiers.scores.centers import Centers, frechet_centers, medoid_centers
from sysbags.classifiers.scores.neighbors import Neighbors
from sysbags.classifiers.scores.ridge import Ridge
from sysbags.distances.pairwise import distance_matrix
from sysbags.errors import ParameterError
from sysbags.evaluate.cross_validation import metric_predictors
from sysbags.evaluate.selection import (
    CodebookFolds,
    choose,
    nested_accuracies,
    nested_choice,
    nested_predictions,
    one_standard_error_rule,
)
from sysbags.evaluate.splits import codebook_folds
from sysbags.evaluate.vector_predictors import vector_predictor


class Stub:
    """A predictor of given answers."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, excluding=None):
        return self.answer(excluding)


def nested(predictors, codes, groups, n_jobs=None):
    """The predictor that is best without each group: accuracies, choices and predictions."""
    accuracies = nested_accuracies(predictors, codes, groups, n_jobs=n_jobs)
    chosen = accuracies.argmax(axis=1)
    return SimpleNamespace(
        accuracies=accuracies, chosen=chosen, predictions=nested_predictions(predictors, chosen, groups)
    )


def slow_nested(predictors, codes, groups):
    """The definition, one group after the other."""
    predictions, chosen, accuracies = np.empty(len(codes), int), [], []
    for group in np.unique(groups):
        tested = groups == group
        rates = [
            float(np.mean(predictor.predict(group)[~tested] == codes[~tested])) for predictor in predictors
        ]
        best = rates.index(max(rates))
        predictions[tested] = predictors[best].predict()[tested]
        chosen.append(best)
        accuracies.append(rates)
    return predictions, chosen, accuracies


def remembered(seed, items):
    """A predictor that says anything."""

    def answer(group):
        key = 0 if group is None else int(group) + 1
        return np.random.default_rng([seed, key]).integers(0, 3, size=items)

    return Stub(answer)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20), st.integers(1, 6))
def test_nested_is_the_loop(seed, items, count):
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, 3, size=items), 3 * rng.integers(0, 6, size=items)
    groups[0] = 99  # at least two groups, their numbers with gaps
    predictors = [remembered(seed + k, items) for k in range(count)]
    result = nested(predictors, codes, groups)
    predictions, chosen, accuracies = slow_nested(predictors, codes, groups)
    np.testing.assert_array_equal(result.predictions, predictions)
    assert result.chosen.tolist() == chosen
    np.testing.assert_allclose(result.accuracies, accuracies, rtol=1e-14)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 20), st.integers(1, 4))
def test_only_the_wanted_groups_are_chosen_for(seed, items, count):
    """Rows and predictions of some groups are those that all groups have; nothing else is asked."""
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, 3, size=items), 3 * rng.integers(0, 6, size=items)
    groups[0] = 99
    names = np.unique(groups)
    wanted = rng.permutation(names)[: 1 + seed % len(names)]
    asked = []

    def recorded(predictor):
        return Stub(lambda group: (asked.append(group), predictor.predict(group))[1])

    predictors = [remembered(seed + k, items) for k in range(count)]
    predictions, _, accuracies = slow_nested(predictors, codes, groups)
    some = [recorded(predictor) for predictor in predictors]
    result = nested_accuracies(some, codes, groups, wanted=wanted)
    assert set(asked) == set(wanted)
    places = np.searchsorted(names, wanted)
    np.testing.assert_allclose(result, np.array(accuracies)[places], rtol=1e-14)
    predicted = nested_predictions(predictors, result.argmax(axis=1), groups, wanted=wanted)
    tested = np.isin(groups, wanted)
    np.testing.assert_array_equal(predicted[tested], predictions[tested])
    assert (predicted[~tested] == -1).all()


def test_the_earlier_of_equals_is_taken():
    codes, groups = np.array([0, 0, 1, 1]), np.arange(4)
    right, wrong = Stub(lambda group: codes), Stub(lambda group: 1 - codes)
    assert nested([wrong, right, right], codes, groups).chosen.tolist() == [1] * 4
    assert nested([right, right], codes, groups).chosen.tolist() == [0] * 4


def test_the_tested_group_does_not_choose():
    """A predictor that is right only where it must not count is chosen for the others, not for itself."""
    codes, groups = np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2])
    only_first = Stub(lambda group: np.where(groups == 0, codes, 1 - codes))
    only_last = Stub(lambda group: np.where(groups == 2, codes, 1 - codes))
    result = nested([only_first, only_last], codes, groups)
    assert result.chosen.tolist() == [1, 0, 0]
    assert not np.any(result.predictions == codes)


CODES = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2])
GROUPS = np.array([0, 0, 1, 2, 3, 2, 4, 5, 5, 6, 7, 7, 7, 8, 9])
FOLDS = codebook_folds(CODES, GROUPS)


def member(kind, seed, share=0.5):
    common = make_stream(np.random.default_rng(kind), frames=24)
    return share * common + (1 - share) * make_stream(np.random.default_rng([kind, seed]), frames=24)


STREAMS = [member(code, k) for k, code in enumerate(CODES)]


def described(streams, fold):
    """What a codebook learnt without a fold makes of all streams: here their means, seen from a centre."""
    points = np.array([stream.mean(axis=0) for stream in streams])
    return (points - points[fold != FOLDS].mean(axis=0)) / points[fold != FOLDS].std(axis=0)


def everything(streams, codes):
    """Predictors of every kind."""
    gram = cross_gram([identify(stream, order=2) for stream in streams])
    between = distance_matrix(gram, lambda_a=1.0)
    points = np.array([stream.mean(axis=0) for stream in streams])
    unit = cross_gram([identify(stream, order=2, normal_form="unit-variance") for stream in streams])
    averages = [
        metric_predictors(unit, codes, GROUPS, "nearest-mean", metric, 0.9)(2.0, 1)
        for metric in ("covariance", "normalized-covariance")
    ]
    covariances = distance_matrix(unit, "normalized-covariance", lambda_a=0.9, lambda_mu=2.0)
    means = frechet_centers(gram, codes, GROUPS, 0.25)
    books = [vector_predictor(described(streams, k), codes, GROUPS, "nearest-mean") for k in range(3)]
    return [
        Neighbors(between, codes, GROUPS),
        Neighbors(between, codes, GROUPS, 3),
        Centers((medoid_centers(between, codes, GROUPS), (1.0, 0.0), 1.0)),
        Centers((means, (1.0, 0.0), 1.0)),
        Centers((means, (1.0, 10.0), 1.0)),
        vector_predictor(points, codes, GROUPS, "1-NN", "chi2"),
        vector_predictor(points, codes, GROUPS, "nearest-mean", "cosine"),
        CodebookFolds(books, FOLDS, GROUPS),
        *averages,
        Ridge(covariances, codes, GROUPS, 0.1),
    ]


@pytest.fixture(scope="module")
def honest():
    return nested(everything(STREAMS, CODES), CODES, GROUPS)


@pytest.mark.parametrize("group", [0, 2, 7, 9])
@pytest.mark.parametrize("what", ["data", "labels"])
def test_nothing_of_a_group_is_in_its_choice(honest, group, what):
    """Other clips, or other classes, in a group leave its choice and its inner accuracies as they are."""
    rows, streams, codes = np.flatnonzero(group == GROUPS), list(STREAMS), CODES.copy()
    if what == "data":
        for i in rows:
            streams[i] = make_stream(np.random.default_rng(900 + i), frames=24)
    else:
        codes[rows] = (codes[rows] + 1) % 3
    result = nested(everything(streams, codes), codes, GROUPS)
    assert result.chosen[group] == honest.chosen[group]
    np.testing.assert_array_equal(result.accuracies[group], honest.accuracies[group])
    # It does have a say in the others' choices, so the test would see it.
    assert np.any(result.accuracies != honest.accuracies)
    if what == "labels":
        np.testing.assert_array_equal(result.predictions[rows], honest.predictions[rows])


def test_every_kind_can_win_and_lose(honest):
    assert honest.accuracies.shape == (10, 11)
    assert len(np.unique(honest.accuracies[0])) > 2


def test_same_for_any_number_of_threads(honest):
    result = nested(everything(STREAMS, CODES), CODES, GROUPS, n_jobs=3)
    np.testing.assert_array_equal(result.predictions, honest.predictions)
    np.testing.assert_array_equal(result.accuracies, honest.accuracies)


def test_noise_is_at_chance():
    """Many predictors that know nothing: the best by hindsight looks good, the nested choice does not."""
    rng = np.random.default_rng(0)
    codes, groups = np.repeat([0, 1], 30), np.arange(60)
    tables = [rng.random((60, 60)) for _ in range(60)]
    predictors = [Neighbors(table, codes, groups) for table in tables]
    hindsight = max(float(np.mean(predictor.predict() == codes)) for predictor in predictors)
    accuracy = float(np.mean(nested(predictors, codes, groups).predictions == codes))
    # 60 fair coins have a standard deviation of 6.5 points: one is fine for one choice, not the best of 60.
    assert hindsight > 0.6
    assert accuracy < 0.565


def test_a_choice_among_equals_does_no_harm():
    """Forty ways, each right about half of the items: without an item, those wrong about it look best."""
    rng, items = np.random.default_rng(0), 60
    right = np.array([rng.permutation(items) < items // 2 for _ in range(40)])
    inner = (right.sum(axis=1) - right.T) / (items - 1)  # each item is a group of its own
    assert right[inner.argmax(axis=1), np.arange(items)].mean() == 0.0
    assert right[one_standard_error_rule(inner, items), np.arange(items)].mean() == 0.5


@given(st.integers(0, 10_000), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_the_family_of_the_best_usual_setting_and_the_rule_within_it(seed, families):
    """Against the definition, group by group; predictors of other families are asked for nothing more."""
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, 2, 14), rng.permutation(np.arange(14) % 5)
    names = [*range(families), *rng.integers(0, families, 6)]
    tables = rng.random((len(names), 6, 14)) < rng.random((len(names), 1, 1))  # right or wrong, by group
    asked = set()

    def answer(k):
        def predict(excluding):
            asked.add(k)
            return np.where(tables[k, 5 if excluding is None else excluding], codes, 1 - codes)

        return predict

    predictors = [Stub(answer(k)) for k in range(len(names))]
    expected = []
    for group in range(5):
        outside = groups != group
        rates = tables[:, group, outside].mean(axis=1)
        family = int(rates[:families].argmax())
        indices = [k for k, name in enumerate(names) if name == family]
        best = max(rates[indices])
        bound = best - np.sqrt(best * (1.0 - best) / outside.sum())
        expected.append(next(k for k in indices if rates[k] >= bound))
    assert nested_choice(predictors, codes, groups, names).tolist() == expected
    taken = {names[k] for k in expected}
    assert asked == {k for k, name in enumerate(names) if k < families or name in taken}
    assert nested_choice(predictors, codes, groups, names, wanted=[3]).tolist() == expected[3:4]
    asked.clear()
    rates = tables[:, 5].mean(axis=1)
    chosen, accuracies = choose(predictors, codes, names)
    assert names[chosen] == rates[:families].argmax()
    assert set(np.flatnonzero(np.isfinite(accuracies)).tolist()) == asked


def test_no_predictors():
    with pytest.raises(ParameterError, match="there are no predictors"):
        nested_accuracies([], CODES, GROUPS)
