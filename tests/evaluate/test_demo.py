from __future__ import annotations

import json
import re
from unittest.mock import patch

import numpy as np
import pytest

import sysbags
from sysbags.cli import main
from sysbags.datasets import TEXTURES
from sysbags.evaluate import demo
from sysbags.evaluate.demo import Settings
from sysbags.report import demo_page

RATE = re.compile(r"\d+\.\d % \(\d+ of \d+\)")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Of a demonstration that aligns nothing: to compile that takes longer than all the rest."""
    out = tmp_path_factory.mktemp("demo")
    with patch("sysbags.distances.alignment_matrix.align_many", side_effect=AssertionError):
        return demo.experiment(Settings(out, per_class=4, frames=24, random_state=0, n_jobs=2))


def test_the_outcome_is_consistent(outcome):
    """The rows of the matrix are classes of four clips each, and what is right in it is the accuracy."""
    rates = outcome.rates
    assert outcome.confusion.sum(axis=1).tolist() == 8 * [4]
    assert outcome.confusion.trace() == rates["moments"].right
    assert rates["moments"].share >= outcome.chance + 0.4 == 1 / 8 + 0.4  # a stated margin
    squared, places = outcome.distances()
    assert sorted(places.tolist()) == list(range(32))
    assert [outcome.labels[k] for k in places] == outcome.model.labels_.tolist()
    # Clips compared with the model again have the distance 0 to themselves, in the same order.
    nearest = outcome.model.compare(
        outcome.trained.pipeline[0].transform([outcome.clips[k] for k in places[:3]])
    ).distances
    np.testing.assert_allclose(nearest.min(axis=1), 0.0, atol=1e-3 * squared.max())
    np.testing.assert_allclose(squared, squared.T, atol=1e-9 * squared.max())
    assert outcome.new_labels == list(outcome.paths) == list(TEXTURES)
    assert all(path.shape == (24, 32) for path in outcome.paths.values())
    assert set(outcome.predictions) <= set(TEXTURES)


def test_command(tmp_path, capsys):
    out = tmp_path / "new folder"
    options = ["--out", str(out), "--per-class", "2", "--frames", "16", "--n-jobs", "2"]
    assert main(["demo", *options]) == 0
    output = capsys.readouterr().out
    assert all(name in output for name in ("moments", "averages over time", "chance", "12.5 %"))
    rates = RATE.findall(output)
    assert len(rates) == 2
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(rate in page for rate in rates)
    assert str(out / "report.html") in output
    assert sorted(path.name for path in out.iterdir()) == ["clips", "model.safetensors", "new", "report.html"]

    assert main(["demo", *options, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["chance"] == 0.125
    assert document["clips"] == 16
    assert [
        f"{100 * r['right'] / 16:.1f} % ({r['right']} of 16)" for r in document["rates"].values()
    ] == rates
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
