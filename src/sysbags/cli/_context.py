"""What all commands share: --quiet, --verbose, and where the values of their options come from."""

from __future__ import annotations

import inspect
import platform
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any

import typer

from sysbags._common import __version__
from sysbags._common.messages import QUIET, VERBOSE, VERBOSITY
from sysbags.cli._config import Default, config_files
from sysbags.cli._output import note
from sysbags.errors import ParameterError

__all__ = ["CONTEXT", "from_file", "from_files", "given", "with_parameters", "with_verbosity"]

CONTEXT: ContextVar[typer.Context | None] = ContextVar("context", default=None)  # of the running command
PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "av", "opencv-python-headless")


def from_file(name: str) -> bool:
    """Tell whether the value of an option of the running command is from a configuration file."""
    context = CONTEXT.get()
    source = None if context is None else context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


def from_files() -> list[Default]:
    """Return what the running command has from configuration files."""
    context = CONTEXT.get()
    if context is None:
        return []
    name = context.command_path.removeprefix("sysbags ")
    found = {d.parameter.name: d for d in context.find_root().obj or () if d.command == name}
    return [default for default in found.values() if from_file(default.parameter.name)]


def given(**values: Any) -> tuple[Any, ...]:
    """Return the values of options, with None for those that are from a configuration file.

    For commands that know better than such a default, from a model or a library.
    """
    return tuple(None if from_file(name) else value for name, value in values.items())


def with_parameters(
    command: Callable[..., None], own: Iterable[inspect.Parameter], added: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    """Tell typer which parameters a wrapper has."""
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *added)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _remember(context: typer.Context, value: bool) -> bool:
    CONTEXT.set(context)  # the group's first, then that of its command
    return value


def _set_verbosity(
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", callback=_remember, help="Print results and errors only: no progress, no notes."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Say what is done, with versions and times; show where a failure is."
        ),
    ] = False,
) -> None:
    """Put the two options in force; those of the command line come before those of a file."""
    asked = {name for name, value in (("quiet", quiet), ("verbose", verbose)) if value}
    if len(asked) == 2:
        asked = {name for name in asked if not from_file(name)}
    if len(asked) > 1:
        raise ParameterError("--quiet and --verbose exclude each other: leave one out")
    for name in asked:
        # What the command line says before the command stays, and a group leaves files to its command.
        if from_file(name) and (VERBOSITY.get() or getattr(CONTEXT.get(), "invoked_subcommand", None)):
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


def with_verbosity(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options --quiet and --verbose."""
    own = inspect.signature(function, eval_str=True).parameters.values()
    added = inspect.signature(_set_verbosity, eval_str=True).parameters.values()

    @wraps(function)
    def command(*, quiet: bool, verbose: bool, **arguments: Any) -> None:
        _set_verbosity(quiet, verbose)
        function(**arguments)

    return with_parameters(command, own, added)
