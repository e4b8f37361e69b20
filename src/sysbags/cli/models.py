"""``sysbags models``: list the networks for deep bags, add one, or download one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags.cli._options import Json, help_text
from sysbags.cli._output import note, print_json, say, show_table
from sysbags.errors import ParameterError

models = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The name of the network.")]


def about(context: typer.Context, as_json: Json = False) -> None:
    """List the networks for deep bags: where their files are, or the command that gets them.

    Files are looked for in the folder that the environment variable SYSBAGS_MODELS names, then in the user's
    data folder.

    Example: sysbags models
    """
    if context.invoked_subcommand is None:
        list_all(as_json)


def list_all(as_json: Json = False) -> None:
    """List the networks: files or the command that gets them, licences, sources and checksums.

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


def add(
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="An ONNX file.")],
    size: Annotated[
        str | None, typer.Option(metavar="N|HxW", show_default=False, help="Size of its input.")
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(metavar="X|X,Y,Z", show_default=False, help="Mean of its input, for colours to 255."),
    ] = None,
    std: Annotated[
        str | None,
        typer.Option(metavar="X|X,Y,Z", show_default=False, help="Standard deviation of its input."),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="channels|tokens", help="What it gives.", show_default="channels")
    ] = None,
    licence: Annotated[str | None, typer.Option(show_default=False, help="Its licence.")] = None,
    source: Annotated[str | None, typer.Option(show_default=False, help="Where it is from.")] = None,
    as_json: Json = False,
) -> None:
    """Keep a copy of an ONNX file in the user's data folder, as the network NAME.

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
        "size": None if size is None else _numbers(size, "--size", "x", int),
        "mean": None if mean is None else _numbers(mean, "--mean", ",", float),
        "std": None if std is None else _numbers(std, "--std", ",", float),
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


def fetch(name: Name, as_json: Json = False) -> None:
    """Download the file of a registered network into the user's data folder, and compare its checksum.

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


def _numbers(text: str, option: str, separator: str, kind: type[Any]) -> Any:
    """Return the number or the list of numbers in an option."""
    try:
        values = [kind(part) for part in text.split(separator)]
    except ValueError:
        raise ParameterError(
            f"{option} is {text!r}, but it must be a number, or numbers with {separator!r} between them"
        ) from None
    return values[0] if len(values) == 1 else values


models.callback(help=help_text(about))(about)
models.command("list", help=help_text(list_all))(list_all)
models.command("add", help=help_text(add))(add)
models.command("fetch", help=help_text(fetch))(fetch)
