"""Words whose codebook has not seen the clip: one codebook per fold, learnt from the other folds.

Each clip is read twice: for a sample of its descriptors, and to count the words of all codebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sysbags._common.cache import Cache, fingerprint
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import seed_of
from sysbags.bags.streams import clip_records, clip_streams
from sysbags.bags.words import CodebookBags, Descriptors, count_distinct, learn_words
from sysbags.errors import ParameterError, SysbagsError

__all__ = ["codebook_streams", "codebooks", "fitted_by_folds", "sampled_descriptors"]

Bags = TypeVar("Bags", bound=CodebookBags)


def codebook_streams(
    cache: Cache,
    bags: CodebookBags,
    paths: Sequence[Path],
    folds: IntArray,
    *,
    n_jobs: int | None = None,
) -> list[list[Array | SysbagsError]]:
    """Streams of words, one list per codebook fold: list k with the codebook learnt without fold k.

    Parameters
    ----------
    cache, bags, paths, folds, n_jobs
        See `fitted_by_folds`.

    Returns
    -------
    list of lists
        One stream per clip, or an error in its place.
    """
    fitted = fitted_by_folds(cache, bags, paths, folds, n_jobs=n_jobs)
    return clip_streams(fitted, paths, cache, n_jobs=n_jobs)


def fitted_by_folds(
    cache: Cache, bags: Bags, paths: Sequence[Path], folds: IntArray, *, n_jobs: int | None = None
) -> list[Bags]:
    """Fit bags once per codebook fold: number k to all clips but those of fold k.

    The bags share a pass: a clip is described once for all of them.

    Parameters
    ----------
    cache : Cache
    bags : CodebookBags
        Not fitted.
    paths : sequence of Path
    folds : (K,) array of int
        0, 1, ...; see `sysbags.evaluate.splits.codebook_folds`.
    n_jobs : int, optional
        Threads; the result does not depend on it.
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
