"""The classifier of streams in an evaluation: fitted without the clips that it predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from sysbags._common.types import Array, IntArray, PerBag
from sysbags.classifiers.base import Explanation
from sysbags.classifiers.registry import MOMENTS
from sysbags.classifiers.scores import NO_PREDICTION
from sysbags.classifiers.scores.committee import AVERAGES, COMBINATIONS, Member
from sysbags.classifiers.scores.folds import balanced_folds
from sysbags.classifiers.streams import StreamClassifier, compared, term_names
from sysbags.evaluate.candidates import AND
from sysbags.evaluate.methods import MethodSpec
from sysbags.evaluate.results import Confidence
from sysbags.evaluate.splits import EvaluationSet


def moments_method(
    name: str,
    names: Sequence[str],
    bags: Sequence[Sequence[Sequence[Array]]],
    items: EvaluationSet,
    kernel: str,
    combinations: Sequence[Sequence[str]] = COMBINATIONS,
) -> MethodSpec:
    """Return the row of the classifier of streams, fitted without the clips that it predicts.

    The streams of each bag are there once or once per codebook fold; `names` are those of the bags. Several
    groups may be left out together, in at most ten folds.
    """
    model = StreamClassifier(
        kernel, combinations=combinations, random_state=items.random_state, n_jobs=items.n_jobs
    )
    predictor = HeldOutStreams(names, bags, items, model)
    return MethodSpec(
        name=name,
        classifier=MOMENTS,
        kind="averages" if combinations == AVERAGES else "systems",
        candidates=lambda: [({}, predictor)],
        confidence=predictor.confidence,
        explanations=predictor.explanations,
        settings=predictor.settings,
    )


class HeldOut(NamedTuple):
    """What was found for clips that were left out: each array has a row for each item."""

    predictions: IntArray
    probabilities: Array
    p_values: Array
    smallest_alpha: float
    explanations: dict[int, Explanation]
    fits: list[tuple[list[Member], Array]]  # members and shares of terms of each fit


class HeldOutStreams:
    """The predictions of `StreamClassifier` for clips that were left out when it was fitted."""

    def __init__(
        self,
        names: Sequence[str],
        bags: Sequence[Sequence[Sequence[Array]]],
        items: EvaluationSet,
        model: StreamClassifier,
    ) -> None:
        self._names, self._bags, self._items, self._model = names, bags, items, model

    def predict(self, excluding: int | None = None) -> IntArray:
        """Return the class code of each item, see `Predictor`; nothing is chosen between several of these."""
        return self._found.predictions

    def confidence(self) -> Confidence | None:
        """Return probabilities and p-values by calibrations without the clips; None where there is none."""
        found, tested = self._found, self._items.tested
        if np.isnan(found.probabilities[tested]).any():
            return None
        classes = tuple(np.unique(self._items.labels).tolist())
        return Confidence(
            classes=classes,
            probabilities=found.probabilities[tested],
            p_values=found.p_values[tested],
            smallest_alpha=found.smallest_alpha,
        )

    def explanations(self) -> tuple[Explanation, ...] | None:
        """Return why each tested clip is predicted so; None where one of them is not predicted."""
        names, found = np.unique(self._items.labels).tolist(), self._found.explanations
        if not all(k in found for k in self._items.tested):
            return None

        def named(values: dict[int, float] | None) -> dict[str, float] | None:
            return None if values is None else {names[code]: value for code, value in values.items()}

        return tuple(
            replace(
                found[k],
                label=names[found[k].label],
                distances=named(found[k].distances) or {},
                probabilities=named(found[k].probabilities),
                p_values=named(found[k].p_values),
                scores=named(found[k].scores),
            )
            for k in self._items.tested.tolist()
        )

    def settings(self) -> dict[str, Any]:
        """Return the shares of terms, the mean of all fits, and how often their members have each setting."""
        fits = self._found.fits
        if not fits:
            return {}
        members = [member for some, _ in fits for member in some]
        names = term_names(self._names, len(self._bags))

        def counted(values: Iterable[str]) -> dict[str, int]:
            return dict(Counter(values).most_common())

        return {
            "components": self._model.components,
            "compared": compared(np.mean([shares for _, shares in fits], axis=0), self._names),
            "terms": counted(AND.join(np.compress(member.weights > 0.0, names)) for member in members),
            "width": counted(f"{member.width:g}" if member.width else "none" for member in members),
            "ridge": counted(f"{member.ridge:g}" for member in members),
        }

    @cached_property
    def _found(self) -> HeldOut:
        items, fits = self._items, list[tuple[list[Member], Array]]()
        codes, smallest, explanations = items.codes, 0.0, dict[int, Explanation]()
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
            fits.append((model.members_, model.shares_))
            found = model.explain(self._streams(tested, fold))
            explanations |= zip(tested.tolist(), found, strict=True)
            predictions[tested] = [one.label for one in found]
            if model.calibration_ is not None:
                places = np.ix_(tested, model.classes_)
                smallest = max(smallest, model.calibration_.smallest_alpha)
                probabilities[tested], p_values[tested] = 0.0, model.calibration_.smallest_alpha
                probabilities[places] = [list((one.probabilities or {}).values()) for one in found]
                p_values[places] = [list((one.p_values or {}).values()) for one in found]
        return HeldOut(predictions, probabilities, p_values, smallest, explanations, fits)

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
        return [PerBag((bag[k] for bag in bags), self._names) for k in indices]
