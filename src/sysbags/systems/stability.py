"""The stable state transition with the smallest prediction error."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import check_choice, check_matrix, check_share
from sysbags._numba.stability import (
    accelerated_gradient,
    clip_singular_values,
    largest_singular_value,
    least_squares,
    one_step_errors,
    optimality_gap,
)
from sysbags.errors import StreamError

__all__ = ["STABILITIES", "one_step_noise", "prediction_error", "stable_transition", "transition_of_states"]

STABILITIES = ("constrained", "clip", "none")
GAP_TOLERANCE = 1e-13
GRADIENT_STEPS = (100, 400, 1600, 6400)
NEWTON_STEPS = 15
LARGEST_NEWTON_ORDER = 30


def stable_transition(
    states: Any,
    *,
    stability: str = "constrained",
    margin: float = 1e-3,
    largest_newton_order: int = LARGEST_NEWTON_ORDER,
) -> Array:
    """Learn the transition of a linear dynamic system from its states, the last line but one of Algorithm 1.

    The problem solved is

        minimise ||X2 - A X1||_F   subject to   ||A||_2 <= 1 - margin

    with the states `x_1 .. x_{N-1}` in the columns of X1 and `x_2 .. x_N` in those of X2. It is convex.
    If the least squares solution is feasible, it is returned. Otherwise accelerated projected gradient steps
    (the projection clips singular values) are followed by a few semismooth Newton steps on the optimality
    condition, which are needed where the variances of the states differ by orders of magnitude. The final
    duality gap, relative to the largest eigenvalue of `X1 X1'`, is at most 1e-13; for variances that differ
    by a factor above 1e7 it may be up to 1e-7.

    Parameters
    ----------
    states : (N, n) array
        Rows are time, at least two.
    stability : {"constrained", "clip", "none"}, default="constrained"
        "constrained" is the minimiser above; "clip" clips the singular values of the least squares
        solution, which is feasible but predicts worse; "none" is the least squares solution.
    margin : float, default=1e-3
        In [0, 1): how far the spectral norm stays below 1.
    largest_newton_order : int, default=30
        Up to this order Newton's method helps the gradient steps, at a cost of n^6.

    Returns
    -------
    (n, n) array
        The transition A.

    Examples
    --------
    A state that doubles with every step is best predicted by the largest factor allowed.

    >>> stable_transition([[1.0], [2.0], [4.0]], margin=0.1)
    array([[0.9]])
    >>> stable_transition([[1.0], [2.0], [4.0]], stability="none").round(12)
    array([[2.]])
    """
    check_choice(stability, "stability", STABILITIES)
    bound = 1.0 - check_share(margin, "margin", low="[", high=")")
    X = check_matrix(
        states, "states", (None, None), "(N, n): one row per time step, one column per state", StreamError
    )
    if X.shape[0] < 2:
        raise StreamError("states has one row, but a transition needs at least two time steps")
    return transition_of_states(X, stability, bound, largest_newton_order)


def transition_of_states(
    X: Array, stability: str, bound: float, largest_newton_order: int = LARGEST_NEWTON_ORDER
) -> Array:
    """Do what `stable_transition` does, with the bound of the spectral norm, for contiguous states."""
    free, norm, G, H = least_squares(X)
    if norm < 0.0:
        # Contiguous, so that the functions are compiled for one layout only.
        free = np.ascontiguousarray(np.linalg.lstsq(X[:-1], X[1:], rcond=None)[0].T, dtype=np.float64)
        norm = float(np.linalg.norm(free, 2))
    if stability == "none" or norm <= bound:
        return free
    if stability == "clip":
        return clip_singular_values(free, bound)
    return _constrained(G, H, free, bound, largest_newton_order)


def prediction_error(states: Array, transition: Array) -> float:
    """Return the relative error of one-step prediction, ``||X2 - A X1||_F / ||X2||_F``.

    Examples
    --------
    >>> prediction_error(np.array([[1.0], [2.0], [4.0]]), np.array([[2.0]]))
    0.0
    """
    return one_step_errors(np.ascontiguousarray(states), np.ascontiguousarray(transition))[1]


def one_step_noise(states: Array, transition: Array) -> Array:
    """Return the (n, n) covariance of the errors of one-step prediction, the mean of `e_t e_t'`.

    The errors are `e_t = x_{t+1} - A x_t`. They are not centred: a prediction that is wrong by a constant is
    as wrong.

    Examples
    --------
    >>> one_step_noise(np.array([[1.0], [2.0], [5.0]]), np.array([[2.0]]))
    array([[0.5]])
    """
    return one_step_errors(np.ascontiguousarray(states), np.ascontiguousarray(transition))[0]


def _constrained(G: Array, H: Array, free: Array, bound: float, largest_newton_order: int) -> Array:
    """Minimise `tr(A G A')/2 - tr(A H')`, which is half the squared residual less a constant, in the ball."""
    scale = largest_singular_value(G)
    G, H = G / scale, H / scale
    A = free
    for steps in GRADIENT_STEPS:
        A, gap = accelerated_gradient(A, G, H, bound, GAP_TOLERANCE, steps)
        if gap <= GAP_TOLERANCE:
            break
        if G.shape[0] <= largest_newton_order:
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
