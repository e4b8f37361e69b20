"""From a clip to its stream: local binary patterns against scikit-image, against decoding, and in memory.

Run as `python -m benchmarks.video [REPEATS]`. Peers take turns and the best of their times counts, so
that a busy machine slows all alike; compilation is paid before. The clips are made here: two landscapes
of noise with the spectrum of photographs slide over each other, under the noise of a sensor, encoded as
H.264 at x264's default quality. Where the real clips of wild-scenes are at hand, ten of them are timed too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from skimage import feature

from sysbags._common.types import Array
from sysbags.bags import LocalBinaryPatterns
from sysbags.video import Frame

__all__ = [
    "best_seconds",
    "clip_seconds",
    "main",
    "memory_megabytes",
    "moving_texture",
    "pattern_seconds",
    "rows",
    "write",
]

REAL = Path(__file__).parents[2] / "shared" / "data" / "wild-scenes"
HEIGHT, WIDTH, FRAMES = 240, 426, 250
REPEATS = 7
FASTER = 20.0
OF_DECODING = 1.0 / 1.5  # the whole extraction may take 1.5 times as long as decoding alone
LONG, SHORT = 20_000, 2_000
FLAT = 0.95
SKIMAGE = "skimage local_binary_pattern + bincount"
DECODING = "decoding alone, PyAV, the same threads"
PEAK = """
import sys
from benchmarks.machine import peak_memory
from sysbags.video import frames
from sysbags.bags import LocalBinaryPatterns

for path in sys.argv[1:]:
    {work}
    print(peak_memory() / 2**20)
"""

Row = tuple[str, str, float, float]


def moving_texture(
    count: int, height: int = HEIGHT, width: int = WIDTH, noise: float = 2.0, seed: int = 0
) -> Iterator[Frame]:
    """Two landscapes that slide over each other, and the noise of a sensor."""
    rng = np.random.default_rng(seed)
    side = 1024
    far, near = _landscape(side, rng), _landscape(side, rng)
    for k in range(count):
        x, y = int(1.3 * k) % (side - width), int(0.7 * k) % (side - height)
        u, v = int(0.9 * k) % (side - width), int(2.1 * k) % (side - height)
        scene = 118.0 + 40.0 * far[y : y + height, x : x + width] + 15.0 * near[v : v + height, u : u + width]
        yield np.clip(scene + rng.normal(0.0, noise, scene.shape), 0.0, 255.0).astype(np.uint8)


def _landscape(side: int, rng: np.random.Generator) -> Array:
    """Noise whose amplitudes fall with frequency as those of photographs do, by a power near 1.3."""
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side))
    frequency[0, 0] = np.inf
    field = np.fft.ifft2(np.fft.fft2(rng.standard_normal((side, side))) / frequency**1.3).real
    return np.asarray(field / field.std())


def write(path: Path, frames: Iterable[Frame], rate: int = 25, **options: str) -> Path:
    """Encode grey frames as H.264 without ever holding them all."""
    with av.open(str(path), "w") as container:
        stream: Any = None
        for index, array in enumerate(frames):
            if stream is None:
                stream = container.add_stream("libx264", rate=rate, options=options)
                stream.height, stream.width = array.shape
                stream.pix_fmt = "yuv420p"
            frame = av.VideoFrame.from_ndarray(array, format="gray").reformat(format="yuv420p")
            frame.pts, frame.time_base = index, Fraction(1, rate)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


skimage_patterns: Callable[..., Any] = feature.local_binary_pattern  # it has no annotations


def pattern_seconds(points: int, radius: int, method: str, repeats: int = REPEATS) -> tuple[float, float]:
    """Seconds a frame on one core: ours and scikit-image's, histogram included, after equality is checked."""
    frames = list(moving_texture(8))
    bags = LocalBinaryPatterns(points, radius, method)

    def ours() -> list[Array]:
        return list(bags.masses(iter(frames)))

    def theirs() -> list[npt.NDArray[Any]]:
        patterns = (skimage_patterns(frame, points, radius, method) for frame in frames)
        return [np.bincount(p.astype(np.int64).ravel(), minlength=len(first)) for p in patterns]

    first = ours()[0]
    assert np.array_equal(ours(), theirs()), "the two disagree"
    best = best_seconds([ours, theirs], time.process_time, repeats)
    return best[0] / len(frames), best[1] / len(frames)


def clip_seconds(path: Path, clock: Callable[[], float], repeats: int = REPEATS) -> tuple[float, float]:
    """Seconds of the whole extraction of a clip, and of decoding it and nothing else."""
    bags = LocalBinaryPatterns()

    def decode() -> None:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_type, stream.codec_context.thread_count = "AUTO", 0
            for _ in container.decode(stream):
                pass

    extract, decoding = best_seconds([lambda: bags.stream(path), decode], clock, repeats)
    return extract, decoding


def memory_megabytes(path: Path, warm: Path, work: str) -> tuple[float, float]:
    """Peak resident memory of a process after the work on a small clip, and after that on the large one."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK.format(work=work), str(warm), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = (float(line) for line in done.stdout.split())
    return before, after


def rows(repeats: int = REPEATS) -> list[Row]:
    """Work, peer, measured ratio and target; 0 is no target."""
    lines: list[Row] = []
    for points, radius, method, target in ((8, 1, "default", FASTER), (16, 2, "uniform", 0.0)):
        ours, theirs = pattern_seconds(points, radius, method, repeats)
        work = f"LBP {points},{radius} {method}, {HEIGHT} x {WIDTH} frame ({1e3 * ours:.2f} ms)"
        lines.append((work, f"{SKIMAGE} ({1e3 * theirs:.1f} ms)", theirs / ours, target))
    with tempfile.TemporaryDirectory() as folder:
        lines += _clip_rows(Path(folder), repeats)
        lines += _memory_rows(Path(folder))
    return lines


def _clip_rows(folder: Path, repeats: int) -> list[Row]:
    path = write(folder / "clip.mp4", moving_texture(FRAMES))
    rate = path.stat().st_size * 8 / (FRAMES / 25) / 1000
    lines = []
    for name, clock in (("wall", time.perf_counter), ("processor", time.process_time)):
        extract, decoding = (1e3 * s / FRAMES for s in clip_seconds(path, clock, repeats))
        clip = f"a {HEIGHT}-line H.264 clip, {rate:.0f} kbit/s"
        work = f"LBP stream of {clip} ({extract:.2f} ms a frame, {name} time)"
        lines.append((work, f"{DECODING} ({decoding:.2f} ms)", decoding / extract, OF_DECODING))
    if REAL.is_dir():
        paths = [min(place.glob("*.mp4")) for place in sorted(REAL.iterdir()) if place.is_dir()][:10]
        seconds = [clip_seconds(path, time.perf_counter, repeats) for path in paths]
        ratio = float(np.median([decoding / extract for extract, decoding in seconds]))
        work = "LBP streams of 10 clips of wild-scenes (median, wall time)"
        lines.append((work, DECODING, ratio, OF_DECODING))
    return lines


def _memory_rows(folder: Path) -> list[Row]:
    paths = {
        count: write(folder / f"{count}.mp4", moving_texture(count, 120, 160), preset="ultrafast")
        for count in (50, SHORT, LONG)
    }
    works = {"frames": "[None for _ in frames(path)]", "stream": "LocalBinaryPatterns().stream(path)"}
    peak = {
        (work, count): memory_megabytes(paths[count], paths[50], code)
        for work, code in works.items()
        for count in (SHORT, LONG)
    }
    short, long = peak["frames", SHORT][1], peak["frames", LONG][1]
    growth = peak["stream", LONG][1] - peak["stream", SHORT][1]
    stream = (LONG - SHORT) * 256 * 8 / 2**20
    return [
        (
            f"peak memory of reading {LONG:,} frames ({long:.0f} MB)",
            f"of reading {SHORT:,} ({short:.0f} MB)",
            short / long,
            FLAT,
        ),
        (
            f"peak memory of the LBP stream of {LONG:,} frames: {growth:.0f} MB above that of {SHORT:,}",
            f"the {LONG - SHORT:,} rows more ({stream:.0f} MB)",
            stream / growth,
            0.0,
        ),
    ]


def best_seconds(works: list[Callable[[], object]], clock: Callable[[], float], repeats: int) -> list[float]:
    """Best time of each, taking turns; the first turn does not count."""
    best = [np.inf] * len(works)
    for turn in range(repeats + 1):
        for i, work in enumerate(works):
            start = clock()
            work()
            if turn:
                best[i] = min(best[i], clock() - start)
    return best


def main() -> None:
    """Print the table."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS
    table = Table("work", "against", "ratio", "target")
    for work, against, ratio, target in rows(repeats):
        table.add_row(work, against, f"{ratio:.2f}", f"{target:.2f}" if target else "")
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
