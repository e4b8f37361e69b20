"""False alarms on normal video, and events whose dynamics alone change, for sysbags and other methods.

Each video has a part to learn from, a normal part, and a part with events of the kind "dynamics". All methods
see the same patterns, but the background subtractor, which sees the frames. Slow changes of light and wind
are followed, by all methods in the same way: scores are compared with their median in the minutes before. The
threshold of each method is chosen by the same rule, from its scores in the second half of the time to learn;
none has seen the rest. The scenes, the bag, the scores and their calibration were chosen on other seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed

from benchmarks.watching.joined import join_clips
from benchmarks.watching.metrics import auc_pr, vus_pr, window_labels
from benchmarks.watching.rivals import RIVALS, foreground, window_spans
from benchmarks.watching.several import watch_streams
from sysbags._common.types import Array, IntArray
from sysbags.bags import LocalBinaryPatterns, OpticalFlow, PlanePatterns
from sysbags.bags.base import BagTransformer
from sysbags.datasets.watching import (
    EVENTS,
    SCENES,
    TAMPERING,
    WEATHER,
    WatchedEvent,
    WatchingVideo,
    make_watching,
)
from sysbags.watch import Verdict
from sysbags.watch.calibration import Level, clusters, threshold_for_rate

BoolArray = npt.NDArray[np.bool_]

__all__ = ["Watched", "event_rows", "joined_rows", "kind_rows", "ranking_rows", "rate_rows", "watch_seed"]

LENGTH, STEP, RATE = 100, 10, 10.0
PARTS = (2.0, 1.0, 0.5)  # to learn from, normal, and with events, in units of the hours that are asked for
JOINED = (1200.0, 1800.0)  # seconds to learn from, and to watch, of clips that are joined
CLASSES = ("fire", "ocean", "traffic", "rain")
ASKED = 1.0 / 3600.0
ADAPT = 300.0  # seconds
EVERY, DURATION = 150.0, 60.0  # seconds from one event to the next, and of each
STRENGTHS = (0.5, 1.0)
MERGED = 2 * LENGTH // STEP  # windows between two alarms, as in `Watcher`
WITHIN = 2.0 * LENGTH / RATE  # seconds in which an event must be found
SYSBAGS = "sysbags"
TOGETHER = "all"
# Bags by their name, the first also for the rivals, and times of following.
BAGS: dict[str, BagTransformer] = {
    "LBP-TOP": PlanePatterns(),
    "flow": OpticalFlow(),
    "LBP": LocalBinaryPatterns(),
}
OWN = {
    SYSBAGS: (("LBP-TOP", "flow"), ADAPT),
    "sysbags, without --adapt": (("LBP-TOP", "flow"), None),
    "sysbags, LBP-TOP": (("LBP-TOP",), ADAPT),
    "sysbags, LBP": (("LBP",), ADAPT),
}


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
    unusual : dict of str to (n,) array of bool
        Of each method: whether a window begins an alarm.
    alarms : dict of str to int
        How many false alarms each method gives in the normal part.
    """

    scene: str
    normal: tuple[float, float]
    changed: tuple[float, float]
    planned: tuple[WatchedEvent, ...]
    windows: IntArray
    surprise: dict[str, Array]
    unusual: dict[str, BoolArray]
    alarms: dict[str, int]


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
    video = join_clips(folder, name, sum(JOINED), learn=JOINED[0], every=60.0, duration=20.0, seed=20)
    return _watch(name, video, JOINED[0], JOINED[0], True)


def _watch(name: str, video: WatchingVideo, learn: float, normal: float, rivals: bool) -> Watched:
    """Watch a video: learn until a time, and expect nothing until another."""
    changed = (normal, video.count / RATE)
    windows = window_spans(video.count, LENGTH, STEP)
    result = Watched(name, (learn, normal), changed, video.events, windows, {}, {}, {})
    rows = {bag: _rows(BAGS[bag], video) for bag in (BAGS if rivals else OWN[SYSBAGS][0])}
    _watch_by_sysbags(result, SYSBAGS, rows)
    if rivals:
        _watch_by_rivals(result, rows[OWN[SYSBAGS][0][0]], video)
        for own in [name for name in OWN if name != SYSBAGS]:
            _watch_by_sysbags(result, own, rows)
    return result


def _rows(bag: BagTransformer, video: WatchingVideo) -> Array:
    """Return a row for each frame: the first and the last again, where a bag compares it with others."""
    rows = bag.stream(video.frames())
    missing = video.count - len(rows)
    return np.pad(rows, ((missing // 2, missing - missing // 2), (0, 0)), mode="edge")


def _watch_by_sysbags(result: Watched, name: str, rows_of_bags: Mapping[str, Array]) -> None:
    """Add what sysbags says about a video."""
    (bags, adapt), (learn, normal) = OWN[name], result.normal
    options = {"rate": RATE, "learn": learn, "length": LENGTH, "adapt": adapt}
    streams = [rows_of_bags[bag] for bag in bags]
    verdicts, events = watch_streams(streams, false_alarms=ASKED, step=STEP, **options)
    # The largest of the surprises is that of the smallest p-value.
    several = list(zip(*verdicts, strict=True))
    surprise = [max(v.surprise for v in those) for those in several]
    is_learning = [those[0].kind == "learning" for those in several]
    result.surprise[name] = np.where(is_learning, np.nan, surprise)
    result.unusual[name] = np.array([any(_is_alarm(v) for v in those) for those in several])
    result.alarms[name] = sum(learn <= event.found < normal for event in events)


def _is_alarm(verdict: Verdict) -> bool:
    return verdict.kind == "change" or (verdict.kind == "still" and verdict.surprise > 0.0)


def _watch_by_rivals(result: Watched, rows: Array, video: WatchingVideo) -> None:
    """Add what other methods say about a video."""
    learn, normal = result.normal
    half, windows = int(0.5 * learn * RATE), result.windows
    later = windows[windows[:, 0] >= half] - half
    scores = {rival: score(rows[:half], rows[half:], later) for rival, score in RIVALS.items()}
    frames = video.frames()
    scores["MOG2 background subtractor"] = foreground(itertools.islice(frames, half), frames, later)
    stops = (later[:, 1] + half) / RATE
    for rival, values in scores.items():
        followed, limit = followed_scores(values, int(np.count_nonzero(stops <= learn)))
        missing = np.full(len(windows) - len(values), np.nan)
        result.surprise[rival] = np.concatenate([missing, followed])
        result.unusual[rival] = result.surprise[rival] >= limit
        inside = followed[(stops > learn) & (stops <= normal)]
        result.alarms[rival] = int(np.count_nonzero(clusters(inside, MERGED)[1] >= limit))


def followed_scores(values: Array, learnt: int) -> tuple[Array, float]:
    """Return scores minus their recent level, and the threshold for the asked rate.

    This is what `Watcher` does with `adapt`: windows in an alarm do not change the level.

    Parameters
    ----------
    values : (n,) array
    learnt : int
        Number of the first ones, which are known to be normal.
    """
    level = Level(round(ADAPT * RATE / STEP), LENGTH // STEP)
    relative: list[float] = []
    limit, low = np.inf, np.inf
    for place, value in enumerate(values):
        if place == learnt:
            known = np.array(relative)[~np.isnan(relative)]
            limits = threshold_for_rate(known, MERGED, learnt * STEP / RATE, ASKED)
            limit, low = limits.high, limits.low
        relative.append(value - float(np.squeeze(level.median)))
        lasting = np.array(relative[-MERGED:])
        level.update(np.array([value]), is_usual=not (lasting >= low).any())
    return np.nan_to_num(np.array(relative)), limit


def watch_seeds(
    seeds: range, hours: float, rivals: bool, kinds: Sequence[str] = ("dynamics",)
) -> list[Watched]:
    """Watch the videos of some seeds."""
    return list(Parallel(n_jobs=-1)(delayed(watch_seed)(seed, hours, rivals, kinds) for seed in seeds))


def rate_rows(watched: list[Watched]) -> Iterator[str]:
    """Lines of the table of false alarms in normal video."""
    names = [name for name in OWN if name in watched[0].alarms]
    yield "| scene | normal hours | " + " | ".join(names) + " | asked |"
    yield "| --- | ---: |" + " ---: |" * (1 + len(names))
    for scene, chosen in _scenes(watched):
        hours = sum(one.normal[1] - one.normal[0] for one in chosen) / 3600.0
        rates = (f"{sum(one.alarms[name] for one in chosen) / hours:.2f}" for name in names)
        yield f"| {scene} | {hours:g} | {' | '.join(rates)} | {3600.0 * ASKED:g} |"


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
        alarms = sum(one.alarms[name] for one in watched)
        hours = sum(one.normal[1] - one.normal[0] for one in watched) / 3600.0
        yield f"| {name} | {' | '.join(cells)} | {alarms / hours:.2f} |"


def kind_rows(seeds: range, hours: float) -> Iterator[str]:
    """Lines of the table of events of kinds without a table that sysbags finds in time at the asked rate."""
    kinds = [kind for kind in EVENTS if kind not in ("dynamics", *WEATHER, *TAMPERING)]
    watched = watch_seeds(seeds, hours, rivals=False, kinds=kinds)
    yield "| scene | " + " | ".join(kinds) + " |"
    yield "| --- |" + " ---: |" * len(kinds)
    for scene, chosen in _scenes(watched):
        pairs = [(event.kind, _is_found(one, SYSBAGS, event)) for one in chosen for event in one.planned]
        shares = (np.mean([hit for kind, hit in pairs if kind == wanted]) for wanted in kinds)
        yield f"| {scene} | {' | '.join(f'{100.0 * share:.0f}' for share in shares)} |"


def _is_found(one: Watched, name: str, event: WatchedEvent) -> bool:
    """Return whether a method gives an alarm in time."""
    stops = one.windows[:, 1] / RATE
    inside = (stops > event.start) & (stops <= event.start + WITHIN)
    return bool(np.any(one.unusual[name][inside]))


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


def _found(one: Watched, name: str) -> dict[float, list[bool]]:
    """Return for each strength which events are found in time."""
    found: dict[float, list[bool]] = {strength: [] for strength in STRENGTHS}
    for event in one.planned:
        found[event.strength].append(_is_found(one, name, event))
    return found


def _areas(one: Watched, name: str) -> tuple[float, float]:
    """Return AUC-PR and VUS-PR of a method in the part with events."""
    inside = one.windows[:, 0] / RATE >= one.changed[0]
    labels, values = window_labels(one.windows[inside], one.planned, RATE), one.surprise[name][inside]
    return auc_pr(labels, values), vus_pr(labels, values, 2 * LENGTH // STEP)
