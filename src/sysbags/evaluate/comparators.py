"""Other people's methods as rows of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sysbags import comparators
from sysbags.evaluate.cached import cached_gram
from sysbags.evaluate.features import ClipFeatures
from sysbags.evaluate.methods import (
    EvaluationSet,
    MethodSpec,
    SystemSet,
    alignment_methods,
    baseline_methods,
    vector_methods,
)

__all__ = ["COMPARATORS", "comparator_methods"]

# The frames that each one sees, of the first 250; those that look at motion need all of them.
COMPARATORS: dict[str, dict[str, Any]] = {
    "LBPTOP": {"max_frames": 250},
    "SpatiotemporalEnergy": {"max_frames": 250, "size": 120},
    "BagOfSystems": {"max_frames": 250},
    "TreeWords": {"max_frames": 125, "stride": 2},
    "PooledActivations": {"max_frames": 42, "stride": 6},
    "LinearSystem": {"max_frames": 250},
}


def comparator_methods(
    name: str,
    frames: Mapping[str, Any],
    features: ClipFeatures,
    items: EvaluationSet,
    lambda_a: float,
    grid_mu: Sequence[float],
) -> list[MethodSpec]:
    """One of `sysbags.comparators` with the classifiers that belong to it.

    Raises
    ------
    SysbagsError
        If it is not installed, or cannot describe some clip.
    """
    kind: Any = getattr(comparators, name)
    options: dict[str, Any] = {"frames": {**COMPARATORS[name], **frames}}
    if "random_state" in kind._get_param_names():
        options["random_state"] = items.random_state
    if name != "LinearSystem":
        points = features.vectors(kind(**options))
        return vector_methods(kind.title, points, items, kind.classifiers, kind.metric)
    systems = features.systems(kind(**options))
    sets = [SystemSet(systems, cached_gram(features.cache, systems, items.n_jobs).gram)]
    return [
        *alignment_methods(kind.title, "comparator", sets, items, (lambda_a,), grid_mu),
        *baseline_methods(kind.title, "comparator", sets, items, ["martin"]),
    ]
