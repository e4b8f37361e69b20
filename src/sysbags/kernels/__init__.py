"""Kernels between histograms, by name or as functions; this module has their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.kernels.functions import bhattacharyya as bhattacharyya
    from sysbags.kernels.functions import chi2 as chi2
    from sysbags.kernels.functions import feature_map as feature_map
    from sysbags.kernels.functions import intersection as intersection
    from sysbags.kernels.functions import kernel_matrix as kernel_matrix
    from sysbags.kernels.functions import linear as linear

_MODULES = {
    "KERNELS": "sysbags.kernels",
    "bhattacharyya": "sysbags.kernels.functions",
    "chi2": "sysbags.kernels.functions",
    "feature_map": "sysbags.kernels.functions",
    "intersection": "sysbags.kernels.functions",
    "kernel_matrix": "sysbags.kernels.functions",
    "linear": "sysbags.kernels.functions",
}

FEATURE_MAPS: dict[str, str | None] = {
    "chi2": None,
    "bhattacharyya": "numpy.sqrt",
    "intersection": None,
    "linear": "numpy.asarray",
}
"""All kernels with their explicit feature maps; None is a sum over bins, see `sysbags.kernels.histograms`."""

KERNELS = tuple(FEATURE_MAPS)

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
