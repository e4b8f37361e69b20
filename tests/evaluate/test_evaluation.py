"""Evaluations against loops that refit everything for each clip that is left out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from clips import moving_frames, write_clip
from evaluations import evaluate
from sysbags import (
    NearestMean,
    alignment_distance,
    cross_gram,
    frechet_mean,
    identify,
    martin_distance,
    max_singular_value_distance,
    sgot_distance,
)
from sysbags._common.cache import Cache
from sysbags._common.files import json_text
from sysbags.bags import ColourHistogram, LocalBinaryPatterns, VisualWords
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import BAGS, CLASSES, make_bag
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.ridge import Ridge, gaussian_distances
from sysbags.comparators import LBPTOP
from sysbags.comparators.base import Comparator
from sysbags.datasets import make_clips, make_streams
from sysbags.distances.pairwise import scaled_weights
from sysbags.errors import FileError, OrderError, ParameterError, StreamError, SysbagsError, VideoError
from sysbags.evaluate import experiment, features, leave_one_out
from sysbags.evaluate.candidates import GRIDS, bag_settings
from sysbags.evaluate.evaluation import single_group_classes
from sysbags.evaluate.features import ClipFeatures, cached_gram
from sysbags.evaluate.methods import MethodSpec, average_ridge_method, evaluate_method
from sysbags.evaluate.results import Clip
from sysbags.evaluate.selection import nested_choice, nested_predictions
from sysbags.evaluate.splits import EvaluationSet
from sysbags.report.page import pictures, write_report
from sysbags.statistics.rates import mcnemar, rate
from sysbags.systems.identification import descending_orders, identify_first

ORDER, WEIGHTS = 3, (0.25, 10.0)
# Group 2 straddles two classes; three clips of a class are left at least, as two are both their medoids.
GROUPS = np.array([0, 0, 1, 2, 9, 3, 2, 4, 5, 10, 6, 7, 7, 8, 11])


@pytest.fixture(scope="module")
def data():
    """Streams that the weights matter for: noise makes the classes overlap."""
    streams, labels = make_streams(classes=3, per_class=5, frames=30, bins=8, noise=1.5)
    return list(streams), np.array([f"class {label}" for label in labels])


SOURCES = [f"source {group:02d}" for group in GROUPS]


@pytest.fixture(scope="module")
def systems(data):
    return [identify(stream, ORDER) for stream in data[0]]


def run(data, clips=None, **options):
    options = {"order": ORDER, "lambda_a": WEIGHTS[0], "lambda_mu": WEIGHTS[1], "n_jobs": 1, **options}
    return evaluate(data[0] if clips is None else clips, data[1], SOURCES, **options)


@pytest.fixture(scope="module")
def compared(data):
    """All that needs no video."""
    return run(data, compare=True)


def of(result, name, classifier):
    (line,) = (m for m in result.methods if name in m.name and m.classifier == classifier)
    return list(line.predictions)


def others(k, label, labels):
    return [j for j in range(len(labels)) if labels[j] == label and GROUPS[j] != GROUPS[k]]


def nearest(places, labels, to_class):
    """Predict the class of the smallest of some numbers, each of which a function works out anew."""
    predictions = []
    for k in range(len(places)):
        classes = [label for label in np.unique(labels) if others(k, label, labels)]
        predictions.append(min(classes, key=lambda label, k=k: to_class(k, others(k, label, labels))))
    return predictions


def test_nearest_mean_and_nearest_system_refit_for_each_clip(compared, systems, data):
    def to_mean(k, members):
        mean = frechet_mean([systems[j] for j in members], *WEIGHTS).system
        return alignment_distance(mean, systems[k], *WEIGHTS)

    def to_system(k, members):
        return min(alignment_distance(systems[min(j, k)], systems[max(j, k)], *WEIGHTS) for j in members)

    assert of(compared, "alignment", "nearest-mean") == nearest(systems, data[1], to_mean)
    assert of(compared, "alignment", "nearest-system") == nearest(systems, data[1], to_system)


@pytest.mark.parametrize(
    ("name", "distance"),
    [
        ("Martin", martin_distance),
        ("maximum", max_singular_value_distance),
        ("Grassmann", sgot_distance),
    ],
)
def test_baselines_with_medoids(compared, systems, data, name, distance):
    def to_medoid(k, members):
        totals = [sum(distance(systems[i], systems[j]) for j in members) for i in members]
        return distance(systems[k], systems[members[int(np.argmin(totals))]])

    def to_system(k, members):
        return min(distance(systems[k], systems[j]) for j in members)

    assert of(compared, name, "nearest medoid") == nearest(systems, data[1], to_medoid)
    assert of(compared, name, "nearest-system") == nearest(systems, data[1], to_system)


def test_averages_know_nothing_of_time(compared, data):
    means = [stream.mean(axis=0) for stream in data[0]]

    def chi2(a, b):
        return np.sum((a - b) ** 2 / (a + b))

    def to_vector(k, members):
        return min(chi2(means[k], means[j]) for j in members)

    def to_mean(k, members):
        return chi2(means[k], np.mean([means[j] for j in members], axis=0))

    assert of(compared, "bags averaged", "1-NN") == nearest(means, data[1], to_vector)
    assert of(compared, "bags averaged", "nearest-mean") == nearest(means, data[1], to_mean)
    rng = np.random.default_rng(0)
    shuffled = run(data, [stream[rng.permutation(len(stream))] for stream in data[0]], compare=True)
    for classifier in ("1-NN", "nearest-mean", "kernel-ridge", "logistic regression"):
        assert of(shuffled, "bags averaged", classifier) == of(compared, "bags averaged", classifier)
    assert not np.allclose(shuffled.details.relations.distances, compared.details.relations.distances)


def test_means_alone_know_nothing_of_dynamics(compared, data):
    """Averages in the feature space of the kernel, from sums over all pairs of frames."""

    def kernel(a, b):
        first, second = a[:, None], b[None]
        return np.mean(np.exp(-0.5 * np.sum((first - second) ** 2 / (first + second), axis=2)))

    table = np.array([[kernel(a, b) for b in data[0]] for a in data[0]])
    squared = np.diag(table)[:, None] + np.diag(table) - 2 * table

    def to_system(k, members):
        return squared[k, members].min()

    def to_mean(k, members):
        return table[k, k] - 2 * table[k, members].mean() + table[np.ix_(members, members)].mean()

    assert of(compared, "means alone", "nearest-system") == nearest(table, data[1], to_system)
    assert of(compared, "means alone", "nearest-mean") == nearest(table, data[1], to_mean)
    names, codes = np.unique(data[1], return_inverse=True)
    predictors = []
    for width in (None, 1.0):
        between = squared if width is None else gaussian_distances(squared, width * half_mean(squared))
        predictors += [
            Ridge(between, codes, GROUPS, ridge * half_mean(between), len(codes) / len(names))
            for ridge in (1.0, 0.3, 0.1, 0.03)
        ]
    choice = nested_choice(predictors, codes, GROUPS)
    expected = names[nested_predictions(predictors, choice, GROUPS)]
    assert of(compared, "stream averaged", "kernel-ridge") == expected.tolist()


def test_rates_and_tests_are_against_the_first_line(compared, data):
    main, *rest = compared.methods
    assert (compared.main, main.name, main.classifier) == (0, "stream systems, alignment", "kernel-ridge")
    right = {id(m): np.array(m.predictions) == data[1] for m in compared.methods}
    assert main.p_value is None
    for line in compared.methods:
        assert line.rate == rate(right[id(line)], GROUPS)
        assert line is main or line.p_value == mcnemar(right[id(main)], right[id(line)])
    assert [line.kind for line in rest].count("comparator") == 2 + 4
    assert compared.averages.kind == "averages"
    assert compared.to_dict()["averages_accuracy"] == compared.averages.rate.share
    assert len({(line.name, line.classifier) for line in compared.methods}) == len(compared.methods) == 16
    assert compared.groups == tuple(GROUPS)
    assert compared.protocol == "one source left out at a time (12 sources)"
    assert compared.predictions.tolist() == list(main.predictions)
    assert compared.accuracy == main.rate.share == np.mean(right[id(main)])
    assert compared.confusion.tolist() == [
        [int(np.sum((data[1] == true) & (compared.predictions == label))) for label in compared.classes]
        for true in compared.classes
    ]


def test_what_is_shown_belongs_to_the_main_method(compared, systems):
    expected = alignment_distance(systems[0], systems[1], *WEIGHTS)
    assert compared.details.relations.distances[0, 1] == pytest.approx(expected, rel=1e-12)
    assert [mean.label for mean in compared.details.atlas] == list(compared.classes)
    for system, original in zip(compared.details.systems, systems, strict=True):
        np.testing.assert_array_equal(system.transition, original.transition)
    assert compared.facts["notes"] == [
        "other people's methods were left out: they need clips, but there are streams"
    ]
    assert compared.facts["bag"] == "streams"
    assert compared.seconds.keys() >= {"systems and kernel", "map", "atlas"}


SETTINGS = [(grid, a, mu) for grid in GRIDS for a in grid.lambda_a for mu in grid.lambda_mu]


@pytest.fixture(scope="module")
def chosen(data):
    """Everything is left to the evaluation."""
    return run(data, lambda_a=None, lambda_mu=None, compare=True)


def in_units(grid, a, mu, grams):
    """Weights as numbers; those that are multiples are in the units of all clips."""
    unit = scaled_weights(grams[grid.normal_form].rows, grid.metric) if grid.scaled[0] else (1.0, 1.0)
    return {"metric": grid.metric, "lambda_a": a * unit[0], "lambda_mu": mu * unit[1]}


def choose_by_hand(data, grams, classifier, group):
    """Throw a group away, choose by leave-one-out on what is left, and then judge the group."""
    labels, train = data[1], np.flatnonzero(group != GROUPS)
    accuracies = [
        leave_one_out(
            grams[grid.normal_form].subset(train),
            labels[train],
            groups=GROUPS[train],
            classifier=classifier,
            **in_units(grid, a, mu, grams),
        ).accuracy
        for grid, a, mu in SETTINGS
    ]
    best = max(accuracies)
    good = best - np.sqrt(best * (1 - best) / len(labels))
    # What is tried first wins where it is nearly as good as the best.
    grid, a, mu = next(s for s, accuracy in zip(SETTINGS, accuracies, strict=True) if accuracy >= good)
    weights = in_units(grid, a, mu, grams)
    judged = leave_one_out(grams[grid.normal_form], labels, groups=GROUPS, classifier=classifier, **weights)
    return {**weights, "normal form": grid.normal_form}, judged.predictions[group == GROUPS]


@pytest.fixture(scope="module")
def grams(data):
    return {
        form: cross_gram([identify(stream, ORDER, normal_form=form) for stream in data[0]])
        for form in ("orthonormal", "unit-variance")
    }


def test_settings_are_chosen_without_the_tested_group(data, grams, chosen):
    line, choices = chosen.methods[2], []
    assert (line.name, line.classifier) == ("stream systems", "nearest-system")
    for group in np.unique(GROUPS):
        choice, expected = choose_by_hand(data, grams, "nearest-system", group)
        choices.append(choice)
        assert np.array(line.predictions)[group == GROUPS].tolist() == expected.tolist()
    assert len({tuple(choice.values()) for choice in choices}) > 1  # otherwise nothing was chosen
    assert line.settings.keys() == {"classifier", "metric", "normal form", "lambda_a", "lambda_mu"}
    for name in choices[0]:
        texts = [choice[name] for choice in choices]
        counts = Counter(f"{text:.3g}" if isinstance(text, float) else text for text in texts)
        value = line.settings[name]
        assert (value if isinstance(value, dict) else {value: len(choices)}) == dict(counts)


def test_settings_of_means_are_chosen_without_the_tested_group(data, grams, chosen):
    line = chosen.methods[1]
    assert (line.name, line.classifier) == ("stream systems", "nearest-mean")
    for group in (2, 7):  # of two clips each
        _, expected = choose_by_hand(data, grams, "nearest-mean", group)
        assert np.array(line.predictions)[group == GROUPS].tolist() == expected.tolist()


def test_each_metric_has_its_own_rows(data, chosen):
    """They are what an evaluation of one metric in one form has."""
    methods = [method for method in chosen.methods if method is not chosen.averages]
    rows = [(m.name, m.classifier) for m in methods]
    assert len(set(rows)) == len(rows)
    classifiers = ("kernel-ridge", "nearest-mean", "nearest-system")
    titles = ["", *(f", {grid.title}" for grid in GRIDS)]
    assert rows[:15] == [
        (f"stream systems{title}", classifier) for title in titles for classifier in classifiers
    ]
    assert len(rows) == 15 + 6 + 2 + 4  # baselines, means alone, averages
    for k, grid in enumerate(GRIDS):
        alone = run(
            data, lambda_a=None, lambda_mu=None, metric=grid.metric, normal_form=grid.normal_form
        ).methods
        assert alone[3].predictions == chosen.averages.predictions
        for method, row in zip(alone[:3], methods[3 * k + 3 : 3 * k + 6], strict=True):
            assert (method.name, method.classifier) == (row.name, row.classifier)
            assert (method.predictions, method.settings) == (row.predictions, row.settings)
            assert method.settings["metric"] == grid.metric
            assert method.settings["normal form"] == grid.normal_form


def test_what_is_shown_of_another_metric_is_the_alignment_distance_in_natural_units(data):
    """Of the metrics of covariances there are no parts to show."""
    result = run(data, lambda_a=0.9, lambda_mu=0.5, metric="normalized-covariance", methods=["nearest-mean"])
    assert [m.name for m in result.methods] == [
        "stream systems, normalized lagged covariances",
        "stream averaged over time",
    ]
    systems = [identify(stream, ORDER, normal_form="unit-variance") for stream in data[0]]
    weights = scaled_weights(cross_gram(systems).rows)
    shown = result.facts["alignment distance of map and atlas"]
    assert shown["normal form"] == "unit-variance"
    assert (shown["lambda_a"], shown["lambda_mu"]) == pytest.approx(weights, rel=1e-9)
    # The form is changed here and identified anew there: a few steps of round-off.
    for k in (1, 7):
        expected = alignment_distance(systems[0], systems[k], *weights)
        assert result.details.relations.distances[0, k] == pytest.approx(expected, rel=1e-7)
    assert {system.normal_form for system in result.details.systems} == {"unit-variance"}
    model = NearestMean(metric="normalized-covariance", lambda_a=0.9, lambda_mu=0.5)
    for k, predicted in enumerate(result.predictions):
        train = np.flatnonzero(GROUPS[k] != GROUPS)
        model.fit([systems[j] for j in train], data[1][train])
        assert predicted == model.predict([systems[k]])[0]


def as_text(value):
    return f"{value:.3g}" if isinstance(value, float) else value


def test_what_is_shown_is_the_usual_choice(data):
    """The nearest mean chooses among alignment distances."""
    chosen = run(data, lambda_a=None, lambda_mu=None, methods=["nearest-mean"])
    usual = chosen.methods[0].settings
    assert usual["metric"] == "alignment"
    shown = chosen.facts["alignment distance of map and atlas"]
    assert shown.keys() == {"normal form", "lambda_a", "lambda_mu"}
    for name, value in shown.items():
        counts = usual[name] if isinstance(usual[name], dict) else {as_text(usual[name]): 1}
        assert as_text(value) in counts
    assert chosen.details.relations.lambda_a == shown["lambda_a"]
    assert chosen.details.relations.lambda_mu == shown["lambda_mu"]
    assert {system.normal_form for system in chosen.details.systems} == {shown["normal form"]}


def chosen_settings(line):
    """How often each value of each setting was chosen."""
    groups = len(np.unique(GROUPS))
    return {
        name: value if isinstance(value, dict) else {value: groups} for name, value in line.settings.items()
    }


def test_tuning_of_bags(data, monkeypatch):
    """Three settings of the bags, of which two are noise, and one that fails."""
    rng = np.random.default_rng(0)
    noise = [list(rng.dirichlet(np.ones(8), size=(15, 30))) for _ in range(2)]

    def streams(self, bags):
        if bags.window == 3:
            raise StreamError("no such stream")
        return [{1: data[0], 2: noise[0], (1, 2): noise[1]}[bags.radius]]

    monkeypatch.setattr(
        ClipFeatures, "streams_of_several", lambda self, several: [streams(self, bags) for bags in several]
    )
    clips = [f"{k}.mp4" for k in range(15)]
    result = run(
        data, clips, order=None, kernel="chi2", lambda_mu=None, tune=True, methods=["nearest-system"]
    )
    line = result.methods[0]
    assert (line.name, line.p_value) == ("LBP systems, tuned", None)
    chosen = chosen_settings(line)
    neighbors = chosen.pop("n_neighbors", {})  # where the nearest system was chosen, and it is not 1
    assert set(map(str, neighbors)) <= {"3", "5"}
    assert chosen.keys() == {
        "bag parameters",
        "kernel",
        "order",
        "classifier",
        "metric",
        "normal form",
        "lambda_a",
        "lambda_mu",
    }
    assert (line.settings["metric"], line.settings["normal form"]) == ("alignment", "orthonormal")
    assert all(sum(counts.values()) == len(np.unique(GROUPS)) for counts in chosen.values())
    assert (line.settings["lambda_a"], line.settings["kernel"]) == (0.25, "chi2")  # as given
    assert chosen["bag parameters"]["as given"] > len(np.unique(GROUPS)) // 2
    assert result.facts["order"] in (5, 3, 8)
    assert all(system.order == result.facts["order"] for system in result.details.systems)
    (note,) = result.facts["notes"]
    assert note == "the bags with window 3, step 1 were left out of the tuning: no such stream"


def test_tuning_of_streams(data):
    """There are no bags to tune; the kernel, the order and the weights are chosen."""
    result = run(data, order=None, lambda_a=1.0, lambda_mu=3.0, tune=True, methods=["nearest-system"])
    line = result.methods[0]
    assert (line.name, line.classifier) == ("stream systems, tuned", "chosen")
    chosen = chosen_settings(line)
    neighbors = chosen.pop("n_neighbors", {})  # where the nearest system was chosen, and it is not 1
    assert set(map(str, neighbors)) <= {"3", "5"}
    assert all(sum(counts.values()) == len(np.unique(GROUPS)) for counts in chosen.values())
    assert line.settings["bag parameters"] == "as given"
    assert (line.settings["lambda_a"], line.settings["lambda_mu"]) == (1.0, 3.0)
    assert {system.kernel for system in result.details.systems} == {result.facts["kernel"]}
    assert {system.order for system in result.details.systems} == {result.facts["order"]}
    assert result.facts["kernel"] == max(chosen["kernel"], key=chosen["kernel"].get)


class Stub:
    """A predictor that always says the same."""

    def __init__(self, codes):
        self.codes = codes

    def predict(self, excluding=None):
        return self.codes


def test_a_method_of_several_alternatives_is_nested(data):
    """One predictor is always right, one never; with one alone nothing is chosen."""
    clips = tuple(Clip(f"{k}", Path(f"{k}.mp4"), str(label), SOURCES[k]) for k, label in enumerate(data[1]))
    items = EvaluationSet(clips=clips, groups=GROUPS, codebook_folds=None, protocol="some left out")
    good = ({"way": "good"}, Stub(items.codes))
    bad = ({"way": "bad"}, Stub((items.codes + 1) % 3))
    common = {"name": "x", "classifier": "y", "kind": "systems"}
    line, usual = evaluate_method(MethodSpec(**common, candidates=lambda: [bad, good]), items, None)
    assert line.rate.right == len(items.clips)
    assert (usual, line.settings) == ({"way": "good"}, {"way": "good"})
    line, usual = evaluate_method(MethodSpec(**common, candidates=lambda: [bad]), items, None)
    assert (line.rate.right, usual) == (0, {"way": "bad"})


def test_all_settings_of_the_tables_are_parameters():
    for bags in map(make_bag, BAGS):
        settings = bag_settings(bags)
        assert len(settings) == len(CLASSES[type(bags).__name__].tuning)
        assert next(iter(settings)) == "as given"
        assert not any("window" in name for name in bag_settings(bags, ["window"]))
        assert settings["as given"].get_params() == bags.get_params()


def test_orders_fall_until_a_clip_has_one(data):
    still = np.tile(data[0][0][:3], (5, 1))  # three bags in turn: rank 2
    with pytest.raises(OrderError):
        identify_first(still, [5], "chi2")
    assert identify_first(data[0][0], descending_orders((3, 5)), "chi2").order == 5
    assert identify_first(still, descending_orders((3, 5)), "chi2").order == 2
    assert identify_first(still, [5, 1], "chi2").order == 1
    assert descending_orders(["auto"]) == ["auto"]


class Words(BagTransformer):
    """A codebook that is the names of the clips it was learnt from."""

    fits = 0
    requires_fit = True

    def __init__(self, n_jobs=None):
        self.n_jobs = n_jobs

    def fit(self, videos, y=None):
        type(self).fits += 1
        self.seen_ = np.zeros(9)
        self.seen_[[int(Path(video).stem) for video in videos]] = 1.0
        return self

    def stream(self, video):
        return np.stack([self.seen_, np.full(9, float(Path(video).stem))])


class Counts(Comparator):
    """The same as a comparator."""

    title, classifiers, metric, requires_fit = "counts", ("1-NN",), "euclidean", True
    calls = 0

    def __init__(self, frames=None, n_jobs=None):
        self.frames, self.n_jobs = frames, n_jobs

    def local(self, video):
        type(self).calls += 1
        return SimpleNamespace(number=int(Path(video).stem))

    def learn(self, described):
        self.seen_ = np.zeros(9)
        self.seen_[[item.number for item in described]] = 1.0
        return self

    def count(self, item):
        return np.append(self.seen_, item.number)


@pytest.fixture
def nine(tmp_path):
    paths = [tmp_path / f"{k}.mp4" for k in range(9)]
    for path in paths:
        path.touch()
    return paths


def test_no_codebook_has_seen_the_fold_that_it_is_for(nine, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sysbags.evaluate.features.clip_streams",
        lambda bags, paths, cache, n_jobs: [[bag.stream(path) for path in paths] for bag in bags],
    )
    folds = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0])
    features = ClipFeatures(nine, folds, Cache(tmp_path / "cache"), 2)
    Words.fits = Counts.calls = 0
    for _ in range(2):  # the second time the vectors are from disk
        views, vectors = features.good_streams(Words()), features.vectors(Counts())
        assert len(views) == len(vectors) == 3
        for fold in range(3):
            for k in range(9):
                for mask in (views[fold][k][0], vectors[fold][k][:9]):
                    np.testing.assert_array_equal(mask, folds != fold)
                assert views[fold][k][1, 0] == vectors[fold][k][9] == k
    assert (Words.fits, Counts.calls) == (6, 9)


def test_without_three_groups_nothing_is_learnt(nine):
    features = ClipFeatures(nine, None, Cache(None), 1)
    for describe, what in ((features.streams, Words()), (features.vectors, Counts())):
        with pytest.raises(ParameterError, match="there are fewer than three groups"):
            describe(what)


def test_a_gram_is_found_again(systems, tmp_path, monkeypatch):
    cache, expected = Cache(tmp_path), cross_gram(systems)
    first = cached_gram(cache, systems, 1).gram
    monkeypatch.setattr(features, "cross_gram", lambda *args, **options: pytest.fail("computed again"))
    again = cached_gram(cache, systems, 1).gram
    for gram in (first, again):
        np.testing.assert_array_equal(gram.observer, expected.observer)
        np.testing.assert_array_equal(gram.rows.transition, expected.rows.transition)
        assert gram.symmetric
    monkeypatch.undo()
    other = cached_gram(cache, systems[::-1], 1).gram
    np.testing.assert_allclose(other.mean, expected.mean[::-1, ::-1], rtol=1e-12)


TEXTURES = ["waves", "rain", "grass"]


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Nine clips of three classes."""
    paths, labels = make_clips(tmp_path_factory.mktemp("clips"), 3, 14, 64, 80, textures=TEXTURES)
    return paths, np.array(labels)


FIXED = {"order": 2, "lambda_a": 0.25, "lambda_mu": 10.0}


def test_clips_are_evaluated_as_their_streams(clips):
    paths, labels = clips
    result = evaluate([str(path) for path in paths], labels, **FIXED)
    streams = LocalBinaryPatterns().transform(paths)
    expected = evaluate(streams, labels, **FIXED)
    assert [m.name for m in result.methods] == ["LBP systems, alignment"] * 3 + ["LBP averaged over time"]
    for method, expected_method in zip(result.methods, expected.methods, strict=True):
        assert (method.predictions, method.rate) == (expected_method.predictions, expected_method.rate)
        assert (method.p_value, method.settings) == (expected_method.p_value, expected_method.settings)
    assert [(c.name, c.path, c.label, c.source) for c in result.clips] == [
        (f"{label}/{path.name}", path, label, None) for path, label in zip(paths, labels, strict=True)
    ]
    assert result.protocol == expected.protocol == "one clip left out at a time (9 clips)"
    np.testing.assert_array_equal(result.details.relations.distances, expected.details.relations.distances)
    assert result.facts["notes"] == []
    assert result.facts["bag"] == "LocalBinaryPatterns()"


def test_clips_are_compared_with_other_methods(clips, monkeypatch):
    """One that can describe the clips, and one that is not there."""
    paths, labels = clips
    usual = experiment.comparator_methods

    def methods(name, *arguments):
        if name == "PooledActivations":
            raise ImportError("no such package")
        return usual(name, *arguments)

    monkeypatch.setattr(experiment, "comparator_methods", methods)
    compare = ("LBPTOP", "PooledActivations")
    result = evaluate(paths, labels, compare={name: {"max_frames": 8} for name in compare}, **FIXED)
    assert result.facts["notes"] == ["PooledActivations was left out: no such package"]
    assert [(m.kind, m.classifier) for m in result.methods if "LBP-TOP" in m.name] == [
        ("comparator", classifier) for classifier in LBPTOP.classifiers
    ]
    eight = LBPTOP(frames={"max_frames": 8})
    vectors = [eight.vector(path) for path in paths]

    def chi2(a, b):
        return np.sum((a - b) ** 2 / np.maximum(a + b, 1e-300))

    predictions = []
    for k, vector in enumerate(vectors):
        candidates = [j for j in range(len(vectors)) if j != k]
        predictions.append(labels[min(candidates, key=lambda j, vector=vector: chi2(vector, vectors[j]))])
    assert of(result, "LBP-TOP", "1-NN") == predictions


def test_averages_of_several_bags_are_compared_too(clips):
    paths, labels = clips
    bags = {"LBP": LocalBinaryPatterns(), "colour": ColourHistogram()}
    result = evaluate(paths, labels, bags=bags, compare=(), **FIXED)
    rows = [(m.name, m.classifier) for m in result.methods]
    assert rows[:3] == [
        ("LBP + colour systems, alignment", classifier)
        for classifier in ("kernel-ridge", "nearest-mean", "nearest-system")
    ]
    assert rows[-5:] == [
        *(
            ("LBP bags averaged over time", classifier)
            for classifier in ("1-NN", "nearest-mean", "kernel-ridge", "logistic regression")
        ),
        ("LBP + colour bags averaged over time", "kernel-ridge"),
    ]
    items = EvaluationSet(clips=result.clips, groups=np.arange(9), codebook_folds=None, protocol="")
    averages = [[np.stack([stream.mean(axis=0) for stream in bag.transform(paths)])] for bag in bags.values()]
    expected, _ = evaluate_method(average_ridge_method(["LBP", "colour"], averages, items), items, None)
    assert result.methods[-1].predictions == expected.predictions
    assert result.methods[-1].settings == expected.settings
    assert result.facts["notes"] == []


def count_reads(monkeypatch):
    """Count which clip is read by which bags."""
    reads, usual = [], BagTransformer.read

    def read(self, source, **options):
        reads.append((type(self).__name__, Path(getattr(source, "video", source)).name))
        return usual(self, source, **options)

    monkeypatch.setattr(BagTransformer, "read", read)
    return reads


def test_a_clip_is_read_once_by_each_bag(tmp_path, monkeypatch):
    paths, labels = make_clips(tmp_path / "clips", 3, 10, 48, 64, textures=["waves", "rain"])
    paths = [
        path.rename(path.with_name(f"{label}-{path.name}")) for path, label in zip(paths, labels, strict=True)
    ]
    reads, bags = count_reads(monkeypatch), {"LBP": LocalBinaryPatterns(), "colour": ColourHistogram()}
    result = evaluate(paths, labels, bags=bags, cache=tmp_path / "cache", **FIXED)
    result.to_dict(details=True)
    expected = sorted(
        (name, path.name) for name in ("LocalBinaryPatterns", "ColourHistogram") for path in paths
    )
    assert sorted(reads) == expected
    assert result.methods[0].name == "LBP + colour systems, alignment"
    assert result.methods[0].classifier == "kernel-ridge"
    reads.clear()
    again = evaluate(paths, labels, bags=bags, cache=tmp_path / "cache", **FIXED)
    assert reads == []
    assert [m.predictions for m in again.methods] == [m.predictions for m in result.methods]


def test_all_codebooks_need_a_clip_twice(clips, monkeypatch):
    """Once for a sample of its descriptors, once to count words; its first frame before that."""
    paths, labels = clips
    reads = count_reads(monkeypatch)
    evaluate(paths, labels, bags=VisualWords(6, sampling="grid"), methods=["nearest-system"], **FIXED)
    assert len(reads) == 3 * len(paths)


def test_further_bags_have_the_order_that_is_given(clips, monkeypatch):
    paths, labels = clips
    orders, usual = [], features.cross_gram
    monkeypatch.setattr(
        features,
        "cross_gram",
        lambda systems, **more: (orders.append({s.order for s in systems}), usual(systems, **more))[1],
    )
    evaluate(paths, labels, bags=["lbp", "colour"], methods=["kernel-ridge"], **FIXED)
    assert orders == [{2}, {2}]


def test_details_are_computed_when_they_are_asked_for(data, monkeypatch):
    calls = []

    def broken(*arguments, **options):
        calls.append(1)
        raise StreamError("no atlas today")

    monkeypatch.setattr(experiment, "atlas", broken)
    result = run(data)
    document = json.loads(json_text(result.to_dict()))
    assert calls == []
    assert not document.keys() & {"neighbours", "atlas"}
    assert not document["seconds"].keys() & {"map", "atlas"}
    for ask in (lambda: result.details, lambda: result.to_dict(details=True)):
        with pytest.raises(StreamError, match="no atlas today"):
            ask()
    monkeypatch.undo()
    assert result.details is result.details
    assert result.seconds.keys() >= {"map", "atlas"}


def test_the_document(compared):
    plain, document = compared.to_dict(), json.loads(json_text(compared.to_dict(details=True)))
    assert document.keys() - plain.keys() == {"confidence", "neighbours", "atlas"}
    assert {k: v for k, v in document.items() if k in plain and k not in ("facts", "seconds")} == json.loads(
        json.dumps({k: v for k, v in plain.items() if k not in ("facts", "seconds")})
    )
    assert document["title"] == "clips"
    assert document["groups"] == GROUPS.tolist()
    assert document["classes"] == ["class 0", "class 1", "class 2"]
    assert document["clips"][3] == {"name": "class 0/3", "label": "class 0", "source": "source 02"}
    assert document["skipped"] == []
    assert document["confusion"] == compared.confusion.tolist()
    assert [m["main"] for m in document["methods"]] == [True] + [False] * 15
    for line, method in zip(document["methods"], compared.methods, strict=True):
        assert (line["name"], line["classifier"], line["kind"]) == (
            method.name,
            method.classifier,
            method.kind,
        )
        assert (line["share"], line["p_value"]) == (method.rate.share, method.p_value)
        assert line["predictions"] == list(method.predictions)
        assert line["rate"] == {
            name: getattr(method.rate, name) for name in ("right", "total", "low", "high")
        }
    assert document["neighbours"] == compared.details.relations.neighbours.tolist()
    for page, mean in zip(document["atlas"], compared.details.atlas, strict=True):
        assert page["class"] == mean.label
        assert page["members"] == [compared.clips[k].name for k in mean.members]
        assert page["squared_distances"] == list(mean.distances)
        assert np.array(page["eigenvalues"]) @ [1.0, 1.0j] == pytest.approx(mean.eigenvalues)
    assert document["facts"]["seconds for a pair after the kernel"] > 0.0
    assert document["facts"]["order"] == ORDER
    assert document["seconds"].keys() >= {"systems", "systems and kernel", "map", "atlas"}


def test_the_table_as_a_frame(compared):
    pytest.importorskip("pandas")
    table = compared.to_frame()
    assert table["method"].tolist() == [m.name for m in compared.methods]
    assert table["accuracy"].tolist() == [m.rate.share for m in compared.methods]
    assert (table["low"] <= table["accuracy"]).all()
    assert (table["accuracy"] <= table["high"]).all()
    assert table["right"].tolist() == [m.rate.right for m in compared.methods]
    assert table["p_value"].isna().tolist() == [True] + [False] * 15


def test_bad_clips_become_failures(clips, tmp_path):
    paths, labels = clips
    broken, missing = tmp_path / "broken.mp4", tmp_path / "missing.mp4"
    broken.write_bytes(b"no video")
    still = write_clip(tmp_path / "still.mp4", np.repeat(moving_frames(1, 64, 80), 14, axis=0))
    videos = [broken, *paths, still, missing]
    names = ["rain", *labels, "waves", "waves"]
    for bags in ("lbp", VisualWords(6, sampling="grid")):
        result = evaluate(
            videos, names, bags=bags, methods=["nearest-system"], order=2, lambda_a=0.25, lambda_mu=10.0
        )
        expected = evaluate(
            paths, labels, bags=bags, methods=["nearest-system"], order=2, lambda_a=0.25, lambda_mu=10.0
        )
        assert {path: type(error) for path, error in result.failures.items()} == {
            broken: VideoError,
            still: OrderError,
            missing: VideoError,
        }
        assert all(str(path) in str(error) for path, error in result.failures.items())
        assert [clip.path for clip in result.clips] == list(paths)
        assert result.groups == tuple(range(9))
        assert [entry["path"] for entry in result.to_dict()["skipped"]] == [str(p) for p in result.failures]
        if bags == "lbp":  # the still clip has a part in codebooks
            assert result.predictions.tolist() == expected.predictions.tolist()


def test_a_class_in_a_single_group(data):
    groups = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10]
    result = evaluate(data[0], data[1], groups, order=2, lambda_a=0.25, lambda_mu=0.0)
    assert result.single_group_classes == ("class 2",)
    for method in result.methods:
        assert "class 2" not in method.predictions[10:]
    assert single_group_classes(["a", "a", "b"], [0, 1, 1]) == ["b"]


def test_folds(data):
    result = run(data, protocol="folds", folds=4)
    assert result.protocol == "4 folds, no source in two of them"
    assert len(set(result.groups)) == 4
    for source in set(SOURCES):
        assert len({g for g, name in zip(result.groups, SOURCES, strict=True) if name == source}) == 1


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"methods": ["NCC"]}, ParameterError, "methods is 'NCC', but it must be one of 'moments'"),
        ({"labels": ["a"] * 6}, ParameterError, "all clips have the class a, but there must be at least two"),
        ({"labels": list("ab")}, ParameterError, "labels have shape (2,)"),
        ({"groups": list("xxxyyy")}, FileError, "each class has a single clip, or clips of a single source"),
        ({"bags": "gist"}, ParameterError, "bags is 'gist', but it must be one of 'lbp'"),
        ({"bags": [3]}, ParameterError, "bags holds a int, but it must hold names or bags"),
        ({"protocol": "holdout"}, ParameterError, "protocol is 'holdout', but it must be one of"),
        ({"protocol": "by-source"}, ParameterError, "needs the source of each item"),
        ({"lambda_a": -1.0}, ParameterError, "lambda_a is -1.0, but it must be"),
        (
            {"lambda_mu": -1.0, "methods": ["nearest-system"]},
            ParameterError,
            "lambda_mu is -1.0, but it must be",
        ),
        ({"lambda_mu": np.nan, "methods": ["kernel-ridge"]}, ParameterError, "lambda_mu is nan, but it must"),
        ({"metric": "martin"}, ParameterError, "metric is 'martin', but it must be one of"),
        ({"normal_form": "diagonal"}, ParameterError, "normal_form is 'diagonal', but it must be one of"),
        (
            {"metric": "covariance", "normal_form": "orthonormal"},
            ParameterError,
            "the metric covariance needs the unit-variance form, but the form is orthonormal",
        ),
        (
            {"metric": "covariance", "lambda_a": 1.5},
            ParameterError,
            "lambda_a is 1.5, but it must be a number",
        ),
        ({"methods": []}, ParameterError, "methods is empty, but there must be at least one"),
        ({"bags": []}, ParameterError, "bags is empty, but there must be at least one"),
        ({"clips": [], "labels": []}, ParameterError, "clips is empty, but there must be at least two"),
        ({"kernel": "rbf"}, SysbagsError, "kernel"),
        ({"clips": [np.full((4, 3), -1.0)] * 6}, StreamError, "clips[0]"),
    ],
)
def test_mistakes(data, options, error, sentence):
    options = {"clips": data[0][:3] + data[0][5:8], "labels": list("aaabbb"), **options}
    with pytest.raises(error) as caught:
        evaluate(**options)
    assert sentence in str(caught.value)


# --- the result, as Python users meet it


def test_labels_keep_their_kind():
    streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    options = {"order": 2, "lambda_a": 0.25, "lambda_mu": 0.0, "methods": ["nearest-system"]}
    for values in (np.array([3, 7]), np.array([False, True]), np.array(["sea", "wood"])):
        given = values[np.asarray(labels)]
        result = evaluate(streams, given, **options)
        assert result.predictions.dtype.kind == given.dtype.kind
        assert np.mean(result.predictions == given) == result.accuracy
        assert result.confusion.sum() == len(given)


def test_the_text_of_a_result_is_its_table():
    streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    result = evaluate(streams, labels, order=2, lambda_a=0.25, lambda_mu=0.0, title="two classes")
    first, *rows = repr(result).splitlines()
    assert first == "Evaluation of two classes: 8 clips, 2 classes"
    assert len(rows) == len(result.methods) == 4
    assert rows[2].startswith("  stream systems, alignment, nearest-system: ")


def test_streams_have_a_report_with_a_picture_of_each(tmp_path):
    streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    result = evaluate(streams, labels, order=2, lambda_a=0.25, lambda_mu=0.0, methods=["nearest-system"])
    assert all(clip.path is None for clip in result.clips)
    write_report(tmp_path / "report.html", result)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    shots = pictures(result.clips, streams)
    assert len(set(shots)) == 8
    for jpeg, stream in zip(shots, streams, strict=True):
        shade = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_GRAYSCALE)
        assert shade.shape == (120, 160)
        # The darkest bin of the average is the largest: JPEG and scaling blur, but it stays the same bin.
        rows = shade.mean(axis=1).reshape(8, 15).mean(axis=1)
        assert rows.argmin() == stream.mean(axis=0).argmax()
    assert "stream systems, alignment" in text


def test_what_is_said_to_decide_decides(data, chosen):
    """The predicted class has the largest score, or where there is none the smallest distance."""
    methods = [*chosen.methods, *run(data, methods=["moments", "kernel-ridge"]).methods]
    explained, farther = [method for method in methods if method.explanations is not None], Counter()
    for method in explained:
        for one, label in zip(method.explanations, method.predictions, strict=True):
            nearest = min(one.distances, key=one.distances.get)
            decided = nearest if one.scores is None else max(one.scores, key=one.scores.get)
            assert one.label == decided == label
            assert (one.scores is None) == (method.classifier not in ("moments", "kernel-ridge"))
            farther[method.classifier] += nearest != label
    assert {method.classifier for method in explained} >= {"moments", "kernel-ridge", "nearest-mean"}
    assert min(farther["moments"], farther["kernel-ridge"]) > 0  # else distances could decide as well
