"""Kernels between histograms; this module has their table, `KERNELS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.kernels.embedding import StreamEmbedding as StreamEmbedding
    from sysbags.kernels.functions import feature_map as feature_map
    from sysbags.kernels.functions import kernel_matrix as kernel_matrix

_MODULES = {
    "KERNELS": "sysbags.kernels",
    "StreamEmbedding": "sysbags.kernels.embedding",
    "feature_map": "sysbags.kernels.functions",
    "kernel_matrix": "sysbags.kernels.functions",
}

FEATURE_MAPS: dict[str, str | None] = {
    "chi2": None,
    "bhattacharyya": "numpy.sqrt",
    "intersection": None,
    "linear": "numpy.asarray",
}
"""All kernels with their explicit feature maps; None is a sum over bins, see `sysbags.kernels.functions`."""

KERNELS = tuple(FEATURE_MAPS)

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
