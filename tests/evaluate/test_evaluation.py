"""Experiments on streams against loops that refit everything for each clip that is left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sysbags import (
    alignment_distance,
    cross_gram,
    frechet_mean,
    identify,
    martin_distance,
    max_singular_value_distance,
)
from sysbags._common.cache import Cache
from sysbags._common.stages import Stages
from sysbags.bags import LocalBinaryPatterns
from sysbags.bags.base import BagTransformer
from sysbags.bags.registry import BAGS as NAMED_BAGS
from sysbags.bags.registry import make_bag
from sysbags.comparators.base import Comparator
from sysbags.datasets import make_streams
from sysbags.errors import OrderError, ParameterError, StreamError
from sysbags.evaluate import experiment as experiments
from sysbags.evaluate import leave_one_out, tuning
from sysbags.evaluate.cached_gram import cached_gram
from sysbags.evaluate.entries import (
    EvaluationSet,
    MethodSpec,
    SystemSet,
    aligned,
    evaluate_method,
    one_standard_error_rule,
)
from sysbags.evaluate.experiment import Options, experiment
from sysbags.evaluate.features import Features, descending_orders, identified
from sysbags.evaluate.tuning import BAGS, bag_settings, kept
from sysbags.report.results import Clip
from sysbags.report.statistics import mcnemar, rate

ORDER, WEIGHTS = 3, (0.25, 10.0)
# Group 2 straddles two classes; three clips of a class are left at least, as two are both their medoids.
GROUPS = np.array([0, 0, 1, 2, 9, 3, 2, 4, 5, 10, 6, 7, 7, 8, 11])


@pytest.fixture(scope="module")
def data():
    """Streams that the weights matter for: noise makes the classes overlap."""
    streams, labels = make_streams(classes=3, per_class=5, frames=30, bins=8, noise=1.5)
    return list(streams), np.array([f"class {label}" for label in labels])


@pytest.fixture(scope="module")
def items(data):
    sources = [f"source {group}" for group in GROUPS]
    clips = tuple(
        Clip(f"{label}/{k}", Path(f"{k}.mp4"), str(label), sources[k]) for k, label in enumerate(data[1])
    )
    return EvaluationSet(clips, GROUPS, GROUPS % 3, "one source left out at a time")


@pytest.fixture(scope="module")
def systems(data):
    return [identify(stream, ORDER) for stream in data[0]]


def run(items, streams, **options):
    features = Features([clip.path for clip in items.clips], items.codebook_folds, Cache(None), 1)
    asked = Options(**{"order": ORDER, "lambda_a": WEIGHTS[0], "lambda_mu": WEIGHTS[1], **options})
    return experiment("test", items, [streams], LocalBinaryPatterns(), features, asked, Stages())


@pytest.fixture(scope="module")
def compared(items, data):
    """All that needs no video."""
    patch = pytest.MonkeyPatch()
    patch.setattr(experiments, "COMPARATORS", {})
    with patch.context():
        found = run(items, data[0], compare=True)
    patch.undo()
    return found


def of(found, name, classifier):
    (line,) = (m for m in found.methods if name in m.name and m.classifier == classifier)
    return list(line.predictions)


def others(k, label, labels):
    return [j for j in range(len(labels)) if labels[j] == label and GROUPS[j] != GROUPS[k]]


def nearest(places, labels, to_class):
    """Predict the class of the smallest of some numbers, each of which a function works out anew."""
    verdicts = []
    for k in range(len(places)):
        classes = [label for label in np.unique(labels) if others(k, label, labels)]
        verdicts.append(min(classes, key=lambda label, k=k: to_class(k, others(k, label, labels))))
    return verdicts


def test_nearest_mean_and_nearest_system_refit_for_each_clip(compared, systems, data):
    def to_mean(k, members):
        mean = frechet_mean([systems[j] for j in members], *WEIGHTS).system
        return alignment_distance(mean, systems[k], *WEIGHTS)

    def to_system(k, members):
        return min(alignment_distance(systems[min(j, k)], systems[max(j, k)], *WEIGHTS) for j in members)

    assert of(compared, "alignment", "nearest mean") == nearest(systems, data[1], to_mean)
    assert of(compared, "alignment", "1-NN") == nearest(systems, data[1], to_system)


@pytest.mark.parametrize(
    ("name", "distance"), [("Martin", martin_distance), ("maximum", max_singular_value_distance)]
)
def test_baselines_with_medoids(compared, systems, data, name, distance):
    def to_medoid(k, members):
        totals = [sum(distance(systems[i], systems[j]) for j in members) for i in members]
        return distance(systems[k], systems[members[int(np.argmin(totals))]])

    def to_system(k, members):
        return min(distance(systems[k], systems[j]) for j in members)

    assert of(compared, name, "nearest medoid") == nearest(systems, data[1], to_medoid)
    assert of(compared, name, "1-NN") == nearest(systems, data[1], to_system)


def test_averages_know_nothing_of_time(compared, items, data):
    means = [stream.mean(axis=0) for stream in data[0]]

    def chi2(a, b):
        return np.sum((a - b) ** 2 / (a + b))

    def to_vector(k, members):
        return min(chi2(means[k], means[j]) for j in members)

    def to_centre(k, members):
        return chi2(means[k], np.mean([means[j] for j in members], axis=0))

    assert of(compared, "averaged", "1-NN") == nearest(means, data[1], to_vector)
    assert of(compared, "averaged", "nearest centroid") == nearest(means, data[1], to_centre)
    rng, patch = np.random.default_rng(0), pytest.MonkeyPatch()
    patch.setattr(experiments, "COMPARATORS", {})
    shuffled = run(items, [stream[rng.permutation(len(stream))] for stream in data[0]], compare=True)
    patch.undo()
    for classifier in ("1-NN", "nearest centroid", "logistic regression"):
        assert of(shuffled, "averaged", classifier) == of(compared, "averaged", classifier)
    assert not np.allclose(shuffled.relations.distances, compared.relations.distances)


def test_rates_and_tests_are_against_the_first_line(compared, items):
    main, *rest = compared.methods
    assert (compared.main, main.name, main.classifier) == (0, "LBP systems, alignment", "nearest mean")
    labels = [clip.label for clip in items.clips]
    right = {id(m): np.array(m.predictions) == labels for m in compared.methods}
    assert main.p_value is None
    for line in compared.methods:
        assert line.rate == rate(right[id(line)], GROUPS)
        assert line is main or line.p_value == mcnemar(right[id(main)], right[id(line)])
    assert [line.kind for line in rest].count("comparator") == 3
    assert len({(line.name, line.classifier) for line in compared.methods}) == len(compared.methods) == 10


def test_what_is_shown_belongs_to_the_main_method(compared, systems):
    expected = alignment_distance(systems[0], systems[1], *WEIGHTS)
    assert compared.relations.distances[0, 1] == pytest.approx(expected, rel=1e-12)
    assert [mean.label for mean in compared.atlas] == list(compared.classes)
    assert {(c.weight, c.classifier) for c in compared.curves} == {
        (weight, classifier)
        for weight in ("lambda_a", "lambda_mu")
        for classifier in ("1-NN", "nearest mean")
    }
    for curve in compared.curves:
        assert curve.fixed == (WEIGHTS[1] if curve.weight == "lambda_a" else WEIGHTS[0])
    assert compared.facts["notes"] == []
    assert compared.seconds.keys() >= {"systems and kernel", "curves", "map", "atlas"}


def test_weights_that_are_auto_are_chosen_without_the_tested_group(items, data, systems, monkeypatch):
    """The twin throws a group away, chooses by leave-one-out on what is left, and then judges the group."""
    grid_a, grid_mu = (0.05, 0.25, 4.0), (0.0, 10.0, 300.0)
    monkeypatch.setattr(experiments, "LAMBDA_A_GRID", grid_a)
    monkeypatch.setattr(experiments, "LAMBDA_MU_GRID", grid_mu)
    found = run(items, data[0], lambda_a=None, lambda_mu=None)
    labels, gram = data[1], cross_gram(systems)
    # What is tried first wins where it is nearly as good as the best: the middle of each grid.
    settings = [(a, mu) for a in (0.25, 0.05, 4.0) for mu in (10.0, 0.0, 300.0)]
    expected, chosen = labels.copy(), []
    for group in np.unique(GROUPS):
        rest, tested = np.flatnonzero(group != GROUPS), group == GROUPS
        accuracies = [
            leave_one_out(
                gram.subset(rest),
                labels[rest],
                groups=GROUPS[rest],
                classifier="nearest-system",
                lambda_a=a,
                lambda_mu=mu,
            ).accuracy
            for a, mu in settings
        ]
        best = max(accuracies)
        good = best - np.sqrt(best * (1 - best) / len(labels))
        a, mu = next(s for s, accuracy in zip(settings, accuracies, strict=True) if accuracy >= good)
        chosen.append((a, mu))
        judged = leave_one_out(
            gram, labels, groups=GROUPS, classifier="nearest-system", lambda_a=a, lambda_mu=mu
        )
        expected[tested] = judged.predictions[tested]
    line = found.methods[1]
    assert list(line.predictions) == expected.tolist()
    assert len(set(chosen)) > 1  # otherwise nothing was chosen
    counts = line.settings["lambda_a"]
    if isinstance(counts, dict):
        assert counts == {f"{a:g}": sum(a == b for b, _ in chosen) for a, _ in chosen}
    usual = found.methods[0].settings
    shown = found.facts["weights of curves, map and atlas"]
    for name, value in shown.items():  # the usual choice of the main method is among its choices
        assert f"{value:g}" in (usual[name] if isinstance(usual[name], dict) else [usual[name]])


def test_tuning(items, data, monkeypatch):
    """Two settings of the bags, of which one is noise: it is never chosen, and every group has one choice."""
    monkeypatch.setattr(tuning, "ORDERS", (3, 2))
    monkeypatch.setattr(tuning, "KERNELS", ("chi2", "linear"))
    monkeypatch.setattr(tuning, "BAGS", {"LocalBinaryPatterns": ({}, {"radius": 2}, {"radius": 3})})
    rng = np.random.default_rng(0)

    def described(self, bags):
        if bags.radius == 3:
            raise StreamError("no such stream")
        return [data[0] if bags.radius == 1 else list(rng.dirichlet(np.ones(8), size=(15, 30)))]

    monkeypatch.setattr(Features, "good_streams", described)
    found = run(items, data[0], order=None, lambda_mu=None, tune=True)
    line = found.methods[0]
    assert (line.name, line.p_value) == ("LBP systems, tuned", None)
    for name in ("kernel", "order", "classifier", "lambda_mu"):
        chosen = line.settings[name]
        assert not isinstance(chosen, dict) or sum(chosen.values()) == len(np.unique(GROUPS))
    assert line.settings["lambda_a"] == 0.25  # as given
    assert "as given" in line.settings["bag parameters"]
    assert found.facts["order"] in (2, 3)
    assert all(system.order == found.facts["order"] for system in found.systems)
    (note,) = found.facts["notes"]
    assert note == "the bags with radius 3 were left out of the tuning: no such stream"


def test_a_line_of_several_candidates_is_nested(items):
    """One candidate is always right, one never; with one alone nothing is chosen."""
    good = ({"way": "good"}, lambda group: items.codes)
    bad = ({"way": "bad"}, lambda group: (items.codes + 1) % 3)
    line, usual = evaluate_method(MethodSpec("x", "y", "systems", lambda: [bad, good]), items, None)
    assert line.rate.right == len(items.clips)
    assert (usual, line.settings) == ({"way": "good"}, {"way": "good"})
    line, usual = evaluate_method(MethodSpec("x", "y", "systems", lambda: [bad]), items, None)
    assert (line.rate.right, usual) == (0, {"way": "bad"})


def test_a_choice_among_equals_does_no_harm():
    """Forty ways, each right about half of the items: without an item, those wrong about it look best."""
    rng, items = np.random.default_rng(0), 60
    right = np.array([rng.permutation(items) < items // 2 for _ in range(40)])
    inner = (right.sum(axis=1) - right.T) / (items - 1)  # each item is a group of its own
    assert right[inner.argmax(axis=1), np.arange(items)].mean() == 0.0
    assert right[one_standard_error_rule(inner, items), np.arange(items)].mean() == 0.5


def test_kept_candidates_answer_the_same(items, systems):
    view = SystemSet(systems, cross_gram(systems))
    for _, candidate in aligned([view], items, "1-NN", (0.25,), (1.0,), (1, 3)):
        answers = kept(candidate, items.groups)
        for group in (None, *np.unique(GROUPS).tolist()):
            np.testing.assert_array_equal(answers(group), candidate(group))


def test_all_settings_of_the_tables_are_parameters():
    for bags in map(make_bag, NAMED_BAGS):
        settings = bag_settings(bags)
        assert len(settings) == len(BAGS[type(bags).__name__])
        assert next(iter(settings)) == "as given"
        assert not any("window" in name for name in bag_settings(bags, ["window"]))
        assert settings["as given"].get_params() == bags.get_params()


def test_orders_fall_until_a_clip_has_one(data):
    still = np.tile(data[0][0][:3], (5, 1))  # three bags in turn: rank 2
    with pytest.raises(OrderError):
        identified([still], [5], "chi2", 1)
    assert identified([data[0][0], still], descending_orders((3, 5)), "chi2", 1)[1].order == 2
    assert identified([data[0][0], still], [5, 1], "chi2", 1)[1].order == 1
    assert descending_orders(["auto"]) == ["auto"]


class Words(BagTransformer):
    """A codebook that is the names of the clips it was learnt from."""

    fits = 0
    requires_fit = True

    def __init__(self, n_jobs=None):
        self.n_jobs = n_jobs

    def fit(self, videos, labels=None):
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
        self.seen_[[one.number for one in described]] = 1.0
        return self

    def count(self, one):
        return np.append(self.seen_, one.number)


@pytest.fixture
def nine(tmp_path):
    paths = [tmp_path / f"{k}.mp4" for k in range(9)]
    for path in paths:
        path.touch()
    return paths


def test_no_codebook_has_seen_the_third_that_it_is_for(nine, tmp_path):
    thirds = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0])
    features = Features(nine, thirds, Cache(tmp_path / "cache"), 2)
    Words.fits = Counts.calls = 0
    for _ in range(2):  # the second time from disk
        views, vectors = features.good_streams(Words()), features.vectors(Counts())
        assert len(views) == len(vectors) == 3
        for third in range(3):
            for k in range(9):
                for seen in (views[third][k][0], vectors[third][k][:9]):
                    np.testing.assert_array_equal(seen, thirds != third)
                assert views[third][k][1, 0] == vectors[third][k][9] == k
    assert (Words.fits, Counts.calls) == (3, 9)


def test_without_three_groups_nothing_is_learnt(nine):
    features = Features(nine, None, Cache(None), 1)
    for describe, what in ((features.streams, Words()), (features.vectors, Counts())):
        with pytest.raises(ParameterError, match="there are fewer than three groups"):
            describe(what)


def test_a_gram_is_found_again(systems, tmp_path, monkeypatch):
    from sysbags.evaluate import cached_gram as _kept

    cache, expected = Cache(tmp_path), cross_gram(systems)
    first = cached_gram(cache, systems, 1).gram
    monkeypatch.setattr(_kept, "cross_gram", lambda *args, **options: pytest.fail("worked out again"))
    again = cached_gram(cache, systems, 1).gram
    for gram in (first, again):
        np.testing.assert_array_equal(gram.observer, expected.observer)
        np.testing.assert_array_equal(gram.rows.transition, expected.rows.transition)
        assert gram.symmetric
    monkeypatch.undo()
    other = cached_gram(cache, systems[::-1], 1).gram
    np.testing.assert_allclose(other.mean, expected.mean[::-1, ::-1], rtol=1e-12)
