"""The leading eigenpairs of a symmetric matrix from a good start, with a proof that they are the leading ones."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from sysbags._common.types import Array
from sysbags._numba.lanczos import lanczos

__all__ = ["FIRST_STEPS", "leading_eigenpairs"]

FIRST_STEPS = 24
MORE_STEPS = 4
# Eigenvectors are determined to the residual over the gap: round-off alone is 1e-16 over SMALLEST_GAP.
TOLERANCE, SMALLEST_GAP = 1e-12, 1e-6


def leading_eigenpairs(
    matrix: Array, count: int, start: Array, steps: int = FIRST_STEPS
) -> tuple[Array, Array, int] | None:
    """Find the leading eigenpairs of a centred kernel by the Lanczos process, if they can be guaranteed.

    After m steps the matrix is, in an orthonormal basis, ``[[T, B'], [B, R]]``: T is tridiagonal, m by m,
    and B has one entry that is not zero, b. T gives approximate eigenpairs, with residuals that are known.
    That no eigenvector was missed, for instance one of a pair with equal eigenvalues, is known as well:

    * The trace of R and its Frobenius norm are what T leaves of those of the matrix. So the largest
      eigenvalue of R is at most ``rho = mean + ((d - 1) (square - mean^2))^(1/2)``, with the mean of its d
      eigenvalues and of their squares (Wolkowicz and Styan 1980).
    * For any ``sigma > rho``, the matrix has as many eigenvalues above sigma as the Schur complement
      ``T - sigma + B' (sigma - R)^(-1) B`` has above 0, so no more than n if the next eigenvalue of T is
      below ``sigma - b^2 / (sigma - rho)``.

    The error of an eigenvector is at most its residual over the distance of its eigenvalue to the next one.
    The process is continued until this is below 1e-12 for all of them.

    Parameters
    ----------
    matrix : (N, N) array
        Symmetric, with rows that sum to 0.
    count : int
        Number n of eigenpairs, at least 1.
    start : (N,) array
        Any vector with a share of each eigenvector, for instance the sum of those of a similar matrix.
    steps : int, default=24
        Number of steps before the first test.

    Returns
    -------
    values : (n,) array
        Descending.
    vectors : (N, n) array
    steps : int
        How many were needed. None is returned, instead of all three, if a quarter of N and 20 steps did not
        suffice, or if an eigenvalue is too close to the next one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points = rng.standard_normal((60, 8)) * 0.5 ** np.arange(8)
    >>> points -= points.mean(axis=0)
    >>> values, vectors, steps = leading_eigenpairs(points @ points.T, 2, rng.standard_normal(60), 8)
    >>> np.allclose(values, np.linalg.eigvalsh(points.T @ points)[:-3:-1])
    True
    """
    size = matrix.shape[0]
    limit = min(size - 2, 20 + size // 4)
    start = start - start.mean()
    length = float(np.linalg.norm(start))
    if limit <= count or not 0.0 < length < np.inf:
        return None
    basis, diagonal, beside = np.empty((limit + 1, size)), np.empty(limit), np.empty(limit)
    basis[0] = start / length
    trace = float(np.trace(matrix))
    square = float(np.vdot(matrix, matrix))
    done, wanted = 0, min(max(steps, count + 1), limit)
    while True:
        done = lanczos(matrix, basis, diagonal, beside, done, wanted)
        if done < wanted:
            return None  # an invariant subspace: the start has no share of the other eigenvectors
        last = float(beside[done - 1])
        # LAPACK overwrites both arrays.
        _, values, vectors, info = lapack.dstemr(
            diagonal[:done].copy(), beside[:done].copy(), 2, 0.0, 0.0, done - count, done
        )
        if info != 0:
            return None
        values, vectors = values[count::-1], vectors[:, count:0:-1]
        rest = size - 1 - done
        mean = (trace - float(diagonal[:done].sum())) / rest
        left = square - float(diagonal[:done] @ diagonal[:done]) - 2.0 * float(beside[:done] @ beside[:done])
        # What is left is known up to round-off.
        spread = max(left / rest - mean * mean, 0.0) + 1e-14 * square
        rho = mean + ((rest - 1) * spread) ** 0.5
        sigma = 0.5 * (values[-2] + max(values[-1], rho))
        proven = rho < sigma and values[-1] + last * last / (sigma - rho) < sigma < values[-2]
        gap = min(float((values[:-2] - values[1:-1]).min(initial=np.inf)), values[-2] - sigma)
        residual = last * float(np.abs(vectors[-1]).max())
        if proven and residual <= TOLERANCE * gap and gap >= SMALLEST_GAP * values[0]:
            return values[:-1].copy(), basis[:done].T @ vectors, done
        if done == limit:
            return None
        wanted = min(done + MORE_STEPS, limit)
