"""Clips with several systems: a point of a product space, whose squared distances are weighted sums."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

import sysbags
from sysbags import KernelRidgeClassifier, NearestMean, NearestSystem
from sysbags.bags import BagUnion, ColourHistogram, LocalBinaryPatterns
from sysbags.datasets import make_frames, make_streams
from sysbags.errors import ParameterError

SETTINGS = [
    ("alignment", "orthonormal", 0.25, 2.0),
    ("alignment", "unit-variance", "scale", "scale"),
    ("covariance", "unit-variance", "scale", 0.5),
    ("normalized-covariance", "unit-variance", "scale", "scale"),
    ("martin", "orthonormal", 0.0, 0.0),
]
VIEWS = ((6, 0), (9, 1), (5, 2))  # bins and seed of each bag
LABELS = np.repeat(list("abc"), 5)
NEW = slice(None, None, 3)  # these are not learnt from


@pytest.fixture(scope="module", params=["orthonormal", "unit-variance"])
def bags(request):
    """Three bags of the same 15 clips, in one normal form."""
    identifier = sysbags.SystemIdentifier(order=2, normal_form=request.param)
    return [
        identifier.fit_transform(
            make_streams(classes=3, per_class=5, frames=30, bins=bins, noise=1.5, random_state=seed)[0]
        )
        for bins, seed in VIEWS
    ]


def split(systems):
    new = list(range(15))[NEW]
    return [systems[k] for k in range(15) if k not in new], [systems[k] for k in new]


TRAINING_LABELS, NEW_LABELS = split(LABELS)


def variance(bag, **weights):
    """Half the mean squared distance of two clips, by loops."""
    pairs = [(x, y) for k, x in enumerate(bag) for y in bag[:k]]
    return np.mean([sysbags.pairwise_distances([x], [y], **weights)[0, 0] for x, y in pairs]) / 2


@pytest.mark.parametrize("bag_weights", [None, (1.0, 0.25, 3.0)])
@pytest.mark.parametrize(("metric", "bags", "lambda_a", "lambda_mu"), SETTINGS, indirect=["bags"])
def test_distances_are_weighted_sums_over_the_bags(bags, metric, lambda_a, lambda_mu, bag_weights):
    """The mean of tuples is the tuple of the means of the bags; so is everything else."""
    options = {"metric": metric, "lambda_a": lambda_a, "lambda_mu": lambda_mu}
    parts = [split(bag) for bag in bags]
    clips, new = (list(zip(*side, strict=True)) for side in zip(*parts, strict=True))
    shares = bag_weights or (1.0, 1.0, 1.0)
    for estimator in (NearestMean, NearestSystem):
        model = estimator(**options, bag_weights=bag_weights).fit(clips, TRAINING_LABELS)
        expected = 0.0
        for k, (bag, new_bag) in enumerate(parts):
            alone = estimator(**options).fit(bag, TRAINING_LABELS)
            np.testing.assert_array_equal(model.weights_[k], alone.weights_[0])
            numbers = dict(zip(("lambda_a", "lambda_mu"), alone.weights_[0], strict=True))
            scale = variance(bag, metric=metric, **numbers)
            assert model.scales_[k] == pytest.approx(scale, rel=1e-7)
            for center, twin in zip(model.members_, alone.members_, strict=True):
                np.testing.assert_array_equal(center[k].transition, twin.transition)
            table = sysbags.pairwise_distances(new_bag, alone.members_, metric, **numbers)
            expected = expected + shares[k] / scale * table
        compared = model.compare(new)
        if estimator is NearestSystem:
            distances, _ = model.kneighbors(new, 4)
            np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :4], rtol=1e-6)
            by_class = [expected[:, np.array(TRAINING_LABELS) == label].min(axis=1) for label in "abc"]
            expected = np.stack(by_class, axis=1)
        np.testing.assert_allclose(compared.distances, expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal(compared.scores, -compared.distances)
        np.testing.assert_array_equal(model.predict(new), np.array(list("abc"))[expected.argmin(axis=1)])


def test_neighbours_vote_by_the_distances_of_all_bags(bags):
    parts = [split(bag) for bag in bags]
    clips, new = (list(zip(*side, strict=True)) for side in zip(*parts, strict=True))
    model = NearestSystem(3).fit(clips, TRAINING_LABELS)
    _, nearest = model.kneighbors(new)
    for label, row in zip(model.predict(new), nearest, strict=True):
        votes = Counter(TRAINING_LABELS[k] for k in row)
        tied = [name for name, count in votes.items() if count == max(votes.values())]
        assert label == next(TRAINING_LABELS[k] for k in row if TRAINING_LABELS[k] in tied)


@pytest.mark.parametrize("estimator", [NearestMean, NearestSystem, KernelRidgeClassifier])
def test_a_bag_of_weight_0_is_not_there(bags, estimator):
    """And one bag alone is not divided by anything."""
    options = {"metric": "alignment", "lambda_a": 0.25, "lambda_mu": 1.0}
    first, second, _ = (split(bag) for bag in bags)
    clips, new = (list(zip(*side, strict=True)) for side in zip(first, second, strict=True))
    alone = estimator(**options).fit(first[0], TRAINING_LABELS)
    model = estimator(**options, bag_weights=[1, 0]).fit(clips, TRAINING_LABELS)
    np.testing.assert_array_equal(alone.scales_, [1.0])
    one, both = alone.compare(first[1]), model.compare(new)
    np.testing.assert_allclose(both.distances * model.scales_[0], one.distances, rtol=1e-9)
    np.testing.assert_array_equal(both.codes, one.codes)


@pytest.mark.parametrize("estimator", [NearestMean, NearestSystem, KernelRidgeClassifier])
def test_the_parts_of_a_distance_are_those_of_the_bags(bags, estimator):
    parts = [split(bag) for bag in bags[:2]]
    clips, new = (list(zip(*side, strict=True)) for side in zip(*parts, strict=True))
    metric = "normalized-covariance" if bags[0][0].normal_form == "unit-variance" else "alignment"
    options = {"metric": metric, "lambda_a": 0.5, "lambda_mu": 0.5}
    model = estimator(**options, probability=True).fit(clips, TRAINING_LABELS)
    compared, chances = model.compare(new), model.predict_proba(new)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    # Larger scores have larger probabilities.
    np.testing.assert_array_equal(chances.argsort(axis=1), compared.scores.argsort(axis=1))
    fits = model.p_values(new)
    for k, explanation in enumerate(model.explain(new)):
        assert explanation.label == model.classes_[compared.codes[k]]
        assert list(explanation.parts) == ["bag 0", "bag 1"]
        winner = model.members_[compared.nearest[k, compared.codes[k]]]
        for b, part in enumerate(explanation.parts.values()):
            between = sysbags.pairwise_distances([new[k][b]], [winner[b]], **options)[0, 0]
            assert part == pytest.approx(between / model.scales_[b], rel=1e-9)
        total = explanation.distances[explanation.label]
        assert sum(explanation.parts.values()) == pytest.approx(total, rel=1e-9)
        assert list(explanation.probabilities.values()) == pytest.approx(chances[k].tolist(), rel=1e-12)
        assert list(explanation.p_values.values()) == fits[k].tolist()


def test_a_grid_search_from_clips_to_labels():
    """Parameters of one bag, of the systems and of the classifier, in one search."""
    names = ["waves", "rain"] * 4
    clips = [np.stack(list(make_frames(name, 10, 48, 64, random_state=k))) for k, name in enumerate(names)]
    union = BagUnion([("lbp", LocalBinaryPatterns()), ("colour", ColourHistogram(grid=1))])
    pipeline = Pipeline(
        [
            ("bags", union),
            ("systems", sysbags.SystemIdentifier(2, normal_form="unit-variance")),
            ("classify", KernelRidgeClassifier(probability=True)),
        ]
    )
    grid = {"bags__lbp__radius": [1, 2], "classify__ridge": [0.1, 1.0], "systems__order": [2, 3]}
    folds = [(np.arange(4), np.arange(4, 8)), (np.arange(4, 8), np.arange(4))]
    search = GridSearchCV(pipeline, grid, cv=folds, error_score="raise").fit(clips, names)
    assert len(search.cv_results_["params"]) == 8
    assert union.bags[0][1].radius == 1  # what is given is not modified
    for setting, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        bags = [
            LocalBinaryPatterns(radius=setting["bags__lbp__radius"]).transform(clips),
            ColourHistogram(grid=1).transform(clips),
        ]
        identifier = sysbags.SystemIdentifier(setting["systems__order"], normal_form="unit-variance")
        items = list(zip(*(identifier.fit_transform(bag) for bag in bags), strict=True))
        hits = []
        for train, test in folds:
            model = KernelRidgeClassifier(ridge=setting["classify__ridge"])
            model.fit([items[k] for k in train], [names[k] for k in train])
            hits.append(np.mean(model.predict([items[k] for k in test]) == [names[k] for k in test]))
        assert score == np.mean(hits)
    best = search.best_estimator_
    np.testing.assert_allclose(best.predict_proba(clips).sum(axis=1), 1.0, rtol=1e-12)
    systems = best[:-1].transform(clips)
    for described in (systems, pickle.loads(pickle.dumps(systems))):
        assert all(list(found.parts) == ["lbp", "colour"] for found in best[-1].explain(described))


@pytest.mark.parametrize("estimator", [NearestMean, NearestSystem, KernelRidgeClassifier])
def test_mistakes(bags, estimator):
    first, second, _ = bags
    options = {"metric": "alignment", "lambda_a": 0.25, "lambda_mu": 0.0}
    pairs = list(zip(first, second, strict=True))
    with pytest.raises(ParameterError, match="bag_weights has 3 numbers, but a clip has 2 systems"):
        estimator(**options, bag_weights=[1, 1, 1]).fit(pairs, LABELS)
    with pytest.raises(ParameterError, match="each clip must have the same number of systems"):
        estimator(**options).fit([*pairs[:14], first[14]], LABELS)
    model = NearestSystem(**options).fit(pairs, LABELS)
    with pytest.raises(ParameterError, match="a clip has 1 systems, but there must be 2 of them"):
        model.predict(first)
