"""Search for the nearest of many systems: bounds and shortlists in an embedding, exact distances for few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.parallel import ONE_BLAS_THREAD, run, use_client
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_weight
from sysbags.distances import METRICS
from sysbags.distances.alignment_matrix import alignment_bounds
from sysbags.distances.certificates import transition_spectra
from sysbags.distances.embedding import EmbeddedSystems, check_embedding, embed, fit_embedding, landmark_count
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram, embedded_cross_gram, mean_term
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.tiles import Tiling
from sysbags.errors import ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.collection import check_same_space, check_systems, systems_at
from sysbags.systems.system import System

# For each neighbour that is asked for: exact distances, alignments in the embedding, and nuclear norms.
SHORTLIST, ALIGNED, BOUNDED = 2, 8, 30
COARSE = 128  # coordinates of the embedding for the first look; landmarks are in the order of their use
CHUNK = 16  # exact distances at a time, while bounds are compared
TILING = Tiling(blocks=2)  # of so few: more tiles would take longer
HALF = 6e-4  # of the squared norms: embedded observers in a library have 11 bits, an error of 2^-11 = 4.9e-4


class Neighbours(NamedTuple):
    """The nearest systems, and what it took to find them.

    Attributes
    ----------
    indices : (k,) array of int
        Which systems, the nearest first.
    distances : (k,) array
        Squared distances, exact.
    lower_bounds : (k,) array
        Certificates: no rotation gives a smaller distance than this. Of other metrics than "alignment", which
        do not search for a rotation, the distances.
    blocks : int
        For how many systems the kernel was evaluated, and an exact distance computed.
    alignments : int
        For how many systems the metric was computed, in the embedding or exactly.
    pruned : float
        The share of the systems whose exact distance was not computed.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> from sysbags.library import SystemIndex
    >>> streams, _ = make_streams(classes=2, per_class=10, frames=40, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> found = SystemIndex(systems).search(systems[7], 3)
    >>> found.indices.shape, int(found.indices[0]), float(found.distances[0].round(6))
    ((3,), 7, 0.0)
    >>> found.blocks, found.pruned  # 6 of 20 systems are compared exactly
    (6, 0.7)
    """

    indices: IntArray
    distances: Array
    lower_bounds: Array
    blocks: int
    alignments: int
    pruned: float


class SystemIndex:
    """Find the systems with the smallest distance to a system.

    All systems are embedded once. A search multiplies the embedded observers, which gives every block ``M``
    approximately, and takes fewer and fewer systems: by the Frobenius norms of the blocks in the first
    coordinates of the embedding, by their nuclear norms, by alignments in the embedding, and by exact
    distances, twice as many as there are neighbours. With ``exact=True`` the search goes on with exact
    distances in the order of lower bounds until no bound is below the largest distance that was found, which
    is provably the result of comparing with all systems.

    The lower bound of a squared distance is ``||C_1||^2 + ||C_2||^2 - 2 (||M||_* + e)``, where e is what the
    embedding may have lost of the nuclear norm, and the weighted bounds of its other parts: of the
    transitions by their spectra, and of the embedded means.

    That is for the metric "alignment". Another metric is computed in the embedding for all systems, and
    exactly for a shortlist, or with ``exact=True`` for all.

    Parameters
    ----------
    systems : sequence of System
        A list, or the systems of a `Library`, which are read when they are needed.
    embedding : StreamEmbedding, optional
        By default one of 500 landmarks is fitted to the systems. More landmarks make an exact search faster.
    embedded : EmbeddedSystems, optional
        ``embed(embedding, systems)``, if it has been computed before.
    metric : str, default="alignment"
        One of `METRICS`.
    lambda_a, lambda_mu : float, default=0.25, 0.0
        Weights of the transition and of the mean, or of what the metric has in their place.
    random_state : int, Generator or None, default=0
        For the embedding and the starts of alignments.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    client : distributed.Client, optional
        Embed the systems and evaluate kernels on the cluster of this client, and find the neighbours of all
        systems there; the result does not depend on it.

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
    >>> index
    SystemIndex(systems=59, landmarks=500, lambda_a=0.25, lambda_mu=0.0)
    >>> fast, exact = index.search(systems[0], 3), index.search(systems[0], 3, exact=True)
    >>> bool((fast.indices == exact.indices).all()), fast.blocks
    (True, 6)
    """

    def __init__(
        self,
        systems: Sequence[System],
        *,
        embedding: StreamEmbedding | None = None,
        embedded: EmbeddedSystems | None = None,
        metric: str = "alignment",
        lambda_a: float = 0.25,
        lambda_mu: float = 0.0,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        client: Any = None,
    ) -> None:
        self.systems = check_systems(systems)
        self.metric = check_choice(metric, "metric", METRICS)
        self.weights = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
        if embedding is None:
            embedding = fit_embedding(self.systems, random_state=random_state)
        self.embedding = check_embedding(embedding)
        self.random_state, self.n_jobs, self.client = random_state, n_jobs, client
        self.embedded = embedded or embed(self.embedding, self.systems, n_jobs=n_jobs, client=client)
        if len(self.embedded.observers) != len(self.systems):
            raise ParameterError(
                f"embedded has {len(self.embedded.observers)} systems, but there are {len(self.systems)}"
            )
        self._stack = SystemStack.of(self.systems)
        self._norms = self._stack.norms
        self._spectra = transition_spectra(self._stack.transition)

    def __repr__(self) -> str:
        lambda_a, lambda_mu = self.weights
        metric = "" if self.metric == "alignment" else f"metric={self.metric!r}, "
        return (
            f"SystemIndex(systems={len(self.systems)}, landmarks={landmark_count(self.embedding)}, {metric}"
            f"lambda_a={lambda_a}, lambda_mu={lambda_mu})"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what a worker of a cluster gets, which has no client of its own."""
        return {**self.__dict__, "client": None}

    def search(self, system: System, k: int = 10, *, exact: bool = False) -> Neighbours:
        """Find the `k` nearest systems, or all if there are fewer.

        With `exact`, compare with all systems that bounds do not exclude, not only with a shortlist.
        """
        (query,) = check_systems([system])
        check_same_space(self.systems, [query])
        # Products of a few rows take longer with several threads.
        with use_client(self.client), ONE_BLAS_THREAD:
            return self._search(query, embed(self.embedding, [query]), check_integer(k, "k"), exact, None)

    def neighbors_graph(self, k: int = 10) -> tuple[IntArray, Array]:
        """Find the `k` nearest of the other systems for each system, or all others if there are fewer.

        Return their places, nearest first, and their exact squared distances, both (K, k).
        """
        count = min(check_integer(k, "k"), len(self.systems) - 1)
        if count < 1:
            raise ParameterError("there is one system, but a graph of neighbours needs two")
        with use_client(self.client):
            shared, places = (self, count), range(len(self.systems))
            found = run(_neighbours, places, self.n_jobs, "neighbours", shared=shared, remote=True)
        return np.stack([each.indices for each in found]), np.stack([each.distances for each in found])

    def _search(
        self, query: System, embedded: EmbeddedSystems, k: int, exact: bool, left_out: int | None
    ) -> Neighbours:
        """Find the nearest systems to an embedded system, without one of them."""
        query_stack = SystemStack.of([query])
        others = np.delete(np.arange(len(self.systems)), [] if left_out is None else left_out)
        count = min(k, len(others))
        some = others
        if self.metric == "alignment":
            some = _smallest(self._coarse(query, embedded)[others], BOUNDED * count, others)
        gram = self._approximate(some, query_stack, embedded)
        if self.metric == "alignment":
            some, gram = _narrowed(some, gram, self._bounds(gram, some), ALIGNED * count)
        shortlist, _ = _narrowed(some, gram, self.matrix(gram), SHORTLIST * count)
        found, distances, certificates = self._exact(shortlist, query, count)
        blocks = len(shortlist)
        if exact and blocks < len(others):
            rest = np.setdiff1d(others, shortlist)
            bounds = self._safe_bounds(rest, query_stack, embedded)
            order = np.argsort(bounds, kind="stable")
            for start in range(0, len(rest), CHUNK):
                chunk = order[start : start + CHUNK]
                chunk = chunk[bounds[chunk] <= distances[-1]]
                if not len(chunk):
                    break
                more = self._exact(rest[chunk], query, count)
                blocks += len(chunk)
                merged = [
                    np.append(old, new)
                    for old, new in zip((found, distances, certificates), more, strict=True)
                ]
                best = np.lexsort((merged[0], merged[1]))[:count]
                found, distances, certificates = (values[best] for values in merged)
        alignments = len(some) + blocks
        return Neighbours(found, distances, certificates, blocks, alignments, 1.0 - blocks / len(others))

    def _bounds(self, gram: CrossGram, places: IntArray, lambda_mu: float | None = None) -> Array:
        """Return lower bounds of the distances of some systems, as far as the CrossGram is exact."""
        lambda_a, usual = self.weights
        spectra = None
        if gram.columns.transition.shape[1] == self._spectra.shape[2]:
            spectra = (self._spectra[:, places], transition_spectra(gram.columns.transition))
        return alignment_bounds(gram, lambda_a, usual if lambda_mu is None else lambda_mu, spectra=spectra)

    def matrix(self, gram: CrossGram) -> Array:
        """Return the squared distances of a CrossGram by the metric of the index."""
        lambda_a, lambda_mu = self.weights
        options: Any = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        return distance_matrix(gram, self.metric, lambda_a=lambda_a, lambda_mu=lambda_mu, **options)

    def _exact(self, places: IntArray, query: System, count: int) -> tuple[IntArray, Array, Array]:
        """Return the nearest of some systems: places, distances and certificates."""
        tiling = TILING if len(places) < len(self.systems) else None
        gram = cross_gram(systems_at(self.systems, places), [query], n_jobs=self.n_jobs, tiling=tiling)
        distances = certificates = self.matrix(gram)[:, 0]
        if self.metric == "alignment":
            certificates = np.minimum(self._bounds(gram, places)[:, 0], distances)
        best = np.lexsort((places, distances))[:count]
        return places[best], distances[best], certificates[best]

    def _coarse(self, query: System, embedded: EmbeddedSystems) -> Array:
        """Return what systems are compared by first: bounds from Frobenius norms in a few coordinates."""
        observers, own = self.embedded.observers, embedded.observers[0, :, :COARSE]
        products = observers.reshape(-1, observers.shape[2])[:, :COARSE] @ own.T
        blocks = products.reshape(len(observers), -1, len(own))
        frobenius = np.sqrt(np.einsum("kij,kij->k", blocks[:, :-1, :-1], blocks[:, :-1, :-1]))
        means = self._norms[:, 1] - 2.0 * blocks[:, -1, -1]
        return np.asarray(
            self._norms[:, 0] - 2.0 * np.sqrt(query.order) * frobenius + self.weights[1] * means
        )

    def _approximate(
        self, places: IntArray, query: SystemStack, embedded: EmbeddedSystems, *, restore: bool = True
    ) -> CrossGram:
        """Return the CrossGram of some systems with a system, in the embedding."""
        observers, stack = self.embedded.observers, self._stack
        most = 2 * len(places) > len(observers)  # then it takes longer to copy them than to multiply all
        if not most:
            observers, stack = observers[places], stack.subset(places)
        gram = embedded_cross_gram(
            observers,
            embedded.observers,
            stack,
            query,
            approximate=self.embedding.landmarks_ is not None,
            restore=restore,
        )
        return gram.subset(places) if most else gram

    def _safe_bounds(self, places: IntArray, query: SystemStack, embedded: EmbeddedSystems) -> Array:
        """Return lower bounds of the squared distances, whatever the embedding has lost.

        There are none for other metrics than "alignment".
        """
        if self.metric != "alignment":
            return np.full(len(places), -np.inf)
        weight_mu = self.weights[1]
        gram = self._approximate(places, query, embedded, restore=False)
        own, own_mean = query.norms[0]
        norms, means = self._norms[places].T
        lost = np.sqrt(self.embedded.lost[places] * norms * embedded.lost[0] * own)
        of_mean = np.sqrt(self.embedded.lost_of_mean[places] * means * embedded.lost_of_mean[0] * own_mean)
        bounds = self._bounds(gram, places, lambda_mu=0.0)[:, 0] - 2.0 * lost
        bounds += weight_mu * np.maximum(mean_term(gram)[:, 0] - 2.0 * of_mean, 0.0)
        return np.asarray(bounds - HALF * (norms + own + weight_mu * (means + own_mean)))


def _smallest(values: Array, count: int, places: IntArray) -> IntArray:
    """Return the places of the smallest values, in their order."""
    if count < len(values):
        kept = np.argpartition(values, count - 1)[:count]
        values, places = values[kept], places[kept]
    return places[np.lexsort((places, values))]


def _narrowed(places: IntArray, gram: CrossGram, values: Array, count: int) -> tuple[IntArray, CrossGram]:
    """Keep the systems with the smallest values, of those at some places."""
    kept = _smallest(values[:, 0], count, np.arange(len(places)))
    return places[kept], gram.subset(kept)


def _neighbours(place: int, index: SystemIndex, count: int) -> Neighbours:
    """Return the nearest of the other systems for the system at a place."""
    here = np.array([place])
    return index._search(systems_at(index.systems, here)[0], index.embedded.subset(here), count, False, place)
