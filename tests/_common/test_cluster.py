"""Work on a Dask cluster of two processes: the same bits as on one machine, also when a worker is killed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import sysbags
from helpers import in_form_of
from sysbags import errors
from sysbags._common.parallel import Shared, connected, run, use_client
from sysbags.cli import app
from sysbags.datasets import make_clips, make_streams
from sysbags.distances import METRICS
from sysbags.distances.embedding import fit_embedding
from sysbags.distances.gram import Tiling
from sysbags.errors import OrderError, ParameterError, SysbagsError

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def systems():
    streams, _ = make_streams(classes=4, per_class=5, frames=30, bins=16)
    return [sysbags.identify(stream, order=2 + k % 2) for k, stream in enumerate(streams)]


def blocks(systems, others=None, **options):
    gram = sysbags.cross_gram(systems, others, **options)
    return gram.observer, gram.mean


def add(pair, more):
    return pair[0].sum() + pair[1] + more["more"]


def pid_after(seconds):
    time.sleep(seconds)
    return os.getpid()


def fail_at_three(number):
    if number == 3:
        raise OrderError("the order 3 does not exist here, but 2 does")
    return number


def slow_failure(number, path):
    if number == 0:
        raise OrderError("the first fails")
    time.sleep(0.2)
    with open(path, "a") as file:
        file.write("x")


def killed_once(number, path):
    """The first call with number 1 ends its process."""
    if number == 1 and not os.path.exists(path):
        open(path, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return number * number


def test_chunks_and_what_they_share(client):
    parts = [Shared(np.arange(k + 1.0)) for k in range(5)]
    chunks = [(parts[k % 5], k) for k in range(12)]
    shared = [{"more": 0.5}]
    local = run(add, chunks, None, "sums", shared=shared)
    with use_client(client):
        assert run(add, chunks, None, "sums", shared=shared, remote=True) == local
        seen = []
        assert run(abs, [-3, 2, -1], None, "x", consume=lambda k, r: seen.append((k, r)), remote=True) == []
        here = run(pid_after, [0.0, 0.0], None, "here")
        there = run(pid_after, [0.3, 0.3], None, "there", remote=True)
    assert sorted(seen) == [(0, 3), (1, 2), (2, 1)]
    assert here == [os.getpid()] * 2
    assert os.getpid() not in there
    assert run(pid_after, [0.0, 0.0], None, "here again", remote=True) == here


class Named(NamedTuple):
    number: int


def number_of(chunk):
    return chunk.number


def test_a_named_tuple_stays_one(client):
    chunks = [Named(1), Named(2), Named(3)]
    assert run(number_of, chunks, 2, "numbers") == [1, 2, 3]
    with use_client(client):
        assert run(number_of, chunks, None, "numbers", remote=True) == [1, 2, 3]


def test_work_of_a_worker_is_not_divided_again(client):
    def divided(number):
        from sysbags._common import parallel

        return parallel._DIVIDED.get(), number

    with use_client(client):
        assert run(divided, [1, 2], None, "x", remote=True) == [(True, 1), (True, 2)]


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_errors_can_be_pickled(name):
    error = getattr(errors, name)("one sentence")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "one sentence"


def test_an_exception_is_raised_as_it_is(client):
    with use_client(client), pytest.raises(OrderError, match="the order 3 does not exist here, but 2 does"):
        run(fail_at_three, list(range(8)), None, "x", remote=True)


def test_an_error_cancels_what_was_submitted(client, tmp_path):
    path = str(tmp_path / "calls")
    with use_client(client), pytest.raises(OrderError):
        run(slow_failure, list(range(200)), None, "x", shared=[path], remote=True)
    deadline = time.monotonic() + 10.0
    while any(client.processing().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.processing().values())
    calls = os.path.getsize(path) if os.path.exists(path) else 0
    assert calls < 10  # of 199


def test_ctrl_c_cancels(client):
    def interrupt(k, result):
        raise KeyboardInterrupt

    with use_client(client), pytest.raises(KeyboardInterrupt):
        run(pid_after, [0.0] + [0.2] * 50, None, "x", consume=interrupt, remote=True)
    time.sleep(0.5)
    assert not any(client.processing().values())


def test_what_cannot_be_pickled_gets_a_sentence(client):
    import threading

    with use_client(client), pytest.raises(ParameterError, match="cannot be sent to a cluster"):
        run(add, [1, 2], None, "x", shared=[threading.Lock()], remote=True)


def test_not_a_client(systems):
    with pytest.raises(ParameterError, match="client is of type str, but it must be a Client"):
        sysbags.pairwise_distances(systems, client="tcp://127.0.0.1:1")


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_the_same_bits(client, locally, systems, metric):
    given = in_form_of(metric, systems)
    local = locally(sysbags.pairwise_distances, given, metric=metric, lambda_mu=1.0)
    there = sysbags.pairwise_distances(given, metric=metric, lambda_mu=1.0, client=client)
    np.testing.assert_array_equal(there, local)


def test_blocks_embeddings_and_files_are_the_same_bits(client, locally, systems, tmp_path):
    for given in (systems, [sysbags.identify(s.samples, 2, kernel="linear") for s in systems]):
        local = locally(blocks, given, given[3:9], n_jobs=2)
        for found, expected in zip(blocks(given, given[3:9], client=client), local, strict=True):
            np.testing.assert_array_equal(found, expected)
    embedding = fit_embedding(systems, 20)
    local = locally(sysbags.pairwise_distances, systems, embedding=embedding)
    options = {"out": tmp_path / "distances.npy", "memory": "10MB", "client": client}
    np.testing.assert_array_equal(sysbags.pairwise_distances(systems, embedding=embedding, **options), local)


def test_a_killed_worker_is_replaced(client, tmp_path):
    path = str(tmp_path / "killed")
    with use_client(client):
        found = run(killed_once, list(range(30)), None, "x", shared=[path], remote=True)
    assert os.path.exists(path)
    assert found == [k * k for k in range(30)]


def test_a_worker_killed_in_the_middle_of_a_cross_gram(client, locally, systems, monkeypatch):
    # With it go results, and the only copies of blocks that were scattered.
    tiling = Tiling(systems=1)
    observer, mean = locally(blocks, systems, tiling=tiling)
    pids = list(client.run(os.getpid).values())
    written = []
    write = sysbags.distances.tiles.ArrayOutput.write

    def write_and_kill(self, *arguments):
        write(self, *arguments)
        written.append(arguments)
        if len(written) == 20:
            os.kill(pids[0], signal.SIGKILL)

    monkeypatch.setattr("sysbags.distances.tiles.ArrayOutput.write", write_and_kill)
    there = sysbags.cross_gram(systems, tiling=tiling, client=client)
    assert len(written) == 20 * 21 // 2
    np.testing.assert_array_equal(there.observer, observer)
    np.testing.assert_array_equal(there.mean, mean)
    client.wait_for_workers(2, timeout=30)
    assert pids[0] not in client.run(os.getpid).values()


def test_clips_are_read_and_evaluated_there(client, tmp_path):
    size = {"per_class": 3, "frames": 12, "height": 24, "width": 24}
    clips, labels = make_clips(tmp_path / "clips", **size, textures=["fire", "waves"])
    settings = sysbags.evaluate.Settings(order=2, lambda_a=0.25, lambda_mu=0.0)
    options = {"methods": ["nearest-system"], "settings": settings}
    local = sysbags.evaluate.evaluate(clips, labels, **options)
    there = sysbags.evaluate.evaluate(clips, labels, **options, cache=tmp_path / "cache", client=client)
    np.testing.assert_array_equal(there.predictions, local.predictions)
    assert list((tmp_path / "cache").iterdir())


def test_the_command_line_computes_there(cluster, client, tmp_path):
    make_clips(tmp_path / "clips", per_class=2, frames=10, height=24, width=24, textures=["fire", "waves"])
    tables = []
    for name, more in (("local", []), ("there", ["--scheduler", cluster.scheduler_address])):
        out = tmp_path / f"{name}.csv"
        result = CliRunner().invoke(
            app, ["matrix", str(tmp_path / "clips"), "--out", str(out), "--order", "2", *more]
        )
        assert result.exit_code == 0, result.output
        tables.append(np.genfromtxt(out, delimiter=",", skip_header=1)[:, 1:])
    # This process may have compiled what workers load: the last place may differ.
    np.testing.assert_allclose(*tables, rtol=0, atol=1e-12)
    assert tables[0].shape == (4, 4)


def test_a_scheduler_that_cannot_be_reached():
    started = time.monotonic()
    with (
        pytest.raises(
            ParameterError, match=r"the scheduler tcp://127.0.0.1:1 cannot be reached, but it must"
        ),
        connected("tcp://127.0.0.1:1", timeout=1.0),
    ):
        pass
    assert time.monotonic() - started < 30.0  # the timeout and the import, not minutes


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "carrier://pigeon"])
def test_the_command_line_says_one_sentence(address, tmp_path):
    make_clips(tmp_path, per_class=2, frames=8, height=16, width=16, textures=["fire"])
    result = CliRunner().invoke(
        app, ["matrix", str(tmp_path), "--out", str(tmp_path / "d.csv"), "--scheduler", address]
    )
    assert result.exit_code != 0
    assert isinstance(result.exception, SysbagsError | SystemExit)
    assert "cannot be reached" in str(result.exception) + result.stderr


def test_the_missing_package_gets_a_sentence():
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "from sysbags._common.parallel import connected\n"
        "from sysbags.errors import ParameterError\n"
        "try:\n"
        "    with connected('tcp://127.0.0.1:1'): pass\n"
        "except ParameterError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'sysbags[cluster]'" in done.stdout


def test_the_package_does_not_import_dask():
    code = "import sys, sysbags; sysbags.pairwise_distances; print('distributed' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
