"""Confidence of cross-validated predictions: each group's is calibrated by the other groups alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import IntArray
from sysbags.classifiers.calibration import Calibration
from sysbags.errors import ParameterError
from sysbags.evaluate.predictors import ScorePredictor
from sysbags.evaluate.splits import EvaluationSet
from sysbags.report.results import Confidence

__all__ = ["nested_confidence"]


def nested_confidence(
    predictors: Sequence[ScorePredictor], chosen: IntArray, items: EvaluationSet
) -> Confidence | None:
    """Probabilities and p-values of every item that is tested, by a calibration that has not seen its group.

    For a group that is left out, the calibration items are all others, with their scores without that group
    and their own: what a classifier that is fitted without the group could know. So probabilities and sets
    are as honest as the predictions of `sysbags.evaluate.selection.nested_predictions`. The units of the
    calibration are sources, or items where there are none.

    Parameters
    ----------
    predictors : sequence of ScorePredictor
    chosen : (G,) array of int
        Which of them each group that is tested is predicted with, in ascending order of the groups.
    items : EvaluationSet

    Returns
    -------
    Confidence or None
        None if for some group nothing is left to calibrate with.

    Examples
    --------
    >>> from sysbags.evaluate.predictors import NearestNeighbors
    >>> from sysbags.report.results import Clip
    >>> points, codes = np.array([0.0, 1.0, 2.0, 6.0, 7.0, 8.0]), np.array([0, 0, 0, 1, 1, 1])
    >>> clips = tuple(Clip(f"{k}", None, "ab"[code]) for k, code in enumerate(codes))
    >>> items = EvaluationSet(clips=clips, groups=np.arange(6), codebook_folds=None, protocol="")
    >>> nearest = NearestNeighbors((points[:, None] - points) ** 2, items.codes, items.groups)
    >>> found = nested_confidence([nearest], np.zeros(6, dtype=int), items)
    >>> found.probabilities.argmax(axis=1), found.p_values.shape
    (array([0, 0, 0, 1, 1, 1]), (6, 2))
    """
    codes, groups = items.codes, items.groups
    units = np.arange(len(codes)) if items.sources is None else items.sources
    names = np.unique(groups) if items.test_group is None else np.array([items.test_group])
    known = {int(k): (predictors[k].scores(), predictors[k].distances()) for k in np.unique(chosen)}
    probabilities, p_values = np.empty((2, len(codes), int(codes.max()) + 1))

    def fill(task: tuple[int, int]) -> float:
        group, k = task
        others, own = groups != group, groups == group
        scores, distances = predictors[k].scores(group), predictors[k].distances(group)
        calibration = Calibration.fit(scores[others], distances[others], codes[others], units[others])
        scores, distances = known[k][0][own], known[k][1][own]
        probabilities[own] = calibration.probabilities(scores)
        p_values[own] = calibration.p_values(scores, distances)
        return calibration.smallest_alpha

    try:
        tasks = list(zip(names.tolist(), chosen.tolist(), strict=True))
        smallest = max(run(fill, tasks, items.n_jobs, "calibration"))
    except ParameterError:
        return None
    return Confidence(
        classes=tuple(np.unique(items.labels).tolist()),
        probabilities=probabilities[items.tested],
        p_values=p_values[items.tested],
        smallest_alpha=smallest,
    )
