"""Upper bounds of rho over all rotations: a fast one from spectra, and a tight one from the dual problem."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg.lapack

from sysbags._common.parallel import ONE_BLAS_THREAD
from sysbags._common.types import Array

LARGEST_ORDER = 40
"""The n^2 x n^2 matrices of this order take 140 MB; those of a larger one take too long beside the search."""
MOST_STEPS, STEPS_TIMES_ORDER = 6, 100
REACHES = (2.5, 1.2, 0.9)
"""Steps to try, in the norm of the barrier's Hessian; below 1 they cannot leave the feasible set."""
SHARES = (0.125, 0.25, 0.5, 1.0, 2.0)
"""How far to go from the stationary pair to the separate one, or beyond if that one is singular."""
FIRST_SHARE = 80
"""Shares below the order over this number are rarely enough (measured)."""
SLOW = 0.95
"""A step that leaves a larger share of the excess is the last."""
EPS = float(np.finfo(np.float64).eps)


def transition_bound(first: Array, second: Array) -> float:
    """Return an upper bound of ``tr(A1' Q' A2 Q)`` over all orthogonal Q.

    The smallest of three bounds: von Neumann's ``sum_i s_i(A1) s_i(A2)``; the same without the traces, which
    no rotation changes; and its sharper form for the symmetric parts (eigenvalues with their signs) plus von
    Neumann's for the skew parts.
    """
    return float(spectral_bound(transition_spectra(first), transition_spectra(second)))


def transition_spectra(transitions: Array) -> Array:
    """Return what `transition_bound` compares, (4, ..., n), for (..., n, n) transitions.

    These are the singular values, those without the trace, the eigenvalues of the symmetric part and the
    singular values of the skew part.
    """
    mirrored = np.swapaxes(transitions, -1, -2)
    symmetric = np.linalg.eigvalsh(0.5 * (transitions + mirrored))
    diagonal = symmetric.mean(axis=-1)[..., None, None] * np.eye(transitions.shape[-1])
    others = transitions, transitions - diagonal, 0.5 * (transitions - mirrored)
    plain, traceless, skew = (np.linalg.svd(matrices, compute_uv=False) for matrices in others)
    return np.stack([plain, traceless, symmetric, skew])


def spectral_bound(first: Array, second: Array) -> Array:
    """Return `transition_bound` of many transitions from their `transition_spectra`."""
    plain, traceless, symmetric, skew = (first * second).sum(axis=-1)
    traces = first[2].sum(axis=-1) * second[2].mean(axis=-1)
    return np.asarray(np.minimum(np.minimum(plain, traceless + traces), symmetric + skew))


class _Problem(NamedTuple):
    """``q'Hq + 2 <C, Q>`` for q = vec Q, where ``HQ = (B Q A' + B' Q A) / 2``; Q = I is the alignment found.

    `gradient` is ``H I + C``, symmetric up to the alignment's slope; `minus_h` is -H, (n, n, n, n).
    """

    A: Array
    B: Array
    C: Array
    gradient: Array
    minus_h: Array


class _Point(NamedTuple):
    """Multipliers U, V and the Cholesky factor of ``Z = U (x) I + I (x) V - H``.

    No orthogonal Q has a value that is larger than that of I by more than `excess`.
    """

    U: Array
    V: Array
    factor: Array
    excess: float


def tight_bound(first: Array, second: Array, observer: Array, rotation: Array) -> float:
    """Return an upper bound of ``rho(Q) = tr(A1' Q' A2 Q) + tr(M Q)`` over all orthogonal Q.

    The bound is a value of the Lagrangian dual for both ``Q Q' = I`` and ``Q' Q = I``
    (Anstreicher and Wolkowicz, 2000)::

        min over symmetric U, V of  tr U + tr V + m' Z^-1 m / 4,
        Z = U (x) I + I (x) V - H positive semidefinite,  rho(Q) = q' H q + m' q,  q = vec Q

    Every pair with a positive Z gives a bound, so the problem need not be solved to its end. At the rotation
    that was found, a local maximiser, ``U + V = G`` with a known G. If Z is positive semidefinite for one
    choice of ``U - V``, the rotation is proven to be a maximiser. The first choice is that of the separate
    problems of the symmetric parts, the skew parts and the observers. The sum of their solutions is feasible
    (it is the fast bound), and so is a point on the way from it to the stationary pair. From there a few
    Newton steps are made on the dual with a logarithmic barrier, for U and V that are diagonal in the
    eigenvectors of the gradient.

    Z is proven to be positive semidefinite by a Cholesky factorisation, whose round-off is a part of the
    bound. Above order `LARGEST_ORDER` nothing is factorised: the rotation is proven where the observers
    dominate, and otherwise there is no bound, that is, an infinite one.

    >>> A1, A2 = np.array([[0.9, 0.0], [0.0, 0.5]]), np.array([[0.5, 0.0], [0.0, 0.9]])
    >>> bound = tight_bound(A1, A2, np.zeros((2, 2)), np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> bool(0.0 <= bound - 1.06 < 1e-6)
    True
    """
    with ONE_BLAS_THREAD:  # the same bits for any number of threads
        n, Q = len(first), rotation
        B, C = Q.T @ second @ Q, observer @ Q
        value = float(np.vdot(first, B) + np.trace(C))
        # Q is orthogonal up to its last digits, and so are the products.
        size = _norm(first) * _norm(second) + np.sqrt(n) * _norm(observer)
        slack = 4.0 * (_norm(Q.T @ Q - np.eye(n)) + n * EPS) * size
        return float(value + _excess(*_balanced(first, B), 0.5 * C.T) + slack)


def _balanced(first: Array, second: Array) -> tuple[Array, Array]:
    """Return the transitions without their traces and with the same norm; this adds a constant to rho."""
    A, B = (matrix - np.eye(len(matrix)) * (np.trace(matrix) / len(matrix)) for matrix in (first, second))
    norms = _norm(A), _norm(B)
    factor = np.sqrt(norms[1] / norms[0]) if min(norms) > 0.0 else 1.0
    return A * factor, B / factor


def _excess(A: Array, B: Array, C: Array) -> float:
    """Return a bound of ``rho(Q) - rho(I)``."""
    n = len(A)
    if not (C.any() or (A.any() and B.any())):
        return 0.0  # all rotations have the same value
    gradient = 0.5 * (B @ A.T + B.T @ A) + C
    G = 0.5 * (gradient + gradient.T)
    # With U = V = G / 2 no eigenvalue of Z is below this number; the margin for round-off is generous.
    lowest = float(np.linalg.eigvalsh(G)[0] - np.linalg.norm(A, 2) * np.linalg.norm(B, 2))
    lowest -= 100.0 * n * EPS * (_norm(G) + _norm(A) * _norm(B))
    if lowest > 0.0:
        return float(np.sum((gradient - G) ** 2)) / lowest
    if n > LARGEST_ORDER:
        return np.inf
    minus_h = B[:, None, :, None] * A[None, :, None, :]
    minus_h += B.T[:, None, :, None] * A.T[None, :, None, :]
    minus_h *= -0.5
    problem = _Problem(A, B, C, gradient, minus_h)
    U, V = _separate(problem)
    point = _stationary(problem, 0.5 * (U - V))
    if point:
        return point.excess
    # From the stationary pair, which is not feasible, to the separate one, which is.
    D = U + V - G
    D += np.eye(n) * (0.1 * np.trace(D) / n)
    for share in (share for share in SHARES if share >= n / FIRST_SHARE):
        point = _point(problem, 0.5 * (G + U - V + share * D), 0.5 * (G - U + V + share * D))
        if point:
            break
    return _improved(problem, point) if point else np.inf


def _improved(problem: _Problem, point: _Point) -> float:
    """Return the smallest excess of a few Newton steps, or that of a proof."""
    n, best = len(problem.A), point.excess
    transitions = _norm(problem.A) * _norm(problem.B)
    observers = float(np.linalg.svd(problem.C, compute_uv=False).sum())
    share = transitions / (transitions + 2.0 * observers)
    for _ in range(int(share * min((n + 1) // 2, MOST_STEPS, STEPS_TIMES_ORDER / n))):
        try:
            U, V, length = _newton(problem, point)
        except np.linalg.LinAlgError:  # an excess that is nothing but round-off: the Hessian is singular
            break
        for reach in REACHES:
            step = reach / max(reach, length)
            trial = _point(problem, point.U + step * U, point.V + step * V)
            if trial:
                break
        if not trial or trial.excess > SLOW * best:
            break
        point, best = trial, trial.excess
        proven = _stationary(problem, 0.5 * (point.U - point.V))
        if proven:
            return min(best, proven.excess)
    return best


def _stationary(problem: _Problem, W: Array) -> _Point | None:
    """Return the point with ``U - V = 2 W`` at which Q = I is stationary, if Z is positive semidefinite."""
    n, G = len(W), 0.5 * (problem.gradient + problem.gradient.T)
    size = _norm(G) + _norm(W)
    shift = 4.0 * n**3 * EPS * size  # more than round-off, because Z may have eigenvalues that are exactly 0
    lift = 0.0 if problem.C.any() else size / n
    return _point(problem, 0.5 * G + W + shift * np.eye(n), 0.5 * G - W, lift)


def _point(problem: _Problem, U: Array, V: Array, lift: float = 0.0) -> _Point | None:
    """Return the point with these multipliers if Z is positive definite.

    With P = Q - I and D = Z I - C, for every Y and R = Z Y + D,
    ``rho(Q) - rho(I) = -2 <P, D> - <P, Z P> = -2 <Y, D> - <Y, Z Y> - 2 <P - Y, R> - <P - Y, Z (P - Y)>``. The
    best Y is ``-Z^-1 D``, which is -I without observers. What round-off leaves of R counts with the norm of
    P - Y, and so does the smallest eigenvalue that Z may have although its Cholesky factorisation ends:
    ``-(N + 1) eps tr Z`` for the size N.

    Without observers and where I is stationary, ``D = t I`` plus the alignment's slope, which is orthogonal
    to I. Then Z is nearly singular, but only its values orthogonal to I matter: `lift` times the projection
    onto I is added to it. The excess is at most ``t n``, and as above for the slope instead of D.
    """
    n = len(U)
    Z = problem.minus_h.copy()
    np.einsum("aibi->iab", Z)[...] += U
    np.einsum("aiaj->aij", Z)[...] += V
    D, identity = U + V - problem.gradient, np.eye(n)
    constant = 0.0
    if lift:
        np.einsum("aabb->ab", Z)[...] += lift
        constant = max(0.0, float(np.trace(D)))
        D -= identity * (np.trace(D) / n)
    trace = float(np.einsum("aiai->", Z))
    matrix = Z.reshape(n * n, n * n).T  # symmetric; LAPACK has columns first
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if failed:
        return None
    if lift or problem.C.any():
        Y = -scipy.linalg.lapack.dpotrs(factor, D.reshape(-1), lower=1)[0].reshape(n, n)
    else:
        Y = -identity
    ZY = U @ Y + Y @ V - 0.5 * (problem.B @ Y @ problem.A.T + problem.B.T @ Y @ problem.A)
    ZY += identity * (lift * np.trace(Y))
    far = np.sqrt(n) + (_norm(Y) if lift else _norm(Y + identity))
    sizes = trace + _norm(U) + _norm(V) + _norm(problem.A) ** 2
    margin = (n * n + 10) * EPS * sizes
    excess = -2.0 * np.vdot(Y, D) - np.vdot(Y, ZY) + 2.0 * far * _norm(ZY + D) + margin * far**2
    return _Point(U, V, factor, constant + max(0.0, float(excess)))


def _newton(problem: _Problem, point: _Point) -> tuple[Array, Array, float]:
    """Return a Newton step for U and V, and its length in the norm of the barrier's Hessian.

    The function is ``tr U + tr V + <C, Z^-1 C> - mu log det Z`` with a mu for which the excess would be
    halved. U and V move by matrices with the eigenvectors of their gradients, so that the Hessian has
    the size 2n and the inverse of Z is all that takes long.
    """
    n = len(point.U)
    # Its lower half, over the factor, which is not needed again.
    inverse = np.triu(scipy.linalg.lapack.dpotri(point.factor, lower=1, overwrite_c=1)[0].T)
    inverse += np.triu(inverse, 1).T
    mu = point.excess / n**2
    X = (inverse @ problem.C.reshape(-1)).reshape(n, n)
    P = inverse.reshape(n, n, n, n)
    of_u = np.eye(n) - X @ X.T - mu * np.einsum("aibi->ab", P)
    of_v = np.eye(n) - X.T @ X - mu * np.einsum("aiaj->ij", P)
    (slope_u, S), (slope_v, T) = np.linalg.eigh(of_u), np.linalg.eigh(of_v)
    P = (S.T @ inverse.reshape(n, -1)).reshape(n, n, n * n)
    P = (T.T @ P).reshape(n * n, n, n)
    P = (S.T @ P).reshape(-1, n) @ T
    P = P.reshape(n, n, n, n)
    X = S.T @ X @ T
    barrier = _hessian(P * P)
    hessian = mu * barrier
    if problem.C.any():
        hessian += 2.0 * _hessian(P * (X[:, :, None, None] * X))
    # U + c I and V - c I are the same point for every c.
    same = np.repeat([1.0, -1.0], n)
    hessian += np.outer(same, same) * (np.trace(hessian) / n**2)
    step = -np.linalg.solve(hessian, np.concatenate([slope_u, slope_v]))
    return (S * step[:n]) @ S.T, (T * step[n:]) @ T.T, float(np.sqrt(step @ barrier @ step))


def _hessian(products: Array) -> Array:
    """Add up what (n, n, n, n) products say about the entries of U, then of V."""
    n = len(products)
    hessian = np.empty((2 * n, 2 * n))
    hessian[:n, :n] = products.sum(axis=(1, 3))
    hessian[n:, n:] = products.sum(axis=(0, 2))
    hessian[:n, n:] = products.sum(axis=(1, 2))
    hessian[n:, :n] = hessian[:n, n:].T
    return hessian


def _separate(problem: _Problem) -> tuple[Array, Array]:
    """Return U and V of the symmetric parts, plus those of the skew parts and of the observers."""
    U, V = (np.zeros_like(problem.A) for _ in range(2))
    parts = [[0.5 * (X + X.T) for X in (problem.A, problem.B)]]
    # A skew matrix K acts like its modulus (K K')^(1/2), whose square has the same eigenvectors.
    skew = [0.5 * (X - X.T) for X in (problem.A, problem.B)]
    parts.append([K @ K.T for K in skew])
    for power, (first, second) in zip((1.0, 0.5), parts, strict=True):
        (a, S), (b, T) = np.linalg.eigh(first), np.linalg.eigh(second)
        if power < 1.0:
            a, b = (np.sqrt(np.maximum(values, 0.0)) for values in (a, b))
        u = np.concatenate([[0.0], np.cumsum(np.diff(b) * (0.5 * (a[1:] + a[:-1])))])
        u += 0.5 * np.mean(a * b - 2.0 * u)  # the same trace for U and V
        U += (T * u) @ T.T
        V += (S * (a * b - u)) @ S.T
    X, values, Yt = np.linalg.svd(problem.C)
    U += (X * (0.5 * values)) @ X.T
    V += (Yt.T * (0.5 * values)) @ Yt
    return U, V


def _norm(X: Array) -> float:
    """Return the Frobenius norm; that of NumPy takes longer for small matrices."""
    return float(np.sqrt(np.vdot(X, X)))
