"""Weather that is normal, where it was learnt and where it was not, and cameras that are tampered with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.watching.several import watch_streams
from sysbags.bags import OpticalFlow, PlanePatterns
from sysbags.bags.regions import Regions
from sysbags.bags.streams import describe
from sysbags.datasets.watching import SCENES, TAMPERING, WEATHER, WatchedEvent, make_watching
from sysbags.watch import Event

__all__ = ["tampering_rows", "weather_rows"]

RATE, LENGTH, STEP = 10.0, 100, 10
LEARN, WATCHED = 600.0, 600.0  # seconds
ASKED = 1.0 / 3600.0
ADAPT = 300.0  # seconds
EVERY, DURATION = 100.0, 40.0  # seconds from one episode of weather to the next, and of each
APART = 300.0  # seconds from one event to the next: the one before has ended
WITHIN = 20.0
STRENGTHS = (0.5, 1.0)
GRID = "2x2"


def weather_rows(seeds: range) -> Iterator[str]:
    """Lines of the table of alarms per hour of normal video with weather."""
    yield "| weather | hours each | without weather | learnt with it | not learnt | asked |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    hours = len(seeds) * WATCHED / 3600.0
    # Until it is watched, the video without weather is the same for all kinds.
    nothing = sum(_alarms(seed, "", 0.0) for seed in seeds) / hours
    for kind in WEATHER:
        cells = [sum(_alarms(seed, kind, first) for seed in seeds) / hours for first in (0.0, LEARN)]
        rates = " | ".join(f"{rate:.1f}" for rate in (nothing, *cells))
        yield f"| {kind} | {hours:.2g} | {rates} | {3600.0 * ASKED:g} |"


def tampering_rows(seeds: range) -> Iterator[str]:
    """Lines of the table of tampered cameras that are found within 20 s, at half and at full strength."""
    yield "| scene | watched by | " + " | ".join(TAMPERING) + " |"
    yield "| --- | --- |" + " ---: |" * len(TAMPERING)
    kinds = [(kind, strength) for kind in TAMPERING for strength in STRENGTHS]
    starts = LEARN + 30.0 + APART * np.arange(len(kinds))
    planned = [
        WatchedEvent(start, start + DURATION, *kind)
        for start, kind in zip(starts.tolist(), kinds, strict=True)
    ]
    for grid in (None, GRID):
        yield from _tampering_rows(seeds, planned, grid)


def _tampering_rows(seeds: range, planned: Sequence[WatchedEvent], grid: str | None) -> Iterator[str]:
    found: dict[str, list[list[bool]]] = {}
    for seed in seeds:
        events = _watch(seed, planned, planned[-1].stop + 30.0, grid)
        moments = np.array([event.found for event in events])
        # A bag compares a frame with the next one, so that an event may be found a step early.
        late = [moments - one.start for one in planned]
        hits = [bool(np.any((each >= -STEP / RATE) & (each <= WITHIN))) for each in late]
        found.setdefault(SCENES[seed % len(SCENES)], []).append(hits)
    for scene, several in (*found.items(), ("all", [hits for each in found.values() for hits in each])):
        shares = 100.0 * np.mean(several, axis=0).reshape(len(TAMPERING), len(STRENGTHS))
        how = "lbp-top,flow" if grid is None else f"lbp-top, --grid {grid}"
        yield f"| {scene} | {how} | {' | '.join(' / '.join(f'{x:.0f}' for x in pair) for pair in shares)} |"


def _alarms(seed: int, kind: str, first: float) -> int:
    """Return the number of alarms after learning, with episodes of weather from a time on."""
    starts = np.arange(30.0, LEARN + WATCHED - DURATION, EVERY)
    planned = (
        [WatchedEvent(t, t + DURATION, kind, 0.5) for t in starts.tolist() if t >= first] if kind else []
    )
    return sum(event.found > LEARN for event in _watch(seed, planned, LEARN + WATCHED))


def _watch(
    seed: int, planned: Sequence[WatchedEvent], seconds: float, grid: str | None = None
) -> list[Event]:
    """Return the events of a video by patterns and flow, or by the patterns of each cell of a grid."""
    video = make_watching(SCENES[seed % len(SCENES)], seconds, rate=RATE, events=planned, random_state=seed)
    if grid is None:
        streams = [one.stream for one in describe([PlanePatterns(), OpticalFlow()], video.frames())]
    else:
        streams = list(np.moveaxis(Regions(PlanePatterns(), grid).stream(video.frames()), 1, 0))
    options = {"rate": RATE, "learn": LEARN, "adapt": ADAPT}
    return watch_streams(streams, false_alarms=ASKED, step=STEP, length=LENGTH, **options)[1]
