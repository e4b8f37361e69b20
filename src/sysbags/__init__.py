"""Systems of Bags: streams of histograms as points of a metric space.

A stream of per-frame histograms becomes a `System`, a kernelised linear dynamic system; systems have
distances (`pairwise_distances`), means (`frechet_mean`) and classifiers (`NearestSystem`,
`NearestMean`). Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sysbags import bags as bags
    from sysbags import comparators as comparators
    from sysbags import datasets as datasets
    from sysbags import evaluate as evaluate
    from sysbags import kernels as kernels
    from sysbags import video as video
    from sysbags.alignment import Alignment as Alignment
    from sysbags.alignment import BlockAlignment as BlockAlignment
    from sysbags.alignment import align as align
    from sysbags.alignment import align_blocks as align_blocks
    from sysbags.alignment import alignment_distance as alignment_distance
    from sysbags.baselines import martin_distance as martin_distance
    from sysbags.baselines import max_singular_value_distance as max_singular_value_distance
    from sysbags.classify import NearestMean as NearestMean
    from sysbags.classify import NearestSystem as NearestSystem
    from sysbags.classify import SystemIdentifier as SystemIdentifier
    from sysbags.errors import SysbagsError as SysbagsError
    from sysbags.gram import CrossGram as CrossGram
    from sysbags.gram import cross_gram as cross_gram
    from sysbags.identification import identify as identify
    from sysbags.machine import KernelMachine as KernelMachine
    from sysbags.mean import FrechetMean as FrechetMean
    from sysbags.mean import frechet_mean as frechet_mean
    from sysbags.mean import medoid as medoid
    from sysbags.pairwise import pairwise_distances as pairwise_distances
    from sysbags.storage import load as load
    from sysbags.storage import save as save
    from sysbags.system import System as System

__version__ = "0.1.0"

_HOMES = {
    "Alignment": "alignment",
    "BlockAlignment": "alignment",
    "CrossGram": "gram",
    "FrechetMean": "mean",
    "KernelMachine": "machine",
    "NearestMean": "classify",
    "NearestSystem": "classify",
    "SysbagsError": "errors",
    "System": "system",
    "SystemIdentifier": "classify",
    "align": "alignment",
    "align_blocks": "alignment",
    "alignment_distance": "alignment",
    "cross_gram": "gram",
    "frechet_mean": "mean",
    "identify": "identification",
    "load": "storage",
    "martin_distance": "baselines",
    "max_singular_value_distance": "baselines",
    "medoid": "mean",
    "pairwise_distances": "pairwise",
    "save": "storage",
}
_MODULES = ("bags", "comparators", "datasets", "evaluate", "kernels", "video")

__all__ = [*sorted([*_HOMES, *_MODULES])]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sysbags.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"sysbags.{name}")
    raise AttributeError(f"module 'sysbags' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
