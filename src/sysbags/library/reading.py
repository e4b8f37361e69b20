"""Clips on disk: whether they have changed, the hash of their content, and their systems."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sysbags._common.files import IMAGE_SUFFIXES
from sysbags._common.messages import collect_warnings
from sysbags.bags.base import BagTransformer
from sysbags.bags.streams import attempt
from sysbags.errors import SysbagsError, VideoError
from sysbags.systems.system import System

if TYPE_CHECKING:
    from sysbags.classifiers import SystemIdentifier


LARGE = ("samples", "alpha", "beta")  # arrays of a system with a row for each sample


class GivenClip(NamedTuple):
    """A clip to add: its absolute path, its label and source, if known, and hashes of the same size."""

    path: str
    label: str | None = None
    source: str | None = None
    known: tuple[str, ...] = ()


class FileState(NamedTuple):
    """The size and times of a clip; of a folder of images, the sum and the latest."""

    size: int
    mtime_ns: int
    ctime_ns: int


class ReadClip(NamedTuple):
    """A clip that was read; its system is None if the content is known."""

    sha256: str
    state: FileState
    checked_ns: int
    system: System | None = None
    frames: int = 0
    warnings: tuple[str, ...] = ()


def read_clip(
    clip: GivenClip, bags: BagTransformer, identifier: SystemIdentifier, compress: int | None
) -> ReadClip | SysbagsError:
    """Turn a clip into its hash and its system, or into what is wrong with it.

    Only its hash is computed if that is known. It depends on nothing but its arguments and the file, so it
    may run anywhere.
    """
    path = Path(clip.path)

    def read() -> ReadClip:
        checked, state = time.time_ns(), file_state(path)
        sha256 = content_hash(path)
        if sha256 in clip.known:
            return ReadClip(sha256, state, checked)
        with collect_warnings() as texts:
            stream = bags.stream(path)
            system = identifier.system(stream)
            if compress is not None:
                system = system.compress(max(compress, system.order))
        if file_state(path) != state:
            raise VideoError(f"{path} has changed while it was read: add it again")
        return ReadClip(sha256, state, checked, rounded(system), len(stream), tuple(dict.fromkeys(texts)))

    return attempt(path, read)  # type: ignore[no-any-return]


def rounded(system: System) -> System:
    """Return a system as a library keeps it: its large arrays in single precision, without its states.

    What it is to itself is computed again, so that the distance of a clip to its copy stays 0.
    """
    large = {name: getattr(system, name).astype(np.float32) for name in LARGE}
    system = replace(system, **large, states=None, _observer_gram=None, _mean_norm=None)
    _ = system.mean_norm  # computed here, by this thread
    return system


def file_state(path: str | os.PathLike[str]) -> FileState:
    """Return the size and times of a clip; raise a `VideoError` if it is not there."""
    try:
        about = [os.stat(file) for file in (*_images(path), path)]
    except OSError as error:
        raise VideoError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:  # a null byte in the name
        raise VideoError(f"cannot read {path}: {error}") from None
    if not stat.S_ISREG(about[-1].st_mode) and not stat.S_ISDIR(about[-1].st_mode):
        raise VideoError(f"{path} is not a regular file")
    # The size of a folder itself depends on the file system.
    size = sum(one.st_size for one in about if not stat.S_ISDIR(one.st_mode))
    return FileState(size, max(one.st_mtime_ns for one in about), max(one.st_ctime_ns for one in about))


def content_hash(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, or of the names and hashes of the images in a folder."""
    try:
        if not os.path.isdir(path):
            return _file_hash(path)
        lines = [os.fsencode(image.name) + b"\0" + _file_hash(image).encode() for image in _images(path)]
    except OSError as error:
        raise VideoError(f"cannot read {path}: {error.strerror or error}") from None
    return hashlib.sha256(b"\0".join(lines)).hexdigest()


def _file_hash(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _images(path: str | os.PathLike[str]) -> list[Path]:
    """Return the images of a folder, ordered by name; nothing for a file."""
    if not os.path.isdir(path):
        return []
    entries = [entry for entry in Path(path).iterdir() if entry.name[0] != "."]
    return sorted(entry for entry in entries if entry.suffix.lower() in IMAGE_SUFFIXES)
