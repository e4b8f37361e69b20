"""Many systems: embeddings, search and the library of clips."""

from __future__ import annotations

from sysbags.distances.embedding import EmbeddedSystems, embed, fit_embedding
from sysbags.library.adding import Added
from sysbags.library.index import Neighbours, SystemIndex
from sysbags.library.search import Duplicates, Found
from sysbags.library.store import ClipRecord, Library

__all__ = [
    "Added",
    "ClipRecord",
    "Duplicates",
    "EmbeddedSystems",
    "Found",
    "Library",
    "Neighbours",
    "SystemIndex",
    "embed",
    "fit_embedding",
]
