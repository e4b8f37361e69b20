"""Streams of clips, cached on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sysbags._common.cache import Cache, Made, fingerprint, named_error, records_of_several
from sysbags._common.messages import collect_warnings
from sysbags.bags.base import BagTransformer
from sysbags.bags.several import describe
from sysbags.bags.union import BagUnion
from sysbags.errors import SysbagsError

__all__ = ["cached_streams", "cached_streams_of_several"]


def cached_streams(
    cache: Cache,
    bags: BagTransformer,
    paths: Sequence[Path],
    *,
    n_jobs: int | None = None,
    description: str = "clips",
) -> list[Any]:
    """Turn clips into streams, one record per clip; the error of a bad clip takes the place of its stream.

    Parameters
    ----------
    cache : Cache
    bags : BagTransformer
        Fitted, if they require it. A `BagUnion` gives tuples of streams and has the records of each of its
        bags: a clip is read once for all bags whose record is missing.
    paths, n_jobs, description
        See `records`.

    Returns
    -------
    list
        An array, a tuple of arrays or a `SysbagsError` for each clip.
    """
    return cached_streams_of_several(cache, [bags], paths, n_jobs=n_jobs, description=description)[0]


def cached_streams_of_several(
    cache: Cache,
    bags: Sequence[BagTransformer],
    paths: Sequence[Path],
    *,
    n_jobs: int | None = None,
    description: str = "clips",
) -> list[list[Any]]:
    """Return `cached_streams` for each of several bags; each clip is read once for all of them.

    The records and the streams are the same as those of `cached_streams`.

    Parameters
    ----------
    cache, paths, n_jobs, description
        See `cached_streams`.
    bags : sequence of BagTransformer

    Returns
    -------
    list of lists
        One for each of `bags`: the streams of the clips.
    """
    single = [member for bag in bags for member in (bag.members() if isinstance(bag, BagUnion) else [bag])]
    keys = [{"bags": fingerprint(bag)} if cache.folder is not None else {} for bag in single]

    def make(path: Path, missing: Sequence[int]) -> list[Made]:
        with collect_warnings():  # they are part of the records
            described = describe([single[k] for k in missing], path)
        return [
            (stream if isinstance(stream, SysbagsError) else {"stream": stream}, texts)
            for stream, texts in described
        ]

    rows = records_of_several(cache, "stream", keys, make, paths, n_jobs, description)
    streams = [[item if isinstance(item, SysbagsError) else item["stream"] for item in row] for row in rows]
    results, first = [], 0
    for bag in bags:
        count = len(bag.members()) if isinstance(bag, BagUnion) else 1
        parts = [row[first : first + count] for row in streams]
        first += count
        results.append(
            [_joined(bag, path, part) for path, part in zip(paths, parts, strict=True)]
            if isinstance(bag, BagUnion)
            else [stream for (stream,) in parts]
        )
    return results


def _joined(bag: BagUnion, path: Path, streams: Sequence[Any]) -> Any:
    """Return the streams of a clip as a tuple, or an error that names the clip and the bag."""
    try:
        return bag.join(streams)
    except SysbagsError as error:
        return named_error(path, error)
