"""Model files: systems, bags, classifiers and pipelines of them as arrays and JSON, never as code.

A model file is a safetensors file. The names of its arrays are their paths in the object
(``steps/classify/centers_/0/alpha``). Its metadata contain one JSON text with the name ``sysbags``: the
format, the kind, the versions of the packages that wrote it, the object as a tree, and a checksum of the
metadata and the arrays.

Each JSON object in a tree has one entry, whose key is its type: an array, bytes, a dict, a tuple, a dtype, a
number that JSON does not have, or one of `KINDS` (`sysbags.storage.kinds`) with its parameters and its state
("kept"). Reading makes only these, and never imports a name from a tree.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import platform
import stat
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common import __version__
from sysbags._common.files import CONTENTS, MODEL_START, atomic_write, saved_contents, saved_kind
from sysbags.errors import FileError, ParameterError, SysbagsError
from sysbags.kernels import KERNELS
from sysbags.storage.kinds import KINDS, build, check, kind_of, parts

FORMAT = 1


def save(path: str | os.PathLike[str], obj: Any) -> None:
    """Write a system, a list of systems, a bag, a classifier or a pipeline of them to a file.

    The file contains arrays and JSON and no code, and is written atomically. It can have any name. A function
    as the kernel and a Generator as the random state cannot be saved; an ONNX file is copied into the model
    file, but of a network with a name only the name and the checksum are. The `memory` of a pipeline is not
    saved.

    Parameters
    ----------
    path : str or path
    obj : System, FrechetMean, list of System, StreamEmbedding, any of `sysbags.bags`, SystemIdentifier, \
NearestSystem, NearestMean, KernelRidgeClassifier, or a scikit-learn Pipeline of these
        Fitted or not.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "model.sysbags"
    >>> sysbags.save(file, sysbags.NearestMean().fit(systems, ["a", "a", "b", "b"]))
    >>> sysbags.load(file).predict(systems)
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    """
    _check_path(path)
    if not _can_be_saved(obj):
        description = "a list of other objects" if isinstance(obj, list) else f"of type {type(obj).__name__}"
        raise ParameterError(
            f"obj is {description}, but only a list of System and these can be saved: {', '.join(KINDS)} "
            "(of a search, save its best_estimator_)"
        )
    _write(path, type(obj).__name__, obj)


def save_values(path: str | os.PathLike[str], kind: str, values: dict[str, Any]) -> None:
    """Write named values to a file as `save` does.

    Parameters
    ----------
    path : str or path
    kind : str
        What the file is, not one of `KINDS`.
    values : dict
        Numbers, texts, arrays, lists, tuples and dicts of these, and objects of `KINDS`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "counts"
    >>> save_values(file, "Counts", {"frames": 12})
    >>> load_values(file, "Counts")
    {'frames': 12}
    """
    _check_path(path)
    _write(path, kind, values)


def _write(path: str | os.PathLike[str], kind: str, obj: Any) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    writer = Writer()
    try:
        tree = writer.put(obj)
        about = {
            "format": FORMAT,
            "kind": kind,
            "versions": versions(writer.needs),
            "object": tree,
        }
        text = _text(about | {"checksum": _checksum(about, writer.arrays)})
    except RecursionError:
        raise ParameterError("obj contains lists or dicts that are nested too deeply to save") from None
    with atomic_write(path) as temporary:
        try:
            save_file(writer.arrays, temporary, {"sysbags": text})
        except SafetensorError as error:
            raise FileError(f"cannot write {path}: {error}") from None


def load(path: str | os.PathLike[str]) -> Any:
    """Read an object that `save` wrote. No code in the file is run, so that untrusted files are safe.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    System, FrechetMean, list of System, bag, classifier or Pipeline
        It gives exactly the same streams, systems and labels as the saved object.

    Examples
    --------
    >>> import tempfile, pathlib, sysbags
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "theta.sysbags"
    >>> sysbags.save(file, sysbags.System([[0.5]], [[0.0, 1.0], [1.0, 0.0]], [[1.0], [0.5]], [0.5, 0.5]))
    >>> sysbags.load(file)
    System(order=1, size=2, bag_length=2, kernel='chi2')
    """
    kind, obj = _load(path)
    if type(obj) is dict and kind in CONTENTS:
        raise FileError(f"{path} holds {CONTENTS[kind]}, but it must hold a model or a system")
    if not _can_be_saved(obj) or type(obj).__name__ != kind:
        raise FileError(f"{path} is not a valid model file: it does not contain a {kind!r}, as it says")
    return obj


def load_values(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read what `save_values` wrote; a `FileError` if the file is damaged or of another kind.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from sysbags.storage import load_values, save_values
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "state"
    >>> save_values(file, "State", {"count": 3, "rows": np.ones((2, 2))})
    >>> values = load_values(file, "State")
    >>> values["count"], values["rows"].shape
    (3, (2, 2))
    """
    _check_path(path)
    if saved_kind(path) != kind and (contents := saved_contents(path)):
        raise FileError(f"{path} holds {contents}, but it must hold {CONTENTS.get(kind, f'a {kind}')}")
    found, values = _load(path)
    if found != kind or type(values) is not dict:
        raise FileError(f"{path} is not a valid model file: it does not contain a {kind!r}")
    return values


def _load(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Return the kind that a file says it has, and its contents."""
    about, arrays = _read(path, lambda file, name: file.get_tensor(name))
    checksum = about.pop("checksum", None)
    try:
        if checksum != _checksum(about, arrays):
            raise ParameterError("its checksum does not match its contents, so copy or save it again")
        return about["kind"], Reader(arrays).get(about["object"])
    except FileError as error:  # the file is valid, but a file that it refers to is another one here
        raise FileError(f"cannot use {path}: {error}") from None
    except Exception as error:  # a damaged or malicious file may raise any exception
        raise FileError(f"{path} is not a valid model file: {_message(error)}") from error


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Describe the contents of a model file without building the object.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        "format", "kind", "versions" of the packages that wrote the file, "object" (the tree), "checksum",
        which only `load` compares, and "arrays", the "shape" and "dtype" of each array by its name.

    Examples
    --------
    >>> import tempfile, pathlib, sysbags
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "theta.sysbags"
    >>> sysbags.save(file, sysbags.System([[0.5]], [[0.0, 1.0], [1.0, 0.0]], [[1.0], [0.5]], [0.5, 0.5]))
    >>> from sysbags.storage import describe
    >>> describe(file)["kind"], describe(file)["arrays"]["samples"]
    ('System', {'shape': [2, 2], 'dtype': 'F64'})
    """

    def outline(file: Any, name: str) -> dict[str, Any]:
        part = file.get_slice(name)
        return {"shape": part.get_shape(), "dtype": part.get_dtype()}

    about, arrays = _read(path, outline)
    return about | {"arrays": arrays}


def _read(
    path: str | os.PathLike[str], take: Callable[[Any, str], Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metadata, and the result of `take` for each array."""
    from safetensors import safe_open

    _check_path(path)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode):
            with open(path, "rb") as opened:
                start = opened.read(8 + len(MODEL_START))
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(mode):
        description = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise FileError(f"{path} is {description}, but it must be a model file")
    if not start:
        raise FileError(f"{path} is empty, but it must be a model file")
    if saved_kind(path) == "library":
        raise FileError(f"{path} holds {saved_contents(path)}, but it must be a model file")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("sysbags")
            if text is not None:
                about = _parse(path, text)
                return about, {name: take(file, name) for name in file.keys()}  # noqa: SIM118
    except FileError:
        raise
    except Exception as error:  # an exception of safetensors, or of NumPy about an unknown dtype
        if len(start) > 8 and MODEL_START.startswith(start[8:]):
            raise FileError(f"{path} is cut short or damaged, so copy or save it again: {error}") from None
    raise FileError(f"{path} is not a model file of sysbags")


def _check_path(path: Any) -> None:
    """Raise an error for a number, which is an open file for `open`, and for bytes."""
    if not isinstance(path, (str, os.PathLike)):
        raise FileError(f"path is {path!r}, but it must be the path of a model file, as text or a Path")


def _parse(path: str | os.PathLike[str], text: str) -> dict[str, Any]:
    """Return the metadata if this version reads their format."""
    try:
        about: dict[str, Any] = json.loads(text)
        newer = about["format"] > FORMAT
    except Exception as error:
        raise FileError(f"{path} is not a valid model file: {_message(error)}") from None
    if newer:
        raise FileError(
            f"{path} was written by a newer sysbags (format {about['format']}), but this one "
            f"({__version__}) reads formats up to {FORMAT}: upgrade sysbags"
        )
    return about


def _can_be_saved(obj: Any) -> bool:
    """Return whether a model file can contain this object at its top level."""
    return all(kind_of(item) == "System" for item in obj) if type(obj) is list else kind_of(obj) is not None


def versions(needs: set[str]) -> dict[str, str]:
    """Return the versions of sysbags, Python and the packages that the contents need."""
    found = {"sysbags": __version__, "python": platform.python_version()}
    for name in sorted(needs | {"numpy", "scikit-learn"}):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _checksum(about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> int:
    """Return the CRC-32 of the metadata and the arrays."""
    total = zlib.crc32(_text(about).encode())
    for name in sorted(arrays):
        array = arrays[name]
        total = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), total)
        total = zlib.crc32(array.astype(array.dtype.newbyteorder("<"), copy=False).data, total)
    return total


def _text(about: dict[str, Any]) -> str:
    return json.dumps(about, allow_nan=False, separators=(",", ":"))


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, SysbagsError) else f"{type(error).__name__}: {error}"


# Each entry of an array of strings has the length of the longest, so a small file could need any memory.
_TEXT_LIMIT = 2**26
_DTYPES = (np.float64, np.float32)
_HINTS = {
    "index": "set index to None, and the model compares with all training systems",
    "kernel": f"the kernel must be one of {', '.join(map(repr, KERNELS))}",
    "random_state": "use a whole number or None",
}


class Writer:
    """Turns an object into a tree and arrays, and collects the packages that it needs."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.needs: set[str] = set()

    def put(self, value: Any, where: str = "") -> Any:
        """Return the tree of a value; `where` is its path in error messages and in names of arrays."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, (type, np.dtype)) and value in _DTYPES:
            return {"dtype": np.dtype(value).name}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, (list, tuple)):
            items = [self.put(item, f"{where}/{i}") for i, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"dict": self.put_each(value, where)}
        if isinstance(value, bytes):
            return {"bytes": self.keep(np.frombuffer(value, np.uint8), where)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            return {"array": self.keep(value, where)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "USO" and value.nbytes <= _TEXT_LIMIT:
            values = self.put(value.ravel().tolist(), where)
            return {"objects": {"kind": value.dtype.kind, "shape": list(value.shape), "values": values}}
        name = kind_of(value)
        if name is None:
            raise ParameterError(_why_not(value, where.strip("/")))
        self.needs.update(KINDS[name].needs)
        parameters, state = parts(value)
        tree = {"parameters": self.put_each(parameters, where), "kept": self.put_each(state, where)}
        check(name, parameters, state)
        return {name: tree}

    def put_each(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the trees of named values."""
        return {str(key): self.put(value, f"{where}/{key}") for key, value in values.items()}

    def keep(self, array: npt.NDArray[Any], where: str) -> str:
        """Store a copy of an array, and return its name."""
        name = where.strip("/").encode("ascii", "backslashreplace").decode()
        while name in self.arrays:  # keys of a dict may contain a slash
            name += "'"
        self.arrays[name] = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        return name


class Reader:
    """Turns a tree and arrays back into the object; an invalid tree may raise any exception."""

    def __init__(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.arrays = arrays

    def get(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if isinstance(tree, list):
            return [self.get(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        ((tag, content),) = tree.items()
        if tag == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
        if tag == "dtype":
            return next(dtype for dtype in _DTYPES if dtype.__name__ == content)
        if tag == "tuple":
            return tuple(self.get(item) for item in content)
        if tag == "dict":
            return self.get_each(content)
        if tag == "bytes":
            return self.take(content).tobytes()
        if tag == "array":
            return self.take(content)
        if tag == "objects":
            return _objects(content["kind"], content["shape"], [self.get(item) for item in content["values"]])
        if tag not in KINDS:
            raise ParameterError(f"it contains a {tag!r}, which this version of sysbags cannot read")
        return build(tag, self.get_each(content["parameters"]), self.get_each(content["kept"]))

    def get_each(self, trees: dict[str, Any]) -> dict[str, Any]:
        """Return named values."""
        return {key: self.get(tree) for key, tree in trees.items()}

    def take(self, name: str) -> npt.NDArray[Any]:
        """Return an array, at most once, so that no two attributes share memory."""
        if name not in self.arrays:
            raise ParameterError(f"its array {name!r} is missing")
        array = self.arrays.pop(name)
        if array.dtype.kind not in "biuf":
            raise ParameterError(f"its array {name!r} has the dtype {array.dtype}")
        # A byte that is neither 0 nor 1 would be true, and be counted as more than one in sums.
        return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array


def _objects(kind: str, shape: list[int], values: list[Any]) -> npt.NDArray[Any]:
    """Return an array of strings, bytes or Python objects."""
    if kind == "O":
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = value
        return array.reshape(shape)
    wanted = {"U": str, "S": bytes}[kind]
    if not all(isinstance(value, wanted) for value in values):
        raise ParameterError("an array of strings has entries that are not strings")
    if 4 * len(values) * max(map(len, values), default=0) > _TEXT_LIMIT:
        raise ParameterError("it contains an array of strings that is too large")
    return np.array(values, dtype=kind).reshape(shape)


def _why_not(value: Any, where: str) -> str:
    """Return the message about a value that cannot be saved."""
    hint = _HINTS.get(where.rpartition("/")[2])
    description = "a function" if inspect.isroutine(value) else f"of type {type(value).__name__}"
    return f"{where} is {description}, which cannot be saved" + (
        f": {hint}" if hint else ", but it must be a number, a string, an array, or a list or dict of these"
    )
