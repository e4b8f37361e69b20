"""``sysbags models``: list the networks for deep bags, add one, or download one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags.cli._options import Json, argument, option
from sysbags.cli._output import note, print_json, say, show_table
from sysbags.errors import ParameterError

models = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")

Name = Annotated[str, argument("NAME", "The name of the network.")]


@models.callback()
def about(context: typer.Context, as_json: Json = False) -> None:
    """List the networks for deep bags, add one, or download one.

    The list says where their files are, or names the command that gets them. Files are looked for in the
    folder that the environment variable SYSBAGS_MODELS names, then in the user's data folder.

    Example: sysbags models
    """
    if context.invoked_subcommand is None:
        list_all(as_json)


@models.command("list")
def list_all(as_json: Json = False) -> None:
    """List the networks with their files, licences and sources.

    For a file that is missing the command that gets it is shown.

    Example: sysbags models list
    """
    from sysbags.bags.network_files import list_networks

    rows = list_networks()
    if as_json:
        print_json({"networks": rows})
        return
    show_table(
        ["network", "file", "licence", "source", "SHA-256"],
        (
            [
                row["name"],
                str(row["path"] or row["problem"]),
                *(str(row.get(field) or "-") for field in ("licence", "source")),
                (row.get("sha256") or "-")[:12],
            ]
            for row in rows
        ),
    )


@models.command()
def add(
    name: Name,
    file: Annotated[Path, argument("FILE", "An ONNX file.")],
    size: Annotated[str | None, option("Size of its input.", "N|HxW")] = None,
    mean: Annotated[str | None, option("Mean of its input, for colours to 255.", "X|X,Y,Z")] = None,
    std: Annotated[str | None, option("Standard deviation of its input.", "X|X,Y,Z")] = None,
    output: Annotated[str | None, option("What it gives.", "channels|tokens", default="channels")] = None,
    licence: Annotated[str | None, option("Its licence.")] = None,
    source: Annotated[str | None, option("Where it is from.")] = None,
    as_json: Json = False,
) -> None:
    """Copy an ONNX file to the user's data folder, as NAME.

    For a registered network it may be any export of it, such as one of another precision. Model files keep
    the checksum of the file that they were made with, and refuse another. A new network is described by the
    options, or by a JSON file beside it with the same stem and the fields size, mean, std, output, licence
    and source.

    Example: sysbags models add my-net net.onnx --size 224 --mean 123.7,116.3,103.5 --std 58.4,57.1,57.4
    """
    from sysbags.bags.network_files import (
        NETWORKS,
        checksum,
        data_folder,
        described,
        read_description,
        store_network,
    )
    from sysbags.bags.networks import check_network

    given = {
        "size": _numbers(size, "--size", "x", int),
        "mean": _numbers(mean, "--mean", ",", float),
        "std": _numbers(std, "--std", ",", float),
        "output": output,
        "licence": licence,
        "source": source,
    }
    fields = {key: value for key, value in given.items() if value is not None}
    if fields and name in NETWORKS:
        raise ParameterError(
            f"{name} is registered with its preprocessing, so leave out --{next(iter(fields))}"
        )
    description = described(file, fields, "the options") if fields else read_description(file)
    target = data_folder() / (NETWORKS[name].file if name in NETWORKS else f"{name}.onnx")
    former = checksum(target) if target.is_file() else None
    path = store_network(name, file, description, check_network)
    _report(name, path, as_json)
    if former not in (None, checksum(path)):
        note(f"it replaces another file of {name}, whose checksum begins with {str(former)[:12]}")
    if name in NETWORKS and checksum(path) != NETWORKS[name].sha256:
        note(
            f"{file} is not the registered file of {name}: models that are made with it need this file, "
            f"whose checksum begins with {checksum(path)[:12]}"
        )


@models.command()
def fetch(name: Name, as_json: Json = False) -> None:
    """Download a registered network, and compare its checksum.

    The file is in the user's data folder then.

    Example: sysbags models fetch resnet18-v2
    """
    from sysbags.bags.network_files import fetch_network

    _report(name, fetch_network(name), as_json)


def _report(name: str, path: Path, as_json: bool) -> None:
    from sysbags.bags.network_files import checksum, find_network, network_path

    entry = find_network(name)
    used = None if entry is None else network_path(entry)
    if used not in (None, path):
        note(f"{used} is used, not {path}: the folder that SYSBAGS_MODELS names comes first")
    if as_json:
        print_json({"name": name, "path": path, "sha256": checksum(path)})
    else:
        say(f"The network {name} is {path}.")


def _numbers(text: str | None, option: str, separator: str, kind: type[Any]) -> Any:
    """Return the number or the list of numbers in an option; None if it has no value."""
    if text is None:
        return None
    try:
        values = [kind(part) for part in text.split(separator)]
    except ValueError:
        raise ParameterError(
            f"{option} is {text!r}, but it must be a number, or numbers with {separator!r} between them"
        ) from None
    return values[0] if len(values) == 1 else values
