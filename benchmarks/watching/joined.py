"""Long videos joined from the clips of a folder, with cuts to other classes as events."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.validation import seed_of
from sysbags.datasets._scenery import Film
from sysbags.datasets.folder import class_folders
from sysbags.datasets.watching import WatchedEvent, WatchingVideo, first_frame
from sysbags.errors import FileError
from sysbags.video import Frame, frames

__all__ = ["join_clips", "schedule_events"]


def join_clips(
    folder: str | os.PathLike[str],
    normal_class: str,
    seconds: float,
    *,
    learn: float,
    every: float,
    duration: float,
    seed: int = 0,
    rate: float = 10.0,
    height: int = 48,
    width: int = 64,
) -> WatchingVideo:
    """Join clips of one class to a long video; cuts to clips of the other classes are the events.

    Clips of the normal class, drawn at random, follow each other. Half of its sources are shown in the first
    part of the video, from which normal operation is to be learnt, and the other half after it, so that no
    source is in both. An event repeats one clip of another class, which is its kind. The clips that are shown
    are kept in memory, scaled.

    Parameters
    ----------
    folder : path
        See `class_folders`. Without sources in its index, each clip is a source of its own.
    normal_class : str
    seconds, learn : float
        The length of the video, and of its first part.
    every, duration : float
        Time and length of the events, in seconds: see `schedule_events`.
    seed : int, default=0
    rate : float, default=10.0
        Frames per second. Files are read at this rate; each image of a folder of images is one frame.
    height, width : int, default=48, 64
        All clips are scaled to this size.
    """
    clips = class_folders(folder)
    count = round(seconds * rate)
    names = clips.sources or [path.as_posix() for path in clips.paths]
    normal: dict[str, list[Path]] = {}  # of each source
    others: dict[str, list[Path]] = {}  # of each class
    for path, label, name in zip(clips.paths, clips.labels, names, strict=True):
        if label == normal_class:
            normal.setdefault(name, []).append(path)
        else:
            others.setdefault(label, []).append(path)
    if len(normal) < 2 or not others:
        raise FileError(
            f"{folder} has {len(normal)} sources of the class {normal_class} and {len(others)} other "
            "classes, but it must have at least two such sources, one to learn from and one to watch, and "
            "one other class for the events"
        )
    rng = np.random.default_rng(seed_of(seed))
    events = schedule_events(seconds, list(others), every, rng, quiet=learn, duration=duration)
    order, half = rng.permutation(list(normal)).tolist(), len(normal) // 2
    learnt, watched = (
        [path for name in part for path in normal[name]] for part in (order[:half], order[half:])
    )
    end = min(first_frame(learn, rate), count)
    segments = [(learnt, end)]
    for event in events:
        start, stop = first_frame(event.start, rate), first_frame(event.stop, rate)
        shown = others[event.kind][rng.integers(len(others[event.kind]))]
        segments += [(watched, start - end), ([shown], stop - start)]
        end = stop
    segments.append((watched, count - end))

    def read(path: Path) -> Film:
        # Images have no timestamps, so they cannot be read at a rate.
        return np.stack(list(frames(path, size=(height, width), rate=None if path.is_dir() else rate)))

    chosen = list(dict.fromkeys(path for part, _ in segments for path in part))
    films = dict(zip(chosen, run(read, chosen, -1, "clips"), strict=True))
    order_seed = seed_of(rng)

    def draw() -> Iterator[Frame]:
        draws = np.random.default_rng(order_seed)
        for part, length in segments:
            missing = length
            while missing > 0:
                film = films[part[draws.integers(len(part))]][:missing]
                yield from film.copy()
                missing -= len(film)

    return WatchingVideo(rate, count, events, draw)


def schedule_events(
    seconds: float,
    kinds: Sequence[str],
    every: float,
    random_state: int | np.random.Generator,
    *,
    quiet: float,
    duration: float,
) -> tuple[WatchedEvent, ...]:
    """Place events of strength 1 at random times, one in each interval of `every` seconds.

    The time after the first, quiet part is divided into intervals; an event begins at a random time in each,
    such that at least a quarter of the interval's normal time is before the event. All kinds are
    equally frequent, up to one, in random order.
    """
    rng = np.random.default_rng(seed_of(random_state))
    count = max(0, math.floor((seconds - quiet) / every))
    rounds = [rng.permutation(list(kinds)).tolist() for _ in range(-(-count // len(kinds)))]
    names = [kind for round_ in rounds for kind in round_][:count]
    starts = quiet + every * np.arange(count) + (every - duration) * rng.uniform(0.25, 1.0, count)
    return tuple(
        WatchedEvent(start, start + duration, kind, 1.0)
        for start, kind in zip(starts.tolist(), names, strict=True)
    )
