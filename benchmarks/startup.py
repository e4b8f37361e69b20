"""How long the start takes: the import, the first compiled call, the first and second run of each command.

Run as `python -m benchmarks.startup`, or with `--write` to keep the table of commands in
docs/benchmarks-of-startup.md. Every measurement is a process of its own, the first run of a command with an
empty cache of compiled functions. Times are the wall's; those of commands have the processor's beside them,
which depends less on what else runs.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import facts

__all__ = ["command_seconds", "first_call_seconds", "import_seconds", "main", "rows"]

IMPORT_SECONDS = 0.5
CACHE_TARGET = 2.0
REPEATS = 5
TIMED = "import time; start = time.perf_counter(); {work}; print(time.perf_counter() - start)"
FIRST_CALL = "import numpy, sysbags; call, matrix = sysbags.align_blocks, numpy.diag([0.5, 0.2]); "

# Those of README.md, with the clips of the demonstration, and others with few and small clips.
COMMANDS = {
    "demo": "demo --out {folder}/demo",
    "fit, 64 clips": "fit {folder}/demo/clips --out {folder}/new.model",
    "classify, 8 clips": "classify {folder}/demo/model.safetensors {folder}/demo/new",
    "evaluate": "evaluate {clips}",
    "distance": "distance {clip} {other}",
    "matrix": "matrix {clips} --out {folder}/d.csv",
    "mean": "mean {clip} {other} --out {folder}/mean.model",
    "inspect": "inspect {clip}",
}
TEXTURES = ["rain", "fire"]
Seconds = tuple[float, float]  # of wall and processor
REPORT = Path(__file__).parents[1] / "docs" / "benchmarks-of-startup.md"


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


def command_seconds() -> Iterator[tuple[str, Seconds, Seconds]]:
    """Yield each command with the times of its first run, with an empty cache, and of its second."""
    from sysbags.datasets import make_clips

    with tempfile.TemporaryDirectory() as folder:
        clips, _ = make_clips(
            f"{folder}/clips", per_class=3, frames=24, height=48, width=48, textures=TEXTURES
        )
        names = {"folder": folder, "clips": f"{folder}/clips", "clip": clips[0], "other": clips[-1]}
        for name, words in COMMANDS.items():
            first, second = (_command(words.format(**names), f"{folder}/{name}") for _ in range(2))
            yield name, first, second


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
    """Print the tables; with `--write`, keep the one of the commands."""
    report = [
        "# The first and the second run of each command",
        "",
        *facts("python -m benchmarks.startup --write", ["numba", "numpy"]),
        "",
        f"Mean load at the start: {os.getloadavg()[0]:.1f}. Seconds, and in brackets those of the processor,",
        "in all threads and processes. `demo`, `fit` and `classify` have the clips of the demonstration,",
        "60 frames of 120 x 160 pixels, the others six small ones. The first run has an empty cache of",
        "compiled functions; `sysbags warm-up` compiles everything beforehand.",
        "",
        "| command | first run | second run |",
        "| --- | ---: | ---: |",
    ]
    print("\n".join(report))
    for name, first, second in command_seconds():
        cells = [f"{wall:.1f} ({processor:.1f})" for wall, processor in (first, second)]
        report.append(f"| {' | '.join([name, *cells])} |")
        print(report[-1], flush=True)
        if "--write" in sys.argv:
            REPORT.write_text("\n".join(report) + "\n")
    table = Table("work", "against", "ratio", "target")
    for work, against, ratio, target in rows():
        table.add_row(work, against, f"{ratio:.1f}", f"{target:.0f}")
    Console(width=130).print(table)


def _command(words: str, cache: str) -> Seconds:
    """Run a command with its own cache of compiled functions; return the seconds of wall and processor."""
    start, before = time.perf_counter(), _processor_seconds()
    subprocess.run(
        [sys.executable, "-m", "sysbags", *words.split()],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        capture_output=True,
        check=True,
    )
    return time.perf_counter() - start, _processor_seconds() - before


def _processor_seconds() -> float:
    """Return what all processes that this one has waited for have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
