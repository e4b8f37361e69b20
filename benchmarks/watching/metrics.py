"""How well the scores of windows separate events from normal operation, without point adjustment.

A window is positive if it overlaps events by at least half of its length, or contains at least half of an
event that is shorter than a window. With point adjustment, one window above the threshold would count as
the whole event, so that random scores look good; it is not used here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.metrics import auc, average_precision_score

from sysbags._common.types import Array, IntArray
from sysbags.datasets import WatchedEvent
from sysbags.datasets.watching import first_frame

__all__ = ["auc_pr", "vus_pr", "window_labels"]

Labels = npt.NDArray[np.bool_]


def window_labels(windows: IntArray, events: Sequence[WatchedEvent], rate: float) -> Labels:
    """Return whether each window, (start, stop) in frames, is positive.

    Examples
    --------
    >>> windows = np.array([[0, 100], [40, 140], [60, 160], [300, 400]])
    >>> window_labels(windows, [WatchedEvent(10.0, 14.0, "fog"), WatchedEvent(33.0, 36.0, "fog")], 10.0)
    array([False,  True,  True,  True])
    """
    positive = np.zeros(len(windows), dtype=bool)
    starts, stops = windows.T
    for event in events:
        first, last = first_frame(event.start, rate), first_frame(event.stop, rate)
        overlap = np.minimum(stops, last) - np.maximum(starts, first)
        positive |= 2 * overlap >= np.minimum(stops - starts, last - first)
    return positive


def auc_pr(labels: Labels, scores: Array) -> float:
    """Return the area under the precision-recall curve of the windows: the average precision.

    Examples
    --------
    >>> auc_pr(np.array([True, False, True, False]), np.array([4.0, 3.0, 2.0, 1.0]))  # (1 + 2/3) / 2
    0.8333333333333333
    """
    return float(average_precision_score(labels, scores))


def vus_pr(labels: Labels, scores: Array, buffer: int) -> float:
    """Return the volume under the surface of precision, recall and buffer length (VUS-PR).

    J. Paparrizos et al., "Volume under the surface", PVLDB 15(11), 2022. The labels become soft: `d` windows
    before or after an event, up to half of the buffer length `l`, a window is positive to the degree
    ``sqrt(1 - d/l)``. With soft labels, the recall is the mass of the positives found, divided by the mean
    of the masses of the soft and the original labels, at most 1, times the share of the events of which at
    least one window is found. The area under the curve of all thresholds, by the trapezoidal rule from
    (recall 0, precision 1), is averaged over the buffer lengths from 0 to `buffer`, in windows.

    Examples
    --------
    >>> round(vus_pr(np.array([False, True, False, False]), np.array([4.0, 3.0, 2.0, 1.0]), 2), 4)
    0.4369
    """
    order = np.argsort(-scores, kind="stable")
    thresholds = scores[order]
    last = np.flatnonzero(np.append(thresholds[1:] != thresholds[:-1], True))  # windows with equal scores
    areas = []
    for length in range(buffer + 1):
        soft = _soften(labels, length)
        found = np.cumsum(soft[order])[last]
        peaks = np.sort([-scores[start:stop].max() for start, stop in _runs(soft > 0.0)])
        share = np.searchsorted(peaks, -thresholds[last], side="right") / len(peaks)
        recall = share * np.minimum(2.0 * found / (labels.sum() + soft.sum()), 1.0)
        areas.append(auc(np.append(0.0, recall), np.append(1.0, found / (last + 1.0))))
    return float(np.mean(areas))


def _soften(labels: Labels, buffer: int) -> Array:
    soft = labels.astype(np.float64)
    away = np.arange(1, buffer // 2 + 1)
    for start, stop in _runs(labels):
        for places in (start - away, stop - 1 + away):
            inside = (places >= 0) & (places < len(soft))
            soft[places[inside]] += np.sqrt(1.0 - away[inside] / buffer)
    return np.minimum(soft, 1.0)


def _runs(mask: Labels) -> list[list[int]]:
    """Return the start and the stop of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return np.reshape(edges, (-1, 2)).tolist()
