"""Defaults of options from configuration files, which click takes as its `default_map`.

A file has one table per command, such as ``[fit]`` or ``[library.add]``, and ``[defaults]`` for the options
that commands share. Keys are the long names of options without the dashes. Values are checked as those of
the command line are; click's `ParameterSource` then tells whether an option has its value from a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextvars import ContextVar
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, cast

import typer

from sysbags.errors import FileError

UsageError = cast(type[Exception], typer.BadParameter.__base__)  # click's, or typer's own copy of it
CONTEXT: ContextVar[typer.Context | None] = ContextVar("context", default=None)  # of the running command
FILE = "sysbags.toml"
VARIABLE = "SYSBAGS_CONFIG"
TABLE = "defaults"
PANEL = "Frames, bags and systems"  # options that commands share, as these are
SHARED = {"--n-jobs", "--random-state", "--cache", "--scheduler", "--json", "--quiet", "--verbose"}


class ConfigFile(NamedTuple):
    """A configuration file, and whether it is the user's, that of the current folder or the variable's."""

    place: str
    path: Path


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


def from_file(name: str) -> bool:
    """Tell whether the value of an option of the running command is from a configuration file."""
    context = CONTEXT.get()
    source = None if context is None else context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


def given(**values: Any) -> tuple[Any, ...]:
    """Return the values of options, with None for those that are from a configuration file.

    For commands that know better than such a default, from a model or a library.
    """
    return tuple(None if from_file(name) else value for name, value in values.items())


def origins() -> dict[Any, Path]:
    """Return the options of the running command whose values are from files, and those files."""
    context = CONTEXT.get()
    if context is None:
        return {}
    command, files = context.command_path.removeprefix("sysbags "), context.find_root().obj
    return {p: files[command, p.name] for p in context.command.params if p.name and from_file(p.name)}


def long_name(option: Any) -> str:
    """Return the name of an option that a reader understands."""
    return str(next((word for word in option.opts if word.startswith("--")), option.opts[0]))


def all_commands(group: Any, above: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield the names of all commands below a group, such as "library add", and their options."""
    for name, command in group.commands.items():
        yield f"{above}{name}", [p for p in command.params if p.param_type_name == "option"]
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{above}{name} ")


def read_defaults(context: typer.Context) -> None:
    """Read all files into the `default_map` of the program's context; of two defaults the later one counts.

    Its `obj` becomes the file of each default, by the name of the command and that of the parameter.
    """
    defaults: dict[str, Any] = {}
    context.default_map, context.obj = defaults, {}
    files = config_files()
    commands = dict(all_commands(context.command)) if files else {}
    for file in files:
        for table, values in _tables(file):
            options = _options(table, commands, file)
            whose = "that commands share" if table == TABLE else f"of `sysbags {table.replace('.', ' ')}`"
            for key, value in values.items():
                _check_known(key, options, f"{file.path}: [{table}] {key} is not an option {whose}")
                for command, option in options[key]:
                    entries = defaults
                    for name in command.split():
                        entries = entries.setdefault(name, {})
                    entries[option.name] = _checked(option, value, file, f"[{table}] {key}", context)
                    context.obj[command, option.name] = file.path
                    option.show_default = True  # in help texts


def _tables(file: ConfigFile) -> list[tuple[str, dict[str, Any]]]:
    """Return the tables of a file by their dotted names, that for all commands first."""
    import tomllib

    def walk(table: dict[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        yield name, {key.replace("_", "-"): v for key, v in table.items() if not isinstance(v, dict)}
        for key, value in table.items():
            if isinstance(value, dict):
                yield from walk(value, f"{name}.{key}".removeprefix("."))

    try:
        (_, outside), *tables = walk(tomllib.loads(file.path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{file.path} is not valid TOML: {error}") from None
    for key in outside:
        raise FileError(
            f"{file.path}: {key} is in no table, but it must be in [{TABLE}] or in the table of a command, "
            "such as [fit]"
        )
    return sorted(tables, key=lambda table: table[0] != TABLE)


def _options(
    table: str, commands: dict[str, list[Any]], file: ConfigFile
) -> dict[str, list[tuple[str, Any]]]:
    """Return the options that a table may set by their keys, each with the commands that have it."""
    names = {name.replace(" ", "."): name for name in commands}
    if table != TABLE:
        _check_known(table, names, f"{file.path}: [{table}] is not a command")
    found: dict[str, list[tuple[str, Any]]] = {}
    for name in names.values() if table == TABLE else [names[table]]:
        for option in commands[name]:
            if table != TABLE or option.rich_help_panel == PANEL or long_name(option) in SHARED:
                long = [word for word in option.opts if word.startswith("--")]
                for word in long or option.opts:
                    found.setdefault(word.lstrip("-"), []).append((name, option))
    return found


def _check_known(name: str, names: Collection[str], problem: str) -> None:
    """Raise an error with the nearest name unless a name is known."""
    if name not in names:
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        raise FileError(f"{problem}: did you mean {near[0]}?" if near else problem)


def _checked(option: Any, value: Any, file: ConfigFile, key: str, context: typer.Context) -> str | bool:
    """Return a value as the command line would have it, after the same checks."""
    where = f"{file.path}: {key} is {value!r}"
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
    # Every text counts as a path: what is none, such as 1/day, would be in the folder.
    stays = Path(os.path.realpath(str(value))).is_relative_to(os.path.realpath("."))
    if file.place == "folder" and (long_name(option) == "--scheduler" or not stays):
        raise FileError(
            f"{where}, which leads out of the folder, and a folder may be somebody else's: write it in "
            f"{user_file()}, or in a file that {VARIABLE} names"
        )
    return str(value)
