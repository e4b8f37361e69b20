"""Parts of an evaluation against loops over align, frechet_mean and leave_one_out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers import make_stream
from sysbags import align, cross_gram, identify, pairwise_distances
from sysbags.distances.alignment_matrix import alignment_matrix, alignment_parts
from sysbags.distances.pairwise import classical_scaling
from sysbags.errors import ParameterError
from sysbags.evaluate import leave_one_out
from sysbags.evaluate.details import curves, relations
from sysbags.evaluate.methods import make_method
from sysbags.evaluate.results import Clip
from sysbags.evaluate.splits import EvaluationSet
from sysbags.statistics.rates import mcnemar, rate

LABELS = np.array(list("aaaabbbbccc"))
CODES = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
GROUPS = np.array([7, 7, 1, 2, 1, 3, 3, 4, 5, 5, 5])  # 1 straddles two classes, 5 is a whole class
WEIGHTS = (0.4, 2.0)
NAMES = ("transition", "observer", "mean")
MEAN_TOLERANCE = 1e-4  # a mean from another start ends in the same place only roughly


def member(kind, seed, share=0.9):
    common = make_stream(np.random.default_rng(kind), frames=40)
    return share * common + (1 - share) * np.random.default_rng([kind, seed]).dirichlet(np.ones(8), size=40)


@pytest.fixture(scope="module")
def systems():
    return [identify(member(ord(x), k), order=2 if k == 3 else 3) for k, x in enumerate(LABELS)]


@pytest.fixture(scope="module")
def gram(systems):
    return cross_gram(systems)


@pytest.fixture(scope="module")
def result(gram):
    return relations(gram, *WEIGHTS, neighbours=4, n_jobs=2)


def test_distances_and_neighbours(systems, result):
    expected = pairwise_distances(systems, lambda_a=WEIGHTS[0], lambda_mu=WEIGHTS[1])
    np.testing.assert_array_equal(result.distances, expected)
    for i, nearest in enumerate(result.neighbours):
        others = sorted((j for j in range(len(systems)) if j != i), key=lambda j: expected[i, j])
        assert nearest.tolist() == others[:4]


def test_neighbour_parts_sum_to_the_distances_and_are_those_of_align(systems, result):
    sums = np.take_along_axis(result.distances, result.neighbours, axis=1)
    np.testing.assert_allclose(result.neighbour_parts.sum(axis=2), sums, rtol=1e-10, atol=1e-12)
    for i, nearest in enumerate(result.neighbours):
        for k, j in enumerate(nearest):
            parts = align(systems[min(i, j)], systems[max(i, j)], *WEIGHTS).parts
            # The maximum is flat, so that the split is known to the root of the value's precision.
            expected = [parts[name] for name in NAMES]
            np.testing.assert_allclose(result.neighbour_parts[i, k], expected, rtol=1e-5, atol=1e-7)


def test_threads_change_nothing(gram, result):
    again = relations(gram, *WEIGHTS, neighbours=4)
    np.testing.assert_array_equal(result.neighbour_parts, again.neighbour_parts)


def test_few_clips_have_few_neighbours(gram):
    few = relations(gram.subset(range(3)), 0.25, 0.0)
    assert few.neighbours.shape == (3, 2)
    assert few.neighbour_parts.shape == (3, 2, 3)


def test_parts_between_two_collections(systems):
    between = cross_gram(systems[:3], systems[3:6])
    pairs = np.array([[0, 0], [2, 1], [1, 2]])
    parts = alignment_parts(between, pairs, *WEIGHTS)
    table = alignment_matrix(between, *WEIGHTS)
    np.testing.assert_allclose(parts.sum(axis=1), table[tuple(pairs.T)], rtol=1e-10)
    for (i, j), split in zip(pairs, parts, strict=True):
        expected = align(systems[i], systems[3 + j], *WEIGHTS)
        assert split.sum() == pytest.approx(expected.distance, rel=1e-10)


def test_scaling_finds_a_plane_again():
    points = np.random.default_rng(0).normal(size=(7, 2)) * [3.0, 1.0]
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    embedding = classical_scaling(squared)
    np.testing.assert_allclose(((embedding[:, None] - embedding) ** 2).sum(axis=2), squared, atol=1e-10)
    np.testing.assert_allclose(embedding.mean(axis=0), 0.0, atol=1e-12)
    assert (np.abs(embedding).max(axis=0) == embedding.max(axis=0)).all()


def test_scaling_of_distances_that_no_points_have():
    """Of a star, whose ends are farther apart than any points could be, the negative part is left out."""
    star = np.full((4, 4), 4.0)
    star[0, :] = star[:, 0] = 0.9
    np.fill_diagonal(star, 0.0)
    assert np.isfinite(classical_scaling(star)).all()
    assert classical_scaling(np.zeros((1, 1))).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_curves_are_loops_over_one_weight(gram, groups):
    grid_a, grid_mu = (0.0, 0.25, 2.0), (0.0, 30.0)
    result = curves(
        gram,
        LABELS,
        groups,
        lambda_a=0.5,
        lambda_mu=1.0,
        grid_a=grid_a,
        grid_mu=grid_mu,
        classifiers=("nearest-system", "nearest-mean"),
    )
    assert [(c.weight, c.classifier, c.fixed) for c in result] == [
        ("lambda_a", "nearest-system", 1.0),
        ("lambda_mu", "nearest-system", 0.5),
        ("lambda_a", "nearest-mean", 1.0),
        ("lambda_mu", "nearest-mean", 0.5),
    ]
    for curve in result:
        kind = curve.classifier
        fixed_weight = "lambda_mu" if curve.weight == "lambda_a" else "lambda_a"
        for value, accuracy in zip(curve.values, curve.accuracies, strict=True):
            weights = {curve.weight: value, fixed_weight: curve.fixed}
            assert accuracy == leave_one_out(gram, LABELS, groups=groups, classifier=kind, **weights).accuracy
    assert result[0].values == grid_a
    assert result[1].values == grid_mu


def test_the_papers_grids(gram):
    first, second = curves(gram, LABELS, None)
    assert first.values == (0.15, 0.35, 0.55, 0.75, 0.95, 1.15, 1.35, 1.55, 1.75, 1.95)
    assert second.values == tuple(range(0, 101, 10))
    with pytest.raises(ParameterError, match="classifier is 'nearest'"):
        curves(gram, LABELS, None, classifiers=("nearest",))


def evaluation_set(labels, sources):
    clips = tuple(
        Clip(str(k), Path(str(k)), label, source)
        for k, (label, source) in enumerate(zip(labels, sources, strict=True))
    )
    return EvaluationSet(clips=clips, groups=np.arange(len(labels)), codebook_folds=None, protocol="some")


def test_a_method_has_its_rate_and_its_test():
    items = evaluation_set("aaabbb", "xxyyzz")
    main = np.array([True, True, True, True, False, False])
    method = make_method("x", "1-NN", "comparator", np.array(list("aabbba")), items, main, 1.5, {"order": 3})
    right = np.array([True, True, False, True, True, False])
    assert method.rate == rate(right, np.array([0, 0, 1, 1, 2, 2]))
    assert method.p_value == mcnemar(main, right)
    assert (method.predictions, method.seconds, method.settings) == (tuple("aabbba"), 1.5, {"order": 3})
    plain = evaluation_set("aaabbb", [None, *"xyyzz"])  # one source is not known
    again = make_method("x", "nearest-system", "systems", np.array(list("aabbba")), plain)
    assert again.rate == rate(right, None)
    assert (again.p_value, again.settings) == (None, {})


def test_a_method_of_a_trial_is_of_its_test_set():
    items = replace(evaluation_set("aaabbb", "xxyyzz"), groups=np.array([0, 1, 2, 0, 2, 2]), test_group=2)
    main = np.array([True, False, False])
    method = make_method("x", "nearest-system", "systems", np.array(list("bbabbb")), items, main)
    right = np.array([True, True, True])
    assert method.predictions == tuple("abb")
    assert method.rate == rate(right, np.array([1, 2, 2]))
    assert method.p_value == mcnemar(main, right)
