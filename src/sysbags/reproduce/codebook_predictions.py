"""Nearest-system predictions of YUPENN, each fold with the codebook that has not seen it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags.classifiers.scores import NO_PREDICTION
from sysbags.classifiers.scores.neighbors import Neighbors
from sysbags.distances import METRICS
from sysbags.distances.gram import CrossGram, mean_term
from sysbags.distances.pairwise import distance_matrix
from sysbags.evaluate.features import CachedGram
from sysbags.reproduce.common import Options

Setting = tuple[str, float]  # a metric, and lambda_a


@dataclass(eq=False, kw_only=True)
class CodebookPredictions:
    """Predictions for all clips with several settings, made fold by fold."""

    codes: IntArray
    folds: IntArray
    options: Options
    settings: Sequence[Setting]
    grid_mu: Sequence[float]  # of lambda_mu, for the alignment distance; the others are made with 0 alone
    # The predicted class code of each clip, by metric, lambda_a and lambda_mu.
    predictions: dict[tuple[str, float, float], IntArray] = field(default_factory=dict)
    seconds: dict[Setting, float] = field(default_factory=dict)  # of the distances
    kernel_seconds: float = 0.0

    def predict_fold(self, fold: int, cached: CachedGram) -> None:
        """Predict the clips of a fold by all other clips, from the CrossGram that its codebook gives."""
        self.kernel_seconds += cached.seconds
        rows, groups = np.flatnonzero(self.folds == fold), np.arange(len(self.codes))
        part = cached.gram.subset(rows, groups)
        for metric, weight in self.settings:
            distances, seconds = self._distances(part, (metric, weight), cached.key | {"rows": rows.tolist()})
            for mu in self.grid_mu if METRICS[metric].weighted else (0.0,):
                neighbors = Neighbors(distances + mu * mean_term(part), self.codes, groups, rows=rows)
                predicted = self.predictions.setdefault(
                    (metric, weight, mu), np.full_like(self.codes, NO_PREDICTION)
                )
                predicted[rows] = neighbors.predict()[rows]
            self.seconds[metric, weight] = self.seconds.get((metric, weight), 0.0) + seconds

    def average(self, metric: str, lambda_a: float, lambda_mu: float) -> float:
        """Return the average of the accuracies of the codebook folds."""
        right = self.predictions[metric, lambda_a, lambda_mu] == self.codes
        return float(np.mean([right[self.folds == k].mean() for k in np.unique(self.folds)]))

    def _distances(self, part: CrossGram, setting: Setting, gram: dict[str, Any]) -> tuple[Array, float]:
        """Return distances for lambda_mu 0, as one record, and the seconds that they took."""
        metric, weight = setting
        seed, n_jobs = self.options.random_state, self.options.n_jobs

        def make() -> dict[str, Any]:
            started = time.perf_counter()
            distances = distance_matrix(part, metric, lambda_a=weight, random_state=seed, n_jobs=n_jobs)
            return {"distances": distances, "seconds": np.array(time.perf_counter() - started)}

        key = {"gram": gram, "metric": metric, "lambda_a": weight, "random_state": seed}
        arrays = self.options.cache.arrays("distances", key, make)
        return arrays["distances"], float(arrays["seconds"])
