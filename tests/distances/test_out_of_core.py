"""Distances and CrossGrams in parts: the same bits as in memory, files that are continued, and bad input."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from helpers import in_form_of
from sysbags.datasets import make_streams
from sysbags.distances import METRICS, pairwise
from sysbags.distances.embedding import fit_embedding
from sysbags.distances.gram import Collection, SystemStack, TileWork, Tiling, check_memory
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.tiles import ArrayOutput
from sysbags.errors import FileError, IncompatibleSystemsError, ParameterError
from sysbags.systems.collection import LazySystems
from sysbags.systems.system import System


def make_systems(count=30, kernel="chi2", orders=(2, 3), seed=0):
    streams, _ = make_streams(classes=count // 3, per_class=3, frames=25, bins=12, random_state=seed)
    return [sysbags.identify(s, orders[k % len(orders)], kernel=kernel) for k, s in enumerate(streams)]


@dataclass(frozen=True, eq=False, kw_only=True)
class ListedSystems(LazySystems):
    """Systems of a list, which notes how many are read at a time."""

    listed: list[System]
    reads: list[int]

    @classmethod
    def of(cls, systems):
        stack, first = SystemStack.of(systems), systems[0]
        arrays = {
            name: getattr(stack, name) for name in ("orders", "transition", "observer_gram", "mean_norm")
        }
        for array in arrays.values():
            array.setflags(write=False)  # as arrays from a file are
        return cls(
            kernel=first.kernel,
            bag_length=first.bag_length,
            normal_form=first.normal_form,
            sizes=np.array([system.size for system in systems]),
            listed=list(systems),
            reads=[],
            **arrays,
        )

    def read(self, indices):
        self.reads.append(len(indices))
        return [self.listed[k] for k in indices]


@pytest.fixture(scope="module")
def systems():
    return make_systems()


@pytest.fixture(scope="module")
def others():
    return make_systems(12, orders=(1, 4), seed=1)


@pytest.fixture(scope="module")
def embedding(systems):
    return fit_embedding(systems, 20)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_jobs", [2, pytest.param(1, marks=pytest.mark.long)])
def test_the_same_bits_for_each_metric(systems, others, metric, n_jobs, tmp_path):
    first, second = in_form_of(metric, systems), in_form_of(metric, others)
    options = {"metric": metric, "lambda_mu": 1.0}
    square = sysbags.pairwise_distances(first, **options)
    oblong = sysbags.pairwise_distances(first, second, **options)
    files = tmp_path / "square.npy", tmp_path / "oblong.npy"
    for memory in (300_000 + 150_000 * (n_jobs - 1), None):
        for lazily in (list, ListedSystems.of):
            more = {**options, "n_jobs": n_jobs, "memory": memory}
            found = sysbags.pairwise_distances(lazily(first), out=files[0], **more)
            assert isinstance(found, np.memmap)
            np.testing.assert_array_equal(found, square)
            found = sysbags.pairwise_distances(lazily(first), lazily(second), out=files[1], **more)
            np.testing.assert_array_equal(found, oblong)
            for file in files:  # otherwise the next call would compute nothing
                file.with_name(f"{file.name}.progress").unlink()
    # Tiles against the CrossGram as a whole: sums in another order, in products of matrices and of powers.
    whole = distance_matrix(sysbags.cross_gram(first, second), **options)
    np.testing.assert_allclose(oblong, whole, rtol=1e-9, atol=1e-9)


def test_scaled_weights_are_those_of_all_systems(systems):
    unit = [sysbags.identify(s.samples, 2, normal_form="unit-variance") for s in systems]
    options = {"lambda_a": "scale", "lambda_mu": "scale"}
    found = sysbags.pairwise_distances(unit, **options, out=np.empty((30, 30)), memory="300KB")
    whole = distance_matrix(sysbags.cross_gram(unit), **options)
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", ["chi2", "linear"])
def test_the_same_bits_with_an_embedding(kernel, tmp_path):
    systems, others = make_systems(30, kernel), make_systems(9, kernel, orders=(4, 1), seed=3)
    embedding = fit_embedding(systems, 20)
    square = sysbags.pairwise_distances(systems, embedding=embedding)
    oblong = sysbags.pairwise_distances(systems, others, embedding=embedding)
    lazy, lazy_others = ListedSystems.of(systems), ListedSystems.of(others)
    for k, memory in enumerate(("150KB", "400KB")):
        options = {"embedding": embedding, "memory": memory}
        found = sysbags.pairwise_distances(lazy, out=tmp_path / f"{k}.npy", **options)
        np.testing.assert_array_equal(found, square)
        found = sysbags.pairwise_distances(lazy, lazy_others, out=tmp_path / f"{k}o.npy", n_jobs=2, **options)
        np.testing.assert_array_equal(found, oblong)
    assert set(lazy.reads) == {1}  # few in memory


@given(st.integers(0, 400_000), st.integers(1, 3), st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_any_memory_gives_the_same_blocks(systems, others, embedding, more, n_jobs, embedded, symmetric):
    second = None if symmetric else others
    options = {"embedding": embedding if embedded else None, "n_jobs": n_jobs}
    whole = sysbags.cross_gram(systems, second, **options)
    size = whole.observer.nbytes + whole.mean.nbytes
    found = sysbags.cross_gram(ListedSystems.of(systems), second, memory=size + 500_000 + more, **options)
    np.testing.assert_array_equal(found.observer, whole.observer)
    np.testing.assert_array_equal(found.mean, whole.mean)


def test_a_cross_gram_in_a_folder(systems, others, tmp_path):
    for name, second in (("square", None), ("oblong", others)):
        whole = sysbags.cross_gram(systems, second)
        folder = tmp_path / "new" / name
        found = sysbags.cross_gram(ListedSystems.of(systems), second, out=folder, memory="500KB")
        assert sorted(path.name for path in folder.iterdir()) == ["gram.progress", "mean.npy", "observer.npy"]
        np.testing.assert_array_equal(found.observer, whole.observer)
        np.testing.assert_array_equal(found.mean, whole.mean)
        np.testing.assert_array_equal(np.load(folder / "observer.npy"), whole.observer)
        assert found.symmetric == whole.symmetric
        for metric in ("alignment", "martin"):  # a CrossGram like any other
            np.testing.assert_array_equal(distance_matrix(found, metric), distance_matrix(whole, metric))


def test_panels_are_no_larger_than_the_memory(systems):
    lazy = ListedSystems.of(systems)
    sysbags.pairwise_distances(lazy, out=np.empty((30, 30)), memory="200KB")
    few = sum(lazy.reads)
    lazy.reads.clear()
    sysbags.pairwise_distances(lazy, out=np.empty((30, 30)))
    assert few > sum(lazy.reads)  # the same systems were read again for other panels
    work = TileWork(*[Collection(systems, SystemStack.of(systems))] * 2, memory=200_000)
    output = ArrayOutput([np.empty((30, 30))], work.tiles)
    step = work._blocks_per_panel(output)
    assert 1 <= step < len(work.rows.blocks)
    assert work._bytes(step, output) <= 200_000 < work._bytes(step + 1, output)


def count_tiles(monkeypatch):
    """Count the tiles that are computed from now on."""
    calls, compute = [], pairwise._tile_distances
    monkeypatch.setattr(pairwise, "_tile_distances", lambda *args: calls.append(1) or compute(*args))
    return calls


def test_an_exception_in_the_middle_loses_nothing(systems, tmp_path, monkeypatch):
    out, compute, calls = tmp_path / "d.npy", pairwise._tile_distances, []

    def fails_at_ten(*arguments):
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return compute(*arguments)

    expected = sysbags.pairwise_distances(systems)
    monkeypatch.setattr(pairwise, "_tile_distances", fails_at_ten)
    with pytest.raises(KeyboardInterrupt):
        sysbags.pairwise_distances(systems, out=out)
    assert json.loads((tmp_path / "d.npy.progress").read_text())["complete"] is False
    monkeypatch.setattr(pairwise, "_tile_distances", compute)
    calls = count_tiles(monkeypatch)
    # Another budget and other threads continue the same file.
    found = sysbags.pairwise_distances(systems, out=out, memory="1MB", n_jobs=2)
    np.testing.assert_array_equal(found, expected)
    blocks = len(Collection(systems, SystemStack.of(systems)).blocks)
    assert len(calls) == blocks * (blocks + 1) // 2 - 9
    assert json.loads((tmp_path / "d.npy.progress").read_text())["complete"] is True
    calls.clear()
    np.testing.assert_array_equal(sysbags.pairwise_distances(systems, out=out), expected)
    assert not calls


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": 3}', "null", "\x00\xff"])
def test_a_damaged_file_of_progress_starts_again(systems, tmp_path, monkeypatch, damage):
    out = tmp_path / "d.npy"
    expected = np.array(sysbags.pairwise_distances(systems[:9], out=out))
    (tmp_path / "d.npy.progress").write_text(damage, encoding="latin-1")
    calls = count_tiles(monkeypatch)
    np.testing.assert_array_equal(sysbags.pairwise_distances(systems[:9], out=out), expected)
    assert calls


def test_bits_that_do_not_fit_start_again(systems, tmp_path, monkeypatch):
    out, progress = tmp_path / "d.npy", tmp_path / "d.npy.progress"
    expected = np.array(sysbags.pairwise_distances(systems[:9], out=out))
    document = json.loads(progress.read_text())
    calls = count_tiles(monkeypatch)
    for change in ({"done": "ff"}, {"done": "zz"}, {"done": 3}, {"tiles": 7}):
        progress.write_text(json.dumps(document | change))
        np.testing.assert_array_equal(sysbags.pairwise_distances(systems[:9], out=out), expected)
        assert calls
        calls.clear()
    out.write_bytes(out.read_bytes()[:-8])
    np.testing.assert_array_equal(sysbags.pairwise_distances(systems[:9], out=out), expected)
    assert calls


def test_another_input_starts_again(systems, embedding, tmp_path, monkeypatch):
    out, few = tmp_path / "d.npy", systems[:9]
    sysbags.pairwise_distances(few, out=out)
    calls = count_tiles(monkeypatch)
    changed = [few[1], few[0], *few[2:]]
    for arguments, options in (
        ([changed], {}),
        ([few], {"lambda_mu": 2.0}),
        ([few], {"metric": "martin"}),
        ([few, few], {}),
        ([few], {"embedding": embedding}),
        ([few], {"random_state": 1}),
        ([few], {}),
    ):
        found = sysbags.pairwise_distances(*arguments, **options, out=out)
        assert calls
        calls.clear()
        np.testing.assert_array_equal(found, sysbags.pairwise_distances(*arguments, **options))
        calls.clear()


def linear(first, second):
    return first @ second.T


def test_a_callable_is_never_continued(tmp_path, monkeypatch):
    systems = make_systems(9, linear)
    sysbags.pairwise_distances(systems, out=tmp_path / "d.npy")
    calls = count_tiles(monkeypatch)
    sysbags.pairwise_distances(systems, out=tmp_path / "d.npy")
    assert calls


SCRIPT = """
    import sys, time
    import numpy as np
    import sysbags
    from sysbags.datasets import make_streams
    from sysbags.distances import pairwise

    compute = pairwise._tile_distances
    calls = []
    def counted(*arguments):
        calls.append(1)
        if sys.argv[2] == "slow" and len(calls) > 12:
            time.sleep(60)
        return compute(*arguments)
    pairwise._tile_distances = counted

    streams, _ = make_streams(classes=10, per_class=3, frames=25, bins=12)
    systems = [sysbags.identify(stream, 2) for stream in streams]
    sysbags.pairwise_distances(systems, out=sys.argv[1], memory="300KB")
    print(len(calls))
"""


def test_a_killed_process_continues(tmp_path):
    # All in child processes: one that has just compiled may differ from the others in the last place.
    def child(out, speed):
        code = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(out), speed]
        return subprocess.Popen(code, stdout=subprocess.PIPE, text=True)

    out, progress = tmp_path / "d.npy", tmp_path / "d.npy.progress"
    whole = child(tmp_path / "whole.npy", "fast")
    total = int(whole.communicate()[0])
    killed = child(out, "slow")
    deadline = time.monotonic() + 120.0
    while not progress.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert progress.exists()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    done = np.unpackbits(np.frombuffer(bytes.fromhex(json.loads(progress.read_text())["done"]), np.uint8))
    assert done.any()
    rest = int(child(out, "fast").communicate()[0])
    assert 0 < rest < total
    np.testing.assert_array_equal(np.load(out), np.load(tmp_path / "whole.npy"))


def test_zarr(systems, tmp_path):
    zarr = pytest.importorskip("zarr")
    out = zarr.create_array(tmp_path / "d.zarr", shape=(30, 30), chunks=(7, 11), dtype="float64")
    found = sysbags.pairwise_distances(systems, out=out, memory="1MB")
    assert found is out
    np.testing.assert_array_equal(out[:], sysbags.pairwise_distances(systems))


def test_the_caller_cannot_damage_the_file(systems, tmp_path):
    found = sysbags.pairwise_distances(systems[:9], out=tmp_path / "d.npy")
    expected = found.copy()
    found[:] = 0.0
    np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), expected)


@pytest.mark.parametrize("memory", ["", "GB", "2 PB", "-1GB", "1e9", 0, -5, True, [1], float("nan")])
def test_memory_that_makes_no_sense(systems, memory):
    with pytest.raises(ParameterError, match=r"memory is .*, but it must be a text such as"):
        sysbags.pairwise_distances(systems, memory=memory)


def test_memory_in_bytes():
    texts = ["2GB", "500MB", "1.5 gb", "10kb", "7", "7B", 12, np.int64(9), None]
    expected = [2 * 10**9, 5 * 10**8, 15 * 10**8, 10**4, 7, 7, 12, 9, None]
    assert [check_memory(text) for text in texts] == expected


def test_too_little_memory(systems, tmp_path):
    (tmp_path / "d.npy").write_text("not touched")
    with pytest.raises(ParameterError, match=r"memory is 10,000 bytes, but at least .* are needed"):
        sysbags.pairwise_distances(systems, out=tmp_path / "d.npy", memory="10KB")
    assert (tmp_path / "d.npy").read_text() == "not touched"
    with pytest.raises(ParameterError, match=r"the result for 30 x 30 systems takes 7,200 bytes, but memory"):
        sysbags.pairwise_distances(systems, memory=7000)
    with pytest.raises(ParameterError, match="give more, or out, a folder"):
        sysbags.cross_gram(systems, memory=7000)


def test_an_out_that_cannot_be_used(systems, tmp_path):
    with pytest.raises(ParameterError, match=r"out has shape \(3, 30\), but it must be \(30, 30\)"):
        sysbags.pairwise_distances(systems, out=np.empty((3, 30)))
    with pytest.raises(ParameterError, match="out has the dtype int64, but distances need a floating point"):
        sysbags.pairwise_distances(systems, out=np.zeros((30, 30), np.int64))
    for array in (np.arange(5), np.zeros((30, 30), np.float32), np.zeros((30, 30), order="F")):
        np.save(tmp_path / "mine.npy", array)
        with pytest.raises(FileError, match=r"mine\.npy is not the result of an earlier call"):
            sysbags.pairwise_distances(systems, out=tmp_path / "mine.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "mine.npy"), array)
    with pytest.raises(ParameterError, match=r"embedding is 20, but it must be a fitted StreamEmbedding"):
        sysbags.pairwise_distances(systems, embedding=20)
    with pytest.raises(ParameterError, match="out is of type int, but it must be a path, or an array"):
        sysbags.pairwise_distances(systems, out=3)
    with pytest.raises(ParameterError, match=r"must end in \.npy"):
        sysbags.pairwise_distances(systems, out=tmp_path / "d.csv")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(FileError, match="it is a folder"):
        sysbags.pairwise_distances(systems, out=tmp_path / "folder.npy")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"file/d\.npy"):
        sysbags.pairwise_distances(systems, out=tmp_path / "file" / "d.npy")
    with pytest.raises(FileError, match="it is a file, but it must be a folder"):
        sysbags.cross_gram(systems, out=tmp_path / "file")
    with pytest.raises(ParameterError, match="out is of type ndarray, but it must be the path of a folder"):
        sysbags.cross_gram(systems, out=np.empty(3))


def test_a_full_disk(systems, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(FileError, match=r"cannot write .*d\.npy: No space left on device"):
        sysbags.pairwise_distances(systems, out=tmp_path / "d.npy")


@pytest.mark.parametrize("metric", ["martin", "max-singular-value"])
def test_a_system_without_the_distance_is_named_by_its_place(systems, metric):
    wild = System(2.0 * np.eye(2), systems[0].samples, systems[0].alpha[:, :2], systems[0].beta)
    with pytest.raises(IncompatibleSystemsError, match=r"systems\[22\]"):
        sysbags.pairwise_distances([*systems[:22], wild, *systems[22:]], metric=metric)
    with pytest.raises(IncompatibleSystemsError, match=r"others\[11\]"):
        sysbags.pairwise_distances(systems, [*systems[:11], wild], metric=metric)


def test_tiles_of_matrices_are_larger(systems, embedding):
    stack = SystemStack.of(systems)
    many = ListedSystems.of(systems * 40)
    exact, embedded = (Collection(many, SystemStack.of(many), None, e) for e in (None, embedding))
    assert max(block.stop - block.start for block in exact.blocks) == 16
    assert max(block.stop - block.start for block in embedded.blocks) == 128
    given_tiling = Collection(systems, stack, Tiling(systems=2), embedding)
    assert max(block.stop - block.start for block in given_tiling.blocks) == 2
