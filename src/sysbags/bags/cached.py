"""Streams of clips, cached on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sysbags._common.cache import Cache, fingerprint, records, records_of_several
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer
from sysbags.bags.deep import share_a_pass, streams_of_several
from sysbags.errors import SysbagsError

__all__ = ["cached_streams", "cached_streams_of_several"]


def cached_streams(
    cache: Cache,
    bags: BagTransformer,
    paths: Sequence[Path],
    *,
    n_jobs: int | None = None,
    description: str = "clips",
) -> list[Array | SysbagsError]:
    """Turn clips into streams, one record per clip; the error of a bad clip takes the place of its stream.

    Parameters
    ----------
    cache : Cache
    bags : BagTransformer
        Fitted, if they require it.
    paths, n_jobs, description
        See `records`.
    """
    key = {"bags": fingerprint(bags)} if cache.folder is not None else {}
    results = records(
        cache, "stream", key, lambda path: {"stream": bags.stream(path)}, paths, n_jobs, description
    )
    return [result if isinstance(result, SysbagsError) else result["stream"] for result in results]


def cached_streams_of_several(
    cache: Cache,
    bags: Sequence[BagTransformer],
    paths: Sequence[Path],
    *,
    n_jobs: int | None = None,
    description: str = "clips",
) -> list[list[Array | SysbagsError]]:
    """Return `cached_streams` for each of several bags; bags of the same network run it once per frame.

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
    streams: list[list[Array | SysbagsError]] = [[] for _ in bags]
    for group in _groups(bags):
        group_bags = [bags[k] for k in group]
        results = (
            _shared_streams(cache, group_bags, paths, n_jobs, description)
            if len(group) > 1
            else [cached_streams(cache, group_bags[0], paths, n_jobs=n_jobs, description=description)]
        )
        for k, result in zip(group, results, strict=True):
            streams[k] = result
    return streams


def _groups(bags: Sequence[BagTransformer]) -> list[list[int]]:
    """Divide the indices of bags into groups that share a pass of a network."""
    groups: list[list[int]] = []
    for k, bag in enumerate(bags):
        for group in groups:
            # All pairs, because the relation is not transitive: an output belongs to one network only.
            if all(share_a_pass(bags[other], bag) for other in group):
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


def _shared_streams(
    cache: Cache, bags: Sequence[Any], paths: Sequence[Path], n_jobs: int | None, description: str
) -> list[list[Array | SysbagsError]]:
    """Return the streams of the clips for each of several bags that share a pass."""
    keys = [{"bags": fingerprint(bag)} for bag in bags]
    results = records_of_several(
        cache,
        "stream",
        keys,
        lambda path: [{"stream": stream} for stream in streams_of_several(bags, path)],
        paths,
        n_jobs,
        description,
    )
    failed = [path for path, result in zip(paths, results, strict=True) if isinstance(result, SysbagsError)]
    streams = []
    for k, bag in enumerate(bags):
        # Another bag may have raised the error, so each bag tries these clips again without the others.
        retried = iter(cached_streams(cache, bag, failed, n_jobs=n_jobs, description=description))
        streams.append(
            [next(retried) if isinstance(result, SysbagsError) else result[k]["stream"] for result in results]
        )
    return streams
