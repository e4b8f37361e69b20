"""Simulated populations: shapes, seeds, and what their names promise."""

from __future__ import annotations

import numpy as np
import pytest

from sysbags.datasets import make_line_attractor, make_lorenz, make_random_network, make_ring_attractor
from sysbags.errors import ParameterError

STEPS = 300
NETWORKS = (make_random_network, make_ring_attractor, make_line_attractor)


@pytest.mark.parametrize("make", NETWORKS)
def test_networks_follow_their_seed(make):
    rows = make(units=12, steps=50, random_state=3)
    assert rows.shape == (50, 12)
    assert np.isfinite(rows).all()
    assert np.array_equal(rows, make(units=12, steps=50, random_state=np.random.default_rng(3)))
    assert not np.array_equal(rows, make(units=12, steps=50, random_state=4))


def plane(rows):
    """Return the two leading principal components."""
    centred = rows - rows.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T


def test_the_bump_turns_with_the_velocity():
    rows = plane(make_ring_attractor(steps=STEPS, velocity=np.full(STEPS, 0.5)))
    angle = np.unwrap(np.arctan2(*rows.T))
    # Half a radian per time constant of ten steps, by the sine instead of the angle; the noise adds its own.
    assert abs(angle[-1] - angle[0]) == pytest.approx(0.1 * 0.5 * STEPS, rel=0.15)
    radius = np.linalg.norm(rows, axis=1)
    assert radius.std() < 0.15 * radius.mean()


def test_the_line_integrates_the_velocity():
    velocity = np.sin(np.arange(STEPS) / 15.0)
    line = plane(make_line_attractor(steps=STEPS, velocity=velocity))[:, 0]
    assert abs(np.corrcoef(line, velocity.cumsum())[0, 1]) > 0.95


def test_lorenz_rests_below_the_chaotic_values():
    late = make_lorenz(rho=15.0, steps=3000)[-100:]
    assert np.ptp(late, axis=0).max() < 1e-3
    side = np.sqrt(8.0 / 3.0 * 14.0)
    assert np.abs(late[-1]) == pytest.approx([side / 10.0, side / 10.0, 1.1], abs=1e-3)
    assert np.ptp(make_lorenz(steps=3000), axis=0).min() > 3.0


def test_a_velocity_has_one_number_per_step():
    with pytest.raises(ParameterError, match="one number per step"):
        make_ring_attractor(steps=10, velocity=np.zeros(9))
