"""Distances of items to classes that were made without them, from one CrossGram.

The squared alignment distance is `d^2 = (transition and observer) + lambda_mu * (mean)`, and neither the
best rotations nor the Frechet means depend on `lambda_mu`. So both terms are kept apart: one pass serves
every `lambda_mu`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sysbags._parallel import run
from sysbags._types import Array, IntArray
from sysbags.gram import CrossGram
from sysbags.mean import BlockMean, mean_gram, mean_of_gram
from sysbags.pairwise import alignment_matrix, distance_matrix

__all__ = ["Distances", "to_items", "to_means", "to_medoids"]


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
    return Distances(between, _mean_term(gram) if metric == "alignment" else np.zeros_like(between))


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


def to_means(
    gram: CrossGram, codes: IntArray, groups: IntArray, lambda_a: float, seed: int, n_jobs: int | None
) -> Distances:
    """Alignment distances to the Frechet mean of each class without the item's group."""
    members = [np.flatnonzero(codes == c) for c in range(codes.max() + 1)]

    def mean_of(rows: IntArray) -> BlockMean:
        return mean_of_gram(gram.subset(rows), lambda_a, random_state=seed)

    def distances_to(blocks: CrossGram, jobs: int | None = None) -> tuple[Array, Array]:
        return alignment_matrix(blocks, lambda_a, random_state=seed, n_jobs=jobs), _mean_term(blocks)

    means = run(mean_of, members, n_jobs, "class means")
    aligned, mean = (table.T.copy() for table in distances_to(mean_gram(gram, members, means), n_jobs))

    def without(pair: tuple[int, int]) -> None:
        c, group = pair
        tested, others = np.flatnonzero(groups == group), groups[members[c]] != group
        if not others.any():
            aligned[tested, c] = np.inf
            return
        rest, full = members[c][others], means[c]
        # Where the group alone had the largest order, the mean without it lives in a smaller space.
        warm = gram.rows.orders[rest].max() == len(full.transition)
        start = full.rotations[others] if warm else "medoid"
        left = mean_of_gram(gram.subset(rest), lambda_a, start=start, random_state=seed)
        blocks = mean_gram(gram.subset(rest, tested), [np.arange(len(rest))], [left])
        (aligned[tested, c],), (mean[tested, c],) = distances_to(blocks)

    pairs = [(c, int(group)) for c, own in enumerate(members) for group in np.unique(groups[own])]
    run(without, pairs, n_jobs, "means without one group")
    return Distances(aligned, mean)


def _mean_term(gram: CrossGram) -> Array:
    """``||mu_i - mu_j||^2`` of all pairs."""
    norms = gram.rows.mean_norm[:, None] + gram.columns.mean_norm[None, :]
    return np.maximum(norms - 2.0 * gram.mean, 0.0)
