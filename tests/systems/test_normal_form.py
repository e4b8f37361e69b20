"""The unit-variance form: closed forms of Gaussians, and the same streams in other coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.distances.gram import cross_gram
from sysbags.distances.truncation import truncate
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.systems.collection import system_arrays, system_from_arrays
from sysbags.systems.system import NORMAL_FORMS

KERNELS = ("chi2", "bhattacharyya", "linear")
STREAMS = np.random.default_rng(0).dirichlet(0.5 * np.ones(7), size=(4, 60))


def identify(stream, order=4, kernel="chi2", **options):
    return sysbags.identify(stream, order, kernel, normal_form="unit-variance", **options)


def covariance(system):
    """The covariance that a linear system gives its bags."""
    observer = system.samples.T @ system.alpha
    return observer @ observer.T


def square_root(matrix):
    """Of a symmetric matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def bures(mean1, covariance1, mean2, covariance2):
    """The squared 2-Wasserstein distance of two Gaussians, by its definition."""
    half = square_root(covariance1)
    crossed = np.trace(square_root(half @ covariance2 @ half))
    return np.sum((mean1 - mean2) ** 2) + np.trace(covariance1) + np.trace(covariance2) - 2.0 * crossed


@pytest.mark.parametrize("kernel", KERNELS)
def test_states_have_covariance_one_and_the_observer_holds_the_variances(kernel):
    theta = identify(STREAMS[0], kernel=kernel)
    np.testing.assert_allclose(theta.states.T @ theta.states / 60, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(theta.observer_gram, np.diag(theta.eigenvalues / 60), atol=1e-13)
    assert theta.normal_form == "unit-variance"


@pytest.mark.parametrize("kernel", KERNELS)
def test_both_forms_are_the_same_process(kernel):
    """Without the constraint the transitions differ by the change of coordinates alone."""
    paper = sysbags.identify(STREAMS[0], 4, kernel, stability="none")
    theta = identify(STREAMS[0], kernel=kernel, stability="none")
    scale = np.sqrt(paper.eigenvalues / 60)
    np.testing.assert_allclose(
        theta.transition, paper.transition * (scale[None, :] / scale[:, None]), atol=1e-10
    )
    np.testing.assert_allclose(theta.alpha, paper.alpha * scale, atol=1e-12)
    np.testing.assert_allclose(theta.states * scale, paper.states, atol=1e-12)
    assert (theta.explained, theta.mean_norm) == (paper.explained, paper.mean_norm)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(8, 40))
def test_the_noise_covariance_exists(seed, order, frames):
    stream = np.random.default_rng(seed).dirichlet(np.ones(9), size=frames).cumsum(axis=0)
    theta = identify(stream / stream.sum(axis=1, keepdims=True), order)
    noise = np.eye(order) - theta.transition @ theta.transition.T
    # The spectral norm is at most 1 - 1e-3, so that no eigenvalue is below 1 - (1 - 1e-3)^2.
    assert np.linalg.eigvalsh(noise)[0] > 1.99e-3


def test_without_transition_the_distance_is_that_of_gaussians():
    systems = [identify(stream, order, "linear") for stream, order in zip(STREAMS, (4, 4, 3, 6), strict=True)]
    distances = sysbags.pairwise_distances(systems, lambda_a=0.0, lambda_mu=1.0)
    for i, first in enumerate(systems):
        for j, second in enumerate(systems):
            expected = bures(
                STREAMS[i].mean(axis=0), covariance(first), STREAMS[j].mean(axis=0), covariance(second)
            )
            # Roots of eigenvalues that are zero but for round-off.
            assert distances[i, j] == pytest.approx(expected, abs=1e-8)


def test_the_distance_is_that_of_pot():
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(3)
    streams = [rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5)) for _ in range(2)]
    systems = [identify(stream, 5, "linear") for stream in streams]
    means = [stream.mean(axis=0) for stream in streams]
    expected = ot.gaussian.bures_wasserstein_distance(*means, *map(covariance, systems))
    squared = sysbags.alignment_distance(*systems, lambda_a=0.0, lambda_mu=1.0)
    assert squared == pytest.approx(expected**2, rel=1e-9)


def commuting(deviations, seed):
    """A stream whose covariance is diagonal, with these standard deviations, and whose mean is 0."""
    noise = np.random.default_rng(seed).standard_normal((50, len(deviations)))
    whitened, _ = np.linalg.qr(noise - noise.mean(axis=0))
    return whitened * np.sqrt(50) * deviations


def test_gaussians_with_commuting_covariances():
    """The distance is that of the standard deviations, and so is the mean."""
    deviations = np.array([[3.0, 2.0, 1.0], [1.0, 2.5, 0.5], [2.0, 0.3, 4.0]])
    systems = [identify(commuting(row, seed), 3, "linear") for seed, row in enumerate(deviations)]
    distances = sysbags.pairwise_distances(systems, lambda_a=0.0, lambda_mu=1.0)
    expected = ((deviations[:, None] - deviations[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances, expected, atol=1e-10)
    weights = np.array([0.5, 0.2, 0.3])
    mean = sysbags.frechet_mean(systems, lambda_a=0.0, lambda_mu=1.0, weights=weights)
    np.testing.assert_allclose(covariance(mean.system), np.diag((weights @ deviations) ** 2), atol=1e-7)
    assert mean.objective == pytest.approx(weights @ ((deviations - weights @ deviations) ** 2).sum(axis=1))
    assert mean.system.normal_form == "unit-variance"


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_objective_of_a_mean_is_its_distances(kernel):
    systems = [identify(stream, order, kernel) for stream, order in zip(STREAMS, (4, 3, 4, 2), strict=True)]
    mean = sysbags.frechet_mean(systems, lambda_a=0.1, lambda_mu=1.0)
    assert mean.converged
    assert np.all(np.diff(mean.history) <= 1e-12)
    distances = sysbags.pairwise_distances([mean.system], systems, lambda_a=0.1, lambda_mu=1.0)
    assert distances.mean() == pytest.approx(mean.objective, rel=1e-9)
    # No member and no other start is a better mean.
    between = sysbags.pairwise_distances(systems, lambda_a=0.1, lambda_mu=1.0)
    assert mean.objective <= between.mean(axis=1).min()


def test_a_smaller_order_from_the_same_gram():
    systems = [identify(stream, 5) for stream in STREAMS]
    fewer, gram = truncate(systems, cross_gram(systems), 3)
    expected = [identify(stream, 3) for stream in STREAMS]
    assert gram.rows.normal_form == fewer[0].normal_form == "unit-variance"
    np.testing.assert_allclose(
        sysbags.pairwise_distances(fewer, lambda_mu=1.0),
        sysbags.pairwise_distances(expected, lambda_mu=1.0),
        atol=1e-10,
    )


def test_the_form_is_kept(tmp_path):
    theta = identify(STREAMS[0])
    small = theta.compress(20)
    rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))
    sysbags.save(tmp_path / "a.system", theta)
    for other in (
        small,
        theta.rotate(rotation),
        system_from_arrays(system_arrays(theta), "chi2"),
        sysbags.load(tmp_path / "a.system"),
        sysbags.SystemIdentifier(4, normal_form="unit-variance").fit_transform(STREAMS[:1])[0],
    ):
        assert other.normal_form == "unit-variance"
        assert sysbags.alignment_distance(theta, other) == pytest.approx(0.0, abs=0.05)
    np.testing.assert_allclose(small.observer_gram, theta.observer_gram, atol=1e-10)


def test_forms_cannot_be_mixed():
    first, second = (sysbags.identify(STREAMS[0], 3, normal_form=form) for form in NORMAL_FORMS)
    sentence = r"systems\[0\] is in the orthonormal form and systems\[1\] in the unit-variance form, but"
    with pytest.raises(IncompatibleSystemsError, match=sentence):
        cross_gram([first, second])
    with pytest.raises(IncompatibleSystemsError, match="only systems of the same form can be compared"):
        sysbags.align(first, second)
    with pytest.raises(ParameterError, match="normal_form is 'canonical', but it must be one of"):
        sysbags.identify(STREAMS[0], 3, normal_form="canonical")
