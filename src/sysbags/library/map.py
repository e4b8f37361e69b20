"""The map of a library: its clips as points of a plane, and the nearest clips of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.distances.gram import SystemStack, embedded_cross_gram
from sysbags.distances.pairwise import classical_scaling
from sysbags.errors import FileError
from sysbags.library.embeddings import index_of
from sysbags.library.settings import search_weights

if TYPE_CHECKING:
    from sysbags.library.index import SystemIndex
    from sysbags.library.store import ClipRecord, Library

__all__ = ["LibraryMap", "library_map"]

FITTED = 1000  # clips that the plane is fitted to; the others are placed by their distances to these
BLOCK = 256  # clips that are compared with these at a time


class LibraryMap(NamedTuple):
    """The result of `library_map`. Distances are squared.

    Attributes
    ----------
    clips : list of ClipRecord
        All clips, ordered by their paths.
    plane : (K, 2) array
    neighbours : (K, k) array of int
        The nearest other clips of each, nearest first.
    distances : (K, k) array
        Theirs, exact.
    """

    clips: list[ClipRecord]
    plane: Array
    neighbours: IntArray
    distances: Array


def library_map(library: Library, neighbours: int = 8, *, n_jobs: int | None = None) -> LibraryMap:
    """Place the clips of a library in a plane, and find the nearest clips of each.

    The plane is that of a report, `classical_scaling` of alignment distances, which are computed in the
    embedding of the library. With more than 1000 clips it is fitted to 1000 of them, and the others are
    placed by their distances to these (landmark multidimensional scaling, de Silva and Tenenbaum, 2004).

    Parameters
    ----------
    library : Library
    neighbours : int, default=8
        How many; all others where there are fewer.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Raises
    ------
    FileError
        If the library has no clips, or clips were removed meanwhile.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import sysbags
    >>> from sysbags.datasets import make_clips
    >>> from sysbags.library import Library
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> textures = ["rain", "fire"]
    >>> _ = make_clips(folder / "clips", 2, frames=8, height=48, width=64, textures=textures)
    >>> with Library(folder / "clips.library") as library:
    ...     _ = library.add([folder / "clips"], identifier=sysbags.SystemIdentifier(order=2))
    ...     found = library_map(library)
    >>> [clip.label for clip in found.clips], found.plane.shape, found.neighbours.shape
    (['fire', 'fire', 'rain', 'rain'], (4, 2), (4, 3))
    """
    systems = library.systems
    records = {record.path: record for record in library.clips()}
    paths = [Path(os.fsdecode(name)) for name in systems.names]
    if not records.keys() >= set(paths):
        raise FileError(f"clips were removed from the library {library.path} meanwhile: try again")
    index = index_of(systems, **search_weights(library, None, None), n_jobs=n_jobs)
    nearest, distances = np.empty((len(paths), 0), dtype=np.int64), np.empty((len(paths), 0))
    if len(paths) > 1:
        nearest, distances = index.neighbors_graph(neighbours)
    return LibraryMap([records[path] for path in paths], _plane(index), nearest, distances)


def _plane(index: SystemIndex) -> Array:
    count = len(index.systems)
    fitted = np.linspace(0, count - 1, min(count, FITTED)).astype(np.int64)
    stack, observers = SystemStack.of(index.systems), index.embedded.observers
    columns, approximate = stack.subset(fitted), index.embedding.size is not None

    def block(start: int) -> Array:
        some = slice(start, start + BLOCK)
        gram = embedded_cross_gram(
            observers[some], observers[fitted], stack.subset(some), columns, approximate=approximate
        )
        return alignment_matrix(gram, *index.weights, random_state=index.random_state)

    return placed(np.concatenate(run(block, range(0, count, BLOCK), index.n_jobs, "map")), fitted)


def placed(squared: Array, fitted: IntArray) -> Array:
    """Return points of a plane, by the squared distances of all items to some of them.

    Parameters
    ----------
    squared : (K, L) array
        Squared distances of the items (rows) to those that the plane is fitted to (columns).
    fitted : (L,) array of int
        Which items the columns are.

    Returns
    -------
    (K, 2) array

    Examples
    --------
    >>> points = np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 2.0], [0.0, -2.0], [4.0, 1.0]])
    >>> squared = ((points[:, None] - points) ** 2).sum(axis=-1)[:, :4]
    >>> placed(squared, np.arange(4)).round(9).tolist()[-1]
    [4.0, 1.0]
    """
    between = squared[fitted]
    points = classical_scaling(between)
    sizes = np.einsum("kd,kd->d", points, points)
    # The columns of `points` are centered and orthogonal, so this returns them for the fitted items.
    return np.asarray(-0.5 * (squared - between.mean(axis=0)) @ points / np.where(sizes > 0.0, sizes, 1.0))
