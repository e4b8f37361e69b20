"""Alignments of many pairs: bounds, and fewer steps where blocks are approximate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sysbags
from sysbags.classifiers.scores.neighbors import majority_vote
from sysbags.datasets import make_streams
from sysbags.distances import alignment_matrix as alignment_module
from sysbags.distances.alignment_matrix import alignment_bounds, alignment_matrix
from sysbags.errors import ParameterError


@pytest.mark.parametrize("lambda_a", [0.0, 0.05, 0.25, 4.0])
def test_alignments_of_an_approximate_gram_are_close(lambda_a):
    """Never below the full search but for round-off, and close: a few sweeps where observers dominate."""
    streams, _ = make_streams(classes=3, per_class=5, frames=40, bins=12)
    gram = sysbags.cross_gram([sysbags.identify(stream, order=4) for stream in streams])
    full = alignment_matrix(gram, lambda_a)
    quick = alignment_matrix(replace(gram, approximate=True), lambda_a)
    assert (quick >= full - 1e-9).all()
    assert (quick <= 1.05 * full + 1e-9).all()
    np.testing.assert_array_equal(quick, quick.T)
    if lambda_a == 4.0:  # transitions dominate: the same search
        np.testing.assert_array_equal(quick, full)


@pytest.mark.parametrize("normal_form", ["orthonormal", "unit-variance"])
def test_bounds_are_those_of_single_pairs(normal_form):
    streams, _ = make_streams(classes=2, per_class=3, frames=40, bins=8)
    systems = [sysbags.identify(s, order=3, normal_form=normal_form) for s in streams]
    bounds = alignment_bounds(sysbags.cross_gram(systems[:4], systems[4:]), 0.5, 2.0)
    expected = [
        [sysbags.align(first, second, 0.5, 2.0).lower_bound for second in systems[4:]]
        for first in systems[:4]
    ]
    np.testing.assert_allclose(bounds, expected, rtol=0, atol=1e-10)


# Cutoff and nearest -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spread_systems():
    streams, _ = make_streams(classes=3, per_class=7, frames=40, bins=12, random_state=4)
    return [sysbags.identify(stream, 3) for stream in streams]


@pytest.fixture
def aligned(monkeypatch):
    """How many pairs are aligned."""
    counts = []
    align = alignment_module._align

    def counted(gram, pairs, *others):
        counts.append(len(pairs))
        return align(gram, pairs, *others)

    monkeypatch.setattr(alignment_module, "_align", counted)
    return counts


def masked(distances, count, both):
    """The distances to the nearest alone, by sorting."""
    others = distances + np.diag(np.full(len(distances), np.inf)) if both else distances
    kept = others <= np.sort(others, axis=1)[:, count - 1 : count]
    return np.where((kept | kept.T) if both else kept, distances, np.inf)


@pytest.mark.parametrize("cutoff", [np.inf, 4.0])
def test_only_the_nearest(spread_systems, cutoff):
    gram = sysbags.cross_gram(spread_systems)
    expected = masked(alignment_matrix(gram, lambda_mu=1.0), 3, True)
    np.fill_diagonal(expected, 0.0)
    expected[expected > cutoff] = np.inf
    assert 21 < np.isfinite(expected).sum() < 21 * 12
    found = alignment_matrix(gram, lambda_mu=1.0, n_neighbors=3, cutoff=cutoff)
    np.testing.assert_array_equal(found, expected)
    gram = sysbags.cross_gram(spread_systems[:4], spread_systems[4:])
    expected = masked(alignment_matrix(gram), 2, False)
    np.testing.assert_array_equal(alignment_matrix(gram, n_neighbors=2), expected)
    np.testing.assert_array_equal(alignment_matrix(gram, n_neighbors=99), alignment_matrix(gram))


@pytest.mark.parametrize("metric", ["alignment", "martin"])
def test_a_cutoff(spread_systems, metric, tmp_path):
    every = sysbags.pairwise_distances(spread_systems, metric=metric)
    cutoff = float(np.median(every))
    expected = np.where(every > cutoff, np.inf, every)
    found = sysbags.pairwise_distances(spread_systems, metric=metric, cutoff=cutoff)
    np.testing.assert_array_equal(found, expected)
    out = sysbags.pairwise_distances(spread_systems, metric=metric, cutoff=cutoff, out=tmp_path / "d.npy")
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(ParameterError, match=r"^cutoff is nan, but it must be a squared distance"):
        sysbags.pairwise_distances(spread_systems, metric=metric, cutoff=np.nan)


def test_bounds_spare_alignments(spread_systems, aligned):
    gram = sysbags.cross_gram(spread_systems)
    count = len(spread_systems) * (len(spread_systems) - 1) // 2
    alignment_matrix(gram, lambda_mu=10.0)
    assert aligned == [count]
    aligned.clear()
    alignment_matrix(gram, lambda_mu=10.0, n_neighbors=1)
    assert 0 < sum(aligned) < 0.2 * count
    aligned.clear()
    sysbags.pairwise_distances(spread_systems, cutoff=0.0)
    assert sum(aligned) == 0


@pytest.mark.parametrize("embedding", [None, 60])
@pytest.mark.parametrize("count", [1, 3])
def test_a_classifier_aligns_what_may_be_near(spread_systems, aligned, count, embedding):
    """The neighbours and labels are those of all distances, and most pairs are not aligned."""
    known, asked = spread_systems[:12], spread_systems[12:]
    labels = np.arange(12) % 3
    model = sysbags.NearestSystem(count, lambda_mu=10.0, embedding=embedding).fit(known, labels)
    every = model._to_members([asked])
    aligned.clear()
    distances, nearest = model.kneighbors(asked)
    assert 0 < sum(aligned) < 0.6 * every.size
    expected = np.argsort(every, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(nearest, expected)
    np.testing.assert_array_equal(distances, np.take_along_axis(every, expected, axis=1))
    np.testing.assert_array_equal(model.predict(asked), majority_vote(labels[expected], 3))


@pytest.mark.parametrize("options", [{"metric": "martin"}, {"bag_weights": [0.0]}])
def test_neighbours_where_bounds_exclude_nothing(spread_systems, options):
    model = sysbags.NearestSystem(2, **options).fit(spread_systems[:12], np.arange(12) % 3)
    distances = model._to_members([spread_systems[12:]])
    expected = np.argsort(distances, axis=1, kind="stable")[:, :2]
    np.testing.assert_array_equal(model.kneighbors(spread_systems[12:])[1], expected)
