"""Forecast and simulation: the states ahead, and the histograms that belong to states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysbags._common.types import Array
from sysbags._common.validation import SUM_TOLERANCE
from sysbags.systems.compression import square_root


class Forecast(NamedTuple):
    """What is expected ahead; row k is step k + 1.

    Attributes
    ----------
    states : (n_steps, n) array
        Means of the states.
    covariances : (n_steps, n, n) array
        Covariances of the states.
    histograms : (n_steps, p) array
        Means of the bags.
    deviations : (n_steps, p) array
        Standard deviations of the bins.
    """

    states: Array
    covariances: Array
    histograms: Array
    deviations: Array


def forecast_states(
    transition: Array, noise: Array, state: Array, n_steps: int, covariance: Array | None = None
) -> tuple[Array, Array]:
    """Return the means `A^k x` and the covariances `P_k = A P_{k-1} A' + noise` of the next states.

    They are (n_steps, n) and (n_steps, n, n). `covariance` is `P_0`, that of `state`; by default it is known
    exactly.
    """
    n = len(state)
    states, covariances = np.empty((n_steps, n)), np.empty((n_steps, n, n))
    P = np.zeros((n, n)) if covariance is None else covariance
    for k in range(n_steps):
        state = transition @ state
        P = transition @ P @ transition.T + noise
        P = 0.5 * (P + P.T)  # round-off would grow to an asymmetry
        states[k], covariances[k] = state, P
    return states, covariances


def simulated_states(
    transition: Array, noise: Array, state: Array, n_steps: int, rng: np.random.Generator
) -> Array:
    """Draw the next states, (n_steps, n), of `x_{t+1} = A x_t + e_t` with Gaussian `e_t`."""
    states = rng.standard_normal((n_steps, len(state))) @ square_root(noise)
    for k in range(n_steps):
        state = transition @ state + states[k]
        states[k] = state
    return states


class Readout(NamedTuple):
    """The histograms that belong to states: a linear regression of samples on their states.

    For a system from `identify` the regression is also the combination of the samples with the coefficients
    `beta + alpha x` that give the feature `mu + C x`. The `variance` is that of the residuals of each bin.
    With `simplex` the samples are histograms, and the mean is projected onto the simplex.
    """

    intercept: Array
    slope: Array
    variance: Array
    simplex: bool

    @classmethod
    def fit(cls, states: Array, samples: Array) -> Readout:
        """Learn the regression of (N, p) samples on (N, n) states."""
        inputs = np.column_stack([np.ones(len(states)), states])
        weights: Array = np.asarray(np.linalg.lstsq(inputs, samples, rcond=None)[0], dtype=np.float64)
        variance = ((samples - inputs @ weights) ** 2).mean(axis=0)
        sums = samples.sum(axis=1)
        simplex = samples.min() >= 0.0 and np.abs(sums - 1.0).max() <= SUM_TOLERANCE
        return cls(weights[0], weights[1:], variance, bool(simplex))

    def histograms(self, states: Array) -> Array:
        """Return the mean bags, (T, p), of states."""
        means = self.intercept + states @ self.slope
        return nearest_histograms(means) if self.simplex else means

    def deviations(self, covariances: Array) -> Array:
        """Return the standard deviations of the bins, (T, p), for (T, n, n) covariances of the states.

        Both the spread of the states and the residuals of the regression count; the projection onto the
        simplex does not.
        """
        variances = np.einsum("np,tnm,mp->tp", self.slope, covariances, self.slope, optimize=True)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0) + self.variance))


def nearest_histograms(rows: Array) -> Array:
    """Project rows onto the simplex: the histograms with the smallest Euclidean distance to them.

    The problem solved for each row v is: minimise ``||h - v||`` subject to `h >= 0` and `sum(h) = 1`. The
    solution is `h = max(v - c, 0)`. The number c follows from the entries that stay positive, which are the
    largest ones (Held, Wolfe and Crowder, 1974).
    """
    # The solution does not change if a constant is added; this one keeps the sums below accurate.
    rows = rows - rows.max(axis=1, keepdims=True)
    descending = -np.sort(-rows, axis=1)
    thresholds = (np.cumsum(descending, axis=1) - 1.0) / np.arange(1, rows.shape[1] + 1)
    positive = (descending > thresholds).sum(axis=1, keepdims=True)
    return np.maximum(rows - np.take_along_axis(thresholds, positive - 1, axis=1), 0.0)
