"""Libraries of clips: the size of the file, adding one more, and leave-one-out and distances out of core.

A library is filled without decoding: systems of generated streams are written as `Library.add` writes those
of clips, one transaction per clip, and then embedded. What is measured runs through the public interface.
Memory is that of a process of its own, with the pages of mapped files, which the machine can free.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sysbags
from benchmarks.machine import peak_memory, seconds
from benchmarks.scale.search import LANDMARKS, ORDER, WEIGHTS
from sysbags._common.parallel import run
from sysbags._common.types import Array
from sysbags.datasets import make_clips, make_streams
from sysbags.evaluate import leave_one_out
from sysbags.library import Library, fit_embedding
from sysbags.library.adding import _content, _put_clip
from sysbags.library.reading import FileState, GivenClip, ReadClip, rounded
from sysbags.library.settings import put_settings, settings_for
from sysbags.library.systems import embed_clips
from sysbags.storage.files import versions
from sysbags.systems.system import System

__all__ = ["adding_rows", "file_rows", "leave_one_out_rows", "memory_rows", "write_systems"]

JOBS = 2
CLASSES = 50
ROUNDS = 15  # clips that are added to each library
ADDED_FRAMES = 40  # of the streams that fill the libraries
# Frames, bins, the share of the systems, and the memory: everything fits in the first, not in the second.
MEMORY = ((60, 64, 1.0, "1GB"), (250, 256, 0.1, "250MB"))


def write_systems(library: Library, systems: list[System], labels: list[str] | None = None) -> None:
    """Write systems to a library under the names of clips that do not exist, one transaction per clip."""
    _, settings = settings_for(library, {}, [], None)
    assert settings is not None
    with library.transaction(create=True) as connection:
        put_settings(connection, settings)
    made_with = json.dumps(versions(set()))
    for k, system in enumerate(systems):
        path = f"/generated/{k:09d}.mp4"
        clip = GivenClip(path, None if labels is None else labels[k])
        state, sha256 = FileState(k, 0, 0), hashlib.sha256(path.encode()).hexdigest()
        read = ReadClip(sha256, state, time.time_ns(), rounded(system), system.size)
        with library.transaction() as connection:
            content = _content(connection, read, made_with)
            assert content is not None
            _put_clip(connection, clip, sha256, content, state, read.checked_ns)


def _filled(path: Path, streams: list[Array], labels: list[str] | None = None, embed: bool = True) -> None:
    """Make a library of the systems of streams."""
    systems = run(lambda stream: sysbags.identify(stream, ORDER), streams, -1, "systems")
    with Library(path) as library:
        write_systems(library, systems, labels)
        if embed:
            embed_clips(library, -1)


def file_rows(folder: Path | None) -> Iterator[str]:
    """Lines of the table of the size of a library, by what it holds: 64 generated clips, and a folder."""
    yield "| clips | | their files, MB | library, MB | samples, KB | embedded, KB | the rest, KB |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    with tempfile.TemporaryDirectory() as work:
        generated = Path(work) / "clips"
        make_clips(generated, 8, 60, n_jobs=-1)
        for name, clips in (("generated", generated), ("real", folder)):
            if clips is None:
                continue
            path = Path(work) / f"{name}.library"
            with Library(path) as library:
                count = library.add([clips], n_jobs=JOBS).added
                files = sum(record.size for record in library.clips())
                with library.connection() as connection:
                    parts = [
                        connection.execute(f"SELECT SUM(LENGTH({column})) FROM {table}").fetchone()[0]
                        for table, column in (("samples", "arrays"), ("embedded", "observers"))
                    ]
            total = path.stat().st_size
            shares = [size / count / 1e3 for size in (*parts, total - sum(parts))]
            yield (
                f"| {name} | {count} | {files / 1e6:.1f} | {total / 1e6:.2f} | "
                f"{' | '.join(f'{share:.1f}' for share in shares)} |"
            )


def adding_rows(systems: int) -> Iterator[str]:
    """Lines of the table of the time to add a clip to a small and to a large library."""
    counts = max(1, systems // 100), systems
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{count}.library" for count in counts]
        for path, count in zip(paths, counts, strict=True):
            streams, _ = make_streams(classes=count, per_class=1, frames=ADDED_FRAMES, bins=256)
            _filled(path, streams)
        clips, _ = make_clips(Path(folder) / "clips", ROUNDS + 1, n_jobs=-1, textures=["rain"])
        times: list[list[float]] = [[], []]
        for k, clip in enumerate(clips):
            for place in (0, 1) if k % 2 else (1, 0):
                times[place].append(seconds(lambda path=paths[place], clip=clip: _add(path, clip))[0])  # type: ignore[misc]
    small, large = (float(np.median(values[1:])) for values in times)  # the first is not counted
    yield "| clips in the library | adding a clip, ms (median) | ratio |"
    yield "| ---: | ---: | ---: |"
    yield f"| {counts[0]} | {1e3 * small:.1f} | |"
    yield f"| {counts[1]} | {1e3 * large:.1f} | {large / small:.2f} |"


def _add(path: Path, clip: Path) -> None:
    with Library(path) as library:
        if library.add([clip]).added != 1:
            raise AssertionError(f"{clip} was not added")


def leave_one_out_rows(systems: int) -> Iterator[str]:
    """Lines of the table of leave-one-out by one process, from a CrossGram on disk."""
    per_class = max(2, systems // CLASSES)
    with tempfile.TemporaryDirectory() as folder:
        streams, labels = make_streams(classes=CLASSES, per_class=per_class, frames=250, bins=256)
        _filled(Path(folder) / "library", streams, [str(label) for label in labels], embed=False)
        del streams
        steps = _child("leave-one-out", folder)
    yield f"| {CLASSES * per_class} systems, {CLASSES} classes | s | accuracy, % | peak memory so far, MB |"
    yield "| --- | ---: | ---: | ---: |"
    for step in steps:
        accuracy = "" if step["accuracy"] is None else f"{100.0 * step['accuracy']:.1f}"
        yield f"| {step['name']} | {step['seconds']:.0f} | {accuracy} | {step['peak'] / 1e6:.0f} |"
    yield f"| together | {sum(step['seconds'] for step in steps):.0f} | | |"


def leave_one_out_steps(folder: Path) -> Iterator[dict[str, Any]]:
    """Time each step of leave-one-out, in this process."""
    with Library(folder / "library") as library:
        systems, labels = library.systems, [str(clip.label) for clip in library.clips()]
        spent, embedding = seconds(lambda: fit_embedding(systems, LANDMARKS, n_jobs=JOBS))
        yield _step("landmarks", spent)
        spent, gram = seconds(
            lambda: sysbags.cross_gram(
                systems, embedding=embedding, out=folder / "gram", memory="2GB", n_jobs=JOBS
            )
        )
    yield _step('`cross_gram(..., out=folder, memory="2GB")`', spent)
    for classifier in ("nearest-system", "nearest-mean"):
        options: dict[str, Any] = {"classifier": classifier, "n_jobs": JOBS, **WEIGHTS}
        spent, result = seconds(lambda options=options: leave_one_out(gram, labels, **options))  # type: ignore[misc]
        yield _step(f"leave-one-out, {classifier}", spent, result.accuracy)


def _step(name: str, spent: float, accuracy: float | None = None) -> dict[str, Any]:
    return {"name": name, "seconds": spent, "accuracy": accuracy, "peak": peak_memory()}


def memory_rows(systems: int) -> Iterator[str]:
    """Lines of the table of the memory of `pairwise_distances`, of systems that are read lazily."""
    yield "| systems | frames x bins | their samples, MB | memory= | before, MB | peak, MB | s |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for frames, bins, share, memory in MEMORY:
        count = max(2, int(share * systems))
        with tempfile.TemporaryDirectory() as folder:
            streams, _ = make_streams(classes=count, per_class=1, frames=frames, bins=bins)
            _filled(Path(folder) / "library", streams, embed=False)
            size = sum(stream.nbytes for stream in streams)
            del streams
            (step,) = _child("memory", folder, memory)
        yield (
            f"| {count} | {frames} x {bins} | {size / 1e6:.0f} | {memory} | {step['before'] / 1e6:.0f} | "
            f"{step['peak'] / 1e6:.0f} | {step['seconds']:.0f} |"
        )


def memory_steps(folder: Path, memory: str) -> Iterator[dict[str, Any]]:
    """Compute all distances to a file, in this process."""
    with Library(folder / "library") as library:
        systems = library.systems
        sysbags.pairwise_distances(systems[:2], **WEIGHTS)  # compiled
        before = peak_memory()
        options: dict[str, Any] = {"out": folder / "distances.npy", "memory": memory, "n_jobs": JOBS}
        spent, _ = seconds(lambda: sysbags.pairwise_distances(systems, **options, **WEIGHTS))
    yield {"before": before, **_step("distances", spent)}


def _child(kind: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the steps that a process of its own prints."""
    command = [sys.executable, "-m", "benchmarks.scale.libraries", kind, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    """Print the steps of one kind of work, each as a line of JSON."""
    kind, folder, *rest = sys.argv[1:]
    work: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
        "leave-one-out": leave_one_out_steps,
        "memory": memory_steps,
    }
    for step in work[kind](Path(folder), *rest):
        print(json.dumps(step), flush=True)


if __name__ == "__main__":
    main()
