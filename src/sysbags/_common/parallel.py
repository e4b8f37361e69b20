"""Run chunks of work on threads, with a progress bar; the results do not depend on the number of threads.

joblib, threadpoolctl and rich are imported where they are used: they would add more than 0.1 s to
`import sysbags`.
"""

from __future__ import annotations

import contextvars
import numbers
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sysbags.errors import ParameterError

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["check_jobs", "run"]

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

WAKE_SECONDS = 0.2


def run(
    function: Callable[[Chunk], Result],
    chunks: Sequence[Chunk],
    n_jobs: int | None,
    description: str,
    *,
    quiet_seconds: float = 2.0,
) -> list[Result]:
    """Return `[function(chunk) for chunk in chunks]`, computed by threads.

    The caller divides the work into chunks, so that results do not depend on `n_jobs`; BLAS has one thread
    meanwhile. A single chunk is computed in this thread. A progress bar appears on a terminal after two
    seconds.

    Parameters
    ----------
    function : callable
        Called once per chunk. Threads are faster where it releases the interpreter lock, as compiled kernels
        do.
    chunks : sequence
        Arguments of the function.
    n_jobs : int or None
        Number of threads; None means 1 (or the value of `joblib.parallel_config`), -1 all cores.
    description : str
        What the progress bar says.
    quiet_seconds : float, default=2.0
        No progress is shown before.

    Examples
    --------
    >>> run(abs, [-1, 2, -3], n_jobs=2, description="absolute values")
    [1, 2, 3]
    """
    threads = check_jobs(n_jobs)
    if len(chunks) == 1:
        return [function(chunks[0])]
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):
        if threads == 1:
            return list(_with_progress(map(function, chunks), len(chunks), description, quiet_seconds))
        pool = ThreadPoolExecutor(threads)
        try:
            # Each call has the context of the caller, such as the collection of warnings.
            calls = [pool.submit(contextvars.copy_context().run, function, chunk) for chunk in chunks]
            results = _in_order(calls)
            return list(_with_progress(results, len(chunks), description, quiet_seconds))
        finally:
            # After Ctrl-C or an error, do not wait for the other threads.
            pool.shutdown(wait=False, cancel_futures=True)


def _in_order(futures: Sequence[Future[Result]]) -> Iterator[Result]:
    """Yield the results in order; the first exception is raised at once.

    The main thread waits for short times only: Ctrl-C does not end a wait if it arrives just before the wait
    or in another thread. It is noticed when the main thread wakes up again.
    """
    from concurrent.futures import FIRST_COMPLETED, wait

    pending = set(futures)
    for future in futures:
        while future in pending:
            done, pending = wait(pending, timeout=WAKE_SECONDS, return_when=FIRST_COMPLETED)
            for completed in done:
                completed.result()
        yield future.result()


def check_jobs(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`."""
    if n_jobs is not None and (not isinstance(n_jobs, numbers.Integral) or n_jobs is True or n_jobs == 0):
        raise ParameterError(
            f"n_jobs is {n_jobs!r}, but it must be a number of threads, -1 for all cores or None for one"
        )
    import joblib

    return int(joblib.effective_n_jobs(n_jobs))


def _with_progress(
    results: Iterable[Result], total: int, description: str, quiet_seconds: float
) -> Iterator[Result]:
    """Pass results on; show a bar once they have taken long, if anyone can see it."""
    if not sys.stderr.isatty():
        yield from results
        return
    started, progress = time.monotonic(), None
    try:
        for done, result in enumerate(results, start=1):
            if progress is None and time.monotonic() - started > quiet_seconds:
                from rich.console import Console
                from rich.progress import Progress

                progress = Progress(console=Console(file=sys.stderr), transient=True)
                progress.start()
                task = progress.add_task(description, total=total)
            if progress is not None:
                progress.update(task, completed=done)
            yield result
    finally:
        if progress is not None:
            progress.stop()
