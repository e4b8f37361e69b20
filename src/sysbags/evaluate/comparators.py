"""Other people's methods as rows of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sysbags.evaluate.candidates import Systems, SystemSet, matching_grids
from sysbags.evaluate.features import ClipFeatures, cached_gram
from sysbags.evaluate.methods import MethodSpec, baseline_methods, system_methods, vector_methods
from sysbags.evaluate.splits import EvaluationSet

# The frames that each one sees, of the first 250; those that look at motion need all of them.
COMPARATORS: dict[str, dict[str, Any]] = {
    "LBPTOP": {"max_frames": 250},
    "SpatiotemporalEnergy": {"max_frames": 250, "size": 120},
    "BagOfSystems": {"max_frames": 250},
    "TreeWords": {"max_frames": 125, "stride": 2},
    "PooledActivations": {"max_frames": 42, "stride": 6},
    "LinearSystem": {"max_frames": 250},
}


LAMBDA_A = 0.25  # of a linear system, unless it is given


def comparator_methods(
    name: str,
    frames: Mapping[str, Any],
    features: ClipFeatures,
    items: EvaluationSet,
    lambda_a: float | None,
    lambda_mu: float | None,
) -> list[MethodSpec]:
    """One of `sysbags.comparators` with the classifiers that belong to it.

    An error says that it is not installed, or cannot describe some clip.
    """
    from sysbags import comparators  # for researchers: other evaluations do not load them

    kind: Any = getattr(comparators, name)
    options: dict[str, Any] = {"frames": {**COMPARATORS[name], **frames}}
    if "random_state" in kind._get_param_names():
        options["random_state"] = items.random_state
    if name != "LinearSystem":
        points = features.vectors(kind(**options))
        return vector_methods(kind.title, points, items, kind.classifiers, kind.metric)
    systems = features.systems(kind(**options))
    known = Systems([SystemSet(systems, cached_gram(features.cache, systems, items.n_jobs).gram)], items)
    grids = matching_grids(lambda_a=LAMBDA_A if lambda_a is None else lambda_a, lambda_mu=lambda_mu)
    return [
        *system_methods(kind.title, "comparator", {name: known}, ("nearest-mean", "nearest-system"), grids),
        *baseline_methods(kind.title, "comparator", known, ["martin"]),
    ]
