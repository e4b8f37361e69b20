from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sysbags import datasets
from sysbags.datasets.stream_files import LabelledStreams, read_streams, write_streams
from sysbags.errors import FileError, ParameterError, StreamError

FINITE = st.floats(allow_nan=False, allow_infinity=False)
# NumPy's text cannot end with a null character.
TEXT = st.text(st.characters(exclude_characters="\0"), min_size=1).filter(str.strip)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def ones(*lengths, p=3):
    return [np.full((length, p), float(k)) for k, length in enumerate(lengths)]


def file_of(folder, **arrays):
    """Write arrays as they are, without the checks of `write_streams`."""
    path = folder / "streams.npz"
    np.savez(path, **{"streams": np.ones((2, 5, 3)), "labels": ["a", "b"], **arrays})
    return path


def sentence_of(path, error=FileError):
    with pytest.raises(error) as caught:
        read_streams(path)
    return str(caught.value).replace(str(path), "FILE")


def write_error(tmp_path, *args, error=ParameterError, **options):
    path = tmp_path / "new.npz"
    with pytest.raises(error) as caught:
        write_streams(path, *args, **options)
    assert not path.exists()
    return str(caught.value)


@st.composite
def data_sets(draw):
    count, p = draw(st.integers(1, 5)), draw(st.integers(1, 3))

    def column(entries, **options):
        return draw(st.lists(entries, min_size=count, max_size=count, **options))

    streams = [draw(hnp.arrays(np.float64, (n, p), elements=FINITE)) for n in column(st.integers(1, 4))]
    trials = {}
    if count > 1:
        for name in draw(st.lists(TEXT, unique=True, max_size=3)):
            trials[name] = draw(st.permutations(["train", "test", *[""] * (count - 2)]))
    return LabelledStreams(
        streams,
        column(draw(st.sampled_from([TEXT, INTEGERS]))),
        column(draw(st.sampled_from([TEXT, INTEGERS]))) if draw(st.booleans()) else None,
        column(TEXT, unique=True),
        trials,
    )


@settings(deadline=None, max_examples=150)
@given(data_sets())
def test_what_is_written_is_read(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "new folder", "streams.npz")
        write_streams(path, data.streams, data.labels, data.groups, data.names, data.trials)
        again = read_streams(path)
        assert os.listdir(path.parent) == [path.name]  # no temporary file
    assert len(again.streams) == len(data.streams)
    for stream, expected in zip(again.streams, data.streams, strict=True):
        assert stream.dtype == np.float64
        assert np.array_equal(stream, expected)
    for name in ("labels", "groups", "names", "trials"):
        value, expected = getattr(again, name), getattr(data, name)
        assert value == expected
    assert list(again.trials) == list(data.trials)
    assert {type(label) for label in again.labels} == {type(label) for label in data.labels}


@pytest.mark.parametrize(("lengths", "shape"), [((4, 4), (2, 4, 3)), ((4, 2, 1), (7, 3)), ((5,), (1, 5, 3))])
def test_arrays_of_the_file(tmp_path, lengths, shape):
    write_streams(tmp_path / "a.npz", ones(*lengths), [*range(len(lengths))])
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        assert file["streams"].shape == shape
        expected = {"streams", "labels"} if len(shape) == 3 else {"streams", "labels", "lengths"}
        assert set(file.files) == expected
    data = read_streams(str(tmp_path / "a.npz"))
    assert [len(stream) for stream in data.streams] == list(lengths)
    assert data.names == [f"stream {k}" for k in range(len(lengths))]
    assert (data.groups, data.trials) == (None, {})


def test_only_labels_and_streams_are_needed_and_other_arrays_are_ignored(tmp_path):
    streams = np.arange(24, dtype=np.float16).reshape(2, 4, 3)
    data = read_streams(file_of(tmp_path, streams=streams, rate=np.array([None, 1], dtype=object)))
    assert [stream.tolist() for stream in data.streams] == streams.tolist()
    assert {stream.dtype for stream in data.streams} == {np.dtype(np.float64)}
    assert (data.labels, data.groups, data.names) == (["a", "b"], None, ["stream 0", "stream 1"])


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i8", "u8"])
def test_integers_stay_integers(tmp_path, dtype):
    data = read_streams(file_of(tmp_path, labels=np.array([7, 1], dtype), groups=np.array([2, 2], dtype)))
    assert (data.labels, data.groups) == ([7, 1], [2, 2])
    assert {type(label) for label in data.labels} == {int}


def test_trials_without_names_and_in_capitals(tmp_path):
    data = read_streams(file_of(tmp_path, trials=[["Train", "test"], [" TEST ", "train"]]))
    assert data.trials == {"trial 0": ["train", "test"], "trial 1": ["test", "train"]}
    assert read_streams(file_of(tmp_path, trials=np.empty((2, 0), "U1"))).trials == {}
    write_streams(tmp_path / "b.npz", ones(2, 3, 4), ["x", "y", "z"], trials={"half": ["Test", "train ", ""]})
    with np.load(tmp_path / "b.npz") as file:
        assert file["trials"].tolist() == [["test"], ["train"], [""]]
        assert file["trial_names"].tolist() == ["half"]


def test_arrays_and_iterators_of_the_caller(tmp_path):
    streams, labels = datasets.make_streams(classes=2, per_class=2, frames=6, bins=4)
    given = np.array(streams)
    names = (f"clip {k}" for k in range(4))
    datasets.write_streams(tmp_path / "a.npz", given, labels, np.array(["x", "y", "x", "y"]), names, {})
    assert np.array_equal(given, streams)
    data = datasets.read_streams(tmp_path / "a.npz")
    assert np.array_equal(data.streams, streams)
    assert data.labels == labels.tolist()
    assert data.groups == ["x", "y", "x", "y"]
    assert data.names == ["clip 0", "clip 1", "clip 2", "clip 3"]
    write_streams(tmp_path / "b.npz", iter(streams), labels, trials=None)
    assert np.array_equal(read_streams(tmp_path / "b.npz").streams, streams)


def test_the_same_data_give_the_same_file(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_streams(tmp_path / name, ones(3, 2), ["a", "b"], names=["one", "two"])
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_name_without_suffix_is_kept(tmp_path):
    write_streams(tmp_path / "data", ones(3, 2), ["a", "b"])
    assert os.listdir(tmp_path) == ["data"]
    assert read_streams(tmp_path / "data").labels == ["a", "b"]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        (
            {"streams": np.ones((6, 3))},
            "the array 'streams' in FILE has the shape (6, 3), so there must be an array 'lengths' with the "
            "number of rows of each stream; without it the shape must be (K, N, p)",
        ),
        (
            {"streams": np.ones(6)},
            "the array 'streams' in FILE has the shape (6,), but it must be (K, N, p), or (rows, p) with an "
            "array 'lengths'",
        ),
        ({"streams": np.ones((0, 5, 3))}, "FILE holds no stream, but it needs at least one"),
        (
            {"streams": np.ones((0, 3)), "lengths": np.ones(0, int)},
            "FILE holds no stream, but it needs at least one",
        ),
        (
            {"lengths": [5, 5]},
            "FILE has the array 'lengths', so the array 'streams' must have the shape (rows, p), the streams "
            "one after another, but its shape is (2, 5, 3)",
        ),
        (
            {"streams": np.ones((6, 3)), "lengths": [4, 3]},
            "the sum of the array 'lengths' in FILE is 7, but the array 'streams' has 6 rows: the sum must "
            "be the number of rows",
        ),
        (
            {"streams": np.ones((6, 3)), "lengths": [6, 0]},
            "entry 1 of the array 'lengths' in FILE is 0, but a stream has at least one row",
        ),
        (
            {"streams": np.ones((6, 3)), "lengths": [4.0, 2.0]},
            "the array 'lengths' in FILE has the shape (2,) and the type float64, but it must hold one "
            "integer for each stream",
        ),
        (
            {"streams": np.ones((6, 3)), "lengths": 6},
            "the array 'lengths' in FILE has the shape () and the type int64, but it must hold one integer "
            "for each stream",
        ),
        (
            {"labels": ["a", "b", "b"]},
            "the array 'labels' in FILE has the shape (3,), but it must be (2,): one entry for each stream",
        ),
        (
            {"labels": [0.5, 1.5]},
            "the array 'labels' in FILE has entries of type float64, but they must be text or integers",
        ),
        (
            {"labels": np.array([b"a", b"b"])},
            "the array 'labels' in FILE has entries of type |S1, but they must be text or integers",
        ),
        ({"labels": ["a", " "]}, "entry 1 of the array 'labels' in FILE is empty, but each stream needs one"),
        (
            {"labels": np.array([97, 0x7FFFFFFF], np.uint32).view("U1")},
            "the array 'labels' in FILE holds text that is not Unicode, but it must be",
        ),
        (
            {"groups": [["x", "y"]]},
            "the array 'groups' in FILE has the shape (1, 2), but it must be (2,): one entry for each stream",
        ),
        ({"groups": ["", "y"]}, "entry 0 of the array 'groups' in FILE is empty, but each stream needs one"),
        ({"names": [1, 2]}, "the array 'names' in FILE has entries of type int64, but they must be text"),
        (
            {"names": ["a", "a"]},
            "the array 'names' in FILE has 'a' more than once, but each name must be different",
        ),
        (
            {"trials": ["train", "test"]},
            "the array 'trials' in FILE has the shape (2,), but it must have 2 rows, one for each stream, "
            "and one column for each trial",
        ),
        (
            {"trials": [[1], [0]]},
            "the array 'trials' in FILE has entries of type int64, but they must be text",
        ),
        (
            {"trials": [["train", "train"], ["test", "tset"]]},
            "stream 1 has 'tset' in column 'trial 1' of the array 'trials' in FILE, but a trial (an official "
            "split) has only the words 'train' and 'test', and empty cells",
        ),
        (
            {"trials": [["train"], [""]], "trial_names": ["half"]},
            "column 'half' of the array 'trials' in FILE has no 'test', but a trial (an official split) "
            "needs at least one 'train' and one 'test'",
        ),
        (
            {"trials": [["train"], ["test"]], "trial_names": ["a", "b"]},
            "the array 'trial_names' in FILE has the shape (2,), but it must be (1,): one entry for each "
            "trial",
        ),
        (
            {"trials": [["train", "test"], ["test", "train"]], "trial_names": ["a", "a"]},
            "the array 'trial_names' in FILE has 'a' more than once, but each name must be different",
        ),
        (
            {"trial_names": ["a"]},
            "the array 'trial_names' in FILE is there without the array 'trials', but it names its columns",
        ),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, sentence):
    assert sentence_of(file_of(tmp_path, **arrays)) == sentence


@pytest.mark.parametrize(
    ("streams", "sentence"),
    [
        (np.where(np.arange(30) == 17, np.nan, 1.0).reshape(2, 5, 3), "stream 1 in FILE holds nan at row 0"),
        (np.ones((2, 0, 3)), "stream 0 in FILE is empty"),
        (np.full((2, 5, 3), "x"), "stream 0 in FILE holds <U1 entries"),
        (np.ones((2, 5, 3), complex), "stream 0 in FILE holds complex128 entries"),
    ],
)
def test_streams_that_are_not_numbers(tmp_path, streams, sentence):
    assert sentence_of(file_of(tmp_path, streams=streams), StreamError).startswith(sentence)


@pytest.mark.parametrize("name", ["streams", "labels", "groups", "trials"])
def test_pickles_are_refused(tmp_path, name):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    path = file_of(tmp_path, **{name: np.array([Bomb(), Bomb()], dtype=object)})
    assert sentence_of(path) == (
        f"the array {name!r} in FILE holds Python objects, which are refused because loading them could run "
        "code: store numbers or text, and streams of different length with 'lengths'"
    )
    assert not (tmp_path / "exploded").exists()


def test_missing_arrays(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, log_mel_power=np.ones((2, 3)), label=["a", "b"])
    assert sentence_of(path) == (
        "FILE has no array 'streams', but it needs at least 'streams' and 'labels' (its arrays: "
        "'log_mel_power', 'label')"
    )
    np.savez(path, streams=np.ones((1, 2, 3)))
    assert sentence_of(path).startswith("FILE has no array 'labels', but it needs")
    np.savez(path)
    assert sentence_of(path).endswith("(its arrays: none)")


@pytest.mark.parametrize("content", [b"", b"streams,labels\n", b"PK\x03\x04 no archive", b"\x80\x04N."])
def test_other_files(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    assert sentence_of(path) == (
        "FILE is not an .npz file, or is damaged: write one with write_streams or numpy.savez"
    )


def test_a_file_with_one_array(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    assert sentence_of(tmp_path / "a.npy") == (
        "FILE holds a single array (.npy), but it must be an .npz file with the arrays 'streams' and 'labels'"
    )


def test_an_archive_with_other_files(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("streams", "1 2 3")
        archive.writestr("labels", "a b c")
    assert (
        sentence_of(path) == "'streams' in FILE is not an array, but it must be one, as numpy.savez writes it"
    )


def test_damaged_files(tmp_path):
    """Whatever byte is changed, and wherever the file ends: the data or one sentence, never a traceback."""
    path = tmp_path / "a.npz"
    write_streams(path, ones(3, 2, p=2), ["a", "b"], names=["x", "y"])
    content = path.read_bytes()
    sentences = set()
    for place in range(len(content)):
        for damaged in (
            content[:place],
            content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :],
        ):
            path.write_bytes(damaged)
            try:
                read_streams(path)
            except (FileError, StreamError) as error:
                sentences.add(str(error).replace(str(path), "FILE").split(":")[0])
    assert "FILE is not an .npz file, or is damaged" in sentences
    assert "the array 'streams' in FILE is damaged, so write the file again" in sentences


def test_missing_and_unreadable_files(tmp_path):
    assert sentence_of(tmp_path / "a.npz") == "there is no file FILE"
    assert sentence_of(tmp_path) == "FILE is a folder, but it must be an .npz file"
    assert "embedded null" in sentence_of("a\0.npz")  # Python 3.13 has a word before it
    assert sentence_of(tmp_path / ("x" * 5000)).startswith("cannot read FILE: ")
    assert sentence_of(3) == "path is FILE, but it must be the path of an .npz file, as text or a Path"
    os.mkfifo(tmp_path / "pipe")
    assert sentence_of(tmp_path / "pipe") == "FILE is a device or a pipe, but it must be an .npz file"


def test_a_file_without_permission(tmp_path, monkeypatch):
    path = file_of(tmp_path)

    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np, "load", refuse)  # root may read everything
    assert sentence_of(path) == "cannot read FILE: Permission denied"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([], []), "streams is empty, but it needs at least one stream"),
        ((5, [1]), "streams is 5, but it must be a sequence with one entry for each stream"),
        (
            (np.array(5.0), [1]),
            "streams is array(5.), but it must be a sequence with one entry for each stream",
        ),
        (
            ([*ones(2, 3), np.ones((2, 4))], [1, 2, 3]),
            "stream 2 has 4 columns, but it must have 3 as stream 0: all streams have the same number of "
            "columns",
        ),
        ((ones(2, 3), None), "labels is None, but it must be a sequence with one entry for each stream"),
        ((ones(2, 3), 7), "labels is 7, but it must be a sequence with one entry for each stream"),
        ((ones(2, 3), "ab"), "labels is 'ab', but it must be a sequence with one entry for each stream"),
        ((ones(2, 3), ["a"]), "labels has the shape (1,), but it must be (2,): one entry for each stream"),
        (
            (ones(2, 3), np.ones((2, 1), int)),
            "labels has the shape (2, 1), but it must be (2,): one entry for each stream",
        ),
        ((ones(2, 3), []), "labels has the shape (0,), but it must be (2,): one entry for each stream"),
        ((ones(2, 3), [1.0, 2.0]), "labels has entries of type float64, but they must be text or integers"),
        ((ones(2, 3), [True, False]), "labels has entries of type bool, but they must be text or integers"),
        ((ones(2, 3), [None, "a"]), "labels has entries of type object, but they must be text or integers"),
        ((ones(2, 3), [2**70, 1]), "labels has entries of type object, but they must be text or integers"),
        *[
            (
                (ones(2, 3), labels),
                "labels cannot be stored as it is: all entries must be text, without null characters, or all "
                "must be integers",
            )
            for labels in ([1, "a"], ["a", "b\0"], [[1], [2, 3]], [np.arange(2), np.arange(2)])
        ],
        (
            (ones(2, 3), [1, 2], ["x"]),
            "groups has the shape (1,), but it must be (2,): one entry for each stream",
        ),
        ((ones(2, 3), [1, 2], ["x", ""]), "entry 1 of groups is empty, but each stream needs one"),
        (
            (ones(2, 3), [1, 2], None, ["x", "x"]),
            "names has 'x' more than once, but each name must be different",
        ),
        ((ones(2, 3), [1, 2], None, [3, 4]), "names has entries of type int64, but they must be text"),
        (
            (ones(2, 3), [1, 2], None, None, [["train"], ["test"]]),
            "trials is a list, but it must be a mapping from the name of each trial to 'train', 'test' or '' "
            "for each stream",
        ),
        (
            (ones(2, 3), [1, 2], None, None, {"half": ["train"]}),
            "trial 'half' has the shape (1,), but it must be (2,): one entry for each stream",
        ),
        (
            (ones(2, 3), [1, 2], None, None, {"half": "train"}),
            "trial 'half' is 'train', but it must be a sequence with one entry for each stream",
        ),
        (
            (ones(2, 3), [1, 2], None, None, {"half": ["train", None]}),
            "trials has entries of type object, but they must be text",
        ),
        (
            (ones(2, 3), [1, 2], None, None, {"half": ["train", "tset"]}),
            "stream 1 has 'tset' in column 'half' of trials, but a trial (an official split) has only the "
            "words 'train' and 'test', and empty cells",
        ),
        (
            (ones(2, 3), [1, 2], None, None, {"half": ["train", "train"]}),
            "column 'half' of trials has no 'test', but a trial (an official split) needs at least one "
            "'train' and one 'test'",
        ),
        (
            (ones(2, 3), [1, 2], None, None, {1: ["train", "test"]}),
            "trial_names has entries of type int64, but they must be text",
        ),
        (
            (ones(2, 3), [1, 2], None, None, {"": ["train", "test"]}),
            "entry 0 of trial_names is empty, but each trial needs one",
        ),
    ],
)
def test_what_cannot_be_written(tmp_path, arguments, sentence):
    assert write_error(tmp_path, *arguments) == sentence


def test_streams_that_cannot_be_written(tmp_path):
    assert write_error(tmp_path, [np.ones((2, 3)), np.ones(3)], [1, 2], error=StreamError).startswith(
        "stream 1 has 1 dimensions, but it must have 2"
    )
    assert write_error(tmp_path, [[[1.0, np.inf]]], [1], error=StreamError).startswith("stream 0 holds inf")


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(FileError, match=r"cannot write .*: it is a folder"):
        write_streams(tmp_path, ones(2), [1])
    with pytest.raises(FileError, match=r"path is None, but it must be the path of an \.npz file"):
        write_streams(None, ones(2), [1])


def test_the_old_file_stays_if_the_new_one_is_wrong(tmp_path):
    path = tmp_path / "a.npz"
    write_streams(path, ones(2), ["old"])
    with pytest.raises(ParameterError):
        write_streams(path, ones(2), [0.5])
    assert read_streams(path).labels == ["old"]
