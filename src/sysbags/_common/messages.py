"""What the program says beside its results: how much, the stages of long work, warnings, safe text."""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

QUIET, NORMAL, VERBOSE = -1, 0, 1
# A context variable: the threads that sysbags starts have it too, and other threads are not affected.
VERBOSITY: ContextVar[int] = ContextVar("verbosity", default=NORMAL)
BREAK = ", used without the rest"  # in the text of each warning about a clip that breaks off
MOST_TEXTS = 3  # more warnings about clips that break off are summarised

# A context variable, not a patched `warnings.showwarning`, which all threads of the process would share.
_collection: ContextVar[list[str] | None] = ContextVar("collection", default=None)
# C0, DEL and C1; also surrogates: bytes of a file name that are not UTF-8, which Python cannot print.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def shows_progress() -> bool:
    """Tell whether progress is shown: on a terminal, unless everything but results is left out."""
    return VERBOSITY.get() > QUIET and sys.stderr.isatty()


class Stages:
    """Measures the runtime of the stages of a command, in `seconds`, and prints their names on a terminal.

    With the verbosity "verbose" they are always printed, each with its runtime when it is over.
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


def printable(text: str) -> str:
    r"""Replace control characters by visible escapes: a file name must not send commands to a terminal.

    A line break is one of them, so give lines one by one.
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


@contextmanager
def collect_warnings() -> Iterator[list[str]]:
    """Collect the texts of the warnings that sysbags gives, instead of showing them.

    This applies to the thread that enters the context and to the threads that sysbags starts for it; other
    threads are not affected. Inside nested contexts the inner one collects.

    Yields
    ------
    list of str
        Grows with each warning; the order depends on the threads.

    Examples
    --------
    >>> with collect_warnings() as texts:
    ...     warn("clip.avi breaks off after 3 frames", UserWarning)
    >>> texts
    ['clip.avi breaks off after 3 frames']
    """
    texts: list[str] = []
    token = _collection.set(texts)
    try:
        yield texts
    finally:
        _collection.reset(token)


def warn(text: str, category: type[Warning], stacklevel: int = 1) -> None:
    """Add a warning to the collection of this context, or give it to Python's `warnings` if there is none."""
    texts = _collection.get()
    if texts is None:
        warnings.warn(text, category, stacklevel=stacklevel + 1)
    else:
        texts.append(text)


def summary_of_warnings(texts: Collection[str], clips: int | None = None) -> list[str]:
    """Summarise warnings: many clips that break off become one sentence with an example.

    Parameters
    ----------
    texts : collection of str
        See `collect_warnings`; repetitions are ignored.
    clips : int, optional
        The number of clips in all, for the sentence.

    Returns
    -------
    list of str
        Sorted, so that it does not depend on the number of threads.

    Examples
    --------
    >>> texts = [f"{k}.avi breaks off after 9 frames, used without the rest: it is cut" for k in range(4)]
    >>> summary_of_warnings(texts[:1])
    ['0.avi breaks off after 9 frames, used without the rest: it is cut']
    >>> summary_of_warnings(texts, clips=7)  # doctest: +NORMALIZE_WHITESPACE
    ['4 of 7 clips break off early and are used without the rest, for example
      0.avi breaks off after 9 frames: it is cut']
    """
    unique = sorted(set(texts))
    breaks = [text for text in unique if BREAK in text]
    if len(breaks) <= MOST_TEXTS:
        return unique
    count = f"{len(breaks)} clips" if clips is None else f"{len(breaks)} of {clips} clips"
    example = breaks[0].replace(BREAK, "")
    summary = f"{count} break off early and are used without the rest, for example {example}"
    return [text for text in unique if BREAK not in text] + [summary]
