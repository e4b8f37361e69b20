"""Visual words whose codebook has not seen the clip: three codebooks from thirds of the clips.

Each clip is read twice: for a sample of its descriptors, and to count the words of all three codebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._common.cache import Store, fingerprint, records
from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags.bags import VisualWords
from sysbags.bags.words import draw, learn_words, word_masses
from sysbags.errors import ParameterError, SysbagsError

__all__ = ["codebooks", "sampled", "word_counts"]


def sampled(store: Store, bags: VisualWords, paths: Sequence[Path], jobs: int) -> list[Array | SysbagsError]:
    """Draw descriptors from each clip: as many as fill a codebook's sample from two thirds of the clips."""
    quota, seed = -(-3 * bags.samples // (2 * len(paths))), seed_of(bags.random_state)

    def make(path: Path) -> dict[str, Any]:
        described = map(bags._describer(), islice(bags.read(path), 0, None, bags.fit_stride))
        return {"descriptors": draw(described, quota, np.random.default_rng(seed))}

    key = {"sample of": fingerprint(bags), "quota": quota}
    found = records(store, key, make, paths, jobs, "descriptors")
    return [one if isinstance(one, SysbagsError) else one["descriptors"] for one in found]


def codebooks(store: Store, bags: VisualWords, samples: Sequence[Array], third: IntArray) -> list[Array]:
    """Learn three codebooks: the k-th from the clips that are not in the k-th third."""
    seed = seed_of(bags.random_state)

    def learnt(k: int) -> Array:
        sample = np.concatenate([one for one, own in zip(samples, third, strict=True) if own != k])
        distinct = len(np.unique(sample, axis=0))
        if distinct < bags.words:
            raise ParameterError(
                f"there are to be {bags.words} words, but two thirds of the clips have only {distinct} "
                "distinct descriptors: ask for fewer words"
            )
        key = {"codebook": fingerprint(sample), "words": bags.words, "seed": seed}
        return store.arrays(key, lambda: {"words": learn_words(sample, bags.words, seed)})["words"]

    return [learnt(k) for k in range(3)]


def word_counts(
    store: Store, bags: VisualWords, books: Sequence[Array], paths: Sequence[Path], jobs: int
) -> list[IntArray | SysbagsError]:
    """Count the words of each codebook in each frame, (3, N, words) a clip; each frame is described once."""

    def make(path: Path) -> dict[str, Any]:
        describe_frame = bags._describer()
        rows = []
        for frame in bags.read(path):
            descriptors = describe_frame(frame)
            rows.append([word_masses(descriptors, book) for book in books])
        return {"counts": np.array(rows, dtype=np.uint16).transpose(1, 0, 2)}

    found = records(
        store, {"counts of": fingerprint(bags), "books": fingerprint(list(books))}, make, paths, jobs
    )
    return [one if isinstance(one, SysbagsError) else one["counts"] for one in found]
