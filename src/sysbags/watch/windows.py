"""Overlapping windows of an endless stream, each with its system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import check_integer, check_stream
from sysbags.errors import OrderError, ParameterError, StreamError
from sysbags.kernels.functions import SlidingKernel
from sysbags.systems.identification import (
    FIRST_STEPS,
    check_options,
    lapack_eigenpairs,
    leading_eigenpairs,
    system_of_kernel,
)
from sysbags.systems.system import System

STABILITY = "constrained"  # see `sysbags.identify`


@dataclass(frozen=True, eq=False)
class Window:
    """A window of a stream and its system.

    Parameters
    ----------
    start, stop : int
        Row numbers, counted from the last `Windows.reset`; `stop` is not part of the window.
    rows : (stop - start, p) array
        Read-only.
    system : System or None
    failure : str or None
        Why there is no system, for instance because nothing moves.

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.datasets import make_streams
    >>> from sysbags.watch import window_systems
    >>> moving = make_streams(classes=1, per_class=1, frames=100)[0][0]
    >>> stream = np.concatenate([moving, np.tile(moving[-1], (100, 1))])
    >>> first, last = window_systems(stream, length=100, step=100)
    >>> first.start, first.stop, first.rows.shape, first.system
    (0, 100, (100, 32), System(order=5, size=100, bag_length=32, kernel='chi2'))
    >>> last.system is None, last.failure is None  # the failure says that nothing moves
    (True, False)
    """

    start: int
    stop: int
    rows: Array
    system: System | None
    failure: str | None


class Windows:
    """Identify the system of each of the overlapping windows of a stream that arrives bit by bit.

    Window i holds the rows from ``i * step`` up to ``i * step + length``. Its system is that of
    `sysbags.identify` for these rows, up to differences below 1e-8, but most of the work is that of the
    window before: the kernel is evaluated for new rows only, and the eigenvectors are searched from the
    previous ones (see `sysbags.systems.identification.leading_eigenpairs`; LAPACK finds those that cannot be
    guaranteed in this way). The result does not depend on how the rows are divided among calls of `update`,
    and memory does not grow with their number.

    Parameters
    ----------
    length, step : int, default=100, 10
        Rows of a window, and from the start of a window to the start of the next. If the step is above the
        length, rows between windows are ignored.
    order : int or "auto", default=5
    kernel : str or callable, default="chi2"
    normal_form : {"unit-variance", "orthonormal"}, default="unit-variance"
        See `sysbags.identify` for these three.

    Attributes
    ----------
    count : int
        Number of rows since the last `reset`.
    fallbacks : int
        Number of windows since the last `reset` whose eigenvectors LAPACK had to find.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> stream = make_streams(classes=1, per_class=1, frames=150)[0][0]
    >>> windows = Windows(length=100, step=20)
    >>> windows.update(stream[:99])
    []
    >>> [(window.start, window.stop, window.system) for window in windows.update(stream[99:121])]
    [(0, 100, System(order=5, size=100, bag_length=32, kernel='chi2')),
     (20, 120, System(order=5, size=100, bag_length=32, kernel='chi2'))]
    """

    def __init__(
        self,
        length: int = 100,
        step: int = 10,
        *,
        order: int | str = 5,
        kernel: KernelLike = "chi2",
        normal_form: str = "unit-variance",
    ) -> None:
        self.length, self.step = check_integer(length, "length", 2), check_integer(step, "step")
        self.kernel = check_options(order, kernel, normal_form, STABILITY)
        self.order = order if isinstance(order, str) else check_integer(order, "order")
        if not isinstance(self.order, str) and self.order >= self.length:
            raise ParameterError(
                f"length is {self.length}, but windows of a system of order {self.order} must have at least "
                f"{self.order + 1} rows"
            )
        self.normal_form = normal_form
        self.reset()

    def reset(self) -> None:
        """Forget all rows: the next one is row 0."""
        self.count = 0
        self.fallbacks = 0
        self._stop = self.length  # of the next window
        self._bins: int | None = None
        self._pending: list[Array] = []  # rows of the next window that were not in the one before
        self._sliding: SlidingKernel | None = None
        self._start = np.random.default_rng(0).standard_normal(self.length)
        self._steps = FIRST_STEPS

    def update(self, rows: Any) -> list[Window]:
        """Add any number of rows, (T, p), and return the windows that are complete now."""
        new = self._check_rows(rows)
        windows = []
        while new.shape[0]:
            used = new[: self._stop - self.count]
            between = max(0, self._stop - self.length - self.count)  # rows that are in no window
            # A copy, as the caller may write to the array.
            self._pending.append(used[between:].copy())
            self.count += used.shape[0]
            new = new[used.shape[0] :]
            if self.count == self._stop:
                windows.append(self._window())
                self._stop += self.step
        return windows

    def _check_rows(self, rows: Any) -> Array:
        """Return valid rows, as many bins as before."""
        if np.ndim(rows) == 2 and len(rows) == 0:
            return np.empty((0, 0))
        new = check_stream(rows, self.kernel, name="rows")
        if self._bins not in (None, new.shape[1]):
            raise StreamError(
                f"rows have {new.shape[1]} bins, but those before had {self._bins}: call reset() before rows "
                "of another kind"
            )
        self._bins = new.shape[1]
        return new

    def _window(self) -> Window:
        """Return the window that ends here."""
        new = self._pending[0] if len(self._pending) == 1 else np.concatenate(self._pending)
        self._pending = []
        if self._sliding is None:
            self._sliding = SlidingKernel(new, self.kernel)
        else:
            self._sliding.append(new)
        rows, system, failure = self._sliding.rows, None, None
        try:
            system = system_of_kernel(
                rows,
                self._sliding.matrix,
                self.order,
                self.kernel,
                normal_form=self.normal_form,
                stability=STABILITY,
                eigenpairs=self._eigenpairs,
            )
        except OrderError as error:
            failure = str(error)
        return Window(self.count - self.length, self.count, rows, system, failure)

    def _eigenpairs(self, K: Array, n: int) -> tuple[Array, Array]:
        """Find the leading eigenpairs of a window's centred kernel from those of the window before."""
        found = leading_eigenpairs(K, n, self._start, self._steps)
        if found is None:
            self.fallbacks += 1
            values, vectors = lapack_eigenpairs(K, n)
        else:
            values, vectors, steps = found
            self._steps = steps - 1  # the next window may need fewer, and a test costs more than a step
        total, kept = vectors.sum(axis=1), max(0, self.length - self.step)
        self._start = np.concatenate([total[self.length - kept :], total[: self.length - kept]])
        return values, vectors


def window_systems(stream: Any, length: int = 100, step: int = 10, **options: Any) -> list[Window]:
    """Identify the system of each of the overlapping windows of a finished stream.

    Rows at the end that do not fill a window are left out. Options are those of `Windows`.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> stream = make_streams(classes=1, per_class=1, frames=150)[0][0]
    >>> [window.start for window in window_systems(stream, length=100, step=20)]
    [0, 20, 40]
    """
    return Windows(length, step, **options).update(stream)
