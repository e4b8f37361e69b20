"""Why a classifier predicts a label: the distances to all classes, and the parts of the smallest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Explanation"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a system is predicted to be of a class.

    Attributes
    ----------
    label : Any
        The class that `predict` returns.
    distances : dict
        Squared distance to each class: to its center, or to its nearest training system.
    parts : dict
        What "transition", "observer" and "mean" add to the squared distance to the class `label`, weights
        included; they sum to it. For the metrics of covariances they are "covariances" and "mean"; empty for
        metrics without weights. Of several bags they are what each bag adds, by the names in the `BagUnion`
        that the systems come from, or else "bag 0", "bag 1" and so on.
    probabilities, p_values : dict, optional
        Of each class, if the classifier is calibrated, see `sysbags.classifiers.calibration.Calibration`.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> explanation = sysbags.NearestMean().fit(systems, ["a", "a", "b", "b"]).explain(systems)[3]
    >>> explanation.label, min(explanation.distances, key=explanation.distances.get)
    ('b', 'b')
    >>> list(explanation.parts), explanation.probabilities is None  # fitted without probability=True
    (['transition', 'observer', 'mean'], True)
    """

    label: Any
    distances: dict[Any, float]
    parts: dict[str, float]
    probabilities: dict[Any, float] | None = None
    p_values: dict[Any, float] | None = None
