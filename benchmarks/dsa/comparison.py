"""Time and squared distance of each method on the same pairs, as rows of Markdown tables.

All methods run one after the other on each pair, with one thread. Times are the processor's, so that other
processes do not count. Each method is called once before, for imports and compilation. Every rotation is made
exactly orthogonal and judged by one expression in float64, `squared_distance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import sysbags
from benchmarks.dsa.methods import OTHERS, OURS, SOLVERS, Solver, missing
from benchmarks.dsa.pairs import make_pairs, make_systems, pair_of, without_observers
from benchmarks.machine import seconds
from benchmarks.problems import LAMBDA_A, Pair
from sysbags._common.parallel import ONE_BLAS_THREAD
from sysbags._common.types import Array
from sysbags.distances.certificates import tight_bound

__all__ = [
    "Comparison",
    "certificate_rows",
    "compare",
    "missed_rows",
    "other_rows",
    "solver_rows",
    "squared_distance",
]

TOLERANCE = 1e-6  # relative; two squared distances that differ by less are the same
CLEAR = 1e-3
FLOOR = 1e-6  # a squared distance below this share of ||A1||^2 + ||A2||^2 is not resolved in float32
CALLS, ENOUGH = 20, 0.05  # a method is called again until so many calls or seconds are reached
WARM_UP = 3  # order of the pair for the first call of each method
MANY_STARTS = 200
MISSED_SYSTEMS = 8  # of each seed, all pairs of which are aligned


@dataclass
class Comparison:
    """Results of some methods on the pairs of one order and kind, one entry per pair."""

    n: int
    kind: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    distances: dict[str, list[float]] = field(default_factory=dict)
    floors: list[float] = field(default_factory=list)

    @property
    def excess(self) -> dict[str, Array]:
        """How much larger than the smallest of all methods each squared distance is, relative to that."""
        best = np.min(list(self.distances.values()), axis=0)
        scale = np.maximum(best, self.floors)
        return {name: (np.array(values) - best) / scale for name, values in self.distances.items()}

    def best(self, name: str) -> float:
        """Share of the pairs on which no other method is better."""
        return float(np.mean(self.excess[name] <= TOLERANCE))

    def no_worse(self, peer: str) -> float:
        """Share of the pairs on which sysbags is as good as a peer or better."""
        ours, theirs = (np.array(self.distances[name]) for name in (OURS, peer))
        return float(np.mean(ours - theirs <= TOLERANCE * np.maximum(theirs, self.floors)))

    def ratio(self, peer: str) -> float:
        """How many times the median time of sysbags a peer takes."""
        return float(np.median(self.seconds[peer]) / np.median(self.seconds[OURS]))

    def document(self) -> dict[str, Any]:
        """The results for a JSON file: the squared distances, the excess and the times of every pair."""
        excess = {name: values.tolist() for name, values in self.excess.items()}
        common = {"order": self.n, "pairs": self.kind, "seconds": self.seconds}
        return common | {"squared_distances": self.distances, "excess": excess}


def squared_distance(pair: Pair, rotation: Array, lambda_a: float) -> float:
    """Return ``lambda_a ||A1 - Q' A2 Q||^2 + ||C1 - C2 Q||^2``, without the second term if `M = 0`.

    A rotation that is not finite, from a solver that diverged, has an infinite distance.

    Examples
    --------
    >>> pair = Pair(np.diag([0.9, 0.5]), np.diag([0.5, 0.9]), np.zeros((2, 2)))
    >>> round(squared_distance(pair, np.eye(2), 1.0), 9), squared_distance(pair, np.eye(2)[::-1], 1.0)
    (0.32, 0.0)
    """
    if not np.isfinite(rotation).all():
        return np.inf
    U, _, Vt = np.linalg.svd(rotation)
    Q = U @ Vt
    transitions = lambda_a * float(np.sum((pair.A1 - Q.T @ pair.A2 @ Q) ** 2))
    return transitions + (2.0 * (len(Q) - float(np.vdot(pair.M.T, Q))) if pair.M.any() else 0.0)


def compare(
    n: int, kind: str, pairs: Sequence[Pair], solvers: dict[str, Solver], lambda_a: float
) -> Comparison:
    """Run all solvers on all pairs."""
    names = list(solvers)
    result = Comparison(n, kind, {name: [] for name in names}, {name: [] for name in names})
    solvers[OURS].solve(pairs[0], lambda_a, 0)  # its compiled code may depend on the order
    for index, pair in enumerate(pairs):
        result.floors.append(FLOOR * lambda_a * float(np.sum(pair.A1**2) + np.sum(pair.A2**2)))
        for name, solver in solvers.items():
            spent, rotation = _timed(partial(solver.solve, pair, lambda_a, index))
            result.seconds[name].append(spent)
            result.distances[name].append(squared_distance(pair, rotation, lambda_a))
    return result


def solver_rows(
    orders: Sequence[int],
    kinds: Sequence[str],
    count: int,
    seeds: Sequence[int],
    folder: Path | None,
    *,
    methods: Sequence[str],
    observers: bool,
    results: list[Any],
) -> Iterator[str]:
    """Lines of the table of methods that solve the same problem; what they hold is added to `results`.

    Methods are given by the beginnings of their names; sysbags always takes part. With observers the
    problem is that of `sysbags.align` at its default weight. Without them it is the problem of dynamical
    similarity analysis.
    """
    solvers = {
        name: solver
        for name, solver in SOLVERS.items()
        if name.startswith((OURS, *methods))
        and not missing(solver.modules)
        and (solver.observers or not observers)
    }
    lambda_a = LAMBDA_A if observers else 1.0
    yield (
        "| order | pairs | method | median time, ms | time / sysbags | median excess | largest excess | "
        "best | sysbags no worse |"
    )
    yield "| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    _warm_up(solvers)
    for n in orders:
        for kind in kinds:
            pairs = _pairs(kind, n, count, seeds, folder)
            if not pairs:
                continue
            with ONE_BLAS_THREAD:
                chosen = pairs if observers else [without_observers(pair) for pair in pairs]
                comparison = compare(n, kind, chosen, solvers, lambda_a)
            results.append(comparison.document() | {"observers": observers})
            for name in solvers:
                yield _line(comparison, name, len(pairs))


def other_rows(
    orders: Sequence[int], kinds: Sequence[str], count: int, seeds: Sequence[int], folder: Path | None
) -> Iterator[str]:
    """Lines of the table of other distances: their values are other quantities, only times are compared."""
    others = {name: other for name, other in OTHERS.items() if not missing(other.modules)}
    yield "| order | pairs | method | median time, ms | time / sysbags | its value, median |"
    yield "| ---: | --- | --- | ---: | ---: | ---: |"
    for n in orders:
        for kind in kinds:
            pairs = [without_observers(pair) for pair in _pairs(kind, n, count, seeds, folder)]
            if not pairs:
                continue
            with ONE_BLAS_THREAD:
                SOLVERS[OURS].solve(pairs[0], 1.0, 0)
                ours = np.median([_timed(partial(SOLVERS[OURS].solve, pair, 1.0, 0))[0] for pair in pairs])
                for name, other in others.items():
                    other.score(*pairs[0][:2])
                    timed = [_timed(partial(other.score, *pair[:2])) for pair in pairs]
                    spent, value = np.median(timed, axis=0)
                    times = f"{_number(1e3 * spent)} | {_number(spent / ours)}"
                    yield f"| {n} | {kind} | {name} | {times} | {value:.3g} |"


def missed_rows(
    orders: Sequence[int], kinds: Sequence[str], seeds: Sequence[int], folder: Path | None
) -> Iterator[str]:
    """Lines of the table of optima that the default search misses on real systems.

    The reference is the best of `MANY_STARTS` starts and the default search. An excess above `CLEAR` is
    another local optimum; a smaller one may be a search that stopped too early.
    """
    yield (
        f"| order | pairs | observers | number of pairs | excess above {TOLERANCE:g} | above {CLEAR:g} | "
        "largest excess |"
    )
    yield "| ---: | --- | --- | ---: | ---: | ---: | ---: |"
    for n in orders:
        for kind in (name for name in kinds if name in ("clips", "simulations")):
            pairs = [
                pair_of(*two)
                for seed in seeds
                for two in combinations(make_systems(kind, n, MISSED_SYSTEMS, seed, folder), 2)
            ]
            for observers in (True, False) if pairs else ():
                chosen = pairs if observers else [without_observers(pair) for pair in pairs]
                solvers = {OURS: SOLVERS[OURS], "many starts": Solver((), True, _many_starts)}
                with ONE_BLAS_THREAD:
                    excess = compare(n, kind, chosen, solvers, LAMBDA_A if observers else 1.0).excess[OURS]
                shares = " | ".join(f"{np.mean(excess > limit):.2%}" for limit in (TOLERANCE, CLEAR))
                yield (
                    f"| {n} | {kind} | {'yes' if observers else 'no'} | {len(pairs)} | {shares} | "
                    f"{excess.max():.1e} |"
                )


def certificate_rows(
    orders: Sequence[int], kinds: Sequence[str], count: int, seeds: Sequence[int], folder: Path | None
) -> Iterator[str]:
    """Lines of the table of lower bounds, as shares of the squared distance that the default search finds.

    A distance is proven if the bound is at least ``1 - TOLERANCE`` of it.
    """
    yield (
        "| order | pairs | observers | fast bound, median | smallest | tight bound, median | smallest | "
        "proven | time of tight / search, median | largest |"
    )
    yield "| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for n in orders:
        for kind in kinds:
            pairs = _pairs(kind, n, count, seeds, folder)
            for observers in (True, False) if pairs else ():
                chosen = pairs if observers else [without_observers(pair) for pair in pairs]
                with ONE_BLAS_THREAD:
                    fast, tight, cost = np.transpose(
                        [_certified(pair, LAMBDA_A if observers else 1.0) for pair in chosen]
                    )
                bounds = " | ".join(f"{np.median(share):.4f} | {share.min():.4f}" for share in (fast, tight))
                yield (
                    f"| {n} | {kind} ({len(pairs)}) | {'yes' if observers else 'no'} | {bounds} | "
                    f"{np.mean(tight >= 1.0 - TOLERANCE):.0%} | {np.median(cost):.1f} | {cost.max():.1f} |"
                )


def _certified(pair: Pair, lambda_a: float) -> tuple[float, float, float]:
    """Return both lower bounds over the squared distance, and the time of the tight one over the search's."""
    search = partial(sysbags.align_blocks, *pair, lambda_a=lambda_a)
    search()
    seconds_of_search, fast = _timed(search)
    bound = partial(tight_bound, lambda_a * pair.A1, pair.A2, pair.M, fast.rotation)
    seconds_of_bound, _ = _timed(bound)
    distance = squared_distance(pair, fast.rotation, lambda_a)
    gaps = [found.upper_bound - found.value for found in (fast, search(certificate="tight"))]
    shares = [max(0.0, 1.0 - 2.0 * gap / distance) for gap in gaps]
    return shares[0], shares[1], seconds_of_bound / seconds_of_search


def _many_starts(pair: Pair, lambda_a: float, seed: int) -> Array:
    return sysbags.align_blocks(*pair, lambda_a=lambda_a, starts=MANY_STARTS, random_state=seed).rotation


def _pairs(kind: str, n: int, count: int, seeds: Sequence[int], folder: Path | None) -> list[Pair]:
    return [pair for seed in seeds for pair in make_pairs(kind, n, count, seed, folder)]


def _warm_up(solvers: dict[str, Solver]) -> None:
    pair = without_observers(make_pairs("random", WARM_UP, 1, 0)[0])
    for solver in solvers.values():
        solver.solve(pair, 1.0, 0)


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Mean time of a few calls, or of one if that takes long enough; and the result of the last."""
    spent, calls = 0.0, 0
    result = None
    while calls == 0 or (calls < CALLS and spent < ENOUGH):
        taken, result = seconds(work, process_time)
        spent, calls = spent + taken, calls + 1
    return spent / calls, result


def _line(comparison: Comparison, name: str, count: int) -> str:
    excess = comparison.excess[name]
    compared = "" if name == OURS else f"{comparison.no_worse(name):.0%}"
    return (
        f"| {comparison.n} | {comparison.kind} ({count}) | {name} | "
        f"{_number(1e3 * float(np.median(comparison.seconds[name])))} | {_number(comparison.ratio(name))} | "
        f"{np.median(excess):.1e} | {excess.max():.1e} | {comparison.best(name):.0%} | {compared} |"
    )


def _number(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"
