"""Estimators for scikit-learn: streams to systems, and classifiers of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sysbags._common.lazy import lazy_names

if TYPE_CHECKING:
    from sysbags.classifiers.base import Explanation as Explanation
    from sysbags.classifiers.identifier import SystemIdentifier as SystemIdentifier
    from sysbags.classifiers.kernel_ridge import KernelRidgeClassifier as KernelRidgeClassifier
    from sysbags.classifiers.nearest import NearestMean as NearestMean
    from sysbags.classifiers.nearest import NearestSystem as NearestSystem
    from sysbags.classifiers.streams import StreamClassifier as StreamClassifier

_MODULES = {
    "Explanation": "sysbags.classifiers.base",
    "KernelRidgeClassifier": "sysbags.classifiers.kernel_ridge",
    "NearestMean": "sysbags.classifiers.nearest",
    "NearestSystem": "sysbags.classifiers.nearest",
    "StreamClassifier": "sysbags.classifiers.streams",
    "SystemIdentifier": "sysbags.classifiers.identifier",
}

__all__ = [*sorted(_MODULES)]
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
