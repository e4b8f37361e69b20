"""The timeline of a finished video: windows, distances and phases, and their records for CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.parallel import run
from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import check_integer, check_positive, check_share, check_stream, seed_of
from sysbags.distances.alignment import align
from sysbags.distances.embedding import fit_embedding, landmark_count
from sysbags.distances.gram import SystemStack
from sysbags.distances.pairwise import Weight, pairwise_distances, resolve_weights
from sysbags.errors import OrderError, StreamError
from sysbags.watch.segmentation import change_points, distance_features, divide, group_phases
from sysbags.watch.windows import Window, window_systems

EXACT = 500  # windows; above, distances are approximated by default
LANDMARKS = 500
REACH = 4  # window lengths before and after a change that must show it: slow drift is small in this time
NO_SYSTEM = -1  # the label of phases whose windows have no system


@dataclass(frozen=True)
class Phase:
    """A stretch of a stream in which its system does not change."""

    start: int  # the first row
    stop: int  # the row after the last
    first: int  # window
    last: int  # the window after the last
    label: int  # phases with the same label do not differ; -1 for windows without a system
    # The window with the least sum of squared distances to the others; the middle one, without systems.
    medoid: int
    failure: str | None = None  # why there is no system


@dataclass(frozen=True)
class PhaseKind:
    """The phases with one label: how often they occur, their rows in all, and the window typical of them."""

    label: int
    occurrences: int
    rows: int
    medoid: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Timeline:
    """The result of `timeline`.

    Attributes
    ----------
    windows : list of Window
    phases : list of Phase
        From the first row to the last.
    distances : (K, K) array
        The squared distances of all windows, NaN for those without a system.
    scores : (K, 3) array
        The squared distance of each window to the last window before that it does not overlap: the weighted
        parts of transition, observer and mean. NaN for the first windows, and where a system is missing.
    eigenvalues : (K, n) array of complex
        Of the transitions, the largest modulus first; NaN where there are fewer.
    penalty : float
        By how much a change had to lower the scatter.
    lambda_a, lambda_mu : float
        The weights of the distances.
    landmarks : int or None
        The size of the embedding that approximates the distances; None for exact ones.
    rate : float
        Rows per second.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> result = timeline(make_streams(classes=1, per_class=1, frames=300)[0][0], length=50, step=10)
    >>> len(result.windows), result.distances.shape, [kind.occurrences for kind in result.kinds]
    (26, (26, 26), [1])
    """

    windows: list[Window]
    phases: list[Phase]
    distances: Array
    scores: Array
    eigenvalues: npt.NDArray[np.complex128]
    penalty: float
    lambda_a: float
    lambda_mu: float
    landmarks: int | None
    rate: float

    @property
    def change_points(self) -> list[int]:
        """The first row of each phase but the first."""
        return [phase.start for phase in self.phases[1:]]

    @property
    def labels(self) -> list[int]:
        """The label of each window."""
        return [phase.label for phase in self.phases for _ in range(phase.first, phase.last)]

    @property
    def frequencies(self) -> Array:
        """The frequencies of the eigenvalues, in hertz."""
        return np.asarray(np.abs(np.angle(self.eigenvalues)) * self.rate / (2.0 * np.pi))

    @property
    def kinds(self) -> list[PhaseKind]:
        """The labels with their occurrences; windows without a system are the last."""
        kinds = []
        labels = np.array(self.labels)
        for label in sorted({phase.label for phase in self.phases}, key=lambda label: (label < 0, label)):
            own = [phase for phase in self.phases if phase.label == label]
            medoid = _medoid(self.distances, np.flatnonzero(labels == label))
            kinds.append(PhaseKind(label, len(own), sum(phase.stop - phase.start for phase in own), medoid))
        return kinds


def timeline(
    stream: Any,
    *,
    length: int = 100,
    step: int = 20,
    order: int | str = 5,
    kernel: KernelLike = "chi2",
    lambda_a: Weight = "scale",
    lambda_mu: Weight = "scale",
    penalty: float | str = "auto",
    alpha: float = 0.05,
    rate: float = 1.0,
    random_state: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
) -> Timeline:
    """Divide a stream into phases whose systems do not change, and find the phases that return.

    The stream is cut into overlapping windows, each with its system in the unit-variance form. By their
    alignment distances, the sequence of systems is divided by `sysbags.watch.segmentation.divide`; the number
    of changes follows from the differences between windows that do not overlap. A change must be seen in the
    four window lengths before and after it, so that what drifts slowly is not divided. A phase is as long as
    a window at least, so that the windows across a change do not become a phase. Windows without a system
    form phases of their own. Phases that return have the same label.

    Change points need the package ruptures, which ``pip install 'sysbags[watch]'`` installs.

    Parameters
    ----------
    stream : (N, p) array_like
        Rows are time.
    length, step : int, default=100, 20
        Rows in a window, and from one window to the next.
    order, kernel
        See `identify`.
    lambda_a, lambda_mu : float or "scale", default="scale"
        See `pairwise_distances`.
    penalty : float or "auto", default="auto"
        By how much a change must lower the scatter of the energy distance, see
        `sysbags.watch.segmentation.distance_features`.
    alpha : float, default=0.05
        In (0, 1): the probability of a change point in a stream that has none, for ``penalty="auto"``. The
        video should be at least eight windows long: fewer do not show the noise.
    rate : float, default=1.0
        Rows per second, for the frequencies.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Raises
    ------
    StreamError
        If the stream is shorter than a window.
    OrderError
        If no window has a system, as in a still clip.

    Examples
    --------
    >>> from sysbags.datasets import make_streams
    >>> (slow, fast), _ = make_streams(classes=2, per_class=1, frames=800, bins=8)
    >>> stream = np.concatenate([slow[:400], fast[:400], slow[400:]])
    >>> result = timeline(stream, length=50, step=10, order=3)
    >>> result.change_points, [phase.label for phase in result.phases]
    ([390, 800], [0, 1, 0])
    """
    if penalty != "auto":
        check_positive(penalty, "penalty")
    check_share(alpha, "alpha", low="(", high=")")
    check_positive(rate, "rate")
    check_integer(length, "length", 2)
    check_integer(step, "step")
    rows = check_stream(stream, kernel)
    if len(rows) < length:
        raise StreamError(
            f"the stream has {len(rows)} rows, but a window has {length}: "
            "use a longer clip or a smaller length"
        )
    windows = window_systems(rows, length, step, order=order, kernel=kernel)
    return timeline_of(windows, lambda_a, lambda_mu, penalty, alpha, rate, seed_of(random_state), n_jobs)


def timeline_of(
    windows: list[Window],
    lambda_a: Weight = "scale",
    lambda_mu: Weight = "scale",
    penalty: float | str = "auto",
    alpha: float = 0.05,
    rate: float = 1.0,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Timeline:
    """Divide windows of the same length and at equal steps into phases, see `timeline`."""
    lag = _lag(windows)
    with_system = [k for k, window in enumerate(windows) if window.system is not None]
    if not with_system:
        raise OrderError(f"no window of the stream has a system: {windows[0].failure}")
    systems = [system for window in windows if (system := window.system) is not None]
    weights = resolve_weights(SystemStack.of(systems), "alignment", lambda_a, lambda_mu)
    embedding = None
    if len(systems) > EXACT:
        embedding = fit_embedding(systems, LANDMARKS, random_state=seed, n_jobs=n_jobs)
    options: Any = {"random_state": seed, "n_jobs": n_jobs}
    squared = pairwise_distances(
        systems, lambda_a=weights[0], lambda_mu=weights[1], embedding=embedding, **options
    )
    distances = np.full((len(windows), len(windows)), np.nan)
    distances[np.ix_(with_system, with_system)] = squared
    features = np.zeros((len(windows), len(systems)))
    found = distance_features(squared)
    features[with_system, : found.shape[1]] = found

    runs = [list(own) for _, own in groupby(range(len(windows)), lambda k: windows[k].system is None)]
    moving = [features[own] for own in runs if windows[own[0]].system is not None]
    if isinstance(penalty, str):
        changes, amount = divide(moving, lag, alpha, reach=REACH * lag, **options)
    else:
        amount = float(penalty)
        changes = [change_points(items, amount, lag, REACH * lag) for items in moving]
    waiting = iter(changes)
    bounds = [
        own[0] + change
        for own in runs
        for change in (0, *([] if windows[own[0]].system is None else next(waiting)))
    ]
    return Timeline(
        windows=windows,
        phases=_phases(windows, distances, features, bounds, amount, lag),
        distances=distances,
        scores=_scores(windows, lag, weights, seed, n_jobs),
        eigenvalues=_eigenvalues(windows),
        penalty=amount,
        lambda_a=weights[0],
        lambda_mu=weights[1],
        landmarks=None if embedding is None else landmark_count(embedding),
        rate=float(rate),
    )


@dataclass(frozen=True)
class Clock:
    """The frames and times of the rows of a stream; `start` is the frame of the first row.

    Examples
    --------
    >>> clock = Clock(rate=25.0, start=50, frames_per_row=2)
    >>> clock.frame(100), clock.seconds(100), clock.timecode(100)
    (250, 10.0, '00:00:10.000')
    """

    rate: float
    start: int = 0
    frames_per_row: int = 1

    def frame(self, row: int) -> int:
        """Return the frame of a row, counted from 0."""
        return self.start + row * self.frames_per_row

    def seconds(self, row: int) -> float:
        """Return the time of a row."""
        return self.frame(row) / self.rate

    def timecode(self, row: int) -> str:
        """Return the time of a row as hours, minutes and seconds."""
        return timecode(self.seconds(row))

    def span(self, start: int, stop: int) -> dict[str, Any]:
        """Return the frames, times in seconds and timecodes of a stretch; its end is not part of it."""
        named = {"start": start, "end": stop}
        facts = {
            f"{name}_{kind}": getattr(self, kind)(row)
            for name, row in named.items()
            for kind in ("frame", "timecode", "seconds")
        }
        return facts | {"length_seconds": (stop - start) * self.frames_per_row / self.rate}


def timecode(seconds: float) -> str:
    """Return a time as hours, minutes and seconds, such as 01:02:05.500."""
    milliseconds = round(1000.0 * seconds)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def phase_records(timeline: Timeline, clock: Clock) -> list[dict[str, Any]]:
    """Return the phases in the order of time, numbered from 1."""
    return [
        {
            "phase": number,
            "label": phase.label,
            **clock.span(phase.start, phase.stop),
            "windows": phase.last - phase.first,
            "failure": phase.failure,
        }
        for number, phase in enumerate(timeline.phases, start=1)
    ]


def kind_records(timeline: Timeline, clock: Clock) -> list[dict[str, Any]]:
    """Return the labels of the phases: how often each occurs, for how long, and a window typical of it."""
    return [
        {
            "label": kind.label,
            "occurrences": kind.occurrences,
            "seconds": kind.rows * clock.frames_per_row / clock.rate,
            "typical_window": kind.medoid,
            "typical_frame": clock.frame(timeline.windows[kind.medoid].start),
        }
        for kind in timeline.kinds
    ]


def window_records(timeline: Timeline, clock: Clock) -> list[dict[str, Any]]:
    """Return the windows with their scores, squared, and their eigenvalues; None for what is missing."""
    totals = timeline.scores.sum(axis=1)
    records = []
    for k, (window, label) in enumerate(zip(timeline.windows, timeline.labels, strict=True)):
        numbers = {"squared_distance": totals[k]}
        numbers |= zip(("transition", "observer", "mean"), timeline.scores[k], strict=True)
        waves = zip(np.abs(timeline.eigenvalues[k]), timeline.frequencies[k], strict=True)
        for place, (modulus, frequency) in enumerate(waves, start=1):
            numbers |= {f"modulus_{place}": modulus, f"frequency_{place}": frequency}
        plain = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
        span = clock.span(window.start, window.stop)
        records.append({"window": k, "label": label, **span, **plain, "failure": window.failure})
    return records


def _lag(windows: Sequence[Window]) -> int:
    """Return the distance between windows in the sequence from which on they do not overlap."""
    if len(windows) == 1:
        return 1
    return max(1, -(-(windows[0].stop - windows[0].start) // (windows[1].start - windows[0].start)))


def _phases(
    windows: Sequence[Window],
    distances: Array,
    features: Array,
    bounds: Sequence[int],
    penalty: float,
    lag: int,
) -> list[Phase]:
    """Return the phases that begin with the given windows, and their labels."""
    spans = list(zip(bounds, [*bounds[1:], len(windows)], strict=True))
    moving = [span for span in spans if windows[span[0]].system is not None]
    labels = dict(
        zip(moving, group_phases([features[a:b] for a, b in moving], penalty).tolist(), strict=True)
    )
    rows = [windows[0].start, *(_boundary(windows, first, lag) for first in bounds[1:]), windows[-1].stop]
    return [
        Phase(
            start,
            stop,
            first,
            last,
            labels.get((first, last), NO_SYSTEM),
            _medoid(distances, np.arange(first, last)),
            windows[first].failure,
        )
        for (first, last), (start, stop) in zip(spans, pairwise(rows), strict=True)
    ]


def _boundary(windows: Sequence[Window], first: int, lag: int) -> int:
    """Return the row at which the phase of the windows from `first` on begins."""
    before, after = windows[first - 1], windows[first]
    # A stretch without a system is as long as all its windows together: those across its ends have one.
    if after.system is None and all(window.system for window in windows[max(0, first - lag) : first]):
        return after.start
    if before.system is None and all(window.system for window in windows[first : first + lag]):
        return before.stop
    # A window belongs to the phase of most of its rows.
    return (before.start + before.stop + after.start + after.stop) // 4


def _medoid(distances: Array, own: npt.NDArray[np.int64]) -> int:
    sums = distances[np.ix_(own, own)].sum(axis=1)
    return int(own[len(own) // 2 if np.isnan(sums[0]) else np.argmin(sums)])


def _scores(
    windows: Sequence[Window], lag: int, weights: tuple[float, float], seed: int, n_jobs: int | None
) -> Array:
    def parts(k: int) -> list[float]:
        before, own = windows[k - lag].system if k >= lag else None, windows[k].system
        if before is None or own is None:
            return [np.nan] * 3
        found = align(before, own, *weights, random_state=seed).parts
        return [found[name] for name in ("transition", "observer", "mean")]

    return np.array(run(parts, range(len(windows)), n_jobs, "scores"))


def _eigenvalues(windows: Sequence[Window]) -> npt.NDArray[np.complex128]:
    orders = [0 if window.system is None else window.system.order for window in windows]
    values = np.full((len(windows), max(orders)), np.nan, dtype=complex)
    for row, window in zip(values, windows, strict=True):
        if window.system is not None:
            own = np.linalg.eigvals(window.system.transition)
            row[: len(own)] = own[np.argsort(-np.abs(own), kind="stable")]
    return values
