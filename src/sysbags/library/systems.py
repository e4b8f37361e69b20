"""The systems of a library, which are read when they are needed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags.errors import FileError
from sysbags.library.schema import checksum, unpack
from sysbags.systems.collection import LazySystems, system_from_arrays
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.library.store import Library

__all__ = ["CHECKED", "AbsentError", "StoredSystems", "below", "select_systems"]

# The columns of a content that its checksum is computed from, in this order.
CHECKED = (
    'sha256, frames, contents.size, bins, "order", transition, observer_gram, mean_norm, samples_checksum'
)


class AbsentError(FileError):
    """What is asked for is not in the library, or no longer."""


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
    names : list
        What was selected to name them, such as the paths of clips, as bytes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sysbags.datasets import make_clips
    >>> from sysbags.library import Library
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> clips, _ = make_clips(folder / "clips", 2, frames=8, height=48, width=64, textures=["rain", "fire"])
    >>> import sysbags
    >>> with Library(folder / "clips.library") as library:
    ...     _ = library.add(clips)
    ...     systems = library.systems
    ...     distances = sysbags.pairwise_distances(systems)  # reads the samples
    >>> len(systems), systems.orders, distances.shape
    (4, array([5, 5, 5, 5]), (4, 4))
    """

    library: Library
    contents: IntArray
    checksums: list[str]
    names: list[Any]

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
            return system_from_arrays(unpack(row[0]) | small, self.kernel)
        except Exception as error:  # a malicious file may raise any exception
            raise FileError(f"the library {path} holds a system that is not valid: {error}") from error


def select_systems(
    library: Library, where: str, name: str = "NULL", parameters: Sequence[Any] = ()
) -> StoredSystems:
    """Return the systems of some rows of ``contents``, without their samples.

    Parameters
    ----------
    library : Library
    where : str
        What follows FROM in the query.
    name : str, default="NULL"
        The column that names the systems.
    parameters : sequence
        Those of the query.
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
