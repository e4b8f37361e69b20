"""Adding clips: only what changed is read, any name, killed processes, two writers, a full disk."""

from __future__ import annotations

import os
import shutil
import time

import numpy as np
import pytest

import sysbags
from clips import image_bytes, moving_frames, write_clip
from libraries import HALF, IDENTIFIER, rows_of, single, small_clips, start_adding
from sysbags.bags import LocalBinaryPatterns, VisualWords
from sysbags.bags.base import BagTransformer
from sysbags.distances.embedding import embed
from sysbags.errors import FileError, ParameterError, VideoError
from sysbags.library import Library, adding, reading, schema, store
from sysbags.library import systems as library_systems


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    return small_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="module")
def undisturbed(clips, tmp_path_factory):
    """What the library holds if nothing happens, and the number of SQL statements that it takes."""
    path = tmp_path_factory.mktemp("undisturbed") / "clips.library"
    process, pipe = start_adding(path, clips, n_jobs=1)  # the same statements each time
    statements = pipe.recv()
    process.join()
    assert process.exitcode == 0
    return rows_of(path), statements, path.stat().st_size


@pytest.fixture
def own_clips(tmp_path):
    return small_clips(tmp_path / "clips", per_class=1)


@pytest.fixture
def work(monkeypatch):
    """How many clips were decoded and how many were hashed."""
    counts = {"decoded": 0, "hashed": 0}
    stream, content_hash = BagTransformer.stream, reading.content_hash

    def counted_stream(self, video):
        counts["decoded"] += 1
        return stream(self, video)

    def counted_hash(path):
        counts["hashed"] += 1
        return content_hash(path)

    monkeypatch.setattr(BagTransformer, "stream", counted_stream)
    monkeypatch.setattr(reading, "content_hash", counted_hash)

    def since_last_time():
        result = counts["decoded"], counts["hashed"]
        counts.update(decoded=0, hashed=0)
        return result

    return since_last_time


def counts(added):
    return added.added, added.updated, added.unchanged, len(added.failures)


def test_systems_are_those_of_the_clips(clips, undisturbed, tmp_path):
    with Library(tmp_path / "one.library") as library:
        added = library.add(clips[::-1], identifier=IDENTIFIER)  # another order, one thread
        assert counts(added) == (12, 0, 0, 0)
        assert rows_of(library.path)[0].keys() == {os.fsencode(path) for path in clips}
        systems, bags = library.systems, LocalBinaryPatterns()
        for record, system in zip(library.clips(), systems, strict=True):
            expected = IDENTIFIER.system(bags.stream(record.path))
            np.testing.assert_array_equal(system.transition, expected.transition)
            for name in ("samples", "alpha", "beta"):
                np.testing.assert_array_equal(getattr(system, name), single(getattr(expected, name)))
            np.testing.assert_allclose(system.observer_gram, expected.observer_gram, atol=1e-6)
            assert (system.states, system.residual) == (None, expected.residual)
            assert system.mean_norm == pytest.approx(expected.mean_norm, rel=1e-6)
    assert rows_of(library.path) == undisturbed[0]


@pytest.mark.parametrize("share", range(20))
def test_killed_and_continued(share, clips, undisturbed, tmp_path):
    """The process dies at one of twenty moments that are spread over its SQL statements."""
    expected, statements, _ = undisturbed
    path = tmp_path / "clips.library"
    moment = 1 + (statements * share + np.random.default_rng(share).integers(statements)) // 20
    process, _ = start_adding(path, clips, die_at=int(moment), n_jobs=1)
    process.join()
    assert process.exitcode == -9
    _check_and_continue(path, clips, expected)


@pytest.mark.parametrize("seconds", [0.02, 0.08, 0.16, 0.3])
def test_killed_at_any_time(seconds, clips, undisturbed, tmp_path):
    path = tmp_path / "clips.library"
    process, _ = start_adding(path, clips)
    time.sleep(seconds)
    process.kill()
    process.join()
    _check_and_continue(path, clips, undisturbed[0])


def _check_and_continue(path, clips, expected):
    before = 0
    with Library(path) as library:
        if path.exists():
            assert library.verify() == []
            before = len(library)
        added = library.add(clips, identifier=IDENTIFIER)
        assert counts(added) == (12 - before, 0, before, 0)
        assert library.verify() == []
    assert rows_of(path) == expected


def test_two_processes_add_the_same_clips(clips, undisturbed, tmp_path):
    path = tmp_path / "clips.library"
    started = [start_adding(path, order) for order in (clips, clips[::-1])]
    for process, pipe in started:
        assert isinstance(pipe.recv(), int)
        process.join()
        assert process.exitcode == 0
    assert rows_of(path) == undisturbed[0]
    assert Library(path).verify() == []


def test_two_processes_add_different_clips(clips, undisturbed, tmp_path):
    """Both while this process reads; the embedding depends on who was first, the systems do not."""
    path = tmp_path / "clips.library"
    started = [start_adding(path, part) for part in (clips[:7], clips[7:])]
    with Library(path) as library:
        while any(process.is_alive() for process, _ in started):
            if path.exists() and len(library):
                assert len(list(library.systems)) <= 12
            time.sleep(0.02)
        for _, pipe in started:
            assert isinstance(pipe.recv(), int)
        assert library.verify() == []
        assert len(library.embedded().lost) == 12
    assert rows_of(path, embedded=False)[0] == {path: row[:-3] for path, row in undisturbed[0][0].items()}


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_full_disk(share, clips, undisturbed, tmp_path):
    expected, _, size = undisturbed
    path = tmp_path / "clips.library"
    process, pipe = start_adding(path, clips, file_bytes=int(share * size))
    text = pipe.recv()
    process.join()
    assert "make room on the disk and add again" in text
    _check_and_continue(path, clips, expected)


def test_no_more_pages(clips, undisturbed, tmp_path, monkeypatch):
    """SQLite's own limit: the clips before it are kept."""
    path = tmp_path / "clips.library"

    def limited(*arguments, **options):
        connection = schema.connect(*arguments, **options)
        connection.execute("PRAGMA max_page_count = 21")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(store, "connect", limited)
        with Library(path) as library:
            with pytest.raises(FileError, match="database or disk is full: make room"):
                library.add(clips, identifier=IDENTIFIER)
            assert 0 < len(library) < 12
    _check_and_continue(path, clips, undisturbed[0])


def test_unchanged_clips_are_not_read(own_clips, tmp_path, work, monkeypatch):
    with Library(tmp_path / "one.library") as library:
        library.add(own_clips, identifier=IDENTIFIER)
        assert work() == (3, 3)
        # The clips are younger than the resolution of the clock, so that their contents decide.
        assert counts(library.add(own_clips)) == (0, 0, 3, 0)
        assert work() == (0, 3)
        monkeypatch.setattr(adding, "RECENT_NS", 0)
        assert counts(library.add(own_clips)) == (0, 0, 3, 0)
        assert work() == (0, 0)
        # A time is not a change.
        os.utime(own_clips[0])
        assert counts(library.add(own_clips)) == (0, 0, 3, 0)
        assert work() == (0, 1)
        assert counts(library.add(own_clips)) == (0, 0, 3, 0)
        assert work() == (0, 0)


def test_a_changed_clip(own_clips, tmp_path, work):
    """Even with the same size and modification time."""
    with Library(tmp_path / "one.library") as library:
        library.add(own_clips, identifier=IDENTIFIER)
        systems, before = library.systems, rows_of(library.path)[0]
        about = own_clips[0].stat()
        data = bytearray(own_clips[0].read_bytes())
        data[-1] ^= 1  # the last byte of the container's description
        own_clips[0].write_bytes(data)
        os.utime(own_clips[0], ns=(about.st_atime_ns, about.st_mtime_ns))
        work()
        assert counts(library.add(own_clips)) == (0, 1, 2, 0)
        assert work()[0] == 1
        after = rows_of(library.path)[0]
        changed = os.fsencode(own_clips[0])
        assert [path for path in before if before[path][0] != after[path][0]] == [changed]
        with library.connection() as connection:
            assert connection.execute("SELECT COUNT(*) FROM contents").fetchone() == (3,)
        with pytest.raises(FileError, match="changed or removed meanwhile: get its systems again"):
            list(systems)
        assert library.verify() == []


def test_equal_contents_are_read_once(own_clips, tmp_path, work):
    with Library(tmp_path / "one.library") as library:
        library.add(own_clips, identifier=IDENTIFIER)
        work()
        copy = shutil.copy(own_clips[0], tmp_path / "copy.mp4")
        assert counts(library.add([copy])) == (1, 0, 0, 0)
        assert work() == (0, 1)
        rows, _ = rows_of(library.path)
        assert rows[os.fsencode(copy)] == rows[os.fsencode(own_clips[0])]
        assert library.info()["distinct_contents"] == 3
        # The content stays as long as one of the clips does.
        library.remove([own_clips[0]])
        assert rows_of(library.path)[0][os.fsencode(copy)] == rows[os.fsencode(copy)]
        library.remove([copy])
        assert library.info()["distinct_contents"] == 2


def test_a_copy_that_is_removed_meanwhile(own_clips, tmp_path, monkeypatch):
    """Its content is known when the work begins, and gone when it is written: the clip is decoded."""
    copy = shutil.copy(own_clips[0], tmp_path / "copy.mp4")
    with Library(tmp_path / "one.library") as library:
        library.add(own_clips, identifier=IDENTIFIER)
        read, calls = adding.read_clip, []

        def removed_first(clip, *shared):
            if not calls:
                library.remove([own_clips[0]])
            calls.append(clip.known)
            return read(clip, *shared)

        monkeypatch.setattr(adding, "read_clip", removed_first)
        assert counts(library.add([copy])) == (1, 0, 0, 0)
        assert [len(known) for known in calls] == [1, 0]
        assert len(library) == 3


def test_labels_and_sources(own_clips, tmp_path, work, monkeypatch):
    folder = own_clips[0].parents[1]
    monkeypatch.setattr(adding, "RECENT_NS", 0)

    def facts(library):
        return [(record.label, record.source) for record in library.clips()]

    with Library(tmp_path / "one.library") as library:
        library.add(own_clips, identifier=IDENTIFIER)
        assert facts(library) == [(None, None)] * 3
        assert counts(library.add([folder])) == (0, 3, 0, 0)
        assert facts(library) == [("fire", None), ("rain", None), ("waves", None)]
        assert counts(library.add(own_clips)) == (0, 0, 3, 0)  # not named: they stay
        work()
        rows = ["clip,label,source"]
        rows += [f"{path.relative_to(folder)},hot,{k}" for k, path in enumerate(own_clips)]
        (folder / "index.csv").write_text("\n".join(rows))
        assert counts(library.add([folder])) == (0, 3, 0, 0)
        assert facts(library) == [("hot", "0"), ("hot", "1"), ("hot", "2")]
        assert counts(library.add(own_clips, ["cold", None, "hot"])) == (0, 1, 2, 0)
        assert facts(library) == [("cold", "0"), ("hot", "1"), ("hot", "2")]
        assert work() == (0, 0)
        assert library.verify() == []
        with pytest.raises(ParameterError, match="labels must have one entry for each of the 3 paths"):
            library.add(own_clips, ["cold"])
        with pytest.raises(ParameterError, match="of the 1 paths, which then must be clips, not folders"):
            library.add([folder], ["cold", "hot", "hot"])
        with pytest.raises(ParameterError, match=rf"paths\[0\], {folder}, is a folder of clips, but labels"):
            library.add([folder], ["cold"])


def test_new_clips_without_labels(own_clips, tmp_path):
    with Library(tmp_path / "one.library") as library:
        assert library.add(own_clips[:1], ["fire"], identifier=IDENTIFIER).unlabelled == []
        assert library.add(own_clips[:2]).unlabelled == [own_clips[1]]
        assert library.add(own_clips[:2]).unlabelled == []  # not new
        assert library.add([own_clips[0].parents[1]]).unlabelled == []


@pytest.mark.parametrize(
    "name",
    [
        b"\xc3\xa9t\xc3\xa9 \xe6\xb5\xb7.mp4",
        b"a" * 251 + b".mp4",
        b"two\nlines\r\x1b[31m\t.mp4",
        b"no \xff\xfe text.mp4",
        b"100%?mode=ro#.mp4",
        b"-k.mp4",
    ],
    ids=["unicode", "long", "control", "bytes", "uri", "dash"],
)
def test_any_name(name, own_clips, tmp_path):
    path = os.path.join(os.fsencode(tmp_path), name)
    try:
        shutil.copy(own_clips[0], path)
    except OSError:
        pytest.skip("the file system does not have such names")
    with Library(tmp_path / os.fsdecode(name[-12:].replace(b".mp4", b".lib"))) as library:
        assert counts(library.add([os.fsdecode(path)], identifier=IDENTIFIER)) == (1, 0, 0, 0)
        assert [os.fsencode(record.path) for record in library.clips()] == [path]
        assert counts(library.add([os.fsdecode(path)])) == (0, 0, 1, 0)
        assert library.verify() == []
        os.remove(path)
        assert [os.fsencode(one) for one in library.missing()] == [path]
        assert [os.fsencode(one) for one in library.remove(library.missing())] == [path]


def test_labels_that_are_not_text(own_clips, tmp_path):
    folder = os.path.join(os.fsencode(tmp_path), b"classes", b"no \xff text")
    try:
        os.makedirs(folder)
    except OSError:
        pytest.skip("the file system does not have such names")
    shutil.copy(own_clips[0], os.fsdecode(folder))
    with Library(tmp_path / "one.library") as library:
        library.add([tmp_path / "classes"], identifier=IDENTIFIER)
        assert [record.label for record in library.clips()] == ["no \\udcff text"]
        # UTF-8 as another locale reads it, and half a surrogate pair.
        for label, stored in (("\udce6\udcb5\udcb7", "\u6d77"), ("\ud800", "\\ud800")):
            library.add([library.clips()[0].path], [label])
            assert [record.label for record in library.clips()] == [stored]
        assert library.verify() == []


def test_clips_that_cannot_be_read(own_clips, tmp_path):
    folder = own_clips[0].parents[1]
    (folder / "fire" / "text.mp4").write_text("no video")
    (folder / "rain" / "empty.mp4").touch()
    write_clip(folder / "waves" / "short.mp4", moving_frames(1))
    os.mkfifo(folder / "pipe.mp4")
    with Library(tmp_path / "one.library") as library:
        added = library.add([folder, tmp_path / "none.mp4"], identifier=IDENTIFIER, n_jobs=2)
        assert (added.added, sorted(path.name for path in added.failures)) == (
            3,
            ["empty.mp4", "none.mp4", "pipe.mp4", "short.mp4", "text.mp4"],
        )
        for path, error in added.failures.items():
            assert str(path) in str(error)
        # A clip that is damaged now stays what it was.
        before = rows_of(library.path)
        own_clips[0].write_bytes(b"damaged")
        assert counts(library.add(own_clips)) == (0, 0, 2, 1)
        assert rows_of(library.path) == before


def test_clips_without_permission(own_clips, tmp_path, monkeypatch):
    """As in a folder that must not be entered."""
    stat = os.stat

    def forbidden(path, *arguments, **options):
        if isinstance(path, (str, os.PathLike)) and str(path) == str(own_clips[0]):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", forbidden)
    with Library(tmp_path / "one.library") as library:
        added = library.add(own_clips, identifier=IDENTIFIER)
    assert counts(added) == (2, 0, 0, 1)
    assert str(added.failures[own_clips[0]]) == f"cannot read {own_clips[0]}: Permission denied"


def test_folders_of_images(tmp_path, work):
    folder = tmp_path / "images"
    folder.mkdir()
    for k, frame in enumerate(moving_frames(9)):
        (folder / f"{k}.png").write_bytes(image_bytes(frame))
    with Library(tmp_path / "one.library") as library:
        library.add([folder], identifier=IDENTIFIER)
        (record,) = library.clips()
        assert (record.path, record.frames) == (folder, 9)
        work()
        (folder / "notes.txt").write_text("not an image")
        assert counts(library.add([folder])) == (0, 0, 1, 0)
        assert work() == (0, 1)
        (folder / "8.png").rename(folder / "9.png")  # the same frames in the same order, but who knows
        assert counts(library.add([folder])) == (0, 1, 0, 0)
        assert work()[0] == 1
        (folder / "10.png").write_bytes(image_bytes(moving_frames(10)[-1]))
        assert counts(library.add([folder])) == (0, 1, 0, 0)
        assert library.clips()[0].frames == 10


def test_a_clip_that_changes_while_it_is_read(own_clips, tmp_path, monkeypatch):
    stream = BagTransformer.stream

    def touched(self, video):
        result = stream(self, video)
        os.utime(video, ns=(1, 1))
        return result

    monkeypatch.setattr(BagTransformer, "stream", touched)
    with Library(tmp_path / "one.library") as library:
        (error,) = library.add(own_clips[:1], identifier=IDENTIFIER).failures.values()
    assert isinstance(error, VideoError)
    assert str(error) == f"{own_clips[0]} has changed while it was read: add it again"


def test_settings_are_fixed(own_clips, tmp_path):
    with Library(tmp_path / "one.library") as library:
        assert not library.path.exists()
        fixed = {"identifier": IDENTIFIER, "compress": 5, "landmarks": 6}
        library.add(own_clips[:1], **fixed)
        library.add(own_clips[1:2], bags=LocalBinaryPatterns(), **fixed)
        for options, text in [
            ({"identifier": sysbags.SystemIdentifier(order=3)}, "made with order=2, not 3"),
            ({"bags": LocalBinaryPatterns(window=2)}, "made with window=1, not 2"),
            ({"bags": sysbags.bags.ColourHistogram()}, "made with LocalBinaryPatterns, not ColourHistogram"),
            ({"compress": 6}, "made with compress=5, not 6"),
            ({"landmarks": 7}, "made with landmarks=6, not 7"),
            ({"lambda_mu": 2.0}, r"made with lambda_mu=0\.0, not 2\.0"),
            ({"landmarks": 0}, "landmarks is 0"),
            ({"lambda_a": -1.0}, "lambda_a is -1"),
        ]:
            with pytest.raises(ParameterError, match=text):
                library.add(own_clips[2:], **options)
        assert [(record.samples, record.frames) for record in library.clips()] == [(5, 8)] * 2
        assert library.systems[0].compression_error is not None
    with pytest.raises(ParameterError, match="cannot be saved"):
        Library(tmp_path / "two.library").add(
            own_clips, identifier=sysbags.SystemIdentifier(order=2, kernel=np.dot)
        )
    union = sysbags.bags.BagUnion([("a", LocalBinaryPatterns()), ("b", sysbags.bags.ColourHistogram())])
    with pytest.raises(ParameterError, match="one system per clip, so the bags must be a single bag"):
        Library(tmp_path / "two.library").add(own_clips, bags=union)
    with pytest.raises(ParameterError, match="paths is empty"):
        Library(tmp_path / "two.library").add([])


def test_settings_come_with_the_first_clip(own_clips, tmp_path):
    bad = tmp_path / "bad.mp4"
    bad.write_text("no video")
    with Library(tmp_path / "one.library") as library:
        for identifier in (sysbags.SystemIdentifier(order=3), sysbags.SystemIdentifier(order=20)):
            paths = [bad] if identifier.order == 3 else own_clips  # too short for order 20
            added = library.add(paths, identifier=identifier, compress=4)
            assert counts(added) == (0, 0, 0, len(paths))
            assert not list(tmp_path.glob("one.library*"))  # no library is made of nothing
        assert counts(library.add(own_clips, identifier=IDENTIFIER)) == (3, 0, 0, 0)
        assert (library.settings.identifier.order, library.settings.compress) == (2, None)
        library.remove(own_clips)  # a library that once had clips keeps its settings
        with pytest.raises(ParameterError, match="made with order=2, not 3"):
            library.add(own_clips, identifier=sysbags.SystemIdentifier(order=3))


def test_another_process_sets_the_codebook_first(tmp_path, monkeypatch):
    """Clips that were read with the codebook of this process are read again with that of the library."""
    clips = [write_clip(tmp_path / f"{k}.mp4", moving_frames(8, 96, 128, seed=k)) for k in range(3)]
    bags, read, calls = VisualWords(words=5, sampling="grid"), adding.read_clip, []
    path = tmp_path / "one.library"

    def other_first(clip, *shared):
        result = read(clip, *shared)
        if not calls:
            calls.append(clip)
            with Library(path) as other:
                other.add(clips[2:], bags=bags, identifier=IDENTIFIER)
        return result

    monkeypatch.setattr(adding, "read_clip", other_first)
    with Library(path) as library:
        assert counts(library.add(clips[:2], bags=bags, identifier=IDENTIFIER)) == (2, 0, 0, 0)
        fitted = VisualWords(words=5, sampling="grid").fit(clips[2:])
        np.testing.assert_array_equal(library.settings.bags.words_, fitted.words_)
        for record, system in zip(library.clips(), library.systems, strict=True):
            np.testing.assert_array_equal(system.samples, single(fitted.stream(record.path)))


def test_folders_whose_clips_have_vanished(own_clips, tmp_path):
    folder = own_clips[0].parents[1]
    with Library(tmp_path / "one.library") as library:
        library.add([folder], identifier=IDENTIFIER)
        for clip in own_clips:
            clip.unlink()
        added = library.add([folder])
        assert (counts(added), added.missing) == ((0, 0, 0, 0), sorted(own_clips))
        shutil.rmtree(folder / "fire")
        added = library.add([folder / "fire"])
        assert (counts(added), added.missing) == ((0, 0, 0, 0), own_clips[:1])
        (tmp_path / "other").mkdir()
        with pytest.raises(FileError, match=r"there is no clip in .*other"):
            library.add([tmp_path / "other"])


def test_codebooks(tmp_path):
    """Learnt from the first clips, or fitted before; the same for all later clips."""
    clips = [write_clip(tmp_path / f"{k}.mp4", moving_frames(8, 96, 128, seed=k)) for k in range(3)]
    (tmp_path / "bad.mp4").write_text("no video")
    bags = VisualWords(words=5, sampling="grid")
    with Library(tmp_path / "one.library") as library:
        added = library.add([*clips[:2], tmp_path / "bad.mp4"], bags=bags, identifier=IDENTIFIER)
        assert (added.added, len(added.failures)) == (2, 1)
        fitted = VisualWords(words=5, sampling="grid").fit(clips[:2])
        np.testing.assert_array_equal(library.settings.bags.words_, fitted.words_)
        library.add(clips[2:], bags=bags)
        np.testing.assert_array_equal(library.systems[2].samples, single(fitted.stream(clips[2])))
        with pytest.raises(ParameterError, match="made with another codebook"):
            library.add(clips[2:], bags=VisualWords(words=5, sampling="grid").fit(clips[2:]))
    with pytest.raises(VideoError, match=r"none of the clips can be used: .*bad.mp4"):
        Library(tmp_path / "two.library").add([tmp_path / "bad.mp4"], bags=bags)


def test_the_embedding_follows_the_library(clips, tmp_path, monkeypatch):
    def fitted_on(library):
        with library.connection() as connection:
            return connection.execute("SELECT fitted_on FROM embeddings").fetchone()[0]

    with Library(tmp_path / "one.library") as library:
        library.add(clips[:2], identifier=IDENTIFIER)
        landmarks = library.embedding.landmarks_
        library.add(clips[:7])
        assert fitted_on(library) == 2
        np.testing.assert_array_equal(library.embedding.landmarks_, landmarks)
        expected = embed(library.embedding, list(library.systems))
        np.testing.assert_allclose(library.embedded().observers, expected.observers, rtol=HALF, atol=1e-7)
        np.testing.assert_array_equal(library.embedded().lost, expected.lost)
        library.add(clips[:8])
        assert fitted_on(library) == 8
        assert len(library.embedding.landmarks_) == 64
        library.add([*clips, shutil.copy(clips[0], tmp_path / "copy.mp4")])
        assert fitted_on(library) == 8
        # As if another process had added clips and not embedded them yet.
        embedded = library.embedded()
        with library.transaction() as connection:
            connection.execute("DELETE FROM embedded WHERE content % 2")
        again = library.embedded()
        np.testing.assert_array_equal(again.observers, embedded.observers)
        np.testing.assert_array_equal(again.lost_of_mean, embedded.lost_of_mean)
        with library.transaction() as connection:
            connection.execute("DELETE FROM embedded")
        embedded_contents, row = [], library_systems._embedded_row

        def counted(system, embedding):
            embedded_contents.append(system)
            return row(system, embedding)

        monkeypatch.setattr(library_systems, "_embedded_row", counted)
        index = library.index(n_jobs=2)
        assert len(embedded_contents) == len(clips)  # the copy has the content of another clip
        np.testing.assert_array_equal(index.embedded.observers, embedded.observers)
        np.testing.assert_array_equal(index.embedded.lost, embedded.lost)


def test_the_number_of_landmarks(clips, tmp_path):
    with Library(tmp_path / "one.library") as library:
        library.add(clips[:2], identifier=IDENTIFIER, landmarks=6)
        assert len(library.embedding.landmarks_) == 6
        library.add(clips)  # fitted again, with the same number
        assert len(library.embedding.landmarks_) == 6
        assert library.info()["most_landmarks"] == 6
        with library.transaction() as connection:
            connection.execute("DELETE FROM embeddings")
        assert library.embedded().observers.shape == (12, 3, 6)


def test_an_explicit_kernel_has_no_landmarks(own_clips, tmp_path):
    with Library(tmp_path / "one.library") as library:
        library.add(own_clips, identifier=sysbags.SystemIdentifier(order=2, kernel="bhattacharyya"))
        assert library.embedding.landmarks_ is None
        assert library.info()["landmarks"] is None
        assert library.embedded().lost.max() < 1e-6
