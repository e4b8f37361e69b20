"""The page of a timeline: one HTML file that needs no other file and no script."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from sysbags._common.types import Array
from sysbags.report.templates import COLOURS, render, static, write_page
from sysbags.video import Frame, frames
from sysbags.watch.timeline import NO_SYSTEM, Clock, Timeline, kind_records, phase_records, timecode

WIDTH = 1000.0  # of a figure, in its own units; the page stretches it
SIDE = 600  # of the recurrence plot, in pixels, at most
SHOTS = 3  # frames that show a label
TICKS = 5
GREY = "#888888"  # of windows without a system
SHADES = 5  # of frequencies, by the moduli of their eigenvalues
PARTS = {"transition": 90, "observer": 55, "mean": 25}  # and their darkness in per cent
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)  # seconds


def write_timeline(
    path: str | os.PathLike[str], timeline: Timeline, clock: Clock, clip: Path, *, title: str
) -> None:
    """Write the page of a timeline; the clip is read once more, for frames of the phases."""
    pictures = typical_frames(frames(clip, colour="rgb", size=120), timeline, clock)
    write_page(path, timeline_page(timeline, clock, pictures, title=title))


def typical_frames(pictures: Iterable[Frame], timeline: Timeline, clock: Clock) -> dict[int, list[bytes]]:
    """Return a few frames of the window that is typical of each label, as JPEG files.

    `pictures` are all frames of the clip, of which those after the last window that is shown are not read.
    """
    import cv2

    places: dict[int, list[int]] = {}
    for kind in timeline.kinds:
        window = timeline.windows[kind.medoid]
        rows = np.linspace(window.start, window.stop - 1, SHOTS).astype(int)
        places[kind.label] = [clock.frame(int(row)) for row in rows]
    wanted = {place for own in places.values() for place in own}
    shots = {
        place: cv2.imencode(".jpg", frame[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 72])[1].tobytes()
        for place, frame in enumerate(islice(pictures, max(wanted) + 1))
        if place in wanted
    }
    return {label: [shots[place] for place in own if place in shots] for label, own in places.items()}


def timeline_page(
    timeline: Timeline,
    clock: Clock,
    pictures: Mapping[int, Sequence[bytes]],
    *,
    title: str,
) -> str:
    """Return the page of a timeline as the text of an HTML file that holds everything it shows.

    `pictures` are JPEG files of each label, see `typical_frames`; labels may be missing.
    """
    windows = timeline.windows
    first, last = clock.seconds(windows[0].start), clock.seconds(windows[-1].stop)
    middles = [(clock.seconds(window.start) + clock.seconds(window.stop)) / 2.0 for window in windows]
    places = _places(middles, first, last)
    phases = phase_records(timeline, clock)
    totals = np.nan_to_num(timeline.scores.cumsum(axis=1))
    top = float(totals.max()) or 1.0
    waves = [
        (x, min(float(abs(value)), 1.0), float(frequency))
        for x, values, row in zip(places, timeline.eigenvalues, timeline.frequencies, strict=True)
        for value, frequency in zip(values.tolist(), row.tolist(), strict=True)
        if abs(value) >= 0.0 and value.imag >= 0.0  # not NaN, and one of each conjugate pair
    ]
    fastest = timeline.rate / 2.0
    return render(
        "timeline.html",
        style=static("plain.css") + static("timeline.css"),
        title=title,
        width=WIDTH,
        duration=timecode(last - first),
        count=len(windows),
        length=clock.span(windows[0].start, windows[0].stop)["length_seconds"],
        kinds=[
            kind | {"colour": colour(kind["label"]), "pictures": pictures.get(kind["label"], ())}
            for kind in kind_records(timeline, clock)
        ],
        bands=[_band(phase, first, last) for phase in phases],
        changes=_places([clock.seconds(row) for row in timeline.change_points], first, last),
        ticks=_ticks(first, last),
        areas=[
            (
                name,
                f"color-mix(in srgb, currentColor {PARTS[name]}%, var(--ground))",
                _area(places, totals[:, k] / top, np.isfinite(timeline.scores[:, 0])),
            )
            for k, name in reversed(list(enumerate(PARTS)))
        ],
        top=top,
        recurrence=_recurrence(timeline.distances),
        moduli=_dots((x, modulus) for x, modulus, _ in waves),
        frequencies=[
            (k / SHADES, _dots((x, hertz / fastest) for x, size, hertz in waves if ceil(SHADES * size) == k))
            for k in range(1, SHADES + 1)
        ],
        fastest=fastest,
        phases=[
            (
                row["phase"],
                row["label"],
                row["start_timecode"],
                row["end_timecode"],
                f"{row['length_seconds']:.2f}",
                f"{row['start_frame']} to {row['end_frame'] - 1}",
                row["failure"] or "",
            )
            for row in phases
        ],
        settings=[
            ("distances", "exact" if timeline.landmarks is None else f"{timeline.landmarks} landmarks"),
            ("lambda_a", f"{timeline.lambda_a:.4g}"),
            ("lambda_mu", f"{timeline.lambda_mu:.4g}"),
            ("penalty of a change", f"{timeline.penalty:.4g}"),
            ("frames per second", f"{clock.rate:g}"),
        ],
    )


def colour(label: int) -> str:
    """Return the colour of a label; there are eight, and then they return."""
    return GREY if label == NO_SYSTEM else COLOURS[label % len(COLOURS)]


def _places(seconds: Sequence[float], first: float, last: float) -> list[float]:
    """Return the horizontal places of times in a figure."""
    return [WIDTH * (second - first) / (last - first) for second in seconds]


def _band(phase: dict[str, Any], first: float, last: float) -> dict[str, Any]:
    """Return how a phase is drawn in a figure."""
    start, end, label = phase["start_seconds"], phase["end_seconds"], phase["label"]
    left, right = _places([start, end], first, last)
    title = f"label {label}, {timecode(start)} to {timecode(end)}"
    return {"x": left, "width": max(right - left, 1.0), "colour": colour(label), "title": title}


def _ticks(first: float, last: float) -> list[tuple[float, str]]:
    """Return the places of round times, in per cent, and their names."""
    step = next((step for step in STEPS if (last - first) / step <= TICKS), STEPS[-1])
    times = np.arange(np.ceil(first / step), np.floor(last / step) + 1) * step
    written = [timecode(time).removesuffix(".000").removeprefix("00:") for time in times.tolist()]
    return list(zip(_places(times.tolist(), first, last), written, strict=True))


def _area(places: Sequence[float], heights: Array, known: Array) -> str:
    """Return the outline of the area under a line, one piece for each run of known values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(int)))
    pieces = []
    for start, stop in edges.reshape(-1, 2).tolist():
        line = "L".join(f"{places[k]:.1f} {1.0 - heights[k]:.4f}" for k in range(start, stop))
        pieces.append(f"M{places[start]:.1f} 1L{line}L{places[stop - 1]:.1f} 1z")
    return "".join(pieces)


def _dots(points: Iterable[tuple[float, float]]) -> str:
    """Return lines without length, which are drawn as dots."""
    return "".join(f"M{x:.1f} {1.0 - height:.4f}h0" for x, height in points)


def _recurrence(distances: Array) -> bytes:
    """Return a PNG of the distances, one pixel per pair of windows: the nearer, the darker."""
    import cv2

    stride = -(-len(distances) // SIDE)
    shown = np.sqrt(distances[::stride, ::stride])
    known = np.isfinite(shown)
    largest = float(shown[known].max()) or 1.0
    shade = np.rint(255.0 * np.where(known, shown, largest) / largest).astype(np.uint8)
    picture = cv2.applyColorMap(shade, cv2.COLORMAP_VIRIDIS)
    picture[~known] = 136  # the grey of windows without a system
    return bytes(cv2.imencode(".png", picture)[1])
