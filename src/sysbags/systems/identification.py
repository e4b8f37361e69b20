"""Identification of the system of a stream: Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import scipy.linalg
import scipy.linalg.lapack

from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import check_choice, check_integer, check_share, check_stream, kernel_name
from sysbags._numba.principal import centred, converged_eigenpairs, coordinates
from sysbags._numba.stability import one_step_errors
from sysbags.errors import OrderError, ParameterError, StreamError
from sysbags.kernels.functions import check_kernel, kernel_matrix
from sysbags.systems.stability import MARGIN, STABILITIES, stable_transition
from sysbags.systems.system import NORMAL_FORMS, System

EPSILON = float(np.finfo(np.float64).eps)
MAX_FRAMES = 20_000  # the kernel then needs 3.2 GB, and is copied a few times
EXPLAINED = 0.95  # the fraction of the variance for the order "auto"
RANK_TOLERANCE = 1e-10  # an eigenvalue not above this fraction of the largest is treated as zero


def identify(
    stream: Any,
    order: int | str = 5,
    kernel: KernelLike = "chi2",
    *,
    normal_form: str = "orthonormal",
    stability: str = "constrained",
    margin: float = MARGIN,
) -> System:
    """Learn the kernel linear dynamic system (`eq:KLDS`) that generates a stream of bags.

    Kernel principal component analysis gives the states: of the centred kernel `K = H k(Y, Y) H` the n
    leading eigenpairs `V, Lambda` are taken. The mean has the coefficients `1/N`. The transition predicts
    each state from the one before, see `sysbags.systems.stability.stable_transition`. With
    `kernel="linear"` this is the classical linear dynamic system: principal components and least squares.
    There are two choices of coordinates, both unique up to a rotation in O(n):

    "orthonormal" is the paper's. The states are `X = V Lambda^(1/2)` (rows are time) and the observer's
    coefficients `alpha = V Lambda^(-1/2)`, which makes `C'C = alpha' k(Y, Y) alpha = I`: in the alignment
    distance each direction counts the same, whatever its variance.

    "unit-variance" has the states `X = N^(1/2) V`, with covariance `X'X / N = I`, and `alpha = N^(-1/2) V`,
    so that `C'C = Lambda / N` holds the variances, and `C C'` is the covariance of the stream in feature
    space, restricted to its n leading directions. With `lambda_a = 0` and `lambda_mu = 1` the alignment
    distance is the squared 2-Wasserstein distance between two such Gaussians. Here the constraint
    ``||A||_2 <= 1 - margin`` on the transition has a meaning: a process `x_{t+1} = A x_t + e_t` with
    stationary covariance I has the noise covariance `I - A A'`. This is a covariance, without negative
    eigenvalues, if and only if no singular value of A is above 1. So each such system is a stationary
    process, with the covariances `Cov(x_{t+k}, x_t) = A^k` of its states.

    Parameters
    ----------
    stream : (N, p) array_like
        Rows are time; histograms (no negative entries, sum 1) unless the kernel is "linear" or a callable.
    order : int or "auto", default=5
        Dimension n of the state space. The centred kernel of N frames has rank N - 1 at most, so an order n
        needs n + 1 frames. "auto" is the smallest order whose states explain 95 % of the variance.
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, default="chi2"
        A callable takes two streams (N1, p) and (N2, p) and returns the (N1, N2) matrix.
    normal_form : {"orthonormal", "unit-variance"}, default="orthonormal"
        The coordinates of the states, see above.
    stability : {"constrained", "clip", "none"}, default="constrained"
        How the transition is made stable: by least squares under a bound of the spectral norm; by clipping
        the singular values of the least squares solution, which predicts worse; or not at all.
    margin : float, default=1e-3
        The transition's spectral norm is at most `1 - margin`.

    Returns
    -------
    System
        With the attributes `eigenvalues` (the n leading, descending; divided by N they are the variances of
        the stream along its principal components), `explained` (their fraction of all variance), `states`
        (N, n), `residual`, the relative error of one-step prediction ``||X2 - A X1||_F / ||X2||_F``: 0 is
        perfect, 1 no better than the mean, and `noise`, the covariance of these errors. The entry of largest
        absolute value of each eigenvector is positive.

    Raises
    ------
    OrderError
        For a still clip, too few frames, or an order above the rank; it names the largest order possible.

    Examples
    --------
    >>> import numpy as np
    >>> time = np.arange(60)[:, None]
    >>> stream = 2.0 + np.cos(0.3 * time + np.array([0.0, 1.0, 2.0, 3.0]))
    >>> theta = identify(stream / stream.sum(axis=1, keepdims=True), order=2)
    >>> theta
    System(order=2, size=60, bag_length=4, kernel='chi2')
    >>> np.abs(np.angle(np.linalg.eigvals(theta.transition))).round(1)
    array([0.3, 0.3])
    """
    kernel = check_options(order, kernel, normal_form, stability)
    Y = check_stream(stream, kernel)
    check_share(margin, "margin", low="[", high=")")
    size = Y.shape[0]
    if size > MAX_FRAMES:
        raise StreamError(
            f"the stream has {size} frames, and the kernel between them would need {8e-9 * size**2:.0f} GB: "
            f"use at most {MAX_FRAMES} of them, by a stride, or pool them by a window"
        )
    return system_of_kernel(
        Y,
        kernel_matrix(Y, kernel=kernel),
        order,
        kernel,
        normal_form=normal_form,
        stability=stability,
        margin=margin,
    )


def check_options(order: Any, kernel: Any, normal_form: Any, stability: Any) -> KernelLike:
    """Raise an error for options of `identify` that make no sense; return the kernel."""
    if isinstance(order, str) and order != "auto":
        raise ParameterError(f'order is {order!r}, but it must be a whole number of at least 1 or "auto"')
    check_choice(normal_form, "normal_form", NORMAL_FORMS)
    check_choice(stability, "stability", STABILITIES)
    return check_kernel(kernel)


def system_of_kernel(
    Y: Array,
    k: Array,
    order: int | str,
    kernel: KernelLike,
    *,
    normal_form: str,
    stability: str,
    margin: float = MARGIN,
    eigenpairs: Callable[[Array, int], tuple[Array, Array]] | None = None,
) -> System:
    """Identify a valid stream Y whose kernel matrix k is known; see `identify` for the other options.

    A read-only stream that owns its memory is not copied. ``eigenpairs(K, n)`` returns the n leading
    eigenvalues of the centred kernel, descending, and their eigenvectors, (N, n); LAPACK's by default.
    """
    size = Y.shape[0]
    if not isinstance(kernel, str) and not np.allclose(k, k.T, rtol=1e-8, atol=1e-8 * np.abs(k).max()):
        raise ParameterError(f"the kernel {kernel_name(kernel)} is not symmetric: k(a, b) must equal k(b, a)")
    K, mean, largest, trace = centred(k)
    # An eigenvalue below this is round-off of k.
    noise = 10.0 * size * EPSILON * largest
    if isinstance(order, str):
        n = _smallest_order(K, noise)
    else:
        n = check_integer(order, "order")
        if n >= size:
            _refuse(n, K, noise)
    eigenvalues, V = (eigenpairs or lapack_eigenpairs)(K, n)
    if eigenvalues[-1] <= max(RANK_TOLERANCE * eigenvalues[0], noise):
        _refuse(n, K, noise)

    scale = np.sqrt(eigenvalues if normal_form == "orthonormal" else np.full(n, float(size)))
    alpha, X = coordinates(np.ascontiguousarray(V), scale)
    A = stable_transition(X, stability, margin)
    errors, residual = one_step_errors(X, A)
    return System.of_valid(
        transition=A,
        samples=Y,
        alpha=alpha,
        beta=np.full(size, 1.0 / size),
        kernel=kernel,
        eigenvalues=eigenvalues,
        explained=min(float(eigenvalues.sum() / trace), 1.0),
        states=X,
        residual=residual,
        noise=errors,
        normal_form=normal_form,
        _observer_gram=alpha.T @ k @ alpha,
        _mean_norm=mean,
    )


def lapack_eigenpairs(K: Array, n: int) -> tuple[Array, Array]:
    """Return the n leading eigenvalues of a symmetric matrix, descending, and their eigenvectors."""
    size = K.shape[0]
    eigenvalues, V = scipy.linalg.eigh(K, subset_by_index=[size - n, size - 1])
    return eigenvalues[::-1].copy(), V[:, ::-1]


def identify_first(
    stream: Any, orders: Sequence[int | str], kernel: KernelLike = "chi2", **options: Any
) -> System:
    """Identify a stream with the first of several orders that is possible.

    If the stream is too short or too still for an order, the next is tried; see `descending_orders`. The
    options are those of `identify`.
    """
    for order in orders[:-1]:
        try:
            return identify(stream, order, kernel, **options)
        except OrderError:
            continue
    return identify(stream, orders[-1], kernel, **options)


def descending_orders(orders: Sequence[int | str]) -> list[int | str]:
    """Return the orders to try in turn, for a stream for which the largest may not be possible.

    >>> descending_orders([3, 5]), descending_orders(["auto"])
    ([5, 4, 3, 2, 1], ['auto'])
    """
    numbers = [order for order in orders if isinstance(order, int)]
    return list(range(max(numbers), 0, -1)) if numbers else list(orders)


def _positive(K: Array, noise: float) -> Array:
    """Return the eigenvalues that are not zero, descending."""
    eigenvalues = np.asarray(scipy.linalg.eigvalsh(K)[::-1], dtype=np.float64)
    positive: Array = eigenvalues[eigenvalues > max(RANK_TOLERANCE * eigenvalues[0], noise)]
    return positive


def _smallest_order(K: Array, noise: float) -> int:
    """Return the smallest order whose eigenvalues explain enough of the trace, or the rank."""
    eigenvalues = _positive(K, noise)
    if eigenvalues.size == 0:
        _refuse(1, K, noise)
    sufficient = np.cumsum(eigenvalues) >= EXPLAINED * np.trace(K)
    return int(sufficient.argmax()) + 1 if sufficient.any() else eigenvalues.size


def _refuse(order: int, K: Array, noise: float) -> NoReturn:
    """Raise an error with the reason why the order is not possible, and the largest possible order."""
    size = K.shape[0]
    largest = _positive(K, noise).size
    if size == 1:
        raise OrderError("the stream has one frame, but a system needs at least two")
    if largest == 0:
        raise OrderError(
            f"all {size} frames have the same bag (a still clip), so there is no motion to learn"
        )
    if order >= size:
        raise OrderError(
            f"order {order} needs at least {order + 1} frames, but the stream has {size}: "
            f"the largest order possible is {largest}"
        )
    raise OrderError(
        f"order {order} is above the rank of the stream's centred kernel, as its bags change too little: "
        f"the largest order possible is {largest}"
    )


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

    The process is continued until the errors of the eigenvectors are below 1e-12, or the residuals are
    round-off. Eigenvalues that differ by less than 1e-6 of the largest are left to LAPACK.

    The matrix is symmetric, with rows that sum to 0. `start` is any vector with a share of each eigenvector,
    for instance the sum of those of a similar matrix; `steps` are made before the first test. Returns the n
    values, descending, the (N, n) vectors and the number of steps, or None if ``20 + N / 2`` steps did not
    suffice.
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
