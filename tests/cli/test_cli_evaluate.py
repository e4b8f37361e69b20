"""The command `evaluate` on a tiny folder of generated clips."""

from __future__ import annotations

import csv
import json
import re
import shutil

import numpy as np
import pytest

from cli_folder import call, call_json
from clips import write_clip
from sysbags import NearestMean, NearestSystem, alignment_distance, comparators, frechet_mean, identify
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import make_clips, make_streams, write_streams
from sysbags.evaluate.comparators import COMPARATORS

FIXED = ("--order", 2, "--lambda-a", 0.25, "--lambda-mu", 10, "--n-jobs", 1)
SHAPE = {"frames": 14, "height": 64, "width": 96}
TEXTURES = ["fire", "waves"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with eight clips of two classes, and the cache that all tests share."""
    root = tmp_path_factory.mktemp("evaluate")
    make_clips(root / "set", per_class=4, textures=TEXTURES, **SHAPE)
    return root


def evaluate(capsys, place, *argv, data="set"):
    return call_json(capsys, "evaluate", place / data, "--cache", place / "cache", *argv)


@pytest.fixture
def copy(place, tmp_path):
    """The folder again, to be changed; what is in the cache is not lost, as times and sizes stay."""
    shutil.copytree(place / "set", tmp_path / "set")
    return tmp_path


def write_index(folder, sources):
    with (folder / "index.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("clip", "source"), *sources.items()])


def test_predictions_are_those_of_a_loop_over_the_clips(capsys, place):
    output = evaluate(capsys, place, *FIXED)
    bags, clips = LocalBinaryPatterns(), output["clips"]
    systems = [identify(bags.stream(place / "set" / clip["name"]), 2) for clip in clips]
    labels = [clip["label"] for clip in clips]
    expected = []
    for k, theta in enumerate(systems):
        distances = {}
        for label in sorted(set(labels)):
            members = [s for j, s in enumerate(systems) if labels[j] == label and j != k]
            distances[label] = alignment_distance(frechet_mean(members, 0.25, 10).system, theta, 0.25, 10)
        expected.append(min(distances, key=distances.get))
    line = output["methods"][1]
    assert (line["classifier"], line["predictions"]) == ("nearest-mean", expected)
    assert line["rate"]["right"] == sum(map(str.__eq__, expected, labels))
    assert line["share"] == line["rate"]["right"] / 8


def test_the_json_holds_everything(capsys, place):
    output = evaluate(capsys, place, *FIXED, "--report", place / "r.html")
    assert set(output) == {
        *("title", "protocol", "groups", "classes", "clips", "skipped", "methods", "confusion"),
        *(
            "averages_accuracy",
            "most_frequent_accuracy",
            "neighbours",
            "atlas",
            "confidence",
            "facts",
            "seconds",
            "files",
        ),
    }
    assert (output["title"], output["classes"], output["groups"]) == ("set", TEXTURES, list(range(8)))
    assert output["protocol"] == "one clip left out at a time (8 clips)"
    assert output["clips"][0] == {"name": "fire/00.mp4", "label": "fire", "source": None}
    assert [(m["name"], m["classifier"], m["main"]) for m in output["methods"]] == [
        ("LBP systems, alignment", "kernel-ridge", True),
        ("LBP systems, alignment", "nearest-mean", False),
        ("LBP systems, alignment", "nearest-system", False),
        ("LBP averaged over time", "kernel-ridge", False),
    ]
    assert output["averages_accuracy"] == output["methods"][3]["share"]
    for line in output["methods"]:
        assert set(line["rate"]) == {"right", "total", "low", "high"}
        assert line["rate"]["low"] <= line["share"] <= line["rate"]["high"]
        assert (line["p_value"] is None) == line["main"]
        assert len(line["predictions"]) == 8
        assert line["kind"] == "averages" or line["settings"]["lambda_mu"] == 10
    assert np.sum(output["confusion"]) == 8
    assert np.trace(output["confusion"]) == output["methods"][0]["rate"]["right"]
    assert [page["class"] for page in output["atlas"]] == TEXTURES
    assert output["facts"]["order"] == 2
    assert output["files"]["report"] == str(place / "r.html")
    assert (place / "r.html").read_text().lower().startswith("<!doctype html>")


def test_tables_for_people(capsys, place):
    code, out, err = call(capsys, "evaluate", place / "set", "--cache", place / "cache", *FIXED)
    assert (code, err) == (0, "")
    assert "8 clips of 2 classes, 0 skipped; one clip left out at a time (8 clips)" in out
    assert "moments" not in out
    assert re.search(r"LBP systems, alignment +kernel-ridge +\d+\.\d % +\d+\.\d to \d+\.\d +- ", out)
    assert re.search(r"frames and bags +\d", out)
    settings = out.split("Settings:\n")[1]
    assert re.search(
        r"^ *all systems +bag LocalBinaryPatterns\(.*\), order 2, kernel chi2 *$", settings, re.M
    )
    row = (
        r"^ *LBP systems, alignment +nearest-mean +"
        r"metric alignment, normal form orthonormal, lambda_a 0.25, lambda_mu 10"
    )
    assert re.search(row, settings, re.M)


def test_a_second_run_reads_no_clip(capsys, place, monkeypatch):
    first = evaluate(capsys, place, *FIXED)
    monkeypatch.setattr(LocalBinaryPatterns, "masses", lambda *args: pytest.fail("counted again"))
    monkeypatch.setattr("sysbags.evaluate.features.cross_gram", lambda *a, **k: pytest.fail("kernel again"))
    second = evaluate(capsys, place, *FIXED)
    for output in (first, second):
        output.pop("seconds")
        for line in output["methods"]:
            line.pop("seconds")
    assert first == second


def test_sources_are_left_out_together(capsys, copy, place):
    """One source has clips of both classes, one has two clips; each other clip has its own."""
    names = [f"{path.parent.name}/{path.name}" for path in sorted((copy / "set").glob("*/*.mp4"))]
    sources = dict(zip(names, names, strict=True))
    sources |= {"fire/00.mp4": "x", "fire/01.mp4": "x", "fire/02.mp4": "y", "waves/00.mp4": "y"}
    write_index(copy / "set", sources)
    by_source = evaluate(capsys, copy, *FIXED)
    assert by_source["protocol"] == "one source left out at a time (6 sources)"
    names = [clip["source"] for clip in by_source["clips"]]
    assert names[:5] == ["x", "x", "y", "fire/03.mp4", "y"]
    groups = by_source["groups"]
    assert len({(a, b) for a, b in zip(groups, names, strict=True)}) == 6
    by_clip = evaluate(capsys, copy, *FIXED, "--protocol", "leave-one-out")
    assert by_clip["groups"] == list(range(8))
    folds = evaluate(capsys, copy, *FIXED, "--protocol", "folds", "--folds", 3)
    assert folds["protocol"] == "3 folds, no source in two of them"
    assert sorted(set(folds["groups"])) == [0, 1, 2]
    assert folds["groups"][0] == folds["groups"][1]
    assert folds["groups"][2] == folds["groups"][4]


def test_bad_clips_are_skipped_with_a_sentence(capsys, copy):
    write_clip(copy / "set" / "fire" / "still.mkv", np.zeros((14, 64, 96), np.uint8), pixel_format="gray")
    (copy / "set" / "waves" / "broken.mp4").write_text("no video")
    argv = ("evaluate", copy / "set", "--cache", copy / "cache", *FIXED)
    code, out, err = call(capsys, *argv)
    assert code == 0
    skipped = [line for line in err.splitlines() if line.startswith("sysbags: skipped: ")]
    assert len(skipped) == 2
    assert any("still.mkv" in line and "no motion to learn" in line for line in skipped)
    assert any("broken.mp4" in line for line in skipped)
    assert "8 clips of 2 classes, 2 skipped; one clip left out at a time (8 clips)" in out
    output = call_json(capsys, *argv)
    assert {entry["path"].rsplit("/")[-1] for entry in output["skipped"]} == {"still.mkv", "broken.mp4"}


def test_words_are_learnt_by_thirds(capsys, place, monkeypatch):
    """Each clip is judged by a codebook that has not seen it, and a clip that cannot be read hinders none."""
    from sysbags.evaluate import features

    folds, streams = [], features.fitted_by_folds

    def spy(cache, bags, paths, codebook_folds, **options):
        folds.append(dict(zip(paths, codebook_folds.tolist(), strict=True)))
        return streams(cache, bags, paths, codebook_folds, **options)

    monkeypatch.setattr(features, "fitted_by_folds", spy)
    output = evaluate(
        capsys, place, *FIXED, "--bag", "sift", "--words", 8, "--protocol", "folds", "--folds", 3
    )
    assert [line["name"] for line in output["methods"]] == ["SIFT word systems, alignment"] * 3 + [
        "SIFT word averaged over time"
    ]
    [fold_of] = folds
    names = {path.relative_to(place / "set").as_posix(): fold for path, fold in fold_of.items()}
    assert sorted(set(names.values())) == [0, 1, 2]
    for group in range(3):  # no group is in two codebook folds
        clips = [
            clip["name"] for clip, g in zip(output["clips"], output["groups"], strict=True) if g == group
        ]
        assert len({names[clip] for clip in clips}) == 1


def test_comparing_runs_every_method(capsys, place):
    pytest.importorskip("onnxruntime")
    output = evaluate(capsys, place, *FIXED, "--compare")
    names = {line["name"] for line in output["methods"]}
    assert output["facts"]["notes"] == []
    for name in set(COMPARATORS) - {"LinearSystem"}:
        assert getattr(comparators, name).title in names
    assert set(COMPARATORS) == set(comparators.__all__)
    assert names >= {
        *("LBP systems, alignment", "LBP systems, Martin", "LBP systems, maximum singular value"),
        "LBP systems, spectral-Grassmann transport",
        *("LBP bags averaged over time", "LDS on pixels, alignment", "LDS on pixels, Martin"),
    }
    assert all(line["rate"]["total"] == 8 for line in output["methods"])
    kinds = {line["name"]: line["kind"] for line in output["methods"]}
    for name in ("LBP systems, alignment", "LBP systems, Martin", "LBP systems, maximum singular value"):
        assert kinds[name] == "systems"
    assert kinds["LDS on pixels, Martin"] == kinds["LBP-TOP"] == "comparator"


def test_a_comparator_that_cannot_be_had_is_noted(capsys, place, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    code, out, err = call(capsys, "evaluate", place / "set", "--cache", place / "none", *FIXED, "--compare")
    assert code == 0
    assert "PooledActivations was left out: " in err
    assert "onnxruntime" in err
    assert "LBP-TOP" in out


def test_tuning_runs(capsys, place):
    argv = ("--tune", "--lambda-a", 0.25, "--window", 1, "--kernel", "chi2", "--n-jobs", 1)
    output = evaluate(capsys, place, *argv)
    line = output["methods"][0]
    assert (line["name"], line["classifier"], line["main"]) == ("LBP systems, tuned", "chosen", True)
    chosen = line["settings"]
    names = (
        "bag parameters",
        "kernel",
        "order",
        "classifier",
        "metric",
        "normal form",
        "lambda_a",
        "lambda_mu",
    )
    neighbors = chosen.pop("n_neighbors", {})  # where the nearest system was chosen, and it is not 1
    assert set(map(int, neighbors if isinstance(neighbors, dict) else [neighbors])) <= {3, 5}
    assert tuple(chosen) == names
    # A weight that is given is that of the paper's distance.
    assert (chosen["lambda_a"], chosen["metric"], chosen["normal form"]) == (0.25, "alignment", "orthonormal")
    assert "window" not in str(chosen)  # as given
    for value in chosen.values():
        assert not isinstance(value, dict) or sum(value.values()) == 8
    assert output["methods"][1]["p_value"] is not None
    assert output["facts"]["order"] in (3, 5, 8)


def test_tables_of_moments_for_people(capsys, place):
    argv = ("evaluate", place / "set", "--cache", place / "cache", "--classifier", "moments")
    code, out, err = call(capsys, *argv)
    assert (code, err) == (0, "")
    assert "moments leaves out one of at most ten folds at a time; so does `sysbags fit`" in out
    settings = out.split("Settings:\n")[1]
    assert re.search(r"LBP streams +moments +components 32, compared [a-z ]+ \d+ %", settings)
    counted = settings.split("Chosen for LBP streams, moments, and how often:\n")[1]
    for name in ("terms", "width", "ridge"):
        [values] = re.findall(rf"^ *{name} +(\S.*)$", counted, re.M)
        assert sum(map(int, re.findall(r"\((\d+)\)", values))) == 80  # ten that vote, without each of 8 clips


def test_the_same_bits_for_any_number_of_threads(capsys, place):
    first, second = (
        evaluate(
            capsys, place, *FIXED[:-2], "--lambda-mu", "auto", "--n-jobs", jobs, "--report", place / "t.html"
        )
        for jobs in (1, 2)
    )
    for name in ("confusion", "neighbours", "atlas"):
        assert first[name] == second[name]
    assert [line["predictions"] for line in first["methods"]] == [
        line["predictions"] for line in second["methods"]
    ]


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (("--protocol", "by-source"), "set has no sources, but the protocol by-source needs at least two"),
        (
            ("--protocol", "predefined"),
            "set has no trials, but the protocol predefined needs a column of index.csv, or the array "
            "'trials' of a file of streams, with the words train and test",
        ),
        (("--metric", "martin"), "'martin' is not one of 'alignment', 'covariance', 'normalized-covariance'"),
        (
            ("--metric", "covariance", "--normal-form", "orthonormal"),
            "the metric covariance needs the unit-variance form, but the form is orthonormal",
        ),
        (("--normal-form", "x"), "normal_form is 'x', but it must be one of 'orthonormal', 'unit-variance'"),
        (
            ("--metric", "covariance", "--lambda-a", "2", "--order", "2"),
            "lambda_a is 2.0, but it must be a number in [0, 1]",
        ),
        (("--protocol", "folds", "--folds", "9"), "8 groups that must not be split, but 9 parts"),
        (("--lambda-mu", "-1"), "--lambda-mu is '-1', but it must be a number that is 0 or more, or auto"),
        (("--order", "x"), "--order is 'x', but it must be a whole number"),
        (("--order", "40"), "none of the clips can be used: "),
        (("--words", "5"), "--words is for the bags surf, sift and patch-words"),
        (("--report", "{place}/no/r.html"), "no does not exist"),
        (("--folds", "3"), "--folds goes with --protocol folds or predefined"),
        (("--folds", "10", "--protocol", "leave-one-out"), "--folds goes with --protocol folds"),
    ],
)
def test_mistakes_are_told_in_one_sentence(capsys, place, argv, sentence):
    words = [word.format(place=place) for word in argv]
    code, out, err = call(capsys, "evaluate", place / "set", "--cache", place / "cache", *words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert sentence in err


@pytest.mark.parametrize("is_for_user", [True, False])
def test_a_cache_that_cannot_be_written_costs_no_work(capsys, place, tmp_path, monkeypatch, is_for_user):
    """A path below a file cannot be made, not even by root."""
    blocker = tmp_path / "blocker"
    blocker.touch()
    home = (tmp_path if is_for_user else blocker) / "home"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name, **options: home / name)
    argv = (*FIXED, "--classifier", "nearest-mean", "--json")
    code, out, err = call(capsys, "evaluate", place / "set", "--cache", blocker / "cache", *argv)
    assert code == 0
    kept = f"kept in {home / 'sysbags'}" if is_for_user else "not kept"
    problem = f"cannot write to the folder {blocker / 'cache'}: Not a directory"
    assert err == f"sysbags: {problem}; intermediate results are {kept}\n"
    assert json.loads(out)["files"]["cache"] == (str(home / "sysbags") if is_for_user else None)
    assert home.exists() == is_for_user
    assert not is_for_user or len(list((home / "sysbags").iterdir())) > 8


@pytest.mark.parametrize(
    ("removed", "sources", "sentence"),
    [
        (["waves"], {}, "holds a single class, fire, but there must be at least two"),
        ([], {"fire": "x", "waves": "y"}, "each class has a single clip, or clips of a single source"),
        (["fire/*.mp4"], {}, "holds no clip"),
    ],
)
def test_folders_that_cannot_be_judged(capsys, copy, removed, sources, sentence):
    for name in removed:
        for path in list((copy / "set").glob(name)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if sources:
        clips = sorted((copy / "set").glob("*/*.mp4"))
        write_index(copy / "set", {f"{p.parent.name}/{p.name}": sources[p.parent.name] for p in clips})
    code, _, err = call(capsys, "evaluate", copy / "set", "--cache", copy / "cache", *FIXED)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert sentence in err


def test_one_source_for_all_and_a_class_of_one_source(capsys, copy):
    clips = sorted((copy / "set").glob("*/*.mp4"))
    names = [f"{path.parent.name}/{path.name}" for path in clips]
    write_index(copy / "set", dict.fromkeys(names, "x"))
    argv = ("evaluate", copy / "set", "--cache", copy / "cache", *FIXED)
    code, out, err = call(capsys, *argv)
    assert (code, err) == (0, "sysbags: all clips have the same source, so clips are left out, not sources\n")
    assert "one clip left out at a time" in out
    code, _, err = call(capsys, *argv, "--protocol", "by-source")
    assert (code, "has a single source, but the protocol by-source needs" in err) == (2, True)
    write_index(copy / "set", {name: "x" if name.startswith("fire") else name for name in names})
    output = call_json(capsys, *argv)
    lines = output["methods"]
    assert all(prediction == "waves" for line in lines for prediction in line["predictions"][:4])
    _, _, err = call(capsys, *argv)
    assert err.startswith(
        "sysbags: the class fire has a single clip or source: its clips are left out together, and so they"
    )


def test_a_class_without_a_usable_clip_is_told_of(capsys, copy):
    for path in (copy / "set" / "fire").glob("*.mp4"):
        path.write_text("no video")
    code, _, err = call(capsys, "evaluate", copy / "set", "--cache", copy / "cache", *FIXED)
    assert code == 2
    assert "no clip of the class fire can be used, but there must be one: " in err
    assert "00.mp4" in err


def test_several_bags_are_judged_together(capsys, place):
    """Every classifier uses all bags, and chooses among them; kernel ridge is the main method."""
    output = evaluate(capsys, place, *FIXED, "--bags", "lbp,colour,flow")
    assert [(line["name"], line["classifier"]) for line in output["methods"]] == [
        ("LBP + colour + flow systems, alignment", classifier)
        for classifier in ("kernel-ridge", "nearest-mean", "nearest-system")
    ] + [("LBP + colour + flow averaged over time", "kernel-ridge")]
    assert output["methods"][0]["main"]
    assert {"ridge", "width", "bags"} <= set(output["methods"][0]["settings"])
    names = {"LBP", "colour", "flow"}
    for line in output["methods"]:
        chosen = line["settings"]["bags"]
        for choice in chosen if isinstance(chosen, dict) else [chosen]:
            assert set(choice.split(" + ")) <= names


def test_one_classifier_alone(capsys, place):
    every = evaluate(capsys, place, *FIXED)["methods"]
    predicted = {line["classifier"]: line["predictions"] for line in every[:3]}
    names = {
        "kernel-ridge": "kernel-ridge",
        "nearest-mean": "nearest-mean",
        "nearest-system": "nearest-system",
    }
    for word, classifier in names.items():
        line, _ = evaluate(capsys, place, *FIXED, "--classifier", word)["methods"]
        assert (line["classifier"], line["predictions"]) == (classifier, predicted[classifier])
    line, _ = evaluate(capsys, place, *FIXED, "--classifier", "auto")["methods"]
    chosen = line["settings"]["classifier"]
    assert set(chosen if isinstance(chosen, dict) else [chosen]) <= set(names.values())


def test_confidence_is_printed(capsys, place):
    code, out, _ = call(capsys, "evaluate", place / "set", "--cache", place / "cache", *FIXED)
    assert code == 0
    assert re.search(r"^Confidence of the first line: expected calibration error 0\.\d{3}$", out, re.M)
    rows = re.findall(r"^ +(\d+) % +(\S+) % +(\S+) % +(\S+) +(\S+) %", out, re.M)
    confidence = evaluate(capsys, place, *FIXED, "--report", place / "c.html")["confidence"]
    expected = [
        (
            f"{100 * row['level']:.0f}",
            f"{100 * row['clips']:.1f}",
            f"{100 * row['sources']:.1f}",
            f"{row['size']:.2f}",
            f"{100 * row['empty']:.1f}",
        )
        for row in confidence["coverage"]
    ]
    assert rows == expected
    assert len(rows) > 1


# --- metrics and forms


@pytest.mark.parametrize("metric", ["covariance", "normalized-covariance"])
def test_a_metric_by_a_loop_over_the_clips(capsys, place, metric):
    weights = {"metric": metric, "lambda_a": 0.5, "lambda_mu": 2.0}
    argv = [word for name, value in weights.items() for word in (f"--{name.replace('_', '-')}", value)]
    output = evaluate(capsys, place, *argv, "--order", 2, "--n-jobs", 1)
    clips = output["clips"]
    streams = [LocalBinaryPatterns().stream(place / "set" / clip["name"]) for clip in clips]
    systems = [identify(stream, 2, normal_form="unit-variance") for stream in streams]
    for line, model in zip(
        output["methods"][1:3], (NearestMean(**weights), NearestSystem(**weights)), strict=True
    ):
        assert line["settings"]["metric"] == metric
        assert line["settings"]["normal form"] == "unit-variance"
        assert (line["settings"]["lambda_a"], line["settings"]["lambda_mu"]) == (0.5, 2.0)
        for k, prediction in enumerate(line["predictions"]):
            rest = [j for j in range(8) if j != k]
            model.fit([systems[j] for j in rest], [clips[j]["label"] for j in rest])
            assert model.predict([systems[k]])[0] == prediction


def test_metric_form_and_weights_are_chosen(capsys, place):
    output = evaluate(capsys, place, "--order", 2, "--n-jobs", 1)
    assert [(line["name"], line["classifier"]) for line in output["methods"]] == [
        ("LBP systems", "kernel-ridge"),
        ("LBP systems", "nearest-mean"),
        ("LBP systems", "nearest-system"),
        ("LBP averaged over time", "kernel-ridge"),
    ]
    for line in output["methods"][:3]:
        assert {"metric", "normal form", "lambda_a", "lambda_mu"} <= set(line["settings"])
        for value in line["settings"].values():  # one choice for all clips, or how many each was chosen for
            assert not isinstance(value, dict) or sum(value.values()) == 8
    given = evaluate(capsys, place, "--order", 2, "--n-jobs", 1, "--normal-form", "unit-variance")
    for line in given["methods"][:3]:
        assert line["settings"]["normal form"] == "unit-variance"


# --- official splits


def write_table(folder, rows):
    with (folder / "index.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def expected_in_trials(systems, labels, trials, model):
    """The predictions for the test sets, one trial after the other."""
    predictions = []
    for parts in trials:
        training, tested = ([k for k, part in enumerate(parts) if part == word] for word in ("train", "test"))
        model.fit([systems[k] for k in training], [labels[k] for k in training])
        predictions += model.predict([systems[k] for k in tested]).tolist()
    return predictions


TRIALS = {
    "first": ["train", "train", "test", "test", "train", "train", "test", "test"],
    "second": ["test", "train", "train", "", "test", "train", "train", "train"],
}


def test_official_splits_of_an_index(capsys, copy):
    """A classifier is fitted to each training set, and evaluated on the test set of the same trial."""
    names = [f"{path.parent.name}/{path.name}" for path in sorted((copy / "set").glob("*/*.mp4"))]
    write_table(copy / "set", [("clip", *TRIALS), *zip(names, *TRIALS.values(), strict=True)])
    output = evaluate(capsys, copy, *FIXED)  # the protocol is the default, as there are trials
    assert output["protocol"] == "2 official trials (clips tested: first: 4, second: 2)"
    tested = [
        name for parts in TRIALS.values() for name, part in zip(names, parts, strict=True) if part == "test"
    ]
    assert [clip["name"] for clip in output["clips"]] == tested
    labels = [name.split("/")[0] for name in names]
    assert [clip["label"] for clip in output["clips"]] == [name.split("/")[0] for name in tested]
    systems = [identify(LocalBinaryPatterns().stream(copy / "set" / name), 2) for name in names]
    weights = {"lambda_a": 0.25, "lambda_mu": 10.0}
    for line, model in zip(
        output["methods"][1:3], (NearestMean(**weights), NearestSystem(**weights)), strict=True
    ):
        expected = expected_in_trials(systems, labels, TRIALS.values(), model)
        assert line["predictions"] == expected
        right = [a == clip["label"] for a, clip in zip(expected, output["clips"], strict=True)]
        assert line["trials"] == {"first": sum(right[:4]) / 4, "second": sum(right[4:]) / 2}
        assert line["rate"]["total"] == 6
    assert len(output["methods"][0]["predictions"]) == 6
    argv = ("evaluate", copy / "set", "--cache", copy / "cache", *FIXED)
    code, out, err = call(capsys, *argv, "--protocol", "predefined", "--folds", 2)
    assert (code, err) == (0, "")
    table = out.split("Accuracy in each trial, and their mean:\n")[1].split("Settings:")[0]
    assert re.search(r"method +classifier +first +second +mean", table)
    shares = [100 * share for share in output["methods"][0]["trials"].values()]
    numbers = " +".join(re.escape(f"{share:.1f} %") for share in (*shares, sum(shares) / 2))
    assert re.search(rf"LBP systems, alignment +kernel-ridge +{numbers}", table)
    # Another protocol may be asked for.
    by_clip = evaluate(capsys, copy, *FIXED, "--protocol", "leave-one-out")
    assert len(by_clip["clips"]) == 8
    assert "trials" not in by_clip["methods"][0] or not by_clip["methods"][0]["trials"]


def test_labels_and_sources_of_an_index(capsys, copy):
    """Labels that are not the names of folders; the sources are left out together as ever."""
    names = [f"{path.parent.name}/{path.name}" for path in sorted((copy / "set").glob("*/*.mp4"))]
    labels = ["odd" if int(name[-5]) % 2 else "even" for name in names]
    rows = zip(
        names, labels, [name[-5] + label for name, label in zip(names, labels, strict=True)], strict=True
    )
    write_table(copy / "set", [("clip", "label", "source"), *rows])
    output = evaluate(capsys, copy, *FIXED)
    assert output["classes"] == ["even", "odd"]
    assert output["protocol"] == "one source left out at a time (4 sources)"
    assert sorted(clip["label"] for clip in output["clips"]) == sorted(labels)
    assert all(clip["source"].endswith(clip["label"]) for clip in output["clips"])
    write_table(copy / "set", [("clip", "label"), *((name, "same") for name in names)])
    code, _, err = call(capsys, "evaluate", copy / "set", "--cache", copy / "cache", *FIXED)
    assert code == 2
    assert "holds a single class, same, but there must be at least two" in err


def test_clips_of_one_label_keep_their_own_names(capsys, copy):
    names = [f"{path.parent.name}/{path.name}" for path in sorted((copy / "set").glob("*/*.mp4"))]
    labels = ["odd" if int(name[-5]) % 2 else "even" for name in names]
    write_table(copy / "set", [("clip", "label"), *zip(names, labels, strict=True)])
    output = evaluate(capsys, copy, *FIXED)
    assert len({clip["name"] for clip in output["clips"]}) == 8


def test_trials_with_mistakes(capsys, copy):
    names = [f"{path.parent.name}/{path.name}" for path in sorted((copy / "set").glob("*/*.mp4"))]
    for parts, sentence in (
        (["train"] * 8, "test"),
        (["train"] * 7 + ["tset"], "tset"),
    ):
        write_table(copy / "set", [("clip", "split"), *zip(names, parts, strict=True)])
        code, out, err = call(capsys, "evaluate", copy / "set", "--cache", copy / "cache", *FIXED)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert "'split'" in err
        assert sentence in err


# --- files of streams


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Streams of three classes in files: alone, with groups, and with official splits too."""
    folder = tmp_path_factory.mktemp("streams")
    streams, labels = make_streams(classes=3, per_class=4, frames=30, bins=8)
    groups = [f"day {k // 2}" for k in range(12)]
    parts = {"a": ["train", "test", "train", "train"] * 3, "b": ["test", "train", "train", ""] * 3}
    write_streams(folder / "plain.npz", streams, labels)
    write_streams(folder / "groups.npz", streams, labels, groups)
    write_streams(folder / "trials.npz", streams, labels, groups, trials=parts)
    write_streams(folder / "one.npz", streams, [0] * 12)
    write_streams(folder / "centred.npz", [stream - stream.mean(axis=0) for stream in streams], labels)
    return folder, streams, labels, parts


def test_streams_by_a_loop_over_them(capsys, sounds):
    folder, streams, labels, _ = sounds
    output = evaluate(capsys, folder, *FIXED, data="plain.npz")
    assert output["protocol"] == "one clip left out at a time (12 clips)"
    assert output["title"] == "plain.npz"
    systems = [identify(stream, 2) for stream in streams]
    weights = {"lambda_a": 0.25, "lambda_mu": 10.0}
    for line, model in zip(
        output["methods"][1:3], (NearestMean(**weights), NearestSystem(**weights)), strict=True
    ):
        assert line["name"] == "stream systems, alignment"
        for k, prediction in enumerate(line["predictions"]):
            rest = [j for j in range(12) if j != k]
            model.fit([systems[j] for j in rest], [labels[j] for j in rest])
            assert str(model.predict([systems[k]])[0]) == str(prediction)


def test_groups_and_trials_of_streams(capsys, sounds):
    folder, streams, labels, parts = sounds
    output = evaluate(capsys, folder, *FIXED, data="groups.npz")
    assert output["protocol"] == "one source left out at a time (6 sources)"
    assert [clip["source"] for clip in output["clips"]] == [f"day {k // 2}" for k in range(12)]
    output = evaluate(capsys, folder, *FIXED, data="trials.npz")
    assert output["protocol"] == "2 official trials (clips tested: a: 3, b: 3)"
    systems = [identify(stream, 2) for stream in streams]
    model = NearestMean(lambda_a=0.25, lambda_mu=10.0)
    expected = expected_in_trials(systems, labels, parts.values(), model)
    assert list(map(str, output["methods"][1]["predictions"])) == list(map(str, expected))
    output = evaluate(capsys, folder, *FIXED, "--protocol", "by-source", data="trials.npz")
    assert output["protocol"] == "one source left out at a time (6 sources)"


def test_streams_keep_their_names_in_trials(capsys, sounds, tmp_path):
    """A stream that is tested twice has one name, and no two streams have the same."""
    _, streams, labels, _ = sounds
    parts = {"a": ["train", "test", "train", "train"] * 3, "b": ["", "test", "train", "train"] * 3}
    names = [f"recording {k}" for k in range(12)]
    write_streams(tmp_path / "s.npz", streams, labels, names=names, trials=parts)
    output = evaluate(capsys, tmp_path, *FIXED, data="s.npz")
    tested = [clip["name"] for clip in output["clips"]]
    assert tested[:3] == tested[3:]
    assert all(name.endswith(f"recording {k}") for name, k in zip(tested, (1, 5, 9), strict=False))


def test_comparing_on_streams_leaves_out_what_needs_clips(capsys, sounds):
    folder = sounds[0]
    argv = ("evaluate", folder / "plain.npz", "--cache", folder / "cache", *FIXED, "--compare")
    output = call_json(capsys, *argv)
    names = {line["name"] for line in output["methods"]}
    assert {"stream systems, alignment", "stream systems, Martin", "stream bags averaged over time"} <= names
    assert not any(getattr(comparators, name).title in names for name in COMPARATORS)
    code, _, err = call(capsys, *argv)
    assert (code, len(err.splitlines())) == (0, 1)
    assert "other people's methods were left out: they need clips, but there are streams" in err


def test_a_report_of_streams(capsys, sounds, tmp_path):
    output = evaluate(capsys, sounds[0], *FIXED, "--report", tmp_path / "r.html", data="trials.npz")
    assert (tmp_path / "r.html").read_text().lower().startswith("<!doctype html>")
    assert [page["class"] for page in output["atlas"]] == output["classes"]


def test_streams_that_are_no_histograms_need_another_kernel(capsys, sounds):
    folder = sounds[0]
    output = evaluate(capsys, folder, *FIXED, "--kernel", "linear", data="centred.npz")
    assert output["facts"]["kernel"] == "linear"
    assert output["methods"][0]["rate"]["total"] == 12


@pytest.mark.parametrize(
    ("file", "argv", "sentence"),
    [
        ("centred.npz", (), "but the chi2 kernel compares histograms: entries must be 0 or more"),
        ("one.npz", (), "holds a single class, 0, but there must be at least two"),
        ("none.npz", (), "none.npz does not exist"),
        (
            "plain.npz",
            ("--protocol", "by-source"),
            "plain.npz has no sources, but the protocol by-source needs",
        ),
        ("groups.npz", ("--protocol", "predefined"), "groups.npz has no trials, but the protocol predefined"),
        (
            "plain.npz",
            ("--bag", "surf", "--window", "3", "--max-frames", "9"),
            "a file of streams has no clips to read: leave out --bags, --window, --max-frames",
        ),
        ("plain.npz", ("--bags", "lbp,flow"), "a file of streams has no clips to read: leave out --bags"),
        ("plain.npz", ("--preset", "fast"), "a file of streams has no clips to read: leave out --preset"),
        ("plain.npz", ("--order", "40"), "order 40 needs at least 41 frames"),
        ("plain.npz", ("--folds", "3"), "--folds goes with --protocol folds or predefined"),
    ],
)
def test_mistakes_with_files_of_streams(capsys, sounds, file, argv, sentence):
    folder = sounds[0]
    code, out, err = call(capsys, "evaluate", folder / file, "--cache", folder / "cache", *argv)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert sentence in err


def test_files_that_hold_no_streams(capsys, tmp_path):
    (tmp_path / "text.npz").write_text("no streams")
    np.savez(tmp_path / "other.npz", numbers=np.arange(3))
    for file in ("text.npz", "other.npz"):
        code, out, err = call(capsys, "evaluate", tmp_path / file, "--cache", tmp_path / "cache")
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert file in err


def test_an_embedding_is_noted(capsys, tmp_path):
    streams, labels = make_streams(classes=2, per_class=4, frames=20, bins=6)
    path = tmp_path / "streams.npz"
    write_streams(path, streams, labels)
    words = ["evaluate", path, "--order", 2, "--lambda-mu", 1, "--cache", tmp_path / "cache"]
    assert call_json(capsys, *words)["facts"]["embedding"] is None
    document = call_json(capsys, *words, "--embedding", 7)
    loss = document["facts"]["embedding"]
    assert loss["landmarks"] == 7
    assert 0.0 < loss["median"] <= loss["largest"] < 1.0
    code, _, err = call(capsys, *words, "--embedding", 7)
    assert code == 0
    sentence = (
        f"distances are approximate: an embedding of 7 landmarks, which loses {100 * loss['median']:.1f} %"
    )
    assert sentence in " ".join(err.split())
