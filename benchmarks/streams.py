"""Classifiers of streams on the same folds, in one run: accuracy, and seconds of fit and of predict.

`python -m benchmarks.streams SET [DATA] [--cache DIR] [--only METHOD ...] [--jobs 1 default] [--slow]`, where
SET is one of

* esc-10: an .npz file of mel spectra, its five official folds. Peers get the histograms and the log powers;
* traffic: the folder of the UCSD highway traffic database, LBP from frame 1, four official trials;
* gait-speed: a folder of walks, LBP of the central 80 frames, one person left out at a time;
* wild-scenes: a folder of class folders, LBP, ten folds by source;
* uea: a folder with NAME/NAME_TRAIN.ts and NAME/NAME_TEST.ts for each set, official splits. These are no
  histograms: ours has the linear kernel, and channels standardised by the training set;
* growth: generated streams, time and peak memory of fit alone; it needs no DATA.

Peers are those of aeon (`pip install aeon torch`) at their defaults. The nearest neighbour by DTW takes
minutes: it needs `--slow`. Rockets take one length only, for which aeon has two ways and recommends neither:
rows are appended ("padded" with the mean of each channel, which keeps the speed) or interpolated ("resized"),
both to the longest stream. The others take streams as they are.

Seconds are sums over all folds. Transposing and padding are not timed, nor is compilation: each method first
learns a small set. With `n_jobs` 1 every library has one thread; "default" leaves all to the libraries. CPU
seconds far above or below wall-clock seconds show threads, or that others used the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import LeaveOneGroupOut, StratifiedGroupKFold
from threadpoolctl import threadpool_limits

from benchmarks.machine import facts, peak_memory, seconds
from benchmarks.results import CENTRAL_FRAMES, mel_streams
from sysbags._common.types import Array, IntArray
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import LabelledStreams, class_folders, make_streams, read_streams, write_streams

Collection = list[Array] | npt.NDArray[Any]  # of streams, in the layout that a method wants
PACKAGES = ("numpy", "scikit-learn", "numba", "aeon", "torch")
JOBS: dict[str, dict[str, Any]] = {"1": {"n_jobs": 1}, "default": {}}
COLUMNS = (
    "Set",
    "method",
    "streams",
    "clips",
    "accuracy",
    "n_jobs",
    "fit s",
    "predict s",
    "CPU s",
    "peak MB",
)
WILD_FOLDS = 10
GROWTH, CLASSES, FRAMES, BINS = (1_250, 2_500, 5_000), 10, 100, 64
PUBLISHED = {  # accuracies of HC2, ROCKET and DTW on the official splits
    "BasicMotions": (100.0, 100.0, 97.5),
    "Epilepsy": (100.0, 99.3, 96.4),
    "ERing": (98.9, 98.5, 91.5),
    "RacketSports": (90.8, 89.5, 80.3),
}


class Method(NamedTuple):
    """A function that makes an estimator, and the streams that it takes."""

    make: Callable[..., Any]
    takes: str  # "rows": ours; "any length" and "one length": channels first
    slow: bool = False


class Problem(NamedTuple):
    """Labelled streams and folds. Peers are tried on all inputs, ours on the first."""

    name: str
    inputs: dict[str, list[Array]]
    labels: npt.NDArray[Any]
    folds: list[tuple[IntArray, IntArray]]
    groups: npt.NDArray[Any] | None = None
    kernel: str = "chi2"


@dataclass(frozen=True)
class Row:
    """What was measured; `fit`, `predict` and `cpu` are seconds, memory is in bytes."""

    problem: str
    method: str
    streams: str
    n_jobs: str
    clips: int
    accuracy: float | None
    fit: float
    predict: float | None
    cpu: float
    memory: int | None = None

    def cells(self) -> list[str]:
        """Return the cells of a table, in the order of `COLUMNS`."""
        return [
            self.problem,
            self.method,
            self.streams,
            f"{self.clips:,}",
            "" if self.accuracy is None else f"{100 * self.accuracy:.1f} %",
            self.n_jobs,
            f"{self.fit:.2f}",
            "" if self.predict is None else f"{self.predict:.2f}",
            f"{self.cpu:.2f}",
            "" if self.memory is None else f"{self.memory / 1e6:,.0f}",
        ]


def _make(module: str, name: str, **options: Any) -> Any:
    """Make an instance of a class of a package that need not be there before."""
    return getattr(importlib.import_module(module), name)(**options)


def _aeon(family: str, name: str, **options: Any) -> Callable[..., Any]:
    return partial(_make, f"aeon.classification.{family}", f"{name}Classifier", **options)


METHODS = {
    "sysbags": Method(partial(_make, "sysbags", "StreamClassifier"), "rows"),
    "MiniRocket": Method(_aeon("convolution_based", "MiniRocket", random_state=0), "one length"),
    "MultiRocketHydra": Method(_aeon("convolution_based", "MultiRocketHydra", random_state=0), "one length"),
    "Catch22": Method(_aeon("feature_based", "Catch22", random_state=0), "any length"),
    "1-NN DTW": Method(_aeon("distance_based", "KNeighborsTimeSeries"), "any length", slow=True),
}


def esc_10(file: Path, _: Path | None) -> Iterator[Problem]:
    """The streams of `benchmarks.results`; log powers are what peers are usually given."""
    streams, labels, folds = mel_streams(file)
    log_powers = list(np.load(file, allow_pickle=False)["log_mel_power"].astype(float))
    inputs = {"mel^(1/4)": streams, "log mel": log_powers}
    yield Problem("esc-10", inputs, labels, _left_out(labels, folds), folds)


def traffic(folder: Path, cache: Path | None) -> Iterator[Problem]:
    """Four official trials; the first frame of every clip is damaged."""
    data = _patterns("traffic", folder, cache, start=1)
    parts = [np.array(trial) for trial in data.trials.values()]
    folds = [(np.flatnonzero(part == "train"), np.flatnonzero(part == "test")) for part in parts]
    yield Problem("traffic", {"LBP": data.streams}, np.array(data.labels), folds)


def gait_speed(folder: Path, cache: Path | None) -> Iterator[Problem]:
    """The central frames, because the length of a clip alone tells the speed."""
    data = _patterns("gait-speed", folder, cache)
    streams = []
    for stream in data.streams:
        start = max(0, (len(stream) - CENTRAL_FRAMES) // 2)
        streams.append(stream[start : start + CENTRAL_FRAMES])
    labels, groups = np.array(data.labels), np.array(data.groups)
    yield Problem("gait-speed", {"LBP": streams}, labels, _left_out(labels, groups), groups)


def wild_scenes(folder: Path, cache: Path | None) -> Iterator[Problem]:
    """Ten folds: with one source left out at a time, peers would need hours."""
    data = _patterns("wild-scenes", folder, cache)
    labels, groups = np.array(data.labels), np.array(data.groups)
    splitter = StratifiedGroupKFold(WILD_FOLDS, shuffle=True, random_state=0)
    folds = list(splitter.split(labels, labels, groups))
    yield Problem("wild-scenes", {"LBP": data.streams}, labels, folds, groups)


def uea(folder: Path, _: Path | None) -> Iterator[Problem]:
    """All sets of a folder."""
    for file in sorted(folder.glob("*/*_TRAIN.ts")):
        name = file.parent.name
        read = importlib.import_module("aeon.datasets").load_from_ts_file
        train, test = (read(str(file.with_name(f"{name}_{part}.ts"))) for part in ("TRAIN", "TEST"))
        streams = [np.array(series.T, dtype=float) for part in (train, test) for series in part[0]]
        numbers = np.arange(len(streams))
        folds = [(numbers[: len(train[0])], numbers[len(train[0]) :])]
        yield Problem(name, {"raw": streams}, np.concatenate([train[1], test[1]]), folds, kernel="linear")


SETS = {
    "esc-10": esc_10,
    "traffic": traffic,
    "gait-speed": gait_speed,
    "wild-scenes": wild_scenes,
    "uea": uea,
}


def _left_out(labels: npt.NDArray[Any], groups: npt.NDArray[Any]) -> list[tuple[IntArray, IntArray]]:
    return list(LeaveOneGroupOut().split(labels, labels, groups))


def _patterns(name: str, folder: Path, cache: Path | None, **frames: int) -> LabelledStreams:
    """Return the LBP streams of a folder of clips, from the cache if they are there."""
    clips = class_folders(folder)
    file = cache / f"{name}-lbp.npz" if cache else None
    if file and file.exists():
        return read_streams(file)
    streams = LocalBinaryPatterns(frames=frames, n_jobs=-1).transform(clips.paths)
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_streams(file, streams, clips.labels, clips.sources, trials=clips.trials or None)
    names = [path.name for path in clips.paths]
    return LabelledStreams(streams, clips.labels, clips.sources, names, clips.trials)


def layouts(streams: Sequence[Array], takes: str) -> dict[str, Collection]:
    """Return the streams as a method takes them; in two ways if they must be made equal in length."""
    if takes == "rows":
        return {"": list(streams)}
    turned = [np.ascontiguousarray(stream.T) for stream in streams]
    lengths = {stream.shape[1] for stream in turned}
    if len(lengths) == 1:
        return {"": np.stack(turned)}
    if takes == "any length":
        return {"": turned}
    make = partial(_make, "aeon.transformations.collection.unequal_length")
    return {
        ", padded": make("Padder", padded_length=max(lengths), fill_value="mean").fit_transform(turned),
        ", resized": make("Resizer", resized_length=max(lengths)).fit_transform(turned),
    }


def _part(streams: Collection, numbers: IntArray) -> Collection:
    return streams[numbers] if isinstance(streams, np.ndarray) else [streams[k] for k in numbers]


def _standardised(train: Collection, test: Collection) -> tuple[Collection, Collection]:
    """Give every channel mean 0 and variance 1 over all rows of the training set."""
    rows = np.concatenate(list(train))
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    return [(stream - mean) / deviation for stream in train], [(stream - mean) / deviation for stream in test]


def warm_up(make: Callable[[], Any], method: Method, unequal: bool) -> None:
    """Compile, on a small other set."""
    streams, labels = make_streams(classes=2, per_class=6, frames=60, bins=8, random_state=1)
    if unequal:
        streams[0] = streams[0][:-5]
    small = next(iter(layouts(streams, method.takes).values()))
    make().fit(small, labels).predict(small)


def measure(problem: Problem, name: str, streams: Collection, jobs: str, title: str) -> Row:
    """Fit and predict on all folds, on streams in the layout of the method."""
    method, ours = METHODS[name], METHODS[name].takes == "rows"
    options = JOBS[jobs] | ({"kernel": problem.kernel} if ours else {})
    right = fit_seconds = predict_seconds = cpu = 0.0
    with threadpool_limits(limits=1) if jobs == "1" else contextlib.nullcontext():
        warm_up(partial(method.make, **options), method, isinstance(streams, list))
        for train, test in problem.folds:
            known, new = _part(streams, train), _part(streams, test)
            extra = {"groups": problem.groups[train]} if ours and problem.groups is not None else {}
            started = time.process_time()
            if ours and problem.kernel == "linear":
                known, new = _standardised(known, new)
            estimator = method.make(**options)
            used, _ = seconds(partial(estimator.fit, known, problem.labels[train], **extra))
            fit_seconds += used
            used, predicted = seconds(partial(estimator.predict, new))
            predict_seconds += used
            cpu += time.process_time() - started
            right += np.sum(predicted == problem.labels[test])
    accuracy = right / sum(len(test) for _, test in problem.folds)
    clips = len(problem.labels)
    return Row(problem.name, name, title, jobs, clips, accuracy, fit_seconds, predict_seconds, cpu)


def rows(problem: Problem, names: Sequence[str], jobs: Sequence[str]) -> Iterator[Row]:
    """Measure methods on each of their inputs."""
    for name in names:
        takes = METHODS[name].takes
        inputs = list(problem.inputs.items())[: 1 if takes == "rows" else None]
        for title, streams in inputs:
            for suffix, layout in layouts(streams, takes).items():
                for number in jobs:
                    yield measure(problem, name, layout, number, title + suffix)


def growth(name: str, jobs: str, clips: int) -> Row:
    """Fit generated streams, in a process of its own because memory is its peak."""
    method = METHODS[name]
    made, labels = make_streams(CLASSES, clips // CLASSES, FRAMES, BINS)
    streams = next(iter(layouts(made, method.takes).values()))
    with threadpool_limits(limits=1) if jobs == "1" else contextlib.nullcontext():
        make = partial(method.make, **JOBS[jobs])
        warm_up(make, method, False)
        started = time.process_time()
        used, _ = seconds(partial(make().fit, streams, labels))
    cpu = time.process_time() - started
    return Row("growth", name, "generated", jobs, clips, None, used, None, cpu, peak_memory())


def growth_rows(names: Sequence[str], jobs: Sequence[str]) -> Iterator[Row]:
    """Measure all sizes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for name in names:
            for number in jobs:
                yield from pool.map(partial(growth, name, number), GROWTH)


def table(measured: Sequence[Row]) -> Table:
    """Return all rows, as Markdown."""
    shown = Table(box=box.MARKDOWN)
    for k, title in enumerate(COLUMNS):
        shown.add_column(title, justify="left" if k < 3 else "right", no_wrap=True)
    for row in measured:
        shown.add_row(*row.cells())
    return shown


def main() -> None:
    """Print the table, and write it after each row."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("set", choices=[*SETS, "growth"])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--cache", type=Path, help="folder for the streams of clips")
    parser.add_argument("--only", nargs="+", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--slow", action="store_true", help="also methods that take minutes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.set != "growth" and arguments.data is None:
        parser.error(f"{arguments.set} needs DATA, a file or a folder")
    names = arguments.only or [name for name in METHODS if arguments.slow or not METHODS[name].slow]
    if arguments.set == "growth":
        measured = growth_rows(arguments.only or ["sysbags"], arguments.jobs)
    else:
        problems = SETS[arguments.set](arguments.data, arguments.cache)
        measured = (row for problem in problems for row in rows(problem, names, arguments.jobs))
    about = facts(shlex.join(["python", "-m", "benchmarks.streams", *sys.argv[1:]]), PACKAGES)
    taken: list[Row] = []
    for row in measured:
        taken.append(row)
        Console(stderr=True, soft_wrap=True).print(*row.cells(), style="dim", highlight=False)
        if arguments.json:
            output = {"about": about, "rows": [asdict(row) for row in taken]}
            arguments.json.write_text(json.dumps(output, indent=1))
    print("\n".join(about))
    Console(width=150).print(table(taken))
    for problem in {row.problem: None for row in taken if row.problem in PUBLISHED}:
        print(f"{problem}, published: HC2 {{}} %, ROCKET {{}} %, DTW {{}} %".format(*PUBLISHED[problem]))


if __name__ == "__main__":
    main()
