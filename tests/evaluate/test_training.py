"""Training: the choice and the estimate of an evaluation, and a calibration in the units of the model."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import sysbags
from clips import moving_frames, write_clip
from evaluations import evaluate, train
from sysbags.bags import ColourHistogram, LocalBinaryPatterns, VisualWords
from sysbags.classifiers.calibration import Calibration
from sysbags.classifiers.scores.moments import TERMS
from sysbags.datasets import make_clips, make_streams
from sysbags.errors import ParameterError
from sysbags.evaluate import training
from sysbags.evaluate.splits import protocol_groups
from sysbags.evaluate.training import SIZES, choose_size

TEXTURES = ["waves", "rain", "grass"]
KINDS = ("kernel-ridge", "nearest-mean", "nearest-system")
PAPER = {"order": 2, "lambda_a": 0.25, "lambda_mu": 5.0}
COVARIANCES = {"order": 2, "metric": "normalized-covariance"}
SOURCES = ["a", "a", "b", "c", "d", "d", "e", "f", "g", "g", "h", "i"]


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Twelve clips of three classes, and a cache for what is read from them."""
    folder = tmp_path_factory.mktemp("training")
    paths, labels = make_clips(folder / "clips", 4, 14, 48, 64, textures=TEXTURES)
    return paths, np.array(labels), folder / "cache"


def both():
    return {"LBP": LocalBinaryPatterns(), "colour": ColourHistogram()}


def systems_of(trained, paths):
    return trained.pipeline[:-1].transform(paths)


def left_out(model, systems, labels, groups):
    """Scores and distances of each clip by a classifier that is fitted to the other groups.

    The units of bags, of the ridge and of the weights of classes are those of all clips, as in evaluations:
    so the parameters are adjusted until they are.
    """
    classes = np.unique(labels)
    scores, distances = np.full((2, len(labels), len(classes)), np.inf) * [[[-1.0]], [[1.0]]]
    for group in np.unique(groups):
        rest, own = np.flatnonzero(groups != group), np.flatnonzero(groups == group)
        known = [systems[k] for k in rest]
        twin = clone(model).fit(known, labels[rest])
        if len(model.scales_) > 1:
            twin.set_params(bag_weights=twin.scales_ / model.scales_).fit(known, labels[rest])
        if hasattr(model, "variance_"):
            sizes = [len(some) / len(np.unique(some)) for some in (labels, labels[rest])]
            ridge = model.ridge * model.variance_ / twin.variance_ * sizes[1] / sizes[0]
            twin.set_params(ridge=ridge).fit(known, labels[rest])
        compared = twin.compare([systems[k] for k in own])
        cells = np.ix_(own, np.searchsorted(classes, twin.classes_))
        scores[cells] = model._calibrated_scores(compared.scores)
        distances[cells] = compared.distances
    return scores, distances


# Which of the alternatives is taken: all bags, or one of two.
CHOICES = {
    "kernel-ridge": {"LBP + colour": 0, "colour": 16},
    "nearest-mean": {"LBP + colour": 0, "colour": 2},
    "nearest-system": {"LBP + colour": 0, "colour": 2},
}


@pytest.mark.parametrize("options", [PAPER, COVARIANCES | {"lambda_a": 0.9, "lambda_mu": 0.5}])
@pytest.mark.parametrize("chosen", ["only one", "LBP + colour", "colour"])
@pytest.mark.parametrize("kind", KINDS)
def test_clips_are_calibrated_in_the_units_of_the_model(clips, monkeypatch, kind, chosen, options):
    """The calibration is that of scores and distances of the model itself, fitted without each source."""
    paths, labels, cache = clips
    bags = LocalBinaryPatterns() if chosen == "only one" else both()
    if chosen != "only one":
        place = CHOICES[kind][chosen]
        monkeypatch.setattr(training, "choose", lambda *_: (place, None))
    trained = train(paths, labels, SOURCES, classifier=kind, compress=None, bags=bags, cache=cache, **options)
    assert trained.settings.get("bags", "only one") == chosen
    model, systems = trained.pipeline[-1], systems_of(trained, paths)
    assert len(model.scales_) == len(model.weights_) == 1 + ("+" in chosen)
    codes = np.unique(labels, return_inverse=True)[1]
    scores, distances = left_out(model, systems, labels, np.array(SOURCES))
    expected = Calibration.fit(scores, distances, codes, SOURCES)
    found = model.calibration_
    np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-6)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-12)
    if kind == "kernel-ridge" and options is PAPER:
        return  # alignment distances are repaired for all clips at once here, for those of the model there
    assert found.temperature == pytest.approx(expected.temperature, rel=1e-5)
    np.testing.assert_allclose(found.surprise, expected.surprise, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", [*KINDS, "auto"])
@pytest.mark.parametrize("groups", [None, SOURCES])
def test_the_estimate_is_that_of_an_evaluation(clips, kind, groups):
    paths, labels, cache = clips
    options = {**COVARIANCES, "bags": both(), "cache": cache}
    trained = train(paths, labels, groups, classifier=kind, **options)
    method, averages = evaluate(paths, labels, groups, methods=[kind], **options).methods
    assert trained.averages.predictions == averages.predictions
    assert trained.averages.name == averages.name == "LBP + colour averaged over time"
    assert trained.method.predictions == method.predictions
    assert trained.method.settings == method.settings
    assert trained.method.rate == method.rate
    assert trained.method.name == method.name
    for name in ("probabilities", "p_values"):
        np.testing.assert_array_equal(
            getattr(trained.method.confidence, name), getattr(method.confidence, name)
        )
    assert trained.tried > 1
    assert ("classifier" in trained.chosen) == (kind == "auto")
    assert set(trained.chosen) <= set(trained.settings)


@pytest.mark.parametrize("groups", [None, SOURCES])
def test_the_classifier_of_streams_is_the_default(clips, groups):
    paths, labels, cache = clips
    trained = train(paths, labels, groups, bags=both(), cache=cache)
    streams = list(trained.pipeline[0].transform(paths))
    model = sysbags.StreamClassifier().fit(streams, labels, groups)
    assert [type(step).__name__ for step in trained.pipeline] == ["BagUnion", "StreamClassifier"]
    np.testing.assert_array_equal(trained.pipeline.decision_function(paths), model.decision_function(streams))
    assert trained.method.rate.share == model.accuracy_
    assert trained.averages.rate.share == model.averages_accuracy_
    # An evaluation fits the same without the clips that it predicts: here one fold is fitted by hand.
    rows = evaluate(paths, labels, groups, bags=both(), cache=cache, methods=["moments"]).methods
    assert [(row.name, row.kind) for row in rows] == [
        ("LBP + colour streams", "systems"),
        ("LBP + colour averaged over time", "averages"),
    ]
    units = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    folds = min(10, len(np.unique(units)))
    for row in rows:
        found = row.settings
        assert found["components"] == 32
        members = {name: sum(found[name].values()) for name in ("terms", "width", "ridge")}
        assert members == dict.fromkeys(members, 10 * folds)  # ten vote in each
        named = {term for terms in found["terms"] for term in terms.split(" + ")}
        shown = {part.rpartition(" ")[0].rpartition(" ")[0] for part in found["compared"].split(", ")}
        assert shown <= named <= {f"{bag} {term}" for bag in ("LBP", "colour") for term in TERMS}
    assert rows[1].settings["compared"].count("averages") == rows[1].settings["compared"].count("%")
    if len(np.unique(units)) <= 10:  # each group is a fold
        inside = units == units[0]
        training = np.flatnonzero(~inside)
        twin = sysbags.StreamClassifier().fit(
            [streams[k] for k in training], labels[training], units[training]
        )
        expected = twin.predict([streams[k] for k in np.flatnonzero(inside)])
        assert [rows[0].predictions[k] for k in np.flatnonzero(inside)] == expected.tolist()
        reasons = twin.explain([streams[k] for k in np.flatnonzero(inside)])
        for k, one in zip(np.flatnonzero(inside), reasons, strict=True):
            found = rows[0].explanations[k]
            assert (found.label, found.parts) == (one.label, pytest.approx(one.parts))
            assert found.distances == pytest.approx(one.distances)


def test_auto_takes_the_more_accurate_of_streams_and_systems(clips):
    paths, labels, cache = clips
    options = {"bags": "lbp", "cache": cache}
    auto, moments = (train(paths, labels, classifier=name, **options) for name in ("auto", "moments"))
    assert auto.method.rate.share >= moments.method.rate.share
    assert auto.settings["classifier"] in ("moments", *KINDS)


@pytest.mark.parametrize("kind", ["nearest-mean", "nearest-system"])
def test_an_evaluation_predicts_what_a_model_of_the_rest_predicts(clips, kind):
    """The weight is chosen by the same rule: nothing but the clip that is predicted is missing."""
    paths, labels, cache = clips
    options = {"order": 2, "lambda_a": 0.25, "bags": LocalBinaryPatterns(), "cache": cache}
    method, _ = evaluate(paths, labels, methods=[kind], **options).methods
    for k, label in enumerate(method.predictions):
        rest = [j for j in range(len(paths)) if j != k]
        trained = train([paths[j] for j in rest], labels[rest], classifier=kind, compress=None, **options)
        [reason] = trained.pipeline[-1].explain(trained.pipeline[:-1].transform([paths[k]]))
        assert reason.label == method.explanations[k].label == label
        # Means are iterated to six digits.
        assert method.explanations[k].distances == pytest.approx(reason.distances, rel=1e-4)


def test_words_are_learnt_from_all_clips(clips):
    """The model has a codebook of its own; those of the estimate have not seen the clips that are tested."""
    paths, labels, cache = clips
    words = VisualWords(6, sampling="grid")
    bags = {"LBP": LocalBinaryPatterns(), "words": words}
    trained = train(paths, labels, classifier="nearest-system", bags=bags, cache=cache, **COVARIANCES)
    assert trained.settings["bags"] == "LBP + words"
    _, learnt = trained.pipeline["bags"].bags_
    np.testing.assert_array_equal(learnt.words_, clone(words).fit(paths).words_)
    chances = trained.pipeline.predict_proba(paths)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    assert not hasattr(words, "words_")  # what is given is not modified


def test_bad_clips_and_lonely_classes(clips, tmp_path):
    paths, labels, cache = clips
    (tmp_path / "bad.mp4").write_text("no video")
    some = [*paths[:8], paths[8], tmp_path / "bad.mp4"]
    names = [*labels[:9], "grass"]
    trained = train(some, names, bags="lbp", classifier="nearest-system", cache=cache, **PAPER)
    assert [path.name for path in trained.failures] == ["bad.mp4"]
    assert len(trained.items.codes) == 9
    assert trained.single_group_classes == ("grass",)
    model = trained.pipeline[-1]
    assert len(model.calibration_.distances) == 8  # of grass nothing is left when it is left out
    assert model.classes_.tolist() == ["grass", "rain", "waves"]
    with pytest.raises(ParameterError, match=r"methods is .forest."):
        train(paths, labels, classifier="forest")
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        train(paths, labels, weights=1.0)


def test_a_clip_that_a_further_bag_cannot_use_is_skipped(clips, tmp_path):
    paths, labels, cache = clips
    short = write_clip(tmp_path / "short.mp4", moving_frames(8, 48, 64))
    bags = {"LBP": LocalBinaryPatterns(), "late": ColourHistogram(frames={"start": 9})}
    given = [*paths, short], [*labels, "grass"]
    result = evaluate(*given, bags=bags, methods=["nearest-system"], cache=cache, **PAPER)
    trained = train(*given, bags=bags, classifier="nearest-system", cache=cache, **PAPER)
    for failures in (result.failures, trained.failures):
        [(path, error)] = failures.items()
        assert path == short
        assert str(error).startswith("the bag late: ")
        assert "short.mp4" in str(error)
    assert len(result.clips) == len(trained.items.clips) == 12
    method, _ = evaluate(paths, labels, bags=bags, methods=["nearest-system"], cache=cache, **PAPER).methods
    assert trained.method.predictions == result.methods[0].predictions == method.predictions


def test_a_clip_without_a_system_of_the_first_bag_is_skipped(clips, tmp_path):
    """The sentence names the bag if there are several."""
    paths, labels, cache = clips
    short = write_clip(tmp_path / "short.mp4", moving_frames(10, 48, 64))
    late = {"late": ColourHistogram(frames={"start": 9})}
    for bags, name in ((late | {"LBP": LocalBinaryPatterns()}, "the bag late: "), (late, "")):
        given = [*paths, short], [*labels, "grass"]
        trained = train(*given, bags=bags, classifier="nearest-system", cache=cache, **PAPER)
        [(path, error)] = trained.failures.items()
        assert path == short
        assert str(error).startswith(f"{short}: {name}the stream has one frame")


def test_a_bag_with_few_frames_gets_a_note(clips):
    """Of 14 frames every fourth are 4: a system of order 3 has as many states as that allows."""
    paths, labels, cache = clips
    options = {"classifier": "kernel-ridge", "metric": "normalized-covariance", "cache": cache}
    bags = both()
    for stride, order, count in ((2, None, 0), (4, 3, 0), (4, None, 1)):
        bags["colour"].set_params(frames={"stride": stride})
        notes = train(paths, labels, bags=bags, order=order, **options).notes
        assert len(notes) == count
    assert notes[0].startswith("most clips have too few frames for order 5 (colour): their systems")
    assert notes[0].endswith("say little about dynamics; a smaller --stride helps")
    options["methods"] = [options.pop("classifier")]
    assert tuple(evaluate(paths, labels, bags=bags, **options).facts["notes"]) == notes


# --- compression

LABELS = np.repeat(list("abc"), 8)


@pytest.fixture(scope="module")
def streams():
    """Two bags of 24 clips with 60 frames."""
    return [
        make_streams(classes=3, per_class=8, frames=60, bins=bins, noise=1.5, random_state=seed)[0]
        for bins, seed in ((40, 0), (30, 1))
    ]


MODELS = {
    "kernel-ridge": sysbags.KernelRidgeClassifier(),
    "nearest-mean": sysbags.NearestMean(lambda_a="scale", lambda_mu="scale"),
    "nearest-system": sysbags.NearestSystem(metric="covariance", lambda_a="scale", lambda_mu="scale"),
}


def relative_change(scores, expected):
    """By loops: what changes the scores of classes against each other, to how they differ."""
    change = [row - row.mean() for row in scores - expected]
    spread = [row - row.mean() for row in expected]
    return np.sqrt(np.sum(np.square(change)) / np.sum(np.square(spread)))


@pytest.mark.parametrize("bags", [1, 2])
@pytest.mark.parametrize("kind", MODELS)
def test_the_smallest_size_that_changes_no_prediction(streams, tmp_path, kind, bags):
    identifier = sysbags.SystemIdentifier(3, normal_form="unit-variance")
    views = [identifier.fit_transform(view) for view in streams[:bags]]
    systems = views[0] if bags == 1 else list(zip(*views, strict=True))
    groups = np.arange(24) // 2
    found = choose_size(MODELS[kind], systems, LABELS, groups)
    folds = protocol_groups(LABELS, "folds", groups, folds=5)
    training_clips, tested = np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)
    assert not set(groups[training_clips]) & set(groups[tested])
    exact = clone(MODELS[kind]).fit([systems[k] for k in training_clips], LABELS[training_clips])
    new = [systems[k] for k in tested]
    expected = exact.compare(new)
    changes = {}
    for size in SIZES:
        smaller = exact.compressed(size).compare(new)
        error = relative_change(smaller.scores, expected.scores)
        changes[size] = error, int((smaller.codes != expected.codes).sum())
    good = [size for size, (error, changed) in changes.items() if error <= 0.05 and not changed]
    assert found.size == (good[0] if good[0] < (60 if kind != "nearest-mean" else 300) else None)
    assert found.clips == len(tested)
    if found.size is not None:
        assert found.error == pytest.approx(changes[found.size][0], rel=1e-9)
        assert found.changed == 0
    # All samples change nothing but round-off.
    largest = max(s.size for item in exact.members_ for s in (item if bags > 1 else [item]))
    complete = exact.compressed(largest)
    np.testing.assert_array_equal(complete.compression_errors_, 0.0)
    np.testing.assert_allclose(complete.compare(new).scores, expected.scores, rtol=1e-9, atol=1e-12)
    assert changes[10][0] > changes[40][0]
    sizes = []
    for size in (10, 40, largest):
        sysbags.save(tmp_path / "model", exact.compressed(size))
        sizes.append((tmp_path / "model").stat().st_size)
    assert sizes == sorted(set(sizes))


def test_a_center_needs_as_many_samples_as_its_order(streams):
    """An average of covariances has the sum of the orders of its members, here of six or seven clips."""
    systems = sysbags.SystemIdentifier(3, normal_form="unit-variance").fit_transform(streams[0])
    model = sysbags.NearestMean(metric="covariance", lambda_a="scale", lambda_mu="scale")
    found = choose_size(model, systems, LABELS, np.arange(24))
    assert found.size is None or found.size >= 18
    model.fit(systems, LABELS)
    with pytest.raises(ParameterError, match="size is 10, but an observer of order 24 needs at least 24"):
        model.compressed(10)


def test_nothing_to_hold_out(streams):
    systems = sysbags.SystemIdentifier(2, normal_form="unit-variance").fit_transform(streams[0][:4])
    labels = np.array(list("aabb"))
    model = sysbags.KernelRidgeClassifier()
    assert choose_size(model, systems, labels, np.zeros(4, dtype=int)) == (None, 0.0, 0, 0)
    assert choose_size(model, systems, np.array(list("aaaa")), np.arange(4)) == (None, 0.0, 0, 0)
    # With the first group, the class a is gone.
    assert choose_size(model, systems, labels, np.array([0, 0, 1, 2])).size in (None, 10, 20, 40)


@pytest.mark.parametrize("compress", [None, 9, "auto"])
def test_the_size_of_a_model(clips, tmp_path, compress):
    paths, labels, cache = clips
    options = {"bags": both(), "cache": cache, **COVARIANCES}
    trained = train(paths, labels, classifier="kernel-ridge", compress=compress, **options)
    sizes = {system.size for item in trained.pipeline[-1].systems_ for system in item}
    if compress == "auto":
        assert trained.compression.changed == 0
        assert sizes == ({14} if trained.compression.size is None else {trained.compression.size})
    else:
        assert (sizes, trained.compression.size) == (({14}, None) if compress is None else ({9}, 9))
    assert trained.pipeline.predict(paths).shape == (12,)


def test_a_size_that_cannot_be(clips):
    paths, labels, cache = clips
    with pytest.raises(ParameterError, match="compress"):
        train(paths, labels, classifier="nearest-system", compress=0, bags="lbp", cache=cache, **PAPER)
