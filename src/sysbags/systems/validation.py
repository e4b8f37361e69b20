"""Checks of collections of systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sysbags._common.validation import kernel_name
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.lazy import LazySystems, space_of
from sysbags.systems.system import System

__all__ = ["check_same_space", "check_systems"]


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
                f"{name}[{i}] is of type {type(system).__name__}, but it must be a System (see identify)"
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
