"""Random starts for the search over rotations; they depend on the order and the seed only."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags._numba.lanes import LANES

__all__ = ["crowded_starts", "start_tables"]

MOST_STARTS = 28


def crowded_starts(n: int) -> int:
    """Return the default number of starts where only the transitions count.

    The share of random starts that find the best optimum falls with the order. Above 20 a start takes so long
    that fewer are made.

    Examples
    --------
    >>> [crowded_starts(n) for n in (2, 5, 10, 20, 40, 80)]
    [28, 28, 56, 112, 19, 8]
    """
    return int(max(MOST_STARTS, 5.6 * n) if n <= 20 else max(8.0, 112.0 * (20.0 / n) ** 2.5))


@lru_cache(maxsize=256)
def start_tables(n: int, starts: int | None, seed: int) -> tuple[Array, IntArray, bool]:
    """Return random starts, random orders of the planes, and whether all starts must be run.

    The starts are orthogonal matrices (groups, n, n, LANES) with alternating determinants. If `starts` is
    given, all are run; by default the search stops earlier.
    """
    thorough = starts is not None
    if starts is None:
        starts = MOST_STARTS
    groups = -(-check_integer(starts, "starts") // LANES)
    rng = np.random.default_rng([seed, n])
    normal = rng.standard_normal((groups, LANES, n, n))
    Q, R = np.linalg.qr(normal)
    Q *= np.sign(np.einsum("...ii->...i", R))[..., None, :]
    wrong = np.linalg.det(Q) * np.where(np.arange(LANES) % 2, -1.0, 1.0) < 0
    Q[wrong, :, 0] *= -1.0
    planes = np.column_stack(np.triu_indices(n, 1)).astype(np.int64)
    orders = np.stack([rng.permutation(planes) for _ in range(16)])
    return np.ascontiguousarray(np.moveaxis(Q, 1, -1)), orders, thorough
