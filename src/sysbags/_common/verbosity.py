"""How much the program says beside its results."""

from __future__ import annotations

import sys
from contextvars import ContextVar

__all__ = ["NORMAL", "QUIET", "VERBOSE", "VERBOSITY", "shows_progress"]

QUIET, NORMAL, VERBOSE = -1, 0, 1
# A context variable: the threads that sysbags starts have it too, and other threads are not affected.
VERBOSITY: ContextVar[int] = ContextVar("verbosity", default=NORMAL)


def shows_progress() -> bool:
    """Tell whether progress is shown: on a terminal, unless everything but results is left out."""
    return VERBOSITY.get() > QUIET and sys.stderr.isatty()
