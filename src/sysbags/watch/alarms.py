"""Events: unusual windows that follow each other, merged, and lasting changes.

A jump is a window that is very unusual. A lasting change is found by the evidence of many windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is known of a window.

    Attributes
    ----------
    start, stop : float
        Times of the window, in seconds.
    new : float
        Time from which on its rows are not in the window before.
    kind : {"learning", "normal", "change", "still"}
    surprise : float
        ``-log10`` of the combined p-value; 0 while learning.
    p_value : float
        The conformal p-value, which needs no assumption but that normal windows stay as they were.
    part : str
        What is most unusual: "transition", "observer" or "mean"; empty if the window has no system.
    p_values : mapping
        Of the single scores, see `sysbags.watch.normal.SCORES`.
    evidence : float
        The evidence of a lasting change, divided by what an event needs: 1 or more begins one.
    changed : float
        When this evidence began, in seconds.

    Examples
    --------
    >>> Verdict(start=4.0, stop=14.0, new=13.0, kind="change", surprise=5.2, part="transition").p_values
    {}
    """

    start: float
    stop: float
    new: float
    kind: str = "normal"
    surprise: float = 0.0
    p_value: float = 1.0
    part: str = ""
    p_values: Mapping[str, float] = field(default_factory=dict)
    evidence: float = 0.0
    changed: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Event:
    """A departure from the normal process.

    Attributes
    ----------
    start, end : float
        In seconds: from the newest rows of the first unusual window to the oldest ones of the last. Of a
        lasting change, from where its evidence began.
    peak : float
        The time of the most unusual window.
    kind : str
        "change", or why windows have no system.
    surprise, p_value, part
        Of the most unusual window, see `Verdict`.
    per_day : float
        How often normal windows give an event as unusual as this, per day.
    rule : {"jump", "lasting"}
        Whether one window was unusual enough, or the evidence of several.
    found : float
        When it was found: the end of the first window after which it was sure enough.
    evidence : float
        The largest evidence of a lasting change, see `Verdict`.
    bag : str
        The name of the bag by which it is most unusual, where there are several.
    extrapolated : bool
        Whether no normal window was as unusual, so that `per_day` is a guess and the p-value a bound.

    Examples
    --------
    >>> event = Event(start=5.0, end=9.0, peak=6.0, kind="still", surprise=9.0, p_value=0.01, part="")
    >>> event.end - event.start, event.per_day
    (4.0, 0.0)
    """

    start: float
    end: float
    peak: float
    kind: str
    surprise: float
    p_value: float
    part: str
    per_day: float = 0.0
    rule: str = "jump"
    found: float = 0.0
    evidence: float = 0.0
    extrapolated: bool = False
    bag: str = ""


class Alarm:
    """Merge unusual windows into events, with hysteresis.

    An event begins with a window whose surprise is above `high`. It starts where this run of windows above
    `low` began, but not before that window, and ends when `patience` windows in a row are below `low`: at
    least as many as have a row in common, as what is unusual is in all of these. Windows of another kind,
    such as still ones, begin an event of their own. Evidence of 1 begins an event, too, at the time where it
    began, and `lasting` is to evidence what `low` is to surprise.

    Examples
    --------
    >>> alarm = Alarm(high=3.0, low=2.0, patience=2)
    >>> for t, surprise in enumerate([0.0, 2.5, 4.0, 1.0, 2.2, 0.0, 0.0]):
    ...     ended = alarm.update(Verdict(start=t - 4.0, stop=t + 1.0, new=float(t), surprise=surprise))
    ...     for event in ended:
    ...         print(event.start, event.end, event.peak, event.surprise)
    1.0 3.0 2.0 4.0
    """

    def __init__(self, high: float, low: float, patience: int, lasting: float = 0.1) -> None:
        self.high, self.low, self.patience, self.lasting = high, low, patience, lasting
        self.event: Event | None = None  # the one that has not ended
        self.quiet = 0  # windows below `low` since the last above
        self.began: float | None = None  # where the run of windows above `low` began

    def update(self, verdict: Verdict) -> list[Event]:
        """Add the next window, and return the events that have ended, at most one."""
        kind = verdict.kind if verdict.kind not in ("normal", "learning") else "change"
        ended = []
        if self.event is not None and kind != self.event.kind and verdict.surprise >= self.high:
            ended = self.finish()
        is_unusual = verdict.surprise >= self.low or verdict.evidence >= self.lasting
        if is_unusual:
            self.quiet = 0
            if verdict.surprise >= self.low:
                self.began = verdict.new if self.began is None else self.began
        else:
            self.quiet += 1
            if self.quiet >= self.patience:
                ended += self.finish()
        if self.event is not None and is_unusual:
            unusual = self.event
            if verdict.surprise > unusual.surprise:
                unusual = self._peak(verdict, kind)
            end = max(verdict.start, self.event.end, unusual.peak)
            evidence = max(self.event.evidence, verdict.evidence)
            self.event = replace(unusual, end=end, evidence=evidence)
        elif self.event is None and (verdict.surprise >= self.high or verdict.evidence >= 1.0):
            self.event = self._peak(verdict, kind)
        return ended

    def finish(self) -> list[Event]:
        """End the event, as at the end of the video, and return it."""
        event, self.event, self.began, self.quiet = self.event, None, None, 0
        return [] if event is None else [event]

    def _peak(self, verdict: Verdict, kind: str) -> Event:
        """Return the event with this window as its peak."""
        event = Event(
            start=verdict.new if self.began is None else max(self.began, verdict.start),
            end=verdict.stop,
            peak=verdict.new,
            kind=kind,
            surprise=verdict.surprise,
            p_value=verdict.p_value,
            part=verdict.part,
            found=verdict.stop,
            evidence=verdict.evidence,
        )
        if self.event is not None:
            return replace(event, start=self.event.start, rule=self.event.rule, found=self.event.found)
        if verdict.surprise < self.high:
            return replace(event, start=verdict.changed, rule="lasting")
        return event


class Joint:
    """Join events that several watchers of the same picture find at the same time.

    Examples
    --------
    >>> common = {"kind": "change", "surprise": 4.0, "p_value": 0.1, "part": "mean"}
    >>> first = Event(start=5.0, end=9.0, peak=6.0, per_day=0.5, bag="lbp", **common)
    >>> second = Event(start=4.0, end=12.0, peak=8.0, per_day=0.2, bag="flow", **common)
    >>> joint = Joint()
    >>> joint.update("flow", [], second), joint.update("lbp", [first], None)
    ([], [])
    >>> (event,) = joint.update("flow", [second], None)
    >>> event.start, event.end, event.bag
    (4.0, 12.0, 'flow')
    """

    def __init__(self) -> None:
        self.open: list[Event] = []  # those that have not ended, at most one of each watcher
        self.ended: list[Event] = []  # those that wait for others

    @property
    def event(self) -> Event | None:
        """The event that has not ended."""
        return joined([*self.ended, *self.open]) if self.open else None

    def update(self, bag: str, ended: list[Event], event: Event | None) -> list[Event]:
        """Add what the watcher of a bag has found, and return the events that have ended for all."""
        self.open = [one for one in self.open if one.bag != bag]
        self.ended += ended
        if event is not None:
            self.open.append(event)
        # A watcher may end an event and begin the next one: these are two.
        if not self.ended or any(one.bag != other.bag for one in self.ended for other in self.open):
            return []
        found, self.ended = self.ended, []
        return found if len({one.bag for one in found}) == 1 else [joined(found)]


def joined(events: list[Event]) -> Event:
    """Return events as one: the rarest of them, from the first start to the last end."""
    first = min(events, key=lambda event: event.found)
    return replace(
        min(events, key=lambda event: event.per_day),
        start=min(event.start for event in events),
        end=max(event.end for event in events),
        found=first.found,
        rule=first.rule,
    )
