"""Long videos joined from the clips of a folder, with cuts to other classes as events."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.validation import check_choice, check_positive, seed_of
from sysbags.datasets._scenery import Film
from sysbags.datasets.folder import class_folders
from sysbags.datasets.watching import WatchingVideo, first_frame, frame_count, schedule_events
from sysbags.errors import FileError
from sysbags.video import Frame, frames

__all__ = ["join_clips"]


def join_clips(
    folder: str | os.PathLike[str],
    normal_class: str,
    seconds: float,
    *,
    learn: float | None = None,
    every: float = 60.0,
    duration: float = 15.0,
    rate: float = 10.0,
    height: int = 48,
    width: int = 64,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> WatchingVideo:
    """Join clips of one class to a long video; cuts to clips of the other classes are the events.

    Clips of the normal class, drawn at random, follow each other. Half of its sources are shown in the first
    part of the video, from which normal operation is to be learnt, and the other half after it, so that no
    source is in both. An event repeats one clip of another class. The clips that are shown are kept in
    memory, scaled.

    Parameters
    ----------
    folder : path
        One folder per class, or a table of labels: see `class_folders`. Without sources in its index, each
        clip is a source of its own.
    normal_class : str
    seconds : float
        The length of the video.
    learn : float, optional
        Length of the first part, in seconds; by default a third of the video.
    every, duration : float, default=60.0, 15.0
        Time and length of the events, in seconds: see `schedule_events`.
    rate : float, default=10.0
        Frames per second. Files are read at this rate; each image of a folder of images is one frame.
    height, width : int, default=48, 64
        All clips are scaled to this size.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Number of threads that read clips.

    Returns
    -------
    WatchingVideo
        The kind of an event is its class, its strength is 1.

    Examples
    --------
    >>> import tempfile
    >>> from sysbags.datasets import make_clips
    >>> folder = tempfile.mkdtemp()
    >>> _ = make_clips(folder, per_class=2, frames=30, height=48, width=64, textures=["rain", "fire"])
    >>> video = join_clips(folder, "rain", 60.0, every=20.0, duration=5.0)
    >>> [event.kind for event in video.events], len(list(video.frames()))
    (['fire', 'fire'], 600)
    """
    clips = class_folders(folder)
    check_choice(normal_class, "normal_class", sorted(set(clips.labels)))
    count = frame_count(seconds, rate)
    learn = seconds / 3.0 if learn is None else check_positive(learn, "learn")
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
    rng = np.random.default_rng(seed_of(random_state))
    events = schedule_events(seconds, dict.fromkeys(others, 1.0), every, rng, quiet=learn, duration=duration)
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
    films = dict(zip(chosen, run(read, chosen, n_jobs, "clips"), strict=True))
    seed = seed_of(rng)

    def draw() -> Iterator[Frame]:
        draws = np.random.default_rng(seed)
        for part, length in segments:
            missing = length
            while missing > 0:
                film = films[part[draws.integers(len(part))]][:missing]
                yield from film.copy()
                missing -= len(film)

    return WatchingVideo(rate, count, events, draw)
