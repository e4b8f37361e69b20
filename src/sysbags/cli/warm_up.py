"""``sysbags warm-up``: compile everything now instead of when it is first used."""

from __future__ import annotations

import time

from sysbags.cli._options import Json
from sysbags.cli._output import number, print_json, say


def warm_up(as_json: Json = False) -> None:
    """Compile everything once, so that no later command has to wait.

    What is compiled is kept on disk, and used until sysbags, Numba or Python change.

    Example: sysbags warm-up
    """
    from sysbags.means.compilation import compile_everything

    started = time.perf_counter()
    compile_everything(_use_windows)
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"seconds": seconds})
    else:
        say(f"Everything is compiled, after {number(seconds)} s.")


def _use_windows() -> None:
    """Score the last of the windows of a short stream, by those before it."""
    from sysbags.datasets.streams import make_streams
    from sysbags.watch.normal import Scorer, fit_normal
    from sysbags.watch.windows import window_systems

    (stream,), _ = make_streams(classes=1, per_class=1, frames=60, bins=8)
    for kernel in ("chi2", "intersection"):
        windows = window_systems(stream, length=20, step=10, kernel=kernel)
        Scorer(fit_normal(windows[:-1])).score(windows[-1])
