"""The class atlas: the Frechet mean of each class as histograms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.linalg

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer, check_labels, seed_of
from sysbags.distances.alignment_matrix import alignment_matrix
from sysbags.distances.gram import CrossGram
from sysbags.errors import ParameterError
from sysbags.evaluate.results import ClassMean
from sysbags.means.frechet import BlockMean, mean_gram, mean_of_gram
from sysbags.systems.system import System

LARGEST_RADIUS = 0.999  # of a transition that is simulated; that of identified systems is not larger


def atlas(
    systems: Sequence[System],
    gram: CrossGram,
    labels: npt.ArrayLike,
    lambda_a: float,
    lambda_mu: float,
    *,
    frames: int = 60,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> tuple[ClassMean, ...]:
    """Compute the Frechet mean of each class and its histograms, in the sorted order of classes.

    A point `Phi c` of the feature space is shown as the histogram `Y' c`, clipped at 0 and divided by its
    sum: exact for the linear kernel, an approximate pre-image for the others. For the mean this is the
    average histogram. The dynamics are the histograms of ``mu + C x_t``, where the states are a simulation
    of the mean system over some `frames`, see `simulate_states`. Its noise is the same for all classes, so
    that differences come from the systems. Systems need states, as from `identify`.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=3, frames=30, bins=8)
    >>> systems = [sysbags.identify(stream, order=2) for stream in streams]
    >>> first, second = atlas(systems, sysbags.cross_gram(systems), labels, 0.25, 0.0, frames=20)
    >>> first.label, sorted(first.members), first.dynamics.shape
    ('0', [0, 1, 2], (20, 8))
    """
    classes, codes = check_labels(labels, len(systems))
    length, seed = check_integer(frames, "frames"), seed_of(random_state)
    if any(system.states is None for system in systems):
        raise ParameterError("a system has no states, but an atlas needs them: use systems from identify")

    def class_mean(c: int) -> ClassMean:
        rows = np.flatnonzero(codes == c)
        part, class_systems = gram.subset(rows), [systems[int(k)] for k in rows]
        mean = mean_of_gram(part, lambda_a, lambda_mu, random_state=seed)
        blocks = mean_gram(part, [np.arange(len(rows))], [mean])
        distances = alignment_matrix(blocks, lambda_a, lambda_mu, random_state=seed)[0]
        order: IntArray = np.argsort(distances, kind="stable")
        values = np.linalg.eigvals(mean.transition).astype(np.complex128)
        center, directions = _pre_images(class_systems, mean)
        states = simulate_states(mean.transition, _covariance(class_systems, mean), length, seed)
        return ClassMean(
            label=str(classes[c]),
            members=tuple(int(k) for k in rows[order]),
            distances=tuple(float(d) for d in distances[order]),
            eigenvalues=values[np.lexsort([-values.imag, -np.abs(values).round(12)])],
            histogram=_histograms(center[None])[0],
            dynamics=_histograms(center + states @ directions.T),
        )

    return tuple(run(class_mean, range(len(classes)), n_jobs, "class atlas"))


def simulate_states(transition: Array, covariance: Array, length: int, random_state: int = 0) -> Array:
    """Simulate the states of a system with noise, (length, n): ``x_{t+1} = A x_t + w_t``.

    Without noise the states would converge to 0. The noise has the covariance ``P - A P A'``, for which the
    states have the covariance P, without its negative eigenvalues; then the states are scaled so that the
    trace of their covariance is tr P. The first state is drawn from the stationary distribution. A is
    scaled down if its spectral radius is above 0.999.

    Examples
    --------
    >>> states = simulate_states(np.array([[0.9]]), np.array([[4.0]]), 4000)
    >>> states.shape, round(float(states.std()), 1)
    ((4000, 1), 2.0)
    """
    radius = float(np.abs(np.linalg.eigvals(transition)).max())
    A = transition * min(1.0, LARGEST_RADIUS / max(radius, np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(covariance - A @ covariance @ A.T)
    noise = (vectors * np.maximum(values, 0.0)) @ vectors.T
    stationary = scipy.linalg.solve_discrete_lyapunov(A, noise)
    total = float(np.trace(stationary))
    scale = np.trace(covariance) / total if total > 0.0 else 0.0
    noise_root, stationary_root = _root(scale * noise), _root(scale * stationary)
    normal = np.random.default_rng(random_state).standard_normal((length, len(A)))
    states = np.empty((length, len(A)))
    states[0] = stationary_root @ normal[0]
    for t in range(1, length):
        states[t] = A @ states[t - 1] + noise_root @ normal[t]
    return states


def _root(matrix: Array) -> Array:
    """Return the symmetric root of a covariance."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _covariance(systems: Sequence[System], mean: BlockMean) -> Array:
    """Return the average covariance of the states of the systems, rotated onto the mean."""
    total = np.zeros_like(mean.transition)
    for system, weight, Q in zip(systems, mean.weights, mean.rotations, strict=True):
        assert system.states is not None
        rotated = system.states @ Q[: system.order]
        total += weight * (rotated.T @ rotated) / len(rotated)
    return total


def _pre_images(systems: Sequence[System], mean: BlockMean) -> tuple[Array, Array]:
    """Return ``Y' beta`` (p,) and ``Y' alpha`` (p, n) of the mean, whose samples are those of all systems."""
    center, directions = 0.0, 0.0
    for system, weight, W in zip(systems, mean.weights, mean.mixing, strict=True):
        center = center + weight * (system.samples.T @ system.beta)
        directions = directions + system.samples.T @ (system.alpha @ W[: system.order])
    return np.asarray(center), np.asarray(directions)


def _histograms(rows: Array) -> Array:
    """Clip rows at 0 and divide them by their sums; a row without any mass becomes uniform."""
    clipped = np.maximum(rows, 0.0)
    mass = clipped.sum(axis=1, keepdims=True)
    return np.where(mass > 0.0, clipped / np.where(mass > 0.0, mass, 1.0), 1.0 / rows.shape[1])
