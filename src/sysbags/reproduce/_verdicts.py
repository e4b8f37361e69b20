"""Verdicts by the nearest clip, each third of the clips judged with a codebook of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags.classifiers.votes import vote
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import distance_matrix
from sysbags.evaluate.cached_gram import CachedGram
from sysbags.evaluate.distances import mean_term
from sysbags.reproduce._common import Options

__all__ = ["Verdicts"]

Setting = tuple[str, float]  # a metric, and lambda_a


@dataclass(eq=False)
class Verdicts:
    """Verdicts on all clips for several settings, made third by third.

    Attributes
    ----------
    codes, third : (K,) array of int
        Class and third of each clip.
    options : Options
    settings : sequence of (str, float)
        Metrics with their lambda_a.
    grid_mu : sequence of float
        The values of lambda_mu, for the alignment distance; the others are made with 0 alone.
    made : dict
        The class code that each clip was given, by metric, lambda_a and lambda_mu.
    seconds : dict
        What the distances took, by metric and lambda_a.
    kernel_seconds : float
    """

    codes: IntArray
    third: IntArray
    options: Options
    settings: Sequence[Setting]
    grid_mu: Sequence[float]
    made: dict[tuple[str, float, float], IntArray] = field(default_factory=dict)
    seconds: dict[Setting, float] = field(default_factory=dict)
    kernel_seconds: float = 0.0

    def judge(self, k: int, kept: CachedGram) -> None:
        """Judge the k-th third by all other clips, from the CrossGram that its codebook gives."""
        self.kernel_seconds += kept.seconds
        tested = np.flatnonzero(self.third == k)
        part = kept.gram.subset(tested, np.arange(len(self.codes)))
        own = np.arange(len(tested)), tested
        for metric, weight in self.settings:
            distances, seconds = self._distances(part, (metric, weight), kept.key | {"rows": tested.tolist()})
            distances[own] = np.inf
            for mu in self.grid_mu if metric == "alignment" else (0.0,):
                nearest = vote(distances + mu * mean_term(part), self.codes, int(self.codes.max()) + 1, 1)
                verdicts = self.made.setdefault((metric, weight, mu), np.full_like(self.codes, -1))
                verdicts[tested] = nearest
            self.seconds[metric, weight] = self.seconds.get((metric, weight), 0.0) + seconds

    def average(self, metric: str, lambda_a: float, lambda_mu: float) -> float:
        """Return the average of the rates of the three codebooks."""
        right = self.made[metric, lambda_a, lambda_mu] == self.codes
        return float(np.mean([right[self.third == k].mean() for k in np.unique(self.third)]))

    def _distances(self, part: CrossGram, setting: Setting, about: dict[str, Any]) -> tuple[Array, float]:
        """Return distances for lambda_mu 0, as one record, and the seconds that they took."""
        metric, weight = setting
        seed, jobs = self.options.seed, self.options.jobs

        def make() -> dict[str, Any]:
            started = time.perf_counter()
            found = distance_matrix(part, metric, lambda_a=weight, random_state=seed, n_jobs=jobs)
            return {"distances": found, "seconds": np.array(time.perf_counter() - started)}

        key = {"distances": about, "metric": metric, "lambda_a": weight, "seed": seed}
        kept = self.options.store.arrays(key, make)
        # Only the clip itself is infinitely far away: some baselines give infinity to others too.
        return np.minimum(kept["distances"], np.finfo(np.float64).max), float(kept["seconds"])
