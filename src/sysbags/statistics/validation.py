"""Checks of what all tests are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_matrix
from sysbags.errors import ParameterError

__all__ = ["check_distances"]


def check_distances(distances: Any, name: str = "distances") -> Array:
    """Return a symmetric matrix of finite squared distances with zeros on the diagonal."""
    meaning = "a square matrix of squared distances, one row and one column per system"
    matrix = check_matrix(distances, name, (None, None), meaning)
    if matrix.shape[0] != matrix.shape[1]:
        raise ParameterError(f"{name} has shape {matrix.shape}, but it must be {meaning}")
    if matrix.min() < 0.0:
        raise ParameterError(f"{name} holds a negative entry, but squared distances must be 0 or more")
    rounding = 1e-9 * matrix.max()
    if np.abs(matrix - matrix.T).max() > rounding or np.diagonal(matrix).max() > rounding:
        raise ParameterError(
            f"{name} must be symmetric with zeros on the diagonal, as pairwise_distances(systems) is"
        )
    return matrix
