"""``sysbags export``: files for other programs from a report or a library, and sentences for bad input."""

from __future__ import annotations

import csv
import json

import pytest

from cli_folder import call, call_json
from evaluations import make_evaluation, make_pictures
from libraries import IDENTIFIER, small_clips
from sysbags.library import Library
from sysbags.report.page import page


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A report, clips with the names in it, and a library of other clips, one of them lost."""
    root = tmp_path_factory.mktemp("export")
    evaluation = make_evaluation(classes=2, per_class=3)
    (root / "report.html").write_text(page(evaluation, make_pictures(evaluation)))
    for clip in evaluation.clips:
        (root / "evaluated" / clip.name).parent.mkdir(parents=True, exist_ok=True)
        (root / "evaluated" / clip.name).touch()
    clips = small_clips(root / "clips", per_class=1)
    with Library(root / "clips.library") as library:
        library.add([root / "clips"], identifier=IDENTIFIER)
    with Library(root / "empty.library") as library:
        library.add(clips[:1], identifier=IDENTIFIER)
        library.remove(clips[:1])
    clips[0].unlink()
    return root


def test_a_report(capsys, root, tmp_path):
    out = tmp_path / "clips.csv"
    for _ in range(2):  # a file that is there is replaced
        code, text, err = call(capsys, "export", root / "report.html", "--to", "csv", "--out", out)
        assert (code, text, err) == (0, f"6 clips of {root / 'report.html'}: {out}\n", "")
    with out.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 6


def test_the_document_of_a_report_with_its_clips(capsys, root, tmp_path):
    out, clips = tmp_path / "the map", root / "evaluated"
    arguments = ("export", root / "report.html", "--to", "fiftyone", "--out", out, "--clips", clips)
    document = call_json(capsys, *arguments)
    samples = json.loads((out / "samples.json").read_text())["samples"]
    assert document == {
        "source": str(root / "report.html"),
        "to": "fiftyone",
        "out": str(out),
        "clips": 6,
        "methods": document["methods"],
        "columns": list(samples[0]),
        "thumbnails": 0,
        "missing": [],
        "command": f"fiftyone datasets create --name 'the map' --dataset-dir '{out}' "
        "--type fiftyone.types.FiftyOneDataset",
    }
    assert document["methods"][0] == "LBP systems, alignment, nearest-system"
    assert [sample["filepath"] for sample in samples] == [str(clips / sample["clip"]) for sample in samples]
    assert call_json(capsys, *arguments) == document  # into the folder that is there
    assert "without --clips FOLDER, fiftyone shows thumbnails" in call(capsys, *arguments[:-2])[2]


def test_a_library_with_a_lost_clip(capsys, root, tmp_path):
    pytest.importorskip("pyarrow")
    out, lost = tmp_path / "clips.parquet", root / "clips" / "fire" / "00.mp4"
    arguments = ("export", root / "clips.library", "--to", "embedding-atlas", "--out", out)
    code, text, err = call(capsys, *arguments)
    assert code == 0
    assert text.splitlines()[1] == f"open it: embedding-atlas {out} --x x --y y --neighbors neighbors"
    assert err == f"sysbags: no longer on disk: 1 of the clips, such as {lost}\n"
    document = call_json(capsys, *arguments)
    assert (document["clips"], document["thumbnails"], document["missing"]) == (3, 2, [str(lost)])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nowhere.html --to csv --out {out}.csv", "nowhere.html"),
        ("{root} --to csv --out {out}.csv", "directory"),
        ("{root}/clips/rain/00.mp4 --to csv --out {out}.csv", "is neither a report"),
        ("{root}/empty.library --to csv --out {out}.csv", "has no clips: `sysbags library add` adds them"),
        ("{root}/clips.library --to csv --out {out}.csv --clips {root}", "--clips goes with a report"),
        ("{root}/report.html --to csv --out {out}.csv --clips {root}/clips", "no clip of the report"),
        ("{root}/report.html --to csv --out {out}.csv --clips {root}/nowhere", "nowhere does not exist"),
        ("{root}/report.html --to csv --out {root}/report.html", "would be overwritten"),
        ("{root}/report.html --to csv --out {root}", "is a folder, but the output must be a file"),
        ("{root}/report.html --to csv --out {root}/nowhere/a.csv", "does not exist"),
        ("{root}/report.html --to fiftyone --out {root}/clips.library", "is a file, but fiftyone reads a"),
        ("{root}/report.html --to fiftyone --out {root}/nowhere/a", "does not exist"),
        ("{root}/report.html --to embedding-atlas --out {out}.csv", "must end in .parquet"),
        ("{root}/report.html --to excel --out {out}.csv", "'excel' is not one of"),
        ("{root}/report.html --out {out}.csv", "Missing option '--to'"),
    ],
)
def test_mistakes(capsys, root, tmp_path, words, sentence):
    arguments = [word.format(root=root, out=tmp_path / "out") for word in words.split()]
    code, out, err = call(capsys, "export", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.startswith("sysbags: ")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
