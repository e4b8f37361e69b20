"""The stable state transition with the smallest prediction error."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba.stability import (
    accelerated_gradient,
    clip_singular_values,
    largest_singular_value,
    least_squares,
    optimality_gap,
)

STABILITIES = ("constrained", "clip", "none")
MARGIN = 1e-3  # how far the spectral norm of a transition stays below 1
GAP_TOLERANCE = 1e-13
GRADIENT_STEPS = (100, 400, 1600, 6400)
NEWTON_STEPS = 15
LARGEST_NEWTON_ORDER = 30  # up to here Newton's method helps the gradient steps, at a cost of n^6


def stable_transition(states: Array, stability: str = "constrained", margin: float = MARGIN) -> Array:
    """Learn the transition of a linear dynamic system from its states, the last line but one of Algorithm 1.

    The problem solved is

        minimise ||X2 - A X1||_F   subject to   ||A||_2 <= 1 - margin

    with the (N, n) states, `x_1 .. x_{N-1}` in the columns of X1 and `x_2 .. x_N` in those of X2. It is
    convex. If the least squares solution is feasible, it is returned. Otherwise accelerated projected
    gradient steps (the projection clips singular values) are followed by a few semismooth Newton steps on the
    optimality condition, which are needed where the variances of the states differ by orders of magnitude.
    The final duality gap, relative to the largest eigenvalue of `X1 X1'`, is at most 1e-13; for variances
    that differ by a factor above 1e7 it may be up to 1e-7.

    This is the stability "constrained"; "clip" clips the singular values of the least squares solution, which
    is feasible but predicts worse; "none" is the least squares solution.

    A state that doubles with every step is best predicted by the largest factor allowed.

    >>> stable_transition(np.array([[1.0], [2.0], [4.0]]), margin=0.1)
    array([[0.9]])
    """
    bound = 1.0 - margin
    free, norm, G, H = least_squares(states)
    if norm < 0.0:
        # Contiguous, so that the functions are compiled for one layout only.
        solution = np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0]
        free = np.ascontiguousarray(solution.T, dtype=np.float64)
        norm = float(np.linalg.norm(free, 2))
    if stability == "none" or norm <= bound:
        return free
    if stability == "clip":
        return clip_singular_values(free, bound)
    return _constrained(G, H, free, bound)


def _constrained(G: Array, H: Array, free: Array, bound: float) -> Array:
    """Minimise `tr(A G A')/2 - tr(A H')`, which is half the squared residual less a constant, in the ball."""
    scale = largest_singular_value(G)
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
