"""Estimators with scikit-learn's manners: streams to systems, and classifiers of systems."""

from __future__ import annotations

from sysbags.classifiers.kernel_ridge import KernelMachine
from sysbags.classifiers.nearest import NearestMean, NearestSystem, SystemIdentifier

__all__ = ["KernelMachine", "NearestMean", "NearestSystem", "SystemIdentifier"]
