"""What is normal: windows of a normal process in an embedding, and scores of how far other windows are."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.types import Array, KernelLike
from sysbags.distances.alignment_matrix import alignment_bounds, alignment_parts
from sysbags.distances.certificates import transition_spectra
from sysbags.distances.embedding import Embedding
from sysbags.distances.gram import CrossGram, SystemStack, embedded_cross_gram
from sysbags.kernels.functions import feature_map, kernel_matrix
from sysbags.systems.system import System
from sysbags.watch.motion import Motion, fit_motion, innovation_parts, spectrum_scores
from sysbags.watch.windows import Window

__all__ = ["PARTS", "SCORES", "NormalProcess", "Scorer", "fit_normal", "squared_norms"]

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
ALIGNED = 8  # normal windows to which a rotation is searched
TINY = 1e-12  # added to scores before their logarithm


class EmbeddedWindow(NamedTuple):
    """The system of a window in the embedding.

    Attributes
    ----------
    observers : (n + 1, d) array
        The columns of the observer, and the mean.
    stack : SystemStack
        Its small matrices.
    """

    observers: Array
    stack: SystemStack


class NormalProcess(NamedTuple):
    """What windows are compared with.

    Attributes
    ----------
    embedding : Embedding
    observers : (R, n + 1, d) array
        Normal windows in the embedding.
    stack : SystemStack
        Their small matrices.
    spectra : (3, R, n) array
        `transition_spectra` of them.
    weights : tuple of float
        lambda_a and lambda_mu, with which the parts of the distances between normal windows are equal.
    features : (R, L, d) array
        Of their bags.
    norms : (R, L) array
        Squared norms of the same.
    motion : Motion
    """

    embedding: Embedding
    observers: Array
    stack: SystemStack
    spectra: Array
    weights: tuple[float, float]
    features: Array
    norms: Array
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
        """Return the process with the motion of its present windows."""
        return self._replace(motion=fit_motion(self.features, self.norms, STATES))


def fit_normal(windows: Sequence[Window]) -> NormalProcess:
    """Learn what is normal from those windows that have a system."""
    systems = [window.system for window in windows if window.system is not None]
    embedding = Embedding.fit(systems, LANDMARKS, random_state=0)
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

    Parameters
    ----------
    normal : NormalProcess

    Attributes
    ----------
    embedded : EmbeddedWindow
        The window that was scored last.
    features : (L, d) array
        Of its bags.
    rows : (L, p) array
        Its bags.
    """

    def __init__(self, normal: NormalProcess) -> None:
        self.normal = normal
        self.reset()

    def reset(self) -> None:
        """Forget the windows before, as after a gap."""
        self._start, self.features, self.rows = 0, np.empty((0, 0)), np.empty((0, 0))
        self._earlier: deque[tuple[int, EmbeddedWindow]] = deque()

    def score(self, window: Window) -> Array:
        """Return the scores of a window with a system, in the order of `SCORES`.

        Returns
        -------
        (11,) array
            Logarithms; NaN where there is no window before.
        """
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
