"""Types used by all modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
KernelLike = str | Callable[[Array, Array], Array]
T = TypeVar("T")


class PerBag(tuple[T, ...]):
    """A tuple with one item per bag that knows the names of the bags, for messages and explanations."""

    names: tuple[str, ...]

    def __new__(cls, items: Iterable[T], names: Sequence[str] = ()) -> Self:  # pickle sets the names later
        made = super().__new__(cls, items)
        made.names = tuple(names)
        return made
