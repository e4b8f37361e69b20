"""The simulated populations of the benchmark, each from one random generator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sysbags._common.types import Array
from sysbags.datasets.streams import (
    NOISE,
    STEP,
    make_line_attractor,
    make_lorenz,
    make_random_network,
    make_ring_attractor,
)

__all__ = ["SIMULATIONS", "line_attractor", "lorenz", "recurrent_network", "ring_attractor"]

UNITS = 40


def recurrent_network(rng: np.random.Generator) -> Array:
    return make_random_network(units=UNITS, random_state=rng)


def ring_attractor(rng: np.random.Generator) -> Array:
    return make_ring_attractor(units=UNITS, random_state=rng)


def line_attractor(rng: np.random.Generator) -> Array:
    return make_line_attractor(units=UNITS, random_state=rng)


def lorenz(rng: np.random.Generator) -> Array:
    """The Lorenz system in random coordinates: each unit sees a random mixture of its three variables."""
    rows = make_lorenz(rho=rng.uniform(26.0, 32.0), random_state=rng)
    seen = np.tanh(rows @ (rng.standard_normal((UNITS, 3)) / np.sqrt(3.0)).T)
    return np.asarray(seen + NOISE * np.sqrt(STEP) * rng.standard_normal(seen.shape))


SIMULATIONS: tuple[Callable[[np.random.Generator], Array], ...] = (
    recurrent_network,
    ring_attractor,
    line_attractor,
    lorenz,
)
