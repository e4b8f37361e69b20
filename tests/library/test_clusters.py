"""Clusters against brute force, against the distances to their centers, and against known classes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.datasets import make_streams
from sysbags.errors import ParameterError
from sysbags.library import Embedding, SystemIndex, k_means, k_medoids
from sysbags.library.clusters import k_medoids_of

# Weights with which classes are far apart, for the unit of each form.
WEIGHTS = {
    "orthonormal": {"lambda_a": 4.0, "lambda_mu": 1.0},
    "unit-variance": {"lambda_a": 0.05, "lambda_mu": 1.0},
}
# Embedded observers are rounded to float32, 24 bits, and have squared norms of at most 4 + 4 * 4.
FLOAT32 = 1e-5


def index_of(
    form="orthonormal", kernel="chi2", orders=(4,), seed=0, noise=0.2, landmarks=60, n_jobs=None, copies=1
):
    """Streams of four classes, and the classes."""
    streams, labels = make_streams(4, 8, frames=60, bins=16, noise=noise, random_state=seed)
    options = {"kernel": kernel, "normal_form": form}
    systems = [
        sysbags.identify(stream, orders[k % len(orders)], **options) for k, stream in enumerate(streams)
    ] * copies
    embedding = Embedding.fit(systems, landmarks)
    return SystemIndex(systems, embedding=embedding, n_jobs=n_jobs, **WEIGHTS[form]), np.tile(labels, copies)


def random_distances(rng, items):
    points = rng.standard_normal((items, 2))
    return ((points[:, None] - points) ** 2).sum(axis=2)


def cost(distances, medoids):
    return distances[:, medoids].min(axis=1).sum()


def alternated(distances, medoids):
    """Each medoid becomes that of its cluster, until nothing changes."""
    while True:
        labels = distances[:, medoids].argmin(axis=1)
        clusters = [np.flatnonzero(labels == k) for k in range(len(medoids))]
        better = [rows[distances[np.ix_(rows, rows)].sum(axis=0).argmin()] for rows in clusters]
        if cost(distances, better) >= cost(distances, medoids):
            return cost(distances, medoids)
        medoids = better


def same_partition(labels, others):
    return len(set(zip(labels.tolist(), others.tolist(), strict=True))) == len(set(others.tolist()))


@given(seed=st.integers(0, 10**6), items=st.integers(2, 25), share=st.floats(0.01, 1.0))
@settings(max_examples=50, deadline=None)
def test_no_swap_improves_medoids(seed, items, share):
    distances = random_distances(np.random.default_rng(seed), items)
    found = k_medoids_of(distances, 1 + int(share * (items - 1)), random_state=seed)
    medoids = found.medoids.tolist()
    assert found.converged
    assert medoids == sorted(set(medoids))
    np.testing.assert_array_equal(found.labels[medoids], np.arange(len(medoids)))
    own = distances[np.arange(items), found.medoids[found.labels]]
    np.testing.assert_array_equal(own, distances[:, medoids].min(axis=1))
    assert found.history[-1] == pytest.approx(own.sum())
    assert (np.diff(found.history) <= 0.0).all()
    swaps = [
        cost(distances, [*medoids[:k], item, *medoids[k + 1 :]])
        for k in range(len(medoids))
        for item in set(range(items)) - set(medoids)
    ]
    assert min(swaps, default=np.inf) >= own.sum() * (1.0 - 1e-9)


def test_medoids_are_no_worse_than_alternating_from_every_start():
    rng = np.random.default_rng(0)
    for _ in range(30):
        items, count = int(rng.integers(3, 9)), int(rng.integers(1, 4))
        distances = random_distances(rng, items)
        starts = combinations(range(items), min(count, items))
        best = min(alternated(distances, list(start)) for start in starts)
        assert k_medoids_of(distances, min(count, items)).history[-1] <= best * (1.0 + 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_medoids_of_separated_clusters_are_the_best_there_are(seed):
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.standard_normal((4, 2)) + 30.0 * k for k in range(3)])
    distances = ((points[:, None] - points) ** 2).sum(axis=2)
    best = min(cost(distances, list(medoids)) for medoids in combinations(range(12), 3))
    found = k_medoids_of(distances, 3, random_state=seed)
    np.testing.assert_array_equal(found.labels, np.repeat(np.arange(3), 4))
    assert found.history[-1] == pytest.approx(best)


def test_medoids_of_equal_items():
    found = k_medoids_of(np.zeros((5, 5)), 3)
    assert found.converged
    assert set(found.labels) == {0, 1, 2}


def test_one_iteration_may_be_too_few():
    distances = random_distances(np.random.default_rng(0), 40)
    found = k_medoids_of(distances, 6, max_iterations=1)
    assert len(found.history) == 2
    assert not found.converged


@pytest.mark.parametrize("kernel", ["chi2", "bhattacharyya"])
@pytest.mark.parametrize("cluster", [k_means, k_medoids])
def test_clusters_are_the_classes(cluster, kernel):
    index, classes = index_of("unit-variance", kernel)
    clusters = cluster(index, 4)
    assert clusters.converged
    assert same_partition(clusters.labels, classes)


@pytest.mark.parametrize("orders", [(4,), (2, 3, 4)])
@pytest.mark.parametrize(
    ("form", "kernel"),
    [("orthonormal", "chi2"), ("orthonormal", "linear"), ("unit-variance", "chi2")],
)
def test_means(form, kernel, orders):
    """Of noisy streams, so that systems change their clusters."""
    iterations = []
    for seed in range(3):
        index, _ = index_of(form, kernel, orders, seed, noise=1.0)
        clusters = k_means(index, 3, random_state=seed)
        assert clusters.converged
        assert clusters.medoids is None
        assert set(clusters.labels) == set(range(3))
        assert np.diff(clusters.history).max() <= FLOAT32
        assert clusters.history[-1] == clusters.objective == clusters.distances.sum()
        check_distances(index, clusters, form)
        check_centers(index, clusters, form, orders)
        iterations.append(len(clusters.history))
    assert max(iterations) > 1  # how often systems change depends on the last digits


def check_distances(index, clusters, form):
    """Centers are in the span of the landmarks, so that their distances have no error of the embedding."""
    between = sysbags.pairwise_distances(index.systems, clusters.centers, **WEIGHTS[form])
    own = between[np.arange(len(between)), clusters.labels]
    np.testing.assert_allclose(own, clusters.distances, rtol=0, atol=FLOAT32)
    np.testing.assert_allclose(own, between.min(axis=1), rtol=0, atol=2 * FLOAT32)
    assert own.sum() == pytest.approx(clusters.objective, abs=FLOAT32 * len(own))
    # In the embedding alignments make fewer steps.
    between = sysbags.pairwise_distances(
        index.systems, clusters.centers, embedding=index.embedding, **WEIGHTS[form]
    )
    own = between[np.arange(len(between)), clusters.labels]
    np.testing.assert_allclose(own, clusters.distances, rtol=0.05, atol=FLOAT32)


def check_centers(index, clusters, form, orders):
    """What they say of themselves is what their samples say."""
    for center in clusters.centers:
        assert center.order in orders
        assert center.normal_form == form
        if form == "orthonormal":
            np.testing.assert_allclose(center.observer_gram, np.eye(center.order), atol=FLOAT32)
        again = replace(center, _observer_gram=None, _mean_norm=None)
        np.testing.assert_allclose(again.observer_gram, center.observer_gram, atol=FLOAT32)
        assert again.mean_norm == pytest.approx(center.mean_norm, rel=FLOAT32)
        if index.embedding.landmarks is not None:
            np.testing.assert_array_equal(center.samples, index.embedding.landmarks)


@pytest.mark.parametrize("form", ["orthonormal", "unit-variance"])
def test_a_center_is_the_frechet_mean_of_its_cluster(form):
    """With an explicit feature map the span is everything; both are minima of the same objective."""
    index, _ = index_of(form, "bhattacharyya")
    clusters = k_means(index, 4)
    for k in range(4):
        members = np.flatnonzero(clusters.labels == k)
        mean = sysbags.frechet_mean([index.systems[i] for i in members], **WEIGHTS[form])
        # The two stop when an iteration gains 1e-6 and 1e-9 of the squared norms.
        assert clusters.distances[members].mean() == pytest.approx(mean.objective, rel=1e-3)


@pytest.mark.parametrize("form", ["orthonormal", "unit-variance"])
def test_medoids(form):
    index, _ = index_of(form, orders=(2, 3, 4))
    clusters = k_medoids(index, 4)
    assert clusters.centers == [index.systems[place] for place in clusters.medoids]
    between = sysbags.pairwise_distances(index.systems, embedding=index.embedding, **WEIGHTS[form])
    own = between[np.arange(len(between)), clusters.medoids[clusters.labels]]
    np.testing.assert_allclose(clusters.distances, own, rtol=0, atol=FLOAT32)
    np.testing.assert_array_equal(clusters.distances[clusters.medoids], 0.0)
    assert clusters.objective == pytest.approx(clusters.history[-1])
    # Between a system and an equal one the embedding has an error; to itself a medoid has the distance 0.
    to_centers = sysbags.pairwise_distances(
        index.systems, clusters.centers, embedding=index.embedding, **WEIGHTS[form]
    )
    others = np.setdiff1d(np.arange(len(between)), clusters.medoids)
    own = to_centers[others, clusters.labels[others]]
    np.testing.assert_allclose(clusters.distances[others], own, rtol=0, atol=FLOAT32)


def test_an_empty_cluster_gets_the_farthest_system():
    """Two of each of 32 systems: of 40 first centers, eight at least are equal to others, and get nothing."""
    index, _ = index_of(copies=2)
    clusters = k_means(index, 40)
    assert clusters.converged
    assert set(clusters.labels) == set(range(40))
    assert np.diff(clusters.history).max() <= FLOAT32
    check_distances(index, clusters, "orthonormal")


@pytest.mark.parametrize("cluster", [k_means, k_medoids])
def test_as_many_clusters_as_systems_and_one(cluster):
    index, _ = index_of()
    alone = cluster(index, 32)
    assert sorted(alone.labels) == list(range(32))
    one = cluster(index, 1)
    assert not one.labels.any()
    assert one.converged
    assert alone.objective < one.objective


@pytest.mark.parametrize(("cluster", "copies"), [(k_means, 9), (k_medoids, 3)])
def test_the_same_for_any_number_of_threads(cluster, copies):
    """There are several blocks of systems."""
    one, two = (cluster(index_of(orders=(3, 4), n_jobs=jobs, copies=copies)[0], 3) for jobs in (1, 2))
    for name in ("labels", "distances", "history"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for first, second in zip(one.centers, two.centers, strict=True):
        np.testing.assert_array_equal(first.transition, second.transition)
        np.testing.assert_array_equal(first.alpha, second.alpha)


@pytest.mark.parametrize("cluster", [k_means, k_medoids])
def test_mistakes(cluster):
    index, _ = index_of()
    for bad in (0, -1, 2.0, "two", True):
        with pytest.raises(ParameterError, match=r"^n_clusters is .*, but it must be a whole number"):
            cluster(index, bad)
    with pytest.raises(ParameterError, match="n_clusters is 33, but it must be at most the number of"):
        cluster(index, 33)
    with pytest.raises(ParameterError, match="index is of type list, but it must be a SystemIndex"):
        cluster(index.systems, 2)
    with pytest.raises(ParameterError, match="max_iterations is 0"):
        cluster(index, 2, max_iterations=0)


def test_mistakes_in_distances():
    with pytest.raises(ParameterError, match=r"shape \(2, 3\), but it must be a square"):
        k_medoids_of(np.zeros((2, 3)), 1)
    for bad in (np.eye(2), np.array([[0.0, -1.0], [1.0, 0.0]])):
        with pytest.raises(ParameterError, match="must be 0 or more, and 0 from each item to itself"):
            k_medoids_of(bad, 1)
