"""Kernel principal components: the passes over a kernel matrix and over its eigenvectors."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled

__all__ = ["centred", "coordinates"]


@compiled(fastmath={"nnan", "nsz"})
def centred(k: Array) -> tuple[Array, float, float, float]:
    """Centre a symmetric kernel matrix in feature space.

    Returns
    -------
    K : (N, N) array
        `H k H` with ``H = I - 1 1'/N``: less the mean of its row and of its column, plus the mean of all.
    mean : float
        The mean of k.
    largest : float
        The largest absolute value of k.
    trace : float
        Of K.
    """
    size = k.shape[0]
    means, tops, K = np.zeros(size), np.zeros(size), np.empty((size, size))
    for i in range(size):
        line = k[i]
        # The largest of each column: a single largest value would not be vectorised.
        for j in range(np.uint64(size)):
            means[j] += line[j]
            tops[j] = max(tops[j], abs(line[j]))
    mean, largest, trace = 0.0, 0.0, 0.0
    for j in range(size):
        largest = max(largest, tops[j])
        means[j] /= size
        mean += means[j]
    mean /= size
    for i in range(size):
        line, centred_line, row_mean = k[i], K[i], means[i]
        for j in range(np.uint64(size)):
            centred_line[j] = ((line[j] - means[j]) - row_mean) + mean
        trace += K[i, i]
    return K, mean, largest, trace


@compiled()
def coordinates(V: Array, scale: Array) -> tuple[Array, Array]:
    """Return (N, n) eigenvectors over their scale and times their scale: coefficients and states.

    The entry of largest absolute value of each is positive. Its mean, which is round-off, is taken off: the
    reciprocal of a small scale would amplify it.
    """
    size, n = V.shape
    coefficients, states = np.empty((size, n)), np.empty((size, n))
    for c in range(n):
        largest, sign, mean = 0.0, 1.0, 0.0
        for i in range(size):
            mean += V[i, c]
            if abs(V[i, c]) > largest:
                largest = abs(V[i, c])
                sign = 1.0 if V[i, c] > 0.0 else -1.0
        mean /= size
        for i in range(size):
            entry = sign * (V[i, c] - mean)
            coefficients[i, c] = entry / scale[c]
            states[i, c] = entry * scale[c]
    return coefficients, states
