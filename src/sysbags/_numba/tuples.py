"""Four numbers as one, as a named tuple: the operations of `sysbags._numba.vectors` by plain Numba code.

A named tuple, because Numba has no arithmetic for it that this could clash with: ``+`` joins plain tuples.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from sysbags._common.types import Array
from sysbags._numba import compiled

__all__ = ["LANES", "fill", "largest", "load", "magnitude", "multiply_add", "pick", "root", "store"]

LANES = 4


class Lanes(NamedTuple):
    """The numbers of four problems."""

    a: float
    b: float
    c: float
    d: float


@compiled()
def load(array: Array, row: int, column: int) -> Lanes:
    """Read ``array[row, column, :]``."""
    return Lanes(array[row, column, 0], array[row, column, 1], array[row, column, 2], array[row, column, 3])


@compiled()
def store(array: Array, row: int, column: int, value: Lanes) -> None:
    """Write ``array[row, column, :]``."""
    array[row, column, 0] = value.a
    array[row, column, 1] = value.b
    array[row, column, 2] = value.c
    array[row, column, 3] = value.d


@compiled()
def fill(value: float) -> Lanes:
    """Every lane the same number."""
    return Lanes(value, value, value, value)


@compiled()
def pick(left: Lanes, right: Lanes, if_greater: Lanes, otherwise: Lanes) -> Lanes:
    """Lane by lane ``if_greater if left > right else otherwise``."""
    return Lanes(
        if_greater.a if left.a > right.a else otherwise.a,
        if_greater.b if left.b > right.b else otherwise.b,
        if_greater.c if left.c > right.c else otherwise.c,
        if_greater.d if left.d > right.d else otherwise.d,
    )


@compiled()
def magnitude(value: Lanes) -> Lanes:
    """Lane by lane the absolute value."""
    return Lanes(abs(value.a), abs(value.b), abs(value.c), abs(value.d))


@compiled()
def root(value: Lanes) -> Lanes:
    """Lane by lane the square root."""
    return Lanes(np.sqrt(value.a), np.sqrt(value.b), np.sqrt(value.c), np.sqrt(value.d))


@compiled()
def multiply_add(x: Lanes | float, y: Lanes | float, z: Lanes) -> Lanes:
    """Lane by lane ``x * y + z``."""
    return x * y + z  # type: ignore[operator,return-value]


@compiled()
def largest(value: Lanes) -> float:
    """The largest of the lanes, as a number."""
    return max(max(value.a, value.b), max(value.c, value.d))


def _register(symbol: Callable[[Any, Any], Any]) -> None:
    @overload(symbol, strict=False)
    def operate(left: Any, right: Any) -> Any:
        ours = [
            isinstance(side, types.NamedUniTuple) and side.instance_class is Lanes for side in (left, right)
        ]
        numbers = [isinstance(side, types.Float) for side in (left, right)]
        if all(ours):
            return lambda left, right: Lanes(
                symbol(left.a, right.a),
                symbol(left.b, right.b),
                symbol(left.c, right.c),
                symbol(left.d, right.d),
            )
        if ours[0] and numbers[1]:
            return lambda left, right: Lanes(
                symbol(left.a, right), symbol(left.b, right), symbol(left.c, right), symbol(left.d, right)
            )
        if numbers[0] and ours[1]:
            return lambda left, right: Lanes(
                symbol(left, right.a), symbol(left, right.b), symbol(left, right.c), symbol(left, right.d)
            )
        return None


for _symbol in (operator.add, operator.sub, operator.mul, operator.truediv):
    _register(_symbol)
