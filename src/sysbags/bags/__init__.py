"""Bags: transformers from videos to streams of histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names
from sysbags.bags.registry import CLASSES

if TYPE_CHECKING:
    from sysbags.bags.colour import ColourHistogram as ColourHistogram
    from sysbags.bags.deep import DeepActivations as DeepActivations
    from sysbags.bags.flow import OpticalFlow as OpticalFlow
    from sysbags.bags.lbp import LocalBinaryPatterns as LocalBinaryPatterns
    from sysbags.bags.patch_words import PatchWords as PatchWords
    from sysbags.bags.planes import PlanePatterns as PlanePatterns
    from sysbags.bags.union import BagUnion as BagUnion
    from sysbags.bags.words import VisualWords as VisualWords

__all__ = [*sorted(CLASSES)]
__getattr__, __dir__ = lazy_names(__name__, {name: bag.module for name, bag in CLASSES.items()})
