"""Trajectories of simulated neural populations: rows are time, one column per unit, noise in every step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sysbags._common.types import Array

__all__ = ["SIMULATIONS", "line_attractor", "lorenz", "recurrent_network", "ring_attractor"]

UNITS = 40
STEPS, BURN_IN = 400, 200
STEP = 0.1  # of Euler's method, in time constants of a unit
NOISE = 0.1  # standard deviation after one time constant, in the range of a unit's activity


def recurrent_network(rng: np.random.Generator) -> Array:
    """A vanilla network ``dx = -x + g W tanh(x)`` with random weights, driven by noise.

    The gain g is between 0.8 and 1.6: the network is quiet below 1 and chaotic above it.
    """
    weights = rng.uniform(0.8, 1.6) * rng.standard_normal((UNITS, UNITS)) / np.sqrt(UNITS)
    return _trajectory(lambda x: weights @ np.tanh(x) - x, rng)


def ring_attractor(rng: np.random.Generator) -> Array:
    """A bump of activity that diffuses along a ring of units, which are in random order.

    Units with similar preferred angles excite each other and inhibit the others: any angle is stable.
    """
    angles = rng.permutation(UNITS) * (2.0 * np.pi / UNITS)
    weights = (rng.uniform(3.0, 5.0) * np.cos(angles[:, None] - angles) - 1.0) / UNITS
    return _trajectory(lambda x: np.tanh(np.maximum(weights @ x + 0.2, 0.0)) - x, rng)


def line_attractor(rng: np.random.Generator) -> Array:
    """A network that integrates its noise along one direction and forgets it in all others."""
    direction = rng.standard_normal(UNITS)
    direction /= np.linalg.norm(direction)
    weights = 0.5 * rng.standard_normal((UNITS, UNITS)) / np.sqrt(UNITS)
    weights -= np.outer(weights @ direction, direction)
    weights += rng.uniform(0.98, 1.0) * np.outer(direction, direction)
    return _trajectory(lambda x: weights @ x - x, rng)


def lorenz(rng: np.random.Generator) -> Array:
    """The Lorenz system in random coordinates: each unit sees a random mixture of its three variables."""
    rho = rng.uniform(26.0, 32.0)
    state = rng.standard_normal(3) + np.array([1.0, 1.0, 25.0])
    mixture = rng.standard_normal((UNITS, 3)) / np.sqrt(3.0)
    rows = np.empty((BURN_IN + STEPS, 3))
    for row in rows:
        for _ in range(4):  # Euler's method needs steps that are shorter than those of the rows
            x, y, z = state
            state = state + 0.005 * np.array([10.0 * (y - x), x * (rho - z) - y, x * y - 8.0 / 3.0 * z])
        row[:] = (state - np.array([0.0, 0.0, 25.0])) / 10.0
    seen = np.tanh(rows[BURN_IN:] @ mixture.T)
    return np.asarray(seen + NOISE * np.sqrt(STEP) * rng.standard_normal(seen.shape))


SIMULATIONS: tuple[Callable[[np.random.Generator], Array], ...] = (
    recurrent_network,
    ring_attractor,
    line_attractor,
    lorenz,
)


def _trajectory(drift: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """Euler-Maruyama from a random state, without the first rows."""
    state = 0.5 * rng.standard_normal(UNITS)
    rows = np.empty((BURN_IN + STEPS, UNITS))
    for row in rows:
        state = state + STEP * drift(state) + NOISE * np.sqrt(STEP) * rng.standard_normal(UNITS)
        row[:] = state
    return rows[BURN_IN:]
