"""A collection of DynTex-Gamma's size: all distances and leave-one-out 1-NN and nearest mean, on one core.

Run as `python -m benchmarks.collection [CLIPS [SUBSET]]`. Both sides start from identified systems. Ours is
timed on all clips; the twin in plain NumPy on a subset, and what it takes is scaled by the number of
pairs (kernel, distances) and of members to align (means; to the twin's advantage). Times are the processor's.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import twin
from sysbags._common.types import Array, IntArray
from sysbags.classifiers import SystemIdentifier
from sysbags.distances.gram import CrossGram, cross_gram
from sysbags.distances.pairwise import distance_matrix
from sysbags.evaluate import leave_one_out
from sysbags.systems.system import System

__all__ = ["Times", "main", "measure", "rows", "streams"]

SIZES = (29, 38, 25, 35, 7, 30, 31, 23, 9, 37)  # DynTex-Gamma's ten classes
CLIPS, FRAMES, BINS, ORDER = sum(SIZES), 250, 256, 5
SUBSET = 30
TWIN_PAIRS = 20  # of which the twin's kernel is timed; the rest of the subset gets our blocks
LAMBDA_A = 0.25
FASTER, SMALLER = 100.0, 10.0
PAPER = 2205 + 3365  # seconds on its authors' machine, for orientation

Steps = dict[str, float]


@dataclass
class Times:
    """Seconds of each step."""

    clips: int
    subset: int
    ours: Steps = field(default_factory=dict)
    twin: Steps = field(default_factory=dict)  # scaled to all clips
    difference: float = 0.0  # largest excess of our distances over the twin's, which may be stuck higher

    @property
    def after(self) -> float:
        """Ours after the CrossGram; the nearest system works out all distances, so they count once."""
        return self.ours["leave-one-out nearest-system"] + self.ours["leave-one-out nearest-mean"]

    @property
    def total(self) -> float:
        """Ours in all, without identification."""
        return self.ours["CrossGram"] + self.after


def streams(clips: int = CLIPS, seed: int = 0) -> tuple[list[Array], IntArray]:
    """Dense histograms that swing between a class's bags at a class's pace, and the classes."""
    rng = np.random.default_rng(seed)
    bags = rng.dirichlet(np.ones(BINS), size=(len(SIZES), 2 * ORDER))
    paces = rng.uniform(0.05, 1.0, size=(len(SIZES), ORDER))
    # Evenly spread, so that fewer clips keep the classes' proportions.
    labels = np.repeat(np.arange(len(SIZES)), SIZES)[np.linspace(0, CLIPS - 1, clips).astype(int)]
    clip_streams = []
    for label in labels:
        pace = paces[label] * rng.normal(1.0, 0.05, size=ORDER)
        angle = np.arange(FRAMES)[:, None] * pace + rng.uniform(0.0, 2 * np.pi, size=ORDER)
        shares = 1.0 + np.hstack([np.cos(angle), np.sin(angle)])
        clip_bags = bags[label] + 0.5 * rng.dirichlet(np.ones(BINS), size=2 * ORDER)
        noise = rng.dirichlet(np.ones(BINS), size=FRAMES)
        stream = shares @ clip_bags + 3.0 * noise
        clip_streams.append(stream / stream.sum(axis=1, keepdims=True))
    return clip_streams, labels


def measure(clips: int = CLIPS, subset: int = SUBSET) -> Times:
    """Time every step of both sides; BLAS on one thread throughout."""
    times = Times(clips, min(subset, clips))
    clip_streams, labels = streams(clips)
    with threadpool_limits(limits=1):
        _compile(clip_streams, labels)
        with _step(times.ours, "identification"):
            systems = SystemIdentifier(order=ORDER, n_jobs=1).fit_transform(clip_streams)
        with _step(times.ours, "CrossGram"):
            gram = cross_gram(systems, n_jobs=1)
        with _step(times.ours, "all distances"):
            distances = distance_matrix(gram, lambda_a=LAMBDA_A, n_jobs=1)
        for classifier in ("nearest-system", "nearest-mean"):
            with _step(times.ours, f"leave-one-out {classifier}"):
                leave_one_out(gram, labels, classifier=classifier, lambda_a=LAMBDA_A, n_jobs=1)
        chosen = np.linspace(0, clips - 1, times.subset).astype(int)
        _measure_twin(
            times,
            [systems[i] for i in chosen],
            gram.subset(chosen),
            distances[np.ix_(chosen, chosen)],
            labels[chosen],
            labels,
        )
    return times


def _measure_twin(
    times: Times, systems: list[System], gram: CrossGram, ours: Array, labels: IntArray, all_labels: IntArray
) -> None:
    """Time the plain NumPy twin on a subset, and scale."""
    A, blocks = gram.rows.transition, gram.observer
    pairs = list(itertools.combinations(range(len(systems)), 2))
    timed_pairs = [pairs[i] for i in np.random.default_rng(1).permutation(len(pairs))[:TWIN_PAIRS]]
    spent: Steps = {}
    with _step(spent, "kernel"):
        twin_blocks = [twin.cross_block(systems[i], systems[j]) for i, j in timed_pairs]
    error = max(
        np.abs(block - blocks[pair]).max() for pair, block in zip(timed_pairs, twin_blocks, strict=True)
    )
    if error > 1e-9:
        raise AssertionError(f"the blocks of the twin differ by {error:.2g}")
    with _step(spent, "alignments"):
        values = [twin.align(A[i], A[j], blocks[i, j], LAMBDA_A)[0] for i, j in pairs]
    norms = LAMBDA_A * np.sum(A**2, axis=(1, 2)) + ORDER
    excess = [ours[i, j] - (norms[i] + norms[j] - 2 * v) for (i, j), v in zip(pairs, values, strict=True)]
    times.difference = max(excess)
    with _step(spent, "means"):
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label).tolist()
            twin.mean_distance(A, blocks, members, [], LAMBDA_A)
            for item in members:
                others = [member for member in members if member != item]
                if others:
                    twin.mean_distance(A, blocks, others, [item], LAMBDA_A)
    count = times.clips * (times.clips - 1) / 2
    unknown_folders = times.clips * (len(np.unique(all_labels)) - 1)  # items and the means of other classes
    times.twin = {
        "CrossGram": spent["kernel"] * count / len(timed_pairs),
        "all distances": spent["alignments"] * count / len(pairs),
        "leave-one-out nearest-system": spent["alignments"] * count / len(pairs),
        "leave-one-out nearest-mean": spent["means"] * _members_aligned(all_labels) / _members_aligned(labels)
        + spent["alignments"] * unknown_folders / len(pairs),
    }


def rows(clips: int = CLIPS, subset: int = SUBSET) -> list[tuple[str, str, float, float]]:
    """Work, against, measured ratio and target; the paper's own time has no target."""
    return _rows(measure(clips, subset))


def main() -> None:
    """Print the steps and the ratios."""
    numbers = [int(word) for word in sys.argv[1:]]
    times = measure(*numbers)
    console = Console(width=130)
    table = Table("step", "ours", f"NumPy twin, scaled from {times.subset} clips", "faster")
    for name, seconds in times.ours.items():
        if name in times.twin:
            theirs = times.twin[name]
            table.add_row(name, f"{seconds:.2f} s", f"{theirs:.0f} s", f"{theirs / seconds:.0f}x")
        else:
            table.add_row(name, f"{seconds:.2f} s", "", "")
    console.print(table)
    console.print(f"Our distances exceed the twin's by {times.difference:.1e} at most.")
    table = Table("work", "against", "ratio", "target")
    for work, against, ratio, target in _rows(times):
        table.add_row(work, against, f"{ratio:.1f}", f"{target:.0f}" if target else "")
    console.print(table)


def _rows(times: Times) -> list[tuple[str, str, float, float]]:
    work = f"{times.clips} streams of {FRAMES} x {BINS}, order {ORDER}: all distances, 1-NN and nearest mean"
    theirs = sum(seconds for name, seconds in times.twin.items() if name != "all distances")
    against = f"plain NumPy ({theirs:.0f} s, scaled from {times.subset} clips)"
    after = f"all after the CrossGram of {times.clips} streams ({times.after:.2f} s)"
    lines = [
        (f"{work} ({times.total:.1f} s)", against, theirs / times.total, FASTER),
        (
            after,
            f"the CrossGram ({times.ours['CrossGram']:.1f} s)",
            times.ours["CrossGram"] / times.after,
            SMALLER,
        ),
    ]
    if times.clips == CLIPS:
        lines.append(
            (work, f"the paper's {PAPER:,} s on its machine, for orientation", PAPER / times.total, 0.0)
        )
    return lines


def _members_aligned(labels: IntArray) -> float:
    """Members that the means of leave-one-out align in one iteration: m of all, m - 1 for each item left out.

    The twin's cost grows at least with this (its sums over pairs of members grow faster).
    """
    sizes = np.unique(labels, return_counts=True)[1]
    return float(np.sum(sizes**2))


def _compile(clip_streams: list[Array], labels: IntArray) -> None:
    few = SystemIdentifier(order=ORDER).fit_transform([stream[:20] for stream in clip_streams[:4]])
    gram = cross_gram(few)
    for classifier in ("nearest-system", "nearest-mean"):
        leave_one_out(gram, [0, 0, 1, 1], classifier=classifier)


@contextmanager
def _step(times: Steps, name: str) -> Iterator[None]:
    started = time.process_time()
    yield
    times[name] = time.process_time() - started


if __name__ == "__main__":
    main()
