"""Conversion of objects to trees for JSON with named arrays, and back.

Each JSON object in a tree has one entry, whose key is its type: an array, bytes, a dict, a tuple, a number
that JSON does not have, or one of `KINDS` with its parameters and its state ("kept"). Reading makes only
these, and never imports a name from a tree.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags.errors import ParameterError
from sysbags.kernels import KERNELS
from sysbags.storage.kinds import KINDS, build, check, kind_of, parts

__all__ = ["Reader", "Writer"]

# Each entry of an array of strings has the length of the longest, so a small file could need any memory.
_TEXT_LIMIT = 2**26
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
