"""The vote of the nearest neighbours."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array, IntArray

__all__ = ["vote"]


def vote(distances: Array, codes: IntArray, classes: int, neighbours: int) -> IntArray:
    """Class index that most of the nearest columns have, for each row; ties go to the nearer class."""
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :neighbours]
    votes = np.stack([(codes[nearest] == c).sum(axis=1) for c in range(classes)], axis=1)
    # The first neighbour of a class breaks ties; it is worth less than a vote.
    first = np.full(votes.shape, neighbours)
    for rank in range(neighbours - 1, -1, -1):
        first[np.arange(len(first)), codes[nearest[:, rank]]] = rank
    return np.asarray(np.argmax(votes - first / (neighbours + 1.0), axis=1))
