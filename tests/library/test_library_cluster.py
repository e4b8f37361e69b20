"""A library on a Dask cluster of two processes: the same bytes as on one machine, after a kill, too."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import sysbags
from cli_folder import call_json
from libraries import IDENTIFIER, rows_of, small_clips, start_adding
from sysbags._common import parallel
from sysbags.datasets import make_streams
from sysbags.errors import ParameterError
from sysbags.library import Library, SystemIndex, adding, embed, fit_embedding

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    return small_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="module")
def original(clips, tmp_path_factory):
    """A library that another process has made; the first one compiles functions, the second loads them."""
    folder = tmp_path_factory.mktemp("original")
    for name in ("first.library", "second.library"):
        process, pipe = start_adding(folder / name, clips)
        assert isinstance(pipe.recv(), int)
        process.join()
    return folder / "second.library"


@pytest.fixture(scope="module")
def systems():
    streams, _ = make_streams(classes=4, per_class=5, frames=30, bins=16)
    return [sysbags.identify(stream, order=2 + k % 2) for k, stream in enumerate(streams)]


@pytest.fixture
def sent(monkeypatch):
    """The names of the functions that were sent to the cluster."""
    names, on_cluster = [], parallel._on_cluster

    def noted(client, function, chunks, shared):
        names.append(function.__name__)
        return on_cluster(client, function, chunks, shared)

    monkeypatch.setattr(parallel, "_on_cluster", noted)
    return names


def transformed(embedding, systems, **options):
    embedded = embed(embedding, systems, **options)
    return embedded.observers, embedded.lost, embedded.lost_of_mean


def searched(systems, embedding, query, **options):
    index = SystemIndex(systems, embedding=embedding, lambda_mu=1.0, **options)
    found = [index.search(query, 4, exact=exact)[:3] for exact in (False, True)]
    return [*found, index.neighbors_graph(3)]


def assert_same_bits(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_embedding_and_search_are_the_same_bits(client, locally, systems, sent):
    query, *others = systems
    embedding = fit_embedding(others, 20)
    assert_same_bits(
        transformed(embedding, others, client=client), locally(transformed, embedding, others, n_jobs=2)
    )
    assert sent == ["_embedded"]
    local = locally(searched, others, embedding, query)
    for found, expected in zip(searched(others, embedding, query, client=client), local, strict=True):
        assert_same_bits(found, expected)
    assert set(sent) == {"_embedded", "_gram_parts", "_neighbours"}
    with pytest.raises(ParameterError, match="client is of type str, but it must be a Client"):
        SystemIndex(others, client="tcp://127.0.0.1:1")


def test_added_clips_are_the_same_bytes(client, clips, original, sent, tmp_path, monkeypatch):
    def no_library(self):
        raise AssertionError("workers need no library")

    monkeypatch.setattr(Library, "__reduce__", no_library)
    bad = tmp_path / "bad.mp4"
    bad.write_text("no video")
    with Library(tmp_path / "one.library") as library:
        added = library.add([*clips, bad], identifier=IDENTIFIER, client=client)
        assert (added.added, list(added.failures)) == (12, [bad])
        assert library.verify() == []
    assert sent == ["read_clip", "_embedded_row"]
    assert rows_of(library.path) == rows_of(original)


def test_a_worker_killed_in_the_middle_of_an_add(client, clips, original, tmp_path, monkeypatch):
    pids = list(client.run(os.getpid).values())
    put_clip, written = adding._put_clip, []

    def put_and_kill(connection, clip, *arguments):
        put_clip(connection, clip, *arguments)
        written.append(clip.path)
        if len(written) == 3:
            os.kill(pids[0], signal.SIGKILL)

    monkeypatch.setattr(adding, "_put_clip", put_and_kill)
    with Library(tmp_path / "one.library") as library:
        added = library.add(clips, identifier=IDENTIFIER, client=client)
        assert (added.added, added.failures) == (12, {})
        assert library.verify() == []
    assert sorted(written) == sorted(map(str, clips))  # each once
    assert rows_of(library.path) == rows_of(original)
    client.wait_for_workers(2, timeout=30)
    assert pids[0] not in client.run(os.getpid).values()


def test_the_command_line(cluster, client, clips, original, sent, tmp_path, capsys):
    scheduler = ("--scheduler", cluster.scheduler_address)
    path = tmp_path / "one.library"
    output = call_json(capsys, "library", "add", path, *clips, "--order", 2, *scheduler)
    assert (output["added"], output["skipped"]) == (12, [])
    assert rows_of(path, embedded=False)[0].keys() == rows_of(original)[0].keys()
    for command in (("search", path, clips[4], "-k", 3), ("duplicates", path, "--below", 100)):
        here, there = (call_json(capsys, "library", *command, *more) for more in ((), scheduler))
        key = "neighbours" if command[0] == "search" else "near"
        assert here[key]
        # This process may have compiled what workers load: the last place may differ.
        distances = [[entry.pop("squared_distance") for entry in result[key]] for result in (here, there)]
        np.testing.assert_allclose(*distances, rtol=0, atol=1e-12)
        for result in (here, there):
            for entry in result[key]:
                entry.pop("squared_lower_bound", None)
        assert here == there
    assert set(sent) == {"read_clip", "_embedded_row", "_gram_parts", "_neighbours"}
