"""From clips to streams and systems, without those that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags._common.parallel import run
from sysbags.bags.base import BagTransformer
from sysbags.bags.streams import attempt, clip_streams, good
from sysbags.errors import SysbagsError

__all__ = ["ClipSystems", "check_classes", "describe_clips", "read_clips"]

Describe = Callable[[list[int]], list[list[Any]]]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClipSystems:
    """The clips that could be used, and what is wrong with the others.

    Attributes
    ----------
    paths : list of Path
        The clips that could be used.
    indices : list of int
        Their places among those that were given.
    streams, systems : list of lists
        One list, or one for each of several codebooks; each with one stream or system per clip, or with one
        tuple per clip if the bags are a `BagUnion`.
    failures : dict
        What is wrong with each of the other clips; the sentence names it.
    """

    paths: list[Path] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    streams: list[list[Any]] = field(default_factory=list)
    systems: list[list[Any]] = field(default_factory=list)
    failures: dict[Path, SysbagsError] = field(default_factory=dict)

    def raise_first_error(self) -> None:
        """Raise what is wrong with the first clip that cannot be used."""
        for error in self.failures.values():
            raise error


def describe_clips(
    paths: Sequence[Path],
    bags: BagTransformer,
    identify: Callable[[Any], Any],
    *,
    fit: bool = False,
    cache: Cache | None = None,
    n_jobs: int | None = None,
    stages: Stages | None = None,
) -> ClipSystems:
    """Turn clips into streams and systems; a clip that cannot be used becomes one of the failures.

    Parameters
    ----------
    paths : sequence of Path
    bags : BagTransformer
    identify : callable
        From a stream to its system; from a tuple of streams to a tuple of systems, for a `BagUnion`.
    fit : bool, default=False
        Fit the bags to the clips first, where they require it.
    cache : Cache, optional
    n_jobs : int, optional
        Threads; the result does not depend on it.
    stages : Stages, optional
        Keeps the times.

    Examples
    --------
    >>> import tempfile, sysbags
    >>> from sysbags.bags import LocalBinaryPatterns
    >>> from sysbags.datasets import make_clips
    >>> paths, _ = make_clips(tempfile.mkdtemp(), 2, frames=8, height=48, width=64, textures=["rain"])
    >>> clips = describe_clips(
    ...     [*paths, Path("missing.mp4")], LocalBinaryPatterns(), sysbags.SystemIdentifier(order=2).system
    ... )
    >>> clips.systems[0][1].order, list(clips.failures)
    (2, [PosixPath('missing.mp4')])
    """
    times = stages or Stages()

    def describe(indices: list[int]) -> list[list[Any]]:
        readable = [paths[k] for k in indices]
        if fit and bags.requires_fit and readable:
            with times("codebook"):
                bags.set_params(n_jobs=n_jobs).fit(readable).set_params(n_jobs=None)
        with times("frames and bags"):
            return clip_streams([bags], readable, cache, n_jobs=n_jobs)

    return read_clips(paths, bags, describe, identify, fit=fit, n_jobs=n_jobs, stages=times)


def read_clips(
    paths: Sequence[Path],
    bags: BagTransformer,
    describe: Describe,
    identify: Callable[[Any], Any],
    *,
    fit: bool,
    n_jobs: int | None = None,
    stages: Stages,
) -> ClipSystems:
    """Read clips in three steps: those that can be read, those with streams, those with systems.

    `describe` is given the indices of the clips that can be read, and returns their streams, or errors in the
    place of streams, once or once per codebook. Whether a clip can be read at all is checked where bags are
    to be fitted: a clip that cannot must not keep the others from a codebook.
    """
    failures: dict[Path, SysbagsError] = {}

    def attempts(function: Callable[[Any], Any], indices: list[int], inputs: Sequence[Any]) -> list[Any]:
        """Call a function for each clip; keep the failures and return the results, None for a failure."""

        def outcome(pair: tuple[int, Any]) -> Any:
            return attempt(paths[pair[0]], function, pair[1])

        results = run(outcome, list(zip(indices, inputs, strict=True)), n_jobs, "clips")
        for k, result in zip(indices, results, strict=True):
            if isinstance(result, SysbagsError):
                failures[paths[k]] = result
        return [None if isinstance(result, SysbagsError) else result for result in results]

    indices = list(range(len(paths)))
    if fit and bags.requires_fit:
        with stages("first frames"):
            first = attempts(lambda path: next(iter(bags.read(path))), indices, paths)
        indices = [k for k, frame in zip(indices, first, strict=True) if frame is not None]
    if not indices:
        return ClipSystems(failures=failures)
    streams = describe(indices)

    def identify_each(versions: Sequence[Any]) -> list[Any]:
        return [identify(good(stream)) for stream in versions]

    with stages("systems"):
        systems = attempts(identify_each, indices, list(zip(*streams, strict=True)))
    usable = [place for place, result in enumerate(systems) if result is not None]
    return ClipSystems(
        paths=[paths[indices[place]] for place in usable],
        indices=[indices[place] for place in usable],
        streams=[[version[place] for place in usable] for version in streams],
        systems=[[systems[place][k] for place in usable] for k in range(len(streams))],
        failures=failures,
    )


def check_classes(paths: Sequence[Path], labels: Sequence[str], clips: ClipSystems) -> list[str]:
    """Return the labels of the clips that can be used; raise if a class has none of them."""
    usable_classes = {labels[k] for k in clips.indices}
    for path, label in zip(paths, labels, strict=True):
        if label not in usable_classes:
            error = clips.failures[path]
            what = f"no clip of the class {label} can be used, but there must be one"
            raise type(error)(f"{what if usable_classes else 'none of the clips can be used'}: {error}")
    return [labels[k] for k in clips.indices]
