"""The command line ``sysbags``, one file per command; slow imports happen inside the commands."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from inspect import signature
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sysbags._common import __version__
from sysbags._common.messages import NORMAL, QUIET, VERBOSE, VERBOSITY
from sysbags.cli._config import (
    CONTEXT,
    UsageError,
    config_files,
    from_file,
    long_name,
    origins,
    read_defaults,
)
from sysbags.cli._options import with_parameters
from sysbags.cli._output import note, note_error
from sysbags.errors import ParameterError, SysbagsError

__all__ = ["INTERRUPTED", "app", "main"]

# See docs/exit-codes.md; `watch` also ends with 143 after SIGTERM.
FAILED, WRONG, UNEXPECTED, INTERRUPTED = 1, 2, 70, 130
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "av", "opencv-python-headless")
COMMANDS = {
    "Everyday": ("fit", "classify", "evaluate", "distance", "inspect", "demo", "models", "config", "warm_up"),
    "Library": ("library", "export"),
    "Watching": ("watch", "timeline"),
    "Research": ("matrix", "mean", "synthesize", "reproduce"),
}


class _Flags:
    """Options without a value: Typer's help would show a type, <bool>, for them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of a command, --help among them."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class _Command(_Flags, TyperCommand):
    """A command whose help shows flags."""


class _Group(_Flags, TyperGroup):
    """A group of commands whose help shows flags."""


def _set_verbosity(
    context: typer.Context,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results and errors only: no progress, no notes.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Say what is done, with versions and times; show where a failure is."
        ),
    ] = False,
) -> None:
    """Put the two options in force; those of the command line come before those of a file."""
    CONTEXT.set(context)  # the group's first, then that of its command
    asked = {name for name, value in (("quiet", quiet), ("verbose", verbose)) if value}
    if len(asked) == 2:
        asked = {name for name in asked if not from_file(name)}
    if len(asked) > 1:
        raise ParameterError("--quiet and --verbose exclude each other: leave one out")
    for name in asked:
        # What the command line says before the command stays, and a group leaves files to its command.
        if from_file(name) and (VERBOSITY.get() or context.invoked_subcommand):
            return
        if name == "quiet":
            VERBOSITY.set(QUIET)
            warnings.simplefilter("ignore")  # until `main` ends
        elif VERBOSITY.get() != VERBOSE:
            VERBOSITY.set(VERBOSE)
            note(_versions())
            for file in config_files():
                note(f"defaults from {file.path}")


def _versions() -> str:
    from importlib.metadata import PackageNotFoundError, version

    texts = [f"version {__version__}", f"Python {platform.python_version()} on {platform.platform()}"]
    for name in PACKAGES:
        with suppress(PackageNotFoundError):  # OpenCV has packages of other names
            texts.append(f"{name} {version(name)}")
    return ", ".join(texts)


def _with_verbosity(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --quiet and --verbose."""
    own = signature(function, eval_str=True).parameters
    added = signature(_set_verbosity, eval_str=True).parameters

    @wraps(function)
    def command(*, context: typer.Context, quiet: bool, verbose: bool, **arguments: Any) -> None:
        _set_verbosity(context, quiet, verbose)
        function(**arguments, **({"context": context} if "context" in own else {}))

    return with_parameters(command, {**own, **added})


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
    read_defaults(context)


def _make_app() -> typer.Typer:
    """Return the program with the function or the group of each file; docstrings are the help texts."""
    made = typer.Typer(name="sysbags", pretty_exceptions_enable=False, rich_markup_mode="rich")
    names = {"help_option_names": ["--help", "-h"]}
    made.callback(cls=_Group, context_settings=names)(about)
    apps = [made]
    for panel, commands in COMMANDS.items():
        for name in commands:
            command = getattr(import_module(f"sysbags.cli.{name}"), name)
            if isinstance(command, typer.Typer):
                made.add_typer(command, name=name, cls=_Group, rich_help_panel=panel)
                apps.append(command)
            else:
                made.command(name.replace("_", "-"), rich_help_panel=panel)(command)
    for each in apps:
        for registered in (each.registered_callback, *each.registered_commands):
            if registered is not None and registered.callback is not None:
                registered.callback = _with_verbosity(registered.callback)
                # Lines end where the source needs it, but terminals have widths of their own.
                paragraphs = str(registered.callback.__doc__).split("\n\n")
                registered.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        for registered in each.registered_commands:
            registered.cls = _Command
    return made


app = _make_app()


def _refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse empty arguments: an empty path would be the current folder."""
    for position, argument in enumerate(arguments, start=1):
        option, equals, value = argument.partition("=")
        if not argument:
            raise ParameterError(f"argument {position} is empty, but it must be a path or a value")
        if option.startswith("--") and equals and not value:
            raise ParameterError(f"{option} is empty, but it must have a value")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default with the arguments of the process; without any the help is printed.

    The exit code is 0; 1 if a command has found a problem or the output is closed; 2 after an error and 70
    after an unexpected one, with one sentence on the error stream; 130 after Ctrl-C, which the program says
    when it ends.

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
        f"{long_name(option)} is from {path}"
        for option, path in origins().items()
        if re.search(rf"(?<![\w-])({long_name(option)}|{option.name})(?![\w-])", text)
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
