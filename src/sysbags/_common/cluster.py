"""Chunks of work as futures on a Dask cluster.

`distributed` is imported where it is used: it is an optional extra.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from sysbags.errors import ParameterError, SysbagsError

__all__ = ["Shared", "active_client", "connected", "on_cluster", "use_client", "values_of"]

QUEUED = 4  # chunks per thread of a worker that are submitted and not finished
ATTEMPTS = 4  # to compute a chunk whose worker is lost; Dask has as many for each of them
WAKE_SECONDS = 0.2
CONNECT_SECONDS = 5.0

_CLIENT: contextvars.ContextVar[Any] = contextvars.ContextVar("client", default=None)


class Shared:
    """A part of several chunks: a cluster gets its value once, and keeps it as long as this object is used.

    Examples
    --------
    >>> values_of((Shared("large"), 3))
    ('large', 3)
    """

    def __init__(self, value: Any) -> None:
        self.value = value


def values_of(chunk: Any) -> Any:
    """Return a chunk with values in place of `Shared`, which are items of a tuple."""
    if type(chunk) is not tuple:  # a named tuple is an argument like any other
        return chunk
    return tuple(part.value if isinstance(part, Shared) else part for part in chunk)


@contextmanager
def use_client(client: Any) -> Iterator[None]:
    """Run the work of this context on the cluster of a Dask client; None changes nothing.

    Parameters
    ----------
    client : distributed.Client or None

    Examples
    --------
    >>> with use_client(None):
    ...     print(active_client())
    None
    """
    if client is None:
        yield
        return
    if not (hasattr(client, "submit") and hasattr(client, "scatter")):
        raise ParameterError(
            f"client is of type {type(client).__name__}, but it must be a Client of the package distributed"
        )
    token = _CLIENT.set(client)
    try:
        yield
    finally:
        _CLIENT.reset(token)


def active_client() -> Any:
    """Return the client of this context; None if there is none."""
    return _CLIENT.get()


@contextmanager
def connected(address: str | None, timeout: float = CONNECT_SECONDS) -> Iterator[Any]:
    """Yield a client of the scheduler at an address, and close it afterwards; None without an address.

    Parameters
    ----------
    address : str or None
        Such as "tcp://127.0.0.1:8786".
    timeout : float, default=5.0
        Seconds to wait for the scheduler.

    Raises
    ------
    ParameterError
        If the scheduler cannot be reached, or the package `distributed` is not installed.

    Examples
    --------
    >>> with connected(None) as client:
    ...     print(client)
    None
    """
    if address is None:
        yield None
        return
    try:
        import logging

        from distributed import Client
    except ImportError:
        raise ParameterError(
            "a scheduler needs the package distributed, which is not installed: "
            "pip install 'sysbags[cluster]'"
        ) from None
    if not re.search(r":[0-9]+/?$", address):
        raise ParameterError(
            f"the scheduler {address} cannot be reached: its address must have a port, such as "
            "tcp://127.0.0.1:8786"
        )
    # What goes wrong is said in one sentence below, not in the log of the library.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
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


def on_cluster(
    client: Any, function: Callable[..., Any], chunks: Iterable[Any], shared: Iterable[Any]
) -> Iterator[tuple[int, Any]]:
    """Yield the place of each chunk and its result as they are finished; the first exception is raised.

    A chunk whose worker is lost is computed again by another one. Dask does so by itself, except where the
    lost worker had the only copy of a scattered value: then the value is sent again here. When the iterator
    is closed, because of an error or Ctrl-C, what was submitted is cancelled.
    """
    from pickle import PicklingError
    from queue import Empty, SimpleQueue

    waiting = iter(enumerate(chunks))
    common = [Shared(value) for value in shared]
    scattered: WeakKeyDictionary[Shared, Any] = WeakKeyDictionary()
    pending: dict[Any, tuple[Any, int, Any, int]] = {}
    finished: SimpleQueue[Any] = SimpleQueue()

    def placed(part: Any) -> Any:
        if not isinstance(part, Shared):
            return part
        future = scattered.get(part)
        if future is None or future.status != "finished":
            # In a list, as Dask would scatter the items of a value that is a list itself.
            (future,) = client.scatter([part.value], broadcast=False, hash=False)
            scattered[part] = future
        return future

    def submit(place: int, chunk: Any, attempt: int) -> None:
        parts = chunk if type(chunk) is tuple else (chunk,)
        count = len(parts) if type(chunk) is tuple else None
        try:
            arguments = [placed(part) for part in (*parts, *common)]
            future = client.submit(_call, function, count, *arguments, pure=False)
        except (TypeError, PicklingError) as error:
            raise ParameterError(
                f"this work cannot be sent to a cluster, as a part of it cannot be pickled: {error.args[0]}"
            ) from None
        pending[future.key] = future, place, chunk, attempt
        future.add_done_callback(finished.put)

    try:
        while True:
            room = QUEUED * max(1, sum(client.nthreads().values())) - len(pending)
            for place, chunk in islice(waiting, max(0, room)):
                submit(place, chunk, 1)
            if not pending:
                return
            try:
                done = [finished.get(timeout=WAKE_SECONDS)]
                while not finished.empty():
                    done.append(finished.get())
            except Empty:  # a future without its inputs may not be reported at all
                done = [entry[0] for entry in pending.values() if entry[0].status in ("cancelled", "lost")]
            for future in done:
                entry = pending.pop(future.key, None)
                if entry is None:
                    continue
                _, place, chunk, attempt = entry
                is_lost, result = _outcome(future)
                if not is_lost:
                    yield place, result
                elif attempt < ATTEMPTS:
                    submit(place, chunk, attempt + 1)
                else:
                    raise SysbagsError(
                        f"a part of the work lost its worker {attempt} times, but one must finish it: see "
                        "the log of the workers, which may have too little memory"
                    )
    finally:
        if pending:
            client.cancel([entry[0] for entry in pending.values()])


def _outcome(future: Any) -> tuple[bool, Any]:
    """Return whether a future lost its worker, and otherwise its result; an error of the work is raised."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        return True, None
    try:
        return False, future.result()
    except (CancelledError, KilledWorker):
        return True, None


def _call(function: Callable[..., Any], count: int | None, *arguments: Any) -> Any:
    """Call a function on a worker; the first arguments are the items of a chunk that is a tuple."""
    if count is None:
        return function(*arguments)
    return function(arguments[:count], *arguments[count:])
