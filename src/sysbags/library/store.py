"""The library: systems of many clips in one file, with labels, checksums and an embedding."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from sysbags._common.files import atomic_write, write_table
from sysbags._common.parallel import use_client
from sysbags.distances.embedding import EmbeddedSystems, landmark_count
from sysbags.errors import FileError, ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.library.adding import Added, add_clips
from sysbags.library.index import SystemIndex
from sysbags.library.schema import SCHEMA, connect, sqlite_errors
from sysbags.library.search import Duplicates, Found, find_duplicates, search_clip
from sysbags.library.settings import LibrarySettings, read_settings, search_metric
from sysbags.library.systems import (
    StoredSystems,
    below,
    index_of,
    read_embedded,
    read_embedding,
    select_systems,
)
from sysbags.library.verification import verify_library
from sysbags.storage.files import save

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier

COLUMNS = ("path", "label", "source", "frames", "order", "samples", "size", "sha256", "checksum", "added")


class ClipRecord(NamedTuple):
    """A clip of a library.

    Attributes
    ----------
    path : Path
        Absolute.
    label, source : str or None
    frames : int
        The length of its stream: one bag per frame, unless the bags have a larger window.
    order, samples : int
        Of its system, which has fewer samples if the library compresses systems.
    size : int
        Bytes of the file, or of all images of a folder.
    sha256 : str
        The hash of its content; of a folder, over the names and hashes of its images.
    checksum : str
        The checksum of the arrays of its system.
    added : str
        When it was read, UTC.
    versions : dict
        The versions of the packages that read it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sysbags.datasets import make_clips
    >>> from sysbags.library import Library
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> clips, _ = make_clips(folder / "clips", 2, frames=8, height=48, width=64, textures=["rain", "fire"])
    >>> with Library(folder / "clips.library") as library:
    ...     _ = library.add([folder / "clips"])
    ...     clip = library.find(clips[0])
    >>> clip.path.name, clip.label, clip.frames, clip.order, len(clip.sha256)
    ('00.mp4', 'rain', 8, 5, 64)
    """

    path: Path
    label: str | None
    source: str | None
    frames: int
    order: int
    samples: int
    size: int
    sha256: str
    checksum: str
    added: str
    versions: dict[str, str]


class Library:
    """A file with the systems of many clips, to add to, to search and to compute with.

    The file is made by the first `add`, which also sets how clips become systems. Each clip is added by a
    transaction of its own: a process that is killed loses no clip that was added, and the next `add`
    continues. Several processes may read and add at the same time. An embedding of all clips is part of the
    library, for search. A file that is not a library, or of another version of sysbags, is a `FileError`.

    Parameters
    ----------
    path : path
        A file on a local disk: SQLite's WAL mode, which is used, does not work on network drives. While the
        library is open, and after a process was killed, two files with the suffixes ``-wal`` and ``-shm``
        belong to it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import sysbags
    >>> from sysbags.datasets import make_clips
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> clips, _ = make_clips(folder / "clips", 2, frames=8, height=48, width=64, textures=["rain", "fire"])
    >>> with Library(folder / "clips.library") as library:
    ...     first = library.add([folder / "clips"], identifier=sysbags.SystemIdentifier(order=2))
    ...     second = library.add(clips)
    ...     print(first.added, second.added, second.unchanged)
    ...     print([clip.label for clip in library.clips()], library.verify())
    ...     print(library.systems[0])
    ...     print(len(library.search(clips[0], 3).clips), library.duplicates(below=0.0).equal)
    4 0 4
    ['fire', 'fire', 'rain', 'rain'] []
    System(order=2, size=8, bag_length=256, kernel='chi2')
    3 []
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise FileError(f"path is {path!r}, but it must be the path of a library, as text or a Path")
        self.path = Path(path)
        self._idle: list[sqlite3.Connection] = []
        self._settings: LibrarySettings | None = None
        if self.path.exists() and os.path.getsize(self.path):
            with self.connection():
                pass

    def __repr__(self) -> str:
        try:
            clips = f", clips={len(self)}"
        except FileError:  # there is no library yet, or it is damaged
            clips = ""
        return f"Library({str(self.path)!r}{clips})"

    def __reduce__(self) -> tuple[type[Library], tuple[Path]]:
        """Send the path alone to another process, which opens the file again."""
        return type(self), (self.path.absolute(),)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; it is opened again when it is used."""
        while self._idle:
            with suppress(sqlite3.Error):
                self._idle.pop().close()

    @contextmanager
    def connection(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield a connection that no other thread uses; errors of SQLite become a `FileError`."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path, create=create)
        try:
            with sqlite_errors(self.path):
                yield connection
        finally:
            self._idle.append(connection)

    @contextmanager
    def transaction(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield a connection for changes: all of them are written, or none after an error."""
        with self.connection(create=create) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # after a full disk, SQLite has done so itself
                    connection.execute("ROLLBACK")
                raise

    def __len__(self) -> int:
        """Return the number of clips."""
        with self.connection() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM clips").fetchone()[0])

    @property
    def settings(self) -> LibrarySettings | None:
        """How clips become systems; None if no clip was ever added."""
        if self._settings is None:
            self._settings = read_settings(self)
        return self._settings

    def add(
        self,
        paths: Sequence[str | os.PathLike[str]],
        labels: Sequence[str | None] | None = None,
        sources: Sequence[str | None] | None = None,
        *,
        bags: BagTransformer | None = None,
        identifier: SystemIdentifier | None = None,
        compress: int | None = None,
        landmarks: int | None = None,
        metric: str | None = None,
        lambda_a: float | None = None,
        lambda_mu: float | None = None,
        n_jobs: int | None = None,
        client: Any = None,
    ) -> Added:
        """Add clips; what is in the library already and has not changed is not read again.

        Whether a clip has changed is decided by its size and times, and where these differ or are too recent
        to be sure, by its content. Clips with the same content are read once. At the end the clips are
        embedded; the embedding is fitted to the clips when there is none, or when there are four times as
        many clips as it was fitted to, and these were fewer than 1000. The arrays do not depend on
        the order of the clips, on `n_jobs`, or on an add that was interrupted before.

        Parameters
        ----------
        paths : sequence of path
            Clips, or folders to search; they are stored as absolute paths. A clip in a folder of such a
            folder has the name of that folder as its label; a table ``index.csv`` says more, see
            `sysbags.datasets.class_folders`.
        labels, sources : sequence of str or None, optional
            One for each path, which then are clips. None leaves those of a clip as they are.
        bags : BagTransformer, optional
            By default `LocalBinaryPatterns`. Bags that learn a codebook are fitted to the clips, unless they
            are fitted already.
        identifier : SystemIdentifier, optional
            By default of order 5, or of the largest order that a clip has.
        compress : int, optional
            Compress systems to so many samples, or as many as their order if that is larger.
        landmarks : int, optional
            Number of landmarks of the embedding, by default 500; see `StreamEmbedding`.
        metric : str, optional
            The metric of a search that is not given any, one of `METRICS`, by default "alignment".
        lambda_a, lambda_mu : float, optional
            The weights of the metric, by default 0.25 and 0.
        n_jobs : int, optional
            Threads; the result does not depend on it.
        client : distributed.Client, optional
            Read and embed the clips on the cluster of this client. Its workers must have the clips under the
            same paths, but not the library.

        Raises
        ------
        ParameterError
            If the settings are not those of the library.
        FileError
            If the file cannot be written. The clips that were added before are kept.
        """
        with use_client(client):
            settings = (bags, identifier, compress, landmarks, metric, lambda_a, lambda_mu)
            named = zip(LibrarySettings._fields, settings, strict=True)
            wanted = {name: value for name, value in named if value is not None}
            return add_clips(self, paths, labels, sources, wanted, n_jobs)

    def remove(self, paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
        """Remove clips, or all clips below folders, and return them; the clips themselves are not touched.

        If one is not in the library, nothing is removed, and a `FileError` is raised.
        """
        if isinstance(paths, (str, os.PathLike)):
            raise ParameterError(f"paths is {str(paths)!r}, but it must be a list of paths")
        with self.transaction() as connection:
            removed: list[bytes] = []
            for path in paths:
                found = below(connection, path)
                if not found:
                    raise FileError(f"{path} is not in the library {self.path}, so nothing is removed")
                removed += found
            connection.executemany("DELETE FROM clips WHERE path = ?", [[path] for path in removed])
        return [Path(os.fsdecode(path)) for path in dict.fromkeys(removed)]

    def clips(self) -> list[ClipRecord]:
        """Return all clips, ordered by their paths, as `systems` are."""
        return self._records("ORDER BY path")

    def find(self, path: str | os.PathLike[str]) -> ClipRecord | None:
        """Return a clip by its path; None if it is not in the library."""
        return next(iter(self._records("WHERE path = ?", [os.fsencode(os.path.abspath(path))])), None)

    def _records(self, condition: str, parameters: Sequence[Any] = ()) -> list[ClipRecord]:
        query = f"""SELECT path, label, source, frames, "order", contents.size, clips.size, sha256,
            contents.checksum, added, versions
            FROM clips JOIN contents ON content = contents.id {condition}"""
        with self.connection() as connection:
            rows = connection.execute(query, parameters).fetchall()
        return [
            ClipRecord._make([Path(os.fsdecode(path)), *facts, json.loads(versions)])
            for path, *facts, versions in rows
        ]

    def missing(self) -> list[Path]:
        """Return the clips that are no longer on disk."""
        with self.connection() as connection:
            paths = [path for (path,) in connection.execute("SELECT path FROM clips ORDER BY path")]
        return [Path(os.fsdecode(path)) for path in paths if not os.path.exists(path)]

    @property
    def systems(self) -> StoredSystems:
        """The systems of all clips, ordered by the paths; their samples are read when they are needed.

        They have no `states`, as `project` computes these. Samples and coefficients are in single precision.
        """
        return select_systems(self, "clips JOIN contents ON content = contents.id ORDER BY path", "path")

    @property
    def embedding(self) -> StreamEmbedding | None:
        """The embedding of the clips; None if an `add` was interrupted before there was one."""
        return read_embedding(self)[1]

    def embedded(self) -> EmbeddedSystems:
        """Return all systems in the embedding, in the order of `systems`.

        They are stored in half precision. Clips that are not embedded yet, as another process is adding them,
        are embedded in memory.
        """
        return read_embedded(self.systems)[1]

    def index(
        self,
        *,
        metric: str | None = None,
        lambda_a: float | None = None,
        lambda_mu: float | None = None,
        n_jobs: int | None = None,
        client: Any = None,
    ) -> SystemIndex:
        """Return an index of `systems`, to search for the nearest ones.

        The metric and its weights are by default those of the library, see `add`. `n_jobs`
        and `client` are those of `SystemIndex`; to find the neighbours of all clips, the workers of a cluster
        open the library.
        """
        chosen = search_metric(self, metric, lambda_a, lambda_mu)
        return index_of(self.systems, **chosen, n_jobs=n_jobs, client=client)

    def search(
        self,
        clip: str | os.PathLike[str],
        k: int = 10,
        *,
        exact: bool = False,
        metric: str | None = None,
        lambda_a: float | None = None,
        lambda_mu: float | None = None,
        n_jobs: int | None = None,
        client: Any = None,
    ) -> Found:
        """Find the `k` clips with the smallest distances to a clip, which need not be in the library.

        A clip of the library is compared with the others, not with itself. With `exact` they are provably the
        nearest ones, see `SystemIndex`. The other options are those of `index`.
        """
        chosen = search_metric(self, metric, lambda_a, lambda_mu)
        options: Any = {**chosen, "n_jobs": n_jobs, "client": client}
        return search_clip(self, clip, k, exact=exact, **options)

    def duplicates(
        self,
        below: float | None = None,
        *,
        metric: str | None = None,
        lambda_a: float | None = None,
        lambda_mu: float | None = None,
        n_jobs: int | None = None,
        client: Any = None,
    ) -> Duplicates:
        """Find clips with equal content, and pairs of clips whose squared distance is at most `below`.

        By default this is 5 % of the median squared distance of random pairs. The other options are those of
        `index`.
        """
        chosen = search_metric(self, metric, lambda_a, lambda_mu)
        options: Any = {**chosen, "n_jobs": n_jobs, "client": client}
        with use_client(client):
            return find_duplicates(self, below, **options)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the clips to a file, atomically.

        A name that ends with ``.csv`` gives the table of clips, ``.npz`` the paths, labels, transitions and
        embedded observers as arrays, and any other name a model file with the list of systems, for
        `sysbags.load`.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".csv":
            rows = [[getattr(record, name) for name in COLUMNS] for record in self.clips()]
            write_table(path, [COLUMNS, *rows])
            return
        systems = self.systems
        if suffix != ".npz":
            save(path, list(systems))
            return
        labels = {os.fsencode(record.path): record.label or "" for record in self.clips()}
        embedded = read_embedded(systems)[1]
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(
                file,
                paths=np.array([os.fsdecode(name) for name in systems.names]),
                labels=np.array([labels.get(name, "") for name in systems.names]),
                orders=systems.orders,
                transitions=systems.transition,
                observers=embedded.observers,
                lost=embedded.lost,
                lost_of_mean=embedded.lost_of_mean,
            )

    def verify(self) -> list[str]:
        """Check the file and the checksums of all arrays; return one sentence per problem."""
        return verify_library(self)

    def info(self) -> dict[str, Any]:
        """Return the facts of the library: counts, settings, sizes, what the embedding loses, versions."""
        with self.connection() as connection:

            def row(query: str) -> Any:
                return connection.execute(query).fetchone()

            clips, frames = row(
                "SELECT COUNT(*), SUM(frames) FROM clips JOIN contents ON content = contents.id"
            )
            (contents,) = row("SELECT COUNT(*) FROM contents")
            classes = connection.execute(
                "SELECT label, COUNT(*) FROM clips WHERE label IS NOT NULL GROUP BY label ORDER BY label"
            ).fetchall()
            versions = row("SELECT versions FROM settings")
            fitted = row("SELECT fitted_on FROM embeddings")
            lost = np.array([value for (value,) in connection.execute("SELECT lost FROM embedded")])
        settings, embedding = self.settings, read_embedding(self)[1]
        wal = Path(f"{self.path}-wal")
        return {
            "path": self.path,
            "schema": SCHEMA,
            "bytes": self.path.stat().st_size + (wal.stat().st_size if wal.exists() else 0),
            "clips": clips,
            "distinct_contents": contents,
            "frames": frames or 0,
            "classes": dict(classes),
            "bags": None if settings is None else " ".join(str(settings.bags).split()),
            "identifier": None if settings is None else " ".join(str(settings.identifier).split()),
            "compress": None if settings is None else settings.compress,
            "most_landmarks": None if settings is None else settings.landmarks,
            "landmarks": None if embedding is None else landmark_count(embedding),
            "metric": None if settings is None else settings.metric,
            "lambda_a": None if settings is None else settings.lambda_a,
            "lambda_mu": None if settings is None else settings.lambda_mu,
            "fitted_on": None if fitted is None else fitted[0],
            "lost_median": float(np.median(lost)) if lost.size else None,
            "lost_largest": float(lost.max()) if lost.size else None,
            "versions": None if versions is None else json.loads(versions[0]),
            "missing": len(self.missing()),
        }
