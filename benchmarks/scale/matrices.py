"""All distances with an embedding against exact ones, and a cluster against threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import sysbags
from benchmarks.machine import seconds
from benchmarks.scale.search import ORDER, WEIGHTS, named_sets
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.datasets import make_streams
from sysbags.library import fit_embedding
from sysbags.systems.system import System

__all__ = ["cluster_rows", "distance_rows"]

NEIGHBORS = 10
EMBEDDED = ((500, 0), (500, 30), (1000, 0), (1000, 20))  # landmarks, and exact distances of each system
JOBS = 2
CLUSTER_SYSTEMS, ROUNDS = 160, 3


def identified(streams: list[Array]) -> list[System]:
    """Systems of streams."""
    return run(lambda stream: sysbags.identify(stream, ORDER), streams, -1, "systems")


def distance_rows(count: int, folder: Path | None) -> Iterator[str]:
    """Lines of the table of all distances: time, and how many of the nearest are found."""
    head = "processor s", "of which landmarks, s", "faster by", f"of the {NEIGHBORS} nearest are found"
    yield f"| streams | systems | landmarks | exact | {' | '.join(head)} |"
    yield f"| --- | ---: | ---: | ---: |{' ---: |' * len(head)}"
    for name, streams in named_sets(count, folder):
        items = identified(streams)
        few = items[:9]
        for embedding in (None, fit_embedding(few, 50)):  # compiled
            sysbags.pairwise_distances(few, embedding=embedding, n_jobs=JOBS, **WEIGHTS)
        exact_time, exact = seconds(
            partial(sysbags.pairwise_distances, items, n_jobs=JOBS, **WEIGHTS), process_time
        )
        yield f"| {name} | {count} | none | all | {exact_time:.0f} |  | 1 | 100 % |"
        near = _nearest(exact).tolist()
        for landmarks, nearest in EMBEDDED:
            fit_time, embedding = seconds(partial(fit_embedding, items, landmarks, n_jobs=JOBS), process_time)
            options: dict[str, Any] = {"embedding": embedding, "exact_nearest": nearest, **WEIGHTS}
            spent, fast = seconds(
                partial(sysbags.pairwise_distances, items, n_jobs=JOBS, **options), process_time
            )
            found = [len({*a} & {*b}) for a, b in zip(near, _nearest(fast).tolist(), strict=True)]
            share, total = 100.0 * np.mean(found) / NEIGHBORS, fit_time + spent
            times = f"{total:.1f} | {fit_time:.1f} | {exact_time / total:.0f}"
            yield f"| {name} | {count} | {landmarks} | {nearest} each | {times} | {share:.1f} % |"


def _nearest(squared: Array) -> IntArray:
    """The nearest other systems of each."""
    others = np.where(np.eye(len(squared), dtype=bool), np.inf, squared)
    return np.asarray(np.argsort(others, axis=1, kind="stable")[:, :NEIGHBORS])


def cluster_rows(systems: int) -> Iterator[str]:
    """Lines of the table of `cross_gram` by workers of Dask and by threads."""
    from distributed import Client, LocalCluster

    count = min(systems, CLUSTER_SYSTEMS)
    streams, _ = make_streams(classes=count, per_class=1, frames=250, bins=256)
    items = identified(streams)
    times: dict[str, list[float]] = {"threads": [], "workers": []}
    with (
        LocalCluster(n_workers=JOBS, threads_per_worker=1, dashboard_address=None) as local,  # type: ignore[no-untyped-call]
        Client(local) as client,  # type: ignore[no-untyped-call]
    ):
        for _ in range(1 + ROUNDS):  # compiled in the first round, which is not counted
            by_threads, expected = seconds(lambda: sysbags.cross_gram(items, n_jobs=JOBS))
            by_workers, found = seconds(lambda: sysbags.cross_gram(items, client=client))
            times["threads"].append(by_threads)
            times["workers"].append(by_workers)
            same = np.array_equal(found.observer, expected.observer)
            if not same or not np.array_equal(found.mean, expected.mean):
                raise AssertionError("the cluster's result is not that of one process")
    threads, workers = (float(np.median(values[1:])) for values in times.values())
    yield f"| `cross_gram` of | n_jobs={JOBS}, s | {JOBS} workers of Dask, s | ratio | the same bits |"
    yield "| ---: | ---: | ---: | ---: | --- |"
    yield f"| {count} | {threads:.2f} | {workers:.2f} | {workers / threads:.2f} | yes |"
