"""Leaving whole groups out, and choosing weights, against loops that do it by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from helpers import gram_in_form_of, in_form_of, make_stream
from sysbags import alignment_distance, cross_gram, frechet_mean, identify, pairwise_distances
from sysbags.classifiers.registry import CLASSIFIERS
from sysbags.distances.registry import METRICS
from sysbags.errors import ParameterError
from sysbags.evaluate import choose_weights, cross_validation, leave_one_out

LABELS = np.array(list("aaaabbbbccc"))
GROUPS = np.array([7, 7, 1, 2, 1, 3, 3, 4, 5, 5, 5])  # 1 straddles two classes, 5 is a whole class
MEAN_TOLERANCE = 1e-4  # as in test_cross_validation


def member(kind, seed, share=0.9):
    common = make_stream(np.random.default_rng(kind), frames=40)
    return share * common + (1 - share) * np.random.default_rng([kind, seed]).dirichlet(np.ones(8), size=40)


@pytest.fixture(scope="module")
def systems():
    return [identify(member(ord(label), seed), order=3) for seed, label in enumerate(LABELS)]


@pytest.fixture(scope="module")
def gram(systems):
    return cross_gram(systems)


@pytest.fixture(scope="module")
def loose():
    """Classes that overlap, so that the weights matter."""
    return cross_gram([identify(member(ord(label), k, 0.4), order=3) for k, label in enumerate(LABELS)])


def allowed(item, label):
    return [j for j in range(len(LABELS)) if LABELS[j] == label and GROUPS[j] != GROUPS[item]]


@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_of_the_own_group_are_never_asked(systems, gram, metric):
    weights = {"lambda_a": 0.4, "lambda_mu": 2.0}
    systems, gram = in_form_of(metric, systems), gram_in_form_of(metric, gram)
    result = leave_one_out(gram, LABELS, groups=GROUPS, classifier="nearest-system", metric=metric, **weights)
    between = pairwise_distances(systems, metric=metric, **weights)
    for i in range(len(LABELS)):
        for c, label in enumerate(result.classes):
            nearest = min((between[i, j] for j in allowed(i, label)), default=np.inf)
            assert result.distances[i, c] == pytest.approx(nearest, rel=1e-13)
    assert result.predictions.tolist() == result.classes[result.distances.argmin(axis=1)].tolist()


@pytest.mark.parametrize("n_neighbors", [3, 100])
def test_votes_come_from_other_groups_alone(systems, gram, n_neighbors):
    """With every neighbour asked, the majority among the others wins, whatever the own group says."""
    labels, groups = np.array(list("aaaaaabbbbb")), np.array([0] * 6 + [1] * 5)
    result = leave_one_out(gram, labels, groups=groups, classifier="nearest-system", n_neighbors=n_neighbors)
    assert result.predictions.tolist() == ["b"] * 6 + ["a"] * 5


def test_each_item_has_as_many_neighbours_as_there_are_outside_its_group(systems, gram):
    """Items of a large group have few others, items of a small one many: no count is cut to the fewest."""
    groups = np.array([0] * 8 + [1, 2, 3])
    between = pairwise_distances(systems)
    for count in (2, 5, 9, 50):
        result = leave_one_out(gram, LABELS, groups=groups, classifier="nearest-system", n_neighbors=count)
        for i in range(len(LABELS)):
            neighbours = sorted(np.flatnonzero(groups != groups[i]), key=lambda j: between[i, j])[:count]
            votes = Counter(LABELS[neighbours])
            expected = next(LABELS[j] for j in neighbours if votes[LABELS[j]] == max(votes.values()))
            assert result.predictions[i] == expected


@pytest.mark.parametrize("lambda_mu", [0.0, 10.0])
def test_means_are_made_without_the_group(systems, gram, lambda_mu):
    result = leave_one_out(gram, LABELS, groups=GROUPS, lambda_mu=lambda_mu)
    expected = np.full(result.distances.shape, np.inf)
    for i, theta in enumerate(systems):
        for c, label in enumerate(result.classes):
            members = [systems[j] for j in allowed(i, label)]
            if members:
                centre = frechet_mean(members, lambda_mu=lambda_mu).system
                expected[i, c] = alignment_distance(centre, theta, lambda_mu=lambda_mu)
    np.testing.assert_allclose(result.distances, expected, rtol=0, atol=MEAN_TOLERANCE)
    assert np.isinf(result.distances[-3:, 2]).all()


@pytest.mark.parametrize("metric", ["martin", "max-singular-value"])
def test_medoids_are_chosen_without_the_group(systems, gram, metric):
    result = leave_one_out(gram, LABELS, groups=GROUPS, metric=metric)
    between = pairwise_distances(systems, metric=metric)
    for i in range(len(LABELS)):
        for c, label in enumerate(result.classes):
            members = allowed(i, label)
            totals = [sum(between[j, k] for k in members) for j in members]
            medoids = [j for j, total in zip(members, totals, strict=True) if total <= min(totals) + 1e-12]
            assert result.distances[i, c] in (between[i, medoids] if members else [np.inf])


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("metric", METRICS)
def test_groups_of_one_are_leave_one_out(gram, classifier, metric):
    gram = gram_in_form_of(metric, gram)
    options = {"classifier": classifier, "metric": metric, "lambda_mu": 1.0}
    expected = leave_one_out(gram, LABELS, **options)
    named = leave_one_out(gram, LABELS, groups=[f"clip {i}" for i in range(len(LABELS))], **options)
    np.testing.assert_allclose(named.distances, expected.distances, rtol=1e-12)
    assert named.predictions.tolist() == expected.predictions.tolist()


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_chosen_weights_are_the_best_of_a_loop(loose, classifier, groups):
    grid_a, grid_mu = (0.0, 0.25, 2.0), (0.0, 1.0, 30.0)
    chosen = choose_weights(
        loose, LABELS, groups=groups, classifier=classifier, lambda_a=grid_a, lambda_mu=grid_mu, n_jobs=2
    )
    by_hand = [
        [
            leave_one_out(loose, LABELS, groups=groups, classifier=classifier, lambda_a=a, lambda_mu=mu)
            for mu in grid_mu
        ]
        for a in grid_a
    ]
    rates = np.array([[result.accuracy for result in row] for row in by_hand])
    np.testing.assert_array_equal(chosen.accuracies, rates)
    best = by_hand[grid_a.index(chosen.lambda_a)][grid_mu.index(chosen.lambda_mu)]
    assert chosen.result.accuracy == best.accuracy == rates.max()
    np.testing.assert_allclose(chosen.result.distances, best.distances, rtol=1e-12)
    assert rates.min() < rates.max()  # otherwise nothing was chosen


def test_a_plateau_beats_a_peak(monkeypatch):
    """Of equal rates the one with good neighbours on the grid is taken; one item more beats them."""
    table = np.array([[10, 2, 9, 9], [2, 2, 10, 9], [2, 2, 9, 9]])  # correct predictions of 10
    codes = np.repeat([0, 1], 5)

    class Stub:
        def __init__(self, a, mu):
            self.correct = table[int(a), int(mu)]

        def predict(self, excluding=None):
            return np.where(np.arange(10) < self.correct, codes, 1 - codes)

        def distances(self, excluding=None):
            return np.zeros((10, 2))

    def family(gram, codes, groups, classifier, lambda_a, **options):
        return lambda mu, count: Stub(lambda_a, mu)

    monkeypatch.setattr(cross_validation, "alignment_predictors", family)
    gram = cross_gram([identify(member(0, k), order=2) for k in range(10)])
    chosen = choose_weights(gram, ["a"] * 5 + ["b"] * 5, lambda_a=[0, 1, 2], lambda_mu=[0, 1, 2, 3])
    np.testing.assert_array_equal(chosen.accuracies, table / 10)
    assert (chosen.lambda_a, chosen.lambda_mu) == (1.0, 2.0)


def test_the_middle_of_the_grid_breaks_ties(systems):
    """Two classes that any weights tell apart."""
    pair = cross_gram([identify(member(kind, k, 0.99), order=2) for kind in (1, 2) for k in range(3)])
    chosen = choose_weights(pair, list("aaabbb"))
    assert np.all(chosen.accuracies == 1.0)
    assert (chosen.lambda_a, chosen.lambda_mu) == (0.25, 10.0)


def test_a_single_value_is_kept(gram):
    chosen = choose_weights(gram, LABELS, lambda_a=0.5, lambda_mu=[1.0, 2.0])
    assert chosen.lambda_a == 0.5
    assert chosen.accuracies.shape == (1, 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"groups": GROUPS[:-1]}, "groups have shape (10,), but there must be one for each of the 11"),
        ({"groups": np.zeros(11)}, "there is only one group"),
        ({"lambda_a": []}, "lambda_a is empty"),
        ({"lambda_mu": [1.0, -2.0]}, "lambda_mu is -2.0, but it must be a finite number"),
        ({"classifier": "mean"}, "classifier is 'mean', but it must be one of"),
    ],
)
def test_mistakes(gram, options, sentence):
    with pytest.raises(ParameterError) as caught:
        choose_weights(gram, LABELS, **options)
    assert sentence in str(caught.value)
