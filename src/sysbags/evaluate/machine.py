"""Least squares on squared distances, judged without any item's group in closed form."""

from __future__ import annotations

import numpy as np

from sysbags._common.types import Array, IntArray
from sysbags.classifiers.kernel_ridge import bordered, targets
from sysbags.evaluate._nearest import NO_PREDICTION, Candidate

__all__ = ["machine"]


def machine(distances: Array, codes: IntArray, groups: IntArray, ridge: float = 1.0) -> Candidate:
    """Predict by regularised least squares on squared distances, see `sysbags.KernelRidgeClassifier`.

    Nothing is solved anew for an item that is left out. With R the inverse of the machine's matrix and
    ``R Y`` its coefficients, what it would have learnt without the items S says of them
    ``Y_S - (R_SS)^-1 (R Y)_S``.

    Parameters
    ----------
    distances : (K, K) array
        Squared distances between all items.
    codes, groups : (K,) array of int
        Class and group of each item.
    ridge : float, default=1.0

    Returns
    -------
    Candidate

    Examples
    --------
    >>> import numpy as np
    >>> places = np.array([0.0, 1.0, 2.0, 6.0, 7.0, 8.0])
    >>> between = (places[:, None] - places) ** 2
    >>> machine(between, np.array([0, 0, 0, 1, 1, 1]), np.arange(6))(None)
    array([0, 0, 0, 1, 1, 1])
    """
    items, classes = len(codes), int(codes.max()) + 1
    wanted = targets(codes, classes)
    inverse = np.linalg.inv(bordered(distances, ridge))[:items, :items]
    coefficients = inverse @ wanted
    names, own = np.unique(groups, return_inverse=True)
    held = np.zeros((len(names), classes), dtype=np.int64)
    np.add.at(held, (own, codes), 1)
    members = [np.flatnonzero(own == k) for k in range(len(names))]
    # Groups of one size are solved for at once.
    sizes = {len(items) for items in members}
    stacks = [np.array([items for items in members if len(items) == size]) for size in sorted(sizes)]

    def predict(group: int | None) -> IntArray:
        left, learnt, rest = inverse, coefficients, held.sum(axis=0) - held[own]
        if group is not None:
            place = int(np.searchsorted(names, group))
            out = members[place]
            step = np.linalg.solve(inverse[np.ix_(out, out)], inverse[out])
            left, learnt = inverse - inverse[:, out] @ step, coefficients - step.T @ coefficients[out]
            left[out, out] = 1.0  # of the items that are gone; what is said of them is meaningless
            rest = rest - held[place]
        scores = np.empty_like(wanted)
        for stack in stacks:
            blocks = left[stack[:, :, None], stack[:, None, :]]
            scores[stack] = wanted[stack] - np.linalg.solve(blocks, learnt[stack])
        found = np.where(rest > 0, scores, -np.inf).argmax(axis=1)
        return np.where((rest > 0).any(axis=1), found, NO_PREDICTION)

    return predict
