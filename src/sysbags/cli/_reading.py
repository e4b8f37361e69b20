"""Clips into systems: one after the other on all cores, the bad ones reported and left out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysbags._common.stages import Stages
from sysbags.cli._output import note
from sysbags.errors import OrderError, StreamError, SysbagsError, VideoError, VideoWarning

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier
    from sysbags.systems.system import System

__all__ = ["Clips", "read_clips", "warnings_as_notes"]


@dataclass
class Clips:
    """What became of some clips.

    Attributes
    ----------
    paths : list of Path
        The good clips.
    kept : list of int
        Where they were among all.
    systems : list of System
        Theirs.
    failures : dict
        What is wrong with each bad clip; the sentence names it.
    """

    paths: list[Path] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    systems: list[System] = field(default_factory=list)
    failures: dict[Path, SysbagsError] = field(default_factory=dict)

    def skipped(self) -> list[dict[str, str]]:
        """Return the failures as JSON has them."""
        return [{"path": str(path), "error": str(error)} for path, error in self.failures.items()]

    def report(self) -> None:
        """Say which clips are skipped; if that is all of them, raise what is wrong with the first."""
        for error in self.failures.values():
            if not self.systems:
                raise type(error)(f"none of the clips can be used: {error}")
            note(f"skipped: {error}")

    def raise_first_error(self) -> None:
        """Raise what is wrong with the first bad clip."""
        for error in self.failures.values():
            raise error


def read_clips(
    paths: Sequence[Path],
    bags: BagTransformer,
    identifier: SystemIdentifier,
    stages: Stages,
    jobs: int,
    learn: bool,
) -> Clips:
    """Turn clips into systems; with `learn`, the bags learn from them first what they need.

    A bad clip becomes one of the failures, and the others go on; one that breaks off is used, with a note.
    """

    def readable(path: Path) -> Path:
        next(iter(bags.read(path)))
        return path

    outcomes: list[Any] = list(paths)
    with warnings_as_notes():
        if learn and bags.requires_fit:
            with stages("codebook"):
                # A clip that cannot be read must not keep the others from a codebook.
                outcomes = _attempt(readable, outcomes, jobs, "first frames")
                good = [path for path in outcomes if isinstance(path, Path)]
                if good:
                    bags.set_params(n_jobs=jobs).fit(good).set_params(n_jobs=None)
        with stages("frames and bags"):
            outcomes = _attempt(bags.stream, outcomes, jobs, "clips")
        with stages("systems"):
            outcomes = _attempt(identifier.system, outcomes, jobs, "systems")
    clips = Clips()
    for index, (path, outcome) in enumerate(zip(paths, outcomes, strict=True)):
        if isinstance(outcome, SysbagsError):
            text = str(outcome)
            named = text if str(path) in text else f"{path}: {text}"
            clips.failures[path] = type(outcome)(named)
        else:
            clips.paths.append(path)
            clips.kept.append(index)
            clips.systems.append(outcome)
    return clips


def _attempt(function: Callable[[Any], Any], items: list[Any], jobs: int, description: str) -> list[Any]:
    """Call a function for each item; what is wrong with an item takes the place of its result.

    A `ParameterError` is not the fault of an item, so it is raised.
    """
    from sysbags._common.parallel import run

    def attempted(item: Any) -> Any:
        if isinstance(item, SysbagsError):
            return item
        try:
            return function(item)
        except (VideoError, StreamError, OrderError) as error:
            return error

    return run(attempted, items, jobs, description)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Say each warning about a video once, in a line, when the work is done."""
    heard: dict[str, None] = {}
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def hear(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, VideoWarning):
                heard[str(message)] = None
            else:
                usual(message, category, *where, **more)

        warnings.simplefilter("always", VideoWarning)
        warnings.showwarning = hear
        yield
    for text in heard:
        note(text)
