"""Systems and CrossGrams that are read again if they were computed before."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sysbags._common.cache import Cache, fingerprint
from sysbags._common.types import Array
from sysbags.distances.embedding import Embedding
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.systems.collection import system_arrays, system_from_arrays
from sysbags.systems.identification import identify_first
from sysbags.systems.system import System

__all__ = ["CachedGram", "cached_gram", "cached_system"]

STACKED = ("orders", "transition", "observer_gram", "mean_norm")


def cached_system(stream: Array, cache: Cache, orders: Sequence[int | str], kernel: str) -> System:
    """`identify_first`, from the cache if it was computed before."""
    key = {"stream": fingerprint(stream), "orders": list(orders), "kernel": kernel}
    arrays = cache.arrays("system", key, lambda: system_arrays(identify_first(stream, orders, kernel)))
    return system_from_arrays(arrays, kernel)


@dataclass(frozen=True, eq=False)
class CachedGram:
    """A CrossGram, the seconds that it took when it was computed, and what it depends on.

    With an embedding, `lost` is what each system loses in it, see `EmbeddedSystems`; else it is 0.
    """

    gram: CrossGram
    seconds: float
    key: dict[str, Any]
    lost: Array


def cached_gram(
    cache: Cache, systems: Sequence[System], n_jobs: int | None, embedding: Embedding | None = None
) -> CachedGram:
    """Return the CrossGram of systems with themselves, from the cache if it was computed before."""
    # Kernels with an explicit feature map need no landmarks.
    used = None if embedding is None or embedding.size is None else embedding

    def make() -> dict[str, Any]:
        started = time.perf_counter()
        gram = cross_gram(systems, n_jobs=n_jobs, embedding=used)
        lost = {} if used is None else {"lost": used.transform(systems, n_jobs=n_jobs).lost}
        seconds = np.array(time.perf_counter() - started)
        stack = {name: getattr(gram.rows, name) for name in STACKED}
        return {"observer": gram.observer, "mean": gram.mean, "seconds": seconds, **lost, **stack}

    prints = [fingerprint([system.samples, system.alpha, system.transition]) for system in systems]
    key = {"systems": prints, "kernel": systems[0].kernel}
    if used is not None:
        key["landmarks"] = fingerprint(used.landmarks)
    arrays = cache.arrays("gram", key, make)
    stack = SystemStack(**{name: arrays[name] for name in STACKED}, normal_form=systems[0].normal_form)
    gram = CrossGram(arrays["observer"], arrays["mean"], stack, stack, True, approximate=used is not None)
    lost = arrays.get("lost", np.zeros(len(systems)))
    return CachedGram(gram, float(arrays["seconds"]), key, lost)
