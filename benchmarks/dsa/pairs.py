"""Pairs of systems for the comparison: random and related ones, real clips, and simulated populations.

Real systems come from `sysbags.identify`: from streams of clips, by local binary patterns with the
chi-squared kernel, and from simulated trajectories with the linear kernel and delays. Above order
`CONSTRAINED` their transitions are made stable by clipping singular values, because the constrained problem
would take up to a minute for each system. Seeds below `PUBLISHED` are for tuning the search, those from
`PUBLISHED` on for tables. The two use different clips: sources (or classes, if sources are not known) are
divided between them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import sysbags
from benchmarks import problems
from benchmarks.dsa.simulations import SIMULATIONS
from benchmarks.problems import Pair
from sysbags._common.types import Array
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets.folder import class_folders
from sysbags.errors import OrderError
from sysbags.systems.system import System

__all__ = ["KINDS", "PUBLISHED", "delayed", "make_pairs", "make_systems", "pair_of", "without_observers"]

KINDS = ("random", "related", "clips", "simulations")
PUBLISHED = 1000
DELAYS = 3
CONSTRAINED = 20


def make_pairs(kind: str, n: int, count: int, seed: int, folder: Path | None = None) -> list[Pair]:
    """Pairs of systems of order `n`, the same for the same arguments.

    Parameters
    ----------
    kind : {"random", "related", "clips", "simulations"}
        The first two are those of `benchmarks.problems.make_pairs`.
    n : int
        Order of both systems.
    count : int
        How many pairs; there are fewer clips if those of the folder do not suffice.
    seed : int
    folder : Path, optional
        Clips in class folders, which the kind "clips" needs.
    """
    if kind == "random":
        return problems.make_pairs("random", n, count, seed=seed)
    if kind == "related":
        return problems.make_pairs("related", n, count, seed=seed)
    systems = make_systems(kind, n, 2 * count, seed, folder)
    return [pair_of(*two) for two in zip(systems[::2], systems[1::2], strict=False)]


def make_systems(kind: str, n: int, count: int, seed: int, folder: Path | None = None) -> list[System]:
    """Identified systems of order `n`; clips that are too short or too still for it are left out.

    Simulations come in groups of four: two systems of one kind, which are a related pair, then two of
    different kinds.
    """
    stability = "constrained" if n <= CONSTRAINED else "clip"
    if kind == "simulations":
        streams = _simulated_streams(count, seed)
        return [sysbags.identify(stream, n, "linear", stability=stability) for stream in streams]
    systems: list[System] = []
    for stream in _clip_streams(folder, seed) if folder else ():
        if len(systems) == count:
            break
        try:
            systems.append(sysbags.identify(stream, n, stability=stability))
        except OrderError:
            continue
    return systems


def pair_of(first: System, second: System) -> Pair:
    """Transitions and the cross block of two systems."""
    observer = sysbags.cross_gram([first], [second]).observer[0, 0]
    return Pair(np.array(first.transition), np.array(second.transition), np.array(observer))


def without_observers(pair: Pair) -> Pair:
    """The problem of dynamical similarity analysis: `M = 0`."""
    return pair._replace(M=np.zeros_like(pair.M))


def delayed(stream: Array, delays: int) -> Array:
    """Each row followed by the next ones, ``delays`` rows in all.

    Examples
    --------
    >>> delayed(np.arange(4.0)[:, None], 2).tolist()
    [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    windows = np.lib.stride_tricks.sliding_window_view(stream, delays, axis=0)
    return np.asarray(windows.swapaxes(1, 2).reshape(len(windows), -1))


def _simulated_streams(count: int, seed: int) -> Iterator[Array]:
    rng = np.random.default_rng([seed, KINDS.index("simulations")])
    for index in range(count):
        group, place = divmod(index, 4)
        kind = (group, group, group, group + 1)[place] % len(SIMULATIONS)
        yield delayed(SIMULATIONS[kind](rng), DELAYS)


def _clip_streams(folder: Path, seed: int) -> Iterator[Array]:
    """Streams of the clips of this seed in random order, one clip of each source."""
    clips = class_folders(folder)
    groups = clips.sources or clips.labels
    names = sorted(set(groups))[int(seed >= PUBLISHED) :: 2]
    rng = np.random.default_rng([seed, KINDS.index("clips")])
    for name in rng.permutation(names):
        yield _stream(clips.paths[rng.choice([i for i, group in enumerate(groups) if group == name])])


@functools.cache
def _stream(path: Path) -> Array:
    return LocalBinaryPatterns().stream(path)
