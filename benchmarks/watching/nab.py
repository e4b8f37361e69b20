"""Series with labelled anomalies: the Numenta Anomaly Benchmark, by its own scoring.

`python -m benchmarks.watching.nab FOLDER [--page docs/watch.md]`, where FOLDER is a copy of
https://github.com/numenta/NAB. Its `nab/sweeper.py` scores, and one threshold for all files is chosen by the
labels, in each profile anew, as for the published detectors. Of these, one is scored again from its stored
results, which tests this script, and one whose published scores are not in `results/final_results.json`.

The settings of sysbags were fixed before any score was computed. Each file is learnt from its probationary
rows, 15 % and at most 750, which are not scored. Windows are the longest that these allow, and there is one
for each row, so that each is judged when it comes; other options are the defaults. The number of a row
stands for its time: some files miss so many rows that hardly any window would be without a gap, and the
rules of NAB count rows. The score of a row is the surprise of the window that ends with it, divided by the
largest one possible. A file that `sysbags watch` refuses to learn from has the score 0.

NAB counts each row above the threshold that is in no anomaly, but `sysbags watch` reports an event once. So a
row of "first windows" has its score only if no row in the two window lengths before, which would belong to
the same event, has as large a one; the other rows have 0. "all windows" are the scores themselves. Lasting
changes have no surprise, and are left out of both. "events" are what `sysbags watch` reports, jumps and
lasting changes, at the rate of false alarms that is asked for on SKAB, one in 1000 rows: the row in which an
event is found has the score 1, and the others 0. This line was added after the two before had been seen.
"""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import print_table_of_folder
from sysbags._common.types import Array
from sysbags.datasets.tables import Table
from sysbags.errors import StreamError
from sysbags.watch.numbers import NumberSession
from sysbags.watch.session import Outputs
from sysbags.watch.watcher import LARGEST, MERGED, SMALLEST

PROBATION, LONGEST = 0.15, 750  # share of the rows, and number of rows, as in NAB
FALSE_ALARMS = 1.0 / 1000.0  # per row; surprises do not depend on it
PROFILES = ("standard", "reward_low_FP_rate", "reward_low_FN_rate")
AGAIN = ("windowedGaussian", "bayesChangePt")

Rows = tuple[list[datetime], Array]  # times and values


def probation(count: int) -> int:
    """Return the number of rows that are not scored.

    Examples
    --------
    >>> probation(1127), probation(22695)
    (169, 750)
    """
    return min(int(PROBATION * count), LONGEST)


def window_length(count: int) -> int:
    """Return the rows of the longest windows of which enough are in the rows to learn from."""
    return int(probation(count) // (2 * SMALLEST))


def watch(values: Array) -> tuple[Array, Array]:
    """Return the surprise of the window that ends with each row, and 1 where an event is found.

    Both are 0 for the rows to learn from.

    Examples
    --------
    >>> values = np.random.default_rng(0).standard_normal(900)
    >>> values[700:710] += 20.0
    >>> surprise, events = watch(values)
    >>> int(np.argmax(surprise > 10.0)), int(events[700])
    (700, 1)
    """
    table = Table("values", ["value"], ((float(k), values[k : k + 1]) for k in range(len(values))), False)
    surprise, events = np.zeros(len(values)), np.zeros(len(values))

    def keep(record: dict[str, Any]) -> None:
        if record["type"] == "window":
            surprise[round(record["stop"]) - 1] = record["surprise"]
        if record["type"] == "event":
            events[round(record["found"]) - 1] = 1.0

    NumberSession(
        table,
        learn=float(probation(len(values))),
        false_alarms=FALSE_ALARMS,
        length=window_length(len(values)),
        step=1,
        outputs=Outputs(windows=True),
    ).run(keep)
    return surprise, events


def first_of_events(scores: Array, apart: int) -> Array:
    """Return scores that are above all of the `apart` ones before, and 0 in the place of the others.

    Examples
    --------
    >>> first_of_events(np.array([0.0, 2.0, 3.0, 3.0, 1.0, 1.0, 2.0]), 2)
    array([0., 2., 3., 0., 0., 0., 2.])
    """
    before = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.zeros(apart), scores[:-1]]), apart)
    return np.where(scores > before.max(axis=1), scores, 0.0)


def profile_scores(folder: Path, times: Mapping[str, list[datetime]], scores: Mapping[str, Array]) -> Array:
    """Return the score in each profile with its best threshold: 100 is perfect, 0 finds nothing."""
    sweeper_class = _sweeper(folder)
    labels = json.loads((folder / "labels" / "combined_windows.json").read_text())
    limits = {name: [tuple(map(datetime.fromisoformat, pair)) for pair in labels[name]] for name in times}
    costs = json.loads((folder / "config" / "profiles.json").read_text())
    count, found = sum(map(len, limits.values())), []
    for profile in PROFILES:
        cost = costs[profile]["CostMatrix"]
        sweeper = sweeper_class(probationPercent=PROBATION, costMatrix=cost)
        points = [
            point
            for name in times
            for point in sweeper.calcSweepScore(times[name], scores[name].tolist(), limits[name], name)
        ]
        best = max(one.score for one in sweeper.calcScoreByThreshold(points))
        nothing, perfect = -count * cost["fnWeight"], count * cost["tpWeight"]
        found.append(100.0 * (best - nothing) / (perfect - nothing))
    return np.array(found)


def rows(folder: Path) -> Iterator[str]:
    """Lines of the table of all detectors."""
    paths = sorted((folder / "data").glob("*/*.csv"))
    names = [path.relative_to(folder / "data").as_posix() for path in paths]
    files = {name: _read(path, "value") for name, path in zip(names, paths, strict=True)}
    times = {name: moments for name, (moments, _) in files.items()}
    every, events, refused = {}, {}, 0
    for name, (_, values) in files.items():
        every[name] = events[name] = np.zeros(len(values))
        try:
            surprise, events[name] = watch(values)
            every[name] = surprise / LARGEST
        except StreamError:
            refused += 1
    first = {
        name: first_of_events(scores, MERGED * window_length(len(scores))) for name, scores in every.items()
    }
    total = sum(map(len, every.values()))
    yield (
        f"| detector, {len(files)} files ({refused} refused by sysbags), {total} rows | "
        f"{' | '.join(PROFILES).replace('_', ' ')} |"
    )
    yield "| --- |" + " ---: |" * len(PROFILES)
    yield _line("sysbags, first windows", profile_scores(folder, times, first))
    yield _line("sysbags, all windows", profile_scores(folder, times, every))
    yield _line("sysbags, events", profile_scores(folder, times, events))
    results = folder / "results"
    for detector in AGAIN:
        stored = {
            name: _read(results / detector / path.parent.name / f"{detector}_{path.name}", "anomaly_score")[1]
            for name, path in zip(names, paths, strict=True)
        }
        yield _line(f"{detector}, scored again", profile_scores(folder, times, stored))
    published = json.loads((results / "final_results.json").read_text())
    for name, scores in sorted(published.items(), key=lambda item: -item[1][PROFILES[0]]):
        yield _line(f"{name}, published", np.array([scores[profile] for profile in PROFILES]))


def _line(name: str, scores: Array) -> str:
    return f"| {name} | {' | '.join(f'{score:.2f}' for score in scores)} |"


def _read(path: Path, column: str) -> Rows:
    """Return the times and a column of a file."""
    with path.open(newline="") as file:
        records = list(csv.DictReader(file))
    times = [datetime.fromisoformat(record["timestamp"]) for record in records]
    return times, np.array([float(record[column]) for record in records])


def _sweeper(folder: Path) -> Any:
    """Return the class of NAB that scores; the rest of its package needs an old pandas."""
    spec = importlib.util.spec_from_file_location("nab_sweeper", folder / "nab" / "sweeper.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Sweeper


if __name__ == "__main__":
    packages = ("numpy", "scipy", "scikit-learn")
    print_table_of_folder(rows, "python -m benchmarks.watching.nab", packages, __doc__)
