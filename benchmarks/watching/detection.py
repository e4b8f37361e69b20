"""False alarms on normal video, and events whose dynamics alone change, for sysbags and other methods.

Each video has a part to learn from, a normal part, and a part with events of the kind "dynamics". All methods
see the same local binary patterns, but the background subtractor, which sees the frames. The threshold of
each method is chosen by the same rule, from its scores in the second half of the time to learn; none has seen
the rest. The scenes, the scores and their calibration were chosen on other seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from benchmarks.watching.metrics import auc_pr, vus_pr, window_labels
from benchmarks.watching.rivals import RIVALS, foreground, window_spans
from sysbags._common.types import Array, IntArray
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets.joined import join_clips
from sysbags.datasets.watching import EVENTS, SCENES, WatchedEvent, WatchingVideo, make_watching
from sysbags.watch import Event, Watcher
from sysbags.watch.calibration import clusters, threshold_for_rate

__all__ = ["Watched", "event_rows", "joined_rows", "kind_rows", "ranking_rows", "rate_rows", "watch_seed"]

LENGTH, STEP, RATE = 100, 10, 10.0
PARTS = (2.0, 1.0, 0.5)  # to learn from, normal, and with events, in units of the hours that are asked for
JOINED = (1200.0, 1800.0)  # seconds to learn from, and to watch, of clips that are joined
CLASSES = ("fire", "ocean", "traffic", "rain")
ASKED = 1.0 / 3600.0
EVERY, DURATION = 150.0, 60.0  # seconds from one event to the next, and of each
STRENGTHS = (0.5, 1.0)
WITHIN = 2.0 * LENGTH / RATE  # seconds in which an event must be found
SYSBAGS = "sysbags"
TOGETHER = "all"


@dataclass(frozen=True)
class Watched:
    """What the methods said about a video.

    Attributes
    ----------
    scene : str
    normal, changed : tuple of float
        Start and stop of the normal part and of the part with events, in seconds.
    planned : tuple of WatchedEvent
        What happens in the video.
    windows : (n, 2) array of int
        Start and stop of each window, in rows.
    surprise : dict of str to (n,) array
        Of each method; NaN while it learns.
    events : list of Event
        Of sysbags.
    """

    scene: str
    normal: tuple[float, float]
    changed: tuple[float, float]
    planned: tuple[WatchedEvent, ...]
    windows: IntArray
    surprise: dict[str, Array]
    events: list[Event]


def watch_seed(seed: int, hours: float, rivals: bool, kinds: Sequence[str]) -> Watched:
    """Watch the video of a seed: a part to learn from, a normal one of so many hours, and one with events."""
    scene, ends = SCENES[seed % len(SCENES)], 3600.0 * hours * np.cumsum(PARTS)
    learn, normal, total = ends.tolist()
    starts = np.arange(normal + 60.0, total - DURATION, EVERY)
    chosen = zip(starts.tolist(), itertools.cycle(itertools.product(STRENGTHS, kinds)), strict=False)
    planned = [WatchedEvent(start, start + DURATION, kind, strength) for start, (strength, kind) in chosen]
    video = make_watching(scene, total, rate=RATE, events=planned, random_state=seed)
    return _watch(scene, video, learn, normal, rivals)


def watch_joined(folder: Path, name: str) -> Watched:
    """Watch clips of a class, joined, with cuts to other classes; sources are learnt or watched, not both."""
    video = join_clips(folder, name, sum(JOINED), learn=JOINED[0], every=60.0, duration=20.0, random_state=20)
    return _watch(name, video, JOINED[0], JOINED[0], True)


def _watch(name: str, video: WatchingVideo, learn: float, normal: float, rivals: bool) -> Watched:
    """Watch a video: learn until a time, and expect nothing until another."""
    rows = LocalBinaryPatterns().stream(video.frames())
    watcher = Watcher(rate=RATE, learn=learn, false_alarms=ASKED, length=LENGTH, step=STEP)
    verdicts, events = [], []
    for first in range(0, len(rows), 1000):
        judged, ended = watcher.update(rows[first : first + 1000])
        verdicts += judged
        events += ended
    events += watcher.finish()
    windows = window_spans(len(rows), LENGTH, STEP)
    own = np.array([np.nan if one.kind == "learning" else one.surprise for one in verdicts])
    surprise = {SYSBAGS: own}
    if rivals:
        half = int(0.5 * learn * RATE)
        later = windows[windows[:, 0] >= half] - half
        scores = {rival: score(rows[:half], rows[half:], later) for rival, score in RIVALS.items()}
        frames = video.frames()
        scores["MOG2 background subtractor"] = foreground(itertools.islice(frames, half), frames, later)
        for rival, values in scores.items():
            surprise[rival] = np.concatenate([np.full(len(windows) - len(values), np.nan), values])
    changed = (normal, video.count / RATE)
    return Watched(name, (learn, normal), changed, video.events, windows, surprise, events)


def watch_seeds(
    seeds: range, hours: float, rivals: bool, kinds: Sequence[str] = ("dynamics",)
) -> list[Watched]:
    """Watch the videos of some seeds."""
    return list(Parallel(n_jobs=-1)(delayed(watch_seed)(seed, hours, rivals, kinds) for seed in seeds))


def rate_rows(watched: list[Watched]) -> Iterator[str]:
    """Lines of the table of false alarms in normal video."""
    yield "| scene | normal hours | false alarms | per hour | asked |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for scene, chosen in _scenes(watched):
        hours = sum(one.normal[1] - one.normal[0] for one in chosen) / 3600.0
        found = sum(_alarms(one, SYSBAGS) for one in chosen)
        yield f"| {scene} | {hours:g} | {found} | {found / hours:.2f} | {3600.0 * ASKED:g} |"


def event_rows(watched: list[Watched]) -> Iterator[str]:
    """Lines of the table of events that are found in time at the asked rate."""
    yield "| method | " + " | ".join(scene for scene, _ in _scenes(watched)) + " | false alarms per hour |"
    yield "| --- |" + " ---: |" * (1 + len(list(_scenes(watched))))
    for name in watched[0].surprise:
        cells = []
        for _, chosen in _scenes(watched):
            found = [_found(one, name) for one in chosen]
            shares = (np.mean(np.concatenate([each[s] for each in found])) for s in STRENGTHS)
            cells.append(" / ".join(f"{100.0 * share:.0f}" for share in shares))
        alarms = sum(_alarms(one, name) for one in watched)
        hours = sum(one.normal[1] - one.normal[0] for one in watched) / 3600.0
        yield f"| {name} | {' | '.join(cells)} | {alarms / hours:.2f} |"


def kind_rows(seeds: range, hours: float) -> Iterator[str]:
    """Lines of the table of events of other kinds that sysbags finds in time at the asked rate."""
    kinds = [kind for kind in EVENTS if kind != "dynamics"]
    watched = watch_seeds(seeds, hours, rivals=False, kinds=kinds)
    yield "| scene | " + " | ".join(kinds) + " |"
    yield "| --- |" + " ---: |" * len(kinds)
    for scene, chosen in _scenes(watched):
        pairs = [(event.kind, _is_found(one, event)) for one in chosen for event in one.planned]
        shares = (np.mean([hit for kind, hit in pairs if kind == wanted]) for wanted in kinds)
        yield f"| {scene} | {' | '.join(f'{100.0 * share:.0f}' for share in shares)} |"


def _is_found(one: Watched, event: WatchedEvent) -> bool:
    """Return whether sysbags finds an event in time."""
    return any(event.start <= alarm.start <= event.start + WITHIN for alarm in one.events)


def ranking_rows(watched: list[Watched]) -> Iterator[str]:
    """Lines of the table of areas under the precision-recall curve, in the part with events."""
    yield "| method | " + " | ".join(scene for scene, _ in _scenes(watched)) + " |"
    yield "| --- |" + " ---: |" * len(list(_scenes(watched)))
    for name in watched[0].surprise:
        cells = []
        for _, chosen in _scenes(watched):
            areas = np.array([_areas(one, name) for one in chosen])
            cells.append(" / ".join(f"{area:.2f}" for area in areas.mean(axis=0)))
        yield f"| {name} | {' | '.join(cells)} |"


def joined_rows(folder: Path | None) -> Iterator[str]:
    """Lines of the table of areas for clips of some classes, joined."""
    if folder is not None:
        yield from ranking_rows(Parallel(n_jobs=-1)(delayed(watch_joined)(folder, name) for name in CLASSES))


def _scenes(watched: list[Watched]) -> Iterator[tuple[str, list[Watched]]]:
    """Yield the videos of each scene, and all of them."""
    for scene in dict.fromkeys(one.scene for one in watched):
        yield scene, [one for one in watched if one.scene == scene]
    yield TOGETHER, watched


def _series(one: Watched, name: str) -> tuple[Array, Array, float]:
    """Return the scores of a method, the times when windows end, and its threshold."""
    values, stops = one.surprise[name], one.windows[:, 1] / RATE
    if name == SYSBAGS:  # the threshold is its own: events
        return values, stops, np.nan
    used = values[(stops <= one.normal[0]) & np.isfinite(values)]
    limit = threshold_for_rate(used, LENGTH // STEP, len(used) * STEP / RATE, ASKED)
    return values, stops, limit.high


def _found(one: Watched, name: str) -> dict[float, list[bool]]:
    """Return for each strength which events are found in time."""
    values, stops, limit = _series(one, name)
    found: dict[float, list[bool]] = {strength: [] for strength in STRENGTHS}
    for event in one.planned:
        if name == SYSBAGS:
            hit = _is_found(one, event)
        else:
            hit = bool(np.any(values[(stops > event.start) & (stops <= event.start + WITHIN)] >= limit))
        found[event.strength].append(hit)
    return found


def _alarms(one: Watched, name: str) -> int:
    """Return how many alarms a method gives in the normal part."""
    values, stops, limit = _series(one, name)
    if name == SYSBAGS:
        return sum(one.normal[0] <= event.start < one.normal[1] for event in one.events)
    inside = (stops > one.normal[0]) & (stops <= one.normal[1])
    return int(np.count_nonzero(clusters(values[inside], LENGTH // STEP)[1] >= limit))


def _areas(one: Watched, name: str) -> tuple[float, float]:
    """Return AUC-PR and VUS-PR of a method in the part with events."""
    values, stops, _ = _series(one, name)
    inside = stops - LENGTH / RATE >= one.changed[0]
    labels = window_labels(one.windows[inside], one.planned, RATE)
    return auc_pr(labels, values[inside]), vus_pr(labels, values[inside], 2 * LENGTH // STEP)
