"""Window systems by sliding against `identify` for each window, at 90 % overlap."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

import sysbags
from benchmarks.machine import seconds
from sysbags._common.parallel import ONE_BLAS_THREAD
from sysbags._common.types import Array
from sysbags.bags import LocalBinaryPatterns, PlanePatterns
from sysbags.datasets import make_streams
from sysbags.datasets.watching import make_watching
from sysbags.errors import OrderError
from sysbags.systems.system import System
from sysbags.watch import Windows

__all__ = ["rows"]

SIZES = ((100, 10), (250, 25))
FRAMES, BINS, CLIPS, TURNS = 2000, 256, 6, 5
NORMAL_FORM = "unit-variance"
COMPARED = ("transition", "alpha", "beta", "eigenvalues", "states", "explained", "residual")


def rows(folder: Path | None) -> Iterator[str]:
    """Lines of the table; real streams are those of clips in a folder, joined so that there are cuts.

    The bags of a wheel of 48 x 64 pixels have few entries, so that much of their change is noise.
    """
    video = make_watching("wheel", FRAMES / 10.0)
    frames = np.stack(list(video.frames()))
    streams = {
        "generated": make_streams(1, 1, FRAMES, BINS)[0][0],
        "wheel, LBP": LocalBinaryPatterns().stream(frames),
        "wheel, LBP-TOP": PlanePatterns().stream(frames),
    }
    if folder is not None:
        clips = sorted(folder.glob("*/*.mp4"))
        chosen = clips[:: max(1, len(clips) // CLIPS)][:CLIPS]
        streams[f"{len(chosen)} clips, joined"] = np.concatenate(
            [LocalBinaryPatterns().stream(clip) for clip in chosen]
        )
    yield "| stream | length, step | windows | identify, ms | sliding, ms | faster by | difference | LAPACK |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name, stream in streams.items():
        for length, step in SIZES:
            with ONE_BLAS_THREAD:
                yield f"| {name} | {length}, {step} | {_compare(stream, length, step)} |"


def _compare(stream: Array, length: int, step: int) -> str:
    """Time both ways in turns, so that a busy machine slows down both; results are dropped at once."""
    starts = range(step, len(stream) - length + 1, step)
    windows = Windows(length, step, normal_form=NORMAL_FORM)
    times = np.empty((2, TURNS, len(starts)))
    difference = 0.0
    for turn in range(-1, TURNS):
        windows.reset()
        windows.update(stream[:length])  # does not slide
        if turn < 0:  # compiles, and compares
            for window in windows.update(stream[length:]):
                system = _identify(window.rows)
                if system is not None and window.system is not None:
                    difference = max(difference, _difference(window.system, system))
            continue
        for w, i in enumerate(starts):
            update = partial(windows.update, stream[i + length - step : i + length])
            times[0, turn, w] = seconds(update, process_time)[0]
        for w, i in enumerate(starts):
            times[1, turn, w] = seconds(partial(_identify, stream[i : i + length]), process_time)[0]
    # The best of all turns for each window: a busy machine only ever adds to it.
    sliding, afresh = np.median(times.min(axis=1), axis=1)
    return (
        f"{len(starts)} | {1e3 * afresh:.2f} | {1e3 * sliding:.2f} | {afresh / sliding:.1f} | "
        f"{difference:.0e} | {windows.fallbacks}"
    )


def _identify(part: Array) -> System | None:
    """The system, unless nothing moves."""
    try:
        return sysbags.identify(part, normal_form=NORMAL_FORM)
    except OrderError:
        return None


def _difference(system: System, expected: System) -> float:
    """The largest difference of an array or number, relative to its largest entry."""
    pairs = [(getattr(system, name), getattr(expected, name)) for name in COMPARED]
    return max(float(np.abs(one - other).max() / np.abs(other).max()) for one, other in pairs)
