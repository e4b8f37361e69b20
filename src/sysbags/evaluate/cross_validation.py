"""Leave-one-out accuracies of distances and means, and the setting that is chosen by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels, check_weight
from sysbags.classifiers.registry import DISTANCE_CLASSIFIERS
from sysbags.distances.gram import CrossGram
from sysbags.distances.registry import METRICS
from sysbags.errors import ParameterError
from sysbags.evaluate.alternatives import Systems, SystemSet, matching_grids, neighbour_alternatives
from sysbags.evaluate.predictors import DistancePredictor
from sysbags.evaluate.selection import choose
from sysbags.evaluate.splits import EvaluationSet
from sysbags.evaluate.system_predictors import metric_predictors
from sysbags.report.results import Clip, LeaveOneOut
from sysbags.systems.system import System

__all__ = ["Choice", "LeaveOneOut", "choose_settings", "leave_one_out"]

# What the predictors call the classifiers.
SYSTEM_CLASSIFIER = {name: entry.predictor for name, entry in DISTANCE_CLASSIFIERS.items()}


def leave_one_out(
    gram: CrossGram,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    classifier: str = "nearest-mean",
    metric: str = "alignment",
    lambda_a: float = 0.25,
    lambda_mu: float = 0.0,
    n_neighbors: int = 1,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> LeaveOneOut:
    """Classify each item by all the others, from one CrossGram and without touching a histogram again.

    "nearest-system" compares an item with every other. "nearest-mean" compares it with one center per
    class: the Frechet mean for the alignment distance, the average for the metrics of covariances, the medoid
    for the other two. The center of the item's own class is computed without it (`frechet_centers`). With
    `groups`, whole groups are left out: an item is compared with nothing that its own group had a part in.

    Parameters
    ----------
    gram : CrossGram
        Of one collection with itself, ``cross_gram(systems)``.
    labels : (K,) array_like
    groups : (K,) array_like, optional
        What must not be split, such as the recording that a clip was cut from. By default each item
        is a group of its own.
    classifier : {"nearest-mean", "nearest-system"}, default="nearest-mean"
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value"}
        By default "alignment", see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float, default=0.25, 0.0
    n_neighbors : int, default=1
        For "nearest-system".
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    LeaveOneOut

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> rng = np.random.default_rng(0)
    >>> def stream(strength):
    ...     waves = np.sin(np.arange(40)[:, None] * [0.5, 0.9, 1.3])
    ...     weights = 1 + strength * waves + 0.1 * rng.random((40, 3))
    ...     return weights / weights.sum(axis=1, keepdims=True)
    >>> systems = [sysbags.identify(stream(s), order=2) for s in (0.2, 0.2, 0.2, 0.9, 0.9, 0.9)]
    >>> result = sysbags.evaluate.leave_one_out(sysbags.cross_gram(systems), list("aaabbb"), lambda_mu=100)
    >>> result.accuracy
    1.0
    >>> result.confusion
    array([[3, 0],
           [0, 3]])
    """
    classes, codes, units = _check_protocol(gram, labels, groups)
    check_choice(metric, "metric", METRICS)
    weight, weight_mu = check_weight(lambda_a, "lambda_a"), check_weight(lambda_mu, "lambda_mu")
    neighbors = check_integer(n_neighbors, "n_neighbors")
    kind = SYSTEM_CLASSIFIER[check_choice(classifier, "classifier", SYSTEM_CLASSIFIER)]
    family = metric_predictors(
        gram, codes, units, kind, metric, weight, random_state=random_state, n_jobs=n_jobs
    )
    return _result(family(weight_mu, neighbors), classes, codes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice:
    """What `choose_settings` found.

    Attributes
    ----------
    settings : mapping
        The setting: "metric", "normal form", "lambda_a" and "lambda_mu".
    systems : list of System
        The systems in that form.
    gram : CrossGram
        Of these systems.
    result : LeaveOneOut
        What it reached. Chosen on the same items, so its accuracy is optimistic.
    tried : list of dict
        All settings.
    accuracies : (S,) array
        What they reached.
    """

    settings: Mapping[str, Any]
    systems: list[System]
    gram: CrossGram
    result: LeaveOneOut
    tried: list[dict[str, Any]]
    accuracies: Array


def choose_settings(
    systems: Sequence[System],
    gram: CrossGram,
    labels: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    classifier: str = "nearest-mean",
    metric: str | None = None,
    normal_form: str | None = None,
    lambda_a: float | None = None,
    lambda_mu: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Choice:
    """Choose metric, normal form and weights by leave-one-out, from one CrossGram.

    The rule is that of nested selection in `evaluate`: of all settings within one standard error of the best,
    the most usual one is taken.

    Parameters
    ----------
    systems : sequence of System
        In the orthonormal form, with states, as from `identify`.
    gram : CrossGram
        ``cross_gram(systems)``.
    labels, groups, classifier, random_state, n_jobs
        See `leave_one_out`.
    metric : {"alignment", "covariance", "normalized-covariance"}, optional
    normal_form : {"orthonormal", "unit-variance"}, optional
    lambda_a, lambda_mu : float, optional
        What is given is not chosen. A weight without a metric is that of the alignment distance in the
        orthonormal form.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> gram = sysbags.cross_gram(systems)
    >>> chosen = sysbags.evaluate.choose_settings(systems, gram, labels, lambda_a=0.25)
    >>> chosen.settings["metric"], chosen.settings["normal form"], chosen.settings["lambda_a"]
    ('alignment', 'orthonormal', 0.25)
    """
    classes, codes, units = _check_protocol(gram, labels, groups)
    kind = SYSTEM_CLASSIFIER[check_choice(classifier, "classifier", SYSTEM_CLASSIFIER)]
    clips = tuple(Clip(str(k), None, f"{code:09d}") for k, code in enumerate(codes))  # sorted as numbers are
    items = EvaluationSet(
        clips=clips,
        groups=units,
        codebook_folds=None,
        protocol="",
        random_state=seed_of(random_state),
        n_jobs=n_jobs,
    )
    known = Systems([SystemSet(list(systems), gram)], items)
    grids = matching_grids(metric, normal_form, lambda_a, lambda_mu)
    tried, predictors = zip(*neighbour_alternatives({"systems": known}, kind, grids), strict=True)
    best, accuracies = choose(predictors, codes)
    [(members, member_gram)] = known.sets(tried[best]["normal form"])
    return Choice(
        settings={name: value for name, value in tried[best].items() if name != "classifier"},
        systems=members,
        gram=member_gram,
        result=_result(predictors[best], classes, codes),
        tried=list(tried),
        accuracies=accuracies,
    )


def _check_protocol(gram: Any, labels: Any, groups: Any) -> tuple[npt.NDArray[Any], IntArray, IntArray]:
    """Return the classes and the class and group index of each item."""
    if not isinstance(gram, CrossGram):
        raise ParameterError(
            f"gram is of type {type(gram).__name__}, but it must be a CrossGram: cross_gram(systems)"
        )
    if not gram.symmetric:
        raise ParameterError("this needs the CrossGram of one collection with itself: cross_gram(systems)")
    items = len(gram.mean)
    classes, codes = check_labels(labels, items)
    names, units = (np.arange(items),) * 2 if groups is None else check_labels(groups, items, "groups")
    if len(names) < 2:
        raise ParameterError(
            f"there is only one group among {items} items, but leaving it out leaves nothing"
        )
    return classes, codes, units


def _result(predictor: DistancePredictor, classes: npt.NDArray[Any], codes: IntArray) -> LeaveOneOut:
    return LeaveOneOut(
        classes=classes,
        labels=classes[codes],
        predictions=classes[predictor.predict()],
        distances=predictor.distances(),
    )
