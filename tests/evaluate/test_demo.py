from __future__ import annotations

import json
import re

import numpy as np
import pytest

import sysbags
from sysbags.cli import main
from sysbags.datasets import TEXTURES
from sysbags.evaluate import demo
from sysbags.evaluate.cross_validation import DISTANCE_CLASSIFIERS
from sysbags.evaluate.demo import AVERAGES, DISTANCES, ORDER, Settings
from sysbags.report import demo_page

RATE = re.compile(r"\d+\.\d % \(\d+ of \d+\)")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return demo.experiment(Settings(out, per_class=4, frames=32, random_state=0, n_jobs=2))


@pytest.mark.long
def test_the_table_is_above_chance_and_below_certainty(outcome):
    """Stated margin: the nearest mean of the alignment distance is 40 points above chance, 12.5 %."""
    assert outcome.chance == 1 / 8
    right = {(rate.distance, rate.classifier): rate.right / rate.total for rate in outcome.rates}
    assert set(right) == {
        (distance, classifier)
        for distance in (*DISTANCES.values(), AVERAGES)
        for classifier in DISTANCE_CLASSIFIERS
    }
    assert right["alignment", "nearest-mean"] >= outcome.chance + 0.4
    assert right["alignment", "nearest-system"] >= outcome.chance + 0.4
    assert min(right.values()) > outcome.chance
    assert max(right.values()) < 1.0
    assert right["alignment", "nearest-mean"] == outcome.means.accuracy


@pytest.mark.long
def test_the_outcome_is_consistent(outcome):
    assert len(outcome.clips) == len(outcome.labels) == len(outcome.systems) == 32
    assert all(system.order == ORDER for system in outcome.systems)
    assert outcome.distances.shape == (32, 32)
    assert np.array_equal(outcome.distances, outcome.distances.T)
    assert outcome.new_labels == list(TEXTURES)
    assert set(outcome.predictions) <= set(TEXTURES)
    heads, rows = outcome.table()
    assert [len(row) for row in rows] == [len(heads)] * (len(DISTANCES) + 2)  # averages, chance
    assert rows[0][1:] == [str(rate) for rate in outcome.rates[:2]]


def test_averages_over_time():
    """By hand: the last two are each other's nearest and have two labels; of them only the third is
    nearer to the rest of its class, 0.5, than to that of the other, 0.8. The last one's is 1, and it is not.
    """
    swing = np.array([[-0.01], [0.01], [0.0]]) * [1.0, -1.0]
    streams = [share * np.array([1.0, -1.0]) + [0.0, 1.0] + swing for share in (0.99, 0.5, 0.56, 0.6)]
    by_stream, by_mean = demo._average_rates(streams, ["a", "b", "b", "a"])
    assert (by_stream.right, by_mean.right, by_stream.total) == (2, 3, 4)


def test_command(tmp_path, capsys):
    out = tmp_path / "new folder"
    options = ["--out", str(out), "--per-class", "2", "--frames", "16", "--n-jobs", "2"]
    assert main(["demo", *options]) == 0
    output = capsys.readouterr().out
    for name in (
        *DISTANCES.values(),
        *DISTANCE_CLASSIFIERS,
        AVERAGES,
        "chance",
        "12.5 %",
    ):
        assert name in output
    rates = RATE.findall(output)
    assert len(rates) == 2 * (len(DISTANCES) + 1)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(rate in page for rate in rates)
    assert str(out / "report.html") in output
    assert sorted(path.name for path in out.iterdir()) == ["clips", "model.safetensors", "new", "report.html"]

    assert main(["demo", *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["chance"] == 0.125
    assert document["clips"] == 16
    assert [f"{100 * r['right'] / 16:.1f} % ({r['right']} of 16)" for r in document["rates"]] == rates
    assert all(value >= 0 for value in document["seconds"].values())
    clips = document["new_clips"]
    assert [clip["label"] for clip in clips] == list(TEXTURES)

    # What is left on disk answers as the report says: in Python and at the command line.
    model, paths = document["model"], [clip["path"] for clip in clips]
    predictions = [clip["prediction"] for clip in clips]
    assert sysbags.load(model).predict(paths).tolist() == predictions
    assert main(["classify", model, *paths, "--coverage", "90%", "--json"]) == 0
    predicted_clips = json.loads(capsys.readouterr().out)["clips"]
    assert [clip["label"] for clip in predicted_clips] == predictions
    assert all(set(clip["set"]) <= set(TEXTURES) for clip in predicted_clips)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--per-class", "1"], "per-class"),
        (["--frames", "4"], "frames"),
        (["--random-state", "-1"], "--random-state"),
        (["--n-jobs", "0"], "n_jobs"),
        (["--frames", "many"], "frames"),
        (["--colour"], "--colour"),
    ],
)
def test_mistakes_get_one_sentence(arguments, sentence, tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "out"), *arguments]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.splitlines()) == 1
    assert not captured.out
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_folder_should_be(tmp_path, capsys):
    file = tmp_path / "taken"
    file.write_text("")
    assert main(["demo", "--out", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_an_interruption_leaves_no_half_report(tmp_path, monkeypatch):
    def interrupted(outcome):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "experiment", lambda settings, stages: None)
    monkeypatch.setattr(demo_page, "page", interrupted)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    assert not list(tmp_path.iterdir())


def test_help(capsys):
    assert main(["demo", "--help"]) == 0
    output = capsys.readouterr().out
    assert "--per-class" in output
    assert "Example" in output
