"""Checks of collections of systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sysbags._common.validation import kernel_name
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.system import System

__all__ = ["check_same_space", "check_systems"]


def check_systems(systems: Any, *, name: str = "systems") -> list[System]:
    """Return a non-empty list of systems that share one kernel and one bag length."""
    if isinstance(systems, System):
        raise ParameterError(
            f"{name} is a single System, but it must be a sequence of them: put it in a list"
        )
    if isinstance(systems, (str, bytes)) or not hasattr(systems, "__iter__"):
        raise ParameterError(
            f"{name} is of type {type(systems).__name__}, but it must be a sequence of System"
        )
    members = list(systems)
    if not members:
        raise ParameterError(f"{name} is empty, but it needs at least one System")
    for i, member in enumerate(members):
        if not isinstance(member, System):
            raise ParameterError(
                f"{name}[{i}] is of type {type(member).__name__}, but it must be a System (see identify)"
            )
        _check_pair(members[0], member, f"{name}[0]", f"{name}[{i}]")
    return members


def check_same_space(first: Sequence[System], second: Sequence[System]) -> None:
    """Refuse two collections (each consistent in itself) of different kernels or bag lengths."""
    _check_pair(first[0], second[0], "the first collection", "the second")


def _check_pair(one: System, other: System, one_name: str, other_name: str) -> None:
    if one.kernel != other.kernel:
        raise IncompatibleSystemsError(
            f"{one_name} has the kernel {kernel_name(one.kernel)} and {other_name} "
            f"{kernel_name(other.kernel)}, but only systems of one kernel can be compared"
        )
    if one.bag_length != other.bag_length:
        raise IncompatibleSystemsError(
            f"{one_name} has bags of length {one.bag_length} and {other_name} of {other.bag_length}, "
            "but only systems of one bag length can be compared"
        )
