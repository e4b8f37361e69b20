"""Compile what classifiers need in a process of its own, beside the work that comes before them.

Numba compiles one function at a time in a process, and keeps the result in a cache on disk. Where the cache
is full already, the process ends at once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

__all__ = ["compiled_ahead"]


@contextmanager
def compiled_ahead() -> Iterator[None]:
    """Compile alignments and means while the body runs, and wait for that at its end."""
    process = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.DEVNULL)
    try:
        yield
        process.wait()
    finally:
        process.kill()


def _use() -> None:
    """Call everything once, on the smallest systems there are."""
    from sysbags.distances.gram import cross_gram
    from sysbags.means.frechet import mean_of_gram
    from sysbags.systems.system import System

    samples = np.eye(2)
    systems = [System(scale * samples, samples, samples, np.full(2, 0.5), "linear") for scale in (0.2, 0.5)]
    mean_of_gram(cross_gram(systems))


if __name__ == "__main__":
    _use()
