"""Bicycles, skaters and carts among pedestrians: the frames of UCSD Ped2, beside other methods.

`python -m benchmarks.watching.ped2 FOLDER [--page docs/watch.md]`, where FOLDER has the clips as pictures,
one folder for each, in training/frames (16) and testing/frames (12), as they are handed round for the
prediction of frames (W. Liu et al., CVPR 2018). The protocol is that of published work: what is normal is
learnt from the training clips, and the area under the ROC curve is that of the frames of all test clips
together. Scores are not normalised by clip.

The settings were fixed before any area was computed. Windows are 20 frames, 2 seconds: two steps of a walker
or more, while a bicycle crosses the picture in a few seconds, so that the 10 seconds of the default would mix
it with what comes before and after; whole clips have only 12 to 18. The step is a tenth of it, as by default,
and so are all other options: order 5, the bags lbp-top and flow, and lbp-top alone with a grid. The score of
a frame is the mean of those of the windows that contain it, as an event at its first frame fills only some of
them, and their maximum would be that of the frames up to 2 seconds before, too. The few first and last
frames of a clip that no window has take the score of the nearest one. Of several bags or cells the largest
surprise counts.

The recordings are learnt one after the other, as with `--learn a.mp4,b.mp4`, and each test clip is watched by
itself. The other methods see the histograms of lbp-top in the same windows, some of them with the same grid,
too, and the background subtractor the frames. Times are of a processor, for all clips, with reading and
describing them, after compilation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from benchmarks.machine import print_table_of_folder, seconds
from benchmarks.watching.rivals import RIVALS, Rival, foreground, window_spans
from sysbags._common.types import Array, IntArray
from sysbags.bags import OpticalFlow, PlanePatterns
from sysbags.bags.base import BagTransformer
from sysbags.bags.regions import Regions
from sysbags.bags.streams import describe, good
from sysbags.errors import ParameterError, StreamError
from sysbags.video import Frame, Video, frames
from sysbags.watch.watcher import Learnt, Watcher

RATE, LENGTH, STEP = 10.0, 20, 2
FALSE_ALARMS = 1.0 / 3600.0  # per second; surprises do not depend on it
GRID, FLOW_LINES = "3x4", 48
WARM = 4  # training clips by which everything is compiled: enough to learn from
MARGIN = 1  # frames at both ends of a clip that have no row: lbp-top compares each frame with both neighbours
# The first and the last abnormal frame of each test clip, counted from 1, by UCSDped2.m of the data set.
ABNORMAL = (
    *((61, 180), (95, 180), (1, 146), (31, 180), (1, 129), (1, 159)),
    *((46, 180), (1, 180), (1, 120), (1, 150), (1, 180), (88, 180)),
)

IN_CELLS = ("mean histogram", "IsolationForest, mean histogram", "PCA, mean histogram")

Clip = list[Array]  # its streams, of each bag or cell
Score = Callable[[Sequence[Path], Sequence[Path]], list[Array]]  # of the windows of each test clip


def labels_of(first: int, last: int, count: int) -> npt.NDArray[np.bool_]:
    """Return which of so many frames are abnormal: from the first to the last, counted from 1.

    Examples
    --------
    >>> labels_of(2, 3, 4)
    array([False,  True,  True, False])
    """
    numbers = np.arange(1, count + 1)
    return (numbers >= first) & (numbers <= last)


def frame_scores(windows: IntArray, scores: Array, count: int) -> Array:
    """Return the mean score of the windows that contain each frame; ends have that of the nearest frame.

    Examples
    --------
    >>> frame_scores(np.array([[1, 3], [2, 4]]), np.array([1.0, 5.0]), 6)
    array([1., 1., 3., 5., 5., 5.])
    """
    total, number = np.zeros(count), np.zeros(count)
    for (start, stop), score in zip(windows, scores, strict=True):
        total[start:stop] += score
        number[start:stop] += 1
    covered = np.clip(np.arange(count), windows[0, 0], windows[-1, 1] - 1)
    return np.asarray((total / np.maximum(number, 1))[covered])


def describe_clip(bags: Sequence[BagTransformer] | Regions, video: Video) -> Clip:
    """Return the streams of a clip by each bag, or of each cell; all have the rows that lbp-top has."""
    if isinstance(bags, Regions):
        return list(np.moveaxis(bags.stream(video), 1, 0))
    streams = [good(described.stream) for described in describe(bags, video)]
    return [stream[: min(map(len, streams))] for stream in streams]


def learn(watcher: Watcher, recordings: Sequence[Array]) -> Learnt | None:
    """Learn from streams, as `learn_recordings` from videos; None if nothing moves."""
    watcher.learn_more()
    try:
        for rows in recordings:
            watcher.update(rows)
            watcher.gap()
        watcher.end_learning()
    except StreamError:
        return None
    return watcher.learnt


def largest_surprises(train: Sequence[Clip], test: Sequence[Clip], learn_seconds: float) -> list[Array]:
    """Return the largest surprise among the bags or cells for each window, of each test clip."""
    new = partial(
        Watcher, rate=RATE, learn=learn_seconds, false_alarms=FALSE_ALARMS, length=LENGTH, step=STEP
    )
    found = [learn(new(), recordings) for recordings in zip(*train, strict=True)]
    results = []
    for clip in test:
        moving = [(one, rows) for one, rows in zip(found, clip, strict=True) if one is not None]
        verdicts = [new(learnt=one).update(rows)[0] for one, rows in moving]
        results.append(np.max([[verdict.surprise for verdict in those] for those in verdicts], axis=0))
    return results


def of_sysbags(bags: Sequence[BagTransformer] | Regions) -> Score:
    """Return what scores the windows of clips by sysbags."""

    def score(train: Sequence[Path], test: Sequence[Path]) -> list[Array]:
        normal, watched = ([describe_clip(bags, path) for path in paths] for paths in (train, test))
        return largest_surprises(normal, watched, sum(map(_count, train)) / RATE)

    return score


def of_rival(rival: Rival) -> Score:
    """Return what scores the windows of clips by another method, from the histograms of lbp-top."""

    def score(train: Sequence[Path], test: Sequence[Path]) -> list[Array]:
        normal, watched = ([PlanePatterns().stream(path) for path in paths] for paths in (train, test))
        before, after = list(map(len, normal)), list(map(len, watched))
        windows = window_spans(sum(after), LENGTH, STEP, _joins(after))
        scores = rival(np.concatenate(normal), np.concatenate(watched), windows, _joins(before))
        return _by_clip(scores, after)

    return score


def of_rival_in_cells(rival: Rival) -> Score:
    """Return the same for the cells of a grid: the largest of their scores, in units of the normal ones.

    Scores of a cell are taken relative to the median of those of the training windows, and divided by the
    distance of their quartiles.
    """

    def score(train: Sequence[Path], test: Sequence[Path]) -> list[Array]:
        bag = Regions(PlanePatterns(), GRID)
        normal, watched = ([bag.stream(path) for path in paths] for paths in (train, test))
        before, after = (_joins(list(map(len, streams))) for streams in (normal, watched))
        first, then = np.concatenate(normal), np.concatenate(watched)
        own, windows = (window_spans(len(a), LENGTH, STEP, b) for a, b in ((first, before), (then, after)))
        relative = []
        for cell in range(first.shape[1]):
            usual, found = (
                rival(first[:, cell], rows[:, cell], spans, before)
                for rows, spans in ((first, own), (then, windows))
            )
            low, middle, high = np.quantile(usual, [0.25, 0.5, 0.75])
            relative.append((found - middle) / max(high - low, 1e-12))
        return _by_clip(np.max(relative, axis=0), list(map(len, watched)))

    return score


def of_foreground(train: Sequence[Path], test: Sequence[Path]) -> list[Array]:
    """Score the windows of clips by the background subtractor; its normal ones may be in two clips."""

    def pictures(paths: Sequence[Path]) -> Iterator[Frame]:
        return chain.from_iterable(frames(path, start=MARGIN, stop=_count(path) - MARGIN) for path in paths)

    lengths = [_count(path) - 2 * MARGIN for path in test]
    windows = window_spans(sum(lengths), LENGTH, STEP, _joins(lengths))
    return _by_clip(foreground(pictures(train), pictures(test), windows), lengths)


METHODS: dict[str, Score] = {
    "sysbags": of_sysbags([PlanePatterns(), OpticalFlow(frames={"size": FLOW_LINES})]),
    "sysbags, LBP-TOP": of_sysbags([PlanePatterns()]),
    f"sysbags, LBP-TOP, grid {GRID}": of_sysbags(Regions(PlanePatterns(), GRID)),
    **{name: of_rival(rival) for name, rival in RIVALS.items()},
    **{f"{name}, grid {GRID}": of_rival_in_cells(RIVALS[name]) for name in IN_CELLS},
    "MOG2 background subtractor": of_foreground,
}


def rows(folder: Path) -> Iterator[str]:
    """Lines of the table of all methods."""
    train, test = (sorted((folder / part / "frames").iterdir()) for part in ("training", "testing"))
    if len(test) != len(ABNORMAL):
        raise ParameterError(f"{folder} has {len(test)} test clips, but it must have {len(ABNORMAL)}")
    counts = list(map(_count, test))
    true = [labels_of(*abnormal, count) for abnormal, count in zip(ABNORMAL, counts, strict=True)]
    heads = "AUC of frames, % | processor time, s"
    yield f"| method, {len(test)} clips, {sum(counts)} frames | {heads} |"
    yield "| --- | ---: | ---: |"
    for name, method in METHODS.items():
        if WARM:
            method(train[:WARM], test[:1])
        spent, scores = seconds(partial(method, train, test), time.process_time)
        found = [
            frame_scores(window_spans(count - 2 * MARGIN, LENGTH, STEP) + MARGIN, values, count)
            for values, count in zip(scores, counts, strict=True)
        ]
        area = roc_auc_score(np.concatenate(true), np.concatenate(found))
        yield f"| {name} | {100.0 * area:.1f} | {spent:.0f} |"


def _count(clip: Path) -> int:
    return len(list(clip.iterdir()))


def _joins(lengths: Sequence[int]) -> list[int]:
    """Return where parts of such lengths begin, but the first."""
    return list(accumulate(lengths[:-1]))


def _by_clip(scores: Array, lengths: Sequence[int]) -> list[Array]:
    """Divide the scores of all windows among clips of so many rows."""
    counts = [len(window_spans(length, LENGTH, STEP)) for length in lengths]
    return np.split(scores, _joins(counts))


if __name__ == "__main__":
    packages = ("numpy", "scipy", "numba", "scikit-learn", "opencv-python-headless", "stumpy")
    print_table_of_folder(rows, "python -m benchmarks.watching.ped2", packages, __doc__)
