"""Random starts for the search over rotations; they depend on the order and the seed only."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags._numba.lanes import LANES

__all__ = ["start_tables"]

FEW_STARTS = 28


def crowded_starts(n: int) -> int:
    """Return the default number of starts where the transitions dominate.

    The share of random starts that find the best optimum falls with the order, from about 0.3 at 5 to 0.04 at
    20 (random pairs, benchmarks/dsa). From there on a start takes so long that fewer are made.

    Examples
    --------
    >>> [crowded_starts(n) for n in (2, 5, 10, 20, 40, 80)]
    [28, 28, 56, 112, 19, 8]
    """
    return int(max(FEW_STARTS, 5.6 * n) if n <= 20 else max(8.0, 112.0 * (20.0 / n) ** 2.5))


@lru_cache(maxsize=256)
def start_tables(n: int, starts: int | None, seed: int) -> tuple[Array, IntArray, int, int, bool]:
    """Return random starts, random orders of the planes, and how many starts are made.

    The starts are orthogonal matrices (groups, n, n, LANES) with alternating determinants. The numbers are
    those of groups where observers help and where the transitions dominate, and whether each start must be
    run to its end. If `starts` is given, all are; by default the search stops earlier.
    """
    thorough = starts is not None
    few, many = (FEW_STARTS, crowded_starts(n)) if starts is None else 2 * (check_integer(starts, "starts"),)
    few, many = -(-few // LANES), -(-many // LANES)
    rng = np.random.default_rng([seed, n])
    planes = np.column_stack(np.triu_indices(n, 1)).astype(np.int64)
    normal = rng.standard_normal((few, LANES, n, n))
    orders = np.stack([rng.permutation(planes) for _ in range(16)])
    if many > few:
        normal = np.concatenate([normal, rng.standard_normal((many - few, LANES, n, n))])
    Q, R = np.linalg.qr(normal)
    Q *= np.sign(np.einsum("...ii->...i", R))[..., None, :]
    wrong = np.linalg.det(Q) * np.where(np.arange(LANES) % 2, -1.0, 1.0) < 0
    Q[wrong, :, 0] *= -1.0
    return np.ascontiguousarray(np.moveaxis(Q, 1, -1)), orders, few, many, thorough
