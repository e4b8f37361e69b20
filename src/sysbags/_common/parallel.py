"""Run chunks of work on threads or a cluster, with a progress bar; the results do not depend on which.

joblib, threadpoolctl and rich are imported where they are used: they would add more than 0.1 s to
`import sysbags`.
"""

from __future__ import annotations

import contextvars
import numbers
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from sysbags._common.cluster import WAKE_SECONDS, active_client, on_cluster, values_of
from sysbags._common.messages import shows_progress
from sysbags.errors import ParameterError

__all__ = ["ONE_BLAS_THREAD", "check_jobs", "run", "with_progress"]

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

QUEUED = 16  # chunks per thread that are submitted and not finished
_DIVIDED: contextvars.ContextVar[bool] = contextvars.ContextVar("divided", default=False)


class _OneBlasThread:
    """A context in which BLAS has one thread; several threads may be in it at a time."""

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0
        self._controller: Any = None
        self._limits: Any = None
        self._modules = -1

    def __enter__(self) -> None:
        with self._lock:
            if not self._entered:
                self._limits = self._libraries().limit(limits=1, user_api="blas")
            self._entered += 1

    def _libraries(self) -> Any:
        """Return what controls the libraries; to look for them takes milliseconds, and imports load them."""
        from threadpoolctl import ThreadpoolController

        if self._modules != len(sys.modules):
            self._controller, self._modules = ThreadpoolController(), len(sys.modules)
        return self._controller

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                self._limits.restore_original_limits()


ONE_BLAS_THREAD = _OneBlasThread()


def run(
    function: Callable[..., Result],
    chunks: Sequence[Chunk],
    n_jobs: int | None,
    description: str,
    *,
    shared: Sequence[Any] = (),
    consume: Callable[[int, Result], None] | None = None,
    remote: bool = False,
    quiet_seconds: float = 2.0,
) -> list[Result]:
    """Return `[function(chunk, *shared) for chunk in chunks]`, computed by threads or by a cluster.

    The caller divides the work into chunks, so that results do not depend on `n_jobs`; BLAS has one thread
    meanwhile. A single chunk is computed in this thread, and so is work that a chunk divides again. A
    progress bar appears on a terminal after two seconds.

    Parameters
    ----------
    function : callable
        Called once per chunk. Threads are faster where it releases the interpreter lock, as compiled kernels
        do.
    chunks : sequence
        Arguments of the function. Items of a tuple may be `Shared`: the function gets their values.
    n_jobs : int or None
        Number of threads; None means 1 (or the value of `joblib.parallel_config`), -1 all cores.
    description : str
        What the progress bar says.
    shared : sequence
        Further arguments, the same for all chunks.
    consume : callable, optional
        Called in this thread with the place of a chunk and its result, in the order in which they are
        finished; then no result is kept, few are waiting at a time, and the list is empty.
    remote : bool, default=False
        Whether the function may run elsewhere: it changes nothing but its result, and can be pickled with its
        arguments. Then it runs on the cluster of `use_client`, where there is one; `n_jobs` is ignored.
    quiet_seconds : float, default=2.0
        No progress is shown before.

    Examples
    --------
    >>> run(abs, [-1, 2, -3], n_jobs=2, description="absolute values")
    [1, 2, 3]
    >>> run(pow, [2, 3], None, "squares", shared=[2], consume=lambda k, square: print(k, square))
    0 4
    1 9
    []
    """
    threads = check_jobs(n_jobs)
    results: list[Any] = [None] * (len(chunks) if consume is None else 0)
    take = consume or results.__setitem__
    if len(chunks) == 1 or _DIVIDED.get():
        for k, chunk in enumerate(chunks):
            take(k, function(values_of(chunk), *shared))
        return results
    client = active_client() if remote else None
    token = _DIVIDED.set(True)
    try:
        with ONE_BLAS_THREAD:
            finished = (
                on_cluster(client, partial(_undivided, function), chunks, shared)
                if client is not None
                else ((k, function(values_of(chunk), *shared)) for k, chunk in enumerate(chunks))
                if threads == 1
                else _on_threads(function, chunks, shared, threads)
            )
            # Closed at once after an error: its traceback would keep the other chunks running.
            with closing(with_progress(finished, len(chunks), description, quiet_seconds)) as shown:
                for k, result in shown:
                    take(k, result)
    finally:
        _DIVIDED.reset(token)
    return results


def _undivided(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function on a worker of a cluster, which has one thread for it."""
    token = _DIVIDED.set(True)
    try:
        with ONE_BLAS_THREAD:
            return function(*arguments)
    finally:
        _DIVIDED.reset(token)


def _on_threads(
    function: Callable[..., Result], chunks: Sequence[Chunk], shared: Sequence[Any], threads: int
) -> Iterator[tuple[int, Result]]:
    """Yield the place of each chunk and its result as they are finished; the first exception is raised.

    The main thread waits for short times only: Ctrl-C does not end a wait if it arrives just before the wait
    or in another thread. It is noticed when the main thread wakes up again.
    """
    from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

    pool = ThreadPoolExecutor(threads)
    waiting = iter(enumerate(chunks))
    pending: dict[Any, int] = {}
    try:
        while True:
            for k, chunk in islice(waiting, QUEUED * threads - len(pending)):
                # Each call has the context of the caller, such as the collection of warnings.
                pending[pool.submit(contextvars.copy_context().run, function, values_of(chunk), *shared)] = k
            if not pending:
                return
            for future in wait(pending, timeout=WAKE_SECONDS, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), future.result()
    finally:
        # After Ctrl-C or an error, do not wait for the other threads.
        pool.shutdown(wait=False, cancel_futures=True)


def check_jobs(n_jobs: Any) -> int:
    """Return the number of threads for `n_jobs`."""
    if n_jobs is not None and (not isinstance(n_jobs, numbers.Integral) or n_jobs is True or n_jobs == 0):
        raise ParameterError(
            f"n_jobs is {n_jobs!r}, but it must be a number of threads, -1 for all cores or None for one"
        )
    import joblib

    return int(joblib.effective_n_jobs(n_jobs))


def with_progress(
    results: Iterator[Result], total: int, description: str, quiet_seconds: float = 2.0
) -> Generator[Result, None, None]:
    """Pass results on; show a bar once they have taken long, if anyone can see it."""
    started, progress, is_visible = time.monotonic(), None, shows_progress()
    try:
        for done, result in enumerate(results, start=1):
            if is_visible and progress is None and time.monotonic() - started > quiet_seconds:
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
        if isinstance(results, Generator):
            results.close()
