"""`sysbags fit` and `sysbags classify` on clips of two classes that are easy to tell apart."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import sysbags
from cli_folder import FRAMES, call, call_json, flicker, make_classes, waves
from clips import write_clip
from evaluations import chosen_settings, evaluate
from sysbags.cli import main
from sysbags.distances.gram import SystemStack
from sysbags.distances.pairwise import scaled_weights
from sysbags.evaluate import leave_one_out

# What JSON and the settings of a choice call the same.
SETTINGS = {
    "metric": "metric",
    "normal_form": "normal form",
    "lambda_a": "lambda_a",
    "lambda_mu": "lambda_mu",
}
CLASSES = {
    "nearest-mean": sysbags.NearestMean,
    "nearest-system": sysbags.NearestSystem,
    "kernel-ridge": sysbags.KernelRidgeClassifier,
}
FORMS = [
    ("alignment", "orthonormal"),
    ("alignment", "unit-variance"),
    ("covariance", "unit-variance"),
    ("normalized-covariance", "unit-variance"),
]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return make_classes(tmp_path_factory.mktemp("fit") / "clips")


@pytest.fixture(scope="module")
def unseen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unseen")
    return [write_clip(folder / "a.mp4", waves(7)), write_clip(folder / "b.mp4", flicker(7))]


@pytest.fixture(scope="module")
def models(classes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in ("nearest-mean", "nearest-system"):
        words = ["--classifier", name, "--order", "3", "--lambda-a", "0.25", "--lambda-mu", "1", "--json"]
        words += ["--compress", "none"]
        assert main(["fit", str(classes), "--out", str(folder / name), *words]) == 0
    return folder


def systems_of(classes, order=3, normal_form="orthonormal"):
    paths = sorted(classes.glob("*/*.mp4"))
    return identified(paths, order, normal_form), [path.parent.name for path in paths]


def identified(paths, order=3, normal_form="orthonormal"):
    streams = sysbags.bags.LocalBinaryPatterns().transform(paths)
    return sysbags.SystemIdentifier(order, normal_form=normal_form).transform(streams)


def test_fit_says_what_it_did(capsys, classes, tmp_path):
    code, out, err = call(capsys, "fit", classes, "--out", tmp_path / "m", "--order", 3)
    assert (code, err) == (0, "")
    assert "6 clips of 2 classes, 0 skipped" in out
    assert re.search(
        r"^kernel-ridge, metric \S+ of \S+ states, lambda_a = \S+, lambda_mu = \S+\n"
        r"settings chosen from \d+ settings by leave-one-clip-out$",
        out,
        re.M,
    )
    assert re.search(
        r"^accuracy by nested cross-validation, leave-one-clip-out: \S+ % \(\d of 6; 95 % interval \S+ to "
        r"\S+ %\)\naverages over time alone: \S+ %\nalways predicting the most frequent class: 50\.0 %$",
        out,
        re.M,
    )
    shown = call_json(capsys, "inspect", tmp_path / "m")
    for text, value in re.findall(r"(accuracy|averages|always)[^\n]*: (\S+) %", out):
        name = {"averages": "averages_accuracy", "always": "most_frequent_accuracy"}.get(text, text)
        assert f"{100 * shown[name]:.1f}" == value
    assert str(tmp_path / "m") in out
    assert "frames and bags" in out
    words = ("--metric", "covariance", "--lambda-a", 0.5, "--lambda-mu", 0, "--classifier", "nearest-mean")
    code, out, err = call(capsys, "fit", classes, "--out", tmp_path / "m", "--order", 3, *words)
    assert (code, err) == (0, "")
    assert "nearest-mean, metric covariance of unit-variance states, lambda_a = 0.5, lambda_mu = 0\n" in out
    assert "settings as given\n" in out
    assert re.search(
        r"MB\); 10 samples per system are kept: for 2 held-out clips this changes no prediction, and the "
        r"scores by \d\.\d %\n",
        out,
    )


def test_fit_and_classify_take_the_classifier_of_streams_by_default(capsys, classes, tmp_path):
    code, out, err = call(capsys, "fit", classes, "--out", tmp_path / "m")
    assert (code, err) == (0, "")
    assert re.search(r"^moments, squared distances: (\w[\w ]* \d+ %(, )?)+$", out, re.M)
    assert re.search(
        r"^accuracy by nested cross-validation, folds of clips left out: \S+ % \(\d of 6; .*\)\n"
        r"averages over time alone: \S+ %\nalways predicting the most frequent class: 50\.0 %$",
        out,
        re.M,
    )
    facts = call_json(capsys, "fit", classes, "--out", tmp_path / "m")
    paths = sorted(classes.glob("*/*.mp4"))
    streams = sysbags.bags.LocalBinaryPatterns().transform(paths)
    model = sysbags.StreamClassifier().fit(streams, [path.parent.name for path in paths])
    assert (facts["accuracy"], facts["averages_accuracy"]) == (model.accuracy_, model.averages_accuracy_)
    document = call_json(capsys, "classify", tmp_path / "m", *paths[:2], "--coverage", "90%")
    for entry, known in zip(document["clips"], model.explain(streams[:2]), strict=True):
        assert entry["label"] == known.label
        assert entry["probabilities"] == known.probabilities
        assert entry["squared_parts"] == known.parts
        assert set(entry["set"]) <= {"flicker", "waves"}
    code, _, err = call(capsys, "distance", *paths[:2], "--model", tmp_path / "m")
    assert (code, "has no systems to compare" in err) == (2, True)


@pytest.mark.parametrize("classifier", ["nearest-mean", "nearest-system"])
def test_settings_are_chosen_by_leave_one_out_on_the_training_clips(capsys, classes, tmp_path, classifier):
    words = ("--order", 3, "--classifier", classifier)
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    systems, labels = systems_of(classes)
    chosen = chosen_settings(systems, labels, classifier=classifier)
    for name, key in SETTINGS.items():
        assert output[name] == chosen.settings[key]
    assert output["settings_tried"] == len(chosen.tried) > 40
    # The accuracy is honest: that of the evaluation, in which the choice is made without each clip.
    paths = sorted(classes.glob("*/*.mp4"))
    kind = classifier
    estimate = evaluate(paths, labels, methods=[kind], order=3).methods[0].rate
    assert (output["right"], output["accuracy"]) == (estimate.right, estimate.share)
    assert output["accuracy_interval"] == [estimate.low, estimate.high]
    # The nearest mean is that of the alignment distance.
    assert output["chosen"] == list(SETTINGS)[classifier == "nearest-mean" :]
    assert output["classes"] == {"flicker": 3, "waves": 3}
    assert (output["clips"], output["skipped"], output["left_out"]) == (6, [], "clip")
    assert all(seconds >= 0 for seconds in output["seconds"].values())
    options = {name: output[name] for name in ("metric", "lambda_a", "lambda_mu")}
    steps = sysbags.load(tmp_path / "m").named_steps
    assert steps["systems"].normal_form == output["normal_form"]
    for name, value in options.items():
        assert getattr(steps["classify"], name) == value


@pytest.mark.parametrize(("metric", "form"), FORMS)
def test_a_metric_and_a_form_may_be_given(capsys, classes, tmp_path, metric, form):
    words = ("--order", 3, "--metric", metric, "--normal-form", form, "--classifier", "nearest-mean")
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    chosen = chosen_settings(*systems_of(classes), metric=metric, normal_form=form)
    assert (output["metric"], output["normal_form"]) == (metric, form)
    assert (output["lambda_a"], output["lambda_mu"]) == (
        chosen.settings["lambda_a"],
        chosen.settings["lambda_mu"],
    )
    assert output["settings_tried"] == len(chosen.tried)
    assert output["chosen"] == ["lambda_a", "lambda_mu"]
    if form == "unit-variance":
        # The weights are multiples of those with which all parts have the same unit.
        units = scaled_weights(SystemStack.of(systems_of(classes, normal_form=form)[0]), metric)
        multiples = [
            min(abs(output[name] / unit - multiple) for multiple in (0.0, 0.1, 0.5, 1.0, 10.0))
            for name, unit in zip(("lambda_a", "lambda_mu"), units, strict=True)
        ]
        assert max(multiples) < 1e-9  # the CrossGram is rescaled, or computed from the systems


@pytest.mark.parametrize("metric", ["covariance", "normalized-covariance"])
def test_a_metric_implies_its_form(capsys, classes, tmp_path, metric):
    words = ("--order", 3, "--classifier", "kernel-ridge", "--metric", metric)
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    assert (output["metric"], output["normal_form"]) == (metric, "unit-variance")
    assert output["chosen"] == ["lambda_a", "lambda_mu", "width", "ridge"]


def test_one_weight_given(capsys, classes, tmp_path):
    """It is that of the paper: the alignment distance in the orthonormal form."""
    words = ("--order", 3, "--lambda-a", 4, "--classifier", "nearest-system")
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    systems, labels = systems_of(classes)
    chosen = chosen_settings(systems, labels, lambda_a=4.0, classifier="nearest-system")
    assert (output["metric"], output["normal_form"]) == ("alignment", "orthonormal")
    assert (output["lambda_a"], output["lambda_mu"]) == (4.0, chosen.settings["lambda_mu"])
    assert output["chosen"] == ["lambda_mu"]
    result = leave_one_out(
        sysbags.cross_gram(systems),
        labels,
        lambda_a=4.0,
        lambda_mu=output["lambda_mu"],
        classifier="nearest-system",
    )
    assert result.accuracy == chosen.accuracy


def test_weights_of_a_metric_are_numbers_in_its_own_unit(capsys, classes, tmp_path):
    words = ("--order", 3, "--classifier", "nearest-mean", "--metric", "covariance")
    words = (*words, "--lambda-a", 0.25, "--lambda-mu", 0.125)
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    assert (output["lambda_a"], output["lambda_mu"]) == (0.25, 0.125)
    assert (output["settings_tried"], output["chosen"]) == (1, [])
    words = ("--order", 3, "--classifier", "nearest-mean", "--normal-form", "unit-variance", "--lambda-mu", 3)
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    assert (output["metric"], output["normal_form"]) == ("alignment", "unit-variance")
    assert (output["lambda_mu"], output["chosen"]) == (3.0, ["lambda_a"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--metric", "covariance", "--normal-form", "orthonormal"),
            "the metric covariance needs the unit-variance form, but the form is orthonormal",
        ),
        (
            ("--normal-form", "upright"),
            "normal_form is 'upright', but it must be one of 'orthonormal', 'unit",
        ),
        (("--metric", "martin"), "'martin' is not one of 'alignment', 'covariance', 'normalized-covariance'"),
        (("--metric", "covariance", "--lambda-a", "2"), "lambda_a is 2.0, but it must be a number in [0, 1]"),
        (
            ("--lambda-a", "scale"),
            "--lambda-a is 'scale', but it must be a number that is 0 or more, or auto",
        ),
    ],
)
def test_settings_that_cannot_be(capsys, classes, tmp_path, words, sentence):
    code, out, err = call(capsys, "fit", classes, "--out", tmp_path / "m", "--order", 3, *words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert sentence in err
    assert list(tmp_path.iterdir()) == []


def test_sources_are_left_out_together(capsys, classes, tmp_path):
    folder = shutil.copytree(classes, tmp_path / "clips")
    rows = [f"{path.parent.name}/{path.name},{path.stem}" for path in sorted(folder.glob("*/*.mp4"))]
    (folder / "index.csv").write_text("\n".join(["clip,source", *rows]))
    words = ("--order", 3, "--classifier", "nearest-mean")
    output = call_json(capsys, "fit", folder, "--out", tmp_path / "m", *words)
    groups = ["0", "1", "2"] * 2
    chosen = chosen_settings(*systems_of(folder), groups=groups)
    assert output["left_out"] == "source"
    for name, key in SETTINGS.items():
        assert output[name] == chosen.settings[key]
    paths, labels = sorted(folder.glob("*/*.mp4")), ["flicker"] * 3 + ["waves"] * 3
    estimate = evaluate(paths, labels, groups, methods=["nearest-mean"], order=3)
    assert output["accuracy"] == estimate.methods[0].rate.share
    model = sysbags.load(tmp_path / "m")
    assert output["smallest_alpha"] == model[-1].calibration_.smallest_alpha == 1 / 4  # three sources
    (folder / "index.csv").write_text("\n".join(["clip,source", *(row[:-1] + "x" for row in rows)]))
    code, out, err = call(capsys, "fit", folder, "--out", tmp_path / "m", "--order", 3)
    assert code == 0
    assert "all clips have the same source" in err
    assert "leave-one-clip-out" in out


def test_labels_of_an_index(capsys, classes, unseen, tmp_path):
    """No class folders, and labels that are not the names of folders; trials play no part."""
    folder = tmp_path / "flat"
    folder.mkdir()
    rows = []
    for path in sorted(classes.glob("*/*.mp4")):
        name = f"{path.parent.name[0]}{path.name}"
        shutil.copy(path, folder / name)
        rows.append(f"{name},{path.parent.name.upper()},train")
    (folder / "index.csv").write_text("\n".join(["clip,label,split", *rows]).replace("train", "test", 1))
    words = ("--order", 3, "--classifier", "nearest-mean")
    output = call_json(capsys, "fit", folder, "--out", tmp_path / "m", *words)
    assert (output["classes"], output["clips"]) == ({"FLICKER": 3, "WAVES": 3}, 6)
    clips = call_json(capsys, "classify", tmp_path / "m", *unseen)["clips"]
    assert [clip["label"] for clip in clips] == ["WAVES", "FLICKER"]
    folders = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    for name in (*SETTINGS, "accuracy"):
        assert output[name] == folders[name]


@pytest.mark.parametrize("classifier", CLASSES)
@pytest.mark.parametrize(("metric", "form"), FORMS)
def test_a_model_classifies_as_the_classifier_that_it_was(
    capsys, classes, unseen, tmp_path, metric, form, classifier
):
    """In whatever form and metric: the same after saving and loading, in Python and at the command line."""
    words = ("--order", 3, "--metric", metric, "--normal-form", form, "--classifier", classifier)
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words, "--compress", "none")
    systems, labels = systems_of(classes, normal_form=form)
    options = {name: output[name] for name in ("metric", "lambda_a", "lambda_mu")}
    if classifier == "kernel-ridge":
        width = None if output["width"] == "none" else output["width"]
        options |= {"ridge": output["ridge"], "width": width}
    twin = CLASSES[classifier](**options).fit(systems, labels)
    expected = twin.explain(identified(unseen, normal_form=form))
    clips = call_json(capsys, "classify", tmp_path / "m", *unseen)["clips"]
    model = sysbags.load(tmp_path / "m")
    assert model.predict(unseen).tolist() == [clip["label"] for clip in clips]
    if classifier != "kernel-ridge":  # which has little to learn from six clips
        assert [clip["label"] for clip in clips] == ["waves", "flicker"]
    for clip, explanation in zip(clips, expected, strict=True):
        assert clip["label"] == explanation.label
        assert list(clip["squared_distances"]) == list(explanation.distances)
        # Forms are changed from the orthonormal one, or identified: round-off, relative to the largest.
        largest = max(explanation.distances.values())
        for name, distance in explanation.distances.items():
            assert clip["squared_distances"][name] == pytest.approx(distance, abs=1e-8 * largest)
        names = ["transition", "observer", "mean"] if metric == "alignment" else ["covariances", "mean"]
        assert list(clip["squared_parts"]) == list(explanation.parts) == names
        assert sum(clip["squared_parts"].values()) == pytest.approx(
            clip["squared_distances"][clip["label"]], rel=1e-9
        )
    code, out, err = call(capsys, "classify", tmp_path / "m", *unseen)
    assert (code, err) == (0, "")
    heads, *rows = (line.split() for line in out.splitlines())
    assert heads[: 2 + len(names)] == ["clip", "label", *names]
    for row in rows:
        shares = row[2 : 2 + len(names)]
        assert all(share.endswith("%") for share in shares)
        assert sum(int(share[:-1]) for share in shares) in (99, 100, 101)


def test_the_model_is_the_pipeline(classes, unseen, models):
    paths = sorted(classes.glob("*/*.mp4"))
    model = sysbags.load(models / "nearest-mean")
    twin = sysbags.NearestMean(lambda_a=0.25, lambda_mu=1.0).fit(*systems_of(classes))
    systems = sysbags.SystemIdentifier(3).transform(sysbags.bags.LocalBinaryPatterns().transform(unseen))
    np.testing.assert_array_equal(model.predict(unseen), ["waves", "flicker"])
    np.testing.assert_array_equal(model.decision_function(unseen), twin.decision_function(systems))
    np.testing.assert_array_equal(model.predict(paths), [path.parent.name for path in paths])


def test_bad_clips_are_skipped(capsys, classes, tmp_path):
    folder = shutil.copytree(classes, tmp_path / "clips")
    (folder / "waves" / "text.mp4").write_text("not a video")
    (folder / "waves" / "empty.mp4").touch()
    write_clip(folder / "flicker" / "short.mp4", flicker(0, count=3))
    for bag in ("lbp", "sift"):
        words = ["--order", 3, "--bag", bag, *(["--words", 8] if bag == "sift" else [])]
        code, out, err = call(capsys, "fit", folder, "--out", tmp_path / bag, *words)
        assert code == 0
        assert "6 clips of 2 classes, 3 skipped" in out
        lines = [line for line in err.splitlines() if line.startswith("sysbags: skipped: ")]
        assert len(lines) == 3
        assert all(
            sum(name in line for line in lines) == 1 for name in ("text.mp4", "empty.mp4", "short.mp4")
        )
    output = call_json(capsys, "fit", folder, "--out", tmp_path / "m", "--order", 3)
    assert [entry["path"].rsplit("/", 1)[1] for entry in output["skipped"]] == [
        "short.mp4",
        "empty.mp4",
        "text.mp4",
    ]
    assert "the largest order possible is 2" in output["skipped"][0]["error"]


def test_a_cut_clip_is_used_with_a_warning(capsys, classes, tmp_path):
    folder = shutil.copytree(classes, tmp_path / "clips")
    complete = write_clip(tmp_path / "whole.avi", flicker(9), codec="mjpeg")
    data = complete.read_bytes()
    (folder / "flicker" / "cut.avi").write_bytes(data[: int(0.7 * len(data))])
    code, out, err = call(capsys, "fit", folder, "--out", tmp_path / "m", "--order", 3)
    assert code == 0
    assert "7 clips of 2 classes, 0 skipped" in out
    assert err.count("cut.avi") == err.count("\n") == 1


def test_classes_that_cannot_be(capsys, classes, tmp_path):
    folder = tmp_path / "one"
    shutil.copytree(classes / "waves", folder / "waves")
    code, _, err = call(capsys, "fit", folder, "--out", tmp_path / "m")
    assert code == 2
    assert "holds a single class, waves, but there must be at least two" in err
    (folder / "mud").mkdir()
    (folder / "mud" / "x.mp4").write_text("mud")
    code, _, err = call(capsys, "fit", folder, "--out", tmp_path / "m")
    assert code == 2
    assert "no clip of the class mud can be used" in err.splitlines()[-1]
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("bag", ["surf", "colour", "deep-words"])
def test_other_bags(capsys, classes, unseen, tmp_path, bag):
    if bag.startswith("deep"):
        pytest.importorskip("onnxruntime")
    few = ["--size", 32, "--max-frames", 4]
    words = {"surf": ["--words", 8], "deep-words": few}.get(bag, [])
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", "--bag", bag, "--order", 2, *words)
    assert output["clips"] == 6
    clips = call_json(capsys, "classify", tmp_path / "m", *unseen)["clips"]
    assert [clip["label"] for clip in clips] == ["waves", "flicker"]
    assert all(set(clip["squared_distances"]) == {"waves", "flicker"} for clip in clips)


def test_frames_window_kernel_and_auto_order(capsys, classes, tmp_path):
    picked = ["--stride=2", "--start=1", "--stop=15", "--max-frames=6", "--size=24", "--window=2"]
    words = ["--kernel", "intersection", "--order", "auto"]
    call_json(capsys, "fit", classes, "--out", tmp_path / "m", *picked, *words)
    steps = sysbags.load(tmp_path / "m").named_steps
    frames = {"start": 1, "stop": 15, "stride": 2, "max_frames": 6, "size": 24}
    assert dict(steps["bags"].frames) == frames
    assert (steps["bags"].window, steps["systems"].kernel) == (2, "intersection")
    assert steps["systems"].order == "auto"
    clip = next(classes.glob("*/*.mp4"))
    assert len(steps["bags"].stream(clip)) == 3


@pytest.mark.parametrize("classifier", ["nearest-mean", "nearest-system"])
@pytest.mark.parametrize(("metric", "size"), [("alignment", 8), ("normalized-covariance", 12)])
def test_compress(capsys, classes, unseen, tmp_path, classifier, metric, size):
    """An average of covariances has the sum of the orders, 9 here, and needs at least so many samples."""
    words = ("--order", 3, "--compress", size, "--classifier", classifier, "--metric", metric)
    call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    model = sysbags.load(tmp_path / "m").named_steps["classify"]
    systems = model.centers_ if classifier == "nearest-mean" else model.systems_
    assert [system.size for system in systems] == [size] * len(systems)
    assert size < FRAMES
    clips = call_json(capsys, "classify", tmp_path / "m", *unseen)["clips"]
    assert [clip["label"] for clip in clips] == ["waves", "flicker"]


@pytest.mark.parametrize("classifier", ["nearest-mean", "nearest-system"])
def test_classify(capsys, classes, unseen, models, classifier):
    clips = call_json(capsys, "classify", models / classifier, *unseen)["clips"]
    model = sysbags.load(models / classifier).named_steps["classify"]
    systems = sysbags.SystemIdentifier(3).transform(sysbags.bags.LocalBinaryPatterns().transform(unseen))
    for clip, path, system, label in zip(clips, unseen, systems, ["waves", "flicker"], strict=True):
        assert list(clip) == [
            "path",
            "label",
            "squared_distances",
            "squared_parts",
            "probabilities",
            "p_values",
            "scores",
        ]
        assert sum(clip["probabilities"].values()) == pytest.approx(1.0, rel=1e-12)
        assert max(clip["probabilities"], key=clip["probabilities"].get) == label
        assert all(1 / 7 <= value <= 1.0 for value in clip["p_values"].values())  # six clips calibrate
        assert (clip["path"], clip["label"]) == (str(path), label)
        assert list(clip["squared_distances"]) == ["flicker", "waves"]
        assert list(clip["squared_parts"]) == ["transition", "observer", "mean"]
        assert min(clip["squared_parts"].values()) > 0
        assert sum(clip["squared_parts"].values()) == pytest.approx(
            clip["squared_distances"][label], rel=1e-12
        )
        if classifier == "nearest-mean":
            expected = model.distances([system])[0]
        else:
            between = sysbags.pairwise_distances([system], model.systems_, lambda_mu=1.0)[0]
            expected = [between[model.labels_ == label].min() for label in ("flicker", "waves")]
        np.testing.assert_allclose(list(clip["squared_distances"].values()), expected, rtol=1e-9)


def test_classify_for_people(capsys, unseen, models):
    code, out, err = call(capsys, "classify", models / "nearest-mean", *unseen)
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert all(word in head for word in ("clip", "label", "transition", "observer", "mean"))
    assert first.split()[:2] == [str(unseen[0]), "waves"]
    assert second.split()[:2] == [str(unseen[1]), "flicker"]
    assert sum(int(word[:-1]) for word in first.split()[2:5]) in (99, 100, 101)
    name, chance, _, rest = first.split()[5:]
    assert head.rstrip().endswith("most probable first")
    assert (name, int(chance[:-2]) + int(rest[:-1])) == ("waves", 100)
    assert "…" not in out


def test_names_with_brackets_are_left_alone(capsys, unseen, models, tmp_path):
    odd = shutil.copy(unseen[0], tmp_path / "[red]a[b] c.mp4")
    code, out, _ = call(capsys, "classify", models / "nearest-mean", odd)
    assert code == 0
    assert "[red]a[b] c.mp4" in out


def test_classify_goes_on_after_a_bad_clip(capsys, unseen, models, tmp_path):
    bad = tmp_path / "bad.mp4"
    bad.write_text("not a video")
    words = ("classify", models / "nearest-mean", unseen[0], bad, unseen[1])
    clips = call_json(capsys, *words, code=2)["clips"]
    assert [clip.get("label") for clip in clips] == ["waves", None, "flicker"]
    assert set(clips[1]) == {"path", "error"}
    code, out, err = call(capsys, *words)
    assert code == 2
    assert len(out.splitlines()) == 3
    assert err.count("bad.mp4") >= 1
    assert err.count("\n") == 1
    code, out, err = call(capsys, "classify", models / "nearest-mean", bad)
    assert (code, out) == (2, "")


@pytest.mark.parametrize("kind", ["system", "unfitted", "baseline"])
def test_models_that_fit_has_not_made(capsys, classes, unseen, tmp_path, kind):
    from sklearn.pipeline import Pipeline

    systems, labels = systems_of(classes)
    steps = [("bags", sysbags.bags.LocalBinaryPatterns()), ("systems", sysbags.SystemIdentifier(3))]
    if kind == "system":
        sysbags.save(tmp_path / "m", systems[0])
    elif kind == "unfitted":
        sysbags.save(tmp_path / "m", Pipeline([*steps, ("classify", sysbags.NearestMean())]))
    else:
        model = sysbags.NearestSystem(3, metric="martin").fit(systems, labels)
        sysbags.save(tmp_path / "m", Pipeline([*steps, ("classify", model)]))
        clips = call_json(capsys, "classify", tmp_path / "m", *unseen)["clips"]
        assert [clip["squared_parts"] for clip in clips] == [{}, {}]
        return
    code, _, err = call(capsys, "classify", tmp_path / "m", *unseen)
    assert code == 2
    assert ("holds a system, for `sysbags inspect`, but" if kind == "system" else "is not fitted") in err


@pytest.mark.parametrize("where", ["sysbags.evaluate.features.cross_gram", "safetensors.numpy.save_file"])
def test_interrupted(capsys, classes, tmp_path, monkeypatch, where):
    def interrupt(*arguments, **_):
        if where.endswith("save_file"):
            arguments[1].write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(where, interrupt)
    code, out, err = call(capsys, "fit", classes, "--out", tmp_path / "m", "--order", 3, "--lambda-a", 1)
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_interrupted_while_reading(classes, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sysbags.bags.base.Pooling", interrupt)
    assert main(["fit", str(classes), "--out", str(tmp_path / "m"), "--n-jobs", "2"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_classes_of_one_clip_cannot_be_judged(capsys, classes, tmp_path):
    single_group_classes = make_classes(tmp_path / "single_group_classes", per_class=1)
    code, out, err = call(capsys, "fit", single_group_classes, "--out", tmp_path / "m", "--order", 3)
    assert (code, out) == (2, "")
    assert "each class has a single clip, or clips of a single source, so none can be left out" in err
    write_clip(single_group_classes / "waves" / "1.mp4", waves(1))
    code, out, err = call(capsys, "fit", single_group_classes, "--out", tmp_path / "m", "--order", 3)
    assert code == 0
    assert "the class flicker has a single clip or source" in err


def test_one_mistake_is_told_once(capsys, classes, tmp_path):
    code, _, err = call(capsys, "fit", classes, "--out", tmp_path / "m", "--order", 500)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert "none of the clips can be used" in err
    assert "order 500 needs at least 501 frames" in err


def test_no_folder_is_made_for_the_output(capsys, classes, tmp_path):
    code, _, err = call(capsys, "fit", classes, "--out", tmp_path / "typo" / "m")
    assert code == 2
    assert f"{tmp_path / 'typo'} does not exist" in err
    assert not (tmp_path / "typo").exists()


INTERRUPTED = """
import os, signal
import cv2, numpy
from sysbags.bags import words
from sysbags.__main__ import run

picture = numpy.random.default_rng(0).integers(0, 256, (600, 800), dtype=numpy.uint8)

def draw(parts, size, rng):
    os.kill(os.getpid(), signal.SIGINT)  # for the main thread, while this one goes on
    while True:
        cv2.SIFT.create().detectAndCompute(picture, None)

words.draw = draw
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
run()
"""


def test_ctrl_c_does_not_abort_threads_in_foreign_code(classes, tmp_path):
    command = [sys.executable, "-c", INTERRUPTED, "fit", classes, "--out", tmp_path / "m", "--bag", "sift"]
    done = subprocess.run([*command, "--n-jobs", "2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "sysbags: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_an_embedding_says_what_it_loses(capsys, classes, unseen, tmp_path):
    fixed = ["--classifier", "nearest-mean", "--order", "2", "--lambda-mu", "1", "--compress", "none"]
    words = ["fit", classes, "--out", tmp_path / "model", *fixed]
    assert call_json(capsys, *words)["embedding"] is None
    facts = call_json(capsys, *words, "--embedding", 12)
    model = sysbags.load(tmp_path / "model")[-1]
    assert facts["embedding"] == pytest.approx(model.embedding_loss_._asdict())
    assert facts["embedding"]["landmarks"] == 12
    assert all(center.size == 12 for center in model.centers_)
    about = call_json(capsys, "inspect", tmp_path / "model")
    assert about["embedding"] == facts["embedding"]
    code, out, _ = call(capsys, "inspect", tmp_path / "model")
    assert code == 0
    assert "landmarks 12, median" in " ".join(out.split())
    code, out, err = call(capsys, *words, "--embedding", 12)
    assert code == 0, err
    assert model.embedding_loss_.sentence() in " ".join(out.split())
    predictions = call_json(capsys, "classify", tmp_path / "model", *unseen)
    assert len(predictions["clips"]) == 2


@pytest.mark.parametrize("command", ["fit", "evaluate"])
@pytest.mark.parametrize("value", ["0", "-4", "many", "2.5"])
def test_a_bad_number_of_landmarks(capsys, classes, tmp_path, command, value):
    words = ["--out", tmp_path / "model"] if command == "fit" else ["--cache", tmp_path / "cache"]
    code, out, err = call(capsys, command, classes, *words, "--embedding", value)
    assert code == 2
    assert not out
    assert "--embedding" in err
    assert "Traceback" not in err


def test_inspect_says_what_a_classifier_of_streams_compares(capsys, classes, tmp_path):
    assert call(capsys, "fit", classes, "--out", tmp_path / "m", "--bags", "lbp,colour")[0] == 0
    facts = call_json(capsys, "inspect", tmp_path / "m")
    model = sysbags.load(tmp_path / "m")[-1]
    assert facts["classes"] == ["flicker", "waves"]
    assert (facts["accuracy"], facts["averages_accuracy"]) == (model.accuracy_, model.averages_accuracy_)
    assert re.fullmatch(r"((LBP|colour) [\w ]+ \d+ %(, )?)+", facts["compared"])
    assert facts["calibration"]["groups"] == 6
