"""`sysbags fit` and `sysbags classify` on clips of two classes that are easy to tell apart."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

import sysbags
from cli_folder import FRAMES, call, call_json, flicker, make_classes, waves
from clips import write_clip
from sysbags.cli import main
from sysbags.evaluate import choose_weights, leave_one_out


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
        assert main(["fit", str(classes), "--out", str(folder / name), *words]) == 0
    return folder


def systems_of(classes, order=3):
    paths = sorted(classes.glob("*/*.mp4"))
    streams = sysbags.bags.LocalBinaryPatterns().transform(paths)
    return sysbags.SystemIdentifier(order).transform(streams), [path.parent.name for path in paths]


def test_fit_says_what_it_did(capsys, classes, tmp_path):
    code, out, err = call(capsys, "fit", classes, "--out", tmp_path / "m", "--order", 3)
    assert (code, err) == (0, "")
    assert "6 clips of 2 classes, 0 skipped" in out
    assert "lambda_a = " in out
    assert "chosen by leave-one-clip-out" in out
    assert "leave-one-clip-out accuracy 100.0 % (6 of 6)" in out
    assert str(tmp_path / "m") in out
    assert "frames and bags" in out


def test_auto_is_leave_one_out_on_the_training_clips(capsys, classes, tmp_path):
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", "--order", 3)
    systems, labels = systems_of(classes)
    chosen = choose_weights(sysbags.cross_gram(systems), labels)
    assert (output["lambda_a"], output["lambda_mu"]) == (chosen.lambda_a, chosen.lambda_mu)
    assert output["accuracy"] == chosen.result.accuracy
    assert output["chosen"] == ["lambda_a", "lambda_mu"]
    assert output["classes"] == {"flicker": 3, "waves": 3}
    assert (output["clips"], output["skipped"], output["left_out"]) == (6, [], "clip")
    steps = sysbags.load(tmp_path / "m").named_steps
    assert (steps["classify"].lambda_a, steps["classify"].lambda_mu) == (chosen.lambda_a, chosen.lambda_mu)
    assert all(seconds >= 0 for seconds in output["seconds"].values())


def test_one_weight_given(capsys, classes, tmp_path):
    words = ("--order", 3, "--lambda-a", 4, "--classifier", "nearest-system")
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    systems, labels = systems_of(classes)
    gram = sysbags.cross_gram(systems)
    chosen = choose_weights(gram, labels, lambda_a=4.0, classifier="nearest-system")
    assert (output["lambda_a"], output["lambda_mu"], output["chosen"]) == (
        4.0,
        chosen.lambda_mu,
        ["lambda_mu"],
    )
    result = leave_one_out(
        gram, labels, lambda_a=4.0, lambda_mu=chosen.lambda_mu, classifier="nearest-system"
    )
    assert output["accuracy"] == result.accuracy


def test_sources_are_left_out_together(capsys, classes, tmp_path):
    folder = shutil.copytree(classes, tmp_path / "clips")
    rows = [f"{path.parent.name}/{path.name},{path.stem}" for path in sorted(folder.glob("*/*.mp4"))]
    (folder / "index.csv").write_text("\n".join(["clip,source", *rows]))
    output = call_json(capsys, "fit", folder, "--out", tmp_path / "m", "--order", 3)
    systems, labels = systems_of(folder)
    chosen = choose_weights(sysbags.cross_gram(systems), labels, groups=["0", "1", "2"] * 2)
    assert output["left_out"] == "source"
    assert (output["lambda_a"], output["accuracy"]) == (chosen.lambda_a, chosen.result.accuracy)
    (folder / "index.csv").write_text("\n".join(["clip,source", *(row[:-1] + "x" for row in rows)]))
    code, out, err = call(capsys, "fit", folder, "--out", tmp_path / "m", "--order", 3)
    assert code == 0
    assert "all clips have the same source" in err
    assert "leave-one-clip-out" in out


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


@pytest.mark.parametrize("bag", ["surf", "flow", "colour", "deep", "deep-words"])
def test_other_bags(capsys, classes, unseen, tmp_path, bag):
    if bag.startswith("deep"):
        pytest.importorskip("torch")
    few = ["--size", 32, "--max-frames", 4]
    words = {"surf": ["--words", 8], "deep": few, "deep-words": few}.get(bag, [])
    output = call_json(capsys, "fit", classes, "--out", tmp_path / "m", "--bag", bag, "--order", 2, *words)
    assert output["clips"] == 6
    clips = call_json(capsys, "classify", tmp_path / "m", *unseen)["clips"]
    if bag != "flow":
        assert [clip["label"] for clip in clips] == ["waves", "flicker"]
    assert all(set(clip["distances"]) == {"waves", "flicker"} for clip in clips)


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
def test_compress(capsys, classes, tmp_path, classifier):
    words = ("--order", 3, "--compress", 8, "--classifier", classifier)
    call_json(capsys, "fit", classes, "--out", tmp_path / "m", *words)
    model = sysbags.load(tmp_path / "m").named_steps["classify"]
    systems = model.centers_ if classifier == "nearest-mean" else model.systems_
    assert [system.size for system in systems] == [8] * len(systems)
    assert FRAMES > 8


@pytest.mark.parametrize("classifier", ["nearest-mean", "nearest-system"])
def test_classify(capsys, classes, unseen, models, classifier):
    clips = call_json(capsys, "classify", models / classifier, *unseen)["clips"]
    model = sysbags.load(models / classifier).named_steps["classify"]
    systems = sysbags.SystemIdentifier(3).transform(sysbags.bags.LocalBinaryPatterns().transform(unseen))
    for clip, path, system, label in zip(clips, unseen, systems, ["waves", "flicker"], strict=True):
        assert list(clip) == ["path", "label", "distances", "parts"]
        assert (clip["path"], clip["label"]) == (str(path), label)
        assert list(clip["distances"]) == ["flicker", "waves"]
        assert list(clip["parts"]) == ["transition", "observer", "mean"]
        assert min(clip["parts"].values()) > 0
        assert sum(clip["parts"].values()) == pytest.approx(clip["distances"][label], rel=1e-12)
        if classifier == "nearest-mean":
            expected = model.distances([system])[0]
        else:
            between = sysbags.pairwise_distances([system], model.systems_, lambda_mu=1.0)[0]
            expected = [between[model.labels_ == label].min() for label in ("flicker", "waves")]
        np.testing.assert_allclose(list(clip["distances"].values()), expected, rtol=1e-9)


def test_classify_for_people(capsys, unseen, models):
    code, out, err = call(capsys, "classify", models / "nearest-mean", *unseen)
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert all(word in head for word in ("clip", "label", "transition", "observer", "mean"))
    assert first.split()[:2] == [str(unseen[0]), "waves"]
    assert second.split()[:2] == [str(unseen[1]), "flicker"]
    assert sum(int(word[:-1]) for word in first.split() if word.endswith("%")) in (99, 100, 101)
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
        assert [clip["parts"] for clip in clips] == [{}, {}]
        return
    code, _, err = call(capsys, "classify", tmp_path / "m", *unseen)
    assert code == 2
    assert ("holds a System, but" if kind == "system" else "is not fitted") in err


@pytest.mark.parametrize("where", ["sysbags.distances.gram.cross_gram", "safetensors.numpy.save_file"])
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

    monkeypatch.setattr("sysbags.bags.base.pool", interrupt)
    assert main(["fit", str(classes), "--out", str(tmp_path / "m"), "--n-jobs", "2"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_classes_of_one_clip_cannot_be_judged(capsys, classes, tmp_path):
    single_group_classes = make_classes(tmp_path / "single_group_classes", per_class=1)
    code, out, err = call(capsys, "fit", single_group_classes, "--out", tmp_path / "m", "--order", 3)
    assert (code, out) == (2, "")
    assert "each class has a single clip or source" in err
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
