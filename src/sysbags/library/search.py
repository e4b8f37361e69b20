"""Search a library: the clips nearest to a clip, and duplicates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sysbags._common.messages import warn
from sysbags._common.parallel import run
from sysbags._common.validation import check_weight
from sysbags.distances.alignment import alignment_distance
from sysbags.errors import FileError, SysbagsError, VideoWarning
from sysbags.library.embeddings import index_of
from sysbags.library.index import Neighbours
from sysbags.library.reading import GivenClip, read_clip
from sysbags.library.systems import AbsentError, StoredSystems, select_systems
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.library.store import ClipRecord, Library

__all__ = ["Duplicates", "Found", "find_duplicates", "search_clip"]

RANDOM_PAIRS = 200
NEAR = 0.05  # of the median squared distance of random pairs
FIRST_NEIGHBOURS = 4


class Found(NamedTuple):
    """The result of `Library.search`.

    Attributes
    ----------
    clips : list of ClipRecord
        The nearest first.
    neighbours : Neighbours
        Their squared distances, and what it took to find them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sysbags.datasets import make_clips
    >>> from sysbags.library import Library
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> clips, _ = make_clips(folder / "clips", 2, frames=8, height=48, width=64, textures=["rain", "fire"])
    >>> _ = (folder / "copy.mp4").write_bytes(clips[0].read_bytes())
    >>> with Library(folder / "clips.library") as library:
    ...     _ = library.add([folder / "clips"])
    ...     found = library.search(folder / "copy.mp4", k=2)
    >>> len(found.clips), found.clips[0].label, found.clips[0].path == clips[0]
    (2, 'rain', True)
    >>> float(found.neighbours.distances[0].round(6))
    0.0
    """

    clips: list[ClipRecord]
    neighbours: Neighbours


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
    >>> import pathlib, tempfile
    >>> from sysbags.datasets import make_clips
    >>> from sysbags.library import Library
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> clips, _ = make_clips(folder / "clips", 2, frames=8, height=48, width=64, textures=["rain", "fire"])
    >>> _ = (folder / "clips" / "copy.mp4").write_bytes(clips[0].read_bytes())
    >>> with Library(folder / "clips.library") as library:
    ...     _ = library.add([folder / "clips"])
    ...     duplicates = library.duplicates(below=0.0)
    >>> [[path.name for path in paths] for paths in duplicates.equal], duplicates.near
    ([['copy.mp4', '00.mp4']], [])
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
    query = _system(library, clip)
    try:
        systems = select_systems(library, others, "path", [name])
    except AbsentError:
        raise FileError(f"the library {library.path} has no clip but this one") from None
    found = index_of(systems, **options).search(query, k, exact=exact)
    records = [library.find(os.fsdecode(systems.names[i])) for i in found.indices]
    if None in records:
        raise FileError(f"clips were removed from the library {library.path} meanwhile: search again")
    return Found([record for record in records if record is not None], found)


def _system(library: Library, clip: str | os.PathLike[str]) -> System:
    """Return the system of a clip, that of the library if its content is the same, or it is gone."""
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
            return result.system
    return select_systems(library, "contents WHERE sha256 = ?", parameters=[record and record.sha256])[0]


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
    weights = (options["lambda_a"], options["lambda_mu"])
    distances = run(
        _distance, pairs, options["n_jobs"], "random pairs", shared=(systems, *weights), remote=True
    )
    return NEAR * float(np.median(distances))


def _distance(pair: Any, systems: StoredSystems, lambda_a: float, lambda_mu: float) -> float:
    first, second = systems.read(pair)
    return alignment_distance(first, second, lambda_a=lambda_a, lambda_mu=lambda_mu)
