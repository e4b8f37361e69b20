"""What clips are described by: streams, vectors and systems, cached; codebooks are learnt by folds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from sysbags._common.cache import Cache, clip_key, fingerprint
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.bags.base import BagTransformer
from sysbags.bags.streams import clip_records, clip_streams, good
from sysbags.bags.words import CodebookBags
from sysbags.errors import ParameterError, SysbagsError
from sysbags.evaluate.codebooks import fitted_by_folds
from sysbags.systems.collection import system_arrays, system_from_arrays
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.comparators.base import Comparator

__all__ = ["ClipFeatures"]


class ClipFeatures:
    """Describes clips, and reads again what was computed before.

    Where a description is learnt from clips, such as a codebook, there are three of it: number k is learnt
    without codebook fold k, so that no clip is predicted with what it had a part in.

    Parameters
    ----------
    paths : sequence of Path
        The clips.
    codebook_folds : (K,) array of int or None
        See `sysbags.evaluate.splits.codebook_folds`; without them nothing can be learnt.
    cache : Cache
    n_jobs : int, optional
        Threads; nothing depends on it.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        codebook_folds: IntArray | None,
        cache: Cache,
        n_jobs: int | None = None,
    ) -> None:
        self.paths, self.cache, self.n_jobs = list(paths), cache, n_jobs
        self._codebook_folds = codebook_folds

    @property
    def codebook_folds(self) -> IntArray:
        """The codebook fold of each clip."""
        if self._codebook_folds is None:
            raise ParameterError(
                "a codebook is learnt without a third of the clips, but there are fewer than three groups"
            )
        return self._codebook_folds

    def streams_of_several(self, bags: Sequence[BagTransformer]) -> list[list[list[Array | SysbagsError]]]:
        """`streams` for each of several bags; clips are read once, and bags of one network run it once.

        Before that, clips are read to learn codebooks.
        """
        versions = [self._versions(bag) for bag in bags]
        every = [version for several in versions for version in several]
        streams = iter(clip_streams(every, self.paths, self.cache, n_jobs=self.n_jobs))
        return [[next(streams) for _ in several] for several in versions]

    def streams(self, bags: BagTransformer) -> list[list[Array | SysbagsError]]:
        """Streams of all clips, once or once per codebook fold; an error in the place of a bad clip's."""
        return self.streams_of_several([bags])[0]

    def _versions(self, bags: BagTransformer) -> Sequence[BagTransformer]:
        """Return the bags, or fitted bags for each codebook fold."""
        if not bags.requires_fit:
            return [bags]
        if isinstance(bags, CodebookBags):
            return fitted_by_folds(self.cache, bags, self.paths, self.codebook_folds, n_jobs=self.n_jobs)
        return [
            clone(bags).fit(
                [path for path, its in zip(self.paths, self.codebook_folds, strict=True) if its != fold]
            )
            for fold in range(3)
        ]

    def good_streams(self, bags: BagTransformer) -> list[list[Array]]:
        """`streams`, but the first error is raised."""
        return [[good(stream) for stream in version] for version in self.streams(bags)]

    def vectors(self, comparator: Comparator) -> list[Array]:
        """Vectors of all clips, (K, p), once or once per codebook fold; the first error is raised."""
        key = {"comparator": fingerprint(comparator)}
        if not comparator.requires_fit:
            outcomes = clip_records(
                self.cache,
                "vector",
                key,
                lambda path: {"vector": comparator.vector(path)},
                self.paths,
                self.n_jobs,
                comparator.title,
            )
            return [np.stack([good(outcome)["vector"] for outcome in outcomes])]

        def make() -> dict[str, Array]:
            # Clips are described once, and counted with each of the three codebooks.
            method: Any = clone(comparator).set_params(n_jobs=self.n_jobs)
            local, vectors = method.each(method.local, self.paths), {}
            for fold in range(3):
                method.learn(
                    [x for x, clip_fold in zip(local, self.codebook_folds, strict=True) if clip_fold != fold]
                )
                vectors[str(fold)] = np.stack(run(method.count, local, self.n_jobs, method.title))
            return vectors

        clips = [clip_key(path) for path in self.paths]
        folds = self.codebook_folds.tolist()
        arrays = self.cache.arrays("vector", {**key, "clips": clips, "codebook_folds": folds}, make)
        return [arrays[str(fold)] for fold in range(3)]

    def systems(self, comparator: Any) -> list[System]:
        """Systems of all clips, for a comparator that makes systems with the linear kernel."""
        outcomes = clip_records(
            self.cache,
            "system",
            {"comparator": fingerprint(comparator)},
            lambda path: system_arrays(comparator.system(path)),
            self.paths,
            self.n_jobs,
            comparator.title,
        )
        return [system_from_arrays(good(outcome), "linear") for outcome in outcomes]
