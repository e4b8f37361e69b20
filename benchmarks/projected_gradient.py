"""The transition of least residual by accelerated projected gradient steps: the slow twin of Newton's method.

The projection of these steps clips singular values. A few semismooth Newton steps on the optimality condition
itself follow, each with a dense matrix of n^2 rows. The code is compiled, as it was in the library.
"""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags._numba.dense import dot, orthogonalise, svd
from sysbags._numba.vectors import LANES

__all__ = ["projected_gradient_minimum"]

CHECK_EVERY = 10
GAP_TOLERANCE = 1e-13
GRADIENT_STEPS = (100, 400, 1600, 6400)
NEWTON_STEPS = 15
LARGEST_NEWTON_ORDER = 30  # up to here Newton's method helps the gradient steps, at a cost of n^6


@compiled()
def clip_singular_values(matrix: Array, bound: float) -> Array:
    """Return the nearest matrix (Frobenius) whose singular values are not above the bound."""
    left, values, right = svd(matrix)
    if values[0] <= bound:
        return matrix.copy()
    n = values.size
    clipped = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            weight = left[i, k] * min(values[k], bound)
            for j in range(n):
                clipped[i, j] += weight * right[k, j]
    return clipped


@compiled(wrapper=False)
def _clip(matrix: Array, bound: float, right: Array) -> Array:
    """Do what `clip_singular_values` does, from right singular vectors (rows) of a similar matrix.

    They become those of this matrix: from a good start, few of Jacobi's rotations are needed.
    """
    n = matrix.shape[0]
    blocks = -(-n // LANES)
    padded, rotated = np.zeros((n, blocks * LANES)), np.zeros((n, blocks * LANES))
    rotated[:, :n] = right
    for k in range(n):
        for i in range(n):
            for j in range(n):
                padded[k, i] += matrix[i, j] * right[k, j]
    orthogonalise(padded.reshape(n, blocks, LANES), rotated.reshape(n, blocks, LANES), np.empty(n))
    right[:] = rotated[:, :n]
    work, clipped, outside = padded[:, :n], np.zeros((n, n)), False
    for k in range(n):
        value = np.sqrt(dot(work[k], work[k]))
        outside = outside or value > bound
        factor = bound / value if value > bound else 1.0
        for i in range(n):
            for j in range(n):
                clipped[i, j] += factor * work[k, i] * right[k, j]
    return clipped if outside else matrix.copy()


@compiled()
def optimality_gap(A: Array, G: Array, H: Array, bound: float) -> float:
    """Return a bound on how far `f(A) = tr(A G A')/2 - tr(A H')` is above its minimum, for a feasible A.

    f is convex, so its minimum is not below that of its tangent at A, and a linear function over the ball
    of the spectral norm is least at a multiple of a polar factor. With `D = H - A G`, minus the gradient, the
    gap is `bound * ||D||_* - <D, A>`; it is zero exactly at the minimiser.
    """
    D = descent(A, G, H)
    values = svd(D)[1]
    gap = 0.0
    for i in range(values.size):
        gap += bound * values[i]
        for j in range(values.size):
            gap -= D[i, j] * A[i, j]
    return gap


@compiled()
def descent(A: Array, G: Array, H: Array) -> Array:
    """Return `H - A G`, minus the gradient of `optimality_gap`'s f."""
    n = A.shape[0]
    D = H.copy()
    for i in range(n):
        for k in range(n):
            for j in range(n):
                D[i, j] -= A[i, k] * G[k, j]
    return D


@compiled()
def accelerated_gradient(
    start: Array, G: Array, H: Array, bound: float, tolerance: float, max_iterations: int
) -> tuple[Array, float]:
    """Minimise `tr(A G A')/2 - tr(A H')` subject to `||A||_2 <= bound` (FISTA with gradient restart).

    The start is any matrix; it is projected first. G is symmetric, with largest eigenvalue 1, so that the
    step length is 1. Stops once `optimality_gap` is not above the tolerance. Returns a feasible A and its
    gap.
    """
    n = G.shape[0]
    A = clip_singular_values(start, bound)
    ahead, right = A.copy(), np.eye(n)
    momentum = 1.0
    for iteration in range(max_iterations):
        if iteration % CHECK_EVERY == 0:
            gap = optimality_gap(A, G, H, bound)
            if gap <= tolerance:
                return A, gap
            right = np.eye(n)  # afresh, as rotations add up round-off
        step = descent(ahead, G, H)
        for i in range(n):
            for j in range(n):
                step[i, j] += ahead[i, j]
        following = _clip(step, bound, right)
        uphill = 0.0
        for i in range(n):
            for j in range(n):
                uphill += (ahead[i, j] - following[i, j]) * (following[i, j] - A[i, j])
        larger = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        # Where the momentum leads uphill, it is forgotten.
        onward = 0.0 if uphill > 0.0 else (momentum - 1.0) / larger
        momentum = 1.0 if uphill > 0.0 else larger
        for i in range(n):
            for j in range(n):
                ahead[i, j] = following[i, j] + onward * (following[i, j] - A[i, j])
        A = following
    return A, optimality_gap(A, G, H, bound)


def projected_gradient_minimum(G: Array, H: Array, free: Array, bound: float) -> Array:
    """Minimise what `sysbags.systems.stability.constrained_minimum` minimises, from any start."""
    scale = np.linalg.norm(G, 2)
    G, H = G / scale, H / scale
    A = free
    for steps in GRADIENT_STEPS:
        A, gap = accelerated_gradient(A, G, H, bound, GAP_TOLERANCE, steps)
        if gap <= GAP_TOLERANCE:
            break
        if G.shape[0] <= LARGEST_NEWTON_ORDER:
            polished = _newton(A, G, H, bound)
            if optimality_gap(polished, G, H, bound) < gap:
                A = polished
    return A


def _newton(A: Array, G: Array, H: Array, bound: float) -> Array:
    """Solve the optimality condition `A = clip(A + step (H - A G))`, which holds for any step > 0, by Newton.

    The clipping of singular values is differentiable unless one of them equals the bound: with the SVD
    `U diag(s) V'` of its argument, `c(s) = min(s, bound)` and an increment E in the basis of singular
    vectors, the derivative multiplies the symmetric part of E by `(c_i - c_j) / (s_i - s_j)` and the skew
    part by `(c_i + c_j) / (s_i + s_j)`.
    """
    n = G.shape[0]
    spectrum = np.linalg.eigvalsh(G)
    # The geometric mean of the extreme curvatures identified the active singular values best in trials.
    step = 1.0 / np.sqrt(max(spectrum[0], 1e-16) * spectrum[-1])
    transposed = np.arange(n * n).reshape(n, n).T.ravel()
    rows = np.arange(n * n)
    for _ in range(NEWTON_STEPS):
        U, s, Vt = np.linalg.svd(A + step * (H - A @ G))
        clipped = np.minimum(s, bound)
        defect = A - (U * clipped) @ Vt
        if np.linalg.norm(defect) <= 1e-15 * n:
            break
        difference, total = s[:, None] - s, s[:, None] + s
        equal = np.abs(difference) <= 1e-14 * s[0]
        slope = np.broadcast_to((s < bound)[:, None], (n, n)).astype(float)
        symmetric = np.where(equal, slope, (clipped[:, None] - clipped) / np.where(equal, 1.0, difference))
        skew = np.divide(clipped[:, None] + clipped, total, out=np.ones((n, n)), where=total > 0.0)
        derivative = np.diag(0.5 * (symmetric + skew).ravel())
        derivative[rows, transposed] += 0.5 * (symmetric - skew).ravel()
        jacobian = np.eye(n * n) - derivative @ (np.eye(n * n) - step * np.kron(np.eye(n), Vt @ G @ Vt.T))
        try:
            increment = np.linalg.solve(jacobian, (U.T @ defect @ Vt.T).ravel()).reshape(n, n)
        except np.linalg.LinAlgError:
            break
        A = A - U @ increment @ Vt
    return clip_singular_values(np.ascontiguousarray(A), bound)
