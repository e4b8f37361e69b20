"""Conversion of systems to named arrays and back, for the cache on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import KernelLike
from sysbags.systems.system import System

__all__ = ["system_arrays", "system_from_arrays"]

MAPPING = "compression_error"  # the only field that is a mapping of names to numbers


def system_arrays(system: System) -> dict[str, npt.NDArray[Any]]:
    """Return all fields of a system but its kernel as named arrays; numbers have no dimension, text is bytes.

    Examples
    --------
    >>> theta = System([[0.5]], samples=[[0.0, 1.0], [1.0, 0.0]], alpha=[[1.0], [0.5]], beta=[0.5, 0.5])
    >>> sorted(system_arrays(theta))
    ['alpha', 'beta', 'normal_form', 'samples', 'transition']
    >>> system_from_arrays(system_arrays(theta), "chi2")
    System(order=1, size=2, bag_length=2, kernel='chi2')
    """
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
