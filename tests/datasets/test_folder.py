from __future__ import annotations

import os
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest

from sysbags.datasets.folder import check_trial, class_folders, clips_under, looks_like_clip
from sysbags.errors import FileError, ParameterError

DATA = Path(__file__).parents[3] / "shared" / "data"


def fill(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def index(root, *lines):
    (root / "index.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def names_of(clips, root):
    return [path.relative_to(root).as_posix() for path in clips.paths]


def sentence_of(root):
    with pytest.raises(FileError) as caught:
        class_folders(root)
    return str(caught.value).replace(str(root / "index.csv"), "INDEX")


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
    clips = class_folders(tmp_path)
    assert clips.sources == ["tape, one", "y", "tape two", "z"]
    assert clips.trials == {}


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
        (
            b"clip,origin\na/1.mp4,x\n",
            "has no column 'source', no column 'label' and no column with .*'train'",
        ),
        (b"clip\na/1.mp4\n", "has no column 'source', no column 'label' and no column with .*'train'"),
        (b"clip,source,source\na/1.mp4,x,y\n", "has 2 columns 'source', but it must have one"),
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


def test_clips_beside_the_class_folders_are_told_of(tmp_path):
    for name in ("a/0.mp4", "b/0.mp4", "stray.mp4", ".hidden.mp4", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    clips = class_folders(tmp_path)
    assert [path.name for path in clips.paths] == ["0.mp4", "0.mp4"]
    assert clips.notes() == ["skipped: stray.mp4 is in no class folder"]
    rows = ["clip,label", "a/0.mp4,x", "b/0.mp4,y", "stray.mp4,y"]
    (tmp_path / "index.csv").write_text("\n".join(rows))
    assert len(class_folders(tmp_path).paths) == 3
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


LABELLED = (
    "clip,label,source,weather",
    "video/b10.avi,light,tape 2,rain",
    "a.avi,light,tape 1,",
    "video/b9.avi, light ,tape 2,sun",
    "video/deep/c.mp4,class 10,tape 1,sun",
    "walk,class 9,tape 3,sun",
)


def labelled(root):
    return fill(
        root, "a.avi", "video/b9.avi", "video/b10.avi", "video/deep/c.mp4", "walk/1.png", "walk/2.png"
    )


def test_labels_come_from_the_index_in_an_order_that_does_not_depend_on_its_rows(tmp_path):
    labelled(tmp_path)
    for rows in permutations(LABELLED[1:]):
        clips = class_folders(index(tmp_path, LABELLED[0], *rows))
        assert names_of(clips, tmp_path) == [
            "walk",
            "video/deep/c.mp4",
            "a.avi",
            "video/b9.avi",
            "video/b10.avi",
        ]
        assert clips.labels == ["class 9", "class 10", "light", "light", "light"]
        assert clips.sources == ["tape 3", "tape 1", "tape 1", "tape 2", "tape 2"]
        assert (clips.empty, clips.trials, clips.notes()) == ([], {}, [])


def test_the_source_is_optional(tmp_path):
    fill(tmp_path, "a.avi", "b.avi")
    clips = class_folders(index(tmp_path, "clip,label", "a.avi,x", "b.avi,y"))
    assert (clips.labels, clips.sources) == (["x", "y"], None)


def test_labels_replace_the_names_of_folders(tmp_path):
    fill(tmp_path, "a/1.mp4", "b/1.mp4", "empty/notes.txt")
    clips = class_folders(index(tmp_path, "label,clip", "wet,a/1.mp4", "a/b,b/1.mp4"))
    assert (names_of(clips, tmp_path), clips.labels) == (["b/1.mp4", "a/1.mp4"], ["a/b", "wet"])
    assert clips.empty == []


def test_every_way_to_write_the_name_of_a_clip(tmp_path):
    fill(tmp_path, "v/1.mp4", "v/2.mp4", "v/3.mp4", "4.mp4")
    rows = ["v\\1.mp4,x", "./v/2.mp4,x", "v//3.mp4,x", " 4.mp4 ,x", "./4.mp4,x"]
    clips = class_folders(index(tmp_path, "clip,label", *rows))
    assert names_of(clips, tmp_path) == ["4.mp4", "v/1.mp4", "v/2.mp4", "v/3.mp4"]


def test_a_folder_with_clips_in_the_index_is_not_a_folder_of_images(tmp_path):
    fill(tmp_path, "video/a.avi", "video/preview.png", "video/b.avi")
    assert names_of(
        class_folders(index(tmp_path, "clip,label", "video/a.avi,x", "video/b.avi,y")), tmp_path
    ) == [
        "video/a.avi",
        "video/b.avi",
    ]
    assert "1 clip has no row (video/b.avi)" in sentence_of(index(tmp_path, "clip,label", "video/a.avi,x"))


def test_a_link_that_the_index_names_is_followed(tmp_path):
    fill(tmp_path, "elsewhere/a.avi", "data/b.avi", "data/sub/c.avi")
    os.symlink(tmp_path / "elsewhere", tmp_path / "data" / "link", target_is_directory=True)
    os.symlink(tmp_path / "data", tmp_path / "data" / "sub" / "up", target_is_directory=True)
    root = index(tmp_path / "data", "clip,label", "link/a.avi,x", "b.avi,y", "sub/c.avi,x")
    assert names_of(class_folders(root), root) == ["link/a.avi", "sub/c.avi", "b.avi"]
    root = index(tmp_path / "data", "clip,label", "b.avi,y", "sub/c.avi,x")
    assert names_of(class_folders(root), root) == ["sub/c.avi", "b.avi"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (["a.avi,x", "b.avi,x"], "1 clip has no row (v/c.avi)"),
        (["a.avi,x", "b.avi,x", "v/c.avi,y", "d.avi,y"], "1 row names no clip (d.avi)"),
        (["a.avi,x", "b.avi,x", "v/c.avi,y", "notes.txt,y"], "1 row names no clip (notes.txt)"),
        (["a.avi,x", "b.avi,x", "v/c.avi,y", "../out.avi,y"], "1 row names no clip (../out.avi)"),
        (["a.avi,x", "b.avi,x", "c.avi,y"], "1 row names no clip (c.avi), 1 clip has no row (v/c.avi)"),
        (
            ["1.avi,x", "2.avi,x", "3.avi,y", "4.avi,y", "a.avi,x"],
            "4 rows name no clip (1.avi, 2.avi, 3.avi, ...), 2 clips have no row (b.avi, v/c.avi)",
        ),
        ([], "3 clips have no row (a.avi, b.avi, v/c.avi)"),
    ],
)
def test_labels_that_do_not_match_the_clips(tmp_path, rows, sentence):
    root = fill(tmp_path / "in", "a.avi", "b.avi", "v/c.avi", "notes.txt", "../out.avi")
    assert sentence_of(index(root, "clip,label", *rows)) == (
        f"INDEX does not match the clips: {sentence}; there must be one row for each clip, named by its path "
        "in the folder, such as a.avi"
    )


def test_labels_without_any_clip(tmp_path):
    assert sentence_of(index(tmp_path, "clip,label", "a.avi,x")) == (
        "INDEX does not match the clips: 1 row names no clip (a.avi); there must be one row for each clip, "
        "named by its path in the folder"
    )
    assert sentence_of(index(tmp_path, "clip,label")).startswith("there is no clip in ")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["clip,label", "a.avi,x", "b.avi,"], "line 3 of INDEX must give both a clip and a label"),
        (["clip,label", "", "a.avi", "b.avi,x"], "line 3 of INDEX must give both a clip and a label"),
        (["clip,label", "a.avi,x", " ,y"], "line 3 of INDEX must give both a clip and a label"),
        (
            ["clip,source,label", "a.avi,x,y", "b.avi,,x"],
            "line 3 of INDEX must give a clip, a label and a source",
        ),
        (["clip,trial", "a.avi,train", ",test"], "line 3 of INDEX must give a clip"),
        (["clip,label", "a.avi,x", "a.avi,y"], "INDEX gives two labels for a.avi, but a clip has one"),
        (
            ["clip,label,source", "a.avi,x,1", "a.avi,x,2"],
            "INDEX gives two sources for a.avi, but a clip has one",
        ),
        (
            ["clip,label,half", "a.avi,x,train", "a.avi,x,test"],
            "INDEX gives two entries of the column 'half' for a.avi, but a clip has one",
        ),
        (["clip,label,label", "a.avi,x,y"], "INDEX has 2 columns 'label', but it must have one"),
        (
            ["file,label", "a.avi,x"],
            "INDEX has no column 'clip', but it must have the columns 'clip' and 'source', or 'clip' and "
            "'label'",
        ),
    ],
)
def test_bad_index_with_labels(tmp_path, lines, sentence):
    fill(tmp_path, "a.avi", "b.avi")
    assert sentence_of(index(tmp_path, *lines)) == sentence


def test_rows_that_repeat_another_are_one_row(tmp_path):
    fill(tmp_path, "a.avi", "b.avi")
    rows = ["a.avi,x,train,30", "b.avi,y,test,25", "a.avi,x,Train,29"]
    clips = class_folders(index(tmp_path, "clip,label,trial,fps", *rows))
    assert (clips.labels, clips.trials) == (["x", "y"], {"trial": ["train", "test"]})


def test_trials_with_labels(tmp_path):
    fill(tmp_path, "a.avi", "b.avi", "c.avi")
    lines = [
        "trial 2,clip,weather,label,trial1,empty,fps",
        "test,c.avi,sun,x,train,,25",
        "train,b.avi,,y, TEST ,,30",
        ",a.avi,sun,y,Train",
    ]
    clips = class_folders(index(tmp_path, *lines))
    assert names_of(clips, tmp_path) == ["c.avi", "a.avi", "b.avi"]
    assert clips.trials == {"trial 2": ["test", "", "train"], "trial1": ["train", "train", "test"]}
    assert list(clips.trials) == ["trial 2", "trial1"]


@pytest.mark.parametrize("source", [True, False])
def test_trials_with_class_folders(tmp_path, source):
    fill(tmp_path, "a/1.mp4", "a/2.mp4", "b/1.mp4", "empty/notes.txt")
    lines = ["clip,half,source", "b/1.mp4,test,x", "a/1.mp4,test,y", "a/2.mp4,train,z"]
    clips = class_folders(index(tmp_path, *[line if source else line.rpartition(",")[0] for line in lines]))
    assert clips.labels == ["a", "a", "b"]
    assert clips.sources == (["y", "z", "x"] if source else None)
    assert clips.trials == {"half": ["test", "train", "test"]}
    assert clips.empty == ["empty"]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            ["clip,label,one,two", "a.avi,x,train,train", "b.avi,y,test,tset"],
            "line 3 has 'tset' in the column 'two' of INDEX, but a trial (an official split) has only the "
            "words 'train' and 'test', and empty cells",
        ),
        (
            ["clip,label,one", "a.avi,x,train", "b.avi,y,"],
            "the column 'one' of INDEX has no 'test', but a trial (an official split) needs at least one "
            "'train' and one 'test'",
        ),
        (
            ["clip,label,one", "a.avi,x,test", "b.avi,y,TEST"],
            "the column 'one' of INDEX has no 'train', but a trial (an official split) needs at least one "
            "'train' and one 'test'",
        ),
        (
            ["clip,label,one,one", "a.avi,x,train,test", "b.avi,y,test,train"],
            "column 4 of INDEX holds 'train' or 'test' and has the same name as another, 'one', but each "
            "trial needs a name of its own",
        ),
        (
            ["clip,,label", "a.avi,train,x", "b.avi,test,y"],
            "column 2 of INDEX holds 'train' or 'test' and has no name, but each trial needs a name of its "
            "own",
        ),
    ],
)
def test_bad_trials(tmp_path, lines, sentence):
    fill(tmp_path, "a.avi", "b.avi")
    assert sentence_of(index(tmp_path, *lines)) == sentence


def test_labels_and_sources_may_be_called_train_and_test(tmp_path):
    fill(tmp_path, "a.avi", "b.avi")
    clips = class_folders(index(tmp_path, "clip,label,source", "a.avi,train,test", "b.avi,tram,train"))
    assert (clips.labels, clips.sources, clips.trials) == (["train", "tram"], ["test", "train"], {})


def test_check_trial_raises_what_it_is_told_to():
    assert check_trial(["TRAIN", "", "test "], "t", "abc") == ["train", "", "test"]
    with pytest.raises(ParameterError, match="b has 'x' in t"):
        check_trial(["train", "x"], "t", "ab", ParameterError)
    with pytest.raises(ParameterError, match="t has no 'train'"):
        check_trial([], "t", [], ParameterError)


@pytest.mark.parametrize(
    ("name", "counts", "sources", "tests"),
    [
        ("traffic", {"heavy": 44, "light": 165, "medium": 45}, None, [63, 64, 64, 63]),
        ("gait-speed", {"normal": 40, "quick": 40, "slow": 40}, 20, []),
    ],
)
def test_real_tables(name, counts, sources, tests):
    if not (DATA / name / "index.csv").exists():
        pytest.skip(f"{name} is not beside the repository")
    clips = class_folders(DATA / name)
    assert Counter(clips.labels) == counts
    assert list(counts) == sorted(set(clips.labels))
    assert (clips.sources and len(set(clips.sources))) == sources
    assert list(clips.trials) == [f"trial{i + 1}" for i in range(len(tests))]
    assert [parts.count("test") for parts in clips.trials.values()] == tests
    assert all("" not in parts for parts in clips.trials.values())
