"""How often `timeline` divides what does not change, and how short a phase it finds.

python -m benchmarks.watching.phases streams 300 320
python -m benchmarks.watching.phases normal 300 324
python -m benchmarks.watching.phases events 300 312
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import SCENES, WatchedEvent, make_streams, make_watching
from sysbags.watch.timeline import timeline

SECONDS, START = 300.0, 150.0  # of a video, and of its event
RATE, LENGTH = 10.0, 100  # frames per second, and the frames of a window
KINDS = ("fog", "shake", "dynamics")
SMALL: dict[str, Any] = {"length": 50, "step": 10, "order": 3}  # windows of streams


def is_found(changes: Iterable[float], expected: Iterable[float], window: int) -> bool:
    """Tell whether there is a change within a window length of each expected one, and no other."""
    found, wanted = np.array(list(changes)), np.array(list(expected))
    return len(found) == len(wanted) and bool(np.all(np.abs(found - wanted) <= window))


def normal(seeds: range) -> None:
    """Divide videos without events."""
    divided: Counter[str] = Counter()
    for seed in seeds:
        scene = SCENES[seed % len(SCENES)]
        video = make_watching(scene, SECONDS, rate=RATE, random_state=seed)
        divided[scene] += bool(timeline(LocalBinaryPatterns().stream(video.frames())).change_points)
        print(f"normal, seeds {seeds.start} to {seed}, divided: {dict(divided)}", flush=True)


def events(seeds: range) -> None:
    """Divide videos with one event in the middle, of two or four window lengths."""
    found: Counter[tuple[str, float]] = Counter()
    tried: Counter[tuple[str, float]] = Counter()
    for seed in seeds:
        scene, kind = SCENES[seed % len(SCENES)], KINDS[seed // len(SCENES) % len(KINDS)]
        for seconds in (20.0, 40.0):
            event = WatchedEvent(START, START + seconds, kind, 1.0)
            video = make_watching(scene, SECONDS, rate=RATE, events=[event], random_state=seed)
            changes = timeline(LocalBinaryPatterns().stream(video.frames())).change_points
            tried[kind, seconds] += 1
            found[kind, seconds] += is_found(changes, (RATE * START, RATE * (START + seconds)), LENGTH)
        text = ", ".join(
            f"{kind} {seconds:g} s {found[kind, seconds]}/{n}" for (kind, seconds), n in tried.items()
        )
        print(f"events, seeds {seeds.start} to {seed}: {text}", flush=True)


def streams(seeds: range) -> None:
    """Divide generated streams: of one process, and of several."""
    found: Counter[str] = Counter()
    for seed in seeds:
        a, b, c = make_streams(classes=3, per_class=1, frames=1200, bins=12, random_state=seed)[0]
        for stream in (a, b, c):
            found["one process, divided"] += bool(timeline(stream, **SMALL).change_points)
        cases: dict[str, tuple[tuple[Array, ...], tuple[int, ...]]] = {
            "A, B, A, C": ((a[:350], b[:350], a[350:700], c[:350]), (350, 700, 1050))
        }
        for windows in (2, 3, 4):
            rows = 50 * windows
            cases[f"A, {windows} windows of B, A"] = (a[:350], b[:rows], a[350:700]), (350, 350 + rows)
        for windows in (5, 7, 8):
            half = 25 * windows
            cases[f"A, B, {windows} windows in all"] = (a[:half], b[:half]), (half,)
        for name, (parts, expected) in cases.items():
            changes = timeline(np.concatenate(parts), **SMALL).change_points
            found[name] += is_found(changes, expected, SMALL["length"])
        print(f"streams, seeds {seeds.start} to {seed}: {dict(found)}", flush=True)


if __name__ == "__main__":
    {"normal": normal, "events": events, "streams": streams}[sys.argv[1]](range(*map(int, sys.argv[2:4])))
