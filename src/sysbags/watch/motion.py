"""How the bags of a normal process move, in fixed coordinates, and how far a window departs from it.

A fixed camera gives the states of all windows the same coordinates, so that no rotation has to be searched,
and motion can be compared at all time scales.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sysbags._common.types import Array

__all__ = ["Motion", "fit_motion", "innovation_parts", "spectrum_scores"]

COMPONENTS = 50  # principal components, among which the predictable ones are searched
LAGS = (1, 2, 3, 4, 6, 8)  # rows by which states are predicted
SMALL = 1e-12  # relative: below this a variance is round-off
KERNEL = np.array([0.25, 0.5, 0.25])  # smooths spectra over neighbouring frequencies


class Motion(NamedTuple):
    """States of bags, ``x = (z - center) basis`` with z the features, and what is normal of them.

    Attributes
    ----------
    center : (d,) array
    basis : (d, r) array
        States have covariance I.
    span : (d, r) array
        The same space with orthonormal columns.
    transition : (r, r) array
        ``x_{t+1} = A x_t + e``.
    noise : (r, r) array
        The covariance of e.
    outside : float
        The mean squared norm of what the states do not explain.
    shape : (2, F) array
        Mean and standard deviation of the logarithms of the spectrum, of all states together.
    power : (2, F, r) array
        The same for each state, of smoothed spectra.
    """

    center: Array
    basis: Array
    span: Array
    transition: Array
    noise: Array
    outside: float
    shape: Array
    power: Array


def fit_motion(windows: Array, norms: Array, order: int) -> Motion:
    """Learn how features move from windows of consecutive ones.

    The states are those linear combinations of the features that the past predicts best: with the principal
    components scaled to covariance I, the leading eigenvectors of the sum of squares of the symmetric parts
    of their lagged covariances. Variance alone would select noise: the histogram of a small frame changes
    with every pixel.

    Parameters
    ----------
    windows : (R, L, d) array
        Features of consecutive bags, see `Embedding.features`.
    norms : (R, L) array
        Squared norms of the same bags, `k(y, y)`: an embedding does not hold all of them.
    order : int
        Number r of states; fewer, if the features have fewer components.

    Examples
    --------
    Of a circle among noise of larger variance, the states are the circle.

    >>> rng, angles = np.random.default_rng(0), 0.3 * np.arange(4000).reshape(40, 100, 1)
    >>> circle = np.concatenate([np.cos(angles), np.sin(angles), 2.0 * rng.standard_normal((40, 100, 8))], 2)
    >>> motion = fit_motion(circle, np.ones((40, 100)), 2)
    >>> np.abs(np.angle(np.linalg.eigvals(motion.transition))).round(2)
    array([0.3, 0.3])
    """
    every = windows.reshape(-1, windows.shape[2])
    center = every.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(every.T, bias=True).reshape(len(center), -1))
    kept = np.flatnonzero(values > SMALL * values[-1])[::-1][:COMPONENTS]
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    whitened = (windows - center) @ whitening
    predictable = np.zeros((len(kept), len(kept)))
    for lag in [lag for lag in LAGS if lag < windows.shape[1]]:
        lagged = np.einsum("wti,wtj->ij", whitened[:, lag:], whitened[:, :-lag], optimize=True)
        lagged = (lagged + lagged.T) / (2.0 * len(whitened) * (whitened.shape[1] - lag))
        predictable += lagged @ lagged
    rotation = np.linalg.eigh(predictable)[1][:, ::-1][:, :order]
    basis = whitening @ rotation
    states = whitened @ rotation
    before, after = (states[:, part].reshape(-1, states.shape[2]) for part in (slice(-1), slice(1, None)))
    transition = np.linalg.lstsq(before, after, rcond=None)[0].T
    errors = after - before @ transition.T
    noise = errors.T @ errors / len(errors)
    span = np.linalg.qr(basis)[0]
    outside = [_outside(z, center, span, k) for z, k in zip(windows, norms, strict=True)]
    spectra = [_spectra(x) for x in states]
    return Motion(
        center,
        basis,
        span,
        transition,
        noise + SMALL * np.trace(noise) * np.eye(len(noise)),
        max(float(np.mean(outside)), SMALL * float(np.mean(norms))),  # not 0: ratios to it are formed
        *(_moments(np.stack(kind)) for kind in zip(*spectra, strict=True)),
    )


def innovation_parts(motion: Motion, features: Array, norms: Array) -> Array:
    """Return how far a window departs from normal prediction: by its transition, its observer and its mean.

    The errors of one-step prediction are compared with their normal spread. With the window's own transition
    ``A_w``, spread ``Q_w`` and covariance ``S_w``, fitted with the normal ones as a prior, the first part is

        tr(Q^-1 (A_w - A) S_w (A_w - A)') + tr(Q^-1 Q_w) - r - log det(Q^-1 Q_w),

    twice the divergence of Kullback and Leibler between the two predictions of a bag. The second compares
    what the states do not explain with the normal amount, ``q - 1 - log q`` for a ratio q. The third is the
    squared mean of the states, in units of their normal spread.

    Parameters
    ----------
    motion : Motion
    features : (L, d) array
    norms : (L,) array
        See `fit_motion`.

    Returns
    -------
    (3,) array
    """
    X = (features - motion.center) @ motion.basis
    before, after = X[:-1], X[1:]
    r, total = X.shape[1], len(before) + X.shape[1]
    A, Q = motion.transition, motion.noise
    second = before.T @ before + r * np.eye(r)
    own = np.linalg.solve(second, (after.T @ before + r * A).T).T
    errors, change = after - before @ own.T, own - A
    spread = np.linalg.solve(Q, (errors.T @ errors + r * Q) / total)
    moved = np.trace(np.linalg.solve(Q, change @ second @ change.T / total))
    dynamics = moved + np.trace(spread) - r - np.linalg.slogdet(spread)[1]
    ratio = max(_outside(features, motion.center, motion.span, norms) / motion.outside, SMALL)
    mean = X.mean(axis=0)
    return np.array([max(dynamics, 0.0), ratio - 1.0 - np.log(ratio), mean @ mean])


def spectrum_scores(motion: Motion, features: Array) -> Array:
    """Return how far the spectrum of a window's states departs from normal: in its shape, and by a peak.

    One step ahead, a process that has become slower by a tenth is predicted nearly as well as before; over
    a window its frequency tells. The first score is the mean squared deviation of the logarithms of the
    spectrum of all states together, in units of their normal deviations; the second the largest deviation
    of any state at any frequency, upwards.

    Returns
    -------
    (2,) array
    """
    shape, power = _spectra((features - motion.center) @ motion.basis)
    deviations = (shape - motion.shape[0]) / motion.shape[1]
    return np.array([np.mean(deviations**2), max(np.max((power - motion.power[0]) / motion.power[1]), 0.0)])


def _spectra(states: Array) -> tuple[Array, Array]:
    """Return logarithms of spectra without the mean: of all states, with sum 1, and of each, smoothed."""
    tapered = (states - states.mean(axis=0)) * np.hanning(len(states))[:, None]
    power = np.abs(np.fft.rfft(tapered, axis=0))[1:] ** 2 / len(states)
    smooth = np.apply_along_axis(np.convolve, 0, power, KERNEL, mode="same")
    total = power.sum(axis=1)
    return np.log(total / max(total.sum(), SMALL) + SMALL), np.log(smooth + SMALL)


def _moments(values: Array) -> Array:
    return np.stack([values.mean(axis=0), np.maximum(values.std(axis=0), 1e-3)])


def _outside(features: Array, center: Array, span: Array, norms: Array) -> float:
    """Return the mean squared norm of what neither the states nor the embedding hold."""
    centred = features - center
    states = centred @ span
    inside = np.einsum("ij,ij->i", centred, centred) - np.einsum("ij,ij->i", states, states)
    lost = norms - np.einsum("ij,ij->i", features, features)
    return float(np.mean(np.maximum(inside, 0.0) + np.maximum(lost, 0.0)))
