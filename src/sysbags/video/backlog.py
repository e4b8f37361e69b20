"""Frames that wait between the thread that decodes a live video and the thread that uses them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from threading import Condition, Thread
from typing import Any

from sysbags.video.timing import LiveFrame

MOST_BYTES = 2**29  # of frames that wait

Event = tuple[str, dict[str, Any]]
Listener = Callable[[str, dict[str, Any]], None]
Frames = Generator[LiveFrame, None, None]


class Backlog:
    """Takes frames from a generator in a thread, and gives them to another thread in time.

    If the frames that wait are longer than `seconds`, all of them are skipped and counted, or, unless
    `may_skip`, the source has to wait. `on_event` is called by the thread that takes the frames; `wake`
    must be called when `is_stopped` changes, which ends the iteration.
    """

    def __init__(
        self,
        source: Frames,
        seconds: float,
        may_skip: bool,
        on_event: Listener,
        is_stopped: Callable[[], bool],
    ) -> None:
        self.seconds, self.may_skip, self.skipped = seconds, may_skip, 0
        self._source, self._on_event, self._is_stopped = source, on_event, is_stopped
        self._waiting: deque[LiveFrame | Event] = deque()
        self._moments: deque[float] = deque()  # of the frames that wait: their times without gaps
        self._moment = self._time = 0.0  # of the last frame
        self._failure: Exception | None = None
        self._has_ended = False
        self._changed = Condition()  # with an RLock, so that the handler of a signal may call `wake`
        run = partial(copy_context().run, self._run)  # so that warnings can be collected
        self._thread = Thread(target=run, name="live video", daemon=True)

    def frames(self) -> Frames:
        """Start the thread, and yield the frames; raise what the source raises."""
        self._thread.start()
        while not self._is_stopped():
            with self._changed:
                while not (self._waiting or self._has_ended or self._is_stopped()):
                    self._changed.wait()
                if not self._waiting:
                    break
                item = self._waiting.popleft()
                if isinstance(item, LiveFrame):
                    self._moments.popleft()
                    self._changed.notify_all()
            if isinstance(item, LiveFrame):
                yield item
            else:
                self._on_event(*item)
        if self._failure is not None:
            raise self._failure

    def notify(self, name: str, details: dict[str, Any]) -> None:
        """Add an event for the thread that takes the frames, after the frames so far."""
        with self._changed:
            self._waiting.append((name, details))
            self._changed.notify_all()

    def wake(self) -> None:
        """Make both threads notice that they must stop."""
        with self._changed:
            self._changed.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds, or until the iteration is stopped."""
        with self._changed:
            self._changed.wait_for(self._is_stopped, seconds)

    def join(self, timeout: float) -> None:
        """Wait for the end of the thread."""
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            for frame in self._source:
                self._put(frame)
        except Exception as error:  # raised by the thread that takes the frames
            self._failure = error
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _put(self, frame: LiveFrame) -> None:
        with self._changed:
            self._moment += 0.0 if frame.is_gap else frame.time - self._time
            self._time = frame.time
            if self._is_full(frame) and self.may_skip:
                events = [item for item in self._waiting if not isinstance(item, LiveFrame)]
                self.skipped += len(self._moments)
                self._waiting = deque([*events, ("skipped", {"frames": len(self._moments)})])
                self._moments.clear()
                frame = replace(frame, is_gap=True)
            while self._is_full(frame) and not self._is_stopped():
                self._changed.wait()
            self._waiting.append(frame)
            self._moments.append(self._moment)
            self._changed.notify_all()

    def _is_full(self, frame: LiveFrame) -> bool:
        count = len(self._moments)
        is_long = count > 0 and self._moment - self._moments[0] >= self.seconds
        return is_long or count * frame.picture.nbytes > MOST_BYTES
