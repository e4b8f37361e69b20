"""Generated streams of histograms from known linear systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_weight
from sysbags.errors import ParameterError

__all__ = ["make_streams"]

STATES = 4  # two planes, each with its own angle of rotation per frame
SLOW, FAST = (0.1, 0.4), (1.2, 2.2)  # radians per frame
DAMPING = (0.9, 0.99)  # factor of the amplitude of a state per frame
EXCURSION = 0.5  # change of the log-frequencies for a state of size 1
SHARED = 0.95  # fraction of the variance of an observer that is the same for all pairs of classes
# Deviations within a class at noise 1: of the observer, the mean, the log-frequencies, the angles.
OBSERVER_SPREAD, MEAN_SPREAD, FRAME_SPREAD, SPEED_SPREAD = 0.8, 0.6, 0.7, 0.2


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
    rng = _generator(random_state)

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


def _generator(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"random_state is {random_state!r}, but it must be a whole number of at least 0, "
            "a Generator or None"
        ) from None
