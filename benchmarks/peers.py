"""The two tools that `align_blocks` is measured against, each set up as favourably as it allows."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from benchmarks.problems import LAMBDA_A, Pair, objective
from sysbags._common.types import Array

__all__ = ["Found", "dsa_distance", "pymanopt_best"]


class Found(NamedTuple):
    """Best objective value that a peer reached, and the rotation that reaches it."""

    value: float
    rotation: Array


def pymanopt_best(
    A1: Array,
    A2: Array,
    M: Array,
    lambda_a: float = LAMBDA_A,
    *,
    method: Literal["TrustRegions", "ConjugateGradient"] = "TrustRegions",
    starts: int = 10,
    seed: int = 0,
) -> Found:
    """Best of one of pymanopt's optimizers from `starts` Haar-random points in each determinant component.

    The component of determinant -1 is the SO(n) problem of `(S A1 S, A2, S M)` after `Q = R S` with
    the reflection `S = diag(-1, 1, ..., 1)`. Of pymanopt's manifolds and retractions, SO(n)
    with the polar one measures fastest here; the stopping rules are its defaults.
    """
    from pymanopt import optimizers
    from pymanopt.manifolds import SpecialOrthogonalGroup

    n = len(A1)
    rng = np.random.default_rng(seed)
    manifold = SpecialOrthogonalGroup(n, retraction="polar")
    optimizer = getattr(optimizers, method)(verbosity=0)
    best = Found(-np.inf, np.eye(n))
    for sign in (1.0, -1.0):
        S = np.diag([sign] + [1.0] * (n - 1))
        problem = _problem(manifold, S @ A1 @ S, A2, S @ M, lambda_a)
        for _ in range(starts):
            with np.errstate(divide="ignore", invalid="ignore"):  # its conjugate gradient may end with 0 / 0
                result = optimizer.run(problem, initial_point=_random_rotation(n, rng))
            if -result.cost > best.value:
                best = Found(-float(result.cost), np.asarray(result.point @ S))
    return best


def dsa_distance(A1: Array, A2: Array, *, iterations: int, rate: float, seed: int) -> Found:
    """`tr(A1' Q' A2 Q)` at the similarity transform that dsa-metric finds.

    It fits `C` in `||A1/|A1| - C A2/|A2| C'||` in float32; here `Q = C'`, made orthogonal in float64 (its
    polar factor) so that the peer is judged without its round-off.
    """
    import torch
    from DSA.simdist import SimilarityTransformDist

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    comparison = SimilarityTransformDist(iters=iterations, lr=rate)
    comparison.fit_score(A1.copy(), A2.copy())  # it normalises its arguments in place
    U, _, Vt = np.linalg.svd(comparison.C_star.numpy().astype(np.float64).T)
    rotation = U @ Vt
    return Found(objective(Pair(A1, A2, np.zeros_like(A1)), rotation, 1.0), rotation)


def _problem(manifold: object, A1: Array, A2: Array, M: Array, lambda_a: float) -> object:
    """The minimisation of `-f` with its analytic Euclidean gradient and Hessian."""
    import pymanopt

    A1t, A2t, Mt = A1.T.copy(), A2.T.copy(), M.T.copy()

    def cost(Q: Array) -> float:
        return -float(lambda_a * np.vdot(Q @ A1, A2 @ Q) + np.vdot(Mt, Q))

    def gradient(Q: Array) -> Array:
        return np.asarray(-lambda_a * (A2 @ Q @ A1t + A2t @ Q @ A1) - Mt)

    def hessian(_: Array, V: Array) -> Array:
        return np.asarray(-lambda_a * (A2 @ V @ A1t + A2t @ V @ A1))

    backend = pymanopt.function.numpy(manifold)
    return pymanopt.Problem(
        manifold, backend(cost), euclidean_gradient=backend(gradient), euclidean_hessian=backend(hessian)
    )


def _random_rotation(n: int, rng: np.random.Generator) -> Array:
    """Haar over SO(n), of the same kind as pymanopt's own random points."""
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    Q = Q * np.sign(np.diag(R))
    if np.linalg.det(Q) < 0:
        Q[:, 0] = -Q[:, 0]
    return np.asarray(Q)
