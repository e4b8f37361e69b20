"""Defaults of options from configuration files, checked as the command line is.

A file has one table per command, such as ``[fit]`` or ``[library.add]``, and ``[defaults]`` for the options
that commands share. Keys are the long names of options without the dashes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import typer

from sysbags.cli._options import PANEL, UsageError
from sysbags.errors import FileError

__all__ = [
    "FILE",
    "VARIABLE",
    "ConfigFile",
    "Default",
    "all_commands",
    "as_default_map",
    "config_files",
    "long_name",
    "read_defaults",
    "user_file",
]

FILE = "sysbags.toml"
VARIABLE = "SYSBAGS_CONFIG"
TABLE = "defaults"
SHARED = {"--n-jobs", "--random-state", "--cache", "--scheduler", "--json", "--quiet", "--verbose"}


class ConfigFile(NamedTuple):
    """A configuration file, and whether it is the user's, that of the current folder or the variable's."""

    place: str
    path: Path


class Default(NamedTuple):
    """The default of an option of a command, as a file says it."""

    command: str
    parameter: Any  # click's, or typer's own copy of it
    value: str | bool
    file: ConfigFile
    table: str


def user_file() -> Path:
    """Return the configuration file of this user."""
    base = os.environ.get("APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "sysbags" / FILE


def config_files() -> list[ConfigFile]:
    """Return the files that exist; later ones come before earlier ones.

    If the environment variable is empty, no file is read.
    """
    variable = os.environ.get(VARIABLE)
    if variable == "":
        return []
    files = [ConfigFile("user", user_file()), ConfigFile("folder", Path(FILE))]
    found = [file for file in files if file.path.is_file()]
    if variable is None:
        return found
    if not Path(variable).is_file():
        raise FileError(f"{VARIABLE} is {variable}, but there is no such file")
    return [*found, ConfigFile("environment", Path(variable))]


def long_name(parameter: Any) -> str:
    """Return the name of an option that a reader understands."""
    return str(next((word for word in parameter.opts if word.startswith("--")), parameter.opts[0]))


def _keys(parameter: Any) -> list[str]:
    """Return the names that an option may have in a file."""
    long = [word.removeprefix("--") for word in parameter.opts if word.startswith("--")]
    return long or [parameter.opts[0].removeprefix("-")]


def all_commands(group: Any, above: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield the names of all commands below a group, such as "library add", and their options."""
    for name, command in group.commands.items():
        options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
        yield f"{above}{name}", options
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{above}{name} ")


def read_defaults(context: typer.Context) -> list[Default]:
    """Read all files; of two defaults of an option the later one counts.

    Parameters
    ----------
    context : typer.Context
        Of the program, whose commands and options the files are compared with.
    """
    commands = dict(all_commands(context.command))
    return [default for file in config_files() for default in _of_file(file, commands, context)]


def _of_file(file: ConfigFile, commands: dict[str, list[Any]], context: typer.Context) -> Iterator[Default]:
    import tomllib

    try:
        tables = dict(_tables(tomllib.loads(file.path.read_text(encoding="utf-8"))))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file.path} is not valid TOML: {error}") from None
    if tables[""]:
        raise FileError(
            f"{file.path}: {next(iter(tables['']))} is in no table, but it must be in [{TABLE}] or in the "
            "table of a command, such as [fit]"
        )
    shared: dict[str, list[tuple[str, Any]]] = {}
    for command, options in commands.items():
        for option in options:
            if getattr(option, "rich_help_panel", None) == PANEL or long_name(option) in SHARED:
                for key in _keys(option):
                    shared.setdefault(key, []).append((command, option))
    for key, value in tables.pop(TABLE, {}).items():
        _check_known(key, shared, f"{file.path}: [{TABLE}] {key} is not an option that commands share")
        for command, option in shared[key]:
            yield Default(command, option, _checked(option, value, file, TABLE, context), file, TABLE)
    del tables[""]
    for table, values in tables.items():
        command = table.replace(".", " ")
        _check_known(command, commands, f"{file.path}: [{table}] is not a command")
        named = {key: option for option in commands[command] for key in _keys(option)}
        for key, value in values.items():
            problem = f"{file.path}: [{table}] {key} is not an option of `sysbags {command}`"
            _check_known(key, named, problem)
            option = named[key]
            yield Default(command, option, _checked(option, value, file, table, context), file, table)


def _tables(table: dict[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each table by its dotted name, without the tables in it; keys have dashes as options do."""
    yield name, {key.replace("_", "-"): v for key, v in table.items() if not isinstance(v, dict)}
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _tables(value, f"{name}.{key}".removeprefix("."))


def _check_known(name: str, names: Collection[str], problem: str) -> None:
    """Raise an error with the nearest name unless a name is known."""
    if name not in names:
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        meant = f": did you mean {near[0].replace(' ', '.')}?" if near else ""
        raise FileError(f"{problem}{meant}")


def _checked(option: Any, value: Any, file: ConfigFile, table: str, context: typer.Context) -> str | bool:
    """Return a value as the command line would have it, after the same checks."""
    name = _keys(option)[0]
    where = f"{file.path}: [{table}] {name} is {value!r}"
    if option.is_flag:
        if not isinstance(value, bool):
            raise FileError(f"{where}, but it must be true or false")
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value == "":
        raise FileError(f"{where}, but it must be a number or a text")
    try:
        option.process_value(context, str(value))
    except UsageError as error:
        reason = getattr(error, "message", str(error)).removeprefix("Value error, ")
        raise FileError(f"{where}: {reason}") from None
    if file.place == "folder" and _leads_away(name, str(value)):
        raise FileError(
            f"{where}, which leads out of the folder, and a folder may be somebody else's: write it in "
            f"{user_file()}, or in a file that {VARIABLE} names"
        )
    return str(value)


def _leads_away(name: str, value: str) -> bool:
    """Tell whether a value lets a folder write elsewhere, or send clips and functions to a cluster.

    Every text counts as a path: what is none, such as 1/day, would be in the folder.
    """
    here = Path(os.path.realpath("."))
    return name == "scheduler" or not Path(os.path.realpath(value)).is_relative_to(here)


def as_default_map(defaults: Sequence[Default]) -> dict[str, Any]:
    """Return the defaults as click takes them, by commands and names of parameters; help shows them."""
    nested: dict[str, Any] = {}
    for default in defaults:
        table = nested
        for name in default.command.split():
            table = table.setdefault(name, {})
        table[default.parameter.name] = default.value
        default.parameter.show_default = True
    return nested
