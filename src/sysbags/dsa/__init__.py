"""Dynamical similarity analysis: compare the dynamics of time series, whatever their coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.dsa.delays import select_delays as select_delays
    from sysbags.dsa.modes import DynamicModes as DynamicModes
    from sysbags.dsa.modes import fit_dmd as fit_dmd
    from sysbags.dsa.modes import hard_threshold_rank as hard_threshold_rank
    from sysbags.dsa.scores import Score as Score
    from sysbags.dsa.scores import angular_distance as angular_distance
    from sysbags.dsa.scores import euclidean_distance as euclidean_distance
    from sysbags.dsa.scores import wasserstein_distance as wasserstein_distance
    from sysbags.dsa.similarity import DSA as DSA
    from sysbags.dsa.trials import delay_embed as delay_embed

_MODULES = {
    "DSA": "sysbags.dsa.similarity",
    "DynamicModes": "sysbags.dsa.modes",
    "Score": "sysbags.dsa.scores",
    "angular_distance": "sysbags.dsa.scores",
    "delay_embed": "sysbags.dsa.trials",
    "euclidean_distance": "sysbags.dsa.scores",
    "fit_dmd": "sysbags.dsa.modes",
    "hard_threshold_rank": "sysbags.dsa.modes",
    "select_delays": "sysbags.dsa.delays",
    "wasserstein_distance": "sysbags.dsa.scores",
}

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
