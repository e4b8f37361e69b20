from __future__ import annotations

import os

import pytest

from sysbags.datasets.folder import class_folders, clips_under, looks_like_clip
from sysbags.errors import FileError


def fill(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def test_classes_and_clips_in_natural_order(tmp_path):
    fill(tmp_path, "b2/clip10.mp4", "b2/clip9.MP4", "b10/x.webm", "b10/X.avi", "a/1.gif", "a/01.gif")
    clips = class_folders(tmp_path)
    names = [path.relative_to(tmp_path).as_posix() for path in clips.paths]
    assert names == ["a/01.gif", "a/1.gif", "b2/clip9.MP4", "b2/clip10.mp4", "b10/X.avi", "b10/x.webm"]
    assert clips.labels == ["a", "a", "b2", "b2", "b10", "b10"]
    assert clips.sources is None


def test_hidden_and_foreign_files_are_left_out(tmp_path):
    fill(tmp_path, "a/1.mp4", "a/.2.mp4", "a/notes.txt", "a/3.mp4.part", ".git/x.mp4", "README.md", "b/1.mkv")
    assert [path.name for path in class_folders(str(tmp_path)).paths] == ["1.mp4", "1.mkv"]


def test_a_folder_of_images_is_a_clip(tmp_path):
    fill(tmp_path, "a/walk/1.png", "a/walk/2.PNG", "a/run.mp4", "a/empty/notes.txt", "b/walk/1.jpg")
    clips = class_folders(tmp_path)
    assert [path.name for path in clips.paths] == ["run.mp4", "walk", "walk"]
    assert clips.labels == ["a", "a", "b"]


def test_sources_come_from_the_index(tmp_path):
    fill(tmp_path, "a/1.mp4", "a/2.mp4", "b/1.mp4", "b/2.mp4")
    text = (
        '\ufeffframes,clip,source\n9,a/1.mp4,"tape, one"\n9,b/1.mp4,tape two\n9, b\\2.mp4,z \n9,a/2.mp4,y\n'
    )
    (tmp_path / "index.csv").write_text(text, encoding="utf-8")
    assert class_folders(tmp_path).sources == ["tape, one", "y", "tape two", "z"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (  # names without a folder
            ["1.mp4", "2.mp4", "3.mp4", "4.mp4"],
            "4 rows name no clip (1.mp4, 2.mp4, 3.mp4, ...), "
            "4 clips have no row (a/1.mp4, a/2.mp4, b/3.mp4, ...)",
        ),
        (["a/1.mp4", "a/2.mp4", "b/3.mp4"], "1 clip has no row (b/4.mp4)"),
        (["a/1.mp4", "a/2.mp4", "b/3.mp4", "b/4.mp4", "c/5.mp4"], "1 row names no clip (c/5.mp4)"),
        (["a/1.mp4", "b/4.mp4"], "2 clips have no row (a/2.mp4, b/3.mp4)"),
        ([], "4 clips have no row (a/1.mp4, a/2.mp4, b/3.mp4, ...)"),
    ],
)
def test_an_index_that_does_not_match_the_clips(tmp_path, rows, sentence):
    fill(tmp_path, "a/1.mp4", "a/2.mp4", "b/3.mp4", "b/4.mp4")
    (tmp_path / "index.csv").write_text("\n".join(["clip,source", *[f"{row},146" for row in rows]]))
    with pytest.raises(FileError) as caught:
        class_folders(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'index.csv'} does not match the clips: {sentence}; there must be one row for each "
        "clip, named by class folder and file, such as a/1.mp4"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "has no column 'clip'"),
        (b"clip,origin\na/1.mp4,x\n", "has no column 'source'"),
        (b"clip,source\na/1.mp4\n", "line 2 of .* must give both a clip and a source"),
        (b"clip,source\na/1.mp4, \n", "line 2 of .* must give both a clip and a source"),
        (b"clip,source\n,x\n", "line 2 of .* must give both a clip and a source"),
        (b"clip,source\na/1.mp4,x\na/1.mp4,y\n", "gives two sources for a/1.mp4"),
        (b'clip,source\n"a/1.mp4,x\n', "is not a table of comma-separated values"),
        (b"clip,source\na/1.mp4,\xff\xfe\n", "is not a table of comma-separated values in UTF-8"),
    ],
)
def test_bad_index(tmp_path, text, sentence):
    fill(tmp_path, "a/1.mp4")
    (tmp_path / "index.csv").write_bytes(text)
    with pytest.raises(FileError, match=sentence):
        class_folders(tmp_path)


def test_index_that_is_a_folder(tmp_path):
    fill(tmp_path, "a/1.mp4", "index.csv/1.mp4")
    with pytest.raises(FileError, match=r"cannot read .*index\.csv"):
        class_folders(tmp_path)


@pytest.mark.parametrize("find", [class_folders, clips_under])
def test_no_such_folder(tmp_path, find):
    with pytest.raises(FileError, match=r"there is no folder .*nowhere"):
        find(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file is a file, but it must be a folder of clips"):
        find(tmp_path / "file")


def test_no_class_and_no_clip(tmp_path):
    with pytest.raises(FileError, match="holds no folder, but it must hold one"):
        class_folders(tmp_path)
    with pytest.raises(FileError, match="there is no clip in"):
        clips_under(tmp_path)
    fill(tmp_path, "a/1.mp4", "b/notes.txt")
    with pytest.raises(
        FileError, match=r"the class folder .*b holds no clip, but at least two class folders"
    ):
        class_folders(tmp_path)


def test_an_empty_class_folder_is_skipped_if_two_others_remain(tmp_path):
    fill(tmp_path, "a/1.mp4", "b/notes.txt", "c/2.mp4")
    (tmp_path / "d").mkdir()
    (tmp_path / "index.csv").write_text("clip,source\na/1.mp4,x\nc/2.mp4,y\n")
    clips = class_folders(tmp_path)
    assert (clips.labels, clips.sources, clips.empty) == (["a", "c"], ["x", "y"], ["b", "d"])
    assert clips.notes() == [f"skipped: the class folder {name} holds no clip" for name in ("b", "d")]
    (tmp_path / "b" / "0.mp4").touch()
    (tmp_path / "d").rmdir()
    (tmp_path / "index.csv").unlink()
    assert class_folders(tmp_path).notes() == []


def test_what_looks_like_a_clip(tmp_path):
    fill(tmp_path, "walk/1.png", "notes/1.txt", "photo.png", "clip.MP4")
    names = ["walk", "notes", "photo.png", "clip.MP4", "new.avi", "new.html", "nowhere/new.webm"]
    assert [name for name in names if looks_like_clip(tmp_path / name)] == [
        "walk",
        "clip.MP4",
        "new.avi",
        "nowhere/new.webm",
    ]


def test_clips_anywhere_below(tmp_path):
    fill(tmp_path, "z.mp4", "a/deep/down/2.mp4", "a/1.mp4", "a/walk/1.png", "a/deep/.x/3.mp4", "b/notes.txt")
    names = [path.relative_to(tmp_path).as_posix() for path in clips_under(tmp_path)]
    assert names == ["a/1.mp4", "a/deep/down/2.mp4", "a/walk", "z.mp4"]


def test_links_in_a_circle_end(tmp_path):
    fill(tmp_path, "a/1.mp4")
    os.symlink(tmp_path, tmp_path / "a" / "up", target_is_directory=True)
    assert [path.name for path in clips_under(tmp_path)] == ["1.mp4"]
