"""Systems of Bags: streams of histograms as points of a metric space.

A stream of per-frame histograms becomes a `System`, a kernelised linear dynamic system; systems have
distances (`pairwise_distances`), means (`frechet_mean`) and classifiers (`NearestSystem`,
`NearestMean`). Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from sysbags._common import __version__ as __version__
from sysbags._common.lazy import TYPE_CHECKING, lazy_names

if TYPE_CHECKING:
    from sysbags import bags as bags
    from sysbags import comparators as comparators
    from sysbags import datasets as datasets
    from sysbags import dsa as dsa
    from sysbags import evaluate as evaluate
    from sysbags import kernels as kernels
    from sysbags import library as library
    from sysbags import statistics as statistics
    from sysbags import video as video
    from sysbags import watch as watch
    from sysbags.classifiers import KernelRidgeClassifier as KernelRidgeClassifier
    from sysbags.classifiers import NearestMean as NearestMean
    from sysbags.classifiers import NearestSystem as NearestSystem
    from sysbags.classifiers import StreamClassifier as StreamClassifier
    from sysbags.classifiers import SystemIdentifier as SystemIdentifier
    from sysbags.distances.alignment import Alignment as Alignment
    from sysbags.distances.alignment import BlockAlignment as BlockAlignment
    from sysbags.distances.alignment import align as align
    from sysbags.distances.alignment import align_blocks as align_blocks
    from sysbags.distances.alignment import alignment_distance as alignment_distance
    from sysbags.distances.gram import CrossGram as CrossGram
    from sysbags.distances.gram import cross_gram as cross_gram
    from sysbags.distances.pairwise import pairwise_distances as pairwise_distances
    from sysbags.distances.sgot import sgot_distance as sgot_distance
    from sysbags.distances.stein import martin_distance as martin_distance
    from sysbags.distances.stein import max_singular_value_distance as max_singular_value_distance
    from sysbags.errors import SysbagsError as SysbagsError
    from sysbags.kernels import StreamEmbedding as StreamEmbedding
    from sysbags.means import FrechetMean as FrechetMean
    from sysbags.means import frechet_mean as frechet_mean
    from sysbags.means import medoid as medoid
    from sysbags.storage import load as load
    from sysbags.storage import save as save
    from sysbags.systems import System as System
    from sysbags.systems import identify as identify

_MODULES = {
    "Alignment": "sysbags.distances.alignment",
    "BlockAlignment": "sysbags.distances.alignment",
    "CrossGram": "sysbags.distances.gram",
    "FrechetMean": "sysbags.means",
    "KernelRidgeClassifier": "sysbags.classifiers",
    "NearestMean": "sysbags.classifiers",
    "NearestSystem": "sysbags.classifiers",
    "StreamClassifier": "sysbags.classifiers",
    "StreamEmbedding": "sysbags.kernels",
    "SysbagsError": "sysbags.errors",
    "System": "sysbags.systems",
    "SystemIdentifier": "sysbags.classifiers",
    "align": "sysbags.distances.alignment",
    "align_blocks": "sysbags.distances.alignment",
    "alignment_distance": "sysbags.distances.alignment",
    "bags": "sysbags",
    "comparators": "sysbags",
    "cross_gram": "sysbags.distances.gram",
    "datasets": "sysbags",
    "dsa": "sysbags",
    "evaluate": "sysbags",
    "frechet_mean": "sysbags.means",
    "identify": "sysbags.systems",
    "kernels": "sysbags",
    "library": "sysbags",
    "load": "sysbags.storage",
    "martin_distance": "sysbags.distances.stein",
    "max_singular_value_distance": "sysbags.distances.stein",
    "medoid": "sysbags.means",
    "pairwise_distances": "sysbags.distances.pairwise",
    "save": "sysbags.storage",
    "sgot_distance": "sysbags.distances.sgot",
    "statistics": "sysbags",
    "video": "sysbags",
    "watch": "sysbags",
}

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
