"""What other methods say about the windows of a stream: one score per window, higher is more unusual.

Each method gets the rows of a normal video, the rows of the video to be watched, and its windows: the start
and the stop of each, in rows, all of one length and at equal steps. Windows of the normal video are cut in
the same way. If that is several recordings, `joins` are the first rows of all but the first, and no window is
in two of them. The methods have the default settings of their packages where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest

from sysbags._common.types import Array, IntArray
from sysbags.kernels import kernel_matrix

__all__ = [
    "RIVALS",
    "foreground",
    "forest_of_means",
    "forest_of_windows",
    "matrix_profile",
    "mean_histogram",
    "pca_of_means",
    "pca_of_windows",
    "window_spans",
]

COMPONENTS = 5  # leading components of the rows that represent them, where a method needs few numbers
EXPLAINED = 0.95  # share of the variance that PCA keeps; by default it keeps all, and nothing is unusual
HISTORY = 500  # frames after which MOG2 has learnt the background, its default

Joins = Sequence[int]
Rival = Callable[..., Array]  # of train_rows, test_rows, windows and joins


def window_spans(count: int, length: int, step: int, joins: Joins = ()) -> IntArray:
    """Return the start and the stop of each window of a stream with so many rows.

    It may be several recordings, as for the methods.

    Examples
    --------
    >>> window_spans(130, 100, 10)[-1].tolist()
    [30, 130]
    >>> window_spans(10, 3, 2, joins=[4])[:, 0].tolist()
    [0, 4, 6]
    """
    spans = pairwise([0, *joins, count])
    starts = np.concatenate([np.arange(first, last - length + 1, step) for first, last in spans])
    return np.stack([starts, starts + length], axis=1)


def mean_histogram(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins = ()) -> Array:
    """1 minus the chi-squared kernel of the window's mean histogram and that of the normal video."""
    _, means = _means(train_rows, test_rows, windows, joins)
    return 1.0 - kernel_matrix(means, train_rows.mean(axis=0)[None])[:, 0]


def forest_of_means(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins = ()) -> Array:
    """scikit-learn's IsolationForest of mean histograms."""
    return _forest(*_means(train_rows, test_rows, windows, joins))


def forest_of_windows(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins = ()) -> Array:
    """scikit-learn's IsolationForest of whole windows: their rows, as leading components, side by side."""
    return _forest(*_flattened(train_rows, test_rows, windows, joins))


def pca_of_means(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins = ()) -> Array:
    """Squared error with which PCA reconstructs the mean histogram."""
    return _pca(*_means(train_rows, test_rows, windows, joins))


def pca_of_windows(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins = ()) -> Array:
    """Squared error with which PCA reconstructs a whole window: its rows, as leading components."""
    return _pca(*_flattened(train_rows, test_rows, windows, joins))


def matrix_profile(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins = ()) -> Array:
    """Matrix profile of stumpy: the distance of each window to the nearest one of the normal video.

    The distance is the Euclidean one of z-normalised windows of a leading component; its mean over the
    components is the score. All windows of the normal video count, at steps of one row.
    """
    import stumpy

    train, test = _leading(train_rows, test_rows)
    train = np.insert(train, list(joins), np.nan, axis=0)  # no window with it is the nearest one
    length = int(windows[0, 1] - windows[0, 0])
    profiles = [
        stumpy.stump(test[:, i], length, train[:, i], ignore_trivial=False)[:, 0].astype(np.float64)
        for i in range(test.shape[1])
    ]
    return np.asarray(np.mean(profiles, axis=0)[windows[:, 0]])


RIVALS: dict[str, Rival] = {
    "mean histogram": mean_histogram,
    "IsolationForest, mean histogram": forest_of_means,
    "IsolationForest, window": forest_of_windows,
    "PCA, mean histogram": pca_of_means,
    "PCA, window": pca_of_windows,
    "matrix profile (stumpy)": matrix_profile,
}


def foreground(
    train_frames: Iterable[npt.NDArray[np.uint8]],
    test_frames: Iterable[npt.NDArray[np.uint8]],
    windows: IntArray,
) -> Array:
    """How far the share of foreground of OpenCV's MOG2 is from normal, in a window's mean.

    The distance is from the median of the normal windows, divided by their median absolute deviation. Frames
    take the place of rows here: this method sees the pictures.
    """
    import cv2

    subtractor = cv2.createBackgroundSubtractorMOG2()

    def shares(frames: Iterable[npt.NDArray[np.uint8]]) -> Array:
        return np.array([[np.mean(subtractor.apply(frame) == 255)] for frame in frames])

    train = shares(train_frames)
    normal, watched = _means(train[min(HISTORY, len(train) // 2) :], shares(test_frames), windows)
    median = np.median(normal)
    spread = np.median(np.abs(normal - median))
    return np.asarray(np.abs(watched[:, 0] - median) / max(spread, 1e-6))


def _forest(train: Array, test: Array) -> Array:
    return np.asarray(-IsolationForest(random_state=0).fit(train).score_samples(test))


def _pca(train: Array, test: Array) -> Array:
    pca = PCA(EXPLAINED).fit(train)
    error = test - pca.inverse_transform(pca.transform(test))
    return np.asarray(np.sum(error**2, axis=1))


def _means(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins = ()) -> tuple[Array, Array]:
    """Return the mean row of each window, of both videos."""
    return _of_both(lambda rows: rows.mean(axis=0), train_rows, test_rows, windows, joins)


def _flattened(train_rows: Array, test_rows: Array, windows: IntArray, joins: Joins) -> tuple[Array, Array]:
    """Return the leading components of all rows of each window as one vector, of both videos."""
    return _of_both(np.ravel, *_leading(train_rows, test_rows), windows, joins)


def _of_both(
    feature: Callable[[Array], Array],
    train_rows: Array,
    test_rows: Array,
    windows: IntArray,
    joins: Joins,
) -> tuple[Array, Array]:
    length = int(windows[0, 1] - windows[0, 0])
    step = int(windows[1, 0] - windows[0, 0]) if len(windows) > 1 else length
    spans = window_spans(len(train_rows), length, step, joins)
    train = np.stack([feature(train_rows[a:b]) for a, b in spans])
    return train, np.stack([feature(test_rows[a:b]) for a, b in windows])


def _leading(train_rows: Array, test_rows: Array) -> tuple[Array, Array]:
    """Return the leading principal components of the normal rows, of both videos."""
    pca = PCA(COMPONENTS, svd_solver="full").fit(train_rows)
    return pca.transform(train_rows), pca.transform(test_rows)
