"""The benchmark of NAB, on a folder with a scorer of the same interface, whose scores are simple."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from benchmarks.watching import nab

SWEEPER = """
from collections import namedtuple
Point = namedtuple("Point", "score window cost")
Found = namedtuple("Found", "threshold score")

class Sweeper:
    def __init__(self, probationPercent, costMatrix):
        self.share, self.cost = probationPercent, costMatrix

    def calcSweepScore(self, timestamps, anomalyScores, windowLimits, dataSetName):
        assert len(timestamps) == len(anomalyScores)
        for k, (time, score) in enumerate(zip(timestamps, anomalyScores)):
            inside = [(dataSetName, limits) for limits in windowLimits if limits[0] <= time <= limits[1]]
            if k >= self.share * len(timestamps):
                yield Point(score, inside[0] if inside else None, self.cost)

    def calcScoreByThreshold(self, points):
        windows = {point.window for point in points} - {None}
        for threshold in [1.1, *{point.score for point in points}]:
            above = [point.window for point in points if point.score >= threshold]
            found, false = len(set(above) - {None}), above.count(None)
            cost = self.cost
            missed = (len(windows) - found) * cost["fnWeight"]
            yield Found(threshold, found * cost["tpWeight"] - missed - false * cost["fpWeight"])
"""
COUNT = 900
START = datetime(2026, 1, 1)
FILES = ("realTest/flat.csv", "realTest/noise.csv")


def moment(row):
    return START + timedelta(minutes=5 * row)


@pytest.fixture
def folder(tmp_path):
    """Two anomalies in noise, and a file that never changes."""
    values = np.random.default_rng(0).standard_normal((2, COUNT))
    values[0] = 3.0
    values[1, 700:705] += 20.0
    scores = np.zeros((2, COUNT))
    scores[1, 702], scores[0, 500] = 0.9, 0.9
    cost = {"tpWeight": 1.0, "fpWeight": 0.11, "fnWeight": 1.0}
    profiles = {name: {"CostMatrix": cost} for name in nab.PROFILES}
    windows = [[str(moment(a)), str(moment(b))] for a, b in ((690, 710), (800, 810))]
    published = {name: dict.fromkeys(nab.PROFILES, score) for name, score in (("null", 0.0), ("best", 70.5))}
    texts = {
        "nab/sweeper.py": SWEEPER,
        "config/profiles.json": json.dumps(profiles),
        "labels/combined_windows.json": json.dumps(dict(zip(FILES, [[], windows], strict=True))),
        "results/final_results.json": json.dumps(published),
    }
    for name, series, stored in zip(FILES, values, scores, strict=True):
        lines = [f"{moment(k)},{value:.6f}" for k, value in enumerate(series)]
        texts[f"data/{name}"] = "\n".join(["timestamp,value", *lines])
        lines = [f"{line},{score}" for line, score in zip(lines, stored, strict=True)]
        for detector in nab.AGAIN:
            result = name.replace("/", f"/{detector}_")
            texts[f"results/{detector}/{result}"] = "\n".join(["timestamp,value,anomaly_score", *lines])
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_table(folder):
    head, _, *lines = nab.rows(folder)
    assert head.startswith("| detector, 2 files (1 refused by sysbags), 1800 rows | standard | reward low FP")
    cells = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in lines}
    assert list(cells)[5:] == ["best, published", "null, published"]
    assert cells["best, published"] == ["70.50"] * 3
    # One of two anomalies is found, with one false alarm: 1 - 1 - 0.11, from -2 to 2.
    assert cells["windowedGaussian, scored again"] == [f"{100.0 * (2.0 - 0.11) / 4.0:.2f}"] * 3
    # The peak is found, without a false alarm, and nothing else: there is nothing else to find.
    assert cells["sysbags, first windows"] == ["50.00"] * 3
    assert float(cells["sysbags, events"][0]) > 40.0  # a false alarm costs 2.75


def test_nothing_is_seen_before_it_comes():
    values = np.random.default_rng(0).standard_normal(COUNT)
    found = nab.watch(values)
    values[650:] += 9.0
    again = nab.watch(values)
    for one, other in zip(found, again, strict=True):
        assert not one[: nab.probation(COUNT)].any()
        np.testing.assert_array_equal(one[:650], other[:650])
    assert again[0][650] > found[0].max()
    assert again[1][650] == 1.0


def test_windows_are_the_longest_that_can_be_learnt_from():
    assert [nab.window_length(count) for count in (1127, 4032, 22695)] == [8, 30, 37]
