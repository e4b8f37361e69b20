"""Runtimes of the stages of a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Stages"]


class Stages:
    """Measures the runtime of the stages of a command, and prints their names on a terminal.

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
        if sys.stderr.isatty():
            print(f"{name} ...", file=sys.stderr)
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
