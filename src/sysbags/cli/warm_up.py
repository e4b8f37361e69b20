"""``sysbags warm-up``: compile everything now instead of when it is first used."""

from __future__ import annotations

import time

from sysbags.cli._options import Json
from sysbags.cli._output import number, print_json, say

__all__ = ["warm_up"]


def warm_up(as_json: Json = False) -> None:
    """Compile everything once, so that no later command has to wait for it.

    What is compiled is kept on disk, and used until sysbags, Numba or Python change.

    Example: sysbags warm-up
    """
    from sysbags.evaluate.compilation import compile_everything

    started = time.perf_counter()
    compile_everything()
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"seconds": seconds})
    else:
        say(f"Everything is compiled, after {number(seconds)} s.")
