"""A system as named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import KernelLike
from sysbags.systems.system import System

__all__ = ["system_arrays", "system_from_arrays"]


def system_arrays(system: System) -> dict[str, npt.NDArray[Any]]:
    """Return everything that a system knows as named arrays, except its kernel and its compression error.

    Examples
    --------
    >>> system = System([[0.5]], [[0.0, 1.0], [1.0, 0.0]], [[1.0], [0.5]], [0.5, 0.5])
    >>> system_from_arrays(system_arrays(system), system.kernel)
    System(order=1, size=2, bag_length=2, kernel='chi2')
    """
    values = {f.name: getattr(system, f.name) for f in fields(system)}
    return {
        name: np.asarray(value)
        for name, value in values.items()
        if name not in ("kernel", "compression_error") and value is not None
    }


def system_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], kernel: KernelLike) -> System:
    """Return the system of some arrays, see `system_arrays`."""
    values: dict[str, Any] = {name: array if array.ndim else array.item() for name, array in arrays.items()}
    return System(**values, kernel=kernel)
