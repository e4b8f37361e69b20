"""Several bags on one clip: `BagUnion` against the bags one after the other.

Run as `python -m benchmarks.union [REPEATS]`. The clips are generated (`datasets.make_clips`). The works take
turns and the best of their times counts, so that a busy machine slows all alike; compilation is paid before.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.machine import facts
from benchmarks.video import best_seconds
from sysbags.bags import BagUnion, ColourHistogram, LocalBinaryPatterns, OpticalFlow
from sysbags.datasets import make_clips
from sysbags.video import decoding, frames, reading

__all__ = ["decoded_pictures", "main", "works"]

FRAMES, HEIGHT, WIDTH = 250, 240, 320
TEXTURES = ["rain", "fire"]
REPEATS = 5
OPTIONS: dict[str, dict[str, Any]] = {
    "every frame": {},
    "every third frame, 120 lines": {"stride": 3, "size": 120},
}

Work = Callable[[], object]


def works(paths: Sequence[Path], options: dict[str, Any]) -> dict[str, Work]:
    """Return what is timed, by name."""
    bags = [LocalBinaryPatterns(frames=options), ColourHistogram(frames=options), OpticalFlow(frames=options)]
    union = BagUnion(bags)
    return {
        "LBP + colour + flow, `BagUnion`": lambda: [union.stream(path) for path in paths],
        "the same bags one after the other": lambda: [bag.stream(path) for bag in bags for path in paths],
        "grey frames alone": lambda: [sum(1 for _ in frames(path, **options)) for path in paths],
        "LBP alone": lambda: [bags[0].stream(path) for path in paths],
    }


def decoded_pictures(work: Work) -> int:
    """Return how many pictures a function decodes."""
    count = 0

    def counting(path: Path, threads: int) -> Iterator[Any]:
        nonlocal count
        for picture in decoding.decoded(path, threads):
            count += 1
            yield picture

    with mock.patch.object(reading, "decoded", counting):
        work()
    return count


def main() -> None:
    """Print the tables."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    command = shlex.join(["python", "-m", "benchmarks.union", *sys.argv[1:]])
    print(f"# Several bags on clips of {FRAMES} frames, {HEIGHT} x {WIDTH}, H.264\n")
    print("\n".join(facts(command, ("av", "numpy", "numba", "opencv-python-headless"))))
    with tempfile.TemporaryDirectory() as folder:
        paths, _ = make_clips(folder, 1, frames=FRAMES, height=HEIGHT, width=WIDTH, textures=TEXTURES)
        for title, options in OPTIONS.items():
            print(f"\n## {title}\n\n| work | ms per clip | pictures decoded per clip |")
            print("| --- | ---: | ---: |")
            named = works(paths, options)
            times = best_seconds(list(named.values()), time.perf_counter, repeats)
            for (name, work), seconds in zip(named.items(), times, strict=True):
                pictures = decoded_pictures(work) // len(paths)
                print(f"| {name} | {1e3 * seconds / len(paths):.0f} | {pictures} |")


if __name__ == "__main__":
    main()
