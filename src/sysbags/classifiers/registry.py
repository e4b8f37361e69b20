"""The list of classifiers that `sysbags fit` offers and that model files hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["CLASSIFIERS", "NamedClassifier"]


class NamedClassifier(NamedTuple):
    """A classifier with a name at the command line.

    Attributes
    ----------
    title : str
        The name in tables.
    module, class_name : str
    learnt : mapping
        The attributes that `fit` learns, and their form in a model file: see `sysbags.storage.kinds.Kind`.
    """

    title: str
    module: str
    class_name: str
    learnt: Mapping[str, str]


WEIGHTS = {"lambda_a_": "number", "lambda_mu_": "number"}

CLASSIFIERS = {
    "nearest-system": NamedClassifier(
        "nearest system",
        "sysbags.classifiers.nearest",
        "NearestSystem",
        {"systems_": "System K", "labels_": "any K", **WEIGHTS},
    ),
    "nearest-mean": NamedClassifier(
        "nearest mean",
        "sysbags.classifiers.nearest",
        "NearestMean",
        {"centers_": "System C", "classes_": "any C", "compression_errors_": "float C", **WEIGHTS},
    ),
}
