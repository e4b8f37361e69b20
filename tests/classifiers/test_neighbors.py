"""The vote of the nearest neighbours, against a loop over them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import vote
from sysbags.classifiers.scores import NO_PREDICTION
from sysbags.classifiers.scores.neighbors import majority_vote


def by_definition(codes, counted):
    """Most votes, then the class whose first neighbour is nearest."""
    voters = [int(code) for code, counts in zip(codes, counted, strict=True) if counts]
    most = max(map(voters.count, voters), default=0)
    return next((code for code in voters if voters.count(code) == most), NO_PREDICTION)


@pytest.mark.parametrize("seed", range(20))
def test_majority_vote_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    rows, width, classes = rng.integers(1, 9, size=3)
    codes = rng.integers(0, classes, size=(rows, width))
    counted = rng.random((rows, width)) < rng.choice([0.1, 0.5, 0.9])
    assert majority_vote(codes, classes, counted).tolist() == list(map(by_definition, codes, counted))
    everyone = np.ones_like(counted)
    assert majority_vote(codes, classes).tolist() == list(map(by_definition, codes, everyone))
    distances = rng.integers(0, 4, size=(rows, width)).astype(float)  # with ties, which go to the first
    labels = rng.integers(0, classes, size=width)
    nearest = [sorted(range(width), key=row.__getitem__)[:3] for row in distances]
    expected = [by_definition(labels[row], np.ones(len(row))) for row in nearest]
    assert vote(distances, labels, classes, min(3, int(width))).tolist() == expected


def test_without_a_vote_there_is_no_prediction():
    assert majority_vote(np.zeros((2, 3), int), 2, np.zeros((2, 3), bool)).tolist() == [NO_PREDICTION] * 2
    assert majority_vote(np.zeros((0, 3), int), 2).tolist() == []
