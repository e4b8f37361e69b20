"""What docs/errata.md says of the paper's own formulas, checked from their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import sysbags
from helpers import make_pair, make_stream, make_system, orthogonal, plane_rotation, rho
from sysbags.kernels import kernel_matrix
from sysbags.systems.system import System


def frobenius(first, second, lambda_a=0.25, lambda_mu=1.0):
    """`eq:frobDist`, with the difference of two observers as coefficients over the samples of both."""
    K = kernel_matrix(np.vstack([first.samples, second.samples]))
    C = np.vstack([first.alpha, -second.alpha])
    mu = np.concatenate([first.beta, -second.beta])
    transitions = np.sum((first.transition - second.transition) ** 2)
    return lambda_a * transitions + np.trace(C.T @ K @ C) + lambda_mu * (mu @ K @ mu)


def constants(A, B, M, p, q, weight):
    """k0 to k4 as docs/errata.md has them."""
    indices = [r for r in range(len(A)) if r not in (p, q)]
    turned = [
        (A[p, r] * B[p, r] + A[q, r] * B[q, r] + A[r, p] * B[r, p] + A[r, q] * B[r, q])
        + 1j * (A[q, r] * B[p, r] - A[p, r] * B[q, r] + A[r, q] * B[r, p] - A[r, p] * B[r, q])
        for r in indices
    ]
    others = weight * sum(turned, start=0j)
    k0 = weight * (A[p, p] * B[p, p] + A[p, q] * B[p, q] + A[q, p] * B[q, p] + A[q, q] * B[q, q])
    k1 = weight * (A[p, p] * B[q, q] - A[p, q] * B[q, p] - A[q, p] * B[p, q] + A[q, q] * B[p, p])
    k2 = weight * ((A[p, q] + A[q, p]) * (B[p, p] - B[q, q]) - (A[p, p] - A[q, q]) * (B[p, q] + B[q, p]))
    return k0, k1, k2, M[p, p] + M[q, q] + others.real, M[q, p] - M[p, q] + others.imag


def test_sum_of_the_chi_squared_kernel():
    rng = np.random.default_rng(0)
    for a, b in rng.dirichlet(np.ones(9), size=(20, 2)):
        assert np.sum((a - b) ** 2 / (a + b)) == pytest.approx(2.0 - 4.0 * np.sum(a * b / (a + b)), abs=1e-14)


def test_an_orthonormal_basis_may_cost_the_bound_on_the_transition():
    """Of C = diag(4, 1) the only such bases are P = diag(1/4, 1) Q: all have the same norm of P^-1 A P."""
    A, C = np.array([[0.0, 0.9], [0.0, 0.0]]), np.diag([4.0, 1.0])
    for seed in range(5):
        P = np.diag([0.25, 1.0]) @ orthogonal(2, np.random.default_rng(seed))
        np.testing.assert_allclose((C @ P).T @ (C @ P), np.eye(2), atol=1e-14)
        assert np.linalg.norm(A, 2) < 1.0 < np.linalg.norm(np.linalg.inv(P) @ A @ P, 2)


def test_different_tuples_may_be_one_system():
    theta = make_system(0)
    twice = System(
        theta.transition,
        np.vstack([theta.samples, theta.samples]),
        np.vstack([theta.alpha, theta.alpha]) / 2,
        np.concatenate([theta.beta, theta.beta]) / 2,
    )
    assert sysbags.alignment_distance(theta, twice, 1.0, 1.0) == pytest.approx(0.0, abs=1e-9)


def test_a_weight_of_zero_makes_a_pseudometric():
    theta = make_system(0)
    other_mean = System(
        theta.transition, theta.samples, theta.alpha, np.roll(theta.beta, 1) + theta.alpha[:, 0]
    )
    slower = System(0.5 * theta.transition, theta.samples, theta.alpha, theta.beta)
    for lambda_a, lambda_mu, other in ((1.0, 0.0, other_mean), (0.0, 1.0, slower)):
        assert sysbags.alignment_distance(theta, other, lambda_a, lambda_mu) == pytest.approx(0.0, abs=1e-9)
        assert sysbags.alignment_distance(theta, other, 1.0, 1.0) > 0.01


def test_rotations_in_the_proof_of_the_triangle_inequality_come_in_the_other_order():
    rng = np.random.default_rng(0)
    first, third = make_system(1), make_system(3)
    Q12, Q23 = orthogonal(3, rng), orthogonal(3, rng)
    middle = frobenius(first.rotate(Q12.T), third.rotate(Q23))
    assert middle == pytest.approx(frobenius(first, third.rotate(Q23 @ Q12)), abs=1e-12)
    assert abs(middle - frobenius(first, third.rotate(Q12 @ Q23))) > 0.01


@pytest.mark.parametrize("n", [2, 3, 5])
def test_the_trace_needs_the_transpose(n):
    """`tau - 2 rho` is the distance with ``tr(A' G' A~ G)``, not with the printed ``tr(A G' A~ G)``."""
    rng = np.random.default_rng(n)
    A, B = rng.standard_normal((2, n, n))
    G = plane_rotation(n, 0, n - 1, 0.7)
    tau, distance = np.sum(A**2) + np.sum(B**2), np.sum((A - G.T @ B @ G) ** 2)
    assert tau - 2.0 * np.trace(A.T @ G.T @ B @ G) == pytest.approx(distance, abs=1e-12)
    assert abs(tau - 2.0 * np.trace(A @ G.T @ B @ G) - distance) > 0.01


@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_constants_of_a_plane(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        A, B, M = make_pair("random", n, rng)
        p, q = sorted(rng.choice(n, size=2, replace=False))
        k0, k1, k2, k3, k4 = constants(A, B, M, p, q, 0.7)
        t = np.append(rng.uniform(-np.pi, np.pi, size=8), 0.0)
        c, s = np.cos(t), np.sin(t)
        predicted = k0 * c**2 + k1 * s**2 + k2 * c * s + k3 * c + k4 * s
        in_the_angle = (k0 - k1) / 2 * np.cos(2 * t) + k2 / 2 * np.sin(2 * t) + k3 * c + k4 * s
        values = np.array([rho(A, B, M, plane_rotation(n, p, q, angle), 0.7) for angle in t])
        np.testing.assert_allclose(values - values[-1], predicted - predicted[-1], atol=1e-13)
        np.testing.assert_allclose(values - values[-1], in_the_angle - in_the_angle[-1], atol=1e-13)


def test_the_quartic_is_right_as_printed():
    """The sine of every critical angle, which is a root of the derivative on the unit circle, is a root."""
    rng = np.random.default_rng(0)
    critical = 0
    for k0, k1, k2, k3, k4 in rng.standard_normal((50, 5)):
        # With z = exp(it) the derivative times 2 z^2 is a polynomial in z.
        a, b = k1 - k0, k2
        circle = np.roots([b - 1j * a, k4 + 1j * k3, 0.0, k4 - 1j * k3, b + 1j * a])
        angles = np.angle(circle[np.abs(np.abs(circle) - 1.0) < 1e-8])
        slopes = a * np.sin(2 * angles) + b * np.cos(2 * angles) - k3 * np.sin(angles) + k4 * np.cos(angles)
        np.testing.assert_allclose(slopes, 0.0, atol=1e-10)
        quartic = [
            -4 * (a**2 + k2**2),
            -4 * (k4 * a + k2 * k3),
            4 * a**2 + 4 * k2**2 - k4**2 - k3**2,
            2 * (2 * k4 * a + k2 * k3),
            k4**2 - k2**2,
        ]
        np.testing.assert_allclose(np.polyval(quartic, np.sin(angles)), 0.0, atol=1e-9)
        critical += angles.size
    assert critical >= 100  # a maximum and a minimum at least


def test_the_square_of_rho_does_not_know_near_from_far():
    """Order 1, no transition: rho is m or -m. Its square is the same, the distance is not."""
    theta = System([[0.0]], [[0.5, 0.5]], [[1.0]], [1.0])
    distances = [frobenius(theta, theta.rotate([[sign]])) for sign in (1.0, -1.0)]
    assert distances == pytest.approx([0.0, 4.0])
    assert sysbags.alignment_distance(theta, theta.rotate([[-1.0]])) == 0.0


def test_a_mean_on_few_cluster_centres_is_farther_from_its_members():
    systems = [make_system([5, k]) for k in range(5)]
    mean = sysbags.frechet_mean(systems)
    objectives = [
        sysbags.pairwise_distances([mean.system.compress(size, method="kmeans")], systems).mean()
        for size in (5, 20, 60)
    ]
    assert objectives[0] > objectives[1] > objectives[2] > mean.objective
    assert objectives[0] > 1.2 * mean.objective


def test_the_kernel_matrix_of_all_samples_is_nearly_singular():
    stream = np.vstack([make_stream(np.random.default_rng(seed), frames=60) for seed in range(4)])
    assert np.linalg.cond(kernel_matrix(stream)) > 1e4


def test_the_medoid_start_ends_lower_more_often():
    lower = higher = 0
    for seed in range(30):
        systems = [make_system([seed, k], order=4) for k in range(5)]
        identity, medoid = (sysbags.frechet_mean(systems, start=s).objective for s in ("identity", "medoid"))
        lower += medoid < identity - 1e-6
        higher += medoid > identity + 1e-6
    assert lower > higher
