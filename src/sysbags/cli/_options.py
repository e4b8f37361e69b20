"""Types of the options that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from sysbags.bags.registry import PRESETS
from sysbags.classifiers.registry import CLASSIFIERS
from sysbags.distances import METRICS
from sysbags.errors import ParameterError
from sysbags.kernels import KERNELS

__all__ = [
    "PANEL",
    "ChosenForm",
    "ChosenMetric",
    "Classifier",
    "Embedding",
    "Json",
    "LambdaA",
    "LambdaMu",
    "Model",
    "NJobs",
    "OptionalMetric",
    "Preset",
    "RandomState",
    "Scheduler",
    "UsageError",
    "help_text",
    "last_of_list",
    "number_or_auto",
    "rate_per_second",
    "seconds_of",
]

UsageError = cast(type[Exception], typer.BadParameter.__base__)  # click's, or typer's own copy of it
PANEL = "Frames, bags and systems"
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}


def last_of_list(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return the completion of a list with commas: names for its last word, without those that it has.

    Examples
    --------
    >>> last_of_list(["lbp", "lbp-top", "flow"])("flow,l")
    ['flow,lbp', 'flow,lbp-top']
    """

    def complete(incomplete: str) -> list[str]:
        *before, last = incomplete.split(",")
        return [",".join([*before, name]) for name in names if name.startswith(last) and name not in before]

    return complete


Kernel = StrEnum("Kernel", {name: name for name in KERNELS})  # type: ignore[misc]
Metric = StrEnum("Metric", {name: name for name in METRICS})  # type: ignore[misc]
WeightedMetric = StrEnum(  # type: ignore[misc]
    "WeightedMetric", {name: name for name, metric in METRICS.items() if metric.weighted}
)

Classifier = StrEnum("Classifier", {name: name for name in ("auto", *CLASSIFIERS)})  # type: ignore[misc]
PresetName = StrEnum("PresetName", {name: name for name in PRESETS})  # type: ignore[misc]
Preset = Annotated[
    PresetName | None,
    typer.Option(
        show_default=False,
        help="Bags that are a good start: fast (patterns and colour) or best (with a network).",
    ),
]
Embedding = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        show_default="exact",
        help="Approximate distances through N landmarks, faster for many clips; says what is lost.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
NJobs = Annotated[int, typer.Option(metavar="N", help="Number of threads; -1 is all cores.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        show_default=False,
        help="Compute on the Dask cluster of this scheduler, such as tcp://127.0.0.1:8786.",
    ),
]
RandomState = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random numbers.")]
LambdaA = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        min=0.0,
        show_default="the model's, or 0.25",
        help="Weight of the transition in the distance.",
    ),
]
LambdaMu = Annotated[
    float | None,
    typer.Option(
        metavar="X", min=0.0, show_default="the model's, or 0", help="Weight of the mean in the distance."
    ),
]
OptionalMetric = Annotated[
    Metric | None,
    typer.Option(show_default="the model's, or alignment", help="Distance between two systems."),
]
ChosenMetric = Annotated[
    WeightedMetric | None,
    typer.Option(show_default="chosen", help="Distance between systems."),
]
ChosenForm = Annotated[
    str | None,
    typer.Option(
        metavar="orthonormal|unit-variance",
        show_default="chosen",
        autocompletion=last_of_list(("orthonormal", "unit-variance")),
        help="Coordinates of the states.",
    ),
]
Model = Annotated[
    Path | None,
    typer.Option(metavar="MODEL", help="Use the bag, order, kernel and weights of a saved model."),
]


def number_or_auto(value: str, option: str) -> float | None:
    """Return a number that is 0 or more; None for "auto"."""
    if value == "auto":
        return None
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise ParameterError(f"{option} is {value!r}, but it must be a number that is 0 or more, or auto")
    return number


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a duration such as "90s", "10min", "6h" or "2days".

    Examples
    --------
    >>> seconds_of("1.5h", "--learn")
    5400.0
    """
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?([a-z]+)", text.strip().lower())
    unit = None if found is None else UNITS.get(found[2], UNITS.get(found[2].removesuffix("s")))
    seconds = 0.0 if found is None or unit is None else float(found[1]) * unit
    if not 0.0 < seconds < math.inf:
        raise ParameterError(f"{option} is {text!r}, but it must be a time, such as 90s, 10min, 6h or 2days")
    return seconds


def rate_per_second(text: str, option: str) -> float:
    """Return how often per second "1/day", "2/h" or "3 / 10min" is.

    Examples
    --------
    >>> rate_per_second("2/h", "--false-alarms") == 2 / 3600
    True
    """
    count, slash, time = text.partition("/")
    try:
        number = float(count)
        unit = time.strip()
        seconds = seconds_of(unit if unit[:1].isdigit() else f"1{unit}", option)
    except ValueError:  # also that of `seconds_of`
        number = 0.0
    if not slash or not 0.0 < number < math.inf:
        raise ParameterError(f"{option} is {text!r}, but it must be a rate, such as 1/day, 2/h or 1/10min")
    return number / seconds


def help_text(command: Callable[..., None]) -> str:
    """Return the docstring of a command as its help text.

    Lines end where the source needs it, but terminals have widths of their own.
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in str(command.__doc__).split("\n\n"))
