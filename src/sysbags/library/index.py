"""Search for the nearest of many systems: bounds and shortlists in an embedding, exact distances for few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_weight
from sysbags.distances.alignment_matrix import alignment_matrix, mean_term
from sysbags.distances.embedding import EmbeddedSystems, Embedding
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.systems.system import System
from sysbags.systems.validation import check_same_space, check_systems

__all__ = ["Neighbours", "SystemIndex"]

SHORTLIST = 2  # exact distances for each neighbour that is asked for
ALIGNED = 10  # alignments in the embedding for each exact distance
CHUNK = 16  # exact distances at a time, while bounds are compared
ROUND_OFF = 1e-5  # of the squared norms: embedded observers have 24 bits


class Neighbours(NamedTuple):
    """The nearest systems, and what it took to find them.

    Attributes
    ----------
    indices : (k,) array of int
        Which systems, the nearest first.
    distances : (k,) array
        Squared alignment distances, exact.
    blocks : int
        For how many systems the kernel was evaluated.
    """

    indices: IntArray
    distances: Array
    blocks: int


class SystemIndex:
    """Find the systems with the smallest alignment distance to a system.

    All systems are embedded once. A search multiplies the embedded observers, which gives every block ``M``
    approximately, and then

    * by default aligns the most promising systems in the embedding and computes exact distances for the
      best of those, twice as many as are asked for;
    * with ``exact=True`` computes exact distances in the order of lower bounds until no bound is below the
      largest distance that was found, which is provably the result of comparing with all systems.

    The lower bound of a squared distance is ``||C_1||^2 + ||C_2||^2 - 2 (||M||_* + e)``, where e is what the
    embedding may have lost of the nuclear norm, and the weighted bounds of its other parts: the squared
    differences of the singular values of the transitions, and of the embedded means.

    Parameters
    ----------
    systems : sequence of System
    embedding : Embedding, optional
        By default one of 500 landmarks is fitted to the systems.
    lambda_a, lambda_mu : float, default=0.25, 0.0
        Weights of the transition and of the mean.
    random_state : int, Generator or None, default=0
        For the embedding and the starts of alignments.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Attributes
    ----------
    embedded : EmbeddedSystems
        The systems in the embedding, with what it loses of each.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, _ = make_streams(classes=3, per_class=20, frames=40, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> index = SystemIndex(systems[1:])
    >>> fast, exact = index.search(systems[0], 3), index.search(systems[0], 3, exact=True)
    >>> bool((fast.indices == exact.indices).all()), fast.blocks
    (True, 6)
    """

    def __init__(
        self,
        systems: Sequence[System],
        *,
        embedding: Embedding | None = None,
        lambda_a: float = 0.25,
        lambda_mu: float = 0.0,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.systems = check_systems(systems)
        self.weights = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
        self.embedding = embedding or Embedding.fit(self.systems, random_state=random_state)
        self.random_state, self.n_jobs = random_state, n_jobs
        self._stack = SystemStack.of(self.systems)
        self._singular = np.linalg.svd(self._stack.transition, compute_uv=False)
        self.embedded = self.embedding.transform(self.systems, n_jobs=n_jobs)

    def search(self, system: System, k: int = 10, *, exact: bool = False) -> Neighbours:
        """Find the nearest systems.

        Parameters
        ----------
        system : System
        k : int, default=10
            How many; at most as many as there are.
        exact : bool, default=False
        """
        (query,) = check_systems([system])
        check_same_space(self.systems, [query])
        count = min(check_integer(k, "k"), len(self.systems))
        embedded = self.embedding.transform([query])
        gram = self._approximate(query, embedded)
        bounds = self._bounds(gram, query, embedded, safe=exact)
        order = np.argsort(bounds, kind="stable")
        if exact:
            return self._nearest(query, order, bounds, count)
        some = order[: ALIGNED * SHORTLIST * count]
        aligned = self._aligned(gram.subset(some))
        shortlist = some[np.argsort(aligned, kind="stable")[: SHORTLIST * count]]
        return self._nearest(query, shortlist, None, count)

    def _aligned(self, gram: CrossGram) -> Array:
        """Return the squared alignment distances to the only column of a CrossGram."""
        options: Any = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        return alignment_matrix(gram, *self.weights, **options)[:, 0]

    def _nearest(self, query: System, order: IntArray, bounds: Array | None, count: int) -> Neighbours:
        """Return the nearest of some systems by exact distances; stop where bounds allow no nearer one."""
        found, distances, blocks = np.empty(0, dtype=np.int64), np.empty(0), 0
        step = len(order) if bounds is None else CHUNK
        for start in range(0, len(order), step):
            some = order[start : start + step]
            if bounds is not None and len(found) == count and bounds[some[0]] > distances[-1]:
                break
            gram = cross_gram([self.systems[i] for i in some], [query], n_jobs=self.n_jobs)
            found, distances = np.append(found, some), np.append(distances, self._aligned(gram))
            best = np.lexsort((found, distances))[:count]
            found, distances, blocks = found[best], distances[best], blocks + len(some)
        return Neighbours(found, distances, blocks)

    def _approximate(self, query: System, embedded: EmbeddedSystems) -> CrossGram:
        """Return the CrossGram with a system, in the embedding."""
        products = np.tensordot(self.embedded.observers, embedded.observers[0], axes=(2, 1))
        return CrossGram(
            products[:, None, :-1, :-1].astype(np.float64),
            products[:, -1:, -1].astype(np.float64),
            self._stack,
            SystemStack.of([query]),
            symmetric=False,
        )

    def _bounds(self, gram: CrossGram, query: System, embedded: EmbeddedSystems, *, safe: bool) -> Array:
        """Return lower bounds of the squared distances; not `safe`, as if the embedding lost nothing."""
        weight, weight_mu = self.weights
        norms, own = (
            np.trace(self._stack.observer_gram, axis1=1, axis2=2),
            float(np.trace(query.observer_gram)),
        )
        nuclear = np.linalg.svd(gram.observer[:, 0], compute_uv=False).sum(axis=1)
        lost = np.sqrt(self.embedded.lost * norms * embedded.lost[0] * own)
        of_mean = np.sqrt(self.embedded.lost_of_mean * gram.rows.mean_norm * embedded.lost_of_mean[0])
        of_mean *= np.sqrt(query.mean_norm)
        n = max(self._singular.shape[1], query.order)
        singular = np.zeros((2, len(norms), n))
        singular[0, :, : self._singular.shape[1]] = self._singular
        singular[1, :, : query.order] = np.linalg.svd(query.transition, compute_uv=False)
        parts = norms + own - 2.0 * (nuclear + safe * lost)
        parts += weight * ((singular[0] - singular[1]) ** 2).sum(axis=1)
        parts += weight_mu * np.maximum(mean_term(gram)[:, 0] - 2.0 * safe * of_mean, 0.0)
        unit = norms + own + weight_mu * (gram.rows.mean_norm + query.mean_norm)
        return np.asarray(parts - safe * ROUND_OFF * unit)
