"""The vote of the nearest neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sysbags._common.types import IntArray

__all__ = ["NO_PREDICTION", "majority_vote"]

NO_PREDICTION = -1  # the index of no class


def majority_vote(
    codes_of_nearest: IntArray, classes: int, counted: npt.NDArray[np.bool_] | None = None
) -> IntArray:
    """Class with most votes among the nearest neighbours; ties go to the class of the nearest of them.

    Parameters
    ----------
    codes_of_nearest : (K, k) array of int
        Class index of the neighbours of each item, the nearest first.
    classes : int
        Number of classes.
    counted : (K, k) array of bool, optional
        Which neighbours have a vote; by default all.

    Returns
    -------
    (K,) array of int
        Class indices, -1 where no neighbour has a vote.

    Examples
    --------
    >>> import numpy as np
    >>> majority_vote(np.array([[1, 0, 0], [2, 1, 0]]), 3)
    array([0, 2])
    >>> majority_vote(np.array([[1, 0]]), 2, np.array([[False, True]]))
    array([0])
    """
    rows, width = codes_of_nearest.shape
    counted = np.ones((rows, width), dtype=np.bool_) if counted is None else counted
    kinds = np.where(counted, codes_of_nearest, classes)
    cells = kinds + (classes + 1) * np.arange(rows)[:, None]
    votes = np.bincount(cells.ravel(), minlength=rows * (classes + 1)).reshape(rows, classes + 1)
    # A neighbour is worth the votes of its class, and a little more the nearer it is.
    worth = np.take_along_axis(votes, kinds, axis=1) * width - np.arange(width)
    best = np.where(counted, worth, -1).argmax(axis=1)[:, None]
    winners = np.take_along_axis(codes_of_nearest, best, axis=1)
    return np.where(np.take_along_axis(counted, best, axis=1), winners, NO_PREDICTION)[:, 0]
