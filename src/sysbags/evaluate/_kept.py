"""CrossGrams that are found again, and what times the work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from sysbags._common.cache import Store, fingerprint
from sysbags.distances.gram import CrossGram, Side, cross_gram
from sysbags.systems.system import System

__all__ = ["KeptGram", "Timer", "kept_gram"]


class Timer(Protocol):
    """Times named stages, as `sysbags.cli._output.Stages` does."""

    seconds: dict[str, float]

    def __call__(self, name: str) -> AbstractContextManager[None]:
        """Time one stage."""


@dataclass(frozen=True, eq=False)
class KeptGram:
    """A CrossGram, the seconds that it took when it was worked out, and what it depends on."""

    gram: CrossGram
    seconds: float
    key: dict[str, Any]


def kept_gram(store: Store, systems: Sequence[System], jobs: int | None) -> KeptGram:
    """Return the CrossGram of systems with themselves, found again if it was worked out before."""

    def make() -> dict[str, Any]:
        started = time.perf_counter()
        gram = cross_gram(systems, n_jobs=jobs)
        seconds = np.array(time.perf_counter() - started)
        sides = {f.name: getattr(gram.rows, f.name) for f in fields(Side)}
        return {"observer": gram.observer, "mean": gram.mean, "seconds": seconds, **sides}

    told = [fingerprint([system.samples, system.alpha, system.transition]) for system in systems]
    key = {"gram": told, "kernel": systems[0].kernel}
    kept = store.arrays(key, make)
    side = Side(**{f.name: kept[f.name] for f in fields(Side)})
    return KeptGram(CrossGram(kept["observer"], kept["mean"], side, side, True), float(kept["seconds"]), key)
