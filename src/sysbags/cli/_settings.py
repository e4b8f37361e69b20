"""Options for frames, bags and systems, and the estimators that they describe."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from sysbags.bags.registry import BAGS, PRESETS, check_option, make_bag, names_with_option
from sysbags.cli._context import from_file, with_parameters
from sysbags.cli._options import PANEL, Kernel, last_of_list
from sysbags.cli._output import note
from sysbags.errors import ParameterError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier

__all__ = ["DEFAULT", "WATCHED", "Settings", "check_network", "with_settings"]

DEFAULT = "lbp"
WATCHED = "lbp-top"  # sees in a few frames whether something is slower
READING = ("start", "stop", "stride", "max_frames", "size")
PARAMETERS = {"network": "model", "network_stride": "size"}  # a parameter of the bags that an option is for
WORDS, NETWORKS, MODELS = (", ".join(names_with_option(option)) for option in ("words", "size", "model"))


def _option(
    words: str,
    default: str | bool,
    metavar: str | None = None,
    least: int | None = None,
    complete: Callable[[str], list[str]] | None = None,
) -> Any:
    return typer.Option(
        help=words,
        show_default=default,
        metavar=metavar,
        min=least,
        autocompletion=complete,
        rich_help_panel=PANEL,
    )


def _networks(incomplete: str) -> list[str]:
    from sysbags.bags.network_files import known_networks

    return [name for name in known_networks() if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a clip becomes a system; None is an option that has no value."""

    bags: Annotated[
        str | None,
        typer.Option(
            "--bags",
            "--bag",
            help=f"What is counted in a frame: {', '.join(BAGS)}; several with commas.",
            metavar="BAG[,BAG...]",
            autocompletion=last_of_list(BAGS),
            show_default=DEFAULT,
            rich_help_panel=PANEL,
        ),
    ] = None
    order: Annotated[str | None, _option("Order of the systems.", "5", "N|auto")] = None
    kernel: Annotated[Kernel | None, _option("Kernel between two bags.", "chi2")] = None
    words: Annotated[int | None, _option(f"Visual words of {WORDS}.", "500 or 512", "N", 1)] = None
    window: Annotated[int | None, _option("Frames in a bag.", "1", "N", 1)] = None
    start: Annotated[int | None, _option("First frame, counted from 0.", False, "N", 0)] = None
    stop: Annotated[int | None, _option("Frame to stop before.", False, "N", 1)] = None
    stride: Annotated[int | None, _option("Use every N-th frame.", False, "N", 1)] = None
    max_frames: Annotated[int | None, _option("Use at most N frames.", False, "N", 1)] = None
    size: Annotated[
        int | None,
        _option(f"Shrink the short side to N pixels; both sides for {NETWORKS}.", False, "N", 1),
    ] = None
    network: Annotated[
        str | None,
        _option(
            f"The network of {MODELS}, see `sysbags models`.",
            "efficientnet-lite0",
            "NAME",
            complete=_networks,
        ),
    ] = None
    network_stride: Annotated[
        int | None, _option("Use every N-th frame for networks, which take longest.", "--stride", "N", 1)
    ] = None
    keep_aspect: Annotated[
        bool | None,
        typer.Option(
            "--keep-aspect",
            help=f"For {NETWORKS}: keep the aspect ratio of the frames; --size is their short side.",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None

    def given(self, with_files: bool = False) -> list[str]:
        """Return the names of the options that were given; `with_files` those of configuration files too."""
        return [
            f"--{field.name.replace('_', '-')}"
            for field in fields(self)
            if getattr(self, field.name) is not None and (with_files or not from_file(field.name))
        ]

    def with_preset(self, name: str | None) -> Settings:
        """Return the settings with those of a preset where nothing is given."""
        # A configuration file may have one of --preset and --bags, and the command line the other.
        if name is None or (from_file("preset") and "--bags" in self.given()):
            return self
        preset = PRESETS[name]
        if self.bags is not None and from_file("preset") == from_file("bags"):
            raise ParameterError("--preset says which bags are used: leave out --bags")
        network = self.network or preset.network()
        better = next(iter(preset.networks), None)
        if self.network is None and network != better:
            how = f"`sysbags models fetch {better}` says how to get it; --network names one of your own"
            note(f"the network {better} would be better than {network}: {how}")
        stride = self.network_stride or preset.network_stride
        return replace(self, bags=",".join(preset.bag_names(network)), network=network, network_stride=stride)

    def names(self) -> list[str]:
        """Return the names of the bags."""
        names = [name.strip() for name in (self.bags or DEFAULT).split(",")]
        for name in names:
            if name not in BAGS:
                raise ParameterError(f"--bags has {name!r}, but there are only {', '.join(BAGS)}")
        if len(set(names)) < len(names):
            raise ParameterError(f"--bags is {self.bags}, but no bag can be there twice")
        return names

    def make_bags(self, seed: int = 0) -> BagTransformer:
        """Return the only bag, not fitted yet."""
        if len(self.names()) > 1:
            raise ParameterError(f"--bags is {self.bags}, but this command takes a single bag")
        return next(iter(self.make_all_bags(seed).values()))

    def make_all_bags(self, seed: int = 0) -> dict[str, BagTransformer]:
        """Return the bags by what tables call them, not fitted yet."""
        names = self.names()
        for option in ("words", "keep_aspect", "network", "network_stride"):
            if getattr(self, option) is not None and not from_file(option):
                parameter = PARAMETERS.get(option, option)
                if not set(names) & set(names_with_option(parameter)):
                    check_option(names[0], parameter, f"--{option.replace('_', '-')}")
        if self.network is not None:
            check_network(self.network, "--network is")
        return {BAGS[name].title: self._make(name, seed) for name in names}

    def _make(self, name: str, seed: int) -> BagTransformer:
        taken = BAGS[name].bag_class.options
        is_network = BAGS[name].bag_class.needs_deep
        reading = {option: getattr(self, option) for option in READING}
        if is_network and self.network_stride is not None:
            reading["stride"] = self.network_stride
        frames = {option: value for option, value in reading.items() if value is not None}
        values = {
            "words": self.words,
            "random_state": seed,
            "size": frames.pop("size", None) if "size" in taken else None,
            "keep_aspect": self.keep_aspect,
            "model": self.network,
        }
        options = {
            option: values[option]
            for option in taken
            if values.get(option) is not None and name in names_with_option(option)
        }
        return make_bag(name, window=self.window or 1, frames=frames or None, **options)

    def make_identifier(self) -> SystemIdentifier:
        """Return the transformer of streams to systems."""
        from sysbags.classifiers import SystemIdentifier

        order = "5" if self.order is None else self.order
        if order != "auto" and not (order.isdecimal() and int(order) > 0):
            raise ParameterError(f"--order is {order!r}, but it must be a whole number of at least 1 or auto")
        return SystemIdentifier(
            order if order == "auto" else int(order),
            str(self.kernel or "chi2"),
            smaller_orders=self.order is None,
        )


def check_network(name: str, what: str) -> None:
    """Raise an error unless a network is known by its name, or is a file; `what` begins the sentence."""
    from sysbags.bags.network_files import find_network

    if not name.lower().endswith(".onnx") and find_network(name) is None:
        raise ParameterError(
            f"{what} {name!r}, but there is no such network: `sysbags models` lists them, and "
            "`sysbags models add NAME FILE` adds one"
        )


def with_settings(
    function: Callable[..., None], changes: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[..., None]:
    """Make each field of the parameter `settings` an option of the command.

    Parameters
    ----------
    function : callable
    changes : mapping of str to mapping, optional
        Attributes of the options of this command that differ, by their names: ``{"hidden": True}`` for an
        option that the command refuses with a sentence of its own.
    """
    command_parameters = [
        p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "settings"
    ]
    shared = [
        _changed(parameter, (changes or {}).get(parameter.name, {}))
        for parameter in inspect.signature(Settings, eval_str=True).parameters.values()
    ]

    @wraps(function)
    def command(**arguments: Any) -> None:
        settings = Settings(**{parameter.name: arguments.pop(parameter.name) for parameter in shared})
        function(settings=settings, **arguments)

    return with_parameters(command, command_parameters, shared)


def _changed(parameter: inspect.Parameter, change: Mapping[str, Any]) -> inspect.Parameter:
    """Return a parameter whose option has other attributes."""
    kind, shared = get_args(parameter.annotation)
    option = copy(shared)  # other commands have the same
    vars(option).update(change)
    return parameter.replace(annotation=Annotated[kind, option])
