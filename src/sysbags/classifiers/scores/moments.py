"""Moments of paths and squared distances between them: averages, their course, lagged covariances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray

# What the distances are between, in the order of `Moments.squared`.
TERMS = ("averages", "course", "covariances", "normalized covariances")
PARTS = 8  # of a clip, for its course
BLOCK = 256  # paths that are compared with all others at a time
NEGLIGIBLE = 1e-12  # of the squared norms: what is smaller is round-off of numbers in float32
LONGEST_LAG = 0.25  # of the shortest clip


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """The moments of K paths, each as few numbers however long the path is.

    Attributes
    ----------
    averages : (K, d) array of float32
        The average over time of all coordinates.
    course : (K, 8 c) array of float32
        The averages over each eighth of the path, of c coordinates.
    covariances : (K, L c^2) array of float16
        The covariances of these coordinates with themselves some steps later, for L lags, divided by their
        norm; 0 for a path that never changes.
    norms : (K,) array
        Their norms.
    """

    averages: npt.NDArray[np.float32]
    course: npt.NDArray[np.float32]
    covariances: npt.NDArray[np.float16]
    norms: Array

    def __len__(self) -> int:
        return len(self.norms)

    def subset(self, indices: Any) -> Moments:
        """Return the moments of some of the paths."""
        return Moments(**{field.name: getattr(self, field.name)[indices] for field in fields(self)})

    @classmethod
    def stack(cls, parts: Sequence[Moments]) -> Moments:
        """Return those of several collections one after the other."""
        return cls(
            **{
                field.name: np.concatenate([getattr(one, field.name) for one in parts])
                for field in fields(cls)
            }
        )

    def squared(self, others: Moments, *, n_jobs: int | None = None) -> Array:
        """Return the squared distances of each of `TERMS`, (4, K, L).

        Parameters
        ----------
        others : Moments
        n_jobs : int, optional
            Threads; the result does not depend on it.

        Examples
        --------
        >>> paths = [np.cos(0.1 * np.arange(50))[:, None], np.ones((50, 1))]
        >>> found = Moments.stack([moments(path, np.array([0, 1, 2])) for path in paths])
        >>> found.squared(found)[0].round(3)  # between averages of -0.185 and 1
        array([[0.   , 1.403],
               [1.403, 0.   ]])
        """
        known = others._vectors()

        def block(start: int) -> Array:
            part = self.subset(slice(start, start + BLOCK))
            pairs = list(zip(part._vectors(), known, strict=True))
            terms = [_squared(*own, *other) for own, other in pairs[:2]]
            (unit, norms), (other_unit, other_norms) = pairs[2]
            alike = unit @ other_unit.T
            scaled = np.outer(part.norms, others.norms) * alike
            terms.append(_nonnegative(part.norms**2 * norms, others.norms**2 * other_norms, scaled))
            return np.stack([*terms, _nonnegative(norms, other_norms, alike)])

        blocks = run(block, range(0, len(self.norms), BLOCK), n_jobs, "distances")
        return np.concatenate(blocks, axis=1)

    def _vectors(self) -> list[tuple[Array, Array]]:
        """Return what distances are between, in double precision, with the squared norms.

        Rounded to float16, covariances have norms of nearly 1.
        """
        double = (one.astype(np.float64) for one in (self.averages, self.course, self.covariances))
        return [(one, np.einsum("kd,kd->k", one, one)) for one in double]


def moments(path: Array, lags: IntArray, averages: Array | None = None) -> Moments:
    """Return the moments of one path.

    Lags that the path is too short for have covariances of 0.

    Parameters
    ----------
    path : (N, c) array
    lags : (L,) array of int
    averages : (d,) array, optional
        The average over time, of more coordinates than the path has; by default of the path.
    """
    center, size = path.mean(axis=0), np.sqrt(NEGLIGIBLE * np.square(path).mean())
    averages = center if averages is None else averages
    averages = np.where(np.abs(averages) > size, averages, 0.0)
    centred = path - center
    frames, coordinates = centred.shape
    covariances = np.zeros((len(lags), coordinates, coordinates))
    for place, lag in zip(covariances, lags.tolist(), strict=True):
        if lag < frames:
            np.matmul(centred[: frames - lag].T, centred[lag:], out=place)
            place /= frames - lag
    norm = float(np.linalg.norm(covariances))
    if norm <= size**2:
        norm = 0.0  # all frames are alike, but for round-off
    parts = course(path)
    unit = covariances / norm if norm > 0.0 else np.zeros_like(covariances)
    return Moments(
        averages=averages[None].astype(np.float32),
        course=np.where(np.abs(parts) > size, parts, 0.0).reshape(1, -1).astype(np.float32),
        covariances=unit.reshape(1, -1).astype(np.float16),
        norms=np.array([norm]),
    )


def moments_of_paths(paths: Sequence[Array], averages: Array, lags: IntArray) -> Moments:
    """Return the moments of several paths, with their averages, (K, d)."""
    return Moments.stack([moments(path, lags, own) for path, own in zip(paths, averages, strict=True)])


def course(path: npt.NDArray[Any], parts: int = PARTS) -> Array:
    """Return the averages over equal parts of a path, (parts, d); frames on a border count to both sides.

    Examples
    --------
    >>> course(np.array([[0.0], [1.0], [2.0]]), 2)
    array([[0.33333333],
           [1.66666667]])
    """
    sums = np.concatenate([np.zeros((1, path.shape[1])), np.cumsum(path, axis=0)])
    borders = np.linspace(0.0, len(path), parts + 1)
    below = np.minimum(borders.astype(np.int64), len(path) - 1)
    at = sums[below] + (borders - below)[:, None] * path[below]
    return np.asarray(np.diff(at, axis=0) * (parts / len(path)))


def lag_grid(shortest: int) -> IntArray:
    """Return 0, 1, 2, 4 and so on, up to a quarter of the shortest path.

    Examples
    --------
    >>> lag_grid(50), lag_grid(3)
    (array([0, 1, 2, 4, 8]), array([0]))
    """
    longest = int(LONGEST_LAG * shortest)
    return np.array([0, *(1 << k for k in range(longest.bit_length()))])


def _squared(first: Array, norms: Array, second: Array, other_norms: Array) -> Array:
    return _nonnegative(norms, other_norms, first @ second.T)


def _nonnegative(norms: Array, other_norms: Array, products: Array) -> Array:
    total = norms[:, None] + other_norms
    squared = total - 2.0 * products
    return np.where(squared > NEGLIGIBLE * total, squared, 0.0)
