"""Library files: what is read from them, damage, other schemas, what is no library."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import sysbags
from libraries import HALF, IDENTIFIER, rows_of, small_clips
from sysbags.datasets import make_clips
from sysbags.distances import METRICS
from sysbags.distances.embedding import embed
from sysbags.distances.gram import SystemStack
from sysbags.errors import FileError, ParameterError, SysbagsError
from sysbags.library import Library
from sysbags.library.reading import GivenClip, read_clip
from sysbags.library.schema import SCHEMA
from sysbags.library.search import library_map
from sysbags.storage import describe


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    return small_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="module")
def original(clips, tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "clips.library"
    with Library(path) as library:
        library.add([clips[0].parents[1]], identifier=IDENTIFIER)
    return path


@pytest.fixture
def path(original, tmp_path):
    """A copy that a test may change."""
    copy = tmp_path / "clips.library"
    copy.write_bytes(original.read_bytes())
    return copy


def test_records_and_info(path, clips):
    with Library(path) as library:
        records = library.clips()
        assert [record.path for record in records] == sorted(clips)
        assert [record.label for record in records] == [clip.parent.name for clip in sorted(clips)]
        first = library.find(clips[0])
        assert first in records
        assert (first.frames, first.order, first.samples) == (8, 2, 8)
        assert first.size == clips[0].stat().st_size
        assert set(first.versions) >= {"sysbags", "numpy", "python"}
        assert library.find("none.mp4") is None
        info = library.info()
        assert info["classes"] == {"fire": 4, "rain": 4, "waves": 4}
        assert (info["clips"], info["frames"], info["schema"], info["missing"]) == (12, 96, SCHEMA, 0)
        assert info["bytes"] >= path.stat().st_size
        assert (info["landmarks"], info["fitted_on"]) == (96, 12)
        assert 0.0 <= info["lost_median"] <= info["lost_largest"] < 1e-6
        assert info["bags"] == "LocalBinaryPatterns()"


def test_systems_are_read_when_they_are_needed(path):
    with Library(path) as library:
        systems = library.systems
        listed = list(systems)
        np.testing.assert_array_equal(systems.transition, [system.transition for system in listed])
        np.testing.assert_array_equal(systems.observer_gram, [system.observer_gram for system in listed])
        np.testing.assert_array_equal(systems.mean_norm, [system.mean_norm for system in listed])
        np.testing.assert_array_equal(systems.sizes, [system.size for system in listed])
        assert systems[-1].kernel == "chi2"
        exact = sysbags.pairwise_distances(listed)
        np.testing.assert_array_equal(sysbags.pairwise_distances(systems), exact)
        # Without samples, what is small is still there.
        with library.transaction() as connection:
            connection.execute("DELETE FROM samples")
        np.testing.assert_array_equal(library.systems.transition, systems.transition)
        with pytest.raises(FileError, match="changed or removed meanwhile"):
            systems[0]


def test_orders_may_differ(tmp_path):
    make_clips(tmp_path / "clips", 1, frames=4, height=48, width=64, textures=["fire"])
    make_clips(tmp_path / "clips", 2, frames=9, height=48, width=64, textures=["rain"])
    with Library(tmp_path / "clips.library") as library:
        library.add([tmp_path / "clips"])
        systems, embedded = library.systems, library.embedded()
        assert systems.orders.tolist() == [3, 5, 5]
        assert systems[0].transition.shape == (3, 3)
        assert not systems.transition[0, 3:].any()
        expected = embed(library.embedding, list(systems))
        np.testing.assert_allclose(embedded.observers, expected.observers, rtol=HALF, atol=1e-7)


def test_many_threads_read(path):
    with Library(path) as library:
        systems = library.systems
        expected = [system.samples for system in systems]
        failures = []

        def read():
            for k in (*range(12), *range(11, -1, -1)):
                if (systems[k].samples != expected[k]).any():
                    failures.append(k)

        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []


def test_the_work_of_a_clip_can_be_sent_elsewhere(path, clips):
    """What threads call, and its arguments and result, can be pickled."""
    with Library(path) as library:
        function, shared = pickle.loads(pickle.dumps((read_clip, library.settings.reading)))
        result = pickle.loads(pickle.dumps(function(GivenClip(str(clips[0])), *shared)))
        assert result.sha256 == library.find(clips[0]).sha256
        np.testing.assert_array_equal(result.system.samples, library.systems[0].samples)
        error = pickle.loads(pickle.dumps(function(GivenClip("/none.mp4"), *shared)))
        assert isinstance(error, SysbagsError)
        assert "none.mp4" in str(error)


def test_remove(path, clips):
    with Library(path) as library:
        with pytest.raises(FileError, match=r"none.mp4 is not in the library .*, so nothing is removed"):
            library.remove([clips[0], "none.mp4"])
        assert len(library) == 12
        assert library.remove([clips[0]]) == [clips[0]]
        assert library.remove([clips[0].parent]) == sorted(clips[1:4])  # the folder, but not "fire2"
        assert len(library) == 8
        for table in ("contents", "samples", "embedded"):
            with library.connection() as connection:
                assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (8,)
        assert library.verify() == []


def test_vanished_clips_stay(tmp_path):
    clips = small_clips(tmp_path / "clips", per_class=1)
    with Library(tmp_path / "clips.library") as library:
        library.add(clips, identifier=IDENTIFIER)
        clips[0].unlink()
        added = library.add([tmp_path / "clips"])
        assert added.missing == [clips[0]]
        assert library.info()["missing"] == 1
        assert len(library) == 3
        assert library.verify() == []
        assert library.remove(library.missing()) == [clips[0]]
        assert library.missing() == []


@pytest.mark.parametrize("share", np.linspace(0.05, 0.99, 12).round(2))
def test_flipped_bytes_are_found(share, original, path, clips):
    """Anywhere in the file: either it is found, or what was hit is not used and nothing changed."""
    expected = rows_of(original)
    data = bytearray(path.read_bytes())
    start = int(share * len(data))
    for k in range(start, min(start + 200, len(data))):
        data[k] ^= 0x55
    path.write_bytes(data)
    try:
        with Library(path) as library:
            problems = library.verify()
    except FileError as error:
        problems = [str(error)]
    if not problems:
        assert rows_of(path) == expected
    errors = []
    for call in (
        lambda library: library.clips(),
        lambda library: list(library.systems),
        lambda library: library.embedded(),
        lambda library: library.add(clips),
    ):
        try:
            with Library(path) as library:
                call(library)
        except FileError as error:  # any other exception fails
            errors.append(str(error))
    assert problems or not errors
    assert all(str(path) in error for error in errors)


@pytest.mark.parametrize(
    ("table", "column", "text"),
    [
        ("samples", "arrays", "the arrays of the clip {clip} are damaged"),
        ("contents", "transition", "the arrays of the clip {clip} are damaged"),
        ("embedded", "observers", "the embedding of the clip {clip} is damaged"),
        ("clips", "label", "the row of the clip {clip} is damaged"),
        ("embeddings", "arrays", "the embedding of the library {path} is damaged"),
        ("settings", "arrays", "the settings of the library {path} are damaged"),
    ],
)
def test_a_changed_value_is_found(table, column, text, path, clips):
    """A bit that SQLite cannot notice."""
    with sqlite3.connect(path) as connection:
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = 1").fetchone()
        other = value[:-1] + (bytes([value[-1] ^ 1]) if isinstance(value, bytes) else "?")
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 1", [other])
        (name,) = connection.execute("SELECT path FROM clips WHERE id = 1").fetchone()
    connection.close()
    with Library(path) as library:
        problems = library.verify()
    assert any(problem.startswith(text.format(clip=name.decode(), path=path)) for problem in problems)
    with Library(path) as library:
        if table in ("contents", "settings"):
            with pytest.raises(FileError, match="damaged"):
                _ = library.systems
        elif table == "samples":
            with pytest.raises(FileError, match="damaged"):
                list(library.systems)
        elif table in ("embedded", "embeddings"):
            with pytest.raises(FileError, match="damaged"):
                library.embedded()
        if table == "embeddings":  # it is computed again
            before = library.systems
            library.add(clips[:1])
            assert library.verify() == []
            assert len(library.embedded().observers) == len(before)


def test_how_a_library_is_shown(path, tmp_path):
    assert repr(Library(path)) == f"Library({str(path)!r}, clips=12)"
    assert repr(Library(tmp_path / "none")) == f"Library({str(tmp_path / 'none')!r})"
    library = Library(path)
    library.close()
    path.write_bytes(path.read_bytes()[:5000])
    assert repr(library) == f"Library({str(path)!r})"


def test_a_library_is_no_model(path, tmp_path):
    for read in (sysbags.load, describe):
        with pytest.raises(
            FileError, match="holds a library of clips, for `sysbags library`, but it must be a model"
        ):
            read(path)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE clips (id)")
    connection.close()
    with pytest.raises(FileError, match="is not a model file of sysbags"):
        sysbags.load(other)


@pytest.mark.parametrize("version", [SCHEMA - 1, SCHEMA + 1])
def test_another_schema_is_refused(path, version):
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    message = rf"another version of sysbags \(schema {version}\).*reads schema {SCHEMA}: use that version"
    with pytest.raises(FileError, match=message):
        Library(path)


def test_what_is_no_library(tmp_path, path, clips):
    text = tmp_path / "text"
    text.write_text("some text that is longer than the first bytes of a database")
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE clips (id)")
    connection.close()
    cut = tmp_path / "cut"
    cut.write_bytes(path.read_bytes()[:5000])
    for file, message in [
        (text, "is not a library of sysbags"),
        (other, "is another SQLite database, not a library"),
        (tmp_path, "is a folder, but it must be a library, a file"),
        (cut, "is damaged: restore a copy of the file, or add the clips to a new library$"),
    ]:
        before = file.read_bytes() if file.is_file() else None
        with pytest.raises(FileError, match=message):
            Library(file).clips()
        with pytest.raises(FileError, match=message):
            Library(file).add(clips)
        assert before is None or file.read_bytes() == before
    with pytest.raises(FileError, match=r"there is no library .*none"):
        Library(tmp_path / "none").clips()
    assert not (tmp_path / "none").exists()
    with pytest.raises(FileError, match=r"there is no folder .*nowhere"):
        Library(tmp_path / "nowhere" / "library").add(clips)
    with pytest.raises(FileError, match="path is 5, but it must be the path of a library"):
        Library(5)
    (tmp_path / "empty").touch()
    with pytest.raises(FileError, match="empty is empty"):
        Library(tmp_path / "empty").clips()
    with Library(path) as library:
        library.remove([clips[0].parents[1]])
        with pytest.raises(FileError, match="has no clips"):
            _ = library.systems
        assert library.verify() == []


def test_a_library_that_is_locked(path, clips, monkeypatch):
    monkeypatch.setattr("sysbags.library.schema.BUSY_SECONDS", 0.01)
    with Library(path) as library, Library(path) as other, other.transaction():
        assert len(library.clips()) == 12  # readers do not wait
        with pytest.raises(FileError, match="another process is writing to the library"):
            library.remove([clips[0]])
    with Library(path) as library:
        assert library.remove([clips[0]]) == [clips[0]]


@contextmanager
def without_permissions(folder, mode):
    """Take permissions away from a folder and its files; root has them always, so be somebody else."""
    paths = [folder, *folder.iterdir()]
    before = [path.stat().st_mode for path in paths]
    is_root = os.geteuid() == 0
    try:
        for path in reversed(paths):
            path.chmod(mode | (0o111 if path.is_dir() else 0))
        if is_root:
            os.seteuid(65534)
        yield
    finally:
        if is_root:
            os.seteuid(0)
        for path, old in zip(paths, before, strict=True):
            path.chmod(old)


def test_a_library_that_cannot_be_written(original, clips):
    # The folders of pytest are closed to others.
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "shared"
        folder.mkdir()
        path = folder / "clips.library"
        path.write_bytes(original.read_bytes())
        new = Path(shutil.copy(clips[0], name))
        with Library(path) as library:
            expected, found = library.clips(), library.search(new, 3)
        with without_permissions(folder, 0o444):
            with Library(path) as library:
                assert library.clips() == expected
                assert library.search(new, 3).clips == found.clips
                assert library.verify() == []
                for change in (library.remove, library.add):
                    with pytest.raises(FileError, match=r"cannot write to the library .* must be writable"):
                        change([clips[0] if change == library.remove else new])
            with pytest.raises(FileError, match=r"cannot write to the library .*new.library"):
                Library(folder / "new.library").add([new])
        with (
            without_permissions(folder, 0o000),
            pytest.raises(FileError, match=r"cannot read .*: Permission"),
        ):
            Library(path).clips()
        # While another process writes, there is a WAL file, which is read too.
        with Library(path) as writer:
            assert writer.remove([clips[0]]) == [clips[0]]
            with without_permissions(folder, 0o444), Library(path) as library:
                assert len(library) == 11


def test_export(path, clips, tmp_path):
    with Library(path) as library:
        for name in ("table.csv", "arrays.npz", "systems.model"):
            library.export(tmp_path / name)
        records, systems, embedded = library.clips(), list(library.systems), library.embedded()
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == "path,label,source,frames,order,samples,size,sha256,checksum,added"
    assert lines[1].startswith(f"{records[0].path},fire,,8,2,8,")
    arrays = np.load(tmp_path / "arrays.npz")
    assert arrays["paths"].tolist() == [str(record.path) for record in records]
    assert arrays["labels"].tolist() == [record.label for record in records]
    np.testing.assert_array_equal(arrays["observers"], embedded.observers)
    loaded = sysbags.load(tmp_path / "systems.model")
    np.testing.assert_array_equal(loaded[3].samples, systems[3].samples)


def test_search(path, clips, tmp_path):
    new = tmp_path / "new.mp4"
    new.write_bytes(clips[5].read_bytes())
    with Library(path) as library:
        systems = list(library.systems)
        place = [record.path for record in library.clips()].index(clips[5])
        distances = sysbags.pairwise_distances(systems, [systems[place]], lambda_a=1.0)[:, 0]
        order = np.argsort(distances, kind="stable")
        for exact in (False, True):
            own = library.search(clips[5], 4, exact=exact, lambda_a=1.0)
            assert [record.path for record in own.clips] == [
                library.clips()[k].path for k in order if k != place
            ][:4]
            np.testing.assert_allclose(own.neighbours.distances, distances[order[1:5]], rtol=1e-9)
            other = library.search(new, 1, exact=exact)
            assert other.clips[0].path == clips[5]
            assert other.neighbours.distances[0] < 1e-9
        assert len(library.search(new, 50).clips) == 12
        index = library.index()
        assert index.search(systems[0], 1).indices.tolist() == [0]
        (tmp_path / "bad.mp4").write_text("no video")
        with pytest.raises(SysbagsError, match=r"bad.mp4"):
            library.search(tmp_path / "bad.mp4")


@pytest.mark.parametrize("kernel", ["chi2", "linear"])
@pytest.mark.parametrize("normal_form", ["orthonormal", "unit-variance"])
def test_what_is_rounded_changes_distances_little(kernel, normal_form, clips, tmp_path):
    """By 1e-6 of the squared norms; bounds from observers in half precision stay below the distances."""
    identifier = sysbags.SystemIdentifier(2, kernel, normal_form=normal_form)
    weights = {"lambda_a": 0.25, "lambda_mu": 1.0}
    with Library(tmp_path / "one.library") as library:
        library.add(clips, identifier=identifier)
        bags = library.settings.bags
        exact = [identifier.system(bags.stream(record.path)) for record in library.clips()]
        stored = library.systems
        expected, found = (sysbags.pairwise_distances(each, **weights) for each in (exact, stored))
        norms = SystemStack.of(stored).norms.sum(axis=1)
        sums = norms[:, None] + norms
        assert (abs(found - expected) <= 1e-6 * sums).all()
        index, rows = library.index(**weights), np.arange(len(exact))
        for k in rows:
            order = np.argsort(expected[k], kind="stable")[:5]
            np.testing.assert_array_equal(index.search(exact[k], 5).indices, order)
            query = SystemStack.of([exact[k]]), embed(library.embedding, [exact[k]])
            assert (index._safe_bounds(rows, *query) <= found[k] + 1e-6 * sums[k]).all()
        # A clip and itself, from the file and just read: equal but for round-off.
        query = read_clip(GivenClip(str(clips[0])), *library.settings.reading).system
        assert index.search(query, 1).distances[0] <= 1e-12 * sums.max()


def test_weights_of_a_library(clips, tmp_path):
    """They are the defaults of searches."""
    with Library(tmp_path / "weighted.library") as library:
        library.add(clips, identifier=IDENTIFIER, lambda_a=3.0, lambda_mu=2.0)
        own = library.search(clips[0], 5).neighbours.distances
        given = library.search(clips[0], 5, lambda_a=3.0, lambda_mu=2.0).neighbours.distances
        np.testing.assert_array_equal(own, given)
        assert library.index().weights == (3.0, 2.0)
        assert library.index(lambda_mu=0.5).weights == (3.0, 0.5)
        assert library.duplicates().below == library.duplicates(lambda_a=3.0, lambda_mu=2.0).below
        assert (library.info()["lambda_a"], library.info()["lambda_mu"]) == (3.0, 2.0)


@pytest.mark.parametrize("metric", METRICS)
def test_the_metric_of_a_library(metric, clips, tmp_path):
    """It is the default of searches, and of the form of systems."""
    weights = {"lambda_a": 0.9, "lambda_mu": 2.0}
    with Library(tmp_path / "one.library") as library:
        library.add(clips, metric=metric, **weights)
        assert library.settings.identifier.normal_form == (METRICS[metric].normal_form or "orthonormal")
        chosen = {"metric": metric, **weights}
        assert {name: library.info()[name] for name in chosen} == chosen
        distances = sysbags.pairwise_distances(library.systems, **chosen)
        place = [record.path for record in library.clips()].index(clips[5])
        others = np.delete(distances[place], place)
        for exact in (False, True):
            found = library.search(clips[5], 4, exact=exact).neighbours
            np.testing.assert_allclose(found.distances, np.sort(others)[:4], rtol=1e-7, atol=1e-9)
            assert (found.lower_bounds <= found.distances).all()
            assert found.blocks == (11 if exact else 8) or (exact and metric == "alignment")
        limit = float(np.sort(distances[np.triu_indices(12, 1)])[6:8].mean())
        near = library.duplicates(limit).near
        assert len(near) == 7
        assert library_map(library).distances.shape == (12, 8)


def test_metrics_that_do_not_fit(path, clips, tmp_path):
    with Library(path) as library:
        with pytest.raises(ParameterError, match="covariance needs the unit-variance form, but the"):
            library.search(clips[0], metric="covariance", lambda_a=0.9, lambda_mu=1.0)
        with pytest.raises(ParameterError, match="'none', but it must be"):
            library.index(metric="none")
        with pytest.raises(ParameterError, match="made with metric='alignment', not 'martin'"):
            library.add(clips, metric="martin")
        assert library.index(metric="martin").metric == "martin"
    new = Library(tmp_path / "new.library")
    with pytest.raises(ParameterError, match="covariance needs the unit-variance form"):
        new.add(clips, metric="covariance", identifier=IDENTIFIER)
    assert not new.path.exists()


def test_search_of_a_clip_that_is_gone_or_changed(tmp_path):
    clips = small_clips(tmp_path / "clips", per_class=2)
    with Library(tmp_path / "clips.library") as library:
        library.add(clips, identifier=IDENTIFIER)
        before = library.search(clips[0], 3)
        clips[0].rename(tmp_path / "moved.mp4")
        gone = library.search(clips[0], 3)
        assert [record.path for record in gone.clips] == [record.path for record in before.clips]
        clips[0].write_bytes(clips[3].read_bytes())  # it is searched as it is now
        assert library.search(clips[0], 1).clips[0].path == clips[3]


def test_duplicates(path, clips, tmp_path):
    copies = [tmp_path / f"{k}.mp4" for k in range(2)]
    for copy in copies:
        copy.write_bytes(clips[3].read_bytes())
    with Library(path) as library:
        library.add(copies)
        found = library.duplicates()
        assert found.equal == [sorted([clips[3], *copies])]
        assert found.near == []
        systems, records = list(library.systems), library.clips()
        distances = sysbags.pairwise_distances(systems)
        limit = float(np.median(distances[distances > 1e-9]))
        some = library.duplicates(limit)
        first = min([clips[3], *copies])
        expected = {
            (min(a.path, b.path), max(a.path, b.path)): distances[i, j]
            for i, a in enumerate(records)
            for j, b in enumerate(records)
            if i < j and distances[i, j] <= limit and not {a.path, b.path} & ({clips[3], *copies} - {first})
        }
        assert {pair[:2] for pair in some.near} == set(expected)
        for *pair, distance in some.near:
            assert distance == pytest.approx(expected[tuple(pair)], rel=1e-9)
        with pytest.raises(ParameterError, match="below"):
            library.duplicates(-1.0)
        library.remove([record.path for record in records[1:]])
        assert library.duplicates() == ([], [], 0.0)
