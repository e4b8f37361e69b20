"""`sysbags distance`, `matrix`, `mean` and `inspect`."""

from __future__ import annotations

import csv
import json
import math
import re
import sys

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

import sysbags
from cli_folder import FRAMES, HEIGHT, WIDTH, call, call_json, flicker, make_classes
from clips import write_clip
from sysbags.cli import main
from sysbags.cli._clips import too_short
from sysbags.cli.inspect import spectrum


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return make_classes(tmp_path_factory.mktemp("clips") / "clips", per_class=2)


@pytest.fixture(scope="module")
def model(classes, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    words = ["--bag", "sift", "--words", "8", "--order", "2", "--lambda-a", "1", "--lambda-mu", "2", "--json"]
    words += ["--classifier", "nearest-mean"]
    assert main(["fit", str(classes), "--out", str(path), *words]) == 0
    return path


def test_distance_notes_clips_that_are_too_short(capsys, classes, tmp_path):
    long = classes / "flicker" / "0.mp4"
    one, four = (write_clip(tmp_path / f"{n}.mp4", flicker(5)[:n]) for n in (3, 4))
    code, _, err = call(capsys, "distance", one, long, "--order", 2)
    text = f"{one} has 3 bags, but the other clip has {FRAMES}: its distance is uncertain"
    assert (code, err) == (0, f"sysbags: {text}\n")
    code, _, err = call(capsys, "distance", four, four)
    assert (code, err) == (
        0,
        f"sysbags: {four} is too short or too still for order 5: its system has order 3\n",
    )
    assert call(capsys, "distance", long, long, "--order", 2)[2] == ""


def test_a_single_bag_is_not_several(tmp_path):
    text = too_short(tmp_path, 1, 4, "the other clip", None)
    assert text == f"{tmp_path} has 1 bag, but the other clip has 4: its distance is uncertain"


def systems_of(paths, order=5):
    streams = sysbags.bags.LocalBinaryPatterns().transform(paths)
    return sysbags.SystemIdentifier(order).transform(streams)


def test_distance(capsys, classes):
    first, second = classes / "waves" / "0.mp4", classes / "flicker" / "0.mp4"
    output = call_json(capsys, "distance", first, second, "--lambda-mu", 10)
    twin = sysbags.align(*systems_of([first, second]), lambda_mu=10.0)
    assert output["clips"] == [str(first), str(second)]
    assert output["squared_distance"] == twin.distance
    assert output["root_of_squared_distance"] == math.sqrt(twin.distance)
    assert (output["squared_lower_bound"], output["squared_parts"]) == (twin.lower_bound, twin.parts)
    assert sum(output["squared_parts"].values()) == pytest.approx(output["squared_distance"], rel=1e-12)
    assert (output["lambda_a"], output["lambda_mu"]) == (0.25, 10.0)
    code, out, _ = call(capsys, "distance", first, second, "--lambda-mu", 10)
    assert code == 0
    rows = dict(re.findall(r"^ *([a-z][a-z ]*?) {2,}(\S+) *$", out, re.MULTILINE))
    assert rows == {
        "squared alignment distance": f"{twin.distance:.4g}",
        **{f"{name} part": f"{part:.4g}" for name, part in twin.parts.items()},
        "lower bound": f"{twin.lower_bound:.4g}",
        "root of squared distance": f"{math.sqrt(twin.distance):.4g}",
    }


@pytest.mark.parametrize("metric", ["martin", "max-singular-value"])
def test_distance_by_other_metrics(capsys, classes, metric):
    paths = [classes / "waves" / "0.mp4", classes / "flicker" / "0.mp4"]
    output = call_json(capsys, "distance", *paths, "--metric", metric, "--order", 2)
    twin = sysbags.pairwise_distances(systems_of(paths, 2), metric=metric)[0, 1]
    assert output["squared_distance"] == pytest.approx(twin, rel=1e-12)
    assert list(output) == ["clips", "metric", "squared_distance", "root_of_squared_distance"]
    assert output["root_of_squared_distance"] == math.sqrt(output["squared_distance"])


@pytest.mark.parametrize("metric", ["covariance", "normalized-covariance"])
def test_distances_of_lagged_covariances(capsys, classes, metric, tmp_path):
    """The systems get the form that the metric needs."""
    paths = [classes / "waves" / "0.mp4", classes / "waves" / "1.mp4"]
    words = ("--metric", metric, "--order", 2, "--lambda-a", 0.5, "--lambda-mu", 3)
    output = call_json(capsys, "distance", *paths, *words)
    streams = sysbags.bags.LocalBinaryPatterns().transform(paths)
    systems = sysbags.SystemIdentifier(2, normal_form="unit-variance").transform(streams)
    twin = sysbags.pairwise_distances(systems, metric=metric, lambda_a=0.5, lambda_mu=3.0)
    assert output["squared_distance"] == pytest.approx(twin[0, 1], rel=1e-12)
    call_json(capsys, "matrix", classes / "waves", "--out", tmp_path / "d.csv", *words)
    table = np.loadtxt(tmp_path / "d.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    np.testing.assert_allclose(table, twin, rtol=1e-12)


def test_distance_with_a_model(capsys, classes, model):
    paths = [classes / "waves" / "0.mp4", classes / "flicker" / "0.mp4"]
    output = call_json(capsys, "distance", *paths, "--model", model)
    first, second = sysbags.load(model)[:-1].transform(paths)
    assert output["squared_distance"] == sysbags.alignment_distance(first, second, 1.0, 2.0)
    output = call_json(capsys, "distance", *paths, "--model", model, "--lambda-a", 0.5)
    assert output["squared_distance"] == sysbags.alignment_distance(first, second, 0.5, 2.0)


def test_words_are_learnt_from_the_clips(capsys, classes):
    paths = [classes / "waves" / "0.mp4", classes / "flicker" / "0.mp4"]
    output = call_json(
        capsys, "distance", *paths, "--bag", "sift", "--words", 8, "--order", 2, "--random-state", 3
    )
    streams = sysbags.bags.VisualWords(8, "sift", random_state=3).fit(paths).transform(paths)
    twin = sysbags.align(*sysbags.SystemIdentifier(2).transform(streams))
    assert output["squared_distance"] == pytest.approx(twin.distance, rel=1e-12)


def test_matrix(capsys, classes, tmp_path):
    bad = classes / "waves" / "bad.mp4"
    bad.write_text("not a video")
    try:
        code, out, err = call(capsys, "matrix", classes, "--out", tmp_path / "d.csv")
    finally:
        bad.unlink()
    assert code == 0
    assert "4 clips, 1 skipped" in out
    assert "skipped" in err
    with (tmp_path / "d.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    names = ["flicker/0.mp4", "flicker/1.mp4", "waves/0.mp4", "waves/1.mp4"]
    assert head == ["clip", *names]
    assert [row[0] for row in rows] == names
    table = np.array([row[1:] for row in rows], dtype=float)
    np.testing.assert_array_equal(
        table, sysbags.pairwise_distances(systems_of([classes / name for name in names]))
    )


def test_matrix_of_a_flat_folder(capsys, classes, tmp_path):
    output = call_json(
        capsys, "matrix", classes / "waves", "--out", tmp_path / "d.csv", "--metric", "martin", "--n-jobs", 1
    )
    assert (output["metric"], output["clips"], output["skipped"]) == ("martin", ["0.mp4", "1.mp4"], [])
    assert (tmp_path / "d.csv").read_text().count("\n") == 3


def test_matrix_without_a_good_clip(capsys, tmp_path):
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "bad.mp4").write_text("not a video")
    code, _, err = call(capsys, "matrix", tmp_path / "clips", "--out", tmp_path / "d.csv")
    assert code == 2
    assert "none of the clips can be used" in err
    assert not (tmp_path / "d.csv").exists()


def test_matrix_interrupted(capsys, classes, tmp_path, monkeypatch):
    class Interrupted:
        def __init__(self, file):
            self.file = file

        def writerows(self, rows):
            self.file.write("half")
            raise KeyboardInterrupt

    (tmp_path / "d.csv").write_text("what was there before")
    monkeypatch.setattr(csv, "writer", Interrupted)
    assert call(capsys, "matrix", classes, "--out", tmp_path / "d.csv")[0] == 130
    assert (tmp_path / "d.csv").read_text() == "what was there before"
    assert len(list(tmp_path.iterdir())) == 1


def test_mean(capsys, classes, tmp_path):
    paths = sorted((classes / "waves").glob("*.mp4"))
    words = ("--out", tmp_path / "m", "--order", 2, "--lambda-mu", 3)
    output = call_json(capsys, "mean", *paths, *words)
    twin = sysbags.frechet_mean(systems_of(paths, 2), lambda_mu=3.0)
    saved = sysbags.load(tmp_path / "m")
    np.testing.assert_array_equal(saved.transition, twin.system.transition)
    np.testing.assert_array_equal(saved.alpha, twin.system.alpha)
    assert (output["objective"], output["iterations"]) == (twin.objective, len(twin.history))
    assert (output["clips"], output["order"], output["samples"]) == (2, 2, 2 * FRAMES)


def test_mean_needs_every_clip(capsys, classes, tmp_path):
    paths = sorted((classes / "waves").glob("*.mp4"))
    code, _, err = call(capsys, "mean", *paths, "--out", tmp_path / "m", "--order", 99)
    assert code == 2
    assert f"{paths[0]}: order 99 needs at least 100 frames" in err
    assert list(tmp_path.iterdir()) == []


def test_inspect_clip(capsys, classes, tmp_path):
    path = classes / "waves" / "0.mp4"
    output = call_json(capsys, "inspect", path, "--plot", tmp_path / "p.png")
    assert (output["kind"], output["frames"], output["height"], output["width"]) == (
        "clip",
        FRAMES,
        HEIGHT,
        WIDTH,
    )
    assert output["frames_per_second"] == 25
    assert output["seconds"] == pytest.approx(FRAMES / 25, abs=0.05)
    (system,) = output["systems"]
    (twin,) = systems_of([path])
    assert system["eigenvalues"] == twin.eigenvalues.tolist()
    assert (system["explained"], system["order"]) == (twin.explained, 5)
    assert system["spectrum"] == spectrum(twin)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = call(capsys, "inspect", path, "--bag", "flow", "--order", 2)
    assert (code, err) == (0, "")
    assert "half life" in out


def test_spectrum_by_hand():
    c, s = 0.9 * math.cos(0.4), 0.9 * math.sin(0.4)
    A = [[c, -s, 0.0, 0.0], [s, c, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]]
    theta = sysbags.System(A, np.eye(4), np.eye(4), np.full(4, 0.25))
    wave, decay, nothing = spectrum(theta)
    assert wave["modulus"] == pytest.approx(0.9)
    assert wave["period"] == pytest.approx(2 * math.pi / 0.4)
    assert wave["half_life"] == pytest.approx(math.log(0.5) / math.log(0.9))
    assert (decay["modulus"], decay["period"], decay["half_life"]) == (0.5, None, pytest.approx(1.0))
    assert (nothing["modulus"], nothing["half_life"]) == (0.0, None)


def test_inspect_folder_of_images_and_still_clip(capsys, tmp_path):
    still = write_clip(tmp_path / "still.avi", np.full((6, 32, 48), 90, dtype=np.uint8))
    output = call_json(capsys, "inspect", still)
    assert (output["frames"], output["systems"]) == (6, [])
    assert "still clip" in output["note"]
    code, _, err = call(capsys, "inspect", still, "--plot", tmp_path / "p.png")
    assert code == 2
    assert "there is no system to draw" in err
    import cv2

    (tmp_path / "images").mkdir()
    for k in range(7):
        picture = np.random.default_rng(k).integers(0, 256, size=(20, 30), dtype=np.uint8)
        cv2.imwrite(str(tmp_path / "images" / f"{k}.png"), picture)
    output = call_json(capsys, "inspect", tmp_path / "images", "--order", 2)
    assert (output["frames"], output["height"], output["width"]) == (7, 20, 30)
    assert "codec" not in output


def test_inspect_saved_files(capsys, classes, model, tmp_path):
    output = call_json(capsys, "inspect", model, "--plot", tmp_path / "model.svg")
    assert output["kind"] == "Pipeline"
    assert [system["name"] for system in output["systems"]] == ["flicker", "waves"]
    assert (output["lambda_a"], output["lambda_mu"]) == (1.0, 2.0)
    assert "VisualWords" in output["steps"]["bags"]
    assert b"<svg" in (tmp_path / "model.svg").read_bytes()
    code, out, _ = call(capsys, "inspect", model)
    assert code == 0
    assert "flicker" in out

    systems = systems_of(sorted(classes.glob("*/*.mp4")), 2)
    judge = sysbags.NearestSystem().fit(systems, ["a", "a", "b", "b"])
    objects = {"one": systems[0], "list": systems, "judge": judge, "bag": sysbags.bags.LocalBinaryPatterns()}
    for (name, obj), count in zip(objects.items(), (1, 4, 4, 0), strict=True):
        sysbags.save(tmp_path / name, obj)
        assert len(call_json(capsys, "inspect", tmp_path / name)["systems"]) == count
        assert call(capsys, "inspect", tmp_path / name)[0] == 0
    assert [s["name"] for s in call_json(capsys, "inspect", tmp_path / "judge")["systems"]] == list("aabb")
    code, _, err = call(capsys, "inspect", tmp_path / "one", "--order", 3)
    assert code == 2
    assert "--order goes with clips" in err
    (tmp_path / "cut").write_bytes(model.read_bytes()[:300])
    code, _, err = call(capsys, "inspect", tmp_path / "cut")
    assert code == 2
    assert "cut" in err


def test_plot_says_what_it_lacks(capsys, classes, tmp_path, monkeypatch):
    path = classes / "waves" / "0.mp4"
    code, _, err = call(capsys, "inspect", path, "--plot", tmp_path / "p.docx")
    assert code == 2
    assert "but it ends in '.docx'" in err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = call(capsys, "inspect", path, "--plot", tmp_path / "p.png")
    assert code == 2
    assert "pip install 'sysbags[plot]'" in err
    assert list(tmp_path.iterdir()) == []


# --- models of other metrics and forms

METRICS = ["alignment", "covariance", "normalized-covariance"]


@pytest.fixture(scope="module")
def unit_models(classes, tmp_path_factory):
    """Models in the unit-variance form, one per metric, with weights that are given."""
    folder = tmp_path_factory.mktemp("unit")
    for metric in METRICS:
        words = ["--metric", metric, "--normal-form", "unit-variance", "--order", "2"]
        words += ["--lambda-a", "0.5", "--lambda-mu", "3", "--classifier", "nearest-mean", "--json"]
        assert main(["fit", str(classes), "--out", str(folder / metric), *words]) == 0
    return folder


def unit_systems_of(paths, order=2):
    streams = sysbags.bags.LocalBinaryPatterns().transform(paths)
    return sysbags.SystemIdentifier(order, normal_form="unit-variance").transform(streams)


@pytest.mark.parametrize("metric", METRICS)
def test_a_model_gives_bag_form_and_weights_to_its_own_metric(capsys, classes, unit_models, tmp_path, metric):
    paths = [classes / "waves" / "0.mp4", classes / "waves" / "1.mp4"]
    systems = unit_systems_of(paths)
    twin = sysbags.pairwise_distances(systems, metric=metric, lambda_a=0.5, lambda_mu=3.0)
    words = ("--model", unit_models / metric, "--metric", metric)
    output = call_json(capsys, "distance", *paths, *words)
    assert output["metric"] == metric
    assert output["squared_distance"] == pytest.approx(twin[0, 1], rel=1e-9)
    call_json(capsys, "matrix", classes / "waves", "--out", tmp_path / "d.csv", *words)
    table = np.loadtxt(tmp_path / "d.csv", delimiter=",", skiprows=1, usecols=(1, 2))
    np.testing.assert_allclose(table, twin, rtol=1e-9)
    # Other weights may be given.
    output = call_json(capsys, "distance", *paths, *words, "--lambda-mu", 0)
    twin = sysbags.pairwise_distances(systems, metric=metric, lambda_a=0.5)
    assert output["squared_distance"] == pytest.approx(twin[0, 1], rel=1e-9)


def test_the_mean_of_a_model_in_the_unit_variance_form(capsys, classes, unit_models, tmp_path):
    paths = sorted((classes / "waves").glob("*.mp4"))
    words = ("--out", tmp_path / "m", "--model", unit_models / "alignment")
    output = call_json(capsys, "mean", *paths, *words)
    twin = sysbags.frechet_mean(unit_systems_of(paths), 0.5, 3.0)
    saved = sysbags.load(tmp_path / "m")
    assert saved.normal_form == "unit-variance"
    assert output["objective"] == pytest.approx(twin.objective, rel=1e-9)
    np.testing.assert_allclose(saved.transition, twin.system.transition, rtol=0, atol=1e-9)
    assert (output["lambda_a"], output["lambda_mu"]) == (0.5, 3.0)


def distances_of_default_metric(capsys, command, classes, model, tmp_path):
    """The exit code, the complaint, and what a command says without the option --metric."""
    paths = sorted((classes / "waves").glob("*.mp4"))
    words = {
        "distance": ("distance", *paths),
        "matrix": ("matrix", classes / "waves", "--out", tmp_path / "out"),
        "mean": ("mean", *paths, "--out", tmp_path / "out"),
    }[command]
    code, out, err = call(capsys, *words, "--model", model, "--json")
    return code, err, json.loads(out) if code == 0 else {}


@pytest.mark.parametrize("metric", METRICS[1:])
@pytest.mark.parametrize("command", ["distance", "matrix", "mean"])
def test_weights_of_one_metric_are_not_used_for_another(
    capsys, classes, unit_models, tmp_path, command, metric
):
    """With a model of lagged covariances its metric is used, or the command says in a sentence why not."""
    model = unit_models / metric
    code, err, output = distances_of_default_metric(capsys, command, classes, model, tmp_path)
    if command == "mean":  # the Frechet mean is that of the alignment distance
        assert (code, len(err.splitlines())) == (2, 1)
        assert (
            f"the weights of {model} are those of the metric {metric}: for the metric alignment, give" in err
        )
    else:
        assert (code, output["metric"]) == (0, metric)


@pytest.mark.parametrize("metric", METRICS[1:])
def test_weights_of_alignments_are_not_used_for_covariances(capsys, classes, unit_models, metric):
    """Unless both weights are given."""
    paths = [classes / "waves" / "0.mp4", classes / "waves" / "1.mp4"]
    words = ("distance", *paths, "--model", unit_models / "alignment", "--metric", metric)
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert (
        f"are those of the metric alignment: for the metric {metric}, give --lambda-a and --lambda-mu" in err
    )
    assert call(capsys, *words, "--lambda-a", 0.5)[0] == 2
    output = call_json(capsys, *words, "--lambda-a", 0.25, "--lambda-mu", 0)
    twin = sysbags.pairwise_distances(unit_systems_of(paths), metric=metric, lambda_a=0.25)
    assert output["squared_distance"] == pytest.approx(twin[0, 1], rel=1e-9)


def test_a_model_keeps_its_form(capsys, classes, model, unit_models):
    paths = [classes / "waves" / "0.mp4", classes / "flicker" / "0.mp4"]
    words = ("--metric", "covariance", "--lambda-a", 0.5, "--lambda-mu", 0)
    code, out, err = call(capsys, "distance", *paths, "--model", model, *words)
    assert (code, out) == (2, "")
    assert "the metric covariance needs the unit-variance form, but the systems of" in err
    # Metrics without weights need none.
    output = call_json(
        capsys, "distance", *paths, "--model", unit_models / "covariance", "--metric", "martin"
    )
    twin = sysbags.pairwise_distances(unit_systems_of(paths), metric="martin")
    assert output["squared_distance"] == pytest.approx(twin[0, 1], rel=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_inspect_a_model_in_the_unit_variance_form(capsys, unit_models, tmp_path, metric):
    output = call_json(capsys, "inspect", unit_models / metric, "--plot", tmp_path / "p.png")
    assert "unit-variance" in output["steps"]["systems"]
    assert metric == "alignment" or f"metric='{metric}'" in output["steps"]["classify"]
    assert [system["name"] for system in output["systems"]] == ["flicker", "waves"]
    # An average of covariances has the sum of the orders.
    assert [system["order"] for system in output["systems"]] == [2 if metric == "alignment" else 4] * 2
    assert (output["lambda_a"], output["lambda_mu"]) == (0.5, 3.0)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = call(capsys, "inspect", unit_models / metric)
    assert (code, err) == (0, "")
    assert "unit-variance" in out


@pytest.mark.parametrize("metric", METRICS[1:])
def test_the_plot_of_a_model_has_distances_of_its_metric(capsys, unit_models, tmp_path, monkeypatch, metric):
    from sysbags.distances import pairwise

    asked, original = [], pairwise.pairwise_distances

    def spy(systems, others=None, metric="alignment", **options):
        asked.append(metric)
        return original(systems, others, metric, **options)

    monkeypatch.setattr(pairwise, "pairwise_distances", spy)
    call_json(capsys, "inspect", unit_models / metric, "--plot", tmp_path / "p.png")
    assert asked == [metric]


def test_inspect_shows_the_weights_as_numbers(capsys, classes, tmp_path):
    systems = unit_systems_of(sorted(classes.glob("*/*.mp4")))
    model = sysbags.NearestMean(metric="covariance", lambda_a="scale", lambda_mu="scale")
    sysbags.save(tmp_path / "m", model.fit(systems, ["a", "a", "b", "b"]))
    output = call_json(capsys, "inspect", tmp_path / "m", "--plot", tmp_path / "p.png")
    assert (output["lambda_a"], output["lambda_mu"]) == tuple(model.weights_[0])
    assert output["metric"] == "covariance"


def test_the_plot_of_a_model_of_several_bags(capsys, classes, tmp_path, monkeypatch):
    """One row per bag with its own weights; no title is cut off, however long the name of the file is."""
    figure = pytest.importorskip("matplotlib.figure")
    drawn, original = [], figure.Figure.savefig

    def spy(self, *arguments, **options):
        original(self, *arguments, **options)
        drawn.append(self)

    monkeypatch.setattr(figure.Figure, "savefig", spy)
    paths = sorted(classes.glob("*/*.mp4"))
    pairs = [("lbp", sysbags.bags.LocalBinaryPatterns()), ("colours", sysbags.bags.ColourHistogram())]
    steps = [
        ("bags", sysbags.bags.BagUnion(pairs)),
        ("systems", sysbags.SystemIdentifier(2, normal_form="unit-variance")),
        ("classify", sysbags.NearestSystem(metric="normalized-covariance", lambda_a="scale", lambda_mu=2.0)),
    ]
    pipeline = Pipeline(steps).fit(paths, ["a", "a", "b", "b"])
    for name in ("m", f"{'wide' * 30} scenes"):
        sysbags.save(tmp_path / name, pipeline)
        output = call_json(capsys, "inspect", tmp_path / name, "--plot", tmp_path / "p.png")
        assert output["lambda_a"] == pipeline[-1].weights_[:, 0].tolist()
        titles = [axes.get_title() for axes in drawn[-1].axes if axes.get_title()]
        distances = "Roots of the squared normalized-covariance distances"
        assert titles == [
            text
            for weight in output["lambda_a"]
            for text in (
                "Spectrum of the transition",
                f"{distances}\nlambda_a = {weight:.4g}, lambda_mu = 2",
            )
        ]
        for text in (drawn[-1]._suptitle, *(axes.title for axes in drawn[-1].axes)):
            box = text.get_window_extent()
            assert 0 <= box.x0 <= box.x1 <= drawn[-1].bbox.x1
            assert 0 <= box.y0 <= box.y1 <= drawn[-1].bbox.y1
