"""Dynamical similarity analysis: compare the dynamics of time series, whatever their coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.dsa.modes import DynamicModes as DynamicModes
    from sysbags.dsa.modes import fit_dmd as fit_dmd
    from sysbags.dsa.scores import Score as Score
    from sysbags.dsa.scores import euclidean_distance as euclidean_distance
    from sysbags.dsa.similarity import DSA as DSA

_MODULES = {
    "DSA": "sysbags.dsa.similarity",
    "DynamicModes": "sysbags.dsa.modes",
    "Score": "sysbags.dsa.scores",
    "euclidean_distance": "sysbags.dsa.scores",
    "fit_dmd": "sysbags.dsa.modes",
}

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
