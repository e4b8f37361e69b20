"""Scores and confidence against twins that refit everything without what is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evaluations import evaluate
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.scores import ScorePredictor
from sysbags.classifiers.scores.centers import Centers, average_centers, medoid_centers
from sysbags.classifiers.scores.neighbors import Neighbors
from sysbags.classifiers.scores.ridge import Ridge
from sysbags.datasets import make_streams
from sysbags.evaluate.methods import nested_confidence
from sysbags.evaluate.results import Clip, Confidence
from sysbags.evaluate.selection import CodebookFolds, TabulatedPredictor
from sysbags.evaluate.splits import EvaluationSet

CODES = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3])
GROUPS = np.array([7, 7, 1, 2, 8, 1, 3, 3, 4, 9, 5, 5, 6, 2, 10, 10])  # 1 and 2 straddle, 10 is a class
PENALTY = 0.7
# Both solve small systems of well-conditioned equations, in another order.
TOLERANCE = 1e-10


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(3)
    return np.eye(4)[CODES] + 0.6 * rng.standard_normal((len(CODES), 4))


@pytest.fixture(scope="module")
def squared(points):
    return ((points[:, None] - points) ** 2).sum(axis=2)


def make(kind, squared, codes=CODES, groups=GROUPS):
    if kind == "kernel-ridge":
        return Ridge(squared, codes, groups, PENALTY)
    if kind == "nearest-system":
        return Neighbors(squared, codes, groups)
    if kind == "medoid":
        return Centers((medoid_centers(squared, codes, groups), (1.0, 0.0), 1.0))
    return Centers((average_centers(squared, 0.0 * squared, codes, groups), (1.0, 1.0), 1.0))


KINDS = ("kernel-ridge", "nearest-system", "medoid", "average")


def slow_ridge(squared, codes, train, item):
    """Least squares on the training items alone, with a constant."""
    matrix = np.ones((len(train) + 1, len(train) + 1))
    matrix[:-1, :-1] = -0.5 * squared[np.ix_(train, train)] + PENALTY * np.eye(len(train))
    matrix[-1, -1] = 0.0
    values = np.vstack([np.where(codes[train][:, None] == np.arange(4), 1.0, -1.0), np.zeros(4)])
    solution = np.linalg.solve(matrix, values)
    return np.append(-0.5 * squared[item, train], 1.0) @ solution


@pytest.mark.parametrize("excluding", [None, *np.unique(GROUPS)])
def test_scores_of_kernel_ridge_are_those_of_the_remaining_items(squared, excluding):
    model = make("kernel-ridge", squared)
    scores, distances = model.scores(excluding), model.distances(excluding)
    for item in np.flatnonzero(excluding != GROUPS):
        train = np.flatnonzero((GROUPS[item] != GROUPS) & (excluding != GROUPS))
        known = np.isin(np.arange(4), CODES[train])
        fitted = slow_ridge(squared, CODES, train, item)[known]
        # Least squares estimate 2 p - 1; the smallest p is 0.01.
        expected = [np.log(max((1.0 + score) / 2.0, 0.01)) for score in fitted]
        assert scores[item][known] == pytest.approx(expected, abs=100.0 * TOLERANCE)  # log is steep at 0.01
        nearest = [min(squared[item, j] for j in train if CODES[j] == c) for c in np.flatnonzero(known)]
        assert distances[item][known].tolist() == nearest
        assert (scores[item][~known] == -np.inf).all()
        assert (distances[item][~known] == np.inf).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_score_is_predicted(squared, kind):
    model = make(kind, squared)
    for excluding in (None, *np.unique(GROUPS)):
        others = excluding != GROUPS
        best = model.scores(excluding).argmax(axis=1)
        assert (best[others] == model.predict(excluding)[others]).all()
        if kind != "kernel-ridge":
            assert (model.scores(excluding) == -model.distances(excluding)).all()


def test_scores_of_codebook_folds(squared):
    folds = np.array([0, 0, 1, 2, 0, 1, 1, 1, 2, 2, 0, 0, 1, 2, 2, 2])
    predictors = [make("kernel-ridge", scale * squared) for scale in (1.0, 2.0, 3.0)]
    model = CodebookFolds(predictors, folds, GROUPS)
    for name in ("scores", "distances"):
        for k, fold in enumerate(folds):
            assert (getattr(model, name)()[k] == getattr(predictors[fold], name)()[k]).all()
        for group in np.unique(GROUPS):
            expected = getattr(predictors[folds[group == GROUPS][0]], name)(group)
            assert np.array_equal(getattr(model, name)(group), expected)


def test_tables_of_predictions_have_no_scores(squared):
    assert isinstance(make("nearest-system", squared), ScorePredictor)
    assert not isinstance(TabulatedPredictor(make("nearest-system", squared), GROUPS), ScorePredictor)


def items_of(codes=CODES, groups=GROUPS, sources=None, **options):
    names = [None] * len(codes) if sources is None else [str(source) for source in sources]
    clips = tuple(Clip(str(k), None, f"class {codes[k]}", names[k]) for k in range(len(codes)))
    return EvaluationSet(clips=clips, groups=groups, codebook_folds=None, protocol="", **options)


def slow_confidence(squared, kinds, chosen, items, names):
    """Really without the group: predictors of the other items alone calibrate."""
    probabilities, p_values = np.full((2, len(CODES), 4), np.nan)
    units = np.arange(len(CODES)) if items.sources is None else items.sources
    smallest = 0.0
    for group, k in zip(names, chosen, strict=True):
        kept, own = np.flatnonzero(items.groups != group), items.groups == group
        # A class that only the group has keeps its column: there is an infinitely far item of it.
        model = make(kinds[k], squared[np.ix_(kept, kept)], items.codes[kept], items.groups[kept])
        columns = model.scores().shape[1]
        scores = np.full((len(kept), 4), -np.inf)
        distances = -scores
        scores[:, :columns], distances[:, :columns] = model.scores(), model.distances()
        calibration = Calibration.fit(scores, distances, items.codes[kept], units[kept])
        whole = make(kinds[k], squared, items.codes, items.groups)
        probabilities[own] = calibration.probabilities(whole.scores()[own])
        p_values[own] = calibration.p_values(whole.scores()[own], whole.distances()[own])
        smallest = max(smallest, calibration.smallest_alpha)
    return probabilities[items.tested], p_values[items.tested], smallest


@pytest.mark.parametrize("kinds", [("kernel-ridge",), ("nearest-system",), ("average",), KINDS])
@pytest.mark.parametrize("sources", [None, GROUPS // 2])
@pytest.mark.parametrize("test_group", [None, 1, 10])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_confidence_is_that_of_a_refit_without_the_group(squared, kinds, sources, test_group, n_jobs):
    items = items_of(sources=sources, test_group=test_group, n_jobs=n_jobs)
    names = np.unique(GROUPS) if test_group is None else np.array([test_group])
    chosen = np.arange(len(names)) % len(kinds)
    found = nested_confidence([make(kind, squared) for kind in kinds], chosen, items)
    probabilities, p_values, smallest = slow_confidence(squared, kinds, chosen, items, names)
    assert found.classes == ("class 0", "class 1", "class 2", "class 3")
    assert found.probabilities == pytest.approx(probabilities, abs=1e-8)
    assert found.p_values == pytest.approx(p_values, abs=1e-12)
    assert found.smallest_alpha == smallest
    alone = np.isin(items.labels[items.tested], "class 3")
    assert (found.probabilities[alone, 3] == 0.0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [2, 3, 4])
def test_labels_of_a_group_do_not_change_its_confidence(squared, kind, group):
    own = group == GROUPS
    other = np.where(own, (CODES + 1) % 3, CODES)
    names = np.unique(GROUPS)
    results = [
        nested_confidence([make(kind, squared, codes)], np.zeros(len(names), dtype=int), items_of(codes))
        for codes in (CODES, other)
    ]
    for name in ("probabilities", "p_values"):
        first, second = (getattr(result, name) for result in results)
        assert first[own] == pytest.approx(second[own], abs=1e-8)
        assert not np.allclose(first[~own], second[~own])


def test_nothing_left_to_calibrate_with(squared):
    """Of two groups, one is left out, and the other has nobody to be compared with."""
    groups = np.arange(len(CODES)) % 2
    found = nested_confidence(
        [make("nearest-system", squared, groups=groups)], np.zeros(2, int), items_of(groups=groups)
    )
    assert found is None


@pytest.fixture(scope="module")
def streams():
    found, codes = make_streams(classes=3, per_class=6, frames=30, bins=8, noise=2.0)
    return found, [f"class {code}" for code in codes], [f"source {k // 2}" for k in range(18)]


FIXED = {"order": 2, "lambda_a": 0.25, "lambda_mu": 1.0}


def test_methods_of_an_evaluation(streams):
    result = evaluate(*streams, **FIXED, compare=True)
    for method in result.methods:
        assert (method.confidence is None) == (method.kind not in {"systems", "averages"})
        if method.confidence is None:
            continue
        assert method.confidence is method.confidence
        best = np.array(result.classes)[method.confidence.probabilities.argmax(axis=1)]
        assert best.tolist() == list(method.predictions)
        assert method.confidence.smallest_alpha == 1.0 / 9.0  # eight sources beside that of the clip
    document = result.to_dict(details=True)
    assert not any("confidence" in name for line in document["methods"] for name in line)
    assert document["confidence"] == result.confidence_summary
    assert replace(result, main=len(result.methods) - 1).confidence_summary is None


def test_settings_that_are_chosen(streams):
    """For each group those of its own predictor; predictions and probabilities agree."""
    result = evaluate(*streams, order=2, metric="alignment", normal_form="unit-variance")
    for method in result.methods:
        chosen = "lambda_a" if method.kind == "systems" else "ridge"
        assert isinstance(method.settings[chosen], dict | float)
        best = np.array(result.classes)[method.confidence.probabilities.argmax(axis=1)]
        assert best.tolist() == list(method.predictions)


def test_tuned_methods_have_no_scores(streams):
    result = evaluate(*streams, **FIXED, tune=True, methods=["nearest-system"])
    assert result.methods[0].confidence is None
    assert result.confidence_summary is None
    assert result.methods[1].confidence is not None


def test_confidence_of_trials(streams):
    """Those of each trial one after the other; a class that a trial does not have fits nothing there."""
    parts = np.array(["train"] * 18)
    first, second = parts.copy(), parts.copy()
    first[[0, 1, 6]] = "test"
    second[[2, 7, 16]] = "test"
    first[12:] = ""
    trials = {"first": first.tolist(), "second": second.tolist()}
    merged = evaluate(*streams, **FIXED, trials=trials)
    alone = [evaluate(*streams, **FIXED, trials={name: trial}) for name, trial in trials.items()]
    for method, *rows in zip(merged.methods, *(result.methods for result in alone), strict=True):
        found, parts = method.confidence, [row.confidence for row in rows]
        assert found.classes == ("class 0", "class 1", "class 2")
        assert found.probabilities.shape == found.p_values.shape == (6, 3)
        assert parts[0].classes == ("class 0", "class 1")
        assert np.array_equal(found.probabilities[:3, :2], parts[0].probabilities)
        assert (found.probabilities[:3, 2] == 0.0).all()
        assert np.array_equal(found.p_values[:3, :2], parts[0].p_values)
        assert (found.p_values[:3, 2] == parts[0].smallest_alpha).all()
        assert np.array_equal(found.probabilities[3:], parts[1].probabilities)
        assert np.array_equal(found.p_values[3:], parts[1].p_values)
        assert found.smallest_alpha == max(part.smallest_alpha for part in parts)
        assert Confidence.stack([parts[0], None], found.classes) is None
    assert merged.confidence_summary["coverage"][0]["level"] == 0.8


def test_the_summary_of_an_evaluation(streams):
    result = evaluate(*streams, **FIXED, methods=["nearest-system"])
    summary, confidence = result.confidence_summary, result.methods[0].confidence
    codes = np.repeat([0, 1, 2], 6)
    covered = confidence.p_values[np.arange(18), codes] > 0.2
    row = summary["coverage"][0]
    assert (row["level"], row["clips"]) == (0.8, pytest.approx(covered.mean()))
    assert row["sources"] == pytest.approx(covered.reshape(9, 2).mean())
    assert sum(line["count"] for line in summary["reliability"]) == 18
    assert summary["smallest_alpha"] == confidence.smallest_alpha
