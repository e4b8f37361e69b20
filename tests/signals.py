"""Time series of known linear systems, for the tests of `sysbags.dsa`."""

from __future__ import annotations

import numpy as np

__all__ = ["oscillation", "random_system"]


def oscillation(angles, seed, *, channels=4, length=150, trials=None, noise=0.02):
    """Return damped rotations of planes, driven by noise and observed through random sensors.

    The shape is (length, channels), or (trials, length, channels).
    """
    rng = np.random.default_rng(seed)
    A = np.zeros((2 * len(angles), 2 * len(angles)))
    for k, angle in enumerate(angles):
        c, s = 0.98 * np.cos(angle), 0.98 * np.sin(angle)
        A[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[c, -s], [s, c]]
    C = rng.standard_normal((channels, len(A)))
    series = np.empty((trials or 1, length, channels))
    for trial in series:
        x = rng.standard_normal(len(A))
        for t in range(length):
            trial[t] = C @ x + noise * rng.standard_normal(channels)
            x = A @ x + 0.2 * rng.standard_normal(len(A))
    return series if trials else series[0]


def random_system(n, seed, *, inputs=0, length=200):
    """Return A, B, a series (length, n) of ``x_{t+1} = A x_t + B u_t``, and its inputs (length, m)."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= 0.9 / np.abs(np.linalg.eigvals(A)).max()
    B, u = rng.standard_normal((n, inputs)), rng.standard_normal((length, inputs))
    x = np.empty((length, n))
    x[0] = rng.standard_normal(n)
    for t in range(length - 1):
        x[t + 1] = A @ x[t] + B @ u[t]
    return A, B, x, u
