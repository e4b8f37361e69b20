"""Write the clips of a library to other files: a table, arrays, or a model file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sysbags._common.files import atomic_write, write_table
from sysbags.library.embeddings import read_embedded
from sysbags.storage.files import save

if TYPE_CHECKING:
    from sysbags.library.store import Library

__all__ = ["COLUMNS", "export_library"]

COLUMNS = ("path", "label", "source", "frames", "order", "samples", "size", "sha256", "checksum", "added")


def export_library(library: Library, path: str | os.PathLike[str]) -> None:
    """Write the clips to a file, see `Library.export`."""
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        rows = [[getattr(record, name) for name in COLUMNS] for record in library.clips()]
        write_table(path, [COLUMNS, *rows])
        return
    systems = library.systems
    if suffix != ".npz":
        save(path, list(systems))
        return
    labels = {record.path: record.label or "" for record in library.clips()}
    paths = [Path(os.fsdecode(name)) for name in systems.names]
    embedded = read_embedded(systems)[1]
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            paths=np.array([str(one) for one in paths]),
            labels=np.array([labels.get(one, "") for one in paths]),
            orders=systems.orders,
            transitions=systems.transition,
            observers=embedded.observers,
            lost=embedded.lost,
            lost_of_mean=embedded.lost_of_mean,
        )
