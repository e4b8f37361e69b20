"""The library: systems of many clips in one file, with labels, checksums and an embedding."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags.distances.embedding import EmbeddedSystems, Embedding
from sysbags.errors import FileError
from sysbags.library.index import SystemIndex
from sysbags.library.schema import SCHEMA, checksum, connect, sqlite_errors, unpack
from sysbags.library.settings import LibrarySettings, read_settings
from sysbags.systems.lazy import LazySystems
from sysbags.systems.serialization import system_from_arrays
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier
    from sysbags.library.adding import Added

__all__ = ["CHECKED", "ClipRecord", "Library", "StoredSystems", "below"]

# The columns of a content that its checksum is computed from, in this order.
CHECKED = (
    'sha256, frames, contents.size, bins, "order", transition, observer_gram, mean_norm, samples_checksum'
)


class ClipRecord(NamedTuple):
    """A clip of a library.

    Attributes
    ----------
    path : Path
        Absolute.
    label, source : str or None
    frames : int
        The length of its stream: one bag per frame, unless the bags have a larger window.
    order : int
        That of its system.
    samples : int
        The size of its system, which is smaller if the library compresses systems.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredSystems(LazySystems):
    """The systems of a library; threads may read them at the same time.

    Attributes
    ----------
    library : Library
    contents : (K,) array of int
        Their rows in the table ``contents``.
    checksums : list of str
        Those of the arrays that are read.
    """

    library: Library
    contents: IntArray
    checksums: list[str]

    def read(self, indices: IntArray) -> list[System]:
        """Read systems.

        Raises
        ------
        FileError
            If a system is damaged, or was removed from the library meanwhile.
        """
        with self.library.connection() as connection:
            return [self._read(connection, int(k)) for k in indices]

    def _read(self, connection: sqlite3.Connection, k: int) -> System:
        path = self.library.path
        query = "SELECT arrays FROM samples WHERE content = ?"
        row = connection.execute(query, [int(self.contents[k])]).fetchone()
        if row is None:
            raise FileError(
                f"a clip of the library {path} has been changed or removed meanwhile: get its systems again"
            )
        if checksum(row[0]) != self.checksums[k]:
            raise FileError(f"the library {path} is damaged: `sysbags library verify` says where")
        n = self.orders[k]
        small = {
            "transition": self.transition[k, :n, :n],
            "_observer_gram": self.observer_gram[k, :n, :n],
            "_mean_norm": self.mean_norm[k],
        }
        return system_from_arrays(unpack(row[0]) | small, self.kernel)


class Library:
    """A file with the systems of many clips, to add to, to search and to compute with.

    The file is made by the first `add`, which also sets how clips become systems. Each clip is added by a
    transaction of its own: a process that is killed loses no clip that was added, and the next `add`
    continues. Several processes may read and add at the same time. An embedding of all clips is part of the
    library, for search.

    Parameters
    ----------
    path : path
        A file on a local disk; SQLite's WAL mode, which is used, does not work on network drives.

    Raises
    ------
    FileError
        If the file is not a library, or of a newer version of sysbags.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import sysbags
    >>> from sysbags.datasets import make_clips
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> clips, labels = make_clips(
    ...     folder / "clips", 2, frames=8, height=48, width=64, textures=["rain", "fire"]
    ... )
    >>> with Library(folder / "clips.library") as library:
    ...     first = library.add([folder / "clips"], identifier=sysbags.SystemIdentifier(order=2))
    ...     second = library.add(clips)
    ...     print(first.added, second.added, second.unchanged)
    ...     print([clip.label for clip in library.clips()], library.verify())
    ...     print(library.systems[0])
    4 0 4
    ['fire', 'fire', 'rain', 'rain'] []
    System(order=2, size=8, bag_length=256, kernel='chi2')
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        n_jobs: int | None = None,
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
            Clips, or folders to search. A clip in a folder of such a folder has the name of that folder as
            its label; a table ``index.csv`` says more, see `sysbags.datasets.class_folders`.
        labels, sources : sequence of str or None, optional
            One for each path, which then are clips. None leaves those of a clip as they are.
        bags : BagTransformer, optional
            By default `LocalBinaryPatterns`. Bags that learn a codebook are fitted to the clips, unless they
            are fitted already.
        identifier : SystemIdentifier, optional
            By default of order 5, or of the largest order that a clip has.
        compress : int, optional
            Compress systems to so many samples, or as many as their order if that is larger.
        n_jobs : int, optional
            Threads; the result does not depend on it.

        Returns
        -------
        Added

        Raises
        ------
        ParameterError
            If the settings are not those of the library.
        FileError
            If the file cannot be written. The clips that were added before are kept.
        """
        from sysbags.library.adding import add_clips
        from sysbags.library.settings import WantedSettings

        return add_clips(self, paths, labels, sources, WantedSettings(bags, identifier, compress), n_jobs)

    def remove(self, paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
        """Remove clips, or all clips below folders, and return them; the clips themselves are not touched.

        Raises
        ------
        FileError
            If one is not in the library; then nothing is removed.
        """
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
        query = """SELECT path, label, source, frames, "order", contents.size, clips.size, sha256,
            contents.checksum, added, versions FROM clips JOIN contents ON content = contents.id
            ORDER BY path"""
        with self.connection() as connection:
            rows = connection.execute(query).fetchall()
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
        """The systems of all clips, ordered by the paths; their samples are read when they are needed."""
        return self.select("clips JOIN contents ON content = contents.id ORDER BY path")

    def select(self, where: str, parameters: Sequence[Any] = ()) -> StoredSystems:
        """Return the systems of some contents; `where` follows FROM in a query."""
        query = f"SELECT contents.id, contents.checksum, {CHECKED} FROM {where}"
        with self.connection() as connection:
            rows = connection.execute(query, parameters).fetchall()
        settings = self.settings
        if not rows or settings is None:
            raise FileError(f"the library {self.path} has no clips: `sysbags library add` adds them")
        for row in rows:
            if checksum(*row[2:]) != row[1]:
                raise FileError(f"the library {self.path} is damaged: `sysbags library verify` says where")
        ids, _, _, _, sizes, bins, orders, transitions, grams, norms, checksums = zip(*rows, strict=True)
        return StoredSystems(
            kernel=settings.identifier.kernel,
            bag_length=bins[0],
            normal_form=settings.identifier.normal_form,
            sizes=np.array(sizes),
            orders=np.array(orders),
            transition=_padded(transitions, orders),
            observer_gram=_padded(grams, orders),
            mean_norm=np.array(norms),
            library=self,
            contents=np.array(ids),
            checksums=list(checksums),
        )

    @property
    def embedding(self) -> Embedding | None:
        """The embedding of the clips; None if an `add` was interrupted before there was one."""
        from sysbags.library.embedded import read_embedding

        return read_embedding(self)[1]

    def embedded(self) -> EmbeddedSystems:
        """Return all systems in the embedding, in the order of `systems`.

        Clips that are not embedded yet, as another process is adding them, are embedded in memory.
        """
        from sysbags.library.embedded import read_embedded

        return read_embedded(self, self.systems)[1]

    def index(
        self, *, lambda_a: float = 0.25, lambda_mu: float = 0.0, n_jobs: int | None = None
    ) -> SystemIndex:
        """Return an index of `systems`, to search for the nearest ones.

        Parameters
        ----------
        lambda_a, lambda_mu : float, default=0.25, 0.0
            Weights of the transition and of the mean.
        n_jobs : int, optional
            Threads.
        """
        return self.index_of(self.systems, lambda_a=lambda_a, lambda_mu=lambda_mu, n_jobs=n_jobs)

    def index_of(self, systems: StoredSystems, **options: Any) -> SystemIndex:
        """Return an index of some systems; `options` are those of `index`."""
        from sysbags.library.embedded import read_embedded

        embedding, embedded = read_embedded(self, systems)
        return SystemIndex(systems, embedding=embedding, embedded=embedded, **options)  # type: ignore[call-arg]

    def verify(self, *, files: bool = False) -> list[str]:
        """Check the file and the checksums of all arrays.

        Parameters
        ----------
        files : bool, default=False
            Compare the contents of the clips on disk, too.

        Returns
        -------
        list of str
            One sentence per problem; empty if there is none.
        """
        from sysbags.library.verification import verify

        return verify(self, files=files)

    def info(self) -> dict[str, Any]:
        """Return the facts of the library: counts, settings, sizes, what the embedding loses, versions."""
        from sysbags.library.embedded import read_embedding

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
            "contents": contents,
            "frames": frames or 0,
            "classes": dict(classes),
            "bags": None if settings is None else " ".join(str(settings.bags).split()),
            "identifier": None if settings is None else " ".join(str(settings.identifier).split()),
            "compress": None if settings is None else settings.compress,
            "landmarks": None if embedding is None else embedding.size,
            "fitted_on": None if fitted is None else fitted[0],
            "lost_median": float(np.median(lost)) if lost.size else None,
            "lost_largest": float(lost.max()) if lost.size else None,
            "versions": None if versions is None else json.loads(versions[0]),
            "missing": len(self.missing()),
        }


def below(connection: sqlite3.Connection, path: str | os.PathLike[str]) -> list[bytes]:
    """Return the paths in the library that are a path or below it."""
    name = os.fsencode(os.path.abspath(path))
    start = name.rstrip(b"/") + b"/"
    query = "SELECT path FROM clips WHERE path = ? OR (path > ? AND path < ?) ORDER BY path"
    # What begins with "name/" is between "name/" and "name0", as "0" follows "/".
    return [found for (found,) in connection.execute(query, [name, start, start[:-1] + b"0"])]


def _padded(matrices: Sequence[bytes], orders: Sequence[int]) -> Array:
    """Return square matrices as one array, padded with zeros."""
    stack = np.zeros((len(matrices), max(orders), max(orders)))
    for k, (data, n) in enumerate(zip(matrices, orders, strict=True)):
        stack[k, :n, :n] = np.frombuffer(data, dtype="<f8").reshape(n, n)
    return stack
