"""How fast a video is watched, and in how much memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.machine import peak_memory, seconds
from sysbags._common.parallel import ONE_BLAS_THREAD
from sysbags.bags import BagUnion
from sysbags.bags.registry import make_bag
from sysbags.datasets import make_streams
from sysbags.datasets.watching import make_watching
from sysbags.video import write_video
from sysbags.watch import Watcher
from sysbags.watch.session import Session

__all__ = ["memory_rows", "speed_rows"]

CAMERA = 25.0  # frames per second
SECONDS = 120.0
SMALLER = {"flow": {"size": 48}}  # as `sysbags watch` does
COUNTS = (10_000, 1_000_000)


def speed_rows() -> Iterator[str]:
    """Lines of the table of frames per second of `sysbags watch`: from the file to the alarms."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, also for the decoder's threads
    yield "| scene | bag | frames | lines | frames/s | times real time at 25 frames/s |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for scene in ("flame", "traffic"):
        with tempfile.TemporaryDirectory() as folder, ONE_BLAS_THREAD:
            path = Path(folder) / "video.mp4"
            video = make_watching(scene, SECONDS, rate=CAMERA, height=240, width=320, random_state=7)
            count = write_video(path, video.frames(), CAMERA)
            for name in ("lbp", "lbp-top", "lbp-top,flow"):
                _watch(path, name)  # compiles
                spent, _ = seconds(partial(_watch, path, name))
                speed = count / spent
                yield f"| {scene} | {name} | {count} | 240 | {speed:.0f} | {speed / CAMERA:.1f} |"


def _watch(path: Path, bag: str) -> None:
    bags = [(name, make_bag(name, frames=SMALLER.get(name))) for name in bag.split(",")]
    several = BagUnion(bags) if len(bags) > 1 else bags[0][1]
    Session(path, several, learn=SECONDS / 3.0 + 40.0, false_alarms=1.0 / 3600.0).run(lambda _: None)


def memory_rows() -> Iterator[str]:
    """Lines of the table of peak memory, each in a process of its own."""
    yield "| rows watched | peak memory, MB |"
    yield "| ---: | ---: |"
    for k, count in enumerate((COUNTS[0], *COUNTS)):
        command = [sys.executable, "-m", "benchmarks.watching.running", str(count)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        if k:  # the first run may have compiled
            yield f"| {count} | {float(out):.1f} |"


def _memory(count: int) -> float:
    """Watch so many rows of a stream that repeats itself with noise, and return the peak memory in MB."""
    rng = np.random.default_rng(0)
    stream = make_streams(classes=1, per_class=1, frames=2000, bins=64)[0][0]
    watcher = Watcher(rate=CAMERA, learn=200.0, false_alarms=1.0 / 86400.0)
    for _ in range(count // len(stream)):
        noise = rng.dirichlet(np.ones(stream.shape[1]), size=len(stream))
        watcher.update(0.95 * stream + 0.05 * noise)
    return peak_memory() / 1e6


if __name__ == "__main__":
    print(_memory(int(sys.argv[1])))
