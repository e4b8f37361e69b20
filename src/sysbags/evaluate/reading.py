"""Clips or streams as an evaluation needs them: described by every bag, identified, and split into groups."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_stream, seed_of, warn_if_exchanged
from sysbags.bags.base import BagTransformer
from sysbags.bags.streams import good
from sysbags.classifiers.identifier import ClipSystems, check_classes, read_clips
from sysbags.errors import FileError, SysbagsError
from sysbags.evaluate.features import ClipFeatures
from sysbags.evaluate.results import Clip
from sysbags.evaluate.splits import EvaluationSet, codebook_folds, describe, protocol_groups, trial_groups
from sysbags.systems.system import System

Versions = list[list[Array]]  # streams of all clips, once or once per codebook fold
Outcomes = list[list[Any]]  # the same, of streams or systems, with errors in the places of bad clips


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """How to compute: nothing of it but `random_state` changes a result."""

    cache: Cache
    stages: Stages
    random_state: int
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        cache: str | os.PathLike[str] | None,
        random_state: int | np.random.Generator | None,
        n_jobs: int | None,
        stages: Stages | None,
    ) -> RunContext:
        """Return the context for the parameters of `evaluate`."""
        return cls(
            cache=Cache(cache),
            stages=stages or Stages(),
            random_state=seed_of(random_state),
            n_jobs=n_jobs,
        )


@dataclass(frozen=True, kw_only=True)
class LabelledClips:
    """Clips, their classes and sources, and the protocol that splits them into groups."""

    title: str
    clips: Sequence[Any]
    names: Sequence[str]
    labels: Sequence[str]
    sources: Sequence[str] | None
    protocol: str
    folds: int
    parts: Sequence[str] | None = None  # "train" or "test", for a trial

    def subset(self, indices: Sequence[int], parts: Sequence[str] | None = None) -> LabelledClips:
        """Return some of the clips; with their parts they are a trial."""
        return replace(
            self,
            clips=[self.clips[k] for k in indices],
            labels=[self.labels[k] for k in indices],
            sources=None if self.sources is None else [self.sources[k] for k in indices],
            parts=parts,
            names=[self.names[k] for k in indices],
        )

    def groups(self, indices: Sequence[int], random_state: int) -> IntArray:
        """Return the group of each of some clips; the last is the test set of a trial."""
        some = self.subset(indices)
        options: dict[str, Any] = {"folds": self.folds, "random_state": random_state}
        if self.parts is not None:
            return trial_groups(some.labels, [self.parts[k] for k in indices], some.sources, **options)
        return protocol_groups(some.labels, self.protocol, some.sources, **options)

    def evaluation_set(
        self, read: ClipSystems, groups: IntArray, folds: IntArray | None, context: RunContext
    ) -> EvaluationSet:
        """Return the clips that could be read, with their groups and codebook folds."""
        labels, sources = self.labels, self.sources
        if self.parts is not None:
            missing = {"train", "test"} - {self.parts[k] for k in read.indices}
            if missing:
                what = {"train": "training", "test": "test"}[missing.pop()]
                raise FileError(f"no clip of the {what} set of a trial can be used, but there must be one")
        groups = np.unique(groups, return_inverse=True)[1]
        return EvaluationSet(
            clips=tuple(
                Clip(
                    self.names[k],
                    path if isinstance(self.clips[k], (str, os.PathLike)) else None,
                    labels[k],
                    None if sources is None else sources[k],
                )
                for k, path in zip(read.indices, read.paths, strict=True)
            ),
            groups=groups,
            codebook_folds=folds,
            protocol=describe(self.protocol, groups, sources),
            random_state=context.random_state,
            n_jobs=context.n_jobs,
            test_group=None if self.parts is None else int(groups.max()),
        )


@dataclass(frozen=True, kw_only=True)
class DescribedClips:
    """The clips that could be used: streams and systems of the main bag, and of each further bag."""

    items: EvaluationSet
    main: ClipSystems
    further: list[Versions] = field(default_factory=list)
    further_systems: list[list[list[System]]] = field(default_factory=list)


def describe_streams(
    given: LabelledClips, kernel: str, identify_one: Callable[[Array], System], context: RunContext
) -> DescribedClips:
    """Check the streams and identify them."""
    warn_if_exchanged(given.clips, kernel)
    streams = [check_stream(stream, kernel, name=f"clips[{k}]") for k, stream in enumerate(given.clips)]
    indices = list(range(len(streams)))
    with context.stages("systems"):
        main = ClipSystems(
            paths=[Path(name) for name in given.names],
            indices=indices,
            streams=[streams],
            systems=[[identify_one(stream) for stream in streams]],
        )
    groups = given.groups(indices, context.random_state)
    return DescribedClips(items=given.evaluation_set(main, groups, None, context), main=main)


def describe_files(
    given: LabelledClips,
    bags: Mapping[str, BagTransformer],
    identify_one: Callable[[Array], System],
    context: RunContext,
) -> DescribedClips:
    """Read the clips with every bag, and identify their streams; a clip needs a system of each bag."""
    paths = [Path(clip) for clip in given.clips]
    further: list[Outcomes] = []
    further_systems: list[Outcomes] = []
    groups, folds = np.zeros(len(paths), dtype=np.int64), np.zeros(len(paths), dtype=np.int64)
    places: dict[int, int] = {}

    def identified(stream: Array | SysbagsError) -> System | SysbagsError:
        try:
            return stream if isinstance(stream, SysbagsError) else identify_one(stream)
        except SysbagsError as error:
            return error

    def identify_first_bag(stream: Array) -> System:
        try:
            return identify_one(stream)
        except SysbagsError as error:
            raise (error if len(bags) == 1 else type(error)(f"the bag {next(iter(bags))}: {error}")) from None

    def describe_readable(indices: list[int]) -> Outcomes:
        labels = [given.labels[k] for k in indices]
        groups[indices] = given.groups(indices, context.random_state)
        readable_folds = None
        if groups[indices].max() > 1:
            test_group = None if given.parts is None else int(groups[indices].max())
            readable_folds = codebook_folds(
                labels, groups[indices], test_group, random_state=context.random_state
            )
            folds[indices] = readable_folds
        with context.stages("frames and bags"):
            readable = [paths[k] for k in indices]
            features = ClipFeatures(readable, readable_folds, context.cache, context.n_jobs)
            main_streams, *further[:] = features.streams_of_several(list(bags.values()))
        with context.stages("systems"):
            further_systems[:] = [
                [run(identified, version, context.n_jobs, "systems") for version in versions]
                for versions in further
            ]
        for name, versions in zip(list(bags)[1:], further_systems, strict=True):
            for place, outcome in ((p, o) for version in versions for p, o in enumerate(version)):
                if isinstance(outcome, SysbagsError):
                    error = type(outcome)(f"the bag {name}: {outcome}")
                    for version in main_streams:
                        if not isinstance(version[place], SysbagsError):
                            version[place] = error
        places.update({k: place for place, k in enumerate(indices)})
        return main_streams

    main = read_clips(
        paths,
        next(iter(bags.values())),
        describe_readable,
        identify_first_bag,
        fit=True,
        n_jobs=context.n_jobs,
        stages=context.stages,
    )
    check_classes(paths, given.labels, main)
    usable_folds = folds[main.indices] if groups.max() > 1 else None

    def usable(outcomes: list[Outcomes]) -> list[Any]:
        return [
            [[good(version[places[k]]) for k in main.indices] for version in versions]
            for versions in outcomes
        ]

    return DescribedClips(
        items=given.evaluation_set(main, groups[main.indices], usable_folds, context),
        main=main,
        further=usable(further),
        further_systems=usable(further_systems),
    )
