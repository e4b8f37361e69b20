"""Results that clones of an estimator share: a grid search asks for the same ones again and again.

`Pipeline(memory=)` of scikit-learn keeps the output of transformers for training sets only, and copies of it:
systems would be read from files for each setting, and the kernel between them evaluated again.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from sysbags._common.cache import fingerprint
from sysbags.errors import ParameterError

Result = TypeVar("Result")

LIMIT = 256_000_000  # bytes


class Memory:
    """Results by the contents of what they depend on; the ones not used for longest are dropped.

    A result is shared, so nobody may change it. Threads may call this at the same time: at worst both do the
    work.

    >>> memory = Memory(limit=100)
    >>> first = memory.recall("square", [np.array([3.0])], lambda: (np.array([9.0]),))
    >>> memory.recall("square", [np.array([3.0])], lambda: 1 / 0) is first  # not called again
    True
    >>> _ = memory.recall("large", [np.array([4.0])], lambda: (np.zeros(12),))
    >>> memory.bytes  # the first is dropped
    96
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.bytes = limit, 0
        self._results: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def recall(self, kind: str, depends_on: Any, make: Callable[[], Result]) -> Result:
        """Return a result that was made before, or make it.

        Parameters
        ----------
        kind : str
        depends_on : Any
            Arrays, numbers and estimators, see `fingerprint`. Nothing is kept of what has none, such as a
            function.
        make : callable
            Returns a tuple of arrays, or an object with arrays as attributes.
        """
        if not self.limit:
            return make()
        try:
            key = json.dumps([kind, fingerprint(depends_on)])
        except (ParameterError, TypeError, ValueError):
            return make()
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                found: Result = self._results[key][0]
                return found
        result = make()
        parts: Iterable[Any] = result if isinstance(result, tuple) else vars(result).values()
        size = sum(part.nbytes for part in parts if isinstance(part, np.ndarray))
        with self._lock:
            if key not in self._results:
                self._results[key] = (result, size)
                self.bytes += size
            while self.bytes > self.limit:
                self.bytes -= self._results.popitem(last=False)[1][1]
        return result

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._results.clear()
            self.bytes = 0

    @contextmanager
    def off(self) -> Iterator[None]:
        """Forget everything, and keep nothing for a while."""
        limit, self.limit = self.limit, 0
        self.clear()
        try:
            yield
        finally:
            self.limit = limit


MEMORY = Memory()
