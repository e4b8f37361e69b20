"""Leading eigenpairs of a symmetric matrix from a good start, proven to be the leading ones."""

from __future__ import annotations

import numpy as np
import scipy.linalg.lapack

from sysbags._common.types import Array
from sysbags._numba.lanczos import converged_eigenpairs

__all__ = ["FIRST_STEPS", "leading_eigenpairs"]

FIRST_STEPS = 24


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
    * Where the eigenvalues decay slowly, rho is too large for that. Then Cholesky's factorisation shows
      that ``sigma - K + V Lambda V'`` is positive definite, for sigma between the last of the n eigenvalues
      and the next. As ``V Lambda V'`` has rank n, the matrix K has at most n eigenvalues above sigma.

    The error of an eigenvector is at most its residual over the distance of its eigenvalue to the next one.
    The process is continued until this is below 1e-12 for all of them, or until the residuals are round-off,
    1e-15 times the largest eigenvalue. Eigenvalues that differ by less than 1e-6 of it are left to LAPACK.

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
        How many were needed. Instead of all three None is returned if ``20 + N / 2`` steps did not suffice.

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
    limit = min(size - 2, 20 + size // 2)
    if limit <= count:
        return None
    trace, square = float(matrix.trace()), float(np.vdot(matrix, matrix))
    values, vectors, sigma, steps = converged_eigenpairs(matrix, trace, square, count, start, steps, limit)
    if steps == 0 or not (np.isnan(sigma) or _none_above(sigma, matrix, values, vectors)):
        return None
    return values, vectors.T, steps


def _none_above(sigma: float, matrix: Array, values: Array, vectors: Array) -> bool:
    """Whether the matrix without the given eigenpairs has no eigenvalue above sigma, by Cholesky."""
    rest = (vectors.T * values) @ vectors
    rest -= matrix
    rest.ravel()[:: rest.shape[0] + 1] += sigma
    # Transposed, as LAPACK's arrays are Fortran's: nothing is copied.
    return bool(scipy.linalg.lapack.dpotrf(rest.T, lower=1, clean=0, overwrite_a=1)[1] == 0)
