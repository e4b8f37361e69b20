"""The systems of a library, which are read when they are needed, and their embedding."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sysbags._common.parallel import run, use_client
from sysbags._common.types import Array, IntArray
from sysbags.distances.embedding import EmbeddedSystems, embed, fit_embedding
from sysbags.distances.gram import SystemStack
from sysbags.errors import FileError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.library.index import SystemIndex
from sysbags.library.reading import LARGE
from sysbags.library.schema import checksum, pack, unpack
from sysbags.library.settings import LANDMARKS
from sysbags.systems.collection import LazySystems, system_from_arrays
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.library.store import Library

# The columns of a content that its checksum is computed from, in this order.
CHECKED = (
    'sha256, frames, contents.size, bins, "order", transition, observer_gram, mean_norm, samples_checksum'
)
MOST_FITTED = 2000  # contents that an embedding is fitted to
GROWTH = 4  # fit again when there are so many times more contents than it was fitted to,
ENOUGH = 1000  # unless it was fitted to so many
BATCH = 256  # contents that are written in one transaction


class AbsentError(FileError):
    """What is asked for is not in the library, or no longer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredSystems(LazySystems):
    """The systems of a library; threads may read them at the same time.

    `contents` are their rows in the table ``contents``, `checksums` those of the arrays that are read, and
    `names` what was selected to name them, such as the paths of clips, as bytes.
    """

    library: Library
    contents: IntArray
    checksums: list[str]
    names: list[Any]

    def read(self, indices: IntArray) -> list[System]:
        """Read systems; one that is damaged, or was removed meanwhile, is a `FileError`."""
        with self.library.connection() as connection:
            return [self._read(connection, int(k)) for k in indices]

    def _read(self, connection: sqlite3.Connection, k: int) -> System:
        path = self.library.path
        query = "SELECT arrays FROM samples WHERE content = ?"
        row = connection.execute(query, [int(self.contents[k])]).fetchone()
        if row is None:
            raise AbsentError(
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
        try:
            arrays = unpack(row[0])
            large = {name: arrays[name].T for name in LARGE}
            return system_from_arrays(arrays | large | small, self.kernel)
        except Exception as error:  # a malicious file may raise any exception
            raise FileError(f"the library {path} holds a system that is not valid: {error}") from error


def select_systems(
    library: Library, where: str, name: str = "NULL", parameters: Sequence[Any] = ()
) -> StoredSystems:
    """Return the systems of some rows of ``contents``, without their samples.

    `where` is what follows FROM in the query, `name` the column that names the systems.
    """
    query = f"SELECT contents.id, {name}, contents.checksum, {CHECKED} FROM {where}"
    with library.connection() as connection:
        rows = connection.execute(query, parameters).fetchall()
    settings = library.settings
    if not rows or settings is None:
        raise AbsentError(f"the library {library.path} has no clips: `sysbags library add` adds them")
    for row in rows:
        if checksum(*row[3:]) != row[2]:
            raise FileError(f"the library {library.path} is damaged: `sysbags library verify` says where")
    ids, names, _, _, _, sizes, bins, orders, transitions, grams, norms, sums = zip(*rows, strict=True)
    return StoredSystems(
        kernel=settings.identifier.kernel,
        bag_length=bins[0],
        normal_form=settings.identifier.normal_form,
        sizes=np.array(sizes),
        orders=np.array(orders),
        transition=_padded(transitions, orders),
        observer_gram=_padded(grams, orders),
        mean_norm=np.array(norms),
        library=library,
        contents=np.array(ids),
        checksums=list(sums),
        names=list(names),
    )


def _padded(matrices: Sequence[bytes], orders: Sequence[int]) -> Array:
    """Return square matrices as one array, padded with zeros."""
    stack = np.zeros((len(matrices), max(orders), max(orders)))
    for k, (data, n) in enumerate(zip(matrices, orders, strict=True)):
        stack[k, :n, :n] = np.frombuffer(data, dtype="<f8").reshape(n, n)
    return stack


def below(connection: sqlite3.Connection, path: str | os.PathLike[str]) -> list[bytes]:
    """Return the paths in the library that are a path or below it."""
    name = os.fsencode(os.path.abspath(path))
    start = name.rstrip(b"/") + b"/"
    query = "SELECT path FROM clips WHERE path = ? OR (path > ? AND path < ?) ORDER BY path"
    # What begins with "name/" is between "name/" and "name0", as "0" follows "/".
    return [found for (found,) in connection.execute(query, [name, start, start[:-1] + b"0"])]


class DamagedEmbeddingError(FileError):
    """The landmarks of a library do not have their checksum."""


def embed_clips(library: Library, n_jobs: int | None = None) -> None:
    """Fit the embedding where that is due, and embed every clip that is not embedded yet."""
    while True:
        _fit_when_due(library)
        try:
            number, embedding = read_embedding(library)
        except DamagedEmbeddingError:
            with library.transaction() as connection:
                connection.execute("DELETE FROM embeddings")
            continue
        try:
            systems = select_systems(library, "waiting JOIN contents ON waiting.content = contents.id")
        except AbsentError:
            return
        if embedding is None:
            return
        _embed(library, systems, number, embedding, n_jobs)


def _embed(
    library: Library, systems: StoredSystems, number: int, embedding: StreamEmbedding, n_jobs: int | None
) -> None:
    """Embed systems and write them, many in a transaction."""
    rows: list[tuple[Any, ...]] = []

    def write() -> None:
        with library.transaction() as connection:
            # Otherwise another process has fitted it again, and all are embedded again.
            if connection.execute("SELECT id FROM embeddings").fetchone() == (number,):
                _write(connection, number, rows)
        rows.clear()

    def take(k: int, row: tuple[Any, ...]) -> None:
        rows.append((int(systems.contents[k]), *row))
        if len(rows) == BATCH:
            write()

    with suppress(AbsentError):  # removed by another process: what is left is selected again
        # Each on its own, so that its numbers do not depend on what is embedded with it.
        run(_embedded_row, systems, n_jobs, "embedding", shared=(embedding,), consume=take, remote=True)
    if rows:
        write()


def _embedded_row(system: System, embedding: StreamEmbedding) -> tuple[bytes, float, float]:
    """Return the columns of a row of ``embedded`` that depend on the system."""
    one = embed(embedding, [system])
    norms = np.sqrt(SystemStack.of([system]).norms)
    rows = one.observers[0] / _by_row(norms, system.order)[0]
    return rows.astype("<f2").tobytes(), float(one.lost[0]), float(one.lost_of_mean[0])


def _by_row(norms: Array, order: int) -> Array:
    """Return the divisors of the rows of embedded systems, (K, n + 1, 1), as half precision ends at 65504."""
    return np.repeat(np.where(norms > 0.0, norms, 1.0), [order, 1], axis=1)[..., None]


def _write(connection: sqlite3.Connection, number: int, rows: list[tuple[Any, ...]]) -> None:
    for row in rows:
        # Another process may have removed or embedded it meanwhile.
        if connection.execute("DELETE FROM waiting WHERE content = ?", row[:1]).rowcount:
            connection.execute(
                "INSERT INTO embedded (content, observers, lost, lost_of_mean, embedding, checksum) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [*row, number, checksum(*row[1:])],
            )


def _fit_when_due(library: Library) -> None:
    """Fit an embedding if there is none or the library has grown much; the former one is deleted."""
    with library.connection() as connection:
        former = connection.execute("SELECT id, fitted_on FROM embeddings").fetchone()
        if former is not None and former[1] >= ENOUGH:
            return
        least = 1 if former is None else GROWTH * former[1]
        query = "SELECT COUNT(*) FROM (SELECT 1 FROM contents LIMIT ?)"
        if connection.execute(query, [least]).fetchone()[0] < least:
            return
        contents = [k for (k,) in connection.execute("SELECT id FROM contents ORDER BY sha256")]
    # Evenly spaced by their hashes, so that the choice does not depend on the order in which they were added.
    chosen = [contents[int(k)] for k in np.linspace(0, len(contents) - 1, min(len(contents), MOST_FITTED))]
    systems = select_systems(
        library,
        f"contents WHERE id IN ({', '.join(map(str, chosen))}) ORDER BY sha256",  # more than SQLite has marks
    )
    embedding = _fitted(systems)
    arrays = {"lost": np.array(embedding.lost_)}
    if embedding.landmarks_ is not None:  # samples of the library, which have single precision
        arrays["landmarks"] = embedding.landmarks_.astype("<f4", copy=False).T
    data = pack(arrays)
    with library.transaction() as connection:
        present = connection.execute("SELECT id, fitted_on FROM embeddings").fetchone()
        if present != former:
            return  # another process was faster
        connection.execute("DELETE FROM embeddings")
        connection.execute(
            "INSERT INTO embeddings (fitted_on, arrays, checksum) VALUES (?, ?, ?)",
            [len(contents), data, checksum(data)],
        )
        connection.execute("INSERT OR IGNORE INTO waiting SELECT id FROM contents")


def _fitted(systems: StoredSystems) -> StreamEmbedding:
    settings = systems.library.settings
    return fit_embedding(systems, LANDMARKS if settings is None else settings.landmarks)


def read_embedding(library: Library) -> tuple[int, StreamEmbedding | None]:
    """Return the embedding and its row."""
    with library.connection() as connection:
        row = connection.execute("SELECT id, arrays, checksum FROM embeddings").fetchone()
    settings = library.settings
    if row is None or settings is None:
        return 0, None
    if checksum(row[1]) != row[2]:
        raise DamagedEmbeddingError(
            f"the embedding of the library {library.path} is damaged: add any clip, and it is computed again"
        )
    arrays = unpack(row[1])
    embedding = StreamEmbedding(settings.identifier.kernel, settings.landmarks)
    embedding.landmarks_ = embedding.components_ = None
    embedding.lost_ = float(arrays["lost"])
    if "landmarks" in arrays:
        embedding.landmarks_ = np.ascontiguousarray(arrays["landmarks"].T, dtype=np.float32)
    return row[0], embedding


def index_of(systems: StoredSystems, **options: Any) -> SystemIndex:
    """Return an index of systems; `options` are those of `Library.index`."""
    with use_client(options.get("client")):
        embedding, embedded = read_embedded(systems, options.get("n_jobs"))
    arguments: dict[str, Any] = {"embedding": embedding, "embedded": embedded, **options}
    return SystemIndex(systems, **arguments)


def read_embedded(
    systems: StoredSystems, n_jobs: int | None = None
) -> tuple[StreamEmbedding, EmbeddedSystems]:
    """Return the embedding, and systems in it; what is not embedded yet is embedded in memory."""
    library = systems.library
    number, embedding = read_embedding(library)
    places: dict[int, list[int]] = {}
    for place, content in enumerate(systems.contents.tolist()):
        places.setdefault(content, []).append(place)
    if embedding is None:
        embedding = _fitted(systems)
    query = "SELECT content, observers, lost, lost_of_mean, checksum FROM embedded WHERE embedding = ?"
    n, count = systems.transition.shape[1], len(systems)
    observers, lost = np.zeros((count, n + 1, 0), dtype=np.float32), np.zeros((2, count))
    scales = _by_row(np.sqrt(SystemStack.of(systems).norms), n).astype(np.float32)

    def put(group: Sequence[int], data: bytes, *values: float) -> None:
        nonlocal observers
        for place in group:
            rows = np.frombuffer(data, dtype="<f2").reshape(systems.orders[place] + 1, -1)
            if not observers.shape[2]:
                observers = np.zeros((count, n + 1, rows.shape[1]), dtype=np.float32)
            observers[place, : len(rows) - 1], observers[place, n] = rows[:-1], rows[-1]
            lost[:, place] = values

    with library.connection() as connection:
        for content, *row, expected in connection.execute(query, [number]):
            if checksum(*row) != expected:
                raise FileError(f"the library {library.path} is damaged: `sysbags library verify` says where")
            put(places.pop(content, ()), *row)
    waiting = list(places.values())  # clips with the same content are embedded once
    if waiting:
        some = systems.subset(np.array([group[0] for group in waiting]))
        run(
            _embedded_row,
            some,
            n_jobs,
            "embedding",
            shared=(embedding,),
            consume=lambda k, row: put(waiting[k], *row),
            remote=True,
        )
    observers *= scales
    return embedding, EmbeddedSystems(observers=observers, lost=lost[0], lost_of_mean=lost[1])
