"""``sysbags config``: configuration files, and the values of options that they set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags.cli._config import FILE, VARIABLE, all_commands, config_files, long_name, user_file
from sysbags.cli._options import Json, argument, flag
from sysbags.cli._output import print_json, say, show_table
from sysbags.errors import FileError, ParameterError

TEMPLATE = """\
# Defaults of options for sysbags: one table per command, keys as on the command line without the dashes.
# `sysbags COMMAND --help` lists the options, `sysbags config` the values in force.

[defaults]  # for all commands that have the option
# n-jobs = 4
# random-state = 0
# bags = "lbp,colour"
# order = 10
# quiet = true

[fit]
# classifier = "nearest-mean"

[evaluate]
# cache = ".sysbags-cache"
# compare = true

[watch]
# false-alarms = "1/day"
# learn = "1h"

[library.add]
# compress = 40
"""


def config(
    context: typer.Context,
    command: Annotated[
        list[str] | None, argument("COMMAND...", "Show all options of a command, such as fit.")
    ] = None,
    path: Annotated[bool, flag("--path", "Print the path of the user's file.")] = False,
    init: Annotated[bool, flag("--init", f"Write a {FILE} with examples to the current folder.")] = False,
    as_json: Json = False,
) -> None:
    """Show configuration files and what they set.

    With a command, all its options are shown, and where their values are from. Options of the command line
    come first, then the file that the environment variable SYSBAGS_CONFIG names, then sysbags.toml in the
    current folder, then the user's file, then what is built in. If SYSBAGS_CONFIG is empty, no file is read.

    Example: sysbags config fit
    """
    if path:
        print_json({"path": user_file()}) if as_json else say(str(user_file()))
        return
    if init:
        try:
            with Path(FILE).open("x", encoding="utf-8") as opened:
                opened.write(TEMPLATE)
        except FileExistsError:
            raise FileError(f"{FILE} exists already: remove it, or edit it") from None
        print_json({"path": FILE}) if as_json else say(f"written: {FILE}")
        return
    files, values = config_files(), _values(context.find_root(), " ".join(command or []))
    if as_json:
        print_json({"files": [file._asdict() for file in files], "values": values})
        return
    for file in files:
        say(f"{file.place}: {file.path}")
    if not files:
        say(f"no file: there is no {FILE} here, no {user_file()}, and {VARIABLE} names none")
    if values:
        show_table(list(values[0]), (map(_text, row.values()) for row in values))


def _values(root: Any, asked: str) -> list[dict[str, Any]]:
    """Return the values of files for all commands, or all values for one of them."""
    commands = dict(all_commands(root.command))
    if asked and asked not in commands:
        raise ParameterError(f"the command is {asked}, but it must be one of {', '.join(commands)}")
    rows = []
    for command, options in commands.items():
        defaults = root.default_map
        for name in command.split():
            defaults = defaults.get(name, {})
        for option in options if asked in ("", command) else ():
            if option.name in defaults:
                value, source = defaults[option.name], str(root.obj[command, option.name])
            elif asked:
                described = isinstance(option.show_default, str)
                value, source = option.show_default if described else option.default, "built-in"
            else:
                continue
            rows.append({"command": command, "option": long_name(option), "value": value, "from": source})
    return rows


def _text(value: Any) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
