"""Watchers and what they have learnt as plain values, which `sysbags.storage` writes without any code."""

from __future__ import annotations

import inspect
import os
from collections import deque
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.validation import check_positive
from sysbags.bags.base import BagTransformer
from sysbags.bags.regions import Regions
from sysbags.bags.union import BagUnion
from sysbags.distances.embedding import landmark_count
from sysbags.distances.gram import SystemStack
from sysbags.errors import FileError, ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.kernels.functions import Columns, SlidingKernel
from sysbags.storage import load_values, save_values
from sysbags.systems.system import System
from sysbags.watch.alarms import Alarm, Event, Joint
from sysbags.watch.calibration import Level, Tail, Tails, Threshold
from sysbags.watch.evidence import Evidence
from sysbags.watch.normal import SCORES, EmbeddedWindow, Motion, NormalProcess, Scorer
from sysbags.watch.watcher import Learnt, Rate, Watcher
from sysbags.watch.windows import Window, Windows

KINDS = (
    *(
        Alarm,
        Columns,
        EmbeddedWindow,
        Event,
        Evidence,
        Joint,
        Learnt,
        Level,
        Motion,
        NormalProcess,
        Rate,
        Scorer,
    ),
    *(SlidingKernel, System, SystemStack, Tail, Tails, Threshold, Watcher, Window, Windows),
)
CLASSES: dict[str, Any] = {kind.__name__: kind for kind in KINDS}
DERIVED = ("_code",)  # attributes that follow from others
SEQUENCES: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "deque": deque}
# The shapes of the arrays of what was learnt; a letter is the same length in all of them.
FORMS = {
    "Learnt": {"scores": "ns"},
    "NormalProcess": {"observers": "Rkd", "spectra": "4Rm", "features": "RLd", "norms": "RL"},
    "SystemStack": {"orders": "R", "transition": "Rmm", "observer_gram": "Rmm", "mean_norm": "R"},
    "Motion": {
        "center": "d",
        "basis": "dr",
        "span": "dr",
        "transition": "rr",
        "noise": "rr",
        "shape": "2F",
        "power": "2Fr",
        "axes": "da",
    },
}


def pack(obj: Any) -> list[Any]:
    """Turn a watcher, what it has learnt, or a list of these into plain values.

    These are arrays, numbers, texts, and lists and dicts of these. Each entry is an object and refers to
    entries before it, so that what objects share is there once; the last entry is `obj`.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> stream = make_streams(classes=1, per_class=1, frames=1000)[0][0]
    >>> watcher = Watcher(rate=10.0, learn=60.0, false_alarms=1 / 3600, length=20)
    >>> _ = watcher.update(stream[:700])
    >>> again = unpack(pack(watcher))
    >>> again.update(stream[700:])[0][-1] == watcher.update(stream[700:])[0][-1]
    True
    """
    entries: list[Any] = []
    places: dict[int, int] = {}

    def put(value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if id(value) not in places:
            entries.append(_entry(value, put))
            places[id(value)] = len(entries) - 1
        return {"entry": places[id(value)]}

    put(obj)
    return entries


def _entry(value: Any, put: Callable[[Any], Any]) -> Any:
    """Return an object whose parts `put` has replaced by numbers, texts and references."""
    kind = type(value).__name__
    if isinstance(value, StreamEmbedding):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()  # some are changed in place later
    if type(value) in SEQUENCES.values():
        return {"type": kind, "items": [put(item) for item in value], "limit": getattr(value, "maxlen", None)}
    if CLASSES.get(kind) is not type(value):
        raise ParameterError(f"the state of a watcher has a {kind}, which cannot be saved")
    if _has_fields(type(value)):
        state = {name: getattr(value, name) for name in inspect.signature(type(value)).parameters}
    else:
        state = {name: item for name, item in vars(value).items() if name not in DERIVED}
    return {"type": kind, "state": {name: put(item) for name, item in state.items()}}


def unpack(entries: list[Any]) -> Any:
    """Return the object that `pack` has turned into plain values; an invalid one may raise any exception."""
    built: list[Any] = []

    def get(value: Any) -> Any:
        return built[value["entry"]] if isinstance(value, dict) else value

    for entry in entries:
        if not isinstance(entry, dict):
            built.append(entry)
        elif entry["type"] in SEQUENCES:
            items = [get(item) for item in entry["items"]]
            limit = entry["limit"]
            built.append(SEQUENCES[entry["type"]](items) if limit is None else deque(items, limit))
        else:
            state = {name: get(item) for name, item in entry["state"].items()}
            built.append(_build(entry["type"], state))
    return built[-1]


def _build(kind: str, state: dict[str, Any]) -> Any:
    found = CLASSES[kind]
    if kind == "SlidingKernel":
        obj = SlidingKernel(state["rows"], state["kernel"])
    elif _has_fields(found):
        return found(**state)
    else:
        obj = object.__new__(found)
    vars(obj).update(state)
    return obj


def check_learnt(learnt: Any) -> Learnt:
    """Return what was learnt if its arrays fit together: a file may be from elsewhere."""
    if not isinstance(learnt, Learnt) or not isinstance(learnt.process, NormalProcess):
        raise ParameterError("it does not hold what a watcher has learnt")
    process = learnt.process
    lengths: dict[str, int] = {}
    for obj in (learnt, process, process.stack, process.motion):
        for name, form in FORMS[type(obj).__name__].items():
            array = np.asarray(getattr(obj, name))
            sizes = [int(letter) if letter.isdecimal() else letter for letter in form]
            if (
                array.dtype.kind not in "if"
                or not (name == "scores" or np.isfinite(array).all())  # the first window has no window before
                or array.ndim != len(sizes)
                or 0 in array.shape
                or any(
                    (size if isinstance(size, int) else lengths.setdefault(size, length)) != length
                    for size, length in zip(sizes, array.shape, strict=True)
                )
            ):
                raise ParameterError(f"its array {name!r} does not fit the others")
    if lengths["s"] != len(SCORES) + lengths["a"]:
        raise ParameterError("its scores do not fit its axes")
    if landmark_count(process.embedding) not in (None, lengths["d"]) or lengths["k"] != lengths["m"] + 1:
        raise ParameterError("its embedding does not fit its systems")
    return learnt


def _has_fields(kind: type) -> bool:
    """Whether the parameters of a class are all that its objects have: a dataclass or a named tuple."""
    return is_dataclass(kind) or hasattr(kind, "_fields")


class Normal(NamedTuple):
    """What is normal in a video, and how it was described: what `save_normal` writes."""

    bag: BagTransformer | BagUnion | Regions
    rate: float  # frames per second
    size: int | None  # of the frames
    options: dict[str, Any]  # learn, length, step, order and kernel of `Watcher`
    # For each region, by each bag; None for one that is not watched, because nothing moves.
    learnt: list[Learnt | None]


def save_normal(path: str | os.PathLike[str], normal: Normal) -> None:
    """Write what is normal in a video to a file."""
    bag = normal.bag
    place = {"grid": bag.grid, "mask": bag.mask} if isinstance(bag, Regions) else {"grid": None, "mask": None}
    single = bag.bag if isinstance(bag, Regions) else bag
    several = [list(pair) for pair in bag.named_bags()] if isinstance(bag, BagUnion) else [["", single]]
    save_values(path, "Normal", {**normal._asdict(), **place, "bag": several, "learnt": pack(normal.learnt)})


def load_normal(path: str | os.PathLike[str]) -> Normal:
    """Read what `save_normal` wrote. No code in the file is run."""
    values = load_values(path, "Normal")
    try:
        several, grid, mask = (values[name] for name in ("bag", "grid", "mask"))
        learnt = unpack(values["learnt"])
        bag = several[0][1] if len(several) == 1 else BagUnion([(name, bag) for name, bag in several])
        bag = bag if grid is None and mask is None else Regions(bag, grid, mask)
        if len(learnt) != (len(bag.names) if isinstance(bag, Regions) else len(several)):
            raise ParameterError("it does not hold as many regions as it says")
        for one in learnt:
            if one is not None:
                check_learnt(one)
        rate = check_positive(values["rate"], "rate")
        return Normal(bag, rate, values["size"], dict(values["options"]), learnt)
    except Exception as error:  # a damaged or malicious file may raise any exception
        raise FileError(f"{path} is not a valid file of a normal process: {error}") from error
