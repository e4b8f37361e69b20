"""The classifier of streams in an evaluation: fitted without the clips that it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from sysbags._common.types import Array, IntArray
from sysbags.classifiers.registry import MOMENTS
from sysbags.classifiers.scores import NO_PREDICTION
from sysbags.classifiers.scores.committee import COMBINATIONS
from sysbags.classifiers.scores.folds import balanced_folds
from sysbags.classifiers.scores.ridge import log_shares
from sysbags.classifiers.streams import StreamClassifier
from sysbags.evaluate.methods import MethodSpec
from sysbags.evaluate.results import Confidence
from sysbags.evaluate.splits import EvaluationSet


def moments_method(
    name: str,
    bags: Sequence[Sequence[Sequence[Array]]],
    items: EvaluationSet,
    kernel: str,
    combinations: Sequence[Sequence[str]] = COMBINATIONS,
) -> MethodSpec:
    """Return the row of the classifier of streams, fitted without the clips that it predicts.

    The streams of each bag are there once or once per codebook fold. Several groups may be left out together,
    in at most ten folds.
    """
    model = StreamClassifier(
        kernel, combinations=combinations, random_state=items.random_state, n_jobs=items.n_jobs
    )
    predictor = HeldOutStreams(bags, items, model)
    return MethodSpec(
        name=name,
        classifier=MOMENTS,
        kind="systems" if combinations == COMBINATIONS else "comparator",
        candidates=lambda: [({}, predictor)],
        confidence=predictor.confidence,
    )


class HeldOutStreams:
    """The predictions of `StreamClassifier` for clips that were left out when it was fitted."""

    def __init__(
        self, bags: Sequence[Sequence[Sequence[Array]]], items: EvaluationSet, model: StreamClassifier
    ) -> None:
        self._bags, self._items, self._model = bags, items, model

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item, see `Predictor`; nothing is chosen between several of these."""
        return self._found[0]

    def confidence(self) -> Confidence | None:
        """Return probabilities and p-values by calibrations without the clips; None where there is none."""
        _, probabilities, p_values, smallest = self._found
        tested = self._items.tested
        if np.isnan(probabilities[tested]).any():
            return None
        classes = tuple(np.unique(self._items.labels).tolist())
        return Confidence(
            classes=classes,
            probabilities=probabilities[tested],
            p_values=p_values[tested],
            smallest_alpha=smallest,
        )

    @cached_property
    def _found(self) -> tuple[IntArray, Array, Array, float]:
        items = self._items
        codes, smallest = items.codes, 0.0
        predictions = np.full(len(codes), NO_PREDICTION)
        probabilities, p_values = np.full((2, len(codes), int(codes.max()) + 1), np.nan)
        for fold, inside in enumerate(self._folds()):
            training = np.flatnonzero(~inside)
            tested = np.flatnonzero(inside)
            if len(np.unique(codes[training])) < 2:
                continue
            model = clone(self._model)
            units = None if items.sources is None else items.sources[training]
            model.fit(self._streams(training, fold), codes[training], units)
            new = self._streams(tested, fold)
            compared = model.compare(new)
            predictions[tested] = model.classes_[compared.codes]
            if model.calibration_ is not None:
                scores = log_shares(compared.scores)
                places = np.ix_(tested, model.classes_)
                smallest = max(smallest, model.calibration_.smallest_alpha)
                probabilities[tested], p_values[tested] = 0.0, model.calibration_.smallest_alpha
                confidence = model.calibration_.confidence(scores, compared.distances)
                probabilities[places], p_values[places] = confidence
        return predictions, probabilities, p_values, smallest

    def _folds(self) -> list[npt.NDArray[np.bool_]]:
        """Return which items are predicted together."""
        items = self._items
        if items.test_group is not None:
            return [items.groups == items.test_group]
        folds = items.codebook_folds
        if all(len(versions) == 1 for versions in self._bags):
            folds = balanced_folds(items.codes, items.groups, items.random_state)
        assert folds is not None
        return [folds == fold for fold in np.unique(folds)]

    def _streams(self, indices: IntArray, fold: int) -> list[Any]:
        """Return the streams of some items, as they are described for a fold."""
        bags = [versions[fold % len(versions)] for versions in self._bags]
        if len(bags) == 1:
            return [bags[0][k] for k in indices]
        return [tuple(bag[k] for bag in bags) for k in indices]
