"""Four numbers as one, for kernels that run four problems abreast: vectors, or tuples where those fail.

`sysbags._numba.vectors` builds on Numba's internals, which may change with any release;
`sysbags._numba.tuples` needs Numba's public API alone, and is several times slower.
"""

from __future__ import annotations

import numba

from sysbags._numba import compiled

__all__ = ["LANES", "fill", "largest", "load", "magnitude", "multiply_add", "pick", "root", "store"]

TESTED = (0, 68)
"""Up to this release of Numba vectors are known to compile."""

try:
    from sysbags._numba.vectors import LANES, fill, largest, load, magnitude, multiply_add, pick, root, store

    if numba.version_info.short > TESTED:

        @compiled()
        def _every_operation() -> float:
            value = fill(4.0)
            value = pick(value, fill(1.0), value * 2.0 - value, multiply_add(value, 2.0, value / 2.0))
            return largest(root(magnitude(value)))  # type: ignore[no-any-return]

        _every_operation()
except Exception:  # whatever another release of Numba raises, here or while compiling
    from sysbags._numba.tuples import LANES, fill, largest, load, magnitude, multiply_add, pick, root, store
