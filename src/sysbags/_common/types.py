"""Types used by all modules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "IntArray", "KernelLike"]

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
KernelLike = str | Callable[[Array, Array], Array]
