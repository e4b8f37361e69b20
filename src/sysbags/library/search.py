"""Search a library: the clips nearest to a clip, duplicates, and a map of all clips."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sysbags._common.messages import warn
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_weight
from sysbags.distances.gram import SystemStack, embedded_cross_gram
from sysbags.distances.pairwise import classical_scaling, pairwise_distances
from sysbags.errors import FileError, SysbagsError, VideoWarning
from sysbags.library.index import Neighbours
from sysbags.library.reading import GivenClip, read_clip
from sysbags.library.settings import search_metric
from sysbags.library.systems import AbsentError, StoredSystems, index_of, select_systems
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.library.index import SystemIndex
    from sysbags.library.store import ClipRecord, Library

RANDOM_PAIRS = 200
NEAR = 0.05  # of the median squared distance of random pairs
FIRST_NEIGHBOURS = 4
NEIGHBOURS = 8  # of each clip of a map
FITTED = 1000  # clips that the plane is fitted to; the others are placed by their distances to these
BLOCK = 256  # clips that are compared with these at a time


class Found(NamedTuple):
    """The result of `Library.search`.

    Attributes
    ----------
    clips : list of ClipRecord
        The nearest first.
    neighbours : Neighbours
        Their squared distances, and what it took to find them.
    frames, order : int
        The length of the stream of the clip that was searched for, and the order of its system.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sysbags.datasets import make_clips
    >>> from sysbags.library import Library
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> clips, _ = make_clips(folder / "clips", 2, frames=8, height=48, width=64, textures=["rain", "fire"])
    >>> with Library(folder / "clips.library") as library:
    ...     _ = library.add([folder / "clips"])
    ...     found = library.search(clips[0], k=2)
    >>> len(found.clips), found.neighbours.distances.shape
    (2, (2,))
    """

    clips: list[ClipRecord]
    neighbours: Neighbours
    frames: int
    order: int


class Duplicates(NamedTuple):
    """The result of `Library.duplicates`.

    Attributes
    ----------
    equal : list of lists of Path
        Clips whose content is the same.
    near : list of tuples of Path, Path and float
        Other pairs of clips and their squared distances, the nearest first; of clips with equal content
        only the first is named.
    below : float
        The largest squared distance of such a pair.

    Examples
    --------
    >>> found = Duplicates(equal=[[Path("a.mp4"), Path("copy.mp4")]], near=[], below=0.1)
    >>> [len(paths) for paths in found.equal]
    [2]
    """

    equal: list[list[Path]]
    near: list[tuple[Path, Path, float]]
    below: float


def search_clip(
    library: Library, clip: str | os.PathLike[str], k: int, *, exact: bool, **options: Any
) -> Found:
    """Find the clips nearest to a clip, see `Library.search`."""
    name = os.fsencode(os.path.abspath(clip))
    others = "clips JOIN contents ON content = contents.id WHERE path <> ? ORDER BY path"
    query, frames = _system(library, clip)
    try:
        systems = select_systems(library, others, "path", [name])
    except AbsentError:
        raise FileError(f"the library {library.path} has no clip but this one") from None
    found = index_of(systems, **options).search(query, k, exact=exact)
    records = [library.find(os.fsdecode(systems.names[i])) for i in found.indices]
    if None in records:
        raise FileError(f"clips were removed from the library {library.path} meanwhile: search again")
    return Found([record for record in records if record is not None], found, frames, query.order)


def _system(library: Library, clip: str | os.PathLike[str]) -> tuple[System, int]:
    """Return the system of a clip and the length of its stream.

    They are those of the library if its content is the same, or it is gone.
    """
    settings, record = library.settings, library.find(clip)
    if settings is None:
        raise FileError(f"the library {library.path} has no clips: `sysbags library add` adds them")
    if record is None or os.path.exists(clip):
        known = () if record is None else (record.sha256,)
        result = read_clip(GivenClip(os.path.abspath(clip), known=known), *settings.reading)
        if isinstance(result, SysbagsError):
            raise result
        for text in result.warnings:
            warn(text, VideoWarning, stacklevel=3)
        if result.system is not None:
            return result.system, result.frames
    assert record is not None  # its content is known
    return select_systems(library, "contents WHERE sha256 = ?", parameters=[record.sha256])[0], record.frames


def find_duplicates(library: Library, below: float | None, **options: Any) -> Duplicates:
    """Find clips with equal content and pairs with a small distance, see `Library.duplicates`.

    Neighbours are found in the index, twice as many each time, until the last one of every clip is
    farther away.
    """
    if below is not None:
        check_weight(below, "below")
    groups: dict[int, list[Path]] = {}
    with library.connection() as connection:
        for content, path in connection.execute("SELECT content, path FROM clips ORDER BY path"):
            groups.setdefault(content, []).append(Path(os.fsdecode(path)))
    equal = [paths for paths in groups.values() if len(paths) > 1]
    systems = select_systems(library, "contents ORDER BY sha256")
    if len(systems) == 1:
        return Duplicates(equal, [], below or 0.0)
    limit = _default_limit(systems, options) if below is None else float(below)
    index: Any = index_of(systems, **options)
    count, last = 0, np.inf
    while count < len(systems) - 1 and (not count or last <= limit):
        count = min(max(2 * count, FIRST_NEIGHBOURS), len(systems) - 1)
        indices, distances = index.neighbors_graph(count)
        last = distances[:, -1].min()
    near: dict[tuple[Path, Path], float] = {}
    for row, column in zip(*np.nonzero(distances <= limit), strict=True):
        ends = (int(systems.contents[place]) for place in (row, indices[row, column]))
        first, second = sorted(groups[content][0] for content in ends if content in groups)
        near[first, second] = float(distances[row, column])
    pairs = sorted((*pair, distance) for pair, distance in near.items())
    return Duplicates(equal, sorted(pairs, key=lambda pair: pair[2]), limit)


def _default_limit(systems: StoredSystems, options: dict[str, Any]) -> float:
    """Return a small part of the median squared distance of random pairs."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(len(systems), 2, replace=False) for _ in range(RANDOM_PAIRS)]
    chosen = {name: options[name] for name in ("metric", "lambda_a", "lambda_mu")}
    shared = (systems, chosen)
    distances = run(_distance, pairs, options["n_jobs"], "random pairs", shared=shared, remote=True)
    return NEAR * float(np.median(distances))


def _distance(pair: Any, systems: StoredSystems, chosen: dict[str, Any]) -> float:
    first, second = systems.read(pair)
    return float(pairwise_distances([first], [second], **chosen)[0, 0])


class LibraryMap(NamedTuple):
    """The result of `library_map`. Distances are squared.

    Clips are ordered by their paths; `neighbours` are the nearest other clips of each, nearest first.
    """

    clips: list[ClipRecord]
    plane: Array
    neighbours: IntArray
    distances: Array


def library_map(library: Library, *, n_jobs: int | None = None) -> LibraryMap:
    """Place the clips of a library in a plane, and find the nearest clips of each.

    The plane is that of a report, `classical_scaling` of the distances, by the metric of the library, which
    are computed in its embedding. With more than 1000 clips it is fitted to 1000 of them, and the others are
    placed by their distances to these (landmark multidimensional scaling, de Silva and Tenenbaum, 2004).
    """
    systems = library.systems
    records = {record.path: record for record in library.clips()}
    paths = [Path(os.fsdecode(name)) for name in systems.names]
    if not records.keys() >= set(paths):
        raise FileError(f"clips were removed from the library {library.path} meanwhile: try again")
    index = index_of(systems, **search_metric(library), n_jobs=n_jobs)
    nearest, distances = np.empty((len(paths), 0), dtype=np.int64), np.empty((len(paths), 0))
    if len(paths) > 1:
        nearest, distances = index.neighbors_graph(NEIGHBOURS)
    return LibraryMap([records[path] for path in paths], _plane(index), nearest, distances)


def _plane(index: SystemIndex) -> Array:
    count = len(index.systems)
    fitted = np.linspace(0, count - 1, min(count, FITTED)).astype(np.int64)
    stack, observers = SystemStack.of(index.systems), index.embedded.observers
    columns, approximate = stack.subset(fitted), index.embedding.landmarks_ is not None

    def block(start: int) -> Array:
        some = slice(start, start + BLOCK)
        gram = embedded_cross_gram(
            observers[some], observers[fitted], stack.subset(some), columns, approximate=approximate
        )
        return index.matrix(gram)

    return placed(np.concatenate(run(block, range(0, count, BLOCK), index.n_jobs, "map")), fitted)


def placed(squared: Array, fitted: IntArray) -> Array:
    """Return points of a plane, by the squared distances of all items to some of them.

    `squared` has those of the items (rows) to the items `fitted` (columns), which the plane is fitted to.

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
