"""Algorithm 2: the alignment distance of two systems, its rotation, and a lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_matrix, check_weight, seed_of
from sysbags._numba.alignment import align_many
from sysbags._numba.multistart import align_transitions
from sysbags._numba.vectors import LANES
from sysbags.distances.certificates import tight_bound, transition_bound
from sysbags.distances.gram import cross_gram
from sysbags.errors import ParameterError
from sysbags.systems.system import System

MOST_STARTS = 28


def crowded_starts(n: int) -> int:
    """Return the default number of starts where only the transitions count.

    The share of random starts that find the best optimum falls with the order. Above 20 a start takes so long
    that fewer are made.

    >>> [crowded_starts(n) for n in (2, 5, 10, 20, 40, 80)]
    [28, 28, 56, 112, 19, 8]
    """
    return int(max(MOST_STARTS, 5.6 * n) if n <= 20 else max(8.0, 112.0 * (20.0 / n) ** 2.5))


@lru_cache(maxsize=256)
def start_tables(n: int, starts: int | None, seed: int) -> tuple[Array, IntArray, bool]:
    """Return random starts, random orders of the planes, and whether all starts must be run.

    The starts are orthogonal matrices (groups, n, n, LANES) with alternating determinants. If `starts` is
    given, all are run; by default the search stops earlier.
    """
    thorough = starts is not None
    if starts is None:
        starts = MOST_STARTS
    groups = -(-check_integer(starts, "starts") // LANES)
    rng = np.random.default_rng([seed, n])
    normal = rng.standard_normal((groups, LANES, n, n))
    Q, R = np.linalg.qr(normal)
    Q *= np.sign(np.einsum("...ii->...i", R))[..., None, :]
    wrong = np.linalg.det(Q) * np.where(np.arange(LANES) % 2, -1.0, 1.0) < 0
    Q[wrong, :, 0] *= -1.0
    planes = np.column_stack(np.triu_indices(n, 1)).astype(np.int64)
    orders = np.stack([rng.permutation(planes) for _ in range(16)])
    return np.ascontiguousarray(np.moveaxis(Q, 1, -1)), orders, thorough


ONE_PAIR = np.zeros((1, 2), np.int64)
SOLVERS = ("newton", "jacobi")
CERTIFICATES = ("fast", "tight")
FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class BlockAlignment:
    """The result of `align_blocks`.

    Attributes
    ----------
    rotation : (n, n) array
        The maximiser Q, orthogonal, with the `determinant` 1 or -1.
    value : float
        rho at Q. No rotation has a larger rho than `upper_bound`.
    gradient_norm : float
        Norm of the Riemannian gradient at Q.
    sweeps : int
        Jacobi sweeps of the group of starts with the best one; 0 where starts climb by L-BFGS.
    agreed, starts : int
        The number of starts that reached this value, and the number of starts. Starts that fall behind are
        stopped, and none is made after one that is proven to be the best, so `agreed` may be small on an easy
        problem too.
    nuclear_norm : float
        ``||M||_*``.
    transitions : tuple of two (n, n) arrays
        ``lambda_a A1`` and ``A2``.
    bound : float, optional
        Their `transition_bound`, where the search has needed it.
    dual_bound : float
        With ``certificate="tight"`` the bound of `sysbags.distances.certificates.tight_bound`, otherwise
        infinite.

    Examples
    --------
    >>> import sysbags
    >>> alignment = sysbags.align_blocks([[0.9, 0.0], [0.0, 0.5]], [[0.5, 0.0], [0.0, 0.9]], lambda_a=1.0)
    >>> round(alignment.value, 6), round(alignment.upper_bound, 6)  # equal: no rotation is better
    (1.06, 1.06)
    """

    rotation: Array
    value: float
    gradient_norm: float
    sweeps: int
    agreed: int
    starts: int
    nuclear_norm: float
    transitions: tuple[Array, Array]
    bound: float | None = None
    dual_bound: float = np.inf

    @cached_property
    def upper_bound(self) -> float:
        """No rotation has a larger value."""
        bound = transition_bound(*self.transitions) if self.bound is None else self.bound
        return max(self.value, min(self.dual_bound, bound + self.nuclear_norm))

    @property
    def determinant(self) -> int:
        """Determinant of the rotation, 1 or -1."""
        return 1 if np.linalg.det(self.rotation) > 0 else -1


@dataclass(frozen=True, eq=False)
class Alignment:
    """The result of `align`.

    Attributes
    ----------
    distance : float
        The squared alignment distance (`eq:d_o`), the sum of `parts`.
    lower_bound : float
        No rotation gives a smaller distance.
    rotation : (n, n) array
        Q: the first system is nearest to ``second.rotate(Q)`` (after zero padding, if orders differ).
    determinant : int
        Determinant of the rotation, 1 or -1.
    parts : dict
        The weighted terms "transition", "observer" and "mean" of the distance.
    sweeps, gradient_norm, agreed, starts
        See `BlockAlignment`.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> theta = sysbags.identify(np.random.default_rng(0).dirichlet(np.ones(6), size=30), order=2)
    >>> alignment = sysbags.align(theta, theta.rotate([[0, 1], [1, 0]]))  # the same dynamics
    >>> round(alignment.distance, 9), alignment.determinant, list(alignment.parts)
    (0.0, -1, ['transition', 'observer', 'mean'])
    """

    distance: float
    lower_bound: float
    rotation: Array
    determinant: int
    parts: dict[str, float]
    sweeps: int
    gradient_norm: float
    agreed: int
    starts: int


def align_blocks(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    observer: npt.ArrayLike | None = None,
    lambda_a: float = 0.25,
    *,
    starts: int | None = None,
    solver: str = "newton",
    certificate: str = "fast",
    random_state: int | np.random.Generator | None = 0,
) -> BlockAlignment:
    """Maximise ``rho(Q) = lambda_a tr(A1' Q' A2 Q) + tr(M Q)`` over the orthogonal matrices Q (`eq:rho_max`).

    Starts run in parallel lanes: first the best rotations of the observers for both determinants, then
    random ones, until enough of them agree. Each makes Jacobi sweeps, plane by plane in a random order, and
    then Newton steps. Without an observer block this is the problem of dynamical similarity analysis,
    ``min ||A1 - Q' A2 Q||_F``, which has many local optima: then each of many starts climbs by L-BFGS.

    Parameters
    ----------
    first, second : (n, n) array_like
        Transitions ``A1`` and ``A2``; the smaller of two sizes is padded with zeros.
    observer : (n, m) array_like, optional
        ``M = C1' C2``, by default 0.
    lambda_a : float, default=0.25
        Weight of the transitions.
    starts : int, optional
        Number of starts, rounded up to a multiple of four; each runs until it converges. By default there
        are four where the observers dominate, up to 28 elsewhere within a fixed effort, and, without
        an observer block, 28 to 112 for orders up to 20 and fewer above. Starts that fall behind are stopped.
    solver : {"newton", "jacobi"}, default="newton"
        "jacobi" is the paper's method: sweeps without Newton steps, for comparison.
    certificate : {"fast", "tight"}, default="fast"
        "tight" often proves that the value is the maximum, see `sysbags.distances.certificates.tight_bound`.
        It takes 0.1 to 16 times as long as the search, depending on the pairs (docs/dsa.md). Above order 40
        it improves the fast bound only where the observers dominate.
    random_state : int, Generator or None, default=0
        Seed of the random starts and of the orders of planes.

    Returns
    -------
    BlockAlignment

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> A = np.array([[0.9, 0.2], [0.0, 0.5]])
    >>> Q = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> alignment = sysbags.align_blocks(A, Q @ A @ Q.T, lambda_a=1.0)
    >>> bool(abs(alignment.value - np.sum(A * A)) < 1e-12), np.abs(alignment.rotation).round(6)
    (True, array([[0., 1.],
           [1., 0.]]))
    """
    weight = check_weight(lambda_a, "lambda_a")
    finish = check_choice(solver, "solver", SOLVERS) == "newton"
    tight = check_choice(certificate, "certificate", CERTIFICATES) == "tight"
    A1, A2, M = _square_blocks(first, second, observer)
    A = A1 * weight
    rotation, report = np.empty((1, *A.shape)), np.empty((1, 6))
    seed, bound = seed_of(random_state), None
    # Copies, because the arrays of a system are read-only: Numba would compile another version for them.
    if np.count_nonzero(M) or not finish:
        tables = start_tables(len(A), starts, seed)
        align_many(
            A[None], A2.copy()[None], M.copy()[None], ONE_PAIR, 1.0, *tables, finish, False, report, rotation
        )
    else:
        patient = starts is not None
        count = crowded_starts(len(A)) if starts is None else starts
        rotations, orders, _ = start_tables(len(A), count, seed)
        if isfinite(float(np.vdot(A, A)) * float(np.vdot(A2, A2))):
            bound = transition_bound(A, A2)
        enough = np.inf if bound is None else bound
        align_transitions(A.copy(), A2.copy(), rotations, orders, enough, patient, report[0], rotation[0])
    value, nuclear_norm, slope, sweeps, agreed, tried = report[0].tolist()
    if not isfinite(value):
        for name, matrix in (("first", A1), ("second", A2), ("observer", M)):
            check_matrix(matrix, name, A.shape, "a square matrix")
        raise ParameterError("the entries of the matrices are too large to be squared: scale them down")
    dual_bound = tight_bound(A, A2, M, rotation[0]) if tight else np.inf
    return BlockAlignment(
        rotation[0],
        value,
        slope,
        int(sweeps),
        int(agreed),
        int(tried),
        nuclear_norm,
        (A, A2),
        bound,
        dual_bound,
    )


def align(
    first: System,
    second: System,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    starts: int | None = None,
    solver: str = "newton",
    certificate: str = "fast",
    random_state: int | np.random.Generator | None = 0,
) -> Alignment:
    """Align the state spaces of two systems: the alignment distance, its rotation and its parts.

    Solves ``min over Q in O(n) of lambda_a ||A1 - Q' A2 Q||^2 + ||C1 - C2 Q||^2 + lambda_mu ||mu1 - mu2||^2``
    (`eq:d_o`, Algorithm 2) by `align_blocks`. The resulting distance is an upper bound of the minimum;
    `lower_bound` is a lower bound.

    Parameters
    ----------
    first, second : System
        With the same kernel and bag length; the smaller order is padded with zeros.
    lambda_a, lambda_mu : float, default=0.25, 0.0
        Weights of the transition and of the mean.
    starts, solver, certificate, random_state
        See `align_blocks`.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> one, two = (sysbags.identify(rng.dirichlet(np.ones(6), size=30), order=2) for _ in range(2))
    >>> alignment = sysbags.align(one, two, lambda_mu=1.0)
    >>> bool(0 <= alignment.lower_bound <= alignment.distance)
    True
    """
    weight_mu = check_weight(lambda_mu, "lambda_mu")
    gram = cross_gram([first], [second])
    A1, A2, M = _square_blocks(first.transition, second.transition, gram.observer[0, 0])
    alignment = align_blocks(
        A1,
        A2,
        M,
        lambda_a,
        starts=starts,
        solver=solver,
        certificate=certificate,
        random_state=random_state,
    )
    Q = alignment.rotation
    traces = float(np.trace(first.observer_gram) + np.trace(second.observer_gram))
    mean = max(0.0, first.mean_norm + second.mean_norm - 2.0 * float(gram.mean[0, 0])) * weight_mu
    parts = {
        "transition": float(lambda_a) * float(np.sum((A1 - Q.T @ A2 @ Q) ** 2)),
        "observer": max(0.0, traces - 2.0 * float(np.sum(M.T * Q))),
        "mean": mean,
    }
    distance = sum(parts.values())
    largest = float(lambda_a) * float(np.sum(A1**2) + np.sum(A2**2)) + traces + mean
    lower = min(distance, max(0.0, largest - 2.0 * alignment.upper_bound))
    return Alignment(
        distance,
        lower,
        Q,
        alignment.determinant,
        parts,
        alignment.sweeps,
        alignment.gradient_norm,
        alignment.agreed,
        alignment.starts,
    )


def alignment_distance(
    first: System,
    second: System,
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    *,
    random_state: int | np.random.Generator | None = 0,
) -> float:
    """Return the squared alignment distance of two systems (`eq:d_o`); its root is the alignment metric.

    Parameters
    ----------
    first, second, lambda_a, lambda_mu, random_state
        See `align`; `sysbags.pairwise_distances` also takes "scale" as a weight.

    Returns
    -------
    float
        The squared distance at the best rotation found.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> theta = sysbags.identify(np.random.default_rng(0).dirichlet(np.ones(6), size=30), order=2)
    >>> round(sysbags.alignment_distance(theta, theta.rotate([[0, 1], [1, 0]])), 9)
    0.0
    """
    return align(first, second, lambda_a, lambda_mu, random_state=random_state).distance


def pad(blocks: Array, n: int, m: int) -> Array:
    """Pad the last two axes with zeros at their ends, up to (n, m)."""
    missing = [(0, 0)] * (blocks.ndim - 2) + [(0, n - blocks.shape[-2]), (0, m - blocks.shape[-1])]
    padded = np.pad(blocks, missing) if any(after for _, after in missing) else blocks
    return np.ascontiguousarray(padded)


def _square_blocks(first: Any, second: Any, observer: Any) -> tuple[Array, Array, Array]:
    """Check two transitions and their cross block, and pad them to the same size."""
    if _ready(first, second, observer):
        return first, second, observer
    A1 = check_matrix(first, "first", (None, None), "a square matrix")
    A2 = check_matrix(second, "second", (None, None), "a square matrix")
    for name, matrix in (("first", A1), ("second", A2)):
        if matrix.shape[0] != matrix.shape[1]:
            raise ParameterError(f"{name} has shape {matrix.shape}, but it must be a square matrix")
    if observer is None:
        M = np.zeros((A1.shape[0], A2.shape[0]))
    else:
        shape = A1.shape[0], A2.shape[0]
        M = check_matrix(observer, "observer", shape, f"{shape}: one row per state of the first system")
    n = max(A1.shape[0], A2.shape[0])
    return pad(A1, n, n), pad(A2, n, n), pad(M, n, n)


def _ready(*matrices: Any) -> bool:
    """Return whether there is nothing to convert or to pad, which makes many small calls faster."""
    shape: tuple[int, ...] = getattr(matrices[0], "shape", ())
    if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
        return False
    for matrix in matrices:
        if type(matrix) is not np.ndarray or matrix.dtype != FLOAT64 or matrix.shape != shape:
            return False
        if not matrix.flags.c_contiguous:
            return False
    return True
