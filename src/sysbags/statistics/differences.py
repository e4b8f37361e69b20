"""How far are two groups of systems apart? A bootstrap interval from a matrix of distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_labels, check_share, seed_of
from sysbags.errors import ParameterError
from sysbags.statistics.p_values import check_distances

CHUNK = 500  # resamples at a time
FEWEST = 3  # sources in each group: of two, half of the resamples would have one of them alone


@dataclass(frozen=True)
class DifferenceInterval:
    """How far two groups are apart.

    Attributes
    ----------
    difference : float
        The squared distance between the groups, without the spread within them.
    low, high : float
        Its confidence interval.
    level : float
    resamples : int
    groups : tuple of two str

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.statistics import difference_interval
    >>> points = np.array([0.0, 1.0, 2.0, 1.0, 10.0, 11.0, 12.0, 11.0])
    >>> interval = difference_interval((points[:, None] - points) ** 2, list("aaaabbbb"))
    >>> interval.low < 100.0 < interval.high, interval.level, interval.groups
    (True, 0.95, ('a', 'b'))
    """

    difference: float
    low: float
    high: float
    level: float
    resamples: int
    groups: tuple[str, str]

    def summary(self) -> str:
        """Return the result as one sentence."""
        return (
            f"The squared distance between the groups {self.groups[0]} and {self.groups[1]} is "
            f"{self.difference:.4g}, {100.0 * self.level:g} % interval {self.low:.4g} to {self.high:.4g} "
            f"({self.resamples} resamples)."
        )


def difference_interval(
    distances: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    sources: npt.ArrayLike | None = None,
    level: float = 0.95,
    n_resamples: int = 9999,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> DifferenceInterval:
    """Estimate how far two groups are apart, with a bootstrap confidence interval.

    The difference is the average squared distance between items of different groups, minus half of that
    between two items of the first group, and half of that of the second. In a Euclidean space this is the
    squared distance between the two means, without bias; it may be negative for groups that do not differ.

    Each resample draws the sources of a group with replacement. A source that is drawn w times has weight w,
    and pairs of items from one source are left out everywhere, of copies as well as of clips: their
    distances would be too small. Resamples with fewer than two sources in a group are drawn again. The
    interval is that of percentiles. The distances are computed once; a resample costs three weighted sums.

    The interval is for the size of a difference. For small groups that do not differ, it is too narrow on
    the side of 0: use `group_test` to find out whether they differ.

    Parameters
    ----------
    distances : (K, K) array_like
        Squared distances, see `sysbags.pairwise_distances`.
    labels : (K,) array_like
        Two groups, each with at least three items, or items of at least three sources.
    sources : (K,) array_like, optional
        Recordings that clips were cut from, which are drawn as a whole; by default each item is one. If a
        source has items in both groups, all sources are drawn together.
    level : float, default=0.95
    n_resamples : int, default=9999
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    DifferenceInterval

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 2.0, 1.0, 10.0, 11.0, 12.0, 11.0])
    >>> found = difference_interval((points[:, None] - points) ** 2, list("aaaabbbb"))
    >>> round(found.difference, 3)  # the means are 10 apart; each is known up to a variance of 1 / 6
    99.667
    >>> found.low < 100.0 < found.high
    True
    """
    squared = check_distances(distances)
    names, codes = check_labels(labels, len(squared))
    share = check_share(level, "level", low="(", high=")")
    count = check_integer(n_resamples, "n_resamples")
    if len(names) != 2:
        raise ParameterError(f"the number of groups in labels is {len(names)}, but it must be 2")
    items = np.arange(len(codes))
    units = items if sources is None else check_labels(sources, len(codes), "sources")[1]
    present = np.zeros((2, int(units.max()) + 1), dtype=bool)
    present[codes, units] = True
    counts = present.sum(axis=1)
    if counts.min() < FEWEST:
        kind = ("item" if sources is None else "source") + "s" * int(counts.min() > 1)
        raise ParameterError(
            f"the group {names[counts.argmin()]} has {counts.min()} {kind}, but resampling needs at least "
            f"{FEWEST} in each group"
        )
    blocks = _block_sums(squared, codes, units)
    observed = _differences(*blocks, np.ones((1, present.shape[1])))[0]
    seed = seed_of(random_state)

    def resample(begin: int) -> Array:
        drawn = _resampled(present, min(CHUNK, count - begin), np.random.default_rng([seed, begin]))
        return _differences(*blocks, drawn)

    found = run(resample, range(0, count, CHUNK), n_jobs, "resamples")
    tail = (1.0 - share) / 2.0
    low, high = np.quantile(np.concatenate(found), [tail, 1.0 - tail])
    first, second = map(str, names.tolist())
    return DifferenceInterval(float(observed), float(low), float(high), share, count, (first, second))


def _block_sums(squared: Array, codes: IntArray, units: IntArray) -> tuple[Array, Array]:
    """Return sums of distances and numbers of pairs between sources, for the groups aa, bb, ab: (3, U, U)."""
    member = np.zeros((2, int(units.max()) + 1, len(codes)))
    member[codes, units, np.arange(len(codes))] = 1.0
    pairs = ((0, 0), (1, 1), (0, 1))
    sums = np.stack([member[i] @ squared @ member[j].T for i, j in pairs])
    sizes = member.sum(axis=2)
    counts = np.stack([np.outer(sizes[i], sizes[j]) for i, j in pairs])
    for part in (*sums, *counts):
        np.fill_diagonal(part, 0.0)
    return sums, counts


def _differences(sums: Array, counts: Array, weights: Array) -> Array:
    """Return the difference for each row of weights of the sources."""
    first, second, between = (
        np.einsum("bu,bu->b", weights @ total, weights) / np.einsum("bu,bu->b", weights @ number, weights)
        for total, number in zip(sums, counts, strict=True)
    )
    return np.asarray(between - 0.5 * first - 0.5 * second)


def _resampled(present: npt.NDArray[np.bool_], count: int, rng: np.random.Generator) -> Array:
    """Return how often each source is drawn, (count, U)."""
    # Sources of one group are drawn for that group. Where some are in both, all have to be drawn together.
    sets = (
        [np.arange(present.shape[1])] if present.all(axis=0).any() else [np.flatnonzero(p) for p in present]
    )
    weights = np.zeros((count, present.shape[1]))
    todo = np.arange(count)
    while todo.size:
        for own in sets:
            weights[np.ix_(todo, own)] = rng.multinomial(
                len(own), np.full(len(own), 1.0 / len(own)), todo.size
            )
        different = (weights[todo] > 0.0).astype(np.float64) @ present.T
        todo = todo[different.min(axis=1) < 2]
    return weights
