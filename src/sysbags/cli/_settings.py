"""Options for frames, bags and systems, and the estimators that they describe."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags.bags.registry import BAGS, check_option, make_bag, names_with_option
from sysbags.cli._options import Bag, Kernel
from sysbags.errors import ParameterError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier

__all__ = ["DEFAULT", "Settings", "with_settings"]

PANEL = "Frames, bags and systems"
DEFAULT = "lbp"
WORDS, NETWORKS = (" and ".join(names_with_option(option)) for option in ("words", "size"))


def _option(words: str, default: str | bool, metavar: str | None = None, least: int | None = None) -> Any:
    return typer.Option(help=words, show_default=default, metavar=metavar, min=least, rich_help_panel=PANEL)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a clip becomes a system; None is an option that was not given."""

    bag: Annotated[Bag | None, _option("Kind of bag: what is counted in a frame.", DEFAULT)] = None
    order: Annotated[str | None, _option("Order of the systems.", "5", "N|auto")] = None
    kernel: Annotated[Kernel | None, _option("Kernel between two bags.", "chi2")] = None
    words: Annotated[int | None, _option(f"Visual words of {WORDS}.", "500", "N", 1)] = None
    window: Annotated[int | None, _option("Frames in a bag.", "1", "N", 1)] = None
    start: Annotated[int | None, _option("First frame, counted from 0.", False, "N", 0)] = None
    stop: Annotated[int | None, _option("Frame to stop before.", False, "N", 1)] = None
    stride: Annotated[int | None, _option("Use every N-th frame.", False, "N", 1)] = None
    max_frames: Annotated[int | None, _option("Use at most N frames.", False, "N", 1)] = None
    size: Annotated[
        int | None,
        _option(f"Shrink the short side to N pixels; both sides for {NETWORKS}.", False, "N", 1),
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

    def given(self) -> list[str]:
        """Return the names of the options that were given."""
        return [f"--{f.name.replace('_', '-')}" for f in fields(self) if getattr(self, f.name) is not None]

    def of(self, bag: Bag) -> Settings:
        """Return the same settings for another bag."""
        return replace(
            self,
            bag=bag,
            words=self.words if bag in names_with_option("words") else None,
            keep_aspect=self.keep_aspect if bag in names_with_option("keep_aspect") else None,
        )

    def make_bags(self, seed: int = 0) -> BagTransformer:
        """Return the bags, not fitted yet."""
        name = self.bag or DEFAULT
        for option in ("words", "keep_aspect"):
            if getattr(self, option) is not None:
                check_option(name, option, f"--{option.replace('_', '-')}")
        reading = {name: getattr(self, name) for name in ("start", "stop", "stride", "max_frames", "size")}
        frames = {name: value for name, value in reading.items() if value is not None}
        taken = BAGS[name].bag_class.options
        values = {
            "words": self.words,
            "random_state": seed,
            "size": frames.pop("size", None) if "size" in taken else None,
            "keep_aspect": self.keep_aspect,
        }
        options = {option: values[option] for option in taken if values[option] is not None}
        return make_bag(name, window=self.window or 1, frames=frames or None, **options)

    def make_identifier(self) -> SystemIdentifier:
        """Return the transformer of streams to systems."""
        from sysbags.classifiers import SystemIdentifier

        order = "5" if self.order is None else self.order
        if order != "auto" and not (order.isdecimal() and int(order) > 0):
            raise ParameterError(f"--order is {order!r}, but it must be a whole number of at least 1 or auto")
        return SystemIdentifier(order if order == "auto" else int(order), str(self.kernel or "chi2"))


def with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Make each field of the parameter `settings` an option of the command."""
    command_parameters = [
        p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "settings"
    ]
    shared = list(inspect.signature(Settings, eval_str=True).parameters.values())

    @wraps(function)
    def command(**arguments: Any) -> None:
        settings = Settings(**{parameter.name: arguments.pop(parameter.name) for parameter in shared})
        function(settings=settings, **arguments)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*command_parameters, *shared)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
