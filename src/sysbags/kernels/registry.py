"""The list of kernels."""

from __future__ import annotations

__all__ = ["FEATURE_MAPS", "KERNELS"]

FEATURE_MAPS: dict[str, str | None] = {
    "chi2": None,
    "bhattacharyya": "numpy.sqrt",
    "intersection": None,
    "linear": "numpy.asarray",
}
"""All kernels with their explicit feature maps; None is a sum over bins, see `sysbags.kernels.histograms`."""

KERNELS = tuple(FEATURE_MAPS)
