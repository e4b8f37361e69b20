"""Many systems: embeddings, search and the library of clips."""

from __future__ import annotations

from sysbags.distances.embedding import EmbeddedSystems, Embedding
from sysbags.library.adding import Added
from sysbags.library.index import Neighbours, SystemIndex
from sysbags.library.settings import LibrarySettings
from sysbags.library.store import ClipRecord, Library, StoredSystems

__all__ = [
    "Added",
    "ClipRecord",
    "EmbeddedSystems",
    "Embedding",
    "Library",
    "LibrarySettings",
    "Neighbours",
    "StoredSystems",
    "SystemIndex",
]
