"""Segmentation of a sequence of systems by their distances: pure functions of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.errors import ParameterError

DRAWS = 299  # of the noise: with the level 0.05 the penalty is the 15th largest gain
MOST_CHANGES = 100  # between two windows without a system; the work grows with it
ROUND_OFF = 1e-12  # of the largest eigenvalue: smaller ones are left out


def distance_features(squared: Array) -> Array:
    """Return points whose squared distances are the distances of items, the roots of the given numbers.

    The scatter of such points is that of the energy distance (Szekely and Rizzo, 2013): it needs no
    bandwidth, and items that are far from all others count by how far they are, which a bounded kernel would
    hide. For the alignment distance there need not be such points: negative eigenvalues are set to zero.

    Examples
    --------
    >>> line = np.array([0.0, 1.0, 3.0])
    >>> points = distance_features((line[:, None] - line) ** 2)
    >>> np.sum((points[:, None] - points) ** 2, axis=-1).round(3)
    array([[0., 1., 3.],
           [1., 0., 2.],
           [3., 2., 0.]])
    """
    halves = -0.5 * np.sqrt(np.maximum(squared, 0.0))
    means = halves.mean(axis=0)
    values, vectors = np.linalg.eigh(halves - means - means[:, None] + means.mean())
    values = np.maximum(values, 0.0)
    positive = values >= ROUND_OFF * values[-1]
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def change_points(features: Array, penalty: float, min_size: int = 1, reach: int | None = None) -> list[int]:
    """Divide a sequence into segments: minimise the scatter of all segments plus a penalty per change.

    Returned are the first items of all segments but the first. The scatter of a segment is the sum of the
    squared distances of its items, at least `min_size`, to their mean.
    For each number of changes, the best segmentation is found by dynamic programming (Harchaoui and Cappe,
    2007; `ruptures.KernelCPD`), and the number by the penalty. The PELT algorithm is faster but not exact
    for segments of a minimal size. A sequence that drifts slowly is divided, too, as its distant parts
    differ; with `reach`, only so many items before and after a change are compared then, and a change that
    lowers their scatter by no more than the penalty is removed, the weakest first.

    Examples
    --------
    >>> change_points(np.array([[0.0], [0.1], [5.0], [5.1], [5.0], [0.0], [0.0]]), penalty=1.0)
    [2, 5]
    >>> slope = np.linspace(0.0, 3.0, 30)[:, None]
    >>> change_points(slope, penalty=2.0), change_points(slope, penalty=2.0, reach=5)
    ([10, 20], [])
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
    changes = [int(change) for change in found[int(np.argmin(costs))]]
    return changes if reach is None else _abrupt(sums, changes, penalty, reach)


def _abrupt(sums: Array, changes: list[int], penalty: float, reach: int) -> list[int]:
    """Remove changes, the weakest first, until the items within reach show all that are left."""
    while changes:
        bounds = np.array([0, *changes, len(sums) - 1])
        middle = bounds[1:-1]
        first, last = np.maximum(bounds[:-2], middle - reach), np.minimum(bounds[2:], middle + reach)
        before, after = middle - first, last - middle
        means = [
            (sums[stop] - sums[start]) / (stop - start)[:, None]
            for start, stop in ((first, middle), (middle, last))
        ]
        gains = before * after / (before + after) * np.sum((means[1] - means[0]) ** 2, axis=1)
        weakest = int(np.argmin(gains))
        if gains[weakest] > penalty:
            break
        changes = changes[:weakest] + changes[weakest + 1 :]
    return changes


def change_penalty(
    runs: Sequence[Array],
    lag: int,
    alpha: float = 0.05,
    *,
    reach: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> float:
    """Return the penalty for which a sequence without changes is divided with a probability of `alpha`.

    Neighbours in the sequence overlap and are dependent, but an item and the `lag`-th after it are not. The
    differences of such items, divided by the root of 2, are noise with the covariance of the items, and only
    those across a change hold more than noise: few, unless there are many changes, which make the penalty
    larger. Sequences of items that do not overlap, without changes, are drawn from these differences with
    random signs. The penalty is the quantile `1 - alpha` of the largest decrease of scatter by one change,
    times `lag`, as there are so many times more items that overlap. `runs` are the parts of the sequence
    between gaps; if they are too short for a single difference, the penalty is infinite.

    Examples
    --------
    >>> noise = np.random.default_rng(0).standard_normal((200, 3))
    >>> change_points(noise, change_penalty([noise], lag=1))
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
    near = length if reach is None else max(1, reach // lag)

    def gain(draw: int) -> float:
        rng = np.random.default_rng([random_state, draw])
        chosen, signs = rng.integers(len(gram), size=length), rng.choice([-1.0, 1.0], size=length)
        return _largest_gain(gram[np.ix_(chosen, chosen)] * np.outer(signs, signs), near)

    gains = run(gain, range(DRAWS), n_jobs, "penalty")
    return float(np.quantile(gains, 1.0 - alpha, method="higher"))


def _largest_gain(gram: Array, reach: int) -> float:
    """Return the largest decrease of scatter by one change, among the items near it, from inner products."""
    count = len(gram)
    sums = np.zeros((count + 1, count + 1))
    sums[1:, 1:] = gram.cumsum(axis=0).cumsum(axis=1)
    middle = np.arange(1, count)
    first, last = np.maximum(0, middle - reach), np.minimum(count, middle + reach)
    before, after = middle - first, last - middle

    def products(a: IntArray, b: IntArray, c: IntArray, d: IntArray) -> Array:
        """Return the sums of the products of the items from a to b with those from c to d."""
        return np.asarray(sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c])

    squares = (
        products(first, middle, first, middle) / before**2 + products(middle, last, middle, last) / after**2
    )
    squares -= 2.0 * products(first, middle, middle, last) / (before * after)
    return float(np.max(before * after / (before + after) * squares, initial=0.0))


def divide(
    runs: Sequence[Array],
    lag: int,
    alpha: float = 0.05,
    *,
    reach: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> tuple[list[list[int]], float]:
    """Divide sequences at their changes, by a penalty that the changes themselves do not raise.

    Differences across a change hold more than noise and make `change_penalty` larger. So those across the
    changes that were found are left out, and it begins again, as long as more changes are found. A sequence
    in which none is found at first is not divided, so the probability of a false change remains `alpha`. The
    changes of each run, see `change_points`, and the penalty are returned.

    Examples
    --------
    >>> items = np.random.default_rng(1).standard_normal((100, 2))
    >>> items[40:] += 3.0
    >>> divide([items], lag=1)[0]
    [[40]]
    """
    found: list[list[int]] = [[] for _ in runs]
    penalty, count = float("inf"), -1
    while True:
        parts = [
            part for items, changes in zip(runs, found, strict=True) for part in np.split(items, changes)
        ]
        amount = change_penalty(parts, lag, alpha, reach=reach, random_state=random_state, n_jobs=n_jobs)
        more = [change_points(items, amount, lag, reach) for items in runs]
        if sum(map(len, more)) <= count:
            return found, penalty
        found, penalty, count = more, amount, sum(map(len, more))
        if count == 0:
            return found, penalty


def group_phases(phases: Sequence[Array], penalty: float) -> IntArray:
    """Give the same label to phases that do not differ: agglomerative clustering with Ward's criterion.

    The two groups whose union raises the scatter least are joined, as long as it rises by no more than the
    penalty: the criterion by which `change_points` divides neighbours. Labels are numbered by their first
    phase, from 0.

    Examples
    --------
    >>> low, high = np.zeros((4, 1)), np.full((3, 1), 5.0)
    >>> group_phases([low, high, low + 0.1], penalty=1.0)
    array([0, 1, 0])
    """
    groups = [[k] for k in range(len(phases))]
    sizes = [len(phase) for phase in phases]
    means = [phase.mean(axis=0) for phase in phases]
    while len(groups) > 1:
        rises = {
            (i, j): sizes[i] * sizes[j] / (sizes[i] + sizes[j]) * float(np.sum((means[i] - means[j]) ** 2))
            for j in range(len(groups))
            for i in range(j)
        }
        i, j = min(rises, key=lambda pair: rises[pair])
        if rises[i, j] > penalty:
            break
        size = sizes[i] + sizes[j]
        means[i] = (sizes[i] * means[i] + sizes[j] * means[j]) / size
        sizes[i], groups[i] = size, groups[i] + groups[j]
        del means[j], sizes[j], groups[j]
    labels = np.empty(len(phases), dtype=np.int64)
    for label, group in enumerate(groups):
        labels[group] = label
    return labels
