"""What is normal: windows of a normal process in an embedding, their motion, and scores of other windows.

A fixed camera gives the states of all windows the same coordinates, so that no rotation has to be searched,
and motion can be compared at all time scales.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.types import Array, KernelLike
from sysbags.distances.alignment_matrix import alignment_bounds, alignment_parts
from sysbags.distances.certificates import transition_spectra
from sysbags.distances.embedding import fit_embedding
from sysbags.distances.gram import CrossGram, SystemStack, embedded_cross_gram
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.kernels.functions import feature_map, kernel_matrix
from sysbags.systems.system import System
from sysbags.watch.windows import Window

COMPONENTS = 50  # principal components, among which the predictable ones are searched
LAGS = (1, 2, 3, 4, 6, 8)  # rows by which states are predicted
SMALL = 1e-12  # relative: below this a variance is round-off
KERNEL = np.array([0.25, 0.5, 0.25])  # smooths spectra over neighbouring frequencies
PARTS = ("transition", "observer", "mean")
# Distances to normal windows and to the window before, errors of prediction, and spectra of the states.
SCORES = (
    *(f"{kind} {part}" for kind in ("normal", "previous", "innovation") for part in PARTS),
    "spectrum shape",
    "spectrum peak",
)
NEAREST = 5  # normal windows whose distances are averaged
LANDMARKS = 200
STATES = 5  # that are predicted best
AXES = 3  # directions in which normal bags vary most, along which windows have levels
ALIGNED = 8  # normal windows to which a rotation is searched
TINY = 1e-12  # added to scores before their logarithm


class Motion(NamedTuple):
    """States of bags, ``x = (z - center) basis`` with z the features, and what is normal of them.

    There are r states of features in d dimensions, and spectra at F frequencies.
    """

    center: Array  # (d,)
    basis: Array  # (d, r), with which states have covariance I
    span: Array  # (d, r), the same space with orthonormal columns
    transition: Array  # (r, r), x_{t+1} = A x_t + e
    noise: Array  # (r, r), the covariance of e
    outside: float  # the mean squared norm of what the states do not explain
    shape: Array  # (2, F), mean and deviation of the logarithms of the spectrum, of all states together
    power: Array  # (2, F, r), the same for each state, of smoothed spectra
    axes: Array  # (d, a), the directions in which normal features vary most, with variance 1


def fit_motion(windows: Array, norms: Array, order: int) -> Motion:
    """Learn how features move from windows of consecutive ones, (R, L, d); see `StreamEmbedding.features`.

    The states are those linear combinations of the features that the past predicts best: with the principal
    components scaled to covariance I, the leading eigenvectors of the sum of squares of the symmetric parts
    of their lagged covariances. Variance alone would select noise: the histogram of a small frame changes
    with every pixel. There are `order` states; fewer, if the features have fewer components. The squared
    norms of the bags `k(y, y)`, (R, L), are given too: an embedding does not hold all of them.

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
    shapes, powers = zip(*(_spectra(x) for x in states), strict=True)
    return Motion(
        center,
        basis,
        span,
        transition,
        noise + SMALL * np.trace(noise) * np.eye(len(noise)),
        max(float(np.mean(outside)), SMALL * float(np.mean(norms))),  # not 0: ratios to it are formed
        _moments(np.stack(shapes)),
        _moments(np.stack(powers)),
        whitening[:, :AXES],
    )


def innovation_parts(motion: Motion, features: Array, norms: Array) -> Array:
    """Return how far a window departs from normal prediction: by its transition, its observer and its mean.

    The errors of one-step prediction are compared with their normal spread. With the window's own transition
    ``A_w``, spread ``Q_w`` and covariance ``S_w``, fitted with the normal ones as a prior, the first part is

        tr(Q^-1 (A_w - A) S_w (A_w - A)') + tr(Q^-1 Q_w) - r - log det(Q^-1 Q_w),

    twice the divergence of Kullback and Leibler between the two predictions of a bag. The second compares
    what the states do not explain with the normal amount, ``q - 1 - log q`` for a ratio q. The third is the
    squared mean of the states, in units of their normal spread. See `fit_motion` for features and norms.
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


class EmbeddedWindow(NamedTuple):
    """The system of a window in the embedding."""

    observers: Array  # (n + 1, d), the columns of the observer, and the mean
    stack: SystemStack  # its small matrices


class NormalProcess(NamedTuple):
    """What windows are compared with: R normal windows of L bags each."""

    embedding: StreamEmbedding
    observers: Array  # (R, n + 1, d), in the embedding
    stack: SystemStack  # their small matrices
    spectra: Array  # (4, R, n), `transition_spectra` of them
    weights: tuple[float, float]  # with which the parts of the distances between normal windows are equal
    features: Array  # (R, L, d), of their bags
    norms: Array  # (R, L), squared norms of the same
    motion: Motion

    def replaced(self, place: int, window: EmbeddedWindow, features: Array, norms: Array) -> NormalProcess:
        """Return the process with another window in one place."""
        chosen = np.arange(len(self.observers)) == place

        def put(old: Array, new: Any) -> Array:
            return np.where(chosen.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        old, new = self.stack, window.stack
        stack = SystemStack(
            old.orders,
            put(old.transition, new.transition),
            put(old.observer_gram, new.observer_gram),
            put(old.mean_norm, new.mean_norm),
            old.normal_form,
        )
        return self._replace(
            observers=put(self.observers, window.observers),
            stack=stack,
            spectra=transition_spectra(stack.transition),
            features=put(self.features, features),
            norms=put(self.norms, norms),
        )

    def moved(self) -> NormalProcess:
        """Return the process with the motion of its present windows; levels keep their axes."""
        motion = fit_motion(self.features, self.norms, STATES)
        return self._replace(motion=motion._replace(axes=self.motion.axes))


def fit_normal(windows: Sequence[Window]) -> NormalProcess:
    """Learn what is normal from those windows that have a system."""
    systems = [window.system for window in windows if window.system is not None]
    embedding = fit_embedding(systems, LANDMARKS, random_state=0)
    features = np.stack([embedding.features(system.samples) for system in systems])
    norms = np.stack([squared_norms(system.samples, system.kernel) for system in systems])
    embedded = [_embedded(system, z) for system, z in zip(systems, features, strict=True)]
    observers = np.stack([one.observers for one in embedded])
    stack = SystemStack.of(systems)
    first, second = np.triu_indices(len(systems), 1)
    gram = embedded_cross_gram(observers, observers, stack, stack, approximate=True)
    parts = alignment_parts(gram, np.column_stack([first, second]), 1.0, 1.0).mean(axis=0) + TINY
    weights = (float(parts[1] / parts[0]), float(parts[1] / parts[2]))
    spectra, motion = transition_spectra(stack.transition), fit_motion(features, norms, STATES)
    return NormalProcess(embedding, observers, stack, spectra, weights, features, norms, motion)


class Scorer:
    """Scores consecutive windows; features of rows that windows share are computed once.

    `embedded`, `features` and `rows` are those of the window that was scored last.
    """

    def __init__(self, normal: NormalProcess) -> None:
        self.normal = normal
        self.reset()

    def levels(self) -> Array:
        """Return the mean of the window that was scored last along each axis, (a,)."""
        return np.asarray(self.features.mean(axis=0) @ self.normal.motion.axes)

    def reset(self) -> None:
        """Forget the windows before, as after a gap."""
        self._start, self.features, self.rows = 0, np.empty((0, 0)), np.empty((0, 0))
        self._earlier: deque[tuple[int, EmbeddedWindow]] = deque()

    def score(self, window: Window) -> Array:
        """Return logarithms of the scores of a window with a system, NaN where there is no window before."""
        assert window.system is not None
        features, self.rows = self._features_of(window), window.rows
        self.embedded = one = _embedded(window.system, features)
        scores = np.full(len(SCORES), np.nan)
        scores[:3] = self._distances(one)
        before = self._before(window.start)
        if before is not None:
            scores[3:6] = self._parts(embedded_gram(before.observers[None], before.stack, one))[0]
        scores[6:9] = innovation_parts(
            self.normal.motion, features, squared_norms(window.rows, window.system.kernel)
        )
        scores[9:] = spectrum_scores(self.normal.motion, features)
        self._earlier.append((window.stop, one))
        return np.asarray(np.log(scores + TINY))

    def _before(self, start: int) -> EmbeddedWindow | None:
        """Return the last window that ended by this row, and forget those before it."""
        while len(self._earlier) > 1 and self._earlier[1][0] <= start:
            self._earlier.popleft()
        return self._earlier[0][1] if self._earlier and self._earlier[0][0] <= start else None

    def _features_of(self, window: Window) -> Array:
        """Return the features of the rows; only of new ones they are computed."""
        shared = self.features[max(window.start - self._start, 0) :]
        new = window.rows[len(shared) :]
        features = self.normal.embedding.features(new) if len(new) else np.empty((0, shared.shape[1]))
        self.features = np.concatenate([shared, features]) if len(shared) else features
        self._start = window.start
        return self.features

    def _distances(self, one: EmbeddedWindow) -> Array:
        """Return the mean parts of the distances to the nearest normal windows."""
        normal = self.normal
        gram = embedded_gram(normal.observers, normal.stack, one)
        spectra = (normal.spectra, transition_spectra(one.stack.transition))
        bounds = alignment_bounds(gram, *normal.weights, spectra=spectra)[:, 0]
        parts = self._parts(gram.subset(np.argsort(bounds, kind="stable")[:ALIGNED]))
        nearest = np.argsort(parts.sum(axis=1), kind="stable")[:NEAREST]
        return np.asarray(parts[nearest].mean(axis=0))

    def _parts(self, gram: CrossGram) -> Array:
        """Return the weighted parts of the distances of windows to another one, (K, 3)."""
        pairs = np.column_stack([np.arange(len(gram.mean)), np.zeros(len(gram.mean), dtype=np.int64)])
        return alignment_parts(gram, pairs, *self.normal.weights)


def embedded_gram(observers: Array, stack: SystemStack, one: EmbeddedWindow) -> CrossGram:
    """Return the CrossGram of windows with another one, from their embedding."""
    return embedded_cross_gram(observers, one.observers[None], stack, one.stack, approximate=True)


def _embedded(system: System, features: Array) -> EmbeddedWindow:
    coefficients = np.column_stack([system.alpha, system.beta])
    return EmbeddedWindow(coefficients.T @ features, SystemStack.of([system]))


def squared_norms(rows: Array, kernel: KernelLike) -> Array:
    """Return `k(y, y)` of each bag."""
    if kernel in ("chi2", "bhattacharyya", "intersection"):
        return np.ones(len(rows))
    explicit = feature_map(kernel)
    if explicit is not None:
        features = explicit(rows)
        return np.asarray(np.einsum("ij,ij->i", features, features))
    return np.array([kernel_matrix(row[None], kernel=kernel)[0, 0] for row in rows])
