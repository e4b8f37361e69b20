"""Estimators with scikit-learn's manners: streams to systems, and classifiers of systems."""

from __future__ import annotations

from sysbags.classifiers.kernel_ridge import KernelRidgeClassifier
from sysbags.classifiers.nearest import NearestMean, NearestSystem, SystemIdentifier

__all__ = ["KernelRidgeClassifier", "NearestMean", "NearestSystem", "SystemIdentifier"]
