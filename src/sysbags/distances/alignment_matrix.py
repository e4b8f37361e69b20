"""Alignment distances of many pairs of systems, and their parts, from a CrossGram."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_weight, seed_of
from sysbags._numba.alignment import align_many
from sysbags._numba.dense import nuclear_norms
from sysbags.distances.alignment import pad, start_tables
from sysbags.distances.certificates import spectral_bound, transition_spectra
from sysbags.distances.gram import CrossGram, SystemStack, mean_term

PAIRS_PER_CHUNK = 256
ROUND_OFF = 1e-9
"""A bound may be above its distance by this share of the norms: a search ends with a slope that is not 0."""


def alignment_matrix(
    gram: CrossGram,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    cutoff: float = np.inf,
    n_neighbors: int | None = None,
    starts: int | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """Return the squared alignment distances (K, L) between two collections from their CrossGram.

    For the options see `align_blocks`. By default there are fewer starts, and no last steps, where the
    CrossGram is approximate. The result does not depend on `n_jobs`.

    Distances above `cutoff` are infinite, and so are those that are not among the `n_neighbors` smallest of
    their row (or of their column, within one collection). Most of these pairs are excluded by
    `alignment_bounds` and not aligned; what is returned is the same as without bounds.
    """
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    constant = _norms(gram.rows, weight)[:, None] + _norms(gram.columns, weight)[None, :]
    constant += weight_mu * mean_term(gram)
    distances = np.full(constant.shape, np.inf)
    seed = seed_of(random_state)

    def align_where(wanted: npt.NDArray[np.bool_]) -> None:
        pairs = np.argwhere(np.triu(wanted | wanted.T, 1) if gram.symmetric else wanted)

        def put(chunk: IntArray, values: Array, rotations: Array) -> None:
            i, j = pairs[chunk].T
            distances[i, j] = np.maximum(constant[i, j] - 2.0 * values, 0.0)
            if gram.symmetric:
                distances[j, i] = distances[i, j]

        _align(gram, pairs, weight, put, starts, seed, n_jobs)

    if n_neighbors is None and cutoff == np.inf:
        align_where(np.ones(constant.shape, dtype=bool))
    else:
        bounds = alignment_bounds(gram, weight, weight_mu) - ROUND_OFF * constant
        if gram.symmetric:
            np.fill_diagonal(bounds, np.inf)
        near = bounds <= cutoff
        if n_neighbors is not None:
            # The distances of the pairs with the smallest bounds bound what is left.
            align_where(near & (bounds <= _nth_smallest(bounds, n_neighbors, gram.symmetric)))
            near &= bounds <= _nth_smallest(distances, n_neighbors, gram.symmetric)
        align_where(near & np.isinf(distances))
        if n_neighbors is not None:
            distances[distances > _nth_smallest(distances, n_neighbors, gram.symmetric)] = np.inf
        distances[distances > cutoff] = np.inf
    if gram.symmetric:
        np.fill_diagonal(distances, 0.0)
    return distances


def _nth_smallest(values: Array, n: int, symmetric: bool) -> Array:
    """Return the n-th smallest of each row, (K, 1), or the larger of each pair's two rows, (K, K)."""
    last = min(n, values.shape[1]) - 1
    smallest = np.partition(values, last, axis=1)[:, last : last + 1]
    return np.maximum(smallest, smallest.T) if symmetric else smallest


def alignment_parts(
    gram: CrossGram,
    pairs: IntArray,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """Split the squared alignment distances of pairs into the weighted parts transition, observer and mean,
    (P, 3).

    The pairs are (P, 2), row and column. The rotations are those of `alignment_matrix`, so that the parts sum
    to its distances.

    >>> import sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(3, 30))
    >>> gram = sysbags.cross_gram([sysbags.identify(stream, order=2) for stream in streams])
    >>> parts = alignment_parts(gram, np.array([[0, 1], [2, 0]]), 0.25, 1.0)
    >>> bool(np.allclose(parts.sum(axis=1), alignment_matrix(gram, 0.25, 1.0)[[0, 2], [1, 0]]))
    True
    """
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    if gram.symmetric:
        pairs = np.sort(pairs, axis=1)  # as in alignment_matrix; the parts are symmetric
    rows, columns = gram.rows, gram.columns
    parts = np.empty((len(pairs), 3))
    i, j = pairs.T
    parts[:, 1] = np.einsum("kii->k", rows.observer_gram)[i] + np.einsum("kii->k", columns.observer_gram)[j]
    parts[:, 2] = weight_mu * mean_term(gram)[i, j]

    def split(chunk: IntArray, values: Array, rotations: Array) -> None:
        n, (i, j) = rotations.shape[1], pairs[chunk].T
        first, second = _square(rows.transition[i], n), _square(columns.transition[j], n)
        rotated = np.einsum("kba,kbc,kcd->kad", rotations, second, rotations, optimize=True)
        parts[chunk, 0] = weight * ((first - rotated) ** 2).sum(axis=(1, 2))
        parts[chunk, 1] -= 2.0 * np.einsum("kab,kba->k", _square(gram.observer[i, j], n), rotations)

    _align(gram, pairs, weight, split, None, seed_of(random_state), n_jobs)
    return np.maximum(parts, 0.0)


def alignment_bounds(
    gram: CrossGram,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    spectra: tuple[Array, Array] | None = None,
) -> Array:
    """Return lower bounds of the squared alignment distances between two collections, (K, L).

    No rotation makes ``tr(M Q)`` larger than the nuclear norm of the block M, nor ``tr(A1' Q' A2 Q)`` larger
    than `transition_bound`. For systems of the same order the bounds are those of `sysbags.align`. `spectra`
    are the `transition_spectra` of both collections, if they have been computed before.
    """
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    n = max(gram.rows.transition.shape[1], gram.columns.transition.shape[1])
    if spectra is None:
        first, second = (transition_spectra(pad(s.transition, n, n)) for s in (gram.rows, gram.columns))
    else:
        first, second = spectra
    largest = nuclear_norms(pad(gram.observer, n, n).reshape(-1, n, n)).reshape(gram.mean.shape)
    largest += weight * spectral_bound(first[:, :, None], second[:, None])
    norms = _norms(gram.rows, weight)[:, None] + _norms(gram.columns, weight)
    return np.asarray(np.maximum(norms - 2.0 * largest, 0.0) + weight_mu * mean_term(gram))


def _align(
    gram: CrossGram,
    pairs: IntArray,
    lambda_a: float,
    consume: Callable[[IntArray, Array, Array], None],
    starts: int | None,
    seed: int,
    n_jobs: int | None,
) -> None:
    """Align pairs (row, column) in chunks: ``consume(indices of pairs, values of rho, rotations)``."""
    rows, columns = gram.rows, gram.columns
    n = max(rows.transition.shape[1], columns.transition.shape[1])
    first, second = pad(rows.transition, n, n), pad(columns.transition, n, n)
    # A pair is padded to the larger of its two orders: more padding would allow more rotations.
    sizes = np.maximum(rows.orders[pairs[:, 0]], columns.orders[pairs[:, 1]])
    quick = gram.approximate and starts is None
    chunks: list[IntArray] = []
    for size in np.unique(sizes):
        same_size = np.flatnonzero(sizes == size)
        chunks += [same_size[k : k + PAIRS_PER_CHUNK] for k in range(0, len(same_size), PAIRS_PER_CHUNK)]

    def align_chunk(chunk: IntArray) -> None:
        indices, size = np.ascontiguousarray(pairs[chunk]), int(sizes[chunk[0]])
        reports, rotations = np.empty((len(indices), 6)), np.empty((len(indices), size, size))
        blocks = pad(gram.observer[indices[:, 0], indices[:, 1]], n, n)
        tables = start_tables(size, starts, seed)
        align_many(first, second, blocks, indices, lambda_a, *tables, True, quick, reports, rotations)
        consume(chunk, reports[:, 0], rotations)

    if chunks:
        run(align_chunk, chunks, n_jobs, "alignments")


def _square(blocks: Array, n: int) -> Array:
    """Cut or pad the last two axes to (n, n); the entries cut off are 0."""
    return pad(blocks[..., :n, :n], n, n)


def _norms(stack: SystemStack, lambda_a: float) -> Array:
    """Return ``lambda_a ||A||^2 + ||C||^2`` of each system."""
    squares = np.einsum("kij,kij->k", stack.transition, stack.transition)
    return np.asarray(lambda_a * squares + np.einsum("kii->k", stack.observer_gram))
