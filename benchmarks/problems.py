"""Seeded pairs of systems for the alignment benchmark: maximise `lambda_a tr(A1' Q' A2 Q) + tr(M Q)`."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

import sysbags
from sysbags._common.types import Array
from sysbags.datasets import make_streams

__all__ = ["KINDS", "LAMBDA_A", "SIZES", "Kind", "Pair", "make_pairs", "objective"]

Kind = Literal["random", "related", "identified"]
KINDS: tuple[Kind, ...] = ("random", "related", "identified")
SIZES = (5, 10, 20)
LAMBDA_A = 0.25
SPECTRAL_NORM = 0.999  # identified systems sit at the stability bound more often than not
NOISE = 0.3  # relative to the Frobenius norm, for the second system of a related pair


class Pair(NamedTuple):
    """Two transitions and the cross block `M = C1' C2` of their orthonormal observers."""

    A1: Array
    A2: Array
    M: Array


def make_pairs(kind: Kind, n: int, count: int, *, seed: int = 0) -> list[Pair]:
    """Pairs of systems of order `n`, the same for the same arguments.

    Parameters
    ----------
    kind : {"random", "related", "identified"}
        Two independent systems, a system and a randomly rotated noisy copy of it, or the systems of two
        generated streams.
    n : int
        Order of both systems.
    count : int
        How many pairs.
    seed : int, default=0
        A longer list begins with the shorter list of the same seed.
    """
    rng = np.random.default_rng([seed, n, KINDS.index(kind)])
    make = {"random": _random_pair, "related": _related_pair, "identified": _identified_pair}[kind]
    return [make(n, rng) for _ in range(count)]


def objective(pair: Pair, rotation: Array, lambda_a: float = LAMBDA_A) -> float:
    """Value of `lambda_a tr(A1' Q' A2 Q) + tr(M Q)` at the rotation `Q`, larger is better."""
    rotated = rotation.T @ pair.A2 @ rotation
    return float(lambda_a * np.vdot(pair.A1, rotated) + np.vdot(pair.M.T, rotation))


def _random_pair(n: int, rng: np.random.Generator) -> Pair:
    A1, A2 = (_stable(rng.standard_normal((n, n))) for _ in range(2))
    C1, C2 = (_orthonormal(rng.standard_normal((3 * n, n))) for _ in range(2))
    return Pair(A1, A2, C1.T @ C2)


def _related_pair(n: int, rng: np.random.Generator) -> Pair:
    A1 = _stable(rng.standard_normal((n, n)))
    C1 = _orthonormal(rng.standard_normal((3 * n, n)))
    Q = _orthonormal(rng.standard_normal((n, n)))  # Haar over O(n): either determinant
    A2 = _stable(Q @ _perturbed(A1, rng) @ Q.T)
    C2 = _orthonormal(_perturbed(C1, rng)) @ Q.T
    return Pair(A1, A2, C1.T @ C2)


def _identified_pair(n: int, rng: np.random.Generator) -> Pair:
    streams, _ = make_streams(classes=2, per_class=1, random_state=int(rng.integers(2**31)))
    first, second = (sysbags.identify(stream, n) for stream in streams)
    M = sysbags.cross_gram([first], [second]).observer[0, 0]
    return Pair(first.transition.copy(), second.transition.copy(), M)


def _stable(matrix: Array) -> Array:
    return np.asarray(matrix * (SPECTRAL_NORM / np.linalg.norm(matrix, 2)))


def _perturbed(matrix: Array, rng: np.random.Generator) -> Array:
    noise = rng.standard_normal(matrix.shape)
    return np.asarray(matrix + noise * (NOISE * np.linalg.norm(matrix) / np.linalg.norm(noise)))


def _orthonormal(matrix: Array) -> Array:
    """Polar factor: the nearest matrix with orthonormal columns."""
    U, _, Vt = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(U @ Vt)
