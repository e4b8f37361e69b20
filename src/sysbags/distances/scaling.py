"""Classical multidimensional scaling: points from squared distances."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array

__all__ = ["classical_scaling"]


def classical_scaling(squared: Array, dimensions: int = 2) -> Array:
    """Return points whose distances approximate the given ones: classical multidimensional scaling.

    Parameters
    ----------
    squared : (K, K) array
        Squared distances.
    dimensions : int, default=2

    Returns
    -------
    (K, dimensions) array
        Centered; the entry of largest absolute value of each column is positive.

    Examples
    --------
    >>> line = np.array([0.0, 1.0, 5.0])
    >>> classical_scaling((line[:, None] - line) ** 2, 1).round(9).ravel()
    array([-2., -1.,  3.])
    """
    means = squared.mean(axis=0)
    inner = -0.5 * (squared - means - means[:, None] + means.mean())
    values, vectors = np.linalg.eigh(inner)
    count = min(dimensions, len(inner))
    points = np.zeros((len(inner), dimensions))
    points[:, :count] = vectors[:, ::-1][:, :count] * np.sqrt(np.maximum(values[::-1][:count], 0.0))
    largest = points[np.abs(points).argmax(axis=0), np.arange(dimensions)]
    return np.asarray(points * np.where(largest < 0.0, -1.0, 1.0))
