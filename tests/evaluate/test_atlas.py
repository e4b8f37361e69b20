"""The atlas against frechet_mean and the histograms of its system, written out."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import make_stream, make_system, orthogonal
from sysbags import alignment_distance, cross_gram, frechet_mean, identify
from sysbags.errors import ParameterError
from sysbags.evaluate.atlas import atlas, simulate_states

LABELS = np.array(list("bbbbaaa"))
WEIGHTS = (0.4, 2.0)


@pytest.fixture(scope="module")
def systems():
    return [make_system([ord(label), k % 2, k], order=2 + (k == 5)) for k, label in enumerate(LABELS)]


@pytest.fixture(scope="module")
def pages(systems):
    return atlas(systems, cross_gram(systems), LABELS, *WEIGHTS, frames=25, n_jobs=2)


def test_members_are_sorted_by_their_distance_to_the_mean(systems, pages):
    assert [page.label for page in pages] == ["a", "b"]
    for page in pages:
        rows = np.flatnonzero(page.label == LABELS)
        mean = frechet_mean([systems[k] for k in rows], *WEIGHTS)
        assert sorted(page.members) == rows.tolist()
        assert list(page.distances) == sorted(page.distances)
        for k, distance in zip(page.members, page.distances, strict=True):
            expected = alignment_distance(mean.system, systems[k], *WEIGHTS)
            assert distance == pytest.approx(expected, rel=1e-9)
        assert np.mean(page.distances) == pytest.approx(mean.objective, rel=1e-9)
        values = np.linalg.eigvals(mean.system.transition)
        np.testing.assert_allclose(sorted(np.abs(page.eigenvalues)), sorted(np.abs(values)), atol=1e-12)
        assert (np.diff(np.abs(page.eigenvalues)) <= 1e-9).all()


def test_histograms_are_those_of_the_mean_system(systems, pages):
    for page in pages:
        members = [systems[k] for k in np.flatnonzero(page.label == LABELS)]
        result = frechet_mean(members, *WEIGHTS)
        mean = result.system
        np.testing.assert_allclose(page.histogram, mean.samples.T @ mean.beta, atol=1e-12)
        # All streams here are of one length, so it is the average of all their rows.
        np.testing.assert_allclose(page.histogram, np.mean([m.samples.mean(axis=0) for m in members], axis=0))
        P = np.mean(
            [
                np.cov((m.states @ Q[: m.order]).T, bias=True)
                for m, Q in zip(members, result.rotations, strict=True)
            ],
            axis=0,
        )
        course = simulate_states(mean.transition, P, 25)
        rows = np.maximum((mean.beta + course @ mean.alpha.T) @ mean.samples, 0.0)
        np.testing.assert_allclose(page.dynamics, rows / rows.sum(axis=1, keepdims=True), atol=1e-9)


def test_rows_are_histograms_and_move(pages):
    for page in pages:
        assert page.dynamics.shape == (25, 8)
        np.testing.assert_allclose(page.dynamics.sum(axis=1), 1.0)
        assert page.histogram.sum() == pytest.approx(1.0)
        assert min(page.histogram.min(), page.dynamics.min()) >= 0.0
        assert page.dynamics.std(axis=0).max() > 1e-3


def test_a_class_of_one_is_its_member_and_swings_as_it_does():
    """The course of a single stream has the spread that the stream has, seen in its leading directions."""
    stream = make_stream(np.random.default_rng(3), frames=200)
    theta = identify(stream, order=2, kernel="linear")
    (page,) = atlas([theta], cross_gram([theta]), ["x"], *WEIGHTS, frames=4000)
    assert page.members == (0,)
    assert page.distances[0] == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(page.histogram, stream.mean(axis=0), atol=1e-12)
    spread = np.linalg.norm((theta.states @ theta.alpha.T @ stream).std(axis=0))
    # 4000 frames that hang together say the spread to about a tenth.
    assert np.linalg.norm(page.dynamics.std(axis=0)) == pytest.approx(spread, rel=0.15)


def test_the_basis_of_a_member_does_not_matter(systems):
    turned = [
        system.rotate(orthogonal(system.order, np.random.default_rng(k))) for k, system in enumerate(systems)
    ]
    first = atlas(systems, cross_gram(systems), LABELS, *WEIGHTS)
    second = atlas(turned, cross_gram(turned), LABELS, *WEIGHTS)
    for page, turned_page in zip(first, second, strict=True):
        np.testing.assert_allclose(page.histogram, turned_page.histogram, atol=1e-12)
        assert np.mean(page.distances) == pytest.approx(np.mean(turned_page.distances), abs=1e-6)


def test_courses_keep_the_covariance():
    rng = np.random.default_rng(0)
    A = 0.9 * orthogonal(3, rng)
    course = simulate_states(A, np.diag([2.0, 2.0, 2.0]), 20_000)
    # The states of about 2000 independent frames: their covariance is known to a few per cent.
    np.testing.assert_allclose(np.cov(course.T), np.diag([2.0, 2.0, 2.0]), atol=0.3)
    steps = course[1:] - course[:-1] @ A.T
    np.testing.assert_allclose(np.cov(steps.T), 0.19 * 2.0 * np.eye(3), atol=0.05)
    np.testing.assert_array_equal(
        course, simulate_states(A, np.diag([2.0, 2.0, 2.0]), 20_000, random_state=0)
    )
    assert (course != simulate_states(A, np.diag([2.0, 2.0, 2.0]), 20_000, random_state=1)).all()


@pytest.mark.parametrize("transition", [np.array([[0.0, 5.0], [0.0, 0.0]]), np.diag([1.5, 0.2])])
def test_a_covariance_that_the_transition_cannot_keep_is_kept_in_size(transition):
    course = simulate_states(transition, np.diag([1.0, 0.5]), 30_000)
    assert np.isfinite(course).all()
    if abs(transition[0, 0]) < 1.0:  # near the unit circle a course is too short to say
        assert np.trace(np.cov(course.T)) == pytest.approx(1.5, rel=0.1)


def test_a_resting_system_rests():
    assert not simulate_states(np.zeros((2, 2)), np.zeros((2, 2)), 5).any()


def test_means_have_no_states(systems):
    bare = frechet_mean(systems[:2]).system
    with pytest.raises(ParameterError, match="a system has no states, but an atlas needs them"):
        atlas([bare], cross_gram([bare]), ["x"], *WEIGHTS)
