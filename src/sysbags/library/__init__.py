"""Many systems: embeddings and search."""

from __future__ import annotations

from sysbags.distances.embedding import EmbeddedSystems, Embedding
from sysbags.library.index import Neighbours, SystemIndex

__all__ = ["EmbeddedSystems", "Embedding", "Neighbours", "SystemIndex"]
