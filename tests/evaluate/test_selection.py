"""Nested selection against loops that refit everything, and against what a tested group could tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import make_stream
from sysbags import cross_gram, identify
from sysbags.distances.pairwise import distance_matrix
from sysbags.errors import ParameterError
from sysbags.evaluate.candidates import Means, by_codebook_fold, medoids, neighbours, vectors
from sysbags.evaluate.nested import nested
from sysbags.evaluate.protocols import codebook_folds


def slow_nested(candidates, codes, groups):
    """The definition, one group after the other."""
    predictions, chosen, accuracies = np.empty(len(codes), int), [], []
    for group in np.unique(groups):
        tested = groups == group
        rates = [float(np.mean(candidate(group)[~tested] == codes[~tested])) for candidate in candidates]
        best = rates.index(max(rates))
        predictions[tested] = candidates[best](None)[tested]
        chosen.append(best)
        accuracies.append(rates)
    return predictions, chosen, accuracies


def remembered(seed, items):
    """A candidate that says anything."""

    def predict(group):
        key = 0 if group is None else int(group) + 1
        return np.random.default_rng([seed, key]).integers(0, 3, size=items)

    return predict


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 20), st.integers(1, 6))
def test_nested_is_the_loop(seed, items, count):
    rng = np.random.default_rng(seed)
    codes, groups = rng.integers(0, 3, size=items), 3 * rng.integers(0, 6, size=items)
    groups[0] = 99  # at least two groups, their numbers with gaps
    candidates = [remembered(seed + k, items) for k in range(count)]
    found = nested(candidates, codes, groups)
    predictions, chosen, accuracies = slow_nested(candidates, codes, groups)
    np.testing.assert_array_equal(found.predictions, predictions)
    assert found.chosen.tolist() == chosen
    np.testing.assert_allclose(found.accuracies, accuracies, rtol=1e-14)


def test_the_earlier_of_equals_is_taken():
    codes, groups = np.array([0, 0, 1, 1]), np.arange(4)
    right, wrong = lambda group: codes, lambda group: 1 - codes
    assert nested([wrong, right, right], codes, groups).chosen.tolist() == [1] * 4
    assert nested([right, right], codes, groups).chosen.tolist() == [0] * 4


def test_the_tested_group_does_not_choose():
    """A candidate that is right only where it must not count is chosen for the others, not for itself."""
    codes, groups = np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 1, 1, 2, 2])
    only_first = lambda group: np.where(groups == 0, codes, 1 - codes)  # noqa: E731
    only_last = lambda group: np.where(groups == 2, codes, 1 - codes)  # noqa: E731
    found = nested([only_first, only_last], codes, groups)
    assert found.chosen.tolist() == [1, 0, 0]
    assert not np.any(found.predictions == codes)


CODES = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2])
GROUPS = np.array([0, 0, 1, 2, 3, 2, 4, 5, 5, 6, 7, 7, 7, 8, 9])
THIRDS = codebook_folds(CODES, GROUPS)


def member(kind, seed, share=0.5):
    common = make_stream(np.random.default_rng(kind), frames=24)
    return share * common + (1 - share) * make_stream(np.random.default_rng([kind, seed]), frames=24)


STREAMS = [member(code, k) for k, code in enumerate(CODES)]


def described(streams, third):
    """What a codebook learnt without a third makes of all streams: here their means, seen from a centre."""
    points = np.array([stream.mean(axis=0) for stream in streams])
    return (points - points[third != THIRDS].mean(axis=0)) / points[third != THIRDS].std(axis=0)


def everything(streams, codes):
    """Candidates of every kind."""
    gram = cross_gram([identify(stream, order=2) for stream in streams])
    between = distance_matrix(gram, lambda_a=1.0)
    points = np.array([stream.mean(axis=0) for stream in streams])
    means = Means(gram, codes, GROUPS, 0.25)
    books = [vectors(described(streams, k), codes, GROUPS, "nearest centroid") for k in range(3)]
    return [
        neighbours(between, codes, GROUPS),
        neighbours(between, codes, GROUPS, 3),
        medoids(between, codes, GROUPS),
        means.at(0.0),
        means.at(10.0),
        vectors(points, codes, GROUPS, "1-NN", "chi2"),
        vectors(points, codes, GROUPS, "nearest centroid", "cosine"),
        by_codebook_fold(books, THIRDS, GROUPS),
    ]


@pytest.fixture(scope="module")
def honest():
    return nested(everything(STREAMS, CODES), CODES, GROUPS)


@pytest.mark.parametrize("group", [0, 2, 7, 9])
@pytest.mark.parametrize("what", ["data", "labels"])
def test_nothing_of_a_group_is_in_its_choice(honest, group, what):
    """Other clips, or other classes, in a group leave its choice and its inner accuracies as they are."""
    rows, streams, codes = np.flatnonzero(group == GROUPS), list(STREAMS), CODES.copy()
    if what == "data":
        for i in rows:
            streams[i] = make_stream(np.random.default_rng(900 + i), frames=24)
    else:
        codes[rows] = (codes[rows] + 1) % 3
    found = nested(everything(streams, codes), codes, GROUPS)
    assert found.chosen[group] == honest.chosen[group]
    np.testing.assert_array_equal(found.accuracies[group], honest.accuracies[group])
    # It does have a say in the others' choices, so the test would see it.
    assert np.any(found.accuracies != honest.accuracies)
    if what == "labels":
        np.testing.assert_array_equal(found.predictions[rows], honest.predictions[rows])


def test_every_kind_can_win_and_lose(honest):
    assert honest.accuracies.shape == (10, 8)
    assert len(np.unique(honest.accuracies[0])) > 2


def test_same_for_any_number_of_threads(honest):
    found = nested(everything(STREAMS, CODES), CODES, GROUPS, n_jobs=3)
    np.testing.assert_array_equal(found.predictions, honest.predictions)
    np.testing.assert_array_equal(found.accuracies, honest.accuracies)


def test_noise_is_at_chance():
    """Many candidates that know nothing: the best by hindsight looks good, the nested choice does not."""
    rng = np.random.default_rng(0)
    codes, groups = np.repeat([0, 1], 30), np.arange(60)
    tables = [rng.random((60, 60)) for _ in range(60)]
    candidates = [neighbours(table, codes, groups) for table in tables]
    hindsight = max(float(np.mean(candidate(None) == codes)) for candidate in candidates)
    found = float(np.mean(nested(candidates, codes, groups).predictions == codes))
    # 60 fair coins have a standard deviation of 6.5 points: one is fine for one choice, not the best of 60.
    assert hindsight > 0.6
    assert found < 0.565


def test_no_candidates():
    with pytest.raises(ParameterError, match="there are no candidates"):
        nested([], CODES, GROUPS)
