"""Options that several commands share, and the bags and systems that they describe."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sysbags.bags.registry import BAGS, PRESETS, check_option, make_bag, names_with_option
from sysbags.classifiers.registry import AUTO, CLASSIFIERS, MOMENTS
from sysbags.cli._config import PANEL, from_file
from sysbags.cli._output import note
from sysbags.distances import METRICS
from sysbags.errors import ParameterError
from sysbags.kernels import KERNELS

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier

DEFAULT = "lbp"
READING = ("start", "stop", "stride", "max_frames", "size")
PARAMETERS = {"network": "model", "network_stride": "size"}  # a parameter of the bags that an option is for
WORDS, NETWORKS, MODELS = (", ".join(names_with_option(option)) for option in ("words", "size", "model"))
LAST = ("cache", "random_state", "n_jobs", "scheduler", "as_json")  # after those of a class, in help texts
UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}

Kernel = StrEnum("Kernel", {name: name for name in KERNELS})  # type: ignore[misc]
Metric = StrEnum("Metric", {name: name for name in METRICS})  # type: ignore[misc]
WeightedMetric = StrEnum(  # type: ignore[misc]
    "WeightedMetric", {name: name for name, metric in METRICS.items() if metric.weighted}
)
Classifier = StrEnum("Classifier", {name: name for name in (AUTO, MOMENTS, *CLASSIFIERS)})  # type: ignore[misc]
PresetName = StrEnum("PresetName", {name: name for name in PRESETS})  # type: ignore[misc]


def last_of_list(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return the completion of a list with commas: names for its last word, without those that it has.

    Examples
    --------
    >>> last_of_list(["lbp", "lbp-top", "flow"])("flow,l")
    ['flow,lbp', 'flow,lbp-top']
    """

    def complete(incomplete: str) -> list[str]:
        *before, last = incomplete.split(",")
        return [",".join([*before, name]) for name in names if name.startswith(last) and name not in before]

    return complete


def option(
    help: str, metavar: str | None = None, *names: str, default: str | bool = True, **more: Any
) -> Any:
    """Return an option; `default` says in words what the default is, where the value does not."""
    return typer.Option(*names, help=help, metavar=metavar, show_default=default, **more)


def out_option(help: str, metavar: str) -> Any:
    """Return the option for the file that a command writes."""
    return option(help, metavar, "--out", "-o")


def flag(name: str, help: str) -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help)


def argument(metavar: str, help: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=help)


Json = Annotated[bool, flag("--json", "Print one JSON document instead of tables.")]
NJobs = Annotated[int, option("Number of threads; -1 is all cores.", "N")]
RandomState = Annotated[int, option("Seed of the random numbers.", "N", min=0)]
Scheduler = Annotated[
    str | None,
    option("Compute on the Dask cluster of this scheduler, such as tcp://127.0.0.1:8786.", "ADDRESS"),
]
LambdaA = Annotated[
    float | None,
    option("Weight of the transition in the distance.", "X", min=0.0, default="the model's, or 0.25"),
]
LambdaMu = Annotated[
    float | None, option("Weight of the mean in the distance.", "X", min=0.0, default="the model's, or 0")
]
OptionalMetric = Annotated[
    Metric | None, option("Distance between two systems.", default="the model's, or alignment")
]
Model = Annotated[Path | None, option("Use the bag, order, kernel and weights of a saved model.", "MODEL")]


setting = partial(option, rich_help_panel=PANEL)


def _networks(incomplete: str) -> list[str]:
    from sysbags.bags.network_files import known_networks

    return [name for name in known_networks() if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a clip becomes a system: annotated fields are options, and None is an option that has no value.

    A command with other options has its own child of this class.
    """

    bags: Annotated[
        str | None,
        setting(
            f"What is counted in a frame: {', '.join(BAGS)}; several with commas.",
            "BAG[,BAG...]",
            "--bags",
            "--bag",
            default=DEFAULT,
            autocompletion=last_of_list(BAGS),
        ),
    ] = None
    order: Annotated[str | None, setting("Order of the systems.", "N|auto", default="5")] = None
    kernel: Annotated[Kernel | None, setting("Kernel between two bags.", default="chi2")] = None
    words: Annotated[int | None, setting(f"Visual words of {WORDS}.", "N", min=1, default="500 or 512")] = (
        None
    )
    window: Annotated[int | None, setting("Frames in a bag.", "N", min=1, default="1")] = None
    start: Annotated[int | None, setting("First frame, counted from 0.", "N", min=0)] = None
    stop: Annotated[int | None, setting("Frame to stop before.", "N", min=1)] = None
    stride: Annotated[int | None, setting("Use every N-th frame.", "N", min=1)] = None
    max_frames: Annotated[int | None, setting("Use at most N frames.", "N", min=1)] = None
    size: Annotated[
        int | None, setting(f"Shrink the short side to N pixels; both sides for {NETWORKS}.", "N", min=1)
    ] = None
    network: Annotated[
        str | None,
        setting(
            f"The network of {MODELS}, see `sysbags models`.",
            "NAME",
            default="efficientnet-lite0",
            autocompletion=_networks,
        ),
    ] = None
    network_stride: int | None = None

    def given(self, with_files: bool = False) -> list[str]:
        """Return the names of the options that were given; `with_files` those of configuration files too."""
        return [
            f"--{field.name.replace('_', '-')}"
            for field in fields(Settings)
            if getattr(self, field.name) is not None and (with_files or not from_file(field.name))
        ]

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
        for option in ("words", "network", "network_stride"):
            if getattr(self, option) is not None and not from_file(option):
                parameter = PARAMETERS.get(option, option)
                if not set(names) & set(names_with_option(parameter)):
                    check_option(names[0], parameter, f"--{option.replace('_', '-')}")
        if self.network is not None:
            check_network(self.network, "--network is")
        return {BAGS[name].title: self._make(name, seed) for name in names}

    def _make(self, name: str, seed: int) -> BagTransformer:
        taken = BAGS[name].bag_class.options
        reading = {option: getattr(self, option) for option in READING}
        if BAGS[name].bag_class.needs_deep and self.network_stride is not None:
            reading["stride"] = self.network_stride
        frames = {option: value for option, value in reading.items() if value is not None}
        values = {
            "words": self.words,
            "random_state": seed,
            "size": frames.pop("size", None) if "size" in taken else None,
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


@dataclass(frozen=True, kw_only=True)
class FolderSettings(Settings):
    """How the clips of a folder become systems of one bag or several, and how these are compared."""

    preset: Annotated[
        PresetName | None,
        option("Bags that are a good start: fast (patterns and colour) or best (with a network)."),
    ] = None
    metric: Annotated[WeightedMetric | None, option("Distance between systems.", default="chosen")] = None
    normal_form: Annotated[
        str | None,
        option(
            "Coordinates of the states.",
            "orthonormal|unit-variance",
            default="chosen",
            autocompletion=last_of_list(("orthonormal", "unit-variance")),
        ),
    ] = None
    lambda_a: Annotated[str, option("Weight of the transition.", "X|auto")] = "auto"
    lambda_mu: Annotated[str, option("Weight of the mean.", "X|auto")] = "auto"
    embedding: Annotated[
        int | None,
        option(
            "Approximate distances through N landmarks, faster for many clips; says what is lost.",
            "N",
            min=1,
            default="500 for more than 300 clips, otherwise exact",
        ),
    ] = None
    exact: Annotated[bool, flag("--exact", "Exact distances between systems, also of many clips.")] = False
    network_stride: Annotated[
        int | None,
        setting("Use every N-th frame for networks, which take longest.", "N", min=1, default="--stride"),
    ] = None

    def with_preset(self) -> FolderSettings:
        """Return the settings with those of the preset where nothing is given."""
        # A configuration file may have one of --preset and --bags, and the command line the other.
        if self.preset is None or (from_file("preset") and "--bags" in self.given()):
            return self
        preset = PRESETS[self.preset]
        if self.bags is not None and from_file("preset") == from_file("bags"):
            raise ParameterError("--preset says which bags are used: leave out --bags")
        network = self.network or preset.network()
        better = next(iter(preset.networks), None)
        if self.network is None and network != better:
            how = f"`sysbags models fetch {better}` says how to get it; --network names one of your own"
            note(f"the network {better} would be better than {network}: {how}")
        stride = self.network_stride or preset.network_stride
        return replace(self, bags=",".join(preset.bag_names(network)), network=network, network_stride=stride)

    def choices(self, random_state: int, tune: bool = False) -> dict[str, Any]:
        """Return what `evaluate` and `train` of the library take: what is None in the settings is chosen."""
        from sysbags import evaluate

        order = self.make_identifier().order
        chosen = evaluate.Settings(
            order=None if self.order is None else order,
            kernel=None if self.kernel is None else str(self.kernel),
            metric=self.metric,
            normal_form=self.normal_form,
            lambda_a=number_or_auto(self.lambda_a, "--lambda-a"),
            lambda_mu=number_or_auto(self.lambda_mu, "--lambda-mu"),
            embedding=self.embedding,
            exact=self.exact,
            tune=tune,
            fixed=[name for name in ("window", "words") if getattr(self, name) is not None],
        )
        bags = self.make_all_bags(random_state)
        return {"bags": bags, "settings": chosen, "random_state": random_state}


def check_network(name: str, what: str) -> None:
    """Raise an error unless a network is known by its name, or is a file; `what` begins the sentence."""
    from sysbags.bags.network_files import find_network

    if not name.lower().endswith(".onnx") and find_network(name) is None:
        raise ParameterError(
            f"{what} {name!r}, but there is no such network: `sysbags models` lists them, and "
            "`sysbags models add NAME FILE` adds one"
        )


def with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Make the annotated fields of the parameter `settings` options of the command."""
    own = dict(inspect.signature(function, eval_str=True).parameters)
    kind = own.pop("settings").annotation
    shared = {
        name: inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=getattr(kind, name), annotation=hint
        )
        for name, hint in get_type_hints(kind, include_extras=True).items()
        if hasattr(hint, "__metadata__")
    }

    @wraps(function)
    def command(**arguments: Any) -> None:
        settings = kind(**{name: arguments.pop(name) for name in shared})
        function(settings=settings, **arguments)

    last = {name: own.pop(name) for name in LAST if name in own}
    return with_parameters(command, {**own, **shared, **last})


def with_parameters(
    command: Callable[..., None], parameters: Mapping[str, inspect.Parameter]
) -> Callable[..., None]:
    """Tell typer which parameters a wrapper has."""
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters.values()]
    command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return command


def number_or_auto(value: str, option: str) -> float | None:
    """Return a number that is 0 or more; None for "auto"."""
    if value == "auto":
        return None
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise ParameterError(f"{option} is {value!r}, but it must be a number that is 0 or more, or auto")
    return number


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a duration such as "90s", "10min", "6h" or "2days".

    Examples
    --------
    >>> seconds_of("1.5h", "--learn")
    5400.0
    """
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?([a-z]+)", text.strip().lower())
    unit = None if found is None else UNITS.get(found[2], UNITS.get(found[2].removesuffix("s")))
    seconds = 0.0 if found is None or unit is None else float(found[1]) * unit
    if not 0.0 < seconds < math.inf:
        raise ParameterError(f"{option} is {text!r}, but it must be a time, such as 90s, 10min, 6h or 2days")
    return seconds


def rate_per_second(text: str, option: str) -> float:
    """Return how often per second "1/day", "2/h" or "3 / 10min" is.

    Examples
    --------
    >>> rate_per_second("2/h", "--false-alarms") == 2 / 3600
    True
    """
    count, slash, time = text.partition("/")
    try:
        number = float(count)
        unit = time.strip()
        seconds = seconds_of(unit if unit[:1].isdigit() else f"1{unit}", option)
    except ValueError:  # also that of `seconds_of`
        number = 0.0
    if not slash or not 0.0 < number < math.inf:
        raise ParameterError(f"{option} is {text!r}, but it must be a rate, such as 1/day, 2/h or 1/10min")
    return number / seconds
