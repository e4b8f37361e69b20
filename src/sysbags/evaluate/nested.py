"""Nested selection: for each group the candidate is chosen that does best on all other groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags.errors import ParameterError
from sysbags.evaluate.candidates import Candidate

__all__ = ["Nested", "nested"]


@dataclass(frozen=True, eq=False)
class Nested:
    """What `nested` found.

    Attributes
    ----------
    predictions : (K,) array of int
        Class code of each item, by the candidate chosen without its group.
    chosen : (G,) array of int
        Index of the candidate chosen for each group, groups in ascending order.
    accuracies : (G, S) array
        Share of the items outside the group that each candidate has right without the group's help.
    """

    predictions: IntArray
    chosen: IntArray
    accuracies: Array


def nested(
    candidates: Sequence[Candidate], codes: IntArray, groups: IntArray, *, n_jobs: int | None = None
) -> Nested:
    """Choose among candidates for each group by all other groups, and predict the group by the choice.

    The accuracy of the predictions is honest: the items of a group have no part in what is chosen for
    them. Of equally good candidates the earlier is taken.

    Parameters
    ----------
    candidates : sequence of Candidate
        See `sysbags.evaluate.candidates`.
    codes, groups : (K,) array of int
        Class and group of each item.
    n_jobs : int, optional
        Threads, over candidates; the result does not depend on it.

    Returns
    -------
    Nested

    Examples
    --------
    >>> import numpy as np
    >>> from sysbags.evaluate.candidates import neighbours
    >>> codes, groups = np.array([0, 0, 0, 1, 1, 1]), np.arange(6)
    >>> useless, useful = np.array([0.0, 4.0, 2.0, 1.0, 5.0, 3.0]), np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0])
    >>> between = [np.abs(places[:, None] - places) for places in (useless, useful)]
    >>> found = nested([neighbours(d, codes, groups) for d in between], codes, groups)
    >>> found.predictions, found.chosen
    (array([0, 0, 0, 1, 1, 1]), array([1, 1, 1, 1, 1, 1]))
    """
    if not candidates:
        raise ParameterError("there are no candidates, but there must be at least one to choose")
    names, own = np.unique(groups, return_inverse=True)
    outside = own != np.arange(len(names))[:, None]

    def judged(candidate: Candidate) -> tuple[Array, IntArray]:
        right = np.stack([candidate(int(group)) for group in names]) == codes
        return (right & outside).sum(axis=1) / outside.sum(axis=1), candidate(None)

    results = run(judged, candidates, n_jobs, "candidates")
    accuracies = np.stack([accuracy for accuracy, _ in results], axis=1)
    chosen = accuracies.argmax(axis=1)
    predictions = np.stack([predicted for _, predicted in results])[chosen[own], np.arange(len(own))]
    return Nested(predictions, chosen, accuracies)
