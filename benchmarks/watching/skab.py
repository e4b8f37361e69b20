"""Sensors of a water pump: the outliers of SKAB, beside T-squared + Q and IsolationForest.

`python -m benchmarks.watching.skab FOLDER [--page docs/watch.md]`, where FOLDER is `data` of
https://github.com/waico/SKAB. The protocol is that of its leaderboard: in each of 34 files the first 400 rows
are learnt from, and the rows after them are scored, of all files together. The two rivals have the settings
of its notebooks.

The settings of sysbags were fixed before any rate was computed. Windows are the longest that 400 rows allow,
with a tenth as the step, as by default; other options are the defaults. The rate of false alarms is that of
the p-value 0.999 of T-squared + Q, once in 1000 rows. It is an online method, whose events begin and end with
what is in windows, and every row of an event is an outlier.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.preprocessing import StandardScaler

from benchmarks.machine import print_table_of_folder
from sysbags._common.types import Array
from sysbags.datasets.tables import open_table
from sysbags.watch.numbers import NumberSession

BoolArray = npt.NDArray[np.bool_]

LEARNT = 400  # rows
LENGTH, STEP = 20, 2
FALSE_ALARMS = 1.0 / 1000.0  # per second, and there is one row per second
LABELS = ("anomaly", "changepoint")
P_VALUE, EXPLAINED, MEDIAN_OF = 0.999, 0.85, 5
CONTAMINATION, MEDIAN_OF_FOREST = 0.0005, 3

PUBLISHED = {  # F1, false and missed alarms in percent, by the leaderboard
    "sysbags": "",
    "T-squared + Q": "0.76 / 26.6 / 24.9",
    "IsolationForest": "0.29 / 2.6 / 82.9",
}


def sysbags_outliers(path: Path) -> BoolArray:
    """Return which rows after the first 400 are in an event."""
    times = np.array([time for time, _ in open_table(path, columns=_columns(path)).rows])
    times -= times[0]
    records: list[dict[str, float]] = []
    session = NumberSession(
        open_table(path, columns=_columns(path)),
        learn=float(times[LEARNT]),
        false_alarms=FALSE_ALARMS,
        length=LENGTH,
        step=STEP,
    )
    session.run(lambda record: records.append(record) if record["type"] == "event" else None)
    found = np.zeros(len(times), dtype=bool)
    for event in records:
        found |= (times >= event["start"]) & (times < event["end"])
    return found[LEARNT:]


def t_squared_and_q(path: Path) -> BoolArray:
    """Return which rows are beyond the limit of T-squared in a principal space, or of Q outside of it."""
    train, test = _standardised(path)
    pca = PCA(EXPLAINED).fit(train)
    n, m = len(train), pca.n_components_
    limit = f_distribution.ppf(P_VALUE, m, n - m) * m * (n - 1) * (n + 1) / (n * (n - m))
    scores, residual = pca.transform(test), test - test @ pca.components_.T @ pca.components_
    t_squared = np.sum(scores @ np.linalg.inv(np.cov(pca.transform(train).T).reshape(m, m)) * scores, axis=1)
    # In the order of LAPACK, as published; with the smallest ones there are more false alarms.
    values = np.linalg.eig(np.cov(train.T))[0][m:]
    theta = [float(np.sum(values**k)) for k in (1, 2, 3)]
    h = 1.0 - 2.0 * theta[0] * theta[2] / (3.0 * theta[1] ** 2)
    spread = norm.ppf(P_VALUE) * h * np.sqrt(2.0 * theta[1]) / theta[0]
    q_limit = theta[0] * (1.0 + spread + theta[1] * h * (h - 1.0) / theta[0] ** 2) ** (1.0 / h)
    q = np.sum(residual * test, axis=1)
    found: BoolArray = (_running_median(t_squared, MEDIAN_OF) > limit) | (
        _running_median(q, MEDIAN_OF) > q_limit
    )
    return found


def forest(path: Path) -> BoolArray:
    """Return which rows an isolation forest finds."""
    train, test = _rows(path)[:LEARNT], _rows(path)[LEARNT:]
    model = IsolationForest(contamination=CONTAMINATION, random_state=0).fit(train)
    return _running_median(-model.predict(test).astype(float), MEDIAN_OF_FOREST) > 0.0


METHODS: dict[str, Callable[[Path], BoolArray]] = {
    "sysbags": sysbags_outliers,
    "T-squared + Q": t_squared_and_q,
    "IsolationForest": forest,
}


def rates(true: BoolArray, found: BoolArray) -> tuple[float, float, float]:
    """Return F1, and the shares of false and of missed alarms.

    Examples
    --------
    >>> rates(np.array([True, True, False, False]), np.array([True, False, False, True]))
    (0.5, 0.5, 0.5)
    """
    hits, false, missed = (int(np.sum(rows)) for rows in (true & found, ~true & found, true & ~found))
    return (
        hits / (hits + 0.5 * (false + missed)),
        false / int(np.sum(~true)),
        missed / int(np.sum(true)),
    )


def rows(folder: Path) -> Iterator[str]:
    """Lines of the table of all methods."""
    paths = sorted(path for path in folder.glob("*/*.csv") if path.parent.name != "anomaly-free")
    labels = [_labels(path) for path in paths]
    true = np.concatenate(labels)
    before = np.concatenate([np.cumsum(rows) == 0 for rows in labels])
    heads = "F1 | false alarms, % | missed alarms, % | false before the fault, % | after it, % | published"
    yield f"| method, {len(paths)} files, {len(true)} rows | {heads} |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    for name, method in METHODS.items():
        found = np.concatenate([method(path) for path in paths])
        f1, *shares = rates(true, found)
        shares += [float(found[those].mean()) for those in (before, ~before & ~true)]
        percent = " | ".join(f"{100 * share:.1f}" for share in shares)
        yield f"| {name} | {f1:.2f} | {percent} | {PUBLISHED[name]} |"


def _columns(path: Path) -> list[str]:
    with path.open(newline="") as file:
        header = next(csv.reader(file, delimiter=";"))
    return [name for name in header if name not in ("datetime", *LABELS)]


def _rows(path: Path) -> Array:
    return np.array([numbers for _, numbers in open_table(path, columns=_columns(path)).rows])


def _labels(path: Path) -> BoolArray:
    values = (numbers[0] for _, numbers in islice(open_table(path, columns=LABELS[:1]).rows, LEARNT, None))
    return np.fromiter(values, dtype=np.float64) > 0.5


def _standardised(path: Path) -> tuple[Array, Array]:
    """Return the learnt and the other rows, without columns that are constant in the learnt ones."""
    table = _rows(path)
    table = table[:, np.any(table[:LEARNT] != table[0], axis=0)]
    scaler = StandardScaler().fit(table[:LEARNT])
    return scaler.transform(table[:LEARNT]), scaler.transform(table[LEARNT:])


def _running_median(values: Array, count: int) -> Array:
    """Return the median of each value and those before it; NaN where there are too few."""
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, count), axis=1)
    return np.concatenate([np.full(count - 1, np.nan), medians])


if __name__ == "__main__":
    packages = ("numpy", "scipy", "scikit-learn")
    print_table_of_folder(rows, "python -m benchmarks.watching.skab", packages, __doc__)
