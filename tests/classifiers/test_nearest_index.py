"""NearestSystem with an index: the neighbours of a search."""

from __future__ import annotations

import numpy as np
import pytest

import sysbags
from sysbags import NearestSystem
from sysbags.datasets import make_streams
from sysbags.errors import ParameterError
from sysbags.library import SystemIndex
from sysbags.storage.kinds import build


def systems_of(form="orthonormal"):
    """Training systems, their labels, and new systems."""
    streams, labels = make_streams(3, 14, frames=30, bins=8, noise=0.5)
    systems = sysbags.SystemIdentifier(order=2, normal_form=form).fit_transform(streams)
    new = np.arange(len(labels)) % 7 == 0
    training = [system for system, held_out in zip(systems, new, strict=True) if not held_out]
    return training, labels[~new], [system for system, held_out in zip(systems, new, strict=True) if held_out]


@pytest.mark.parametrize("count", [1, 5])
def test_neighbours_are_those_of_the_index(count):
    training, labels, new = systems_of()
    index = SystemIndex(training)
    model = NearestSystem(count, index=index, n_jobs=2).fit(training, labels)
    distances, indices = model.kneighbors(new)
    searched = [index.search(system, count) for system in new]
    np.testing.assert_array_equal(indices, [found.indices for found in searched])
    np.testing.assert_array_equal(distances, [found.distances for found in searched])
    # Frames are in the span of the landmarks but for little, so that a shortlist has the nearest.
    exact = NearestSystem(count).fit(training, labels)
    scanned, expected = exact.kneighbors(new)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(distances, scanned, rtol=0, atol=1e-12 * scanned.max())
    np.testing.assert_array_equal(model.predict(new), exact.predict(new))
    np.testing.assert_array_equal(
        model.kneighbors(new, 3, return_distance=False), exact.kneighbors(new, 3)[1]
    )


def test_what_is_searched_and_what_is_not():
    """The distance of a class needs all training systems; a prediction needs the neighbours."""
    training, labels, new = systems_of()
    index, asked = SystemIndex(training), []

    class Counted:
        systems, weights = index.systems, index.weights

        def search(self, system, k):
            asked.append(k)
            return index.search(system, k)

    model = NearestSystem(3, index=Counted()).fit(training, labels)
    exact = NearestSystem(3).fit(training, labels)
    model.predict(new)
    model.kneighbors(new, 2)
    assert asked == [3] * len(new) + [2] * len(new)
    np.testing.assert_array_equal(model.decision_function(new), exact.decision_function(new))
    assert [e.label for e in model.explain(new)] == [e.label for e in exact.explain(new)]
    assert len(asked) == 2 * len(new)
    small = model.compressed(10)
    assert small.index is None
    assert model.index is not None
    small.predict(new)
    assert len(asked) == 2 * len(new)


def test_probabilities_are_calibrated_without_the_index():
    training, labels, new = systems_of()
    index = SystemIndex(training)
    model = NearestSystem(index=index, probability=True).fit(training, labels)
    assert model.index is index
    exact = NearestSystem(probability=True).fit(training, labels)
    np.testing.assert_array_equal(model.predict_proba(new), exact.predict_proba(new))


def test_weights():
    training, labels, new = systems_of("unit-variance")
    plain = NearestSystem(2, lambda_a="scale", lambda_mu="scale").fit(training, labels)
    lambda_a, lambda_mu = plain.weights_[0].tolist()
    index = SystemIndex(training, lambda_a=lambda_a, lambda_mu=lambda_mu)
    model = NearestSystem(2, lambda_a="scale", lambda_mu="scale", bag_weights=[2.0], index=index)
    distances, indices = model.fit(training, labels).kneighbors(new)
    expected, expected_indices = plain.kneighbors(new)
    np.testing.assert_array_equal(indices, expected_indices)
    np.testing.assert_allclose(distances, 2.0 * expected, rtol=0, atol=1e-12 * expected.max())


def test_mistakes():
    training, labels, _ = systems_of()
    index = SystemIndex(training)
    pairs = list(zip(training, training, strict=True))
    for options, systems, message in (
        ({"metric": "martin"}, training, "metric is 'martin', but an index has distances of the metric"),
        ({}, pairs, "an index is for clips of one system, but clips have 2 systems"),
        ({"compress": 10}, training, "compress is 10, but an index has all samples"),
        ({"lambda_a": 1.0}, training, "the index has lambda_a = 0.25 and lambda_mu = 0, but the classifier"),
        ({"lambda_mu": 1.0}, training, "but the classifier has 0.25 and 1: both must have the same"),
        ({}, training[::-1], "the systems are not those of the index, or in another order"),
        ({"embedding": 20}, training, "an index has an embedding of its own"),
        ({}, training[1:], "the index has 36 systems, but 35 are given: fit the classifier with"),
    ):
        with pytest.raises(ParameterError, match=message):
            NearestSystem(index=index, **options).fit(systems, labels[: len(systems)])
    with pytest.raises(ParameterError, match="index is 5, but it must be a SystemIndex"):
        NearestSystem(index=5).fit(training, labels)


def test_files(tmp_path):
    training, labels, new = systems_of()
    model = NearestSystem(index=SystemIndex(training)).fit(training, labels)
    path = tmp_path / "model"
    with pytest.raises(
        ParameterError, match="index is of type SystemIndex, which cannot be saved: set index"
    ):
        sysbags.save(path, model)
    assert not path.exists()
    sysbags.save(path, model.set_params(index=None))
    np.testing.assert_array_equal(sysbags.load(path).predict(new), model.predict(new))
    # A number can be written, but is no index.
    with pytest.raises(ParameterError, match="the index of a NearestSystem must be None"):
        sysbags.save(path, model.set_params(index=5))
    with pytest.raises(ParameterError, match="the index of a NearestSystem must be None"):
        build("NearestSystem", {"index": 5}, {})  # as from a file that was not written by save
