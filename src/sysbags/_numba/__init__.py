"""Numba kernels: pure functions of arrays, each with an independent slow twin in the tests.

`compiled` is the one place where compiler options are chosen: `error_model="numpy"` because a
division that may raise is never vectorised, `nogil` so that threads can run kernels side by side,
`cache` so that a second process does not compile again.

Compilation is most of a first run, so kernels are written for it too:

* Loops instead of array expressions and slices, which compile several times slower.
* An inner function is optimised again in each function that calls it. What is called from one place has
  ``inline="always"`` and is compiled once.
* ``np.bool_(True)`` instead of ``True`` as an argument: a literal is a type of its own, and the function
  would be compiled once more for it.
* ``wrapper=False`` for an inner function: what would make it callable from Python is not compiled.
* ``None`` for a choice of which a process mostly needs one side: ``if choice is None`` is decided before
  compilation, and the other side is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from sysbags._common.messages import shows_progress

Function = TypeVar("Function", bound=Callable[..., Any])


class _Announcement(event.Listener):  # type: ignore[misc]
    """Says once, on a terminal, why the first run takes long."""

    announced = False

    def on_start(self, event: Any) -> None:
        if not self.announced and shows_progress():
            self.announced = True
            print("compiling, once ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _Announcement())


def compiled(
    *, fastmath: bool | set[str] = False, inline: str = "never", wrapper: bool = True
) -> Callable[[Function], Function]:
    """Compile a function of arrays with the options that every kernel here shares.

    `fastmath` allows re-association; only where no NaN can occur. The function then becomes a part of each
    caller: of functions that are called, a process uses the copy that it loads first, and copies are
    optimised each in its own way, so that bits would depend on what was called or compiled before. `inline`
    is passed on to Numba. With `wrapper`, the function can be called from Python too, not only from compiled
    functions.
    """

    def decorate(function: Function) -> Function:
        jit = numba.njit(
            error_model="numpy",
            nogil=True,
            cache=True,
            no_cfunc_wrapper=True,
            fastmath=fastmath,
            forceinline=bool(fastmath),
            inline=inline,
            no_cpython_wrapper=not wrapper,
        )
        return cast(Function, jit(function))

    return decorate
