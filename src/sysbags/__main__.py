"""The program ``sysbags``, also ``python -m sysbags``: Ctrl-C is handled before anything slow is imported."""

from __future__ import annotations

import os
import sys

# Nothing more is imported here: an interrupt during these imports would print a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def run() -> NoReturn:
    """Run the command line, and end the process with its exit code."""
    try:
        import signal

        # A shell starts background jobs with SIGINT ignored, and then it stays ignored.
        handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if handled:
            # There is nothing to clean up yet, and libraries may swallow exceptions while they are imported.
            signal.signal(signal.SIGINT, _stop)
        from sysbags.cli import INTERRUPTED, main

        if handled:
            sys.unraisablehook = _interrupt_again
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = main()
        interrupted = code == INTERRUPTED
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:
        # Threads may still run foreign code, and Python's own exit would end them there: in OpenCV that
        # aborts the process. Output files are complete or absent already.
        _stop()
    sys.exit(code)


def _stop(*_: Any) -> NoReturn:
    """End the process after Ctrl-C, at once; another Ctrl-C meanwhile changes nothing."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(2, b"sysbags: interrupted\n")
    os._exit(130)


def _interrupt_again(unraisable: Any) -> None:
    """Repeat an interrupt that was lost because Python could not raise it, as in a destructor."""
    if unraisable.exc_type is KeyboardInterrupt:
        import _thread

        _thread.interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    run()
