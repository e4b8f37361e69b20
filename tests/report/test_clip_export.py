"""The clips of reports and libraries as a table, and what is written for other programs."""

from __future__ import annotations

import builtins
import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluations import changed, make_evaluation, make_pictures, with_evil_names
from libraries import IDENTIFIER, small_clips
from sysbags._common.files import json_text
from sysbags.cli.export import Format
from sysbags.errors import FileError, ParameterError
from sysbags.library import Library
from sysbags.report import export
from sysbags.report.clip_table import library_table, report_table
from sysbags.report.page import page


@pytest.fixture(scope="module")
def evaluation():
    return make_evaluation()


@pytest.fixture(scope="module")
def shots(evaluation):
    return make_pictures(evaluation)


@pytest.fixture(scope="module")
def report(evaluation, shots, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(evaluation, shots))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Clips, and a library of them; one clip has disappeared and one is damaged since."""
    folder = tmp_path_factory.mktemp("library")
    clips = small_clips(folder / "clips", per_class=2)
    with Library(folder / "clips.library") as library:
        library.add([folder / "clips"], identifier=IDENTIFIER)
    clips[0].unlink()
    clips[1].write_bytes(b"no video")
    return folder


@pytest.fixture(scope="module")
def stored(folder):
    with Library(folder / "clips.library") as library:
        return library_table(library)


def test_a_report_becomes_a_table(evaluation, shots, report):
    table = report_table(report)
    relations = evaluation.details.relations
    assert len(table.rows) == len(evaluation.clips)
    assert (
        table.methods[0] == "LBP systems, alignment, nearest-system"
    )  # the main method, the second of the report
    assert len(table.methods) == len(set(table.methods)) == len(evaluation.methods)
    for k, (row, clip) in enumerate(zip(table.rows, evaluation.clips, strict=True)):
        assert (row.clip, row.label, row.source, row.path) == (clip.name, clip.label, clip.source, None)
        assert (row.x, row.y) == pytest.approx(relations.plane[k], rel=1e-3)
        assert list(row.neighbours) == relations.neighbours[k].tolist()
        nearest = relations.distances[k, relations.neighbours[k]]
        assert row.squared_distances == pytest.approx(nearest, rel=1e-2)
        main, *others = row.predictions
        assert main == evaluation.methods[1].predictions[k]
        assert others == [evaluation.methods[m].predictions[k] for m in (0, 2, 3)]
        assert row.picture == shots[k]


def test_names_that_are_markup_stay_text(evaluation, shots, tmp_path):
    evil = with_evil_names(evaluation)
    (tmp_path / "evil.html").write_text(page(evil, shots))
    table = report_table(tmp_path / "evil.html")
    assert [row.clip for row in table.rows] == [clip.name for clip in evil.clips]
    export.export_table(table, "fiftyone", tmp_path / "out")
    samples = json.loads((tmp_path / "out" / "samples.json").read_text())["samples"]
    assert {sample["ground_truth"]["label"] for sample in samples} == set(evil.classes)


def test_the_folder_of_a_report_gives_the_paths(report, tmp_path):
    for name in ("calm water/00.mp4", "flags/03.mp4"):
        (tmp_path / "clips" / name).parent.mkdir(parents=True)
        (tmp_path / "clips" / name).touch()
    table = report_table(report, tmp_path / "clips")
    assert table.rows[0].path == tmp_path / "clips" / "calm water" / "00.mp4"
    assert table.rows[1].path == tmp_path / "clips" / "calm water" / "01.mp4"  # where it should be
    assert len(table.missing) == len(table.rows) - 2
    assert report_table(report, tmp_path).rows[0].path == table.rows[0].path
    other = tmp_path / "other" / "clips"
    other.mkdir(parents=True)
    (other / "1.mp4").touch()
    with pytest.raises(FileError, match="no clip of the report"):
        report_table(report, other)


@pytest.mark.parametrize(
    ("pattern", "replacement", "sentence"),
    [
        ('id="data"', 'id="dates"', "is neither a report"),
        ('"plane":', '"plan":', "is damaged, or of another version"),
        (r'"truth":\[0', '"truth":[99', "is damaged, or of another version"),
        (r'"neighbours":\[\[\d+', '"neighbours":[[20', "is damaged, or of another version"),
        (r'"neighbours":\[\[\d+', '"neighbours":[[-1', "is damaged, or of another version"),
        (r'"pictures":\["', '"pictures":["*', "is damaged, or of another version"),
        (r'"predictions":\[\[\d,', '"predictions":[[', "is damaged, or of another version"),
        ('"classes":', '"classes",', "is neither a report"),
    ],
)
def test_files_that_are_no_report(report, tmp_path, pattern, replacement, sentence):
    text, count = re.subn(pattern, replacement, report.read_text(), count=1)
    assert count == 1
    (tmp_path / "bad.html").write_text(text)
    with pytest.raises(FileError, match=sentence):
        report_table(tmp_path / "bad.html")


def test_the_json_document_of_an_evaluation_has_no_map(evaluation, tmp_path):
    path = tmp_path / "evaluation.json"
    path.write_text(json_text(evaluation.to_dict(details=True)))
    with pytest.raises(FileError, match="which has no map: export the report"):
        report_table(path)
    path.write_text("[1]")
    with pytest.raises(FileError, match="is neither a report"):
        report_table(path)


def test_csv(report, tmp_path):
    table = report_table(report)
    out = tmp_path / "clips.csv"
    written = export.export_table(table, "csv", out)
    with out.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == written.columns
    assert written.thumbnails == len(rows) == 20
    for row, expected in zip(rows, table.rows, strict=True):
        assert (row["clip"], row["label"], row["path"]) == (expected.clip, expected.label, "")
        assert (float(row["x"]), float(row["y"])) == (expected.x, expected.y)
        assert row["prediction"] == expected.predictions[0]
        assert row["correct"] == str(expected.predictions[0] == expected.label)
        assert row["prediction: LBP-TOP, 1-NN"] == expected.predictions[3]
        assert json.loads(row["neighbors"]) == {
            "ids": list(expected.neighbours),
            "distances": list(expected.squared_distances),
        }
        assert (tmp_path / row["thumbnail"]).read_bytes() == expected.picture


def test_parquet(report, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = report_table(report)
    rows = (replace(table.rows[0], picture=None, x=None), *table.rows[1:])
    out = tmp_path / "clips.parquet"
    written = export.export_table(replace(table, rows=rows), "embedding-atlas", out)
    read = parquet.read_table(out)
    assert read.column_names == written.columns
    assert str(read.schema.field("neighbors").type) == (
        "struct<ids: list<element: int64>, distances: list<element: double>>"
    )
    records = read.to_pylist()
    assert written.thumbnails == 19
    assert records[0]["thumbnail"] is None
    assert records[0]["x"] is None
    assert records[1]["thumbnail"] == {"bytes": table.rows[1].picture, "path": "00001.jpg"}
    for record, expected in zip(records[1:], table.rows[1:], strict=True):
        assert record["neighbors"]["ids"] == list(expected.neighbours)
        assert (record["x"], record["y"], record["source"]) == (expected.x, expected.y, expected.source)
        assert record["correct"] is (expected.predictions[0] == expected.label)


def test_fiftyone_has_the_pictures_where_no_videos_are_known(report, tmp_path):
    table = report_table(report)
    (tmp_path / "metadata.json").write_text('{"version": "1.0"}')
    written = export.export_table(table, "fiftyone", tmp_path)
    samples = json.loads((tmp_path / "samples.json").read_text())["samples"]
    assert "version" not in json.loads((tmp_path / "metadata.json").read_text())
    assert written.thumbnails == 20
    for k, (sample, row) in enumerate(zip(samples, table.rows, strict=True)):
        assert (tmp_path / sample["filepath"]).read_bytes() == row.picture
        assert sample["row"] == k
        assert sample["ground_truth"] == {"_cls": "Classification", "label": row.label}
        assert sample["prediction_lbp_top_1_nn"]["label"] == row.predictions[3]
        assert (sample["neighbors"], sample["x"]) == (list(row.neighbours), row.x)


def test_a_library_becomes_a_table(folder, stored):
    assert [row.label for row in stored.rows] == ["fire", "fire", "rain", "rain", "waves", "waves"]
    assert stored.rows[2].clip == "rain/00.mp4"
    assert stored.rows[2].path == folder / "clips" / "rain" / "00.mp4"
    assert stored.missing == [folder / "clips" / "fire" / "00.mp4"]
    assert stored.methods == ()


def test_clips_that_cannot_be_read_have_no_thumbnail(stored, tmp_path):
    written = export.export_table(stored, "csv", tmp_path / "clips.csv")
    assert written.thumbnails == 4
    with (tmp_path / "clips.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["thumbnail"]) for row in rows] == [False, False, True, True, True, True]
    assert "prediction" not in rows[0]
    pictures = sorted(path.name for path in (tmp_path / "clips_thumbnails").iterdir())
    assert pictures == [f"0000{k}.jpg" for k in range(2, 6)]


def test_fiftyone_has_the_videos_of_a_library(stored, tmp_path):
    written = export.export_table(stored, "fiftyone", tmp_path / "out")
    assert written.thumbnails is None
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["metadata.json", "samples.json"]
    samples = json.loads((tmp_path / "out" / "samples.json").read_text())["samples"]
    assert [sample["filepath"] for sample in samples] == [str(row.path) for row in stored.rows]
    assert "prediction" not in samples[0]
    # A folder of images is no video.
    rows = (replace(stored.rows[0], path=Path("images")), *stored.rows[1:])
    assert export.export_table(replace(stored, rows=rows), "fiftyone", tmp_path / "other").thumbnails == 4


def test_names_that_are_not_unicode(stored, tmp_path):
    rows = (replace(stored.rows[0], clip="no \udcff text.mp4", path=Path("no \udcff text.mp4")),)
    for to, name in (("csv", "a.csv"), ("fiftyone", "a"), ("embedding-atlas", "a.parquet")):
        if to == "embedding-atlas":
            pytest.importorskip("pyarrow")
        export.export_table(replace(stored, rows=rows), to, tmp_path / name)
    assert "no ? text.mp4" in (tmp_path / "a.csv").read_text()


def test_what_cannot_be_written_is_refused_before_any_work(monkeypatch, tmp_path):
    with pytest.raises(FileError, match=r"must end in \.parquet"):
        export.check_format("embedding-atlas", tmp_path / "clips.csv")
    real = builtins.__import__

    def without_pyarrow(name, *rest):
        if name == "pyarrow":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    with pytest.raises(ParameterError, match=r"needs pyarrow: pip install 'sysbags\[export\]'"):
        export.check_format("embedding-atlas", tmp_path / "clips.parquet")
    export.check_format("csv", tmp_path / "clips.csv")


def test_the_command_has_every_format():
    assert set(Format) == set(export.FORMATS)


def test_embedding_atlas_reads_what_is_written(report, tmp_path):
    utils = pytest.importorskip("embedding_atlas.utils")
    sources = pytest.importorskip("embedding_atlas.data_source")
    options = pytest.importorskip("embedding_atlas.options")
    out = tmp_path / "clips.parquet"
    export.export_table(report_table(report), "embedding-atlas", out)
    frame = utils.load_pandas_data(str(out))
    props = options.make_embedding_atlas_props(row_id="row", x="x", y="y", neighbors="neighbors")
    assert props["data"]["projection"] == {"x": "x", "y": "y"}
    frame["row"] = range(len(frame))
    assert np.stack([np.array(cell["ids"]) for cell in frame["neighbors"]]).shape == (20, 4)
    archive = sources.DataSource("test", frame, {"props": props}).make_archive(str(tmp_path / "none"))
    assert archive[:2] == b"PK"


def test_fiftyone_imports_what_is_written(report, stored, tmp_path):
    """It needs the program mongod, which its package `fiftyone-db` downloads."""
    fiftyone = pytest.importorskip("fiftyone")
    services = pytest.importorskip("fiftyone.core.service")
    if fiftyone.config.database_uri is None and not shutil.which("mongod"):
        try:
            services.DatabaseService.find_mongod()
        except services.ServiceExecutableNotFound:
            pytest.skip("there is no mongod")
    for name, table, kind in (("pictures", report_table(report), "image"), ("videos", stored, "video")):
        export.export_table(table, "fiftyone", tmp_path / name)
        dataset = fiftyone.Dataset.from_dir(
            dataset_dir=str(tmp_path / name), dataset_type=fiftyone.types.FiftyOneDataset
        )
        assert dataset.media_type == kind
        assert dataset.values("ground_truth.label") == [row.label for row in table.rows]
        assert dataset.values("x") == [row.x for row in table.rows]
        near = dataset.select_by("row", dataset.first()["neighbors"], ordered=True)
        assert near.values("clip") == [table.rows[k].clip for k in table.rows[0].neighbours]
        if table.methods:
            expected = np.mean([row.predictions[0] == row.label for row in table.rows])
            scores = dataset.evaluate_classifications("prediction", gt_field="ground_truth").metrics()
            assert scores["accuracy"] == pytest.approx(expected)
        dataset.delete()


def test_a_plane_with_a_place_that_is_not_known(evaluation, shots, tmp_path):
    plane = evaluation.details.relations.plane.copy()
    plane[0, 0] = np.nan
    lost = changed(evaluation, relations=replace(evaluation.details.relations, plane=plane))
    (tmp_path / "lost.html").write_text(page(lost, shots))
    assert report_table(tmp_path / "lost.html").rows[0].x is None
