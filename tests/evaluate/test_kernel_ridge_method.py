"""One bag or several: each alternative is an estimator of the chosen bags, fitted anew without the group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import sysbags
from evaluations import class_size
from sysbags.classifiers import kernel_ridge as kernel_ridge_module
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.ridge import gaussian_distances
from sysbags.datasets import make_streams
from sysbags.evaluate.candidates import (
    Systems,
    SystemSet,
    matching_grids,
    squared_candidates,
    system_candidates,
)
from sysbags.evaluate.methods import average_ridge_method, evaluate_method, system_methods, vector_methods
from sysbags.evaluate.results import Clip
from sysbags.evaluate.selection import nested_accuracies, nested_predictions
from sysbags.evaluate.splits import EvaluationSet

GROUPS = np.array([0, 0, 1, 2, 8, 3, 3, 4, 5, 8, 6, 6, 7, 2, 9])  # 2 and 8 straddle classes
FOLDS = np.array([0, 0, 1, 2, 0, 0, 0, 1, 2, 0, 1, 1, 0, 2, 1])
LABELS = [str(label) for label in np.repeat(range(3), 5)]
RIDGES = (1.0, 0.3, 0.1, 0.03)
METRIC = "normalized-covariance"  # its distances are Euclidean: the estimator repairs nothing
LEFT_OUT = (None, 2)


def evaluation_set(**options):
    clips = tuple(Clip(f"{k}", Path(f"{k}"), label) for k, label in enumerate(LABELS))
    return EvaluationSet(
        clips=clips, groups=GROUPS, codebook_folds=FOLDS, protocol="some left out", **options
    )


def streams_of(bins, seed):
    return make_streams(classes=3, per_class=5, frames=30, bins=bins, noise=1.5, random_state=seed)[0]


@pytest.fixture(scope="module")
def views():
    """Three bags of the same clips."""
    views = []
    for bins, seed in ((6, 0), (9, 1), (5, 2)):
        systems = sysbags.SystemIdentifier(order=2).fit_transform(streams_of(bins, seed))
        views.append(SystemSet(systems, sysbags.cross_gram(systems)))
    return views


@pytest.fixture(scope="module")
def unit_views():
    """The systems of the same three bags, identified in the other form."""
    identifier = sysbags.SystemIdentifier(order=2, normal_form="unit-variance")
    return [identifier.fit_transform(streams_of(bins, seed)) for bins, seed in ((6, 0), (9, 1), (5, 2))]


def splits(left_out):
    """Each group that is tested where one is left out, and what can be learnt from."""
    for group in np.unique(GROUPS):
        if group != left_out:
            yield (
                np.flatnonzero((group != GROUPS) & (left_out != GROUPS)),
                np.flatnonzero(group == GROUPS),
            )


def assert_estimator(predictor, settings, systems_by_bag, lambda_a, lambda_mu, items):
    """Fit `KernelRidgeClassifier` without each group, with everything in its own units.

    Units of bags, ridge, width and weights are those of all training clips here, and those of the clips that
    are fitted to there; with a test set these are the same.
    """
    weights = {"metric": METRIC, "lambda_a": lambda_a, "lambda_mu": lambda_mu}
    tables = [sysbags.pairwise_distances(bag, **weights) for bag in systems_by_bag]
    known = items.training
    units = [half_mean(table[np.ix_(known, known)]) for table in tables] if len(tables) > 1 else [1.0]
    total = sum(table / unit for table, unit in zip(tables, units, strict=True))
    clips = list(zip(*systems_by_bag, strict=True))
    hits = []
    for left_out in LEFT_OUT if items.test_group is None else (None,):
        predicted = predictor.predict(left_out)
        for train, tested in splits(left_out):
            if items.test_group is not None and GROUPS[tested[0]] != items.test_group:
                continue
            inside, fitted = np.ix_(known, known), np.ix_(train, train)
            ratio, width = half_mean(total[inside]) / half_mean(total[fitted]), None
            if settings["width"] != "none":
                width = settings["width"] * ratio
                curved = gaussian_distances(total, settings["width"] * half_mean(total[inside]))
                ratio = half_mean(curved[inside]) / half_mean(curved[fitted])
            own = [half_mean(table[fitted]) for table in tables] if len(tables) > 1 else [1.0]
            bag_weights = [scale / unit for scale, unit in zip(own, units, strict=True)]
            if items.test_group is not None:
                assert (ratio, set(bag_weights)) == (1.0, {1.0})
            ratio *= class_size(items.codes[train]) / class_size(items.codes[known])
            model = sysbags.KernelRidgeClassifier(
                **weights, ridge=settings["ridge"] * ratio, width=width, bag_weights=bag_weights
            )
            model.fit([clips[k] for k in train], items.codes[train])
            assert model.negative_share_ < 1e-12
            np.testing.assert_allclose(model.scales_, own, rtol=1e-9)
            np.testing.assert_array_equal(predicted[tested], model.predict([clips[k] for k in tested]))
            hits += (predicted[tested] == items.codes[tested]).tolist()
    return hits


@pytest.mark.parametrize("test_group", [None, 2])
def test_one_bag_is_the_estimator_without_the_group(views, unit_views, test_group):
    items = evaluation_set(test_group=test_group)
    alternatives = system_candidates(
        "kernel-ridge", {"one": Systems(views[:1], items)}, matching_grids(METRIC)
    )
    assert len(alternatives) == 2 * 3 * 2 * 4  # lambda_a, lambda_mu, width, ridge
    known = [unit_views[0][k] for k in items.training]
    unit = 1.0 / np.mean([np.trace(system.observer_gram) for system in known])
    seen, hits = set(), []
    for settings, predictor in alternatives[:: 1 if test_group else 7]:
        seen.add((settings["ridge"], settings["width"]))
        assert (settings["metric"], settings["normal form"]) == (METRIC, "unit-variance")
        assert min(abs(settings["lambda_mu"] - unit * np.array([1.0, 0.0, 10.0]))) < 1e-9 * unit
        weights = settings["lambda_a"], settings["lambda_mu"]
        hits += assert_estimator(predictor, settings, unit_views[:1], *weights, items)
    assert test_group is None or seen == {(ridge, width) for ridge in RIDGES for width in ("none", 1.0)}
    assert 0.3 < np.mean(hits) < 1.0
    first = [(settings["ridge"], settings["width"]) for settings, _ in alternatives[:8]]
    assert first == [(ridge, width) for width in ("none", 1.0) for ridge in RIDGES]


@pytest.mark.parametrize("test_group", [None, 8])
def test_two_bags_are_the_estimator_without_the_group(views, unit_views, test_group):
    items = evaluation_set(test_group=test_group)
    bags = {name: Systems([view], items) for name, view in zip(("one", "two"), views, strict=False)}
    grids = matching_grids(METRIC, lambda_a=0.8, lambda_mu=0.5)  # the same numbers for both bags
    alternatives = system_candidates("kernel-ridge", bags, grids)
    assert len(alternatives) == 3 * 2 * 4  # which bags, width, ridge
    hits = []
    for settings, predictor in alternatives[:: 1 if test_group else 5]:
        chosen = [unit_views[("one", "two").index(name)] for name in settings["bags"].split(" + ")]
        hits += assert_estimator(predictor, settings, chosen, 0.8, 0.5, items)
    assert test_group or 0.3 < np.mean(hits) < 1.0
    chosen = [settings["bags"] for settings, _ in alternatives]
    assert chosen == ["one + two"] * 8 + ["one"] * 8 + ["two"] * 8


@pytest.mark.parametrize("test_group", [None, 8])
@pytest.mark.parametrize("metric", [METRIC, "alignment"])
@pytest.mark.parametrize("kind", ["nearest-mean", "nearest-system"])
def test_neighbours_and_means_of_two_bags_are_the_estimator_without_the_group(
    views, unit_views, kind, metric, test_group
):
    items = evaluation_set(test_group=test_group)
    bags = {name: Systems([view], items) for name, view in zip(("one", "two"), views, strict=False)}
    weights = {"lambda_a": 0.8, "lambda_mu": 0.5}
    grids = matching_grids(metric, "unit-variance", **weights)
    alternatives = system_candidates(kind, bags, grids)
    assert [settings["bags"] for settings, _ in alternatives] == ["one + two", "one", "two"]
    known, hits = np.ix_(items.training, items.training), []
    for settings, predictor in alternatives:
        assert settings["classifier"] == kind
        views_chosen = [unit_views[("one", "two").index(name)] for name in settings["bags"].split(" + ")]
        units = np.array(
            [half_mean(sysbags.pairwise_distances(v, None, metric, **weights)[known]) for v in views_chosen]
        )
        clips = list(zip(*views_chosen, strict=True))
        for left_out in LEFT_OUT if test_group is None else (None,):
            predicted, distances = predictor.predict(left_out), predictor.distances(left_out)
            np.testing.assert_array_equal(predictor.scores(left_out), -distances)
            for train, tested in splits(left_out):
                if test_group is not None and GROUPS[tested[0]] != test_group:
                    continue
                if kind == "nearest-mean":
                    model = sysbags.NearestMean(metric=metric, **weights)
                else:
                    model = sysbags.NearestSystem(metric=metric, **weights)
                rest, codes = [clips[k] for k in train], items.codes[train]
                model.fit(rest, codes)
                if len(units) > 1:
                    model.set_params(bag_weights=model.scales_ / units).fit(rest, codes)
                compared = model.compare([clips[k] for k in tested])
                np.testing.assert_array_equal(predicted[tested], model.classes_[compared.codes])
                found = distances[np.ix_(tested, model.classes_)]
                np.testing.assert_allclose(found, compared.distances, rtol=1e-6)
                hits += (predicted[tested] == items.codes[tested]).tolist()
    assert test_group or 0.3 < np.mean(hits) < 1.0


def ridge_twin(squared, codes, settings, known, train, tested):
    """Ridge regression on points that have these distances: what no points have is left out."""
    if settings["width"] != "none":
        squared = gaussian_distances(squared, settings["width"] * half_mean(squared[np.ix_(known, known)]))
    centred = squared - squared.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    points = vectors * np.sqrt(np.maximum(values, 0.0))
    between = ((points[:, None] - points) ** 2).sum(axis=2)
    present = np.unique(codes[train])
    penalty = settings["ridge"] * half_mean(between[np.ix_(known, known)])
    weights = class_size(codes[known]) / np.bincount(codes[train])[codes[train]]
    model = Ridge(penalty).fit(points[train], np.where(codes[train, None] == present, 1.0, -1.0), weights)
    return present[model.predict(points[tested]).argmax(axis=1)]


def assert_ridge(alternatives, tables, items, every=1, names=()):
    hits = []
    for settings, predictor in list(alternatives)[::every]:
        chosen = settings["bags"].split(" + ") if names else [None]
        total = sum(
            table / half_mean(table[np.ix_(items.training, items.training)])
            for name, table in zip(names or [None], tables, strict=True)
            if name in chosen
        )
        for left_out in LEFT_OUT:
            predicted = predictor.predict(left_out)
            for train, tested in splits(left_out):
                expected = ridge_twin(total, items.codes, settings, items.training, train, tested)
                np.testing.assert_array_equal(predicted[tested], expected)
                hits += (expected == items.codes[tested]).tolist()
    assert 0.1 < np.mean(hits) < 1.0


def negative_share(squared):
    centred = squared - squared.mean(axis=0)
    values = np.linalg.eigvalsh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    return -values[values < 0].sum() / np.abs(values).sum()


@pytest.mark.parametrize("test_group", [None, 8])
def test_alignment_distances_are_made_euclidean(views, test_group):
    items = evaluation_set(test_group=test_group)
    grids = matching_grids(lambda_a=0.0, lambda_mu=0.0)
    alternatives = system_candidates("kernel-ridge", {"one": Systems(views[2:], items)}, grids)
    squared = sysbags.pairwise_distances(views[2].systems, lambda_a=0.0, lambda_mu=0.0)
    assert negative_share(squared) > 0.02
    assert_ridge(alternatives, [squared], items)


@pytest.mark.parametrize("test_group", [None, 8])
def test_distances_that_no_points_have(test_group):
    items, rng = evaluation_set(test_group=test_group), np.random.default_rng(0)
    tables = []
    for table in rng.random((2, 15, 15)) ** 4 + 0.1 * (items.codes[:, None] != items.codes):
        table += table.T
        np.fill_diagonal(table, 0.0)
        assert negative_share(table) > 0.15
        tables.append(table)
    alternatives = squared_candidates("kernel-ridge", ["a", "b"], [[table] for table in tables], items)
    assert_ridge(alternatives, tables, items, names=["a", "b"])


def chi2(points):
    return np.array([[np.sum((a - b) ** 2 / (a + b)) for b in points] for a in points])


def test_averages_over_time():
    items = evaluation_set()
    averages = [np.stack([s.mean(axis=0) for s in streams_of(bins, seed)]) for bins, seed in ((6, 0), (9, 1))]
    [one] = vector_methods("averages", averages[:1], items, ["kernel-ridge"], "chi2")
    assert_ridge(one.candidates(), [chi2(averages[0])], items)
    names = ["LBP", "colour"]
    both = average_ridge_method(names, [[points] for points in averages], items)
    assert (both.name, both.classifier) == ("LBP + colour bags averaged over time", "kernel-ridge")
    assert_ridge(both.candidates(), [chi2(points) for points in averages], items, 5, names)
    assert [settings.keys() for settings, _ in both.candidates()] == [{"width", "ridge", "bags"}] * 24


def test_a_test_set_has_no_say_in_the_units(monkeypatch):
    """Test clips that lie far away change neither the penalty nor what training clips are to each other."""
    solved = []
    monkeypatch.setattr(
        kernel_ridge_module,
        "Ridge",
        lambda squared, codes, groups, penalty, class_size, shown: solved.append((squared, penalty)),
    )
    items, rng = evaluation_set(test_group=8), np.random.default_rng(0)
    training, points = np.ix_(items.training, items.training), rng.normal(size=(2, 15, 3))
    for factor in (1.0, 100.0):
        points[:, items.tested] *= factor
        tables = [[((view[:, None] - view) ** 2).sum(axis=2)] for view in points]
        list(squared_candidates("kernel-ridge", ["a", "b"], tables, items))
    assert len(solved) == 2 * 24
    for (near, penalty), (far, same_penalty) in zip(solved[:24], solved[24:], strict=True):
        assert far.max() > near.max()
        # The eigenvectors that show that distances are Euclidean are those of all clips: round-off.
        np.testing.assert_allclose(far[training], near[training], rtol=1e-9, atol=1e-9)
        assert same_penalty == pytest.approx(penalty, rel=1e-9)
    assert solved[0][1] == pytest.approx(1.0 * 2.0, rel=1e-9)  # two bags of variance 1


def test_units_do_not_matter():
    """Each bag is divided by its own variance, so that a factor changes nothing but round-off."""
    items, rng = evaluation_set(), np.random.default_rng(0)
    tables = [
        ((points[:, None] - points) ** 2).sum(axis=2)
        for points in rng.normal(size=(2, 15, 3)) + items.codes[:, None]
    ]
    plain = squared_candidates("kernel-ridge", ["a", "b"], [[table] for table in tables], items)
    scaled = squared_candidates("kernel-ridge", ["a", "b"], [[1e-6 * tables[0]], [1e5 * tables[1]]], items)
    for (settings, first), (other_settings, second) in zip(plain, scaled, strict=True):
        assert settings == other_settings
        np.testing.assert_array_equal(first.predict(), second.predict())


def test_clips_that_are_all_the_same():
    """No variance to divide by: nothing is known, and nothing fails."""
    items = evaluation_set()
    for _, predictor in squared_candidates("kernel-ridge", ["a"], [[np.zeros((15, 15))]], items):
        assert set(predictor.predict()) <= {0, 1, 2}


def test_a_bag_that_is_not_chosen_has_no_say(views):
    items = evaluation_set()
    first, second, third = (Systems([view], items) for view in views)
    grids = matching_grids()
    alternatives = system_candidates("kernel-ridge", {"a": first, "b": second}, grids)
    changed = system_candidates("kernel-ridge", {"a": first, "b": third}, grids)
    assert len(alternatives) == 4 * 3 * 2 * 4  # of each grid only the first weights
    same = [settings["bags"] == "a" for settings, _ in alternatives]
    assert any(same)
    assert not all(same)
    different = 0
    for equal, (_, x), (_, y) in zip(same, alternatives, changed, strict=True):
        if equal:
            np.testing.assert_array_equal(x.predict(), y.predict())
        different += (x.predict() != y.predict()).sum()
    assert different > 0


def test_codebooks_by_folds_and_plain_bags_go_together(views):
    items = evaluation_set()
    grids = matching_grids(METRIC, lambda_a=0.9, lambda_mu=0.5)
    plain = Systems(views[1:2], items)
    mixed = system_candidates("kernel-ridge", {"a": Systems(views, items), "b": plain}, grids)
    versions = [
        system_candidates("kernel-ridge", {"a": Systems([v], items), "b": plain}, grids) for v in views
    ]
    for place, (settings, predictor) in enumerate(mixed):
        predicted = predictor.predict()
        for k, alternatives in enumerate(versions):
            match_settings, match = alternatives[place]
            assert match_settings == settings
            np.testing.assert_array_equal(predicted[k == FOLDS], match.predict()[k == FOLDS])
            for group in np.unique(GROUPS[k == FOLDS]):
                np.testing.assert_array_equal(predictor.predict(group), match.predict(group))


def test_the_choice_is_made_without_the_group(views):
    items = evaluation_set()
    bags = {"a": Systems(views[:1], items), "b": Systems(views[1:2], items)}
    [spec] = system_methods("a systems", "systems", bags, ["kernel-ridge"], matching_grids())
    line, usual = evaluate_method(spec, items, None)
    settings, predictors = zip(*spec.candidates(), strict=True)
    accuracies = nested_accuracies(predictors, items.codes, GROUPS)
    used = [setting["bags"] for setting in settings]
    firsts = [used.index(name) for name in dict.fromkeys(used)]

    def choice(row):
        """The bags whose usual setting is best, and of their settings the first within a standard error."""
        family = used[max(firsts, key=lambda place: row[place])]
        places = [place for place, name in enumerate(used) if name == family]
        best = max(row[place] for place in places)
        return next(p for p in places if row[p] >= best - np.sqrt(best * (1 - best) / len(GROUPS)))

    chosen = np.array([choice(row) for row in accuracies])
    expected = nested_predictions(predictors, chosen, GROUPS)
    assert list(line.predictions) == np.unique(items.labels)[expected].tolist()
    assert usual == settings[np.bincount(chosen).argmax()]
    assert (line.classifier, line.name, line.kind) == ("kernel-ridge", "a + b systems", "systems")
