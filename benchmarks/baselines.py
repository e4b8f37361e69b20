"""Distances of a collection that need a Stein equation for each pair, against a loop over SciPy, on one core.

Run as `python -m benchmarks.baselines`. Both sides start from the same blocks `C_i' C_j`. SciPy solves one
Lyapunov equation a pair: that of the two systems stacked, whose solution holds `O_11`, `O_12` and `O_22`
at once. Its loop is timed on a part of the pairs and scaled. Both run in turn, several times, and the best
time of each counts; times are the processor's, because other work on the machine makes the wall's useless.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from sysbags._common.types import Array
from sysbags.distances import METRICS
from sysbags.distances.gram import CrossGram, cross_gram
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.stein import DISCOUNT
from sysbags.systems.system import System

__all__ = ["main", "rows"]

SYSTEMS = 150
ORDER = 5
TARGET = 50.0
LAMBDA_A = 0.25  # the default weight of the lags
REPEATS = 7
SCIPY_PAIRS = 400


def collection(count: int = SYSTEMS, order: int = ORDER, seed: int = 0) -> CrossGram:
    """Random systems with spectral norm 0.999, as most identified ones have, and orthonormal observers."""
    rng = np.random.default_rng(seed)
    systems = []
    for _ in range(count):
        transition = rng.standard_normal((order, order))
        transition *= 0.999 / np.linalg.norm(transition, 2)
        observer = np.linalg.qr(rng.standard_normal((6 * order, order)))[0]
        weights = np.full(order, 1.0 / order)
        systems.append(System(transition, observer.T, np.eye(order), weights, "linear"))
    return cross_gram(systems)


def scipy_distance(metric: str, A1: Array, A2: Array, F11: Array, F12: Array, F22: Array) -> float:
    """One squared distance the usual way: a Lyapunov equation and an SVD."""
    n = A1.shape[0]
    stacked = scipy.linalg.block_diag(A1, A2)
    blocks = np.block([[F11, F12], [F12.T, F22]])
    if metric == "martin":
        solution = scipy.linalg.solve_discrete_lyapunov(stacked.T, blocks)
        L1, L2 = np.linalg.cholesky(solution[:n, :n]), np.linalg.cholesky(solution[n:, n:])
        half = scipy.linalg.solve_triangular(L1, solution[:n, n:], lower=True)
        whitened = scipy.linalg.solve_triangular(L2, half.T, lower=True)
        return float(-2.0 * np.log(np.linalg.svd(whitened, compute_uv=False)).sum())
    if metric == "covariance":
        solution = scipy.linalg.solve_discrete_lyapunov(np.sqrt(LAMBDA_A) * stacked, blocks)
        k11, k12, k22 = (
            float(np.sum(solution[part] * blocks[part]))
            for part in (np.s_[:n, :n], np.s_[:n, n:], np.s_[n:, n:])
        )
        return k11 + k22 - 2.0 * k12
    solution = scipy.linalg.solve_discrete_lyapunov(np.sqrt(DISCOUNT) * stacked.T, blocks)
    k11, k12, k22 = (
        np.linalg.svd(block, compute_uv=False)[0]
        for block in (solution[:n, :n], solution[:n, n:], solution[n:, n:])
    )
    return float(2.0 * (1.0 - k12 / np.sqrt(k11 * k22)))


def compare(metric: str, gram: CrossGram) -> tuple[float, float]:
    """Return seconds for all pairs: ours, and SciPy's scaled from `SCIPY_PAIRS` of them."""
    form = METRICS[metric].normal_form or "orthonormal"
    gram = replace(gram, rows=replace(gram.rows, normal_form=form))
    A, F, observer_grams = gram.rows.transition, gram.observer, gram.rows.observer_gram
    pairs = list(itertools.combinations(range(A.shape[0]), 2))
    part = np.random.default_rng(1).permutation(len(pairs))[:SCIPY_PAIRS]
    chosen = [pairs[i] for i in part]
    ours, theirs = [], []
    with threadpool_limits(limits=1):
        distance_matrix(gram, metric, n_jobs=1)  # compiles
        for _ in range(REPEATS):
            started = time.process_time()
            matrix = distance_matrix(gram, metric, n_jobs=1)
            ours.append(time.process_time() - started)
            started = time.process_time()
            values = [
                scipy_distance(metric, A[i], A[j], observer_grams[i], F[i, j], observer_grams[j])
                for i, j in chosen
            ]
            theirs.append(time.process_time() - started)
    distances = np.array([matrix[i, j] for i, j in chosen])
    if not np.allclose(distances, values, rtol=1e-8, atol=1e-10):
        raise AssertionError(f"the {metric} distances differ by {np.abs(distances - values).max():.2g}")
    return min(ours), min(theirs) * len(pairs) / len(chosen)


def rows() -> list[tuple[str, str, float, float]]:
    """Return (work, against, measured ratio, target) for each distance."""
    gram = collection()
    lines = []
    for metric in ("martin", "max-singular-value", "covariance"):
        ours, theirs = compare(metric, gram)
        work = f"{metric}, all pairs of {SYSTEMS} systems of order {ORDER} ({ours * 1e3:.0f} ms)"
        loop = f"{theirs:.1f} s, scaled from {SCIPY_PAIRS} pairs"
        against = f"loop over scipy.linalg.solve_discrete_lyapunov ({loop})"
        lines.append((work, against, theirs / ours, TARGET))
    return lines


def main() -> None:
    """Print the table."""
    table = Table("work", "against", "times faster", "at least")
    for work, against, ratio, target in rows():
        table.add_row(work, against, f"{ratio:.0f}", f"{target:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
