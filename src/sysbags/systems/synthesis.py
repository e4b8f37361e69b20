"""The frames of a clip in an order that follows a simulated path: a video texture that a system steers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_matrix, check_weight
from sysbags.errors import ParameterError, StreamError
from sysbags.systems.system import System

MAX_FRAMES = 4000  # a step of the path compares all pairs of frames


def frame_order(theta: System, path: Any, pictures: Any, smoothness: float = 3.0) -> IntArray:
    """Order the frames of a clip along a path of states, such as a simulated one.

    The problem solved is

        minimise sum_t d(s_t, x_{i_t}) + smoothness sum_t j(i_t, i_{t+1})   over the frames i_1, i_2, ..

    with the states s of the path and x of the frames. The distance d is squared, in units of the variance of
    the states, and divided by the order. The cost j of a jump from i to k compares the pictures: it is the
    mean of the squared distances between i + 1 and k, and between i and k - 1, so that the clip goes on at no
    cost; it is divided by the mean squared distance of neighbours in the clip. Pictures are compared, and
    not bags, because a bag does not say where in the picture something is. These are the jumps of video
    textures (Schoedl et al., 2000), with a path to follow.

    The system comes from `identify` and is not compressed: its samples and states are those of the frames.
    The path is (T, n), see `System.simulate`; the pictures are the frames, of any size, as (N, q) vectors. A
    smoothness of 0 follows the path and flickers; a large one plays the clip as it is.
    """
    if theta.states is None or len(theta.states) != theta.size:
        raise ParameterError("the system has no state for each of its samples: use identify")
    if theta.size > MAX_FRAMES:
        raise StreamError(
            f"the clip has {theta.size} frames, but at most {MAX_FRAMES} can be put in another order: "
            "use fewer of them, by a stride or a maximal number of frames"
        )
    path = check_matrix(path, "path", (None, theta.order), f"(T, {theta.order}): one column per state")
    pictures = check_matrix(pictures, "pictures", (theta.size, None), f"({theta.size}, q): one row per frame")
    check_weight(smoothness, "smoothness")
    precision = np.linalg.inv(theta.states.T @ theta.states / theta.size)
    tracking = cdist(path, theta.states, "mahalanobis", VI=precision) ** 2 / theta.order
    difference = cdist(pictures, pictures, "sqeuclidean")
    # What has no frame before it or after it is compared by the other pair.
    jumps = np.full_like(difference, difference.max())
    jumps[:-1, 0], jumps[-1, 1:] = difference[1:, 0], difference[-1, :-1]
    jumps[:-1, 1:] = 0.5 * (difference[1:, 1:] + difference[:-1, :-1])
    step = float(np.diag(difference, 1).mean()) or 1.0  # small pictures may all be the same
    return cheapest_path(tracking, (smoothness / step) * jumps)


def cheapest_path(costs: Array, jumps: Array) -> IntArray:
    """Minimise `sum_t costs[t, i_t] + sum_t jumps[i_t, i_{t+1}]` over the indices, by dynamic programming.

    The costs are (T, N), the jumps (N, N); returns the T indices.
    """
    into = np.ascontiguousarray(jumps.T)  # row j has the costs of the jumps to j
    every = np.arange(len(into))
    total = costs[0]

    def advance(t: int) -> IntArray:
        """Return from where each index is best reached at time t."""
        nonlocal total
        sums = into + total
        best: IntArray = sums.argmin(axis=1)
        total = sums[every, best] + costs[t]
        return best

    origins = run(advance, range(1, len(costs)), 1, "order of frames")
    path = [int(total.argmin())]
    for best in reversed(origins):
        path.append(int(best[path[-1]]))
    return np.array(path[::-1])
