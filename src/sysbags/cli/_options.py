"""Types of the options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sysbags.bags.registry import BAGS
from sysbags.errors import ParameterError

__all__ = ["Bag", "Json", "LambdaA", "LambdaMu", "Metric", "Model", "NJobs", "RandomState", "number_or_auto"]


class Bag(StrEnum):
    """What is counted in a frame: the names in the list of bags."""

    _ignore_ = "bag"
    for bag in BAGS:
        locals()[bag.upper().replace("-", "_")] = bag


class Kernel(StrEnum):
    """Kernels between two bags."""

    CHI2 = "chi2"
    BHATTACHARYYA = "bhattacharyya"
    INTERSECTION = "intersection"
    LINEAR = "linear"


class Metric(StrEnum):
    """Distances between two systems."""

    ALIGNMENT = "alignment"
    MARTIN = "martin"
    MAX_SINGULAR_VALUE = "max-singular-value"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
NJobs = Annotated[int, typer.Option(metavar="N", help="Number of threads; -1 is all cores.")]
RandomState = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the random numbers.")]
LambdaA = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.0, show_default="0.25", help="Weight of the transition in the distance."),
]
LambdaMu = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.0, show_default="0", help="Weight of the mean in the distance."),
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
