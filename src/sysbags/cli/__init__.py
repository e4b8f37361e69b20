"""The command line ``sysbags``, one file a command; what is slow to import is imported in the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NoReturn, cast

import typer

from sysbags._common.version import __version__
from sysbags.cli._output import note
from sysbags.errors import SysbagsError

__all__ = ["app", "main", "run"]

INTERRUPTED = 130

app = typer.Typer(
    name="sysbags", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)
UsageError = cast(type[Exception], typer.BadParameter.__base__)  # click's, or typer's own copy of it


def _register(name: str) -> None:
    """Add a command, the function of that name in the file of that name; its docstring is the help."""
    command = getattr(import_module(f"sysbags.cli.{name}"), name)
    # Lines are broken for the source, but a terminal has a width of its own.
    paragraphs = [" ".join(paragraph.split()) for paragraph in command.__doc__.split("\n\n")]
    app.command(help="\n\n".join(paragraphs))(command)


for _name in ("fit", "classify", "evaluate", "reproduce", "distance", "matrix", "mean", "inspect", "demo"):
    _register(_name)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sysbags {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Videos as points of a metric space: models, verdicts, distances and means of clips.

    Example: sysbags fit clips --out scenes.model, then sysbags classify scenes.model new.mp4
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        By default what the process was started with; nothing at all asks for help.

    Returns
    -------
    int
        0; 2 after a mistake of the user's, which is told in one sentence; 130 after Ctrl-C.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    sysbags ...
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = app(arguments or ["--help"], prog_name="sysbags", standalone_mode=False)
        sys.stdout.flush()
    except (SysbagsError, UsageError) as error:
        text = getattr(error, "format_message", error.__str__)()
        note(" ".join(text.replace("Value error, ", "").split()))
        return 2
    except SystemExit as stop:  # typer's, after Ctrl-C or for an output that nobody reads
        code = int(stop.code or 0)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has heard enough; at exit Python would try to write once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        note(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 2
    if code == INTERRUPTED:
        note("interrupted")
    return code if isinstance(code, int) else 0


def run() -> NoReturn:
    """Be the program ``sysbags``."""
    code = main()
    if code == INTERRUPTED:
        # Threads may still be in the midst of foreign code, and Python's own end would tear them down there:
        # in OpenCV that aborts the process. Files are whole already.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
