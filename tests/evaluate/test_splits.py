"""Groups that are left out at once: no source is split, classes and sizes are even."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.errors import ParameterError
from sysbags.evaluate.results import Clip
from sysbags.evaluate.splits import EvaluationSet, codebook_folds, describe, protocol_groups, trial_groups

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


PARTS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 11), st.sampled_from(["train", "test"])),
    min_size=2,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(PARTS, st.integers(2, 10), st.integers(0, 99), st.booleans())
def test_a_trial_is_folds_of_its_training_set_and_one_test_set(items, folds, seed, by_source):
    """Classes that only the test set has are among them."""
    labels, sources, parts = (np.array(column) for column in zip(*items, strict=True))
    options = {"sources": sources if by_source else None, "folds": folds, "random_state": seed}
    training = parts == "train"
    if training.all() or not training.any():
        with pytest.raises(ParameterError, match="at least one item in the training set and one in the test"):
            trial_groups(labels, parts, **options)
        return
    groups = trial_groups(labels, parts, **options)
    units = sources if by_source else np.arange(len(labels))
    count = min(folds, len(np.unique(units[training])))
    assert np.unique(groups[training]).tolist() == list(range(count))
    assert (groups[~training] == count).all()
    for unit in np.unique(units):
        assert len(np.unique(groups[training & (units == unit)])) <= 1
    if not by_source:
        counts = held(groups[training], labels[training])
        assert np.ptp(counts.sum(axis=1)) <= 1
        assert np.ptp(counts, axis=0).max() <= 1
    if count < 2:  # a codebook that has not seen a training clip needs another one
        with pytest.raises(ParameterError, match="2 parts need at least as many"):
            codebook_folds(labels, groups, count)
        return
    thirds = codebook_folds(labels, groups, count, random_state=seed)
    assert (thirds[~training] == 0).all()
    assert np.unique(thirds[training]).tolist() == [1, 2]
    for group in range(count):
        assert len(np.unique(thirds[groups == group])) == 1


@settings(max_examples=50, deadline=None)
@given(PARTS, st.integers(0, 99))
def test_the_test_set_has_no_say_in_the_folds_of_a_trial(items, seed):
    labels, sources, parts = (np.array(column) for column in zip(*items, strict=True))
    training = parts == "train"
    if training.all() or len(np.unique(sources[training])) < 2:
        return
    groups = trial_groups(labels, parts, sources, random_state=seed)
    other_labels, other_sources = labels.copy(), sources.copy()
    other_labels[~training] = np.random.default_rng(seed).integers(-3, 9, size=(~training).sum())
    other_sources[~training] = 99
    again = trial_groups(other_labels, parts, other_sources, random_state=seed)
    np.testing.assert_array_equal(again, groups)
    thirds = [codebook_folds(known, groups, groups.max()) for known in (labels, other_labels)]
    np.testing.assert_array_equal(*thirds)
    alone = trial_groups(
        [*labels[training], 0], [*parts[training], "test"], [*sources[training], 99], random_state=seed
    )
    np.testing.assert_array_equal(alone[:-1], groups[training])


def test_what_is_tested_and_what_is_learnt_from():
    clips = tuple(Clip(str(k), None, label) for k, label in enumerate("abab"))
    common = {"clips": clips, "groups": np.array([0, 2, 1, 2]), "codebook_folds": None, "protocol": "some"}
    items = EvaluationSet(**common)
    assert items.tested.tolist() == items.training.tolist() == [0, 1, 2, 3]
    trial = EvaluationSet(**common, test_group=2)
    assert (trial.tested.tolist(), trial.training.tolist()) == ([1, 3], [0, 2])
    assert trial.codes.tolist() == items.codes.tolist() == [0, 1, 0, 1]


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
    assert describe("predefined", np.array([0, 1, 2])) == "an official split"


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        ((list("ab"), "holdout"), {}, "protocol is 'holdout', but it must be one of 'leave-one-out'"),
        ((list("ab"), "by-source"), {}, "needs the source of each item"),
        ((list("ab"), "by-source", ["x"]), {}, "sources have shape (1,), but there must be one for each"),
        ((list("ab"), "folds"), {"folds": 1}, "folds is 1, but it must be a whole number of at least 2"),
        ((list("ab"), "folds"), {"folds": 3}, "there are 2 groups that must not be split, but 3 parts"),
        ((list("ab"), "predefined"), {}, "protocol is 'predefined', but it must be one of 'leave-one-out'"),
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
