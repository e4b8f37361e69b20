"""What clips are described by: streams, vectors, systems and their kernels, cached; codebooks by folds.

A codebook has not seen the clip that is described: there is one per fold, learnt from the other folds. Each
clip is read twice: for a sample of its descriptors, and to count the words of all codebooks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone

from sysbags._common.cache import Cache, clip_key, fingerprint
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import seed_of
from sysbags.bags.base import BagTransformer
from sysbags.bags.streams import clip_records, clip_streams, good
from sysbags.bags.words import CodebookBags, Descriptors, count_distinct, learn_words
from sysbags.distances.embedding import embed
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.errors import ParameterError, SysbagsError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.collection import system_arrays, system_from_arrays
from sysbags.systems.identification import identify_first
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.comparators.base import Comparator

Bags = TypeVar("Bags", bound=CodebookBags)
STACKED = ("orders", "transition", "observer_gram", "mean_norm")


class ClipFeatures:
    """Describes clips, and reads again what was computed before.

    Where a description is learnt from clips, such as a codebook, there are three of it: number k is learnt
    without codebook fold k (see `sysbags.evaluate.splits.codebook_folds`), so that no clip is predicted with
    what it had a part in. Without folds nothing can be learnt.
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


def fitted_by_folds(
    cache: Cache, bags: Bags, paths: Sequence[Path], folds: IntArray, *, n_jobs: int | None = None
) -> list[Bags]:
    """Fit bags once per codebook fold: number k to all clips but those of fold k.

    The bags share a pass: a clip is described once for all of them.
    """
    return codebooks(cache, bags, sampled_descriptors(cache, bags, paths, n_jobs=n_jobs), folds)


def sampled_descriptors(
    cache: Cache, bags: CodebookBags, paths: Sequence[Path], *, n_jobs: int | None = None
) -> list[Descriptors | SysbagsError]:
    """Draw descriptors from each clip: as many as fill a codebook's sample from two thirds of the clips."""
    quota, seed = -(-3 * bags.samples // (2 * len(paths))), seed_of(bags.random_state)

    def make(path: Path) -> dict[str, Any]:
        return {"descriptors": bags.draw_from(path, quota, np.random.default_rng(seed))}

    key = {"bags": fingerprint(bags), "quota": quota} if cache.folder is not None else {}
    outcomes = clip_records(cache, "descriptors", key, make, paths, n_jobs, bags.local)
    return [outcome if isinstance(outcome, SysbagsError) else outcome["descriptors"] for outcome in outcomes]


def codebooks(
    cache: Cache, bags: Bags, samples: Sequence[Descriptors | SysbagsError], folds: IntArray
) -> list[Bags]:
    """Learn one codebook per fold from the descriptors of the other folds' clips."""
    seed = seed_of(bags.random_state)

    def learn(fold: int) -> Bags:
        parts = [
            part
            for part, part_fold in zip(samples, folds, strict=True)
            if part_fold != fold and not isinstance(part, SysbagsError)
        ]
        sample: Descriptors = np.concatenate(parts)
        distinct = count_distinct(sample)
        if distinct < bags.words:
            raise ParameterError(
                f"words is {bags.words}, but two thirds of the clips have only {distinct} distinct "
                f"{bags.local}: ask for fewer words"
            )
        key = {"sample": fingerprint(sample), "words": bags.words, "random_state": seed}
        centers = cache.arrays("codebook", key, lambda: {"words": learn_words(sample, bags.words, seed)})
        # Not `clone`, which would copy a network.
        return copy(bags).learn(sample, centers["words"])

    return [learn(fold) for fold in range(int(folds.max()) + 1)]


def cached_system(stream: Array, cache: Cache, orders: Sequence[int | str], kernel: str) -> System:
    """`identify_first`, from the cache if it was computed before."""
    key = {"stream": fingerprint(stream), "orders": list(orders), "kernel": kernel}
    arrays = cache.arrays("system", key, lambda: system_arrays(identify_first(stream, orders, kernel)))
    return system_from_arrays(arrays, kernel)


@dataclass(frozen=True, eq=False)
class CachedGram:
    """A CrossGram, the seconds that it took when it was computed, and what it depends on.

    With an embedding, `lost` is what each system loses in it, see `EmbeddedSystems`; else it is 0.
    """

    gram: CrossGram
    seconds: float
    key: dict[str, Any]
    lost: Array


def cached_gram(
    cache: Cache, systems: Sequence[System], n_jobs: int | None, embedding: StreamEmbedding | None = None
) -> CachedGram:
    """Return the CrossGram of systems with themselves, from the cache if it was computed before."""
    # Kernels with an explicit feature map need no landmarks.
    used = None if embedding is None or embedding.landmarks_ is None else embedding

    def make() -> dict[str, Any]:
        started = time.perf_counter()
        gram = cross_gram(systems, n_jobs=n_jobs, embedding=used)
        lost = {} if used is None else {"lost": embed(used, systems, n_jobs=n_jobs).lost}
        seconds = np.array(time.perf_counter() - started)
        stack = {name: getattr(gram.rows, name) for name in STACKED}
        return {"observer": gram.observer, "mean": gram.mean, "seconds": seconds, **lost, **stack}

    prints = [fingerprint([system.samples, system.alpha, system.transition]) for system in systems]
    key = {"systems": prints, "kernel": systems[0].kernel}
    if used is not None:
        key["landmarks"] = fingerprint(used.landmarks_)
    arrays = cache.arrays("gram", key, make)
    stack = SystemStack(**{name: arrays[name] for name in STACKED}, normal_form=systems[0].normal_form)
    gram = CrossGram(arrays["observer"], arrays["mean"], stack, stack, True, approximate=used is not None)
    lost = arrays.get("lost", np.zeros(len(systems)))
    return CachedGram(gram, float(arrays["seconds"]), key, lost)
