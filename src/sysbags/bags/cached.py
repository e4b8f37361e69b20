"""Streams of clips that are found again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sysbags._common.cache import Cache, fingerprint, records
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer
from sysbags.errors import SysbagsError

__all__ = ["cached_streams"]


def cached_streams(
    cache: Cache,
    bags: BagTransformer,
    paths: Sequence[Path],
    *,
    n_jobs: int | None = None,
    description: str = "clips",
) -> list[Array | SysbagsError]:
    """Turn clips into streams, one record a clip; what is wrong with a clip takes the place of its stream.

    Parameters
    ----------
    cache : Cache
    bags : BagTransformer
        Fitted, where they learn something.
    paths, n_jobs, description
        See `records`.
    """
    key = {"bags": fingerprint(bags)} if cache.folder is not None else {}
    found = records(
        cache, "stream", key, lambda path: {"stream": bags.stream(path)}, paths, n_jobs, description
    )
    return [one if isinstance(one, SysbagsError) else one["stream"] for one in found]
