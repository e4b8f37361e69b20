"""Clips and protocols of cross-validation: the group that each item is left out with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels, seed_of
from sysbags.classifiers.scores import Predictor, ScorePredictor, TrainingSet
from sysbags.classifiers.scores.folds import spread
from sysbags.errors import ParameterError
from sysbags.evaluate.results import Clip
from sysbags.evaluate.selection import CodebookFolds

PROTOCOLS = ("leave-one-out", "folds", "by-source", "predefined")


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluationSet:
    """Clips, what is left out together, and how to compute."""

    clips: tuple[Clip, ...]
    groups: IntArray  # see `protocol_groups`
    codebook_folds: IntArray | None  # see the function of this name; None where there are too few groups
    protocol: str  # in words
    random_state: int = 0
    n_jobs: int | None = None
    test_group: int | None = None  # an official test set, the only group that is predicted; by default all

    @cached_property
    def tested(self) -> IntArray:
        """The indices of the clips that are predicted."""
        every = np.arange(len(self.clips))
        return every if self.test_group is None else every[self.groups == self.test_group]

    @cached_property
    def training(self) -> IntArray:
        """The indices of the clips that units are taken from: all, but for those of an official test set."""
        every = np.arange(len(self.clips))
        return every if self.test_group is None else every[self.groups != self.test_group]

    @cached_property
    def labels(self) -> npt.NDArray[Any]:
        """The class of each clip."""
        return np.array([clip.label for clip in self.clips])

    @cached_property
    def codes(self) -> IntArray:
        """The number of each clip's class, in sorted order."""
        return check_labels(self.labels, len(self.clips))[1]

    @cached_property
    def sources(self) -> IntArray | None:
        """The number of each clip's source, where all are known: errors within a source are alike."""
        sources = [clip.source for clip in self.clips]
        return None if None in sources else check_labels(sources, len(sources))[1]

    def training_set(
        self, make_squared: Callable[[], Array], make_centers: Callable[[], ScorePredictor] | None = None
    ) -> TrainingSet:
        """Return what the candidates of a classifier are made from."""
        return TrainingSet(
            codes=self.codes,
            groups=self.groups,
            training=self.training,
            make_squared=make_squared,
            make_centers=make_centers,
        )

    def combine(self, predictors: Sequence[Predictor]) -> Predictor:
        """Return one predictor for one description, or for one description per codebook fold."""
        if len(predictors) == 1:
            return predictors[0]
        assert self.codebook_folds is not None
        return CodebookFolds(predictors, self.codebook_folds, self.groups)


def protocol_groups(
    labels: npt.ArrayLike,
    protocol: str,
    sources: npt.ArrayLike | None = None,
    *,
    folds: int = 10,
    random_state: int | np.random.Generator | None = 0,
) -> IntArray:
    """Return the index of the group that each item is left out with.

    "leave-one-out" has one group per item, "folds" stratified groups of about equal size that divide no
    source, and "by-source" one group per source. For "predefined" see `trial_groups`.

    Examples
    --------
    >>> protocol_groups(list("aabb"), "leave-one-out")
    array([0, 1, 2, 3])
    >>> protocol_groups(list("aabb"), "by-source", ["sea", "lake", "lake", "brook"])
    array([2, 1, 1, 0])
    >>> protocol_groups(list("aaaabbbb"), "folds", folds=4).tolist()
    [2, 3, 0, 1, 0, 2, 1, 3]
    """
    check_choice(protocol, "protocol", PROTOCOLS[:-1])
    codes = _codes(labels)
    units = np.arange(len(codes))
    if protocol == "leave-one-out":
        return _check_several(units)
    if sources is not None:
        _, units = check_labels(sources, len(codes), "sources")
    elif protocol == "by-source":
        raise ParameterError('the protocol "by-source" needs the source of each item, but there are none')
    if protocol == "by-source":
        return _check_several(units)
    return spread(codes, units, check_integer(folds, "folds", 2), seed_of(random_state))


def trial_groups(
    labels: npt.ArrayLike,
    parts: Sequence[str],
    sources: npt.ArrayLike | None = None,
    *,
    folds: int = 10,
    random_state: int | np.random.Generator | None = 0,
) -> IntArray:
    """Return the index of the group of each item of a trial, an official split.

    The test set is the last group. The training set is divided into folds, by which settings are chosen; they
    divide no source, and are fewer if the training set has not so many items or sources.

    Examples
    --------
    >>> trial_groups(list("aaabbb"), ["train", "train", "test"] * 2, folds=2)
    array([0, 1, 2, 0, 1, 2])
    """
    codes = _codes(labels)
    training = np.flatnonzero(np.asarray(parts) == "train")
    if not 0 < len(training) < len(codes):
        raise ParameterError("a trial needs at least one item in the training set and one in the test set")
    units = np.arange(len(codes)) if sources is None else check_labels(sources, len(codes), "sources")[1]
    training_units = np.unique(units[training], return_inverse=True)[1]
    count = min(check_integer(folds, "folds", 2), int(training_units.max()) + 1)
    groups = np.full(len(codes), count)
    groups[training] = spread(codes[training], training_units, count, seed_of(random_state))
    return groups


def describe(protocol: str, groups: IntArray, sources: npt.ArrayLike | None = None) -> str:
    """Describe what is left out at a time.

    Examples
    --------
    >>> describe("by-source", np.array([0, 0, 1, 2]), list("aabc"))
    'one source left out at a time (3 sources)'
    >>> describe("folds", np.array([0, 0, 1, 1]))
    '2 folds'
    """
    count = len(np.unique(groups))
    if check_choice(protocol, "protocol", PROTOCOLS) == "predefined":
        return "an official split"
    if protocol == "leave-one-out":
        return f"one clip left out at a time ({count} clips)"
    if protocol == "by-source":
        return f"one source left out at a time ({count} sources)"
    return f"{count} folds" if sources is None else f"{count} folds, no source in two of them"


def codebook_folds(
    labels: npt.ArrayLike,
    groups: npt.ArrayLike,
    test_group: int | None = None,
    *,
    random_state: int | np.random.Generator | None = 0,
) -> IntArray:
    """Divide the items into three stratified folds; the codebook of a fold is learnt from the other two.

    The folds have about equal size, and no group is divided between folds. The test set of a trial,
    `test_group`, is fold 0, and the training set is divided in two.

    Examples
    --------
    >>> codebook_folds(list("aaabbb"), range(6)).tolist()
    [1, 2, 0, 0, 2, 1]
    """
    codes = _codes(labels)
    _, units = check_labels(groups, len(codes), "groups")
    if test_group is None:
        return spread(codes, units, 3, seed_of(random_state))
    training = np.asarray(groups) != test_group
    training_units = np.unique(units[training], return_inverse=True)[1]
    folds = np.zeros(len(codes), dtype=np.int64)
    folds[training] = 1 + spread(codes[training], training_units, 2, seed_of(random_state))
    return folds


def _codes(labels: Any) -> IntArray:
    """Return the class index of each item."""
    items = len(labels) if hasattr(labels, "__len__") else 0
    _, codes = check_labels(labels, items)
    if not items:
        raise ParameterError("there are no labels, but there must be one for each item")
    return codes


def _check_several(groups: IntArray) -> IntArray:
    if groups.max() == 0:
        raise ParameterError("there is only one group of items, but leaving it out leaves nothing")
    return groups
