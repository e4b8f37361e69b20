"""The streams or the systems of a clip, one per bag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self, TypeVar

__all__ = ["PerBag"]

T = TypeVar("T")


class PerBag(tuple[T, ...]):
    """A tuple with one item per bag that knows the names of the bags, for messages and explanations.

    Parameters
    ----------
    items : iterable
    names : sequence of str
        One for each item.

    Examples
    --------
    >>> streams = PerBag(["a stream", "another"], ["lbp", "colour"])
    >>> streams, streams.names
    (('a stream', 'another'), ('lbp', 'colour'))
    """

    names: tuple[str, ...]

    def __new__(cls, items: Iterable[T], names: Sequence[str] = ()) -> Self:  # pickle sets the names later
        made = super().__new__(cls, items)
        made.names = tuple(names)
        return made
