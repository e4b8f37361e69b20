"""Leading eigenpairs of a symmetric matrix by the Lanczos process."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled

__all__ = ["lanczos", "proven_eigenpairs", "tridiagonal_eigenpairs"]

MORE_STEPS = 4
SECOND_PASS, INVARIANT = 1e-3, 1e-10  # of the largest entry of the tridiagonal matrix
EPSILON = 2.0**-52
# Eigenvectors are determined to the residual over the gap: round-off alone is 1e-16 over SMALLEST_GAP.
TOLERANCE, SMALLEST_GAP = 1e-12, 1e-6
ROUND_OFF = 1e-15


@compiled(fastmath={"contract", "reassoc", "nsz"}, inline="always", wrapper=False)
def _remove(component: Array, vector: Array) -> float:
    """Make a vector orthogonal to a unit vector; return its coefficient."""
    coefficient = 0.0
    for i in range(np.uint64(vector.size)):
        coefficient += component[i] * vector[i]
    for i in range(np.uint64(vector.size)):
        vector[i] -= coefficient * component[i]
    return coefficient


@compiled(fastmath={"contract", "reassoc", "nsz"}, wrapper=False)
def _reorthogonalise(basis: Array, vector: Array, last: int) -> float:
    """Make a vector orthogonal to the basis up to row `last`; return its length."""
    size, fours = np.uint64(vector.size), (last + 1) // 4 * 4
    # Four at a time, so that the vector is read and written less often.
    for k in range(0, fours, 4):
        q0, q1, q2, q3 = basis[k], basis[k + 1], basis[k + 2], basis[k + 3]
        c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
        for i in range(size):
            c0 += q0[i] * vector[i]
            c1 += q1[i] * vector[i]
            c2 += q2[i] * vector[i]
            c3 += q3[i] * vector[i]
        for i in range(size):
            vector[i] -= (c0 * q0[i] + c1 * q1[i]) + (c2 * q2[i] + c3 * q3[i])
    for k in range(fours, last + 1):
        _remove(basis[k], vector)
    square = 0.0
    for i in range(np.uint64(vector.size)):
        square += vector[i] * vector[i]
    return float(np.sqrt(square))


@compiled(fastmath={"contract", "reassoc", "nsz"})
def lanczos(matrix: Array, basis: Array, diagonal: Array, beside: Array, begin: int, end: int) -> int:
    """Continue the Lanczos process from step `begin` to step `end`, with full reorthogonalisation.

    With Q the first m basis vectors in columns and T the tridiagonal matrix of `diagonal[:m]` and
    `beside[:m - 1]`, it holds that ``matrix Q = Q T + beside[m - 1] q_{m+1} e_m'``.

    Parameters
    ----------
    matrix : (N, N) array
        Symmetric.
    basis : (M, N) array
        Rows up to `begin` are given, those up to `end` are written. The first is any unit vector.
    diagonal, beside : (M - 1,) arrays
        Written from `begin` to `end`.
    begin, end : int

    Returns
    -------
    int
        The number of steps so far. If the basis spans an invariant subspace, the process ends: `beside` is
        then 0 at the last step.
    """
    size = np.uint64(matrix.shape[0])
    fours = np.uint64(matrix.shape[0] // 4 * 4)
    scale = 0.0
    for step in range(begin):
        scale = max(scale, max(abs(diagonal[step]), beside[step]))
    for step in range(begin, end):
        current, following = basis[step], basis[step + 1]
        for j in range(size):
            following[j] = 0.0
        # Four rows a pass over the product, which is then read and written less often.
        for i in range(np.uint64(0), fours, np.uint64(4)):
            x0, x1 = current[i], current[i + np.uint64(1)]
            x2, x3 = current[i + np.uint64(2)], current[i + np.uint64(3)]
            r0, r1 = matrix[i], matrix[i + np.uint64(1)]
            r2, r3 = matrix[i + np.uint64(2)], matrix[i + np.uint64(3)]
            for j in range(size):
                following[j] += (x0 * r0[j] + x1 * r1[j]) + (x2 * r2[j] + x3 * r3[j])
        for i in range(fours, size):
            x0, r0 = current[i], matrix[i]
            for j in range(size):
                following[j] += x0 * r0[j]
        diagonal[step] = _remove(current, following)
        scale = max(scale, abs(diagonal[step]))
        beside[step] = _reorthogonalise(basis, following, step)
        scale = max(scale, beside[step])
        if beside[step] < SECOND_PASS * scale:  # most was cancelled, which leaves round-off of the others
            beside[step] = _reorthogonalise(basis, following, step)
        if not beside[step] > INVARIANT * scale:
            beside[step] = 0.0
            return step + 1
        for j in range(size):
            following[j] /= beside[step]
    return end


@compiled()
def tridiagonal_eigenpairs(diagonal: Array, beside: Array) -> tuple[Array, Array, bool]:
    """Decompose a symmetric tridiagonal matrix by the implicit QL method (EISPACK's `tql2`).

    Parameters
    ----------
    diagonal : (m,) array
    beside : (m,) array
        The entries beside the diagonal; the last one is ignored.

    Returns
    -------
    values : (m,) array
        In no order.
    vectors : (m, m) array
        One row per eigenvector.
    converged : bool
    """
    m = diagonal.size
    d, e = diagonal.copy(), beside.copy()
    e[m - 1] = 0.0
    vectors = np.zeros((m, m))
    for i in range(m):
        vectors[i, i] = 1.0
    for first in range(m):
        for sweep in range(51):
            last = first
            while last < m - 1 and not abs(e[last]) <= EPSILON * (abs(d[last]) + abs(d[last + 1])):
                last += 1
            if last == first:
                break
            if sweep == 50:
                return d, vectors, False
            g = (d[first + 1] - d[first]) / (2.0 * e[first])
            r = np.sqrt(g * g + 1.0)
            g = d[last] - d[first] + e[first] / (g + (r if g >= 0.0 else -r))
            s, c, p = 1.0, 1.0, 0.0
            complete = True
            for i in range(last - 1, first - 1, -1):
                f, b = s * e[i], c * e[i]
                r = np.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= p
                    complete = False
                    break
                s, c = f / r, g / r
                g = d[i + 1] - p
                r = (d[i] - g) * s + 2.0 * c * b
                p = s * r
                d[i + 1] = g + p
                g = c * r - b
                upper, lower = vectors[i], vectors[i + 1]
                for k in range(np.uint64(m)):
                    u, v = upper[k], lower[k]
                    lower[k] = s * u + c * v
                    upper[k] = c * u - s * v
            if complete:
                d[first] -= p
                e[first] = g
            e[last] = 0.0
    return d, vectors, True


@compiled()
def proven_eigenpairs(
    matrix: Array, trace: float, square: float, count: int, start: Array, steps: int, limit: int
) -> tuple[Array, Array, int]:
    """Do what `sysbags.systems.eigenpairs.leading_eigenpairs` describes.

    Parameters
    ----------
    matrix, count, start, steps
        As there.
    trace, square : float
        Sums of the diagonal entries and of all squared entries of the matrix.
    limit : int
        Largest number of steps, above `count` and at most N - 2.

    Returns
    -------
    values : (count,) array
        Descending.
    vectors : (count, N) array
        One row per eigenvector.
    steps : int
        0 if the eigenpairs are not proven; then both arrays have no meaning.
    """
    size = matrix.shape[0]
    basis, diagonal, beside = np.empty((limit + 1, size)), np.empty(limit), np.empty(limit)
    largest, vectors = np.empty(count + 1), np.empty((count, size))
    order = np.empty(count + 1, np.int64)
    mean, total, norm = 0.0, 0.0, 0.0
    for i in range(size):
        mean += start[i] / size
        total += start[i] ** 2
    for i in range(size):
        norm += (start[i] - mean) ** 2
    if not 1e-12 * total < norm < np.inf:  # a constant start is round-off without its mean
        return largest[:count], vectors, 0
    for i in range(size):
        basis[0, i] = (start[i] - mean) / np.sqrt(norm)
    done, wanted = 0, min(max(steps, count + 1), limit)
    while True:
        done = lanczos(matrix, basis, diagonal, beside, done, wanted)
        if done <= count:
            return largest[:count], vectors, 0
        values, small, converged = tridiagonal_eigenpairs(diagonal[:done], beside[:done])
        if not converged:
            return largest[:count], vectors, 0
        for k in range(count + 1):
            best = -1
            for i in range(done):
                taken = False
                for j in range(k):
                    taken = taken or order[j] == i
                if not taken and (best < 0 or values[i] > values[best]):
                    best = i
            order[k], largest[k] = best, values[best]
        rest = size - 1 - done
        mean, left = trace, square
        for i in range(done):
            mean -= diagonal[i]
            left -= diagonal[i] * diagonal[i] + 2.0 * beside[i] * beside[i]
        mean /= rest
        # What is left is known up to round-off.
        spread = max(left / rest - mean * mean, 0.0) + 1e-14 * square
        rho = mean + np.sqrt((rest - 1) * spread)
        last, nth, following = beside[done - 1], largest[count - 1], largest[count]
        sigma = 0.5 * (nth + max(following, rho))
        proven = rho < sigma < nth and following + last * last / (sigma - rho) < sigma
        gap, residual = nth - sigma, 0.0
        for k in range(count):
            if k > 0:
                gap = min(gap, largest[k - 1] - largest[k])
            residual = max(residual, last * abs(small[order[k], done - 1]))
        if (
            proven
            and gap >= SMALLEST_GAP * largest[0]
            and residual <= max(TOLERANCE * gap, ROUND_OFF * largest[0])
        ):
            break
        if done == limit or last == 0.0:
            return largest[:count], vectors, 0
        wanted = min(done + MORE_STEPS, limit)
    for k in range(count):
        vector = vectors[k]
        for i in range(size):
            vector[i] = 0.0
        for j in range(done):
            weight, row = small[order[k], j], basis[j]
            for i in range(np.uint64(size)):
                vector[i] += weight * row[i]
    return largest[:count], vectors, done
