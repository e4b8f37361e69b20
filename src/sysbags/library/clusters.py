"""Clusters of the systems of an index: k-medoids, and k-means with Frechet means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from sysbags._common.parallel import ONE_BLAS_THREAD, run
from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_matrix
from sysbags.distances.alignment_matrix import alignment_matrix, alignment_rotations
from sysbags.distances.gram import SystemStack
from sysbags.distances.pairwise import pairwise_distances
from sysbags.distances.projection import EmbeddedStack
from sysbags.errors import ParameterError
from sysbags.library.index import SystemIndex
from sysbags.systems.system import System

__all__ = ["Clusters", "Medoids", "k_means", "k_medoids", "k_medoids_of"]

STARTS = 10  # of k-medoids: the distances take much longer than the search
ROUND_OFF = 1e-12  # of the objective: a swap that gains less could be undone by the next
BLOCK = 256  # systems that are compared with the centers at a time
MEAN_ITERATIONS = 100
TOLERANCE = 1e-6  # of the squared norms: embedded observers have 24 bits
VANISHING = 1e-6  # of the largest singular value: in such a direction the observers of a mean cancel


@dataclass(frozen=True, eq=False, kw_only=True)
class Clusters:
    """The result of `k_means` and `k_medoids`.

    Attributes
    ----------
    labels : (K,) array of int
        The cluster of each system, from 0.
    centers : list of System
        One per cluster. A Frechet mean has the landmarks of the embedding as its samples.
    medoids : (k,) array of int or None
        For k-medoids: which systems are the centers.
    distances : (K,) array
        The squared distance of each system to its center.
    history : array
        The objective at the start and after each iteration; it does not increase but for round-off.
    converged : bool
        Whether the last iteration changed nothing.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> from sysbags.library import SystemIndex, k_medoids
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8, noise=0.1)
    >>> index = SystemIndex([sysbags.identify(stream, order=4) for stream in streams], lambda_a=10.0)
    >>> clusters = k_medoids(index, 2)
    >>> clusters.labels.shape, len(clusters.centers), clusters.converged
    ((8,), 2, True)
    >>> clusters.distances[clusters.medoids].round(6)
    array([0., 0.])
    """

    labels: IntArray
    centers: list[System]
    medoids: IntArray | None
    distances: Array
    history: Array
    converged: bool

    @property
    def objective(self) -> float:
        """The sum of the squared distances."""
        return float(self.distances.sum())


class Medoids(NamedTuple):
    """The result of `k_medoids_of`; see `Clusters`."""

    medoids: IntArray
    labels: IntArray
    history: Array
    converged: bool


def k_medoids(
    index: SystemIndex, n_clusters: int, *, max_iterations: int = 100, random_state: Any = 0
) -> Clusters:
    """Choose the systems that minimise the sum of squared distances of all systems to the nearest of them.

    Distances are those of the index's embedding: no kernel between two systems is evaluated. All of them are
    computed, so that time and memory grow with the square of the number of systems; `k_means` has no such
    limit. FasterPAM (Schubert and Rousseeuw, 2021) then swaps medoids until no swap lowers the sum.

    Parameters
    ----------
    index : SystemIndex
    n_clusters : int
    max_iterations : int, default=100
    random_state : int, Generator or None, default=0
        For the first medoids.

    Returns
    -------
    Clusters

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8, noise=0.1)
    >>> index = SystemIndex([sysbags.identify(stream, order=4) for stream in streams], lambda_a=10.0)
    >>> clusters = k_medoids(index, 2)
    >>> sorted(clusters.labels[clusters.medoids].tolist()), clusters.centers[0]
    ([0, 1], System(order=4, size=40, bag_length=8, kernel='chi2'))
    """
    count = _check_count(index, n_clusters)
    lambda_a, lambda_mu = index.weights
    squared = pairwise_distances(
        index.systems,
        lambda_a=lambda_a,
        lambda_mu=lambda_mu,
        embedding=index.embedding,
        random_state=index.random_state,
        n_jobs=index.n_jobs,
    )
    found = k_medoids_of(squared, count, max_iterations=max_iterations, random_state=random_state)
    return Clusters(
        labels=found.labels,
        centers=[index.systems[place] for place in found.medoids.tolist()],
        medoids=found.medoids,
        distances=squared[np.arange(len(squared)), found.medoids[found.labels]],
        history=found.history,
        converged=found.converged,
    )


def k_medoids_of(
    distances: Any, n_clusters: int, *, max_iterations: int = 100, random_state: Any = 0
) -> Medoids:
    """Choose the items that minimise the sum of the distances of all items to the nearest of them.

    FasterPAM (Schubert and Rousseeuw, 2021): each item in turn replaces the medoid for which that lowers the
    sum most, if any, until no such swap lowers it. The first medoids are drawn as in k-means++; of ten such
    starts the best result is returned.

    Parameters
    ----------
    distances : (K, K) array_like
        From each item (row) to each (column), 0 to itself.
    n_clusters : int
    max_iterations : int, default=100
        How often all items are tried.
    random_state : int, Generator or None, default=0
        For the first medoids.

    Returns
    -------
    Medoids

    Examples
    --------
    >>> points = np.array([0.0, 1.0, 2.0, 10.0, 11.0, 15.0])
    >>> found = k_medoids_of(abs(points[:, None] - points), 2)
    >>> found.medoids, found.labels, float(found.history[-1]), found.converged
    (array([1, 4]), array([0, 0, 0, 1, 1, 1]), 7.0, True)
    """
    squared = check_matrix(distances, "distances", (None, None), "a square (K, K) array")
    if squared.shape[0] != squared.shape[1]:
        raise ParameterError(f"distances has shape {squared.shape}, but it must be a square (K, K) array")
    if squared.min() < 0.0 or np.diagonal(squared).any():
        raise ParameterError("distances must be 0 or more, and 0 from each item to itself")
    count = _check_number(n_clusters, len(squared))
    rounds = check_integer(max_iterations, "max_iterations")
    rng = np.random.default_rng(seed_of(random_state))
    starts = [_seeds(len(squared), count, lambda places: squared[:, places], rng) for _ in range(STARTS)]
    return min((_swapped(squared, start, rounds) for start in starts), key=lambda found: found.history[-1])


def _swapped(distances: Array, medoids: IntArray, rounds: int) -> Medoids:
    """Swap medoids with other items, from some medoids, until that gains nothing."""
    medoids = np.sort(medoids)
    labels, first, second = _two_nearest(distances, medoids)
    history, converged = [float(first.sum())], False
    while not converged and len(history) <= rounds:
        converged = True
        for item in np.setdiff1d(np.arange(len(distances)), medoids).tolist():
            # Without its medoid, what is nearer to its second nearest than to the item goes there.
            to_item = distances[:, item]
            nearer = np.minimum(to_item, first)
            lost = np.bincount(labels, np.minimum(to_item, second) - nearer, len(medoids))
            place = int(lost.argmin())
            if lost[place] + nearer.sum() < (1.0 - ROUND_OFF) * first.sum():
                medoids[place], converged = item, False
                labels, first, second = _two_nearest(distances, medoids)
        history.append(float(first.sum()))
    order = np.argsort(medoids)
    return Medoids(medoids[order], np.argsort(order)[labels], np.array(history), converged)


def _two_nearest(distances: Array, medoids: IntArray) -> tuple[IntArray, Array, Array]:
    """Return the nearest medoid of each item, its distance, and that of the second nearest."""
    rows, to_medoids = np.arange(len(distances)), distances[:, medoids]
    labels = to_medoids.argmin(axis=1)
    labels[medoids] = np.arange(len(medoids))  # not another medoid that is equal
    first = to_medoids[rows, labels]
    to_medoids[rows, labels] = np.inf
    return labels, first, to_medoids.min(axis=1)


def k_means(
    index: SystemIndex, n_clusters: int, *, max_iterations: int = 100, random_state: Any = 0
) -> Clusters:
    """Minimise the sum of the squared alignment distances of systems to the nearest of some centers.

    Two steps alternate (Lloyd): each center becomes the Frechet mean of its cluster (`eq:klds_avg`), and each
    system goes to the nearest center. The first centers are drawn by k-means++; an empty cluster gets the
    system that is farthest from its center. The result is a local minimum.

    Observers and means of the centers are in the span of the embedding's landmarks. So the distances to them
    are exact, up to the rounding of embedded systems to float32, but no kernel is evaluated, and time and
    memory grow in proportion to the number of systems.

    Parameters
    ----------
    index : SystemIndex
    n_clusters : int
    max_iterations : int, default=100
    random_state : int, Generator or None, default=0
        For the first centers.

    Returns
    -------
    Clusters

    Notes
    -----
    Where systems have different orders, a center keeps the order of the system that it started from: for the
    largest order of its cluster, as in `frechet_mean`, the objective could increase.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> from sysbags.library import Embedding
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8, noise=0.1)
    >>> systems = [sysbags.identify(stream, order=4) for stream in streams]
    >>> index = SystemIndex(systems, embedding=Embedding.fit(systems, 30), lambda_a=10.0)
    >>> clusters = k_means(index, 2)
    >>> clusters.centers[0], clusters.converged
    (System(order=4, size=30, bag_length=8, kernel='chi2'), True)
    """
    count = _check_count(index, n_clusters)
    rounds = check_integer(max_iterations, "max_iterations")
    rng = np.random.default_rng(seed_of(random_state))
    with ONE_BLAS_THREAD:
        return _Lloyd(index).clusters(count, rounds, rng)


class _Lloyd:
    """The two steps of k-means for the systems of an index; a center is an EmbeddedStack of one system."""

    def __init__(self, index: SystemIndex) -> None:
        self.index = index
        self.stack = EmbeddedStack(index.embedding, SystemStack.of(index.systems), index.embedded.observers)
        self.options: Any = {"random_state": seed_of(index.random_state), "n_jobs": index.n_jobs}

    def clusters(self, count: int, rounds: int, rng: np.random.Generator) -> Clusters:
        """Alternate between the two steps."""

        def to_systems(places: IntArray) -> Array:
            return self.distances([self.alone(place) for place in places.tolist()])

        seeds = _seeds(len(self.index.systems), count, to_systems, rng)
        centers = [self.alone(place) for place in seeds.tolist()]
        labels, own = self.assigned(centers)
        history, converged = [float(own.sum())], False
        while not converged and len(history) <= rounds:
            before = labels
            centers = run(self.mean, range(count), self.index.n_jobs, "means", shared=(before, centers))
            labels, own = self.assigned(centers)
            history.append(float(own.sum()))
            converged = bool((labels == before).all())
        return Clusters(
            labels=labels,
            centers=[self.system(center) for center in centers],
            medoids=None,
            distances=own,
            history=np.array(history),
            converged=converged,
        )

    def distances(self, centers: Sequence[EmbeddedStack]) -> Array:
        """Return the squared distances of all systems to centers."""
        names = ("orders", "transition", "observer_gram", "mean_norm")
        joined: Any = {name: np.concatenate([getattr(one.stack, name) for one in centers]) for name in names}
        columns = EmbeddedStack(
            self.stack.embedding,
            SystemStack(**joined, normal_form=self.stack.stack.normal_form),
            np.concatenate([one.observers for one in centers]),
        )

        def block(start: int) -> Array:
            gram = self.stack.subset(slice(start, start + BLOCK)).cross_gram(columns)
            return alignment_matrix(gram, *self.index.weights, **self.options)

        starts = range(0, len(self.stack.observers), BLOCK)
        return np.concatenate(run(block, starts, self.index.n_jobs, "distances to centers"))

    def assigned(self, centers: list[EmbeddedStack]) -> tuple[IntArray, Array]:
        """Return the nearest center of each system, and its distance; fill empty clusters in `centers`."""
        between = self.distances(centers)
        labels = between.argmin(axis=1)
        own = between.min(axis=1)
        for empty in np.setdiff1d(np.arange(len(centers)), labels).tolist():
            movable = np.bincount(labels, minlength=len(centers))[labels] > 1
            farthest = int(np.where(movable, own, -1.0).argmax())
            labels[farthest], centers[empty] = empty, self.alone(farthest)
            gram = self.stack.subset(np.array([farthest])).cross_gram(centers[empty])
            own[farthest] = alignment_matrix(gram, *self.index.weights, **self.options)[0, 0]
        return labels, own

    def mean(self, cluster: int, labels: IntArray, centers: list[EmbeddedStack]) -> EmbeddedStack:
        """Return the Frechet mean of a cluster, from its center: better rotations and means alternate.

        This is Algorithm 3 of `frechet_mean` without the blocks between all pairs of its systems: a mean is
        an array in the embedding.
        """
        members, center = np.flatnonzero(labels == cluster), centers[cluster]
        systems, order = self.stack.subset(members), int(center.stack.orders[0])
        pairs = np.column_stack([np.zeros_like(members), np.arange(len(members))])
        enough = TOLERANCE * float(np.einsum("kii->", systems.stack.observer_gram))
        best, least = center, np.inf
        for _ in range(MEAN_ITERATIONS):
            gram = center.cross_gram(systems)
            squared, rotations = alignment_rotations(gram, pairs, *self.index.weights, **self.options)
            gained = least - squared.sum()
            if gained > 0.0:
                best, least = center, squared.sum()
            if gained <= enough:
                break
            center = _combined(systems, rotations, order)
        return best

    def alone(self, place: int) -> EmbeddedStack:
        """Return the center of a system alone, the nearest one in the span of the landmarks."""
        system = self.stack.subset(np.array([place]))
        return _combined(system, np.eye(system.stack.transition.shape[1])[None], int(system.stack.orders[0]))

    def system(self, center: EmbeddedStack) -> System:
        """Return a center as a system, with the landmarks as its samples."""
        embedding, stack, order = self.index.embedding, center.stack, int(center.stack.orders[0])
        coefficients = center.observers[0].T.astype(np.float64)
        if embedding.landmarks is None:
            samples = np.eye(len(coefficients))  # histograms of one bin, whose features are the unit vectors
        else:
            samples = embedding.landmarks
            coefficients = scipy.linalg.solve_triangular(
                np.asarray(embedding.factor), coefficients, lower=True, trans="T"
            )
        return System(
            stack.transition[0, :order, :order],
            samples,
            coefficients[:, :order],
            coefficients[:, -1],
            embedding.kernel,
            normal_form=stack.normal_form,
            _observer_gram=stack.observer_gram[0, :order, :order],
            _mean_norm=float(stack.mean_norm[0]),
        )


def _combined(systems: EmbeddedStack, rotations: Array, order: int) -> EmbeddedStack:
    """Return the mean that is best for given rotations of systems (`eq:fopt`), of some order."""
    stack, n = systems.stack, rotations.shape[1]
    transition, observer = np.zeros((n, n)), np.zeros((n, systems.observers.shape[2]))
    rotated = np.einsum("kba,kbc,kcd->ad", rotations, stack.transition, rotations, optimize=True)
    transition[:order, :order] = rotated[:order, :order] / len(rotations)
    # In float32, as the observers are: there may be many of them.
    turned = np.tensordot(rotations.astype(np.float32), systems.observers[:, :-1], axes=((0, 1), (0, 1)))
    observer[:order] = turned[:order] / len(rotations)
    if stack.normal_form == "orthonormal":
        left, values, right = np.linalg.svd(observer[:order], full_matrices=False)
        kept = values > VANISHING * values[0]
        observer[:order] = left[:, kept] @ right[kept]
    mean = systems.observers[:, -1].mean(axis=0, dtype=np.float64)
    rows = np.concatenate([observer, mean[None]]).astype(np.float32)
    products = rows.astype(np.float64) @ rows.T.astype(np.float64)
    return EmbeddedStack(
        systems.embedding,
        SystemStack(
            np.array([order]),
            transition[None],
            products[None, :-1, :-1].copy(),
            products[-1:, -1].copy(),
            stack.normal_form,
        ),
        rows[None],
    )


def _seeds(
    items: int, count: int, distances_to: Callable[[IntArray], Array], rng: np.random.Generator
) -> IntArray:
    """Draw different items as first centers by k-means++.

    The next one is drawn with a probability in proportion to the distance to the nearest one so far; of a few
    such candidates the best is taken (Arthur and Vassilvitskii, 2007, as in scikit-learn).

    Parameters
    ----------
    items, count : int
    distances_to : callable
        Returns the distances of all items to some of them, (K, candidates).
    rng : Generator
    """
    seeds = [int(rng.integers(items))]
    nearest = distances_to(np.array(seeds))[:, 0]
    nearest[seeds] = 0.0
    while len(seeds) < count:
        if nearest.any():
            candidates = rng.choice(items, size=2 + int(np.log(count)), p=nearest / nearest.sum())
        else:  # the others are equal to seeds
            candidates = np.setdiff1d(np.arange(items), seeds)[:1]
        closer = np.minimum(nearest[:, None], distances_to(candidates))
        best = int(closer.sum(axis=0).argmin())
        seeds.append(int(candidates[best]))
        nearest = closer[:, best]
        nearest[seeds] = 0.0
    return np.array(seeds)


def _check_count(index: Any, n_clusters: Any) -> int:
    if not isinstance(index, SystemIndex):
        raise ParameterError(
            f"index is of type {type(index).__name__}, but it must be a SystemIndex: SystemIndex(systems)"
        )
    return _check_number(n_clusters, len(index.systems))


def _check_number(n_clusters: Any, items: int) -> int:
    count = check_integer(n_clusters, "n_clusters")
    if count > items:
        raise ParameterError(f"n_clusters is {count}, but it must be at most the number of systems, {items}")
    return count
