"""Official splits: each trial has a training and a test set, and is evaluated on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sysbags.classifiers.base import Explanation
from sysbags.datasets.folder import check_trial
from sysbags.distances.projection import EmbeddingLoss
from sysbags.errors import ParameterError
from sysbags.evaluate.methods import counts
from sysbags.evaluate.results import Confidence, Evaluation, Method
from sysbags.statistics.rates import mcnemar, rate


def check_trials(trials: Mapping[str, Sequence[str]] | None, count: int) -> dict[str, list[str]]:
    """Return the parts of each trial: "train", "test" or "" for each of `count` clips."""
    if trials is not None and not isinstance(trials, Mapping):
        raise ParameterError(
            f"trials is of type {type(trials).__name__}, but it must be a mapping from the name of a trial "
            'to "train" or "test" for each clip'
        )
    if not trials:
        raise ParameterError(
            'the protocol "predefined" needs trials: official splits, with "train" or "test" for each clip'
        )
    for name, parts in trials.items():
        if len(parts) != count:
            raise ParameterError(f"the trial {name!r} has {len(parts)} words, but there are {count} clips")
    places = [f"clip {k}" for k in range(count)]
    return {
        name: check_trial([str(part) for part in parts], f"the trial {name!r}", places, ParameterError)
        for name, parts in trials.items()
    }


def merge_trials(results: Mapping[str, Evaluation]) -> Evaluation:
    """Return one evaluation of all tested clips from those of each trial, by its name.

    A clip that is tested in several trials is there several times. Methods that could not be evaluated in
    all trials are left out.
    """
    evaluations = list(results.values())
    first = evaluations[0]
    clips = tuple(clip for evaluation in evaluations for clip in evaluation.clips)
    labels = np.array([clip.label for clip in clips])
    # Errors on one source, or on one clip in several trials, are alike.
    units = [clip.source or str(clip.path or clip.name) for clip in clips]
    # A clip that is tested several times counts once in McNemar's test.
    once = np.unique([str(clip.path or clip.name) for clip in clips], return_index=True)[1]
    classes = tuple(sorted({name for evaluation in evaluations for name in evaluation.classes}))
    methods: list[Method] = []
    for method in first.methods:
        rows = [
            row
            for evaluation in evaluations
            for row in evaluation.methods
            if (row.name, row.classifier) == (method.name, method.classifier)
        ]
        if len(rows) < len(evaluations):
            continue
        predictions = tuple(label for row in rows for label in row.predictions)
        right = np.array(predictions) == labels
        main_right = np.array(methods[0].predictions) == labels if methods else None
        names = dict.fromkeys(name for row in rows for name in row.settings)
        methods.append(
            replace(
                method,
                predictions=predictions,
                rate=rate(right, units),
                p_value=None if main_right is None else mcnemar(main_right[once], right[once]),
                seconds=sum(row.seconds for row in rows),
                settings={
                    name: _counted([row.settings[name] for row in rows if name in row.settings])
                    for name in names
                },
                trials={name: row.rate.share for name, row in zip(results, rows, strict=True)},
                make_confidence=partial(Confidence.stack, [row.confidence for row in rows], classes),
                make_explanations=partial(_joined, [row.explanations for row in rows]),
            )
        )
    sizes = ", ".join(f"{name}: {len(evaluation.clips)}" for name, evaluation in results.items())
    return replace(
        first,
        protocol=f"{len(results)} official trial{'s' if len(results) > 1 else ''} (clips tested: {sizes})",
        clips=clips,
        groups=tuple(k for k, evaluation in enumerate(evaluations) for _ in evaluation.clips),
        classes=classes,
        methods=tuple(methods),
        failures={path: error for evaluation in evaluations for path, error in evaluation.failures.items()},
        facts=dict(first.facts)
        | {"notes": list(dict.fromkeys(note for e in evaluations for note in e.facts["notes"]))}
        | _embedding_facts(evaluations),
    )


def _counted(values: Sequence[Any]) -> Any:
    """Return how often each of some settings was chosen; what was counted in each trial is added up."""
    if not all(isinstance(value, Mapping) for value in values):
        return counts(values)
    return dict(sum(map(Counter, values), Counter[str]()).most_common())


def _joined(parts: Sequence[tuple[Explanation, ...] | None]) -> tuple[Explanation, ...] | None:
    """Return the explanations of several lists of clips; None if one of them has none."""
    known = [part for part in parts if part is not None]
    return None if len(known) < len(parts) else tuple(one for part in known for one in part)


def _embedding_facts(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Return what embeddings lose, if there are any: the median of the trials, and the largest."""
    found = [evaluation.facts.get("embedding") for evaluation in evaluations]
    losses = [EmbeddingLoss(**loss) for loss in found if loss is not None]
    if not losses:
        return {}
    medians = [np.array([loss.median]) for loss in losses]
    merged = EmbeddingLoss.of([loss.landmarks for loss in losses], medians)
    return {"embedding": merged._replace(largest=max(loss.largest for loss in losses))._asdict()}
