"""Spectral-Grassmann optimal transport, against the operators themselves and against POT."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import sysbags
from helpers import orthogonal
from sysbags.datasets import make_streams
from sysbags.distances.sgot import sgot_distance, sgot_matrix
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.system import System

BINS = 7


def linear_system(transition, observer):
    """A system of the linear kernel whose observer is this matrix, (BINS, n)."""
    return System(transition, np.eye(BINS), observer, np.full(BINS, 1.0 / BINS), "linear")


def make_linear(seed, order=3):
    rng = np.random.default_rng(seed)
    transition = rng.standard_normal((order, order))
    transition *= 0.9 / np.abs(np.linalg.eigvals(transition)).max()
    return linear_system(transition, rng.standard_normal((BINS, order)))


def operator(theta):
    """``C A C^+`` as a matrix of the feature space, which is that of the histograms for a linear kernel."""
    return theta.alpha @ theta.transition @ np.linalg.pinv(theta.alpha)


def atoms(theta):
    """The eigenvalues that are not 0 of the operator, and their projectors."""
    values, right = np.linalg.eig(operator(theta))
    others, left = np.linalg.eig(operator(theta).T)
    found = []
    for i in np.argsort(-np.abs(values))[: theta.order]:
        one, other = right[:, i], left[:, np.argmin(np.abs(others - values[i]))]
        found.append((values[i], np.outer(one, other) / (one @ other)))
    return found


def slow_sgot(first, second, eta=0.5):
    """By definition, for two systems of the same order with simple eigenvalues that are not 0."""
    costs = np.empty((first.order, second.order))
    for i, (value, projector) in enumerate(atoms(first)):
        for j, (other, other_projector) in enumerate(atoms(second)):
            product = np.abs(np.vdot(projector, other_projector))
            cosine = product / np.linalg.norm(projector) / np.linalg.norm(other_projector)
            costs[i, j] = eta * np.abs(value - other) ** 2 + (1 - eta) * (1 - cosine**2)
    return min(
        np.mean([costs[i, j] for i, j in enumerate(order)]) for order in permutations(range(first.order))
    )


@given(st.integers(1, 5), st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
@settings(max_examples=40, deadline=None)
def test_the_definition(order, seed, eta):
    first, second = make_linear(seed, order), make_linear([seed, 1], order)
    for theta in (first, second):  # the twin cannot tell small eigenvalues of its large operator from 0
        values = np.append(np.linalg.eigvals(theta.transition), 0.0)
        assume(np.abs(values[:, None] - values)[~np.eye(len(values), dtype=bool)].min() > 0.02)
    expected = slow_sgot(first, second, eta)
    # The eigenvectors of the large operator lose some digits where eigenvalues are close.
    assert sgot_distance(first, second, eta) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("orders", [(3, 3), (5, 5), (2, 3), (4, 6), (1, 5)])
@pytest.mark.parametrize("eta", [0.2, 0.5])
def test_the_same_as_pot(orders, eta):
    sgot = pytest.importorskip("ot.sgot")
    one, two = (make_linear([7, k], order) for k, order in enumerate(orders))
    spectra = []
    for theta in (one, two):
        values, right = np.linalg.eig(theta.transition)
        left = np.linalg.inv(right).conj().T
        spectra += [values.astype(complex), theta.alpha @ right, np.linalg.pinv(theta.alpha).T @ left]
    expected = sgot.sgot_metric(*spectra, eta=eta, p=2, q=2, r=1, grassmann_metric="chordal") ** 2
    assert sgot_distance(one, two, eta) == pytest.approx(float(expected), rel=1e-9)


def test_other_kernels_compare_in_feature_space():
    """A kernel with a known feature map is the linear kernel of mapped histograms."""
    streams, _ = make_streams(classes=2, per_class=2, frames=30, bins=BINS)
    systems = [sysbags.identify(stream, order=3, kernel="bhattacharyya") for stream in streams]
    mapped = [
        System(theta.transition, np.sqrt(theta.samples), theta.alpha, theta.beta, "linear")
        for theta in systems
    ]
    expected = sysbags.pairwise_distances(mapped, metric="sgot")
    np.testing.assert_allclose(sysbags.pairwise_distances(systems, metric="sgot"), expected, atol=1e-9)
    assert expected[0, 1] > 1e-3


@given(st.integers(1, 4), st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_a_metric_that_ignores_the_basis(order, seed):
    rng = np.random.default_rng([seed, 9])
    systems = [make_linear([seed, k], order) for k in range(3)]
    basis = orthogonal(order, rng) @ np.diag(rng.uniform(0.5, 2.0, order)) @ orthogonal(order, rng)
    moved = linear_system(np.linalg.solve(basis, systems[0].transition @ basis), systems[0].alpha @ basis)
    assert sgot_distance(moved, systems[0]) == pytest.approx(0.0, abs=1e-8)
    assert sgot_distance(moved, systems[1]) == pytest.approx(sgot_distance(*systems[:2]), rel=1e-6)
    roots = np.sqrt(sysbags.pairwise_distances(systems, metric="sgot"))
    for i, j, k in permutations(range(3)):
        assert roots[i, k] <= roots[i, j] + roots[j, k] + 1e-9


def test_a_metric_of_operators_for_invertible_diagonalisable_transitions_alone():
    """By hand: half of the mass moves from the eigenvalue 0 to 0.5, and to an orthogonal mode."""
    axes = np.eye(BINS)
    single = linear_system([[0.5]], axes[:, :1])
    plane = linear_system(np.diag([0.5, 0.0]), axes[:, :2])
    np.testing.assert_allclose(operator(single), operator(plane), atol=1e-12)
    assert sgot_distance(plane, single) == pytest.approx(0.5 * (0.5 * 0.25 + 0.5))
    other = linear_system(np.diag([0.5, 0.0]), axes[:, [0, 2]])
    assert sgot_distance(plane, other) == pytest.approx(0.5 * 0.5)
    defective = linear_system([[0.5, 0.4], [0.0, 0.5]], axes[:, :2])
    semisimple = linear_system(0.5 * np.eye(2), axes[:, :2])
    assert sgot_distance(defective, semisimple) == pytest.approx(0.0, abs=1e-12)
    assert sgot_distance(semisimple, single) == pytest.approx(0.5 * 0.5)  # of invertible ones, no exception


def jordan(size, value=0.5, coupling=0.4):
    return value * np.eye(size) + coupling * np.eye(size, k=1)


@pytest.mark.parametrize(
    "transition",
    [
        np.zeros((3, 3)),
        0.7 * np.eye(3),
        jordan(2),
        jordan(3),
        jordan(5),
        np.eye(2, k=1),
        np.block([[jordan(2), np.zeros((2, 2))], [np.zeros((2, 2)), jordan(2, -0.3)]]),
        np.block([[0.5 * np.eye(2), np.ones((2, 1))], [np.zeros((1, 2)), np.full((1, 1), -0.2)]]),
    ],
    ids=["zero", "identity", "jordan2", "jordan3", "jordan5", "nilpotent", "two-blocks", "repeated"],
)
def test_defective_and_repeated_eigenvalues_do_not_depend_on_the_basis(transition):
    """Eigenvectors are arbitrary or nearly dependent, but the projectors of clusters are not."""
    rng = np.random.default_rng(3)
    order = len(transition)
    observer = rng.standard_normal((BINS, order))
    theta, other = linear_system(transition, observer), make_linear(4, order)
    for _ in range(3):
        Q = orthogonal(order, rng)
        copy = linear_system(Q.T @ transition @ Q, observer @ Q)
        assert sgot_distance(theta, copy) == pytest.approx(0.0, abs=1e-6)
        assert sgot_distance(copy, other) == pytest.approx(sgot_distance(theta, other), rel=1e-4)


def test_repeated_eigenvalues_have_the_projector_of_their_subspace():
    """By hand: both systems have one eigenvalue, and projectors on planes that share a line."""
    first, second = (linear_system(0.5 * np.eye(2), np.eye(BINS)[:, axes]) for axes in ([0, 1], [1, 2]))
    cosine = 1.0 / np.sqrt(2.0 * 2.0)
    assert sgot_distance(first, second, eta=0.5) == pytest.approx(0.5 * (1 - cosine**2), abs=1e-12)


def test_nearly_defective_systems_are_far_from_their_neighbours():
    """What the documentation says of it: the alignment distance changes by the change, this one by more."""
    change = 1e-6
    observer = np.eye(BINS)[:, :2]
    first, second = (linear_system(jordan(2) + e * np.eye(2, k=-1), observer) for e in (change, -change))
    assert sysbags.alignment_distance(first, second) <= 4 * change**2
    moved = np.sqrt(0.4 * change)  # eigenvalues 0.5 +- moved, and 0.5 +- moved i
    assert sgot_distance(first, second, eta=1.0) == pytest.approx(2 * moved**2, rel=1e-3)
    assert sgot_distance(first, second, eta=1.0) > 1e5 * sysbags.alignment_distance(first, second)


def test_the_modes_jump_where_a_shared_subspace_splits():
    """A Jordan block has the projector on its plane; beside it are two others, orthogonal to that."""
    observer = np.eye(BINS)[:, :2]
    block, inside, outside = (
        linear_system(jordan(2) + e * np.eye(2, k=-1), observer) for e in (0.0, 1e-13, 1e-7)
    )
    assert sgot_distance(block, inside, eta=0.0) == pytest.approx(0.0, abs=1e-12)
    assert sgot_distance(block, outside, eta=0.0) == pytest.approx(1.0, abs=1e-5)
    assert sysbags.alignment_distance(block, outside) <= 1e-14


def test_bad_input():
    with pytest.raises(ParameterError, match=r"eta is 1\.5, but it must be a number in"):
        sgot_distance(make_linear(0), make_linear(1), eta=1.5)
    blind = linear_system(0.5 * np.eye(2), np.ones((BINS, 2)))
    with pytest.raises(IncompatibleSystemsError, match=r"others\[1\] has an observer with dependent columns"):
        sgot_matrix(sysbags.cross_gram([make_linear(0)], [make_linear(1), blind]))
    with pytest.raises(IncompatibleSystemsError, match=r"systems\[2\] has an observer with dependent"):
        sysbags.pairwise_distances([make_linear(0), make_linear(1), blind], metric="sgot")
