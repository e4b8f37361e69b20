"""Systems of Bags: streams of histograms as points of a metric space.

A stream of per-frame histograms becomes a `System`, a kernelised linear dynamic system; systems have
distances (`pairwise_distances`), means (`frechet_mean`) and classifiers (`NearestSystem`,
`NearestMean`). Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

TYPE_CHECKING = (
    False  # that of typing, which is not imported here: Ctrl-C during an import prints a traceback
)
if TYPE_CHECKING:
    from typing import Any

    from sysbags import bags as bags
    from sysbags import comparators as comparators
    from sysbags import datasets as datasets
    from sysbags import evaluate as evaluate
    from sysbags import kernels as kernels
    from sysbags import video as video
    from sysbags._common.version import __version__ as __version__
    from sysbags.classifiers import KernelRidgeClassifier as KernelRidgeClassifier
    from sysbags.classifiers import NearestMean as NearestMean
    from sysbags.classifiers import NearestSystem as NearestSystem
    from sysbags.classifiers import SystemIdentifier as SystemIdentifier
    from sysbags.distances import Alignment as Alignment
    from sysbags.distances import BlockAlignment as BlockAlignment
    from sysbags.distances import CrossGram as CrossGram
    from sysbags.distances import align as align
    from sysbags.distances import align_blocks as align_blocks
    from sysbags.distances import alignment_distance as alignment_distance
    from sysbags.distances import cross_gram as cross_gram
    from sysbags.distances import martin_distance as martin_distance
    from sysbags.distances import max_singular_value_distance as max_singular_value_distance
    from sysbags.distances import pairwise_distances as pairwise_distances
    from sysbags.errors import SysbagsError as SysbagsError
    from sysbags.means import FrechetMean as FrechetMean
    from sysbags.means import frechet_mean as frechet_mean
    from sysbags.means import medoid as medoid
    from sysbags.storage import load as load
    from sysbags.storage import save as save
    from sysbags.systems import System as System
    from sysbags.systems import identify as identify


_HOMES = {
    "Alignment": "distances",
    "BlockAlignment": "distances",
    "CrossGram": "distances",
    "FrechetMean": "means",
    "KernelRidgeClassifier": "classifiers",
    "NearestMean": "classifiers",
    "NearestSystem": "classifiers",
    "SysbagsError": "errors",
    "System": "systems",
    "SystemIdentifier": "classifiers",
    "align": "distances",
    "align_blocks": "distances",
    "alignment_distance": "distances",
    "cross_gram": "distances",
    "frechet_mean": "means",
    "identify": "systems",
    "load": "storage",
    "martin_distance": "distances",
    "max_singular_value_distance": "distances",
    "medoid": "means",
    "pairwise_distances": "distances",
    "save": "storage",
}
_MODULES = ("bags", "comparators", "datasets", "evaluate", "kernels", "video")

__all__ = [*sorted([*_HOMES, *_MODULES])]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__version__":
        return import_module("sysbags._common.version").__version__
    if name in _HOMES:
        return getattr(import_module(f"sysbags.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"sysbags.{name}")
    raise AttributeError(f"module 'sysbags' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
