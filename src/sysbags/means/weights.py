"""Weights of the systems of a mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_matrix
from sysbags.errors import ParameterError

__all__ = ["check_mean_weights"]


def check_mean_weights(weights: Any, count: int) -> Array:
    """Return the weights of the systems, which sum to 1."""
    if weights is None:
        return np.full(count, 1.0 / count)
    w = check_matrix(weights, "weights", (count,), f"({count},): one weight per system")
    if w.min() < 0.0 or w.sum() <= 0.0:
        raise ParameterError("weights must be 0 or more with a positive sum")
    return np.asarray(w / w.sum())
