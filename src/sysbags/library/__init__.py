"""Many systems: embeddings, search and the library of clips."""

from __future__ import annotations

from sysbags.distances.embedding import EmbeddedSystems, Embedding
from sysbags.library.adding import Added
from sysbags.library.index import Neighbours, SystemIndex
from sysbags.library.search import Duplicates, Found
from sysbags.library.store import ClipRecord, Library

__all__ = [
    "Added",
    "ClipRecord",
    "Duplicates",
    "EmbeddedSystems",
    "Embedding",
    "Found",
    "Library",
    "Neighbours",
    "SystemIndex",
]
