"""Distances of items to classes that were made without them, from one CrossGram.

The squared alignment distance is `d^2 = (transition and observer) + lambda_mu * (mean)`, and neither the
best rotations nor the Frechet means depend on `lambda_mu`. So both terms are kept apart: one pass serves
every `lambda_mu`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import distance_matrix

__all__ = ["Distances", "mean_term", "to_items", "to_medoids"]


@dataclass(frozen=True, eq=False)
class Distances:
    """Squared distances of K items to classes, (K, C), or to items, (K, K), in two terms."""

    aligned: Array
    mean: Array

    def at(self, lambda_mu: float) -> Array:
        """Return the distances for one weight of the mean."""
        return np.asarray(self.aligned + lambda_mu * self.mean)


def to_items(
    gram: CrossGram, groups: IntArray, metric: str, lambda_a: float, seed: int, n_jobs: int | None
) -> Distances:
    """Distances to all items, infinite to those of the own group."""
    between = distance_matrix(gram, metric, lambda_a=lambda_a, random_state=seed, n_jobs=n_jobs)
    # Only the own group is infinitely far away: some baselines give infinity to others too.
    between = np.minimum(between, np.finfo(np.float64).max)
    between[groups[:, None] == groups[None, :]] = np.inf
    return Distances(between, mean_term(gram) if metric == "alignment" else np.zeros_like(between))


def to_medoids(
    gram: CrossGram, codes: IntArray, groups: IntArray, metric: str, seed: int, n_jobs: int | None
) -> Distances:
    """Distances to the medoid of each class without the item's group."""
    between = distance_matrix(gram, metric, random_state=seed, n_jobs=n_jobs)
    between = np.minimum(between, np.finfo(np.float64).max)
    distances = np.full((len(codes), codes.max() + 1), np.inf)
    for group in np.unique(groups):
        tested = groups == group
        for c in range(codes.max() + 1):
            rest = np.flatnonzero((codes == c) & ~tested)
            if rest.size:
                # Infinite distances, cut to the largest number, must not overflow in the sum.
                centre = rest[np.argmin((between[np.ix_(rest, rest)] / (2 * rest.size)).sum(axis=1))]
                distances[tested, c] = between[tested, centre]
    return Distances(distances, np.zeros_like(distances))


def mean_term(gram: CrossGram) -> Array:
    """``||mu_i - mu_j||^2`` of all pairs."""
    norms = gram.rows.mean_norm[:, None] + gram.columns.mean_norm[None, :]
    return np.maximum(norms - 2.0 * gram.mean, 0.0)
