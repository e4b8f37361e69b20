"""``sysbags library``: every command, its table and its JSON document, and what it says about bad input."""

from __future__ import annotations

import csv
import os
import shutil

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import sysbags
from cli_folder import call, call_json
from libraries import single, small_clips
from sysbags.bags import BagUnion, ColourHistogram, LocalBinaryPatterns, VisualWords
from sysbags.datasets import make_clips
from sysbags.library import Library

ORDER = ("--order", 2)


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    return small_clips(tmp_path_factory.mktemp("clips"), per_class=2)


@pytest.fixture(scope="module")
def original(clips, tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "clips.library"
    with Library(path) as library:
        library.add([clips[0].parents[1]], identifier=sysbags.SystemIdentifier(order=2))
    return path


@pytest.fixture
def path(original, tmp_path):
    return shutil.copy(original, tmp_path / "clips.library")


@pytest.mark.parametrize(
    "command", ["add", "list", "remove", "verify", "export", "info", "search", "duplicates"]
)
def test_help_of_each(capsys, command):
    code, out, _ = call(capsys, "library", command, "--help")
    assert code == 0
    assert f"Example: sysbags library {command}" in " ".join(out.split())
    assert "--json" in out


def test_the_group_alone_is_its_help(capsys):
    code, out, err = call(capsys, "library")
    assert (code, err) == (0, "")
    assert "Keep the systems of many clips in one file" in " ".join(out.split())


def test_add(capsys, clips, tmp_path):
    path, folder = tmp_path / "clips.library", clips[0].parents[1]
    output = call_json(capsys, "library", "add", path, *clips[:2], *ORDER)
    assert output == {
        "library": str(path),
        "added": 2,
        "updated": 0,
        "unchanged": 0,
        "skipped": [],
        "missing": [],
        "clips": 2,
    }
    code, out, err = call(capsys, "library", "add", path, folder)
    assert (code, err) == (0, "")
    assert out == f"4 added, 2 updated, 0 unchanged, 0 skipped; 6 clips in {path}\n"  # labels were added
    code, out, err = call(capsys, "library", "add", path, folder, *ORDER)
    assert (code, out) == (0, f"0 added, 0 updated, 6 unchanged, 0 skipped; 6 clips in {path}\n")
    assert call(capsys, "library", "add", path, folder, "--bags", "lbp")[0] == 0  # the order is not given
    for options, text in [
        (("--order", 3), "was made with order=2, not 3: leave out the settings"),
        ((*ORDER, "--kernel", "linear"), "was made with kernel='chi2', not 'linear'"),
        ((*ORDER, "--bags", "colour"), "was made with LocalBinaryPatterns, not ColourHistogram"),
        ((*ORDER, "--bags", "colour,lbp"), "takes a single bag"),
        (("--compress", 4), "was made with compress=None, not 4"),
        (("--landmarks", 4), "was made with landmarks=500, not 4"),
    ]:
        code, out, err = call(capsys, "library", "add", path, folder, *options)
        assert (code, out) == (2, "")
        assert text in err
        assert err.count("\n") == 1


def test_clips_of_several_folders_without_labels(capsys, clips, tmp_path):
    path, folders = tmp_path / "clips.library", sorted({clip.parent for clip in clips})
    code, out, err = call(capsys, "library", "add", path, folders[0], *ORDER)
    assert (code, err) == (0, "")  # one folder may have no classes
    code, out, err = call(capsys, "library", "add", path, *folders[1:])
    assert (code, out) == (0, f"4 added, 0 updated, 0 unchanged, 0 skipped; 6 clips in {path}\n")
    assert err == (
        "sysbags: 4 new clips have no label: for labels, add the folder that has one folder per class\n"
    )
    assert call(capsys, "library", "add", path, folders[0].parent)[2] == ""
    assert sum(call_json(capsys, "library", "info", path)["classes"].values()) == 6


def test_landmarks(capsys, clips, tmp_path):
    path, folder = tmp_path / "clips.library", clips[0].parents[1]
    assert call_json(capsys, "library", "add", path, folder, *ORDER, "--landmarks", 2)["added"] == 6
    facts = call_json(capsys, "library", "info", path)
    assert (facts["most_landmarks"], facts["landmarks"]) == (2, 2)
    assert facts["lost_median"] > 0.3
    code, _, err = call(capsys, "library", "info", path)
    lost = f"{facts['lost_median']:.0%} of the observers in the median"
    more = "a new library with more --landmarks loses less"
    assert (code, err) == (0, f"sysbags: the embedding loses {lost}: {more}\n")


def test_the_metric_of_a_model(capsys, clips, tmp_path):
    folder, labels = clips[0].parents[1], [clip.parent.name for clip in clips]
    bags, identifier = LocalBinaryPatterns(), sysbags.SystemIdentifier(order=2)
    for metric, weights in (("alignment", (3.0, 2.0)), ("max-singular-value", (0.0, 0.0))):
        classifier = sysbags.NearestSystem(metric=metric, lambda_a=3.0, lambda_mu=2.0)
        model, path = tmp_path / f"{metric}.model", tmp_path / f"{metric}.library"
        sysbags.save(model, make_pipeline(bags, identifier, classifier).fit(clips, labels))
        call_json(capsys, "library", "add", path, folder, "--model", model)
        for command in (("search", path, clips[0]), ("duplicates", path), ("info", path)):
            output = call_json(capsys, "library", *command)
            assert (output["metric"], output["lambda_a"], output["lambda_mu"]) == (metric, *weights)
        output = call_json(capsys, "library", "search", path, clips[0], "--lambda-a", 0.5)
        assert (output["lambda_a"], output["lambda_mu"]) == (0.5, weights[1])
        output = call_json(capsys, "library", "search", path, clips[0], "--metric", "martin", "-k", 2)
        expected = sysbags.pairwise_distances(Library(path).systems, metric="martin")[0]
        found = [entry["squared_distance"] for entry in output["neighbours"]]
        np.testing.assert_allclose(found, np.sort(expected[1:])[:2], rtol=1e-9)
        code, out, _ = call(capsys, "library", "search", path, clips[0])
        work = "alignments" if metric == "alignment" else "max-singular-value distances"
        assert (code, out.splitlines()[-1]) == (0, f"5 kernel blocks and 10 {work} computed")
    code, _, err = call(capsys, "library", "search", path, clips[0], "--metric", "alignment")
    weights = (
        "are those of the metric max-singular-value: for the metric alignment, give lambda_a and lambda_mu"
    )
    assert (code, err) == (2, f"sysbags: the weights of the library {path} {weights}, too\n")
    code, _, err = call(capsys, "library", "search", path, clips[0], "--metric", "covariance", "--json")
    assert (code, err.count("\n")) == (2, 1)


def test_add_with_a_classifier_of_streams(capsys, clips, tmp_path):
    """It has bags, but no metric."""
    folder, labels = clips[0].parents[1], [clip.parent.name for clip in clips]
    model, path = tmp_path / "streams.model", tmp_path / "clips.library"
    steps = [VisualWords(words=4, sampling="grid"), sysbags.StreamClassifier()]
    sysbags.save(model, make_pipeline(*steps).fit(clips, labels))
    for added in (6, 0):
        code, out, err = call(capsys, "library", "add", path, folder, "--model", model)
        assert (code, out.split()[:2]) == (0, [str(added), "added,"])
        assert err == (
            f"sysbags: {model} holds a classifier of streams, which has no metric: its bags are used, with "
            "the metric alignment of systems of order 5\n"
        )
    with Library(path) as library:
        np.testing.assert_array_equal(library.settings.bags.words_, sysbags.load(model)[0].words_)
        assert (library.settings.metric, library.settings.identifier.order) == ("alignment", 5)
    code, _, err = call(capsys, "library", "add", path, folder, "--model", model, *ORDER)
    assert (code, err) == (2, "sysbags: --model has its own bag and order: leave out --order\n")
    union = make_pipeline(BagUnion([LocalBinaryPatterns(), ColourHistogram()]), sysbags.StreamClassifier())
    sysbags.save(model, union.fit(clips, labels))
    code, _, err = call(capsys, "library", "add", tmp_path / "other", folder, "--model", model)
    assert (code, err) == (2, f"sysbags: {model} has 2 bags, but this command takes a single bag\n")


def test_add_with_a_model(capsys, clips, tmp_path):
    folder, model, path = clips[0].parents[1], tmp_path / "scenes.model", tmp_path / "clips.library"
    steps = [VisualWords(words=4, sampling="grid"), sysbags.SystemIdentifier(order=2), sysbags.NearestMean()]
    sysbags.save(model, make_pipeline(*steps).fit(clips, [clip.parent.name for clip in clips]))
    output = call_json(capsys, "library", "add", path, folder, "--model", model)
    assert output["added"] == 6
    with Library(path) as library:
        bags = sysbags.load(model)[0]
        np.testing.assert_array_equal(library.settings.bags.words_, bags.words_)
        stream = bags.stream(library.clips()[0].path)
        np.testing.assert_array_equal(library.systems[0].samples, single(stream))
    code, _, err = call(capsys, "library", "add", path, folder, "--model", model, *ORDER)
    assert (code, err) == (2, "sysbags: --model has its own bag and order: leave out --order\n")


def test_add_reports_what_is_skipped_and_missing(capsys, tmp_path):
    path, clips = tmp_path / "clips.library", small_clips(tmp_path / "clips", per_class=1)
    (tmp_path / "clips" / "bad.mp4").write_text("no video")
    code, out, err = call(capsys, "library", "add", path, tmp_path / "clips", *ORDER)
    assert (code, out) == (0, f"3 added, 0 updated, 0 unchanged, 1 skipped; 3 clips in {path}\n")
    assert err.startswith("sysbags: skipped: ")
    assert "bad.mp4" in err
    clips[0].unlink()
    output = call_json(capsys, "library", "add", path, tmp_path / "clips")
    assert output["missing"] == [str(clips[0])]
    assert [entry["path"] for entry in output["skipped"]] == [str(tmp_path / "clips" / "bad.mp4")]
    _, _, err = call(capsys, "library", "add", path, tmp_path / "clips")
    assert f"no longer on disk: 1 of the clips in the library, such as {clips[0]}; `sysbags library" in err
    assert call_json(capsys, "library", "info", path)["missing"] == 1
    output = call_json(capsys, "library", "remove", path, "--missing")
    assert (output["removed"], output["clips"]) == ([str(clips[0])], 2)
    assert call_json(capsys, "library", "remove", path, "--missing")["removed"] == []
    code, out, err = call(capsys, "library", "add", path, tmp_path / "clips" / "bad.mp4")
    assert (code, out) == (2, "")
    assert err.startswith("sysbags: none of the clips can be used: ")


def test_a_first_add_without_any_clip_fixes_nothing(capsys, clips, tmp_path):
    path, bad = tmp_path / "clips.library", tmp_path / "bad.mp4"
    bad.write_text("no video")
    code, out, err = call(capsys, "library", "add", path, bad, "--order", 4)
    assert (code, out) == (2, "")
    assert err.startswith("sysbags: none of the clips can be used: ")
    assert [file.name for file in tmp_path.iterdir()] == ["bad.mp4"]
    assert call_json(capsys, "library", "add", path, *clips, *ORDER)["added"] == 6
    assert {entry["order"] for entry in call_json(capsys, "library", "list", path)["clips"]} == {2}


def test_add_of_a_folder_that_is_empty_now(capsys, tmp_path):
    path, clips = tmp_path / "clips.library", small_clips(tmp_path / "clips", per_class=1)
    call_json(capsys, "library", "add", path, tmp_path / "clips", *ORDER)
    shutil.rmtree(tmp_path / "clips")
    for _ in range(2):
        output = call_json(capsys, "library", "add", path, tmp_path / "clips")
        assert (output["missing"], output["skipped"]) == (sorted(map(str, clips)), [])
        code, out, err = call(capsys, "library", "add", path, tmp_path / "clips")
        assert (code, out) == (0, f"0 added, 0 updated, 0 unchanged, 0 skipped; 3 clips in {path}\n")
        assert f"no longer on disk: 3 of the clips in the library, such as {sorted(clips)[0]}" in err
        (tmp_path / "clips").mkdir(exist_ok=True)


def test_a_single_clip_as_text(capsys, path, clips, tmp_path):
    """As in the tutorial, without `with`; the command line reads the same library."""
    library = Library(str(tmp_path / "one.library"))
    assert library.add([str(clips[0])]).added == 1
    assert library.add([clips[0]]).unchanged == 1
    assert [clip.path for clip in library.clips()] == [clips[0]]
    assert len(call_json(capsys, "library", "list", tmp_path / "one.library")["clips"]) == 1


def test_list(capsys, path, clips):
    entries = call_json(capsys, "library", "list", path)["clips"]
    assert [entry["path"] for entry in entries] == sorted(map(str, clips))
    assert set(entries[0]) >= {"path", "label", "source", "frames", "checksum", "sha256", "order", "added"}
    assert (entries[0]["label"], entries[0]["frames"], entries[0]["order"]) == ("fire", 8, 2)
    code, table, err = call(capsys, "library", "list", path)
    assert (code, err) == (0, "")
    for entry in entries:
        assert entry["path"] in table
        assert entry["checksum"][:12] in table


def test_remove(capsys, path, clips):
    code, out, _ = call(capsys, "library", "remove", path, clips[0])
    assert (code, out) == (0, f"1 removed; 5 clips in {path}\n")
    output = call_json(capsys, "library", "remove", path, clips[1])
    assert output == {"library": str(path), "removed": [str(clips[1])], "clips": 4}
    for arguments, text in [
        ((clips[0],), "is not in the library"),
        ((), "name the clips to remove, or give --missing"),
        ((clips[2], "--missing"), "name the clips to remove, or give --missing"),
    ]:
        code, out, err = call(capsys, "library", "remove", path, *arguments)
        assert (code, out) == (2, "")
        assert text in err


def test_verify(capsys, path, clips):
    code, out, err = call(capsys, "library", "verify", path)
    assert (code, out, err) == (0, f"6 clips in {path}: every checksum is right\n", "")
    assert call_json(capsys, "library", "verify", path) == {
        "library": str(path),
        "clips": 6,
        "problems": [],
    }
    with Library(path) as library, library.transaction() as connection:
        connection.execute("UPDATE samples SET arrays = zeroblob(100) WHERE content = 1")
    code, out, err = call(capsys, "library", "verify", path)
    assert (code, out) == (1, "")
    assert "are damaged: remove it and add it again" in err
    assert len(call_json(capsys, "library", "verify", path, code=1)["problems"]) == 1


def test_a_damaged_page(capsys, path, clips, tmp_path):
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 8192] = bytes(255 - byte for byte in data[middle : middle + 8192])
    path.write_bytes(data)
    code, _, err = call(capsys, "library", "verify", path)
    assert code == 1
    repair = "restore a copy of the file, or add the clips to a new library"
    assert err == f"sysbags: the library {path} is damaged: {repair}\n"
    for arguments in (("list", path), ("info", path), ("export", path, "--out", tmp_path / "x.model")):
        code, _, err = call(capsys, "library", *arguments)
        assert code in (0, 2)
        assert code == 0 or (err.count("\n") == 1 and str(path) in err)
    data[:] = b"SQLite format 3\x00" + os.urandom(9000)
    path.write_bytes(data)
    for command in ("list", "info"):
        code, _, err = call(capsys, "library", command, path)
        assert code == 2
        assert err.count("\n") == 1
    code, _, err = call(capsys, "library", "verify", path)
    assert (code, err) == (1, f"sysbags: the library {path} is damaged: {repair}\n")


def test_a_library_is_neither_a_model_nor_a_clip(capsys, path, clips):
    for command in (("inspect", path), ("classify", path, clips[0])):
        code, out, err = call(capsys, *command)
        assert (code, out) == (2, "")
        assert f"{path} holds a library of clips, for `sysbags library`, but it must be a model" in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["list", "info", "verify", "remove --missing", "duplicates"])
def test_no_library(capsys, command, tmp_path):
    name, *options = command.split()
    (tmp_path / "text").write_text("neither a library nor anything else")
    for file, text in [("none", "there is no library"), ("", "is a folder"), ("text", "is not a library")]:
        code, out, err = call(capsys, "library", name, tmp_path / file, *options)
        assert (code, out) == (1 if (name, file) == ("verify", "text") else 2, "")
        assert text in err
        assert err.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_export(capsys, path, clips, tmp_path):
    for name in ("clips.csv", "clips.npz", "clips.model"):
        output = call_json(capsys, "library", "export", path, "--out", tmp_path / name)
        assert output == {"library": str(path), "out": str(tmp_path / name), "clips": 6}
    assert len((tmp_path / "clips.csv").read_text().splitlines()) == 7
    assert np.load(tmp_path / "clips.npz")["transitions"].shape == (6, 2, 2)
    assert len(sysbags.load(tmp_path / "clips.model")) == 6
    code, out, _ = call(capsys, "library", "export", path, "--out", tmp_path / "clips.csv")
    assert (code, out) == (0, f"6 clips of {path}: {tmp_path / 'clips.csv'}\n")
    code, _, err = call(capsys, "library", "export", path, "--out", path)
    assert code == 2
    assert "would be overwritten" in err


def test_info(capsys, path):
    facts = call_json(capsys, "library", "info", path)
    assert (facts["clips"], facts["frames"], facts["landmarks"], facts["missing"]) == (6, 48, 48, 0)
    assert facts["classes"] == {"fire": 2, "rain": 2, "waves": 2}
    code, table, err = call(capsys, "library", "info", path)
    assert (code, err) == (0, "")
    for text in ("LocalBinaryPatterns()", "SystemIdentifier(order=2)", "fire 2, rain 2, waves 2"):
        assert text in table


def test_names_that_break_lines(capsys, tmp_path, clips):
    names = [b"two\nlines\x1b[31m.mp4", b"no \xff text.mp4"]
    folder = tmp_path / "clips"
    folder.mkdir()
    try:
        for name, clip in zip(names, clips, strict=False):
            shutil.copy(clip, os.path.join(os.fsencode(folder), name))
    except OSError:
        pytest.skip("the file system does not have such names")
    path = tmp_path / "clips.library"
    assert call_json(capsys, "library", "add", path, folder, *ORDER)["added"] == 2
    _, table, _ = call(capsys, "library", "list", path)
    assert len(table.encode().splitlines()) == 3
    assert "two\\nlines\\x1b[31m.mp4" in table
    entries = call_json(capsys, "library", "list", path)["clips"]
    assert {os.path.basename(os.fsencode(entry["path"])) for entry in entries} == set(names)
    for name in ("clips.csv", "clips.npz", "clips.model"):
        assert call(capsys, "library", "export", path, "--out", tmp_path / name)[0] == 0
    with (tmp_path / "clips.csv").open(newline="", errors="surrogateescape") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [entry["path"] for entry in entries]
    assert np.load(tmp_path / "clips.npz")["paths"].tolist() == [entry["path"] for entry in entries]


def test_search(capsys, path, clips, tmp_path):
    new = shutil.copy(clips[3], tmp_path / "new.mp4")
    output = call_json(capsys, "library", "search", path, new, "-k", 3, "--lambda-a", 0.5)
    assert [entry["rank"] for entry in output["neighbours"]] == [1, 2, 3]
    first = output["neighbours"][0]
    assert (first["path"], first["label"]) == (str(clips[3]), clips[3].parent.name)
    assert first["squared_distance"] < 1e-9
    assert output["lambda_a"] == 0.5
    assert output["blocks"] > 0
    own = call_json(capsys, "library", "search", path, clips[3], "-k", 9, "--exact")
    assert len(own["neighbours"]) == 5
    assert str(clips[3]) not in [entry["path"] for entry in own["neighbours"]]
    assert 0.0 <= own["pruned"] <= 1.0
    for entry in own["neighbours"]:
        assert entry["squared_lower_bound"] <= entry["squared_distance"] + 1e-9
    code, table, err = call(capsys, "library", "search", path, clips[3], "--exact")
    assert (code, err) == (0, "")
    assert "lower bound" in table
    assert "kernel blocks and" in table
    assert "ruled out by bounds" in table
    code, _, err = call(capsys, "library", "search", path, tmp_path / "none.mp4")
    assert code == 2
    assert "none.mp4" in err


def test_search_notes_a_clip_that_is_too_short(capsys, path, clips, tmp_path):
    """Also of a clip that is in the library."""
    kept = tmp_path / "kept.library"
    for frames, text in (
        (3, "has 3 bags, but the shortest clip found has 8: its distance is uncertain"),
        (4, "is too short or too still for order 5: its system has order 3"),
    ):
        (clip,) = make_clips(tmp_path / "short", 1, frames=frames, height=48, width=64, textures=["fire"])[0]
        assert call(capsys, "library", "add", kept, clips[0], clip)[0] == 0
        for file in (kept, path) if frames == 3 else (kept,):
            assert call(capsys, "library", "search", file, clip, "-k", 1)[2] == f"sysbags: {clip} {text}\n"
        shutil.rmtree(tmp_path / "short")


def test_duplicates(capsys, path, clips, tmp_path):
    copy = shutil.copy(clips[0], tmp_path / "copy.mp4")
    call_json(capsys, "library", "add", path, copy)
    output = call_json(capsys, "library", "duplicates", path, "--below", 100)
    assert output["equal"] == [sorted([str(clips[0]), str(copy)])]
    assert len(output["near"]) == 15
    distances = [entry["squared_distance"] for entry in output["near"]]
    assert distances == sorted(distances)
    code, table, err = call(capsys, "library", "duplicates", path)
    assert (code, err) == (0, "")
    assert "equal content: " in table
    assert "groups of equal content: 1; pairs with a squared distance of at most" in table
