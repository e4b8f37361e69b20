"""Classifiers of streams on the same folds, in one run: accuracy, and seconds of fit and of predict.

`python -m benchmarks.streams SET [DATA] [--only METHOD ...] [--jobs 1 default] [--slow]`, where SET is one of

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
learns a small set. With `n_jobs` 1 every library has one thread; "default" leaves that to the libraries.
Where others use the machine, wall-clock seconds grow, most of all with several threads; compare CPU seconds.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
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

from benchmarks.machine import command_parser, facts, peak_memory, seconds
from benchmarks.results import CENTRAL_FRAMES, mel_streams
from sysbags._common.types import Array, IntArray
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import LabelledStreams, class_folders, make_streams, read_streams, write_streams

Collection = list[Array] | npt.NDArray[Any]  # streams in the layout that a method wants
Folds = list[tuple[IntArray, IntArray]]
PACKAGES = ("sysbags", "numpy", "scikit-learn", "numba", "aeon", "torch")
JOBS: dict[str, dict[str, int]] = {"1": {"n_jobs": 1}, "default": {}}
UNITS = {"accuracy": " %", "fit": " s", "predict": " s", "cpu": " s", "memory": " MB"}
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
    folds: Folds
    groups: npt.NDArray[Any] | None = None
    kernel: str = "chi2"


class Row(NamedTuple):
    """What was measured: accuracy in per cent, fit, predict and CPU in seconds, memory in MB."""

    set: str
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
        """Return the texts of a table."""
        texts: dict[type, str] = {str: "{}", int: "{:,}", float: "{:.2f}", type(None): ""}
        return [texts[type(value)].format(value) for value in self]


def _make(module: str, name: str, **options: Any) -> Any:
    """Make an instance of a class of a package that need not be installed."""
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


def esc_10(file: Path, _: Path) -> Iterator[Problem]:
    """The streams of `benchmarks.results`; log powers are what peers are usually given."""
    streams, labels, folds = mel_streams(file)
    arrays = np.load(file, allow_pickle=False)
    inputs = {"mel^(1/4)": streams, "log mel": list(arrays["log_mel_power"].astype(float))}
    yield Problem("esc-10", inputs, labels, _left_out(labels, folds), arrays["source"])


def traffic(folder: Path, cache: Path) -> Iterator[Problem]:
    """Four official trials; the first frame of every clip is damaged."""
    data = _patterns("traffic", folder, cache, start=1)
    parts = [np.array(trial) for trial in data.trials.values()]
    folds = [(np.flatnonzero(part == "train"), np.flatnonzero(part == "test")) for part in parts]
    yield Problem("traffic", {"LBP": data.streams}, np.array(data.labels), folds)


def gait_speed(folder: Path, cache: Path) -> Iterator[Problem]:
    """The central frames, because the length of a clip alone tells the speed."""
    data = _patterns("gait-speed", folder, cache)
    starts = [max(0, (len(stream) - CENTRAL_FRAMES) // 2) for stream in data.streams]
    cut = [stream[k : k + CENTRAL_FRAMES] for stream, k in zip(data.streams, starts, strict=True)]
    labels, groups = np.array(data.labels), np.array(data.groups)
    yield Problem("gait-speed", {"LBP": cut}, labels, _left_out(labels, groups), groups)


def wild_scenes(folder: Path, cache: Path) -> Iterator[Problem]:
    """Ten folds: with one source left out at a time, peers would need hours."""
    data = _patterns("wild-scenes", folder, cache)
    labels, groups = np.array(data.labels), np.array(data.groups)
    splitter = StratifiedGroupKFold(WILD_FOLDS, shuffle=True, random_state=0)
    folds = list(splitter.split(labels, labels, groups))
    yield Problem("wild-scenes", {"LBP": data.streams}, labels, folds, groups)


def uea(folder: Path, _: Path) -> Iterator[Problem]:
    """All sets of a folder."""
    read = importlib.import_module("aeon.datasets").load_from_ts_file
    for file in sorted(folder.glob("*/*_TRAIN.ts")):
        name = file.parent.name
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


def _left_out(labels: npt.NDArray[Any], groups: npt.NDArray[Any]) -> Folds:
    return list(LeaveOneGroupOut().split(labels, labels, groups))


def _patterns(name: str, folder: Path, cache: Path, **frames: int) -> LabelledStreams:
    """Return the LBP streams of a folder of clips, from the cache if they are there."""
    file = cache / f"{name}-lbp.npz"
    if not file.exists():
        clips = class_folders(folder)
        streams = LocalBinaryPatterns(frames=frames, n_jobs=-1).transform(clips.paths)
        cache.mkdir(parents=True, exist_ok=True)
        write_streams(file, streams, clips.labels, clips.sources, trials=clips.trials or None)
    return read_streams(file)


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


def warm_up(make: Callable[[], Any], takes: str, unequal: bool) -> None:
    """Compile, on a small other set."""
    streams, labels = make_streams(classes=2, per_class=6, frames=60, bins=8, random_state=1)
    if unequal:
        streams[0] = streams[0][:-5]
    small = layouts(streams, takes).popitem()[1]
    make().fit(small, labels).predict(small)


def measure(problem: Problem, name: str, title: str, streams: Collection, jobs: str) -> Row:
    """Fit and predict on all folds, on streams in the layout of the method."""
    make, takes, _ = METHODS[name]
    ours = takes == "rows"
    options: dict[str, Any] = JOBS[jobs] | ({"kernel": problem.kernel} if ours else {})
    right = fit = predict = cpu = 0.0
    with threadpool_limits(JOBS[jobs].get("n_jobs")):
        warm_up(partial(make, **options), takes, isinstance(streams, list))
        for train, test in problem.folds:
            known, new = _part(streams, train), _part(streams, test)
            extra = {"groups": problem.groups[train]} if ours and problem.groups is not None else {}
            started = time.process_time()
            if ours and problem.kernel == "linear":
                known, new = _standardised(known, new)
            estimator = make(**options)
            fit += seconds(partial(estimator.fit, known, problem.labels[train], **extra))[0]
            used, predicted = seconds(partial(estimator.predict, new))
            predict += used
            cpu += time.process_time() - started
            right += float(np.sum(predicted == problem.labels[test]))
    accuracy = 100.0 * right / sum(len(test) for _, test in problem.folds)
    return Row(problem.name, name, title, jobs, len(problem.labels), accuracy, fit, predict, cpu)


def rows(problem: Problem, names: Sequence[str], jobs: Sequence[str]) -> Iterator[Row]:
    """Measure methods on each of their inputs."""
    for name in names:
        takes = METHODS[name].takes
        for title, streams in list(problem.inputs.items())[: 1 if takes == "rows" else None]:
            for suffix, layout in layouts(streams, takes).items():
                yield from (measure(problem, name, title + suffix, layout, number) for number in jobs)


def growth(name: str, jobs: str, clips: int) -> Row:
    """Fit generated streams, in a process of its own because memory is its peak."""
    make, takes, _ = METHODS[name]
    made, labels = make_streams(CLASSES, clips // CLASSES, FRAMES, BINS)
    streams = layouts(made, takes)[""]
    with threadpool_limits(JOBS[jobs].get("n_jobs")):
        warm_up(partial(make, **JOBS[jobs]), takes, unequal=False)
        started = time.process_time()
        fit, _ = seconds(partial(make(**JOBS[jobs]).fit, streams, labels))
    cpu = time.process_time() - started
    return Row("growth", name, "generated", jobs, clips, None, fit, None, cpu, peak_memory() // 10**6)


def growth_rows(names: Sequence[str], jobs: Sequence[str]) -> Iterator[Row]:
    """Measure all sizes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for name in names:
            for number in jobs:
                yield from pool.map(partial(growth, name, number), GROWTH)


def main() -> None:
    """Print the table as Markdown, and write it as JSON after each row."""
    parser = command_parser("python -m benchmarks.streams", __doc__)
    cache = Path(tempfile.gettempdir(), "sysbags-streams")
    parser.add_argument("set", choices=[*SETS, "growth"])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--cache", type=Path, default=cache, help=f"folder of LBP streams; default: {cache}")
    parser.add_argument("--only", nargs="+", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--slow", action="store_true", help="also methods that take minutes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    names = arguments.only or [name for name in METHODS if arguments.slow or not METHODS[name].slow]
    if arguments.set == "growth":
        measured = growth_rows(arguments.only or ["sysbags"], arguments.jobs)
    elif arguments.data is None:
        parser.error(f"{arguments.set} needs DATA, a file or a folder")
    else:
        problems = SETS[arguments.set](arguments.data, arguments.cache)
        measured = (row for problem in problems for row in rows(problem, names, arguments.jobs))
    about = facts(shlex.join(["python", "-m", "benchmarks.streams", *sys.argv[1:]]), PACKAGES)
    table, taken = Table(box=box.MARKDOWN), []
    for k, title in enumerate(Row._fields):
        table.add_column(title + UNITS.get(title, ""), justify="left" if k < 4 else "right", no_wrap=True)
    for row in measured:
        table.add_row(*row.cells())
        taken.append(row._asdict())
        Console(stderr=True, soft_wrap=True).print(*row.cells(), style="dim", highlight=False)
        if arguments.json:
            arguments.json.write_text(json.dumps({"about": about, "rows": taken}, indent=1))
    print("\n".join(about))
    Console(width=150).print(table)
    for name in {row["set"]: None for row in taken if row["set"] in PUBLISHED}:
        print(f"{name}, published: HC2 {{}} %, ROCKET {{}} %, DTW {{}} %".format(*PUBLISHED[name]))


if __name__ == "__main__":
    main()
