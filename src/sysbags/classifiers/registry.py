"""The list of classifiers that `sysbags fit` offers and that model files hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["CLASSIFIERS", "DISTANCE_CLASSIFIERS", "NamedClassifier"]


class NamedClassifier(NamedTuple):
    """A classifier with a name at the command line.

    Attributes
    ----------
    title : str
        The name in tables.
    predictor : str
        What evaluations call it.
    module, class_name : str
    learnt : mapping
        The attributes that `fit` learns, and their form in a model file: see `sysbags.storage.kinds.Kind`.
    """

    title: str
    predictor: str
    module: str
    class_name: str
    learnt: Mapping[str, str]


COMMON = {
    "weights_": "float B 2",
    "scales_": "positive B",
    "compression_errors_": "float K",
    "embeddings_": "Embedding B?",
    "embedding_errors_": "float T?",  # of the training clips, of which a nearest mean keeps none
    "calibration_": "Calibration?",
}

CLASSIFIERS = {
    "nearest-system": NamedClassifier(
        "nearest system",
        "1-NN",
        "sysbags.classifiers.nearest",
        "NearestSystem",
        {"systems_": "Clip K B", "labels_": "label K C", **COMMON},
    ),
    "nearest-mean": NamedClassifier(
        "nearest mean",
        "nearest mean",
        "sysbags.classifiers.nearest",
        "NearestMean",
        {"centers_": "Clip K B", "labels_": "label K K", **COMMON},
    ),
    "kernel-ridge": NamedClassifier(
        "kernel ridge",
        "kernel ridge",
        "sysbags.classifiers.kernel_ridge",
        "KernelRidgeClassifier",
        {
            "systems_": "Clip K B",
            "labels_": "label K C",
            **COMMON,
            "coefficients_": "float K C",
            "intercepts_": "float C",
            "variance_": "number",
            "negative_share_": "number",
        },
    ),
}

# Those that need nothing but distances, and so take every metric.
DISTANCE_CLASSIFIERS = {name: CLASSIFIERS[name] for name in ("nearest-system", "nearest-mean")}
