"""Which of two distances separates the classes better? Paired tests from two matrices of distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_integer, check_labels, seed_of
from sysbags.errors import ParameterError
from sysbags.statistics.p_values import PValue, check_distances

CHUNK = 1024  # sign patterns at a time
ROUNDING = 1e-10


@dataclass(frozen=True)
class SeparationTest(PValue):
    """Which of two distances separates better.

    Attributes
    ----------
    first, second : float
        Average silhouette by each distance.
    p_value, exact, arrangements, resolution
        See `PValue`; arrangements are patterns of signs.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.statistics import compare_distances
    >>> good, bad = np.array([0.0, 1.0, 2.0, 9.0, 10.0, 11.0]), np.array([0.0, 9.0, 2.0, 1.0, 10.4, 11.0])
    >>> matrices = [(points[:, None] - points) ** 2 for points in (good, bad)]
    >>> test = compare_distances(*matrices, list("aaabbb"))
    >>> round(test.first, 3), round(test.difference, 3), test.p_value
    (0.85, 0.87, 0.03125)
    """

    first: float
    second: float

    @property
    def difference(self) -> float:
        """The silhouette by the first distance minus that by the second."""
        return self.first - self.second

    def summary(self) -> str:
        """Return the result as one sentence."""
        better = "equal" if self.first == self.second else ("lower", "higher")[self.first > self.second]
        return (
            f"The average silhouette of the first distance is {better}: {self.first:.4g} against "
            f"{self.second:.4g}; {self.p_text}."
        )


def compare_distances(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    sources: npt.ArrayLike | None = None,
    n_permutations: int = 9999,
    random_state: int | np.random.Generator | None = 0,
) -> SeparationTest:
    """Test which of two distances between the same systems separates their classes better.

    Each item has a silhouette by each distance. If both distances are equally good, the sign of the
    difference of an item is that of a fair coin. The p-value is two-sided: the share of the patterns of signs
    with ``|sum_i +-d_i|`` of at least ``|sum_i d_i|``, counted for all of them where these are at most
    ``n_permutations``, and for random ones otherwise.

    The silhouettes of two items have other items in common, so the coins are not quite independent; the test
    is approximate in that respect, as McNemar's test is.

    Parameters
    ----------
    first, second : (K, K) array_like
        Squared distances of the same systems in the same order, in any units.
    labels : (K,) array_like
        Classes, at least two.
    sources : (K,) array_like, optional
        Recordings that clips were cut from. An item is then compared with items of other sources only, and
        the items of a source have a common sign.
    n_permutations : int, default=9999
    random_state : int, Generator or None, default=0

    Returns
    -------
    SeparationTest

    Examples
    --------
    >>> good, bad = np.array([0.0, 1.0, 2.0, 9.0, 10.0, 11.0]), np.array([0.0, 9.0, 2.0, 1.0, 10.4, 11.0])
    >>> matrices = [(points[:, None] - points) ** 2 for points in (good, bad)]
    >>> print(compare_distances(*matrices, list("aaabbb")).summary())
    The average silhouette of the first distance is higher: 0.8505 against -0.01949;
    p = 0.03125 (64 arrangements, all).
    """
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
    scores = [silhouette_values(one, codes, sources=units) for one in matrices]
    differences: Array = np.bincount(units, weights=scores[0] - scores[1]).astype(np.float64)
    found = sign_flip_test(differences, n_permutations, random_state)
    return SeparationTest(
        found.p_value, found.exact, found.arrangements, *(float(values.mean()) for values in scores)
    )


def sign_flip_test(
    differences: Array, n_permutations: int, random_state: int | np.random.Generator | None = 0
) -> PValue:
    """Test whether paired differences are symmetric around 0, see `compare_distances`."""
    count = check_integer(n_permutations, "n_permutations")
    size = len(differences)
    limit = abs(float(differences.sum())) - ROUNDING * float(np.abs(differences).sum())
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
        extreme += int(np.count_nonzero(np.abs((1.0 - 2.0 * flipped) @ differences) >= limit))
    if exact:
        return PValue(extreme / total, True, total)
    return PValue((1 + extreme) / (1 + count), False, 1 + count)


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
