"""What the experiments share: kept stages, and the account of what was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sysbags._common.cache import Store, fingerprint, named_error
from sysbags._common.parallel import check_jobs, run
from sysbags._common.types import Array
from sysbags._common.version import __version__
from sysbags.datasets.layouts import Found
from sysbags.errors import FileError, OrderError, StreamError, SysbagsError
from sysbags.report.results import Clip, Evaluation
from sysbags.reproduce import published
from sysbags.systems.identification import identify
from sysbags.systems.system import System

__all__ = [
    "DISTANCES",
    "KERNEL",
    "Options",
    "Outcome",
    "clips_of",
    "departures",
    "facts",
    "identified",
    "usable",
]

KERNEL = "chi2"
DISTANCES = {
    "martin": ("Martin", "SoB + Martin"),
    "max-singular-value": ("maximum singular value", "SoB + Max SV"),
    "alignment": ("alignment", "SoB + Align"),
}


@dataclass(frozen=True)
class Options:
    """What the paper leaves open, or what departs from it.

    Attributes
    ----------
    store : Store
        Where stages are kept.
    frames : mapping
        Options for reading, see `sysbags.video.frames`; the paper speaks of none, so all frames as they are.
    words : int, default=500
        Of the codebook; 500 in the paper.
    seed : int, default=0
    jobs : int, default=-1
        Threads.
    """

    store: Store
    frames: Mapping[str, Any] = field(default_factory=dict)
    words: int = 500
    seed: int = 0
    jobs: int = -1


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an experiment found.

    Attributes
    ----------
    evaluation : Evaluation
        `settings["paper"]` of a method is the paper's figure in per cent.
    skipped : mapping
        The clips that no system could be made of, and why. No rate counts them.
    runtimes : mapping
        Seconds without features, each (ours, the paper's): "pair", and in all for "1-NN" and "NCC".
    details : mapping
        What else there is, for JSON.
    """

    evaluation: Evaluation
    skipped: Mapping[Path, SysbagsError]
    runtimes: Mapping[str, tuple[float, float]]
    details: Mapping[str, Any] = field(default_factory=dict)


def identified(
    store: Store, paths: Sequence[Path], streams: Sequence[Array | SysbagsError], order: int, jobs: int
) -> list[System | SysbagsError]:
    """Turn streams into systems, one record a clip; what is wrong with a clip takes its system's place."""

    def one(pair: tuple[Path, Array | SysbagsError]) -> System | SysbagsError:
        path, stream = pair
        if isinstance(stream, SysbagsError):
            return stream
        try:
            kept = store.arrays(
                {"system": fingerprint(stream), "order": order, "kernel": KERNEL},
                lambda: _taken_apart(identify(stream, order, KERNEL)),
            )
        except (OrderError, StreamError) as error:
            return named_error(path, error)
        parts: dict[str, Any] = {name: part if part.ndim else part.item() for name, part in kept.items()}
        return System(samples=stream, kernel=KERNEL, **parts)

    return run(one, list(zip(paths, streams, strict=True)), jobs, "systems")


def _taken_apart(system: System) -> dict[str, Any]:
    told = {f.name: getattr(system, f.name) for f in fields(system) if f.name not in ("samples", "kernel")}
    return {name: part for name, part in told.items() if part is not None}


def usable(found: Found, failures: Mapping[Path, SysbagsError]) -> list[int]:
    """Return which clips have no failure; there must be two classes of them."""
    kept = [k for k, path in enumerate(found.paths) if path not in failures]
    if len({found.labels[k] for k in kept}) < 2:
        first = next(iter(failures.values()))
        raise FileError(
            f"fewer than two classes have a clip that can be used, but there must be two: {first}"
        )
    return kept


def clips_of(found: Found, kept: Sequence[int]) -> tuple[Clip, ...]:
    """Return some of the clips as an evaluation has them."""
    paths, labels = found.paths, found.labels
    return tuple(Clip(f"{labels[k]}/{paths[k].name}", paths[k], labels[k]) for k in kept)


def departures(
    found: Found, failures: Mapping[Path, SysbagsError], options: Options, words: int | None = None
) -> list[str]:
    """Return what is not as in the paper, in words; `words` is the paper's number of them."""
    told = list(found.differences)
    told += [f"frames were read with {name} = {value}" for name, value in options.frames.items()]
    if words not in (None, options.words):
        told.append(f"there are {options.words} words, not {words}")
    if failures:
        count = "1 clip is" if len(failures) == 1 else f"{len(failures)} clips are"
        told.append(f"{count} left out, as no system can be made of a clip that is short, still or broken")
    return told


def facts(options: Options, bag: str, order: int, told: Sequence[str], **more: Any) -> dict[str, Any]:
    """Return lines for people about an experiment."""
    return {
        "departures from the paper": "; ".join(told) or "none",
        "bag": bag,
        "order": order,
        "kernel": KERNEL,
        "threads": check_jobs(options.jobs),
        "seed": options.seed,
        "sysbags": __version__,
        **more,
        "published figures": published.figures()["paper"],
    }
