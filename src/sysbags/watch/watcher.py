"""Watch a stream: learn what is normal from its first part, then report departures from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sysbags._common.parallel import ONE_BLAS_THREAD
from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import check_integer, check_positive
from sysbags.errors import ParameterError, StreamError
from sysbags.watch.alarms import Alarm, Event, Verdict
from sysbags.watch.calibration import (
    Level,
    Tails,
    Threshold,
    clusters,
    combine_p_values,
    conformal_p_values,
    fit_tails,
    tail_p_values,
    threshold_for_rate,
)
from sysbags.watch.evidence import Evidence, needed_evidence, poisson_interval
from sysbags.watch.normal import PARTS, SCORES, NormalProcess, Scorer, fit_normal, squared_norms
from sysbags.watch.windows import Window, Windows

REFERENCES = 60  # normal windows that others are compared with
SMALLEST = 10  # windows that share no row, in each half of the time to learn
MERGED = 2  # windows that share no row, between two events
DAY = 86400.0
LARGEST = 300.0  # surprise, of a kind of window that was never seen while learning
MEMORY = 12.0  # half of the normal windows are replaced after so many times the time of following
# Of uniform p-values the surprise, -log10 p, has the scale 1 / log(10) = 0.43. It counts as two peaks: after
# a few minutes of learning, more gave more false alarms than asked for.
PRIOR = 2, 0.5
RULES = 2  # jumps and lasting changes: each has half of the false alarms
FOLDS = 5  # parts of the normal windows, each of which is judged by the others
# A window also differs from the one before when an event has ended, so this alone is no reason for an alarm.
COMBINED = [s for s, name in enumerate(SCORES) if not name.startswith("previous")]
GROUPS = {part: [s for s in COMBINED if SCORES[s].endswith(part)] for part in PARTS}
GROUPS["transition"] += [s for s in COMBINED if SCORES[s].startswith("spectrum")]


class Learnt(NamedTuple):
    """What a watcher has learnt of the normal process."""

    process: NormalProcess
    # (n, 11 + a), scores and levels of normal windows that took no part in the process, in the order of time.
    scores: Array
    failures: int  # number of such windows without a system


class Rate(NamedTuple):
    """False alarms in so many seconds of normal windows that took no part in the choice of the threshold.

    Examples
    --------
    >>> seen = Rate(0, 3600.0)
    >>> [round(3600.0 * rate, 2) for rate in (*seen.interval, seen.promised)]  # per hour
    [0.0, 3.69, 3.69]
    """

    events: int
    seconds: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate, per second."""
        return poisson_interval(self.events, self.seconds)

    @property
    def promised(self) -> float:
        """The smallest rate that so many seconds without a false alarm could show, per second."""
        return poisson_interval(0, self.seconds)[1]


class Watcher:
    """Report when a process departs from what it was in the beginning.

    In the first half of the time to learn, windows are collected that others are compared with. The scores
    of the windows of the second half, which took no part in that, say how large scores of normal windows
    are. Then each window gets a p-value, and windows that are more unusual than half of the rate of false
    alarms allows are merged into events. The other half is for lasting changes, which no single window
    shows: see `Evidence`.

    Parameters
    ----------
    rate : float
        Rows per second.
    learn : float
        Seconds from which normal is learnt.
    false_alarms : float
        Events per second that are accepted in normal operation, for instance ``1 / 86400``, one in a day.
    length, step : int, default=100, 10
        Rows of a window, and from one window to the next.
    order : int, default=5
    kernel : str or callable, default="chi2"
    adapt : float, optional
        Follow slow changes, such as daylight: scores are compared with their median over so many seconds
        before. Windows of an event are not used, unless it lasts for longer than this. After 12 times as
        long, half of the windows that others are compared with are newer ones. By default normal stays what
        it was.
    learnt : Learnt, optional
        Of another watcher with the same parameters: then nothing is learnt from the first rows.

    Attributes
    ----------
    learnt : Learnt or None
        None while learning.
    threshold : Threshold or None
    observed : Rate or None
        False alarms in the second half of the normal windows, with the threshold of the first half.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> (slow, fast), _ = make_streams(classes=2, per_class=1, frames=800, bins=8)
    >>> watcher = Watcher(rate=10.0, learn=60.0, false_alarms=1 / 600, length=20, order=2)
    >>> verdicts, events = watcher.update(np.concatenate([slow[:700], fast[:100], slow[700:]]))
    >>> verdicts[0].kind, verdicts[-1].kind
    ('learning', 'normal')
    >>> [(event.kind, event.part, 69.0 <= event.start < event.end <= 81.0) for event in events]  # seconds
    [('change', 'transition', True)]
    """

    def __init__(
        self,
        *,
        rate: float,
        learn: float,
        false_alarms: float,
        length: int = 100,
        step: int = 10,
        order: int = 5,
        kernel: KernelLike = "chi2",
        adapt: float | None = None,
        learnt: Learnt | None = None,
    ) -> None:
        self.rate = check_positive(rate, "rate")
        self.learn = check_positive(learn, "learn")
        self.false_alarms = check_positive(false_alarms, "false_alarms")
        self.adapt = None if adapt is None else check_positive(adapt, "adapt")
        self.windows = Windows(length, step, order=check_integer(order, "order"), kernel=kernel)
        if step > length:
            raise ParameterError(f"step is {step}, but no row may be left out: it must be at most {length}")
        if 2.0 * SMALLEST * length > learn * rate:
            raise ParameterError(
                f"learn is {learn:g} s, but windows of {length / rate:g} s need at least "
                f"{2.0 * SMALLEST * length / rate:g} s to learn from"
            )
        if self.adapt is not None and self.adapt * rate < length:
            raise ParameterError(f"adapt is {self.adapt:g} s, but a window has {length / rate:g} s: use more")
        self._until = self.learn  # seconds until which is learnt
        self.offset = 0  # rows before the last gap
        self.references: list[Window] = []
        self.seen = 0  # windows so far
        self.scores: list[Array] = []
        self.failures = 0
        self.followed = self.oldest = 0  # windows that were followed, and the reference to replace next
        self.process: NormalProcess | None = None
        self.learnt: Learnt | None = None
        self.threshold: Threshold | None = None
        self.observed: Rate | None = None
        if learnt is not None:
            self._watch(learnt)

    @property
    def patience(self) -> int:
        """Number of windows that share a row with a window, beside itself, on one side."""
        return -(-self.windows.length // self.windows.step)

    def update(self, rows: Any) -> tuple[list[Verdict], list[Event]]:
        """Add any number of rows; return verdicts on complete windows, and events that have ended."""
        verdicts, events = [], []
        with ONE_BLAS_THREAD:  # small matrices take longer with several
            for window in self.windows.update(rows):
                verdict = self._judge(window)
                verdicts.append(verdict)
                if self.threshold is not None and verdict.kind != "learning":
                    ended = self._dated(self._alarm.update(verdict))
                    if ended:
                        self._evidence.reset()
                    events += ended
        return verdicts, events

    def gap(self, rows: int = 0) -> None:
        """Begin new windows, because rows are missing: `rows` of them, as far as is known."""
        self.offset += self.windows.count + rows
        self.windows.reset()
        if self.process is not None:
            self._scorer.reset()

    def finish(self) -> list[Event]:
        """Return the event that has not ended, as at the end of the video."""
        return [] if self.threshold is None else self._dated(self._alarm.finish())

    @property
    def event(self) -> Event | None:
        """The event that has not ended."""
        if self.threshold is None or self._alarm.event is None:
            return None
        return self._dated([self._alarm.event])[0]

    def _judge(self, window: Window) -> Verdict:
        """Return what is known of a window, and learn from it."""
        start, stop = ((self.offset + row) / self.rate for row in (window.start, window.stop))
        verdict = Verdict(start=start, stop=stop, new=stop - self.windows.step / self.rate)
        if self.learnt is None:
            self._learn(window)
            return replace(verdict, kind="learning")
        if window.system is None:
            usual = self.failures > 0
            p = (self.patience + self.failures) / (self.patience + len(self.scores) + self.failures)
            return replace(verdict, kind="still", p_value=p, surprise=0.0 if usual else LARGEST)
        scores = self._scores(window)
        relative = scores - self._level.median
        p_values = tail_p_values(relative[None, : len(SCORES)], self.tails)[0]
        surprise = float(_surprise(p_values))
        self._weigh(surprise, relative)
        parts = {part: float(combine_p_values(p_values[group])) for part, group in GROUPS.items()}
        if self.adapt is not None:
            self._follow(scores, self._is_usual(surprise, stop))
        evidence, step = self._evidence.value / self._evidence.needed, self.windows.step / self.rate
        return replace(
            verdict,
            kind="change" if surprise >= self._alarm.high or evidence >= 1.0 else "normal",
            evidence=evidence,
            changed=max(verdict.new - step * self._evidence.began, 0.0),
            surprise=surprise,
            p_value=float(conformal_p_values(np.array([surprise]), self.surprises, self.patience)[0]),
            part=min(parts, key=parts.__getitem__),
            p_values=dict(zip(SCORES, p_values.tolist(), strict=True)),
        )

    def _is_usual(self, surprise: float, stop: float) -> bool:
        """Return whether a window counts as normal: it is, or what it belongs to has lasted long enough."""
        event = self._alarm.event
        return surprise < self._alarm.low if event is None else stop - event.start > (self.adapt or 0.0)

    def _learn(self, window: Window) -> None:
        """Collect a window: first those that others are compared with, then scores."""
        process = self.process
        # Gaps do not count: nothing is learnt from them.
        seconds = (self.seen * self.windows.step + self.windows.length) / self.rate
        place, self.seen = self.seen, self.seen + 1
        if process is None:
            stride = max(1, round(self.learn * self.rate / (2.0 * self.windows.step * REFERENCES)))
            if window.system is not None and place % stride == 0:
                self.references.append(window)
            if seconds >= self.learn / 2.0:
                _check_count(len(self.references), SMALLEST)
                self.process = fit_normal(self.references)
                self._scorer = Scorer(self.process)
                self.references = []
            return
        if window.system is None:
            self.failures += 1
        else:
            self.scores.append(self._scores(window))
        if seconds >= self._until:
            self.end_learning()

    def learn_more(self) -> None:
        """Learn from all rows until `end_learning` is called, also after the time to learn."""
        self.learnt, self._until = None, np.inf

    def end_learning(self) -> None:
        """Begin to watch, with what was learnt so far: more than half of the time to learn is needed."""
        if self.process is None:
            raise StreamError(f"the video is too short: {self.learn:g} s are needed to learn what is normal")
        _check_count(len(self.scores), SMALLEST * self.patience // 2)
        self._watch(Learnt(self.process, np.array(self.scores), self.failures))

    def _watch(self, learnt: Learnt) -> None:
        """Begin to watch, with what was learnt."""
        self.learnt, self.process, self.failures = learnt, learnt.process, learnt.failures
        self.scores = list(learnt.scores)
        self._scorer = Scorer(learnt.process)
        self._level, relative = self._relative(learnt.scores)
        self._calibrate(relative)
        assert self.threshold is not None
        self._alarm = Alarm(self.threshold.high, self.threshold.low, MERGED * self.patience)
        self._evidence = self._new_evidence(self.surprises, relative)

    def _scores(self, window: Window) -> Array:
        """Return the scores and the levels of a window."""
        scores = self._scorer.score(window)
        return np.concatenate([scores, self._scorer.levels()])

    def _new_evidence(self, surprises: Array, relative: Array) -> Evidence:
        """Return the evidence of lasting changes after normal windows."""
        apart = self.patience * self.windows.step / self.rate
        needed = needed_evidence(self.false_alarms / RULES, apart)
        return Evidence(weighed(surprises, relative), self.patience, needed)

    def _weigh(self, surprise: float, relative: Array) -> None:
        """Add the evidence of a window; during a jump there is none of anything else."""
        event = self._alarm.event
        self._evidence.update(weighed(np.array([surprise]), relative[None])[0], event is None)
        if event is not None and event.rule == "jump":
            self._evidence.reset()

    def _relative(self, scores: Array) -> tuple[Level, Array]:
        """Return the level after normal windows, and the score of each minus the level before it."""
        span = 0 if self.adapt is None else max(1, round(self.adapt * self.rate / self.windows.step))
        level, relative = Level(span, self.patience), []
        for row in scores:
            relative.append(row - level.median)
            level.update(row, is_usual=True)
        return level, np.array(relative)

    def _calibrate(self, scores: Array) -> None:
        """Choose the threshold by the scores of normal windows."""
        self.tails, self.surprises, self.threshold = self._limits(scores)
        half, found = len(scores) // 2, 0
        for judged, others in ((scores[:half], scores[half:]), (scores[half:], scores[:half])):
            tails, surprises, threshold = self._limits(others)
            those = _surprise(tail_p_values(judged[:, : len(SCORES)], tails))
            peaks = clusters(those, MERGED * self.patience)[1]
            found += int(np.count_nonzero(peaks >= threshold.high))
            evidence = self._new_evidence(surprises, others)
            for row in weighed(those, judged):
                if evidence.update(row) >= evidence.needed:
                    found += 1
                    evidence.reset()
        self.observed = Rate(found, len(scores) * self.windows.step / self.rate)

    def _limits(self, scores: Array) -> tuple[Tails, Array, Threshold]:
        """Return the distributions of normal scores, the surprise of each window, and the threshold."""
        scores = scores[:, : len(SCORES)]
        tails = fit_tails(scores, self.patience)
        # Later windows took no part in the distributions: so each part is judged by those of the others.
        parts = np.array_split(np.arange(len(scores)), FOLDS)
        others = (fit_tails(np.delete(scores, part, axis=0), self.patience) for part in parts)
        p_values = [tail_p_values(scores[part], other) for part, other in zip(parts, others, strict=True)]
        surprises = _surprise(np.concatenate(p_values))
        seconds = len(scores) * self.windows.step / self.rate
        gap = MERGED * self.patience
        threshold = threshold_for_rate(surprises, gap, seconds, self.false_alarms / RULES, prior=PRIOR)
        # Kinds of windows that were never seen must be above it.
        high, low = (min(level, LARGEST) for level in threshold[:2])
        return tails, surprises, threshold._replace(high=high, low=low)

    def _dated(self, events: list[Event]) -> list[Event]:
        """Say how often normal windows give such an event."""
        if self.threshold is None:
            return events
        apart = self.patience * self.windows.step / self.rate
        dated = []
        for event in events:
            is_jump = event.rule == "jump"
            if is_jump:
                rate = self.threshold.rate(event.surprise)
            else:
                rate = 1.0 / (apart * event.evidence * self._evidence.needed)
            beyond = is_jump and event.surprise > float(np.max(self.surprises))
            dated.append(replace(event, per_day=RULES * DAY * rate, extrapolated=beyond))
        return dated

    def _follow(self, scores: Array, is_usual: bool) -> None:
        """Let the window that was scored last change the level, and take the place of the oldest one."""
        assert self.adapt is not None
        assert self.process is not None
        self._level.update(scores, is_usual)
        self.followed += is_usual
        scorer, count = self._scorer, len(self.process.observers)
        every = 2.0 * MEMORY * self.adapt * self.rate / self.windows.step / count
        if is_usual and self.followed % max(1, round(every)) == 0:
            norms = squared_norms(scorer.rows, self.windows.kernel)
            self.process = self.process.replaced(self.oldest, scorer.embedded, scorer.features, norms)
            self.oldest = (self.oldest + 1) % count
            if self.oldest == 0:
                self.process = self.process.moved()
            scorer.normal = self.process

    @property
    def drift(self) -> float:
        """How far the mean of normal windows has moved while it was followed, in units of their spread."""
        if self.learnt is None or self.process is None:
            return 0.0
        first, now = self.learnt.process.observers[:, -1], self.process.observers[:, -1]
        moved = now.mean(axis=0) - first.mean(axis=0)
        return float(np.sqrt(moved @ moved / max(first.var(axis=0).sum(), 1e-300)))


def _check_count(count: int, least: int) -> None:
    if count < least:
        raise StreamError(
            f"only {count} of the windows to learn from can be described, as too little changes in the "
            f"others, but {least} are needed: let it learn for longer, or from another part"
        )


def weighed(surprises: Array, relative: Array) -> Array:
    """Return what is evidence of a lasting change: (n, 1 + 2 a) surprises, and levels in both directions."""
    levels = relative[:, len(SCORES) :]
    return np.column_stack([surprises, levels, -levels])


def _surprise(p_values: Array) -> Array:
    return np.asarray(-np.log10(combine_p_values(p_values[..., COMBINED])))
