"""The exact mean against the paper's update with all samples kept, its definition, and its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from helpers import make_system, orthogonal, polar
from sysbags._numba.mean import update_mean
from sysbags.distances.alignment import pad
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.kernels import kernel_matrix
from sysbags.means.frechet import mean_gram, mean_of_gram

# The same examples on every run: a mean is a local minimum, and a search that never ends would find one.
SETTINGS = settings(max_examples=15, deadline=None, derandomize=True)


def collection(seed, count=4, order=3):
    return [make_system([seed, k], order=order) for k in range(count)]


def mixed_collection(seed=0):
    return [make_system([seed, k], order=order) for k, order in enumerate((3, 1, 2, 3, 2))]


def padded_alpha(systems, n):
    return [pad(theta.alpha, theta.size, n) for theta in systems]


def paper_update(systems, weights, rotations):
    """Algorithm 3's mean with ``Ybar = Y*`` (see the errata): transition, and ``Cbar' C_t`` of each member.

    The EVD of ``k(Ybar, Ybar)`` gives an orthonormal basis of the span of all samples, in which the
    observer that maximises ``sum_t w_t tr(Cbar' C_t Q_t)`` is a thin SVD away.
    """
    n = rotations.shape[1]
    Y = np.concatenate([theta.samples for theta in systems])
    K = kernel_matrix(Y)
    values, V = np.linalg.eigh(K)
    positive = values > 1e-14 * values[-1]
    half = V[:, positive] / np.sqrt(values[positive])
    alphas = padded_alpha(systems, n)
    target = np.concatenate([w * a @ Q for w, a, Q in zip(weights, alphas, rotations, strict=True)])
    U, _, Vt = np.linalg.svd(half.T @ K @ target, full_matrices=False)
    alpha = half @ U @ Vt
    rows = np.split(np.arange(len(Y)), np.cumsum([theta.size for theta in systems])[:-1])
    blocks = np.stack([alpha.T @ K[:, r] @ a for r, a in zip(rows, alphas, strict=True)])
    transition = sum(
        w * Q.T @ pad(theta.transition, n, n) @ Q
        for w, theta, Q in zip(weights, systems, rotations, strict=True)
    )
    return transition, blocks


def side_by_side(gram):
    """The blocks in the order in which `update_mean` reads them."""
    return np.ascontiguousarray(gram.observer.transpose(0, 2, 1, 3))


@pytest.mark.parametrize(("count", "order"), [(1, 2), (2, 1), (3, 3), (4, 2), (5, 4)])
def test_the_update_is_the_papers_with_all_samples_kept(count, order):
    rng = np.random.default_rng([count, order])
    systems = collection(count, count, order)
    gram = sysbags.cross_gram(systems)
    for _ in range(3):
        Q = np.stack([orthogonal(order, rng) for _ in systems])
        w = rng.dirichlet(np.ones(count))
        mean, blocks, mixing = np.empty((order, order)), np.empty((count, order, order)), np.empty_like(Q)
        rank = update_mean(gram.rows.transition.copy(), side_by_side(gram), w, Q, True, mean, blocks, mixing)
        transition, expected = paper_update(systems, w, Q)
        assert rank == order
        np.testing.assert_allclose(mean, transition, atol=1e-14)
        # The twin goes through the inverse of a kernel matrix of condition 1e14: half its digits are lost.
        np.testing.assert_allclose(blocks, expected, atol=1e-8)
        # And the mixing says the same: Cbar' C_t = sum_i W_i' C_i' C_t.
        np.testing.assert_allclose(np.einsum("iab,itac->tbc", mixing, gram.observer), blocks, atol=1e-12)


def test_the_first_iteration_is_the_papers_for_mixed_orders_and_weights():
    rng = np.random.default_rng(0)
    systems = mixed_collection()
    Q = np.stack([orthogonal(3, rng) for _ in systems])
    before = Q.copy()
    weights = rng.uniform(0.5, 2.0, len(systems))
    gram = sysbags.cross_gram(systems)
    mean = mean_of_gram(gram, weights=weights, start=Q, max_iterations=1)
    np.testing.assert_array_equal(Q, before)
    transition, blocks = paper_update(systems, weights / weights.sum(), Q)
    np.testing.assert_allclose(mean.transition, transition, atol=1e-14)
    exact = mean_gram(gram, [np.arange(len(systems))], [mean]).observer[0]
    np.testing.assert_allclose(exact, blocks, atol=1e-8)
    assert not mean.converged
    assert mean.history.shape == (1,)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 5), st.sampled_from([0.0, 0.25, 2.0]))
@SETTINGS
def test_never_rises_and_is_what_it_says(seed, order, count, lambda_a):
    systems = collection(seed, count, order)
    mean = sysbags.frechet_mean(systems, lambda_a, lambda_mu=0.5)
    size = lambda_a + order
    assert mean.converged
    assert np.all(np.diff(mean.history) <= 1e-12 * size)
    assert mean.objective == mean.history[-1]
    # Orthonormal by a fresh evaluation of the kernel, not by what the system was told.
    fresh = sysbags.System(mean.system.transition, mean.system.samples, mean.system.alpha, mean.system.beta)
    np.testing.assert_allclose(fresh.observer_gram, np.eye(order), atol=1e-9)
    np.testing.assert_allclose(mean.system.observer_gram, fresh.observer_gram, atol=1e-9)
    np.testing.assert_allclose(mean.system.mean_norm, fresh.mean_norm, atol=1e-12)
    np.testing.assert_allclose(
        mean.rotations @ mean.rotations.transpose(0, 2, 1), [np.eye(order)] * count, atol=1e-12
    )
    distances = [sysbags.alignment_distance(fresh, theta, lambda_a, lambda_mu=0.5) for theta in systems]
    np.testing.assert_allclose(np.mean(distances), mean.objective, atol=1e-9 * size)


@pytest.mark.parametrize("start", ["medoid", "identity"])
@pytest.mark.parametrize("seed", range(4))
def test_no_neighbour_is_better(seed, start):
    rng = np.random.default_rng(seed)
    systems = collection(seed, 5)
    weights = rng.dirichlet(np.ones(5))
    mean = sysbags.frechet_mean(systems, lambda_mu=1.0, weights=weights, start=start)
    assert mean.converged
    theta = mean.system
    K = kernel_matrix(theta.samples)
    values, V = np.linalg.eigh(K)
    positive = values > 1e-10 * values[-1]
    half = V[:, positive] / np.sqrt(values[positive])

    def objective(system):
        return float(sysbags.pairwise_distances([system], systems, lambda_mu=1.0)[0] @ weights)

    # The descent ends where an iteration gains less than 1e-9 of the members' size.
    reached = objective(theta)
    np.testing.assert_allclose(reached, mean.objective, atol=1e-9)
    for step in (0.3, 0.03, 3e-3):
        for _ in range(2):
            direction = rng.standard_normal((3, 3))
            moved = theta.transition + step * direction / np.linalg.norm(direction)
            assert objective(sysbags.System(moved, theta.samples, theta.alpha, theta.beta)) >= reached - 1e-8
            # Another orthonormal observer nearby, in the span of all samples.
            coordinates = half.T @ K @ theta.alpha
            direction = rng.standard_normal(coordinates.shape)
            alpha = half @ polar(coordinates + step * direction / np.linalg.norm(direction))
            assert (
                objective(sysbags.System(theta.transition, theta.samples, alpha, theta.beta))
                >= reached - 1e-8
            )
            beta = theta.beta + step * rng.standard_normal(theta.size) / theta.size
            assert (
                objective(sysbags.System(theta.transition, theta.samples, theta.alpha, beta))
                >= reached - 1e-8
            )


def test_the_best_mean_for_given_rotations():
    # eq:fopt: with the rotations fixed, no orthonormal observer correlates more with the rotated members.
    rng = np.random.default_rng(1)
    systems = collection(7, 3)
    Q = np.stack([orthogonal(3, rng) for _ in systems])
    gram = sysbags.cross_gram(systems)
    mean, blocks, mixing = np.empty((3, 3)), np.empty((3, 3, 3)), np.empty((3, 3, 3))
    update_mean(
        gram.rows.transition.copy(), side_by_side(gram), np.full(3, 1 / 3), Q, True, mean, blocks, mixing
    )
    reached = np.einsum("tij,tji->", blocks, Q)
    # The polar factor's correlation is the nuclear norm of sum_t C_t Q_t, here by its Gram matrix.
    S = np.einsum("iab,ijac,jcd->bd", Q, gram.observer, Q)
    np.testing.assert_allclose(reached, np.sqrt(np.linalg.eigvalsh(S)).sum(), rtol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_mean_of_one_system_is_itself(order):
    (theta,) = collection(0, 1, order)
    mean = sysbags.frechet_mean([theta], lambda_mu=1.0)
    assert mean.objective <= 1e-12
    # The objective is flat to round-off (1e-16) within angles of 1e-8; Newton steps end well inside.
    np.testing.assert_allclose(mean.rotations, [np.eye(order)], atol=1e-10)
    np.testing.assert_allclose(mean.system.transition, theta.transition, atol=1e-14)
    np.testing.assert_allclose(mean.system.alpha, theta.alpha, rtol=1e-9, atol=1e-9)
    assert sysbags.alignment_distance(mean.system, theta, lambda_mu=1.0) <= 1e-9


@pytest.mark.parametrize("determinant", [1, -1])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_mean_of_rotated_copies_is_the_system(order, determinant):
    rng = np.random.default_rng(order)
    theta = make_system(order, order=order)
    copies = [theta, theta.rotate(orthogonal(order, rng, determinant)), theta.rotate(orthogonal(order, rng))]
    mean = sysbags.frechet_mean(copies, lambda_mu=1.0)
    assert mean.objective <= 1e-9
    assert sysbags.alignment_distance(mean.system, theta, lambda_mu=1.0) <= 1e-9
    assert mean.system.order == order


def test_copies_that_cancel_at_first():
    # Turned by -I the observers' sum is zero as it stands; the medoid start sees through it.
    theta = make_system(3, order=2)
    mean = sysbags.frechet_mean([theta, theta.rotate(-np.eye(2))])
    assert mean.objective <= 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_weights(seed):
    systems = collection(seed, 4)
    plain = sysbags.frechet_mean(systems[:3])
    for weights in ([1.0, 1.0, 1.0, 0.0], [5, 5, 5, 0]):
        weighted = sysbags.frechet_mean(systems, weights=weights)
        np.testing.assert_allclose(weighted.objective, plain.objective, atol=1e-7)
        # Two descents end where they gain less than 1e-9: their ends differ by the root of it at most.
        assert sysbags.alignment_distance(weighted.system, plain.system) <= 1e-6
    single = sysbags.frechet_mean(systems, weights=[0, 0, 1, 0])
    assert single.objective <= 1e-9
    assert sysbags.alignment_distance(single.system, systems[2]) <= 1e-9
    twice = sysbags.frechet_mean([*systems, systems[1]])
    weighted = sysbags.frechet_mean(systems, weights=[1, 2, 1, 1])
    np.testing.assert_allclose(weighted.objective, twice.objective, atol=1e-7)


def test_the_means_mean_is_the_average_in_the_feature_space():
    systems = collection(2, 3)
    weights = np.array([0.2, 0.3, 0.5])
    gram = sysbags.cross_gram(systems)
    mean = sysbags.frechet_mean(systems, weights=weights, lambda_mu=2.0)
    # sum_i w_i ||mu_i - mu||^2 is the variance, whatever the states do.
    spread = weights @ gram.rows.mean_norm - weights @ gram.mean @ weights
    parts = [sysbags.align(mean.system, theta, lambda_mu=2.0).parts["mean"] for theta in systems]
    np.testing.assert_allclose(weights @ parts, 2.0 * spread, atol=1e-12)
    without = sysbags.frechet_mean(systems, weights=weights)
    np.testing.assert_allclose(mean.objective - without.objective, 2.0 * spread, atol=1e-8)


@pytest.mark.parametrize("start", ["medoid", "identity"])
def test_mixed_orders(start):
    systems = mixed_collection(1)
    mean = sysbags.frechet_mean(systems, start=start)
    assert mean.converged
    assert mean.system.order == 3
    assert np.all(np.diff(mean.history) <= 1e-12 * 3)
    distances = [sysbags.alignment_distance(mean.system, theta) for theta in systems]
    np.testing.assert_allclose(np.mean(distances), mean.objective, atol=1e-9)


def test_gram_of_means_is_the_gram_of_their_systems():
    systems = mixed_collection(2)
    gram = sysbags.cross_gram(systems)
    groups = [np.array([0, 1, 2]), np.array([3, 4])]
    means = [mean_of_gram(gram.subset(group)) for group in groups]
    built = [sysbags.frechet_mean([systems[i] for i in group]) for group in groups]
    blocks = mean_gram(gram, groups, means)
    expected = sysbags.cross_gram([mean.system for mean in built], systems)
    assert not blocks.symmetric
    # The left side adds blocks, the right side kernel rows with coefficients of some ten.
    np.testing.assert_allclose(blocks.observer, expected.observer, atol=1e-10)
    np.testing.assert_allclose(blocks.mean, expected.mean, atol=1e-12)
    for name in ("orders", "transition", "observer_gram", "mean_norm"):
        np.testing.assert_allclose(
            getattr(blocks.rows, name), getattr(expected.rows, name), atol=1e-10, err_msg=name
        )
    distances = alignment_matrix(blocks)
    expected = sysbags.pairwise_distances([mean.system for mean in built], systems)
    np.testing.assert_allclose(distances, expected, atol=1e-9)


def test_same_result_again_and_for_each_number_of_threads():
    systems = mixed_collection(3)
    first, second, third = (sysbags.frechet_mean(systems, n_jobs=n_jobs) for n_jobs in (1, 2, 1))
    for other in (second, third):
        np.testing.assert_array_equal(first.system.transition, other.system.transition)
        np.testing.assert_array_equal(first.system.alpha, other.system.alpha)
        np.testing.assert_array_equal(first.history, other.history)


@pytest.mark.parametrize("metric", ["alignment", "martin", "max-singular-value"])
@pytest.mark.parametrize("seed", range(3))
def test_medoid_by_brute_force(metric, seed):
    distance = {
        "alignment": lambda first, second: sysbags.alignment_distance(first, second, 0.5, 1.0),
        "martin": sysbags.martin_distance,
        "max-singular-value": sysbags.max_singular_value_distance,
    }[metric]
    systems = collection(seed, 6, 2)
    totals = [sum(distance(first, second) for second in systems if second is not first) for first in systems]
    assert sysbags.medoid(systems, metric, lambda_a=0.5, lambda_mu=1.0) == int(np.argmin(totals))


def test_medoid_of_one_and_of_copies():
    theta = make_system(0, order=2)
    assert sysbags.medoid([theta]) == 0
    assert sysbags.medoid([make_system(1, order=2), theta, theta.rotate([[0, 1], [1, 0]])]) in (1, 2)


def test_inputs_stay_as_they_are():
    systems = mixed_collection(4)
    weights = np.array([1.0, 2.0, 1.0, 0.0, 1.0])
    gram = sysbags.cross_gram(systems)
    copies = [
        gram.observer.copy(),
        gram.mean.copy(),
        gram.rows.transition.copy(),
        gram.rows.observer_gram.copy(),
    ]
    before = [(theta.transition.copy(), theta.alpha.copy(), theta.beta.copy()) for theta in systems]
    mean_of_gram(gram, weights=weights)
    sysbags.frechet_mean(systems, weights=weights)
    np.testing.assert_array_equal(weights, [1.0, 2.0, 1.0, 0.0, 1.0])
    after = [gram.observer, gram.mean, gram.rows.transition, gram.rows.observer_gram]
    for old, new in zip(copies, after, strict=True):
        np.testing.assert_array_equal(old, new)
    for old, theta in zip(before, systems, strict=True):
        for copy, array in zip(old, (theta.transition, theta.alpha, theta.beta), strict=True):
            np.testing.assert_array_equal(copy, array)
