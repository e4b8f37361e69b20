"""Leaving whole groups out, and choosing settings, against loops that do it by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from evaluations import chosen_settings
from helpers import gram_in_form_of, in_form_of, make_stream
from sysbags import alignment_distance, cross_gram, frechet_mean, identify, pairwise_distances
from sysbags.distances import METRICS
from sysbags.errors import ParameterError
from sysbags.evaluate import leave_one_out
from sysbags.evaluate.candidates import GRIDS, matching_grids
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS
from sysbags.evaluate.selection import choose

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


def loose(normal_form):
    """Classes that overlap, so that the settings matter."""
    streams = [member(ord(label), k, 0.4) for k, label in enumerate(LABELS)]
    return [identify(stream, order=3, normal_form=normal_form) for stream in streams]


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


@pytest.mark.parametrize("classifier", DISTANCE_CLASSIFIERS)
@pytest.mark.parametrize("metric", METRICS)
def test_groups_of_one_are_leave_one_out(gram, classifier, metric):
    gram = gram_in_form_of(metric, gram)
    options = {"classifier": classifier, "metric": metric, "lambda_mu": 1.0}
    expected = leave_one_out(gram, LABELS, **options)
    named = leave_one_out(gram, LABELS, groups=[f"clip {i}" for i in range(len(LABELS))], **options)
    np.testing.assert_allclose(named.distances, expected.distances, rtol=1e-12)
    assert named.predictions.tolist() == expected.predictions.tolist()


# What there is to choose from, in its order. Multiples of a unit are turned into weights in the twin.
TABLE = {
    ("normalized-covariance", "unit-variance"): ((1.0, 0.5), (1.0, 0.0, 10.0)),
    ("covariance", "unit-variance"): ((1.0, 0.5), (1.0, 0.0, 10.0)),
    ("alignment", "unit-variance"): ((1.0, 0.1, 10.0), (1.0, 0.0, 10.0)),
    ("alignment", "orthonormal"): (
        (0.25, 0.05, 1.0, 0.0, 4.0),
        (10.0, 3.0, 30.0, 1.0, 100.0, 0.0, 300.0),
    ),
}


def units(metric, systems):
    """The weights with which all parts of a distance have one unit, from the bare systems."""
    variance = np.mean([np.trace(system.observer_gram) for system in systems])
    transitions = np.mean([np.sum(system.transition**2) for system in systems])
    return {
        "alignment": (variance / transitions, 1.0),
        "covariance": (0.9, variance),
        "normalized-covariance": (0.9, 1.0 / variance),
    }[metric]


def by_hand(classifier, groups, table):
    """Every setting of a table, evaluated from systems that are identified in its form."""
    results = []
    for (metric, form), multiples in table.items():
        systems = loose(form)
        unit = units(metric, systems) if form == "unit-variance" else (1.0, 1.0)
        gram = cross_gram(systems)
        for a in multiples[0]:
            for mu in multiples[1]:
                weights = {"lambda_a": a * unit[0], "lambda_mu": mu * unit[1]}
                result = leave_one_out(
                    gram, LABELS, groups=groups, classifier=classifier, metric=metric, **weights
                )
                results.append(({"metric": metric, "normal form": form, **weights}, result))
    return results


def first_within_one_error(accuracies):
    best = max(accuracies)
    return next(
        k
        for k, accuracy in enumerate(accuracies)
        if accuracy >= best - np.sqrt(best * (1 - best) / len(LABELS))
    )


@pytest.mark.parametrize("classifier", DISTANCE_CLASSIFIERS)
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_the_chosen_setting_is_that_of_a_loop(classifier, groups):
    systems = loose("orthonormal")
    chosen = chosen_settings(systems, LABELS, groups=groups, classifier=classifier, n_jobs=2)
    # Means are those of the alignment distance: averages of covariances grow with the class.
    by_mean = classifier == "nearest-mean"
    table = {key: grid for key, grid in TABLE.items() if key[0] == "alignment" or not by_mean}
    expected = by_hand(classifier, groups, table)
    assert len(chosen.tried) == len(expected) == len(chosen.accuracies) == (0 if by_mean else 12) + 9 + 35
    for tried, (settings, _) in zip(chosen.tried, expected, strict=True):
        assert {name: tried[name] for name in ("metric", "normal form")} == {
            name: settings[name] for name in ("metric", "normal form")
        }
        for name in ("lambda_a", "lambda_mu"):
            # The form is changed here and identified anew there: a few steps of round-off.
            assert tried[name] == pytest.approx(settings[name], rel=1e-9)
    np.testing.assert_array_equal(chosen.accuracies, [result.accuracy for _, result in expected])
    k = first_within_one_error([result.accuracy for _, result in expected])
    assert chosen.settings == {name: chosen.tried[k][name] for name in chosen.settings}
    assert chosen.settings.keys() == {"metric", "normal form", "lambda_a", "lambda_mu"}
    assert chosen.predictions.tolist() == expected[k][1].predictions.tolist()
    np.testing.assert_allclose(chosen.distances, expected[k][1].distances, rtol=1e-7, atol=1e-10)
    assert len(set(chosen.accuracies)) > 1  # otherwise nothing was chosen
    # What a model is fitted to: systems in the form that was chosen, and their CrossGram.
    [(members, gram)] = chosen.sets
    assert {system.normal_form for system in members} == {chosen.settings["normal form"]}
    np.testing.assert_allclose(gram.observer, cross_gram(members).observer, atol=1e-12)
    assert gram.rows.normal_form == chosen.settings["normal form"]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"metric": "alignment"}, [("alignment", "unit-variance"), ("alignment", "orthonormal")]),
        ({"metric": "covariance"}, [("covariance", "unit-variance")]),
        ({"normal_form": "orthonormal"}, [("alignment", "orthonormal")]),
        ({"normal_form": "unit-variance"}, list(TABLE)[:3]),
        ({"metric": "alignment", "normal_form": "unit-variance"}, [("alignment", "unit-variance")]),
        ({}, list(TABLE)),
    ],
)
def test_what_is_given_is_not_chosen(options, keys):
    chosen = chosen_settings(loose("orthonormal"), LABELS, classifier="nearest-system", **options)
    expected = by_hand("nearest-system", None, {key: TABLE[key] for key in keys})
    assert [(tried["metric"], tried["normal form"]) for tried in chosen.tried] == [
        (settings["metric"], settings["normal form"]) for settings, _ in expected
    ]
    np.testing.assert_array_equal(chosen.accuracies, [result.accuracy for _, result in expected])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Weights alone are the paper's: the alignment distance in the orthonormal form.
        (
            {"lambda_a": 0.5},
            ("alignment", "orthonormal", (0.5,), TABLE["alignment", "orthonormal"][1], (False, False)),
        ),
        (
            {"lambda_mu": 2},
            ("alignment", "orthonormal", TABLE["alignment", "orthonormal"][0], (2.0,), (False, False)),
        ),
        ({"lambda_a": 0.0, "lambda_mu": 0.0}, ("alignment", "orthonormal", (0.0,), (0.0,), (False, False))),
        # In a form with units, what is not given is still a multiple of its unit.
        (
            {"lambda_a": 0.5, "normal_form": "unit-variance"},
            ("alignment", "unit-variance", (0.5,), (1.0, 0.0, 10.0), (False, True)),
        ),
        (
            {"lambda_mu": 0.5, "metric": "normalized-covariance"},
            ("normalized-covariance", "unit-variance", (1.0, 0.5), (0.5,), (True, False)),
        ),
        (
            {"lambda_a": 0.7, "lambda_mu": 0.5, "metric": "covariance", "normal_form": "unit-variance"},
            ("covariance", "unit-variance", (0.7,), (0.5,), (False, False)),
        ),
    ],
)
def test_weights_that_are_given(options, expected):
    [grid] = matching_grids(**options)
    assert (grid.metric, grid.normal_form, grid.lambda_a, grid.lambda_mu, grid.scaled) == expected
    systems = loose(grid.normal_form)
    values_a, values_mu = grid.weights(cross_gram(systems).rows)
    unit_a, unit_mu = units(grid.metric, systems)
    np.testing.assert_allclose(values_a, np.array(grid.lambda_a) * (unit_a if grid.scaled[0] else 1.0))
    np.testing.assert_allclose(values_mu, np.array(grid.lambda_mu) * (unit_mu if grid.scaled[1] else 1.0))


def test_all_grids_are_there():
    assert {(g.metric, g.normal_form): (g.lambda_a, g.lambda_mu) for g in GRIDS} == TABLE
    assert matching_grids() == list(GRIDS)
    assert [grid.title for grid in GRIDS] == [
        "normalized lagged covariances",
        "lagged covariances",
        "alignment of unit-variance states",
        "alignment",
    ]


def test_the_usual_setting_is_taken_unless_another_is_clearly_better():
    """Of ten items, an accuracy of 0.9 has a standard error of 0.095: 0.8 is not within it, 0.9 is."""
    codes = np.repeat([0, 1], 5)

    class Stub:
        def __init__(self, correct):
            self.correct = correct

        def predict(self, excluding=None):
            return np.where(np.arange(10) < self.correct, codes, 1 - codes)

    for rates, place in [((8, 9, 9, 8), 1), ((9, 9, 9, 9), 0), ((9, 10, 5, 10), 1), ((4, 5, 2, 6), 1)]:
        best, accuracies = choose([Stub(correct) for correct in rates], codes)
        np.testing.assert_array_equal(accuracies, np.array(rates) / 10)
        assert best == place


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"groups": GROUPS[:-1]}, "groups have shape (10,), but there must be one for each of the 11"),
        ({"groups": np.zeros(11)}, "there is only one group"),
        ({"classifier": "mean"}, "classifier is 'mean', but it must be one of"),
    ],
)
def test_mistakes(gram, options, sentence):
    with pytest.raises(ParameterError) as caught:
        leave_one_out(gram, LABELS, **options)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lambda_a": -1.0}, "lambda_a is -1.0, but it must be a finite number"),
        ({"lambda_mu": -2.0}, "lambda_mu is -2.0, but it must be a finite"),
        ({"lambda_a": "large"}, "lambda_a is 'large', but it must be a finite number"),
        ({"lambda_a": 2.0, "metric": "covariance"}, "lambda_a is 2.0, but it must be a number in [0, 1]"),
        ({"metric": "martin"}, "metric is 'martin', but it must be one of 'normalized-covariance'"),
        ({"normal_form": "diagonal"}, "normal_form is 'diagonal', but it must be one of 'orthonormal'"),
        (
            {"metric": "covariance", "normal_form": "orthonormal"},
            "the metric covariance needs the unit-variance form, but the form is orthonormal",
        ),
    ],
)
def test_settings_that_cannot_be(systems, options, sentence):
    with pytest.raises(ParameterError) as caught:
        chosen_settings(systems, LABELS, **options)
    assert sentence in str(caught.value)
