from __future__ import annotations

import base64
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from sysbags import demo

SMALL = ["--classes", "3", "--per-class", "3", "--frames", "20", "--bins", "8", "--order", "3"]


def test_table_and_report(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert demo.main([*SMALL, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for name in (*demo.DISTANCES.values(), *demo.CLASSIFIERS.values()):
        assert name in said
    assert re.search(r"\d+\.\d %  \(\d of 9\)", said)
    page = (out / "report.html").read_text(encoding="utf-8")
    picture = re.search(r'src="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(picture[1]).startswith(b"\x89PNG")
    # Nothing is fetched from elsewhere, and the page says what the terminal says.
    assert not re.search(r"""(src|href)=["']?http""", page)
    for rate in re.findall(r"\d+\.\d %  \(\d of 9\)", said):
        assert rate in page


def test_json(tmp_path, capsys):
    assert demo.main([*SMALL, "--out", str(tmp_path), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["settings"]["classes"] == 3
    assert len(first["rates"]) == 2 * (len(demo.DISTANCES) + 1)
    assert all(0 <= rate["right"] <= rate["total"] == 9 for rate in first["rates"])
    assert all(value >= 0 for value in first["seconds"].values())
    assert demo.main([*SMALL, "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rates"] == first["rates"]


def test_by_default_alignment_is_best_and_errors_are_left():
    outcome = demo.experiment(demo.Settings())
    right = {(rate.distance, rate.classifier): rate.right for rate in outcome.rates}
    total = len(outcome.labels)
    for classifier in demo.CLASSIFIERS:
        rivals = [right[name, classifier] for name in (demo.DISTANCES["martin"], demo.AVERAGES)]
        rivals.append(right[demo.DISTANCES["max-singular-value"], classifier])
        assert max(rivals) < right[demo.DISTANCES["alignment"], classifier] < total
    assert outcome.distances.shape == (total, total)
    assert np.array_equal(outcome.distances, outcome.distances.T)


def test_without_matplotlib_the_report_says_so(tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert demo.main([*SMALL, "--out", str(tmp_path), "--json"]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "matplotlib" in page
    assert "data:image" not in page
    assert json.loads(capsys.readouterr().out)["rates"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--classes", "1"], "classes"),
        (["--per-class", "1"], "per_class"),
        (["--frames", "4"], "frames"),
        (["--order", "0"], "order"),
        (["--noise", "-1"], "noise"),
        (["--seed", "-1"], "seed"),
        (["--classes", "many"], "classes"),
        (["--colour"], "--colour"),
    ],
)
def test_mistakes_get_one_sentence(arguments, sentence, tmp_path, capsys):
    assert demo.main(["--out", str(tmp_path / "out"), *arguments]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.splitlines()) == 1
    assert not captured.out
    assert not (tmp_path / "out").exists()


def test_a_file_where_the_folder_should_be(tmp_path, capsys):
    file = tmp_path / "taken"
    file.write_text("")
    assert demo.main(["--out", str(file)]) == 2
    assert str(file) in capsys.readouterr().err


def test_help_as_a_command():
    command = [sys.executable, "-m", "sysbags.demo", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--out" in done.stdout
