"""The stable state transition with the smallest prediction error."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from sysbags._common.types import Array
from sysbags._numba.stability import least_squares

STABILITIES = ("constrained", "clip", "none")
MARGIN = 1e-3  # how far the spectral norm of a transition stays below 1
GAP_TOLERANCE = 1e-13
DEPENDENT = 1e-14  # an eigenvalue of `X1 X1'` not above this fraction of the largest is treated as zero
RIDGES = (1e-15, *np.geomspace(1e-2, 1e-15, 14))  # of the largest eigenvalue
STEPS = 30  # for one ridge; real streams need up to ten
STEP = 0.5  # one over the smallest curvature in the coordinates that are chosen
LENGTHS = (1.0, 0.5, 0.25, 0.125, 0.0625)  # of a Newton step and, if none is good, of a gradient step
SMALLEST_CURVATURE = 1e-4  # of the largest; smaller ones do not scale the coordinates
CONJUGATE_STEPS, CONJUGATE_ERROR = 200, 1e-2


def stable_transition(states: Array, stability: str = "constrained", margin: float = MARGIN) -> Array:
    """Learn the transition of a linear dynamic system from its states, the last line but one of Algorithm 1.

    The problem solved is

        minimise ||X2 - A X1||_F   subject to   ||A||_2 <= 1 - margin

    with the (N, n) states, `x_1 .. x_{N-1}` in the columns of X1 and `x_2 .. x_N` in those of X2. It is
    convex. If the least squares solution is feasible, it is returned. Otherwise the dual problem is solved by
    Newton's method, see `constrained_minimum`. The final duality gap, relative to the largest eigenvalue of
    `X1 X1'`, is at most 1e-13, and above order 20 at most ``1e-13 (n / 20)^1.5``, which allows for round-off.
    For variances that differ by a factor above 1e8 it may be up to 1e-5.

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
    return constrained_minimum(G, H, bound)


def clip_singular_values(matrix: Array, bound: float) -> Array:
    """Return the nearest matrix (Frobenius) whose singular values are not above the bound."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    clipped: Array = (left * np.minimum(values, bound)) @ right if values[0] > bound else matrix
    return clipped


def optimality_gap(A: Array, G: Array, H: Array, bound: float) -> float:
    """Return a bound on how far `f(A) = tr(A G A')/2 - tr(A H')` is above its minimum, for a feasible A.

    f is convex, so its minimum is not below that of its tangent at A, and a linear function over the ball
    of the spectral norm is least at a multiple of a polar factor. With `D = H - A G`, minus the gradient, the
    gap is `bound * ||D||_* - <D, A>`; it is zero exactly at the minimiser.
    """
    D = H - A @ G
    return float(bound * np.linalg.svd(D, compute_uv=False).sum() - np.vdot(D, A))


def constrained_minimum(G: Array, H: Array, bound: float) -> Array:
    """Minimise `tr(A G A')/2 - tr(A H')`, which is half the squared residual less a constant, in a ball.

    The constraint ``||A||_2 <= bound``, written as ``A'A <= bound^2``, has a symmetric multiplier
    ``L >= 0``, whose rank is the number of singular values at the bound. The minimiser is
    ``A = H (G + L)^-1``, and L minimises the dual function

        tr(H (G + L)^-1 H') + bound^2 tr(L),   whose gradient is   bound^2 - A'A.

    L is found by semismooth Newton steps on ``L = P(L - step * gradient)``, where P sets negative eigenvalues
    to zero; this holds in any coordinates. Where they do not converge, because variances differ by orders of
    magnitude, a multiple of the identity is added to G and made smaller and smaller. On the null space of G,
    A is zero. H and A may have more rows than columns.
    """
    n = len(G)
    eigenvalues, V = np.linalg.eigh(G)
    scale = eigenvalues[-1]
    if eigenvalues[0] <= DEPENDENT * scale:
        V = V[:, eigenvalues > DEPENDENT * scale]
        inside: Array = constrained_minimum(V.T @ G @ V, H @ V, bound) @ V.T
        return inside
    G, H = G / scale, H / scale
    tolerance = GAP_TOLERANCE * max(1.0, (n / 20) ** 1.5)
    values, right = np.linalg.svd(H, full_matrices=False)[1:]
    # The exact multiplier if G and H'H have the same eigenvectors.
    L = _positive_part((right.T * values) @ right / bound - G)
    best, smallest = np.zeros_like(H), np.inf
    for ridge in RIDGES:
        A, L = _newton(L, G + ridge * np.eye(n), H, bound, tolerance)
        gap = optimality_gap(A, G, H, bound)
        if gap < smallest:
            best, smallest = A, gap
        if gap <= tolerance:
            break
    return best


def _newton(L: Array, G: Array, H: Array, bound: float, tolerance: float) -> tuple[Array, Array]:
    """Make Newton steps from a multiplier until the gap is small; return the best A and its multiplier."""
    value, C, inverse, F = _dual(L, G, H, bound)
    best, smallest = (np.zeros_like(H), L), np.inf
    for _ in range(STEPS):
        if not np.isfinite(value):  # G + L is not positive definite, by round-off
            break
        A = clip_singular_values(F @ inverse, bound)
        gap = optimality_gap(A, G, H, bound)
        if gap < smallest:
            best, smallest = (A, L), gap
        if gap <= tolerance:
            break
        T, N, B, gradient, w = _coordinates(L, C, inverse, F, bound)
        here = np.diag(w) + STEP * gradient  # L in these coordinates
        directions = _newton_direction(N, B, gradient, w), -STEP * gradient
        for direction, length in itertools.product(directions, LENGTHS):
            ahead = _positive_part(here + length * direction)
            L = T.T @ ahead @ T
            following, C, inverse, F = _dual(L, G, H, bound)
            # The last term is round-off of the value.
            if following <= value - 1e-4 * np.vdot(gradient, here - ahead) + 1e-14 * len(G) * abs(value):
                break
        value = following
    return best


def _positive_part(matrix: Array) -> Array:
    """Set the negative eigenvalues of a symmetric matrix to zero."""
    values, vectors = np.linalg.eigh(matrix)
    positive: Array = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return positive


def _dual(L: Array, G: Array, H: Array, bound: float) -> tuple[float, Array, Array, Array]:
    """Return the dual function, the Cholesky factor C of ``G + L``, its inverse, and ``F = H C'^-1``."""
    C, failed = dpotrf(G + L, lower=1)
    inverse = dtrtri(C, lower=1)[0]
    F = H @ inverse.T
    value = np.inf if failed else float(np.vdot(F, F) + bound * bound * np.trace(L))
    return value, C, inverse, F


def _coordinates(
    L: Array, C: Array, inverse: Array, F: Array, bound: float
) -> tuple[Array, Array, Array, Array, Array]:
    """Choose coordinates in which the curvature of the dual function hardly depends on the direction.

    In coordinates X with ``L = T' X T`` the second derivative is ``E -> N E B + B E N``, where N stands for
    ``(G + L)^-1`` and B for ``A'A``. Of the coordinates in which both are diagonal, those are chosen in which
    one is the inverse of the other: with ``B = diag(d)`` the derivative multiplies entry ij of E by
    ``d_i / d_j + d_j / d_i``, at least 2. A rotation then makes ``X - STEP * gradient`` diagonal.

    Returns T, N, B, the gradient and the diagonal.
    """
    _, values, right = np.linalg.svd(F, full_matrices=False)
    curvature = values * values
    root = np.sqrt(np.maximum(curvature, SMALLEST_CURVATURE * curvature[0]))
    T = (right / np.sqrt(root)[:, None]) @ C.T
    back = inverse.T @ (right.T * np.sqrt(root))
    gradient = bound * bound * (T @ T.T)
    gradient.ravel()[:: len(L) + 1] -= curvature / root
    w, Q = np.linalg.eigh(back.T @ L @ back - STEP * gradient)
    return Q.T @ T, (Q.T / root) @ Q, (Q.T * (curvature / root)) @ Q, Q.T @ gradient @ Q, w


def _newton_direction(N: Array, B: Array, gradient: Array, w: Array) -> Array:
    """Solve the linear system of a semismooth Newton step by preconditioned conjugate gradients.

    The generalised derivative of P at diag(w) multiplies each entry of a matrix by a number in [0, 1]: 1 if
    both eigenvalues are positive, 0 if none is, ``high / (high - low)`` otherwise. Entries with 0 are known
    at once, as L is zero there; the system for the others is symmetric and positive definite.
    """

    def second_derivative(E: Array) -> Array:
        half = N @ E @ B
        return half + half.T

    low, high = np.minimum.outer(w, w), np.maximum.outer(w, w)
    unknown = high > 0.0
    penalty = np.where(unknown, np.maximum(-low, 0.0) / np.where(unknown, high, 1.0), 0.0)
    known = np.where(unknown, 0.0, -STEP * gradient)
    known.ravel()[:: len(w) + 1] -= np.minimum(w, 0.0)
    residual = unknown * (-gradient * (1.0 + penalty) - second_derivative(known))
    penalty /= STEP
    half = np.outer(N.diagonal(), B.diagonal())
    diagonal = penalty + half + half.T
    preconditioner = np.divide(unknown, diagonal, out=np.zeros_like(half), where=diagonal > 0.0)
    solution = known
    direction = scaled = preconditioner * residual
    square = first = np.vdot(residual, scaled)
    for _ in range(CONJUGATE_STEPS):
        image = penalty * direction + unknown * second_derivative(direction)
        curvature = np.vdot(direction, image)
        if square <= CONJUGATE_ERROR**2 * first or curvature <= 0.0:
            break
        length = square / curvature
        solution = solution + length * direction
        residual = residual - length * image
        scaled = preconditioner * residual
        square, before = np.vdot(residual, scaled), square
        direction = scaled + square / before * direction
    return solution
