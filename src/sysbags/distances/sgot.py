"""Spectral-Grassmann optimal transport: a distance between the eigenvalues and modes of two systems.

Germain, Flamary, Kostic and Lounici (2025), "A Spectral-Grassmann Wasserstein metric for operator
representations of dynamical systems", for operators on the feature space that all systems share.
"""

from __future__ import annotations

from math import lcm
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_share
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.distances.stein import CHUNK_ROWS, mirrored, sides
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.system import System

ComplexArray = npt.NDArray[np.complex128]

OBSERVER_FLOOR = 1e-14
# Rounding errors of this many units must not move an eigenvalue to its neighbour: six digits of modes are
# then certain.
TRUSTED = 1e6
# Eigenvalues farther apart than this share of the norm stay apart: rounding spreads even a Jordan block of
# size 7 by less.
NEAR = 0.01


def sgot_distance(first: System, second: System, eta: float = 0.5) -> float:
    """Return the squared spectral-Grassmann distance of two systems.

    A system moves the stream in feature space, without its mean, by the operator ``T = C A C^+``, a sum
    ``sum_i lambda_i P_i`` over its eigenvalues and their spectral projectors. So a system is taken as the
    uniform distribution of the pairs ``(lambda_i, P_i)``. The distance is the squared 2-Wasserstein distance
    between two such distributions, solved exactly, for the cost

        ``eta |lambda_i - lambda'_j|^2 + (1 - eta) (1 - delta_ij^2)``

    where ``delta_ij = |<P_i, P'_j>| / (||P_i|| ||P'_j||)`` is the cosine between two projectors. Their inner
    products come from the block ``M = C1' C2`` of the `CrossGram`. This is the square of
    ``ot.sgot.sgot_metric`` of POT for ``p = q = 2`` and ``r = 1``; the default there is ``q = 1``.

    The root of the distance satisfies the triangle inequality, for systems of any orders. It does not depend
    on the basis of the states, nor on the unit of the observer, and ignores the mean. For eta above 0 and
    below 1 it is a metric of the operators T of systems whose transitions are invertible and diagonalisable.

    Where a transition is defective or has equal eigenvalues, its eigenvectors are not defined. Eigenvalues
    that rounding errors could exchange are therefore taken together: each counts with their average and the
    projector on their whole invariant subspace. Near such transitions a small change of a system may change
    the distance much: as soon as two eigenvalues count one by one, each has a projector of its own.

    Parameters
    ----------
    first, second : System
        With the same kernel and bag length, and independent observer columns; any orders and transitions.
    eta : float, default=0.5
        Weight of the eigenvalues, from 0 to 1; the modes have the rest. The result depends on it much. POT's
        default need not be the best: the streams of `make_streams` are classified better with 0.1.

    Returns
    -------
    float

    Examples
    --------
    Order 1 by hand: equal observers have the same mode, and eigenvalues differ by a half.

    >>> from sysbags.systems.system import System
    >>> one, two = (System([[a]], [[0.5, 0.5]], [[1.0]], [1.0]) for a in (0.5, 0.0))
    >>> sgot_distance(one, two), sgot_distance(one, two, eta=1.0)
    (0.125, 0.25)
    """
    return float(sgot_matrix(cross_gram([first], [second]), eta)[0, 0])


def sgot_matrix(gram: CrossGram, eta: float = 0.5, *, n_jobs: int | None = None) -> Array:
    """Return the `sgot_distance` of all pairs of a `CrossGram`; each transition is decomposed once."""
    share = check_share(eta, "eta", low="[", high="]")
    spectra = [_spectra(name, side) for name, side in sides(gram)]
    rows, columns = spectra[0], spectra[-1]
    out = np.zeros(gram.mean.shape)

    def chunk(begin: int) -> None:
        for i in range(begin, min(begin + CHUNK_ROWS, len(out))):
            others = slice(i + 1 if gram.symmetric else 0, None)
            costs = _costs(rows.at(i), columns.at(others), gram.observer[i, others], share)
            for j, cost in enumerate(costs, start=others.start):
                out[i, j] = transport_cost(cost[: rows.orders[i], : columns.orders[j]])

    run(chunk, range(0, len(out), CHUNK_ROWS), n_jobs, "distances")
    return mirrored(out, gram.symmetric)


class _Spectra(NamedTuple):
    """Eigenvalues and spectral projectors of K systems, padded with zeros to the largest order n.

    The projector of eigenvalues J is ``C R_J (C L_J)^H``, with the columns J of `right` and `left`.
    `shared`, (K, n, n), is 1 for two eigenvalues that are taken together, and for each with itself. The
    norms, (K, n), are those of the projectors; 1 in the padding.
    """

    orders: IntArray
    values: ComplexArray
    right: ComplexArray
    left: ComplexArray
    shared: Array
    norms: Array

    def at(self, index: Any) -> _Spectra:
        return _Spectra(*(field[index] for field in self))


def _costs(one: _Spectra, others: _Spectra, blocks: Array, eta: float) -> Array:
    """Return the costs between the eigenvalues of one system and of L others, (L, n, m)."""
    cosines = np.abs(_inner_products(one, others, blocks)) / (one.norms[:, None] * others.norms[:, None, :])
    apart = np.abs(one.values[:, None] - others.values[:, None, :])
    return np.asarray(eta * apart**2 + (1.0 - eta) * (1.0 - np.minimum(cosines, 1.0) ** 2))


def _inner_products(one: _Spectra, others: _Spectra, blocks: Array) -> ComplexArray:
    """Return ``<P_i, P'_j>``, the sum of ``<r, r'> <l', l>`` over the eigenvectors of both projectors."""
    right, left = (
        np.swapaxes(first.conj(), -1, -2) @ blocks @ second
        for first, second in ((one.right, others.right), (one.left, others.left))
    )
    return np.asarray(one.shared @ (right * left.conj()) @ others.shared)


def _spectra(name: str, side: SystemStack) -> _Spectra:
    count, n = side.transition.shape[:2]
    found = _Spectra(
        side.orders,
        np.zeros((count, n), dtype=np.complex128),
        np.zeros((count, n, n), dtype=np.complex128),
        np.zeros((count, n, n), dtype=np.complex128),
        np.zeros((count, n, n)),
        np.ones((count, n)),
    )
    for k, order in enumerate(side.orders.tolist()):
        own = (k, slice(order), slice(order))
        inner = side.observer_gram[own]
        spread = np.linalg.eigvalsh(inner)
        if spread[0] <= OBSERVER_FLOOR * spread[-1]:
            raise IncompatibleSystemsError(
                f"{name}[{k}] has an observer with dependent columns, so that its modes are not defined: "
                "use a smaller order"
            )
        values, right, left, shared = _decompose(side.transition[own])
        found.values[k, :order] = values
        found.right[own], found.left[own] = right, np.linalg.solve(inner, left)
        found.shared[own] = shared
        system = found.at(k)
        squares = np.diagonal(_inner_products(system, system, side.observer_gram[k])).real
        found.norms[k, :order] = np.sqrt(squares[:order])
    return found


def _decompose(transition: Array) -> tuple[ComplexArray, ComplexArray, ComplexArray, Array]:
    """Return eigenvalues, bases of right and left invariant subspaces, and which eigenvalues share one.

    To first order, an error e of the transition moves an eigenvalue by ``e / |<l, r>|``, for left and right
    eigenvectors of length 1. Where this is more than the distance to a near eigenvalue, for many times the
    rounding error, both share a subspace: the null space of ``(A - c)^k``, for the average c of k
    eigenvalues.
    """
    from scipy.linalg import eig
    from scipy.sparse.csgraph import connected_components

    values, left, right = (np.asarray(part, dtype=np.complex128) for part in eig(transition, left=True))
    certain = np.abs(np.einsum("ij,ij->j", left.conj(), right))
    norm = float(np.linalg.norm(transition, 2))
    gaps = np.abs(values[:, None] - values)
    exchanged = gaps * np.minimum(certain[:, None], certain) <= TRUSTED * np.finfo(float).eps * norm
    count, codes = connected_components(exchanged & (gaps <= NEAR * norm), directed=False)
    for code in range(count):
        (members,) = np.nonzero(codes == code)
        size = len(members)
        if size > 1:
            values[members] = values[members].mean()
            shifted = transition - values[members[0]] * np.eye(len(transition))
            U, _, Vh = np.linalg.svd(np.linalg.matrix_power(shifted, size))
            basis, dual = Vh[-size:].conj().T, U[:, -size:]
            right[:, members] = basis
            left[:, members] = dual @ np.linalg.pinv(basis.conj().T @ dual)
    return values, right, left, (codes[:, None] == codes).astype(np.float64)


MOST_COPIES = 256  # a larger assignment takes longer than the linear program


def transport_cost(costs: Array) -> float:
    """Return the smallest mean cost of moving one uniform distribution to another, for (n, m) costs.

    Solves ``min <P, costs>`` over all non-negative P with row sums 1 / n and column sums 1 / m. For n = m an
    optimal P is a permutation, found by linear assignment. Otherwise the points are copied until there are
    equally many, the least common multiple of n and m; where these are too many, the linear program is solved
    as it stands. All are exact.

    >>> transport_cost(np.array([[1.0, 3.0]]))  # a half of it goes to each
    2.0
    """
    from scipy.optimize import linear_sum_assignment

    n, m = costs.shape
    size = lcm(n, m)
    if size <= MOST_COPIES or n == m:
        copies = costs if n == m else np.repeat(np.repeat(costs, size // n, axis=0), size // m, axis=1)
        return float(copies[linear_sum_assignment(copies)].mean())
    from scipy.optimize import linprog
    from scipy.sparse import eye, kron, vstack

    sums: Any = vstack([kron(eye(n), np.ones((1, m))), kron(np.ones((1, n)), eye(m))])
    # In multiples of 1 / (n m), so that the right-hand sides are whole numbers.
    masses = np.repeat([float(m), float(n)], [n, m])
    solved = linprog(costs.ravel(), A_eq=sums.tocsr(), b_eq=masses, method="highs")
    if solved.status != 0:
        raise ParameterError(f"the two distributions cannot be matched: {solved.message}")
    return float(max(0.0, solved.fun / (n * m)))
