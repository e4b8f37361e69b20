"""Distances between systems, all of them from one CrossGram."""

from __future__ import annotations

from sysbags.distances.alignment import Alignment, BlockAlignment, align, align_blocks, alignment_distance
from sysbags.distances.baselines import martin_distance, max_singular_value_distance
from sysbags.distances.gram import CrossGram, cross_gram
from sysbags.distances.pairwise import pairwise_distances

__all__ = [
    "Alignment",
    "BlockAlignment",
    "CrossGram",
    "align",
    "align_blocks",
    "alignment_distance",
    "cross_gram",
    "martin_distance",
    "max_singular_value_distance",
    "pairwise_distances",
]
