"""Least squares over matrices of bounded spectral norm: accelerated projected gradient."""

from __future__ import annotations

import numpy as np

from sysbags._compiled import compiled
from sysbags._compiled.dense import svd
from sysbags._types import Array

__all__ = ["accelerated_gradient", "clip_singular_values", "optimality_gap"]

CHECK_EVERY = 10


@compiled()
def clip_singular_values(matrix: Array, bound: float) -> Array:
    """Return the nearest matrix (Frobenius) whose singular values are not above the bound."""
    left, values, right = svd(matrix)
    if values[0] <= bound:
        return matrix.copy()
    return (left * np.minimum(values, bound)) @ right


@compiled()
def optimality_gap(A: Array, G: Array, H: Array, bound: float) -> float:
    """Return a bound on how far `f(A) = tr(A G A')/2 - tr(A H')` is above its minimum, for a feasible A.

    f is convex, so its minimum is not below that of its tangent at A, and a linear function over the ball
    of the spectral norm is least at a multiple of a polar factor. With `D = H - A G`, minus the gradient, the
    gap is `bound * ||D||_* - <D, A>`; it is zero exactly at the minimiser.
    """
    D = H - A @ G
    return bound * float(np.sum(svd(D)[1])) - float(np.sum(D * A))


@compiled()
def accelerated_gradient(
    start: Array, G: Array, H: Array, bound: float, tolerance: float, max_iterations: int
) -> tuple[Array, float]:
    """Minimise `tr(A G A')/2 - tr(A H')` subject to `||A||_2 <= bound` (FISTA with gradient restart).

    Parameters
    ----------
    start : (n, n) array
        Any matrix; it is projected first.
    G : (n, n) array
        Symmetric, with largest eigenvalue 1, so that the step length is 1.
    H : (n, n) array
        The linear part.
    bound : float
        Of the spectral norm.
    tolerance : float
        Stop once `optimality_gap` is not above it.
    max_iterations : int
        Stop after so many steps at the latest.

    Returns
    -------
    A : (n, n) array
        Feasible.
    gap : float
        Its `optimality_gap`.
    """
    A = clip_singular_values(start, bound)
    ahead = A.copy()
    momentum = 1.0
    for iteration in range(max_iterations):
        if iteration % CHECK_EVERY == 0:
            gap = optimality_gap(A, G, H, bound)
            if gap <= tolerance:
                return A, gap
        following = clip_singular_values(ahead - (ahead @ G - H), bound)
        # The momentum leads uphill: forget it.
        if np.sum((ahead - following) * (following - A)) > 0.0:
            momentum = 1.0
            ahead = following.copy()
        else:
            larger = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = following + (momentum - 1.0) / larger * (following - A)
            momentum = larger
        A = following
    return A, optimality_gap(A, G, H, bound)
