"""Search against a scan of all distances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sysbags
from sysbags.datasets import make_streams
from sysbags.distances.gram import SystemStack
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.library import SystemIndex, embed, fit_embedding


def systems_of(seed, per_class=12, kernel="chi2", normal_form="orthonormal", orders=(2, 3)):
    streams, _ = make_streams(classes=3, per_class=per_class, frames=20, bins=8, random_state=seed)
    options = {"kernel": kernel, "normal_form": normal_form}
    return [sysbags.identify(stream, orders[k % 2], **options) for k, stream in enumerate(streams)]


@given(
    seed=st.integers(0, 1000),
    size=st.integers(1, 60),
    k=st.integers(1, 8),
    lambda_a=st.sampled_from([0.0, 0.25, 4.0]),
    lambda_mu=st.sampled_from([0.0, 1.0, 30.0]),
    normal_form=st.sampled_from(["orthonormal", "unit-variance"]),
)
@settings(max_examples=30, deadline=None)
def test_exact_search_is_the_scan(seed, size, k, lambda_a, lambda_mu, normal_form):
    """Whatever the embedding loses; bounds are below the distances."""
    query, *systems = systems_of(seed, normal_form=normal_form)
    weights = {"lambda_a": lambda_a, "lambda_mu": lambda_mu}
    index = SystemIndex(systems, embedding=fit_embedding(systems, size, random_state=seed), **weights)
    scan = sysbags.pairwise_distances(systems, [query], **weights)[:, 0]
    found = index.search(query, k, exact=True)
    order = np.lexsort((np.arange(len(scan)), scan))[:k]
    np.testing.assert_array_equal(found.indices, order)
    np.testing.assert_allclose(found.distances, scan[order], rtol=0, atol=1e-12 * scan.max())
    bounds = index._safe_bounds(
        np.arange(len(systems)), SystemStack.of([query]), embed(index.embedding, [query])
    )
    assert (bounds <= scan).all()


def test_few_blocks_where_systems_differ():
    """Ten copies of a system with other noise among two hundred that are far away."""
    query, *others = systems_of(0, per_class=70)
    rng = np.random.default_rng(0)
    copies = [
        sysbags.identify(
            0.98 * query.samples + 0.02 * rng.dirichlet(np.ones(8), size=query.size), query.order
        )
        for _ in range(10)
    ]
    index = SystemIndex([*others, *copies], lambda_mu=30.0)
    expected = set(range(len(others), len(others) + 10))
    fast, exact = (index.search(query, 10, exact=exact) for exact in (False, True))
    assert set(fast.indices) == set(exact.indices) == expected
    assert fast.blocks == 20
    assert exact.blocks < len(index.systems) / 2


def test_an_embedding_that_loses_nothing_finds_the_same():
    query, *systems = systems_of(3, kernel="bhattacharyya")
    index = SystemIndex(systems)
    fast, exact = (index.search(query, 5, exact=exact) for exact in (False, True))
    np.testing.assert_array_equal(fast.indices, exact.indices)
    np.testing.assert_array_equal(fast.distances, exact.distances)


def test_how_an_index_is_shown():
    systems = systems_of(0, per_class=2)
    index = SystemIndex(systems, embedding=fit_embedding(systems, 5), lambda_mu=2.0)
    assert repr(index) == f"SystemIndex(systems={len(systems)}, landmarks=5, lambda_a=0.25, lambda_mu=2.0)"
    assert repr(index.embedding) == "StreamEmbedding(size=5)"
    assert "metric='martin', lambda_a" in repr(SystemIndex(systems, metric="martin"))


def test_more_than_there_are():
    query, *systems = systems_of(0, per_class=2)
    for exact in (False, True):
        found = SystemIndex(systems).search(query, 100, exact=exact)
        assert sorted(found.indices) == list(range(5))
        assert (np.diff(found.distances) >= 0.0).all()
        assert found.blocks == 5


def test_mistakes():
    query, *systems = systems_of(0, per_class=2)
    index = SystemIndex(systems)
    with pytest.raises(ParameterError, match="k is 0"):
        index.search(query, 0)
    with pytest.raises(IncompatibleSystemsError):
        index.search(systems_of(0, per_class=2, kernel="linear")[0])
    with pytest.raises(ParameterError, match="lambda_a is -1"):
        SystemIndex(systems, lambda_a=-1.0)
