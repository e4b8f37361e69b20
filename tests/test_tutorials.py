"""The tutorials run as they are, make their picture, and find what their text says."""

from __future__ import annotations

import re
import runpy
import shlex
import tempfile
from pathlib import Path

import numpy as np
import pytest

from sysbags.cli import main

TUTORIALS = Path(__file__).parents[1] / "tutorials"
QUICK = ("classify", "library")  # commands that are run here; of the others only the options are checked


def run(name, folder, monkeypatch):
    """Run a tutorial, whose temporary files are then in a folder, and return its variables."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.chdir(folder)
    found = runpy.run_path(str(TUTORIALS / f"{name}.py"), run_name="__main__")
    assert len(plt.get_fignums()) == 1
    picture = folder / "picture.png"
    plt.gcf().savefig(picture)
    plt.close("all")
    assert picture.stat().st_size > 10_000
    assert {path.name for path in folder.iterdir() if path != found.get("folder")} == {"picture.png"}
    return found


def commands(name):
    """Return the commands that a tutorial shows, each with its output."""
    text = re.sub(r"\\\n# +", "", (TUTORIALS / f"{name}.py").read_text())  # commands of several lines
    blocks = re.findall(r"^# \.\. code-block:: console\n#\n((?:#     .*\n)+)", text, flags=re.M)
    shown = [[line.removeprefix("#     ") for line in block.splitlines()] for block in blocks]
    assert all(command.startswith("$ sysbags ") for command, *_ in shown)
    return [(shlex.split(command)[2:], " ".join(output)) for command, *output in shown]


def words(text):
    """Return a text without numbers, which machines round differently, and without its layout."""
    return " ".join(re.sub(r"\d+(\.\d+)?", "0", text).split())


@pytest.mark.parametrize("name", sorted(path.stem for path in TUTORIALS.glob("*.py")))
def test_commands_have_the_options_that_are_shown(name, capsys):
    for arguments, output in commands(name):
        assert main([*arguments, "--help"]) == 0, arguments
        assert output
    capsys.readouterr()


def run_quick_commands(name, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    capsys.readouterr()
    for arguments, output in commands(name):
        if arguments[0] in QUICK:
            assert main(arguments) == 0
            assert words(capsys.readouterr().out.replace(str(folder), "/data")) == words(output)


@pytest.mark.long  # `make docs` runs it, too
def test_classify_clips(tmp_path, monkeypatch, capsys):
    found = run("classify_clips", tmp_path, monkeypatch)
    assert found["trained"].settings["classifier"] == "kernel-ridge"
    assert (found["trained"].method.rate.right, found["trained"].method.rate.total) == (34, 40)
    assert [method.rate.right for method in found["result"].methods] == [34, 29, 36]
    assert found["result"].confusion.diagonal().tolist() == [10, 9, 8, 7]
    assert found["model"].score(found["new_paths"], found["new_labels"]) == 1.0
    assert found["covered"] == 12
    assert (found["loaded"].predict(found["new_paths"]) == found["model"].predict(found["new_paths"])).all()
    assert "Moving textures" in (found["folder"] / "report.html").read_text()
    run_quick_commands("classify_clips", found["folder"], capsys, monkeypatch)


@pytest.mark.long
def test_watch_a_process(tmp_path, monkeypatch):
    found = run("watch_a_process", tmp_path, monkeypatch)
    (event,) = found["events"]
    assert abs(event.start - 360.0) <= 2.0
    assert abs(event.end - 400.0) <= 2.0
    assert event.part == "transition"
    assert event.per_day < 24.0
    assert found["watcher"].observed == (0, 150.0)


def test_compare_dynamics(tmp_path, monkeypatch):
    found = run("compare_dynamics", tmp_path, monkeypatch)
    assert found["gap"] < 1e-10
    is_treated = found["groups"] == "treated"
    assert (is_treated[found["nearest"]] == is_treated).all()
    tests = found["tests"]
    assert {test.groups: p < 0.05 for test, p in zip(tests.tests, tests.adjusted, strict=True)} == {
        ("control", "recovered"): False,
        ("control", "treated"): True,
        ("recovered", "treated"): True,
    }
    assert found["difference"].low > 0.0


def test_search_a_library(tmp_path, monkeypatch, capsys):
    found = run("search_a_library", tmp_path, monkeypatch)
    names = ["03.mp4", "01.mp4", "05.mp4", "04.mp4"]
    for search in (found["found"], found["exact"]):
        assert [clip.path.name for clip in search.clips] == names
        assert {clip.label for clip in search.clips} == {"fire"}
        assert (search.neighbours.lower_bounds <= search.neighbours.distances).all()
    assert (found["added"].added, found["again"].unchanged, found["found"].neighbours.blocks) == (33, 33, 8)
    assert [[path.name for path in group] for group in found["duplicates"].equal] == [["02.mp4", "copy.mp4"]]
    ((first, second, distance),) = found["duplicates"].near
    assert (first.name, second.name) == ("trimmed.mp4", "whole.mp4")
    assert 0.0 < distance < found["duplicates"].below
    run_quick_commands("search_a_library", found["folder"], capsys, monkeypatch)


def test_streams_of_distributions(tmp_path, monkeypatch, capsys):
    found = run("streams_of_distributions", tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert "nearest of the same class: 24 of 24" in printed
    periods = [float(hours) for hours in re.findall(r"a period of ([\d.]+) hours", printed)]
    assert periods == pytest.approx([24.0, 12.0], rel=0.1)
    assert found["accuracies"].mean() == 1.0
    errors = {name: np.mean(values) for name, values in found["rows"].items()}
    assert errors["forecast"] < errors["average"] < errors["last hour"]
    assert 0.9 < np.mean(found["inside"]) < 0.97
