"""The stream of a video whose frames arrive bit by bit."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.bags.base import BagTransformer, Pooling
from sysbags.bags.regions import Regions
from sysbags.errors import ParameterError
from sysbags.video import Frame

__all__ = ["LiveBag"]

Inbox = SimpleQueue[Iterable[Frame] | None]


class LiveBag:
    """Turn the frames of an endless video into rows of its stream, with the options and memory of a bag.

    The rows are those of ``bag.stream(video)``, also for bags that compare neighbouring frames, skip frames
    (`frames={"stride": 2}`) or pool them. A bag takes its frames from an iterator when it needs them, so it
    runs in a thread of its own, which waits for frames; only one of the two threads runs at a time.

    Parameters
    ----------
    bag : bag or Regions
        With `masses`; fitted, if it has to be. The rows of regions are (T, cells, p).

    Examples
    --------
    >>> from sysbags.bags import OpticalFlow
    >>> clip = np.random.default_rng(0).integers(0, 256, size=(5, 48, 64), dtype=np.uint8)
    >>> live = LiveBag(OpticalFlow())
    >>> rows = [live.update(clip[:1]), live.update(clip[1:2]), live.update(clip[2:])]
    >>> [len(part) for part in rows]
    [0, 1, 3]
    >>> np.array_equal(np.vstack(rows[1:]), OpticalFlow().stream(clip))
    True
    """

    def __init__(self, bag: BagTransformer | Regions) -> None:
        if type(bag).masses is BagTransformer.masses:
            raise ParameterError(
                f"{type(bag).__name__} needs a finished video, but this one is live: use another bag, for "
                "instance LocalBinaryPatterns"
            )
        self._inbox: Inbox = SimpleQueue()
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = Thread(target=_describe, args=(bag, self._inbox, self._outbox), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._inbox.put, None)

    def update(self, frames: Iterable[Frame]) -> Array:
        """Add frames and return the rows that are complete now, (T, p); (0, 0) before there are any."""
        if self._failure is None:
            self._inbox.put(frames)
            rows = self._outbox.get()
            if not isinstance(rows, BaseException):
                return rows  # type: ignore[no-any-return]
            self._failure = rows
        raise self._failure


def _describe(bag: BagTransformer | Regions, inbox: Inbox, outbox: SimpleQueue[Any]) -> None:
    """Answer each bunch of frames with the rows that end within it, or with the error that it gives."""
    pooling = Pooling(bag.window, bag.step)
    shape: tuple[int, ...] = (0,)

    def answer() -> None:
        rows = np.frombuffer(bytes(pooling.rows))
        outbox.put(rows.reshape(-1, *shape) if rows.size else np.empty((0, *shape)))
        pooling.rows.clear()

    def arriving() -> Iterator[Frame]:
        while (frames := inbox.get()) is not None:
            yield from frames
            answer()  # the bag asks for a frame that is not there yet: all rows so far are complete
        inbox.put(None)  # for the loop below

    try:
        for row in bag.masses(bag.read(arriving())):
            shape = row.shape
            pooling.add(row)
        # The bag wants no more frames, for instance by its option `stop`.
        answer()
        while inbox.get() is not None:
            answer()
    except BaseException as error:
        outbox.put(error)
