"""The chi-squared Gram against scikit-learn's, and against what the machine can divide, on one core.

Run as `python -m benchmarks.chi2 [REPEATS]`. Peers take turns and the best of their times counts, so
that a busy machine slows all alike; compilation is paid before.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from sklearn.metrics.pairwise import chi2_kernel

from sysbags._common.types import Array
from sysbags._numba import compiled
from sysbags.kernels import kernel_matrix

__all__ = ["histograms", "main", "measure", "rows"]

FRAMES, BINS = 250, 256
WORDS, SHARE = 500, 0.1  # sparse bags: a tenth of the bins is not empty
REPEATS = 15
FASTER = {"float32": 8.0, "float64": 4.0}
OF_LIMIT = 0.6
SKLEARN, LIMIT = "sklearn chi2_kernel", "vector-division limit"
NOTE = (
    "The limit is the time of one vector division out of the first cache for each pair of bins, and nothing "
    "else. A ratio above 1 is no mistake: four bins share one division, 1/s + 1/t = (s + t) / st twice over."
)

Precision = type[np.float32] | type[np.float64]


def histograms(seed: int, frames: int, bins: int, share: float = 1.0) -> Array:
    """Random histograms with a share of the bins not empty."""
    rng = np.random.default_rng(seed)
    counts = rng.exponential(size=(frames, bins))
    if share < 1.0:
        counts *= rng.random((frames, bins)).argsort(axis=1) < share * bins
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


@compiled()
def divide(first: npt.NDArray[Any], second: npt.NDArray[Any], out: npt.NDArray[Any], times: int) -> None:
    """Divide two short vectors many times over; the sum is there so that no round can be left out."""
    for _ in range(times):
        for j in range(out.shape[0]):
            out[j] += first[j] / second[j]


def measure(precision: Precision, bins: int, share: float = 1.0, repeats: int = REPEATS) -> dict[str, float]:
    """Best time in seconds of ours, of scikit-learn's on the same matrices, and of the divisions alone."""
    first, second = histograms(0, FRAMES, bins, share), histograms(1, FRAMES, bins, share)
    low_first, low_second = first.astype(precision), second.astype(precision)
    vector = np.linspace(1, 2, 512, dtype=precision)
    out = np.zeros_like(vector)
    works: dict[str, Callable[[], object]] = {
        "ours": lambda: kernel_matrix(first, second, dtype=precision),
        SKLEARN: lambda: chi2_kernel(low_first, low_second, gamma=0.5),
        LIMIT: lambda: divide(vector, vector[::-1].copy(), out, FRAMES * FRAMES * bins // vector.size),
    }
    error = np.abs(kernel_matrix(first, second) - chi2_kernel(first, second, gamma=0.5)).max()
    assert error < 1e-13, f"the two kernels differ by {error}"
    best = dict.fromkeys(works, np.inf)
    for turn in range(repeats + 1):
        for name, work in works.items():
            start = time.process_time()
            work()
            if turn:  # the first turn compiles
                best[name] = min(best[name], time.process_time() - start)
    return best


def rows(repeats: int = REPEATS) -> list[tuple[str, str, float, float]]:
    """Work, peer, measured ratio and target."""
    lines = []
    for precision in (np.float32, np.float64):
        name = precision.__name__
        best = measure(precision, BINS, repeats=repeats)
        for peer, target in ((SKLEARN, FASTER[name]), (LIMIT, OF_LIMIT)):
            work = f"chi2 Gram {FRAMES} x {FRAMES} x {BINS}, {name}"
            lines.append((work, peer, best[peer] / best["ours"], target))
    return lines


def main() -> None:
    """Print times, for full and for sparse bags, and ratios."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    table = Table("bags", "precision", "ours", SKLEARN, LIMIT, "faster", "share of limit", "targets")
    for bins, share in ((BINS, 1.0), (WORDS, SHARE)):
        for precision in (np.float32, np.float64):
            best = measure(precision, bins, share, repeats)
            full = share == 1.0
            table.add_row(
                f"{FRAMES} x {FRAMES} x {bins}, {'full' if full else f'{share:.0%} not empty'}",
                precision.__name__,
                *(f"{1e3 * best[name]:.2f} ms" for name in ("ours", SKLEARN, LIMIT)),
                f"{best[SKLEARN] / best['ours']:.1f}x",
                f"{best[LIMIT] / best['ours']:.0%}",
                f"{FASTER[precision.__name__]:.0f}x, {OF_LIMIT:.0%}" if full else "",
            )
    console = Console(width=130)
    console.print(table)
    console.print(NOTE)


if __name__ == "__main__":
    main()
