"""Comparators: published methods to compare systems with, each a transformer of videos."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.comparators.bag_of_systems import BagOfSystems as BagOfSystems
    from sysbags.comparators.energy import SpatiotemporalEnergy as SpatiotemporalEnergy
    from sysbags.comparators.lbptop import LBPTOP as LBPTOP
    from sysbags.comparators.linear_system import LinearSystem as LinearSystem
    from sysbags.comparators.pooled import PooledActivations as PooledActivations
    from sysbags.comparators.tree_words import TreeWords as TreeWords

_MODULES = {
    "BagOfSystems": "sysbags.comparators.bag_of_systems",
    "LBPTOP": "sysbags.comparators.lbptop",
    "LinearSystem": "sysbags.comparators.linear_system",
    "PooledActivations": "sysbags.comparators.pooled",
    "SpatiotemporalEnergy": "sysbags.comparators.energy",
    "TreeWords": "sysbags.comparators.tree_words",
}

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
