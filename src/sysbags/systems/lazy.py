"""Systems on disk that are read when they are needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np

from sysbags._common.types import Array, IntArray, KernelLike
from sysbags.systems.system import System

__all__ = ["LazySystems", "sizes_of", "space_of"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LazySystems(Sequence[System]):
    """A sequence of systems whose samples are read when they are asked for; what is small is in memory.

    Functions of systems take it like a list; those that compare all of them read a part at a time. A subclass
    implements `read`.

    Attributes
    ----------
    kernel, bag_length, normal_form
        Those of all systems.
    sizes : (K,) array of int
        Numbers of samples.
    orders : (K,) array of int
    transition, observer_gram : (K, n, n) array
        Padded with zeros to the largest order n.
    mean_norm : (K,) array
    """

    kernel: KernelLike
    bag_length: int
    normal_form: str
    sizes: IntArray
    orders: IntArray
    transition: Array
    observer_gram: Array
    mean_norm: Array

    @abstractmethod
    def read(self, indices: IntArray) -> list[System]:
        """Read systems."""

    def subset(self, indices: IntArray | slice) -> LazySystems:
        """Return the systems at these indices, which are not read yet."""
        small = {field.name: getattr(self, field.name) for field in fields(LazySystems)}
        arrays = {name: one[indices] for name, one in small.items() if isinstance(one, np.ndarray)}
        return _Subset(whole=self, places=np.arange(len(self))[indices], **(small | arrays))

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> System: ...
    @overload
    def __getitem__(self, index: slice) -> list[System]: ...
    def __getitem__(self, index: Any) -> Any:
        places = np.arange(len(self))[index]
        return self.read(places) if isinstance(index, slice) else self.read(places[None])[0]

    def __iter__(self) -> Iterator[System]:
        return (self[k] for k in range(len(self)))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Subset(LazySystems):
    """Some of the systems of a sequence."""

    whole: LazySystems
    places: IntArray

    def read(self, indices: IntArray) -> list[System]:
        return self.whole.read(self.places[indices])


def space_of(systems: Sequence[System]) -> System | LazySystems:
    """Return what has the kernel, bag length and normal form of systems; nothing is read for it."""
    return systems if isinstance(systems, LazySystems) else systems[0]


def sizes_of(systems: Sequence[System]) -> IntArray:
    """Return the numbers of samples of systems; nothing is read for it."""
    return systems.sizes if isinstance(systems, LazySystems) else np.array([one.size for one in systems])
