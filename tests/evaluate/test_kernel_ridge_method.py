"""Several bags together: each alternative is the estimator, fitted anew without the group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sysbags
from sysbags.datasets import make_streams
from sysbags.evaluate.methods import EvaluationSet, SystemSet, evaluate_method, kernel_ridge_method
from sysbags.evaluate.selection import nested_accuracies, nested_predictions
from sysbags.report.results import Clip

GROUPS = np.array([0, 0, 1, 2, 3, 3, 4, 5, 6])


def view(bins, seed):
    streams, labels = make_streams(classes=3, per_class=3, frames=30, bins=bins, random_state=seed)
    systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    return SystemSet(systems, sysbags.cross_gram(systems)), [str(label) for label in labels]


@pytest.fixture(scope="module")
def setting():
    (first, labels), (second, _), (third, _) = view(6, 0), view(9, 1), view(5, 2)
    clips = tuple(Clip(f"{k}", Path(f"{k}"), label) for k, label in enumerate(labels))
    return (
        EvaluationSet(
            clips=clips,
            groups=GROUPS,
            codebook_folds=np.array([0, 0, 1, 2, 0, 0, 1, 2, 2]),
            protocol="some left out",
        ),
        first,
        second,
        third,
    )


def test_each_alternative_is_the_estimator_without_the_group(setting):
    items, first, second, _ = setting
    spec = kernel_ridge_method(["one", "two"], [[first], [second]], items)
    alternatives = spec.alternatives()
    assert len(alternatives) == 2 * 3 * 3 * 3
    pairs = list(zip(first.systems, second.systems, strict=True))
    for settings, predictor in alternatives[::17]:
        model = sysbags.KernelRidgeClassifier(
            lambda_a=settings["lambda_a"],
            lambda_mu=settings["lambda_mu"],
            ridge=settings["ridge"],
            bag_weights=[1.0, settings["weight of two"]],
        )
        predicted = predictor.predict()
        for group in range(7):
            train, judged_now = np.flatnonzero(group != GROUPS), np.flatnonzero(group == GROUPS)
            model.fit([pairs[k] for k in train], items.codes[train])
            np.testing.assert_array_equal(
                model.predict([pairs[k] for k in judged_now]), predicted[judged_now]
            )


def test_a_bag_of_weight_0_has_no_say(setting):
    items, first, second, third = setting
    alternatives = kernel_ridge_method(["a", "b"], [[first], [second]], items).alternatives()
    changed = kernel_ridge_method(["a", "b"], [[first], [third]], items).alternatives()
    same = [settings["weight of b"] == 0.0 for settings, _ in alternatives]
    assert any(same)
    assert not all(same)
    for equal, (_, x), (_, y) in zip(same, alternatives, changed, strict=True):
        if equal:
            np.testing.assert_array_equal(x.predict(), y.predict())


def test_codebooks_by_folds_and_plain_bags_go_together(setting):
    items, first, second, third = setting
    spec = kernel_ridge_method(["a", "b"], [[first, second, third], [second]], items, 0.25, 30.0)
    for settings, predictor in spec.alternatives():
        assert (settings["lambda_a"], settings["lambda_mu"]) == (0.25, 30.0)
        predicted = predictor.predict()
        for k, version in enumerate((first, second, third)):
            alternatives = kernel_ridge_method(
                ["a", "b"], [[version], [second]], items, 0.25, 30.0
            ).alternatives()
            match = next(p for s, p in alternatives if s == settings)
            np.testing.assert_array_equal(
                predicted[items.codebook_folds == k], match.predict()[items.codebook_folds == k]
            )


def test_the_very_best_is_chosen_without_the_group(setting):
    items, first, second, _ = setting
    spec = kernel_ridge_method(["a", "b"], [[first], [second]], items)
    line, _ = evaluate_method(spec, items, None)
    predictors = [predictor for _, predictor in spec.alternatives()]
    chosen = nested_accuracies(predictors, items.codes, GROUPS).argmax(axis=1)
    expected = nested_predictions(predictors, chosen, GROUPS)
    assert list(line.predictions) == np.unique(items.labels)[expected].tolist()
    assert line.classifier == "kernel ridge"
    assert line.name == "a + b systems, alignment"
