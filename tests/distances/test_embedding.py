"""Embeddings against the formula of Nystrom with a pseudo-inverse, exact kernels and the stated error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.datasets import make_streams
from sysbags.distances.embedding import embed, embedded_products, fit_embedding
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.kernels import kernel_matrix
from sysbags.kernels.embedding import pivoted_landmarks

# Rows are stored in float32: 24 bits of numbers of about 1, summed over fewer than a thousand columns.
FLOAT32 = {"rtol": 0, "atol": 1e-5}


def systems_of(kernel="chi2", bins=8, orders=(2, 3), **options):
    streams, _ = make_streams(classes=2, per_class=3, frames=20, bins=bins, **options)
    return [
        sysbags.identify(stream, orders[k % len(orders)], kernel=kernel) for k, stream in enumerate(streams)
    ]


def nystrom(first, second, landmarks, kernel):
    """``C_i' k(Y_i, L) k(L, L)^+ k(L, Y_j) C_j`` with the mean as a last column."""
    inverse = np.linalg.pinv(kernel_matrix(landmarks, kernel=kernel), rcond=1e-12)
    left, right = (
        np.column_stack([system.alpha, system.beta]).T @ kernel_matrix(system.samples, landmarks, kernel)
        for system in (first, second)
    )
    return left @ inverse @ right.T


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_blocks_are_those_of_nystrom(kernel):
    systems, others = systems_of(kernel), systems_of(kernel, random_state=1)
    embedding = fit_embedding(systems, size=7)
    assert len(embedding.landmarks_) == 7
    gram = sysbags.cross_gram(systems, others, embedding=embedding)
    for i, system in enumerate(systems):
        for j, other in enumerate(others):
            expected = nystrom(system, other, embedding.landmarks_, kernel)
            found = gram.observer[i, j, : system.order, : other.order]
            np.testing.assert_allclose(found, expected[:-1, :-1], **FLOAT32)
            assert gram.mean[i, j] == pytest.approx(expected[-1, -1], abs=1e-5)
            assert not gram.observer[i, j, system.order :].any()


@pytest.mark.parametrize("kernel", ["linear", "bhattacharyya"])
def test_explicit_kernels_are_exact(kernel):
    systems = systems_of(kernel)
    embedding = fit_embedding(systems, size=2)
    assert embedding.landmarks_ is None
    exact, found = (sysbags.cross_gram(systems, embedding=e) for e in (None, embedding))
    np.testing.assert_allclose(found.observer, exact.observer, **FLOAT32)
    np.testing.assert_allclose(found.mean, exact.mean, **FLOAT32)
    embedded = embed(embedding, systems)
    assert max(embedded.lost.max(), embedded.lost_of_mean.max()) < 1e-9


def test_all_frames_as_landmarks_lose_nothing():
    systems = systems_of()
    embedding = fit_embedding(systems, size=1000)
    embedded = embed(embedding, systems)
    # What is left of the kernel's trace is below 1e-9, and observers have lengths of about 1.
    assert max(embedded.lost.max(), embedded.lost_of_mean.max()) < 1e-6
    exact, found = (sysbags.cross_gram(systems, embedding=e).observer for e in (None, embedding))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4)
    exact, found = (sysbags.pairwise_distances(systems, embedding=e) for e in (None, embedding))
    np.testing.assert_allclose(found, exact, rtol=0.01, atol=0)  # fewer steps towards the best rotation


@given(st.integers(0, 1000), st.integers(1, 40))
@settings(max_examples=15, deadline=None)
def test_the_error_is_within_what_is_stated(seed, size):
    systems = systems_of(random_state=seed)
    embedding = fit_embedding(systems, size, random_state=seed)
    embedded = embed(embedding, systems)
    assert (embedded.lost >= 0.0).all()
    assert (embedded.lost <= 1.0).all()
    exact, found = (sysbags.cross_gram(systems, embedding=e) for e in (None, embedding))
    norms = np.sqrt([np.trace(system.observer_gram) for system in systems])
    bound = np.sqrt(np.outer(embedded.lost, embedded.lost)) * np.outer(norms, norms)
    error = np.linalg.norm(exact.observer - found.observer, axis=(2, 3))
    assert (error <= bound + 1e-5).all()
    of_mean = np.sqrt(
        np.outer(embedded.lost_of_mean, embedded.lost_of_mean)
        * np.outer(np.diag(exact.mean), np.diag(exact.mean))
    )
    assert (abs(exact.mean - found.mean) <= of_mean + 1e-5).all()


def test_more_landmarks_lose_less():
    systems = systems_of(bins=16)
    lost = [embed(fit_embedding(systems, size), systems).lost.mean() for size in (2, 10, 50)]
    assert lost[0] > lost[1] > lost[2]


@given(st.integers(0, 1000), st.integers(1, 30))
@settings(max_examples=25, deadline=None)
def test_the_factor_is_that_of_cholesky(seed, size):
    rng = np.random.default_rng(seed)
    candidates = rng.dirichlet(np.ones(5), size=20)
    candidates[10:] = candidates[:10]  # a histogram that is there twice is chosen once
    chosen, features, total = pivoted_landmarks(candidates, "chi2", size, rng)
    assert total == pytest.approx(20.0)
    assert len(chosen) == len({tuple(candidates[k]) for k in chosen}) <= min(size, 10)
    expected = np.linalg.cholesky(kernel_matrix(candidates[chosen]))
    np.testing.assert_allclose(features[chosen], expected, rtol=0, atol=1e-6)  # the least pivot is about 1e-5


def test_the_same_for_a_seed_and_for_any_number_of_threads():
    systems = systems_of()
    first, second = (fit_embedding(systems, 5, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.landmarks_, second.landmarks_)
    one, two = (sysbags.cross_gram(systems, embedding=first, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.observer, two.observer)


def test_a_kernel_of_the_callers():
    def kernel(first, second):
        return np.exp(-((first[:, None] - second) ** 2).sum(axis=2))

    systems = systems_of(kernel)
    gram = sysbags.cross_gram(systems, embedding=fit_embedding(systems, 1000))
    np.testing.assert_allclose(gram.observer, sysbags.cross_gram(systems).observer, rtol=0, atol=1e-4)


def test_mistakes():
    systems = systems_of()
    embedding = fit_embedding(systems, 3)
    with pytest.raises(ParameterError, match="size is 0"):
        fit_embedding(systems, 0)
    with pytest.raises(IncompatibleSystemsError, match="'chi2' and bags of 8 bins, but the systems have"):
        embed(embedding, systems_of("intersection"))
    with pytest.raises(IncompatibleSystemsError, match="and 5 bins"):
        embed(embedding, systems_of(bins=5))
    with pytest.raises(ParameterError, match=r"^embedding is StreamEmbedding\(\), but it must be a fitted"):
        embed(sysbags.StreamEmbedding(), systems)


def test_streams_give_the_same_landmarks_as_their_systems():
    streams, _ = make_streams(classes=2, per_class=3, frames=30, bins=8)
    systems = [sysbags.identify(stream, order=2) for stream in streams]
    first, second = sysbags.StreamEmbedding(size=20).fit(streams), fit_embedding(systems, size=20)
    np.testing.assert_array_equal(first.landmarks_, second.landmarks_)
    np.testing.assert_array_equal(first.factor_, second.factor_)


def test_products_are_restored_where_systems_agree():
    """Against loops over pairs; between near duplicates nearly the whole block is restored."""
    streams, _ = make_streams(classes=3, per_class=3, frames=40, bins=12)
    noise = np.random.default_rng(0).dirichlet(np.ones(12), size=40)
    streams.append(0.999 * streams[0] + 0.001 * noise)
    systems = [sysbags.identify(stream, order=3) for stream in streams]
    embedded = embed(fit_embedding(systems, size=15), systems)
    exact = sysbags.cross_gram(systems)
    rows, norms = embedded.observers.astype(np.float64), exact.rows.norms
    plain = embedded_products(rows, rows, norms, norms, restore=False)
    restored = embedded_products(rows, rows, norms, norms)
    np.testing.assert_allclose(plain, np.einsum("iad,jbd->ijab", rows, rows), rtol=0, atol=1e-12)
    for i in range(len(rows)):
        for j in range(len(rows)):
            for k, part in enumerate((slice(-1), slice(-1, None))):
                first, second = rows[i, part], rows[j, part]
                held = [np.trace(one @ one.T) for one in (first, second)]
                lost = [
                    max(norms[place, k] - square, 0.0) for place, square in zip((i, j), held, strict=True)
                ]
                sizes = [np.linalg.norm(one @ one.T) for one in (first, second)]
                agreement = np.linalg.norm(first @ second.T) ** 2 / (sizes[0] * sizes[1])
                factor = 1.0 + np.sqrt(lost[0] * lost[1] / (held[0] * held[1])) * agreement**4
                expected = factor * (first @ second.T)
                np.testing.assert_allclose(restored[i, j, part, part], expected, rtol=0, atol=1e-12)
    assert embedded.lost[0] > 0.05
    nuclear = [np.linalg.norm(block, "nuc") for block in (plain[0, 9, :-1, :-1], exact.observer[0, 9])]
    assert nuclear[0] < 0.95 * nuclear[1]
    assert np.linalg.norm(restored[0, 9, :-1, :-1], "nuc") == pytest.approx(nuclear[1], rel=0.01)


@pytest.mark.parametrize("metric", ["alignment", "martin"])
@pytest.mark.parametrize("between", [False, True])
def test_the_nearest_in_the_embedding_are_exact_and_no_others(metric, between):
    streams, _ = make_streams(classes=3, per_class=4, frames=30, bins=12)
    systems = [sysbags.identify(stream, order=2) for stream in streams]
    some, others = (systems[:5], systems[5:]) if between else (systems, None)
    embedding = fit_embedding(systems, size=4)
    exact, fast = (sysbags.pairwise_distances(some, others, metric, embedding=e) for e in (None, embedding))
    found = sysbags.pairwise_distances(some, others, metric, embedding=embedding, exact_nearest=2, n_jobs=2)
    expected = fast.copy()
    for i, row in enumerate(fast):
        for j in [j for j in np.argsort(row) if between or j != i][:2]:
            expected[i, j] = exact[i, j]
            if not between:
                expected[j, i] = exact[i, j]
    np.testing.assert_array_equal(found != fast, expected != fast)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)  # sums in another order
    every = sysbags.pairwise_distances(some, others, metric, embedding=embedding, exact_nearest=99)
    np.testing.assert_allclose(every, exact, rtol=0, atol=1e-12)


def test_exact_nearest_needs_memory(tmp_path):
    systems = systems_of()
    with pytest.raises(ParameterError, match=r"^exact_nearest needs all distances in memory, so out must"):
        sysbags.pairwise_distances(
            systems, embedding=fit_embedding(systems, 3), exact_nearest=1, out=tmp_path / "distances.npy"
        )
    with pytest.raises(ParameterError, match="exact_nearest is -1"):
        sysbags.pairwise_distances(systems, exact_nearest=-1)


def test_near_duplicates_are_near_in_an_embedding():
    streams, _ = make_streams(classes=3, per_class=3, frames=40, bins=12)
    noise = np.random.default_rng(0).dirichlet(np.ones(12), size=40)
    streams.append(0.999 * streams[0] + 0.001 * noise)
    systems = [sysbags.identify(stream, order=3) for stream in streams]
    embedding = fit_embedding(systems, size=15)
    distances = sysbags.pairwise_distances(systems, embedding=embedding)
    assert distances[0, 9] < 0.05 * np.median(distances[0, 1:9])
    assert distances[0].argsort()[1] == 9
