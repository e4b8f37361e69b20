"""Real clips of a road, joined to videos whose traffic changes for good at a known time, or does not.

The clips are those of a folder with the labels light, medium and heavy in its `index.csv` (the UCSD highway
traffic database). They are drawn in random order, all once before any comes again, and streams are joined
instead of pictures, so that each clip is described once. The settings were chosen on generated video and on
other clips.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.watching.several import watch_streams
from sysbags._common.cache import Cache
from sysbags._common.types import Array
from sysbags.bags import OpticalFlow, PlanePatterns
from sysbags.bags.streams import clip_streams
from sysbags.watch import Event
from sysbags.watch.evidence import poisson_interval

__all__ = ["lasting_rows", "unchanged_rows"]

RATE, LENGTH, STEP = 10.0, 100, 10
ASKED = 1.0 / 3600.0
LEARN = (240.0, 300.0)  # seconds
CHANGE, AFTER = 390.0, 75.0  # seconds until the change, and watched after it
WITHIN = 60.0
CHANGES = (("light", "heavy"), ("heavy", "light"))
ORDERS = 20
FIRST = 1  # the first frame of each clip is corrupt

Streams = Sequence[Array]  # of a clip, by each bag


class Change(NamedTuple):
    """What was found in a video whose traffic changes."""

    before: int  # alarms before the change
    delay: float | None  # seconds from the change to the alarm, if there is one
    rule: str


def lasting_rows(folder: Path, cache: Path | None, orders: int) -> Iterator[str]:
    """Lines of the table of changes that are found in time, and of alarms before them."""
    clips = _described(folder, cache)
    yield "| change | learn, s | orders | found within 60 s | median, s | by a jump | alarms before | asked |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for labels in CHANGES:
        for learn in LEARN:
            found = [_change(clips, labels, learn, seed) for seed in range(orders)]
            delays = [one.delay if one.delay is not None else np.inf for one in found]
            shares = (np.mean(np.array(delays) <= WITHIN), np.mean([one.rule == "jump" for one in found]))
            hits, jumps = (f"{100.0 * share:.0f} %" for share in shares)
            asked, median = orders * (CHANGE - learn) * ASKED, np.median(delays)
            yield (
                f"| {' to '.join(labels)} | {learn:g} | {orders} | {hits} | {median:.0f} | {jumps} | "
                f"{sum(one.before for one in found)} | {asked:.1f} |"
            )


def unchanged_rows(folder: Path, cache: Path | None, orders: int) -> Iterator[str]:
    """Lines of the table of false alarms where all clips have the same label, each shown once."""
    clips = _described(folder, cache)
    yield "| traffic | learn, s | orders | hours | false alarms | per hour (95 %) | asked |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for learn in LEARN:
        alarms, seconds = 0, 0.0
        for seed in range(orders):
            streams = _joined([_drawn(clips["light"], np.random.default_rng(seed), None)])
            alarms += len(_watch(streams, learn))
            seconds += min(map(len, streams)) / RATE - learn
        low, high = (3600.0 * rate for rate in poisson_interval(alarms, seconds))
        yield (
            f"| light | {learn:g} | {orders} | {seconds / 3600.0:.1f} | {alarms} | "
            f"{3600.0 * alarms / seconds:.2f} ({low:.2f} to {high:.2f}) | {3600.0 * ASKED:g} |"
        )


def _described(folder: Path, cache: Path | None) -> dict[str, list[Streams]]:
    """Return the streams of the clips of each label, by patterns and by flow."""
    with (folder / "index.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    bags = [PlanePatterns(frames={"start": FIRST}), OpticalFlow(frames={"start": FIRST, "size": 48})]
    streams = clip_streams(bags, [folder / row["clip"] for row in rows], Cache(cache))
    clips: dict[str, list[Streams]] = {}
    for row, pair in zip(rows, zip(*streams, strict=True), strict=True):
        clips.setdefault(row["label"], []).append(pair)
    return clips


def _drawn(clips: list[Streams], rng: np.random.Generator, rows: int | None) -> list[Streams]:
    """Draw clips in random order: all of them once, or as many as give so many rows."""
    drawn: list[Streams] = []
    while not drawn or (rows is not None and sum(len(pair[0]) for pair in drawn) < rows):
        drawn += [clips[k] for k in rng.permutation(len(clips))]
    return drawn


def _joined(parts: Sequence[list[Streams]], rows: Sequence[int | None] = (None,)) -> Streams:
    """Join the streams of the clips of several parts of a video, each with so many rows."""
    every = [
        [
            np.concatenate([pair[bag] for pair in part])[:count]
            for part, count in zip(parts, rows, strict=True)
        ]
        for bag in range(2)
    ]
    return [np.concatenate(stream) for stream in every]


def _change(clips: Mapping[str, list[Streams]], labels: tuple[str, str], learn: float, seed: int) -> Change:
    """Watch a video whose traffic changes."""
    rng, rows = np.random.default_rng(seed), [round(CHANGE * RATE), round(AFTER * RATE)]
    parts = [_drawn(clips[label], rng, count) for label, count in zip(labels, rows, strict=True)]
    events = _watch(_joined(parts, rows), learn)
    after = [event for event in events if event.found > CHANGE]
    delay = after[0].found - CHANGE if after else None
    return Change(len(events) - len(after), delay, after[0].rule if after else "")


def _watch(streams: Streams, learn: float) -> list[Event]:
    return watch_streams(streams, false_alarms=ASKED, step=STEP, rate=RATE, learn=learn, length=LENGTH)[1]
