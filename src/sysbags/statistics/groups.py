"""Do groups of systems differ? Permutation tests from a matrix of distances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import factorial, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_labels, seed_of
from sysbags.errors import ParameterError
from sysbags.statistics.p_values import PValue, check_distances, holm

CHUNK = 500  # arrangements at a time
# The same division of the items into groups has sums that differ by round-off, and must count as equal.
ROUNDING = 1e-10


@dataclass(frozen=True)
class GroupTest(PValue):
    """Whether groups differ.

    Attributes
    ----------
    value : float
        The ratio F of the spread between groups to that within groups, each per degree of freedom. Infinite
        if there is none within groups, NaN if there is none at all.
    share : float
        Share of the total spread that lies between groups; NaN if there is none at all.
    groups : tuple of str
    sizes : tuple of int
        Number of items in each group.
    p_value, exact, arrangements, resolution
        See `PValue`.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.statistics import group_test
    >>> points = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])
    >>> test = group_test((points[:, None] - points) ** 2, list("aaabbb"))
    >>> test.groups, test.sizes, round(test.share, 3), test.p_value
    (('a', 'b'), (3, 3), 0.974, 0.1)
    """

    value: float
    share: float
    groups: tuple[str, ...]
    sizes: tuple[int, ...]

    def summary(self) -> str:
        """Return the result as one sentence."""
        names = ", ".join(f"{name} ({size})" for name, size in zip(self.groups, self.sizes, strict=True))
        return (
            f"pseudo-F = {self.value:.4g} between the groups {names}, with "
            f"{100.0 * self.share:.1f} % of the spread between groups; {self.p_text}."
        )


@dataclass(frozen=True)
class PairwiseTests:
    """Which of several groups differ.

    Attributes
    ----------
    tests : tuple of GroupTest
        One for each pair of groups.
    adjusted : tuple of float
        Their p-values, corrected for the number of pairs by Holm's method.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.statistics import pairwise_group_tests
    >>> points = np.array([0.0, 1.0, 2.0, 1.5, 10.0, 11.0, 12.0, 10.5, 0.5, 1.2, 2.2, 0.8])
    >>> result = pairwise_group_tests((points[:, None] - points) ** 2, list("aaaabbbbcccc"))
    >>> [(*test.groups, p < 0.1) for test, p in zip(result.tests, result.adjusted)]
    [('a', 'b', True), ('a', 'c', False), ('b', 'c', True)]
    """

    tests: tuple[GroupTest, ...]
    adjusted: tuple[float, ...]

    def summary(self, level: float = 0.05) -> str:
        """Return the result as one sentence."""
        found = [
            f"{test.groups[0]} and {test.groups[1]} (p = {p:.4g})"
            for test, p in zip(self.tests, self.adjusted, strict=True)
            if p <= level
        ]
        return (
            f"{len(found)} of {len(self.tests)} pairs of groups differ at level {level:g}, with p-values "
            f"adjusted by holm{': ' if found else ''}{', '.join(found)}."
        )


def group_test(
    distances: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    sources: npt.ArrayLike | None = None,
    n_permutations: int = 9999,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> GroupTest:
    """Test whether two or more groups of systems differ, by permutations of their labels.

    The spread of a set of n items is ``S = sum over i < j of D_ij / n``. With ``S_W`` the sum of the spreads
    of the groups, and ``S_T`` that of all K items, the statistic for G groups is

        ``F = ((S_T - S_W) / (G - 1)) / (S_W / (K - G))``.

    This is the pseudo-F of PERMANOVA (Anderson 2001). If the groups do not differ, any arrangement of the
    labels is as likely as the one observed. The p-value counts those with an F that is at least as large.
    Where there are at most ``n_permutations`` arrangements, all are counted, otherwise random ones. F falls
    with ``S_W`` alone, so that an arrangement costs one product with the matrix.

    With two groups of the same size, both names of a division count: the smallest p-value is twice the
    resolution.

    Parameters
    ----------
    distances : (K, K) array_like
        Squared distances, see `sysbags.pairwise_distances`.
    labels : (K,) array_like
        Groups.
    sources : (K,) array_like, optional
        Recordings that clips were cut from. Clips of one source are alike for other reasons than their group,
        so they keep a common label: the labels of sources are permuted. Each source must be in one group.
    n_permutations : int, default=9999
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    GroupTest

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])
    >>> test = group_test((points[:, None] - points) ** 2, list("aaabbb"))
    >>> test.value, test.p_value, test.resolution
    (150.0, 0.1, 0.05)
    >>> print(test.summary())
    pseudo-F = 150 between the groups a (3), b (3), with 97.4 % of the spread between groups;
    p = 0.1 (20 arrangements, all).
    """
    squared = check_distances(distances)
    count = check_integer(n_permutations, "n_permutations")
    names, codes = check_labels(labels, len(squared))
    if not 1 < len(names) < len(codes):
        raise ParameterError(
            f"the number of groups in labels is {len(names)} for {len(codes)} systems, but there must be at "
            "least two groups and one with two systems"
        )
    units = _Units.of(squared, codes, sources)
    observed = float(units.within(units.codes[None])[0])
    limit = observed + ROUNDING * units.total
    total = units.arrangements()
    exact = total <= count
    seed, every = seed_of(random_state), np.array(list(units.every())) if exact else None

    def as_extreme(begin: int) -> int:
        if every is None:
            rng = np.random.default_rng([seed, begin])
            arrangements = units.shuffled(min(CHUNK, count - begin), rng)
        else:
            arrangements = every[begin : begin + CHUNK]
        return int(np.count_nonzero(units.within(arrangements) <= limit))

    chunks = range(0, total if exact else count, CHUNK)
    extreme = sum(run(as_extreme, chunks, n_jobs, "permutations"))
    between = units.total - observed
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.float64(between / (len(names) - 1)) / np.float64(observed / (len(codes) - len(names)))
        share = np.float64(between) / units.total
    return GroupTest(
        p_value=extreme / total if exact else (1 + extreme) / (1 + count),
        exact=exact,
        arrangements=total if exact else 1 + count,
        value=float(ratio),
        share=float(share),
        groups=tuple(map(str, names.tolist())),
        sizes=tuple(np.bincount(codes).tolist()),
    )


def pairwise_group_tests(
    distances: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    sources: npt.ArrayLike | None = None,
    n_permutations: int = 9999,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> PairwiseTests:
    """Test each pair of groups, with p-values corrected for the number of pairs.

    All tests take their part of one matrix of distances.

    Parameters
    ----------
    distances, labels, sources, n_permutations, random_state, n_jobs
        See `group_test`.

    Returns
    -------
    PairwiseTests

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 2.0, 1.5, 10.0, 11.0, 12.0, 10.5, 0.5, 1.2, 2.2, 0.8])
    >>> tests = pairwise_group_tests((points[:, None] - points) ** 2, list("aaaabbbbcccc"))
    >>> print(tests.summary(level=0.1))
    2 of 3 pairs of groups differ at level 0.1, with p-values adjusted by holm:
    a and b (p = 0.08571), b and c (p = 0.08571).
    """
    squared = check_distances(distances)
    names, codes = check_labels(labels, len(squared))
    units = None if sources is None else check_labels(sources, len(squared), "sources")[1]
    if len(names) < 2:
        raise ParameterError("labels have one group, but there must be at least two to compare")
    tests = []
    for pair in combinations(range(len(names)), 2):
        (chosen,) = np.nonzero(np.isin(codes, pair))
        tests.append(
            group_test(
                squared[np.ix_(chosen, chosen)],
                names[codes[chosen]],
                sources=None if units is None else units[chosen],
                n_permutations=n_permutations,
                random_state=random_state,
                n_jobs=n_jobs,
            )
        )
    return PairwiseTests(tuple(tests), tuple(holm([test.p_value for test in tests]).tolist()))


@dataclass(frozen=True, eq=False)
class _Units:
    """What labels are given to: items, or sources with all their items.

    `sums` (U, U) are those of the distances between the items of two units, `sizes` the numbers of items,
    `codes` the groups.
    """

    sums: Array
    sizes: Array
    codes: IntArray

    @classmethod
    def of(cls, between: Array, codes: IntArray, sources: Any) -> _Units:
        items = len(codes)
        names, units = (np.arange(items),) * 2 if sources is None else check_labels(sources, items, "sources")
        _, firsts = np.unique(units, return_index=True)
        mixed = np.flatnonzero(codes != codes[firsts][units])
        if mixed.size:
            raise ParameterError(
                f"the source {names[units[mixed[0]]]} has clips in more than one group, but the clips of a "
                "source keep a common label"
            )
        member = np.zeros((len(names), items))
        member[units, np.arange(items)] = 1.0
        return cls(member @ between @ member.T, member.sum(axis=1), codes[firsts])

    @property
    def total(self) -> float:
        """The spread of all items."""
        return float(self.sums.sum() / (2.0 * self.sizes.sum()))

    def within(self, arrangements: IntArray) -> Array:
        """Return the sum of the spreads of the groups for each arrangement of the labels, (B, U) to (B,)."""
        spread = np.zeros(len(arrangements))
        for code in range(int(self.codes.max()) + 1):
            chosen = (arrangements == code).astype(np.float64)
            spread += np.einsum("bu,bu->b", chosen @ self.sums, chosen) / (2.0 * (chosen @ self.sizes))
        return spread

    def arrangements(self) -> int:
        """Return the number of different arrangements of the labels."""
        return factorial(len(self.codes)) // prod(map(factorial, np.bincount(self.codes).tolist()))

    def every(self) -> Iterator[IntArray]:
        """Yield all arrangements."""
        for places in _divisions(np.arange(len(self.codes)), np.bincount(self.codes).tolist()):
            found = np.empty_like(self.codes)
            for code, chosen in enumerate(places):
                found[chosen] = code
            yield found

    def shuffled(self, count: int, rng: np.random.Generator) -> IntArray:
        """Return random arrangements, (count, U)."""
        return rng.permuted(np.tile(self.codes, (count, 1)), axis=1)


def _divisions(places: IntArray, sizes: list[int]) -> Iterator[list[IntArray]]:
    """Yield the ways to divide places into sets of these sizes."""
    if len(sizes) == 1:
        yield [places]
        return
    for chosen in combinations(range(len(places)), sizes[0]):
        rest = np.delete(places, chosen)
        for others in _divisions(rest, sizes[1:]):
            yield [places[list(chosen)], *others]
