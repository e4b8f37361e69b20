"""The settings of a library: how clips become systems, fixed by the first clips that are added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sysbags._common.cache import fingerprint, named_error
from sysbags._common.parallel import run
from sysbags._common.validation import check_integer
from sysbags.bags.base import BagTransformer
from sysbags.bags.union import BagUnion
from sysbags.errors import FileError, ParameterError, SysbagsError, VideoError
from sysbags.library.schema import checksum, pack, unpack
from sysbags.storage.files import versions
from sysbags.storage.tree import Reader, Writer

if TYPE_CHECKING:
    from sysbags.classifiers import SystemIdentifier
    from sysbags.library.store import Library

__all__ = ["LibrarySettings", "WantedSettings", "ensure_settings", "read_settings"]


class LibrarySettings(NamedTuple):
    """How clips become systems; the same for all clips of a library.

    Attributes
    ----------
    bags : BagTransformer
        Fitted, if they require it.
    identifier : SystemIdentifier
    compress : int or None
        The largest number of samples of a system.
    """

    bags: BagTransformer
    identifier: SystemIdentifier
    compress: int | None


class WantedSettings(NamedTuple):
    """Settings as `Library.add` is given them; None is for those of the library, or the default."""

    bags: BagTransformer | None
    identifier: SystemIdentifier | None
    compress: int | None


def read_settings(library: Library) -> LibrarySettings | None:
    """Return the settings of a library; None if no clip was ever added."""
    with library.connection() as connection:
        row = connection.execute("SELECT tree, arrays, checksum FROM settings").fetchone()
    if row is None:
        return None
    if checksum(*row[:2]) != row[2]:
        raise FileError(f"the settings of the library {library.path} are damaged: make a new library")
    try:
        return LibrarySettings(**Reader(unpack(row[1])).get(json.loads(row[0])))
    except FileError as error:  # such as a network that is not the same here
        raise FileError(f"cannot use the library {library.path}: {error}") from None
    except Exception as error:  # a malicious file may raise any exception
        raise FileError(f"the settings of the library {library.path} are not valid: {error}") from error


def ensure_settings(
    library: Library, wanted: WantedSettings, paths: Sequence[str], n_jobs: int | None
) -> LibrarySettings:
    """Return the settings of the library; where it has none, write those that are wanted, or the defaults."""
    if isinstance(wanted.bags, BagUnion):
        raise ParameterError("a library holds one system per clip, so the bags must be a single bag")
    if wanted.compress is not None:
        check_integer(wanted.compress, "compress")
    with library.connection(create=True):
        pass
    settings = library.settings
    if settings is None:
        new = _fitted(wanted, paths, n_jobs)
        writer = Writer()
        tree = json.dumps({"dict": writer.put_each(new._asdict(), "")}, allow_nan=False)
        row = [tree, pack(writer.arrays)]
        with library.transaction() as connection:
            if connection.execute("SELECT 1 FROM settings").fetchone() is None:  # else another was first
                connection.execute(
                    "INSERT INTO settings VALUES (1, ?, ?, ?, ?)",
                    [*row, json.dumps(versions(writer.needs)), checksum(*row)],
                )
        settings = library.settings
        assert settings is not None
    _check_same(library, settings, wanted)
    return settings


def _fitted(wanted: WantedSettings, paths: Sequence[str], n_jobs: int | None) -> LibrarySettings:
    """Return complete settings; bags that learn are fitted to the clips that can be read."""
    from sklearn.base import clone

    from sysbags.bags.lbp import LocalBinaryPatterns
    from sysbags.classifiers import SystemIdentifier

    bags: BagTransformer = LocalBinaryPatterns() if wanted.bags is None else wanted.bags
    if bags.requires_fit and not _is_fitted(bags):
        first = run(_can_be_read, paths, n_jobs, "first frames", shared=(bags,))
        readable = [Path(path) for path, error in zip(paths, first, strict=True) if error is None]
        if not readable:
            error = next(error for error in first if error is not None)
            raise type(error)(f"none of the clips can be used: {error}")
        bags = clone(bags).set_params(n_jobs=n_jobs).fit(readable).set_params(n_jobs=None)
    identifier = wanted.identifier or SystemIdentifier(smaller_orders=True)
    return LibrarySettings(bags, identifier, wanted.compress)


def _can_be_read(path: str, bags: BagTransformer) -> SysbagsError | None:
    try:
        next(iter(bags.read(path)))
    except VideoError as error:
        return named_error(Path(path), error)
    return None


def _is_fitted(bags: BagTransformer) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(bags)
    except NotFittedError:
        return False
    return True


def _check_same(library: Library, settings: LibrarySettings, wanted: WantedSettings) -> None:
    """Raise an error if settings are given that are not those of the library."""
    from sklearn.base import clone

    pairs: list[tuple[str, Any, Any]] = list(zip(settings._fields, settings, wanted, strict=True))
    for name, own, other in pairs:
        if other is None:
            continue
        if name == "compress":
            differing = {} if own == other else {name: (own, other)}
        else:
            learnt = name == "bags" and other.requires_fit and _is_fitted(other)
            # Bags that are not fitted yet have no codebook to compare.
            first, second = (fingerprint(one if learnt else clone(one)) for one in (own, other))
            differing = {key: (first.get(key), second.get(key)) for key in first | second}
            differing = {key: pair for key, pair in differing.items() if pair[0] != pair[1]}
        for key, (value, given) in differing.items():
            what = "another codebook" if key.endswith("_") else f"{key}={value!r}, not {given!r}"
            if key == "class":
                what = f"{type(own).__name__}, not {type(other).__name__}"
            raise ParameterError(
                f"the library {library.path} was made with {what}: leave out the settings to use those of "
                "the library, or make another library"
            )
