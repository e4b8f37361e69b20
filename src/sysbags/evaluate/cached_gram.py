"""CrossGrams that are found again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sysbags._common.cache import Store, fingerprint
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.systems.system import System

__all__ = ["CachedGram", "cached_gram"]


@dataclass(frozen=True, eq=False)
class CachedGram:
    """A CrossGram, the seconds that it took when it was worked out, and what it depends on."""

    gram: CrossGram
    seconds: float
    key: dict[str, Any]


def cached_gram(store: Store, systems: Sequence[System], jobs: int | None) -> CachedGram:
    """Return the CrossGram of systems with themselves, found again if it was worked out before."""

    def make() -> dict[str, Any]:
        started = time.perf_counter()
        gram = cross_gram(systems, n_jobs=jobs)
        seconds = np.array(time.perf_counter() - started)
        sides = {f.name: getattr(gram.rows, f.name) for f in fields(SystemStack)}
        return {"observer": gram.observer, "mean": gram.mean, "seconds": seconds, **sides}

    told = [fingerprint([system.samples, system.alpha, system.transition]) for system in systems]
    key = {"gram": told, "kernel": systems[0].kernel}
    kept = store.arrays(key, make)
    side = SystemStack(**{f.name: kept[f.name] for f in fields(SystemStack)})
    return CachedGram(
        CrossGram(kept["observer"], kept["mean"], side, side, True), float(kept["seconds"]), key
    )
