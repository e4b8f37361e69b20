"""Alignment distances of many pairs of systems, and their parts, from a CrossGram."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_weight, seed_of
from sysbags._numba.alignment import align_many
from sysbags.distances.alignment import pad, start_tables
from sysbags.distances.certificates import spectral_bound, transition_spectra
from sysbags.distances.gram import CrossGram, SystemStack, mean_term

PAIRS_PER_CHUNK = 256


def alignment_matrix(
    gram: CrossGram,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    starts: int | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Array:
    """Return the squared alignment distances (K, L) between two collections from their CrossGram.

    For the options see `align_blocks`. By default there are fewer starts, and no last steps, where the
    CrossGram is approximate. The result does not depend on `n_jobs`.
    """
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    distances = _norms(gram.rows, weight)[:, None] + _norms(gram.columns, weight)[None, :]
    distances += weight_mu * mean_term(gram)
    if gram.symmetric:
        pairs = np.column_stack(np.triu_indices(len(distances), 1))
    else:
        pairs = np.column_stack([axis.ravel() for axis in np.indices(distances.shape)])

    def subtract(chunk: IntArray, values: Array, rotations: Array) -> None:
        i, j = pairs[chunk].T
        distances[i, j] -= 2.0 * values

    _align(gram, pairs, weight, subtract, starts, seed_of(random_state), n_jobs)
    if gram.symmetric:
        upper = np.triu(distances, 1)
        distances = upper + upper.T
    return np.maximum(distances, 0.0)


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
    if spectra is None:
        n = max(gram.rows.transition.shape[1], gram.columns.transition.shape[1])
        first, second = (transition_spectra(pad(s.transition, n, n)) for s in (gram.rows, gram.columns))
    else:
        first, second = spectra
    largest = np.linalg.svd(gram.observer, compute_uv=False).sum(axis=2)
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
