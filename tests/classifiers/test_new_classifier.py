"""A new classifier is one core, one estimator and one registration: everything else takes it from there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import sysbags
from evaluations import evaluate, train
from sysbags.classifiers.base import SystemClassifier
from sysbags.classifiers.registry import CLASSIFIERS, COMMON, NamedClassifier
from sysbags.classifiers.scores import ClassScores, half_mean, nearest_of_each_class
from sysbags.datasets import make_clips, make_streams
from sysbags.storage import kinds


def density_scores(squared, codes, classes, usable):
    """The core: the mean of Gaussians around the usable training items of each class, as a logarithm."""
    heights = np.exp(-squared)
    sums = [(heights * (usable & (codes == c))).sum(axis=1) for c in range(classes)]
    counts = [(usable & (codes == c)).sum(axis=-1) for c in range(classes)]
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.log(np.stack(sums, axis=1) / np.stack(counts, axis=-1))
    return np.nan_to_num(scores, nan=-np.inf, neginf=-np.inf)


class Density:
    """The scores of all training items without their group."""

    def __init__(self, squared, codes, groups, unit):
        self.squared, self.codes, self.groups, self.unit = squared, codes, groups, unit

    def scores(self, excluding=None):
        usable = (self.groups[:, None] != self.groups) & (self.groups != excluding)
        return density_scores(self.squared / self.unit, self.codes, int(self.codes.max()) + 1, usable)

    def distances(self, excluding=None):
        other = np.where(self.groups[:, None] != self.groups, self.squared, np.inf)
        classes = int(self.codes.max()) + 1
        return nearest_of_each_class(other, self.codes, classes, self.groups != excluding)[0]

    def predict(self, excluding=None):
        return self.scores(excluding).argmax(axis=1)


class NearestDensity(SystemClassifier):
    """The estimator."""

    def __init__(
        self,
        width=1.0,
        *,
        metric="alignment",
        lambda_a=0.25,
        lambda_mu=0.0,
        bag_weights=None,
        compress=None,
        embedding=None,
        probability=False,
        random_state=0,
        n_jobs=None,
    ):
        self.width = width
        self.metric, self.lambda_a, self.lambda_mu = metric, lambda_a, lambda_mu
        self.bag_weights, self.compress, self.embedding = bag_weights, compress, embedding
        self.probability, self.random_state, self.n_jobs = probability, random_state, n_jobs

    @classmethod
    def candidates(cls, clips, *, tune=False) -> Iterator:
        for width in (1.0, 0.3):
            unit = width * clips.variance(clips.squared)
            yield {"width": width}, Density(clips.squared, clips.codes, clips.groups, unit)

    def _learn(self, clips):
        self.unit_ = self.width * half_mean(self._between(clips.bags, None, clips.grams))
        return clips.bags, clips.classes[clips.codes]

    def _compare(self, bags):
        squared = self._to_members(bags)
        classes, codes = np.unique(self.labels_, return_inverse=True)
        scores = density_scores(squared / self.unit_, codes, len(classes), np.ones(len(codes), bool))
        return ClassScores(
            scores.argmax(axis=1), scores, *nearest_of_each_class(squared, codes, len(classes))
        )


@pytest.fixture
def registered(monkeypatch):
    """The registration."""
    entry = NamedClassifier(
        __name__,
        "NearestDensity",
        {"systems_": "Clip K B", "labels_": "label K C", **COMMON, "unit_": "number"},
    )
    monkeypatch.setitem(CLASSIFIERS, "nearest-density", entry)
    # Model files take it from the list when they are imported, which was before.
    monkeypatch.setitem(kinds.KINDS, "NearestDensity", kinds.Kind(entry.module, entry.learnt))


def test_it_is_evaluated_without_the_group(registered):
    streams, labels = make_streams(classes=3, per_class=4, frames=30, bins=8, noise=1.0)
    result = evaluate(streams, labels, order=2, methods=["nearest-density"], metric="alignment")
    assert [method.classifier for method in result.methods] == ["nearest-density", "kernel-ridge"]
    assert result.methods[0].confidence is not None
    assert result.accuracy > result.most_frequent_accuracy
    every = evaluate(streams, labels, order=2, methods=["auto"], metric="alignment")
    assert every.accuracy > every.most_frequent_accuracy


def test_it_is_trained_and_saved(registered, tmp_path):
    clips, labels = make_clips(tmp_path, 3, frames=12, height=48, width=64, textures=["rain", "fire"])
    options = {"order": 2, "lambda_a": 0.25, "lambda_mu": 0.0}
    trained = train(clips, labels, classifier="nearest-density", compress=None, **options)
    model = trained.pipeline[-1]
    assert isinstance(model, NearestDensity)
    assert model.width == trained.settings["width"]
    sysbags.save(tmp_path / "model", trained.pipeline)
    loaded = sysbags.load(tmp_path / "model")
    assert isinstance(loaded, Pipeline)
    np.testing.assert_array_equal(loaded.predict_proba(clips), trained.pipeline.predict_proba(clips))
    twin = clone(model).fit(list(model.systems_), model.labels_)
    assert twin.unit_ == model.unit_
