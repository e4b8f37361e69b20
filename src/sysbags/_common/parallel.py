"""Run chunks of work on threads or a Dask cluster, with a progress bar; the results do not depend on which.

Both are executors of `concurrent.futures`, so one loop serves them; joblib's threads would be a second one.
joblib, threadpoolctl, rich and distributed are imported where they are used: they would slow down
`import sysbags`.
"""

from __future__ import annotations

import contextvars
import logging
import numbers
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from sysbags._common.messages import shows_progress
from sysbags.errors import ParameterError, SysbagsError

Result = TypeVar("Result")

QUEUED = 16  # chunks per thread that are submitted and not finished
QUEUED_REMOTELY = 4
WAKE_SECONDS = 0.2
CONNECT_SECONDS = 5.0
_DIVIDED: contextvars.ContextVar[bool] = contextvars.ContextVar("divided", default=False)
_CLIENT: contextvars.ContextVar[Any] = contextvars.ContextVar("client", default=None)


class Shared:
    """An item of several chunks, which are tuples: a cluster gets its value once, functions get the value."""

    def __init__(self, value: Any) -> None:
        self.value = value


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
    chunks: Sequence[Any],
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
        Arguments of the function. Items of a tuple may be `Shared`.
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
    >>> run(pow, [2, 3], None, "squares", shared=[2])
    [4, 9]
    """
    threads, client = check_jobs(n_jobs), _CLIENT.get() if remote else None
    results: list[Any] = [None] * (len(chunks) if consume is None else 0)
    take = consume or results.__setitem__
    here = ((k, function(_values(chunk), *shared)) for k, chunk in enumerate(chunks))
    if len(chunks) == 1 or _DIVIDED.get():
        for k, result in here:
            take(k, result)
        return results
    if client is not None:
        finished = _on_cluster(client, function, chunks, shared)
    else:
        finished = here if threads == 1 else _on_threads(function, chunks, shared, threads)
    # Closed at once after an error: its traceback would keep the other chunks running.
    with _undivided(), closing(with_progress(finished, len(chunks), description, quiet_seconds)) as shown:
        for k, result in shown:
            take(k, result)
    return results


def _values(chunk: Any) -> Any:
    """Return a chunk with values in place of `Shared`."""
    if type(chunk) is not tuple:  # a named tuple is an argument like any other
        return chunk
    return tuple(part.value if isinstance(part, Shared) else part for part in chunk)


@contextmanager
def _undivided() -> Iterator[None]:
    """Do not divide work any further in this context: one thread computes it."""
    token = _DIVIDED.set(True)
    try:
        with ONE_BLAS_THREAD:
            yield
    finally:
        _DIVIDED.reset(token)


def _on_threads(
    function: Callable[..., Result], chunks: Sequence[Any], shared: Sequence[Any], threads: int
) -> Iterator[tuple[int, Result]]:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(threads)

    def submit(chunk: Any) -> Any:
        # Each call has the context of the caller, such as the collection of warnings.
        return pool.submit(contextvars.copy_context().run, function, _values(chunk), *shared)

    try:
        yield from _finished(submit, chunks, lambda: QUEUED * threads)
    finally:
        # After Ctrl-C or an error, do not wait for the other threads.
        pool.shutdown(wait=False, cancel_futures=True)


def _on_cluster(
    client: Any, function: Callable[..., Result], chunks: Sequence[Any], shared: Sequence[Any]
) -> Iterator[tuple[int, Result]]:
    """Compute on the workers of a Dask client, which computes again what a lost worker had."""
    from concurrent.futures import CancelledError
    from pickle import PicklingError

    from dask.config import set as dask_config
    from distributed import KilledWorker

    executor = client.get_executor(pure=False)
    sent: dict[Shared, Any] = {}
    common = [Shared(value) for value in shared]

    def placed(part: Any) -> Any:
        """Send a shared value once, as a result that can be computed again, unlike what `scatter` sends."""
        if isinstance(part, Shared) and part not in sent:
            with dask_config({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                sent[part] = client.submit(attrgetter("value"), part, pure=False)
        return sent[part] if isinstance(part, Shared) else part

    def submit(chunk: Any) -> Any:
        parts, count = (chunk, len(chunk)) if type(chunk) is tuple else ((chunk,), None)
        try:
            return executor.submit(_call, function, count, *map(placed, (*parts, *common)))
        except (TypeError, PicklingError) as error:
            raise ParameterError(
                f"this work cannot be sent to a cluster, as a part of it cannot be pickled: {error.args[0]}"
            ) from None

    try:
        yield from _finished(submit, chunks, lambda: QUEUED_REMOTELY * sum(client.nthreads().values()))
    except (CancelledError, KilledWorker) as error:
        raise SysbagsError(
            "a part of the work lost its worker too often, but one must finish it: see the log of the "
            f"workers, which may have too little memory ({type(error).__name__})"
        ) from None
    finally:
        executor.shutdown(wait=False)  # cancels what was submitted


def _call(function: Callable[..., Any], count: int | None, *arguments: Any) -> Any:
    """Call a function on a worker; the first arguments are the items of a chunk that is a tuple."""
    with _undivided():
        return function(*arguments) if count is None else function(arguments[:count], *arguments[count:])


def _finished(
    submit: Callable[[Any], Any], chunks: Sequence[Any], room: Callable[[], int]
) -> Iterator[tuple[int, Any]]:
    """Yield the place of each chunk and its result as they are finished; the first exception is raised.

    The main thread waits for short times only: Ctrl-C does not end a wait if it arrives just before the wait
    or in another thread. It is noticed when the main thread wakes up again.
    """
    from concurrent.futures import FIRST_COMPLETED, wait

    waiting = iter(enumerate(chunks))
    pending: dict[Any, int] = {}
    while True:
        for k, chunk in islice(waiting, max(room() - len(pending), 0 if pending else 1)):
            pending[submit(chunk)] = k
        if not pending:
            return
        for future in wait(pending, timeout=WAKE_SECONDS, return_when=FIRST_COMPLETED).done:
            yield pending.pop(future), future.result()


@contextmanager
def use_client(client: Any) -> Iterator[None]:
    """Run the work of this context on the cluster of a Dask client; None changes nothing."""
    if client is not None and not hasattr(client, "get_executor"):
        raise ParameterError(
            f"client is of type {type(client).__name__}, but it must be a Client of the package distributed"
        )
    token = _CLIENT.set(_CLIENT.get() if client is None else client)
    try:
        yield
    finally:
        _CLIENT.reset(token)


@contextmanager
def connected(address: str | None, timeout: float = CONNECT_SECONDS) -> Iterator[Any]:
    """Yield a client of the scheduler at an address, and close it afterwards; None without an address."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise ParameterError(
            "a scheduler needs the package distributed, which is not installed: "
            "pip install 'sysbags[cluster]'"
        ) from None
    # What goes wrong is said in one sentence below, not in the log of the library.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        if not re.search(r":[0-9]+/?$", address):  # Dask would print a traceback later
            raise ValueError("this address has no port")
        client: Any = Client(address, timeout=timeout, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(
            f"the scheduler {address} cannot be reached, but it must be the address of a running Dask "
            f"scheduler such as tcp://127.0.0.1:8786 ({detail})"
        ) from None
    try:
        yield client
    finally:
        with suppress(OSError):
            client.close()


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
