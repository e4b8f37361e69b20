"""Groups that are left out at once: no source is split, classes and sizes are even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.errors import ParameterError
from sysbags.evaluate.splits import codebook_folds, describe, protocol_groups

# A few items of a few classes, each of one of a few sources; sources may straddle classes.
ITEMS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 11)), min_size=1, max_size=60)


def held(groups, codes):
    """Counts of each class in each group."""
    return np.array([np.bincount(codes[groups == g], minlength=codes.max() + 1) for g in np.unique(groups)])


def test_leave_one_out_makes_every_item_a_group():
    assert protocol_groups(list("aab"), "leave-one-out").tolist() == [0, 1, 2]
    assert protocol_groups(list("aab"), "leave-one-out", ["x", "x", "y"]).tolist() == [0, 1, 2]


def test_by_source_makes_every_source_a_group():
    assert protocol_groups(list("aabb"), "by-source", ["y", "x", "y", "z"]).tolist() == [1, 0, 1, 2]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.integers(2, 10), st.integers(0, 99))
def test_folds_of_items_are_as_even_as_can_be(labels, folds, seed):
    folds, codes = min(folds, len(labels)), np.array(labels)
    groups = protocol_groups(labels, "folds", folds=folds, random_state=seed)
    assert np.unique(groups).tolist() == list(range(folds))
    counts = held(groups, codes)
    assert np.ptp(counts.sum(axis=1)) <= 1
    assert np.ptp(counts, axis=0).max() <= 1


@settings(max_examples=100, deadline=None)
@given(ITEMS, st.integers(2, 10), st.integers(0, 99))
def test_no_source_straddles_folds(items, folds, seed):
    labels, sources = (np.array(column) for column in zip(*items, strict=True))
    folds = min(folds, len(np.unique(sources)))
    if folds < 2:
        with pytest.raises(ParameterError, match="that must not be split"):
            protocol_groups(labels, "folds", sources, folds=2)
        return
    groups = protocol_groups(labels, "folds", sources, folds=folds, random_state=seed)
    assert np.unique(groups).tolist() == list(range(folds))
    for source in np.unique(sources):
        assert len(np.unique(groups[sources == source])) == 1


@settings(max_examples=100, deadline=None)
@given(ITEMS, st.integers(0, 99))
def test_thirds_are_alike_and_split_no_group(items, seed):
    labels, groups = (np.array(column) for column in zip(*items, strict=True))
    if len(np.unique(groups)) < 3:
        with pytest.raises(ParameterError, match="3 parts need at least as many"):
            codebook_folds(labels, groups)
        return
    parts = codebook_folds(labels, groups, random_state=seed)
    assert np.unique(parts).tolist() == [0, 1, 2]
    for group in np.unique(groups):
        assert len(np.unique(parts[groups == group])) == 1
    # Greedy, large groups first: sizes differ by no more than two of the largest groups.
    assert np.ptp(np.bincount(parts)) <= 2 * np.bincount(groups).max()


def test_thirds_of_sources_spread_classes():
    """Many small sources: every class must be in every third in nearly equal shares."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(8), 12)
    sources = 100 * labels + rng.integers(0, 7, size=len(labels))
    counts = held(codebook_folds(labels, sources), labels)
    assert np.ptp(counts.sum(axis=1)) <= 3
    assert counts.min() >= 2


def test_the_seed_decides():
    labels = np.repeat(np.arange(4), 10)
    same = [protocol_groups(labels, "folds", random_state=3).tolist() for _ in range(2)]
    assert same[0] == same[1]
    assert same[0] != protocol_groups(labels, "folds", random_state=4).tolist()
    assert np.any(
        codebook_folds(labels, range(40), random_state=0) != codebook_folds(labels, range(40), random_state=1)
    )


def test_words_for_people():
    labels, sources = list("aabb"), list("xyzz")
    words = [
        describe(protocol, protocol_groups(labels, protocol, known_sources, folds=2), known_sources)
        for protocol, known_sources in [
            ("leave-one-out", None),
            ("folds", None),
            ("folds", sources),
            ("by-source", sources),
        ]
    ]
    assert words == [
        "one clip left out at a time (4 clips)",
        "2 folds",
        "2 folds, no source in two of them",
        "one source left out at a time (3 sources)",
    ]


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((list("ab"), "holdout"), {}, "protocol is 'holdout', but it must be one of 'leave-one-out'"),
        ((list("ab"), "by-source"), {}, "needs the source of each item"),
        ((list("ab"), "by-source", ["x"]), {}, "sources have shape (1,), but there must be one for each"),
        ((list("ab"), "folds"), {"folds": 1}, "folds is 1, but it must be a whole number of at least 2"),
        ((list("ab"), "folds"), {"folds": 3}, "there are 2 groups that must not be split, but 3 parts"),
        ((3, "folds"), {}, "labels have shape ()"),
        (([], "leave-one-out"), {}, "there are no labels"),
        ((["a"], "leave-one-out"), {}, "there is only one group of items"),
        ((list("ab"), "by-source", ["x", "x"]), {}, "there is only one group of items"),
    ],
)
def test_mistakes(arguments, options, sentence):
    with pytest.raises(ParameterError) as caught:
        protocol_groups(*arguments, **options)
    assert sentence in str(caught.value)
