"""Kernels between histograms, by name or as functions."""

from __future__ import annotations

from sysbags.kernels.functions import (
    KERNELS,
    bhattacharyya,
    call_kernel,
    check_kernel,
    check_precision,
    chi2,
    feature_map,
    intersection,
    kernel_matrix,
    linear,
)

__all__ = [
    "KERNELS",
    "bhattacharyya",
    "call_kernel",
    "check_kernel",
    "check_precision",
    "chi2",
    "feature_map",
    "intersection",
    "kernel_matrix",
    "linear",
]
