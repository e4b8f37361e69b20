"""How long one waits at the start: the import, and the first compiled call with and without a cache.

Run as `python -m benchmarks.startup`. Every measurement is a process of its own; times are the wall's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.table import Table

__all__ = ["first_call_seconds", "import_seconds", "main", "rows"]

IMPORT_SECONDS = 0.5
CACHE_TARGET = 2.0
REPEATS = 5
TIMED = "import time; start = time.perf_counter(); {work}; print(time.perf_counter() - start)"
FIRST_CALL = "import numpy, sysbags; call, matrix = sysbags.align_blocks, numpy.diag([0.5, 0.2]); "


def import_seconds(name: str | None = None) -> float:
    """Seconds of `import sysbags`, or of loading one name of it too; warm, best of a few."""
    work = "import sysbags" if name is None else f"import sysbags; sysbags.{name}"
    return min(_run(TIMED.format(work=work)) for _ in range(REPEATS + 1))


def first_call_seconds() -> tuple[float, float]:
    """Seconds of the first `align_blocks` of a process: with an empty cache, and of the next process."""
    with tempfile.TemporaryDirectory() as folder:
        code = FIRST_CALL + TIMED.format(work="call(matrix, matrix)")
        first, second = (_run(code, NUMBA_CACHE_DIR=folder) for _ in range(2))
    return first, second


def rows() -> list[tuple[str, str, float, float]]:
    """Work, against, measured ratio and target."""
    seconds, all_seconds = import_seconds(), import_seconds("pairwise_distances")
    first, second = first_call_seconds()
    return [
        (
            f"import sysbags, warm ({seconds:.3f} s; {all_seconds:.2f} s with all that distances need)",
            f"{IMPORT_SECONDS} s",
            IMPORT_SECONDS / seconds,
            1.0,
        ),
        (
            f"first compiled call, second process ({second:.2f} s)",
            f"the first process, empty cache ({first:.1f} s)",
            first / second,
            CACHE_TARGET,
        ),
    ]


def main() -> None:
    """Print the table."""
    table = Table("work", "against", "ratio", "target")
    for work, against, ratio, target in rows():
        table.add_row(work, against, f"{ratio:.1f}", f"{target:.0f}")
    Console(width=130).print(table)


def _run(code: str, **environment: str) -> float:
    """Run Python code in a new process; it prints a number."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


if __name__ == "__main__":
    main()
