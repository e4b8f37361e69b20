"""What the examples state, in a smaller form."""

from __future__ import annotations

import numpy as np
import pytest
from attractors import dsa_distances, procrustes_distances
from attractors import make_recordings as make_attractors
from lorenz_coordinates import SETTINGS, scores
from lorenz_coordinates import make_recordings as make_lorenz_recordings
from recurrent_networks import Network, distances, make_recordings, ranks, wave
from two_dynamics import right

from sysbags.statistics import group_test, silhouette_values


def test_dsa_separates_rings_from_lines():
    recordings, labels = make_attractors(4, seed=0)
    dsa, certified = dsa_distances(recordings)
    assert right(dsa, labels) == 8
    assert (certified <= dsa).all()
    test = group_test(dsa, labels)
    assert test.exact
    assert test.p_value == pytest.approx(2.0 * test.resolution)  # the smallest for groups of the same size
    procrustes = procrustes_distances(recordings)
    assert silhouette_values(dsa, labels).mean() > silhouette_values(procrustes, labels).mean() + 0.3


def test_matched_rows_are_enough_for_procrustes():
    recordings, labels = make_attractors(4, steps=600, matched=True, seed=0)
    assert right(procrustes_distances(recordings), labels) == 8


def test_procrustes_ignores_rotations():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 4))
    turned = rows @ np.linalg.qr(rng.standard_normal((4, 4)))[0] + 3.0
    assert procrustes_distances([rows, turned])[0, 1] == pytest.approx(0.0, abs=1e-12)


def test_the_gradients_of_a_network():
    """Backpropagation through time against differences."""
    for rectified in (False, True):
        network = Network.random(5, rectified, 0.8, np.random.default_rng(0))
        target = wave(6, 8)

        def loss(network=network, target=target):
            states = network.run(8, 2, np.random.default_rng(1))
            return 0.5 * np.mean((states @ network.parameters[3] - target[:, None]) ** 2)

        found = network.gradients(network.run(8, 2, np.random.default_rng(1)), target)
        for parameter, gradient in zip(network.parameters, found, strict=True):
            place = (1,) * parameter.ndim
            before = parameter[place]
            values = []
            for step in (1e-5, -1e-5):
                parameter[place] = before + step
                values.append(loss())
            parameter[place] = before
            assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-8)


def test_networks_with_one_task_have_the_same_dynamics():
    recordings = make_recordings(2, iterations=200, seed=0)
    assert recordings.fits.min() > 0.9
    found = distances(recordings.free)
    assert right(found["DSA, angular"], recordings.labels) == 6
    average = {name: silhouette_values(squared, recordings.labels).mean() for name, squared in found.items()}
    assert average["DSA, angular"] > average["Procrustes"] + 0.3


def test_the_map_of_networks_is_by_ranks():
    squared = np.array([[0.0, 4.0, 9.0], [4.0, 0.0, 0.01], [9.0, 0.01, 0.0]])
    assert ranks(squared).tolist() == [[0.0, 2.0, 3.0], [2.0, 0.0, 1.0], [3.0, 1.0, 0.0]]


def test_lorenz_changes_with_rho_and_not_with_coordinates():
    reference, recordings = make_lorenz_recordings(2, 2000, rhos=(40.0, 60.0), bends=(0.4,), seed=0)
    few, many = (scores(reference, recordings, setting) for setting in SETTINGS.values())
    for found in (few, many):
        for same in ("same rows, rotated", "same rows, linear"):
            assert found[same][0].max() < 1e-5
        for score, certificate in found.values():
            assert (certificate <= score).all()
        assert found["linear"][0].max() < found["rho 40"][0].min() < found["rho 60"][0].min()
    assert few["bent, 0.4"][0].min() > few["linear"][0].max()  # two delays see a bent map
    assert many["bent, 0.4"][0].max() < many["rho 40"][0].min()  # leading directions of ten hardly do
