"""The kinds of objects that model files hold, taken apart and put together again.

An object is its parameters and what is kept beside them, such as a codebook. Both ways the parts are
checked, so that what was saved can be loaded, and what a file claims is what the class expects.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.validation import check_choice
from sysbags.bags.registry import CLASSES
from sysbags.errors import FileError, ParameterError

__all__ = ["KINDS", "Kind", "build", "kind_of", "parts"]

Parts = tuple[dict[str, Any], dict[str, Any]]


class Kind(NamedTuple):
    """A class whose objects can be saved.

    Attributes
    ----------
    module : str
    kept : mapping
        What an object has beside its parameters, and what it must be: "float K d" is a finite (K, d)
        array of floats, where K and d mean the same all over the object, "System C" a list of C systems,
        "number" a finite number; a question mark allows None. Of a dataclass all fields are kept; named
        are those that it does not check itself.
    needs : tuple of str
        The packages whose versions matter.
    """

    module: str
    kept: Mapping[str, str]
    needs: tuple[str, ...] = ()


KINDS = {
    "System": Kind(
        "sysbags.systems.system",
        {"explained": "number?", "compression_error": "numbers?", "_mean_norm": "number?"},
    ),
    "FrechetMean": Kind(
        "sysbags.means.frechet",
        {
            "system": "System",
            "objective": "number",
            "history": "float i",
            "rotations": "float K n n",
            "converged": "flag",
        },
    ),
    **{name: Kind(bag.module, bag.learnt, bag.packages) for name, bag in CLASSES.items()},
    "SystemIdentifier": Kind("sysbags.classifiers.identifier", {}),
    "NearestSystem": Kind("sysbags.classifiers.nearest", {"systems_": "System K", "labels_": "any K"}),
    "NearestMean": Kind(
        "sysbags.classifiers.nearest",
        {"centers_": "System C", "classes_": "any C", "compression_errors_": "float C"},
    ),
    "Pipeline": Kind("sklearn.pipeline", {}),
}
_LEFT_OUT = {"Pipeline": {"memory", "transform_input"}}  # a memory is a folder of code to be run
# How protocol buffers write down that the numbers of a tensor are in another file.
_ONNX_ELSEWHERE = b"\n\x08location\x12"


def kind_of(value: Any) -> str | None:
    """Return the name in `KINDS` of a value's class; a child of such a class is something else."""
    name = type(value).__name__
    return name if name in KINDS and type(value) is _class(name) else None


def parts(obj: Any) -> Parts:
    """Take an object of one of `KINDS` apart: its parameters, and what is kept beside them."""
    name = type(obj).__name__
    if dataclasses.is_dataclass(obj):
        return {}, {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}
    parameters = obj.get_params(deep=False)
    for key in _LEFT_OUT.get(name, ()):
        parameters.pop(key, None)
    if name == "Pipeline":
        parameters["steps"] = dict(obj.steps)
    if name == "DeepActivations":
        parameters["model"] = _portable(obj.model)
    return parameters, {key: getattr(obj, key) for key in KINDS[name].kept if hasattr(obj, key)}


def build(name: str, parameters: dict[str, Any], kept: dict[str, Any]) -> Any:
    """Put an object together again."""
    check(name, parameters, kept)
    made = _class(name)
    if dataclasses.is_dataclass(made):
        return made(**kept)  # type: ignore[operator]
    if name == "Pipeline":
        parameters = parameters | {"steps": list(parameters["steps"].items())}
    obj = made(**parameters)
    for key, value in kept.items():
        setattr(obj, key, value)
    return obj


def check(name: str, parameters: dict[str, Any], kept: dict[str, Any]) -> None:
    """Refuse parts that do not make an object of that kind."""
    made, wanted = _class(name), KINDS[name].kept
    known = set(inspect.signature(made).parameters) - _LEFT_OUT.get(name, set())
    unknown = (set(kept) | set(parameters)) - known
    if not dataclasses.is_dataclass(made):
        unknown = (set(parameters) - known) | (set(kept) - set(wanted))
    if unknown:
        raise ParameterError(f"a {name} has nothing that is called {min(unknown)!r}")
    if name == "Pipeline":
        for key, step in parameters["steps"].items():
            if step != "passthrough" and not hasattr(step, "get_params"):
                raise ParameterError(f"the step {key!r} of a Pipeline is no estimator")
    if name == "DeepActivations":
        _check_model(parameters["model"])
    lengths: dict[str, int] = {}
    for key in wanted if kept else ():  # an estimator that is not fitted has nothing to keep
        if not _fits(kept.get(key), wanted[key], lengths):
            raise ParameterError(f"{key} of a {name} does not fit: it must be {wanted[key]!r}")


def _class(name: str) -> Any:
    return getattr(import_module(KINDS[name].module), name)


def _portable(model: Any) -> Any:
    """Return a network that another machine has too: its name, or what its ONNX file holds."""
    from sysbags.bags.networks import PRETRAINED

    if isinstance(model, (str, os.PathLike)) and model not in PRETRAINED:
        try:
            with open(model, "rb") as file:
                return file.read()
        except OSError as error:
            raise FileError(f"cannot read the ONNX file {model}: {error.strerror or error}") from None
    return model


def _check_model(model: Any) -> None:
    """Refuse a network that needs a file."""
    from sysbags.bags.networks import PRETRAINED

    if not isinstance(model, bytes):
        check_choice(model, "model", PRETRAINED)
    elif _ONNX_ELSEWHERE in model:
        raise ParameterError(
            "model is an ONNX file that keeps its weights in another file, but it must hold them itself: "
            "torch.onnx.export(..., external_data=False) writes one that does"
        )


def _fits(value: Any, wanted: str, lengths: dict[str, int]) -> bool:
    """Tell whether a value is what an entry of `Kind.kept` asks for, given the lengths so far."""
    if value is None:
        return wanted.endswith("?")
    word, *letters = wanted.rstrip("?").split()
    listed = word in ("System", "Bags")
    if letters:
        if not isinstance(value, list if listed else np.ndarray):
            return False
        shape = (len(value),) if isinstance(value, list) else value.shape
        if 0 in shape or len(shape) != len(letters):
            return False
        if any(
            lengths.setdefault(letter, length) != length
            for letter, length in zip(letters, shape, strict=True)
        ):
            return False
    if listed:
        home = "sysbags.systems.system" if word == "System" else "sysbags.bags."
        kinds = [kind_of(item) for item in (value if letters else [value])]
        return all(kind is not None and KINDS[kind].module.startswith(home) for kind in kinds)
    tests: dict[str, Callable[[], Any]] = {
        "any": lambda: True,
        "float": lambda: value.dtype.kind == "f" and np.isfinite(value).all(),
        "flag": lambda: isinstance(value, bool),
        "number": lambda: isinstance(value, (int, float)) and math.isfinite(value),
        "numbers": lambda: (
            isinstance(value, Mapping) and all(_fits(item, "number", lengths) for item in value.values())
        ),
    }
    return bool(tests[word]())
