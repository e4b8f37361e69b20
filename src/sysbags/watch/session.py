"""Watch a video from its frames to its events: bags, regions, gaps, clips, checkpoints."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.files import check_folder
from sysbags._common.parallel import ONE_BLAS_THREAD
from sysbags._common.types import Array
from sysbags._common.validation import check_positive
from sysbags.bags.base import BagTransformer
from sysbags.bags.regions import Regions
from sysbags.bags.streams import LiveBag
from sysbags.bags.union import BagUnion
from sysbags.errors import FileError, ParameterError, StreamError, SysbagsError
from sysbags.storage import load_values, save_values
from sysbags.video import (
    Frame,
    LiveFrame,
    LiveVideo,
    Position,
    collect_warnings,
    container_facts,
    open_live,
    usual_rate,
    without_password,
)
from sysbags.watch.alarms import Event, Joint, Verdict
from sysbags.watch.checkpoint import Normal, pack, save_normal, unpack
from sysbags.watch.learning import Described, Unit
from sysbags.watch.recording import MARGIN, EventTable, Recorder, event_record
from sysbags.watch.watcher import DAY, Learnt, Watcher

NORMAL_OPTIONS = ("learn", "length", "step", "order", "kernel")  # of a file of what is normal
OF_THE_END = ("end", "duration")  # what is known when an event has ended
MEASURED = 25  # intervals between frames, from which the rate of a video is measured
# Seconds from which regions should learn: less gave more false alarms than asked for, see docs/watch.md.
# Without following slow changes, 750 seconds were too few, and an hour is a guess.
ENOUGH, ENOUGH_WITHOUT_ADAPT = 600.0, 3600.0
TOLERANCE = 0.01  # relative, between the rate of a video and that of what was learnt

Report = Callable[[dict[str, Any]], None]


class Placed(NamedTuple):
    """A frame, and the positions of the video before and after it."""

    frame: LiveFrame
    before: Position
    after: Position


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a session writes; by default nothing."""

    events: Path | None = None  # a table of the events, one row for each
    clips: Path | None = None  # a folder for clips of the events
    learnt: Path | None = None  # a file for what is learnt, see `load_normal`
    # All that is needed to continue. If it exists, the session continues; it is removed at the end of a file.
    checkpoint: Path | None = None
    checkpoint_every: float = 30.0  # seconds; there is one at each event too
    windows: bool = False  # whether each window is reported

    def __post_init__(self) -> None:
        check_positive(self.checkpoint_every, "checkpoint_every")


@dataclass(frozen=True, kw_only=True)
class WatcherOptions:
    """How normal is learnt, and windows are judged: see `Watcher`; `length` and `step` count bags."""

    learn: float = 600.0
    false_alarms: float = 1 / DAY
    length: int = 100
    step: int = 10
    order: int = 5
    kernel: str = "chi2"
    adapt: float | None = None


class Session:
    """Watch one video, stored or live, and report events as plain dicts.

    Parameters
    ----------
    source : str or path
        See `open_live`.
    bag : bag, BagUnion or Regions
        Each region and each bag of a union has a watcher of its own, and the rate of false alarms is divided
        among them. Events that several bags find at the same time are one.
    outputs : Outputs, optional
        What is written.
    normal : Normal, optional
        What was learnt before: then nothing is learnt, and its bag, size and options are used.
    rate : float, optional
        Frames per second; by default all frames, at the rate that a video file states, or that is measured.
    size : int, optional
        The short side of the frames, in pixels.
    live : mapping, optional
        Options of `open_live`.
    now : callable, optional
        The time of day, in seconds since 1970.
    **options
        Those of `WatcherOptions`: learn, false_alarms, length, step, order, kernel and adapt.

    Examples
    --------
    >>> import tempfile
    >>> from sysbags.bags import LocalBinaryPatterns
    >>> from sysbags.datasets import WatchedEvent, make_watching
    >>> from sysbags.video import write_video
    >>> video = make_watching("wheel", 70.0, events=[WatchedEvent(60.0, 70.0, "covered", 1.0)])
    >>> path = Path(tempfile.mkdtemp()) / "wheel.mp4"
    >>> _ = write_video(path, video.frames(), video.rate)
    >>> records = []
    >>> bag = LocalBinaryPatterns()
    >>> Session(path, bag, learn=45.0, false_alarms=1 / 3600, length=20, step=5).run(records.append)
    >>> [record["type"] for record in records]
    ['start', 'learnt', 'event_start', 'event', 'end']
    >>> 60 <= records[2]["start"] < 64
    True
    """

    unit = "frames"

    def __init__(
        self,
        source: str | os.PathLike[str],
        bag: BagTransformer | BagUnion | Regions,
        *,
        outputs: Outputs | None = None,
        normal: Normal | None = None,
        rate: float | None = None,
        size: int | None = None,
        live: Mapping[str, Any] | None = None,
        now: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        if normal is not None:
            bag, size, options = normal.bag, normal.size, {**options, **normal.options}
        self.bag, self.normal, self.outputs, self.now = bag, normal, outputs or Outputs(), now
        self.names = bag.names if isinstance(bag, Regions) else [""]
        single = bag.bag if isinstance(bag, Regions) else bag
        described = Described.by(bag)
        self._bags, self._units, self._period = described.bags, described.units, described.period
        self._live = self._live_bags()
        asked = WatcherOptions(**options)
        each = check_positive(asked.false_alarms, "false_alarms") / len(self._units)
        self.options = replace(asked, false_alarms=each)
        table = self.outputs.events
        self.settings: dict[str, Any] = {
            "input": without_password(os.fspath(source)),
            "bag": " ".join(str(single).split()),
            "regions": self.names,
            "events": None if table is None else os.fspath(table),
            "size": size,
            "rate": rate,
            **asdict(asked),
        }
        # Numbers so far; with a checkpoint, those of the sessions before are counted too.
        self.frames = self.events = self._skipped = 0
        self._rows = [0 for _ in self._bags]
        self._repeated = [0 for _ in self._bags]  # rows that come again when a session continues
        self.progress = 0.0  # the share of the time to learn that is over
        self.surprise = 0.0  # of the last window; the largest among the regions
        self.picture: Frame | None = None  # the last one
        self._rate = 0.0  # of the frames; 0 before it is known
        self._began: float | None = None  # the time of day of the first frame of a live video
        self._watchers: list[Watcher | None] = []  # of each unit
        self._joint = {name: Joint() for name in self.names}
        self._open: dict[str, float] = {}  # the starts of events that have been reported, by regions
        self._positions: deque[Position] = deque()  # of frames whose bags are not complete
        self._next = Position()
        self._table_length: int | None = None
        if self.outputs.clips is not None:
            check_folder(self.outputs.clips)
        if self.outputs.checkpoint is not None and self.outputs.checkpoint.exists():
            self._continue(self.outputs.checkpoint)
        self._fixed_rate = rate
        self.video = self._opened(
            source,
            colour=described.colour,
            rate=rate,
            size=size,
            start=self._next if self.outputs.clips is None else self._rewound(Path(source), self._next),
            on_event=self._heard,
            **(live or {}),
        )
        self._table: EventTable | None = None
        self._recorder: Recorder | None = None
        self.failures: list[str] = []  # what could not be written, and why
        self._is_stopped = self._is_due = False  # to end, and to write a checkpoint
        self._saved = time.monotonic()

    def _opened(self, source: str | os.PathLike[str], **options: Any) -> LiveVideo:
        """Return the video; a session of other data has its own."""
        return open_live(source, **options)

    def _live_bags(self) -> list[LiveBag]:
        """Return what makes rows of frames."""
        return [LiveBag(bag) for bag in self._bags]

    @property
    def skipped(self) -> int:
        """Number of frames that were skipped, as they were not taken fast enough."""
        return self._skipped + self.video.skipped

    @property
    def open_events(self) -> list[str]:
        """The regions that have an event now."""
        return list(self._open)

    @property
    def thresholds(self) -> dict[tuple[str | None, str | None], float]:
        """The surprise from which a window is an event, by regions and bags that are watched."""
        return {
            (unit.region or None, unit.bag or None): watcher.threshold.high
            for unit, watcher in zip(self._units, self._watchers, strict=False)
            if watcher is not None and watcher.threshold is not None
        }

    @property
    def is_learning(self) -> bool:
        """Whether no region is watched yet."""
        return all(watcher is None or watcher.learnt is None for watcher in self._watchers)

    def stop(self) -> None:
        """End the session soon; this may be called by the handler of a signal."""
        self._is_stopped = True
        self.video.stop()

    def run(self, report: Report) -> None:
        """Watch the video until it ends or `stop` is called.

        `report` is called with dicts for JSON. Their "type" is "start", "learnt", "window", "event_start",
        "event", "gap", "connected", "reconnect", "waiting", "skipped", "note" or "end".
        """
        self._report = report
        with ExitStack() as stack:
            texts = stack.enter_context(collect_warnings())
            stack.enter_context(ONE_BLAS_THREAD)
            stack.enter_context(self.video)
            path = self.outputs.events
            if path is not None:
                # A pipe brings other data each time, a file or a folder the same again.
                is_stored = os.path.exists(self.settings["input"]) and not self.video.is_live
                self._table = EventTable(path, self._table_length, may_append=not is_stored)
                stack.callback(self._table.close)
            regions = self.names if isinstance(self.bag, Regions) else []
            report({"type": "start", "input": self.video.name, "regions": regions})
            enough = ENOUGH if self.options.adapt else ENOUGH_WITHOUT_ADAPT
            if regions and self.options.learn < enough:
                report({"type": "note", "text": self._short_learning()})
            if self._rate:
                self._begin()
            failure: SysbagsError | None = None
            try:
                for batch in self._batches():
                    self._take(batch)
                    while texts:
                        report({"type": "note", "text": texts.pop(0)})
                    # After all regions have been judged, so that a checkpoint has them at the same frame.
                    if self._is_due or time.monotonic() - self._saved >= self.outputs.checkpoint_every:
                        self._save()
            except SysbagsError as error:
                if self.is_learning:
                    raise
                failure = error  # events that have begun are ended first
            for text in texts:
                report({"type": "note", "text": text})
            # Before open events are ended: they go on if the session is continued.
            self._save()
            for unit, watcher in zip(self._units, self._watchers, strict=False):
                for event in [] if watcher is None else self._joined(unit, watcher.finish(), None):
                    self._end(unit.region, event)
            report(self._summary(failure))
            if failure is not None:
                raise failure
            checkpoint = self.outputs.checkpoint
            if checkpoint is not None and not self._is_stopped and Path(self.video.source).is_file():
                checkpoint.unlink(missing_ok=True)

    def _short_learning(self) -> str:
        how = "" if self.options.adapt else " without --adapt"
        return (
            f"regions are learnt from {self.options.learn:g} s{how}: if light or weather change slowly, "
            f"there will be more false alarms than asked for; use --adapt, and --learn {ENOUGH:g}s or more"
        )

    def _batches(self) -> Iterator[list[Placed]]:
        """Yield frames without a gap among them, as many at a time as there are from window to window."""
        batch: list[Placed] = []
        for placed in self._timed():
            if batch and placed.frame.is_gap:
                yield batch
                batch = []
            batch.append(placed)
            if len(batch) == self._period * self.options.step:
                yield batch
                batch = []
        if batch:
            yield batch

    def _timed(self) -> Iterator[Placed]:
        """Yield frames once their rate is known."""
        waiting: list[Placed] = []
        before = self.video.position
        for frame in self.video:
            after = self.video.position
            if frame.index < self._next.index and self._recorder is not None:
                self._recorder.add(frame)  # it has been watched before
            else:
                waiting.append(Placed(frame, before, after))
            before = after
            if not self._rate and len(waiting) <= MEASURED and self._fixed_rate is None:
                continue
            if not self._rate:
                self._measure([placed.frame for placed in waiting])
            yield from waiting
            waiting.clear()
        if waiting:
            self._measure([placed.frame for placed in waiting])
            yield from waiting

    def _measure(self, frames: Sequence[LiveFrame]) -> None:
        path = Path(self.video.source)
        stated = container_facts(path)["frames_per_second"] if path.is_file() else None
        self._rate = self._fixed_rate or usual_rate(frames, stated)
        if self.video.is_live:
            self._began = self.now() - frames[-1].time
        normal = self.normal
        if normal is not None and abs(self._rate / normal.rate - 1.0) > TOLERANCE:
            raise ParameterError(
                f"{self.video.name} is read at {self._rate:g} frames per second, but normal was learnt at "
                f"{normal.rate:g}: use --rate {normal.rate:g}"
            )
        learnt: Sequence[Learnt | None] = [None] * len(self._units) if normal is None else normal.learnt
        self._watchers = [
            None
            if normal is not None and one is None
            else Watcher(rate=self._rate / self._period, learnt=one, **asdict(self.options))
            for one in learnt
        ]
        self._begin()
        for unit, watcher in zip(self._units, self._watchers, strict=True):
            if watcher is not None and watcher.learnt is not None:
                self._report(self._about(unit, watcher))

    def _begin(self) -> None:
        """Prepare what needs the rate."""
        if self.outputs.clips is not None:
            self._recorder = Recorder(self.outputs.clips, self._rate, self._delay())
            for name, start in self._open.items():
                self._recorder.begin(name, start)

    def _delay(self) -> float:
        """Return how long after its start an event is found, in seconds, at most."""
        return 2.0 * (self.options.length + self.options.step) * self._period / self._rate

    def _rewound(self, source: Path, position: Position) -> Position:
        """Return where to read from, so that clips have the seconds before a session that continues.

        Only files, and the segment of a folder that was being read, can be read again.
        """
        if not self._rate or not (source / position.segment).is_file():
            return position
        first = min([position.time - self._delay(), *self._open.values()]) - MARGIN
        back = min(position.frame, math.ceil((position.time - first) * self._rate))
        return replace(position, index=position.index - back, frame=position.frame - back)

    def _take(self, batch: list[Placed]) -> None:
        """Describe frames, and judge the windows that are complete with them."""
        if batch[0].frame.is_gap and self.frames:
            self._gap(batch[0].frame.time)
        self.frames += len(batch)
        self._positions.extend(placed.before for placed in batch)
        self._next = batch[-1].after
        if self._recorder is not None:
            for placed in batch:
                self._recorder.add(placed.frame)
        pictures = [placed.frame.picture for placed in batch]
        self.picture = pictures[-1] if pictures[-1].ndim > 1 else None
        complete, verdicts = min(self._rows), []
        described: list[Array] = [np.empty(0) for _ in self._bags]
        for place, live in enumerate(self._live):
            rows = live.update(pictures)
            again = min(self._repeated[place], len(rows))
            self._repeated[place] -= again
            self._rows[place] += len(rows) - again
            described[place] = rows[again:]
        for k, unit in enumerate(self._units):
            if len(described[unit.place]):
                verdicts += self._judge(k, unit.rows(described))
        for _ in range(min(self._period * (min(self._rows) - complete), len(self._positions))):
            self._positions.popleft()
        self.progress = min(1.0, self._seconds / self.options.learn)
        if verdicts:
            self.surprise = max(verdict.surprise for verdict in verdicts)

    @property
    def _seconds(self) -> float:
        """The time that all bags have described."""
        return min(self._rows) * self._period / self._rate if self._rate else 0.0

    def _judge(self, k: int, rows: Array) -> list[Verdict]:
        """Add rows to the watcher of a region and a bag, and report what it finds."""
        watcher, unit = self._watchers[k], self._units[k]
        name, title = unit.region, unit.bag
        if watcher is None:
            return []
        was_learning = watcher.learnt is None
        try:
            verdicts, events = watcher.update(rows)
        except StreamError as error:
            self._watchers[k] = None
            if not any(self._watchers):
                raise
            what = " by ".join(filter(None, [name, title]))
            self._report({"type": "note", "text": f"{what} is not watched: {error}"})
            return []
        if self.outputs.windows:
            for verdict in verdicts:
                self._report(
                    {"type": "window", "region": name or None, "bag": title or None, **asdict(verdict)}
                )
        for event in self._joined(unit, events, watcher.event):
            self._end(name, event)
        if was_learning and watcher.learnt is not None:
            self._report(self._about(unit, watcher))
            path = self.outputs.learnt
            if path is not None and not any(one and one.learnt is None for one in self._watchers):
                self._attempt(self.save_normal, path)
            self._is_due = True
        found = self._joint[name].event
        if found is not None and name not in self._open:
            self._open[name] = found.start
            if self._recorder is not None:
                self._recorder.begin(name, found.start)
            facts = event_record(found, self._began)
            known = {key: value for key, value in facts.items() if key not in OF_THE_END}
            self._report({"type": "event_start", "region": name or None, **known})
            self._is_due = True
        return verdicts

    def _joined(self, unit: Unit, ended: list[Event], event: Event | None) -> list[Event]:
        """Return the events of a region that have ended for all bags."""

        def named(one: Event) -> Event:
            return replace(one, bag=unit.bag, per_day=one.per_day * len(self._units))

        now = None if event is None else named(event)
        return self._joint[unit.region].update(unit.bag, [*map(named, ended)], now)

    def _end(self, name: str, event: Event) -> None:
        """Report an event that has ended, and write its row and its clip."""
        self._open.pop(name, None)
        self.events += 1
        self._is_due = True
        record: dict[str, Any] = {"region": name or None, "clip": None, **event_record(event, self._began)}
        if self._recorder is not None:
            moment = (record["start_utc"] or f"{event.start:09.1f}s").replace(":", "")
            file = "-".join(["event", moment, *name.replace(",", "").split()]) + ".mp4"
            record["clip"] = self._attempt(self._recorder.end, name, event.end, file)
        if self._table is not None:
            self._table.add(record)
        self._report({"type": "event", **record})

    def _attempt(self, write: Callable[..., Any], *arguments: Any) -> str | None:
        """Write a file, and return its path as text; if it fails, say so, keep it in `failures` and go on."""
        try:
            path = write(*arguments)
        except (SysbagsError, OSError) as error:
            self._report({"type": "note", "text": str(error)})
            self.failures.append(str(error))
            return None
        return None if path is None else str(path)

    def _gap(self, moment: float) -> None:
        """Begin new windows, because frames are missing before a time."""
        first = round(moment * self._rate / self._period)
        missing = [max(0, first - rows) for rows in self._rows]
        for unit, watcher in zip(self._units, self._watchers, strict=True):
            if watcher is not None:
                watcher.gap(missing[unit.place])
        self._rows = [rows + more for rows, more in zip(self._rows, missing, strict=True)]
        self._repeated = [0 for _ in self._bags]
        self._positions.clear()
        self._live = self._live_bags()
        self._report({"type": "gap", "time": moment, "seconds": max(missing) * self._period / self._rate})

    def _heard(self, name: str, details: dict[str, Any]) -> None:
        """Report what the video says of its connection."""
        self._report({"type": "reconnect" if name == "lost" else name, **details})

    def _about(self, unit: Unit, watcher: Watcher) -> dict[str, Any]:
        """Return what is known of the alarms of a region, by a bag, when it has learnt."""
        assert watcher.observed is not None
        seen = watcher.observed
        low, high = seen.interval
        return {
            "type": "learnt",
            "region": unit.region or None,
            "bag": unit.bag or None,
            "learn_seconds": self.options.learn,
            "asked_per_day": DAY * self.options.false_alarms * len(self._units),
            "share_per_day": DAY * self.options.false_alarms,
            "observed_per_day": DAY * seen.events / seen.seconds,
            "observed_low_per_day": DAY * low,
            "observed_high_per_day": DAY * high,
            "observed_events": seen.events,
            "observed_seconds": seen.seconds,
            "promised_per_day": DAY * seen.promised,
        }

    def _summary(self, failure: SysbagsError | None) -> dict[str, Any]:
        watching = [watcher for watcher in self._watchers if watcher is not None]
        reason = "stopped" if self._is_stopped else "end of the input" if failure is None else "failed"
        return {
            "type": "end",
            "reason": reason,
            # A bag may compare a frame with later ones: the last frames have no row.
            "seconds": self._seconds + len(self._positions) / (self._rate or 1.0),
            "frames": self.frames,
            "unit": self.unit,
            "skipped": self.skipped,
            "reconnections": self.video.reconnections,
            "events": self.events,
            "has_learnt": bool(watching) and not self.is_learning,
            "drift": max((watcher.drift for watcher in watching), default=0.0),
        }

    def save_normal(self, path: Path) -> None:
        """Write what was learnt, and how, to a file for `load_normal`."""
        options = {name: getattr(self.options, name) for name in NORMAL_OPTIONS}
        learnt = [None if watcher is None else watcher.learnt for watcher in self._watchers]
        save_normal(path, Normal(self.bag, self._rate, self.settings["size"], options, learnt))

    def _save(self) -> None:
        """Write a checkpoint."""
        self._saved, self._is_due = time.monotonic(), False
        if self.outputs.checkpoint is not None and self._rate:
            self._attempt(save_values, self.outputs.checkpoint, "Checkpoint", self._state())

    def _state(self) -> dict[str, Any]:
        """Return all that is needed to continue."""
        position = self._positions[0] if self._positions else self._next
        return {
            "settings": self.settings,
            "position": asdict(position),
            "frames": self.frames - len(self._positions),
            "rows": self._rows,
            "rate": self._rate,
            "began": self._began,
            "events": self.events,
            "open": self._open,
            "skipped": self.skipped,
            "table_length": None if self._table is None else self._table.length,
            "watchers": pack([self._watchers, list(self._joint.values())]),
        }

    def _continue(self, path: Path) -> None:
        """Read a checkpoint."""
        state = load_values(path, "Checkpoint")
        try:
            for name, value in self.settings.items():
                if state["settings"].get(name) != value:
                    raise FileError(
                        f"{path} is a checkpoint of another session: its {name} is "
                        f"{state['settings'].get(name)!r}, not {value!r}; use the same options, or remove it"
                    )
            self._next = Position(**state["position"])
            self.frames, self._rows, self._rate = state["frames"], list(state["rows"]), state["rate"]
            self._repeated = [rows - min(self._rows) for rows in self._rows]
            self.events, self._skipped, self._began = state["events"], state["skipped"], state["began"]
            self._open, self._table_length = state["open"], state["table_length"]
            if self._began is not None:  # the times of a live video go on by the time of day
                self._next = replace(self._next, time=max(self._next.time, self.now() - self._began))
            self._watchers, joint = unpack(state["watchers"])
            self._joint = dict(zip(self.names, joint, strict=True))
        except FileError:
            raise
        except Exception as error:  # a damaged or malicious file may raise any exception
            raise FileError(f"{path} is not a valid checkpoint: remove it ({error!r})") from error
