"""Kernel principal components: the passes over a kernel matrix, and its leading eigenpairs by Lanczos."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array
from sysbags._numba import compiled


@compiled(fastmath={"nnan", "nsz"})
def centred(k: Array) -> tuple[Array, float, float, float]:
    """Centre a symmetric kernel matrix in feature space.

    Returns ``K = H k H`` with ``H = I - 1 1'/N``: less the mean of its row and of its column, plus the mean
    of all; then the mean of k, its largest absolute value, and the trace of K.
    """
    size = k.shape[0]
    means, tops, K = np.zeros(size), np.zeros(size), np.empty((size, size))
    for i in range(size):
        line = k[i]
        # The largest of each column: a single largest value would not be vectorised.
        for j in range(np.uint64(size)):
            means[j] += line[j]
            tops[j] = max(tops[j], abs(line[j]))
    mean, largest, trace = 0.0, 0.0, 0.0
    for j in range(size):
        largest = max(largest, tops[j])
        means[j] /= size
        mean += means[j]
    mean /= size
    for i in range(size):
        line, centred_line, row_mean = k[i], K[i], means[i]
        for j in range(np.uint64(size)):
            centred_line[j] = ((line[j] - means[j]) - row_mean) + mean
        trace += K[i, i]
    return K, mean, largest, trace


@compiled()
def coordinates(V: Array, scale: Array) -> tuple[Array, Array]:
    """Return (N, n) eigenvectors over their scale and times their scale: coefficients and states.

    The entry of largest absolute value of each is positive. Its mean, which is round-off, is taken off: the
    reciprocal of a small scale would amplify it.
    """
    size, n = V.shape
    coefficients, states = np.empty((size, n)), np.empty((size, n))
    for c in range(n):
        largest, sign, mean = 0.0, 1.0, 0.0
        for i in range(size):
            mean += V[i, c]
            if abs(V[i, c]) > largest:
                largest = abs(V[i, c])
                sign = 1.0 if V[i, c] > 0.0 else -1.0
        mean /= size
        for i in range(size):
            entry = sign * (V[i, c] - mean)
            coefficients[i, c] = entry / scale[c]
            states[i, c] = entry * scale[c]
    return coefficients, states


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


@compiled(fastmath={"contract", "reassoc", "nsz"}, inline="always", wrapper=False)
def _multiply(matrix: Array, vector: Array, product: Array) -> None:
    """Multiply a symmetric matrix with a vector; of the matrix about half is read."""
    size = matrix.shape[0]
    for j in range(size):
        product[j] = 0.0
    for i in range(0, size - 3, 4):
        # Four rows a pass: what is right of the diagonal serves as rows and, transposed, as columns.
        r0, r1, r2, r3 = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        x0, x1, x2, x3 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3]
        y0, y1, y2, y3 = 0.0, 0.0, 0.0, 0.0
        for j in range(np.uint64(i + 4), np.uint64(size)):
            x = vector[j]
            product[j] += (x0 * r0[j] + x1 * r1[j]) + (x2 * r2[j] + x3 * r3[j])
            y0 += r0[j] * x
            y1 += r1[j] * x
            y2 += r2[j] * x
            y3 += r3[j] * x
        product[i] += y0 + (x0 * r0[i] + x1 * r0[i + 1]) + (x2 * r0[i + 2] + x3 * r0[i + 3])
        product[i + 1] += y1 + (x0 * r1[i] + x1 * r1[i + 1]) + (x2 * r1[i + 2] + x3 * r1[i + 3])
        product[i + 2] += y2 + (x0 * r2[i] + x1 * r2[i + 1]) + (x2 * r2[i + 2] + x3 * r2[i + 3])
        product[i + 3] += y3 + (x0 * r3[i] + x1 * r3[i + 1]) + (x2 * r3[i + 2] + x3 * r3[i + 3])
    for i in range(size // 4 * 4, size):
        row, x, y = matrix[i], vector[i], 0.0
        for j in range(i + 1, size):
            product[j] += x * row[j]
            y += row[j] * vector[j]
        product[i] += y + x * row[i]


@compiled(fastmath={"contract", "reassoc", "nsz"})
def lanczos(matrix: Array, basis: Array, diagonal: Array, beside: Array, begin: int, end: int) -> int:
    """Continue the Lanczos process from step `begin` to step `end`, with full reorthogonalisation.

    With Q the first m basis vectors in columns and T the tridiagonal matrix of `diagonal[:m]` and `beside[:m
    - 1]`, it holds that ``matrix Q = Q T + beside[m - 1] q_{m+1} e_m'``. The matrix is symmetric. Rows of the
    basis, (M, N), up to `begin` are given, the first is any unit vector; the rest is written up to `end`.
    Returns the number of steps so far. If the basis spans an invariant subspace, the process ends: `beside`
    is then 0 at the last step.
    """
    size = np.uint64(matrix.shape[0])
    scale = 0.0
    for step in range(begin):
        scale = max(scale, max(abs(diagonal[step]), beside[step]))
    for step in range(begin, end):
        current, following = basis[step], basis[step + 1]
        _multiply(matrix, current, following)
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
def tridiagonal_eigenvalues(diagonal: Array, beside: Array, count: int) -> tuple[Array, bool]:
    """Find the largest eigenvalues, descending, of a symmetric tridiagonal matrix by the root-free QL method.

    This is LAPACK's `dsterf`, with two changes. The first shift of each eigenvalue is above all of them, so
    that the largest mostly come first. The method ends as soon as Sturm's theorem (the signs of the pivots of
    the shifted matrix) says that no larger one is missing. Both arrays are (m,); the last entry `beside` the
    diagonal is ignored. Also returns whether the method has converged.
    """
    m = diagonal.size
    d, squares, largest = diagonal.copy(), beside * beside, np.full(count, -np.inf)
    squares[m - 1] = 0.0
    for first in range(m):
        for sweep in range(51):
            last = first
            while last < m - 1 and not squares[last] <= EPSILON * EPSILON * abs(d[last] * d[last + 1]):
                last += 1
            if last == first:
                break
            if sweep == 50:
                return largest, False
            squares[last] = 0.0
            root = np.sqrt(squares[first])
            if sweep == 0:
                shift, before = -np.inf, 0.0
                for i in range(first, last + 1):  # Gershgorin's bound
                    after = np.sqrt(squares[i])
                    shift = max(shift, d[i] + before + after)
                    before = after
            else:
                half = (d[first + 1] - d[first]) / (2.0 * root)
                shift = d[first] - root / (half + np.copysign(np.sqrt(half * half + 1.0), half))
            c, s, gamma = 1.0, 0.0, d[last] - shift
            p = gamma * gamma
            for i in range(last - 1, first - 1, -1):
                square, old_c, old_gamma = squares[i], c, gamma
                r = p + square
                squares[i + 1] = s * r
                c, s = p / r, square / r
                gamma = c * (d[i] - shift) - s * old_gamma
                d[i + 1] = old_gamma + (d[i] - gamma)
                p = gamma * gamma / c if c != 0.0 else old_c * square
            squares[first] = s * p
            d[first] = shift + gamma
        value = d[first]
        for k in range(count):
            if value > largest[k]:
                largest[k], value = value, largest[k]
        if first >= count - 1:
            above, pivot = 0, 1.0
            bound = largest[count - 1] - 1e-14 * abs(largest[0])
            for i in range(m):
                pivot = diagonal[i] - bound - (beside[i - 1] * beside[i - 1] / pivot if i > 0 else 0.0)
                above += pivot > 0.0
            if above <= count:
                break
    return largest, True


@compiled()
def tridiagonal_eigenvector(diagonal: Array, beside: Array, value: float, vector: Array) -> float:
    """Write the eigenvector, of length 1, of an eigenvalue of a tridiagonal matrix; return its residual's
    length.

    It comes from a twisted factorisation. Eliminated from both ends, the shifted matrix has one pivot left
    where both meet. At the row where this pivot is smallest, it is the residual of the vector that solves all
    other rows (Parlett and Dhillon 1997). The last entry of `beside` is ignored.
    """
    m = diagonal.size
    down, up = np.empty(m), np.empty(m)
    scale = abs(value)
    for i in range(m):
        scale = max(scale, abs(diagonal[i]))
    tiny = EPSILON * EPSILON * scale  # in place of a pivot that is 0
    for i in range(m):
        pivot = diagonal[i] - value
        if i > 0:
            pivot -= beside[i - 1] * beside[i - 1] / down[i - 1]
        down[i] = pivot if abs(pivot) > tiny else tiny
    best, twist = np.inf, 0
    for i in range(m - 1, -1, -1):
        pivot = diagonal[i] - value
        if i < m - 1:
            pivot -= beside[i] * beside[i] / up[i + 1]
        up[i] = pivot if abs(pivot) > tiny else tiny
        left = abs(down[i] + up[i] - (diagonal[i] - value))
        if left < best:
            best, twist = left, i
    vector[twist] = 1.0
    for i in range(twist - 1, -1, -1):
        vector[i] = -beside[i] * vector[i + 1] / down[i]
    for i in range(twist + 1, m):
        vector[i] = -beside[i - 1] * vector[i - 1] / up[i]
    square = 0.0
    for i in range(m):
        square += vector[i] * vector[i]
    for i in range(m):
        vector[i] /= np.sqrt(square)
    return float(best / np.sqrt(square))


@compiled()
def converged_eigenpairs(
    matrix: Array, trace: float, square: float, count: int, start: Array, steps: int, limit: int
) -> tuple[Array, Array, float, int]:
    """Do what `sysbags.systems.identification.leading_eigenpairs` describes, up to the first proof.

    `trace` and `square` are the sums of the diagonal entries and of all squared entries of the matrix,
    `limit` is the largest number of steps, above `count` and at most N - 2. Returns the values, descending,
    the vectors, one per row, a sigma below all values, and the number of steps. They are the leading ones if
    the matrix has no more eigenvalues above sigma: NaN if this is proven. With 0 steps the eigenpairs did not
    converge, and the other results have no meaning.
    """
    size = matrix.shape[0]
    basis, diagonal, beside = np.empty((limit + 1, size)), np.empty(limit), np.empty(limit)
    vectors, small = np.zeros((count, size)), np.empty((count, limit))
    failed = np.empty(count), vectors, np.nan, 0
    mean, total, norm = 0.0, 0.0, 0.0
    for i in range(size):
        mean += start[i] / size
        total += start[i] ** 2
    for i in range(size):
        norm += (start[i] - mean) ** 2
    if not 1e-12 * total < norm < np.inf:  # a constant start is round-off without its mean
        return failed
    for i in range(size):
        basis[0, i] = (start[i] - mean) / np.sqrt(norm)
    done, wanted = 0, min(max(steps, count + 1), limit)
    while True:
        done = lanczos(matrix, basis, diagonal, beside, done, wanted)
        if done <= count:
            return failed
        largest, converged = tridiagonal_eigenvalues(diagonal[:done], beside[:done], count + 1)
        if not converged:
            return failed
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
        if not proven:
            sigma = 0.5 * (nth + following)
        gap, residual, error = nth - sigma, 0.0, 0.0
        for k in range(count):
            if k > 0:
                gap = min(gap, largest[k - 1] - largest[k])
            vector = small[k, :done]
            error = max(error, tridiagonal_eigenvector(diagonal[:done], beside[:done], largest[k], vector))
            residual = max(residual, last * abs(vector[done - 1]))
        allowed = max(TOLERANCE * gap, ROUND_OFF * largest[0])
        if residual <= allowed:
            if not (gap >= SMALLEST_GAP * largest[0] and error <= 10.0 * ROUND_OFF * largest[0]):
                return failed
            break
        if done == limit or not residual < np.inf:
            return failed
        # As many steps as would halve the rest at the rate so far, which grows.
        share = np.log(residual / allowed) / max(np.log(largest[0] / residual), 1.0)
        wanted = min(done + 1 + int(0.5 * min(share, 1.0) * done), limit)
    for k in range(count):
        for j in range(k):  # nearly equal eigenvalues leave them orthogonal up to round-off over the gap
            _remove(small[j, :done], small[k, :done])
        vector = vectors[k]
        for j in range(done):
            weight, row = small[k, j], basis[j]
            for i in range(np.uint64(size)):
                vector[i] += weight * row[i]
    return largest[:count], vectors, np.nan if proven else sigma, done
