"""Visual words whose codebook has not seen the clip: one codebook per fold, learnt from the other folds.

Each clip is read twice: for a sample of its descriptors, and to count the words of all codebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._common.cache import Cache, fingerprint, records
from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags.bags.base import pool
from sysbags.bags.words import Descriptors, VisualWords, draw, learn_words, second_word_bandwidth, word_masses
from sysbags.errors import ParameterError, SysbagsError

__all__ = ["codebook_streams", "codebooks", "sampled_descriptors"]


def codebook_streams(
    cache: Cache,
    bags: VisualWords,
    paths: Sequence[Path],
    folds: IntArray,
    *,
    n_jobs: int | None = None,
) -> list[list[Array | SysbagsError]]:
    """Streams of visual words, one list per codebook fold: list k with the codebook learnt without fold k.

    Parameters
    ----------
    cache : Cache
    bags : VisualWords
        Not fitted.
    paths : sequence of Path
    folds : (K,) array of int
        0, 1, ...; see `sysbags.evaluate.splits.codebook_folds`.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Returns
    -------
    list of lists
        One stream per clip, or an error in its place.
    """
    samples = sampled_descriptors(cache, bags, paths, n_jobs=n_jobs)
    books = codebooks(cache, bags, samples, folds)
    key = {"bags": fingerprint(bags), "books": fingerprint([book for book, _ in books])}

    def make(path: Path) -> dict[str, Any]:
        describe = bags.describer()
        rows = []
        for frame in bags.read(path):
            descriptors = describe(frame)
            rows.append([word_masses(descriptors, book, width) for book, width in books])
        masses = np.array(rows).transpose(1, 0, 2)
        return {"masses": masses.astype(np.uint16) if bags.assignment == "hard" else masses}

    outcomes = records(cache, "counts", key, make, paths, n_jobs)
    return [
        [
            outcome
            if isinstance(outcome, SysbagsError)
            else pool(outcome["masses"][k].astype(np.float64), bags.window, bags.step, name=str(path))
            for path, outcome in zip(paths, outcomes, strict=True)
        ]
        for k in range(len(books))
    ]


def sampled_descriptors(
    cache: Cache, bags: VisualWords, paths: Sequence[Path], *, n_jobs: int | None = None
) -> list[Descriptors | SysbagsError]:
    """Draw descriptors from each clip: as many as fill a codebook's sample from two thirds of the clips."""
    quota, seed = -(-3 * bags.samples // (2 * len(paths))), seed_of(bags.random_state)

    def make(path: Path) -> dict[str, Any]:
        described = map(bags.describer(), islice(bags.read(path), 0, None, bags.fit_stride))
        return {"descriptors": draw(described, quota, np.random.default_rng(seed))}

    key = {"bags": fingerprint(bags), "quota": quota}
    outcomes = records(cache, "descriptors", key, make, paths, n_jobs, "descriptors")
    return [outcome if isinstance(outcome, SysbagsError) else outcome["descriptors"] for outcome in outcomes]


def codebooks(
    cache: Cache, bags: VisualWords, samples: Sequence[Descriptors | SysbagsError], folds: IntArray
) -> list[tuple[Array, float | None]]:
    """Learn one codebook per fold from the other folds' clips, and its bandwidth for soft assignment."""
    seed = seed_of(bags.random_state)

    def learn(fold: int) -> tuple[Array, float | None]:
        parts = [
            part
            for part, part_fold in zip(samples, folds, strict=True)
            if part_fold != fold and not isinstance(part, SysbagsError)
        ]
        sample: Descriptors = np.concatenate(parts)
        distinct = len(np.unique(sample, axis=0))
        if distinct < bags.words:
            raise ParameterError(
                f"words is {bags.words}, but two thirds of the clips have only {distinct} distinct "
                "descriptors: ask for fewer words"
            )
        key = {"sample": fingerprint(sample), "words": bags.words, "random_state": seed}
        words = cache.arrays("codebook", key, lambda: {"words": learn_words(sample, bags.words, seed)})[
            "words"
        ]
        if bags.assignment == "hard":
            return words, None
        return words, float(bags.bandwidth or second_word_bandwidth(sample, words))

    return [learn(fold) for fold in range(int(folds.max()) + 1)]
