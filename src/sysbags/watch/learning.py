"""Learn what is normal from whole recordings, and more of it later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from sysbags._common.parallel import ONE_BLAS_THREAD
from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer
from sysbags.bags.regions import Regions
from sysbags.bags.streams import LiveBag
from sysbags.bags.union import BagUnion
from sysbags.errors import ParameterError, StreamError, VideoError
from sysbags.video import container_facts, frames
from sysbags.watch.checkpoint import Normal
from sysbags.watch.watcher import Watcher

BATCH = 100  # frames that are described at once
Bag = BagTransformer | BagUnion | Regions


class Unit(NamedTuple):
    """What has a watcher of its own: a region of the picture, by one of the bags."""

    region: str
    bag: str
    place: int  # of the bag
    cell: int | None  # of the region

    def rows(self, described: Sequence[Array]) -> Array:
        """Return its rows among those of each bag."""
        rows = described[self.place]
        return rows if self.cell is None else rows[:, self.cell]


class Described(NamedTuple):
    """How a video is described: by which bags, for which watchers."""

    bags: list[Any]
    units: list[Unit]
    colour: str
    period: int  # frames from one bag to the next

    @classmethod
    def by(cls, bag: Bag) -> Described:
        """Return how a bag, several, or the regions of one describe a video."""
        single = bag.bag if isinstance(bag, Regions) else bag
        if single.requires_fit:
            raise ParameterError(
                f"{type(single).__name__} has to be fitted to clips first, but a video is watched without: "
                "use another bag, for instance LocalBinaryPatterns (lbp)"
            )
        bags: list[Any] = [bag] if isinstance(bag, Regions) else single.members()
        titles = [name for name, _ in bag.named_bags()] if isinstance(bag, BagUnion) else [""]
        regions = enumerate(bag.names) if isinstance(bag, Regions) else [(None, "")]
        units = [
            Unit(region, title, place, cell)
            for (cell, region), (place, title) in product(regions, enumerate(titles))
        ]
        periods = {one.step or one.window for one in bags}
        if len(periods) > 1:
            raise ParameterError(
                f"the bags have steps of {sorted(periods)} frames, but all must have the same"
            )
        colour = "rgb" if any(one.colour == "rgb" for one in single.members()) else "grey"
        return cls(bags, units, colour, periods.pop())

    def rows(self, path: Path, rate: float, size: int | None) -> Iterator[list[Array]]:
        """Yield the rows of a recording by each bag, as they come."""
        live, batch = [LiveBag(bag) for bag in self.bags], []
        for frame in frames(path, colour=self.colour, rate=rate, size=size):
            batch.append(frame)
            if len(batch) == BATCH:
                yield [one.update(batch) for one in live]
                batch = []
        if batch:
            yield [one.update(batch) for one in live]


def before_learning(
    paths: Sequence[Path], bag: Bag, *, rate: float | None = None, size: int | None = None, **options: Any
) -> Normal:
    """Return how normal is to be learnt, see `learn_recordings`, with nothing learnt yet."""
    facts = [container_facts(path) for path in paths]
    rate = rate or facts[0]["frames_per_second"]
    for path, fact in zip(paths, facts, strict=True):
        if not fact["seconds"] or not rate:
            raise VideoError(f"{path} does not say how long it is or its rate: learn from another recording")
    learn, units = sum(fact["seconds"] for fact in facts), Described.by(bag).units
    watching = {"learn": learn, "length": 100, "step": 10, "order": 5, "kernel": "chi2", **options}
    return Normal(bag, rate, size, watching, [None for _ in units])


def learn_recordings(paths: Sequence[Path], bag: Bag, **options: Any) -> Normal:
    """Learn what is normal from whole recordings of the same camera, one after the other.

    Windows of the first half of their time are those that others are compared with. No window is in two
    recordings. Options are `rate` (by default that of the first), `size` and those of `Watcher`, without
    `learn`.

    Examples
    --------
    >>> import tempfile
    >>> from sysbags.bags import LocalBinaryPatterns
    >>> from sysbags.datasets import make_watching
    >>> from sysbags.video import write_video
    >>> folder = Path(tempfile.mkdtemp())
    >>> paths = [folder / f"{seed}.mp4" for seed in range(2)]
    >>> for seed, path in enumerate(paths):
    ...     _ = write_video(path, make_watching("wheel", 25.0, random_state=seed).frames(), 10.0)
    >>> normal = learn_recordings(paths, LocalBinaryPatterns(), length=20, step=5)
    >>> normal.options["learn"], len(normal.learnt[0].scores)
    (50.0, 47)
    """
    normal = before_learning(paths, bag, **options)
    return _fed(normal, paths, [True for _ in normal.learnt])


def calibrated(normal: Normal, paths: Sequence[Path]) -> Normal:
    """Return what was learnt with the scores of more normal video, so that the rate is better known."""
    return _fed(normal, paths, [learnt is not None for learnt in normal.learnt])


def _fed(normal: Normal, paths: Sequence[Path], is_watched: Sequence[bool]) -> Normal:
    """Return what is learnt with recordings, by the watchers of what is watched."""
    described = Described.by(normal.bag)
    # The rate of false alarms is not used while learning.
    new = partial(Watcher, rate=normal.rate / described.period, false_alarms=1.0, **normal.options)
    watchers = [
        new(learnt=learnt) if watched else None
        for learnt, watched in zip(normal.learnt, is_watched, strict=True)
    ]
    _feed(described, watchers, paths, normal.rate, normal.size)
    return normal._replace(learnt=[None if watcher is None else watcher.learnt for watcher in watchers])


def _feed(
    described: Described,
    watchers: list[Watcher | None],
    paths: Sequence[Path],
    rate: float,
    size: int | None,
) -> None:
    """Let watchers learn from recordings; one whose windows cannot be described is left out."""

    def attempt(k: int, action: Callable[[Watcher], Any]) -> None:
        watcher = watchers[k]
        try:
            if watcher is not None:
                action(watcher)
        except StreamError:
            watchers[k] = None
            if not any(watchers):
                raise

    every = range(len(watchers))
    for k in every:
        attempt(k, Watcher.learn_more)
    with ONE_BLAS_THREAD:
        for path in paths:
            for rows in described.rows(path, rate, size):
                for k, unit in enumerate(described.units):
                    if len(rows[unit.place]):
                        attempt(k, partial(Watcher.update, rows=unit.rows(rows)))
            for k in every:
                attempt(k, Watcher.gap)
    for k in every:
        attempt(k, Watcher.end_learning)
