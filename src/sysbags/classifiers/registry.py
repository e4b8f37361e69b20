"""The list of classifiers: what `sysbags fit` and evaluations offer, and what model files hold."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sysbags.classifiers.base import SystemClassifier

AUTO = "auto"  # choose among the classifiers
MOMENTS = "moments"  # the classifier of streams, `sysbags.StreamClassifier`


class NamedClassifier(NamedTuple):
    """A classifier of systems.

    Attributes
    ----------
    module, class_name : str
    learnt : mapping
        The attributes that `fit` learns, and their form in a model file: see `sysbags.storage.kinds.Kind`.
    """

    module: str
    class_name: str
    learnt: Mapping[str, str]

    @property
    def estimator(self) -> type[SystemClassifier]:
        """The class; its module is imported when it is first used."""
        found: type[SystemClassifier] = getattr(import_module(self.module), self.class_name)
        return found


COMMON = {
    "weights_": "float B 2",
    "scales_": "positive B",
    "compression_errors_": "float K",
    "embeddings_": "StreamEmbedding B?",
    "embedding_errors_": "float T?",  # of the training clips, of which a nearest mean keeps none
    "calibration_": "Calibration?",
    "accuracies_": "float 3?",
    "shortest_": "number?",
}

# One name for each, at the command line, in tables, reports and JSON documents, in the order of tables, which
# is that of preference among equals.
CLASSIFIERS = {
    "kernel-ridge": NamedClassifier(
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
    "nearest-mean": NamedClassifier(
        "sysbags.classifiers.nearest",
        "NearestMean",
        {"centers_": "Clip K B", "labels_": "label K K", **COMMON},
    ),
    "nearest-system": NamedClassifier(
        "sysbags.classifiers.nearest",
        "NearestSystem",
        {"systems_": "Clip K B", "labels_": "label K C", **COMMON},
    ),
}
