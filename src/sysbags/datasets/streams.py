"""Generated streams of histograms, simulated neural populations and the Lorenz system: rows are time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_matrix, check_weight, generator_of

STATES = 4  # two planes, each with its own angle of rotation per frame
SLOW, FAST = (0.1, 0.4), (1.2, 2.2)  # radians per frame
DAMPING = (0.9, 0.99)  # factor of the amplitude of a state per frame
EXCURSION = 0.5  # change of the log-frequencies for a state of size 1
SHARED = 0.95  # fraction of the variance of an observer that is the same for all pairs of classes
# Deviations within a class at noise 1: of the observer, the mean, the log-frequencies, the angles.
OBSERVER_SPREAD, MEAN_SPREAD, FRAME_SPREAD, SPEED_SPREAD = 0.8, 0.6, 0.7, 0.2
BURN_IN = 200  # rows that are computed first and not returned
STEP = 0.1  # of Euler's method, in time constants of a unit
NOISE = 0.1  # standard deviation after one time constant, in the range of a unit's activity
RandomState = int | np.random.Generator | None


def make_streams(
    classes: int = 6,
    per_class: int = 10,
    frames: int = 80,
    bins: int = 32,
    noise: float = 1.0,
    random_state: int | np.random.Generator | None = 0,
) -> tuple[list[Array], IntArray]:
    """Generate streams of histograms from known linear systems, several of each class.

    A stream follows ``x_{t+1} = A x_t + w_t``, ``y_t = softmax(mu + C x_t + v_t)``. The transition A
    rotates two planes, each by an angle of its class, with little damping; the noise w keeps the variance of
    the states at 1 for any angle. Classes are in pairs, 0 and 1, 2 and 3 and so on: both have the same
    observer C and the same mu, and one is slow, the other fast. So the distributions of a single frame and
    of the average over time are the same within a pair, whose classes differ in their dynamics only.

    Parameters
    ----------
    classes, per_class : int, default=6, 10
        Number of classes and of streams in each.
    frames, bins : int, default=80, 32
        Length of a stream and of its histograms.
    noise : float, default=1.0
        Differences between the streams of a class in observer, mean, angles, and from frame to frame. With
        0 only the states differ.
    random_state : int, Generator or None, default=0

    Returns
    -------
    streams : list of (frames, bins) array
        Rows are histograms of sum 1; class after class.
    labels : (classes * per_class,) array of int
        Class numbers, from 0.

    Examples
    --------
    >>> streams, labels = make_streams(classes=2, per_class=3, frames=50, bins=8)
    >>> labels
    array([0, 0, 0, 1, 1, 1])
    >>> streams[0].shape, streams[0].sum(axis=1).round(12).min()
    ((50, 8), np.float64(1.0))
    """
    check_integer(classes, "classes")
    check_integer(per_class, "per_class")
    check_integer(frames, "frames")
    check_integer(bins, "bins", minimum=2)
    check_weight(noise, "noise")
    rng = generator_of(random_state)

    streams = []
    common = rng.standard_normal((bins, STATES))
    for label in range(classes):
        if label % 2 == 0:
            mean = 0.6 * rng.standard_normal(bins)
            specific = rng.standard_normal((bins, STATES))
            observer = np.sqrt(SHARED) * common + np.sqrt(1.0 - SHARED) * specific
        angles = rng.uniform(*(FAST if label % 2 else SLOW), size=STATES // 2)
        damping = rng.uniform(*DAMPING, size=STATES // 2)
        for _ in range(per_class):
            stream_angles = angles * (1.0 + noise * SPEED_SPREAD * rng.standard_normal(angles.shape))
            states = _walk(stream_angles, damping, frames, rng)
            C = observer + noise * OBSERVER_SPREAD * rng.standard_normal(observer.shape)
            mu = mean + noise * MEAN_SPREAD * rng.standard_normal(bins)
            v = noise * FRAME_SPREAD * rng.standard_normal((frames, bins))
            streams.append(_softmax(mu + EXCURSION * states @ C.T + v))
    return streams, np.repeat(np.arange(classes, dtype=np.int64), per_class)


def _walk(angles: Array, damping: Array, frames: int, rng: np.random.Generator) -> Array:
    """Return states (frames, n) of damped rotating planes, with noise that keeps each variance at 1."""
    # A point of a plane is a complex number, and its transition a complex factor.
    factor = damping * np.exp(1j * angles)
    drive = rng.standard_normal((frames, angles.size, 2)) @ np.array([1.0, 1j])
    drive[1:] *= np.sqrt(1.0 - damping**2)
    plane = np.empty(drive.shape, dtype=complex)
    plane[0] = drive[0]
    for t in range(1, frames):
        plane[t] = factor * plane[t - 1] + drive[t]
    return np.stack([plane.real, plane.imag], axis=-1).reshape(frames, -1)


def _softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def make_random_network(*, units: int = 40, steps: int = 400, random_state: RandomState = 0) -> Array:
    """Simulate a network ``dx = -x + g W tanh(x)`` with random weights, driven by noise: (steps, units).

    The gain g is between 0.8 and 1.6: the network is quiet below 1 and chaotic above it.

    Parameters
    ----------
    units, steps : int, default=40, 400
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> make_random_network(units=10, steps=50).shape
    (50, 10)
    """
    rng = generator_of(random_state)
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

    The result has the shape (steps, units). Units with similar preferred angles excite each other and inhibit
    the others; they are in random order. A velocity turns the weights, and the bump moves along the ring.

    Parameters
    ----------
    units, steps : int, default=40, 400
    velocity : (steps,) array_like, optional
        Speed of the bump in radians per time constant of a unit, which is ten steps; approximate, and good
        for small speeds.
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> make_ring_attractor(units=12, steps=50).shape
    (50, 12)
    """
    rng = generator_of(random_state)
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

    The result has the shape (steps, units).

    Parameters
    ----------
    units, steps : int, default=40, 400
    velocity : (steps,) array_like, optional
        Input along the direction that is remembered; by default the network integrates its noise alone.
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> make_line_attractor(units=12, steps=50).shape
    (50, 12)
    """
    rng = generator_of(random_state)
    direction = rng.standard_normal(units)
    direction /= np.linalg.norm(direction)
    weights = 0.5 * rng.standard_normal((units, units)) / np.sqrt(units)
    weights -= np.outer(weights @ direction, direction)
    weights += rng.uniform(0.98, 1.0) * np.outer(direction, direction)
    return _trajectory(lambda x, v: weights @ x - x + v * direction, units, steps, velocity, rng)


def make_lorenz(*, rho: float = 28.0, steps: int = 400, random_state: RandomState = 0) -> Array:
    """Simulate the Lorenz system from a random state, with sigma = 10 and beta = 8/3.

    The result has the shape (steps, 3). Rows are 0.02 units of time apart; the coordinates are ``x / 10``,
    ``y / 10`` and ``(z - 25) / 10``.

    Parameters
    ----------
    rho : float, default=28.0
        The default is Lorenz's own value, for which the system is chaotic.
    steps : int, default=400
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> make_lorenz(steps=50).shape
    (50, 3)
    """
    rng = generator_of(random_state)
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
