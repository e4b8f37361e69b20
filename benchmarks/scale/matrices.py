"""All distances with an embedding against exact ones, and a cluster against threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import sysbags
from benchmarks.machine import seconds
from benchmarks.scale.search import LANDMARKS, ORDER, WEIGHTS, generated
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.datasets import make_streams
from sysbags.library import fit_embedding
from sysbags.systems.system import System

__all__ = ["cluster_rows", "distance_rows"]

EXACT = 1000  # systems whose exact distances are timed, and compared
NEIGHBORS = 10
JOBS = 2
CLUSTER_SYSTEMS, ROUNDS = 160, 3


def identified(streams: list[Array]) -> list[System]:
    """Systems of streams."""
    return run(lambda stream: sysbags.identify(stream, ORDER), streams, -1, "systems")


def distance_rows(systems: int) -> Iterator[str]:
    """Lines of the table of all distances: time, and the error on the systems with exact distances."""
    items = identified(generated(systems, np.random.default_rng(2026)))
    some = items[:EXACT]
    for embedding in (None, fit_embedding(some[:9], 50)):  # compiled
        sysbags.pairwise_distances(some[:9], embedding=embedding, n_jobs=JOBS, **WEIGHTS)
    exact_time, exact = seconds(lambda: sysbags.pairwise_distances(some, n_jobs=JOBS, **WEIGHTS))
    fit_time, embedding = seconds(lambda: fit_embedding(items, LANDMARKS, n_jobs=JOBS))
    fast_time, fast = seconds(
        lambda: sysbags.pairwise_distances(items, embedding=embedding, n_jobs=JOBS, **WEIGHTS)
    )
    above = np.triu_indices(len(some), 1)
    scaled = exact_time * (len(items) * (len(items) - 1)) / (len(some) * (len(some) - 1))
    absolute = np.abs(fast[: len(some), : len(some)] - exact)[above]
    relative = absolute / exact[above]
    yield "| all pairs of | exact, s (scaled) | embedded, s | of which landmarks, s | faster by |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    total = fit_time + fast_time
    yield f"| {len(items)} | {scaled:.0f} | {total:.1f} | {fit_time:.1f} | {scaled / total:.0f} |"
    yield ""
    yield f"| error of squared distances, {len(some)} systems | median | worst |"
    yield "| --- | ---: | ---: |"
    yield f"| absolute (median distance {np.median(exact[above]):.2f}) | {_two(absolute)} |"
    yield f"| relative, % | {_two(100.0 * relative)} |"
    yield ""
    near, found = (_nearest(squared) for squared in (exact, fast[: len(some), : len(some)]))
    shares = [len({*a} & {*b}) / NEIGHBORS for a, b in zip(near.tolist(), found.tolist(), strict=True)]
    yield f"The {NEIGHBORS} nearest of {len(some)} systems: {100.0 * np.mean(shares):.1f} % are found."


def _nearest(squared: Array) -> IntArray:
    """The nearest other systems of each."""
    others = np.where(np.eye(len(squared), dtype=bool), np.inf, squared)
    return np.asarray(np.argsort(others, axis=1, kind="stable")[:, :NEIGHBORS])


def _two(errors: Array) -> str:
    """The median and the largest error, with two digits."""
    return " | ".join(f"{float(f'{error:.2g}'):g}" for error in (np.median(errors), errors.max()))


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
