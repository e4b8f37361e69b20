"""Estimators for scikit-learn: streams to systems, and classifiers of systems."""

from __future__ import annotations

from sysbags.classifiers.explanation import Explanation
from sysbags.classifiers.identifier import SystemIdentifier
from sysbags.classifiers.kernel_ridge import KernelRidgeClassifier
from sysbags.classifiers.nearest import NearestMean, NearestSystem

__all__ = ["Explanation", "KernelRidgeClassifier", "NearestMean", "NearestSystem", "SystemIdentifier"]
