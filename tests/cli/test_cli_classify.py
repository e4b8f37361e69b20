"""`sysbags classify`: probabilities, sets, clips that fit no class, several models, tables and folders."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

import sysbags
from cli_folder import call, call_json
from clips import write_clip
from sysbags.bags import BagUnion, LocalBinaryPatterns, OpticalFlow
from sysbags.cli import main
from sysbags.datasets import make_clips
from sysbags.video import frames as read_frames
from tiny_networks import write_network

SHAPE = {"frames": 14, "height": 48, "width": 64}
TEXTURES = ["waves", "rain"]
COVERAGE = ("--coverage", "90%")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """24 clips of two classes, models of them, and what is in no class."""
    root = tmp_path_factory.mktemp("classify")
    make_clips(root / "set", per_class=12, textures=TEXTURES, **SHAPE)
    make_clips(root / "new", per_class=3, textures=TEXTURES, random_state=1, **SHAPE)
    words = ["--metric", "normalized-covariance", "--order", "3", "--json"]
    for name, more in {
        "lbp": ["--classifier", "kernel-ridge"],
        "both": ["--classifier", "nearest-system", "--bags", "lbp,colour"],
    }.items():
        assert main(["fit", str(root / "set"), "--out", str(root / name), *words, *more]) == 0
    odd = root / "odd"
    odd.mkdir()
    height, width = SHAPE["height"], SHAPE["width"]
    noise = np.random.default_rng(0).integers(0, 256, (14, height, width, 3), dtype=np.uint8)
    picture = next(iter(read_frames(next((root / "set").glob("*/*.mp4")), colour="rgb")))
    contents = {
        "noise": noise,
        "black": np.zeros((14, height, width, 3), dtype=np.uint8),
        "still": np.repeat(picture[None], 14, axis=0),
        "one": picture[None],
    }
    for name, frames in contents.items():
        write_clip(odd / f"{name}.mkv", frames, codec="ffv1", pixel_format="bgr0")
    return root


def clips_of(place):
    return sorted((place / "new").glob("*/*.mp4"))


def classified(capsys, place, *argv, model="lbp", code=0):
    return call_json(capsys, "classify", place / model, *argv, code=code)["clips"]


@pytest.mark.parametrize("model", ["lbp", "both"])
def test_probabilities_and_sets_are_those_of_the_model(capsys, place, model):
    paths = clips_of(place)
    pipeline = sysbags.load(place / model)
    classifier, systems = pipeline[-1], pipeline[:-1].transform(paths)
    clips = classified(capsys, place, *paths, *COVERAGE, model=model)
    assert [clip["label"] for clip in clips] == pipeline.predict(paths).tolist()
    chances, fits = classifier.predict_proba(systems), classifier.p_values(systems)
    sets = classifier.predict_set(systems, alpha=0.1)
    distances = classifier.compare(systems).distances
    for k, clip in enumerate(clips):
        for name, expected in (
            ("probabilities", chances),
            ("p_values", fits),
            ("squared_distances", distances),
        ):
            assert list(clip[name]) == ["rain", "waves"]
            assert list(clip[name].values()) == pytest.approx(expected[k].tolist(), rel=1e-9)
        assert clip["set"] == sets[k]
        assert clip["path"] == str(paths[k])
        names = {"lbp": ["covariances", "mean"], "both": list(clip["squared_parts"])}[model]
        assert list(clip["squared_parts"]) == names
        assert sum(clip["squared_parts"].values()) == pytest.approx(
            clip["squared_distances"][clip["label"]], rel=1e-9
        )
    assert np.mean([clip["label"] == path.parent.name for clip, path in zip(clips, paths, strict=True)]) > 0.8
    inside = [path.parent.name in clip["set"] for clip, path in zip(clips, paths, strict=True)]
    assert np.mean(inside) > 0.6
    share = classified(capsys, place, *paths, "--coverage", "0.9", model=model)
    assert share == clips


def test_what_is_in_no_class_is_none_of_these(capsys, place):
    paths = [place / "odd" / f"{name}.mkv" for name in ("noise", "black", "still", "one")]
    noise, *dead = classified(capsys, place, *paths, *COVERAGE, model="both")
    assert sysbags.load(place / "both")[-1].calibration_.smallest_alpha == 1 / 25
    assert noise["set"] == []
    assert noise["label"] in ("waves", "rain")
    assert max(noise["p_values"].values()) <= 0.1
    for clip in dead:
        assert (clip["label"], clip["set"]) == (None, [])
        assert set(clip) == {"path", "label", "set", "reason"}
    assert [clip["reason"] for clip in dead] == [
        *["the bag LBP: all 14 frames have the same bag (a still clip), so there is no motion to learn"] * 2,
        "the bag LBP: the stream has one frame, but a system needs at least two",
    ]
    code, out, err = call(capsys, "classify", place / "both", *paths, *COVERAGE)
    assert (code, err.count("\n")) == (0, 1)  # a note about the sources
    assert out.count("none of these") == 4
    # Without sets there is nothing to say of clips without motion.
    entries = classified(capsys, place, *paths, model="both", code=2)
    assert [set(clip) == {"path", "error"} for clip in entries] == [False, True, True, True]
    code, _, err = call(capsys, "classify", place / "both", *paths)
    assert code == 2
    assert len(err.splitlines()) == 3


def test_too_few_frames_for_a_single_bag_is_none_of_these(capsys, place, tmp_path):
    paths = sorted((place / "set").glob("*/*.mp4"))
    bags = BagUnion([("lbp", LocalBinaryPatterns()), ("flow", OpticalFlow())])
    steps = [
        ("bags", bags),
        ("systems", sysbags.SystemIdentifier(2)),
        ("classify", sysbags.NearestSystem(probability=True)),
    ]
    model = Pipeline(steps).fit(paths, [path.parent.name for path in paths])
    sysbags.save(tmp_path / "m", model)
    one = place / "odd" / "one.mkv"
    words = ("classify", tmp_path / "m", one, *COVERAGE, "--csv", tmp_path / "t.csv")
    [clip] = call_json(capsys, *words)["clips"]
    reason = f"the bag flow: {one} has too few frames for a single bag"
    assert clip == {"path": str(one), "label": None, "set": [], "reason": reason}
    code, out, err = call(capsys, *words)
    assert (code, err.count("\n")) == (0, 1)  # a note about the sources
    assert "none of these" in out
    with (tmp_path / "t.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["clip"], row["set"], row["error"]) == (str(one), "none of these", reason)


@pytest.mark.parametrize(("model", "classifier"), [("lbp", None), ("short", "moments")])
def test_a_clip_that_is_much_shorter_than_those_learnt_from_is_noted(
    capsys, place, tmp_path, model, classifier
):
    if classifier:
        words = ("--out", tmp_path / model, "--classifier", classifier)
        assert call(capsys, "fit", place / "set", *words)[0] == 0
    path = tmp_path / model if classifier else place / model
    clip, enough = clips_of(place)[0], ("--max-frames", 7)
    _, out, err = call(capsys, "classify", path, clip, "--max-frames", 6, "--json")
    text = (
        f"{clip} has 6 bags, but the shortest clip that {path} has learnt from has 14: its class is uncertain"
    )
    assert err == f"sysbags: {text}\n"
    assert json.loads(out)["clips"][0]["note"] == text
    _, out, err = call(capsys, "classify", path, clip, *enough, "--json")
    assert (err, "note" in json.loads(out)["clips"][0]) == ("", False)


def test_a_clip_that_is_too_short_for_the_order_is_noted(capsys, place, tmp_path):
    short = tmp_path / "short"
    make_clips(short / "set", per_class=3, textures=TEXTURES, **{**SHAPE, "frames": 8})
    words = ("--out", short / "m", "--classifier", "nearest-mean", "--lambda-a", 0.25, "--lambda-mu", 0)
    assert call(capsys, "fit", short / "set", *words)[0] == 0
    clip = clips_of(place)[0]
    _, _, err = call(capsys, "classify", short / "m", clip, "--max-frames", 4)
    assert err == f"sysbags: {clip} is too short or too still for order 5: its system has order 3\n"


def test_a_still_clip_has_a_class_under_a_model_of_streams(capsys, place, tmp_path):
    """Only models of systems take it for none of these, and the help says so."""
    words = ("--out", tmp_path / "m", "--classifier", "moments")
    assert call(capsys, "fit", place / "set", *words)[0] == 0
    still = place / "odd" / "still.mkv"
    (found,) = call_json(capsys, "classify", tmp_path / "m", still, *COVERAGE)["clips"]
    assert found["label"] in TEXTURES
    text = " ".join(call(capsys, "classify", "--help")[1].split())
    assert "for models of systems so is one whose frames are all the same" in text


def test_a_coverage_that_so_few_clips_cannot_give(capsys, place):
    path = clips_of(place)[0]
    code, _, err = call(capsys, "classify", place / "lbp", path, "--coverage", "99%")
    assert code == 0
    assert "was calibrated by 24 clips or sources, too few for so high a coverage: every set holds all" in err
    [clip] = classified(capsys, place, path, "--coverage", "99%")
    assert sorted(clip["set"]) == ["rain", "waves"]


def test_training_clips_without_sources_are_noted(capsys, place, tmp_path):
    """Where coverage is asked of a model that knows no recordings, and nowhere else."""
    path = clips_of(place)[0]
    note = "lbp takes each training clip for a recording of its own"
    assert note in call(capsys, "classify", place / "lbp", path, *COVERAGE)[2]
    assert note not in call(capsys, "classify", place / "lbp", path)[2]
    model = sysbags.load(place / "lbp")
    model[-1].calibration_ = replace(model[-1].calibration_, weights=np.full(24, 0.5))
    sysbags.save(tmp_path / "lbp", model)
    assert note not in call(capsys, "classify", tmp_path / "lbp", path, "--coverage", "50%")[2]


@pytest.mark.parametrize("text", ["0", "1", "100%", "many", "-5%", "90"])
def test_coverages_that_cannot_be(capsys, place, text):
    code, out, err = call(capsys, "classify", place / "lbp", clips_of(place)[0], f"--coverage={text}")
    assert (code, out) == (2, "")
    assert f"--coverage is '{text}', but it must be above 0 and below 1, such as 0.9 or 90%" in err


def test_folders_are_searched(capsys, place):
    paths = clips_of(place)
    by_name = classified(capsys, place, *paths)
    assert classified(capsys, place, place / "new" / "rain", place / "new" / "waves") == by_name
    found = classified(capsys, place, place / "new")
    assert sorted(clip["path"] for clip in found) == [str(path) for path in paths]
    code, out, err = call(capsys, "classify", place / "lbp")
    assert (code, out) == (2, "")
    code, out, err = call(capsys, "classify", place / "lbp", place / "both")
    assert (code, out) == (2, "")
    assert "there is no clip to classify" in err


def test_several_models(capsys, place, tmp_path):
    paths = clips_of(place)[:2]
    models = [place / "lbp", place / "both"]
    clips = call_json(capsys, "classify", *models, *paths)["clips"]
    assert [clip.pop("model") for clip in clips] == [str(models[0])] * 2 + [str(models[1])] * 2
    assert clips[:2] == classified(capsys, place, *paths)
    assert clips[2:] == classified(capsys, place, *paths, model="both")
    code, out, err = call(capsys, "classify", *models, *paths, "--csv", tmp_path / "t.csv")
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line.endswith(":")] == [f"{model}:" for model in models]
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == [str(models[0])] * 2 + [str(models[1])] * 2


def test_a_table(capsys, place, tmp_path):
    bad = tmp_path / "bad.mp4"
    bad.write_text("no video")
    paths = [*clips_of(place)[:2], place / "odd" / "noise.mkv", place / "odd" / "still.mkv", bad]
    words = (*COVERAGE, "--csv", tmp_path / "t.csv")
    clips = classified(capsys, place, *paths, *words, model="both", code=2)
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["clip", "label", "probability", "set", "squared_distance", "error"]
    assert [row["clip"] for row in rows] == [str(path) for path in paths]
    for row, clip in zip(rows[:2], clips[:2], strict=True):
        assert row["label"] == clip["label"]
        assert float(row["probability"]) == clip["probabilities"][clip["label"]]
        assert float(row["squared_distance"]) == clip["squared_distances"][clip["label"]]
        assert row["set"] == ";".join(clip["set"])
        assert row["error"] == ""
    assert [row["set"] for row in rows[2:]] == ["none of these", "none of these", ""]
    assert rows[3]["label"] == rows[4]["label"] == ""  # no prediction
    assert rows[2]["label"] == clips[2]["label"]
    assert "a still clip" in rows[3]["error"]
    assert "bad.mp4" in rows[4]["error"]
    for top, places in ((1, 1), (2, 2), (9, 2)):
        words = ("--csv", tmp_path / "t.csv", "--top", top)
        call(capsys, "classify", place / "both", *paths, *COVERAGE, *words)
        with (tmp_path / "t.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        further = ["label_2", "probability_2"] if places == 2 else []
        assert list(rows[0]) == ["clip", "label", "probability", *further, *list(rows[0])[-3:]]
        for row, clip in zip(rows[:3] if further else (), clips, strict=False):
            assert {row["label"], row["label_2"]} == set(TEXTURES)
            assert float(row["probability_2"]) == clip["probabilities"][row["label_2"]]
        assert all(row[name] == "" for row in rows[3:] for name in further)
        assert [row["set"] for row in rows[2:]] == ["none of these", "none of these", ""]
    code, _, _ = call(capsys, "classify", place / "lbp", paths[0], "--csv", paths[0])
    assert code == 2
    assert paths[0].stat().st_size > 100  # a clip is not overwritten


def test_so_many_classes_are_shown(capsys, place):
    path = clips_of(place)[0]
    for words, count in (((), 2), (("--top", 1), 1), (("--top", 9), 2)):
        code, out, _ = call(capsys, "classify", place / "lbp", path, *words)
        assert code == 0
        assert len(re.findall(r"(?:rain|waves) \d+%", out.splitlines()[1])) == count


def test_part_of_a_clip(capsys, place, tmp_path):
    """As if the clip had no other frames."""
    path = clips_of(place)[0]
    frames = np.stack(list(read_frames(path)))
    cut = write_clip(tmp_path / "cut.mkv", frames[2:10], codec="ffv1", pixel_format="gray")
    [expected] = classified(capsys, place, cut)
    for own, words in (
        (None, ("--start", 2, "--stop", 10)),
        (None, ("--start", 2, "--max-frames", 8)),
        (None, ("--start", 2, "--stop", 10, "--max-frames", 12)),
        ({"max_frames": 4}, ("--start", 2, "--max-frames", 8)),
        ({"start": 2, "stop": 5}, ("--max-frames", 8)),
    ):
        model = sysbags.load(place / "lbp")
        model["bags"].set_params(frames=own)
        sysbags.save(tmp_path / "m", model)
        [clip] = call_json(capsys, "classify", tmp_path / "m", path, *words)["clips"]
        assert clip["probabilities"] == pytest.approx(expected["probabilities"], rel=1e-9)
    model = sysbags.load(place / "both")
    for bag in model["bags"].members():
        bag.set_params(frames={"max_frames": 8})
    [clip] = classified(capsys, place, path, "--max-frames", 8, model="both")
    [expected] = model[-1].compare(model[:-1].transform([path])).distances.tolist()
    assert list(clip["squared_distances"].values()) == pytest.approx(expected, rel=1e-9)


def test_a_class_of_one_clip_and_a_stray_clip(capsys, place, tmp_path):
    shutil.copytree(place / "set", tmp_path / "set")
    for path in sorted((tmp_path / "set" / "rain").glob("*.mp4"))[1:]:
        path.unlink()
    shutil.copy(clips_of(place)[0], tmp_path / "set" / "stray.mp4")
    words = ("--metric", "normalized-covariance", "--order", 3, "--classifier", "nearest-system")
    code, out, err = call(capsys, "fit", tmp_path / "set", "--out", tmp_path / "m", *words)
    assert code == 0
    assert "13 clips of 2 classes, 1 skipped" in out
    notes = err.splitlines()
    assert notes[0] == "sysbags: skipped: stray.mp4 is in no class folder"
    assert "the class rain has a single clip or source" in notes[1]
    output = call_json(capsys, "fit", tmp_path / "set", "--out", tmp_path / "m", *words)
    skipped = [{"path": str(tmp_path / "set" / "stray.mp4"), "error": "stray.mp4 is in no class folder"}]
    assert output["skipped"] == skipped
    assert output["most_frequent_accuracy"] == 12 / 13
    calibration = call_json(capsys, "inspect", tmp_path / "m")["calibration"]
    assert output["smallest_alpha"] == calibration["smallest_alpha"] == 1 / 13
    words = ("evaluate", tmp_path / "set", "--cache", tmp_path / "cache", *words)
    output = call_json(capsys, *words)
    assert (output["skipped"], output["most_frequent_accuracy"]) == (skipped, 12 / 13)
    _, out, _ = call(capsys, *words)
    assert "13 clips of 2 classes, 1 skipped; " in out
    assert "Always predicting the most frequent class: 92.3 %\n" in out
    clips = call_json(capsys, "classify", tmp_path / "m", *clips_of(place), *COVERAGE)["clips"]
    for clip in clips:
        assert sum(clip["probabilities"].values()) == pytest.approx(1.0, rel=1e-12)
        assert min(clip["p_values"].values()) >= 1 / 13  # the single clip cannot calibrate


def test_too_few_frames_for_the_order(capsys, place, tmp_path):
    words = ("--metric", "normalized-covariance", "--classifier", "nearest-system", "--max-frames", 4)
    code, _, err = call(capsys, "fit", place / "set", "--out", tmp_path / "m", *words)
    assert (code, err.count("\n")) == (0, 1)
    assert "most clips have too few frames for order 5 (LBP): " in err
    assert err.endswith("say little about dynamics\n")  # a smaller stride gives no more frames than that


def test_a_preset(capsys, place, tmp_path):
    words = ("--metric", "normalized-covariance", "--order", 3, "--classifier", "kernel-ridge")
    fast = call_json(capsys, "fit", place / "set", "--out", tmp_path / "m", "--preset", "fast", *words)
    plain = call_json(capsys, "fit", place / "set", "--out", tmp_path / "n", "--bags", "lbp,colour", *words)
    for name in ("accuracy", "lambda_a", "lambda_mu", "ridge", "width", "compression"):
        assert fast[name] == plain[name]
    paths = clips_of(place)
    assert call_json(capsys, "classify", tmp_path / "m", *paths) == call_json(
        capsys, "classify", tmp_path / "n", *paths
    )
    code, out, err = call(
        capsys, "fit", place / "set", "--out", tmp_path / "m", "--preset", "fast", "--bags", "lbp"
    )
    assert (code, out) == (2, "")
    assert "--preset says which bags are used: leave out --bags" in err


@pytest.mark.parametrize(
    ("bags", "classifier", "words"),
    [
        ("lbp,sift", "nearest-mean", ("--words", 6, "--lambda-a", 0.25, "--lambda-mu", 5)),
        ("flow,deep", "nearest-system", ("--network", "tiny", "--network-stride", 2)),
        ("deep", "kernel-ridge", ("--network", "tiny", "--metric", "covariance")),
    ],
)
def test_models_of_other_bags(capsys, tmp_path, monkeypatch, bags, classifier, words):
    """From the command line and back: what is printed is what the file says."""
    if "deep" in bags:
        for name in ("onnxruntime", "onnx"):
            pytest.importorskip(name)
        write_network(tmp_path, output="channels")
        monkeypatch.setenv("SYSBAGS_MODELS", str(tmp_path))
    shape = {"frames": 14, "height": 96, "width": 128}
    paths, _ = make_clips(tmp_path / "set", per_class=4, textures=TEXTURES, **shape)
    words = ("--bags", bags, "--classifier", classifier, "--order", 2, *words)
    output = call_json(capsys, "fit", tmp_path / "set", "--out", tmp_path / "m", *words)
    assert output["clips"] == 8
    if "--network-stride" in words:
        few = (*words[:-1], 7, "--order", 4)
        _, _, err = call(capsys, "fit", tmp_path / "set", "--out", tmp_path / "few", *few)
        assert "too few frames for order 4 (deep): " in err
        assert err.endswith("; a smaller --network-stride helps\n")
    model = sysbags.load(tmp_path / "m")
    clips = call_json(capsys, "classify", tmp_path / "m", *paths)["clips"]
    assert [clip["label"] for clip in clips] == model.predict(paths).tolist()
    for clip, chances in zip(clips, model.predict_proba(paths), strict=True):
        assert list(clip["probabilities"].values()) == pytest.approx(chances.tolist(), rel=1e-9)
    if bags == "deep":
        (tmp_path / "tiny.json").unlink()
        code, _, err = call(capsys, "classify", tmp_path / "m", *paths)
        assert code == 2
        assert f"{tmp_path / 'm'} has the network 'tiny', but there is no such network: `sysbags mod" in err
    if "," in bags:
        titles = {"lbp": "LBP", "sift": "SIFT word", "flow": "flow", "deep": "deep"}
        names = [titles[name] for name in bags.split(",")]
        assert set(output["bags"].split(" + ")) <= set(names)
        if output["bags"] == " + ".join(names):
            assert all(list(clip["squared_parts"]) == names for clip in clips)


def test_a_model_without_a_calibration(capsys, place, tmp_path):
    model = sysbags.load(place / "lbp")
    model[-1].calibration_ = None
    sysbags.save(tmp_path / "m", model)
    path = clips_of(place)[0]
    [clip] = call_json(capsys, "classify", tmp_path / "m", path)["clips"]
    assert (clip["probabilities"], clip["p_values"]) == (None, None)
    code, out, _ = call(capsys, "classify", tmp_path / "m", path, "--csv", tmp_path / "t.csv")
    assert code == 0
    assert "squared distances, the nearest first" in out
    code, _, err = call(capsys, "classify", tmp_path / "m", path, *COVERAGE)
    assert code == 2
    assert "has no calibration, but --coverage needs one: `sysbags fit FOLDER --out MODEL` saves" in err
