"""The cache on disk: records are read again, made again when damaged, never half written."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
import warnings

import numpy as np
import pytest
from safetensors import SafetensorError

from clips import moving_frames, write_clip
from sysbags._common.cache import SCHEMAS, Cache, clip_key, fingerprint
from sysbags._common.messages import collect_warnings, warn
from sysbags.bags import BagUnion, LocalBinaryPatterns, OpticalFlow, VisualWords
from sysbags.bags.streams import clip_records, clip_streams
from sysbags.errors import CacheWarning, FileError, ParameterError, StreamError, VideoError, VideoWarning


class Counting:
    """Makes arrays, and counts how often."""

    def __init__(self, **arrays):
        self.arrays, self.calls = arrays, 0

    def __call__(self):
        self.calls += 1
        return self.arrays


ARRAYS = {
    "stream": np.random.default_rng(0).random((3, 4)),
    "counts": np.arange(6, dtype=np.uint16).reshape(2, 3),
    "float32": np.linspace(0, 1, 5, dtype=np.float32),
    "number": np.array(2.5),
    "nothing": np.empty((0, 7)),
    "turned": np.random.default_rng(1).random((4, 3)).T,
    "not finite": np.array([np.nan, np.inf]),
}


def test_arrays_come_back_bit_for_bit(tmp_path):
    make = Counting(**ARRAYS)
    first = Cache(tmp_path).arrays("stream", {"a": 1}, make)
    again = Cache(tmp_path).arrays("stream", {"a": 1}, make)
    assert make.calls == 1
    for arrays in (first, again):
        assert arrays.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert arrays[name].dtype == array.dtype
            assert arrays[name].shape == array.shape
            np.testing.assert_array_equal(arrays[name], array)


def test_another_key_is_another_record(tmp_path):
    cache, make = Cache(tmp_path), Counting(x=np.zeros(1))
    for key in ({"a": 1}, {"a": 2}, {"a": "1"}, {"a": 1, "b": None}):
        cache.arrays("stream", key, make)
    assert make.calls == 4
    cache.arrays("stream", {"b": None, "a": 1}, make)  # the order of a mapping does not matter
    assert make.calls == 4


def test_another_kind_or_schema_is_another_record(tmp_path, monkeypatch):
    make = Counting(x=np.zeros(1))
    Cache(tmp_path).arrays("stream", {"a": 1}, make)
    Cache(tmp_path).arrays("vector", {"a": 1}, make)
    assert make.calls == 2
    monkeypatch.setitem(SCHEMAS, "stream", SCHEMAS["stream"] + 1)
    Cache(tmp_path).arrays("vector", {"a": 1}, make)
    assert make.calls == 2
    Cache(tmp_path).arrays("stream", {"a": 1}, make)
    assert make.calls == 3


def test_an_unknown_kind_is_an_error(tmp_path):
    with pytest.raises(ParameterError, match="kind is 'song', but it must be one of 'codebook', "):
        Cache(tmp_path).arrays("song", {"a": 1}, Counting(x=np.zeros(1)))


def test_without_a_folder_nothing_is_cached(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make = Counting(x=np.ones(2))
    for _ in range(2):
        np.testing.assert_array_equal(Cache(None).arrays("stream", {"a": 1}, make)["x"], np.ones(2))
    assert make.calls == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "other", "words"])
def test_a_damaged_or_foreign_record_is_made_again(tmp_path, damage):
    cache, make = Cache(tmp_path), Counting(x=np.arange(50.0))
    cache.arrays("stream", {"a": 1}, make)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-20] ^= 1  # in the last number
    elif damage == "short":
        del content[-9:]
    elif damage == "empty":
        content.clear()
    elif damage == "words":
        content[:] = b"this is no record"
    else:  # an undamaged record of another key
        cache.arrays("stream", {"a": 2}, Counting(x=np.zeros(50)))
        (other,) = set(tmp_path.iterdir()) - {path}
        content[:] = other.read_bytes()
    path.write_bytes(content)
    np.testing.assert_array_equal(cache.arrays("stream", {"a": 1}, make)["x"], np.arange(50.0))
    cache.arrays("stream", {"a": 1}, make)
    assert make.calls == 2


def test_what_is_interrupted_leaves_nothing(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cache(tmp_path).arrays("stream", {"a": 1}, interrupted)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_clip_that_changes_has_another_key(tmp_path, kind):
    clip = tmp_path / "clip"
    if kind == "folder":
        clip.mkdir()
        for k in range(3):
            (clip / f"{k}.png").write_bytes(b"abc")
        file = clip / "1.png"
    else:
        file = clip
        file.write_bytes(b"abc")
    before = clip_key(clip)
    assert clip_key(clip) == before
    assert clip_key(os.path.relpath(clip)) == before
    os.utime(file, ns=(1, 1))
    touched = clip_key(clip)
    assert touched != before
    file.write_bytes(b"abcd")
    os.utime(file, ns=(1, 1))
    assert clip_key(clip) not in (before, touched)
    shutil.copytree(clip, tmp_path / "copy") if kind == "folder" else shutil.copy2(clip, tmp_path / "copy")
    assert clip_key(tmp_path / "copy") != clip_key(clip)


def test_a_clip_that_is_not_there(tmp_path):
    with pytest.raises(VideoError, match=r"cannot read .*gone"):
        clip_key(tmp_path / "gone.mp4")


def test_fingerprints_tell_estimators_apart():
    estimators = [
        LocalBinaryPatterns(),
        LocalBinaryPatterns(radius=2),
        LocalBinaryPatterns(frames={"stride": 2}),
        OpticalFlow(),
        VisualWords(5),
        VisualWords(5, random_state=1),
        BagUnion([LocalBinaryPatterns(), OpticalFlow()]),
        BagUnion([LocalBinaryPatterns(radius=2), OpticalFlow()]),
    ]
    prints = [repr(fingerprint(bags)) for bags in estimators]
    assert len(set(prints)) == len(prints)
    assert fingerprint(LocalBinaryPatterns(n_jobs=3)) == fingerprint(LocalBinaryPatterns())


def test_fingerprints_see_what_was_learnt():
    video = np.random.default_rng(0).integers(0, 256, (4, 48, 48), dtype=np.uint8)
    bags = VisualWords(4, sampling="grid")
    before = fingerprint(bags)
    bags.fit([video])
    learnt = fingerprint(bags)
    assert learnt != before
    bags.words_ = bags.words_ + 1e-12
    assert fingerprint(bags) != learnt


def test_fingerprints_see_every_bit_of_an_array():
    array = np.zeros((2, 3))
    prints = {fingerprint(a) for a in (array, array.T, array.astype(np.float32), array + 5e-324, array[:1])}
    assert len(prints) == 5
    assert fingerprint(np.asfortranarray(array)) == fingerprint(array)


def test_what_has_no_fingerprint_is_refused():
    with pytest.raises(ParameterError, match="depend on a Generator cannot be cached"):
        fingerprint({"random_state": np.random.default_rng(0)})


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return [write_clip(folder / f"{k}.mp4", moving_frames(6, 32, 48, seed=k)) for k in range(4)]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_streams_are_the_bags_own(tmp_path, clips, n_jobs, monkeypatch):
    bags = LocalBinaryPatterns(method="uniform")
    for _ in range(2):
        streams = clip_streams([bags], clips, Cache(tmp_path), n_jobs=n_jobs)[0]
        for path, stream in zip(clips, streams, strict=True):
            np.testing.assert_array_equal(stream, bags.stream(path))
    monkeypatch.setattr("sysbags.bags.streams.describe", None)  # the third time no clip is read
    clip_streams([bags], clips, Cache(tmp_path), n_jobs=n_jobs)[0]


def test_a_bad_clip_takes_its_own_place_only(tmp_path, clips):
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(b"no video")
    first, error, second = clip_streams(
        [LocalBinaryPatterns()], [clips[0], bad, clips[1]], Cache(tmp_path / "cache")
    )[0]
    assert isinstance(error, VideoError)
    assert str(bad) in str(error)
    assert first.shape == second.shape == (6, 256)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_sentence_without_the_clip_gets_its_name(clips):
    def make(path):
        raise StreamError("all is NaN")

    (error,) = clip_records(Cache(None), "stream", {}, make, clips[:1])
    assert str(error) == f"{clips[0]}: all is NaN"


def test_a_mistake_of_the_caller_is_raised(clips):
    with pytest.raises(ParameterError):
        clip_streams([LocalBinaryPatterns(points=0)], clips)[0]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_clip_that_breaks_off_warns_from_the_cache_too(tmp_path, clips, n_jobs):
    complete = write_clip(tmp_path / "whole.ts", moving_frames(30, 64, 96))
    cut = tmp_path / "cut.ts"
    cut.write_bytes(complete.read_bytes()[:-2000])
    runs = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clip_streams([LocalBinaryPatterns()], [clips[0], cut], Cache(tmp_path / "cache"), n_jobs=n_jobs)[
                0
            ]
        runs.append([str(w.message) for w in caught if issubclass(w.category, VideoWarning)])
    assert runs[0] == runs[1]
    assert len(runs[0]) == 1
    assert str(cut) in runs[0][0]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_warnings_belong_to_their_clip_and_come_in_its_order(tmp_path, clips, n_jobs):
    def make(path):
        for k in range(2):
            warn(f"{path.name}\n{k}", VideoWarning)
        return {"x": np.zeros(1)}

    expected = [f"{path.name}\n{k}" for path in clips for k in range(2)]
    for _ in range(2):
        with collect_warnings() as texts:
            clip_records(Cache(tmp_path), "vector", {}, make, clips, n_jobs)
        assert texts == expected


def test_two_callers_at_once_each_get_their_own_warnings(tmp_path, clips):
    # Both are in the middle of a clip at the same time; neither may see the other's warnings.
    meeting, collections = threading.Barrier(2), {}

    def work(name):
        def make(path):
            meeting.wait(timeout=30)
            warn(f"{name} {path.name}", VideoWarning)
            meeting.wait(timeout=30)
            return {"x": np.zeros(1)}

        with collect_warnings() as texts:
            clip_records(Cache(tmp_path / name), "vector", {}, make, clips)
        collections[name] = texts

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert collections == {name: [f"{name} {path.name}" for path in clips] for name in ("a", "b")}


@pytest.mark.parametrize(
    "error", [SafetensorError("I/O error: No space left on device"), OSError(errno.ENOSPC, "No space left")]
)
def test_a_full_disk_costs_the_cache_and_not_the_work(tmp_path, monkeypatch, error):
    def full(arrays, path, about):
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    cache, make = Cache(tmp_path / "cache"), Counting(x=np.arange(3.0))
    with collect_warnings() as texts:
        for k in range(3):
            np.testing.assert_array_equal(cache.arrays("stream", {"a": k}, make)["x"], np.arange(3.0))
    (text,) = texts
    assert text.startswith(f"the work continues without the cache {tmp_path / 'cache'}: ")
    assert "No space left" in text
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.undo()
    cache.arrays("stream", {"a": 0}, make)  # there is space again
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_full_disk_is_a_warning_of_its_own_kind(tmp_path, monkeypatch):
    def full(arrays, path, about):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    with pytest.warns(CacheWarning, match="No space left"):
        Cache(tmp_path).arrays("stream", {"a": 1}, Counting(x=np.zeros(1)))


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"cannot create the cache .*file"):
        Cache(tmp_path / "file").arrays("stream", {"a": 1}, Counting(x=np.zeros(1)))


def test_old_temporary_files_are_removed_before_the_first_record(tmp_path):
    old, new, other = (tmp_path / name for name in (".tmp-1.safetensors", ".tmp-2.safetensors", "notes.txt"))
    for path in (old, new, other):
        path.touch()
    two_days_ago = time.time() - 2 * 24 * 3600
    for path in (old, other):
        os.utime(path, (two_days_ago, two_days_ago))
    cache, make = Cache(tmp_path), Counting(x=np.zeros(1))
    cache.arrays("stream", {"a": 1}, make)
    assert not old.exists()
    assert new.exists()
    assert other.exists()
