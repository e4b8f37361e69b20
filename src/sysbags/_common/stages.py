"""Times of the stages of long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Stages"]


class Stages:
    """Times the stages of a command, and says on a terminal which one is on.

    Attributes
    ----------
    seconds : dict
        How long each stage took.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time one stage."""
        if sys.stderr.isatty():
            print(f"{name} ...", file=sys.stderr)
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
