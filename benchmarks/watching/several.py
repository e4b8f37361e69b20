"""Watch the streams of a video by several bags, as a session does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sysbags._common.types import Array
from sysbags.watch import Event, Verdict, Watcher
from sysbags.watch.alarms import Joint

__all__ = ["watch_streams"]


def watch_streams(
    streams: Sequence[Array], *, false_alarms: float, step: int, **options: Any
) -> tuple[list[list[Verdict]], list[Event]]:
    """Return the verdicts of each bag, and the events of all; options are those of `Watcher`."""
    each = false_alarms / len(streams)
    watchers = [Watcher(false_alarms=each, step=step, **options) for _ in streams]
    joint, events = Joint(), []
    verdicts: list[list[Verdict]] = [[] for _ in streams]

    def join(bag: str, ended: list[Event], event: Event | None) -> list[Event]:
        now = None if event is None else replace(event, bag=bag)
        return joint.update(bag, [replace(one, bag=bag) for one in ended], now)

    for first in range(0, min(map(len, streams)), step):
        for k, (watcher, stream) in enumerate(zip(watchers, streams, strict=True)):
            judged, ended = watcher.update(stream[first : first + step])
            verdicts[k] += judged
            events += join(str(k), ended, watcher.event)
    for k, watcher in enumerate(watchers):
        events += join(str(k), watcher.finish(), None)
    return verdicts, events
