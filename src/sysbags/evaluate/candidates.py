"""Candidates: ways to predict the class of every item without its own group, and without one more.

A candidate is called with None or with a group g, and returns the class code of every item, worked out from
items that are not in its own group and not in g either. So `nested` can choose between candidates for g
by how they do on the other items, without g having a part in it. What it returns for the items of g
themselves is then meaningless. Where nobody is left to compare with, the code is -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_weight
from sysbags._numba.alignment import align_many
from sysbags.distances.gram import CrossGram
from sysbags.distances.pairwise import alignment_matrix
from sysbags.distances.starts import start_tables
from sysbags.errors import ParameterError
from sysbags.evaluate._nearest import Candidate, Centres, Measure, finite, neighbours
from sysbags.evaluate._vectors import VECTOR_CLASSIFIERS, vectors
from sysbags.evaluate.distances import mean_term
from sysbags.means.frechet import mean_gram, mean_of_gram

__all__ = ["VECTOR_CLASSIFIERS", "Candidate", "Means", "by_codebook_fold", "medoids", "neighbours", "vectors"]


def medoids(distances: Array, codes: IntArray, groups: IntArray) -> Candidate:
    """Predict the class whose medoid is nearest.

    Parameters
    ----------
    distances : (K, K) array
        Of items (rows) to items.
    codes, groups : (K,) array of int
        Class and group of each item.

    Returns
    -------
    Candidate

    Examples
    --------
    >>> import numpy as np
    >>> places = np.array([0.0, 1.0, 5.0, 10.0, 11.0, 13.0])
    >>> predict = medoids(np.abs(places[:, None] - places), np.array([0, 0, 0, 1, 1, 1]), np.arange(6))
    >>> predict(None)
    array([0, 0, 0, 1, 1, 1])
    """
    between = finite(distances, codes)

    def make(members: IntArray) -> Measure:
        centre = members[between[np.ix_(members, members)].sum(axis=1).argmin()]
        return lambda items: between[items, centre, None]

    return Centres(codes, groups, make).nearest()


class Means:
    """Predict the class whose Frechet mean is nearest in the alignment distance, for any `lambda_mu`.

    Neither the means nor the rotations depend on `lambda_mu`: one pass serves all its values. Every mean
    starts from the medoid of its own members, so that nothing of what is left out has a part in it.

    Parameters
    ----------
    gram : CrossGram
        Of one collection with itself.
    codes, groups : (K,) array of int
        Class and group of each item.
    lambda_a : float
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> codes = np.unique(labels, return_inverse=True)[1]
    >>> means = Means(gram, codes, np.arange(8), lambda_a=0.25)
    >>> means.at(0.0)(None).shape, means.at(10.0)(3).shape
    ((8,), (8,))
    """

    def __init__(
        self,
        gram: CrossGram,
        codes: IntArray,
        groups: IntArray,
        lambda_a: float,
        *,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        if not gram.symmetric:
            raise ParameterError(
                "means need the CrossGram of one collection with itself: cross_gram(systems)"
            )
        weight, seed = check_weight(lambda_a, "lambda_a"), seed_of(random_state)
        between = np.zeros(gram.mean.shape)
        for c in np.unique(codes):
            own = np.flatnonzero(codes == c)
            between[np.ix_(own, own)] = alignment_matrix(
                gram.subset(own), weight, random_state=seed, n_jobs=n_jobs
            )

        def make(members: IntArray) -> Measure:
            part, centre = gram.subset(members), int(between[np.ix_(members, members)].sum(axis=1).argmin())
            mean = mean_of_gram(part, weight, start=_rotations(part, centre, weight, seed), random_state=seed)

            def measure(items: IntArray) -> Array:
                blocks = mean_gram(gram.subset(members, items), [np.arange(len(members))], [mean])
                aligned = alignment_matrix(blocks, weight, random_state=seed)
                return np.column_stack([aligned[0], mean_term(blocks)[0]])

            return measure

        self._centres = Centres(codes, groups, make, terms=2, n_jobs=n_jobs)

    def distances(self, group: int | None) -> Array:
        """Squared distances (K, C, 2) to the means: what `lambda_mu` does not weigh, and what it does.

        Infinite to classes of which nobody is left without the item's own group and the further one.
        """
        return self._centres.distances(group)

    def at(self, lambda_mu: float) -> Candidate:
        """Return the candidate for one weight of the mean."""
        return self._centres.nearest((1.0, check_weight(lambda_mu, "lambda_mu")))


def _rotations(gram: CrossGram, centre: int, lambda_a: float, seed: int) -> Array:
    """Rotations of all systems onto one of them, as `mean_of_gram` starts from, its distances known."""
    n = int(gram.rows.orders.max())
    A, M = (np.ascontiguousarray(x[:, :n, :n]) for x in (gram.rows.transition, gram.observer[centre]))
    rotations = np.empty_like(A)
    pairs = np.column_stack([np.full(len(A), centre), np.arange(len(A))])
    align_many(A, A, M, pairs, lambda_a, *start_tables(n, None, seed), np.empty(len(A)), rotations)
    return rotations


def by_codebook_fold(
    candidates: Sequence[Candidate], codebook_folds: IntArray, groups: IntArray
) -> Candidate:
    """Judge each item by what was learnt without its third, for descriptions that need a codebook.

    Parameters
    ----------
    candidates : sequence of three Candidate
        Number k is of items that are described by the codebook learnt without third k.
    codebook_folds : (K,) array of int
        0, 1 or 2; see `sysbags.evaluate.protocols.codebook_folds`.
    groups : (K,) array of int
        None of them is in two folds.

    Returns
    -------
    Candidate
        For None each item is judged by the candidate of its own third; for a group g all items by the
        candidate of g's third, which knows nothing of g.

    Examples
    --------
    >>> import numpy as np
    >>> constant = [lambda group, k=k: np.full(4, k) for k in range(3)]
    >>> predict = by_codebook_fold(constant, np.array([2, 0, 1, 1]), np.array([0, 1, 2, 2]))
    >>> predict(None), predict(2)
    (array([2, 0, 1, 1]), array([1, 1, 1, 1]))
    """
    if len(candidates) != 3:
        raise ParameterError(f"there are {len(candidates)} candidates, but there must be one for each third")
    third_of = {int(group): np.unique(codebook_folds[groups == group]) for group in np.unique(groups)}
    for group, parts in third_of.items():
        if len(parts) > 1:
            raise ParameterError(f"group {group} is in two codebook folds, but each group must be in one")

    def predict(group: int | None) -> IntArray:
        if group is None:
            return np.choose(codebook_folds, [candidate(None) for candidate in candidates])
        return candidates[int(third_of[group][0])](group)

    return predict
