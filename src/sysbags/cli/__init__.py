"""The command line ``sysbags``, one file per command; slow imports happen inside the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, cast

import typer

from sysbags._common.version import __version__
from sysbags.cli._options import help_text
from sysbags.cli._output import note
from sysbags.errors import ParameterError, SysbagsError

__all__ = ["INTERRUPTED", "app", "main"]

INTERRUPTED = 130

app = typer.Typer(
    name="sysbags", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)
UsageError = cast(type[Exception], typer.BadParameter.__base__)  # click's, or typer's own copy of it


def _register(name: str) -> None:
    """Add the command of a file, the function or the group with its name; the docstring is the help text."""
    command = getattr(import_module(f"sysbags.cli.{name}"), name)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name.replace("_", "-"), help=help_text(command))(command)


for _name in (
    "fit",
    "classify",
    "evaluate",
    "reproduce",
    "distance",
    "matrix",
    "mean",
    "inspect",
    "synthesize",
    "timeline",
    "watch",
    "demo",
    "models",
    "library",
    "warm_up",
):
    _register(_name)


def _version(value: bool) -> None:
    if value:
        print(f"sysbags {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Classify videos by their dynamics: models, predictions, distances and means of clips.

    Example: sysbags fit clips --out scenes.model, then sysbags classify scenes.model new.mp4
    """


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse empty arguments: an empty path would be the current folder."""
    for position, argument in enumerate(arguments, start=1):
        option, equals, value = argument.partition("=")
        if not argument:
            raise ParameterError(f"argument {position} is empty, but it must be a path or a value")
        if option.startswith("--") and equals and not value:
            raise ParameterError(f"{option} is empty, but it must have a value")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        By default those of the process; without any the help is printed.

    Returns
    -------
    int
        Exit code: 0; 2 after an error, with one sentence on the error stream; 130 after Ctrl-C, which the
        program says when it ends.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    sysbags ...
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal without Unicode cannot show
    try:
        _refuse_empty(arguments)
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
        # The reader of the output has closed it; at exit Python would try to write once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        note(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 2
    return code if isinstance(code, int) else 0
