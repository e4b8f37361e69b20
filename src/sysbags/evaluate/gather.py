"""From a folder of class folders to what an experiment needs; clips that cannot be used are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._common.cache import Store, named_error
from sysbags._common.parallel import run
from sysbags._common.stages import Stages
from sysbags._common.types import Array, IntArray
from sysbags.bags.base import BagTransformer
from sysbags.datasets.folder import ClipFolder
from sysbags.errors import FileError, OrderError, StreamError, SysbagsError, VideoError
from sysbags.evaluate.entries import EvaluationSet
from sysbags.evaluate.features import Features, identified, learns
from sysbags.evaluate.protocols import codebook_folds, describe, protocol_groups
from sysbags.report.results import Clip

__all__ = ["Gathered", "gather"]


@dataclass(frozen=True, eq=False)
class Gathered:
    """Clips that can be used.

    Attributes
    ----------
    items : EvaluationSet
    streams : list of one or three lists of (N, p) array
        Three by codebooks, each learnt without a third.
    features : Features
        Describes the same clips otherwise.
    failures : dict
        The clips that cannot be used, and why; the sentence names them.
    single_group_classes : list of str
        Classes that have all their clips in one group, so that none of them can be right.
    """

    items: EvaluationSet
    streams: list[list[Array]]
    features: Features
    failures: dict[Path, SysbagsError]
    single_group_classes: list[str]


def gather(
    found: ClipFolder,
    bags: BagTransformer,
    protocol: str,
    *,
    orders: Sequence[int | str],
    kernel: str,
    folds: int = 10,
    store: Store,
    stages: Stages,
    seed: int = 0,
    jobs: int | None = None,
) -> Gathered:
    """Describe clips by bags, and leave out those that cannot be read or have no system of any of the orders.

    Raises
    ------
    FileError
        If a class has no clip left, or no class has clips in two groups.
    """
    failures: dict[Path, SysbagsError] = {}
    paths, labels, sources = found.paths, found.labels, found.sources

    def check(attempt: Callable[[Any], Any], what: Sequence[Any]) -> list[int]:
        """Try something for each clip; return those that went well."""

        def one(pair: tuple[Path, Any]) -> SysbagsError | None:
            try:
                attempt(pair[1])
            except (VideoError, StreamError, OrderError) as error:
                return named_error(pair[0], error)
            return None

        wrong = run(one, list(zip(paths, what, strict=True)), jobs, "clips")
        _raise_first_error(labels, wrong)
        failures.update({path: error for path, error in zip(paths, wrong, strict=True) if error is not None})
        return [k for k, error in enumerate(wrong) if error is None]

    if learns(bags):
        # A clip that cannot be read must not keep the others from a codebook.
        with stages("first frames"):
            kept = check(lambda path: next(iter(bags.read(path))), paths)
        paths, labels = [paths[k] for k in kept], [labels[k] for k in kept]
        sources = None if sources is None else [sources[k] for k in kept]
    groups = protocol_groups(labels, protocol, sources, folds=folds, random_state=seed)
    parts = codebook_folds(labels, groups, random_state=seed) if groups.max() > 1 else None
    with stages("frames and bags"):
        streams = Features(paths, parts, store, jobs).streams(bags)

    def usable(described: Sequence[Array | SysbagsError]) -> None:
        for stream in described:
            if isinstance(stream, SysbagsError):
                raise stream
            identified([stream], orders, kernel, 1)

    with stages("systems and kernel"):
        kept = check(usable, list(zip(*streams, strict=True)))
    groups = np.unique(groups[kept], return_inverse=True)[1]
    clips = tuple(
        Clip(f"{labels[k]}/{paths[k].name}", paths[k], labels[k], None if sources is None else sources[k])
        for k in kept
    )
    single_group_classes = _single_group_classes([clip.label for clip in clips], groups)
    if len(single_group_classes) == len({clip.label for clip in clips}):
        raise FileError(
            "each class has its clips in a single group, so none can be left out: there must be two groups"
        )
    parts = None if parts is None else parts[kept]
    return Gathered(
        EvaluationSet(clips, groups, parts, describe(protocol, groups, sources), seed, jobs),
        [[one[k] for k in kept] for one in streams],  # type: ignore[misc]
        Features([clip.path for clip in clips], parts, store, jobs),
        failures,
        single_group_classes,
    )


def _raise_first_error(labels: Sequence[str], wrong: Sequence[SysbagsError | None]) -> None:
    """Raise if some class has no clip left, with what is wrong with its first."""
    left = {label for label, error in zip(labels, wrong, strict=True) if error is None}
    for label, error in zip(labels, wrong, strict=True):
        if error is not None and not left:
            raise type(error)(f"none of the clips can be used: {error}")
        if error is not None and label not in left:
            raise type(error)(f"no clip of the class {label} can be used, but there must be one: {error}")


def _single_group_classes(labels: Sequence[str], groups: IntArray) -> list[str]:
    """Return the classes that have all their clips in one group."""
    pairs = set(zip(labels, groups.tolist(), strict=True))
    return [name for name in dict.fromkeys(labels) if sum(label == name for label, _ in pairs) < 2]
