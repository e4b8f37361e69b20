"""The paper's algorithms 2 and 3 in plain NumPy, as one would write them from the paper (and its errata)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sysbags._common.types import Array
from sysbags.systems.system import System

__all__ = ["align", "chi2_gram", "cross_block", "mean_distance"]

BLOCK_ROWS = 16  # 16 x 250 x 256 numbers at a time stay in the cache
SWEEPS = 100
TOLERANCE = 1e-10
MEAN_ITERATIONS = 50
MEAN_TOLERANCE = 1e-6


def chi2_gram(first: Array, second: Array) -> Array:
    """`eq:chi` by broadcasting, a few rows at a time."""
    rows = []
    for start in range(0, len(first), BLOCK_ROWS):
        left, right = first[start : start + BLOCK_ROWS, None, :], second[None, :, :]
        difference, total = left - right, left + right
        difference *= difference
        rows.append(np.exp(-0.5 * np.divide(difference, total, out=difference, where=total > 0).sum(axis=2)))
    return np.concatenate(rows)


def cross_block(first: System, second: System) -> Array:
    """`C1' C2`."""
    return np.asarray(first.alpha.T @ chi2_gram(first.samples, second.samples) @ second.alpha)


def align(A1: Array, A2: Array, M: Array, lambda_a: float, *starts: Array) -> tuple[float, Array]:
    """Best of Jacobi sweeps from the polar factor of both determinants and from further starts."""
    U, _, Vt = np.linalg.svd(M.T)
    flipped = U.copy()
    flipped[:, -1] *= -1.0
    runs = [_jacobi(A1, A2, M, lambda_a, Q) for Q in (U @ Vt, flipped @ Vt, *starts)]
    return max(runs, key=lambda run: run[0])


def _jacobi(A1: Array, A2: Array, M: Array, l: float, Q: Array) -> tuple[float, Array]:  # noqa: E741
    """Cyclic Givens sweeps on ``l tr(A1' Q' A2 Q) + tr(M Q)``, each angle by the roots of a quartic."""
    n, A = len(A1), A1
    B, N = Q.T @ A2 @ Q, M @ Q
    value = l * np.sum(A * B) + np.trace(N)
    for _ in range(SWEEPS):
        for p, q in itertools.combinations(range(n), 2):
            r = [k for k in range(n) if k not in (p, q)]
            k0 = l * (A[p, p] * B[p, p] + A[p, q] * B[p, q] + A[q, p] * B[q, p] + A[q, q] * B[q, q])
            k1 = l * (A[p, p] * B[q, q] - A[p, q] * B[q, p] - A[q, p] * B[p, q] + A[q, q] * B[p, p])
            k2 = l * ((A[p, q] + A[q, p]) * (B[p, p] - B[q, q]) - (A[p, p] - A[q, q]) * (B[p, q] + B[q, p]))
            k3 = N[p, p] + N[q, q]
            k3 += l * (A[p, r] @ B[p, r] + A[q, r] @ B[q, r] + A[r, p] @ B[r, p] + A[r, q] @ B[r, q])
            k4 = N[q, p] - N[p, q]
            k4 += l * (A[q, r] @ B[p, r] - A[p, r] @ B[q, r] + A[r, q] @ B[r, p] - A[r, p] @ B[r, q])
            t = _best_angle(0.5 * (k0 - k1), 0.5 * k2, k3, k4)
            if t == 0.0:
                continue
            G = np.eye(n)
            G[p, p] = G[q, q] = np.cos(t)
            G[p, q], G[q, p] = np.sin(t), -np.sin(t)
            B, N, Q = G.T @ B @ G, N @ G, Q @ G
        before, value = value, l * np.sum(A * B) + np.trace(N)
        if value - before <= TOLERANCE * abs(value):
            break
    return float(value), Q


def _best_angle(a: float, b: float, k3: float, k4: float) -> float:
    """Maximise ``a cos 2t + b sin 2t + k3 cos t + k4 sin t``: the derivative is a quartic in exp(it)."""
    c2, c1 = 2j * (a - 1j * b), 1j * (k3 - 1j * k4)
    t = np.append(0.0, np.angle(np.roots([c2, c1, 0.0, np.conj(c1), np.conj(c2)])))
    values = a * np.cos(2 * t) + b * np.sin(2 * t) + k3 * np.cos(t) + k4 * np.sin(t)
    best = int(np.argmax(values))
    return float(t[best]) if values[best] > values[0] else 0.0


def mean_distance(
    transitions: Array, blocks: Array, members: Sequence[int], items: Sequence[int], lambda_a: float
) -> list[float]:
    """Squared distances of items to the Frechet mean of members (Algorithm 3), by blocks ``C_i' C_j``."""
    A, G = transitions[list(members)], blocks[np.ix_(members, members)]
    count, n = A.shape[:2]
    Q = np.tile(np.eye(n), (count, 1, 1))
    objective = np.inf
    for _ in range(MEAN_ITERATIONS):
        mean = np.mean([R.T @ T @ R for R, T in zip(Q, A, strict=True)], axis=0)
        S = sum(Q[i].T @ G[i, j] @ Q[j] for i in range(count) for j in range(count))
        values, vectors = np.linalg.eigh(S)
        W = [R @ (vectors / np.sqrt(np.maximum(values, 1e-12))) @ vectors.T for R in Q]
        total = 0.0
        for t in range(count):
            M = sum(W[i].T @ G[i, t] for i in range(count))
            rho, Q[t] = align(mean, A[t], M, lambda_a, Q[t])
            total += lambda_a * (np.sum(mean**2) + np.sum(A[t] ** 2)) + 2 * n - 2 * rho
        before, objective = objective, total
        if before - objective <= MEAN_TOLERANCE * abs(objective):
            break
    distances = []
    for item in items:
        M = sum(W[i].T @ blocks[member, item] for i, member in enumerate(members))
        rho, _ = align(mean, transitions[item], M, lambda_a)
        norms = lambda_a * (np.sum(mean**2) + np.sum(transitions[item] ** 2))
        distances.append(float(norms + 2 * n - 2 * rho))
    return distances
