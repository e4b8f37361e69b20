"""Values as trees for JSON beside named arrays, and back: what model files are made of.

In a tree each JSON object has one entry, whose key says what it is: an array, bytes, a dict, a tuple, a
number that JSON does not have, or one of `KINDS` with its parameters and with what is kept beside them.
The way back makes these and nothing else, and imports no name that a tree gives.
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

# An array of words is as wide as its longest, so a small file could ask for any amount of memory.
_TEXT_LIMIT = 2**26
_HINTS = {
    "kernel": f"the kernel must be one of {', '.join(map(repr, KERNELS))}",
    "model": "export the network to an ONNX file and give that (torch.onnx.export)",
    "random_state": "give a whole number or None",
}


class Writer:
    """Turns an object into a tree and arrays, and notes the packages that it needs."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.needs: set[str] = set()

    def put(self, value: Any, where: str = "") -> Any:
        """Return the tree of a value; `where` names it in sentences, and its arrays in the file."""
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
        parameters, kept = parts(value)
        tree = {"parameters": self.put_each(parameters, where), "kept": self.put_each(kept, where)}
        check(name, parameters, kept)
        return {name: tree}

    def put_each(self, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the trees of named values."""
        return {str(key): self.put(value, f"{where}/{key}") for key, value in values.items()}

    def keep(self, array: npt.NDArray[Any], where: str) -> str:
        """Put a copy of an array aside, and return the name that it goes by."""
        name = where.strip("/").encode("ascii", "backslashreplace").decode()
        while name in self.arrays:  # keys of a dict may hold a slash
            name += "'"
        self.arrays[name] = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        return name


class Reader:
    """Turns a tree and arrays back into the object; what does not fit raises some exception."""

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
            raise ParameterError(f"it holds a {tag!r}, which this sysbags does not know")
        return build(tag, self.get_each(content["parameters"]), self.get_each(content["kept"]))

    def get_each(self, trees: dict[str, Any]) -> dict[str, Any]:
        """Return named values."""
        return {key: self.get(tree) for key, tree in trees.items()}

    def take(self, name: str) -> npt.NDArray[Any]:
        """Return an array, once: each belongs to one place, so that no two share memory."""
        if name not in self.arrays:
            raise ParameterError(f"its array {name!r} is missing")
        array = self.arrays.pop(name)
        if array.dtype.kind not in "biuf":
            raise ParameterError(f"its array {name!r} holds {array.dtype} entries")
        # A byte that is neither 0 nor 1 would be true, and count as more than one.
        return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array


def _objects(kind: str, shape: list[int], values: list[Any]) -> npt.NDArray[Any]:
    """Return an array of words, bytes or Python's own objects."""
    if kind == "O":
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            array[i] = value
        return array.reshape(shape)
    wanted = {"U": str, "S": bytes}[kind]
    if not all(isinstance(value, wanted) for value in values):
        raise ParameterError("it holds words that are none")
    if 4 * len(values) * max(map(len, values), default=0) > _TEXT_LIMIT:
        raise ParameterError("it holds an array of words that is too large")
    return np.array(values, dtype=kind).reshape(shape)


def _why_not(value: Any, where: str) -> str:
    """Say why a value cannot be saved, and what would do instead."""
    hint = _HINTS.get(where.rpartition("/")[2])
    what = "a function" if inspect.isroutine(value) else f"of type {type(value).__name__}"
    return f"{where} is {what}, which cannot be saved" + (
        f": {hint}"
        if hint
        else ", but it must be a number, a word, an array, a list of such, or a dict from words to such"
    )
