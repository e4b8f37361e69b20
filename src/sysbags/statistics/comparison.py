"""Which of two distances separates the classes better? Paired tests from two matrices of distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_integer, check_labels, check_matrix, seed_of
from sysbags.errors import ParameterError
from sysbags.statistics.p_values import PValue
from sysbags.statistics.validation import check_distances

__all__ = ["SCORES", "SeparationTest", "compare_distances", "sign_flip_test", "silhouette_values"]

SCORES = {"silhouette": "average silhouette", "accuracy": "leave-one-out accuracy"}
CHUNK = 1024  # sign patterns at a time
ROUNDING = 1e-10


@dataclass(frozen=True)
class SeparationTest(PValue):
    """Which of two distances separates better.

    Attributes
    ----------
    score : {"silhouette", "accuracy"}
    first, second : float
        Average score of each distance.
    p_value, exact, arrangements, resolution
        See `PValue`; arrangements are patterns of signs.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.statistics import compare_distances
    >>> good, bad = np.array([0.0, 1.0, 2.0, 9.0, 10.0, 11.0]), np.array([0.0, 9.0, 2.0, 1.0, 10.4, 11.0])
    >>> matrices = [(points[:, None] - points) ** 2 for points in (good, bad)]
    >>> test = compare_distances(*matrices, list("aaabbb"), score="accuracy")
    >>> test.score, test.first, round(test.difference, 3), test.p_value
    ('accuracy', 1.0, 0.667, 0.125)
    """

    score: str
    first: float
    second: float

    @property
    def difference(self) -> float:
        """The score of the first distance minus that of the second."""
        return self.first - self.second

    def summary(self) -> str:
        """Return the result as one sentence."""
        better = "equal" if self.first == self.second else ("lower", "higher")[self.first > self.second]
        return (
            f"The {SCORES[self.score]} of the first distance is {better}: {self.first:.4g} against "
            f"{self.second:.4g}; {self.p_text}."
        )


def compare_distances(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    score: str = "silhouette",
    sources: npt.ArrayLike | None = None,
    n_permutations: int = 9999,
    random_state: int | np.random.Generator | None = 0,
) -> SeparationTest:
    """Test which of two distances between the same systems separates their classes better.

    Each item has a score under each distance: its silhouette, or whether its nearest neighbour is of its
    class (leave-one-out, 1-NN). If both distances are equally good, the sign of the difference of an item is
    that of a fair coin, see `sign_flip_test`. The matrices are computed once, and the signs need only the
    differences.

    The scores of two items have other items in common, so the coins are not quite independent; the test is
    approximate in that respect, as McNemar's test is, which it is for the accuracy without sources.

    Parameters
    ----------
    first, second : (K, K) array_like
        Squared distances of the same systems in the same order, in any units.
    labels : (K,) array_like
        Classes, at least two.
    score : {"silhouette", "accuracy"}, default="silhouette"
    sources : (K,) array_like, optional
        Recordings that clips were cut from. An item is then compared with items of other sources only, and
        the items of a source have a common sign.
    n_permutations, random_state
        See `sign_flip_test`.

    Returns
    -------
    SeparationTest

    Examples
    --------
    >>> good, bad = np.array([0.0, 1.0, 2.0, 9.0, 10.0, 11.0]), np.array([0.0, 9.0, 2.0, 1.0, 10.4, 11.0])
    >>> matrices = [(points[:, None] - points) ** 2 for points in (good, bad)]
    >>> test = compare_distances(*matrices, list("aaabbb"), score="accuracy")
    >>> test.first, round(test.second, 3), test.p_value
    (1.0, 0.333, 0.125)
    >>> print(test.summary())
    The leave-one-out accuracy of the first distance is higher: 1 against 0.3333;
    p = 0.125 (64 arrangements, all).
    """
    check_choice(score, "score", SCORES)
    matrices = [check_distances(one, name) for one, name in ((first, "first"), (second, "second"))]
    items = len(matrices[0])
    if len(matrices[1]) != items:
        raise ParameterError(
            f"first and second have {items} and {len(matrices[1])} rows, but both must be of the same systems"
        )
    names, codes = check_labels(labels, items)
    units = np.arange(items) if sources is None else check_labels(sources, items, "sources")[1]
    if len(names) < 2 or units.max() == 0:
        raise ParameterError(
            f"the number of classes is {len(names)} and that of sources is {units.max() + 1}, but there must "
            "be at least two of each"
        )
    if score == "silhouette":
        scores = [silhouette_values(one, codes, sources=units) for one in matrices]
    else:
        others = [np.where(units[:, None] == units, np.inf, one) for one in matrices]
        scores = [(codes[one.argmin(axis=1)] == codes).astype(np.float64) for one in others]
    differences = np.bincount(units, weights=scores[0] - scores[1])
    found = sign_flip_test(differences, n_permutations=n_permutations, random_state=random_state)
    return SeparationTest(
        found.p_value, found.exact, found.arrangements, score, *(float(values.mean()) for values in scores)
    )


def sign_flip_test(
    differences: npt.ArrayLike,
    *,
    n_permutations: int = 9999,
    random_state: int | np.random.Generator | None = 0,
) -> PValue:
    """Test whether paired differences are symmetric around 0, by all patterns of signs.

    The two-sided p-value is the share of the patterns with ``|sum_i +-d_i|`` of at least ``|sum_i d_i|``.
    Whole numbers have it exactly for any number of pairs: the distribution of the sum is built up difference
    by difference. Others have it for all ``2^n`` patterns where these are at most ``n_permutations``, and for
    random ones otherwise.

    Parameters
    ----------
    differences : (n,) array_like
    n_permutations : int, default=9999
    random_state : int, Generator or None, default=0

    Returns
    -------
    PValue

    Examples
    --------
    >>> sign_flip_test([1.0, 1.0, 1.0, 0.0, 1.0, 1.0]).p_value  # McNemar's test of 5 against 0
    0.0625
    >>> sign_flip_test([0.5, 0.25, -0.1]).p_value
    0.5
    """
    values = check_matrix(differences, "differences", (None,), "a list of numbers, one for each pair")
    count = check_integer(n_permutations, "n_permutations")
    size, observed = len(values), abs(float(values.sum()))
    if np.array_equal(values, np.rint(values)) and np.abs(values).sum() <= count:
        return PValue(_integer_tail(np.abs(values).astype(np.int64).tolist(), round(observed)), True, 2**size)
    limit = observed - ROUNDING * float(np.abs(values).sum())
    exact = size < 60 and 2**size <= count
    total = 2**size if exact else count
    rng = np.random.default_rng(seed_of(random_state))
    extreme = 0
    for begin in range(0, total, CHUNK):
        patterns = np.arange(begin, min(begin + CHUNK, total))
        if exact:
            flipped = (patterns[:, None] >> np.arange(size)) & 1
        else:
            flipped = rng.integers(2, size=(len(patterns), size))
        extreme += int(np.count_nonzero(np.abs((1.0 - 2.0 * flipped) @ values) >= limit))
    if exact:
        return PValue(extreme / total, True, total)
    return PValue((1 + extreme) / (1 + count), False, 1 + count)


def _integer_tail(sizes: list[int], observed: int) -> float:
    """Return the probability of ``|sum of +-sizes| >= observed`` for fair signs."""
    width = sum(sizes)
    chances = np.zeros(2 * width + 1)
    chances[width] = 1.0
    for size in filter(None, sizes):
        chances = 0.5 * (np.roll(chances, size) + np.roll(chances, -size))
    sums = np.abs(np.arange(-width, width + 1))
    return min(1.0, float(chances[sums >= observed].sum()))


def silhouette_values(
    distances: npt.ArrayLike, labels: npt.ArrayLike, *, sources: npt.ArrayLike | None = None
) -> Array:
    """Return the silhouette of each item: how much nearer its own class is than the next one.

    With a the average distance of an item to the others of its class, and b the smallest of its average
    distances to another class, the silhouette is ``(b - a) / max(a, b)``, between -1 and 1. It is 0 for an
    item without others of its class. Distances are the roots of the squared ones.

    Parameters
    ----------
    distances : (K, K) array_like
        Squared distances.
    labels : (K,) array_like
        Classes, at least two.
    sources : (K,) array_like, optional
        Averages are over items of other sources; by default each item is one, and the values are those of
        scikit-learn's ``silhouette_samples``.

    Returns
    -------
    (K,) array

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 4.0, 5.0])
    >>> silhouette_values((points[:, None] - points) ** 2, list("aabb")).round(3).tolist()
    [0.778, 0.714, 0.714, 0.778]
    """
    roots = np.sqrt(check_distances(distances))
    names, codes = check_labels(labels, len(roots))
    if len(names) < 2:
        raise ParameterError("labels have one class, but a silhouette needs at least two")
    units = np.arange(len(roots)) if sources is None else check_labels(sources, len(roots), "sources")[1]
    allowed = (units[:, None] != units).astype(np.float64)
    member = (codes[:, None] == np.arange(len(names))).astype(np.float64)
    counts = allowed @ member
    means = np.divide((roots * allowed) @ member, counts, np.full(counts.shape, np.inf), where=counts > 0.0)
    items = np.arange(len(roots))
    own = means[items, codes]
    means[items, codes] = np.inf
    nearest = means.min(axis=1)
    defined = np.isfinite(own) & np.isfinite(nearest)
    own, nearest = np.where(defined, own, 0.0), np.where(defined, nearest, 0.0)
    larger = np.maximum(own, nearest)
    return np.asarray(np.divide(nearest - own, larger, np.zeros(len(roots)), where=larger > 0.0))
