"""The command line ``sysbags``, one file per command; slow imports happen inside the commands."""

from __future__ import annotations

import os
import re
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated

import typer

from sysbags._common import __version__
from sysbags._common.messages import NORMAL, VERBOSE, VERBOSITY
from sysbags.cli._config import as_default_map, long_name, read_defaults
from sysbags.cli._context import CONTEXT, from_files, with_verbosity
from sysbags.cli._options import UsageError, help_text
from sysbags.cli._output import note, note_error
from sysbags.errors import ParameterError, SysbagsError

__all__ = ["INTERRUPTED", "app", "main"]

# See docs/exit-codes.md; `watch` also ends with 143 after SIGTERM.
FAILED, WRONG, UNEXPECTED, INTERRUPTED = 1, 2, 70, 130

app = typer.Typer(name="sysbags", pretty_exceptions_enable=False, rich_markup_mode="rich")
apps = [app]


def _register(name: str) -> None:
    """Add the command of a file, the function or the group with its name; the docstring is the help text."""
    command = getattr(import_module(f"sysbags.cli.{name}"), name)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
        apps.append(command)
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
    "export",
    "warm_up",
    "config",
):
    _register(_name)


def _version(value: bool) -> None:
    if value:
        print(f"sysbags {__version__}")
        raise typer.Exit


def about(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Classify videos by their dynamics: models, predictions, distances and means of clips.

    Example: sysbags fit clips --out scenes.model, then sysbags classify scenes.model new.mp4

    Exit codes: 0 done; 1 library verify has found a problem, or nobody reads the output any more; 2 an error,
    with one sentence about it; 70 a mistake in sysbags; 130 Ctrl-C; 143 watch was ended by SIGTERM.
    """
    context.obj = read_defaults(context)
    context.default_map = as_default_map(context.obj)


app.callback(help=help_text(about))(about)
for _app in apps:
    for _command in (_app.registered_callback, *_app.registered_commands):
        if _command is not None and _command.callback is not None:
            _command.callback = with_verbosity(_command.callback)


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
        Exit code: 0; 1 if a command has found a problem or the output is closed; 2 after an error and 70
        after an unexpected one, with one sentence on the error stream; 130 after Ctrl-C, which the program
        says when it ends.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    sysbags ...
    0
    """
    with warnings.catch_warnings():  # --quiet ignores them
        verbosity, context = VERBOSITY.set(NORMAL), CONTEXT.set(None)
        try:
            return _main(list(sys.argv[1:] if argv is None else argv))
        finally:
            VERBOSITY.reset(verbosity)
            CONTEXT.reset(context)


def _main(arguments: list[str]) -> int:
    started = time.perf_counter()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal without Unicode cannot show
    try:
        _refuse_empty(arguments)
        code = app(arguments or ["--help"], prog_name="sysbags", standalone_mode=False)
        sys.stdout.flush()
    except (SysbagsError, UsageError) as error:
        text = getattr(error, "format_message", error.__str__)()
        note_error(" ".join(text.replace("Value error, ", "").split()) + _origins(text))
        return WRONG
    except SystemExit as stop:  # typer's, after Ctrl-C or for an output that nobody reads
        code = int(stop.code or 0)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it; at exit Python would try to write once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        note_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return WRONG
    except Exception as error:
        _report_unexpected(error)
        return UNEXPECTED
    if VERBOSITY.get() == VERBOSE:
        note(f"{time.perf_counter() - started:.2f} s in all")
    return code if isinstance(code, int) else 0


def _origins(text: str) -> str:
    """Say which of the options in an error are from which configuration file."""
    found = [
        f"{long_name(default.parameter)} is from {default.file.path}"
        for default in from_files()
        if re.search(rf"(?<![\w-])({long_name(default.parameter)}|{default.parameter.name})(?![\w-])", text)
    ]
    return f" ({', '.join(found)})" if found else ""


def _report_unexpected(error: Exception) -> None:
    """Print what nobody foresaw, and where it is in the source: all callers with --verbose."""
    import traceback

    if VERBOSITY.get() == VERBOSE:
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = " ".join(f"{type(error).__name__} {error}".split())
    advice = "" if VERBOSITY.get() == VERBOSE else "; with --verbose there is a traceback"
    note_error(f"a mistake in sysbags, {what} (line {last.lineno} of {last.filename}){advice}")
