"""Many systems: checked, on disk and read when they are needed, and as named arrays for the disk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import kernel_name
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.system import System


@dataclass(frozen=True, eq=False, kw_only=True)
class LazySystems(Sequence[System]):
    """A sequence of systems whose samples are read when they are asked for; what is small is in memory.

    Functions of systems take it like a list; those that compare all of them read a part at a time. A subclass
    implements `read`. `sizes` are the numbers of samples; `transition` and `observer_gram`, (K, n, n), are
    padded with zeros to the largest order n.
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


def systems_at(systems: Sequence[System], places: IntArray) -> list[System]:
    """Return the systems at some places, read at once where they are on disk."""
    return systems.read(places) if isinstance(systems, LazySystems) else [systems[k] for k in places]


def sizes_of(systems: Sequence[System]) -> IntArray:
    """Return the numbers of samples of systems; nothing is read for it."""
    return systems.sizes if isinstance(systems, LazySystems) else np.array([one.size for one in systems])


def check_systems(systems: Any, *, name: str = "systems") -> Sequence[System]:
    """Return a non-empty list of systems with the same kernel, bag length and normal form.

    Systems that are read when they are needed stay what they are.
    """
    if isinstance(systems, LazySystems) and len(systems):
        return systems
    if isinstance(systems, System):
        raise ParameterError(
            f"{name} is a single System, but it must be a sequence of System: put it in a list"
        )
    if isinstance(systems, (str, bytes)) or not hasattr(systems, "__iter__"):
        raise ParameterError(
            f"{name} is of type {type(systems).__name__}, but it must be a sequence of System"
        )
    checked = list(systems)
    if not checked:
        raise ParameterError(f"{name} is empty, but it needs at least one System")
    for i, system in enumerate(checked):
        if not isinstance(system, System):
            raise ParameterError(
                f"{name}[{i}] is of type {type(system).__name__}, but it must be a System: identify, or a "
                "SystemIdentifier before, makes one of a stream"
            )
        _check_pair(checked[0], system, f"{name}[0]", f"{name}[{i}]")
    return checked


def check_same_space(first: Sequence[System], second: Sequence[System]) -> None:
    """Raise an error for two collections of different kernels, bag lengths or normal forms."""
    _check_pair(space_of(first), space_of(second), "the first collection", "the second")


def _check_pair(
    first: System | LazySystems, second: System | LazySystems, first_name: str, second_name: str
) -> None:
    if first.kernel != second.kernel:
        raise IncompatibleSystemsError(
            f"{first_name} has the kernel {kernel_name(first.kernel)} and {second_name} "
            f"{kernel_name(second.kernel)}, but only systems of the same kernel can be compared"
        )
    if first.bag_length != second.bag_length:
        raise IncompatibleSystemsError(
            f"{first_name} has bags of length {first.bag_length} and {second_name} of {second.bag_length}, "
            "but only systems of the same bag length can be compared"
        )
    if first.normal_form != second.normal_form:
        raise IncompatibleSystemsError(
            f"{first_name} is in the {first.normal_form} form and {second_name} in the {second.normal_form} "
            "form, but only systems of the same form can be compared"
        )


MAPPING = "compression_error"  # the only field that is a mapping of names to numbers


def system_arrays(system: System) -> dict[str, npt.NDArray[Any]]:
    """Return all fields of a system but its kernel as arrays; numbers have no dimension, text is bytes."""
    values = {field.name: getattr(system, field.name) for field in fields(system) if field.name != "kernel"}
    errors = values.pop(MAPPING) or {}
    values |= {f"{MAPPING}/{name}": error for name, error in errors.items()}
    values["normal_form"] = np.frombuffer(system.normal_form.encode(), dtype=np.uint8)
    return {name: np.asarray(value) for name, value in values.items() if value is not None}


def system_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], kernel: KernelLike) -> System:
    """Return exactly the system of arrays that `system_arrays` made."""
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        value = array if array.ndim else array.item()
        field, _, key = name.partition("/")
        if key:
            values.setdefault(field, {})[key] = value
        else:
            values[field] = value
    values["normal_form"] = bytes(values["normal_form"]).decode()
    return System(**values, kernel=kernel)
