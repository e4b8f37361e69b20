"""Evaluations and models with an embedding: what is lost is stated, and with enough landmarks nothing is."""

from __future__ import annotations

import json

import numpy as np
import pytest

from evaluations import evaluate, train
from sysbags._common.cache import Cache
from sysbags._common.files import json_text
from sysbags.datasets import make_clips, make_streams
from sysbags.distances.embedding import embed, fit_embedding
from sysbags.distances.gram import cross_gram
from sysbags.errors import ParameterError
from sysbags.evaluate import Settings, features
from sysbags.evaluate.features import cached_gram
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.identification import identify

PAPER = {"order": 2, "lambda_a": 0.25, "lambda_mu": 1.0}


@pytest.fixture(scope="module")
def streams():
    return make_streams(classes=3, per_class=4, frames=25, bins=8, noise=0.7)


def test_with_enough_landmarks_predictions_are_exact(streams):
    exact, found = (evaluate(*streams, **PAPER, embedding=size) for size in (None, 5000))
    assert exact.facts["embedding"] is None
    assert exact.facts["notes"] == []
    for one, other in zip(found.methods, exact.methods, strict=True):
        assert one.predictions == other.predictions
    assert found.facts["embedding"]["largest"] < 1e-4
    [note] = found.facts["notes"]
    assert note.startswith("distances are approximate: an embedding of ")
    assert note.endswith("loses 0.0 % of the observers in the median, 0.0 % at most")


def test_the_error_is_stated(streams):
    found = evaluate(*streams, **PAPER, embedding=5)
    systems = [identify(stream, 2) for stream in streams[0]]
    lost = embed(fit_embedding(systems, 5), systems).lost
    expected = {"landmarks": 5, "median": float(np.median(lost)), "largest": float(lost.max())}
    assert json.loads(json_text(found.to_dict()))["facts"]["embedding"] == pytest.approx(expected)
    assert found.facts["notes"] == [
        f"distances are approximate: an embedding of 5 landmarks, which loses {100 * np.median(lost):.1f} % "
        f"of the observers in the median, {100 * lost.max():.1f} % at most: more landmarks lose less"
    ]
    relations, exact = found.details.relations, evaluate(*streams, **PAPER).details.relations
    assert not np.allclose(relations.distances, exact.distances, rtol=1e-3)


def test_explicit_kernels_are_exact(streams):
    exact, found = (evaluate(*streams, **PAPER, kernel="linear", embedding=size) for size in (None, 5))
    np.testing.assert_array_equal(found.details.relations.distances, exact.details.relations.distances)
    assert found.facts["embedding"] == {"landmarks": None, "median": 0.0, "largest": 0.0}
    assert found.facts["notes"] == [
        "distances are exact: the kernel has an explicit feature map and needs no landmarks"
    ]


def test_trials_have_an_embedding_of_each_training_set(streams):
    trials = {"one": ["train", "train", "test", "test"] * 3, "two": ["test", "train", "train", ""] * 3}
    found = evaluate(*streams, **PAPER, methods=["nearest-system"], trials=trials, embedding=6)
    systems = [identify(stream, 2) for stream in streams[0]]
    medians, largest = [], []
    for parts in trials.values():
        training = [system for system, part in zip(systems, parts, strict=True) if part == "train"]
        used = [system for system, part in zip(systems, parts, strict=True) if part]
        lost = embed(fit_embedding(training, 6), used).lost
        medians.append(np.median(lost))
        largest.append(lost.max())
    expected = {"landmarks": 6, "median": np.median(medians), "largest": max(largest)}
    assert found.facts["embedding"] == pytest.approx(expected)
    assert len(found.facts["notes"]) == 1


def test_the_cache_knows_the_landmarks(streams, tmp_path, monkeypatch):
    cache, systems = Cache(tmp_path), [identify(stream, 2) for stream in streams[0]]
    embeddings = [fit_embedding(systems, size) for size in (4, 5)]
    grams = [cached_gram(cache, systems, 1, embedding) for embedding in (None, *embeddings)]
    for gram, embedding in zip(grams, (None, *embeddings), strict=True):
        np.testing.assert_array_equal(gram.gram.observer, cross_gram(systems, embedding=embedding).observer)
    monkeypatch.setattr(features, "cross_gram", lambda *args, **options: pytest.fail("computed again"))
    for gram, embedding in zip(grams, (None, *embeddings), strict=True):
        again = cached_gram(cache, systems, 1, embedding)
        np.testing.assert_array_equal(again.gram.observer, gram.gram.observer)
        np.testing.assert_array_equal(again.lost, gram.lost)
    np.testing.assert_array_equal(grams[0].lost, np.zeros(len(systems)))
    np.testing.assert_array_equal(grams[1].lost, embed(embeddings[0], systems).lost)


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    return make_clips(folder, 3, frames=12, height=48, width=64, textures=["rain", "fire"])


@pytest.mark.parametrize("classifier", ["kernel-ridge", "nearest-mean", "nearest-system"])
def test_trained_models_have_the_embedding_of_their_estimate(clips, classifier, monkeypatch):
    paths, labels = clips
    grams = []
    monkeypatch.setattr(
        features,
        "cross_gram",
        lambda *args, **options: grams.append(options["embedding"]) or cross_gram(*args, **options),
    )
    trained = train(paths, labels, classifier=classifier, metric="alignment", order=2, embedding=9)
    model = trained.pipeline[-1]
    assert model.embedding == 9
    [used], [embedding] = grams, model.embeddings_
    np.testing.assert_array_equal(embedding.landmarks_, used.landmarks_)
    assert model.embedding_loss_.landmarks == 9
    assert model.embedding_loss_.largest > 0.0
    if classifier == "nearest-mean" and trained.compression.size is None:
        np.testing.assert_array_equal(model.centers_[0].samples, embedding.landmarks_)
    assert trained.pipeline.predict(paths[:2]).shape == (2,)


@pytest.mark.parametrize("bad", [0, -1, 2.5, "many", StreamEmbedding("linear")])
def test_mistakes(streams, bad):
    with pytest.raises(
        ParameterError, match=r"^embedding is .*, but it must be a whole number of at least 1"
    ):
        evaluate(*streams, embedding=bad)


def test_many_clips_have_an_embedding_unless_exact_distances_are_asked_for(monkeypatch):
    assert Settings().for_clips(300).embedding is None
    assert Settings().for_clips(301).embedding == 500
    assert Settings(embedding=7).for_clips(301).embedding == 7
    assert Settings(exact=True).for_clips(10**4).embedding is None
    with pytest.raises(ParameterError, match="an embedding is given, but exact distances need none"):
        Settings(embedding=7, exact=True)
    monkeypatch.setattr("sysbags.evaluate.settings.MANY_CLIPS", 7)
    streams, labels = make_streams(classes=2, per_class=4, frames=30, bins=8)
    options = {"methods": ["nearest-system"]}
    found = evaluate(streams, labels, **options)
    assert found.facts["embedding"]["landmarks"] <= 240  # all frames: fewer than 500
    exact = evaluate(streams, labels, exact=True, **options)
    assert exact.facts["embedding"] is None
    assert exact.methods[0].predictions == found.methods[0].predictions
