"""Runtimes of the stages of a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sysbags._common.messages import VERBOSE, VERBOSITY, shows_progress

__all__ = ["Stages"]


class Stages:
    """Measures the runtime of the stages of a command, and prints their names on a terminal.

    With the verbosity "verbose" they are always printed, each with its runtime when it is over.

    Attributes
    ----------
    seconds : dict
        The runtime of each stage.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure the runtime of a stage."""
        is_verbose = VERBOSITY.get() == VERBOSE
        if is_verbose or shows_progress():
            print(f"{name} ...", file=sys.stderr)
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        if is_verbose:
            print(f"{name}: {seconds:.2f} s", file=sys.stderr)
