"""Distances between linear systems that do not depend on their coordinates; 0 means the same dynamics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_matrix, check_weight
from sysbags.distances.alignment import align_blocks, pad
from sysbags.distances.sgot import transport_cost
from sysbags.errors import ParameterError


class Score(NamedTuple):
    """A distance and its certificate.

    Attributes
    ----------
    score : float
        The distance at the best rotation found; 0 means the same dynamics.
    lower_bound : float
        No rotation has a smaller distance. Where both are equal, the score is proven to be the minimum.

    Examples
    --------
    >>> from sysbags.dsa import euclidean_distance
    >>> score = euclidean_distance([[0.5]], [[-0.5]])  # no rotation changes a sign
    >>> round(score.score, 6), round(score.lower_bound, 6)
    (2.0, 2.0)
    """

    score: float
    lower_bound: float


def euclidean_distance(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    controls: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    *,
    weights: tuple[float, float] = (1.0, 1.0),
    starts: int | None = None,
    certificate: str = "fast",
    random_state: int | np.random.Generator | None = 0,
) -> Score:
    """Return the distance of two linear systems after the best rotation of the state space.

    Solves ``min over Q in O(n) of w_A ||A1 - Q' A2 Q||^2 + w_B ||B1 - Q' B2||^2`` by `sysbags.align_blocks`
    and returns the root. Each system (A, B) is first divided by ``(w_A ||A||^2 + w_B ||B||^2)^(1/2)``, its
    norm, so the distance is between 0 and 2. The term of B is constant but for ``-2 w_B tr(B1 B2' Q)``, which
    is the observer term of `align_blocks`.

    Parameters
    ----------
    first, second : (n, n) array_like
        Transitions A1 and A2; the smaller of two sizes is padded with zeros.
    controls : tuple of two (n, m) array_like, optional
        Input matrices B1 and B2, for the same m inputs, which are not rotated.
    weights : tuple of two float, default=(1.0, 1.0)
        ``w_A`` and ``w_B``.
    starts, certificate, random_state
        See `sysbags.align_blocks`.

    Returns
    -------
    Score

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[0.9, 0.2], [0.0, 0.5]])
    >>> Q = np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> score, lower_bound = euclidean_distance(A, Q @ A @ Q.T)
    >>> round(score, 6), round(lower_bound, 6)
    (0.0, 0.0)
    """
    one, two = (_normalised(A, k, controls, weights) for k, A in enumerate((first, second)))
    if one[1].shape[1] != two[1].shape[1]:
        raise ParameterError(
            f"the input matrices have {one[1].shape[1]} and {two[1].shape[1]} columns, but both systems must "
            "have the same inputs"
        )
    n = max(len(one[0]), len(two[0]))
    (A1, B1), (A2, B2) = ((pad(A, n, n), pad(B, n, B.shape[1])) for A, B in (one, two))
    M = B1 @ B2.T
    alignment = align_blocks(
        A1, A2, M, lambda_a=1.0, starts=starts, certificate=certificate, random_state=random_state
    )
    Q = alignment.rotation
    # The differences and not 2 - 2 rho, which has lost half of the digits where it is nearly 0.
    score = float(np.sqrt(np.sum((A1 - Q.T @ A2 @ Q) ** 2) + np.sum((B1 - Q.T @ B2) ** 2)))
    lowest = float(np.sqrt(max(0.0, 2.0 - 2.0 * alignment.upper_bound)))
    return Score(score, min(score, lowest))


def angular_distance(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    controls: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    **options: Any,
) -> Score:
    """Return the angle between two linear systems after the best rotation, between 0 and pi.

    Its cosine is the largest ``<A1, Q' A2 Q> / (||A1|| ||A2||)`` over O(n). The arguments and the best
    rotation are those of `euclidean_distance`.
    """
    chords = euclidean_distance(first, second, controls, **options)
    return Score(*(2.0 * float(np.arcsin(min(1.0, 0.5 * chord))) for chord in chords))


def wasserstein_distance(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> float:
    """Return the squared 2-Wasserstein distance between two sets of eigenvalues, (n,) and (m,).

    Each set is a uniform distribution in the complex plane: the distance is the smallest mean of
    ``|a - b|^2`` over all ways to move the one to the other. It is exact.

    >>> wasserstein_distance(np.array([1.0, 1j]), np.array([1j, 0.0]))
    0.5
    """
    return transport_cost(np.abs(first[:, None] - second) ** 2)


def _normalised(
    transition: Any, k: int, controls: tuple[Any, Any] | None, weights: tuple[float, float]
) -> tuple[Array, Array]:
    """Return the weighted transition and input matrix of one system, divided by their joint norm."""
    name = ("first", "second")[k]
    A = check_matrix(transition, name, (None, None), "a square matrix")
    if A.shape[0] != A.shape[1]:
        raise ParameterError(f"{name} has shape {A.shape}, but it must be a square matrix")
    B = np.empty((len(A), 0))
    if controls is not None:
        B = check_matrix(controls[k], f"controls[{k}]", (len(A), None), "one row per state of its transition")
    roots = [np.sqrt(check_weight(weight, "each of weights")) for weight in weights]
    largest = max(float(np.abs(A).max()) * roots[0], float(np.abs(B).max(initial=0.0)) * roots[1])
    if largest == 0.0:
        raise ParameterError(f"{name} is 0 everywhere, so it has no direction that can be compared")
    A, B = A * (roots[0] / largest), B * (roots[1] / largest)
    norm = np.sqrt(np.sum(A * A) + np.sum(B * B))
    return A / norm, B / norm
