"""Time series of simulated neural populations and of the Lorenz system: rows are time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_integer, check_matrix

__all__ = ["make_line_attractor", "make_lorenz", "make_random_network", "make_ring_attractor"]

BURN_IN = 200  # rows that are computed first and not returned
STEP = 0.1  # of Euler's method, in time constants of a unit
NOISE = 0.1  # standard deviation after one time constant, in the range of a unit's activity

RandomState = int | np.random.Generator | None


def make_random_network(*, units: int = 40, steps: int = 400, random_state: RandomState = 0) -> Array:
    """Simulate a network ``dx = -x + g W tanh(x)`` with random weights, driven by noise.

    The gain g is between 0.8 and 1.6: the network is quiet below 1 and chaotic above it.

    Parameters
    ----------
    units, steps : int, default=40, 400
    random_state : int, Generator or None, default=0

    Returns
    -------
    (steps, units) array

    Examples
    --------
    >>> make_random_network(units=10, steps=50).shape
    (50, 10)
    """
    rng = np.random.default_rng(random_state)
    weights = rng.uniform(0.8, 1.6) * rng.standard_normal((units, units)) / np.sqrt(units)
    return _trajectory(lambda x, _: weights @ np.tanh(x) - x, units, steps, None, rng)


def make_ring_attractor(
    *,
    units: int = 40,
    steps: int = 400,
    velocity: npt.ArrayLike | None = None,
    random_state: RandomState = 0,
) -> Array:
    """Simulate a ring attractor: a bump of activity that stays at any angle and diffuses by noise.

    Units with similar preferred angles excite each other and inhibit the others. The units are in random
    order. A velocity turns the weights, and the bump moves along the ring.

    Parameters
    ----------
    units, steps : int, default=40, 400
    velocity : (steps,) array_like, optional
        Speed of the bump in radians per time constant of a unit, which is ten steps; approximate, and good
        for small speeds.
    random_state : int, Generator or None, default=0

    Returns
    -------
    (steps, units) array

    Examples
    --------
    >>> make_ring_attractor(units=12, steps=50).shape
    (50, 12)
    """
    rng = np.random.default_rng(random_state)
    angles = rng.permutation(units) * (2.0 * np.pi / units)
    gain = rng.uniform(3.0, 5.0)
    differences = angles[:, None] - angles
    weights = (gain * np.cos(differences) - 1.0) / units
    shift = gain * np.sin(differences) / units

    def drift(x: Array, v: float) -> Array:
        turned = weights @ x + v * (shift @ x)
        return np.asarray(np.tanh(np.maximum(turned + 0.2, 0.0)) - x)

    return _trajectory(drift, units, steps, velocity, rng)


def make_line_attractor(
    *,
    units: int = 40,
    steps: int = 400,
    velocity: npt.ArrayLike | None = None,
    random_state: RandomState = 0,
) -> Array:
    """Simulate a line attractor: a network that integrates along one direction and forgets all others.

    Parameters
    ----------
    units, steps : int, default=40, 400
    velocity : (steps,) array_like, optional
        Input along the direction that is remembered; by default the network integrates its noise alone.
    random_state : int, Generator or None, default=0

    Returns
    -------
    (steps, units) array

    Examples
    --------
    >>> make_line_attractor(units=12, steps=50).shape
    (50, 12)
    """
    rng = np.random.default_rng(random_state)
    direction = rng.standard_normal(units)
    direction /= np.linalg.norm(direction)
    weights = 0.5 * rng.standard_normal((units, units)) / np.sqrt(units)
    weights -= np.outer(weights @ direction, direction)
    weights += rng.uniform(0.98, 1.0) * np.outer(direction, direction)
    return _trajectory(lambda x, v: weights @ x - x + v * direction, units, steps, velocity, rng)


def make_lorenz(*, rho: float = 28.0, steps: int = 400, random_state: RandomState = 0) -> Array:
    """Simulate the Lorenz system from a random state, with sigma = 10 and beta = 8/3.

    Rows are 0.02 units of time apart. The coordinates are ``x / 10``, ``y / 10`` and ``(z - 25) / 10``.

    Parameters
    ----------
    rho : float, default=28.0
        The default is Lorenz's own value, for which the system is chaotic.
    steps : int, default=400
    random_state : int, Generator or None, default=0

    Returns
    -------
    (steps, 3) array

    Examples
    --------
    >>> make_lorenz(steps=50).shape
    (50, 3)
    """
    rng = np.random.default_rng(random_state)
    state = rng.standard_normal(3) + np.array([1.0, 1.0, 25.0])
    rows = np.empty((BURN_IN + check_integer(steps, "steps"), 3))
    for row in rows:
        for _ in range(4):  # Euler's method needs steps that are shorter than those of the rows
            x, y, z = state
            state = state + 0.005 * np.array([10.0 * (y - x), x * (rho - z) - y, x * y - 8.0 / 3.0 * z])
        row[:] = (state - np.array([0.0, 0.0, 25.0])) / 10.0
    return rows[BURN_IN:]


def _trajectory(
    drift: Callable[[Array, float], Array],
    units: int,
    steps: int,
    velocity: npt.ArrayLike | None,
    rng: np.random.Generator,
) -> Array:
    """Euler-Maruyama from a random state, without the first rows, which have no velocity."""
    inputs = np.zeros(BURN_IN + check_integer(steps, "steps"))
    if velocity is not None:
        inputs[BURN_IN:] = check_matrix(velocity, "velocity", (steps,), f"({steps},): one number per step")
    state = 0.5 * rng.standard_normal(units)
    rows = np.empty((len(inputs), units))
    for row, v in zip(rows, inputs, strict=True):
        state = state + STEP * drift(state, v) + NOISE * np.sqrt(STEP) * rng.standard_normal(units)
        row[:] = state
    return rows[BURN_IN:]
