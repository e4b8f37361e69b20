"""Official splits against estimators that are fitted to the training clips alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clips import moving_frames, write_clip
from evaluations import class_size, evaluate, make_evaluation
from sysbags import (
    KernelRidgeClassifier,
    NearestMean,
    NearestSystem,
    alignment_distance,
    identify,
    pairwise_distances,
)
from sysbags._common.files import json_text
from sysbags.bags import ColourHistogram, LocalBinaryPatterns, VisualWords, streams
from sysbags.classifiers.scores import half_mean
from sysbags.classifiers.scores.ridge import gaussian_distances
from sysbags.datasets import make_clips, make_streams
from sysbags.errors import ParameterError, SysbagsError, VideoError
from sysbags.evaluate import features
from sysbags.evaluate.candidates import GRIDS
from sysbags.evaluate.methods import evaluate_method, vector_methods
from sysbags.evaluate.results import Clip
from sysbags.evaluate.splits import EvaluationSet, codebook_folds, trial_groups
from sysbags.evaluate.trials import check_trials, merge_trials
from sysbags.report.page import write_report
from sysbags.statistics.rates import mcnemar, rate

ORDER, WEIGHTS = 3, {"lambda_a": 0.25, "lambda_mu": 10.0}
COUNT = 18
SOURCES = np.array([f"source {k // 2}" for k in range(COUNT)])
FOLDS = 5  # of a training set, where the settings are chosen: fewer than by default are faster
TRIALS = {
    "first": ["test", "test", *["train"] * 4] * 3,
    # Unequal numbers of each class, and clips that are not used.
    "second": [*["train"] * 3, *["test"] * 2, "", "", *["train"] * 4, "test", *["train"] * 5, "test"],
    "third": ["test", "", *["train"] * 3, ""] * 3,  # the first clip of each class again
}


@pytest.fixture(scope="module")
def data():
    """Streams that the settings matter for: noise makes the classes overlap."""
    streams, labels = make_streams(classes=3, per_class=6, frames=30, bins=8, noise=1.5)
    return list(streams), np.array([f"class {label}" for label in labels])


def run(data, streams=None, labels=None, **options):
    options = {"order": ORDER, "trials": TRIALS, "n_jobs": 1, **options}
    clips = data[0] if streams is None else streams
    return evaluate(clips, data[1] if labels is None else labels, SOURCES, **options)


def places(part, name, trials=TRIALS):
    return np.flatnonzero(np.array(trials[name]) == part)


def predictions(result, name=None, classifier=None):
    """The predictions of a row, one list per trial."""
    [row] = (m for m in result.methods if classifier == m.classifier and name in (None, m.name))
    groups = np.array(result.groups)
    return [np.array(row.predictions)[groups == k].tolist() for k in np.unique(groups)]


@pytest.mark.parametrize(
    ("metric", "form", "weights"),
    [
        (None, "orthonormal", WEIGHTS),
        ("alignment", "unit-variance", {"lambda_a": 0.2, "lambda_mu": 1.0}),
        ("covariance", "unit-variance", {"lambda_a": 0.8, "lambda_mu": 0.2}),
        ("normalized-covariance", "unit-variance", {"lambda_a": 0.8, "lambda_mu": 5.0}),
    ],
)
def test_nearest_mean_and_nearest_system_are_fitted_to_the_training_clips(data, metric, form, weights):
    normal_form = None if metric is None else form
    result = run(
        data, methods=["nearest-mean", "nearest-system"], metric=metric, normal_form=normal_form, **weights
    )
    systems = [identify(stream, ORDER, normal_form=form) for stream in data[0]]
    options = {"metric": metric or "alignment", **weights}
    for classifier, model in (
        ("nearest-mean", NearestMean(**options)),
        ("nearest-system", NearestSystem(**options)),
    ):
        for name, predicted in zip(TRIALS, predictions(result, classifier=classifier), strict=True):
            train, test = places("train", name), places("test", name)
            model.fit([systems[k] for k in train], data[1][train])
            assert predicted == model.predict([systems[k] for k in test]).tolist()
    assert 0.3 < result.accuracy < 1.0


def slow_ridge(streams, labels, sources, parts, weights):
    """Choose ridge and width by folds of the training set, then fit `KernelRidgeClassifier` to all of it."""
    options = {"metric": "normalized-covariance", **weights}
    used = np.flatnonzero(np.array(parts) != "")
    train, test = np.flatnonzero(np.array(parts) == "train"), np.flatnonzero(np.array(parts) == "test")
    folds = trial_groups(labels[used], np.array(parts)[used], sources[used])
    systems = {k: identify(streams[k], ORDER, normal_form="unit-variance") for k in used}
    between = pairwise_distances([systems[k] for k in train], **options)

    def fit_predict(fitted, tested, ridge, width):
        """Units are those of the whole training set."""
        rows = np.searchsorted(train, fitted)
        inside, ratio = between[np.ix_(rows, rows)], half_mean(between)
        own_width = None
        if width is not None:
            own_width = width * half_mean(between) / half_mean(inside)
            inside = gaussian_distances(inside, width * half_mean(between))
            ratio = half_mean(gaussian_distances(between, width * half_mean(between)))
        ratio *= class_size(labels[fitted]) / class_size(labels[train])
        model = KernelRidgeClassifier(**options, ridge=ridge * ratio / half_mean(inside), width=own_width)
        model.fit([systems[k] for k in fitted], labels[fitted])
        return model.predict([systems[k] for k in tested])

    settings = [(ridge, width) for width in (None, 1.0) for ridge in (1.0, 0.3, 0.1, 0.03)]
    accuracies = []
    for ridge, width in settings:
        right = 0
        for fold in range(folds.max()):
            tested = used[folds == fold]
            fitted = np.setdiff1d(train, tested)
            right += (fit_predict(fitted, tested, ridge, width) == labels[tested]).sum()
        accuracies.append(right / len(train))
    best = max(accuracies)
    good = best - np.sqrt(best * (1 - best) / len(train))
    ridge, width = next(s for s, share in zip(settings, accuracies, strict=True) if share >= good)
    return fit_predict(train, test, ridge, width).tolist(), (ridge, width), accuracies


def test_kernel_ridge_is_fitted_to_the_training_clips(data):
    weights = {"lambda_a": 0.8, "lambda_mu": 5.0}
    result = run(data, methods=["kernel-ridge"], metric="normalized-covariance", **weights)
    chosen, varying = [], set()
    for name, predicted in zip(
        TRIALS, predictions(result, result.methods[0].name, "kernel-ridge"), strict=True
    ):
        expected, settings, accuracies = slow_ridge(data[0], data[1], SOURCES, TRIALS[name], weights)
        assert predicted == expected
        chosen.append(settings)
        varying.update(accuracies)
    assert len(varying) > 1
    ridges = result.methods[0].settings["ridge"]
    if isinstance(ridges, dict):
        assert ridges == {f"{ridge:.3g}": sum(r == ridge for r, _ in chosen) for ridge, _ in chosen}
    else:
        assert {ridge for ridge, _ in chosen} == {ridges}


@pytest.fixture(scope="module")
def everything(data):
    """All settings are left to the evaluation, and all that needs no video is compared."""
    return run(data, compare=True, folds=FOLDS)


def table(result):
    """What was found, without how long it took."""
    return [
        (m.name, m.classifier, m.predictions, m.settings, m.rate, m.p_value, m.trials) for m in result.methods
    ]


def test_settings_are_chosen_inside_the_training_set(data, everything):
    """The twin never sees the test clips: folds of the training set, each setting, the usual rule."""
    systems = {
        form: [identify(stream, ORDER, normal_form=form) for stream in data[0]]
        for form in ("orthonormal", "unit-variance")
    }
    for name, predicted in zip(
        TRIALS, predictions(everything, "stream systems", "nearest-system"), strict=True
    ):
        train, test = places("train", name), places("test", name)
        used = np.flatnonzero(np.array(TRIALS[name]) != "")
        folds = trial_groups(data[1][used], np.array(TRIALS[name])[used], SOURCES[used], folds=FOLDS)
        inner = folds[np.isin(used, train)]
        tried = []
        for grid in GRIDS:
            members = [systems[grid.normal_form][k] for k in train]
            gram_rows = [np.trace(system.observer_gram) for system in members]
            variance = float(np.mean(gram_rows))
            squares = float(np.mean([np.sum(system.transition**2) for system in members]))
            unit = {
                "alignment": (variance / squares, 1.0),
                "covariance": (0.9, variance),
                "normalized-covariance": (0.9, 1.0 / variance),
            }[grid.metric]
            for a in grid.lambda_a:
                for mu in grid.lambda_mu:
                    weights = (a * unit[0], mu * unit[1]) if grid.scaled[0] else (a, mu)
                    options = {"metric": grid.metric, "lambda_a": weights[0], "lambda_mu": weights[1]}
                    between = pairwise_distances(members, **options)
                    between[inner[:, None] == inner] = np.inf
                    share = np.mean(data[1][train][between.argmin(axis=1)] == data[1][train])
                    tried.append((share, grid.normal_form, options))
        best = max(share for share, _, _ in tried)
        good = best - np.sqrt(best * (1 - best) / len(train))
        _, form, options = next(t for t in tried if t[0] >= good)
        model = NearestSystem(**options).fit([systems[form][k] for k in train], data[1][train])
        assert predicted == model.predict([systems[form][k] for k in test]).tolist()


@pytest.mark.parametrize(
    ("other", "options"),
    [
        ("class 0", {"methods": ["nearest-system", "kernel-ridge"], "compare": True}),
        ("class 11", {"metric": "normalized-covariance"}),
        ("before all others", {"folds": FOLDS}),
    ],
)
def test_labels_of_test_clips_change_no_prediction(data, other, options):
    """Also if they are of a class that is not in the training set, whose number is below that of others."""
    trials = {"first": TRIALS["first"]}
    labels = data[1].astype("U20")
    labels[places("test", "first")] = other
    options = {"trials": trials, **options}
    first, second = run(data, **options), run(data, labels=labels, **options)
    for method, again in zip(first.methods, second.methods, strict=True):
        assert (method.predictions, method.settings) == (again.predictions, again.settings)
        assert again.rate.right == sum(label == other for label in again.predictions)
    assert first.methods[0].rate != second.methods[0].rate


def test_clips_that_are_not_used_change_nothing(data):
    """Neither their streams nor their labels and sources."""
    trials = {"second": TRIALS["second"], "third": TRIALS["third"]}
    unused = np.intersect1d(places("", "second"), places("", "third"))
    assert len(unused) > 0
    streams, labels = list(data[0]), data[1].copy()
    for k in unused:
        streams[k] = np.random.default_rng(k).dirichlet(np.ones(8), size=40)
        labels[k] = "class 2"
    options = {"trials": trials, "methods": ["nearest-system", "kernel-ridge"], "compare": True}
    first, second = run(data, **options), run(data, streams, labels, **options)
    assert table(first) == table(second)
    assert first.clips == second.clips


@pytest.mark.parametrize("metric", [None, "normalized-covariance"])
def test_another_test_clip_has_no_say(data, metric):
    """Every clip is predicted as if it were tested alone; only kernel ridge repairs distances for all.

    Those of "normalized-covariance" need no repair.
    """
    methods = ["nearest-mean", "nearest-system", *(["kernel-ridge"] if metric else [])]
    trials = {"second": TRIALS["second"]}
    kept, *changed = places("test", "second")
    streams, labels = list(data[0]), data[1].copy()
    for k in changed:
        streams[k] = np.random.default_rng(k).dirichlet(np.ones(8), size=40)
        labels[k] = "class 2"
    options = {"trials": trials, "methods": methods, "metric": metric, "folds": FOLDS}
    first, second = run(data, **options), run(data, streams, labels, **options)
    assert first.clips[0] == second.clips[0]
    assert kept == 3
    for method, again in zip(first.methods, second.methods, strict=True):
        assert method.predictions[0] == again.predictions[0]
        assert method.settings == again.settings


@pytest.mark.parametrize("metric", [None, "normalized-covariance"])
def test_trials_that_leave_one_group_out_agree_with_groups(data, metric):
    weights = WEIGHTS if metric is None else {"lambda_a": 0.8, "lambda_mu": 5.0}
    options = {"methods": ["nearest-mean", "nearest-system"], "metric": metric, **weights}
    trials = {
        source: ["test" if other == source else "train" for other in SOURCES]
        for source in dict.fromkeys(SOURCES)
    }
    by_group = run(data, trials=None, **options)
    by_trial = run(data, trials=trials, **options)
    assert by_group.protocol == "one source left out at a time (9 sources)"
    assert by_trial.groups == tuple(np.repeat(range(9), 2))
    # The last are averages, whose unit of distances is that of the training clips in trials.
    for method, again in zip(by_group.methods[:2], by_trial.methods[:2], strict=True):
        assert (method.predictions, method.rate) == (again.predictions, again.rate)
        assert method.p_value == again.p_value
        right = np.array(method.predictions) == data[1]
        assert again.trials == {source: right[source == SOURCES].mean() for source in trials}


def test_what_is_merged(data, everything):
    tested = np.concatenate([places("test", name) for name in TRIALS])
    assert [clip.label for clip in everything.clips] == data[1][tested].tolist()
    assert [clip.source for clip in everything.clips] == SOURCES[tested].tolist()
    sizes = [len(places("test", name)) for name in TRIALS]
    assert everything.groups == tuple(np.repeat(range(3), sizes))
    assert everything.protocol == "3 official trials (clips tested: first: 6, second: 4, third: 3)"
    assert everything.classes == ("class 0", "class 1", "class 2")
    right = {id(m): np.array(m.predictions) == data[1][tested] for m in everything.methods}
    for method in everything.methods:
        hits = right[id(method)]
        assert method.rate == rate(hits, SOURCES[tested])  # a clip of two trials is in one source
        main = everything.methods[0]
        # Each clip counts once, however often it is tested.
        once = [k for k, clip in enumerate(everything.clips) if clip not in everything.clips[:k]]
        assert method.p_value == (None if method is main else mcnemar(right[id(main)][once], hits[once]))
        assert method.trials == {
            name: part.mean()
            for name, part in zip(TRIALS, np.split(hits, np.cumsum(sizes)[:-1]), strict=True)
        }
    assert everything.confusion.sum() == len(tested)
    assert everything.accuracy == everything.methods[0].rate.share
    assert everything.single_group_classes == ()
    names = {m.name for m in everything.methods}
    assert names >= {f"stream systems, {grid.title}" for grid in GRIDS} | {"stream systems, means alone"}
    document = json.loads(json_text(everything.to_dict()))
    assert len(document["clips"]) == len(tested)
    assert [row["trials"] for row in document["methods"]] == [m.trials for m in everything.methods]


def test_each_trial_is_evaluated_as_if_it_were_alone(data, everything):
    for k, name in enumerate(TRIALS):
        alone = run(data, trials={name: TRIALS[name]}, compare=True, folds=FOLDS, n_jobs=2)
        assert alone.protocol == f"1 official trial (clips tested: {name}: {len(alone.clips)})"
        for method, merged in zip(alone.methods, everything.methods, strict=True):
            here = np.array(everything.groups) == k
            assert list(method.predictions) == np.array(merged.predictions)[here].tolist()
            assert method.trials == {name: merged.trials[name]}
            for setting, value in method.settings.items():
                counted = merged.settings[setting]
                text = f"{value:.3g}" if isinstance(value, float) else str(value)
                assert text in counted if isinstance(counted, dict) else counted == value


@pytest.mark.parametrize("classifier", ["1-NN", "nearest-mean", "linear SVM", "kernel-ridge"])
def test_vectors_of_three_codebooks(classifier):
    """Test clips are predicted with the codebook that has seen none of them, as if there were no other."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 10)
    groups = trial_groups(codes, ["test", "test", *["train"] * 8] * 2, folds=4)
    versions = [rng.gamma(1.0 + codes[:, None], size=(20, 3)) for _ in range(3)]
    items = EvaluationSet(
        clips=tuple(Clip(str(k), None, str(code)) for k, code in enumerate(codes)),
        groups=groups,
        codebook_folds=codebook_folds(codes, groups, 4),
        protocol="an official split",
        test_group=4,
    )
    [spec], [alone] = (
        vector_methods("words", points, items, [classifier], "chi2") for points in (versions, versions[:1])
    )
    (method, settings), (expected, expected_settings) = (
        evaluate_method(row, items, None) for row in (spec, alone)
    )
    assert (method.predictions, settings) == (expected.predictions, expected_settings)
    assert len(method.predictions) == 4
    [other] = vector_methods("words", versions[1:2], items, [classifier], "chi2")
    assert evaluate_method(other, items, None)[0].predictions != method.predictions


def test_methods_that_not_all_trials_have_are_left_out():
    first = replace(make_evaluation(3, 4), main=0, facts={"notes": ["one", "two"], "order": 3})
    less = replace(first, methods=first.methods[:3], facts={"notes": ["two", "three"]})
    less = replace(less, failures={Path("x.mp4"): VideoError("no video")}, classes=("aaa", *first.classes))
    merged = merge_trials({"a": first, "b": less})
    assert [(m.name, m.classifier) for m in merged.methods] == [
        (m.name, m.classifier) for m in first.methods[:3]
    ]
    assert merged.facts == {"notes": ["one", "two", "three"], "order": 3}
    assert merged.classes == ("aaa", *first.classes)
    assert list(merged.failures) == [Path("x.mp4")]
    assert len(merged.clips) == 24
    assert merged.groups == (0,) * 12 + (1,) * 12
    for method, original in zip(merged.methods, first.methods, strict=False):
        assert method.predictions == original.predictions * 2
        assert method.rate.right == 2 * original.rate.right
        assert method.trials == {"a": original.rate.share, "b": original.rate.share}
        assert method.settings == original.settings
        assert method.seconds == 2 * original.seconds
    # The same clips twice are no more than once: the interval is that of the sources.
    right = np.array(first.methods[0].predictions) == [clip.label for clip in first.clips]
    sources = [clip.source for clip in first.clips]
    assert merged.methods[0].rate == rate(np.tile(right, 2), sources * 2)


# --- what there is to see


def assert_details(result, systems, weights):
    """Every clip of the table is there, with its own system."""
    count = len(result.clips)
    details = result.details
    assert details.relations.distances.shape == (count, count)
    assert len(details.systems) == count
    for system, expected in zip(details.systems, systems, strict=True):
        np.testing.assert_array_equal(system.transition, expected.transition)
    expected = alignment_distance(systems[0], systems[-1], **weights)
    # Two identical clips are at distance 0 but for round-off.
    assert details.relations.distances[0, -1] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert [mean.label for mean in details.atlas] == list(result.classes)
    assert sorted(k for mean in details.atlas for k in mean.members) == list(range(count))


@pytest.mark.parametrize(
    "names", [["first"], ["first", "second"], ["first", "third"], list(TRIALS)], ids=" ".join
)
def test_details_and_report(data, tmp_path, names):
    """One trial, two that test different clips, two that test the same, and all."""
    result = run(data, trials={name: TRIALS[name] for name in names}, **WEIGHTS)
    tested = np.concatenate([places("test", name) for name in names])
    systems = [identify(data[0][k], ORDER) for k in tested]
    assert_details(result, systems, WEIGHTS)
    for method in result.methods:
        assert [one.label for one in method.explanations] == list(method.predictions)
        assert all(set(one.distances) <= set(result.classes) for one in method.explanations)
    write_report(tmp_path / "report.html", result)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{len(names)} official trial" in text
    json.loads(json_text(result.to_dict(details=True)))


def test_details_if_a_class_is_not_tested(data):
    trials = {"only": ["train"] * 6 + ["train", "test"] * 3 + ["test", "train"] * 3}
    result = run(data, trials=trials, **WEIGHTS)
    assert result.classes == ("class 0", "class 1", "class 2")
    assert [mean.label for mean in result.details.atlas] == ["class 1", "class 2"]


def test_a_stream_has_the_same_name_in_all_trials(data):
    trials = {name: TRIALS[name] for name in ("first", "second", "third")}
    result = evaluate(data[0], data[1], order=ORDER, trials=trials, methods=["nearest-system"], **WEIGHTS)
    tested = np.concatenate([places("test", name) for name in trials])
    assert [clip.name for clip in result.clips] == [f"{data[1][k]}/{k}" for k in tested]
    right = np.array(result.methods[0].predictions) == data[1][tested]
    assert result.methods[0].rate == rate(right, tested)


# --- clips

TEXTURES = ["waves", "rain", "grass"]
PARTS = ["train", "train", "train", "test"] * 3
FIXED = {"order": 2, **WEIGHTS}


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Twelve clips of three classes, of which the last of each class is tested."""
    paths, labels = make_clips(tmp_path_factory.mktemp("clips"), 4, 14, 64, 80, textures=TEXTURES)
    return paths, np.array(labels)


def fitted(model, systems, labels):
    train = [k for k, part in enumerate(PARTS) if part == "train"]
    test = [k for k, part in enumerate(PARTS) if part == "test"]
    return model.fit([systems[k] for k in train], labels[train]).predict([systems[k] for k in test]).tolist()


def test_no_codebook_is_learnt_from_test_clips(clips, tmp_path, monkeypatch):
    """Words are learnt three times; the codebook for the test clips is learnt without any of them."""
    paths, labels = clips
    learnt, usual = [], features.learn_words
    monkeypatch.setattr(
        features, "learn_words", lambda sample, *more: (learnt.append(sample), usual(sample, *more))[1]
    )
    bags = VisualWords(6, sampling="grid")
    options = {
        "bags": bags,
        "trials": {"t": PARTS},
        "methods": ["nearest-system", "nearest-mean"],
        "order": 2,
    }
    first = evaluate(paths, labels, **options)
    others, _ = make_clips(tmp_path / "others", 1, 14, 64, 80, textures=["fire", "wheel"])
    changed = [*paths[:7], others[0], *paths[8:11], others[1]]
    second = evaluate(changed, labels, **options)
    np.testing.assert_array_equal(learnt[0], learnt[3])
    assert any(a.shape != b.shape or (a != b).any() for a, b in zip(learnt[1:3], learnt[4:], strict=True))
    assert len(learnt) == 6
    for method, again in zip(first.methods, second.methods, strict=True):
        assert method.predictions[0] == again.predictions[0]
        assert method.settings == again.settings


def test_several_bags_and_unreadable_clips(clips, tmp_path):
    paths, labels = clips
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    still = write_clip(tmp_path / "still.mp4", np.repeat(moving_frames(1, 64, 80), 14, axis=0))
    trials = {"one": ["test", *PARTS, "train"], "two": ["train", *PARTS[1:], "test", "test"]}
    options = {"bags": {"LBP": LocalBinaryPatterns(), "colour": ColourHistogram()}, **FIXED}
    result = evaluate([broken, *paths, still], ["rain", *labels, "waves"], trials=trials, **options)
    expected = evaluate(paths, labels, trials={"one": PARTS, "two": [*PARTS[1:], "test"]}, **options)
    assert set(result.failures) == {broken, still}
    assert [clip.path for clip in result.clips] == [clip.path for clip in expected.clips]
    assert table(result) == table(expected)
    assert result.methods[0].name == "LBP + colour systems, alignment"
    assert result.methods[0].classifier == "kernel-ridge"
    assert len(result.details.systems) == len(result.clips)


@pytest.mark.parametrize("kind", ["broken", "still"])
@pytest.mark.parametrize("part", ["test", "train"])
def test_a_test_set_or_training_set_that_cannot_be_read(clips, tmp_path, kind, part):
    paths, labels = clips
    bad = [tmp_path / f"{k}.mp4" for k in range(3)]
    for path in bad:
        if kind == "broken":
            path.write_bytes(b"no video")
        else:
            write_clip(path, np.repeat(moving_frames(1, 64, 80), 14, axis=0))
    other = "train" if part == "test" else "test"
    trials = {"t": [*[other] * 12, *[part] * 3]}
    with pytest.raises(SysbagsError):
        evaluate([*paths, *bad], [*labels, *TEXTURES], trials=trials, **FIXED)


def test_the_cache_is_used_by_all_trials(clips, tmp_path, monkeypatch):
    """A clip is read once, however many trials it is in; without a folder, too."""
    paths, labels = clips
    reads, usual = [], streams.describe
    monkeypatch.setattr(streams, "describe", lambda bags, path: (reads.append(path), usual(bags, path))[1])
    trials = {"one": PARTS, "two": PARTS[1:] + PARTS[:1], "three": PARTS}
    evaluate(paths, labels, trials=trials, methods=["nearest-system"], **FIXED)
    assert sorted(reads) == sorted(paths)


# --- mistakes


def test_words_of_trials():
    assert check_trials({"a": [" Train", "TEST ", ""]}, 3) == {"a": ["train", "test", ""]}
    assert check_trials({"a": np.array(["train", "test"]), "b": ("test", "train")}, 2) == {
        "a": ["train", "test"],
        "b": ["test", "train"],
    }


@pytest.mark.parametrize(
    ("trials", "sentence"),
    [
        (None, 'the protocol "predefined" needs trials: official splits'),
        ({}, 'the protocol "predefined" needs trials: official splits'),
        ({"a": ["train", "test"]}, "the trial 'a' has 2 words, but there are 18 clips"),
        ({"a": ["train"] * 17 + ["tset"]}, "clip 17 has 'tset' in the trial 'a'"),
        ({"a": ["train"] * 18}, "the trial 'a' has no 'test'"),
        ({"first": TRIALS["first"], "b": ["test"] * 18}, "the trial 'b' has no 'train'"),
    ],
)
def test_mistakes(data, trials, sentence):
    with pytest.raises(ParameterError) as caught:
        run(data, trials=trials, protocol="predefined")
    assert sentence in str(caught.value)


def test_small_training_sets(data):
    """One clip, which needs no folds, or one of each class."""
    for train in ([3], [3, 9, 16]):
        parts = ["train" if k in train else "test" for k in range(COUNT)]
        result = run(data, trials={"t": parts}, **WEIGHTS)
        systems = [identify(stream, ORDER) for stream in data[0]]
        tested = [k for k in range(COUNT) if k not in train]
        distances = [[alignment_distance(systems[j], systems[k], **WEIGHTS) for j in train] for k in tested]
        expected = [data[1][train[row]] for row in np.argmin(distances, axis=1)]
        assert predictions(result, classifier="nearest-system") == [expected]
        assert predictions(result, classifier="nearest-mean") == [expected]


def test_labels_keep_their_kind(data):
    labels = np.array([int(label[-1]) * 10 for label in data[1]])
    result = run(data, labels=labels, methods=["nearest-system"], **WEIGHTS)
    expected = run(data, methods=["nearest-system"], **WEIGHTS)
    assert result.predictions.dtype.kind == "i"
    assert [f"class {label // 10}" for label in result.predictions] == expected.predictions.tolist()


@pytest.mark.parametrize("trials", [[["train", "test"]], ["train", "test"], "train"])
def test_trials_are_a_mapping(data, trials):
    with pytest.raises(ParameterError, match="it must be a mapping from the name of a trial"):
        evaluate(data[0], data[1], trials=trials, protocol="predefined")


def test_a_class_that_is_tested_but_not_trained_is_named(data):
    parts = ["test" if label == "class 0" else "train" for label in data[1]]
    result = run(data, trials={"only": parts}, methods=["nearest-system"], **WEIGHTS)
    assert result.facts["notes"] == ["the class class 0 is tested, but a training set has no clip of it"]
    assert result.accuracy == 0.0
