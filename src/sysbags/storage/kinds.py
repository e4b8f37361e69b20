"""The kinds of objects in model files: their parameters and their state.

The state of an object is what it has beside its parameters, such as a codebook. Parameters and state are
checked before saving and before loading, so that every saved file can be loaded, and an untrusted file gives
only objects that are valid.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.validation import check_choice, check_stream
from sysbags.bags.registry import CLASSES
from sysbags.classifiers.registry import CLASSIFIERS
from sysbags.errors import FileError, ParameterError
from sysbags.kernels import FEATURE_MAPS, KERNELS
from sysbags.kernels.embedding import landmark_factor

Parts = tuple[dict[str, Any], dict[str, Any]]


class Kind(NamedTuple):
    """A class whose objects can be saved.

    `state` has the attributes beside the parameters, and their forms: "float K d" is a finite (K, d) array of
    floats, where a letter has the same value for all attributes of the object, "System C" a list of C
    systems, "Clip K B" a list of K tuples of B systems, or of K systems where B is 1, "label K C" an array of
    K labels of C classes, "number" a finite number, "texts" a dict of texts; a question mark allows
    None. The state of a class without `get_params`, such as a dataclass, are all
    arguments of its constructor; this mapping has those that the class does not check itself. `needs` are the
    packages whose versions are written into the file.
    """

    module: str
    state: Mapping[str, str]
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
    "StreamEmbedding": Kind(
        "sysbags.kernels.embedding",
        {
            "landmarks_": "float m p?",
            "components_": "float m c?",
            "lost_": "number",
        },
    ),
    "Calibration": Kind(
        "sysbags.classifiers.calibration",
        {"temperature": "number", "surprise": "float i", "distances": "float i", "weights": "positive i"},
    ),
    **{name: Kind(bag.module, bag.learnt, bag.packages) for name, bag in CLASSES.items()},
    "Moments": Kind(
        "sysbags.classifiers.scores.moments",
        {"averages": "float K d", "course": "float K s", "covariances": "float K q", "norms": "float K"},
    ),
    "StreamClassifier": Kind(
        "sysbags.classifiers.streams",
        {
            "embeddings_": "StreamEmbedding B",
            "moments_": "Moments B",
            "bins_": "any B",
            "lags_": "any L",
            "shortest_": "number?",
            "labels_": "label K C",
            "term_weights_": "float M T",
            "shares_": "float T",
            "widths_": "float M",
            "ridges_": "positive M",
            "coefficients_": "float M K C",
            "intercepts_": "float M C",
            "calibration_": "Calibration?",
            "estimate_": "any 3 E?",
            "accuracy_": "number?",
            "averages_accuracy_": "number?",
            "tried_": "number",
        },
    ),
    "SystemIdentifier": Kind("sysbags.classifiers.identifier", {}),
    **{entry.class_name: Kind(entry.module, entry.learnt) for entry in CLASSIFIERS.values()},
    "Pipeline": Kind("sklearn.pipeline", {}),
}
# What is kept although it was not learnt: the checksums of networks with a name, which are not copied.
_BESIDE = {name: {"saved_networks": "texts"} for name, bag in CLASSES.items() if bag.needs_deep}
_LEFT_OUT = {"Pipeline": {"memory", "transform_input"}}  # a memory is a folder of pickles
# The key in a protocol buffer that says that the numbers of a tensor are in another file.
_ONNX_ELSEWHERE = b"\n\x08location\x12"


def kind_of(value: Any) -> str | None:
    """Return the name in `KINDS` of the class of a value; None for other classes and for subclasses."""
    name = type(value).__name__
    return name if name in KINDS and type(value) is _class(name) else None


def parts(obj: Any) -> Parts:
    """Return the parameters and the state of an object of one of `KINDS`."""
    name = type(obj).__name__
    if not _has_parameters(type(obj)):
        return {}, {key: getattr(obj, key) for key in inspect.signature(type(obj)).parameters}
    parameters = obj.get_params(deep=False)
    for key in _LEFT_OUT.get(name, ()):
        parameters.pop(key, None)
    if name == "Pipeline":
        parameters["steps"] = dict(obj.steps)
    state = {key: vars(obj)[key] for key in KINDS[name].state if key in vars(obj)}
    if name in _BESIDE:
        parameters |= _portable_network(obj)
        state |= {"saved_networks": checksums} if (checksums := _checksums(obj)) else {}
    return parameters, state


def build(name: str, parameters: dict[str, Any], state: dict[str, Any]) -> Any:
    """Build an object from its parameters and its state."""
    check(name, parameters, state)
    kind_class = _class(name)
    if not _has_parameters(kind_class):
        return kind_class(**state)
    if name == "Pipeline":
        parameters = parameters | {"steps": list(parameters["steps"].items())}
    obj = kind_class(**parameters)
    for key, value in state.items():
        setattr(obj, key, value)
    return obj


def check(name: str, parameters: dict[str, Any], state: dict[str, Any]) -> None:
    """Raise an error unless parameters and state are those of an object of that kind."""
    kind_class, learnt, beside = _class(name), KINDS[name].state, _BESIDE.get(name, {})
    known = set(inspect.signature(kind_class).parameters) - _LEFT_OUT.get(name, set())
    unknown = (set(state) | set(parameters)) - known
    if _has_parameters(kind_class):
        unknown = (set(parameters) - known) | (set(state) - set(learnt) - set(beside))
    if unknown:
        raise ParameterError(f"a {name} has no parameter or attribute {min(unknown)!r}")
    if name == "Pipeline":
        for key, step in parameters["steps"].items():
            if step != "passthrough" and not hasattr(step, "get_params"):
                raise ParameterError(f"the step {key!r} of a Pipeline is not an estimator")
    if parameters.get("index") is not None:
        raise ParameterError(f"the index of a {name} must be None, as an index cannot be saved")
    if name in _BESIDE:
        _check_model(parameters["model"])
        _check_checksums(parameters["model"], state)
    lengths: dict[str, int] = {}
    # An estimator that is not fitted has learnt nothing, and a network without a name has no checksum.
    forms = dict(learnt) if set(state) - set(beside) else {}
    forms |= {key: form for key, form in beside.items() if key in state}
    for key, form in forms.items():
        if not _has_form(state.get(key), form, lengths):
            raise ParameterError(f"{key} of a {name} is not valid: it must be {form!r}")
    if name == "StreamEmbedding" and state:
        _check_embedding(parameters["kernel"], **state)


def _class(name: str) -> Any:
    return getattr(import_module(KINDS[name].module), name)


def _has_parameters(kind_class: Any) -> bool:
    """Return whether a class has parameters beside its state, as estimators have."""
    return hasattr(kind_class, "get_params")


def _check_embedding(kernel: Any, landmarks_: Any, **_: Any) -> None:
    """Raise an error unless landmarks are those of an embedding for the kernel."""
    if kernel not in KERNELS:
        raise ParameterError(f"kernel is {kernel!r}, but it must be one of {', '.join(KERNELS)}")
    explicit = FEATURE_MAPS[kernel] is not None
    if (landmarks_ is None) != explicit:
        raise ParameterError(f"a StreamEmbedding has landmarks unless the kernel, {kernel}, is a map")
    if landmarks_ is not None:
        check_stream(landmarks_, kernel, name="landmarks_")
        try:
            landmark_factor(landmarks_, kernel)
        except np.linalg.LinAlgError:
            raise ParameterError("landmarks_ of a StreamEmbedding depend on each other") from None


def _portable_network(bag: Any) -> dict[str, Any]:
    """Return the parameters of a network without a path: its name, or the contents of its ONNX file.

    A JSON file beside the ONNX file is not copied, so the parameters that it has are given.
    """
    from sysbags.bags.network_files import is_name
    from sysbags.bags.networks import describe_network

    model = bag.model
    if is_name(model) or not isinstance(model, (str, os.PathLike)):
        return {}
    try:
        with open(model, "rb") as file:
            contents = file.read()
    except OSError as error:
        raise FileError(f"cannot read the ONNX file {model}: {error.strerror or error}") from None
    own = describe_network(model)
    described = own.name and {
        name: getattr(own, name) for name in ("size", "mean", "std", "output") if getattr(bag, name) is None
    }
    return {"model": contents, **(described or {})}


def _checksums(bag: Any) -> dict[str, str]:
    """Return the checksum of a network with a name, by its name."""
    from sysbags.bags.network_files import find_network, is_name, known_checksum, verified_path

    if not is_name(bag.model):
        return {}
    found = bag.saved_networks.get(bag.model) or known_checksum(bag.model)
    if found is None and (entry := find_network(bag.model)) is not None:
        verified_path(entry)  # raises the error about the file that is missing
    return {} if found is None else {bag.model: found}


def _check_model(model: Any) -> None:
    """Raise an error for a network that needs another file."""
    from sysbags.bags.network_files import NETWORKS, is_name

    if is_name(model):
        return
    if not isinstance(model, bytes):
        check_choice(model, "model", NETWORKS)
    elif _ONNX_ELSEWHERE in model:
        raise ParameterError(
            "model is an ONNX file with its weights in another file, but it must contain them: "
            "torch.onnx.export(..., external_data=False) writes such a file"
        )


def _check_checksums(model: Any, state: dict[str, Any]) -> None:
    """Raise an error if this machine has another file of the network; a missing one is not needed yet."""
    from sysbags.bags.networks import check_saved

    saved = state.get("saved_networks")
    if _has_form(saved, "texts", {}):
        try:
            check_saved(model, saved or {})
        except ParameterError as error:
            raise FileError(str(error)) from None


def _has_form(value: Any, form: str, lengths: dict[str, int]) -> bool:
    """Return whether a value has the form of an entry of `Kind.state`; `lengths` are those of the letters."""
    if value is None:
        return form.endswith("?")
    word, *letters = form.rstrip("?").split()
    modules = {
        "System": "sysbags.systems.system",
        "Clip": "sysbags.systems.system",
        "Bags": "sysbags.bags.",
        "Calibration": "sysbags.classifiers.calibration",
        "Moments": "sysbags.classifiers.scores.moments",
        "StreamEmbedding": "sysbags.kernels.embedding",
    }
    objects = value if letters else [value]
    if letters:
        if not isinstance(value, list if word in modules else np.ndarray):
            return False
        shape = np.shape(value) if isinstance(value, np.ndarray) else (len(value),)
        if word == "Clip":
            bags = {len(item) if isinstance(item, tuple) else 1 for item in value}
            shape = (*shape, bags.pop() if len(bags) == 1 else 0)
            objects = [system for item in value for system in (item if isinstance(item, tuple) else [item])]
        elif word == "label":
            shape = (*shape, len(np.unique(value)))
        if 0 in shape or len(shape) != len(letters):
            return False
        if any(
            (int(letter) if letter.isdecimal() else lengths.setdefault(letter, length)) != length
            for letter, length in zip(letters, shape, strict=True)
        ):
            return False
    if word in modules:
        kinds = [kind_of(item) for item in objects]
        return all(kind is not None and KINDS[kind].module.startswith(modules[word]) for kind in kinds)
    tests: dict[str, Callable[[], Any]] = {
        "any": lambda: True,
        "label": lambda: True,
        "float": lambda: value.dtype.kind == "f" and np.isfinite(value).all(),
        "positive": lambda: value.dtype.kind == "f" and np.isfinite(value).all() and value.min() > 0.0,
        "flag": lambda: isinstance(value, bool),
        "texts": lambda: isinstance(value, Mapping) and all(isinstance(item, str) for item in value.values()),
        "number": lambda: isinstance(value, (int, float)) and math.isfinite(value),
        "numbers": lambda: (
            isinstance(value, Mapping) and all(_has_form(item, "number", lengths) for item in value.values())
        ),
    }
    return bool(tests[word]())
