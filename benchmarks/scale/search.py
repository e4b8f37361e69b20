"""Search among many systems: recall, kernel blocks and time against a scan of all of them.

Streams are generated, many of them nearly the same, and with a folder of real clips (one folder per class)
also cut from streams of local binary patterns at random and mixed with noise. Systems of order 5, the ten
nearest, one thread. The scan is timed on some of the systems and scaled. What is nearest is told by the exact
search, which the scan confirms for the first query; queries are not in the index and took no part in any
choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sysbags
from benchmarks.machine import seconds
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import class_folders, make_streams
from sysbags.library import SystemIndex, fit_embedding
from sysbags.systems.system import System

ORDER, NEIGHBOURS, LANDMARKS = 5, 10, 500
WEIGHTS: dict[str, Any] = {"lambda_a": 0.25, "lambda_mu": 10.0}
SCANNED = 300  # systems of a scan that is timed
NOISE = 0.02
SEED = 41  # no choice was made with it


def generated(count: int, rng: np.random.Generator) -> list[Array]:
    """Parts of generated streams of a hundred classes, as long as real clips and with as many bins."""
    seed = int(rng.integers(1 << 31))
    originals, _ = make_streams(classes=100, per_class=5, frames=250, bins=256, random_state=seed)
    return resampled(originals, count, rng)


def resampled(clips: list[Array], count: int, rng: np.random.Generator) -> list[Array]:
    """Parts of streams with noise: many are nearly the same."""
    streams = []
    for _ in range(count):
        clip = clips[rng.integers(len(clips))]
        length = max(40, int(len(clip) * rng.uniform(0.5, 0.9)))
        start = int(rng.integers(max(1, len(clip) - length)))
        streams.append(_noisy(clip[start : start + length], rng))
    return streams


def _noisy(stream: Array, rng: np.random.Generator) -> Array:
    return (1.0 - NOISE) * stream + NOISE * rng.dirichlet(np.ones(stream.shape[1]), size=len(stream))


def measure(name: str, streams: list[Array], queries: int) -> Iterator[str]:
    """Return a row of the table for each way to search."""
    systems: list[System] = run(lambda stream: sysbags.identify(stream, ORDER), streams, -1, "systems")
    asked, kept = systems[:queries], systems[queries:]
    spent, index = seconds(lambda: SystemIndex(kept, embedding=fit_embedding(kept, LANDMARKS), **WEIGHTS))
    some = kept[:SCANNED]
    sysbags.pairwise_distances(some[:2], asked[:1], **WEIGHTS)  # compiled
    scan, _ = seconds(lambda: [sysbags.pairwise_distances(some, [query], **WEIGHTS) for query in asked])
    scan *= len(kept) / len(some)
    every = sysbags.pairwise_distances(kept, asked[:1], n_jobs=-1, **WEIGHTS)[:, 0]
    exact_time, exact = seconds(lambda: [index.search(q, NEIGHBOURS, exact=True) for q in asked])
    if not np.array_equal(np.lexsort((np.arange(len(every)), every))[:NEIGHBOURS], exact[0].indices):
        raise AssertionError("the exact search is not the scan")
    fast_time, fast = seconds(lambda: [index.search(q, NEIGHBOURS) for q in asked])
    for title, times, found in (("shortlist", fast_time, fast), ("exact", exact_time, exact)):
        recall = np.mean(
            [len(set(a.indices) & set(b.indices)) / NEIGHBOURS for a, b in zip(found, exact, strict=True)]
        )
        blocks = np.mean([neighbours.blocks for neighbours in found])
        yield (
            f"| {name} | {len(kept)} | {title} | {recall:.3f} | {blocks:.0f} | {len(kept) / blocks:.0f} | "
            f"{1e3 * times / queries:.0f} | {scan / times:.1f} |"
        )
    lost = index.embedded.lost
    yield (
        f"| {name} | {len(kept)} | (embedding: {1e3 * spent / len(kept):.1f} ms per system; lost of "
        f"observers: median {100 * np.median(lost):.1f} %, most {100 * lost.max():.1f} %) | | | | | |"
    )


def search_rows(systems: int, queries: int, folder: Path | None) -> Iterator[str]:
    """Lines of the table of searches."""
    yield "| streams | systems | search | recall | kernel blocks | fewer than a scan by | ms | faster by |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    for name, streams in named_sets(systems + queries, folder):
        yield from measure(name, streams, queries)


def named_sets(count: int, folder: Path | None) -> Iterator[tuple[str, list[Array]]]:
    """Yield streams in a random order, and what they are called."""
    rng = np.random.default_rng(SEED)
    sets: dict[str, Callable[[], list[Array]]] = {"generated": lambda: generated(count, rng)}
    if folder:
        clips = LocalBinaryPatterns(n_jobs=-1).transform(class_folders(folder).paths)
        sets["cut from real clips"] = lambda: resampled(clips, count, rng)
    for name, make in sets.items():
        streams = make()
        yield name, [streams[k] for k in rng.permutation(len(streams))]
