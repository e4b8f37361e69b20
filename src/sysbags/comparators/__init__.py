"""Comparators: published methods to compare systems with, each a transformer of videos."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sysbags.comparators.bag_of_systems import BagOfSystems as BagOfSystems
    from sysbags.comparators.energy import SpatiotemporalEnergy as SpatiotemporalEnergy
    from sysbags.comparators.lbptop import LBPTOP as LBPTOP
    from sysbags.comparators.linear_system import LinearSystem as LinearSystem
    from sysbags.comparators.pooled import PooledActivations as PooledActivations
    from sysbags.comparators.tree_words import TreeWords as TreeWords

_MODULES = {
    "BagOfSystems": "bag_of_systems",
    "LBPTOP": "lbptop",
    "LinearSystem": "linear_system",
    "PooledActivations": "pooled",
    "SpatiotemporalEnergy": "energy",
    "TreeWords": "tree_words",
}

__all__ = [*sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"sysbags.comparators.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'sysbags.comparators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
