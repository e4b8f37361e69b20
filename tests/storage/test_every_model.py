"""Every bag, normal form, metric and classifier: a model from its file says what it said in memory."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

import sysbags
from sysbags import KernelRidgeClassifier, NearestMean, NearestSystem
from sysbags.bags import (
    BagUnion,
    ColourHistogram,
    DeepActivations,
    LocalBinaryPatterns,
    OpticalFlow,
    VisualWords,
)
from sysbags.datasets import make_frames
from sysbags.distances import METRICS
from sysbags.systems.system import NORMAL_FORMS
from tiny_networks import tiny_onnx

LABELS = np.array(["waves", "rain"] * 4)
NEW = 2  # the last clips are not learnt from


def deep():
    for name in ("onnxruntime", "onnx"):
        pytest.importorskip(name)
    return DeepActivations(tiny_onnx("map"), size=8, mean=(1.0, 2.0, 3.0), std=50.0)


BAGS = {
    "lbp": LocalBinaryPatterns,
    "colour": lambda: ColourHistogram((2, 3, 4)),
    "flow": OpticalFlow,
    "deep": deep,
    "sift": lambda: VisualWords(6, "sift"),
    "union": lambda: BagUnion([("lbp", LocalBinaryPatterns()), ("words", VisualWords(5, "sift"))]),
}
SETTINGS = [
    (metric, form, classifier)
    for (metric, entry), form, classifier in product(
        METRICS.items(), NORMAL_FORMS, (NearestSystem, NearestMean, KernelRidgeClassifier)
    )
    if entry.normal_form in (None, form) and (entry.weighted or classifier is not KernelRidgeClassifier)
]
# All of them with one bag and with two; other bags with one of them, which classifies from the frames on.
WHOLE = ("alignment", "orthonormal", NearestMean, None)
CASES = [
    (bag, *case)
    for bag in BAGS
    for case in [(*setting, compress) for setting in SETTINGS for compress in (None, 11)]
    if bag == "lbp" or case == WHOLE or (bag == "union" and case[-1])
]


@cache
def described(bag):
    """The clips, fitted bags, and the systems of the clips in each normal form."""
    clips = [
        np.stack(list(make_frames(texture, 12, 96, 120, random_state=k)))
        for k, texture in enumerate([*LABELS, *LABELS[:NEW]])
    ]
    bags = BAGS[bag]().fit(clips[:-NEW])
    streams = bags.transform(clips)
    identifiers = {form: sysbags.SystemIdentifier(2, normal_form=form).fit(streams) for form in NORMAL_FORMS}
    return clips, bags, identifiers, {form: item.transform(streams) for form, item in identifiers.items()}


def weight_of(form):
    return "scale" if form == "unit-variance" else 0.25


def assert_same(found, expected):
    for name, values in expected._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), values)


@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")  # of alignment distances of few clips
@pytest.mark.parametrize(("bag", "metric", "form", "classifier", "compress"), CASES)
def test_a_model_from_its_file(tmp_path, bag, metric, form, classifier, compress):
    clips, bags, identifiers, systems = described(bag)
    training, new = systems[form][:-NEW], systems[form][-NEW:]
    weights = {"lambda_a": weight_of(form), "lambda_mu": weight_of(form)} if METRICS[metric].weighted else {}
    model = classifier(metric=metric, probability=True, compress=compress, **weights).fit(training, LABELS)
    pipeline = Pipeline([("bags", bags), ("systems", identifiers[form]), ("classify", model)])
    sysbags.save(tmp_path / "model", pipeline)
    loaded = sysbags.load(tmp_path / "model")
    restored = loaded[-1]
    assert_same(restored.compare(new), model.compare(new))
    np.testing.assert_array_equal(restored.predict(new), model.predict(new))
    np.testing.assert_array_equal(restored.predict_proba(new), model.predict_proba(new))
    np.testing.assert_array_equal(restored.p_values(new), model.p_values(new))
    assert restored.predict_set(new, alpha=0.2) == model.predict_set(new, alpha=0.2)
    assert restored.explain(new) == model.explain(new)
    if (metric, form, classifier, compress) == WHOLE:
        # From the frames on: what is read from the file describes clips as what was saved.
        np.testing.assert_array_equal(loaded.predict(clips[-NEW:]), model.predict(new))
        np.testing.assert_array_equal(loaded.predict_proba(clips[-NEW:]), model.predict_proba(new))
