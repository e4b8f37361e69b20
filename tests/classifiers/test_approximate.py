"""Classifiers with an embedding: exact with enough landmarks, and everywhere what the embedding says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sysbags
from sysbags import KernelRidgeClassifier, NearestMean, NearestSystem
from sysbags.datasets import make_streams
from sysbags.distances.embedding import embed, fit_embedding
from sysbags.distances.pairwise import distance_matrix
from sysbags.distances.projection import EmbeddedStack, project
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.means.frechet import mean_gram, mean_of_gram

SETTINGS = [
    (NearestSystem, {}, "orthonormal"),
    (NearestSystem, {"metric": "martin"}, "orthonormal"),
    (NearestMean, {"lambda_mu": 1.0}, "orthonormal"),
    (NearestMean, {"metric": "martin"}, "orthonormal"),
    (NearestMean, {"metric": "normalized-covariance", "lambda_a": "scale"}, "unit-variance"),
    (KernelRidgeClassifier, {}, "unit-variance"),
]
# Embedded observers are stored in float32: 24 bits of numbers of about 1.
FLOAT32 = {"rtol": 1e-4, "atol": 1e-4}


def systems_of(form="orthonormal", kernel="chi2", bins=8, random_state=0):
    streams, labels = make_streams(3, 6, frames=30, bins=bins, noise=0.5, random_state=random_state)
    identifier = sysbags.SystemIdentifier(order=2, kernel=kernel, normal_form=form)
    return identifier.fit_transform(streams), labels


def split(systems, labels):
    """Two thirds to learn from, and the others."""
    new = np.arange(len(labels)) % 3 == 0
    training = [system for system, held_out in zip(systems, new, strict=True) if not held_out]
    return training, labels[~new], [s for s, held_out in zip(systems, new, strict=True) if held_out]


@pytest.mark.parametrize(("estimator", "options", "form"), SETTINGS)
def test_with_enough_landmarks_it_is_exact(estimator, options, form):
    training, labels, new = split(*systems_of(form))
    exact = estimator(**options).fit(training, labels)
    model = estimator(**options, embedding=2000).fit(training, labels)
    assert exact.embeddings_ is None
    np.testing.assert_array_equal(exact.embedding_errors_, np.zeros(len(training)))
    assert model.embedding_errors_.shape == (len(training),)
    assert model.embedding_errors_.max() < 1e-4
    np.testing.assert_array_equal(model.predict(training), exact.predict(training))
    # New frames are not quite in the span of the landmarks.
    lost = embed(model.embeddings_[0], new).lost.max()
    found, expected = model.compare(new), exact.compare(new)
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_allclose(found.distances, expected.distances, atol=4 * np.sqrt(lost) + 1e-3)


@pytest.mark.parametrize("kernel", ["linear", "bhattacharyya"])
@pytest.mark.parametrize(("estimator", "options", "form"), SETTINGS)
def test_explicit_kernels_have_no_landmarks(estimator, options, form, kernel):
    training, labels, new = split(*systems_of(form, kernel))
    exact = estimator(**options).fit(training, labels)
    model = estimator(**options, embedding=3).fit(training, labels)
    assert [embedding.landmarks_ for embedding in model.embeddings_] == [None]
    np.testing.assert_array_equal(model.embedding_errors_, np.zeros(len(training)))
    for name, values in exact.compare(new)._asdict().items():
        np.testing.assert_array_equal(getattr(model.compare(new), name), values)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_blocks_of_projected_systems_are_those_of_the_embedding(kernel):
    systems, _ = systems_of(kernel=kernel)
    embedding = fit_embedding(systems, 9)
    gram = sysbags.cross_gram([project(system, embedding) for system in systems])
    # In float64; `transform` rounds to float32.
    rows = [
        np.column_stack([system.alpha, system.beta]).T @ embedding.features(system.samples)
        for system in systems
    ]
    for i, j in np.ndindex(len(rows), len(rows)):
        expected = rows[i] @ rows[j].T
        if i != j:
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                gram.observer[i, j], expected[:-1, :-1], rtol=1e-10, atol=1e-10 * scale
            )
            np.testing.assert_allclose(gram.mean[i, j], expected[-1, -1], rtol=1e-10)
    # What a system is to itself stays exact, as in the CrossGram of an embedding.
    known = sysbags.cross_gram(systems, embedding=embedding)
    np.testing.assert_array_equal(gram.rows.observer_gram, known.rows.observer_gram)
    np.testing.assert_array_equal(gram.rows.mean_norm, known.rows.mean_norm)
    np.testing.assert_allclose(gram.observer, known.observer, atol=1e-5)
    projected = project(systems[0], embedding)
    np.testing.assert_array_equal(projected.samples, embedding.landmarks_)
    with pytest.raises(IncompatibleSystemsError, match=f"for the kernel '{kernel}', but the system has"):
        project(systems_of(kernel="linear")[0][0], embedding)


def test_projections_with_an_explicit_map():
    systems, _ = systems_of(kernel="linear")
    assert project(systems[0], fit_embedding(systems, 3)) is systems[0]


@pytest.mark.parametrize("size", [6, 40])
def test_means_are_those_of_the_embedded_gram(size):
    training, labels, new = split(*systems_of())
    model = NearestMean(lambda_mu=1.0, embedding=size).fit(training, labels)
    [embedding] = model.embeddings_
    gram = sysbags.cross_gram(training, embedding=embedding)
    to_new = sysbags.cross_gram(training, new, embedding=embedding)
    distances = []
    for label, center in zip(model.labels_, model.centers_, strict=True):
        np.testing.assert_array_equal(center.samples, embedding.landmarks_)
        rows = np.flatnonzero(labels == label)
        mean = mean_of_gram(gram.subset(rows), lambda_mu=1.0)
        # The rotations of a mean depend on its blocks, whose sums are rounded to float32.
        np.testing.assert_allclose(center.transition, mean.transition, **FLOAT32)
        np.testing.assert_allclose(center.observer_gram, mean.observer_gram, **FLOAT32)
        assert center.mean_norm == pytest.approx(mean.mean_norm, rel=1e-5)
        blocks = mean_gram(to_new, [rows], [mean])
        np.testing.assert_allclose(
            sysbags.cross_gram([center], new, embedding=embedding).observer, blocks.observer, **FLOAT32
        )
        distances.append(distance_matrix(blocks, lambda_mu=1.0)[0])
    np.testing.assert_allclose(model.distances(new), np.transpose(distances), **FLOAT32)
    # A center is in the span of the landmarks, so that the exact kernel gives the same.
    exact = sysbags.pairwise_distances(new, model.centers_, lambda_mu=1.0)
    np.testing.assert_allclose(model.distances(new), exact, **FLOAT32)


@pytest.mark.parametrize("estimator", [NearestSystem, NearestMean])
@pytest.mark.parametrize("metric", ["alignment", "covariance"])
def test_explanations_have_the_distances_of_the_embedding(estimator, metric):
    form = "orthonormal" if metric == "alignment" else "unit-variance"
    training, labels, new = split(*systems_of(form))
    model = estimator(metric=metric, lambda_mu=1.0, embedding=6).fit(training, labels)
    compared = model.compare(new)
    for k, explanation in enumerate(model.explain(new)):
        assert explanation.label == model.classes_[compared.codes[k]]
        expected = dict(zip(model.classes_, compared.distances[k], strict=True))
        assert explanation.distances == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert sum(explanation.parts.values()) == pytest.approx(explanation.distances[explanation.label])


def test_errors_are_those_of_the_embedding():
    training, labels, _ = split(*systems_of())
    model = NearestSystem(embedding=4).fit(training, labels)
    [embedding] = model.embeddings_
    assert len(embedding.landmarks_) == 4
    expected = fit_embedding(training, 4)
    np.testing.assert_array_equal(embedding.landmarks_, expected.landmarks_)
    np.testing.assert_array_equal(model.embedding_errors_, embed(expected, training).lost)
    assert model.embedding_errors_.min() > 0.0
    unfitted = NearestSystem(embedding=StreamEmbedding(size=4)).fit(training, labels)
    assert not hasattr(unfitted.embedding, "lost_")
    np.testing.assert_array_equal(unfitted.embeddings_[0].factor_, expected.factor_)
    given = NearestSystem(embedding=expected).fit(training, labels)
    assert given.embeddings_ == [expected]
    np.testing.assert_array_equal(given.predict(training), model.predict(training))


@pytest.mark.parametrize("estimator", [NearestSystem, NearestMean, KernelRidgeClassifier])
def test_several_bags_have_an_embedding_each(estimator):
    views = [systems_of("unit-variance", kernel, bins) for kernel, bins in (("chi2", 8), ("linear", 5))]
    labels = views[0][1]
    clips = list(zip(*(systems for systems, _ in views), strict=True))
    training, known, new = split(clips, labels)
    options = {"lambda_a": "scale", "lambda_mu": "scale"}
    exact = estimator(**options).fit(training, known)
    model = estimator(**options, embedding=2000).fit(training, known)
    assert [embedding.landmarks_ is None for embedding in model.embeddings_] == [False, True]
    np.testing.assert_array_equal(model.predict(new), exact.predict(new))
    rough = estimator(**options, embedding=5).fit(training, known)
    expected = embed(rough.embeddings_[0], [clip[0] for clip in training]).lost
    np.testing.assert_array_equal(rough.embedding_errors_, expected)
    assert rough.explain(new)[0].parts.keys() == {"bag 0", "bag 1"}


def test_clips_are_embedded_once(monkeypatch):
    training, labels, new = split(*systems_of())
    model = NearestMean(embedding=10).fit(training, labels)
    sizes = []
    features = StreamEmbedding.combined_features
    monkeypatch.setattr(
        StreamEmbedding,
        "combined_features",
        lambda self, samples, weights: sizes.append(len(samples)) or features(self, samples, weights),
    )
    model.predict(new)
    assert sizes == [10] * len(model.centers_) + [30] * len(new)
    sizes.clear()
    model.predict(new)
    assert sizes == [30] * len(new)  # the centers are known
    model.compressed(8).predict(new)
    assert set(sizes) == {30, 8}


@pytest.mark.parametrize("estimator", [NearestSystem, NearestMean, KernelRidgeClassifier])
def test_clones_searches_and_files(estimator, tmp_path):
    training, labels, new = split(*systems_of("unit-variance"))
    embedding = fit_embedding(training, 12)
    assert clone(estimator(embedding=7)).get_params()["embedding"] == 7
    twin = clone(estimator(embedding=embedding)).fit(training, labels)
    np.testing.assert_array_equal(twin.embeddings_[0].landmarks_, embedding.landmarks_)
    search = GridSearchCV(estimator(probability=True), {"embedding": [1, 40, None]}, cv=2)
    search.fit(training, labels)
    assert set(search.cv_results_["param_embedding"]) == {1, 40, None}
    model = estimator(probability=True, embedding=15).fit(training, labels)
    sysbags.save(tmp_path / "model", model)
    loaded = sysbags.load(tmp_path / "model")
    assert loaded.embedding == 15
    for name, values in model.compare(new)._asdict().items():
        np.testing.assert_array_equal(getattr(loaded.compare(new), name), values)
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    np.testing.assert_array_equal(loaded.embedding_errors_, model.embedding_errors_)


def test_the_same_for_any_number_of_threads():
    training, labels, new = split(*systems_of())
    one, two = (NearestMean(embedding=10, n_jobs=jobs).fit(training, labels) for jobs in (1, 2))
    np.testing.assert_array_equal(one.distances(new), two.distances(new))
    stack = EmbeddedStack.of(training, one.embeddings_[0])
    expected = sysbags.cross_gram(new, training, embedding=one.embeddings_[0])
    np.testing.assert_allclose(stack.gram(new, n_jobs=2).observer, expected.observer, atol=1e-5)


@pytest.mark.parametrize("estimator", [NearestSystem, NearestMean, KernelRidgeClassifier])
def test_mistakes(estimator):
    training, labels, _ = split(*systems_of("unit-variance"))
    for bad in (0, -3, 2.5, "many", True):
        with pytest.raises(ParameterError, match=r"^embedding is .*, but it must be a whole number"):
            estimator(embedding=bad).fit(training, labels)
    embedding = fit_embedding(training, 5)
    with pytest.raises(ParameterError, match=r"single bag, but clips have 2 systems: give the number"):
        estimator(embedding=embedding).fit(list(zip(training, training, strict=True)), labels)
    with pytest.raises(IncompatibleSystemsError, match="for the kernel 'linear'"):
        estimator(embedding=StreamEmbedding("linear")).fit(training, labels)
    with pytest.raises(IncompatibleSystemsError, match="and 5 bins"):
        estimator(embedding=embedding).fit(systems_of("unit-variance", bins=5)[0][:12], labels)
