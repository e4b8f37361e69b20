"""Segmentation of a sequence of systems by kernel change-point detection: pure functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.errors import ParameterError

__all__ = ["change_penalty", "change_points", "group_phases", "kernel_features"]

DRAWS = 299  # of the noise: with the level 0.05 the penalty is the 15th largest gain
MOST_CHANGES = 100  # between two windows without a system; the work grows with it
ROUND_OFF = 1e-12  # of the largest eigenvalue: smaller ones are left out


def kernel_features(squared: Array, lag: int = 1) -> Array:
    """Return points whose inner products are the kernel ``exp(-d^2 / m)`` of squared distances.

    The bandwidth m is the median of the squared distances. For the alignment distance this kernel need not be
    positive definite: negative eigenvalues are set to zero.

    Parameters
    ----------
    squared : (K, K) array
    lag : int, default=1
        Items nearer than this in the sequence overlap, and their distances are left out of the median.

    Returns
    -------
    (K, d) array

    Examples
    --------
    >>> line = np.array([0.0, 1.0, 3.0])
    >>> points = kernel_features((line[:, None] - line) ** 2)
    >>> (points @ points.T).round(3)
    array([[1.   , 0.779, 0.105],
           [0.779, 1.   , 0.368],
           [0.105, 0.368, 1.   ]])
    """
    apart = squared[np.triu_indices(len(squared), lag)]
    bandwidth = float(np.median(apart)) if apart.size else 1.0
    values, vectors = np.linalg.eigh(np.exp(-squared / (bandwidth or 1.0)))
    positive = values > ROUND_OFF * values[-1]
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def change_points(features: Array, penalty: float, min_size: int = 1) -> list[int]:
    """Divide a sequence into segments: minimise the scatter of all segments plus a penalty per change.

    The scatter of a segment is the sum of the squared distances of its items to their mean.
    For each number of changes, the best segmentation is found by dynamic programming (Harchaoui and Cappe,
    2007; `ruptures.KernelCPD`), and the number by the penalty. The PELT algorithm is faster but not exact
    for segments of a minimal size.

    Parameters
    ----------
    features : (K, d) array
    penalty : float
        A change must lower the scatter by more than this.
    min_size : int, default=1
        Number of items in a segment, at least.

    Returns
    -------
    list of int
        The first item of each segment, without that of the first segment.

    Examples
    --------
    >>> change_points(np.array([[0.0], [0.1], [5.0], [5.1], [5.0], [0.0], [0.0]]), penalty=1.0)
    [2, 5]
    """
    most = min(len(features) // min_size - 1, MOST_CHANGES)
    if most < 1:
        return []
    try:
        from ruptures import KernelCPD
    except ModuleNotFoundError:
        raise ParameterError("change points need ruptures: pip install 'sysbags[watch]'") from None
    search = KernelCPD(kernel="linear", min_size=min_size).fit(features)
    search.predict(n_bkps=most)
    found = [[], *(search.segmentations_dict[count][:-1] for count in range(1, most + 1))]
    # The scatter of a segment is the sum of the squared norms, the same for all, less that of its mean.
    sums = np.concatenate([np.zeros((1, features.shape[1])), features.cumsum(axis=0)])
    costs = []
    for changes in found:
        bounds = np.array([0, *changes, len(features)])
        squares = np.sum(np.diff(sums[bounds], axis=0) ** 2, axis=1)
        costs.append(penalty * len(changes) - float(np.sum(squares / np.diff(bounds))))
    return [int(change) for change in found[int(np.argmin(costs))]]


def change_penalty(
    runs: Sequence[Array], lag: int, alpha: float = 0.05, *, random_state: int = 0, n_jobs: int | None = None
) -> float:
    """Return the penalty for which a sequence without changes is divided with a probability of `alpha`.

    Neighbours in the sequence overlap and are dependent, but an item and the `lag`-th after it are not. The
    differences of such items, divided by the root of 2, are noise with the covariance of the items, and only
    those across a change hold more than noise: few, unless there are many changes, which make the penalty
    larger. Sequences of items that do not overlap, without changes, are drawn from these differences with
    random signs. The penalty is the quantile `1 - alpha` of the largest decrease of scatter by one change,
    times `lag`, as there are so many times more items that overlap.

    Parameters
    ----------
    runs : sequence of (K, d) arrays
        The sequence, or its parts, if there are gaps.
    lag : int
        Items that are so far apart do not overlap.
    alpha : float, default=0.05
    random_state : int, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    float
        Infinite, if the runs are too short for a single difference.

    Examples
    --------
    >>> noise = np.random.default_rng(0).standard_normal((200, 3))
    >>> penalty = change_penalty([noise], lag=1)
    >>> change_points(noise, penalty)
    []
    >>> noise[120:] += 2.0
    >>> change_points(noise, change_penalty([noise], lag=1))
    [120]
    """
    noise = np.concatenate([items[lag:] - items[:-lag] for items in runs]) / np.sqrt(2.0)
    if len(noise) == 0:
        return float("inf")
    gram = lag * (noise @ noise.T)
    length = sum(map(len, runs)) // lag

    def gain(draw: int) -> float:
        rng = np.random.default_rng([random_state, draw])
        chosen, signs = rng.integers(len(gram), size=length), rng.choice([-1.0, 1.0], size=length)
        return _largest_gain(gram[np.ix_(chosen, chosen)] * np.outer(signs, signs))

    gains = run(gain, range(DRAWS), n_jobs, "penalty")
    return float(np.quantile(gains, 1.0 - alpha, method="higher"))


def _largest_gain(gram: Array) -> float:
    """Return the largest decrease of scatter by one change, from inner products."""
    count = len(gram)
    sizes = np.arange(1, count)
    rows = gram.cumsum(axis=0)
    sums = np.diagonal(rows.cumsum(axis=1))[:-1]  # of all products within the first items
    across = rows[:-1].sum(axis=1)  # of the first items with all items
    total = float(rows[-1].sum())
    gains = sums / sizes + (total - 2.0 * across + sums) / (count - sizes) - total / count
    return float(gains.max(initial=0.0))


def group_phases(phases: Sequence[Array], penalty: float, number: int | None = None) -> IntArray:
    """Give the same label to phases that do not differ: agglomerative clustering with Ward's criterion.

    The two groups whose union raises the scatter least are joined, as long as it rises by no more than the
    penalty: the criterion by which `change_points` divides neighbours.

    Parameters
    ----------
    phases : sequence of (K, d) arrays
    penalty : float
    number : int, optional
        Join until there are so many groups instead.

    Returns
    -------
    (len(phases),) array of int
        Numbered by their first phase, from 0.

    Examples
    --------
    >>> low, high = np.zeros((4, 1)), np.full((3, 1), 5.0)
    >>> group_phases([low, high, low + 0.1], penalty=1.0)
    array([0, 1, 0])
    """
    groups = [[k] for k in range(len(phases))]
    sizes = [len(phase) for phase in phases]
    means = [phase.mean(axis=0) for phase in phases]
    while len(groups) > (number or 1):
        rises = {
            (i, j): sizes[i] * sizes[j] / (sizes[i] + sizes[j]) * float(np.sum((means[i] - means[j]) ** 2))
            for j in range(len(groups))
            for i in range(j)
        }
        i, j = min(rises, key=lambda pair: rises[pair])
        if number is None and rises[i, j] > penalty:
            break
        size = sizes[i] + sizes[j]
        means[i] = (sizes[i] * means[i] + sizes[j] * means[j]) / size
        sizes[i], groups[i] = size, groups[i] + groups[j]
        del means[j], sizes[j], groups[j]
    labels = np.empty(len(phases), dtype=np.int64)
    for label, group in enumerate(groups):
        labels[group] = label
    return labels
