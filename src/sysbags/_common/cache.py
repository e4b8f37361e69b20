"""A cache on disk: results are computed once, and an interrupted run continues where it stopped.

A record is a safetensors file of named arrays. Its name is a hash of all that the arrays depend on. It is
written atomically and checked when it is read: a damaged or foreign file is ignored, and the work repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.files import IMAGE_SUFFIXES, atomic_write, remove_old_temporaries
from sysbags._common.messages import warn
from sysbags._common.validation import check_choice
from sysbags.errors import CacheWarning, FileError, ParameterError, VideoError

SUFFIX = ".safetensors"

# One number for each kind of record. Increase it when the code that makes such records changes their content:
# records of another number are not read again.
SCHEMAS = {
    "codebook": 1,
    "descriptors": 1,
    "distances": 1,
    "gram": 1,
    "stream": 1,
    "system": 3,
    "vector": 1,
}

Arrays = dict[str, npt.NDArray[Any]]


class Cache:
    """Named arrays in a folder; the key of a record is all that its arrays depend on.

    The folder is created when the first record is written; None caches nothing. If a record cannot be
    written, for example because the disk is full, the work continues without it, and a `CacheWarning` says so
    once.

    >>> import tempfile
    >>> cache = Cache(tempfile.mkdtemp())
    >>> cache.arrays("vector", {"number": 3}, lambda: {"square": np.array([9.0])})["square"]
    array([9.])
    >>> cache.arrays("vector", {"number": 3}, lambda: 1 / 0)["square"]  # not called again
    array([9.])
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._has_written = self._has_warned = False

    def arrays(
        self, kind: str, key: Mapping[str, Any], make: Callable[[], Mapping[str, npt.ArrayLike]]
    ) -> Arrays:
        """Read the arrays of a record, or make and write them.

        The kind is one of `SCHEMAS`; the record also depends on its number there. The key, as JSON, is all
        else that the arrays depend on. Threads and processes may call this at the same time: at worst both do
        the work, and one of the two records remains, complete.
        """
        record = self.find(kind, key)
        return self.keep(kind, key, make()) if record is None else record

    def find(self, kind: str, key: Mapping[str, Any]) -> Arrays | None:
        """Read the arrays of a record; None if there is none. See `arrays`."""
        if self.folder is None:
            return None
        check_choice(kind, "kind", SCHEMAS)
        return _read(*self._place(kind, key))

    def keep(self, kind: str, key: Mapping[str, Any], arrays: Mapping[str, npt.ArrayLike]) -> Arrays:
        """Write the arrays of a record, and return them as they would be read. See `arrays`."""
        record = _plain(arrays)
        if self.folder is not None:
            self._write(*self._place(kind, key), record)
        return record

    def _place(self, kind: str, key: Mapping[str, Any]) -> tuple[Path, str]:
        """Return the path of a record and the text that identifies it."""
        content = {"kind": kind, "schema": SCHEMAS[kind], "key": key}
        text = json.dumps(content, sort_keys=True, allow_nan=False)
        name = f"{hashlib.sha256(text.encode()).hexdigest()[:40]}{SUFFIX}"
        return Path(self.folder or "") / name, text

    def _write(self, path: Path, text: str, arrays: Arrays) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        if not self._has_written:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError(f"cannot create the cache {self.folder}: {error.strerror or error}") from None
            remove_old_temporaries(path.parent)
            self._has_written = True
        try:
            with atomic_write(path) as temporary:
                save_file(arrays, temporary, {"key": text, "checksum": _checksum(arrays)})
        except (FileError, SafetensorError) as error:
            if not self._has_warned:
                self._has_warned = True
                warn(f"the work continues without the cache {self.folder}: {error}", CacheWarning)


def clip_key(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the identity of a clip: its absolute path, and the sizes and modification times of its files."""
    clip = Path(os.path.abspath(path))
    try:
        files = [clip]
        if clip.is_dir():
            files = sorted(entry for entry in clip.iterdir() if entry.suffix.lower() in IMAGE_SUFFIXES)
        facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    except OSError as error:
        raise VideoError(f"cannot read {path}: {error.strerror or error}") from None
    return {"clip": str(clip), "files": facts if len(facts) < 2 else fingerprint(repr(facts).encode())}


def fingerprint(value: Any) -> Any:
    """Return a JSON value that identifies an array, a number, an estimator or a list of these.

    An estimator is identified by its class, its parameters except `n_jobs`, and its fitted attributes.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if isinstance(value, (str, int)) or value is None or np.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [fingerprint(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): fingerprint(item) for key, item in value.items()}
    if isinstance(value, (bytes, np.ndarray)):
        kind = "bytes" if isinstance(value, bytes) else f"{value.dtype.str}{value.shape}"
        data = value if isinstance(value, bytes) else np.ascontiguousarray(value).data
        return f"{kind} {hashlib.sha256(data).hexdigest()}"
    if isinstance(value, os.PathLike):
        return clip_key(value)
    if hasattr(value, "get_params"):
        fitted = {name: item for name, item in vars(value).items() if name.endswith("_") and name[0] != "_"}
        state = value.get_params(deep=False) | fitted
        if hasattr(value, "cache_key"):  # what it depends on beside them, such as the contents of a file
            state |= value.cache_key()
        state.pop("n_jobs", None)
        return {"class": f"{type(value).__module__}.{type(value).__qualname__}", **fingerprint(state)}
    raise ParameterError(
        f"results that depend on a {type(value).__name__} cannot be cached, as it has no fingerprint"
    )


def _plain(arrays: Mapping[str, npt.ArrayLike]) -> Arrays:
    return {name: np.asarray(array, order="C") for name, array in arrays.items()}


def _read(path: Path, text: str) -> Arrays | None:
    """Return the arrays of a record if it is undamaged and belongs to this key."""
    from safetensors import safe_open

    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception:  # a damaged file may raise any exception
        return None
    return arrays if about == {"key": text, "checksum": _checksum(arrays)} else None


def _checksum(arrays: Arrays) -> str:
    return hashlib.sha256(json.dumps(fingerprint(arrays), sort_keys=True).encode()).hexdigest()
