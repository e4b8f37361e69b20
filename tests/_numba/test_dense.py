"""The small singular value decomposition against LAPACK and against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import from_python, orthogonal
from sysbags._numba import dense

svd, multiply_into = from_python(dense.svd), from_python(dense.multiply_into)

# One-sided Jacobi is backward stable: each of a few sweeps of n rotations adds an error of one ulp.
ULP = np.finfo(float).eps


def check(matrix, relative=False):
    """Definition and LAPACK; `relative` asks for small singular values to their own last digits."""
    n = len(matrix)
    before = matrix.copy()
    U, s, Vt = svd(matrix)
    np.testing.assert_array_equal(matrix, before)
    size = np.abs(matrix).max()
    tolerance = 20.0 * n * ULP
    assert U.shape == Vt.shape == (n, n)
    np.testing.assert_allclose(U.T @ U, np.eye(n), atol=tolerance)
    np.testing.assert_allclose(Vt @ Vt.T, np.eye(n), atol=tolerance)
    assert np.all(s >= 0.0)
    assert np.all(np.diff(s) <= 0.0)
    if size == 0.0:
        np.testing.assert_array_equal(s, np.zeros(n))
        return U, s, Vt
    # Divided by the largest entry, so that the twin works at any scale.
    np.testing.assert_allclose((U * (s / size)) @ Vt, matrix / size, atol=n * tolerance)
    expected = np.linalg.svd(matrix / size, compute_uv=False)
    np.testing.assert_allclose(s / size, expected, rtol=tolerance if relative else 0.0, atol=n * tolerance)
    return U, s, Vt


@pytest.mark.parametrize("n", range(1, 13))
def test_random_matrices(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        check(rng.standard_normal((n, n)))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
def test_zero_matrix(n):
    check(np.zeros((n, n)))


@pytest.mark.parametrize("value", [-3.0, 0.0, 2.5])
def test_order_one(value):
    U, s, Vt = svd(np.array([[value]]))
    assert s[0] == abs(value)
    assert U[0, 0] * s[0] * Vt[0, 0] == value


@pytest.mark.parametrize("n", [2, 3, 6, 10])
@pytest.mark.parametrize("rank", [1, 2])
def test_rank_deficient(n, rank):
    rng = np.random.default_rng([n, rank])
    for _ in range(10):
        _, s, _ = check(rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n)))
        assert np.all(s[rank:] <= 20 * n * ULP * s[0])


@pytest.mark.parametrize("columns", [[0], [1, 3], [0, 1, 2, 4]])
def test_columns_of_zeros_and_equal_columns(columns):
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((5, 5))
    matrix[:, columns] = 0.0
    check(matrix)
    check(np.ascontiguousarray(matrix.T))
    matrix[:, columns] = 1.0
    check(matrix)


@pytest.mark.parametrize("n", [2, 5, 9])
def test_repeated_singular_values(n):
    rng = np.random.default_rng(n)
    for values in (np.ones(n), np.repeat([2.0, 0.5], n)[::2][:n], np.r_[np.ones(n - 1), 0.0]):
        U, V = orthogonal(n, rng), orthogonal(n, rng)
        _, s, _ = check((U * values) @ V.T)
        np.testing.assert_allclose(s, np.sort(values)[::-1], atol=20 * n * ULP)
    check(np.eye(n))
    check(-np.eye(n))


@pytest.mark.parametrize("exponent", [-150, -140, -100, -20, 20, 100, 140, 150])
def test_any_scale(exponent):
    rng = np.random.default_rng(0)
    for n in (2, 4, 7):
        check(rng.standard_normal((n, n)) * 10.0**exponent)


def test_graded_columns_keep_relative_accuracy():
    # One-sided Jacobi's well-known strength: with well-conditioned directions, column scaling costs nothing.
    rng = np.random.default_rng(1)
    n = 6
    scales = 10.0 ** -np.arange(0.0, 2.0 * n, 2.0)
    for _ in range(10):
        Q = orthogonal(n, rng)
        _, s, _ = svd(Q * scales)
        np.testing.assert_allclose(s, scales, rtol=50 * n * ULP)


def test_scales_that_differ_within_one_matrix():
    rng = np.random.default_rng(2)
    for n in (3, 6):
        check(rng.standard_normal((n, n)) * 10.0 ** rng.uniform(-150.0, 150.0, (n, n)))
        check(rng.standard_normal((n, n)) * 10.0 ** rng.uniform(-12.0, 12.0, n))


def test_same_bits_twice():
    matrix = np.random.default_rng(3).standard_normal((7, 7))
    for first, second in zip(svd(matrix), svd(matrix.copy()), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 2), (6, 5, 9)])
def test_multiply_into(shape):
    rows, inner, columns = shape
    rng = np.random.default_rng(0)
    X, Y, out = (
        rng.standard_normal((rows, inner)),
        rng.standard_normal((inner, columns)),
        np.empty((rows, columns)),
    )
    multiply_into(X, Y, out)
    np.testing.assert_allclose(out, X @ Y, atol=1e-14)


@pytest.mark.parametrize("n", [1, 4, 7])
def test_nuclear_norms(n):
    matrices = np.random.default_rng(n).standard_normal((5, n, n))
    expected = np.linalg.svd(matrices, compute_uv=False).sum(axis=1)
    np.testing.assert_allclose(dense.nuclear_norms(matrices), expected, rtol=1e-13)
