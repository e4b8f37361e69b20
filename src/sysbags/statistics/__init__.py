"""Tests and intervals for groups of systems, and for distances between systems.

All take a matrix of squared distances, such as that of `sysbags.pairwise_distances`, and labels. The matrix
is computed once; thousands of permutations and resamples then cost sums over its entries alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.statistics.comparison import SeparationTest as SeparationTest
    from sysbags.statistics.comparison import compare_distances as compare_distances
    from sysbags.statistics.comparison import silhouette_values as silhouette_values
    from sysbags.statistics.differences import DifferenceInterval as DifferenceInterval
    from sysbags.statistics.differences import difference_interval as difference_interval
    from sysbags.statistics.groups import GroupTest as GroupTest
    from sysbags.statistics.groups import PairwiseTests as PairwiseTests
    from sysbags.statistics.groups import group_test as group_test
    from sysbags.statistics.groups import pairwise_group_tests as pairwise_group_tests

_MODULES = {
    "DifferenceInterval": "sysbags.statistics.differences",
    "GroupTest": "sysbags.statistics.groups",
    "PairwiseTests": "sysbags.statistics.groups",
    "SeparationTest": "sysbags.statistics.comparison",
    "compare_distances": "sysbags.statistics.comparison",
    "difference_interval": "sysbags.statistics.differences",
    "group_test": "sysbags.statistics.groups",
    "pairwise_group_tests": "sysbags.statistics.groups",
    "silhouette_values": "sysbags.statistics.comparison",
}

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
